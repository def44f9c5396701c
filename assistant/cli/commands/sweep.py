"""Commands ``copperline demo`` and ``sweep``: steer a whole sweep and write its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.cli.console import (
    OUT,
    Json,
    StoreOption,
    say,
    store_path,
)
from assistant.cli.experiment_view import (
    stored_session,
)
from assistant.cli.options import (
    BY_NAME,
    SWEEP_FILE,
    AtGoal,
    Backfill,
    Cores,
    CostLimit,
    CostMeasure,
    CostPerHour,
    CostResources,
    CostUnit,
    Deadline,
    Exclude,
    FirstJobs,
    GoalOption,
    HookTimeout,
    Include,
    JobLog,
    KeepGoing,
    Levels,
    Memory,
    OnFailure,
    OnFinish,
    OnWarning,
    Order,
    PolicyOptions,
    PresetName,
    Procs,
    ReadingRule,
    Report,
    RunLimit,
    SlaOptions,
    SweepFile,
    TooWide,
    WarningAnswer,
    environment_table,
    executor_table,
    first_configurations,
    hook_tables,
    merge_options,
    results_of,
    sweep_tables,
)
from assistant.cli.sweep_runner import (
    follow,
    open_external_sweep,
    refuse_elsewhere,
    take_in,
    wait_for_client,
)
from assistant.config.snapshot import config_snapshot, open_sweep, past_results
from assistant.config.sweep_file import BuiltSweep, build_sweep, check_settings
from assistant.core.events import is_external_application
from assistant.core.ports import Result
from assistant.executors.spec import check_capacity
from assistant.presentation.report.html import check_target
from assistant.service.store_connection import embedded_service
from assistant.session.execution import ExecutionLock
from assistant.store.event_store import MemoryStore
from strategies import DEFAULT_STRATEGY, Level

DEMO: dict[str, Any] = {
    "name": "demo",
    "application": {
        "kind": "scheduling",
        "procs": 88,
        "levels": {
            "order": ["fcfs", "sjf", "saf", "lxf"],
            "backfill": ["easy", "conservative", "none"],
        },
    },
    "warnings": "accept",
}


def demo(
    runs: Annotated[int, typer.Option(help="Budget of runs.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of the workload and of all random choices.")] = 3,
    strategy: Annotated[str, typer.Option(help="Strategy; copper is the paper's loop.")] = "copper",
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer the built-in example: a generated job log on a cluster of 88 processors.

    In which order should jobs wait, how should gaps be filled, and which part of the cluster should
    be kept for small jobs? There are thousands of combinations; the demo runs a few dozen.
    """
    tables = {**DEMO, "runs": runs, "seed": seed, "strategy": {"name": strategy}}
    target = report or Path("copperline-out") / "demo.html"
    code = _steer(tables, "demo", [], store, target, as_json)
    if code == 0 and not as_json:
        OUT.print("See it: copperline app")
        OUT.print("Your program: copperline init")
    return code


def sweep(
    file: SweepFile = None,
    log: JobLog = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Measured table (CSV) to use instead of a log.", show_default=False),
    ] = None,
    first: FirstJobs = None,
    procs: Procs = None,
    order: Order = None,
    backfill: Backfill = None,
    preset: PresetName = None,
    levels: Levels = None,
    policy_option: PolicyOptions = None,
    reading: ReadingRule = None,
    too_wide: TooWide = None,
    exclude: Exclude = None,
    include: Include = None,
    runs: Annotated[int | None, typer.Option(help="Budget of runs.  [default: 60]")] = None,
    initial: Annotated[
        int | None, typer.Option(help="First runs, chosen without results.  [default: 10]")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Suggestions in a batch.  [default: set by the strategy]"),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help=f"Strategy of the sweep.  [default: {DEFAULT_STRATEGY}]")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the strategy, e.g. beta=0.9."),
    ] = None,
    also: Annotated[
        str | None,
        typer.Option(
            metavar="'minimise MEASURE'", help="A second measure: find the trade-offs of both."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random choices.  [default: 0]")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at once.  [default: 1]")] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=WHERE]",
            help="Where to execute runs: serial, process_pool, slurm (cluster jobs), dask (its own "
            "workers), dask=tcp://HOST:PORT (workers of a scheduler) or dask=slurm (dask workers "
            "in cluster jobs).",
            show_default=False,
        ),
    ] = None,
    cores: Cores = None,
    memory: Memory = None,
    deadline: Deadline = None,
    goal: GoalOption = None,
    at_goal: AtGoal = None,
    keep_going: KeepGoing = None,
    run_limit: RunLimit = None,
    cost_limit: CostLimit = None,
    cost_per_hour: CostPerHour = None,
    cost_resources: CostResources = None,
    cost_measure: CostMeasure = None,
    cost_unit: CostUnit = None,
    exploitation: Annotated[
        float | None,
        typer.Option(help="Share of suggestions inside regions of good results, 0 to 1."),
    ] = None,
    warnings: WarningAnswer = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(help="Earlier results (CSV: parameters, measures); they use no run."),
    ] = None,
    replicates: Annotated[
        bool | None,
        typer.Option(
            "--replicates",
            help="Import further results of a configuration as replicates.",
            show_default=False,
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Import the results of a stored experiment; they use no run."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the experiment.")] = None,
    on_warning: OnWarning = None,
    on_finish: OnFinish = None,
    on_failure: OnFailure = None,
    hook_timeout: HookTimeout = None,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer a sweep: the current configuration, a few first runs, then suggested runs.

    Options override the file. Without a log or a table, the built-in example workload is used.
    """
    if file is None and log is None and table is None and Path(SWEEP_FILE).is_file():
        say(f"No file is named, so this is the example; for yours: copperline sweep {SWEEP_FILE}")
    tables = sweep_tables(file)
    where = str(file) if file is not None else "options"
    check_settings(tables, where)  # the file by itself, before the options are merged
    if executor is not None:
        tables["executor"] = executor_table(tables.get("executor"), executor)
    if cores is not None or memory is not None:
        tables["environment"] = environment_table(tables.get("environment"), cores, memory)
    merge_options(
        tables,
        log=log, table=table, first=first, procs=procs, order=order, backfill=backfill,
        levels=levels or [], preset=preset, policy_options=policy_option or [],
        reading=reading or [], too_wide=too_wide, exclude=exclude or [],
        runs=runs, initial=initial, batch=batch, strategy=strategy, options=option, also=also,
        seed=seed,
        workers=workers, name=name, exploitation=exploitation, warnings=warnings,
        results=[str(path) for path in results] if results else None, replicates=replicates,
        hooks=hook_tables(tables, on_warning, on_finish, on_failure, hook_timeout),
    )  # fmt: skip
    SlaOptions(
        None, deadline, goal, at_goal, run_limit, cost_limit, cost_per_hour, cost_resources,
        cost_measure, cost_unit, keep_going,
    ).laid_over(tables)  # fmt: skip
    return _steer(tables, "the options", include or [], store, report, as_json, start_from)


def _steer(
    tables: dict[str, Any],
    where: str,
    include: list[str],
    store: Path | None,
    report: Path | None,
    as_json: bool,
    start_from: str | None = None,
) -> int:
    built = build_sweep(check_settings(tables, where))
    check_capacity(built.settings.place, built.settings.workers)
    path = store_path(store)
    first_runs = first_configurations(built, include)
    past_results(built)  # refuse a bad file before anything is stored
    before = [] if start_from is None else results_of(stored_session(start_from, store), built)
    if report is not None:
        check_target(report)
    if is_external_application(tables.get("application")):
        return _sweep_externally(built, tables, first_runs, before, path, report, as_json)
    name, made_from = _name(built), config_snapshot(tables, first_runs)
    open_sweep(built, MemoryStore(), name, made_from)  # refuse before a store is made
    with embedded_service(path) as opened_store:
        session = open_sweep(built, opened_store, name, made_from)
        with ExecutionLock(path, session.id):
            take_in(session, before, replicates=True, quiet=as_json)  # with own runs and seeds
            hooks = built.settings.hooks.build()
            return follow(session, built, first_runs, path, report, as_json, hooks)


def _sweep_externally(
    built: BuiltSweep,
    tables: dict[str, Any],
    first_runs: tuple[dict[str, Level], ...],
    before: Sequence[Result],
    path: Path,
    report: Path | None,
    as_json: bool,
) -> int:
    """Run a sweep whose external client executes the runs."""
    refuse_elsewhere(built)
    name = built.settings.name or _name(built)
    open_sweep(built, MemoryStore(), name, "")  # refuse before a store is made
    with embedded_service(path):
        session = open_external_sweep(path, tables, name)
        return wait_for_client(
            session, built, first_runs, (*before, *past_results(built)), path, report, as_json
        )


def _name(built: BuiltSweep) -> str:
    application = built.settings.application
    if application.kind in BY_NAME:
        return application.kind
    source = getattr(application, "log", None) or getattr(application, "table", None)
    return Path(source).name.split(".")[0] if source else "built-in workload"

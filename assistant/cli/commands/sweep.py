"""Commands ``copperline demo`` and ``sweep``: steer a whole sweep and write its report.

An external client can execute the runs: open the experiment, show its progress, wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agents import Follower
from assistant.analysis.recommendation import KEPT_FROM, KEPT_RUNS
from assistant.cli.console import (
    ERR,
    EXIT_NOTHING_FEASIBLE,
    OUT,
    Json,
    StoreOption,
    print_json,
    say,
    store_path,
)
from assistant.cli.experiment_view import (
    LiveView,
    print_summary,
    print_warning,
    stored_session,
    summary,
)
from assistant.cli.options import (
    BY_NAME,
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
    RunLimit,
    SlaOptions,
    SweepFile,
    TooWide,
    environment_table,
    executor_table,
    first_configurations,
    hook_tables,
    merge_options,
    results_of,
    sweep_tables,
)
from assistant.client.remote_session import RemoteSession
from assistant.config.snapshot import config_snapshot, open_sweep, past_results, stored_settings
from assistant.config.sweep_file import BuiltSweep, build_sweep, check_settings
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.events import Event, ExperimentOpened, WarningIssued, is_external_application
from assistant.core.files import replace_private
from assistant.core.ports import Result
from assistant.core.sla import AutoSteering
from assistant.executors import make_executor
from assistant.executors.spec import check_capacity
from assistant.hooks.notices import HookCommands
from assistant.hooks.notifier import Notifier
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import check_target, write_report
from assistant.presentation.tables.sla import sla_words
from assistant.service.external_clients import LIMIT_OF_A_RUN
from assistant.service.schemas import plain_text
from assistant.service.store_connection import embedded_service, needs_service
from assistant.session.execution import ExecutionLock
from assistant.session.session import ExperimentQueries, Session
from assistant.store.event_store import MemoryStore
from strategies import DEFAULT_STRATEGY, Level

GRACE_S = 15.0  # Maximum wait for a last request of the client, which then learns of the end (s)
LOOK_S = 0.2


def refuse_elsewhere(built: BuiltSweep) -> None:
    """Raise SettingsError for settings that a sweep with an external client cannot have."""
    if built.settings.executor is not None:
        raise SettingsError(
            "the program of this sweep asks for its runs and makes them itself; leave --executor "
            "and [executor] away"
        )
    if getattr(built.settings.application, "limit", None) is not None:
        raise SettingsError(LIMIT_OF_A_RUN)
    if built.settings.hooks.build().kinds:
        raise SettingsError(
            "a sweep whose program asks for its runs has no hooks on the command line; open it at "
            "a service: copperline serve --allow-programs, and POST /v1/adapters"
        )


def open_external_sweep(path: Path, tables: Mapping[str, Any], name: str) -> RemoteSession:
    """Open an experiment for an external client, and write a file with the client's access."""
    return _registered(path, tables, name, {"auto_steering": None})


def resume_external_sweep(path: Path, opened: ExperimentOpened) -> RemoteSession:
    """Resume an experiment for an external client, and write a file with its access.

    Raises ExperimentError if a later experiment of its name is not finished either.
    """
    session = _registered(path, stored_settings(opened), opened.name, {"resume": True})
    if session.id != opened.experiment_id:
        raise ExperimentError(
            f"the program would go on with '{session.id}', a later experiment of the name "
            f"'{opened.name}'; finish that one first"
        )
    return session


def run_external_sweep(
    session: RemoteSession,
    built: BuiltSweep,
    first_runs: Sequence[Mapping[str, Level]],
    results: Sequence[Result],
    path: Path,
) -> None:
    """Auto-steer an experiment whose external client executes the runs, until the end."""
    settings = built.settings
    experiment = session.experiment
    if results:
        session.import_results(results, replicates=True)
    is_new = experiment.auto_steering is None
    if is_new:
        session.submit_baseline()
    configurations = {run.configuration for run in experiment.runs}
    for values in first_runs:
        if experiment.space.from_values(values) not in configurations:
            session.include(values)
    if is_new:
        session.set_auto_steering(AutoSteering(settings.batch, settings.initial, settings.warnings))
    session.start()
    try:
        with LiveView(session, ERR) as view:

            def on_event(event: Event) -> None:
                if isinstance(event, WarningIssued):
                    view.on_warning(event.warning)
                run_id = getattr(event, "run_id", None)
                if run_id is not None:
                    view.on_change(session.experiment.run(run_id))

            session.follow(on_event, lambda: session.experiment.finished is not None)
            _linger(session)
    except KeyboardInterrupt:
        session.pause()
        n = len(session.experiment.runs)
        say(f"Stopped after {n} submitted runs; what was finished is kept in {path}.")
        say(f"Go on with: copperline resume {session.id} --store {path}")
        raise


def _linger(session: RemoteSession) -> None:
    """Wait until the client has learned of the end, at most `GRACE_S`."""
    ended = session.experiment.finished
    until_s = time.monotonic() + GRACE_S
    while ended is not None and time.monotonic() < until_s:
        last_call_s = session.execution().last_call_s
        if last_call_s is not None and last_call_s < session.now_s() - ended.at_s:
            return
        time.sleep(LOOK_S)


def _registered(
    path: Path, tables: Mapping[str, Any], name: str, more: Mapping[str, Any]
) -> RemoteSession:
    link = needs_service(path)
    settings = {
        key: value for key, value in tables.items() if key not in ("name", "results", "run")
    }
    registration = link.change("POST", "/v1/adapters", {"name": name, "settings": settings, **more})
    file = path.absolute().with_name(f"{registration['experiment']}.adapter")
    way_in = {
        "url": link.url,
        "experiment": registration["experiment"],
        "token": registration["token"],
    }
    replace_private(file, plain_text(way_in).encode())
    say(f"Its program asks for runs at {link.url}; the token for it is in '{file}'.")
    return RemoteSession(link, registration["experiment"])


DEMO: dict[str, Any] = {
    "name": "demo",
    "application": {"kind": "scheduling", "levels": {"order": ["fcfs", "sjf"]}},
}

WarningAnswer = Annotated[
    str | None, typer.Option(help="Warnings: accept, ignore or wait.  [default: ignore]")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Where the HTML report goes.", show_default=False),
]


def demo(
    runs: Annotated[int, typer.Option(help="Budget of runs.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the workload and of every choice.")] = 3,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer the built-in example: a generated job log on a cluster of 128 processors.

    Which part of the cluster should be kept for small jobs, which jobs are small, and in which
    order should jobs wait? Thousands of combinations; the demo tries a few dozen of them.
    """
    tables = {**DEMO, "runs": runs, "seed": seed}
    target = report or Path("copperline-out") / "demo.html"
    return _steer(tables, "demo", [], store, target, as_json)


def sweep(
    file: SweepFile = None,
    log: JobLog = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Measured table (CSV) to look up instead.", show_default=False),
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
        int | None, typer.Option(help="First runs, before results decide.  [default: 10]")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Suggestions at a time.  [default: what suits the strategy]"),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help=f"How to choose.  [default: {DEFAULT_STRATEGY}]")
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
    seed: Annotated[int | None, typer.Option(help="Of every random choice.  [default: 0]")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at once.  [default: 1]")] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=WHERE]",
            help="Where runs are executed: serial, process_pool, slurm (jobs of the cluster), dask "
            "(workers of its own), dask=tcp://HOST:PORT (of a scheduler) or dask=slurm (its "
            "workers in jobs of the cluster).",
            show_default=False,
        ),
    ] = None,
    cores: Cores = None,
    memory: Memory = None,
    deadline: Deadline = None,
    goal: GoalOption = None,
    at_goal: AtGoal = None,
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
        typer.Option(help="Results from before (CSV: parameters, measures); they cost no run."),
    ] = None,
    replicates: Annotated[
        bool | None,
        typer.Option(
            "--replicates",
            help="Other results of the same configuration are replicates of it.",
            show_default=False,
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Take over the results of a stored experiment; no run spent."),
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
    """Steer a sweep: today's configuration, a few first runs, then what the strategy says.

    Options overrule the file. Without a log or a table the built-in example workload is used.
    """
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
        cost_measure, cost_unit,
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
            _import(session, before, replicates=True, quiet=as_json)  # with own runs and seeds
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


def wait_for_client(
    session: RemoteSession,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    results: Sequence[Result],
    path: Path,
    report: Path | None,
    as_json: bool,
) -> int:
    """Steer while a client executes the runs, write the report and return the exit code."""
    if not as_json:
        _introduce(session)
    run_external_sweep(session, built, first_runs, results, path)
    return _finish(session, path, report, as_json)


def follow(
    session: Session,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    path: Path,
    report: Path | None,
    as_json: bool,
    hooks: HookCommands,
) -> int:
    """Steer a sweep to its end, write a report, print the result and return the exit code."""
    if not as_json:
        _introduce(session)
    if hooks.kinds:
        say(str(hooks))  # the programs to be started are shown in every output format
    _run(session, built, first_runs, path, hooks, quiet=as_json)
    return _finish(session, path, report, as_json)


def _finish(
    session: Session | RemoteSession, path: Path, report: Path | None, as_json: bool
) -> int:
    """Write the report of a sweep, print the result and return the exit code."""
    target = report or Path("copperline-out") / f"{session.id}.html"
    data = collect(session.experiment, session.events())
    written = write_report(data, target)
    if as_json:
        print_json(summary(session.experiment, data, written))
    else:
        print_summary(data, written)
        if session.experiment.open_warning is not None and session.experiment.finished is None:
            print_warning(session.experiment, OUT, path)
            OUT.print(f"Then go on with: copperline resume {session.id} --store {path}")
    has_answer = data.answer.verdict not in ("no_runs", "nothing_feasible")
    return 0 if has_answer else EXIT_NOTHING_FEASIBLE


def _import(session: Session, results: Sequence[Result], *, replicates: bool, quiet: bool) -> None:
    """Import earlier results, and print how many were left out."""
    taken = session.import_results(results, replicates=replicates)
    left_out = len(results) - taken
    if taken and left_out and not quiet:
        why = "they are there already"
        if not replicates:
            why = "their configurations have a result (--replicates takes other results of them)"
        say(f"  {taken} results from before were taken in, {left_out} left out: {why}")


def _run(
    session: Session,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    path: Path,
    hooks: HookCommands,
    *,
    quiet: bool,
) -> None:
    settings = built.settings
    agent = Follower(settings.initial, settings.batch, warnings=settings.warnings)
    try:
        with (
            Notifier(hooks, say) as notifier,
            make_executor(built.application, settings.workers, settings.place) as executor,
            LiveView(session, ERR) as view,
        ):
            notifier.follow(session)
            past, replicates = past_results(built), built.settings.replicates
            _import(session, past, replicates=replicates, quiet=quiet)
            session.submit_baseline()
            for values in first_runs:
                submitted = {run.configuration for run in session.experiment.runs}
                if session.experiment.space.from_values(values) not in submitted:
                    session.include(values)
            ended = agent.steer(session, executor, view.on_change, view.on_warning)
            if settings.warnings == "wait" and session.experiment.open_warning is not None:
                notifier.steering_ended(ended)  # not finished: it continues after an answer
            else:
                session.finish(ended)
    except KeyboardInterrupt:
        n = len(session.experiment.runs)
        say(f"Stopped after {n} submitted runs; what was finished is kept in {path}.")
        say(f"Go on with: copperline resume {session.id} --store {path}")
        raise


def _introduce(session: ExperimentQueries) -> None:
    opened = session.experiment.opened
    space = session.experiment.space
    allowed = space.count_allowed()
    say(f"{opened.name}  {opened.objective}", style="bold")
    for constraint in opened.objective.constraints:
        say(f"  subject to: {constraint}")
    for fact in opened.facts[:3]:
        say(f"  {fact.label.lower()}: {fact.text}")
    say(
        f"  {space.size:,} combinations of {len(space.parameters)} parameters"
        + (f", {allowed:,} allowed" if allowed not in (None, space.size) else "")
        + f"; {_limits(session)}"
    )
    limit = session.experiment.sla.max_runs
    if session.experiment.is_noisy and limit is not None and limit >= KEPT_FROM:
        say(
            f"  results vary from run to run: the last {KEPT_RUNS} runs are kept to confirm the "
            "winner"
        )
    if opened.application == "scheduling" and _compiling():
        say(
            "  compiling the simulator in the background, once per machine and version; "
            "until then runs take longer and give the same"
        )


def _limits(session: ExperimentQueries) -> str:
    """Return the SLA in words."""
    sla, words = session.experiment.sla, sla_words(session.experiment)
    if sla.goal is None:
        return ", ".join(words) or "no limit"
    goal = f"goal {words[-1]}" + ("" if sla.at_goal == "go_on" else ", which ends it")
    return ", ".join([*words[:-1], goal])


def _compiling() -> bool:
    from sim.api import Readiness, begin_to_compile, compilation_state

    begin_to_compile()
    return compilation_state().readiness is Readiness.PREPARING


def _name(built: BuiltSweep) -> str:
    application = built.settings.application
    if application.kind in BY_NAME:
        return application.kind
    source = getattr(application, "log", None) or getattr(application, "table", None)
    return Path(source).name.split(".")[0] if source else "built-in workload"

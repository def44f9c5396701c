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
from assistant.cli.experiment_options import first_configurations, results_of
from assistant.cli.experiment_view import (
    earlier_in,
    say_similar,
    stored_session,
)
from assistant.cli.options import (
    BY_NAME,
    OPTIONS,
    SWEEP_FILE,
    Include,
    MlflowAddress,
    Overrides,
    Report,
    SweepFile,
    overridden_sweep,
    setting_options,
)
from assistant.cli.sweep_runner import (
    check_mlflow,
    follow,
    open_external_sweep,
    refuse_elsewhere,
    take_in,
    wait_for_client,
)
from assistant.config.snapshot import config_snapshot, open_sweep, past_results
from assistant.config.sweep_file import (
    BuiltSweep,
    SweepSettings,
    build_sweep,
    check_settings,
)
from assistant.core.events import is_external_application
from assistant.core.ports import Result
from assistant.executors.spec import check_capacity
from assistant.presentation.report.forms import form_of
from assistant.presentation.report.html import check_target
from assistant.service.store_connection import embedded_service
from assistant.session.execution import ExecutionLock
from assistant.store.event_store import MemoryStore
from strategies import EarlierSweep, Level

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
    settings = check_settings(tables, "demo")
    code = _steer(tables, settings, [], store, target, as_json)
    if code == 0 and not as_json:
        OUT.print("See it: copperline app")
        OUT.print("Your program: copperline init")
    return code


@setting_options(*OPTIONS)
def sweep(
    overrides: Overrides,
    file: SweepFile = None,
    include: Include = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Import the results of a stored experiment, as if measured here; "
            "they use no run. If they were measured elsewhere: --learn-from.",
        ),
    ] = None,
    mlflow: MlflowAddress = None,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer a sweep: the current configuration, a few first runs, then suggested runs.

    Options override the file. Without a log or a table, the built-in example workload is used.
    """
    is_example = file is None and not {"log", "table"} & overrides.values.keys()
    if is_example and Path(SWEEP_FILE).is_file():
        say(f"No file is named, so this is the example; for yours: copperline sweep {SWEEP_FILE}")
    tables, settings = overridden_sweep(file, overrides)
    return _steer(tables, settings, include or [], store, report, as_json, start_from, mlflow)


def _steer(
    tables: dict[str, Any],
    settings: SweepSettings,
    include: list[str],
    store: Path | None,
    report: Path | None,
    as_json: bool,
    start_from: str | None = None,
    mlflow: str | None = None,
) -> int:
    built = build_sweep(settings)
    check_capacity(built.settings.place, built.settings.workers)
    path = store_path(store)
    first_runs = first_configurations(built, include)
    past_results(built)  # refuse a bad file before anything is stored
    before = (
        []
        if start_from is None
        else results_of(stored_session(start_from, store, take_key=False), built)
    )
    earlier = earlier_in(store, built)
    if start_from is None and not earlier and not as_json:
        say_similar(path, built)
    if report is not None:
        form_of(report)
        check_target(report)
    check_mlflow(mlflow, is_external=is_external_application(tables.get("application")))
    if is_external_application(tables.get("application")):
        return _sweep_externally(built, tables, first_runs, before, earlier, path, report, as_json)
    name, made_from = _name(built), config_snapshot(tables, first_runs)
    open_sweep(built, MemoryStore(), name, made_from, earlier)  # refuse before a store is made
    with embedded_service(path) as opened_store:
        session = open_sweep(built, opened_store, name, made_from, earlier)
        with ExecutionLock(path, session.id):
            take_in(session, before, replicates=True, quiet=as_json)  # with own runs and seeds
            hooks = built.settings.hooks.build()
            return follow(session, built, first_runs, path, report, as_json, hooks, mlflow)


def _sweep_externally(
    built: BuiltSweep,
    tables: dict[str, Any],
    first_runs: tuple[dict[str, Level], ...],
    before: Sequence[Result],
    earlier: tuple[EarlierSweep, ...],
    path: Path,
    report: Path | None,
    as_json: bool,
) -> int:
    """Run a sweep whose external client executes the runs."""
    refuse_elsewhere(built)
    name = built.settings.name or _name(built)
    open_sweep(built, MemoryStore(), name, earlier=earlier)  # refuse before a store is made
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

"""Functions that open a sweep, store its settings, rebuild it, report on it, and read results.

Used by the command line and the browser. Earlier results are CSV files: parameter columns, then
one column per measure.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assistant.applications.extensions.ai_platform import STATISTICS_DIGEST
from assistant.applications.extensions.placement import TRAINED
from assistant.applications.scheduling import ACCOUNTS
from assistant.applications.scheduling_futures import FUTURES_DIGEST
from assistant.config.sweep_file import (
    FILES_NAMED,
    BuiltSweep,
    build_sweep,
    check_settings,
    toml_text,
)
from assistant.core.errors import AssistantError, SettingsError
from assistant.core.events import Event, ExperimentOpened, Fact
from assistant.core.experiment import Experiment
from assistant.core.files import read_text
from assistant.core.objective import Measure
from assistant.core.ports import Application, Result, Store, SystemClock
from assistant.executors.spec import ExecutorSpec
from assistant.hooks.notices import HookCommands, resolve_hook_folder
from assistant.session.opening import earlier_sweeps, open_session
from assistant.session.session import Session
from sim.api import SimError, format_size
from strategies import EarlierSweep, Level, ParameterSpace, StrategyError
from strategies.space.parameter import float_of, parse_number

if TYPE_CHECKING:
    from assistant.analysis.experiment_state import ExperimentState
    from assistant.presentation.charts.training import TrainingCurve
    from assistant.presentation.report.data import GroupWaits
    from assistant.presentation.report.forms import ReportContent


def computing_facts(place: ExecutorSpec, workers: int) -> tuple[Fact, ...]:
    """Return a report entry on the requested cores and memory; empty if none are requested."""
    environment = place.environment
    needs = []
    if environment.cores is not None:
        needs.append(f"{environment.cores} core{'' if environment.cores == 1 else 's'}")
    if environment.memory_bytes is not None:
        needs.append(f"{format_size(environment.memory_bytes)} of memory")
    if not needs:
        return ()
    runs = "one run at a time" if workers == 1 else f"{workers} runs at once"
    where = "" if place.executor is None else f", executed by {place.executor}"
    return (Fact("Computing environment", f"{runs}, each with {' and '.join(needs)}{where}"),)


def read_results(path: Path, space: ParameterSpace) -> tuple[Result, ...]:
    """Read earlier results from a CSV file with one column per parameter and measure.

    Every parameter of the space is a column, each further column is a measure (an empty cell is
    unknown).

    Raises:
        SettingsError: the file, or a line of it, is invalid.
        StrategyError: a value that is no level.
    """
    try:
        text = read_text(path, "the results")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"the results '{path}' are not CSV text: {error}") from error
    if not rows:
        raise SettingsError(f"the results '{path}' are empty; a header and lines are needed")
    header = [name.strip() for name in rows[0]]
    for name in header:
        if header.count(name) > 1:
            raise SettingsError(f"the results '{path}' have the column '{name}' twice")
    for name in space.names:
        if name not in header:
            raise SettingsError(f"the results '{path}' lack a column for the parameter '{name}'")
    if len(header) == len(space.names):
        raise SettingsError(f"the results '{path}' have no column with a measure")
    return tuple(
        _result(path, number, header, row, space) for number, row in enumerate(rows[1:], 2)
    )


def _result(
    path: Path, number: int, header: list[str], row: list[str], space: ParameterSpace
) -> Result:
    if len(row) != len(header):
        raise SettingsError(
            f"{path}, line {number}: {len(row)} fields where the header has {len(header)}"
        )
    cells = dict(zip(header, row, strict=True))
    values = {name: space.parse_value(name, cells[name].strip()) for name in space.names}
    measures: dict[str, Measure] = {}
    for name, cell in cells.items():
        if name in values:
            continue
        measure = parse_number(cell.strip())
        try:
            measures[name] = None if measure is None else float_of(measure)
        except ValueError as error:
            raise SettingsError(f"{path}, line {number}: {name}: {error}") from None
        if measure is None and cell.strip():
            raise SettingsError(
                f"{path}, line {number}: {name} is '{cell}'; a measure is a finite number, or empty"
            )
    return values, measures


def open_sweep(
    built: BuiltSweep,
    store: Store,
    name: str,
    made_from: Mapping[str, Any] | None = None,
    earlier: tuple[EarlierSweep, ...] | None = None,
) -> Session:
    """Create the experiment of a built sweep in a store, and return its session.

    ``name`` is for a sweep without one. ``made_from`` is its `config_snapshot`, for resuming; None
    if it shall not be resumed. ``earlier`` are the sweeps to learn from; None copies those that the
    settings name from the store.
    Raises AssistantError or StrategyError for invalid settings, and stores nothing then.
    """
    settings = built.settings
    settings.hooks.build().check()
    early = settings.early_stopping
    if earlier is None:
        earlier = earlier_sweeps(store, settings.learn_from, built.objective)
    session = open_session(
        built.application,
        store=store,
        name=settings.name or name,
        space=built.space,
        objective=built.objective,
        sla=settings.sla(SystemClock().now_s()),
        strategy=settings.strategy.name,
        options=settings.strategy.options,
        exploitation=settings.exploitation,
        refine=settings.refine,
        warning_policy=built.warning_policy,
        workers=settings.workers,
        seed=settings.seed,
        version=version(),
        recipe=made_from or {},
        facts=computing_facts(settings.place, settings.workers),
        earlier=earlier,
        early_stopping=None if early is None else early.build(),
    )
    if settings.plan:
        session.plan(settings.plan)
    return session


def config_snapshot(
    tables: Mapping[str, Any], configurations: Sequence[Mapping[str, Level]]
) -> dict[str, Any]:
    """Return the settings tables of a sweep with absolute paths, as an event log stores them."""
    application = dict(tables.get("application", {}))
    if "table" in application:
        application.setdefault("alternatives", "merge")
    for key in (*FILES_NAMED, "cwd", "folder"):
        if isinstance(application.get(key), str):
            application[key] = str(Path(application[key]).absolute())
    futures = application.get("futures")
    if isinstance(futures, Mapping) and isinstance(futures.get("model"), str):
        model = str(Path(futures["model"]).absolute())
        application["futures"] = {**futures, "model": model}
    results = [str(Path(path).absolute()) for path in tables.get("results", [])]
    snapshot = {
        **resolve_hook_folder(tables, Path()),
        "run": list(configurations),
        "application": application,
        "results": results,
    }
    stored: dict[str, Any] = json.loads(json.dumps(snapshot, allow_nan=False))
    return stored


def past_results(built: BuiltSweep) -> tuple[Result, ...]:
    """Read the earlier results from the CSV files named in the settings.

    Raises:
        SettingsError: a file cannot be read.
        ObjectiveError: a measure that the objective needs is missing or not finite.
    """
    results = tuple(
        result
        for path in built.settings.results
        for result in read_results(Path(path), built.space)
    )
    for _, measures in results:
        built.objective.assess(measures)
    return results


def initial_configurations(built: BuiltSweep) -> tuple[dict[str, Level], ...]:
    """Return the initial configurations, completed with baseline levels, or raise StrategyError."""
    baseline = dict(built.application.baseline or {})
    configurations = tuple({**baseline, **values} for values in built.settings.run)
    for values in configurations:
        built.space.check(built.space.from_values(values))
    return configurations


def import_past_runs(
    session: Session,
    built: BuiltSweep,
    past: Sequence[Result],
    configurations: Sequence[Mapping[str, Level]],
    *,
    baseline: bool,
) -> None:
    """Import earlier results, and submit the baseline and the initial configurations."""
    session.import_results(past, replicates=built.settings.replicates)
    if baseline or configurations:
        session.submit_baseline()
    for values in configurations:
        run_configurations = {run.configuration for run in session.experiment.runs}
        if session.experiment.space.from_values(values) not in run_configurations:
            session.include(values)


def rebuild(opened: ExperimentOpened) -> Application:
    """Rebuild the application of a stored experiment from its stored settings.

    Raises:
        SettingsError: it was opened from Python, or its log or table has changed.
        AssistantError: one of its files cannot be read.
    """
    if not opened.recipe:
        raise SettingsError(
            f"experiment '{opened.experiment_id}' was opened from Python, and only Python can "
            "run its program (copperline.load_study); here you can view and steer it"
        )
    return rebuild_sweep(opened).application


def rebuild_sweep(opened: ExperimentOpened) -> BuiltSweep:
    """Rebuild a stored experiment's sweep from its settings; the errors are those of `rebuild`."""
    built = build_sweep(check_settings(stored_settings(opened), opened.experiment_id))
    if built.space.lineage != opened.space.lineage:
        raise SettingsError(
            f"the log, table or program of experiment '{opened.experiment_id}' has changed, and "
            "its parameters with it; start a new experiment"
        )
    if _drawn_from(built.application.facts) != _drawn_from(opened.facts):
        raise SettingsError(
            f"the model or account tree of experiment '{opened.experiment_id}' has changed, so its "
            "results could not be compared with the earlier ones; start a new experiment"
        )
    return built


def _drawn_from(facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return the digests of the model and the account tree that an experiment has, if any."""
    labels = (FUTURES_DIGEST, STATISTICS_DIGEST, ACCOUNTS)
    return tuple(fact.text for fact in facts if fact.label in labels)


def stored_settings(opened: ExperimentOpened) -> dict[str, Any]:
    """Return the settings tables of an experiment; those of before a key existed get what it was.

    A table's columns were all parameters before ``alternatives`` merged some.
    """
    application = opened.recipe.get("application")
    if not isinstance(application, Mapping) or "table" not in application:
        return dict(opened.recipe)
    return {**opened.recipe, "application": {"alternatives": "keep", **application}}


def stored_sweep_file(opened: ExperimentOpened) -> str:
    """Return the settings of an experiment as the text of a sweep file; empty without settings."""
    if not opened.recipe:
        return ""
    stored = stored_settings(opened).items()
    tables = {k: v for k, v in stored if not (k in ("run", "results") and v == [])}
    return toml_text({**tables, "name": opened.name})


def job_log(opened: ExperimentOpened) -> str | None:
    """Return the path of the job log that an experiment simulates, or None without a log."""
    log = opened.recipe.get("application", {}).get("log")
    return log if isinstance(log, str) else None


def stored_hooks(experiment: Experiment) -> HookCommands:
    """Return the hook commands from an experiment's stored settings; none without settings."""
    opened = experiment.opened
    if not opened.recipe:
        return HookCommands()
    return check_settings(opened.recipe, opened.experiment_id).hooks.build()


def version() -> str:
    """Return the installed version of Copperline, or ``unknown`` if it is not installed."""
    try:
        return installed_version("copperline")
    except PackageNotFoundError:
        return "unknown"


def report_content(
    experiment: Experiment,
    events: Sequence[Event],
    *,
    state: ExperimentState | None = None,
    application: Callable[[], Application] | None = None,
) -> ReportContent:
    """Return what the forms of a report are written from, in every shell.

    Its log is simulated again for the waits by user and partition, which no run has as measures.

    Args:
        experiment: the experiment so far.
        events: its event log.
        state: state of the experiment; None derives it as if nobody executed its runs.
        application: returns the application of its runs; None rebuilds it from the settings.
    """
    from assistant.presentation.report.data import collect
    from assistant.presentation.report.forms import ReportContent

    groups = group_waits(experiment, application)
    trained = trainings(experiment, application)
    data = collect(experiment, events, state=state, groups=groups, trained=trained)
    return ReportContent(data, experiment, events, stored_sweep_file(experiment.opened))


ClusterSystem = Literal["slurm", "kubernetes"]


def cluster_settings(
    experiment: Experiment,
    system: ClusterSystem,
    run_id: int | None = None,
    *,
    application: Callable[[], Application] | None = None,
) -> str:
    """Return what to change on a real cluster for a configuration, in every shell.

    Args:
        experiment: the experiment, with at least two completed runs.
        system: ``slurm`` for lines of ``slurm.conf``, ``kubernetes`` for objects as YAML.
        run_id: run whose configuration is written; None for the best one.
        application: returns the application of its runs; None rebuilds it from the settings.

    Raises:
        AssistantError, SimError: the application cannot be rebuilt, such as without its log; or it
            has no settings of this system; or nothing is to change.
    """
    built = rebuild(experiment.opened) if application is None else application()
    if system == "kubernetes":
        from assistant.simtools.kubernetes import kubernetes_objects

        return kubernetes_objects(built, experiment, run_id)
    from assistant.simtools.slurm_conf import slurm_conf

    return slurm_conf(built, experiment, run_id)


def trainings(
    experiment: Experiment, application: Callable[[], Application] | None = None
) -> tuple[TrainingCurve, ...]:
    """Return the trainings of the schedulers of an experiment; none if their files are gone."""
    if not any(fact.label == TRAINED for fact in experiment.opened.facts):
        return ()
    from assistant.simtools.application_views import training_curves

    try:
        return training_curves(rebuild(experiment.opened) if application is None else application())
    except (AssistantError, SimError, StrategyError):
        return ()  # a report does without, as it is a table of what was measured


def group_waits(
    experiment: Experiment, application: Callable[[], Application] | None = None
) -> GroupWaits:
    """Return the waits by user and by partition of a scheduling sweep, or why there are none."""
    from assistant.presentation.report.data import GroupWaits, class_rows

    if not class_rows(experiment):
        return GroupWaits()
    from assistant.simtools.group_waits import group_tables

    try:
        built = rebuild(experiment.opened) if application is None else application()
        return GroupWaits(group_tables(built, experiment))
    except (AssistantError, SimError, StrategyError) as error:
        return GroupWaits(missing=f"the waits by user and partition are missing: {error}")

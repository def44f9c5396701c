"""``copperline try``: check a sweep, and run one configuration of it without storing anything."""

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant import Application, Run, Session
from assistant.applications import Command, Lookup, Scheduling
from assistant.cli.console import EXIT_TRIAL_FAILED, OUT, Json, print_json, say, table_of
from assistant.cli.options import (
    Backfill,
    Cores,
    Exclude,
    FirstJobs,
    JobLog,
    Levels,
    Memory,
    Order,
    PolicyOptions,
    PresetName,
    Procs,
    ReadingRule,
    SweepFile,
    TooWide,
    environment_table,
    merge_options,
    own_runs,
    sweep_tables,
)
from assistant.cli.terms import RunLimit, Terms
from assistant.cli.trial import Failure, Trial, constraint_words, failed
from assistant.decisions import judgement
from assistant.errors import SettingsError
from assistant.events import RunCompleted
from assistant.executors import check_room
from assistant.executors.attempt import attempt
from assistant.objective import Measure
from assistant.outside import is_asking
from assistant.ports import Completion, Endable, Work
from assistant.report.words import duration, number, quantity, setting, unit_of
from assistant.settings import Sweep, build_sweep, check_settings
from assistant.starting import open_sweep, past_results
from assistant.store import MemoryStore
from sim.api import Readiness, compilation
from strategies import Configuration, Level, Parameter

_AGAIN_BELOW_S = 10.0
_SHOWN_LEVELS = 8


def try_out(
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
    include: Annotated[
        str | None,
        typer.Option(metavar="NAME=V,...", help="Try this configuration instead of today's."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Budget of runs.  [default: 60]")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at once.  [default: 1]")] = None,
    cores: Cores = None,
    memory: Memory = None,
    run_limit: RunLimit = None,
    as_json: Json = False,
) -> int:
    """Check a sweep, run today's configuration once, and say how long the budget would take.

    Nothing is stored. Without a today the first configuration is run, or the one of --include.
    The exit code is 2 if the sweep is wrong, and 4 if it is right and the run failed: then the
    command, its exit code, its last 40 lines and what to change are shown.
    """
    tables: dict[str, Any] = sweep_tables(file)
    where = str(file) if file is not None else "options"
    check_settings(tables, where)
    if cores is not None or memory is not None:
        tables["environment"] = environment_table(tables.get("environment"), cores, memory)
    merge_options(
        tables,
        log=log, table=table, first=first, procs=procs, order=order, backfill=backfill,
        levels=levels or [], preset=preset, policy_options=policy_option or [],
        reading=reading or [], too_wide=too_wide, exclude=exclude or [],
        strategy=None, runs=runs, workers=workers,
    )  # fmt: skip
    Terms(run_limit=run_limit).laid_over(tables)
    if is_asking(tables.get("application")):
        raise SettingsError(
            "the program of this file asks for its runs itself, so there is nothing to try from "
            "here; start copperline sweep, and then the program"
        )
    built = build_sweep(check_settings(tables, "the options"))
    check_room(built.settings.place, built.settings.workers)
    trial = _tried(built, _fallback_name(built, file), include, quiet=as_json)
    if as_json:
        print_json(trial.as_object())
    else:
        _print(trial)
    return 0 if trial.failure is None else EXIT_TRIAL_FAILED


def _fallback_name(built: Sweep, file: Path | None) -> str:
    return file.stem if file is not None else built.application.name


def _tried(built: Sweep, name: str, include: str | None, *, quiet: bool) -> Trial:
    """Open the sweep in memory and run one configuration of it."""
    own = own_runs(built, [])
    past_results(built)
    session = open_sweep(built, MemoryStore(), name, "")
    run = _submitted(session, built, own, include)
    experiment = session.experiment
    values = experiment.space.values(run.configuration)
    if not quiet:
        say(f"{experiment.opened.name}  {experiment.opened.objective}", style="bold")
        say(f"  trying {_in_words(experiment.space.parameters, values)}")
    ready = compilation().readiness is Readiness.READY
    watched = _Watched(built.application, experiment.sla.run_limit_s)
    completion = attempt(watched, Work(run.id, values, run.seed))
    note = ""
    if isinstance(built.application, Scheduling) and completion.failure is None:
        completion, note = _settled(watched, run, values, completion, ready)
    judged = judgement(experiment, completion, time.time())
    outcome, failure = None, None
    if isinstance(judged, RunCompleted):
        outcome = judged.outcome
    else:
        failure = _failure(built.application, judged.failure, watched.error)
    is_today = run.configuration == experiment.opened.baseline
    took_s = completion.duration_s
    return Trial(experiment, values, is_today, run.seed, took_s, outcome, failure, note)


def _settled(
    watched: "_Watched",
    run: Run,
    values: Mapping[str, Level],
    first: Completion,
    ready: bool,
) -> tuple[Completion, str]:
    """Time a simulation again: the first one of a process also loads what was compiled."""
    if not ready:
        return first, "the simulator is not compiled here yet; once it is, runs take less time"
    if first.duration_s > _AGAIN_BELOW_S:
        return first, ""
    return attempt(watched, Work(run.id, values, run.seed)), ""


def _failure(application: Application, reason: str, error: Exception | None) -> Failure:
    folder = application.cwd if isinstance(application, Command) else ""
    return failed(reason, error, folder, application.name)


class _Watched:
    """An application of which the last error is kept as it was, with all that it knows."""

    def __init__(self, application: Application, limit_s: float | None) -> None:
        self._application, self._limit_s = application, limit_s
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._application, name)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Run once, within the limit of a run where the application can end one."""
        try:
            if self._limit_s is not None and isinstance(self._application, Endable):
                return self._application.evaluate_within(values, seed, self._limit_s)
            return self._application.evaluate(values, seed)
        except Exception as error:
            self.error = error
            raise


def _submitted(
    session: Session, built: Sweep, own: tuple[dict[str, Level], ...], include: str | None
) -> Run:
    """Submit what is wanted, else today's, else the analyst's own first, else the first."""
    if include is not None:
        text = built.settings.model_copy(update={"run": []})
        wanted = own_runs(
            Sweep(text, built.application, built.space, built.objective, built.watch), [include]
        )
        if wanted:
            return session.include(wanted[0])
    run = session.submit_baseline()
    if run is not None:
        return run
    if own:
        return session.include(own[0])
    first = _first(built)
    if first is None:
        raise SettingsError(
            "no allowed combination of levels can be tried; exclude fewer, or name other levels"
        )
    return session.include(built.space.values(first))


def _first(built: Sweep) -> Configuration | None:
    """Return the first allowed configuration; of a table, the first that was measured."""
    application = built.application
    for configuration in built.space.configurations():
        if not isinstance(application, Lookup) or application.table.lookup(configuration):
            return configuration
    return None


def _print(trial: Trial) -> None:
    experiment, failure = trial.experiment, trial.failure
    if failure is not None:
        _print_failure(failure)
        return
    outcome, objective = trial.outcome, experiment.opened.objective
    if outcome is None:
        raise AssertionError("a run that did not fail has an outcome")
    _print_levels(trial)
    shown = table_of("measure", "value")
    for name, value in outcome.measures.items():
        shown.add_row(name, _measured(name, value))
    OUT.print(shown)
    reached = quantity(outcome.value, objective.unit)
    OUT.print(f"{objective}: {reached}", style="bold", soft_wrap=True)
    for constraint in objective.constraints:
        OUT.print(f"  {constraint_words(constraint, outcome.measures)}", soft_wrap=True)
    OUT.print(f"The run took {duration(trial.duration_s)}; {trial.budget_words}.", soft_wrap=True)
    if trial.note:
        OUT.print(f"Note: {trial.note}.", soft_wrap=True)
    OUT.print("Nothing was stored.")


def _print_levels(trial: Trial) -> None:
    space = trial.experiment.space
    shown = table_of("parameter", "tried", "levels", left=3)
    for parameter in space.parameters:
        tried = setting(trial.values[parameter.name], parameter.unit)
        shown.add_row(parameter.name, tried, _levels(parameter))
    OUT.print(shown)
    allowed = space.count_allowed()
    told = f", {allowed:,} allowed" if allowed not in (None, space.size) else ""
    OUT.print(f"{space.size:,} combinations of {len(space.parameters)} parameters{told}")


def _levels(parameter: Parameter) -> str:
    ordered = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    texts = [str(parameter.levels[i]) for i in ordered]
    if len(texts) > _SHOWN_LEVELS:
        texts[_SHOWN_LEVELS - 2 : -1] = ["..."]
    return f"{parameter.n_levels}: {', '.join(texts)}"


def _measured(name: str, value: Measure) -> str:
    if isinstance(value, tuple):
        return f"a series of {len(value):,} numbers, from {number(value[0])} to {number(value[-1])}"
    return quantity(value, unit_of(name))


def _print_failure(failure: Failure) -> None:
    OUT.print(f"The run failed: {failure.reason}", style="bold red", soft_wrap=True)
    if failure.command:
        OUT.print(f"  command: {shlex.join(failure.command)}", soft_wrap=True)
        OUT.print(f"  folder: {failure.folder}", soft_wrap=True)
        code = "none, it was not started" if failure.code is None else str(failure.code)
        OUT.print(f"  exit code: {code}")
    for name, lines in (("standard output", failure.stdout), ("standard error", failure.stderr)):
        if lines:
            OUT.print(f"  the end of {name}:")
            for line in lines:
                OUT.print(f"    {line}", soft_wrap=True)
    OUT.print(f"What to change: {failure.advice}", soft_wrap=True)
    OUT.print("Nothing was stored.")


def _in_words(parameters: tuple[Parameter, ...], values: Mapping[str, Level]) -> str:
    return ", ".join(f"{p.name} {setting(values[p.name], p.unit)}" for p in parameters)

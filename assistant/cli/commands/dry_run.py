"""Command ``copperline try``: a dry run of a sweep, which stores nothing."""

import math
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.applications import application_entry
from assistant.applications.lookup import Lookup
from assistant.applications.measures import WALL, Patterns
from assistant.applications.program import Program
from assistant.applications.scheduling import Scheduling
from assistant.cli.console import EXIT_PROGRAM_FAILED, OUT, Json, print_json, say, table_of
from assistant.cli.experiment_options import first_configurations
from assistant.cli.options import (
    APPLICATION_OPTIONS,
    Overrides,
    SweepFile,
    overridden_sweep,
    setting_options,
)
from assistant.config.snapshot import open_sweep, past_results
from assistant.config.sweep_file import BuiltSweep, build_sweep
from assistant.core.errors import ProgramError, RunError, SettingsError
from assistant.core.events import RunCompleted, is_external_application
from assistant.core.experiment import Experiment
from assistant.core.objective import Constraint, Measure, Objective
from assistant.core.ports import (
    Application,
    ExecutionRequest,
    ExecutionResult,
    StoppableApplication,
    SystemClock,
)
from assistant.core.run import Outcome, Run
from assistant.core.submission import assess_completion
from assistant.executors.serial import execute_run
from assistant.executors.spec import check_capacity
from assistant.presentation.text.number_format import (
    duration,
    lasting,
    number,
    quantity,
    setting,
    unit_of,
)
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore
from sim.engines.compilation import Readiness, compilation_state
from strategies import Configuration, Level, Parameter

LAST_LINES = 40  # of each stream of a failed program

LAST_COLUMNS = 400


@dataclass(frozen=True, slots=True)
class DryRunFailure:
    """The reason for the failure of a dry run, with a hint and the program's last output.

    ``command`` is empty if no program was started, ``code`` is negative for a signal; of each
    output stream there are at most `LAST_LINES`. ``readable`` has the patterns that read the
    numbers that the output names, by name.
    """

    reason: str
    hint: str
    command: tuple[str, ...] = ()
    folder: str = ""
    code: int | None = None
    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    readable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DryRunReport:
    """The report of a dry run: one run that is not stored.

    ``is_baseline`` marks the baseline, ``seed`` is that of the first run of the sweep, ``outcome``
    is None if the run failed, ``failure`` is None if it did not.
    """

    experiment: Experiment
    values: Mapping[str, Level]
    is_baseline: bool
    seed: int
    duration_s: float
    outcome: Outcome | None
    failure: DryRunFailure | None
    note: str = ""

    @property
    def expected_s(self) -> float | None:
        """Expected duration of the whole budget in seconds, or None without a limit of runs."""
        runs, workers = self.experiment.sla.max_runs, self.experiment.opened.workers
        return None if runs is None else math.ceil(runs / workers) * self.duration_s

    @property
    def fitting_runs(self) -> int | None:
        """Number of runs expected before the deadline, or None without a deadline."""
        deadline_s, opened = self.experiment.sla.deadline_s, self.experiment.opened
        if deadline_s is None or self.duration_s <= 0:
            return None
        return int((deadline_s - opened.at_s) / self.duration_s) * opened.workers

    @property
    def budget_words(self) -> str:
        """Sentence on the expected duration of the budget, compared with the deadline."""
        runs, fitting = self.experiment.sla.max_runs, self.fitting_runs
        clauses = []
        if runs is not None and self.expected_s is not None:
            clauses.append(f"{_runs(runs)} take {lasting(self.expected_s)}{self._at_once}")
        if fitting is not None:
            fits = f"about {_runs(fitting)} fit before the deadline"
            if runs is not None:
                fits = "and they fit before the deadline" if fitting >= runs else f"but {fits}"
            clauses.append(fits)
        return ", ".join(clauses) or "there is no limit on runs or time"

    @property
    def _at_once(self) -> str:
        workers = self.experiment.opened.workers
        return f" with {workers} at once" if workers > 1 else ""

    def as_object(self) -> dict[str, Any]:
        """Return the report as the JSON object of ``copperline try --json``."""
        opened, space = self.experiment.opened, self.experiment.space
        objective = opened.objective
        outcome, failure = self.outcome, self.failure
        return {
            "name": opened.name,
            "ok": failure is None,
            "objective": str(objective),
            "unit": objective.unit,
            "configuration": dict(self.values),
            "baseline": self.is_baseline,
            "seed": self.seed,
            "duration_s": self.duration_s,
            "value": None if outcome is None else outcome.value,
            "feasible": None if outcome is None else outcome.feasible,
            "constraints": [] if outcome is None else _judged(objective, outcome.measures),
            "measures": None if outcome is None else dict(outcome.measures),
            "space": {
                "parameters": [
                    {"name": p.name, "unit": p.unit, "kind": p.kind, "levels": list(p.levels)}
                    for p in space.parameters
                ],
                "size": space.n_combinations,
                "allowed": space.count_allowed(),
            },
            "runs": self.experiment.sla.max_runs,
            "workers": opened.workers,
            "expected_s": self.expected_s,
            "fitting_runs": self.fitting_runs,
            "budget": self.budget_words,
            "note": self.note,
            "failure": None if failure is None else _failure_object(failure),
        }


def failure_of(
    reason: str,
    error: Exception | None,
    folder: str,
    application: str,
    measures: Sequence[str] = (),
) -> DryRunFailure:
    """Describe the failure of a dry run, with the last output of its program.

    ``error`` is None if the run was judged a failure afterwards; ``folder`` is the working
    directory of the user's program, empty for other applications; ``measures`` are those of the
    objective.
    """
    if not isinstance(error, ProgramError):
        return DryRunFailure(reason, _general_hint(application, error))
    return DryRunFailure(
        reason,
        failure_hint(error, measures),
        error.argv,
        folder,
        error.code,
        last_lines(error.stdout),
        last_lines(error.stderr),
        readable_measures(error.stdout) if error.code == 0 else {},
    )


def failure_hint(error: ProgramError, measures: Sequence[str] = ()) -> str:
    """Return a hint on how to change a program that failed to give the measures."""
    if error.code is None:
        return (
            "Give the full path of the program, make it executable (chmod +x), or name its "
            "interpreter, as in ['sh', 'program.sh', ...]."
        )
    if error.overtime:
        return (
            "Allow a run more time (limit in [application], or run_limit), or make it smaller: "
            "fewer or lower levels."
        )
    if error.limited:
        return "Raise the limit named above, or make the run smaller: fewer or lower levels."
    if error.code < 0:
        return f"{_signalled(-error.code)} Run the command by hand in its folder to see why."
    if error.code == 0:
        return _unread_hint(error.stdout, measures)
    return _BY_CODE.get(
        error.code,
        "Run the command by hand in its folder; a successful program must end with exit code 0.",
    )


def _unread_hint(text: str, measures: Sequence[str]) -> str:
    """Return how to read the measures of a program that ended well."""
    pattern, readable = measure_pattern(measures, text), readable_measures(text)
    if pattern is not None:
        return (
            "The program ended well, and its output has the measures in plain text. Read them "
            f"with this line in [application], in place of any other measures: {pattern}"
        )
    if readable:
        return (
            "The program ended well, but the measures were not found. Its output names these "
            f"numbers: {', '.join(readable)}. Take one of them as the measure, or print the "
            "measure as the last line, as in cost: 12.5."
        )
    return (
        "The program ended well, but its measures were not found: print them as the last line, as "
        'in cost: 12.5 or {"cost": 12.5}, or set their place in measures.'
    )


_BY_CODE = {
    126: "Exit code 126 of a shell: the file may not be executed. Make it executable (chmod +x), "
    "or name its interpreter.",
    127: "Exit code 127 of a shell: the program was not found. Give its full path, or install it.",
}


def measure_pattern(measures: Sequence[str], text: str) -> str | None:
    r"""Return the setting that reads measures from lines such as ``loss: 0.3``; None if it fails.

    >>> print(measure_pattern(["loss"], "epoch 3\nloss: 0.31, val_loss: 0.4\n"))
    measures = {pattern = ['\bloss[:= ]+(?P<loss>\S*\d)']}
    """
    names = [name for name in measures if name != WALL]
    patterns = [_pattern(name) for name in names]
    if not names or not all(name.isidentifier() and name.isascii() for name in names):
        return None
    try:
        Patterns(tuple(patterns)).of(text)
    except RunError:
        return None
    literals = ", ".join(f"'{pattern}'" for pattern in patterns)
    return f"measures = {{pattern = [{literals}]}}"


def _pattern(name: str) -> str:
    return rf"\b{name}[:= ]+(?P<{name}>\S*\d)"


_NAMED_NUMBER = re.compile(r"(?:^|[\s,;|(])([A-Za-z_]\w*)\s*[:=]\s*[-+]?\.?\d", re.ASCII)
_MOST_NAMES = 8


def readable_measures(text: str) -> dict[str, str]:
    r"""Return the patterns of the last numbers that an output names, by name, last name first.

    >>> readable_measures("step: 3\nloss = 0.31 after 2 s\n")
    {'loss': '\\bloss[:= ]+(?P<loss>\\S*\\d)', 'step': '\\bstep[:= ]+(?P<step>\\S*\\d)'}
    """
    lines = text.splitlines()[-LAST_LINES:]
    names = [name for line in lines for name in _NAMED_NUMBER.findall(line[:LAST_COLUMNS])]
    last_first = list(dict.fromkeys(reversed(names)))
    return {name: _pattern(name) for name in last_first[:_MOST_NAMES] if name != WALL}


def _signalled(number: int) -> str:
    with suppress(ValueError):
        if signal.Signals(number) is signal.SIGKILL:
            return "The system killed it, often because the memory was used up."
    return "It crashed, or another process ended it."


def _general_hint(application: str, error: Exception | None) -> str:
    if error is None:
        return "Change the requirements on a run (the objective, or run_limit), or its results."
    entry = application_entry(application)
    if entry is not None and entry.advice:
        return entry.advice
    return "Try another configuration (--include NAME=VALUE,...), or exclude this one."


def last_lines(text: str) -> tuple[str, ...]:
    r"""Return the last `LAST_LINES` lines of an output, printable and of bounded width.

    >>> last_lines("one\n\ttwo\x1b[0m\n")
    ('one', ' two?[0m')
    """
    last = text.rstrip().splitlines()[-LAST_LINES:]
    lines = (line.replace("\t", " ")[:LAST_COLUMNS] for line in last)
    return tuple("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def _judged(objective: Objective, measures: Mapping[str, Measure]) -> list[dict[str, Any]]:
    return [
        {
            "text": str(constraint),
            "measure": constraint.measure,
            "value": measures.get(constraint.measure),
            "met": constraint.violation(measures) == 0,
        }
        for constraint in objective.constraints
    ]


def constraint_words(constraint: Constraint, measures: Mapping[str, Measure]) -> str:
    """Return a text that says whether a constraint is met, with the measured value."""
    value = measures.get(constraint.measure)
    unit = "s" if constraint.measure.endswith("_s") else ""
    measured = "unknown" if value is None else quantity(_number(value), unit)
    verdict = "met" if constraint.violation(measures) == 0 else "violated"
    return f"{verdict}: {constraint} ({constraint.measure} is {measured})"


def _number(value: float | tuple[float, ...]) -> float:
    return value[0] if isinstance(value, tuple) else value


def _failure_object(failure: DryRunFailure) -> dict[str, Any]:
    return {
        "reason": failure.reason,
        "hint": failure.hint,
        "command": list(failure.command),
        "folder": failure.folder,
        "exit_code": failure.code,
        "stdout": list(failure.stdout),
        "stderr": list(failure.stderr),
        "readable": dict(failure.readable),
    }


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n:,} runs"


_AGAIN_BELOW_S = 10.0
_SHOWN_LEVELS = 8


@setting_options(*APPLICATION_OPTIONS, "runs", "workers", "cores", "memory", "run_limit")
def dry_run(
    overrides: Overrides,
    file: SweepFile = None,
    include: Annotated[
        str | None,
        typer.Option(metavar="NAME=V,...", help="Run this configuration instead."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Check a sweep, run the current configuration once, and estimate the time for all runs.

    Nothing is stored. Without a current configuration, the first one is run; --include names
    another. The exit code is 2 if the sweep is invalid, and 4 if the run failed. A failed run is
    shown with its command, exit code, last 40 lines of output and a hint.
    """
    tables, settings = overridden_sweep(file, overrides)
    if is_external_application(tables.get("application")):
        raise SettingsError(
            "an external client executes the runs of this file, so a dry run is not possible; "
            "start copperline sweep, and then the client"
        )
    built = build_sweep(settings)
    check_capacity(built.settings.place, built.settings.workers)
    trial = _run_once(built, _fallback_name(built, file), include, quiet=as_json)
    if as_json:
        print_json(trial.as_object())
    else:
        _print(trial)
    return 0 if trial.failure is None else EXIT_PROGRAM_FAILED


def _fallback_name(built: BuiltSweep, file: Path | None) -> str:
    return file.stem if file is not None else built.application.name


def _run_once(built: BuiltSweep, name: str, include: str | None, *, quiet: bool) -> DryRunReport:
    """Open the sweep in memory and run one configuration of it."""
    first_runs = first_configurations(built, [])
    past_results(built)
    session = open_sweep(built, MemoryStore(), name, earlier=())  # one run learns nothing
    run = _submitted(session, built, first_runs, include)
    experiment = session.experiment
    values = experiment.space.values(run.configuration)
    if not quiet:
        say(f"{experiment.opened.name}  {experiment.opened.objective}", style="bold")
        say(f"  trying {_in_words(experiment.space.parameters, values)}")
    ready = compilation_state().readiness is Readiness.READY
    watched = _ErrorRecorder(built.application, experiment.sla.run_limit_s)
    completion = execute_run(watched, ExecutionRequest(run.id, values, run.seed))
    note = ""
    if isinstance(built.application, Scheduling) and completion.failure is None:
        completion, note = _settled(watched, run, values, completion, ready)
    judged = assess_completion(experiment, completion, SystemClock().now_s())
    outcome, failure = None, None
    if isinstance(judged, RunCompleted):
        outcome = judged.outcome
    else:
        failure = _failure(built.application, judged.failure, watched.error)
    is_baseline = run.configuration == experiment.opened.baseline
    took_s = completion.duration_s
    return DryRunReport(experiment, values, is_baseline, run.seed, took_s, outcome, failure, note)


def _settled(
    watched: "_ErrorRecorder",
    run: Run,
    values: Mapping[str, Level],
    first: ExecutionResult,
    ready: bool,
) -> tuple[ExecutionResult, str]:
    """Time a simulation again, because the first one of a process also loads compiled code."""
    if not ready:
        return first, "the simulator is not compiled here yet; once it is, runs take less time"
    if first.duration_s > _AGAIN_BELOW_S:
        return first, ""
    return execute_run(watched, ExecutionRequest(run.id, values, run.seed)), ""


def _failure(application: Application, reason: str, error: Exception | None) -> DryRunFailure:
    folder = application.cwd if isinstance(application, Program) else ""
    measures = application.objective.measures
    return failure_of(reason, error, folder, application.name, measures)


class _ErrorRecorder:
    """Application that records the last exception with all its details."""

    def __init__(self, application: Application, limit_s: float | None) -> None:
        self._application, self._limit_s = application, limit_s
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._application, name)

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Execute one run, within the time limit if the application supports one."""
        try:
            if self._limit_s is not None and isinstance(self._application, StoppableApplication):
                return self._application.evaluate_within(values, seed, self._limit_s)
            return self._application.evaluate(values, seed)
        except Exception as error:
            self.error = error
            raise


def _submitted(
    session: Session,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    include: str | None,
) -> Run:
    """Submit the requested run, else the baseline, else the user's first run, else the first."""
    if include is not None:
        text = built.settings.model_copy(update={"run": []})
        included = first_configurations(
            BuiltSweep(text, built.application, built.space, built.objective, built.warning_policy),
            [include],
        )
        if included:
            return session.include(included[0])
    run = session.submit_baseline()
    if run is not None:
        return run
    if first_runs:
        return session.include(first_runs[0])
    first = _first(built)
    if first is None:
        raise SettingsError(
            "no allowed combination of levels can be tried; exclude fewer, or name other levels"
        )
    return session.include(built.space.values(first))


def _first(built: BuiltSweep) -> Configuration | None:
    """Return the first allowed configuration; for a table, the first measured one."""
    application = built.application
    for configuration in built.space.configurations():
        if not isinstance(application, Lookup) or application.table.lookup(configuration):
            return configuration
    return None


def _print(trial: DryRunReport) -> None:
    experiment, failure = trial.experiment, trial.failure
    if failure is not None:
        _print_failure(failure)
        return
    outcome, objective = trial.outcome, experiment.opened.objective
    if outcome is None:
        raise AssertionError("a run that did not fail has an outcome")
    _print_levels(trial)
    table = table_of("measure", "value")
    for name, value in outcome.measures.items():
        table.add_row(name, _measured(name, value))
    OUT.print(table)
    reached = quantity(outcome.value, objective.unit)
    OUT.print(f"{objective}: {reached}", style="bold", soft_wrap=True)
    for constraint in objective.constraints:
        OUT.print(f"  {constraint_words(constraint, outcome.measures)}", soft_wrap=True)
    OUT.print(f"The run took {duration(trial.duration_s)}; {trial.budget_words}.", soft_wrap=True)
    if trial.note:
        OUT.print(f"Note: {trial.note}.", soft_wrap=True)
    OUT.print("Nothing was stored.")


def _print_levels(trial: DryRunReport) -> None:
    space = trial.experiment.space
    table = table_of("parameter", "value", "levels", left=3)
    for parameter in space.parameters:
        tried = setting(trial.values.get(parameter.name), parameter.unit)
        table.add_row(parameter.name, tried, _levels(parameter))
    OUT.print(table)
    allowed, size = space.count_allowed(), space.n_combinations
    allowed_text = f", {allowed:,} allowed" if allowed not in (None, size) else ""
    n = len(space.parameters)
    OUT.print(f"{size:,} combinations of {n} parameter{'' if n == 1 else 's'}{allowed_text}")


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


def _print_failure(failure: DryRunFailure) -> None:
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
    OUT.print(f"What to change: {failure.hint}", soft_wrap=True)
    OUT.print("Nothing was stored.")


def _in_words(parameters: tuple[Parameter, ...], values: Mapping[str, Level]) -> str:
    active = (p for p in parameters if p.name in values)
    return ", ".join(f"{p.name} {setting(values[p.name], p.unit)}" for p in active)

"""One run that is tried before a sweep begins: what it gave, what follows, what to change."""

import math
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assistant import Experiment
from assistant.errors import ProgramError
from assistant.objective import Constraint, Measure, Objective
from assistant.report.words import lasting, quantity
from assistant.run import Outcome
from strategies import Level

KEPT_LINES = 40
"""Of each stream of a program that failed."""

KEPT_COLUMNS = 400


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the run failed.

    Args:
        reason: one sentence.
        advice: what to change, in one sentence.
        command: program and arguments as they were handed over; empty if none was started.
        folder: that it ran in.
        code: its exit code, negative for a signal; None if there is none.
        stdout: its last lines, at most `KEPT_LINES`.
        stderr: the same of standard error.
    """

    reason: str
    advice: str
    command: tuple[str, ...] = ()
    folder: str = ""
    code: int | None = None
    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One run that was not stored.

    Args:
        experiment: as the sweep would open it, with this run.
        values: the configuration.
        is_today: whether it is today's.
        seed: of the run; the first run of the sweep has the same.
        duration_s: of the run, in seconds.
        outcome: what it came to; None if it failed.
        failure: why it failed; None if it did not.
        note: what else should be known; empty for nothing.
    """

    experiment: Experiment
    values: Mapping[str, Level]
    is_today: bool
    seed: int
    duration_s: float
    outcome: Outcome | None
    failure: Failure | None
    note: str = ""

    @property
    def expected_s(self) -> float | None:
        """Seconds that the whole budget takes at this duration; None without a limit of runs."""
        runs, workers = self.experiment.sla.max_runs, self.experiment.opened.workers
        return None if runs is None else math.ceil(runs / workers) * self.duration_s

    @property
    def fitting_runs(self) -> int | None:
        """Runs that fit before the deadline at this duration; None without one."""
        deadline_s, opened = self.experiment.sla.deadline_s, self.experiment.opened
        if deadline_s is None or self.duration_s <= 0:
            return None
        return int((deadline_s - opened.at_s) / self.duration_s) * opened.workers

    @property
    def budget_words(self) -> str:
        """Say how long the whole budget takes, and whether it fits before the deadline."""
        runs, fitting = self.experiment.sla.max_runs, self.fitting_runs
        told = []
        if runs is not None and self.expected_s is not None:
            told.append(f"{_runs(runs)} take {lasting(self.expected_s)}{self._at_once}")
        if fitting is not None:
            fits = f"about {_runs(fitting)} fit before the deadline"
            if runs is not None:
                fits = "and they fit before the deadline" if fitting >= runs else f"but {fits}"
            told.append(fits)
        return ", ".join(told) or "there is no limit of runs or time"

    @property
    def _at_once(self) -> str:
        workers = self.experiment.opened.workers
        return f" with {workers} at once" if workers > 1 else ""

    def as_object(self) -> dict[str, Any]:
        """Return everything for programs; see ``copperline try --json``."""
        opened, space = self.experiment.opened, self.experiment.space
        objective = opened.objective
        outcome, failure = self.outcome, self.failure
        return {
            "name": opened.name,
            "ok": failure is None,
            "objective": str(objective),
            "unit": objective.unit,
            "configuration": dict(self.values),
            "today": self.is_today,
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
                "size": space.size,
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


def failed(reason: str, error: Exception | None, folder: str, application: str) -> Failure:
    """Return why a run failed, from the sentence and from what the program left behind.

    Args:
        reason: the sentence that a sweep would record.
        error: what was raised; None if the run was judged a failure afterwards.
        folder: that a program of one's own runs in; empty for others.
        application: its name.
    """
    if not isinstance(error, ProgramError):
        return Failure(reason, _general_advice(application, error))
    return Failure(
        reason,
        program_advice(error),
        error.argv,
        folder,
        error.code,
        last_lines(error.stdout),
        last_lines(error.stderr),
    )


def program_advice(error: ProgramError) -> str:
    """Say what to change about a program that failed."""
    if error.code is None:
        return (
            "Name the program by its whole path, make it executable (chmod +x), or name what runs "
            "it, as in ['sh', 'program.sh', ...]."
        )
    if error.overtime:
        return (
            "Allow a run more time (limit in [application], or run_limit), or make it smaller: "
            "fewer or lower levels."
        )
    if error.limited:
        return "Allow a run more, as said above, or make it smaller: fewer or lower levels."
    if error.code < 0:
        return f"{_signalled(-error.code)} Run the command by hand in its folder to see why."
    return _BY_CODE.get(
        error.code,
        "Run the command by hand in its folder; a program that did its work must end with exit "
        "code 0.",
    )


_BY_CODE = {
    0: "The program ended well, but its measures were not found: print one JSON object as the "
    'last line, such as {"time_ms": 12}, or say in measures where they stand.',
    126: "Exit code 126 is a shell's word for a file that may not be executed: chmod +x it, or "
    "name what runs it.",
    127: "Exit code 127 is a shell's word for a program that was not found: give its whole path, "
    "or install it.",
}


def _signalled(number: int) -> str:
    with suppress(ValueError):
        if signal.Signals(number) is signal.SIGKILL:
            return "The system ended it, often because the memory was used up."
    return "It crashed, or something ended it."


def _general_advice(application: str, error: Exception | None) -> str:
    if application == "lookup":
        return (
            "Take a row of the table (--include NAME=VALUE,...), or exclude the combinations "
            "that were not measured."
        )
    if application == "function" and error is not None:
        return "Call the function by hand with this configuration, and mend what it raises."
    if error is None:
        return "Change what is asked of a run (the objective, or run_limit), or what it gives."
    return "Try another configuration (--include NAME=VALUE,...), or exclude this one."


def last_lines(text: str) -> tuple[str, ...]:
    r"""Return the last `KEPT_LINES` lines, each printable and of bounded width.

    >>> last_lines("one\n\ttwo\x1b[0m\n")
    ('one', ' two?[0m')
    """
    kept = text.rstrip().splitlines()[-KEPT_LINES:]
    lines = (line.replace("\t", " ")[:KEPT_COLUMNS] for line in kept)
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
    """Say whether a constraint holds, with what was measured."""
    value = measures.get(constraint.measure)
    unit = "s" if constraint.measure.endswith("_s") else ""
    told = "unknown" if value is None else quantity(_number(value), unit)
    verdict = "met" if constraint.violation(measures) == 0 else "violated"
    return f"{verdict}: {constraint} ({constraint.measure} is {told})"


def _number(value: float | tuple[float, ...]) -> float:
    return value[0] if isinstance(value, tuple) else value


def _failure_object(failure: Failure) -> dict[str, Any]:
    return {
        "reason": failure.reason,
        "advice": failure.advice,
        "command": list(failure.command),
        "folder": failure.folder,
        "exit_code": failure.code,
        "stdout": list(failure.stdout),
        "stderr": list(failure.stderr),
    }


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n:,} runs"

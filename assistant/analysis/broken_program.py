"""Detection of a program that cannot run: auto-steering then ends instead of using its budget.

A misspelt file name makes every run fail. The first run, that of the current configuration, shows
it; without one, three runs that fail alike do. Failures that come later are results: a level may
be impossible, and the search learns to avoid it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from assistant.core.experiment import Experiment
from assistant.core.run import Run
from strategies import Configuration

N_ALIKE = 3
"""Number of first runs that must fail alike, unless the current configuration fails."""

APPLICATIONS_WITHOUT_PROGRAM = ("lookup",)
"""Applications in which a failure is data: a measured table has no row, or a measured failure."""

LONGEST_REASON = 200

_ADVICE = (
    (r"no such file|can't open|cannot open|not found|does not exist|could not be started|code 127",
     "Correct the name or the folder of the file"),
    (r"no module named|importerror", "Install the missing module, or correct its name"),
    (r"permission denied|code 126", "Make the file executable"),
    (r"run limit|at the limit|timed? ?out", "Raise the run limit, or make the run smaller"),
    (r"memory|sigkill", "Give a run more memory, or make it smaller"),
    (r"\bmeasures?\b|\bis not json\b",
     "Correct the names of the measures, or what the program prints"),
)  # fmt: skip
"""What to change, by a pattern in the reason of a failure; the first match counts."""

_PATHS = re.compile(r"(?:[\w.~-]*/)+[\w.~-]*")
_NUMBERS = re.compile(r"\b0x[0-9a-f]+|[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)


def broken_program(experiment: Experiment) -> str | None:
    """Return why the program of an experiment cannot run, and what to change; None if it can.

    The run of the current configuration failed and nobody went on since; or no run has completed,
    and the first 3 failed alike. Imported runs do not count, nor do runs that ended before the
    experiment was last reopened. A run that violates a constraint has not failed.
    """
    if _may_fail(experiment):
        return None
    first = experiment.baseline
    if (first is None or first.outcome is not None) and _any_completed(_own(experiment)):
        return None  # the usual case, without going through all runs
    own = list(_own(experiment))
    recent = [run for run in own if run.id not in experiment.over_before_reopening]
    failed = _failed_baseline(experiment, recent)
    if failed is not None:
        what = f"run {failed.id}, the current configuration, failed"
    else:
        failed = None if _any_completed(own) else _failed_alike(experiment, recent)
        what = f"the first {N_ALIKE} runs failed alike"
    if failed is None or failed.failure is None:
        return None
    reason = " ".join(failed.failure.split()).rstrip(".")
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]} ..."
    return (
        f"{what}: {reason}. {advice(failed.failure)}, then resume; "
        "keep_going (--keep-going) goes on all the same"
    )


def runs_to_repeat(experiment: Experiment) -> tuple[Run, ...]:
    """Return the failed runs of a broken program that should run again after its repair.

    They failed before the experiment was reopened, and their configurations have no later run.
    """
    before = [run for run in experiment.runs if run.id in experiment.over_before_reopening]
    own = [run for run in before if run.source != "imported"]
    if not own or _may_fail(experiment):
        return ()
    baseline = _failed_baseline(experiment, own)
    is_alike = not _any_completed(own) and _failed_alike(experiment, own) is not None
    latest = {run.configuration: run for run in experiment.runs}  # the last run of each
    return tuple(
        run
        for configuration, run in latest.items()
        if run.id in experiment.over_before_reopening
        and run.failure is not None
        and (is_alike or (baseline is not None and configuration == baseline.configuration))
        and experiment.space.is_allowed(configuration)
    )


def advice(failure: str) -> str:
    """Return what to change after a failure, as the beginning of a sentence.

    >>> advice("python: can't open file 'tran.py'")
    'Correct the name or the folder of the file'
    """
    text = failure.lower()
    matching = (words for pattern, words in _ADVICE if re.search(pattern, text))
    return next(matching, "Repair the program or its settings")


def _own(experiment: Experiment) -> Iterator[Run]:
    return (run for run in experiment.runs if run.source != "imported")


def _may_fail(experiment: Experiment) -> bool:
    is_data = experiment.opened.application in APPLICATIONS_WITHOUT_PROGRAM
    return experiment.sla.keep_going or is_data


def _failed_baseline(experiment: Experiment, runs: Sequence[Run]) -> Run | None:
    """Return the last failed run of the current configuration; None if others came after it."""
    first = experiment.baseline
    if first is None or first.outcome is not None:
        return None
    same = [run for run in runs if run.configuration == first.configuration]
    failed = next((run for run in reversed(same) if run.failure is not None), None)
    if failed is None or failed.ended_s is None:
        return None
    return None if any(run.submitted_s > failed.ended_s for run in runs) else failed


def _failed_alike(experiment: Experiment, runs: Iterable[Run]) -> Run | None:
    """Return the first of the runs that failed alike; None if they are too few or differ."""
    failed = sorted(
        (run for run in runs if run.failure is not None),
        key=lambda run: (run.ended_s or 0.0, run.id),
    )[:N_ALIKE]
    n_reasons = len({_normalised(experiment, run) for run in failed})
    return failed[0] if len(failed) == N_ALIKE and n_reasons == 1 else None


def _any_completed(runs: Iterable[Run]) -> bool:
    return any(run.outcome is not None for run in runs)


def _normalised(experiment: Experiment, run: Run) -> str:
    """Return the reason of a failure without paths, numbers and levels of the configuration."""
    text = run.failure or ""
    for level in _words(experiment, run.configuration):
        text = re.sub(rf"(?<!\w){re.escape(level)}(?!\w)", "*", text)
    return " ".join(_NUMBERS.sub("*", _PATHS.sub("*", text)).lower().split())


def _words(experiment: Experiment, configuration: Configuration) -> list[str]:
    values = experiment.space.values(configuration).values()
    return sorted((value for value in values if isinstance(value, str)), key=len, reverse=True)

"""What runs that go on have measured so far, and which were ended early, in words."""

from assistant.objective import Objective
from assistant.report.words import duration, quantity, unit_of
from assistant.run import Run


def stopped_words(run: Run) -> str:
    """Say that a run was ended early and what it had reported was kept; empty if it was not.

    >>> from strategies import Configuration
    >>> run = Run(1, Configuration((0,), ""), "analyst", 7, "", None, 0.0, stopped="flat by now")
    >>> stopped_words(run)
    'stopped early by the analyst: flat by now'
    """
    if run.stopped is None:
        return ""
    return "stopped early by the analyst" + (f": {run.stopped}" if run.stopped else "")


def reported_words(run: Run, objective: Objective) -> str:
    """Return what the objective looks at of what a run has reported; empty if it is nothing.

    Where it has reported nothing that counts, the number of its measures is told.
    """
    if run.reported is None:
        return ""
    parts = []
    for name in objective.measures:
        value = run.reported.get(name)
        if isinstance(value, float | int):
            unit = objective.unit if name == str(objective.wrapper) else ""
            parts.append(f"{name} {quantity(value, unit or unit_of(name)).partition(' (')[0]}")
    if parts:
        return ", ".join(parts)
    n = len(run.reported)
    return f"{n} measure{'' if n == 1 else 's'}, none of them counts"


def age_words(run: Run, now_s: float) -> str:
    """Say how long ago a run has reported last; empty if it has not."""
    if run.reported_s is None:
        return ""
    return f"{duration(max(0.0, round(now_s - run.reported_s)))} ago"

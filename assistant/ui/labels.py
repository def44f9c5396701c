"""Labels: short texts and table cells of the pages, with words instead of unknown numbers."""

import re
from collections.abc import Sequence

from assistant.core.events import BatchSuggested
from assistant.core.experiment import Experiment
from assistant.core.ports import SystemClock
from assistant.core.run import Run, RunState
from assistant.presentation.text.number_format import (
    INACTIVE,
    duration,
    level_words,
    number,
    quantity,
    setting,
    unit_of,
)
from strategies import Configuration, Level, Parameter, ParameterSpace

_WHOLE = re.compile(r" 00 (h|min|s)$")

SOURCES = {
    "baseline": "current",
    "initial": "first runs",
    "suggested": "suggested",
    "edited": "suggested, edited",
    "analyst": "yours",
    "imported": "imported",
    "replicate": "replicate",
}

STATES = {
    RunState.QUEUED: "waiting",
    RunState.RUNNING: "running",
    RunState.COMPLETED: "completed",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
}

VERDICTS = {True: "good", False: "bad", None: ""}


def deadline_words(deadline_s: float | None, now_s: float | None = None) -> str:
    """Return the time until the deadline in words.

    >>> deadline_words(None), deadline_words(100.0, 200.0), deadline_words(7400.0, 200.0)
    ('no deadline', 'over', '2 h 00 min left')
    """
    if deadline_s is None:
        return "no deadline"
    left_s = deadline_s - (SystemClock().now_s() if now_s is None else now_s)
    if left_s <= 0:
        return "over"
    if left_s < 120:
        return f"{left_s:.0f} s left"
    return quantity(left_s, "s").partition("(")[2].rstrip(")") + " left"


def escape_markdown(text: str) -> str:
    r"""Return text escaped so that Markdown draws it as it is, without links, images or tags.

    >>> escape_markdown("![a](http://b/c) <b>")
    '!\\[a](http://b/c) \\<b>'
    """
    return text.replace("[", "\\[").replace("<", "\\<")


def runs(n: int) -> str:
    """Return a number of runs as text, such as ``20 runs``.

    >>> runs(1), runs(20)
    ('1 run', '20 runs')
    """
    return "1 run" if n == 1 else f"{n:,} runs"


def value_words(value: float, unit: str) -> str:
    """Return a result for people: seconds as a duration, other numbers with four digits.

    >>> value_words(32_400_000.0, "s"), value_words(0.30219, ""), value_words(12.5, "ms")
    ('375 d', '0.3022', '12.5 ms')
    """
    if unit == "s" and value >= 120:
        return _WHOLE.sub("", duration(value))
    return f"{number(value)} {unit}".strip()


def column(parameter: Parameter) -> str:
    """Return the column heading of a parameter: its name and unit."""
    return measure_title(parameter.name, parameter.unit)


def measure_title(name: str, unit: str) -> str:
    """Return the heading of a measure: its name, and its unit if the name does not end in it.

    >>> measure_title("mean_wait_s", "s"), measure_title("time", "s"), measure_title("loss", "")
    ('mean_wait_s', 'time [s]', 'loss')
    """
    return f"{name} [{unit}]" if unit and unit != unit_of(name) else name


def open_levels(space: ParameterSpace, parameter: Parameter) -> list[Level]:
    """Return the levels of a parameter that may be suggested (open), in the parameter's order."""
    ids = space.open_ids[space.names.index(parameter.name)]
    return [parameter.levels[i] for i in sorted(ids, key=parameter.ranks.__getitem__)]


def closed_levels(space: ParameterSpace) -> list[tuple[str, Level]]:
    """Return (parameter name, level) pairs of the levels closed to suggestions."""
    return sorted(((name, space.parameter(name).levels[i]) for name, i in space.closed), key=str)


def preferred_levels(space: ParameterSpace) -> list[tuple[str, Level]]:
    """Return (parameter name, level) pairs of the levels that are preferred in suggestions."""
    return sorted(((name, space.parameter(name).levels[i]) for name, i in space.preferred), key=str)


def settings_of(space: ParameterSpace, configuration: Configuration) -> str:
    """Return the levels of a configuration, with names and units, as one line of text."""
    values = shown_values(space, configuration)
    active = (p for p in space.parameters if values[p.name] is not None)
    return ", ".join(f"{p.name} {setting(values[p.name], p.unit)}" for p in active)


_LANE_LIMIT, _LANE_WIDTH = "lane_max_requested_s", "lane_max_procs"


def shown_values(space: ParameterSpace, configuration: Configuration) -> dict[str, Level | None]:
    """Return the values of all parameters in order, None for one that has no effect.

    These are the inactive ones, and the width of the lane of a cluster without a lane (limit 0).
    """
    values = space.all_values(configuration)
    if values.get(_LANE_LIMIT) == 0 and _LANE_WIDTH in values:
        values[_LANE_WIDTH] = None
    return values


def cells(space: ParameterSpace, configuration: Configuration) -> dict[str, str]:
    """Return the levels of a configuration as text, by parameter."""
    values = shown_values(space, configuration)
    return {p.name: level_words(values[p.name], p.unit) for p in space.parameters}


def level_columns(
    space: ParameterSpace, configurations: Sequence[Configuration]
) -> dict[str, list[str]]:
    """Return the levels of configurations as text, by parameter."""
    ids = space.marked_ids(space.level_ids(configurations)).T.tolist()
    texts = [
        [*(level_words(value, p.unit) for value in p.levels), INACTIVE] for p in space.parameters
    ]
    columns = [
        [of_level[i] for i in level_ids] for of_level, level_ids in zip(texts, ids, strict=True)
    ]
    if {_LANE_LIMIT, _LANE_WIDTH} <= {*space.names}:
        limits = ids[space.names.index(_LANE_LIMIT)]
        levels, width = space.parameter(_LANE_LIMIT).levels, space.names.index(_LANE_WIDTH)
        columns[width] = [
            INACTIVE if i < len(levels) and levels[i] == 0 else shown
            for i, shown in zip(limits, columns[width], strict=True)
        ]
    return dict(zip(space.names, columns, strict=True))


def run_label(experiment: Experiment, run: Run) -> str:
    """Return a one-line label of a run: number, value of the objective, and the user's rating."""
    value = run.outcome.value if run.outcome else None
    text = f"run {run.id}: {quantity(value, experiment.opened.objective.unit)}"
    text += "" if run.stopped is None else ", stopped early"
    return f"{text}, rated {VERDICTS[run.good]}" if run.good is not None else text


def batch_title(batch: BatchSuggested) -> str:
    """Return the heading of a batch, with its number and count of suggestions."""
    n = len(batch.suggestions)
    return f"Batch {batch.number}: {n} suggestion{'' if n == 1 else 's'}"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval as text, or ``unknown`` if an end is missing.

    >>> interval(1.0, 2.5), interval(None, None)
    ('1 to 2.5', 'unknown')
    """
    return "unknown" if low is None or high is None else f"{number(low)} to {number(high)}"

"""Tables and sentences about one run, or about the differences between two runs."""

import pandas as pd

from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.run import Run
from assistant.presentation.text.number_format import (
    duration,
    level,
    level_words,
    moment,
    number,
    quantity,
    unit_of,
)
from assistant.ui import labels

_SHOWN_SERIES = 6


def levels_table(experiment: Experiment, run: Run) -> pd.DataFrame:
    """Return the table of a run's levels beside those of the baseline."""
    space, baseline = experiment.space, experiment.opened.baseline
    values = labels.shown_values(space, run.configuration)
    frame: dict[str, list[str]] = {
        "parameter": [p.name for p in space.parameters],
        "level": [level_words(values[p.name], p.unit) for p in space.parameters],
    }
    if baseline is not None:
        present = labels.shown_values(space, baseline)
        frame["current"] = [
            "the same"
            if present[p.name] == values[p.name]
            else level_words(present[p.name], p.unit)
            for p in space.parameters
        ]
    return pd.DataFrame(frame)


def measure_unit(experiment: Experiment, name: str) -> str:
    """Return the unit of a measure, or an empty string if unknown."""
    objective = experiment.opened.objective
    if name == str(objective.wrapper) and objective.unit:
        return objective.unit
    if objective.second is not None and name == str(objective.second.wrapper):
        return objective.second.unit or unit_of(name)
    return unit_of(name)


def measures_table(experiment: Experiment, run: Run) -> pd.DataFrame:
    """Return the table of a run's measures with units; those in the objective come first."""
    objective = experiment.opened.objective
    measures = run.outcome.measures if run.outcome is not None else run.reported or {}
    first = [name for name in objective.measures if name in measures]
    names = [*first, *sorted(name for name in measures if name not in first)]
    return pd.DataFrame(
        {
            "measure": names,
            "value": [
                measure_text(measures[name], measure_unit(experiment, name)) for name in names
            ],
            "counts for": [
                _counts(experiment, name) if name in first else "" for name in names
            ],
        }
    )  # fmt: skip


def _counts(experiment: Experiment, name: str) -> str:
    objective = experiment.opened.objective
    constrained = any(constraint.measure == name for constraint in objective.constraints)
    return "constraint" if constrained else "objective"


def measure_text(value: Measure, unit: str) -> str:
    """Return a measure as text, with a series cut to its first numbers and its length.

    >>> measure_text(9000.0, "s"), measure_text((1.0, 2.0), ""), measure_text(None, "s")
    ('9,000 s (2 h 30 min)', '1, 2 (2 numbers)', 'unknown')
    """
    if not isinstance(value, tuple):
        return quantity(value, unit)
    first_numbers = ", ".join(number(entry) for entry in value[:_SHOWN_SERIES])
    more = ", ..." if len(value) > _SHOWN_SERIES else ""
    return f"{first_numbers}{more} ({len(value):,} numbers)"


def history(run: Run) -> list[str]:
    """Describe the history of a run in sentences: seed, times, worker, attempts.

    >>> from strategies import Configuration
    >>> history(Run(1, Configuration((0,), ""), "analyst", 7, "", None, 0.0))
    ['Seed 7.', 'Submitted 1970-01-01 00:00 UTC.']
    """
    lines = [f"Seed {run.seed}.", f"Submitted {moment(run.submitted_s)}."]
    if run.started_s is not None:
        waited = duration(max(run.started_s - run.submitted_s, 0.0))
        lines.append(f"Started {moment(run.started_s)}, after {waited} in the queue.")
    if run.ended_s is not None:
        lines.append(f"Ended {moment(run.ended_s)}.")
    if run.worker:
        lines.append(f"Worker {labels.escape_markdown(run.worker)}.")
    if run.attempts > 1:
        silent = f"; {run.lost} of its workers stopped responding" if run.lost else ""
        lines.append(f"Started {run.attempts} times{silent}.")
    if run.priority:
        lines.append(f"Priority {level(run.priority)}.")
    return lines


def differing_levels(experiment: Experiment, run: Run, other: Run) -> pd.DataFrame:
    """Return the table of parameters whose levels differ between two runs."""
    space = experiment.space
    here, there = space.all_values(run.configuration), space.all_values(other.configuration)
    return pd.DataFrame(
        {
            "parameter": p.name,
            f"run {run.id}": level_words(here[p.name], p.unit),
            f"run {other.id}": level_words(there[p.name], p.unit),
        }
        for p in space.parameters
        if here[p.name] != there[p.name]
    )


def measures_beside(experiment: Experiment, run: Run, other: Run) -> pd.DataFrame:
    """Return the table of the measures of two completed runs, with numeric differences."""
    objective = experiment.opened.objective
    here = {} if run.outcome is None else run.outcome.measures
    there = {} if other.outcome is None else other.outcome.measures
    measure_names = {*here, *there}
    first = [name for name in objective.measures if name in measure_names]
    rows = []
    for name in [*first, *sorted(measure_names.difference(first))]:
        unit = measure_unit(experiment, name)
        here_value, two = here.get(name), there.get(name)
        numbers = isinstance(here_value, float | int) and isinstance(two, float | int)
        rows.append(
            {
                "measure": name,
                f"run {run.id}": measure_text(here_value, unit),
                f"run {other.id}": measure_text(two, unit),
                "difference": difference(here_value - two, unit) if numbers else "",  # type: ignore[operator]
            }
        )
    return pd.DataFrame(rows)


def difference(value: float, unit: str) -> str:
    """Return a difference of a measure as text with sign and unit.

    >>> difference(3.5, "s"), difference(-9000.0, "s"), difference(0.0, "")
    ('+3.5 s', '-9,000 s (-2 h 30 min)', '0')
    """
    return f"{'+' if value > 0 else ''}{quantity(value, unit)}"

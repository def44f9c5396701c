"""Comparison of several experiments: results, settings that differ, best configurations, effects.

Only experiments with the same objective are compared by their values; others stand beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.run import ConfigurationSummary, RunState
from assistant.presentation.charts.comparison import BestCourse, RangeBeside
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.effects import EffectsRanking, amount, effects_ranking
from assistant.presentation.tables.experiment_summary import gain_words
from assistant.presentation.tables.sla import sla_terms
from assistant.presentation.text.number_format import duration, level_texts, level_words, number
from strategies import Parameter

FEWEST, MOST = 2, 6
"""Numbers of experiments that can be compared."""

_ABSENT = "none"


@dataclass(frozen=True, slots=True)
class ComparedExperiment:
    """One experiment as a row of the comparison.

    Args:
        name: name of the experiment, with the end of its id where two have one name.
        best: value of the best configuration with its unit; "none" before the first result.
        gain: comparison with the current configuration; empty without one.
        run_time: time of all runs together, as text.
    """

    id: str
    name: str
    best: str
    gain: str
    completed: int
    failed: int
    budget: str
    run_time: str


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A setting, or a parameter of the best configurations, with its text in each experiment."""

    name: str
    texts: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the experiments do not all have the same text."""
        return len(set(self.texts)) > 1


@dataclass(frozen=True, slots=True)
class ObjectiveGroup:
    """The experiments with one objective: their courses, and what matters in each.

    Args:
        value_name: name of the value, and `title` with its unit.
        sentence: which of them is best, and by how much.
        rankings: what matters, by the name of the experiment.
    """

    value_name: str
    unit: str
    sentence: str
    courses: tuple[BestCourse, ...]
    rankings: tuple[tuple[str, EffectsRanking], ...]

    @property
    def title(self) -> str:
        """Name of the value with its unit."""
        return f"{self.value_name} [{self.unit}]" if self.unit else self.value_name

    @property
    def ranges(self) -> tuple[RangeBeside, ...]:
        """Known ranges of all experiments; the parameter with the largest one comes first."""
        entries = [
            RangeBeside(name, entry.parameter, entry.value, entry.low, entry.high)
            for name, ranking in self.rankings
            for entry in ranking.parameters
            if entry.value is not None
        ]
        largest: dict[str, float] = {}
        for entry in entries:
            largest[entry.parameter] = max(entry.value, largest.get(entry.parameter, 0.0))
        return tuple(sorted(entries, key=lambda entry: -largest[entry.parameter]))

    def effect_rows(self) -> tuple[ComparedRow, ...]:
        """Return the ranges of each parameter as text, in the order of `ranges`."""
        texts: dict[str, dict[str, str]] = {}
        for entry in self.ranges:
            texts.setdefault(entry.parameter, {})[entry.name] = amount(entry.value, self.unit)
        names = [name for name, _ in self.rankings]
        return tuple(
            ComparedRow(parameter, tuple(text_of.get(name, "unknown") for name in names))
            for parameter, text_of in texts.items()
        )


@dataclass(frozen=True, slots=True)
class ExperimentComparison:
    """Two to six experiments beside each other.

    Args:
        settings: what defines each experiment, all rows.
        best: levels of the best configuration of each, all parameters.
        is_noisy: whether results vary between runs in one of them, as far as known.
    """

    experiments: tuple[ComparedExperiment, ...]
    groups: tuple[ObjectiveGroup, ...]
    settings: tuple[ComparedRow, ...]
    best: tuple[ComparedRow, ...]
    is_noisy: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the experiments, each different."""
        return tuple(entry.name for entry in self.experiments)


def compare_experiments(experiments: Sequence[Experiment]) -> ExperimentComparison:
    """Compare two to six different experiments.

    Raises:
        SettingsError: there are fewer or more, or one of them twice.
    """
    ids = [experiment.opened.experiment_id for experiment in experiments]
    if len(set(ids)) != len(ids):
        raise SettingsError("an experiment cannot be compared with itself; name each of them once")
    if not FEWEST <= len(ids) <= MOST:
        raise SettingsError(f"{FEWEST} to {MOST} experiments can be compared, not {len(ids)}")
    names = _names(experiments)
    return ExperimentComparison(
        tuple(map(_experiment, names, experiments)),
        _groups(names, experiments),
        _common(
            experiments,
            tuple(
                ComparedRow(row.name, differing_parts(row.texts)) if row.differs else row
                for row in _rows([_settings(experiment) for experiment in experiments])
            ),
        ),
        _rows([_best_levels(experiment) for experiment in experiments]),
        any(experiment.opened.deterministic is not True for experiment in experiments),
    )


def _names(experiments: Sequence[Experiment]) -> list[str]:
    plain = [experiment.opened.name for experiment in experiments]
    return [
        name if plain.count(name) == 1 else f"{name} ({experiment.opened.experiment_id[-4:]})"
        for name, experiment in zip(plain, experiments, strict=True)
    ]


def _experiment(name: str, experiment: Experiment) -> ComparedExperiment:
    best, limit = _best(experiment), experiment.sla.max_runs
    durations = [run.duration_s for run in experiment.runs if run.duration_s is not None]
    unit = experiment.opened.objective.unit
    return ComparedExperiment(
        experiment.opened.experiment_id,
        name,
        "none" if best is None else amount(best.outcome.value, unit),
        gain_words(experiment),
        experiment.n_in(RunState.COMPLETED),
        experiment.n_in(RunState.FAILED),
        "no limit" if limit is None else f"{limit:,}",
        duration(sum(durations)) if durations else "unknown",
    )


def _best(experiment: Experiment) -> ConfigurationSummary | None:
    return None if experiment.best is None else experiment.summary(experiment.best)


def _groups(names: Sequence[str], experiments: Sequence[Experiment]) -> tuple[ObjectiveGroup, ...]:
    def objective(pair: tuple[str, Experiment]) -> tuple[str, str, str]:
        measured = pair[1].opened.objective
        return str(measured.wrapper), measured.unit, measured.goal

    pairs = list(zip(names, experiments, strict=True))
    first = {key: i for i, key in reversed(list(enumerate(map(objective, pairs))))}
    ordered = sorted(pairs, key=lambda pair: first[objective(pair)])
    groups = []
    for (value_name, unit, _), members in groupby(ordered, objective):
        compared = tuple(members)
        groups.append(
            ObjectiveGroup(
                value_name,
                unit,
                _sentence(value_name, compared),
                tuple(BestCourse(name, run_points(e)) for name, e in compared),
                tuple((name, effects_ranking(e)) for name, e in compared),
            )
        )
    return tuple(groups)


def _sentence(value_name: str, pairs: Sequence[tuple[str, Experiment]]) -> str:
    """Say which experiment has the best value, and how far the next one is."""
    ranked = sorted(
        ((best, name) for name, e in pairs if (best := _best(e)) is not None),
        key=lambda entry: entry[0].rank, reverse=True,
    )  # fmt: skip
    unit = pairs[0][1].opened.objective.unit
    if not ranked:
        return f"None of them has a result for {value_name} yet."
    (best, name), value = ranked[0], ranked[0][0].outcome.value
    spoken = amount(value, unit)
    if not best.outcome.feasible:
        return f"None of them has a result that meets every constraint; {name} is closest."
    if len(ranked) == 1:
        return f"{name} has the {value_name} {spoken}; no other result has its objective."
    second, second_name = ranked[1]
    if not second.outcome.feasible:
        return f"Only {name} meets every constraint: {value_name} {spoken}."
    return _apart(value_name, unit, (name, value), (second_name, second.outcome.value))


def _apart(value_name: str, unit: str, best: tuple[str, float], second: tuple[str, float]) -> str:
    """Say how far the best value of one experiment is from that of the next one."""
    (name, value), (second_name, other), spoken = best, second, amount(best[1], unit)
    if other == value:
        return f"{name} and {second_name} have the same best {value_name}: {spoken}."
    text = f"{name} has the best {value_name}: {spoken}"
    if value <= 0 or other <= 0:
        return f"{text}, against {amount(other, unit)} of {second_name}."
    percent = number(float(f"{100 * abs(value / other - 1):.3g}"))
    side = "lower" if value < other else "higher"
    return f"{text}, {percent} % {side} than {amount(other, unit)} of {second_name}."


def _rows(columns: Sequence[dict[str, str]]) -> tuple[ComparedRow, ...]:
    names = dict.fromkeys(name for column in columns for name in column)
    return tuple(
        ComparedRow(name, tuple(column.get(name, _ABSENT) for column in columns)) for name in names
    )


_LONG, _AROUND = 60, 12


def differing_parts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return long texts from where they begin to differ to where they end to, else as they are.

    >>> differing_parts(("run --a " + 60 * "x" + " 1", "run --a " + 60 * "x" + " 2"))
    ('… xxxxxxxxxxx 1', '… xxxxxxxxxxx 2')
    >>> differing_parts(("1", "2"))
    ('1', '2')
    """
    if _ABSENT in texts or max(map(len, texts)) <= _LONG:
        return texts
    head = _n_common(texts)
    tail = min(_n_common([text[::-1] for text in texts]), min(map(len, texts)) - head)
    head, tail = max(0, head - _AROUND), max(0, tail - _AROUND)
    return tuple(
        ("… " if head else "") + text[head : len(text) - tail] + (" …" if tail else "")
        for text in texts
    )


def _n_common(texts: Sequence[str]) -> int:
    """Return the number of first letters that all texts share."""
    columns = enumerate(zip(*texts, strict=False))
    return next((i for i, letters in columns if len(set(letters)) > 1), min(map(len, texts)))


def _common(
    experiments: Sequence[Experiment], rows: Sequence[ComparedRow]
) -> tuple[ComparedRow, ...]:
    """Leave out what only some applications have, unless all experiments run the same one."""
    if len({experiment.opened.application for experiment in experiments}) == 1:
        return tuple(rows)
    return tuple(row for row in rows if _ABSENT not in row.texts)


def _settings(experiment: Experiment) -> dict[str, str]:
    """Return what defines an experiment, as texts by name."""
    opened = experiment.opened
    settings = {
        "Application": opened.application,
        "Objective": str(opened.objective),
        "Strategy": str(experiment.steering),
        "Runs": "no limit" if experiment.sla.max_runs is None else str(experiment.sla.max_runs),
        "Seed": str(opened.seed),
        "Runs at once": str(opened.workers),
    }
    settings |= {
        use.title: use.agreed for use in sla_terms(experiment) if use.term not in ("runs",)
    }
    settings |= {fact.label: fact.text for fact in opened.facts}
    if opened.baseline is not None:
        values = experiment.space.all_values(opened.baseline)
        settings |= {
            f"current {p.name}": level_words(values[p.name], p.unit)
            for p in experiment.space.parameters
        }
    settings |= {f"levels of {p.name}": _levels(p) for p in experiment.space.parameters}
    closed = [
        f"{name} {level_words(experiment.space.parameter(name).levels[i], '')}"
        for name, i in sorted(experiment.space.closed)
    ]
    return settings | ({"closed levels": ", ".join(closed)} if closed else {})


def _levels(parameter: Parameter) -> str:
    ordered = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    texts = level_texts([parameter.levels[i] for i in ordered], parameter.unit)
    if len(texts) <= 8:
        return ", ".join(texts)
    return f"{len(texts)} from {texts[0]} to {texts[-1]}"


def _best_levels(experiment: Experiment) -> dict[str, str]:
    best = _best(experiment)
    if best is None:
        return dict.fromkeys(experiment.space.names, "no result")
    values = experiment.space.all_values(best.configuration)
    return {p.name: level_words(values[p.name], p.unit) for p in experiment.space.parameters}

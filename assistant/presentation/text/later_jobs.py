"""The check of an answer on the later jobs of a log, in sentences for every shell.

A sweep over a job log tunes on its first part. The application measures each configuration on the
jobs after that part, too (``later_...``), and beside the current configuration (``..._ratio``).
Nothing is chosen by those measures; here they say whether the gain carries over.
"""

from collections.abc import Mapping

from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.run import ConfigurationSummary
from assistant.presentation.text.number_format import level_words, spoken

Measures = Mapping[str, Measure]

_MEAN, _RATIO = "mean_wait_s", "later_wait_ratio"
_SHORT_QUEUE_S = 60.0
_PERMITTED = 1.1  # Mean wait of a class beside the current one, where none within 1 gains
_LONGEST = 1.5
_WORTH = 0.98  # A smaller gain is not worth a class that waits longer


def later_jobs(experiment: Experiment) -> tuple[str, ...]:
    """Return what the later jobs of the log say of the best configuration.

    Empty without such measures: another application, another objective, or all jobs simulated.
    """
    baseline, best = experiment.baseline, experiment.best
    if baseline is None or baseline.outcome is None or best is None:
        return ()
    summary = experiment.summary(best)
    if summary is None or not _is_checked(experiment, baseline.outcome.measures):
        return ()
    current = baseline.outcome.measures
    if best.configuration == baseline.configuration:
        return (*_without_gain(experiment, current), *_cautions(current))
    return (*check_on_later_jobs(experiment, summary), *_cautions(current))


def check_on_later_jobs(experiment: Experiment, summary: ConfigurationSummary) -> tuple[str, ...]:
    """Return what the later jobs say of a configuration other than the current one.

    Empty in the cases of `later_jobs`.
    """
    baseline = experiment.baseline
    if baseline is None or baseline.outcome is None:
        return ()
    mine, current = summary.outcome.measures, baseline.outcome.measures
    if not _is_checked(experiment, current):
        return ()
    return (*_check(mine, current), *_side_effects(mine, current))


def _is_checked(experiment: Experiment, current: Measures) -> bool:
    return str(experiment.opened.objective.wrapper) == _MEAN and _RATIO in current


def _check(mine: Measures, current: Measures) -> tuple[str, ...]:
    ratio = _number(mine, _RATIO)
    after_s, before_s = _number(mine, "later_mean_wait_s"), _number(current, "later_mean_wait_s")
    if after_s is None or before_s is None:
        return ("No later job ran, so nothing checks the answer.",)
    if ratio is None:
        words = f"Hardly any of the later jobs waits ({spoken(before_s, 's')} on average)"
        return (f"{words}, so they cannot check the answer.",)
    interval = _interval(mine)
    is_sure = interval is not None and interval[1] < 1
    sentence = (
        f"Checked on the later jobs, by which nothing was chosen: mean wait "
        f"{spoken(before_s, 's')} -> {spoken(after_s, 's')}, {_change(ratio)}"
        f"{'' if interval is None else f' (95 %: {_range(*interval)})'}."
    )
    if is_sure:
        return (sentence,)
    doubt = "The gain did not carry over" if ratio >= 1 else "That may be chance"
    return (sentence, f"{doubt}: tune on a longer part of the log before you change the cluster.")


def _side_effects(mine: Measures, current: Measures) -> tuple[str, ...]:
    by_class, longest = (
        _number(mine, "later_class_wait_ratio"),
        _number(mine, "later_longest_wait_ratio"),
    )
    if by_class is None or longest is None or _number(mine, _RATIO) is None:
        return ()
    classes = (
        "no class waits longer on average"
        if by_class <= 1
        else f"one class waits {_percent(by_class)} longer on average"
    )
    last = (
        "the longest wait is no longer"
        if longest <= 1
        else f"the longest wait is {_percent(longest)} longer"
    )
    sentence = f"Of the later jobs, {classes}, and {last} (5 min are free)."
    weighted, usual = (
        _number(mine, "work_weighted_wait_s"),
        _number(current, "work_weighted_wait_s"),
    )
    if weighted is None or not usual:
        return (sentence,)
    return (
        sentence,
        f"Weighted by processor hours, the jobs tuned on wait {_change(weighted / usual)}.",
    )


def _without_gain(experiment: Experiment, current: Measures) -> tuple[str, ...]:
    mean_s = _number(current, _MEAN)
    if mean_s is None:
        return ()
    if mean_s == 0:
        return ("No job waits under the current configuration, so no other can do better.",)
    nothing = (
        "No tried configuration shortens the mean wait without making a class of jobs wait longer."
    )
    permitted = [
        one for one in experiment.summaries.values() if _is_permitted(one.outcome.measures)
    ]
    other = min(permitted, key=lambda one: one.outcome.value, default=None)
    if other is None or other.outcome.value > _WORTH * mean_s:
        return (nothing, "Nor does one if every class may wait 10 % longer.")
    mine = other.outcome.measures
    instead = (
        f"If every class may wait 10 % longer: {_changes(experiment, other)} (run {other.run.id}) "
        f"would give a mean wait of {spoken(other.outcome.value, 's')} instead of "
        f"{spoken(mean_s, 's')}, {_change(other.outcome.value / mean_s)}."
    )
    return (nothing, instead, *_check(mine, current))


def _is_permitted(measures: Measures) -> bool:
    by_class, longest = (
        _number(measures, "class_wait_ratio"),
        _number(measures, "longest_wait_ratio"),
    )
    return (
        by_class is not None
        and longest is not None
        and by_class <= _PERMITTED
        and longest <= _LONGEST
        and _number(measures, "n_rejected") == 0
    )


def _changes(experiment: Experiment, other: ConfigurationSummary) -> str:
    current = experiment.opened.baseline
    new = experiment.space.all_values(other.configuration)
    old = {} if current is None else experiment.space.all_values(current)
    return ", ".join(
        f"{parameter.name} {level_words(new[parameter.name], parameter.unit)}"
        for parameter in experiment.space.parameters
        if new[parameter.name] != old.get(parameter.name)
    )


def _cautions(current: Measures) -> tuple[str, ...]:
    told = []
    mean_s = _number(current, _MEAN)
    later_s = _number(current, "later_mean_wait_s")
    is_short = mean_s is not None and mean_s < _SHORT_QUEUE_S
    if mean_s is not None and is_short and later_s is not None and later_s >= _SHORT_QUEUE_S:
        told.append(
            f"Of the jobs tuned on hardly any waits ({spoken(mean_s, 's')} on average), so the "
            "constraints say little: let runs simulate a busier part of the log (train_share)."
        )
    elif mean_s is not None and is_short:
        told.append(
            f"The queue is short ({spoken(mean_s, 's')} on average): ask how much more work fits, "
            "with copperline workload capacity."
        )
    return tuple(told)


def _number(measures: Measures, name: str) -> float | None:
    value = measures.get(name)
    return float(value) if isinstance(value, int | float) else None


def _interval(measures: Measures) -> tuple[float, float] | None:
    low, high = (_number(measures, f"{_RATIO}_{end}") for end in ("low", "high"))
    return None if low is None or high is None else (low, high)


def _percent(ratio: float) -> str:
    return f"{abs(ratio - 1):.0%}".replace("%", " %")


def _change(ratio: float) -> str:
    """Return a ratio as a change.

    >>> _change(0.61), _change(1.07), _change(1.001)
    ('39 % less', '7 % more', 'as long as now')
    """
    if round(100 * ratio) == 100:
        return "as long as now"
    return f"{_percent(ratio)} {'less' if ratio < 1 else 'more'}"


def _range(low: float, high: float) -> str:
    """Return an interval of ratios as changes.

    >>> _range(0.52, 0.81), _range(0.9, 1.2), _range(1.1, 1.2)
    ('19 to 48 % less', '10 % less to 20 % more', '10 to 20 % more')
    """
    if (low < 1) == (high < 1):
        near, far = sorted((low, high), key=lambda ratio: abs(ratio - 1))
        return f"{_percent(near).removesuffix(' %')} to {_change(far)}"
    return f"{_change(low)} to {_change(high)}"

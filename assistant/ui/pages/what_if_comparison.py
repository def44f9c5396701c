"""Comparison on the *What if* page: forecasts of the current and of the changed experiment.

The question of *What if*: a draft of the fields, its address, its change, and its application.
"""

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

import pandas as pd
import streamlit as st

from assistant.analysis.recommendation import passed_limit
from assistant.analysis.what_if import (
    SteeringChange,
    WhatIfSide,
    apply_change,
    changed_sla,
    sentence,
)
from assistant.config.sweep_file import check_settings
from assistant.core.errors import AssistantError, SettingsError
from assistant.core.experiment import Experiment
from assistant.core.forecast import MOST_LEFT, Forecast, Interval, band_words, percent
from assistant.core.sla import Sla, Steering, number_text
from assistant.presentation.charts import forecast
from assistant.presentation.charts.forecast import ChanceBand, Destination, ForecastCurve
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.sla import box_words
from assistant.presentation.text.forecast import ForecastSubject, clock, count, figures
from assistant.presentation.text.number_format import moment, number, quantity
from assistant.ui import labels
from assistant.ui.charting import low, wide
from assistant.ui.intents import FormFieldError
from assistant.ui.intents import sentence as intents_sentence
from assistant.ui.state import SteerableSession
from strategies import Configuration, Region, StrategyError, Suggestion, region_index
from strategies.space.parameter import parse_number
from strategies.steering.regions import good_configurations

UNKNOWN = "unknown"
LEFT_OVER = "left to the strategy"
_GOOD = {
    "quantile": "the best {share} of the results",
    "threshold": "results of {value} or better",
    "verdicts": "results that you rated good",
}
_PENDING = {
    "near": "configurations without a result near the good ones",
    "queued": "waiting runs inside",
    "box": "configurations without a result within the bounds",
    "plan": "the remaining runs of the plan, anywhere in the space, so none is counted here",
}


def sides_section(
    experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None, changes: Sequence[str]
) -> None:
    """Draw the current forecast beside the forecast after a change (None for no change)."""
    later = now if then is None else then
    if then is None:
        st.info(
            "Nothing is changed yet, so this is the current forecast. Change a field to see its "
            "effect here.",
            icon=":material/tune:",
        )
    else:
        comparison = sentence(now.forecast, then.forecast, then.inside, then.outside)
        st.info(
            labels.escape_markdown(f"**If: {', '.join(changes)}.** {comparison}"),
            icon=":material/compare_arrows:",
        )
    for caution in later.forecast.cautions:
        if caution not in now.forecast.cautions:
            st.caption(labels.escape_markdown(f":material/warning: Caution: {caution}."))
    _tiles(experiment, now, then)
    st.markdown("**Where the runs to come go**")
    _destinations(experiment, now, then)
    subject = ForecastSubject.of(experiment)
    title = labels.measure_title(subject.measure, subject.unit)
    st.markdown("**Best so far, and forecast**")
    if now.forecast.fan or later.forecast.fan:
        _fans(experiment, now, then, title)
    else:
        why = later.forecast.silence or "the number of runs left is unknown"
        st.caption(f"There is no forecast yet: {why}.")
    _chances(now, then)
    with st.expander("As a table"):
        table = table_of(experiment, now, then)
        st.dataframe(
            table, hide_index=True, width="stretch", alt="forecast now and after the change"
        )


def table_of(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> pd.DataFrame:
    """Return the table of forecasts now and after a change, with one column if unchanged."""
    subject = ForecastSubject.of(experiment)
    best = _best_title(now.forecast if then is None else then.forecast)
    sides = {"now": now} if then is None else {"now": now, "then": then}
    rows = ["Chance of the goal", "Runs to come", best, "Expected end"]
    cells = {
        when: [
            _chance_cell(side.forecast, banded=True),
            figures(side.forecast.remaining),
            UNKNOWN if side.forecast.best is None else subject.values(side.forecast.best),
            _end_cell(side.forecast, spread=True),
        ]
        for when, side in sides.items()
    }
    goes = _rows(experiment, now, then)
    return pd.DataFrame(
        {
            "": [*rows, *(f"Runs: {destination.where}" for destination in goes)],
            "now": [*cells["now"], *(_runs_cell(destination.now) for destination in goes)],
            **(
                {"then": [*cells["then"], *(_runs_cell(destination.then) for destination in goes)]}
                if then
                else {}
            ),
        }
    )


def _tiles(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> None:
    subject, later = ForecastSubject.of(experiment), (now if then is None else then).forecast

    def best(forecast: Forecast) -> str:
        return (
            UNKNOWN if forecast.best is None else subject.values(forecast.best).partition(" (")[0]
        )

    best_said = "Median of the simulated futures."
    if later.best is not None:
        best_said = f"Median of the simulated futures: {subject.values(later.best)}."
    tiles = (
        ("Chance of the goal", _chance_cell, "Share of similar studies that reached the goal."),
        (
            "Runs to come", _left_cell,
            "Further runs that can end within the SLA, before every configuration has been tried.",
        ),
        (_best_title(later), best, best_said),
        ("Expected end", _end_cell, "Most likely end of the runs to come."),
    )  # fmt: skip
    with st.container(horizontal=True):
        for label, cell, help_text in tiles:
            if {cell(later), cell(now.forecast)} <= {"no goal", UNKNOWN}:
                continue
            st.metric(
                label,
                cell(later),
                None if then is None else f"now {cell(now.forecast)}",
                delta_color="off",
                delta_arrow="off",
                border=True,
                help=help_text,
            )


def _best_title(forecast: Forecast) -> str:
    return (
        f"Best expected in {MOST_LEFT} runs" if forecast.is_beyond else "Best expected at the end"
    )


def _chance_cell(forecast: Forecast, *, banded: bool = False) -> str:
    goal = forecast.goal
    if goal is None:
        return "no goal"
    if goal.reached_by is not None:
        return f"reached by run {goal.reached_by}"
    if goal.chance is None:
        return UNKNOWN
    if forecast.is_over:
        return "no run left"
    if not banded or goal.band is None:
        return percent(goal.chance)
    return f"{percent(goal.chance)} ({band_words(goal.band)} depending on the space)"


def _left_cell(forecast: Forecast) -> str:
    left = forecast.remaining
    if left is None or left.low is None:
        return UNKNOWN
    if left.median is None or left.high is None:
        return f"{count(left.low)} or more"
    return count(left.median)


def _end_cell(forecast: Forecast, *, spread: bool = False) -> str:
    left: Interval | None = forecast.seconds_left
    if left is None or left.median is None:
        return UNKNOWN
    if left.high is not None and left.high < 60:
        return "< 1 min"
    text = clock(forecast.at_s + left.median, forecast.at_s)
    if not spread or left.low is None or left.high is None:
        return text
    first, last = (clock(forecast.at_s + s, forecast.at_s) for s in (left.low, left.high))
    return text if first == last else f"{text} ({first} to {last} in 8 of 10 cases)"


def _runs_cell(runs: int | None) -> str:
    return UNKNOWN if runs is None else f"{runs:,}"


def suggestions_table(experiment: Experiment, suggestions: Sequence[Suggestion]) -> pd.DataFrame:
    """Return the table of suggestions with levels and reasons."""
    return pd.DataFrame(
        {
            **labels.cells(experiment.space, suggestion.configuration),
            "why": suggestion.reason,
        }
        for suggestion in suggestions
    )


def _rows(
    experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None
) -> tuple[Destination, ...]:
    """Return where runs go: each region, then the strategy's free choice."""
    later = now if then is None else then

    def into(side: WhatIfSide, region: int) -> int | None:
        if side.outside is None:
            return None
        return sum(destination.runs for destination in side.inside if destination.region == region)

    rows = [
        Destination(
            name_of(experiment, current_region),
            into(now, current_region.id),
            into(later, current_region.id),
        )
        for current_region in experiment.regions
    ]
    return (*rows, Destination(LEFT_OVER, now.outside, later.outside))


def _destinations(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> None:
    rows = _rows(experiment, now, then)
    later = now if then is None else then
    if later.outside is None:
        st.caption(
            "The number of runs to come is unknown, so they cannot be distributed. Set a maximum "
            "number of runs on *Steering*."
        )
        return
    spec = forecast.destinations(rows, is_changed=then is not None)
    alt = "; ".join(
        f"{destination.where}: {_runs_cell(destination.then)} runs"
        + ("" if then is None else f", {_runs_cell(destination.now)} now")
        for destination in rows
    )
    st.vega_lite_chart(low(spec), theme=None, width="stretch", alt=f"where runs go: {alt}")


def _fans(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None, title: str) -> None:
    points = run_points(experiment)
    spec = forecast.fans(
        points, _coming(now.forecast), None if then is None else _coming(then.forecast), title
    )
    parts = []
    for when, side in (("now", now), *((("then", then),) if then is not None else ())):
        if side.forecast.fan:
            end = side.forecast.fan[-1]
            parts.append(
                f"{when} median {number(end.median)} after {labels.runs(end.runs)} more, "
                f"from {number(end.low)} to {number(end.high)}"
            )
    alt = f"forecast of {title}: {'; '.join(parts)}"
    st.vega_lite_chart(wide(spec), theme=None, width="stretch", alt=alt)
    caption = "Dashed line: median of the simulated futures. Area: 8 of 10 of them"
    st.caption(f"{caption}." if then is None else f"{caption}. Now: grey (dotted); then: copper.")


def _coming(forecast: Forecast) -> ForecastCurve:
    left = None if forecast.remaining is None else forecast.remaining.median
    goal = None if forecast.goal is None else forecast.goal.goal
    return ForecastCurve(() if forecast.is_over else forecast.fan, goal, left)


def _chance_of(forecast: Forecast) -> ChanceBand | None:
    goal = forecast.goal
    if goal is None or goal.chance is None or goal.band is None:
        return None
    return None if goal.reached_by is not None else ChanceBand(goal.chance, *sorted(goal.band))


def _chances(now: WhatIfSide, then: WhatIfSide | None) -> None:
    was = _chance_of(now.forecast)
    would = None if then is None else _chance_of(then.forecast)
    if was is None and would is None:
        return
    st.markdown("**Chance to reach the goal**")
    alt = "; ".join(
        f"{when} {percent(chance.chance)}, {band_words((chance.low, chance.high))} "
        "depending on the space"
        for when, chance in (("now", was), ("then", would))
        if chance is not None
    )
    st.vega_lite_chart(
        low(forecast.chances(was, would)), theme=None, width="stretch", alt=f"chance: {alt}"
    )


def name_of(experiment: Experiment, region: Region) -> str:
    """Return the label of a region: its number and levels."""
    return f"region {region.id}: {box_words(experiment.space, region.box)}"


def regions_table(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> pd.DataFrame:
    """Return the table of regions: levels, run counts, mean and best value, and weight."""
    objective = experiment.opened.objective
    counted = {entry.id: entry for entry in now.forecast.paper.regions}
    later = {entry.region: entry for entry in (now if then is None else then).inside}

    def value(quality: float) -> str:
        return number(objective.value_of(quality))

    title = labels.measure_title(str(objective.wrapper), objective.unit)
    return pd.DataFrame(
        {
            "region": region.id,
            "where": box_words(experiment.space, region.box),
            "good": len(region.members),
            "evaluated": region.evaluated,
            "pending": _runs_cell(counted[region.id].pending),
            f"mean {title}": value(counted[region.id].mean),
            "best": value(counted[region.id].best),
            "weight": f"{later[region.id].weight:g}" if region.id in later else "no share",
        }
        for region in experiment.regions
    )


def pending_words(experiment: Experiment) -> str:
    """Explain the columns of the region table in words."""
    return (
        "Good: the configurations that form the region. Evaluated: all results in it. "
        f"Pending: {_PENDING[experiment.warning_policy.pending]}. "
        "Weight: factor of the region's share of runs."
    )


def region_rule_words(experiment: Experiment) -> str:
    """Explain how regions are found, and what is missing while there is none."""
    rule, objective = experiment.warning_policy.regions, experiment.opened.objective
    at = None if rule.threshold is None else objective.value_of(rule.threshold)
    good = _GOOD[rule.good].format(
        share=f"{100 * rule.quantile:g} %", value=quantity(at, objective.unit)
    )
    n = len(good_configurations(experiment.knowledge.observations, rule))
    so_far = f"{n} of the configurations {'is' if n == 1 else 'are'} good"
    missing = (
        f"at least {rule.min_samples - n} more must be good"
        if n < rule.min_samples
        else "they are not close enough together yet"
    )
    return (
        f"A region contains {rule.min_samples} or more good results, each within {rule.radius:g} "
        "level steps of the next. One step is one level up or down in one parameter. "
        f"Good results are {good}. So far {so_far}; {missing}."
    )


NONE: Final = "none"
SlaAndSteering = tuple[Sla, Steering]  # SLA and steering that the user saw


@dataclass(frozen=True, slots=True)
class WhatIfDraft:
    """Contents of the what-if fields as typed, None for an unchanged field.

    Args:
        budget: number of runs; `EMPTIED` if the field is empty.
        share: share of the runs inside regions, in whole per cent; "none" keeps no share.
        goal: goal; empty removes it.
        deadline_s: moment of the deadline, seconds since 1970-01-01 UTC; a duration counts from
            when it was typed. None if unreadable.
        weights: level ids of a configuration, with the weight of its region.
    """

    budget: int | None = None
    share: int | Literal["none"] | None = None
    goal: str | None = None
    deadline: str | None = None
    deadline_s: float | None = None
    cost: str | None = None
    strategy: str | None = None
    weights: tuple[tuple[tuple[int, ...], float], ...] = ()


UNTOUCHED: Final = WhatIfDraft()

EMPTIED: Final = -1


def typed_deadline(text: str, now_s: float) -> float | None:
    """Return a typed deadline in seconds since 1970-01-01 UTC, or None if unreadable.

    >>> typed_deadline("30m", 100.5), typed_deadline("1970-01-01 00:10 UTC", 0.0)
    (1901.0, 600.0)
    >>> typed_deadline("soon", 0.0) is None
    True
    """
    stripped = text.strip()
    if not stripped:
        return None
    try:
        at = datetime.datetime.fromisoformat(stripped.removesuffix("UTC").strip())
    except ValueError:
        pass
    else:
        return at.replace(tzinfo=at.tzinfo or datetime.UTC).timestamp()
    try:
        seconds = check_settings({"deadline": stripped}, "the deadline").deadline
    except Exception:  # of the settings, or of the simulator, which reads durations
        return None
    return None if seconds is None else float(math.ceil(now_s + seconds))


def without_defaults(draft: WhatIfDraft, terms: SlaAndSteering) -> WhatIfDraft:
    """Return the draft with each value that equals ``terms`` set to None, except weights."""
    sla, steering = terms
    share = NONE if steering.exploitation is None else round(100 * steering.exploitation)
    goal = None if draft.goal is None else draft.goal.strip()
    typed = None if not goal else parse_number(goal)
    cost = None if draft.cost is None else parse_number(draft.cost.strip())
    empty: dict[str, Any] = {}
    if draft.budget in (sla.max_runs, EMPTIED if sla.max_runs is None else None):
        empty["budget"] = None
    if draft.share == share:
        empty["share"] = None
    if goal is not None and (sla.goal is None if goal == "" else typed == sla.goal):
        empty["goal"] = None
    is_kept = draft.deadline_s is not None and sla.deadline_s is not None
    if draft.deadline is not None and (
        (is_kept and abs((draft.deadline_s or 0.0) - (sla.deadline_s or 0.0)) < 1)
        or draft.deadline.strip() == ("" if sla.deadline_s is None else moment(sla.deadline_s))
    ):
        empty |= {"deadline": None, "deadline_s": None}
    if draft.cost is not None and (
        draft.cost.strip() == "" if sla.max_cost is None else cost == sla.max_cost
    ):
        empty["cost"] = None
    if draft.strategy == steering.strategy:
        empty["strategy"] = None
    return replace(draft, **empty)


def query(draft: WhatIfDraft) -> dict[str, str]:
    """Return the changed fields of a draft as URL query parameters."""
    parameters: dict[str, str] = {}
    if draft.budget is not None:
        parameters["budget"] = str(draft.budget)
    if draft.share is not None:
        parameters["share"] = str(draft.share)
    if draft.goal is not None:
        parameters["goal"] = draft.goal.strip() or NONE
    if draft.deadline is not None:
        at = draft.deadline_s
        parameters["deadline"] = draft.deadline if at is None else _iso(at)
    if draft.cost is not None:
        parameters["cost"] = draft.cost
    if draft.strategy is not None:
        parameters["strategy"] = draft.strategy
    if draft.weights:
        parameters["weights"] = ",".join(
            f"{_dotted(ids)}:{weight:g}" for ids, weight in draft.weights
        )
    return parameters


def from_query(parameters: Mapping[str, str], now_s: float) -> tuple[WhatIfDraft, tuple[str, ...]]:
    """Return the draft of URL query parameters, with messages on unreadable parts."""
    unread: list[str] = []

    def number(name: str) -> int | None:
        text = parameters.get(name)
        value = None if text is None else parse_number(text.strip())
        if text is not None and type(value) is not int:
            unread.append(f"{name}={text} in the address is not a whole number, so it is ignored.")
        return value if type(value) is int else None

    percent = None if parameters.get("share") == NONE else number("share")
    if percent is not None and not 0 <= percent <= 100:
        unread.append(f"share={percent} in the address is not from 0 to 100, so it is ignored.")
        percent = None
    goal, deadline = parameters.get("goal"), parameters.get("deadline")
    at_s = None if deadline is None else typed_deadline(deadline, now_s)
    weights, is_read = _parse_weights(parameters.get("weights", ""))
    if not is_read:
        unread.append("The weights in the address cannot be read, so they are ignored.")
    budget = number("budget")
    if budget is not None and budget < 0:
        unread.append(f"budget={budget} in the address is not a number of runs, so it is ignored.")
        budget = None
    draft = WhatIfDraft(
        budget=budget,
        share=NONE if parameters.get("share") == NONE else percent,
        goal="" if goal == NONE else goal,
        deadline=deadline if at_s is None else _iso(at_s),
        deadline_s=at_s,
        cost=parameters.get("cost"),
        strategy=parameters.get("strategy"),
        weights=weights,
    )
    return draft, tuple(unread)


NAMES: tuple[str, ...] = tuple(
    field.name for field in fields(WhatIfDraft) if field.name != "deadline_s"
)
"""Names of the parameters of an address."""


def _iso(at_s: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def _dotted(ids: tuple[int, ...]) -> str:
    return ".".join(map(str, ids))


def _parse_weights(text: str) -> tuple[tuple[tuple[tuple[int, ...], float], ...], bool]:
    weights: list[tuple[tuple[int, ...], float]] = []
    for part in filter(None, text.split(",")):
        dotted, _, number = part.partition(":")
        ids = [parse_number(entry) for entry in dotted.split(".")]
        weight = parse_number(number)
        if weight is None or not all(type(entry) is int for entry in ids):
            return (), False
        weights.append((tuple(int(entry) for entry in ids if entry is not None), float(weight)))
    return tuple(weights), True


Place = Literal["share", "budget", "deadline", "cost", "goal", "strategy", "weights"]
_Part = dict[str, Any]

_TIME = "Enter a time from now, such as 90s, 30m or 2h, or a moment in UTC such as {moment}."
_REMOVAL_HINT = "Enter a value. To remove a limit, use *Steering*."


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """Change whose effect is forecast, with error messages by field and notes on omitted parts."""

    change: SteeringChange
    refused: Mapping[Place, str]
    notes: tuple[str, ...]

    @property
    def is_asked(self) -> bool:
        """Whether the draft changes something and no field has an error."""
        return not self.refused and self.change != SteeringChange()


def question(draft: WhatIfDraft, experiment: Experiment, now_s: float) -> WhatIfQuestion:
    """Return the change that a draft describes, with field errors and notes on omitted parts.

    Each field is first checked by itself, so that a refusal stands beside its field.
    """
    refused: dict[Place, str] = {}
    parts: dict[str, Any] = {}
    for place, read in _READ.items():
        try:
            part = read(draft, experiment, now_s)
            if not part:
                continue
            with_share = {name: parts[name] for name in ("exploitation",) if name in parts}
            # weights need a share
            apply_change(experiment, now_s, SteeringChange(**with_share | part))
        except (AssistantError, StrategyError) as error:
            refused[place] = intents_sentence(error)
        else:
            parts |= part
    return WhatIfQuestion(SteeringChange(**parts), refused, tuple(_notes(draft, experiment)))


def _share(draft: WhatIfDraft, experiment: Experiment, _now_s: float) -> _Part:
    if draft.share is None or (draft.share != NONE and not experiment.regions):
        return {}
    return {"exploitation": None if draft.share == NONE else draft.share / 100}


def _budget(draft: WhatIfDraft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.budget == EMPTIED:
        raise SettingsError(_REMOVAL_HINT)
    return {} if draft.budget is None else {"max_runs": draft.budget}


def _deadline(draft: WhatIfDraft, _experiment: Experiment, now_s: float) -> _Part:
    if draft.deadline is None:
        return {}
    if not draft.deadline.strip():
        raise SettingsError(_REMOVAL_HINT)
    at_s = draft.deadline_s
    if at_s is None:
        raise SettingsError(_TIME.format(moment=moment(now_s + 3600)))
    if at_s <= now_s:
        raise SettingsError(f"{moment(at_s)} is in the past; enter a later time.")
    return {"deadline_s": at_s}


def _cost(draft: WhatIfDraft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.cost is None:
        return {}
    if not draft.cost.strip():
        raise SettingsError(_REMOVAL_HINT)
    return {"max_cost": _number(draft.cost)}


def _goal(draft: WhatIfDraft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.goal is None:
        return {}
    return {"goal": _number(draft.goal) if draft.goal.strip() else NONE}


def _strategy(draft: WhatIfDraft, _experiment: Experiment, _now_s: float) -> _Part:
    return {} if draft.strategy is None else {"strategy": draft.strategy}


def _weights(draft: WhatIfDraft, experiment: Experiment, _now_s: float) -> _Part:
    if not draft.weights or _share_then(draft, experiment) is None:
        return {}
    pairs = [(region_of(experiment, ids), weight) for ids, weight in draft.weights]
    weights = {region: weight for region, weight in pairs if region is not None}
    return {"weights": tuple(weights.items())} if weights else {}


_READ: Mapping[Place, Callable[[WhatIfDraft, Experiment, float], _Part]] = {
    "share": _share,
    "budget": _budget,
    "deadline": _deadline,
    "cost": _cost,
    "goal": _goal,
    "strategy": _strategy,
    "weights": _weights,
}


def _number(text: str) -> float:
    number = parse_number(text.strip())
    if number is None:
        raise SettingsError(f"'{text.strip()}' is not a number; use a decimal point and no commas.")
    return float(number)


def _share_then(draft: WhatIfDraft, experiment: Experiment) -> float | None:
    part = _share(draft, experiment, 0.0)
    share: float | None = part.get("exploitation", experiment.steering.exploitation)
    return share


def _notes(draft: WhatIfDraft, experiment: Experiment) -> Iterator[str]:
    if draft.share not in (None, NONE) and not experiment.regions:
        yield f"A share of {draft.share} % inside regions has no effect until there is a region."
    if draft.weights and _share_then(draft, experiment) is None:
        yield "Weights of regions take effect once a share of the runs is kept for regions."
    elif any(region_of(experiment, ids) is None for ids, _ in draft.weights):
        yield "A region with a weight no longer exists; its weight is ignored."


def region_of(experiment: Experiment, ids: tuple[int, ...]) -> int | None:
    """Return the current number of the region with a configuration, or None without one."""
    regions = experiment.regions
    space, radius = experiment.space, experiment.warning_policy.regions.radius
    sizes = [parameter.n_levels for parameter in space.parameters]
    if len(ids) != len(sizes) or not all(0 <= i < n for i, n in zip(ids, sizes, strict=True)):
        return None
    at = region_index(Configuration(ids, space.lineage), regions, space, radius)
    return None if at is None else regions[at].id


def parts_of(change: SteeringChange, experiment: Experiment) -> tuple[str, ...]:
    """Describe the new values of a change, with one text for each part."""
    parts: list[str] = []
    unit = experiment.opened.objective.unit
    if change.exploitation is None:
        parts.append("no share kept for regions")
    elif change.exploitation != "keep":
        parts.append(f"{100 * change.exploitation:g} % inside regions")
    if change.max_runs is not None:
        parts.append(f"{labels.runs(change.max_runs)} in all")
    if change.deadline_s is not None:
        parts.append(f"until {moment(change.deadline_s)}")
    if change.max_cost is not None:
        tariff = experiment.sla.tariff
        cost = number_text(change.max_cost) if tariff is None else tariff.amount(change.max_cost)
        parts.append(f"a cost of {cost} in all")
    if change.goal == NONE:
        parts.append("no goal")
    elif change.goal is not None:
        parts.append(f"a goal of {number_text(change.goal)} {unit}".rstrip())
    if change.strategy is not None:
        parts.append(f"strategy {change.strategy}")
    parts += [f"region {region} with weight {weight:g}" for region, weight in change.weights]
    return tuple(parts)


def in_force(experiment: Experiment) -> SlaAndSteering:
    """Return the current SLA and steering of an experiment."""
    return experiment.sla, experiment.steering


def changed_since(terms: SlaAndSteering, experiment: Experiment) -> tuple[str, ...]:
    """Describe how the current SLA and steering differ from ``terms``."""
    (sla, steering), sentences = terms, list[str]()
    now, tariff = experiment.sla, experiment.sla.tariff

    def note(subject: str, was: str, is_now: str) -> None:
        if was != is_now:
            sentences.append(f"{subject} {was} before, {is_now} now")

    def runs(limit: int | None) -> str:
        return "no limit" if limit is None else labels.runs(limit)

    def at(at_s: float | None) -> str:
        return "none" if at_s is None else moment(at_s)

    note("budget:", runs(sla.max_runs), runs(now.max_runs))
    note("deadline:", at(sla.deadline_s), at(now.deadline_s))
    note(
        "goal:",
        *(
            "none" if sla_version.goal is None else number_text(sla_version.goal)
            for sla_version in (sla, now)
        ),
    )
    note(
        "cost:",
        *(
            "no limit" if sla_version.max_cost is None else sla_version.cost_text
            for sla_version in (sla, now)
        ),
    )
    note("strategy:", str(steering), str(experiment.steering))
    if not sentences and terms != in_force(experiment):
        subject = "the price of a run" if tariff != sla.tariff else "the SLA"
        sentences.append(f"{subject} has changed")
    return tuple(sentences)


def hindrance(change: SteeringChange, experiment: Experiment, now_s: float) -> str:
    """Return why a change can be forecast but not applied, or empty text without a reason."""
    if experiment.finished is not None:
        return (
            f"This experiment is finished ({experiment.finished.reason}). The page shows the "
            "forecast as if it continued. To apply a change, reopen it in Steering."
        )
    used = experiment.n_charged
    if change.max_runs is not None and change.max_runs <= used:
        return f"{labels.runs(used)} are used; a budget of {change.max_runs} leaves no run."
    over = passed_limit(apply_change(experiment, now_s, change), now_s)
    if over is not None and changed_sla(experiment, change) != experiment.sla:
        return f"With this SLA no run is left: {over}."
    return ""


def apply(
    session: SteerableSession, draft: WhatIfDraft, terms: SlaAndSteering, parts: tuple[str, ...]
) -> None:
    """Apply all changes of a what-if draft to the session, or none.

    ``terms`` and ``parts`` are what the user confirmed. Everything is checked before the first
    event is written: SLA, steering, then weights, in the order of the command line.

    Raises:
        FormFieldError: the experiment has changed since; nothing is changed then.
        VersionConflictError: another decision was made in the same instant.
        AssistantError, StrategyError: the change is refused.
    """
    session.catch_up()
    latest, now_s = session.experiment, session.now_s()
    latest_question = question(draft, latest, now_s)
    is_same = in_force(latest) == terms
    if not is_same or latest_question.refused or parts_of(latest_question.change, latest) != parts:
        raise FormFieldError(
            "what-if", "The experiment has changed meanwhile, so nothing was applied. Check again."
        )
    change = latest_question.change
    hindered = hindrance(change, latest, now_s)
    if hindered:
        raise FormFieldError("what-if", hindered)
    apply_change(latest, now_s, change)  # raises before the first event if any part is refused
    with session.only_on(latest.version):
        sla = changed_sla(latest, change)
        if sla != latest.sla:
            session.change_budget(sla)
        if change.strategy is not None or change.exploitation != "keep":
            session.change_strategy(change.strategy, None, change.exploitation)
        for ids, weight in draft.weights if change.weights else ():
            region = region_of(session.experiment, ids)  # region numbers may have changed
            if region is not None:
                session.weigh_region(region, weight)

"""Comparison on *What if*: tiles, tables and charts of the present and the changed experiment."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant.analysis.what_if import WhatIfSide, sentence
from assistant.core.experiment import Experiment
from assistant.core.forecast import MOST_LEFT, Forecast, Interval, band_words, percent
from assistant.presentation.charts import forecast
from assistant.presentation.charts.forecast import ChanceBand, Destination, ForecastCurve
from assistant.presentation.report.data import run_points
from assistant.presentation.text.forecast import ForecastSubject, clock, count, figures
from assistant.presentation.text.number_format import level, number, quantity
from assistant.ui import labels
from assistant.ui.charting import low, wide
from strategies import Region, Suggestion, find_regions
from strategies.steering.regions import good_configurations

UNKNOWN = "unknown"
_REGIONS_KEY = "what-if-regions"
LEFT_OVER = "left to the strategy"
_GOOD = {
    "quantile": "the best {share} of the results",
    "threshold": "results of {value} or better",
    "verdicts": "results that you rated good",
}
_PENDING = {
    "near": "configurations without a result near the good ones",
    "queued": "runs that wait inside",
    "box": "configurations without a result within the bounds",
    "plan": "what is left of the plan, wherever it lies, so that none is counted here",
}


def sides_section(
    experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None, changes: Sequence[str]
) -> None:
    """Draw both sides; without a change ``then`` is None."""
    later = now if then is None else then
    if then is None:
        st.info(
            "Nothing is changed yet, so this is how things are. Move a field, and what would come "
            "of it is shown here at once.",
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
    st.markdown("**Where the runs that are left would go**")
    _destinations(experiment, now, then)
    subject = ForecastSubject.of(experiment)
    title = labels.measure_title(subject.measure, subject.unit)
    st.markdown("**Best so far, and what may come**")
    if now.forecast.fan or later.forecast.fan:
        _fans(experiment, now, then, title)
    else:
        why = later.forecast.silence or "how many runs are left is not known"
        st.caption(f"It is drawn once a forecast can be told. Now it cannot: {why}.")
    _chances(now, then)
    with st.expander("As a table"):
        table = table_of(experiment, now, then)
        st.dataframe(table, hide_index=True, width="stretch", alt="now and then, side by side")


def table_of(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> pd.DataFrame:
    """Return the table of both sides; one column without a change."""
    subject = ForecastSubject.of(experiment)
    best = _best_title(now.forecast if then is None else then.forecast)
    sides = {"now": now} if then is None else {"now": now, "then": then}
    rows = ["Chance of the goal", "Runs left", best, "Over by about"]
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

    best_said = "The middle of the futures."
    if later.best is not None:
        best_said = f"The middle of the futures; {subject.values(later.best)}."
    tiles = (
        ("Chance of the goal", _chance_cell, "Of studies that looked like this one."),
        ("Runs left", _left_cell, "Further runs that can end within the agreement."),
        (_best_title(later), best, best_said),
        ("Over by about", _end_cell, "When the runs that are left would be over; most likely."),
    )  # fmt: skip
    with st.container(horizontal=True):
        for label, cell, help_text in tiles:
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
    space = experiment.space
    return pd.DataFrame(
        {
            **{
                labels.column(p): level(space.values(suggestion.configuration)[p.name])
                for p in space.parameters
            },
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
        for current_region in regions_of(experiment)
    ]
    return (*rows, Destination(LEFT_OVER, now.outside, later.outside))


def _destinations(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> None:
    rows = _rows(experiment, now, then)
    later = now if then is None else then
    if later.outside is None:
        st.caption(
            "How many runs are left is not known, so that they cannot be divided. Agree on a "
            "number of runs to see it."
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
                f"{when} {number(end.median)} in the middle after {labels.runs(end.runs)} more, "
                f"from {number(end.low)} to {number(end.high)}"
            )
    alt = f"{title} to come: {'; '.join(parts)}"
    st.vega_lite_chart(wide(spec), theme=None, width="stretch", alt=alt)
    caption = "Dashed is the middle of the futures, the area holds 8 of 10 of them"
    st.caption(
        f"{caption}." if then is None else f"{caption}: now in grey (dotted), then in copper."
    )


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


def regions_of(experiment: Experiment) -> tuple[Region, ...]:
    """Return the current regions, best mean first, computed once for each state."""
    state = (experiment.opened.experiment_id, experiment.n_events)
    cached: tuple[object, tuple[Region, ...]] | None = st.session_state.get(_REGIONS_KEY)
    if cached is None or cached[0] != state:
        cached = (state, find_regions(experiment.knowledge, experiment.watch.regions))
        st.session_state[_REGIONS_KEY] = cached
    return cached[1]


def name_of(experiment: Experiment, region: Region) -> str:
    """Return the number of a region with its levels."""
    return f"region {region.id}: {labels.box_words(experiment.space, region.box)}"


def regions_table(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> pd.DataFrame:
    """Return the table of regions: levels, number of members, and runs that go there."""
    objective = experiment.opened.objective
    counted = {entry.id: entry for entry in now.forecast.paper.regions}
    later = {entry.region: entry for entry in (now if then is None else then).inside}

    def value(quality: float) -> str:
        return number(objective.value_of(quality))

    title = labels.measure_title(str(objective.wrapper), objective.unit)
    return pd.DataFrame(
        {
            "region": region.id,
            "where": labels.box_words(experiment.space, region.box),
            "good ones": len(region.members),
            "evaluated": region.evaluated,
            "pending": _runs_cell(counted[region.id].pending),
            f"mean {title}": value(counted[region.id].mean),
            "best": value(counted[region.id].best),
            "weight": f"{later[region.id].weight:g}" if region.id in later else "no share",
        }
        for region in regions_of(experiment)
    )


def pending_words(experiment: Experiment) -> str:
    """Return an explanation of the columns of the table."""
    return (
        "Good ones are the configurations that make the region, evaluated all results in it; "
        f"pending are {_PENDING[experiment.watch.pending]}. The weight is that of the division."
    )


def region_rule_words(experiment: Experiment) -> str:
    """Return how regions are found, and what is missing while there is none."""
    rule, objective = experiment.watch.regions, experiment.opened.objective
    at = None if rule.threshold is None else objective.value_of(rule.threshold)
    good = _GOOD[rule.good].format(
        share=f"{100 * rule.quantile:g} %", value=quantity(at, objective.unit)
    )
    n = len(good_configurations(experiment.knowledge.observations, rule))
    so_far = f"{n} of the configurations {'is' if n == 1 else 'are'} good"
    missing = (
        f"{rule.min_samples - n} more good {'one is' if rule.min_samples - n == 1 else 'ones are'} "
        "needed at least"
        if n < rule.min_samples
        else "they do not lie close enough together yet"
    )
    return (
        f"A region is a place where good results lie close together: {rule.min_samples} or more of "
        f"them, each within {rule.radius:g} level steps of the next (one step is one level up or "
        f"down in one parameter). Good are {good}. So far {so_far}; {missing}."
    )

"""The forecast in the browser: the banner of every page, its tiles, and what may come.

The banner is drawn anew each second: a forecast is computed once for a state and a second.
"""

import time

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.chances import band_words, percent
from assistant.forecast import forecast
from assistant.forecasts import MOST_LEFT, FanPoint, Forecast
from assistant.report import ReportData, drawings
from assistant.report.course import ForecastSection
from assistant.report.outlook import (
    Subject,
    Verdict,
    clock,
    end_words,
    figures,
    headline,
    paper_words,
    sentences,
    term_words,
    verdict_of,
)
from assistant.report.words import number
from assistant.ui import words
from assistant.ui.charting import low, wide

_KEPT = "forecast"
_SHOWN: dict[Verdict, tuple[str, str]] = {
    "silent": ("info", ":material/hourglass_top:"),
    "reached": ("success", ":material/flag:"),
    "missed": ("error", ":material/block:"),
    "nearly_used": ("warning", ":material/hourglass_bottom:"),
    "very_likely_miss": ("error", ":material/error:"),
    "likely_miss": ("warning", ":material/warning:"),
    "open": ("info", ":material/balance:"),
    "on_track": ("success", ":material/trending_up:"),
}
"""How a box looks by the verdict; the words say the same."""


def seen_now(experiment: Experiment) -> Forecast:
    """Return the forecast of this second, computed once for each state of the experiment."""
    now_s = time.time()
    key = (experiment.opened.experiment_id, experiment.n_events, int(now_s))
    kept = st.session_state.get(_KEPT)
    if kept is None or kept[0] != key:
        kept = (key, forecast(experiment, now_s))
        st.session_state[_KEPT] = kept
    told: Forecast = kept[1]
    return told


def banner(experiment: Experiment) -> None:
    """Draw how the goal stands, in a box with words and an icon; without a goal in a line."""
    seen, subject = seen_now(experiment), Subject.of(experiment)
    verdict, text = verdict_of(seen), headline(subject, seen)
    if verdict == "no_goal":
        st.markdown(f":material/flag: {text}")
    else:
        kind, icon = _SHOWN[verdict]
        first, stop, rest = text.partition(". " if verdict == "nearly_used" else ": ")
        strong = f"**{first}{stop.rstrip()}** {rest}" if rest else f"**{text}**"
        getattr(st, kind)(strong, icon=icon)
    cautions = "".join(f" Caution: {caution}." for caution in seen.cautions)
    st.caption(f"{paper_words(seen.paper)}{cautions}")


def tiles(experiment: Experiment) -> None:
    """Draw runs left, chance, what the best may come to, and when that is over."""
    seen, subject = seen_now(experiment), Subject.of(experiment)
    if seen.is_over or (not seen.terms and seen.goal is None):
        return
    with st.container(horizontal=True):
        terms = "  \n".join(term_words(subject, term, seen.at_s) for term in seen.terms)
        st.metric(
            "Runs left", figures(seen.remaining).partition(" (")[0], border=True, height="stretch",
            help=terms or "No term of the agreement limits the runs.",
        )  # fmt: skip
        _chance(subject, seen)
        best = (
            f"Best expected in {MOST_LEFT} runs" if seen.is_beyond else "Best expected at the end"
        )
        if seen.best is None:
            st.metric(best, "unknown", border=True, height="stretch")
        else:
            told, _, band = subject.values(seen.best).partition(" (")
            st.metric(
                best, told, band.partition(" in 8")[0] or None,
                delta_color="off", delta_arrow="off", border=True, height="stretch",
                help="The middle of the futures, and what 8 of 10 of them lie in.",
            )  # fmt: skip
        left = seen.seconds_left
        over = None if left is None or left.median is None else clock(
            seen.at_s + left.median, seen.at_s)  # fmt: skip
        st.metric(
            "Over by about", over or "unknown", border=True, height="stretch",
            help=end_words(seen),
        )  # fmt: skip


def _chance(subject: Subject, seen: Forecast) -> None:
    goal = seen.goal
    if goal is None or verdict_of(seen) == "reached":
        return
    chance = "unknown" if goal.chance is None else percent(goal.chance)
    horizon = f"within the next {MOST_LEFT} runs" if seen.is_beyond else "with the runs left"
    band = None if goal.band is None or goal.chance is None else band_words(goal.band)
    st.metric(
        "Chance of the goal", chance, band, delta_color="off", delta_arrow="off", border=True,
        height="stretch",
        help=f"To reach {subject.value(goal.goal)} {horizon}; below it the band by the space.",
    )  # fmt: skip


def section(experiment: Experiment, data: ReportData, title: str) -> bool:
    """Draw best so far with what may come, as charts and a table. Returns whether there is any."""
    told = data.forecast
    if told is None or not told.fan:
        return False
    subject = Subject.of(experiment)
    st.subheader("Best so far, and what may come")
    bar = drawings.chance_bar(told)
    if bar is not None and told.chance is not None and told.band is not None:
        alt = f"chance {percent(told.chance)}, {band_words(told.band)} depending on the space"
        st.vega_lite_chart(low(bar), theme=None, width="stretch", alt=alt)
    _drawn_fan(data, told, title)
    for sentence in sentences(subject, seen_now(experiment)):
        st.markdown(sentence)
    with st.expander("As a table"):
        table = fan_table(told.fan, title, told.at_s)
        st.dataframe(table, hide_index=True, width="stretch", alt="the best to come")
    return True


def _drawn_fan(data: ReportData, told: ForecastSection, title: str) -> None:
    over_runs = drawings.fan(data, told, title)
    if over_runs is None:
        return
    end = told.fan[-1]
    alt = (
        f"{title} to come: {number(end.median)} in the middle after {words.runs(end.runs)} more, "
        f"from {number(end.low)} to {number(end.high)}"
    )
    st.vega_lite_chart(wide(over_runs), theme=None, width="stretch", alt=alt)
    over_time = drawings.over_time(data, told, title)
    if over_time is not None:
        st.vega_lite_chart(
            wide(over_time), theme=None, width="stretch", alt=f"{alt}, until the deadline"
        )
    goes_on = "; its better end goes on outside of the picture" if drawings.fan_goes_on(
        data, told) else ""  # fmt: skip
    st.caption(
        f"The dashed line is the middle of the futures, the area holds 8 of 10 of them{goes_on}."
    )


def fan_table(fan: tuple[FanPoint, ...], title: str, at_s: float) -> pd.DataFrame:
    """Return the best to come as it is shown; ``title`` names the value with its unit."""
    return pd.DataFrame(
        {
            "further runs": point.runs,
            "by": "unknown" if point.seconds is None else clock(at_s + point.seconds, at_s),
            f"1 in 10 better than [{title}]": number(point.low),
            "middle": number(point.median),
            "1 in 10 worse than": number(point.high),
        }
        for point in fan
    )

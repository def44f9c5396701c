"""The forecast in the browser: the banner of every page, its tiles, and what may come.

The banner is drawn anew each second: a forecast is computed once for a state and a second.
"""

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.chances import band_words, percent
from assistant.forecasts import MOST_LEFT, FanPoint, Forecast
from assistant.report.outlook import (
    Subject,
    Verdict,
    clock,
    end_words,
    figures,
    headline,
    paper_words,
    term_words,
    verdict_of,
)
from assistant.report.words import number

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


def banner(experiment: Experiment, seen: Forecast) -> None:
    """Draw how the goal stands, in a box with words and an icon; without a goal in a line."""
    subject = Subject.of(experiment)
    verdict, text = verdict_of(seen), headline(subject, seen)
    if verdict == "no_goal":
        st.markdown(f":material/flag: {text}")
    else:
        kind, icon = _SHOWN[verdict]
        first, stop, rest = text.partition(". " if verdict == "nearly_used" else ": ")
        strong = f"**{first}{stop.rstrip()}** {rest}" if rest else f"**{text}**"
        getattr(st, kind)(strong, icon=icon)
    if verdict == "no_goal" and seen.paper.shortfall is None:
        return  # nothing was agreed, and the rule has nothing to say
    cautions = "".join(f" Caution: {caution}." for caution in seen.cautions)
    st.caption(f"{paper_words(seen.paper)}{cautions}")


def tiles(experiment: Experiment, seen: Forecast) -> None:
    """Draw runs left, chance, what the best may come to, and when that is over."""
    subject = Subject.of(experiment)
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

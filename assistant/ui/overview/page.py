"""Overview: will it do, how far is it, what is best so far, and what may come of the rest."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant import Experiment, RunState, Standing
from assistant.charts import RunPoint, best_so_far
from assistant.charts_forecast import best_over_time, best_with_fan
from assistant.forecasts import Forecast
from assistant.report.agreement import agreement
from assistant.report.data import run_points
from assistant.report.outlook import Subject, sentences
from assistant.report.words import number, quantity
from assistant.ui import outlook, words
from assistant.ui.bar import IDLE_S, LIVE_S
from assistant.ui.charting import wide
from assistant.ui.desk import SharedDesk
from assistant.ui.intents import Intent
from assistant.ui.overview import finding, front, runs, trust

CHART_S = 5.0
"""How often the chart is drawn anew while runs execute."""


def page(desk: SharedDesk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants."""
    is_live = desk.seen.is_live
    st.fragment(_numbers, run_every=LIVE_S if is_live else IDLE_S)(desk)
    wanted = _next(experiment, is_live=is_live)
    st.fragment(_finding, run_every=CHART_S if is_live else None)(desk)
    st.fragment(_course, run_every=CHART_S if is_live else None)(desk)
    front.section(experiment)
    st.subheader("Every run")
    intent = runs.section(desk, experiment)
    trust.section(experiment)
    return intent or wanted


def _next(experiment: Experiment, *, is_live: bool) -> Intent | None:
    """Say what to do next, where it is for the person to do it, with a button that goes there."""
    if is_live or experiment.finished is not None:
        return None
    if experiment.open_advice is not None:
        text, label, page = "A warning waits for your answer.", "Answer the warning", "suggestions"
    elif experiment.remaining_runs == 0:
        text, label, page = "The budget is used up.", "Read the report", "report"
    elif experiment.waiting or experiment.automatic is not None:
        return None  # the bar above has the button
    elif experiment.open_batch is not None:
        text, label, page = "Suggestions wait for you.", "Look at them", "suggestions"
    else:
        text, label, page = "Nothing waits to be run.", "Choose what runs next", "suggestions"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/arrow_forward: {text}", width="content")
        if st.button(label, type="primary", key="next"):
            return Intent("run", lambda: "", then=page)
    return None


def _numbers(desk: SharedDesk) -> None:
    """Draw the banner and the tiles. Holds no input, so that nothing typed is lost."""
    experiment = desk.refresh().experiment
    seen = desk.forecast()
    outlook.banner(experiment, seen)
    done = len(experiment.runs_in(RunState.COMPLETED))
    limit = experiment.sla.max_runs
    with st.container(horizontal=True):
        st.metric(
            "Runs completed",
            f"{done}" if limit is None else f"{done} of {limit}",
            border=True,
            height="stretch",
        )
        _best(experiment)
        waiting = len(experiment.runs_in(RunState.QUEUED))
        running = len(experiment.runs_in(RunState.RUNNING))
        st.metric("Running · waiting", f"{running} · {waiting}", border=True, height="stretch")
        taken = experiment.confidence
        text = "unknown" if taken is None else f"{taken:.0%}"
        st.metric(
            "Suggestions taken", text, border=True, height="stretch",
            help="Share of the suggestions that were submitted unchanged (confidence).",
        )  # fmt: skip
        _agreed(experiment)
    outlook.tiles(experiment, seen)
    if limit:
        st.progress(min(1.0, experiment.n_charged / limit))


def _finding(desk: SharedDesk) -> None:
    """Draw what was found so far."""
    finding.section(desk.experiment)


def _course(desk: SharedDesk) -> None:
    """Draw the best so far with what may come, as charts and a table."""
    experiment = desk.experiment
    seen, points = desk.forecast(), run_points(experiment)
    objective = experiment.opened.objective
    title = words.titled(str(objective.wrapper), objective.unit)
    st.subheader("Best so far, and what may come")
    if not points:
        st.info(
            "Nothing has completed yet, so nothing is known. Submit runs on the page "
            "*Suggestions*, or let it steer itself on *Steering*."
        )
        return
    today = None if experiment.baseline is None else experiment.standing(experiment.baseline)
    today_value = None if today is None else today.outcome.value
    if len(seen.fan) > 1 and not seen.is_over:
        _fan(experiment, seen, points, today_value, title)
    else:
        best = number(points[-1].best)
        st.vega_lite_chart(
            wide(best_so_far(points, today_value, title)),
            theme=None,
            width="stretch",
            alt=f"{title} of {len(points)} runs in order of completion; best {best}",
        )
    with st.expander("As a table"):
        st.dataframe(
            course_table(points, title), hide_index=True, width="stretch", alt="best so far"
        )
        if len(seen.fan) > 1:
            table = outlook.fan_table(seen.fan, title, seen.at_s)
            st.dataframe(table, hide_index=True, width="stretch", alt="the best to come")


def _fan(
    experiment: Experiment,
    seen: Forecast,
    points: Sequence[RunPoint],
    today: float | None,
    title: str,
) -> None:
    goal = None if seen.goal is None else seen.goal.goal
    left = None if seen.remaining is None else seen.remaining.median
    end = seen.fan[-1]
    alt = (
        f"{title} of {len(points)} runs, best {number(points[-1].best)}; to come: "
        f"{number(end.median)} in the middle after {words.runs(end.runs)} more, "
        f"from {number(end.low)} to {number(end.high)}"
    )
    over_runs = best_with_fan(points, seen.fan, today=today, goal=goal, end=left, title=title)
    st.vega_lite_chart(wide(over_runs), theme=None, width="stretch", alt=alt)
    deadline_s = experiment.sla.deadline_s
    if deadline_s is not None:
        over_time = best_over_time(
            points, seen.fan, now_s=seen.at_s, goal=goal, deadline_s=deadline_s, title=title
        )
        st.vega_lite_chart(
            wide(over_time), theme=None, width="stretch", alt=f"{alt}, until the deadline"
        )
    st.caption("The dashed line is the middle of the futures, the area holds 8 of 10 of them.")
    for sentence in sentences(Subject.of(experiment), seen):
        st.markdown(sentence)


def course_table(points: Sequence[RunPoint], title: str) -> pd.DataFrame:
    """Return the completed runs in their order, with the best until then."""
    return pd.DataFrame(
        {
            "completed": point.order,
            "run": point.run_id,
            title: number(point.value),
            "best until then": "none" if point.best is None else number(point.best),
            "constraints": "met" if point.feasible else "violated",
            "chosen by": words.SOURCES[point.source],
        }
        for point in reversed(points)
    )


def _agreed(experiment: Experiment) -> None:
    """Draw what was used of cost and goal, where they are agreed."""
    tariff = experiment.sla.tariff
    for use in agreement(experiment):
        if use.term == "cost" and tariff is not None:
            spent = quantity(use.used, "")
            text = spent if use.limit is None else f"{spent} of {number(use.limit)}"
            text = f"{text} {tariff.unit}".rstrip()
            st.metric("Cost", text, border=True, height="stretch", help=f"{tariff}: {use.told}")
        if use.term == "goal":
            said = "open" if use.run is None else f"run {use.run}"
            st.metric(
                "Goal", said, use.agreed, delta_color="off", delta_arrow="off", border=True,
                height="stretch", help=f"{use.agreed}: {use.told}",
            )  # fmt: skip
        if use.term == "run_limit":
            longest = "unknown" if use.used is None else quantity(use.used, "s").partition(" (")[0]
            st.metric(
                "Longest run", longest, use.agreed, delta_color="off", delta_arrow="off",
                border=True, height="stretch", help=use.told,
            )  # fmt: skip


def _best(experiment: Experiment) -> None:
    unit = experiment.opened.objective.unit
    best = None if experiment.best is None else experiment.standing(experiment.best)
    today = None if experiment.baseline is None else experiment.standing(experiment.baseline)
    if best is None:
        st.metric("Best so far", "unknown", border=True, height="stretch")
        return
    delta, colour = None, "off"
    old = None if today is None else today.outcome
    if not best.outcome.feasible:
        delta = "violates a constraint"
    elif today is not None and best.configuration == today.configuration:
        delta = "today's configuration"
    elif old is not None and not old.feasible:
        delta, colour = "meets every constraint, today does not", "normal"
    elif old is not None and old.quality:
        share = (best.outcome.quality - old.quality) / abs(old.quality)
        delta = (
            f"{share:+.1%} better than today" if share >= 0 else f"{-share:.1%} worse than today"
        )
        colour = "normal" if share >= 0 else "inverse"
    st.metric(
        "Best so far",
        quantity(best.outcome.value, unit).partition(" (")[0],
        delta,
        delta_color=colour,  # type: ignore[arg-type]
        delta_arrow="off",
        border=True,
        height="stretch",
        help=_best_help(experiment, best),
    )


def _best_help(experiment: Experiment, best: Standing) -> str:
    """Say which run it is, of how many it is the mean, and by which of two measures it is best."""
    mean = "" if best.n == 1 else f", mean of {words.runs(best.n)}"
    text = f"run {best.run.id}{mean}: {words.settings_of(experiment.space, best.configuration)}"
    if experiment.opened.objective.second is None:
        return text
    front = f"{len(experiment.front)} on the front, see *Learn*"
    return f"{text}. By {experiment.opened.objective.wrapper}, the first of two measures; {front}."

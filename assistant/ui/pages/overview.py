"""The *Overview* page: how far it is, the best so far, what to change, what matters, every run."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast
from assistant.core.run import ConfigurationSummary, RunState
from assistant.presentation.charts.forecast import best_with_fan
from assistant.presentation.charts.vega_lite import RunPoint, Spec, best_so_far
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.experiment_summary import gain_words
from assistant.presentation.text.comparison import compare_best
from assistant.presentation.text.forecast import (
    ForecastSubject,
    GoalVerdict,
    clock,
    headline,
    verdict_of,
)
from assistant.presentation.text.number_format import duration, number
from assistant.ui import labels
from assistant.ui.charting import wide
from assistant.ui.intents import Intent, answer_at
from assistant.ui.pages import overview_diagnostics, overview_results, suggestions
from assistant.ui.state import ExperimentSnapshot, ExperimentViewModel
from assistant.ui.status_bar import IDLE_S, LIVE_S, is_answering

CHART_S = 5.0
_TILES = "overview-tiles"
_NARROW_TILES = f"""<style>
@media (max-width: 1000px) {{
  .st-key-{_TILES} {{ flex-wrap: nowrap; gap: 0.5rem; }}
  .st-key-{_TILES} > div {{ min-width: 0 !important; flex: 1 1 0 !important; }}
}}
</style>"""
"""Style that keeps the tiles in one row on a phone, so that the first chart is on its screen."""

_VERDICT_ICONS: dict[GoalVerdict, str] = {
    "silent": ":material/hourglass_top:",
    "reached": ":green[:material/flag:]",
    "missed": ":red[:material/block:]",
    "nearly_used": ":orange[:material/hourglass_bottom:]",
    "very_likely_miss": ":red[:material/error:]",
    "likely_miss": ":orange[:material/warning:]",
    "open": ":material/balance:",
    "on_track": ":green[:material/trending_up:]",
}
"""Icon by verdict; its words say the same."""


def page(view_model: ExperimentViewModel, experiment: Experiment) -> Intent | None:
    """Draw the overview page and return the action of the pressed button, or None."""
    is_live = view_model.snapshot.is_live
    intent = _answer(view_model, experiment)
    st.html(_NARROW_TILES)
    st.fragment(_numbers, run_every=LIVE_S if is_live else IDLE_S)(view_model)
    st.fragment(_charts, run_every=CHART_S if is_live else None)(view_model)
    overview_results.front_section(experiment)
    intent = overview_results.runs_section(view_model, experiment) or intent
    overview_diagnostics.diagnostics_section(view_model, experiment)
    return intent


def _answer(view_model: ExperimentViewModel, experiment: Experiment) -> Intent | None:
    """Draw the open warning with its answers once the user wants to answer it."""
    if is_answering(experiment):
        return suggestions.warning_section(view_model, experiment)
    answer_at("advice")  # where the section was until it was answered
    return None


def _numbers(view_model: ExperimentViewModel) -> None:
    """Draw the tiles and the goal. This fragment has no input, so a redraw loses no typed text."""
    snapshot = view_model.refresh()
    experiment, forecast = snapshot.experiment, view_model.forecast()
    with st.container(horizontal=True, key=_TILES):
        _best_tile(experiment)
        _runs_tile(experiment)
        _left_tile(snapshot, forecast)
    if forecast.goal is not None:
        text = headline(ForecastSubject.of(experiment), forecast)
        first, stop, rest = text.partition(": ")
        strong = f"**{first}{stop.rstrip()}** {rest}" if rest else f"**{text}**"
        st.markdown(f"{_VERDICT_ICONS[verdict_of(forecast)]} {strong}")


def _best_tile(experiment: Experiment) -> None:
    best = None if experiment.best is None else experiment.summary(experiment.best)
    if best is None:
        st.metric("Best", "none yet", border=True, height="stretch")
        return
    compared = compare_best(experiment)
    is_better = compared is not None and compared.is_better and best.outcome.feasible
    st.metric(
        "Best",
        labels.value_words(best.outcome.value, experiment.opened.objective.unit),
        gain_words(experiment) or None,
        delta_color="normal" if is_better else "off",
        delta_arrow="off",
        border=True,
        height="stretch",
        help=_best_help(experiment, best),
    )


def _best_help(experiment: Experiment, best: ConfigurationSummary) -> str:
    mean = "" if best.n == 1 else f", mean of {labels.runs(best.n)}"
    text = f"Run {best.run.id}{mean}: {labels.settings_of(experiment.space, best.configuration)}"
    if experiment.opened.objective.second is None:
        return text
    front = f"{len(experiment.front)} on the Pareto front, see below"
    return f"{text}. By {experiment.opened.objective.wrapper}, the first of two measures; {front}."


def _runs_tile(experiment: Experiment) -> None:
    done, limit = experiment.n_ended, experiment.sla.max_runs
    failed, running, queued = (
        experiment.n_in(state) for state in (RunState.FAILED, RunState.RUNNING, RunState.QUEUED)
    )
    waiting = len(experiment.waiting)
    counts = (
        (running, "running"), (waiting, "waiting"), (queued - waiting, "held"), (failed, "failed")
    )  # fmt: skip
    st.metric(
        "Runs used",
        f"{done:,}" if limit is None else f"{done:,} of {limit:,}",
        ", ".join(f"{n:,} {word}" for n, word in counts if n) or None,
        delta_color="off",
        delta_arrow="off",
        border=True,
        height="stretch",
    )


def _left_tile(snapshot: ExperimentSnapshot, forecast: Forecast) -> None:
    label, value, more = time_or_runs_left(snapshot, forecast)
    st.metric(
        label, value, more or None, delta_color="off", delta_arrow="off", border=True,
        height="stretch",
    )  # fmt: skip


def time_or_runs_left(snapshot: ExperimentSnapshot, forecast: Forecast) -> tuple[str, str, str]:
    """Return label, value and a second line: the time that is left, otherwise the runs.

    Of an experiment that is over, it is the time that its runs took.
    """
    experiment = snapshot.experiment
    left, deadline_s = experiment.runs_left, experiment.sla.deadline_s
    if snapshot.state.is_over:
        return "Time used", _time_used(experiment), ""
    runs = "" if left is None else f"{labels.runs(left)} left"
    if deadline_s is not None:
        to_go_s = max(0.0, deadline_s - forecast.at_s)
        return "Time left", duration(round(to_go_s)), runs or f"until {clock(deadline_s, 0.0)}"
    seconds = None if forecast.seconds_left is None else forecast.seconds_left.median
    if seconds is not None:
        return "Time left", f"about {duration(max(1, round(seconds)))}", runs
    return "Runs left", "no limit" if left is None else f"{left:,}", ""


def _time_used(experiment: Experiment) -> str:
    started = [run.started_s for run in experiment.runs if run.started_s is not None]
    ended = [run.ended_s for run in experiment.runs if run.ended_s is not None]
    if not started or not ended:
        return "none"
    used_s = max(ended) - min(started)
    return duration(round(used_s)) if used_s >= 1 else "below 1 s"


def _charts(view_model: ExperimentViewModel) -> None:
    _progress_chart(view_model)
    overview_results.findings_section(view_model.experiment)


def _progress_chart(view_model: ExperimentViewModel) -> None:
    experiment = view_model.experiment
    forecast, points = view_model.forecast(), run_points(experiment)
    objective = experiment.opened.objective
    title = labels.measure_title(str(objective.wrapper), objective.unit)
    if not points:
        st.info(
            "The chart begins with the first result. Start the runs, or choose them on "
            "*Suggestions*."
        )
        return
    baseline = None if experiment.baseline is None else experiment.summary(experiment.baseline)
    baseline_value = None if baseline is None else baseline.outcome.value
    is_drawn_on = len(forecast.fan) > 1 and not forecast.is_over
    st.markdown("**Best so far, and what may come**" if is_drawn_on else "**Best so far**")
    if is_drawn_on:
        chart = _with_future(forecast, points, baseline_value, title)
        end = forecast.fan[-1]
        future = (
            f"; forecast: median {number(end.median)} after {labels.runs(end.runs)} more, "
            f"from {number(end.low)} to {number(end.high)}"
        )
    else:
        chart, future = best_so_far(points, baseline_value, title), ""
    st.vega_lite_chart(
        wide(chart),
        theme=None,
        width="stretch",
        alt=f"{title} of {labels.runs(len(points))} in order of completion; best "
        f"{number(points[-1].best)}{future}",
    )
    if is_drawn_on:
        st.caption("Dashed line: the median of simulated futures. Area: 8 of 10 of them.")
    table = st.expander("As a table", key="overview-course", on_change="rerun")
    if table.open:
        with table:
            st.dataframe(
                course_table(points, title, bool(objective.constraints)),
                hide_index=True,
                width="stretch",
                lazy=True,
                alt="best so far",
            )


def _with_future(
    forecast: Forecast, points: Sequence[RunPoint], baseline: float | None, title: str
) -> Spec:
    goal = None if forecast.goal is None else forecast.goal.goal
    left = None if forecast.remaining is None else forecast.remaining.median
    return best_with_fan(points, forecast.fan, baseline=baseline, goal=goal, end=left, title=title)


def course_table(points: Sequence[RunPoint], title: str, constrained: bool) -> pd.DataFrame:
    """Return the table of completed runs in order of completion, with the best so far.

    ``constrained`` says whether the experiment has constraints.
    """
    return pd.DataFrame(
        {
            "completed": point.order,
            "run": point.run_id,
            title: number(point.value),
            "best so far": "none" if point.best is None else number(point.best),
            **({"constraints": "met" if point.feasible else "violated"} if constrained else {}),
            "chosen by": labels.SOURCES[point.source],
        }
        for point in reversed(points)
    )

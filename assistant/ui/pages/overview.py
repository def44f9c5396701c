"""The *Overview* page: forecast, SLA, best configuration, progress, and record of predictions."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.core.forecast import MOST_LEFT, FanPoint, Forecast, band_words, percent
from assistant.core.run import ConfigurationSummary, RunState
from assistant.presentation.charts.forecast import (
    MOST_PREDICTIONS,
    best_over_time,
    best_with_fan,
    prediction_chart,
)
from assistant.presentation.charts.vega_lite import RunPoint, best_so_far
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.experiment_summary import gain_words
from assistant.presentation.tables.forecast_backtest import (
    PredictionSection,
    prediction_marks,
    prediction_section,
)
from assistant.presentation.tables.sla import sla_terms
from assistant.presentation.text.comparison import compare_best
from assistant.presentation.text.forecast import (
    ForecastSubject,
    GoalVerdict,
    clock,
    end_words,
    figures,
    forecast_sentences,
    headline,
    paper_words,
    term_words,
    verdict_of,
)
from assistant.presentation.text.number_format import number, quantity
from assistant.ui import labels
from assistant.ui.charting import low, wide
from assistant.ui.intents import Intent
from assistant.ui.pages import overview_results
from assistant.ui.state import ExperimentViewModel
from assistant.ui.status_bar import IDLE_S, LIVE_S
from strategies.gp.run_interval import LEVEL

_VERDICT_STYLES: dict[GoalVerdict, tuple[str, str]] = {
    "silent": ("info", ":material/hourglass_top:"),
    "reached": ("success", ":material/flag:"),
    "missed": ("error", ":material/block:"),
    "nearly_used": ("warning", ":material/hourglass_bottom:"),
    "very_likely_miss": ("error", ":material/error:"),
    "likely_miss": ("warning", ":material/warning:"),
    "open": ("info", ":material/balance:"),
    "on_track": ("success", ":material/trending_up:"),
}
"""Icon and kind of a box by verdict; its words say the same."""


def forecast_banner(experiment: Experiment, forecast: Forecast) -> None:
    """Draw the predicted chance of reaching the goal, or one line of text if there is no goal."""
    subject = ForecastSubject.of(experiment)
    verdict, text = verdict_of(forecast), headline(subject, forecast)
    if verdict == "no_goal":
        st.markdown(f":material/flag: {text}")
    else:
        kind, icon = _VERDICT_STYLES[verdict]
        first, stop, rest = text.partition(". " if verdict == "nearly_used" else ": ")
        strong = f"**{first}{stop.rstrip()}** {rest}" if rest else f"**{text}**"
        getattr(st, kind)(strong, icon=icon)
    cautions = " ".join(f"Caution: {caution}." for caution in forecast.cautions)
    if cautions:
        st.caption(cautions)
    with st.expander("Diagnostics"):
        st.caption(paper_words(forecast.paper))


def forecast_tiles(experiment: Experiment, forecast: Forecast) -> None:
    """Draw tiles with the remaining runs, chance of the goal, expected best and expected end."""
    subject = ForecastSubject.of(experiment)
    if forecast.is_over or (not forecast.terms and forecast.goal is None):
        return
    with st.container(horizontal=True):
        terms = "  \n".join(term_words(subject, term, forecast.at_s) for term in forecast.terms)
        st.metric(
            "Runs left", figures(forecast.remaining).partition(" (")[0], border=True,
            height="stretch", help=terms or "No term of the SLA limits the runs.",
        )  # fmt: skip
        _chance(subject, forecast)
        best = (
            f"Best expected in {MOST_LEFT} runs"
            if forecast.is_beyond
            else "Best expected at the end"
        )
        if forecast.best is None:
            st.metric(best, "unknown", border=True, height="stretch")
        else:
            expected, _, band = subject.values(forecast.best).partition(" (")
            st.metric(
                best, expected, band.partition(" in 8")[0] or None,
                delta_color="off", delta_arrow="off", border=True, height="stretch",
                help="Median of the simulated futures, and the interval of 8 of 10 of them.",
            )  # fmt: skip
        left = forecast.seconds_left
        if left is not None and left.median is not None:
            st.metric(
                "Expected end", clock(forecast.at_s + left.median, forecast.at_s), border=True,
                height="stretch", help=end_words(forecast),
            )  # fmt: skip


def _chance(subject: ForecastSubject, forecast: Forecast) -> None:
    goal = forecast.goal
    if goal is None or verdict_of(forecast) == "reached":
        return
    chance = "unknown" if goal.chance is None else percent(goal.chance)
    horizon = f"within the next {MOST_LEFT} runs" if forecast.is_beyond else "with the runs left"
    band = None if goal.band is None or goal.chance is None else band_words(goal.band)
    st.metric(
        "Chance of the goal", chance, band, delta_color="off", delta_arrow="off", border=True,
        height="stretch",
        help=f"To reach {subject.value(goal.goal)} {horizon}. The band depends on the space.",
    )  # fmt: skip


def fan_table(fan: tuple[FanPoint, ...], title: str, at_s: float) -> pd.DataFrame:
    """Return the table of the expected best value after each number of further runs."""
    return pd.DataFrame(
        {
            "further runs": point.runs,
            "by": "unknown" if point.seconds is None else clock(at_s + point.seconds, at_s),
            f"1 in 10 better than [{title}]": number(point.low),
            "median": number(point.median),
            "1 in 10 worse than": number(point.high),
        }
        for point in fan
    )


_RECORD_KEY = "trust-kept"


def prediction_record_section(experiment: Experiment) -> None:
    """Draw how the predictions of past suggestions compare with their results."""
    st.subheader("Accuracy of the predictions")
    record = _prediction_record(experiment)
    if record is None:
        st.info(
            "No run yet. Take, change or leave out suggestions on the page *Suggestions*. This "
            "table then shows the result of each choice."
        )
        return
    for sentence in record.sentences:
        st.markdown(labels.escape_markdown(sentence))
    st.dataframe(score_table(record), hide_index=True, width="stretch", alt="groups of runs")
    allowed = " that meet every constraint" if experiment.opened.objective.constraints else ""
    baseline = "" if record.record.baseline is None else f" ({number(record.record.baseline)})"
    st.caption(
        f"Mean and best: {labels.escape_markdown(record.title)} of completed runs{allowed}. Gain: "
        f"mean improvement over the current configuration{baseline}; above 0 is better. "
        "In the interval: share of results within the prediction interval of the suggestion "
        f"(nominal level {LEVEL:.0%}), with the 95 % interval of that share. It is unknown for "
        "suggestions that were edited, or left out and never run."
    )
    scored = prediction_marks(record.record.promises)
    if not scored:
        return
    inside = sum(mark.inside is True for mark in scored)
    st.vega_lite_chart(
        low(prediction_chart(scored, record.title)),
        theme=None,
        width="stretch",
        alt=f"prediction intervals and results of {len(scored)} suggestions; {inside} inside",
    )
    latest = "" if len(scored) <= MOST_PREDICTIONS else f" The latest {MOST_PREDICTIONS} are drawn."
    st.caption(
        "Bar: the prediction interval. Tick: the predicted median, so a long tail changes the mean "
        f"error.{latest}"
    )
    with st.expander("As a table"):
        st.dataframe(promise_table(record), hide_index=True, width="stretch", alt="predictions")


def _prediction_record(experiment: Experiment) -> PredictionSection | None:
    key = (experiment.opened.experiment_id, experiment.n_events)
    cached = st.session_state.get(_RECORD_KEY)
    if cached is None or cached[0] != key:
        cached = st.session_state[_RECORD_KEY] = (key, prediction_section(experiment))
    record: PredictionSection | None = cached[1]
    return record


def score_table(record: PredictionSection) -> pd.DataFrame:
    """Return the table of prediction scores by group of runs."""
    unit = f" [{record.record.unit}]" if record.record.unit else ""
    return pd.DataFrame(
        {
            "runs": row.name,
            "number": row.n,
            "completed": row.completed,
            "failed": row.failed,
            f"mean{unit}": row.mean,
            f"best{unit}": row.best,
            "improved the best": row.improved,
            f"gain{unit}": row.gain,
            "in the interval": row.coverage,
            f"mean error{unit}": row.error,
        }
        for row in record.rows
    )


def promise_table(record: PredictionSection) -> pd.DataFrame:
    """Return the table of predictions and results, also of suggestions not submitted."""
    unit = f" [{record.record.unit}]" if record.record.unit else ""
    inside = {True: "inside", False: "outside", None: "no interval"}
    return pd.DataFrame(
        {
            "run": prediction.run_id,
            "batch": prediction.batch,
            "suggestion": "left out" if prediction.group == "left out" else "taken",
            f"expected{unit}": number(prediction.expected),
            "interval": labels.interval(prediction.low, prediction.high),
            f"result{unit}": number(prediction.came),
            "": inside[prediction.inside],
        }
        for prediction in record.record.promises
    )


CHART_S = 5.0


def page(view_model: ExperimentViewModel, experiment: Experiment) -> Intent | None:
    """Draw the overview page and return the action of the pressed button, or None."""
    is_live = view_model.snapshot.is_live
    st.fragment(_numbers, run_every=LIVE_S if is_live else IDLE_S)(view_model)
    st.fragment(_finding, run_every=CHART_S if is_live else None)(view_model)
    st.fragment(_progress_chart, run_every=CHART_S if is_live else None)(view_model)
    overview_results.front_section(experiment)
    st.subheader("Every run")
    intent = overview_results.runs_section(view_model, experiment)
    prediction_record_section(experiment)
    return intent


def _numbers(view_model: ExperimentViewModel) -> None:
    """Draw banner and tiles. This fragment has no input, so a redraw loses no typed text."""
    experiment = view_model.refresh().experiment
    forecast = view_model.forecast()
    forecast_banner(experiment, forecast)
    done, limit = experiment.n_ended, experiment.sla.max_runs
    with st.container(horizontal=True):
        st.metric(
            "Runs done",
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
        _sla_tiles(experiment)
    forecast_tiles(experiment, forecast)
    if limit:
        st.progress(min(1.0, done / limit))


def _finding(view_model: ExperimentViewModel) -> None:
    overview_results.findings_section(view_model.experiment)


def _progress_chart(view_model: ExperimentViewModel) -> None:
    experiment = view_model.experiment
    forecast, points = view_model.forecast(), run_points(experiment)
    objective = experiment.opened.objective
    title = labels.measure_title(str(objective.wrapper), objective.unit)
    st.subheader("Best so far, and forecast")
    if not points:
        st.info(
            "No run has completed yet. Submit runs on the page *Suggestions*, or turn on "
            "auto-steering in *Steering*."
        )
        return
    baseline = None if experiment.baseline is None else experiment.summary(experiment.baseline)
    baseline_value = None if baseline is None else baseline.outcome.value
    if len(forecast.fan) > 1 and not forecast.is_over:
        _fan(experiment, forecast, points, baseline_value, title)
    else:
        best = number(points[-1].best)
        st.vega_lite_chart(
            wide(best_so_far(points, baseline_value, title)),
            theme=None,
            width="stretch",
            alt=f"{title} of {len(points)} runs in order of completion; best {best}",
        )
    with st.expander("As a table"):
        st.dataframe(
            course_table(points, title, bool(objective.constraints)),
            hide_index=True,
            width="stretch",
            alt="best so far",
        )
        if len(forecast.fan) > 1:
            table = fan_table(forecast.fan, title, forecast.at_s)
            st.dataframe(table, hide_index=True, width="stretch", alt="forecast of the best")


def _fan(
    experiment: Experiment,
    forecast: Forecast,
    points: Sequence[RunPoint],
    baseline: float | None,
    title: str,
) -> None:
    goal = None if forecast.goal is None else forecast.goal.goal
    left = None if forecast.remaining is None else forecast.remaining.median
    end = forecast.fan[-1]
    alt = (
        f"{title} of {len(points)} runs, best {number(points[-1].best)}; forecast: "
        f"median {number(end.median)} after {labels.runs(end.runs)} more, "
        f"from {number(end.low)} to {number(end.high)}"
    )
    over_runs = best_with_fan(
        points, forecast.fan, baseline=baseline, goal=goal, end=left, title=title
    )
    st.vega_lite_chart(wide(over_runs), theme=None, width="stretch", alt=alt)
    deadline_s = experiment.sla.deadline_s
    if deadline_s is not None and end.seconds is not None:
        over_time = best_over_time(
            points, forecast.fan, now_s=forecast.at_s, goal=goal, deadline_s=deadline_s, title=title
        )
        st.vega_lite_chart(
            wide(over_time), theme=None, width="stretch", alt=f"{alt}, until the deadline"
        )
    st.caption("Dashed line: median of the simulated futures. Area: 8 of 10 of them.")
    for sentence in forecast_sentences(ForecastSubject.of(experiment), forecast):
        st.markdown(sentence)


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


def _sla_tiles(experiment: Experiment) -> None:
    tariff = experiment.sla.tariff
    for use in sla_terms(experiment):
        if use.term == "cost" and tariff is not None:
            spent = quantity(use.used, "")
            text = spent if use.limit is None else f"{spent} of {number(use.limit)}"
            text = f"{text} {tariff.unit}".rstrip()
            st.metric(
                "Cost", text, border=True, height="stretch", help=f"{tariff}: {use.used_text}"
            )
        if use.term == "goal":
            state = "open" if use.run is None else f"run {use.run}"
            st.metric(
                "Goal", state, use.agreed, delta_color="off", delta_arrow="off", border=True,
                height="stretch", help=f"{use.agreed}: {use.used_text}",
            )  # fmt: skip
        if use.term == "run_limit":
            longest = "unknown" if use.used is None else quantity(use.used, "s").partition(" (")[0]
            st.metric(
                "Longest run", longest, use.agreed, delta_color="off", delta_arrow="off",
                border=True, height="stretch", help=use.used_text,
            )  # fmt: skip


def _best(experiment: Experiment) -> None:
    unit = experiment.opened.objective.unit
    best = None if experiment.best is None else experiment.summary(experiment.best)
    if best is None:
        st.metric("Best so far", "unknown", border=True, height="stretch")
        return
    compared = compare_best(experiment)
    is_better = compared is not None and compared.is_better and best.outcome.feasible
    st.metric(
        "Best so far",
        quantity(best.outcome.value, unit).partition(" (")[0],
        gain_words(experiment) or None,
        delta_color="normal" if is_better else "off",
        delta_arrow="off",
        border=True,
        height="stretch",
        help=_best_help(experiment, best),
    )


def _best_help(experiment: Experiment, best: ConfigurationSummary) -> str:
    mean = "" if best.n == 1 else f", mean of {labels.runs(best.n)}"
    text = f"run {best.run.id}{mean}: {labels.settings_of(experiment.space, best.configuration)}"
    if experiment.opened.objective.second is None:
        return text
    front = f"{len(experiment.front)} on the Pareto front, see below"
    return f"{text}. By {experiment.opened.objective.wrapper}, the first of two measures; {front}."

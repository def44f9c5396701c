"""*Diagnostics* of *Overview*: terms, forecast, regions, accuracy of predictions, Copper's rule."""

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.core.forecast import FanPoint, Forecast
from assistant.presentation.charts.forecast import (
    MOST_PREDICTIONS,
    best_over_time,
    prediction_chart,
)
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.forecast_backtest import (
    PredictionSection,
    prediction_marks,
    prediction_section,
)
from assistant.presentation.tables.sla import region_rows, sla_terms
from assistant.presentation.text.forecast import (
    ForecastSubject,
    clock,
    end_chance_words,
    forecast_sentences,
    paper_words,
)
from assistant.presentation.text.number_format import number, spoken
from assistant.ui import labels
from assistant.ui.charting import low, wide
from assistant.ui.state import ExperimentViewModel
from strategies.gp.run_interval import LEVEL


def diagnostics_section(view_model: ExperimentViewModel, experiment: Experiment) -> None:
    """Draw the closed part of the page for experts; its content is computed once it is opened."""
    key = f"diagnostics-{view_model.session.id}"
    with st.expander("Diagnostics", key=key, on_change="rerun") as part:
        if not part.open:
            return
        forecast = view_model.forecast()
        _limits(experiment)
        _forecast(experiment, forecast)
        _regions(experiment, forecast)
        prediction_record_section(experiment)


def _limits(experiment: Experiment) -> None:
    terms = sla_terms(experiment)
    if not terms:
        return
    st.markdown("**Limits and goal**")
    st.dataframe(
        {
            "": [use.title for use in terms],
            "agreed": [use.agreed for use in terms],
            "used": [use.used_text for use in terms],
        },
        hide_index=True,
        alt="limits and goal",
    )


def _forecast(experiment: Experiment, forecast: Forecast) -> None:
    subject = ForecastSubject.of(experiment)
    if forecast.is_over:
        return
    st.markdown("**Forecast**")
    sentences = [end_chance_words(forecast), *forecast_sentences(subject, forecast)]
    for sentence in dict.fromkeys(text for text in sentences if text):
        st.markdown(labels.escape_markdown(sentence))
    for caution in forecast.cautions:
        st.caption(f"Caution: {caution}.")
    _until_the_deadline(experiment, forecast)
    if len(forecast.fan) > 1:
        objective = experiment.opened.objective
        title = labels.measure_title(str(objective.wrapper), objective.unit)
        table = fan_table(forecast.fan, title, forecast.at_s)
        st.dataframe(table, hide_index=True, width="stretch", alt="forecast of the best")


def _until_the_deadline(experiment: Experiment, forecast: Forecast) -> None:
    deadline_s, points = experiment.sla.deadline_s, run_points(experiment)
    if deadline_s is None or not points or len(forecast.fan) < 2:
        return
    end, objective = forecast.fan[-1], experiment.opened.objective
    if end.seconds is None:
        return
    title = labels.measure_title(str(objective.wrapper), objective.unit)
    goal = None if forecast.goal is None else forecast.goal.goal
    chart = best_over_time(
        points, forecast.fan, now_s=forecast.at_s, goal=goal, deadline_s=deadline_s, title=title
    )
    st.vega_lite_chart(
        wide(chart),
        theme=None,
        width="stretch",
        alt=f"{title} over time, with the forecast until the deadline",
    )


def _regions(experiment: Experiment, forecast: Forecast) -> None:
    st.markdown("**Regions of good results**")
    rows = region_rows(experiment, forecast.at_s)
    if rows:
        st.dataframe(
            {
                "region": [row.id for row in rows],
                "levels": [row.ranges for row in rows],
                "tried": [row.evaluated for row in rows],
                "untried": ["unknown" if row.pending is None else row.pending for row in rows],
                "best": [spoken(row.best, experiment.opened.objective.unit) for row in rows],
            },
            hide_index=True,
            width="stretch",
            alt="regions of good results",
        )
    st.caption(paper_words(forecast.paper))


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


def prediction_record_section(experiment: Experiment) -> None:
    """Draw how the predictions of past suggestions compare with their results."""
    st.markdown("**Accuracy of the predictions**")
    record = prediction_section(experiment)
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

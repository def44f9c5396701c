"""Learn: progress over runs, where good results lie, what each parameter's levels did."""

import time
from statistics import fmean

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.charts import best_so_far, level_estimates, trade_off
from assistant.forecast import paper_forecast
from assistant.report import ReportData, collect
from assistant.report.outlook import paper_words
from assistant.report.words import number
from assistant.ui import outlook, words
from assistant.ui.charting import wide
from assistant.ui.intents import Intent
from assistant.ui.progress import bar
from assistant.ui.runner import Runner
from strategies import Region, find_regions

_CHARTS_A_ROW = 3


def page(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns start or pause, if asked for."""
    intent = bar(runner, experiment)
    data = collect(experiment, now_s=time.time())
    if not data.points:
        st.info("Nothing has completed yet, so nothing is known. Submit runs on the page *Steer*.")
        return intent
    title = words.titled(data.value_name, data.unit)
    if not outlook.section(experiment, data, title):
        _best(data, title)
    _front(data, title)
    _regions(experiment)
    _effects(data, title)
    return intent


def _best(data: ReportData, title: str) -> None:
    """Draw the best so far, where nothing can be said of what comes."""
    st.subheader("Best so far")
    best = number(data.points[-1].best)
    st.vega_lite_chart(
        wide(best_so_far(data.points, data.today_value, title)),
        theme=None,
        width="stretch",
        alt=f"{title} of {len(data.points)} runs in order of completion; best {best}",
    )


def _front(data: ReportData, title: str) -> None:
    """Draw the trade-offs of two measures; nothing with one."""
    if data.second_name is None:
        return
    second = words.titled(data.second_name, data.second_unit)
    st.subheader(f"The front: {data.value_name} against {data.second_name}")
    st.vega_lite_chart(
        wide(trade_off(data.trade, title, second)),
        theme=None,
        width="stretch",
        alt=f"{second} against {title}; {len(data.front)} of {len(data.trade)} on the front",
    )
    st.caption(
        "On the copper line neither gets better without the other getting worse. *Best* is by "
        f"{data.value_name} alone."
    )
    st.dataframe(front_table(data), hide_index=True, width="stretch", alt="the front")


def front_table(data: ReportData) -> pd.DataFrame:
    """Return the front as it is shown, the best by the first measure first."""
    title = words.titled(data.value_name, data.unit)
    second = words.titled(data.second_name or "", data.second_unit)
    return pd.DataFrame(
        {
            "run": row.run_id,
            title: number(row.value),
            second: number(row.second_value),
            **row.values,
            "runs": row.n_runs,
            "": "today" if row.is_today else "",
        }
        for row in data.front
    )


def _regions(experiment: Experiment) -> None:
    st.subheader("Regions of good results")
    unit = f" [{experiment.opened.objective.unit}]" if experiment.opened.objective.unit else ""
    seen = paper_forecast(experiment, time.time())
    if not seen.regions:
        st.info(
            "No region yet: too few good results lie close together. More runs, or another rule "
            "under *Steer*, *Regions*, may show one."
        )
        return
    value_of = experiment.opened.objective.value_of
    rule = experiment.watch.regions
    found = {region.id: region for region in find_regions(experiment.knowledge, rule)}
    rows = [
        {
            "region": region.id,
            "where": words.box_words(experiment.space, found[region.id].box),
            "good members": region.members,
            "evaluated": region.evaluated,
            "pending": "unknown" if region.pending is None else str(region.pending),
            f"mean{unit}": number(_mean(experiment, found[region.id])),
            f"best{unit}": number(value_of(region.best)),
        }
        for region in seen.regions
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="regions")
    st.caption(paper_words(seen))


def _mean(experiment: Experiment, region: Region) -> float:
    """Return the mean measured value of the runs in a region; constraints are not looked at."""
    space, radius = experiment.space, experiment.watch.regions.radius
    return fmean(
        run.outcome.value
        for run in experiment.runs
        if run.outcome is not None and region.contains(space, run.configuration, radius)
    )


def _effects(data: ReportData, title: str) -> None:
    st.subheader("What matters")
    st.caption(
        f"What {title} to expect of a typical configuration with each level, by the model that the "
        "suggestions come from, with 95% intervals; parameters with the widest range first. A "
        "level without a run shows nothing: its effect is unknown."
    )
    columns = st.columns(_CHARTS_A_ROW)
    for i, effect in enumerate(data.effects):
        chart = level_estimates(effect.levels, effect.parameter, effect.unit, "")
        with columns[i % _CHARTS_A_ROW]:
            known = "unknown" if effect.range_value is None else number(effect.range_value)
            st.markdown(f"**{effect.parameter}** · range {known} {data.unit}")
            st.vega_lite_chart(
                wide(chart), theme=None, width="stretch",
                alt=f"expected {title} by level of {effect.parameter}",
            )  # fmt: skip
            st.caption(f"{effect.n_tried} of {len(effect.levels)} levels tried")

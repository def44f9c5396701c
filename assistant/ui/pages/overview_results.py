"""Results on *Overview*: what to change, what matters, all runs, and the Pareto front."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.core.objective import Constraint, Measure
from assistant.core.run import Run, RunState
from assistant.presentation.charts.vega_lite import trade_off
from assistant.presentation.tables.effects import effects_ranking
from assistant.presentation.tables.experiment_summary import (
    FrontRow,
    baseline_finding,
    front_rows,
    trade_points,
)
from assistant.presentation.tables.queue import stopped_words
from assistant.presentation.text.number_format import level_words, number, quantity, unit_of
from assistant.ui import labels
from assistant.ui.charting import wide
from assistant.ui.intents import Intent, answer_at
from assistant.ui.ranking import ranking_chart
from assistant.ui.state import ExperimentView

MOST_NAMED = 8  # Most changes, and most bars; further ones are counted


def findings_section(experiment: Experiment) -> None:
    """Draw what to change and what matters, or nothing before the first result."""
    if experiment.best is None:
        return
    finding = baseline_finding(experiment)
    st.markdown(labels.escape_markdown(change_line(experiment)))
    if finding.verdict == "nothing_feasible":
        for sentence in violated(experiment):
            st.markdown(f":material/close: {labels.escape_markdown(sentence)}")
    _what_matters(experiment)


def change_line(experiment: Experiment) -> str:
    """Return what to change to get from the current to the best configuration, as Markdown.

    Without a current configuration it names all levels of the best one.
    """
    if baseline_finding(experiment).verdict == "nothing_feasible":
        return "**Nothing tried meets every constraint yet.**"
    best, baseline = experiment.best, experiment.baseline
    if best is None:
        return ""
    space = experiment.space
    new = labels.shown_values(space, best.configuration)
    if baseline is None:
        parts = [
            f"{p.name} {level_words(new[p.name], p.unit)}"
            for p in space.parameters
            if new[p.name] is not None
        ]
        return f"**Use these**: {_listed(parts)}"
    old = labels.shown_values(space, baseline.configuration)
    parts = [
        f"{p.name} {level_words(old[p.name], p.unit)} → {level_words(new[p.name], p.unit)}"
        for p in space.parameters
        if new[p.name] is not None and old[p.name] != new[p.name]
    ]
    if not parts:
        return "**Change nothing yet**: the current configuration is the best so far."
    return f"**Change these**: {_listed(parts)}"


def _listed(parts: list[str]) -> str:
    if len(parts) <= MOST_NAMED:
        return " · ".join(parts)
    return f"{' · '.join(parts[:MOST_NAMED])} · and {len(parts) - MOST_NAMED:,} more"


def _what_matters(experiment: Experiment) -> None:
    ranking = effects_ranking(experiment)
    st.markdown(f"**What matters**: {labels.escape_markdown(ranking.headline)}")
    ranking_chart(ranking, MOST_NAMED)


def violated(experiment: Experiment) -> list[str]:
    """Return one sentence for each constraint that the best configuration violates."""
    best = None if experiment.best is None else experiment.summary(experiment.best)
    if best is None:
        return []
    mean = best.outcome.measures
    measured = [run.outcome.measures for run in experiment.runs if run.outcome is not None]
    sentences = []
    for constraint in experiment.opened.objective.constraints:
        if constraint.violation(mean) > 0:
            n = sum(constraint.violation(measures) == 0 for measures in measured)
            met_text = f"met by {n:,} of {labels.runs(len(measured))}"
            sentences.append(
                f"{constraint}: {met_text}; run {best.run.id} has {_value(constraint, mean)}."
            )
    return sentences


def _value(constraint: Constraint, measures: Mapping[str, Measure]) -> str:
    value = measures[constraint.measure]
    if isinstance(value, int | float):
        return f"{constraint.measure} = {quantity(float(value), unit_of(constraint.measure))}"
    return f"{constraint.measure} = {value}"


TABLE_S = 5.0
MOST_RATED = 500  # Latest results in the list to rate; *Run* has every run
_MOST_LIVE = 1_000  # Runs of a table that is drawn again while they go on


def runs_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the runs and the fields to rate a result; return the pressed button's action or None."""
    if not experiment.runs:
        return None
    st.markdown("**Runs**")
    is_live = view_model.snapshot.is_live and len(experiment.runs) <= _MOST_LIVE
    st.fragment(_runs_table, run_every=TABLE_S if is_live else None)(view_model)
    answer_at("rate")
    rated = sorted(experiment.runs_in(RunState.COMPLETED), key=lambda run: run.id, reverse=True)
    if not rated:
        return None
    offered = rated[:MOST_RATED]
    if experiment.best is not None and experiment.best not in offered:
        offered.append(experiment.best)
    with st.expander("Rate a result, or run it again"):
        return _rating(view_model, experiment, offered)


def _runs_table(view_model: ExperimentView) -> None:
    """Draw the table of runs, in which nothing can be selected, so that it may change by itself."""
    table = runs_table(view_model.experiment)
    value = str(table.columns[2])
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        height=320 if len(table) > 8 else "auto",
        column_config={value: st.column_config.NumberColumn(value, format="localized")},
        placeholder="",
        lazy=True,
        alt="every run",
    )


def _rating(view_model: ExperimentView, experiment: Experiment, rated: list[Run]) -> Intent | None:
    by_id = {run.id: run for run in rated}
    best = experiment.best
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run_number = st.selectbox(
            "Result",
            list(by_id),
            index=list(by_id).index(best.id) if best else 0,
            format_func=lambda run_id: labels.run_label(experiment, by_id[run_id]),
            key=f"rated-{view_model.session.id}",
            width=380,
            help="Regions use verdicts if *Steering*, *Regions* defines good results by them.",
        )
        verdicts = {"Good": True, "Bad": False, "No verdict": None}
        for label, good in verdicts.items():
            if st.button(label, key=f"rate-{label}"):

                def rate(good: bool | None = good) -> str:
                    view_model.session.rate(run_number, good)
                    text = "without a verdict" if good is None else labels.VERDICTS[good]
                    return f"Run {run_number} is {text}."

                return Intent("rate", rate)
        if not experiment.opened.deterministic and st.button("Run again", key="replicate"):

            def repeat() -> str:
                (run,) = view_model.session.replicate(run_number)
                return f"Run {run_number} is repeated as run {run.id}."

            return Intent("rate", repeat)
    return None


def runs_table(experiment: Experiment) -> pd.DataFrame:
    """Return the table of all runs of the experiment, latest first."""
    objective = experiment.opened.objective
    title = labels.measure_title(str(objective.wrapper), objective.unit)
    second = objective.second
    also = "" if second is None else labels.measure_title(str(second.wrapper), second.unit)
    runs = experiment.runs[::-1]
    outcomes = [run.outcome for run in runs]
    columns: dict[str, Sequence[object]] = {
        "run": [run.id for run in runs],
        "state": [_run_state(experiment, run) for run in runs],
        title: [outcome and outcome.value for outcome in outcomes],
    }
    if also:
        columns[also] = [outcome and outcome.second_value for outcome in outcomes]
    if objective.constraints:
        meets = {True: "yes", False: "no"}
        columns["meets constraints"] = [
            "" if outcome is None else meets[outcome.feasible] for outcome in outcomes
        ]
    columns["verdict"] = [labels.VERDICTS[run.good] for run in runs]
    columns |= labels.level_columns(experiment.space, [run.configuration for run in runs])
    columns["from"] = [labels.SOURCES[run.source] for run in runs]
    columns["why"] = [
        run.failure or run.cancelled or stopped_words(run) or run.reason for run in runs
    ]
    return pd.DataFrame(columns)


def _run_state(experiment: Experiment, run: Run) -> str:
    best = experiment.best
    if best is None or run.id != best.id:
        return "held" if run.held and run.state is RunState.QUEUED else labels.STATES[run.state]
    feasible = experiment.summaries[best.configuration].outcome.feasible
    return "best" if feasible else "least violating"


def front_section(experiment: Experiment) -> None:
    """Draw the Pareto front of an objective with two measures."""
    objective = experiment.opened.objective
    second = objective.second
    if second is None or not experiment.n_in(RunState.COMPLETED):
        return
    title = labels.measure_title(str(objective.wrapper), objective.unit)
    also = labels.measure_title(str(second.wrapper), second.unit)
    trade, front = trade_points(experiment), front_rows(experiment)
    heading = f"Pareto front: {objective.wrapper} against {second.wrapper}"
    st.subheader(labels.escape_markdown(heading))
    st.vega_lite_chart(
        wide(trade_off(trade, title, also)),
        theme=None,
        width="stretch",
        alt=f"{also} against {title}; {len(front)} of {len(trade)} on the front",
    )
    st.caption(
        "On the copper-coloured line, no measure improves without making the other worse. *Best* "
        f"considers {objective.wrapper} only."
    )
    st.dataframe(front_table(front, title, also), hide_index=True, width="stretch", alt="the front")


def front_table(front: Sequence[FrontRow], title: str, also: str) -> pd.DataFrame:
    """Return the table of the Pareto front, sorted by the first measure, best first."""
    return pd.DataFrame(
        {
            "run": row.run_id,
            title: number(row.value),
            also: number(row.second_value),
            **row.values,
            "runs": row.n_runs,
            "": "current" if row.is_baseline else "",
        }
        for row in front
    )

"""Results on *Overview*: the best configuration, main effects, all runs, and the Pareto front."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.core.objective import Constraint, Measure
from assistant.core.run import Run, RunState
from assistant.presentation.charts.vega_lite import trade_off
from assistant.presentation.report.data import BaselineChange, changes
from assistant.presentation.tables.effects import effects_ranking
from assistant.presentation.tables.experiment_summary import (
    FrontRow,
    baseline_finding,
    front_rows,
    trade_points,
)
from assistant.presentation.tables.queue import stopped_words
from assistant.presentation.text.number_format import number, quantity, unit_of
from assistant.ui import labels
from assistant.ui.charting import wide
from assistant.ui.intents import Intent, answer_at
from assistant.ui.state import ExperimentView

MOST_EFFECTS = 8  # Most effects in a sentence; further parameters are counted


def findings_section(experiment: Experiment) -> None:
    """Draw the main findings of the experiment, or nothing before the first result."""
    if experiment.best is None:
        return
    st.subheader("Findings so far")
    conclusion = baseline_finding(experiment)
    st.markdown(
        f"**{labels.escape_markdown(conclusion.headline)}** "
        f"{labels.escape_markdown(levels_text(experiment))}"
    )
    if conclusion.verdict == "nothing_feasible":
        for sentence in violated(experiment):
            st.markdown(f":material/close: {labels.escape_markdown(sentence)}")
    st.markdown(f"**Effects**: {labels.escape_markdown(_effects(experiment))}")


def levels_text(experiment: Experiment) -> str:
    """Describe the best configuration: its changes from the baseline, or all levels without one."""
    level_changes = changes(experiment)
    differing = [change for change in level_changes if change.differs]
    if level_changes and level_changes[0].baseline is not None:
        if not differing:
            return ""
        return f"It changes {_listed([_change_text(change) for change in differing])}."
    return f"It has {_listed([f'{change.parameter} {change.best}' for change in level_changes])}."


def _change_text(change: BaselineChange) -> str:
    return f"{change.parameter} from {change.baseline} to {change.best}"


def _listed(parts: list[str]) -> str:
    if len(parts) <= MOST_EFFECTS:
        return ", ".join(parts)
    return f"{', '.join(parts[:MOST_EFFECTS])}, and {len(parts) - MOST_EFFECTS:,} more"


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


def _state_counts(experiment: Experiment) -> tuple[str, int, int]:
    opened = experiment.opened
    return opened.experiment_id, experiment.version, len(experiment.measured)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs={Experiment: _state_counts})
def _effects(experiment: Experiment) -> str:
    return effects_ranking(experiment).sentence


def runs_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the runs and the fields to rate a result; return the pressed button's action or None."""
    if not experiment.runs:
        st.info("No run has been submitted yet. Take suggestions on *Suggestions*.")
        return None
    table = runs_table(experiment)
    value = str(table.columns[2])
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        height=320 if len(table) > 8 else "auto",
        column_config={value: st.column_config.NumberColumn(value, format="localized")},
        placeholder="",
        alt="every run",
    )
    rated = sorted(experiment.runs_in(RunState.COMPLETED), key=lambda run: run.id, reverse=True)
    if not rated:
        st.caption("You can rate results once there are some.")
        return None
    answer_at("rate")
    by_id = {run.id: run for run in rated}
    best = experiment.best
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run_number = st.selectbox(
            "Your verdict on a result",
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
    rows = []
    for run in reversed(experiment.runs):
        outcome = run.outcome
        meets = "" if outcome is None else "yes" if outcome.feasible else "no"
        rows.append(
            {
                "run": run.id,
                "state": _run_state(experiment, run),
                title: outcome.value if outcome else None,
                **({also: outcome.second_value if outcome else None} if also else {}),
                **({"meets constraints": meets} if objective.constraints else {}),
                "verdict": labels.VERDICTS[run.good],
                **labels.cells(experiment.space, run.configuration),
                "from": labels.SOURCES[run.source],
                "why": run.failure or run.cancelled or stopped_words(run) or run.reason,
            }
        )
    return pd.DataFrame(rows)


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
    if second is None or not experiment.runs_in(RunState.COMPLETED):
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

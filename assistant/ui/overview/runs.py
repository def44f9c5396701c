"""Every run with its verdict: a table, and what a person says of a result."""

import pandas as pd
import streamlit as st

from assistant import Experiment, Run, RunState
from assistant.report.going_on import stopped_words
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, answer_at


def section(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the table, and the verdict on a result. Returns what the person wants."""
    if not experiment.runs:
        st.info("Nothing has been submitted yet. Take some suggestions on *Suggestions*.")
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
        st.caption("Results can be rated once there are some.")
        return None
    answer_at("rate")
    by_id = {run.id: run for run in rated}
    best = experiment.best
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Your verdict on a result",
            list(by_id),
            index=list(by_id).index(best.id) if best else 0,
            format_func=lambda run_id: words.run_label(experiment, by_id[run_id]),
            key=f"rated-{desk.session.id}",
            width=380,
            help="Verdicts decide what is good where regions are watched by verdicts.",
        )
        verdicts = {"Good": True, "Bad": False, "No verdict": None}
        for label, good in verdicts.items():
            if st.button(label, key=f"rate-{label}"):

                def rate(good: bool | None = good) -> str:
                    desk.session.rate(chosen, good)
                    text = "without a verdict" if good is None else words.VERDICTS[good]
                    return f"Run {chosen} is {text}."

                return Intent("rate", rate)
        if not experiment.opened.deterministic and st.button("Run again", key="replicate"):

            def repeat() -> str:
                (run,) = desk.session.replicate(chosen)
                return f"Run {chosen} is repeated as run {run.id}."

            return Intent("rate", repeat)
    return None


def runs_table(experiment: Experiment) -> pd.DataFrame:
    """Return every run as it is shown, the latest first."""
    objective = experiment.opened.objective
    title = words.titled(str(objective.wrapper), objective.unit)
    second = objective.second
    also = "" if second is None else words.titled(str(second.wrapper), second.unit)
    rows = []
    for run in reversed(experiment.runs):
        outcome = run.outcome
        meets = "" if outcome is None else "yes" if outcome.feasible else "no"
        rows.append(
            {
                "run": run.id,
                "state": _state(experiment, run),
                title: outcome.value if outcome else None,
                **({also: outcome.second_value if outcome else None} if also else {}),
                "meets constraints": meets,
                "verdict": words.VERDICTS[run.good],
                **words.cells(experiment.space, run.configuration),
                "from": words.SOURCES[run.source],
                "why": run.failure or run.cancelled or stopped_words(run) or run.reason,
            }
        )
    return pd.DataFrame(rows)


def _state(experiment: Experiment, run: Run) -> str:
    best = experiment.best
    if best is None or run.id != best.id:
        return "held" if run.held and run.state is RunState.QUEUED else words.STATES[run.state]
    feasible = experiment.standings[best.configuration].outcome.feasible
    return "best" if feasible else "least violating"

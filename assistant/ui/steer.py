"""Steer: the warning, the suggestions, every run with its verdict, and what can be changed."""

import pandas as pd
import streamlit as st

from assistant import Experiment, Run, RunState
from assistant.report.words import setting
from assistant.ui import batch, controls, warning, words
from assistant.ui.intents import Intent, answer_at
from assistant.ui.progress import bar
from assistant.ui.runner import Runner
from strategies import Level


def page(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants."""
    # A box for each part: what comes and goes in one must not move the others, or the browser
    # builds the tabs anew beside the old ones and the open tab is lost.
    with st.container():
        intent = bar(runner, experiment)
    with st.container():
        intent = warning.section(runner, experiment) or intent
    with st.container():
        intent = batch.section(runner, experiment) or intent
    names = ["Every run", "A run of your own", *controls.SECTIONS]
    with st.container():
        tabs = st.tabs(names)
    with tabs[0]:
        intent = _runs(runner, experiment) or intent
    with tabs[1]:
        intent = _own(runner, experiment) or intent
    for tab, draw in zip(tabs[2:], controls.SECTIONS.values(), strict=True):
        with tab, st.container(width=640):
            intent = draw(runner, experiment) or intent
    return intent


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
                **warning.cells(experiment, run.configuration),
                "from": words.SOURCES[run.source],
                "why": run.failure or run.reason,
            }
        )
    return pd.DataFrame(rows)


def _state(experiment: Experiment, run: Run) -> str:
    best = experiment.best
    if best is None or run.id != best.id:
        return run.state.value
    return "best" if experiment.standings[best.configuration].outcome.feasible else "closest"


def _runs(runner: Runner, experiment: Experiment) -> Intent | None:
    if not experiment.runs:
        st.info("Nothing has been submitted yet.")
        return None
    table = runs_table(experiment)
    value = str(table.columns[2])
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        height=320 if len(table) > 8 else "auto",
        column_config={value: st.column_config.NumberColumn(value, format="localized")},
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
            key=f"rated-{runner.session.id}",
            width=380,
            help="Verdicts decide what is good where regions are watched by verdicts.",
        )
        verdicts = {"Good": True, "Bad": False, "No verdict": None}
        for label, good in verdicts.items():
            if st.button(label, key=f"rate-{label}"):

                def rate(good: bool | None = good) -> str:
                    runner.session.rate(chosen, good)
                    text = "without a verdict" if good is None else words.VERDICTS[good]
                    return f"Run {chosen} is {text}."

                return Intent("rate", rate)
        if not experiment.opened.deterministic and st.button("Run again", key="replicate"):

            def repeat() -> str:
                (run,) = runner.session.replicate(chosen)
                runner.wake()
                return f"Run {chosen} is repeated as run {run.id}."

            return Intent("rate", repeat)
    return None


def _own(runner: Runner, experiment: Experiment) -> Intent | None:
    space = experiment.space
    best, today = experiment.best, experiment.opened.baseline
    start = best.configuration if best is not None else today
    present = space.values(start) if start is not None else {}
    st.caption("Only real, open levels can be chosen.")
    values: dict[str, Level] = {}
    with st.form(f"own-{runner.session.id}", border=False):
        columns = st.columns(3)
        for i, parameter in enumerate(space.parameters):
            levels = words.open_levels(space, parameter)
            value = present.get(parameter.name)
            values[parameter.name] = columns[i % 3].selectbox(
                parameter.name,
                levels,
                index=levels.index(value) if value in levels else 0,
                format_func=lambda one, unit=parameter.unit: setting(one, unit),
                help=parameter.description or None,
                key=f"own-{runner.session.id}-{parameter.name}",
            )
        reason = st.text_input("Why (kept with the run)", key=f"own-why-{runner.session.id}")
        asked = st.form_submit_button("Run this", type="primary")
    answer_at("own")
    if not asked:
        return None

    def do() -> str:
        run = runner.session.include(values, reason.strip())
        runner.wake()
        return f"Submitted as run {run.id}."

    return Intent("own", do)

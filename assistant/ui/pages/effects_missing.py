"""Missing runs on *Effects*: runs that make an effect estimable, and a button to add them.

The offer is kept as it was computed, so the button adds exactly the runs on the screen.
"""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from assistant.analysis.effects import MissingReport, TermShares, missing_report
from assistant.core.errors import ExperimentError
from assistant.core.experiment import Experiment
from assistant.core.run import RunState
from assistant.presentation.text.number_format import level
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.state import ExperimentView
from strategies import Level
from strategies.doe.coverage import EstimationTarget

PLACE = "effects-missing"
ALL = "all main effects"
MOST_ADDED = 100


@dataclass(frozen=True, slots=True)
class MissingRunsOffer:
    """Missing runs for one target; ``report`` is None with ``why``, the reason."""

    target: str
    version: int
    report: MissingReport | None
    why: str = ""


def section(desk: ExperimentView, experiment: Experiment, strengths: TermShares) -> Intent | None:
    """Draw the missing runs for an effect; return the intent to add them."""
    st.subheader("What is missing")
    experiment_id = experiment.opened.experiment_id
    targets = targets_of(experiment, strengths)
    answer_at(PLACE)
    if not targets:
        st.caption("No parameter has two open levels, so there is no effect to estimate.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.selectbox(
            "What shall be known", list(targets), key=f"effects-target-{experiment_id}", width=360,
            persist_state="session",
        )  # fmt: skip
        snapshot = _frozen_offer(experiment, target or ALL, targets)
        changed = experiment.version - snapshot.version
        if changed:
            noun = "change" if changed == 1 else "changes"
            st.caption(f"{changed} {noun} since this was shown.")
            if st.button("Refresh", icon=":material/refresh:", key="effects-missing-renew"):
                release(experiment_id)
                st.rerun()
    if snapshot.report is None:
        st.warning(labels.escape_markdown(snapshot.why))
        return None
    st.markdown(labels.escape_markdown(missing_text(snapshot.report, snapshot.target)))
    runs = _which(snapshot.report, experiment_id)
    if not runs:
        return None
    return _offer(desk, experiment, snapshot, runs)


def targets_of(experiment: Experiment, strengths: TermShares) -> dict[str, EstimationTarget]:
    """Return the targets by their words: all effects, each parameter, each tested pair."""
    space = experiment.space
    able = {p.name for p, ids in zip(space.parameters, space.open_ids, strict=True) if len(ids) > 1}
    if not able:
        return {}
    targets = {ALL: EstimationTarget()} if able == set(space.names) else {}
    targets |= {
        f"the effect of {name}": EstimationTarget((name,)) for name in space.names if name in able
    }
    return targets | {
        f"the interaction of {' and '.join(pair.parameters)}": EstimationTarget(pair.parameters)
        for pair in strengths.pairs
        if set(pair.parameters) <= able
    }


def _frozen_offer(
    experiment: Experiment, target: str, targets: dict[str, EstimationTarget]
) -> MissingRunsOffer:
    key = f"effects-missing-{experiment.opened.experiment_id}"
    snapshot: MissingRunsOffer | None = st.session_state.get(key)
    if snapshot is None or snapshot.target != target:
        with st.spinner("Looking for the runs that are missing …"):
            try:
                snapshot = MissingRunsOffer(
                    target, experiment.version, missing_report(experiment, targets[target])
                )
            except Exception as error:
                snapshot = MissingRunsOffer(target, experiment.version, None, sentence(error))
        st.session_state[key] = snapshot
    return snapshot


def release(experiment_id: str) -> None:
    """Drop the offer, so that the next drawing computes it again."""
    st.session_state.pop(f"effects-missing-{experiment_id}", None)


def missing_text(report: MissingReport, target: str) -> str:
    """Return what is missing, in one or two sentences."""
    result, parts = report.missing, []
    if result.n_waiting:
        wait = "waiting run counts as if it were" if result.n_waiting == 1 else (
            "waiting runs count as if they were")  # fmt: skip
        parts.append(f"{result.n_waiting} {wait} over.")
    if not result.lacking:
        parts.append(f"Nothing is missing: the runs determine {target}.")
    elif report.runs:
        are = "is" if len(report.runs) == 1 else "are"
        sure = "; fewer cannot do it" if result.is_smallest else ", found by greedy search"
        parts.append(f"{labels.runs(len(report.runs))} {are} missing to know {target}{sure}.")
    if result.left:
        why = (
            "closed levels, exclusions or failed runs leave no configuration that would tell"
            if result.looked_at_all
            else "no configuration near the runs would tell, and the space is too large to search"
        )
        parts.append(f"{result.left} of {result.lacking} comparisons cannot be had: {why}.")
    return " ".join(parts)


def _which(report: MissingReport, experiment_id: str) -> tuple[dict[str, Level], ...]:
    """Draw the choice between the fewest runs and a whole block, where both exist."""
    ways: dict[str, tuple[dict[str, Level], ...]] = {}
    if report.runs:
        ways[f"The fewest ({len(report.runs)})"] = report.runs
    same = all(values in report.runs for values in report.block_runs)
    # without parameters a block is only one level larger than the fewest runs
    if report.missing.target.parameters and not same:
        n = len(report.block_runs)
        ways[f"A whole factorial block round the runs ({n})"] = report.block_runs
    if not ways:
        return ()
    if len(ways) == 1 and report.runs:
        return report.runs
    way = st.radio(
        "Which runs", list(ways), horizontal=True, key=f"effects-ways-{experiment_id}-{len(ways)}",
        index=0 if report.runs else None,
        help="A block holds every combination of some levels, so its effects mix with no others.",
    )  # fmt: skip
    return ways[way] if way else ()


def _offer(
    desk: ExperimentView,
    experiment: Experiment,
    snapshot: MissingRunsOffer,
    runs: tuple[dict[str, Level], ...],
) -> Intent | None:
    room = experiment.remaining_runs
    st.dataframe(
        missing_table(experiment, runs), hide_index=True, width="stretch", alt="missing runs",
        height=min(38 + 35 * len(runs), 400),
    )  # fmt: skip
    if experiment.finished is not None:
        st.caption("The experiment is finished, so nothing can be added.")
        return None
    n = min(len(runs), MOST_ADDED, len(runs) if room is None else room)
    if n == 0:
        st.info("The budget is used up. Raise it on the page *Steering* to add these runs.")
        return None
    label = "Add this run" if len(runs) == 1 else f"Add these {n} runs"
    if n < len(runs):
        label = f"Add the first {n} of {len(runs)} runs"
        why = (
            "the budget leaves no more" if n == room else f"at most {MOST_ADDED} are added at once"
        )
        st.caption(f"Only {n}: {why}.")
    if not st.button(label, type="primary", key=f"effects-add-{snapshot.version}"):
        return None
    return Intent(PLACE, lambda: add(desk, snapshot.target, runs[:n]), "Adding runs")


def add(desk: ExperimentView, target: str, runs: tuple[dict[str, Level], ...]) -> str:
    """Submit the runs, all or none; return the message.

    Raises:
        ExperimentError: a run was submitted in the meantime, or cannot be submitted any more.
        StrategyError: a level was closed, or a combination excluded, in the meantime.
    """
    session = desk.session
    experiment = session.experiment
    release(experiment.opened.experiment_id)
    run_ids = {
        run.configuration: run.id for run in experiment.runs if run.state is not RunState.CANCELLED
    }
    for values in runs:
        configuration = experiment.space.from_values(values)
        experiment.space.check(configuration)
        if configuration in run_ids:
            raise ExperimentError(
                f"run {run_ids[configuration]} has one of these configurations since they were "
                "shown; nothing was added, look at what is missing now"
            )
    room = experiment.remaining_runs
    if room is not None and room < len(runs):
        raise ExperimentError(
            f"the budget leaves {labels.runs(room)} since these were shown; nothing was added"
        )
    for values in runs:
        session.include(values, f"to know {target}")
    return f"{labels.runs(len(runs)).capitalize()} {'was' if len(runs) == 1 else 'were'} added."


def missing_table(experiment: Experiment, runs: tuple[dict[str, Level], ...]) -> pd.DataFrame:
    """Return the table of missing runs."""
    return pd.DataFrame(
        {
            labels.column(parameter): level(values[parameter.name])
            for parameter in experiment.space.parameters
        }
        for values in runs
    )

"""One cell of the map: its levels, its runs or what is expected, its region, and what to do."""

import streamlit as st

from assistant import AssistantError, Experiment, Run, RunState
from assistant.expectation import expectation
from assistant.report.going_on import stopped_words
from assistant.report.words import level, number, quantity
from assistant.response_map import from_key
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, sentence
from assistant.ui.space.folded import Centre, Drawn, cell_of
from strategies import Configuration, NotAllowedError, StrategyError

_STATES = {
    RunState.QUEUED: "waits",
    RunState.RUNNING: "is running",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "was cancelled",
}


def panel(
    desk: Desk, experiment: Experiment, drawn: Drawn, key: str, centre: Centre | None
) -> Intent | None:
    """Draw what is known of the cell with a key. Returns a run that is wanted there."""
    rest = {} if centre is None else experiment.space.values(centre.configuration)
    try:
        configuration = from_key(experiment.space, key, rest)
    except (AssistantError, StrategyError) as error:
        st.warning(words.plain(sentence(error)), icon=":material/history:")
        return None
    with st.container(border=True):
        st.markdown(f"**{words.plain(words.settings_of(experiment.space, configuration))}**")
        _together(experiment, drawn, configuration, centre)
        runs = [run for run in experiment.runs if run.configuration == configuration]
        for line in _lines(experiment, drawn, configuration, runs):
            st.markdown(words.plain(line))
        return _action(desk, experiment, configuration, runs)


def _together(
    experiment: Experiment, drawn: Drawn, configuration: Configuration, centre: Centre | None
) -> None:
    """Say of a cell in which configurations fall together which of them is meant."""
    over = drawn.grid.over
    cell = cell_of(drawn.grid, configuration)
    if not over or centre is None or cell is None:
        return
    names = ", ".join(experiment.space.names[i] for i in over[:6])
    n = int(drawn.measured.n_runs[cell])
    best = float(drawn.measured.values[cell])
    found = f", the best {number(best)}" if n else ""
    st.caption(
        words.plain(
            f"The cell has {words.runs(n)}{found}. Here it stands for the configuration with "
            f"{names} as in {centre.words}."
        )
    )


def _lines(
    experiment: Experiment, drawn: Drawn, configuration: Configuration, runs: list[Run]
) -> list[str]:
    """Return what is known of a configuration, a sentence each."""
    objective = experiment.opened.objective
    lines = [_run_line(experiment, run) for run in runs]
    standing = experiment.standings.get(configuration)
    if standing is not None and standing.n > 1:
        value = quantity(standing.outcome.value, objective.unit)
        lines.append(f"Mean of {words.runs(standing.n)}: {value}.")
    if standing is None:
        expected = expectation(experiment, configuration)
        if expected is None:
            lines.append("What to expect is unknown: fewer than 2 runs have finished.")
        else:
            value = quantity(expected.value, objective.unit)
            band = f"{number(expected.low)} to {number(expected.high)}"
            lines.append(f"Expected {objective.wrapper}: {value}, 95 % interval of a run {band}.")
    radius = experiment.watch.regions.radius
    homes = [
        str(r.id) for r in drawn.regions if r.contains(experiment.space, configuration, radius)
    ]
    where = f"region {' and '.join(homes)}" if homes else "no region of good results"
    if drawn.regions:
        lines.append(f"It lies in {where}.")
    if configuration == experiment.opened.baseline:
        lines.append("It is today's configuration.")
    if experiment.best is not None and configuration == experiment.best.configuration:
        lines.append("It is the best so far.")
    return lines


def _run_line(experiment: Experiment, run: Run) -> str:
    who = words.SOURCES[run.source]
    if run.outcome is None:
        why = f": {run.failure}" if run.failure else ""
        return f"Run {run.id} ({who}) {_STATES[run.state]}{why}."
    value = quantity(run.outcome.value, experiment.opened.objective.unit)
    met = "" if run.outcome.feasible else "; it violates a constraint"
    early = f"; {stopped_words(run)}" if run.stopped is not None else ""
    return f"Run {run.id} ({who}) measured {value}{met}{early}."


def _action(
    desk: Desk, experiment: Experiment, configuration: Configuration, runs: list[Run]
) -> Intent | None:
    """Draw what can be done with a configuration, or why nothing can."""
    space, kept = experiment.space, [r for r in runs if r.state is not RunState.CANCELLED]
    values = space.values(configuration)
    own = f"{experiment.opened.experiment_id}-{configuration.level_ids}"
    add, again = f"space-add-{own}", f"space-again-{own}"
    said = f"space-said-{own}"
    field = f"space-why-{own}-{st.session_state.get(said, 0)}"

    def include() -> str:
        run = desk.session.include(values, reason)
        st.session_state[said] = st.session_state.get(said, 0) + 1  # the next reason is another
        return f"Run {run.id} waits in the queue."

    def repeat() -> str:
        run = desk.session.replicate(kept[0].id, 1, reason)[0]
        st.session_state[said] = st.session_state.get(said, 0) + 1
        return f"Run {run.id} repeats run {kept[0].id}; it waits in the queue."

    reason = str(st.session_state.get(field, "")).strip()
    if kept and st.session_state.get(add):  # it was pressed when somebody else had been quicker
        return Intent("space", include)
    refused = _refusal(experiment, configuration, bool(kept))
    if refused:
        st.caption(words.plain(refused))
        return None
    batch = experiment.open_batch
    if batch is not None and configuration in {one.configuration for one in batch.suggestions}:
        st.caption("It is suggested now; you can take it on *Suggestions* as well.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reason = st.text_input(
            "Why (for the record)", key=field, width=420, persist_state="session",
            placeholder="your own words, or nothing",
        ).strip()  # fmt: skip
        if kept:
            asked = st.button("Run again", type="primary", key=again)
        else:
            asked = st.button("Add to the queue", type="primary", key=add)
    if not asked:
        return None
    return Intent("space", repeat if kept else include, "Submitting")


def _refusal(experiment: Experiment, configuration: Configuration, has_run: bool) -> str:
    """Say why a configuration cannot be submitted; empty if it can."""
    if experiment.finished is not None:
        return f"The experiment is finished ({experiment.finished.reason}); nothing is added."
    if has_run and experiment.opened.deterministic:
        return "It has run already, and another run would give the same result."
    try:
        experiment.space.check(configuration)
    except NotAllowedError as error:
        return sentence(error)
    if experiment.remaining_runs == 0:
        return "The budget is used up; raise it under *Steering* to add a run."
    return ""


def level_texts(experiment: Experiment, run: Run) -> dict[str, str]:
    """Return a run's levels as text, by the names of the parameters with their units."""
    values = experiment.space.values(run.configuration)
    return {words.column(p): level(values[p.name]) for p in experiment.space.parameters}

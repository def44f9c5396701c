"""The *Run* page: one run with its results, history, and its program or simulated schedule.

A running run shows its intermediate results and can be stopped. The AI platform behind a run is
simulated again, because configuration and seed determine it.
"""

from collections.abc import Callable, Mapping

import streamlit as st

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.applications.extensions.placement import FleetPlacement
from assistant.applications.program import Program
from assistant.applications.scheduling import Scheduling
from assistant.config.snapshot import rebuild
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.run import Outcome, Run, RunState
from assistant.presentation.tables.queue import stopped_words
from assistant.presentation.text.comparison import compare
from assistant.presentation.text.number_format import duration, quantity, spoken, unit_of
from assistant.simtools.ai_platform import PlatformDashboard, simulated_dashboard
from assistant.ui import labels, platform_dashboard
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.pages import run_program, run_schedule
from assistant.ui.pages.run_tables import (
    differing_levels,
    history,
    levels_table,
    measure_text,
    measures_beside,
    measures_table,
)
from assistant.ui.state import ExperimentView
from strategies import Level

_LOW_ROWS = 4
_LOW = 35 * (_LOW_ROWS + 1) + 3  # Pixels of a table of so many rows


def comparison_section(experiment: Experiment, run: Run, other: Run) -> None:
    """Draw the differences between two runs, other than their schedules."""
    st.subheader(f"Run {run.id} beside run {other.id}")
    levels = differing_levels(experiment, run, other)
    left, right = st.columns(2)
    with left:
        st.markdown("**Levels that differ**")
        if levels.empty:
            st.caption(f"None: the same configuration with seeds {run.seed} and {other.seed}.")
        else:
            st.dataframe(
                levels, hide_index=True, width="stretch",
                alt=f"levels in which runs {run.id} and {other.id} differ",
            )  # fmt: skip
    with right:
        st.markdown("**Measures**")
        if run.outcome is None or other.outcome is None:
            states = " and ".join(
                f"run {candidate.id} is {labels.STATES[candidate.state]}"
                for candidate in (run, other)
                if candidate.outcome is None
            )
            st.caption(f"These runs cannot be compared: {states}.")
            return
        st.markdown(verdict(experiment, (run, run.outcome), (other, other.outcome)))
        st.dataframe(
            measures_beside(experiment, run, other), hide_index=True, width="stretch",
            alt=f"measures of run {run.id} beside those of run {other.id}",
        )  # fmt: skip


def verdict(experiment: Experiment, here: tuple[Run, Outcome], there: tuple[Run, Outcome]) -> str:
    """Describe which of two runs is better by the objective, and by how much."""
    (run, mine), (other, theirs), objective = here, there, experiment.opened.objective
    if mine.feasible != theirs.feasible:
        feasible_run, broken = (run, other) if mine.feasible else (other, run)
        return f"Run {feasible_run.id} meets every constraint, run {broken.id} does not."
    gain = mine.quality - theirs.quality
    if gain == 0:
        return f"Both have the same {objective.wrapper}."
    better = "better" if gain > 0 else "worse"
    apart = quantity(abs(gain), objective.unit)
    return f"By {objective.wrapper} run {run.id} is {better} than run {other.id} by {apart}."


PLACE = "end"


def stop_section(view_model: ExperimentView, run: Run) -> Intent | None:
    """Draw the fields to stop a running run and return the request to stop it, or None."""
    if run.state is not RunState.RUNNING:
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reason = st.text_input(
            "Why (kept with the run)", key=f"end-why-{run.id}", placeholder="optional", width=320
        ).strip()
        keep = st.button(
            "Stop and keep", icon=":material/stop_circle:", key=f"end-keep-{run.id}",
            help="Stop the run now. Its last intermediate result counts as its result.",
        )  # fmt: skip
        drop = st.button(
            "Cancel", icon=":material/cancel:", key=f"end-drop-{run.id}",
            help="End the run now without a result; it counts against the budget.",
        )  # fmt: skip

    def stop() -> str:
        view_model.session.stop(run.id, reason, keep=keep)
        return f"Run {run.id} was {'stopped' if keep else 'cancelled'}."

    return Intent(f"{PLACE}-{run.id}", stop, "Ending the run") if keep or drop else None


def platform_section(experiment: Experiment, run: Run) -> None:
    """Draw the simulated AI platform during a run, hour by hour."""
    st.subheader("The platform")
    if run.state is not RunState.COMPLETED:
        st.info(f"No charts: run {run.id} is {labels.STATES[run.state]}.", icon=":material/info:")
        return
    values = experiment.space.values(run.configuration)
    opened = experiment.opened
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            board = _board(opened.experiment_id, tuple(values.items()), opened)
    except Exception as error:
        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
        return
    platform_dashboard.draw_dashboard(board, f"platform-{opened.experiment_id}")


@st.cache_resource(max_entries=16, show_spinner=False)
def _board(
    experiment_id: str,  # noqa: ARG001 - a part of the key
    values: tuple[tuple[str, Level], ...],
    _opened: ExperimentOpened,
) -> PlatformDashboard:
    application = rebuild(_opened)
    if not isinstance(application, AiPlatform):
        raise AssertionError("the recipe of an experiment makes its application")
    return simulated_dashboard(application, dict(values))[0]


ICONS = {
    RunState.QUEUED: ":material/schedule:",
    RunState.RUNNING: ":material/play_circle:",
    RunState.COMPLETED: ":material/check_circle:",
    RunState.FAILED: ":material/error:",
    RunState.CANCELLED: ":material/cancel:",
}
LIST_ORDER = {
    "baseline": "The current configuration, for comparison.",
    "initial": "One of the first runs.",
    "suggested": "Suggested, and taken unchanged.",
    "edited": "Suggested, and edited by a person.",
    "analyst": "Added by a person.",
    "imported": "Imported; it did not use the budget.",
    "replicate": "A replicate: its configuration has other runs.",
}
MOST_LISTED = 500
"""Runs among which one chooses from a list; of more one types the number, the list is too long."""

_ANSWERS = "verdict", "again", PLACE


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the page of one run and return a request to rate, replicate or stop it, or None."""
    if not experiment.runs:
        st.subheader("Run")
        st.info(
            "No run yet. Submit suggestions on the page *Suggestions*; each run is shown here as "
            "soon as it is submitted, and in full when it has completed.",
            icon=":material/hourglass_empty:",
        )
        return None
    run, other = _choice(experiment)
    _state(view_model, experiment, run)
    intent = _wishes(view_model, experiment, run) or stop_section(view_model, run)
    with st.container(key="later-run"):
        left, right = st.columns(2)
    with left:
        st.markdown("**Levels**")
        st.dataframe(
            levels_table(experiment, run), hide_index=True, width="stretch",
            alt=f"levels of run {run.id}",
        )  # fmt: skip
    with right:
        _measures(experiment, run)
    if other is not None:
        comparison_section(experiment, run, other)
    section = _SECTIONS.get(experiment.opened.application)
    if section is not None:
        section(view_model, experiment, run, other)
    with st.expander("Origin and times", icon=":material/history:"):
        _provenance(experiment, run)
    return intent


def _program_sections(
    view_model: ExperimentView, experiment: Experiment, run: Run, _other: Run | None
) -> None:
    if run.state is not RunState.RUNNING:
        run_program.measures_section(view_model, experiment, run)
    run_program.program_section(view_model, experiment, run)


_SECTIONS: Mapping[str, Callable[[ExperimentView, Experiment, Run, Run | None], None]] = {
    AiPlatform.name: lambda _view, experiment, run, _other: platform_section(experiment, run),
    Program.name: _program_sections,
    Scheduling.name: lambda _view, experiment, run, other: run_schedule.schedule_section(
        experiment, run, other
    ),
    FleetPlacement.name: lambda _view, experiment, run, _other: run_schedule.fleet_section(
        experiment, run
    ),
}
"""Sections of a run by the name of its application; others have none."""


def _choice(experiment: Experiment) -> tuple[Run, Run | None]:
    ids = [run.id for run in experiment.runs]
    key = f"run-{experiment.opened.experiment_id}"
    lost = _from_address(key, "run", ids), _from_address(f"{key}-other", "with", ids)
    if key not in st.session_state:
        best = experiment.best
        st.session_state[key] = best.id if best is not None else ids[-1]

    def label(run_id: int) -> str:
        # constant text, because a changed label resets the selection
        return f"run {run_id}: {labels.settings_of(experiment.space, find(run_id).configuration)}"

    find = experiment.run
    left, right = st.columns(2)
    if len(ids) > MOST_LISTED:
        help_text = f"The number of a run, 1 to {ids[-1]}."
        with left:
            selected_id = st.number_input(
                "Run", 1, ids[-1], key=key, persist_state="session", help=help_text
            )
        with right:
            other = st.number_input(
                "Compare with", 1, ids[-1], None, key=f"{key}-other", persist_state="session",
                placeholder="no other run", help=help_text,
            )  # fmt: skip
            other = None if other == selected_id else other
    else:
        with left:
            selected_id = st.selectbox(
                "Run", ids, format_func=label, key=key, persist_state="session"
            )
        other_ids = [run_id for run_id in ids if run_id != selected_id]
        with right:
            other = st.selectbox(
                "Compare with", other_ids, index=None, format_func=label, key=f"{key}-other",
                placeholder="no other run", persist_state="session",
            )  # fmt: skip
    _address(key, "run", selected_id)
    _address(f"{key}-other", "with", other)
    for address_text in filter(None, lost):
        st.warning(
            f"The address asks for run {labels.escape_markdown(address_text)}; runs here are "
            f"numbered 1 to {ids[-1]}, so run {selected_id} is shown.",
            icon=":material/link_off:",
        )
    return find(selected_id), None if other is None else find(other)


def _from_address(key: str, parameter: str, ids: list[int]) -> str | None:
    address_text = st.query_params.get(parameter)
    if address_text is None or address_text == st.session_state.get(f"{key}-address"):
        return None
    if address_text.isascii() and address_text.isdecimal() and int(address_text) in ids:
        st.session_state[key] = int(address_text)
        return None
    return address_text[:20]


def _address(key: str, parameter: str, selected_id: int | None) -> None:
    if selected_id is None:
        st.query_params.pop(parameter, None)
        st.session_state.pop(f"{key}-address", None)
        return
    st.query_params[parameter] = st.session_state[f"{key}-address"] = str(selected_id)


def _state(view_model: ExperimentView, experiment: Experiment, run: Run) -> None:
    st.subheader(f"Run {run.id}")
    if run.failure is not None:
        st.error(f"**Failed:** {labels.escape_markdown(run.failure)}", icon=ICONS[RunState.FAILED])
    elif run.cancelled is not None:
        reason = labels.escape_markdown(run.cancelled) or "no reason was given"
        st.warning(f"**Cancelled:** {reason}", icon=ICONS[RunState.CANCELLED])
    elif run.outcome is None:
        _unfinished(view_model, experiment, run)
    else:
        _completed(experiment, run, run.outcome)


def _unfinished(view_model: ExperimentView, experiment: Experiment, run: Run) -> None:
    if run.state is RunState.QUEUED and run.held:
        text = "Held: it waits until it is released on the page *Queue*."
    elif run.state is RunState.QUEUED:
        waiting = [waiting_run.id for waiting_run in experiment.waiting]
        text = f"Waiting: number {waiting.index(run.id) + 1} of {len(waiting)} that may start."
    else:
        text = "Running: its measures appear here when it has completed."
        st.info(text, icon=ICONS[run.state])
        run_program.live_measures(view_model, run.id)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(text, icon=ICONS[run.state])
        st.button("Refresh", icon=":material/refresh:", key="run-refresh")


def _completed(experiment: Experiment, run: Run, outcome: Outcome) -> None:
    objective = experiment.opened.objective
    with st.container(horizontal=True):
        st.metric(
            str(objective.wrapper), spoken(outcome.value, objective.unit),
            _beside(experiment, run),
            delta_color="off", delta_arrow="off", border=True, height="stretch",
            help=f"{objective.goal} it",
        )  # fmt: skip
        if objective.second is not None:
            second = objective.second
            st.metric(
                str(second.wrapper), spoken(outcome.second_value, second.unit),
                border=True, height="stretch", help=f"{second.goal} it",
            )  # fmt: skip
        if objective.constraints:
            st.metric(
                "Constraints", "met" if outcome.feasible else "violated", border=True,
                height="stretch", help="; ".join(map(str, objective.constraints)),
            )  # fmt: skip
        st.metric(
            "Duration", "unknown" if run.duration_s is None else duration(run.duration_s),
            border=True, height="stretch", help="by the clock of its executor",
        )  # fmt: skip
        verdict = {True: "good", False: "bad", None: "none"}[run.good]
        st.metric("Verdict", verdict, border=True, height="stretch", help="rating by a person")
    st.markdown(f"{ICONS[run.state]} **Completed**{_tags(experiment, run)}")
    if run.stopped is not None:
        text = labels.escape_markdown(stopped_words(run))
        st.info(
            f"{text[:1].upper()}{text[1:]}. Its last intermediate result is its result.",
            icon=":material/stop_circle:",
        )
    for constraint in () if outcome.feasible else objective.constraints:
        if constraint.violation(outcome.measures) > 0:
            observed = measure_text(
                outcome.measures[constraint.measure], unit_of(constraint.measure)
            )
            st.warning(
                f"Violated: {labels.escape_markdown(str(constraint))}; "
                f"{constraint.measure} is {observed}.",
                icon=":material/rule:",
            )


def _beside(experiment: Experiment, run: Run) -> str | None:
    """Return the comparison with the baseline; None without a baseline or for the baseline."""
    baseline = experiment.baseline
    if run.outcome is None or baseline is None or baseline.outcome is None or baseline.id == run.id:
        return None
    objective = experiment.opened.objective
    return compare(objective, run.outcome, baseline.outcome, f"run {run.id}").short


def _tags(experiment: Experiment, run: Run) -> str:
    tags = []
    best, baseline = experiment.best, experiment.opened.baseline
    if best is not None and run.configuration == best.configuration:
        tags.append("the best so far")
    if run in experiment.front and experiment.opened.objective.second is not None:
        tags.append("on the front")
    if run.configuration == baseline:
        tags.append("current configuration")
    return f" · {', '.join(tags)}" if tags else ""


def _wishes(view_model: ExperimentView, experiment: Experiment, run: Run) -> Intent | None:
    """Draw verdict and repetition; the intent names the run, whichever is shown later."""
    answer_at(*(f"{answer}-{run.id}" for answer in _ANSWERS))
    if run.state not in (RunState.COMPLETED, RunState.FAILED):
        return None
    has_failed = run.state is RunState.FAILED
    with st.container(horizontal=True, vertical_alignment="center"):
        wished = None if has_failed else _verdict(view_model, run)
        repeats = has_failed or experiment.opened.deterministic is not True
        again = repeats and st.button(
            "Run again", icon=":material/replay:", key=f"again-{run.id}",
            disabled=experiment.finished is not None or experiment.remaining_runs == 0,
            help="Run the same configuration once more, as after a repair of the program."
            if has_failed
            else "Run the same configuration with another seed. The best is chosen by the mean.",
        )  # fmt: skip
    with st.container(key=f"later-repeats-{run.id}"):
        if not repeats:
            st.caption("Results do not vary: the same configuration gives the same result.")
        _repeat_words(experiment, run)
    if not again:
        return wished

    def replicate() -> str:
        (new,) = view_model.session.replicate(run.id)
        return f"Run {new.id} was submitted: run {run.id} again with seed {new.seed}."

    return Intent(f"again-{run.id}", replicate, "Submitting")


def _verdict(view_model: ExperimentView, run: Run) -> Intent | None:
    wished: Intent | None = None
    buttons = (
        ("Good", True, ":material/thumb_up:"),
        ("Bad", False, ":material/thumb_down:"),
        ("No verdict", None, ":material/remove:"),
    )
    for name, good, icon in buttons:
        if st.button(
            name, icon=icon, disabled=run.good is good, key=f"rate-{run.id}-{name}",
        ):  # fmt: skip

            def rate(good: bool | None = good) -> str:
                view_model.session.rate(run.id, good)
                texts = {True: "rated good", False: "rated bad", None: "without a verdict now"}
                return f"Run {run.id} is {texts[good]}."

            wished = Intent(f"verdict-{run.id}", rate)
    return wished


def _repeat_words(experiment: Experiment, run: Run) -> None:
    same = [
        candidate for candidate in experiment.runs if candidate.configuration == run.configuration
    ]
    if len(same) < 2:
        return
    summary = experiment.summary(run)
    unit = experiment.opened.objective.unit
    repeats = ", ".join(
        f"run {twin.id} ({labels.STATES[twin.state]})" for twin in same if twin.id != run.id
    )
    mean = ""
    if summary is not None and summary.n > 1:
        mean = f" The mean of {summary.n} results is {quantity(summary.outcome.value, unit)}."
    st.caption(f"Other runs of the same configuration: {repeats}.{mean}")


def _measures(experiment: Experiment, run: Run) -> None:
    st.markdown("**Measures**")
    if run.outcome is None:
        st.caption("None yet." if run.failure is None and run.cancelled is None else "None.")
        return
    table = measures_table(experiment, run)
    st.dataframe(
        table, hide_index=True, width="stretch", alt=f"measures of run {run.id}",
        height=_LOW if len(table) > _LOW_ROWS else "auto",  # the first chart is near
    )  # fmt: skip


def _provenance(experiment: Experiment, run: Run) -> None:
    lines = [f"{LIST_ORDER[run.source]} {_suggestion_words(experiment, run)}".strip()]
    if run.reason:
        lines.append(f"Why: {labels.escape_markdown(run.reason)}")
    lines += history(run)
    st.markdown("\n".join(f"- {line}" for line in lines))


def _suggestion_words(experiment: Experiment, run: Run) -> str:
    if run.batch is None:
        return ""
    batch = experiment.batches[run.batch - 1]
    by = [
        suggestion.strategy
        for suggestion in batch.suggestions
        if suggestion.configuration == run.configuration
    ]
    strategy = f", by the strategy {labels.escape_markdown(by[0])}" if by else ""
    return f"Batch {run.batch}{strategy}."

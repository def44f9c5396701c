"""The bar on top of every page of an experiment: how far it is, what it waits for, who executes."""

import streamlit as st

from assistant import AssistantError, Experiment, RunState, Standing
from assistant.report.agreement import agreement
from assistant.report.words import number, quantity
from assistant.starting import stored_hooks
from assistant.ui import outlook, words
from assistant.ui.intents import Intent, answer_at
from assistant.ui.runner import Runner, RunnerState, lost_runs

_LIVE_S, _IDLE_S = 1.0, 5.0
_ICONS = {
    RunnerState.VIEWING: ":material/visibility:",
    RunnerState.RUNNING: ":material/play_circle:",
    RunnerState.PAUSED: ":material/pause_circle:",
    RunnerState.IDLE: ":material/check_circle:",
}


def bar(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw title, state and live numbers. Returns start or pause."""
    st.title(words.plain(experiment.opened.name))
    st.caption(
        words.plain(
            f"{experiment.opened.objective} · {experiment.opened.application} · {runner.session.id}"
        )
    )
    intent = _switch(runner, experiment)
    if runner.error is not None:
        st.error(
            f"Nothing more is executed: {words.plain(str(runner.error))}", icon=":material/error:"
        )
    answer_at("run")
    st.session_state["drawn"] = (runner.is_busy, experiment.n_events)
    live = st.fragment(_numbers, run_every=_LIVE_S if runner.is_busy else _IDLE_S)
    live(runner)
    return intent


def _switch(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw who executes, and the button that changes it."""
    if experiment.finished is not None:
        st.info(f"Finished: {words.plain(experiment.finished.reason)}", icon=":material/flag:")
        return None
    if runner.state is RunnerState.VIEWING:
        return _take_over(runner, experiment)
    queued = len(experiment.runs_in(RunState.QUEUED))
    if runner.state is RunnerState.PAUSED:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.warning(
                f"Paused; {words.runs(queued)} wait{'s' if queued == 1 else ''}.",
                icon=":material/pause:",
            )
            if st.button("Go on", type="primary", key="start-runner"):
                return Intent("run", lambda: _start(runner))
        return None
    if runner.is_busy and st.button("Pause", icon=":material/pause:", key="pause-runner"):
        return Intent("run", lambda: _pause(runner))
    return None


def _take_over(runner: Runner, experiment: Experiment) -> Intent | None:
    """Draw that nothing is executed from here yet, and the button that changes it."""
    queued = len(experiment.runs_in(RunState.QUEUED))
    lost = lost_runs(runner)
    if not queued and not lost:
        text = "Nothing waits. Runs that you submit here wait until you start them."
    else:
        text = f"{words.runs(queued + lost)} wait{'s' if queued + lost == 1 else ''}."
    if lost:
        text += (
            f" {words.runs(lost)} of them began in a program that is gone, or that is still "
            "at it: start only when no other program executes this experiment."
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(text, icon=":material/visibility:")
        if st.button("Start running", type="primary", key="start-runner"):
            return Intent("run", lambda: _start(runner), "Preparing the program")
    if told := _hooks(experiment):
        st.caption("Once it runs, these programs are told of warnings, the end and failures:")
        st.code(told, language=None)
    return None


def _hooks(experiment: Experiment) -> str:
    try:
        return str(stored_hooks(experiment))
    except AssistantError:
        return ""  # looking on needs no recipe; starting refuses this one with its sentence


def _start(runner: Runner) -> str:
    returned = runner.start()
    return f"{words.runs(returned)} went back to the queue and are run again." if returned else ""


def _pause(runner: Runner) -> str:
    runner.pause()
    return ""


def _numbers(runner: Runner) -> None:
    """Draw what changes while runs execute. Holds no input, so that nothing typed is lost."""
    was_busy, n_events = st.session_state.get("drawn", (False, 0))
    runner.refresh()
    experiment = runner.experiment
    if was_busy != runner.is_busy:
        st.rerun()
    done = len(experiment.runs_in(RunState.COMPLETED))
    failed = len(experiment.runs_in(RunState.FAILED))
    limit = experiment.sla.max_runs
    outlook.banner(experiment)
    with st.container(horizontal=True):
        st.metric(
            "Runs completed",
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
        _agreed(experiment)
    outlook.tiles(experiment)
    if limit:
        st.progress(min(1.0, experiment.n_charged / limit))
    words_of_state = f"{_ICONS[runner.state]} {words.STATES[runner.state]}"
    if runner.is_pausing:
        words_of_state = ":material/pause_circle: Pausing after what is under way"
    parts = [words_of_state]
    if experiment.sla.deadline_s is not None:
        parts.append(f"Deadline: {words.deadline_words(experiment.sla.deadline_s)}.")
    if failed:
        parts.append(f"{words.runs(failed)} failed.")
    st.markdown("  \n".join(parts))
    if runner.note:
        st.info(runner.note, icon=":material/info:")
    for note in runner.hook_notes:
        st.warning(note, icon=":material/notifications_off:")
    changed = experiment.n_events - n_events
    if changed > 0:
        st.caption("More has happened since the tables below were drawn.")
        if st.button("Refresh", icon=":material/refresh:", key="refresh"):
            st.rerun()


def _agreed(experiment: Experiment) -> None:
    """Draw what was used of cost and goal, where they are agreed."""
    tariff = experiment.sla.tariff
    for use in agreement(experiment):
        if use.term == "cost" and tariff is not None:
            spent = quantity(use.used, "")
            text = spent if use.limit is None else f"{spent} of {number(use.limit)}"
            text = f"{text} {tariff.unit}".rstrip()
            st.metric("Cost", text, border=True, height="stretch", help=f"{tariff}: {use.told}")
        if use.term == "goal":
            said = "open" if use.run is None else f"run {use.run}"
            st.metric(
                "Goal", said, use.agreed, delta_color="off", delta_arrow="off", border=True,
                height="stretch", help=f"{use.agreed}: {use.told}",
            )  # fmt: skip
        if use.term == "run_limit":
            longest = "unknown" if use.used is None else quantity(use.used, "s").partition(" (")[0]
            st.metric(
                "Longest run", longest, use.agreed, delta_color="off", delta_arrow="off",
                border=True, height="stretch", help=use.told,
            )  # fmt: skip


def _best(experiment: Experiment) -> None:
    unit = experiment.opened.objective.unit
    best = None if experiment.best is None else experiment.standing(experiment.best)
    today = None if experiment.baseline is None else experiment.standing(experiment.baseline)
    if best is None:
        st.metric("Best so far", "unknown", border=True, height="stretch")
        return
    delta, colour = None, "off"
    old = None if today is None else today.outcome
    if not best.outcome.feasible:
        delta = "violates a constraint"
    elif today is not None and best.configuration == today.configuration:
        delta = "today's configuration"
    elif old is not None and not old.feasible:
        delta, colour = "meets every constraint, today does not", "normal"
    elif old is not None and old.quality:
        share = (best.outcome.quality - old.quality) / abs(old.quality)
        delta = (
            f"{share:+.1%} better than today" if share >= 0 else f"{-share:.1%} worse than today"
        )
        colour = "normal" if share >= 0 else "inverse"
    st.metric(
        "Best so far",
        quantity(best.outcome.value, unit).partition(" (")[0],
        delta,
        delta_color=colour,  # type: ignore[arg-type]
        delta_arrow="off",
        border=True,
        height="stretch",
        help=_best_help(experiment, best),
    )


def _best_help(experiment: Experiment, best: Standing) -> str:
    """Say which run it is, of how many it is the mean, and by which of two measures it is best."""
    mean = "" if best.n == 1 else f", mean of {words.runs(best.n)}"
    text = f"run {best.run.id}{mean}: {words.settings_of(experiment.space, best.configuration)}"
    if experiment.opened.objective.second is None:
        return text
    front = f"{len(experiment.front)} on the front, see *Learn*"
    return f"{text}. By {experiment.opened.objective.wrapper}, the first of two measures; {front}."

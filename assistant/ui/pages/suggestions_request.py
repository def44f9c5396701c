"""Requests for suggestions: the initial design, the next batch, or replacements for the list.

A complaint leads to an action: close a level, exclude a combination, or leave out a row.
"""

from collections.abc import Callable

import streamlit as st

from assistant.analysis.recommendation import KEPT_RUNS, recommend
from assistant.analysis.remaining_runs import draw_futures
from assistant.analysis.response_map import FEW, expected_durations, expected_measure
from assistant.core.events import BatchSuggested
from assistant.core.experiment import Experiment
from assistant.presentation.text.number_format import duration, level, quantity
from assistant.ui import labels
from assistant.ui.intents import Intent
from assistant.ui.pages import suggestions_batch
from assistant.ui.pages.suggestions_batch import BatchDraft, submission_preview
from assistant.ui.state import ExperimentView
from strategies import Configuration, Level, StrategyError, strategy_entry

EXHAUSTED = "Nothing is left to suggest: every allowed configuration has been proposed."
REASONS = ("just others", "too risky", "known bad", "too slow")
DESIGN = "latin_hypercube"
_FIRST = {"random": "at random", DESIGN: "spread evenly (Latin hypercube)"}


def request_section(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    """Draw the fields of a request; return the intent."""
    if experiment.finished is not None:
        st.info(
            f"This experiment is finished: {labels.escape_markdown(experiment.finished.reason)}"
        )
        return None
    room = experiment.remaining_runs
    if room == 0:
        st.info(
            "The budget is used up. Agree on more in *Steering* to go on, or read the *Report*.",
            icon=":material/block:",
        )
        return None
    if experiment.open_batch is None:
        return _next(desk, experiment, batch)
    with st.expander("Ask for others", icon=":material/shuffle:"):
        reason = st.segmented_control(
            "What is wrong with these?",
            REASONS,
            default=REASONS[0],
            required=True,
            key=f"reason-{desk.session.id}",
            persist_state="session",
        )
        draft = suggestions_batch.current_draft(experiment, batch)
        if reason == "too risky":
            _risky(experiment, batch, draft)
        if reason == "too slow":
            _slow(desk, experiment, batch, draft)
        bad = _bad(desk, experiment, batch, draft) if reason == "known bad" else None
        return bad or _next(desk, experiment, batch)


def replacement_intent(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None, n: int
) -> Intent:
    """Return the intent to get ``n`` other suggestions; own runs stay on the list."""
    return _request(desk, experiment, batch, lambda: desk.session.suggest(n))


def _next(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    is_open = experiment.open_batch is not None
    n_results = len(experiment.measured)
    young = n_results < FEW
    first = young and not experiment.batches
    how: str | None = None
    if young and not is_open:
        how = _initial_design(desk, experiment, n_results)
    room = experiment.remaining_runs
    with st.container(horizontal=True, vertical_alignment="bottom"):
        n = st.number_input(
            "How many", 1, room, min(5, room or 5), key=f"n-{desk.session.id}", width=140
        )
        label = "Suggest others" if is_open else "Suggest the first runs" if young else "Suggest"
        is_pressed = st.button(label, type="secondary" if is_open else "primary", key="suggest")
        confirm = _confirm(desk, experiment, batch)
    if not is_pressed:
        return confirm
    if how is None and not first:
        return replacement_intent(desk, experiment, batch, n)
    return _request(desk, experiment, batch, lambda: _initial(desk, experiment, n, how))


def _initial_design(desk: ExperimentView, experiment: Experiment, n_results: int) -> str | None:
    results = "1 result" if n_results == 1 else f"{n_results} results"
    st.info(
        f"The model is too young to say what is good: it needs {FEW} results and has {results}. "
        "The first runs are chosen without it.",
        icon=":material/hourglass_top:",
    )
    name = experiment.steering.strategy
    initial_strategy = name if strategy_entry(name).starts else "random"
    ways = {
        initial_strategy: _FIRST.get(initial_strategy, f"as {initial_strategy} begins"),
        **_FIRST,
    }
    selected = st.segmented_control(
        "Choose them",
        list(ways),
        default=initial_strategy,
        required=True,
        format_func=ways.__getitem__,
        key=f"first-{desk.session.id}",
        persist_state="session",
    )
    return None if selected in (None, initial_strategy) else str(selected)


def _initial(
    desk: ExperimentView, experiment: Experiment, n: int, how: str | None
) -> BatchSuggested:
    """Propose the initial design; its own strategy is used only for that."""
    session, steering = desk.session, experiment.steering
    if how is None:
        return session.initial_evaluation(n)
    session.change_strategy(how, {}, "keep")
    try:
        return session.initial_evaluation(n)
    finally:
        session.change_strategy(steering.strategy, steering.options, "keep")


def _request(
    desk: ExperimentView,
    experiment: Experiment,
    batch: BatchSuggested | None,
    ask: Callable[[], BatchSuggested],
) -> Intent:
    def do() -> str:
        own_draft = suggestions_batch.current_draft(experiment, batch).own_only
        fresh = ask()
        suggestions_batch.release_batch(desk.session.id)
        if not fresh.suggestions:
            return EXHAUSTED
        suggestions_batch.put(experiment, fresh, own_draft)
        if batch is None:
            suggestions_batch.put(experiment, None, BatchDraft())
        return ""

    return Intent("suggest", do, "Choosing suggestions")


def _confirm(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    if experiment.opened.deterministic:
        return None
    recommended = recommend(experiment)
    if recommended is None or recommended.confirmed:
        return None
    label = f"Suggest to confirm run {recommended.run.id}"
    if not st.button(label, key="confirm", help=recommended.sentence):
        return None
    room = experiment.remaining_runs
    n = KEPT_RUNS if room is None else min(KEPT_RUNS, room)
    return _request(desk, experiment, batch, lambda: desk.session.confirm(n))


def _taken_runs(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft
) -> list[tuple[int, Configuration]]:
    try:
        preview = submission_preview(experiment, batch, draft)
    except StrategyError:
        return []
    return [
        (r, submission.configuration)
        for r, submission in zip(preview.rows, preview.wanted, strict=True)
    ]


def _leave_out(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft, row: int, key: str
) -> None:
    if st.button(f"Leave out no. {row + 1}", key=key):
        n = 0 if batch is None else len(batch.suggestions)
        suggestions_batch.put(experiment, batch, draft.without(row, n))
        st.rerun()


def _risky(experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft) -> None:
    objective = experiment.opened.objective
    sign = 1.0 if objective.goal == "minimise" else -1.0
    bounds = [
        (max(sign * expected.low, sign * expected.high), row)
        for row, configuration in _taken_runs(experiment, batch, draft)
        if (expected := expected_measure(experiment, configuration)) is not None
    ]
    if not bounds:
        st.caption("How far a run may come out is not known yet: there are too few results.")
        return
    worst, row = max(bounds)
    value = quantity(sign * worst, objective.unit).partition(" (")[0]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            labels.escape_markdown(f"The riskiest is no. {row + 1}: it may come to {value}.")
        )
        _leave_out(experiment, batch, draft, row, "leave-risky")
    st.caption(
        "A higher share inside the regions of good results keeps nearer to what is known: try it "
        "on *What if*."
    )


def _slow(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft
) -> None:
    rows = _taken_runs(experiment, batch, draft)
    durations = (
        expected_durations(experiment, [configuration for _, configuration in rows])
        if rows
        else None
    )
    if durations is None:
        usual = draw_futures(experiment, desk.session.now_s()).duration_s
        if usual is None or usual.median is None or usual.low is None or usual.high is None:
            st.caption("How long runs take is not known yet: none has told its duration.")
        else:
            st.caption(
                f"A run takes about {duration(usual.median)} (8 of 10: {duration(usual.low)} to "
                f"{duration(usual.high)}); by which levels is not known yet."
            )
        return
    slowest = max(range(len(rows)), key=lambda i: durations[i].value)
    row, expected = rows[slowest][0], durations[slowest]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"The slowest is no. {row + 1}: about {duration(expected.value)} "
            f"({duration(expected.low)} to {duration(expected.high)}, 95 % interval)."
        )
        _leave_out(experiment, batch, draft, row, "leave-slow")
    st.caption("*Steering*, *Budget*, can limit how long a single run may take.")


def _bad(
    desk: ExperimentView, experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft
) -> Intent | None:
    n = 0 if batch is None else len(batch.suggestions)
    rows = _taken_runs(experiment, batch, draft.ticked(n, True))
    if not rows:
        return None
    key = f"bad-{desk.session.id}"
    by_row = dict(rows)
    space = experiment.space
    with st.container(horizontal=True, vertical_alignment="bottom"):
        row = st.selectbox(
            "Which one", list(by_row), format_func=lambda i: f"no. {i + 1}", key=f"{key}-row",
            width=140,
        )  # fmt: skip
        values = space.values(by_row[row])
        pairs: list[tuple[str, Level] | None] = [None, *values.items()]
        pair = st.selectbox(
            "What is bad about it",
            pairs,
            format_func=lambda fault: (
                "this combination of levels" if fault is None else f"{fault[0]} = {level(fault[1])}"
            ),
            key=f"{key}-what-{row}",
            width=320,
        )
        pressed = st.button("Never propose it again, and suggest others", key="known-bad")
    if not pressed:
        return None
    n_suggestions = max(n, 1)

    def forbid_and_ask() -> BatchSuggested:
        if pair is None:
            condition = " and ".join(f"{name} == {value!r}" for name, value in values.items())
            desk.session.exclude(condition)
        else:
            desk.session.close_level(*pair)
        return desk.session.suggest(n_suggestions)

    return _request(desk, experiment, batch, forbid_and_ask)

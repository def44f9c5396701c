"""Suggestions: the open warning, the frozen batch with runs of one's own, and how to get others.

A row is known by its batch and its position. If the batch on the screen is not the open one any
more, because another window acted, every action on it is refused. What is ticked, changed and added
stays with the batch: over page switches, other windows and a restart of the server.
"""

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from assistant import AssistantError, BatchSuggested, Experiment, RunState
from assistant.decisions import submission
from assistant.errors import ExperimentError
from assistant.report.why import KINDS_TOLD, expected_text, kind_text, list_text
from assistant.report.words import level, setting
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import FieldError, Intent, answer_at, sentence
from assistant.ui.suggestions import asking, explained, held, warning
from assistant.ui.suggestions.draft import (
    Draft,
    OwnRun,
    Picked,
    configuration_of,
    draft_of,
    picked,
    rows_of,
)
from strategies import StrategyError

EVERY_S = 3.0
NUMBER, TAKE, EXPECTED, KIND, WHY = "no.", "take", "expected", "kind", "why"


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants done."""
    # A box for each part: what comes and goes in one must not move the others.
    with st.container():
        intent = warning.section(desk, experiment)
    with st.container():
        st.subheader("Suggestions")
        answer_at("suggest", "submit")
        if experiment.automatic is not None:
            st.info(
                "It steers itself: suggestions are taken as they come. Take it back on *Steering* "
                "to decide yourself; what you submit here runs as well.",
                icon=":material/sync:",
            )
        batch = held.batch_on_screen(experiment)
        intent = _list(desk, experiment, batch) or intent
    with st.container():
        intent = asking.section(desk, experiment, batch) or intent
    with st.container():
        return _own(desk, experiment, batch) or intent


def _list(desk: Desk, experiment: Experiment, batch: BatchSuggested | None) -> Intent | None:
    base = held.base(experiment, batch)
    if batch is None and not base.own:
        return None
    is_stale = batch is not None and not _is_open(experiment, batch)
    intent = None
    if batch is not None and is_stale:
        _stale(desk, experiment, batch)
    elif batch is not None:
        _news(desk, batch)
        if st.session_state.pop(_renewed(experiment), None) == batch.number:
            intent = asking.for_others(desk, experiment, batch, len(batch.suggestions))
    title = "Runs of your own" if batch is None else words.batch_title(batch)
    st.markdown(f"**{title}.** Untick what shall not run, choose other levels, submit.")
    draft = _editor(experiment, batch, base)
    held.keep(experiment, batch, draft)
    is_over = is_stale or experiment.finished is not None
    refused, chosen = _preview(experiment, batch, draft, is_over=is_over)
    if batch is not None:
        with st.expander("Why each of them"):
            reasons = [words.plain(suggestion.reason) for suggestion in batch.suggestions]
            st.markdown("\n".join(f"{i}. {reason}" for i, reason in enumerate(reasons, 1)))
    with st.container(horizontal=True):
        n = 0 if chosen is None else len(chosen.wanted)
        submit = st.button(
            f"Submit {words.runs(n)}",
            type="primary",
            key=f"submit-{0 if batch is None else batch.number}",
            disabled=n == 0 or bool(refused) or experiment.finished is not None,
            shortcut="Ctrl+Enter",
        )
        for label, taken in (("Take all", True), ("Take none", False)):
            if st.button(label, key=f"{label}-{0 if batch is None else batch.number}"):
                rows = 0 if batch is None else len(batch.suggestions)
                held.put(experiment, batch, draft.ticked(rows, taken))
                st.rerun()
        if batch is not None and st.button("Explain", icon=":material/help:", key="explain"):
            explained.dialog(experiment, batch)
        if draft.tidied() != draft and st.button("Remove your unticked runs", key="tidy"):
            held.put(experiment, batch, draft.tidied())
            st.rerun()
    if submit and chosen is not None:
        intent = Intent("submit", lambda: _submitted(desk, batch, draft, chosen), "Submitting")
    return intent


def _stale(desk: Desk, experiment: Experiment, batch: BatchSuggested) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(
            f"Batch {batch.number} was submitted or replaced since it was shown here. "
            "Nothing can be done with it any more.",
            icon=":material/history:",
        )
        if st.button("Show what is open now", key="renew"):
            own = held.kept(experiment, batch).own_only
            held.release(desk.session.id)
            if not own.is_empty:
                held.put(experiment, experiment.open_batch, own)
            st.rerun()


@st.fragment(run_every=EVERY_S)
def _news(desk: Desk, batch: BatchSuggested) -> None:
    """Say that results came in after the batch was made, with the choice to keep or renew it.

    Drawn anew every few seconds; the list below stays as it is.
    """
    try:
        desk.session.catch_up()
    except AssistantError as error:
        st.warning(f"What came in is not known: {words.plain(str(error))}.")
        return
    experiment = desk.session.experiment
    if not _is_open(experiment, batch):
        st.rerun()  # another window acted: the whole page says so
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    n = sum(run.ended_s is not None and run.ended_s > batch.at_s for run in over)
    key = _kept(experiment, batch)
    if n <= st.session_state.get(key, 0) or experiment.finished is not None:
        return
    came, told = (f"{n:,} results came", "they tell") if n > 1 else ("1 result came", "it tells")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(
            f"{came} in since this batch. Keep it, or renew it with what {told}.",
            icon=":material/update:",
        )
        if st.button("Keep", key="news-keep"):
            st.session_state[key] = n
            st.rerun()
        if st.button("Renew", key="news-renew"):
            st.session_state[_renewed(experiment)] = batch.number
            st.rerun()


def _is_open(experiment: Experiment, batch: BatchSuggested) -> bool:
    open_batch = experiment.open_batch
    return open_batch is not None and open_batch.number == batch.number


def _kept(experiment: Experiment, batch: BatchSuggested) -> str:
    return f"kept-{experiment.opened.experiment_id}-{batch.number}"


def _renewed(experiment: Experiment) -> str:
    return f"renew-{experiment.opened.experiment_id}"


def _editor(experiment: Experiment, batch: BatchSuggested | None, base: Draft) -> Draft:
    """Draw the table over its base. Returns the draft that it shows."""
    space = experiment.space
    frame = _frame(experiment, batch, base)
    columns: dict[str, Any] = {
        NUMBER: st.column_config.NumberColumn("no.", disabled=True, width=40),
        TAKE: st.column_config.CheckboxColumn(
            "take", width=60, help="Click on the box, or go to it and press the space key."
        ),
        EXPECTED: st.column_config.TextColumn(
            f"expected {experiment.opened.objective.wrapper}",
            disabled=True,
            help="By the model of what was measured so far, with a 95% interval. A row that you "
            "change is told below.",
        ),
        KIND: st.column_config.TextColumn("kind", disabled=True, help=KINDS_TOLD),
        WHY: st.column_config.TextColumn("why", disabled=True, width="large"),
    }
    for parameter in space.parameters:
        options = [level(value) for value in words.open_levels(space, parameter)]
        present = [value for value in frame[parameter.name] if value not in options]
        columns[parameter.name] = st.column_config.SelectboxColumn(
            words.column(parameter),
            options=[*options, *dict.fromkeys(present)],
            required=True,
            help=parameter.description or None,
        )
    table = st.data_editor(
        frame,
        key=held.table_key(experiment, batch, base),
        column_config=columns,
        hide_index=True,
        width="stretch",
        alt="your list of runs, with the reason of each",
    )
    rows = [
        (tuple(str(table.loc[i, name]) for name in space.names), bool(table.loc[i, TAKE]))
        for i in range(len(frame))
    ]
    return draft_of(space, batch, rows, base.own)


def _frame(experiment: Experiment, batch: BatchSuggested | None, base: Draft) -> pd.DataFrame:
    space = experiment.space
    suggestions = () if batch is None else batch.suggestions
    lines: list[dict[str, object]] = []
    for i, row in enumerate(rows_of(space, batch, base)):
        suggested = suggestions[i] if i < len(suggestions) else None
        values = {
            parameter.name: parameter.parse(text)
            for parameter, text in zip(space.parameters, row.levels, strict=True)
        }
        lines.append(
            {
                NUMBER: i + 1,
                TAKE: row.taken,
                EXPECTED: expected_text(experiment, space.from_values(values)),
                KIND: "yours" if suggested is None else kind_text(suggested),
                **dict(zip(space.names, row.levels, strict=True)),
                WHY: row.reason or "your own",
            }
        )
    return pd.DataFrame(lines)


def _preview(
    experiment: Experiment, batch: BatchSuggested | None, draft: Draft, *, is_over: bool
) -> tuple[str, Picked | None]:
    """Say what the list is predicted to give, and what of it would be refused.

    Of a list that cannot be submitted any more, ``is_over``, the reason stands above it already.
    """
    try:
        chosen = picked(experiment, batch, draft)
        numbered = [
            (row + 1, one.configuration)
            for row, one in zip(chosen.rows, chosen.wanted, strict=True)
        ]
        st.markdown(words.plain(list_text(experiment, numbered)))
        for number, configuration in numbered:
            if number - 1 in draft.edits:
                expected = expected_text(experiment, configuration)
                st.caption(f"No. {number}, as you changed it: expected {expected}.")
        if not is_over:
            submission(experiment, chosen.wanted, 0.0)
    except (AssistantError, StrategyError) as error:
        refused = sentence(error)
        st.error(words.plain(refused), icon=":material/block:")
        return refused, None
    return "", chosen


def _submitted(desk: Desk, batch: BatchSuggested | None, draft: Draft, chosen: Picked) -> str:
    """Submit the list: all of it, or nothing where any of it cannot be."""
    session = desk.session
    session.catch_up()
    experiment = session.experiment
    if batch is not None and not _is_open(experiment, batch):
        raise ExperimentError(
            f"batch {batch.number} was submitted or replaced since it was shown here; "
            "nothing was submitted"
        )
    submission(experiment, chosen.wanted, session.now_s())
    n = 0
    if batch is not None and chosen.keep:
        with session.only_on(experiment.version):
            n = len(session.submit(batch, keep=chosen.keep, edits=chosen.edits))
    left = [one for one in draft.own if one.taken]
    for values, reason in chosen.own:
        try:
            session.include(values, reason)
        except (AssistantError, StrategyError) as error:
            _hold_back(desk, batch, draft, left)
            done = f"{words.runs(n)} submitted, and the rest is" if n else "your list is"
            raise ExperimentError(f"{str(error).removesuffix('.')}; {done} still here") from error
        n += 1
        left.pop(0)
    _hold_back(desk, batch, draft, left)
    return f"{words.runs(n)} submitted."


def _hold_back(desk: Desk, batch: BatchSuggested | None, draft: Draft, left: list[OwnRun]) -> None:
    """Keep of a list what was not submitted: the person's own runs, and an untouched batch."""
    experiment = desk.session.experiment
    rest = (*left, *(one for one in draft.own if not one.taken))
    if batch is not None and _is_open(experiment, batch):
        held.put(experiment, batch, replace(draft, own=rest))
        return
    held.put(experiment, batch, Draft())
    held.release(experiment.opened.experiment_id)
    held.put(experiment, experiment.open_batch, Draft(own=rest))


def _own(desk: Desk, experiment: Experiment, batch: BatchSuggested | None) -> Intent | None:
    """Draw the levels of a run of one's own, which is added to the list."""
    if experiment.finished is not None:
        return None
    space, key = experiment.space, f"own-{desk.session.id}"
    best, today = experiment.best, experiment.opened.baseline
    start = best.configuration if best is not None else today
    present = space.values(start) if start is not None else {}
    st.subheader("Add your own")
    st.caption(
        "It joins the list above, and runs once you submit it."
        + (" The levels begin as those of the best run." if best is not None else "")
    )
    chosen: list[str] = []
    with st.form(key, border=False):
        columns = st.columns(min(3, len(space.parameters)))
        for i, parameter in enumerate(space.parameters):
            levels = words.open_levels(space, parameter)
            value = present.get(parameter.name)
            picked_level = columns[i % len(columns)].selectbox(
                parameter.name,
                levels,
                index=levels.index(value) if value in levels else 0,
                format_func=lambda one, unit=parameter.unit: setting(one, unit),
                help=parameter.description or None,
                key=f"{key}-{parameter.name}",
                persist_state="session",
            )
            chosen.append(level(picked_level))
        reason = st.text_input("Why (kept with the run)", key=f"{key}-why", persist_state="session")
        asked = st.form_submit_button("Add to the list", key=f"{key}-add")
    answer_at("own")
    if not asked:
        return None

    def do() -> str:
        own = OwnRun(tuple(chosen), reason.strip())
        draft = held.kept(experiment, batch)
        _refuse_twice(desk.session.experiment, batch, draft, own)
        held.put(experiment, batch, draft.adding(own))
        n = 0 if batch is None else len(batch.suggestions)
        return f"Added to the list as no. {n + len(draft.own) + 1}."

    return Intent("own", do)


def _refuse_twice(
    experiment: Experiment, batch: BatchSuggested | None, draft: Draft, own: OwnRun
) -> None:
    """Raise what is wrong with a run of one's own: not allowed, run before, or on the list."""
    configuration = configuration_of(experiment.space, own)
    alone = picked(experiment, None, Draft(own=(own,)))
    submission(experiment, alone.wanted, 0.0)
    every = draft.ticked(0 if batch is None else len(batch.suggestions), True)
    listed = picked(experiment, batch, every)
    for row, one in zip(listed.rows, listed.wanted, strict=True):
        if one.configuration == configuration:
            raise FieldError("own", f"It is on the list already, as no. {row + 1}.")

"""The list that is made of a batch: to text and rows and back, and what it would submit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import open_session
from assistant.store.event_store import MemoryStore
from assistant.ui.pages.suggestions_batch import (
    BatchDraft,
    ManualRun,
    draft_of,
    rows_of,
    submission_preview,
)
from strategies import StrategyError
from tests.assistant.examples import SPACE, Bowl, TickingClock

LEVELS = {p.name: [str(value) for value in p.levels] for p in SPACE.parameters}
N = 4


@st.composite
def drafts(draw: st.DrawFn) -> BatchDraft:
    cells = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in LEVELS.items()})
    own = st.builds(
        ManualRun,
        st.tuples(*(st.sampled_from(v) for v in LEVELS.values())),
        st.text(max_size=20),
        st.booleans(),
    )
    edits = draw(st.dictionaries(st.integers(0, N - 1), cells.filter(bool), max_size=N))
    left = draw(st.frozensets(st.integers(0, N - 1)))
    return BatchDraft(left, edits, tuple(draw(st.lists(own, max_size=3))))


@given(drafts())
def test_text_gives_the_draft_back_and_only_where_it_belongs(draft: BatchDraft) -> None:
    text = draft.text("bowl-1")
    assert BatchDraft.read(text, "bowl-1", N, SPACE) == draft
    assert BatchDraft.read(text, "bowl-2", N, SPACE).is_empty
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(st.text(max_size=60))
def test_any_text_is_read_as_an_empty_draft(text: str) -> None:
    assert BatchDraft.read(text, "bowl-1", N, SPACE).is_empty


@pytest.mark.parametrize(
    "draft",
    [
        BatchDraft(left=frozenset({N})),
        BatchDraft(edits={0: {"z": "1"}}),
        BatchDraft(edits={0: {"x": "17"}}),
        BatchDraft(own=(ManualRun(("1", "1")),)),
        BatchDraft(own=(ManualRun(("1", "1", "strange")),)),
    ],
)
def test_what_does_not_fit_the_batch_is_not_read(draft: BatchDraft) -> None:
    assert BatchDraft.read(draft.text("bowl-1"), "bowl-1", N, SPACE).is_empty


@given(drafts())
def test_rows_give_back_what_matters_of_the_draft(draft: BatchDraft) -> None:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    batch = session.initial_evaluation(N)
    rows = rows_of(SPACE, batch, draft)
    assert len(rows) == N + len(draft.own)
    seen = draft_of(SPACE, batch, [(row.levels, row.taken) for row in rows], draft.own)
    assert (seen.left, seen.own) == (draft.left, draft.own)
    assert rows_of(SPACE, batch, seen) == rows, "an edit to the level that was there is none"
    assert all(cells for cells in seen.edits.values())
    assert seen.ticked(N, True).left == frozenset()
    assert all(one.taken for one in seen.ticked(N, True).own)
    assert not any(row.taken for row in rows_of(SPACE, batch, seen.ticked(N, False)))
    for i in range(len(rows)):
        left_out = rows_of(SPACE, batch, seen.without(i, N))
        assert [r.taken for r in left_out] == [r.taken and k != i for k, r in enumerate(rows)]


def test_what_would_be_submitted() -> None:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    batch = session.initial_evaluation(N)
    draft = BatchDraft(
        frozenset({1}),
        {1: {"x": "3"}, 2: {"mode": "odd", "x": "0"}},
        (ManualRun(("1", "2", "odd"), "no", taken=False), ManualRun(("2", "2", "odd"), "why")),
    )
    chosen = submission_preview(session.experiment, batch, draft)
    assert chosen.keep == (0, 2, 3)
    assert chosen.edits == {2: {"mode": "odd", "x": 0}}
    assert chosen.own == (({"x": 2, "y": 2, "mode": "odd"}, "why"),)
    assert chosen.rows == (0, 2, 3, 5)
    assert [one.source for one in chosen.wanted] == ["initial", "edited", "initial", "analyst"]
    with pytest.raises(StrategyError):
        submission_preview(session.experiment, batch, BatchDraft(edits={0: {"x": "9"}}))

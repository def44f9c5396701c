"""The list that is made of a batch: to text and rows and back, and what it would submit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import open_session
from assistant.store import MemoryStore
from assistant.ui.suggestions.draft import Draft, OwnRun, draft_of, picked, rows_of
from strategies import StrategyError
from tests.assistant.examples import SPACE, Bowl, TickingClock

LEVELS = {p.name: [str(value) for value in p.levels] for p in SPACE.parameters}
N = 4


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    cells = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in LEVELS.items()})
    own = st.builds(
        OwnRun,
        st.tuples(*(st.sampled_from(v) for v in LEVELS.values())),
        st.text(max_size=20),
        st.booleans(),
    )
    edits = draw(st.dictionaries(st.integers(0, N - 1), cells.filter(bool), max_size=N))
    left = draw(st.frozensets(st.integers(0, N - 1)))
    return Draft(left, edits, tuple(draw(st.lists(own, max_size=3))))


@given(drafts())
def test_text_gives_the_draft_back_and_only_where_it_belongs(draft: Draft) -> None:
    text = draft.text("bowl-1")
    assert Draft.read(text, "bowl-1", N, SPACE) == draft
    assert Draft.read(text, "bowl-2", N, SPACE).is_empty
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(st.text(max_size=60))
def test_any_text_is_read_as_an_empty_draft(text: str) -> None:
    assert Draft.read(text, "bowl-1", N, SPACE).is_empty


@pytest.mark.parametrize(
    "draft",
    [
        Draft(left=frozenset({N})),
        Draft(edits={0: {"z": "1"}}),
        Draft(edits={0: {"x": "17"}}),
        Draft(own=(OwnRun(("1", "1")),)),
        Draft(own=(OwnRun(("1", "1", "strange")),)),
    ],
)
def test_what_does_not_fit_the_batch_is_not_read(draft: Draft) -> None:
    assert Draft.read(draft.text("bowl-1"), "bowl-1", N, SPACE).is_empty


@given(drafts())
def test_rows_give_back_what_matters_of_the_draft(draft: Draft) -> None:
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
    draft = Draft(
        frozenset({1}),
        {1: {"x": "3"}, 2: {"mode": "odd", "x": "0"}},
        (OwnRun(("1", "2", "odd"), "no", taken=False), OwnRun(("2", "2", "odd"), "why")),
    )
    chosen = picked(session.experiment, batch, draft)
    assert chosen.keep == (0, 2, 3)
    assert chosen.edits == {2: {"mode": "odd", "x": 0}}
    assert chosen.own == (({"x": 2, "y": 2, "mode": "odd"}, "why"),)
    assert chosen.rows == (0, 2, 3, 5)
    assert [one.source for one in chosen.wanted] == ["initial", "edited", "initial", "analyst"]
    with pytest.raises(StrategyError):
        picked(session.experiment, batch, Draft(edits={0: {"x": "9"}}))

"""What was filled in on *What if*, and the address that says the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import Sla, Tariff
from assistant.core.sla import Steering
from assistant.presentation.text.number_format import moment
from assistant.ui.pages.what_if_comparison import (
    EMPTIED,
    UNTOUCHED,
    WhatIfDraft,
    from_query,
    query,
    typed_deadline,
    without_defaults,
)

NOW_S = 1_700_000_000.0
SEEN = (
    Sla(50, NOW_S + 7200.4, 20.0, Tariff("EUR", 0.5), goal=12000.0),
    Steering("copper", {}, 0.333),
)
NUMBERS = st.integers(-(10**6), 10**6).map(str) | st.floats(-1e6, 1e6).map(repr)
MOMENTS = st.integers(0, 4_000_000_000).map(float)


@st.composite
def drafts(draw: st.DrawFn) -> WhatIfDraft:
    deadline_s = draw(st.none() | MOMENTS)
    weights = st.tuples(
        st.lists(st.integers(0, 30), min_size=1, max_size=6).map(tuple),
        st.integers(0, 40).map(lambda n: n / 4),
    )
    deadline = (
        None
        if deadline_s is None
        else next(iter(query(WhatIfDraft(deadline="", deadline_s=deadline_s)).values()))
    )
    return WhatIfDraft(
        budget=draw(st.none() | st.integers(0, 10**6)),
        share=draw(st.none() | st.just("none") | st.integers(0, 100)),
        goal=draw(st.none() | st.just("") | NUMBERS),
        deadline=deadline,
        deadline_s=deadline_s,
        cost=draw(st.none() | NUMBERS),
        strategy=draw(st.none() | st.sampled_from(["copper", "grasp"])),
        weights=tuple(draw(st.lists(weights, max_size=3))),
    )


@given(drafts())
def test_an_address_says_all_of_a_draft(draft: WhatIfDraft) -> None:
    told = query(draft)
    assert from_query(told, NOW_S) == (draft, ())
    assert all(told.values())


def test_what_is_left_as_it_is_has_no_word_in_the_address() -> None:
    assert query(UNTOUCHED) == {}
    assert from_query({"e": "hills", "page": "2"}, NOW_S) == (UNTOUCHED, ())


def test_a_time_from_now_is_a_moment_in_the_address() -> None:
    """A colleague opens the same question later."""
    at_s = typed_deadline("30m", NOW_S)
    assert query(WhatIfDraft(deadline="30m", deadline_s=at_s)) == {
        "deadline": "2023-11-14T22:43:20Z"
    }
    later, _ = from_query({"deadline": "2023-11-14T22:43:20Z"}, NOW_S + 600)
    assert later.deadline_s == at_s == NOW_S + 1800


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("90s", NOW_S + 90),
        (" 1h 30m ", NOW_S + 5400),
        ("2023-11-14 23:00", 1_700_002_800.0),
        ("2023-11-14 23:00 UTC", 1_700_002_800.0),
        ("2023-11-15T00:00:00+01:00", 1_700_002_800.0),
        ("", None),
        ("soon", None),
        ("-5m", None),
    ],
)
def test_a_deadline_is_a_time_from_now_or_a_moment(text: str, at_s: float | None) -> None:
    assert typed_deadline(text, NOW_S) == at_s


@pytest.mark.parametrize(
    "draft",
    [
        WhatIfDraft(budget=50),
        WhatIfDraft(share=33),
        WhatIfDraft(goal="12000"),
        WhatIfDraft(goal=" 12000.0 "),
        WhatIfDraft(deadline=moment(NOW_S + 7200.4), deadline_s=None),
        WhatIfDraft(deadline="2h", deadline_s=NOW_S + 7201.0),
        WhatIfDraft(cost="20"),
        WhatIfDraft(strategy="copper"),
        WhatIfDraft(50, 33, "12000", None, None, "20.0", "copper"),
    ],
)
def test_what_is_so_already_is_no_question(draft: WhatIfDraft) -> None:
    assert without_defaults(draft, SEEN) == UNTOUCHED


@pytest.mark.parametrize(
    "draft",
    [
        WhatIfDraft(budget=51),
        WhatIfDraft(budget=EMPTIED),
        WhatIfDraft(share="none"),
        WhatIfDraft(share=34),
        WhatIfDraft(goal=""),
        WhatIfDraft(goal="12000x"),
        WhatIfDraft(deadline="", deadline_s=None),
        WhatIfDraft(deadline="2h", deadline_s=NOW_S + 7300.0),
        WhatIfDraft(cost=""),
        WhatIfDraft(strategy="grasp"),
        WhatIfDraft(weights=(((1, 2), 1.0),)),
    ],
)
def test_everything_else_is_one(draft: WhatIfDraft) -> None:
    assert without_defaults(draft, SEEN) == draft


def test_where_nothing_is_agreed_an_empty_field_is_as_it_is() -> None:
    empty = WhatIfDraft(EMPTIED, "none", "", "", None, "", None)
    assert without_defaults(empty, (Sla(), Steering())) == replace(UNTOUCHED)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"budget": "many"}, "budget=many"),
        ({"budget": "3.5"}, "budget=3.5"),
        ({"budget": "-1"}, "budget=-1"),
        ({"share": "101"}, "share=101"),
        ({"weights": "1.2:x"}, "weights"),
        ({"weights": "1.y:2"}, "weights"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_told(told: dict[str, str], said: str) -> None:
    draft, unread = from_query(told, NOW_S)
    assert draft == UNTOUCHED
    assert [said in one for one in unread] == [True]

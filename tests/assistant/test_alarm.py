"""The alarm: known answers by hand, and what holds for every sequence of checks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.core.forecast import (
    PastWarning,
    WarningCheck,
    alarm_states,
    is_alarm_on,
    is_warning_due,
)


def checks(*misses: float | None, apart: int = 4, budget: int = 100) -> list[WarningCheck]:
    """Return checks from 12 runs on, every ``apart`` runs."""
    used = range(12, 12 + apart * len(misses), apart)
    return [WarningCheck(n, float(budget - n), miss) for n, miss in zip(used, misses, strict=True)]


@pytest.mark.parametrize(
    ("misses", "told"),
    [
        ([0.9], [False]),  # one is chance
        ([0.8, 0.8], [False, True]),  # at the threshold counts
        ([0.9, 0.79, 0.9, 0.9], [False, False, False, True]),  # in a row
        ([0.9, 0.9, 0.71, 0.7, 0.69], [False, True, True, True, False]),  # the release
        ([0.9, 0.9, 0.6, 0.9, 0.9], [False, True, False, False, True]),
        ([0.9, None, 0.9, 0.9], [False, False, False, True]),  # silence begins anew
        ([0.9, 0.9, None, 0.9], [False, True, False, False]),
    ],
)
def test_known_answers(misses: list[float | None], told: list[bool]) -> None:
    assert list(alarm_states(checks(*misses), 0.8)) == told


def test_none_in_the_last_fifth_of_the_budget_or_with_fewer_than_4_runs() -> None:
    assert [
        is_alarm_on([WarningCheck(30, 20.0, 0.9), WarningCheck(n, 50.0 - n, 0.9)], 0.8)
        for n in (39, 40)
    ] == [
        True,
        False,
    ]
    assert [
        is_alarm_on([WarningCheck(4, 8.0, 0.9), WarningCheck(8, left, 0.9)], 0.8)
        for left in (4.0, 3.9)
    ] == [
        True,
        False,
    ]


def test_checks_after_every_run_count_as_those_every_4_runs() -> None:
    every = [WarningCheck(n, 100.0 - n, 0.9) for n in range(12, 20)]
    assert list(alarm_states(every, 0.8)) == [False] * 4 + [True] * 4


@pytest.mark.parametrize(
    ("misses", "last", "due"),
    [
        ([0.9], None, False),
        ([0.9, 0.9], None, True),
        ([0.9, 0.85, 0.89], PastWarning(16, 0.85), False),  # 4 runs are too few
        ([0.9, 0.85, 0.85, 0.89], PastWarning(16, 0.85), False),  # 8 runs, but hardly worse
        ([0.9, 0.85, 0.85, 0.90], PastWarning(16, 0.85), True),  # worse by 0.05
        ([0.9, 0.9, 0.6, 0.9, 0.9], PastWarning(16, 0.9), True),  # off and on again
        ([0.9, 0.9, 0.75, 0.75], PastWarning(16, 0.9), False),
        ([0.9, 0.9, 0.9, 0.6], PastWarning(16, 0.5), False),  # off
    ],
)
def test_when_a_warning_is_given_again(
    misses: list[float], last: PastWarning | None, due: bool
) -> None:
    assert is_warning_due(checks(*misses), 0.8, last) is due


SEQUENCES = st.lists(st.none() | st.floats(0, 1), max_size=18).map(lambda m: checks(*m))


@given(SEQUENCES, st.floats(0.3, 0.95))
def test_what_holds_for_every_sequence(seen: list[WarningCheck], threshold: float) -> None:
    states = alarm_states(seen, threshold)
    assert len(states) == len(seen)
    for check, on in zip(seen, states, strict=True):
        assert check.miss is not None or not on
        assert not on or (check.miss or 0) >= threshold - 0.1 - 1e-6  # never on below the release
        assert not on or (check.left or 0) > 0.2 * (check.used + (check.left or 0))
    for (_, before), (now, after) in pairwise(zip(seen, states, strict=True)):
        assert before or not after or (now.miss or 0) >= threshold - 1e-6  # raised at the threshold
        assert not before or after or not now.may_warn or (now.miss or 0) < threshold - 0.1 + 1e-6
    prefixes = [is_alarm_on(seen[: n + 1], threshold) for n in range(len(seen))]
    assert prefixes == list(states)  # what comes later changes nothing
    assert not any(alarm_states(seen[:1], threshold))


@given(SEQUENCES, st.floats(0.4, 0.95), st.integers(0, 3))
def test_a_reminder_needs_runs_and_news(
    seen: list[WarningCheck], threshold: float, back: int
) -> None:
    if is_warning_due(seen, threshold, None):
        now = seen[-1]
        assert is_alarm_on(seen, threshold)
        assert not is_warning_due(seen, threshold, PastWarning(now.used - back, 0.0))
        same = PastWarning(seen[-1].used - 5, now.miss or 0.0)
        if all(alarm_states(seen, threshold)[-2:]):
            assert not is_warning_due(seen, threshold, same)

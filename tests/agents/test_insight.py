"""Insight is defined by how its members rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import Insight, Truth
from agents.analysts.insight import draw_subset
from assistant import AssistantError
from assistant.applications.lookup import Lookup
from tests.agents.examples import TEXTS, truth

shares = st.floats(0.01, 1.0)


@given(
    st.sampled_from(["rugged", "failing"]), shares, shares, st.integers(1, 9), st.integers(0, 99)
)
def test_a_good_insight_holds_the_optimum_and_only_the_best_ranks(
    table: str, members: float, best: float, least: int, seed: int
) -> None:
    known = truth(table)
    subset = draw_subset(
        Insight("good", members, best, least=least), known, np.random.default_rng(seed)
    )
    assert subset is not None
    n_ranked = int((~np.isnan(known.quality)).sum())
    pool = min(n_ranked, max(least, int(np.ceil(best * n_ranked))))
    assert subset.members.size == min(pool, max(least, int(np.ceil(members * known.size))))
    assert len(set(subset.members.tolist())) == subset.members.size
    worst_allowed = np.sort(known.quality[~np.isnan(known.quality)])[::-1][pool - 1]
    assert (known.quality[subset.members] >= worst_allowed).all()
    assert known.quality[subset.members].max() == known.optimum
    assert ((subset.weights > 0) & (subset.weights <= 1)).all()


@given(st.sampled_from(["rugged", "failing"]), shares, shares, st.integers(0, 99))
def test_a_bad_insight_is_of_the_worst_ranks_without_any_optimum(
    table: str, members: float, worst: float, seed: int
) -> None:
    known = truth(table)
    subset = draw_subset(Insight("bad", members, worst=worst), known, np.random.default_rng(seed))
    assert subset is not None
    measured = np.sort(known.quality[~np.isnan(known.quality)])
    best_allowed = measured[int(np.ceil(worst * measured.size)) - 1]
    found = known.quality[subset.members]
    assert (found <= best_allowed).all(), "a failed run (NaN) is no rank either"
    assert (found < known.optimum).all()


def test_members_and_weights_differ_from_draw_to_draw() -> None:
    known = truth("rugged")
    insight = Insight("bad", members=0.2)
    drawn = [draw_subset(insight, known, np.random.default_rng(seed)) for seed in range(200)]
    counts = np.bincount(np.concatenate([one.members for one in drawn if one]), minlength=60)
    assert (counts > 0).sum() == 30, "each of the worse half comes up"
    assert counts.max() < 2.0 * counts[counts > 0].mean()
    weights = np.concatenate([one.weights for one in drawn if one])
    assert abs(weights.mean() - 0.5) < 0.03


def test_no_insight_draws_nothing() -> None:
    rng = np.random.default_rng(3)
    assert draw_subset(Insight("none"), truth("rugged"), rng) is None
    assert rng.random() == np.random.default_rng(3).random()


def test_where_everything_is_optimal_there_is_no_bad_insight() -> None:
    flat = Truth.of(Lookup.parse("a,objective\n1,2.0\n2,2.0\n3,2.0\n"))
    with pytest.raises(AssistantError, match="a bad insight needs worse configurations"):
        draw_subset(Insight("bad"), flat, np.random.default_rng(0))
    assert draw_subset(Insight("good"), flat, np.random.default_rng(0)) is not None


@pytest.mark.parametrize(
    "wrong", [{"kind": "so-so"}, {"members": 0}, {"best": 1.1}, {"worst": True}, {"least": 0}]
)
def test_what_is_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AssistantError):
        Insight(**wrong)  # type: ignore[arg-type]


def test_the_truth_is_the_table() -> None:
    known = truth("failing")
    assert known.optimum == -1.0
    assert known.ranked[0] == known.space.index(known.space.from_values({"a": 2, "b": 1, "c": 0}))
    assert np.isnan(known.quality).sum() == 60 - (TEXTS["failing"].count("\n") - 1)
    assert known.ratio(-1.0) == 1.0
    assert known.ratio(-4.0) == 0.25
    for index in (0, 17, 59):
        ids = known.level_ids[index].tolist()
        assert known.space.configuration(index).level_ids == tuple(ids)


def test_a_ratio_needs_values_above_zero() -> None:
    known = Truth.of(Lookup.parse("a,objective\n1,-2.0\n2,2.0\n"))
    assert known.ratio(known.optimum) is None


def test_an_application_that_is_no_table_is_refused() -> None:
    from tests.assistant.examples import Bowl

    with pytest.raises(AssistantError, match="may give varying results"):
        Truth.of(Bowl())  # type: ignore[arg-type]

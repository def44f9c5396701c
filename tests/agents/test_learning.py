"""Learning moves probabilities the way the paper says, and confidence is a share that is kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import Analyst, AnalystProfile, EpisodeStreams, Insight, Learning, Truth
from agents.analysts.analyst import share
from agents.analysts.insight import FreeConfigurations, Intuition, Weights, draw_subset, pick
from assistant import AssistantError
from assistant.applications.lookup import Lookup
from tests.agents.examples import indices, played, table, truth


@given(st.integers(0, 100), st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_the_share_of_copperline_is_kept_after_every_round(
    confidence: int, rounds: list[int]
) -> None:
    n = taken = 0
    for size in rounds:
        k = share(confidence, n + size) - share(confidence, n)
        assert 0 <= k <= size
        n, taken = n + size, taken + k
        assert abs(taken - confidence * n / 100) <= 0.5


@pytest.mark.parametrize("confidence", [0, 10, 40, 70, 100])
def test_of_so_many_jobs_so_many_are_copperlines(confidence: int) -> None:
    agent = Analyst(Insight("bad"), confidence)
    session, _ = played(agent, truth("rugged"), max_runs=50)
    suggested = indices(session, "initial", "suggested")
    assert len(suggested) == confidence * 50 / 100
    assert len(indices(session, "analyst")) == 50 - len(suggested)
    offered = sum(len(batch.suggestions) for batch in session.experiment.batches)
    assert offered == len(suggested), "nothing that was asked for is left lying"


def probability(weights: list[float], level: int) -> float:
    return weights[level] / sum(weights)


@given(st.floats(0.01, 3.0), st.sampled_from(["good", "bad"]), st.integers(0, 59))
def test_a_level_gains_in_a_good_result_and_loses_in_a_bad_one(
    rate: float, verdict: str, index: int
) -> None:
    known = truth("rugged")
    weights = Weights(Learning(rate=rate), known, None)
    before = [list(one) for one in weights.levels]
    ids = known.level_ids[index].tolist()
    weights.learn(ids, verdict, 1)  # type: ignore[arg-type]
    sign = 1 if verdict == "good" else -1
    for old, new, level in zip(before, weights.levels, ids, strict=True):
        assert sign * (probability(new, level) - probability(old, level)) > 0
        assert all(new[i] == old[i] for i in range(len(old)) if i != level)
    assert sign * (probability(weights.source, 1) - 0.2) > 0


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.floats(1.1, 30.0))
def test_weights_are_bounded(verdicts: list[bool], bound: float) -> None:
    known = truth("rugged")
    weights = Weights(Learning(rate=1.0, bound=bound), known, None)
    for good in verdicts:
        weights.learn([0, 0, 0], "good" if good else "bad", 0)
    assert all(1 / bound <= w <= bound for one in [*weights.levels, weights.source] for w in one)


def test_a_learner_begins_with_her_insight_and_a_little_mass_everywhere() -> None:
    known = truth("rugged")
    subset = draw_subset(Insight("good"), known, np.random.default_rng(1))
    assert subset is not None
    weights = Weights(Learning(mass=0.1, bound=1e6), known, subset)
    for parameter, one in enumerate(weights.levels):
        shares = np.zeros(len(one))
        for member, weight in zip(subset.members, subset.weights, strict=True):
            shares[known.level_ids[member, parameter]] += weight
        expected = 0.9 * shares / shares.sum() + 0.1 / len(one)
        assert np.allclose(np.array(one) / sum(one), expected)
        assert min(one) > 0


def bowl(ids: tuple[int, ...]) -> float:
    return 1.0 + sum((i - j) ** 2 for i, j in zip(ids, (1, 3, 0, 4), strict=True))


BOWL = Truth.of(Lookup.parse(table((5, 5, 5, 5), bowl)))


def runs_alone(kind: str, learning: Learning | None, replication: int) -> int:
    """Return the runs to the optimum without Copperline's help, at most half the space."""
    streams = EpisodeStreams((5,), replication)
    subset = draw_subset(Insight(kind), BOWL, streams.generator("insight"))  # type: ignore[arg-type]
    mind = Intuition(BOWL, subset, learning, streams.generator("intuition"))
    for n in range(1, BOWL.size // 2):
        index = mind.draw()
        assert index is not None
        if BOWL.quality[index] == BOWL.optimum:
            return n
        mind.learn(index, float(BOWL.quality[index]))
    return BOWL.size // 2


def test_learning_changes_what_the_paper_says_it_changes() -> None:
    """Section 4.2: much with a bad insight or none, little with a good one (30 episodes each)."""

    def mean(kind: str, learning: Learning | None) -> float:
        return float(np.mean([runs_alone(kind, learning, i) for i in range(30)]))

    means = {kind: (mean(kind, None), mean(kind, Learning())) for kind in ("bad", "good", "none")}
    assert means["bad"][1] < 0.8 * means["bad"][0], means
    assert means["none"][1] < 0.7 * means["none"][0], means
    assert means["good"][1] < 1.5 * means["good"][0] < 0.2 * means["none"][0], means


def test_one_who_does_not_learn_uses_her_subset_up_first() -> None:
    known = truth("rugged")
    rng = np.random.default_rng(8)
    subset = draw_subset(Insight("bad", members=0.2), known, rng)
    assert subset is not None
    mind = Intuition(known, subset, None, rng)
    drawn = [mind.draw() for _ in range(known.size)]
    m = subset.members.size
    assert set(drawn[:m]) == set(subset.members.tolist())
    assert {*drawn} == {*range(known.size)}
    assert mind.draw() is None


def test_the_free_are_drawn_evenly_however_few_they_are() -> None:
    rng = np.random.default_rng(4)
    free = FreeConfigurations(1000)
    for index in range(1000):
        if index not in (3, 500, 999):
            free.take(index)
    counts = np.unique([free.draw(rng) for _ in range(3000)], return_counts=True)
    assert counts[0].tolist() == [3, 500, 999]
    assert counts[1].min() > 900


@given(st.lists(st.floats(0.05, 20), min_size=1, max_size=20), st.floats(0, 1, exclude_max=True))
def test_pick_is_the_inverse_of_the_running_sum(weights: list[float], u: float) -> None:
    i = pick(weights, u)
    sums = np.cumsum(weights)
    assert sums[i] >= u * sums[-1] or i == len(weights) - 1
    assert i == 0 or sums[i - 1] <= u * sums[-1]


@pytest.mark.parametrize(
    "wrong",
    [{"rate": 0}, {"rate": float("inf")}, {"mass": -0.1}, {"bound": 1}, {"trust": 1.5},
     {"trust": float("nan")}],
)  # fmt: skip
def test_learning_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(AssistantError, match=f"{next(iter(wrong))} of learning is a number"):
        Learning(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"confidence": 101}, {"confidence": 0.4}, {"batch": 0}, {"acceptance": 2}, {"reaction_s": -1}],
)
def test_a_manner_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    for kind in (AnalystProfile, Analyst):
        with pytest.raises(AssistantError):
            kind(**wrong)

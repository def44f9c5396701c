"""Who is recommended, whether she is confirmed, and which replicates would confirm her."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import Choice, Observation, OptionError, choose, confirmations
from tests.draw.spaces import grid
from tests.strategies.test_noise import SPACE, runs


def chosen(*groups: list[float], deterministic: bool | None = None) -> Choice:
    choice = choose(runs(*groups), deterministic)
    assert choice is not None
    return choice


def levels(choice: Choice, n: int) -> list[int]:
    return [s.configuration.level_ids[0] for s in confirmations(choice, n, SPACE)]


def test_a_deterministic_winner_is_confirmed_by_one_run() -> None:
    choice = chosen([1.0], [4.0], [3.0], deterministic=True)
    assert choice.winner.configuration.level_ids == (1,)
    assert (choice.basis, choice.confirmed, choice.interval) == ("deterministic", True, (4.0, 4.0))
    assert choice.rivals == ()


def test_without_replicates_nothing_is_sure() -> None:
    for deterministic in (None, False):
        choice = chosen([1.0], [4.0], [3.0], deterministic=deterministic)
        assert choice.winner.estimate == 4.0
        assert (choice.basis, choice.confirmed, choice.interval) == ("unknown", False, None)
        assert choice.noise is None


def test_two_runs_confirm_unless_others_may_be_as_good() -> None:
    far = chosen([1.0], [40.0, 40.4], [3.0])
    assert (far.basis, far.confirmed, far.rivals) == ("replicates", True, ())
    agreeing = chosen([4.0, 4.0], [4.0])  # no noise: a tie that no run would break
    assert (agreeing.basis, len(agreeing.rivals)) == ("replicates", 1)
    choice = chosen([1.0], [4.0, 4.4], [3.0])
    assert (choice.basis, choice.confirmed, len(choice.rivals)) == ("repeated", False, 2)
    assert choice.winner.mean == pytest.approx(4.2)
    assert choice.interval is not None
    # s = sqrt(0.08), df 1: half the width is 12.706 * s / sqrt(2)
    assert choice.interval[1] - 4.2 == pytest.approx(12.7062 * 0.2, rel=1e-5)


def test_a_lead_beyond_the_noise_confirms_and_one_within_it_does_not() -> None:
    noisy = [1.0, 1.2], [0.8, 1.0], [1.1, 0.9], [0.5, 0.6]  # variance 0.01625, df 4
    far = chosen(*noisy, [9.0])
    assert (far.basis, far.rivals) == ("gap", ())
    near = chosen(*noisy, [1.5])
    assert near.winner.configuration.level_ids == (4,)
    assert near.basis == "unknown"
    assert near.noise is not None
    assert near.noise.variance == pytest.approx(0.065 / 4)
    # half width of a difference of 1 and 2 runs: 2.7764 * sqrt(0.01625 * 1.5) = 0.4335
    assert [c.configuration.level_ids[0] for c in near.rivals] == [0]
    assert near.contenders[0] == near.rivals[0]


def test_means_of_fewer_runs_are_drawn_further_to_the_mean_of_all() -> None:
    """By hand: means 10, 8, 0; grand 6, spread 28; noise 4 over 1, 4 and 2 runs adds 7/3.

    Between: 77/3. Kept: 1 run 77/89, 4 runs 77/80, 2 runs 77/83.
    """
    choice = chosen([10.0], [6.0, 7.0, 9.0, 10.0], [-1.0, 1.0])
    assert choice.noise is not None
    assert choice.noise.variance == pytest.approx((4 + 1 + 1 + 4 + 1 + 1) / 4)
    variance = 3.0
    between = 28 - variance * (1 + 1 / 4 + 1 / 2) / 3
    wanted = [6 + (m - 6) * between / (between + variance / n) for m, n in ((10, 1), (8, 4))]
    assert choice.winner.estimate == pytest.approx(wanted[0])
    assert choice.contenders[0].estimate == pytest.approx(wanted[1])


def test_a_lucky_single_run_loses_to_a_mean_of_many() -> None:
    """The means spread as noise does: 1 run 0.4 above the grand mean is less than 6 of 0.3."""
    choice = chosen([5.3], [0.2, 10.2, 3.2, 7.2, 5.2, 5.2], [4.9, 5.0, -4.1, 11.0])
    assert choice.winner.configuration.level_ids == (1,)
    assert choice.winner.mean == pytest.approx(5.2)
    assert choice.contenders[0].mean == 5.3
    assert choice.basis == "repeated"


def test_a_failed_winner_and_infeasible_runs() -> None:
    ones = runs([1.0], [4.0, 4.1])
    choice = choose(ones, None, {ones[1].configuration})
    assert choice is not None
    assert (choice.basis, choice.confirmed) == ("failed", False)
    bad = [replace(o, feasible=False, violation=1.0) for o in ones[1:2]]
    half = choose([ones[0], *bad, ones[2]])  # one of two runs violates: not feasible
    assert half is not None
    assert half.winner.configuration == ones[0].configuration
    assert choose(bad) is None
    assert choose(()) is None


def test_the_winner_is_repeated_first_then_whoever_has_the_fewest_runs() -> None:
    assert levels(chosen([1.0], [4.0], [3.0]), 2) == [1, 2]
    noisy = [1.0, 1.2], [0.8, 1.0], [1.1, 0.9], [0.5, 0.6]
    assert levels(chosen(*noisy, [1.5]), 3) == [4, 4, 0]
    assert levels(chosen(*noisy, [9.0]), 3) == [4, 4, 4]
    assert levels(chosen([3.0]), 2) == [0, 0]


def test_a_round_of_n_runs_is_of_the_best_n() -> None:
    """Noise unknown: all are candidates. Known: those that it does not separate from the winner."""
    unknown = chosen([1.0], [4.0], [3.0], [2.0], [0.0])
    assert levels(unknown, 1) == [1]
    assert levels(unknown, 3) == [1, 2, 3]
    assert levels(unknown, 6) == [1, 2, 3, 0, 4, 1]
    # variance 4.5, df 2: half the width of a difference of two pairs is 9.1, of 2 and 1 runs 11.2
    pairs = chosen([9.0, 12.0], [1.0], [8.0, 11.0], [7.0], [6.0])
    assert [c.configuration.level_ids[0] for c in pairs.contenders] == [2, 3, 4, 1]
    assert levels(pairs, 1) == [0]
    assert levels(pairs, 2) == [0, 2]  # the third has fewer runs, and is not of this round
    assert levels(pairs, 4) == [3, 4, 0, 2]


def test_halving_rounds_find_the_best_of_many_more_often_than_two_repeats() -> None:
    """Of 40 equally spaced qualities 0.1 apart, noise 1: 15 more runs in rounds of 8, 4, 2, 1."""
    space, truth = grid(40), np.arange(40) / 10
    regrets: dict[int, list[float]] = {2: [], 15: []}
    for seed in range(200):
        for kept, found in regrets.items():
            rng = np.random.default_rng(seed)
            ones = [Observation(space.configuration(i), truth[i] + rng.normal()) for i in range(40)]
            while (left := 40 + kept - len(ones)) > 0:
                choice = choose(ones)
                assert choice is not None
                for suggestion in confirmations(choice, (left + 1) // 2, space):
                    (i,) = suggestion.configuration.level_ids
                    ones.append(Observation(suggestion.configuration, truth[i] + rng.normal()))
            choice = choose(ones)
            assert choice is not None
            found.append(float(truth[-1] - truth[choice.winner.configuration.level_ids[0]]))
    assert np.mean(regrets[15]) < 0.8 * np.mean(regrets[2]), regrets


def test_confirmations_say_what_they_are() -> None:
    choice = chosen([1.0], [4.0], [3.0])
    first, second = confirmations(choice, 2, SPACE)
    assert (first.kind, first.strategy) == ("confirmation", "confirmation")
    assert first.reason == "Run again to confirm the winner, which ran once."
    assert second.reason == "Run again to compare it with the winner; it ran once."
    assert first.expected == 4.0
    with pytest.raises(OptionError, match="from 1 on"):
        confirmations(choice, 0, SPACE)


def test_what_is_closed_is_not_repeated() -> None:
    choice = chosen([1.0], [4.0], [3.0])
    without = SPACE.closing("p0", 1)
    assert [s.configuration.level_ids[0] for s in confirmations(choice, 2, without)] == [2, 0]
    only = without.closing("p0", 2)
    assert [s.configuration.level_ids[0] for s in confirmations(choice, 2, only)] == [0, 0]


def test_estimates_of_winners_are_less_of_a_promise_than_their_means() -> None:
    """The winner's curse: of 20 equal configurations the best pair of runs promises too much.

    True quality 0, noise 1, two runs each: the greatest of 20 means is 1.32 on average.
    """
    space = grid(20)
    cells = [space.configuration(i) for i in range(20) for _ in range(2)]
    rng = np.random.default_rng(11)
    means, estimates = [], []
    for _ in range(100):
        ones = [Observation(c, q) for c, q in zip(cells, rng.normal(size=40), strict=True)]
        choice = choose(ones)
        assert choice is not None
        means.append(choice.winner.mean)
        estimates.append(choice.winner.estimate)
    assert 1.2 < np.mean(means) < 1.45
    assert abs(np.mean(estimates)) < 0.45

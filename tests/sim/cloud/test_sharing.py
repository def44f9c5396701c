"""A model to give away: nothing that few users asked for is in it, noise is as strong as told."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import dirichlet

from sim.generators import generate, load_model, registered_generators, save_model
from sim.generators.cloud.batches import LIVES, batches_of, observed_of
from sim.generators.cloud.contexts import observed_contexts
from sim.generators.cloud.flavours import keys_of, tokens_of
from sim.generators.cloud.lifetimes import lifetime_probabilities
from sim.generators.cloud.shareable_model import (
    REAL,
    ShareableModel,
    _hazard,
    _redrawn,
    drop_rare_contexts,
    generalise_requests,
    make_shareable,
    users_by,
)
from sim.model.errors import SimError, WorkloadError
from sim.model.workload import Workload

DAY_S = 86_400.0


@cache
def a_log() -> Workload:
    """Return ten days of 30 users: usual requests of all, odd ones of a few, one of nobody else."""
    rng = np.random.default_rng(12)
    n = 3_000
    user = rng.integers(0, 30, n)
    procs = rng.choice([1, 2, 16], size=n)
    requested_s = rng.choice([3_600.0, 7_200.0], size=n)
    odd = rng.random(n) < 0.1
    procs = np.where(odd, 3 + user, procs)  # rounds up to a power of two that others share
    user[:5], procs[:5], requested_s[:5] = 99, 777, 12_345.0
    return Workload.from_arrays(
        submit_s=np.sort(rng.uniform(0, 10 * DAY_S, n)).round(),
        runtime_s=np.minimum(np.ceil(rng.exponential(900.0, n)), requested_s),
        requested_s=requested_s,
        procs=procs,
        user=user,
        name="the secret log",
        start_unix_s=1_400_749_079.0,
        time_zone="UTC",
    )


@cache
def shared(seed: int, strength: float = 0.1, least_users: int = 5) -> ShareableModel:
    return make_shareable(a_log(), seed, strength=strength, least_users=least_users)


def requests(workload: Workload) -> list[tuple[int, ...]]:
    columns = (workload.procs, workload.requested_s, workload.mem_bytes_per_proc)
    return [tuple(row) for row in np.column_stack(columns).astype(int).tolist()]


@pytest.mark.parametrize("least_users", [1, 2, 5, 20, 30])
def test_no_request_of_fewer_users_survives(least_users: int) -> None:
    log = a_log()
    rounded, level = generalise_requests(log, least_users)
    who: dict[tuple[int, ...], set[int]] = {}
    for request, user in zip(requests(rounded), rounded.user.tolist(), strict=True):
        who.setdefault(request, set()).add(user)
    assert min(len(users) for users in who.values()) >= least_users
    kept = level < 4
    assert (rounded.procs >= log.procs[kept]).all()
    assert (rounded.requested_s >= log.requested_s[kept]).all()
    examples = shared(1, least_users=least_users).model.arrays
    made = set(
        zip(
            examples["examples_procs"].tolist(),
            examples["examples_requested_s"].tolist(),
            strict=True,
        )
    )
    assert made == {(p, float(s)) for p, s, _ in who}
    assert ((777, 12_345.0) in made) == (least_users == 1)
    drawn = generate(shared(1, least_users=least_users).model, duration_s=5 * DAY_S, seed=2)
    assert set(requests(drawn)) <= set(who)


def test_jobs_of_nobody_known_are_of_one_user() -> None:
    log = Workload.from_arrays(
        submit_s=np.arange(10.0), runtime_s=np.ones(10), requested_s=np.full(10, 3600.0),
        procs=np.ones(10, dtype=int), user=np.array([-1] * 8 + [1, 2]),
    )  # fmt: skip
    assert generalise_requests(log, 3)[0].n_jobs == 10
    with pytest.raises(WorkloadError, match="not even if rounded"):
        generalise_requests(log, 4)
    assert users_by(np.array([0, 0, 0, 1, -1]), np.array([4, 4, -1, 4, 9])).tolist() == [
        2, 2, 2, 1, 0,
    ]  # fmt: skip


def test_no_context_of_fewer_users_survives() -> None:
    """Counted once more, context by context, with sets."""
    log = a_log()
    rounded = generalise_requests(log, 5)[0]
    trace, _ = batches_of(rounded)
    tokens = tokens_of(trace)
    user = rounded.user[observed_of(rounded).batches(300.0, LIVES)[1]][tokens.job]
    told = keys_of(tokens.before, tokens.run, tokens.earlier, tokens.end)
    contexts, rows = drop_rare_contexts(observed_contexts(told)[0], told, user, 5)
    for level, keys in enumerate(told, start=1):
        who: dict[int, set[int]] = {}
        for key, one in zip(keys.tolist(), user.tolist(), strict=True):
            who.setdefault(key, set()).add(one)
        wanted = sorted(key for key, users in who.items() if len(users) >= 5)
        assert contexts.keys[level].tolist() == wanted
        assert len(wanted) < len(who) or level == 1
    assert (contexts.parent[1:] < np.arange(1, contexts.n_rows)).all()
    assert (np.diff(rows) > 0).all()
    arrays = shared(1).model.arrays
    assert arrays["flavours_keys_3"].tolist() == contexts.keys[3].tolist()


def test_it_is_the_same_for_a_seed_and_another_for_another() -> None:
    again = make_shareable(a_log(), 1, strength=0.1, least_users=5)
    assert again.model == shared(1).model
    assert again.loss == shared(1).loss
    assert shared(2).model != shared(1).model
    without = shared(1, strength=0.0), shared(2, strength=0.0)
    assert without[0].model == without[1].model


def test_it_is_a_model_like_any_other_and_names_nothing(tmp_path) -> None:
    model = shared(1).model
    path = tmp_path / "model.json"
    save_model(model, path)
    assert load_model(path) == model
    assert "secret" not in path.read_text()
    made = generate(load_model(path), duration_s=3 * DAY_S, seed=1)
    assert made.n_jobs > 100
    real_day, day = (1_400_749_079.0 // DAY_S, model.parameters["arrivals"]["first_day"])
    assert (real_day - day) % 7 == 0
    assert day != real_day
    assert len(model.arrays["flavours_by_day"]) == 0


def test_stronger_noise_costs_more_and_none_costs_contexts_only() -> None:
    losses = [shared(3, strength).loss for strength in (0.0, 0.1, 0.5)]
    for name in ("flavour_tv", "lifetime_tv"):
        values = [getattr(loss, name) for loss in losses]
        assert values == sorted(values)
        assert values[2] > 2 * values[0]
    assert losses[0].rate == 1.0
    assert losses[2].rate != 1.0
    everything = shared(3, 0.0, 1).loss
    assert everything.flavour_tv == everything.flavour_nll == everything.contexts == 0
    assert everything.lifetime_tv == everything.lifetime_nll == everything.left_out == 0


def test_rows_vary_as_in_a_sample_of_that_size() -> None:
    row = np.array([0.6, 0.3, 0.1])
    drawn = _redrawn(np.tile(row, (20_000, 1)), 0.2, np.random.default_rng(1))
    assert drawn.sum(axis=1) == pytest.approx(1.0)
    assert drawn.mean(axis=0) == pytest.approx(row, abs=0.003)
    wanted = (1 - REAL) ** 2 * dirichlet(row / 0.2**2).var()
    assert drawn.var(axis=0) == pytest.approx(wanted, rel=0.05)


def test_hazards_are_the_inverse_of_shares() -> None:
    share_of = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    assert lifetime_probabilities(_hazard(share_of)) == pytest.approx(share_of, abs=1e-6)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"strength": -0.1}, "strength"),
        ({"strength": 2.0}, "strength"),
        ({"least_users": 0}, "least_users is 0"),
        ({"least_users": 31}, "ask for fewer users"),
        ({"knobs": {"flavor": 3.0}}, "flavor"),
        ({"knobs": {"flavours": 0.0}}, "flavours"),
    ],
)
def test_what_cannot_be_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(SimError, match=said):
        make_shareable(a_log(), 1, **told)


def test_the_shared_model_is_of_a_registered_generator() -> None:
    assert shared(1).model.generator in [one.name for one in registered_generators()]

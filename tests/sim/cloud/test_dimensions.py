"""Requests foreseen dimension by dimension: known answers by hand, and what never came whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.generators.cloud import flavour_models
from sim.generators.cloud.contexts import Contexts
from sim.generators.cloud.flavour_models import (
    DimensionTable,
    FlavourChain,
    FlavourDimensions,
    chain_of,
    fit_dimensions,
)
from sim.generators.cloud.flavours import FlavourTable, fit_flavours, tilted_shares, tokens_of
from sim.generators.cloud.model_parts import model_parts_of
from sim.generators.cloud.scores import score_flavours
from sim.generators.generator import Model
from sim.model.cloud_trace import CloudTrace, Flavour
from sim.model.errors import WorkloadError
from tests.sim.cloud.test_qualities import a_log, batches_of, model_of
from tests.sim.cloud.test_stages import trace_of

GIB = 2**30


def of_flavours(batches: list[list[int]], flavours: tuple[Flavour, ...]) -> CloudTrace:
    """Return a trace of one period whose batches have these flavours."""
    sizes = [len(batch) for batch in batches]
    n = sum(sizes)
    return CloudTrace(
        period=np.zeros(n, dtype=np.int64),
        batch=np.repeat(np.arange(len(batches)), sizes),
        flavour=np.array([one for batch in batches for one in batch]),
        lifetime=np.full(n, -1),
        censored=np.zeros(n, dtype=np.int64),
        flavours=flavours,
        first_period=0,
        n_periods=20_000,
    )


def fitted(trace: CloudTrace) -> FlavourDimensions:
    return fit_dimensions(trace, fit_flavours(tokens_of(trace)), 0.0)


def alone(shares: list[float]) -> DimensionTable:
    """Return a dimension that knows no context."""
    none = Contexts((np.zeros(1, dtype=np.int64),), np.zeros(1, dtype=np.int64))
    return DimensionTable(none, np.array([shares]))


def by_hand() -> FlavourDimensions:
    """Return three flavours of two dimensions: (0, 0), (0, 1) and (1, 1); no context is known."""
    chain = FlavourChain.of(np.array([[0, 0], [0, 1], [1, 1]]))
    table = fit_flavours(tokens_of(trace_of([[0, 1, 2]])))
    ends, cores, memory = alone([0.75, 0.25]), alone([0.6, 0.4]), alone([0.3, 0.7])
    return FlavourDimensions(table, chain, ends, (cores, memory), np.ones(4), np.ones(3))


def test_a_flavour_has_the_product_of_its_dimensions_among_those_that_exist() -> None:
    told = by_hand().probabilities(tokens_of(trace_of([[0, 2]])))
    # Of one core two memories exist; the third flavour is the only one of its cores.
    wanted = [0.75 * 0.6 * 0.3, 0.75 * 0.6 * 0.7, 0.75 * 0.4, 0.25]
    assert told == pytest.approx(np.tile(wanted, (3, 1)))


def test_flavours_are_parted_by_what_they_ask_for() -> None:
    flavours = (
        Flavour("a", 1000, 2 * GIB, mgpu=0, requested_s=60),
        Flavour("b", 2000, 4 * GIB, mgpu=0, requested_s=60),
        Flavour("c", 2000, 8 * GIB, mgpu=0, requested_s=3600),
        Flavour("d", 2000, 8 * GIB, mgpu=0, requested_s=3600),
        Flavour("others up to 4", 4000),
    )
    # Cores; memory for each core, unknown first; GPUs; time; and of those that agree which.
    assert chain_of(flavours).value.tolist() == [
        [0, 1, 1, 1, 0], [1, 1, 1, 1, 0], [1, 2, 1, 2, 0], [1, 2, 1, 2, 1], [2, 0, 0, 0, 0],
    ]  # fmt: skip
    assert chain_of(flavours[:2]).value.tolist() == [[0], [1]], "all but the cores agree"
    assert chain_of(flavours[:1]).value.tolist() == [[0]]
    assert chain_of(flavours).node.tolist()[2:4] == [[0, 1, 2, 2, 2, 2], [0, 1, 2, 2, 2, 3]]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            Flavour,
            st.just("x"),
            st.sampled_from([1000, 2000, 4000]),
            st.sampled_from([-1, GIB, 4 * GIB]),
            st.sampled_from([-1, 0, 1000]),
            st.sampled_from([-1, 60, 600]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(0, 11), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_chances_of_any_flavours_add_up_and_none_is_nought(
    flavours: list[Flavour], asked: list[int], size: int
) -> None:
    drawn = [one % len(flavours) for one in asked]
    batches = [drawn[at : at + size] for at in range(0, len(drawn), size)]
    trace = of_flavours(batches, tuple(flavours))
    model = fitted(trace)
    assert model.chain.parts
    told = model.probabilities(tokens_of(trace))
    assert told.shape == (len(drawn) + len(batches), len(flavours) + 1)
    assert told.sum(axis=1) == pytest.approx(1.0)
    assert told.min() > 0


CUBE = tuple(
    Flavour(f"{cores} cores, {each} GiB each", cores * 1000, cores * each * GIB)
    for cores in (1, 2, 4)
    for each in (1, 4, 8)
)
"""Flavours of cores 1, 2, 4 by memory for each core 1, 4, 8; the last is never seen below."""


def of_one_memory(n: int, seed: int, *, whole: bool) -> CloudTrace:
    """Return batches that keep their memory for each core and change their cores as they like.

    Args:
        n: batches.
        seed: of the draw.
        whole: all flavours occur; otherwise not the last one.
    """
    rng = np.random.default_rng(seed)
    batches = []
    while len(batches) < n:
        memory = int(rng.integers(3))
        batch = [3 * int(cores) + memory for cores in rng.integers(0, 3, int(rng.integers(1, 6)))]
        if whole or 8 not in batch:
            batches.append(batch)
    return of_flavours(batches, CUBE)


def test_a_request_that_never_came_whole_has_the_chance_of_its_dimensions() -> None:
    taught = of_one_memory(600, 1, whole=False)
    assert 8 not in taught.flavour
    model, table = fitted(taught), fit_flavours(tokens_of(taught))
    # After 2 cores with 8 GiB each: 4 cores with 8 each, or with 1 each, as often seen before.
    tokens = tokens_of(of_flavours([[5, 8]], CUBE))
    chance, plain = (one.probabilities(tokens)[1] for one in (model, table))
    assert chance[8] > 10 * plain[8]
    assert chance[8] > 3 * chance[6]
    assert plain[8] < plain[6] + 1e-9, "a table of whole flavours cannot tell"
    # After the flavour that was never seen: as much memory for each core, which cores say.
    after = model.probabilities(tokens)[2]
    assert after[[2, 5, 8]].sum() > 0.8 * after[:-1].sum()
    unseen = tokens_of(of_one_memory(600, 2, whole=True))
    assert score_flavours(model, unseen).nll < score_flavours(table, unseen).nll - 0.1


def test_with_one_dimension_it_is_a_table_of_ends_and_one_of_flavours() -> None:
    """Flavours that differ in cores alone: shares among them are counted, as in a table."""
    rng = np.random.default_rng(6)
    batches = [[int(one)] * int(size) for one, size in rng.integers(1, 4, (4000, 2)) % 4]
    flavours = tuple(Flavour(f"{cores}", cores * 1000) for cores in (1, 2, 4, 8))
    trace = of_flavours([batch for batch in batches if batch], flavours)
    tokens = tokens_of(trace)
    chance, plain = (one.probabilities(tokens) for one in (fitted(trace), fit_flavours(tokens)))
    assert np.abs(chance - plain).max() < 0.01


def test_the_draw_remembers_what_the_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked while it draws is what is told of the sequence that came of it."""
    model = fitted(of_one_memory(300, 3, whole=True)).tilted(
        np.append(np.ones(9), 0.3), np.linspace(0.2, 1.0, 9)
    )
    asked: list[tuple[np.ndarray, ...]] = []
    plain = flavour_models._ContextCache.sums

    def noting(self: flavour_models._ContextCache, before, run, earlier, day):  # type: ignore[no-untyped-def]
        sums, row = plain(self, before, run, earlier, day)
        asked.append((before, run, earlier, np.diff(sums[row], prepend=0.0, axis=1)))
        return sums, row

    monkeypatch.setattr(flavour_models._ContextCache, "sums", noting)
    flavour, batch = model.draw(200, np.random.default_rng(4), None, np.zeros(200, dtype=np.int64))
    sizes = np.bincount(batch, minlength=200)
    assert sizes.min() > 0, "no batch is empty"
    parts = np.split(flavour, np.cumsum(sizes)[:-1])
    tokens = tokens_of(of_flavours([part.tolist() for part in parts], CUBE))
    chance = model.probabilities(tokens)
    begins = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
    for step, (before, run, earlier, told) in enumerate(asked):
        at = begins[sizes >= step] + step
        for name, one in (("before", before), ("run", run), ("earlier", earlier)):
            assert (one == getattr(tokens, name)[at]).all(), (step, name)
        assert told == pytest.approx(chance[at])


def test_a_day_leans_on_its_table() -> None:
    model = by_hand()
    odds = np.array([8.0, 1.0, 1.0, 1.0])
    plain = model.table.probability
    table = FlavourTable(
        model.table.contexts, plain, np.stack([plain, tilted_shares(plain, odds, np.ones(3))]), 3
    )
    leaning = replace(model, table=table)
    # The first day has no table, the second one that says the same; all are drawn at once.
    day = np.repeat([0, 1, 2], 10_000)
    flavour, batch = leaning.draw(
        len(day), np.random.default_rng(7), day, np.zeros(len(day), dtype=np.int64)
    )
    begins = flavour[np.unique(batch, return_index=True)[1]]
    first = [np.bincount(begins[day == one], minlength=3) / 10_000 for one in range(3)]
    share = np.array([0.6 * 0.3, 0.6 * 0.7, 0.4])
    assert first[0] == pytest.approx(share, abs=0.02)
    assert first[1] == pytest.approx(share, abs=0.02)
    leans = share * odds[:3]
    assert first[2] == pytest.approx(leans / leans.sum(), abs=0.02)


def test_what_a_flavour_asks_for_is_kept_with_a_model() -> None:
    kept = model_of("dimensions")
    flavours = model_parts_of(kept).flavours
    assert flavours == batches_of(a_log())[0].flavours
    assert {one.requested_s for one in flavours} == {7200}
    told = [dict(one) for one in kept.parameters["flavours"]]  # type: ignore[union-attr,arg-type]
    told[0]["colour"] = 1
    broken = Model(kept.generator, {**kept.parameters, "flavours": told}, kept.arrays)
    with pytest.raises(WorkloadError, match="and if known mgpu, requested_s"):
        model_parts_of(broken)


def test_contexts_of_another_depth_are_refused_in_words() -> None:
    from sim.generators.cloud.model_parts import next_flavour_of

    kept = model_of("dimensions")
    n = kept.arrays["dimensions_1_parent"].shape[0]
    deeper = {"dimensions_1_keys_5": np.arange(1), "dimensions_1_parent": np.zeros(n + 1, int)}
    broken = Model(kept.generator, kept.parameters, {**kept.arrays, **deeper})
    with pytest.raises(WorkloadError, match="'dimensions_1' of 'three_stage' have 6 levels; 5 are"):
        next_flavour_of(broken, 4, 10)

"""The Lublin-Feitelson model as a generator: what it shares with the reference, and its fit."""

import numpy as np
import pytest

from benchmarks.workloads_lublin import compare
from sim.generators.generator import Horizon, fit, generate, published_model
from sim.generators.lublin import (
    BATCH,
    INTERACTIVE,
    TYPELESS,
    SizeLaw,
    fit_arrivals,
    fit_cycle,
    fit_run_times,
    fit_sizes,
    lublin,
    processors,
)
from sim.generators.lublin_generator import LUBLIN
from sim.generators.resampling import measure_moments
from sim.model.errors import WorkloadError
from sim.model.workload import Workload

DAY_S = 86400.0


def typeless(days: float, seed: int, **told: object) -> Workload:
    model = published_model("lublin").with_parameters({"types": "typeless", **told})
    return generate(model, duration_s=days * DAY_S, seed=seed)


@pytest.mark.parametrize("p", [INTERACTIVE, BATCH, TYPELESS])
def test_the_law_of_processors_is_what_is_drawn(p: object) -> None:
    law = SizeLaw.of(p)  # type: ignore[arg-type]
    sizes = np.arange(1.0, law.widest + 1)
    chances = law.chances(sizes)
    assert chances.sum() == pytest.approx(1.0)
    drawn = processors(p, 40_000, np.random.default_rng(3))  # type: ignore[arg-type]
    counts = np.bincount(drawn.astype(int), minlength=law.widest + 1)[1:]
    spread = np.sqrt(40_000 * chances * (1 - chances))
    assert (np.abs(counts - 40_000 * chances) <= 5 * spread + 1).all()


def test_the_published_processors_are_found_again() -> None:
    drawn = processors(INTERACTIVE, 20_000, np.random.default_rng(1)).astype(np.int64)
    law = fit_sizes(drawn)
    assert law.serial == pytest.approx(INTERACTIVE.serial_prob, abs=0.012)
    assert law.pow2 == pytest.approx(INTERACTIVE.pow2_prob, abs=0.02)
    assert law.first == pytest.approx(INTERACTIVE.u_prob, abs=0.03)
    assert law.ends == pytest.approx((1.0, 3.0, 5.5), abs=0.11)


def test_serial_jobs_alone_are_fitted_too() -> None:
    assert fit_sizes(np.ones(9, dtype=np.int64)).serial == 1.0


def test_the_published_run_times_are_found_again() -> None:
    workload = typeless(150, 2)
    a1, b1, a2, b2, pa, pb = fit_run_times(workload.runtime_s, workload.procs)
    assert a1 * b1 == pytest.approx(TYPELESS.a1 * TYPELESS.b1, rel=0.03)
    assert a1 * b1**2 == pytest.approx(TYPELESS.a1 * TYPELESS.b1**2, rel=0.1)
    assert a2 * b2 == pytest.approx(TYPELESS.a2 * TYPELESS.b2, rel=0.01)
    assert a2 * b2**2 == pytest.approx(TYPELESS.a2 * TYPELESS.b2**2, rel=0.1)
    assert pb == pytest.approx(TYPELESS.pb, abs=0.03)
    assert pa == pytest.approx(TYPELESS.pa, abs=0.0012)


def test_the_published_arrivals_are_found_again() -> None:
    workload = typeless(400, 3)
    first_s = workload.start_unix_s
    assert first_s is not None
    clock_s = workload.submit_s + first_s % DAY_S
    anum, bnum = fit_cycle(clock_s)
    assert anum * bnum == pytest.approx(TYPELESS.anum * TYPELESS.bnum, rel=0.05)
    aarr, barr, arar = fit_arrivals(clock_s, anum, bnum, 13.0)
    assert aarr * barr * arar == pytest.approx(
        TYPELESS.aarr * TYPELESS.barr * TYPELESS.arar, rel=0.02
    )
    assert barr == pytest.approx(TYPELESS.barr, rel=0.05)


def test_both_types_are_fitted_by_queue() -> None:
    taught = generate(published_model("lublin"), duration_s=40 * DAY_S, seed=4)
    model = fit("lublin", taught, {"interactive_queue": 0})
    assert model.parameters["types"] == "both"
    assert model.parameters["interactive"]["u_hi"] == pytest.approx(5.5, abs=0.11)
    assert model.parameters["batch"]["u_hi"] == pytest.approx(7, abs=0.35)
    assert model.parameters["request_factor"] == pytest.approx(4.0, rel=0.1)
    horizon = Horizon(200 * DAY_S)
    again = generate(model, duration_s=horizon.duration_s, seed=5)
    shares = [(w.queue == 1).mean() for w in (taught, again)]
    assert shares[0] == pytest.approx(shares[1], abs=0.04)


def test_a_scaled_workload_keeps_the_daily_cycle() -> None:
    model = published_model("lublin").with_parameters({"types": "typeless"})
    hours = []
    for scale in (1.0, 20.0):
        workload = generate(model, duration_s=200 * DAY_S, seed=6, scale=scale)
        assert workload.start_unix_s is not None
        clock_s = workload.submit_s + workload.start_unix_s % DAY_S
        hours.append(np.bincount((clock_s % DAY_S // 14400).astype(int), minlength=6))
    shares = [one / one.sum() for one in hours]
    assert shares[0].max() > 3 * shares[0].min(), "no cycle to keep"
    assert np.abs(shares[0] - shares[1]).max() < 0.02


def test_a_later_stage_may_change_without_the_earlier_ones() -> None:
    model = published_model("lublin").with_parameters({"types": "typeless"})
    table = {**model.parameters["typeless"], "a1": 9.0}
    base, other, asked = (
        generate(one, duration_s=9 * DAY_S, seed=1)
        for one in (
            model,
            model.with_parameters({"typeless": table}),
            model.with_parameters({"request_factor": 1.0}),
        )
    )
    assert np.array_equal(base.submit_s, other.submit_s)
    assert np.array_equal(base.procs, other.procs)
    assert not np.array_equal(base.runtime_s, other.runtime_s)
    assert np.array_equal(base.runtime_s, asked.runtime_s)
    assert not np.array_equal(base.requested_s, asked.requested_s)


def test_both_ways_to_draw_agree() -> None:
    """`lublin` draws job by job, the generator in blocks: the same laws, not the same draws."""
    one_by_one = lublin(20_000, 11)
    in_blocks = generate(published_model("lublin"), duration_s=125 * DAY_S, seed=12)
    for queue in (0, 1):
        a, b = (
            np.log(w.runtime_s[w.queue == queue]) for w in (one_by_one, in_blocks)
        )  # per type: the mix of the types varies from run to run
        spread = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < 4 * spread
        assert abs(np.median(a) - np.median(b)) < 8 * spread
    horizon = Horizon(one_by_one.span_s)
    stated = LUBLIN.moments
    assert stated is not None
    rate = stated(published_model("lublin"))["jobs_per_day"]
    days = horizon.duration_s / DAY_S
    found = measure_moments(one_by_one, horizon)["jobs_per_day"]
    assert abs(found - rate.mean) < 4 * rate.sd / np.sqrt(days)


@pytest.mark.soak
@pytest.mark.slow
def test_quantiles_are_those_of_the_authors_program() -> None:
    """Within 3 % of the logarithms; run times with as many jobs of each type as in its run."""
    found = compare(40)
    for name in ("gaps", "run times, types as in the reference"):
        assert np.abs(found[name]["deviation"]).max() <= 0.03, found[name]
    whole = found["run times, whole runs"]
    assert (np.abs(whole["deviation"]) <= 3 * np.array(whole["spread"]) + 1e-9).all(), whole


@pytest.mark.soak
def test_the_truncated_clock_loses_half_a_second_a_job() -> None:
    model = published_model("lublin").with_parameters({"types": "interactive"})
    exact, lost = (
        generate(
            model.with_parameters({"truncated_clock": yes}),
            duration_s=90 * DAY_S,
            seed=3,
            scale=40.0,
        )
        for yes in (False, True)
    )
    n_jobs = 200_000
    assert np.array_equal(exact.procs[:n_jobs], lost.procs[:n_jobs])
    assert lost.n_jobs > exact.n_jobs > n_jobs
    gaps = [float(np.diff(w.submit_s[:n_jobs]).mean()) for w in (exact, lost)]
    assert gaps[0] - gaps[1] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"types": "some"}, "'types' of 'lublin' is 'some'; allowed are both, interactive, batch"),
        ({"max_procs": 2.5}, "'max_procs' of 'lublin' must be a whole number"),
        ({"batch": {"a1": 2}}, "must have exactly the entries serial_prob"),
    ],
)
def test_what_cannot_be_is_refused(told: dict[str, object], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        generate(published_model("lublin").with_parameters(told), duration_s=DAY_S, seed=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"serial_prob": 0.7, "pow2_prob": 0.7}, "together more than 1"),
        ({"u_low": 6.0}, "must not fall"),
        ({"a1": 900.0}, "nearly only values above"),
        ({"aarr": 900.0}, "nearly only values above"),
        ({"anum": 0.001, "bnum": 0.01}, "give half hours without arrivals"),
        ({"u_prob": 1.5}, "'u_prob' of 'typeless' of 'lublin' is 1.5; allowed are numbers from 0"),
    ],
)
def test_laws_that_cannot_be_are_refused(change: dict[str, float], said: str) -> None:
    model = published_model("lublin")
    table = {**model.parameters["typeless"], **change}
    with pytest.raises(WorkloadError, match=said):
        generate(
            model.with_parameters({"types": "typeless", "typeless": table}), duration_s=9.0, seed=1
        )


def test_too_few_jobs_to_fit() -> None:
    with pytest.raises(WorkloadError, match="needs 50 jobs or more"):
        fit("lublin", typeless(30, 1).head(20))

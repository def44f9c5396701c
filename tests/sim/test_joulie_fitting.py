"""Fitting Joulie: known parameters come back, in their intervals; what is not told stays."""

import functools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sim.formats.gpu_clusters import read_openb, read_philly
from sim.generators.generator import fit, generate
from sim.generators.joulie.estimates import ParameterEstimate, fit_law, share_of
from sim.generators.joulie.model_fit import JoulieFit, learn_joulie
from sim.generators.joulie.parameters import (
    FAMILIES,
    ClampedLognormal,
    JoulieParameters,
    model_of,
    parameters_of,
)
from sim.model.errors import ScenarioError, UnknownNameError, WorkloadError
from sim.model.tasks import Tasks
from sim.model.workload import Workload

DAY_S = 86400.0


def changed() -> JoulieParameters:
    """Parameters that differ from the published ones wherever fitting may learn."""
    p = JoulieParameters()
    families = {
        name: replace(
            one,
            duration_sec=replace(one.duration_sec, median=one.duration_sec.median * 1.3, sigma=0.7),
            cpu=replace(one.cpu, median=one.cpu.median * 1.5, sigma=0.25),
            memory_gib=replace(one.memory_gib, median=one.memory_gib.median * 1.2, sigma=0.5),
            cpu_utilisation=(0.1, 0.3),
        )
        for name, one in p.families.items()
    }
    for name, share in (("debug_eval", 0.30), ("single_gpu_training", 0.40)):
        families[name] = replace(families[name], share=share)
    return replace(
        p,
        mean_inter_arrival_sec=90.0,
        hourly_multipliers=tuple(1.0 + 0.5 * math.sin(h / 24 * 2 * math.pi) for h in range(24)),
        burst_day_probability=0.4,
        burst_multiplier=4.0,
        gpu_ratio=0.6,
        gpu_counts=(1, 2, 8),
        gpu_count_probabilities=(0.5, 0.3, 0.2),
        gpu_utilisation_means=(0.7, 0.6, 0.5, 0.4, 0.3),
        perf_ratio=0.1,
        eco_ratio=0.2,
        families=families,
    )


def truth_of(row: ParameterEstimate, p: JoulieParameters) -> float:
    """Look a row of the table up in the parameters that it was generated from."""
    name, _, rest = row.parameter.partition("[")
    if not rest:
        value: object = p
        for part in name.split("."):
            if part in ("from", "to"):
                assert isinstance(value, tuple)
                return float(value[part == "to"])
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        assert isinstance(value, float)
        return value
    number = int(rest.rstrip("]").removesuffix(" GPUs"))
    if name == "hourly_multipliers":
        return p.hourly_multipliers[number]
    if name == "gpu_count_probabilities":
        return p.gpu_count_probabilities[p.gpu_counts.index(number)]
    assert name == "gpu_utilisation_means"
    return p.gpu_utilisation_means[p.gpu_utilisation_counts.index(number)]


@functools.cache
def recovered() -> tuple[Workload, JoulieFit]:
    workload = generate(model_of(changed()), duration_s=50 * DAY_S, seed=11)
    return workload, learn_joulie(workload)


def test_known_parameters_lie_in_their_intervals() -> None:
    _, fitting = recovered()
    rows = [row for row in fitting.learnt if row.low is not None and row.high is not None]
    outside = []
    for row in rows:
        assert row.low is not None
        assert row.high is not None
        truth = truth_of(row, changed())
        outside += [row.parameter] if not row.low <= truth <= row.high else []
        half = max(row.high - row.after, row.after - row.low)
        assert abs(row.after - truth) <= 2.2 * half, (row, truth)
    # Of N intervals at 95 %, more than this many miss with a chance of 1 in 1,000.
    most = int(stats.binom.ppf(0.999, len(rows), 0.05))
    assert len(rows) > 80
    assert len(outside) <= most, outside
    intervals = {row.parameter for row in rows}
    assert {"mean_inter_arrival_sec", "burst_day_probability", "burst_multiplier", "gpu_ratio"} <= (
        intervals
    )
    for name in FAMILIES:
        assert f"families.{name}.duration_sec.sigma" in intervals
        assert f"families.{name}.memory_gib.median" in intervals


def test_pods_that_are_alike_count_once() -> None:
    workload, fitting = recovered()
    rows = {row.parameter: row.n for row in fitting.learnt}
    place = list(FAMILIES).index("distributed_training")
    n_jobs = int((workload.group == place).sum())
    assert rows["families.distributed_training.cpu.median"] == n_jobs
    assert (
        rows["families.hpo_experiment.cpu.median"]
        > rows["families.hpo_experiment.duration_sec.median"]
    )


def test_clamps_and_ranges_come_back() -> None:
    _, fitting = recovered()
    p = parameters_of(fitting.model)
    for name, one in p.families.items():
        true = changed().families[name]
        assert one.duration_sec.least == true.duration_sec.least
        assert one.duration_sec.most == true.duration_sec.most
        assert one.cpu_utilisation == pytest.approx(true.cpu_utilisation, abs=0.003)
        assert one.cpu_sensitivity == FAMILIES[name].cpu_sensitivity
    assert p.burst_mean_jobs == 8.0


def test_a_fitted_model_draws_what_it_was_fitted_to() -> None:
    workload, fitting = recovered()
    again = generate(fitting.model, duration_s=50 * DAY_S, seed=12)
    assert again.n_jobs == pytest.approx(workload.n_jobs, rel=0.05)
    for column in ("runtime_s", "procs"):
        a, b = getattr(workload, column), getattr(again, column)
        assert stats.ks_2samp(a, b).statistic < 0.02, column


def test_the_source_says_what_was_learnt() -> None:
    _, fitting = recovered()
    assert "arrivals, GPU ratio, GPU counts, durations, cores, memory" in fitting.model.source
    assert fitting.dispersion == pytest.approx(1.0, abs=0.15)


def test_the_registered_generator_fits_with_its_knobs() -> None:
    workload, fitting = recovered()
    assert fit("joulie", workload) == fitting.model
    with pytest.raises(UnknownNameError, match="least_rows"):
        fit("joulie", workload, {"rows": 3})
    with pytest.raises(ScenarioError, match="least_rows"):
        fit("joulie", workload, {"least_rows": 0.5})


@pytest.mark.parametrize(
    ("law", "factor"),
    [
        (ClampedLognormal(200.0, 1.0, 30.0, 1000.0), 1.0),
        (ClampedLognormal(4.0, 0.35, 1.0, 16.0), 1.0),
        (ClampedLognormal(100.0, 1.2, 40.0, 1e6), 3.0),
    ],
)
def test_clamped_laws_are_recovered(law: ClampedLognormal, factor: float) -> None:
    rng = np.random.default_rng(5)
    known = np.where(rng.random(4000) < 0.3, factor, 1.0)
    values = law.median * np.exp(law.sigma * rng.standard_normal(4000)) * known
    values = np.clip(values, law.least, law.most)
    made = fit_law(values, ClampedLognormal(1.0, 1.0, law.least, law.most), factor=known)
    assert made is not None
    assert made.median_low < law.median < made.median_high
    assert made.sigma_low < law.sigma < made.sigma_high
    assert made.median_high / made.median_low < 1.15


def test_rounded_values_are_not_taken_as_they_stand() -> None:
    rng = np.random.default_rng(6)
    law = ClampedLognormal(2.0, 0.4, 1.0, 50.0)
    values = np.clip(law.median * np.exp(law.sigma * rng.standard_normal(20_000)), 1.0, 50.0)
    rounded = fit_law(np.rint(values), law, half=0.5)
    naive = fit_law(np.rint(values), law)
    assert rounded is not None
    assert naive is not None
    assert rounded.sigma_low < law.sigma < rounded.sigma_high
    assert not naive.sigma_low < law.sigma < naive.sigma_high


def test_laws_that_nothing_tells() -> None:
    law = ClampedLognormal(1.0, 1.0, 0.1, 10.0)
    assert fit_law(np.array([3.0]), law) is None
    assert fit_law(np.full(50, 3.0), law) is None


def test_wilsons_interval() -> None:
    row = share_of("x", 0.0, 10, 100)
    assert (row.low, row.high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))
    none = share_of("x", 0.0, 0, 20)
    assert none.low == 0.0
    assert none.high == pytest.approx(0.1611, abs=1e-3)


def log(**columns: object) -> Workload:
    """A log of 400 jobs over 4 days, of which the columns tell the rest."""
    n = 400
    plain = {"submit_s": np.linspace(0, 4 * DAY_S, n), "runtime_s": np.full(n, 100.0)}
    made = plain | {"procs": np.ones(n), "start_unix_s": 1.7e9, "time_zone": "Europe/Paris"}
    return Workload.from_arrays(**(made | columns))  # type: ignore[arg-type]


def test_families_by_rule() -> None:
    rng = np.random.default_rng(2)
    runtime_s = np.repeat([100.0, 9000.0], 200) * np.exp(rng.normal(0, 0.1, 400))
    mgpu = np.tile([0, 500, 1000, 4000], 100)
    tasks = Tasks.from_arrays(
        job=np.arange(400), runtime_s=runtime_s, mgpu=mgpu, mcpu=np.tile([40_000, 3000], 200)
    )
    fitting = learn_joulie(log(runtime_s=runtime_s, tasks=tasks))
    p = parameters_of(fitting.model)
    assert p.gpu_ratio == 0.75
    assert p.gpu_counts == (1, 4)  # half a GPU counts as one
    assert p.gpu_count_probabilities == pytest.approx((2 / 3, 1 / 3))
    assert p.families["debug_eval"].share == pytest.approx(0.5)
    shares = {name: one.share for name, one in FAMILIES.items()}
    single, distributed = p.families["single_gpu_training"], p.families["distributed_training"]
    assert single.share / distributed.share == pytest.approx(
        shares["single_gpu_training"] / shares["distributed_training"]
    )
    assert distributed.duration_sec.median == pytest.approx(2 * single.duration_sec.median)
    assert p.families["cpu_analytics"].share == 1.0
    assert p.time_zone == "Europe/Paris"
    assert p.epoch_unix_s == 1704063600.0  # its midnight of 2024-01-01
    assert "families by rule" in fitting.model.source
    assert single.gpu_utilisation_shift == FAMILIES["single_gpu_training"].gpu_utilisation_shift


def test_a_log_without_gpus_says_so() -> None:
    fitting = learn_joulie(log(runtime_s=np.geomspace(10, 1e5, 400)))
    assert parameters_of(fitting.model).gpu_ratio == 0.0
    assert "has no GPU column" in fitting.model.source
    half = learn_joulie(log(runtime_s=np.geomspace(10, 1e5, 400)), {"untold_gpu_ratio": 0.5})
    assert parameters_of(half.model).gpu_ratio == 0.5
    names = {row.parameter for row in half.learnt}
    assert "gpu_ratio" not in names
    assert "families.cpu_preprocess.duration_sec.median" in names
    assert parameters_of(half.model).families["debug_eval"] == FAMILIES["debug_eval"]


def test_few_rows_keep_what_was_published() -> None:
    wide = np.where(np.arange(400) < 20, 64, 1)
    fitting = learn_joulie(log(runtime_s=np.geomspace(10, 1e5, 400), procs=wide))
    kept = parameters_of(fitting.model).families["cpu_analytics"]
    assert kept.duration_sec == FAMILIES["cpu_analytics"].duration_sec
    assert kept.share == 0.05
    assert any("cpu_analytics: 20 rows are too few" in one for one in fitting.unchanged_notes)


def test_hours_that_are_not_told_stay() -> None:
    fitting = learn_joulie(log(start_unix_s=None, time_zone=None))
    p = parameters_of(fitting.model)
    assert p.hourly_multipliers == JoulieParameters().hourly_multipliers
    assert p.mean_inter_arrival_sec == pytest.approx(4 * DAY_S / 399 * 0.9375)
    with pytest.raises(WorkloadError, match="not all submitted at once"):
        learn_joulie(log(submit_s=np.zeros(400)))
    with pytest.raises(WorkloadError, match="50 or more"):
        learn_joulie(log().head(40))


def test_noise_at_all_hours_is_no_burst() -> None:
    """Days of different load: overdispersed at every hour, and no hour stands out."""
    rng = np.random.default_rng(8)
    rate = np.repeat(rng.gamma(2.0, 10.0, 60), 24)
    hours = np.repeat(np.arange(60 * 24), rng.poisson(rate))
    submit_s = np.sort((hours + rng.random(len(hours))) * 3600.0)
    n = len(submit_s)
    noisy = learn_joulie(log(submit_s=submit_s, runtime_s=rng.lognormal(6, 1, n), procs=np.ones(n)))
    assert noisy.dispersion > 5
    assert parameters_of(noisy.model).burst_day_probability == 0.0
    assert any("no bursts" in one for one in noisy.unchanged_notes)


@pytest.mark.slow
def test_real_logs(shared_data: Path) -> None:
    jobs = read_philly(shared_data / "philly" / "philly.csv.gz")
    fitting = learn_joulie(jobs)
    p = parameters_of(fitting.model)
    assert p.gpu_counts[-1] == 128
    again = generate(fitting.model, duration_s=jobs.span_s, seed=1)
    assert again.n_jobs == pytest.approx(jobs.n_jobs, rel=0.15)
    usual = generate(model_of(JoulieParameters(jobs=20_000)), duration_s=DAY_S * 30, seed=1)
    assert stats.ks_2samp(jobs.runtime_s, usual.runtime_s).statistic > 0.15
    assert stats.ks_2samp(jobs.runtime_s, again.runtime_s).statistic < 0.10
    pods = learn_joulie(read_openb(shared_data / "openb" / "openb_pod_list_default.csv.gz"))
    assert parameters_of(pods.model).gpu_ratio == pytest.approx(6203 / 7255)

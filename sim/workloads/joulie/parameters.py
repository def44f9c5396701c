"""The parameters of the Joulie generator, with the values of its page.

Joulie's page "Workload Generation", and where the page gives no number the program behind it
(``workloadgen`` of the Joulie project). A later version of the program differs in some rules; what
it does is named in `HEAD` and is had by telling a model those parameters. Names are the page's
knobs in snake case.

Quirks of the program that are switches here, off as on the page:

- `split_work`: it divides the GPU work of a job among its workers and trials, so that a job on 8
  GPUs is done 8 times sooner than its ``durationSec`` says. The page's formula and its example
  (14,400 s at utilisation 0.47: 6,800 units for each of 4 workers) do not.
- `least_workers`: distributed and parameter-server jobs are meant to have 2 workers or more, and
  have 1 if they have 1 GPU. The page says one worker a GPU; 2 gives what was meant.
- `cpu_per_gpu`: the cores of a pod are drawn once, however many GPUs it has.

One quirk is not offered: the program seeds the intents of some pods with the length of their name.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from sim.model.pods import EPOCH_UNIX_S
from sim.workloads.joulie.phases import Phases
from sim.workloads.model import Json, Model

NAME = "joulie"
SOURCE = "Joulie's page 'Workload Generation': its built-in priors."
MOST_TRIALS = 64
MOST_GPUS = 1024

PAGE_HOURS: tuple[float, ...] = (
    *(0.70,) * 8, 0.95, *(1.20,) * 3, 0.85, *(1.15,) * 5, 0.85, 0.95, *(1.0,) * 3, 0.95,
)  # fmt: skip
HEAD_HOURS: tuple[float, ...] = (
    0.15, 0.12, 0.10, 0.10, 0.12, 0.20, 0.40, 0.65, 0.85, 1.0, 1.0, 0.95,
    0.80, 0.85, 1.0, 1.0, 0.95, 0.85, 0.65, 0.50, 0.40, 0.30, 0.22, 0.18,
)  # fmt: skip
HOURS = {"page": PAGE_HOURS, "head": HEAD_HOURS}

HEAD: Mapping[str, Json] = {
    "hourly_multipliers": "head",
    "dip_day_probability": 0.30,
    "compute_bound_boost": 3.5,
    "split_work": True,
    "emit_head_fields": True,
}
"""What the later version of the program does otherwise: ``model.told(HEAD)``."""

Structure = Literal["single", "launcher", "parameter_server", "controller"]
Pair = tuple[float, float]


@dataclass(frozen=True)
class Law:
    """A lognormal variable, clamped.

    Attributes:
        median: above 0.
        sigma: standard deviation of the logarithm, from 0.
        least: smaller values become this.
        most: larger values become this.
    """

    median: float
    sigma: float
    least: float
    most: float


@dataclass(frozen=True)
class Family:
    """A kind of workload.

    Attributes:
        share: of the workloads with GPUs, or of those without.
        needs_gpus: which of the two.
        duration_sec: seconds.
        duration_factor_many: factor on durations from `many_gpus` GPUs on, before the clamp.
        gpu_utilisation_shift: added to the mean for the number of GPUs.
        cpu_utilisation: from, to; uniform. So `memory_intensity`, `io_intensity` and
            `cpu_feed_intensity` (0 without GPUs).
        cpu_class: such as ``cpu.mixed``; empty is none. So `gpu_class`.
        structure: of pods: ``single`` (one pod with all GPUs), ``launcher`` (and a worker a GPU),
            ``parameter_server`` (one or two, and a worker a GPU), ``controller`` (and trials).
        role: of the pods that have the GPUs.
        gang: pods compute only together.
        cpu: cores of a pod.
        memory_gib: of a pod, per GPU of it if it needs GPUs.
        memory_base_gib: added to that.
        work_share: of the job's CPU work that the workers or trials share evenly.
        cpu_sensitivity: to throttling, from 0 to 1, of pods whose role has none; `gpu_sensitivity`
            of all.
    """

    share: float
    needs_gpus: bool
    duration_sec: Law
    cpu_utilisation: Pair
    memory_intensity: Pair
    cpu: Law
    memory_gib: Law
    cpu_class: str = "cpu.mixed"
    gpu_class: str = ""
    structure: Structure = "single"
    role: str = "worker"
    gang: bool = False
    duration_factor_many: float = 1.0
    gpu_utilisation_shift: float = 0.0
    io_intensity: Pair = (0.05, 0.25)
    cpu_feed_intensity: Pair = (0.0, 0.0)
    memory_base_gib: float = 2.0
    work_share: float = 1.0
    cpu_sensitivity: float = 0.65
    gpu_sensitivity: float = 1.0


@dataclass(frozen=True)
class Helper:
    """A pod without GPUs that a workload has beside its workers.

    Attributes:
        cpu_share: of a worker's cores, then clamped to `cpu_least` and `cpu_most`.
        memory_share: of a worker's memory, then clamped; GiB.
        work_share: of the job's CPU work, over all such pods of the job.
        cpu_sensitivity: to throttling.
    """

    cpu_share: float
    cpu_least: float
    cpu_most: float
    memory_share: float
    memory_least: float
    memory_most: float
    work_share: float
    cpu_sensitivity: float


def _gpu_cpu(median: float) -> Law:
    return Law(median, 0.35, 1.0, 16.0)


def _per_gpu(median: float) -> Law:
    return Law(median, 0.35, 2.0, 32.0)


_HOUR, _DAY = 3600.0, 86400.0

FAMILIES: Mapping[str, Family] = {
    "debug_eval": Family(
        0.45, True, Law(206.0, 1.0, 30.0, 1000.0), (0.20, 0.40), (0.55, 0.85),
        _gpu_cpu(2.0), _per_gpu(4.0), gpu_class="gpu.memory_bound", gpu_utilisation_shift=-0.10,
        io_intensity=(0.05, 0.20), cpu_feed_intensity=(0.15, 0.35), gpu_sensitivity=0.55,
    ),
    "single_gpu_training": Family(
        0.25, True, Law(2 * _HOUR, 1.0, 900.0, 7 * _DAY), (0.20, 0.45), (0.30, 0.60),
        _gpu_cpu(4.0), _per_gpu(10.0), gpu_class="gpu.compute_bound",
        cpu_feed_intensity=(0.25, 0.55), gpu_sensitivity=0.85,
    ),
    "distributed_training": Family(
        0.14, True, Law(4 * _HOUR, 1.2, 1200.0, 14 * _DAY), (0.15, 0.35), (0.45, 0.75),
        _gpu_cpu(4.0), _per_gpu(12.0), gpu_class="gpu.compute_bound", structure="launcher",
        gang=True, duration_factor_many=1.2, gpu_utilisation_shift=-0.08,
        cpu_feed_intensity=(0.35, 0.70), work_share=0.90, gpu_sensitivity=0.90,
    ),
    "parameter_server_training": Family(
        0.07, True, Law(3 * _HOUR, 1.1, 900.0, 7 * _DAY), (0.20, 0.40), (0.70, 0.92),
        _gpu_cpu(5.0), _per_gpu(14.0), cpu_class="cpu.memory_bound",
        gpu_class="gpu.compute_bound", structure="parameter_server", gang=True,
        gpu_utilisation_shift=-0.10, cpu_feed_intensity=(0.40, 0.75), work_share=0.85,
        gpu_sensitivity=0.90,
    ),
    "hpo_experiment": Family(
        0.09, True, Law(2 * _HOUR, 1.0, 1200.0, 3 * _DAY), (0.15, 0.35), (0.35, 0.70),
        _gpu_cpu(2.0), _per_gpu(6.0), gpu_class="gpu.mixed", structure="controller", role="trial",
        gpu_utilisation_shift=-0.05, cpu_feed_intensity=(0.20, 0.45), work_share=0.90,
        gpu_sensitivity=0.65,
    ),
    "cpu_preprocess": Family(
        0.75, False, Law(900.0, 0.8, 120.0, 8 * _HOUR), (0.50, 0.75), (0.70, 0.92),
        Law(16.0, 0.45, 4.0, 64.0), Law(6.0, 0.45, 1.0, 64.0), cpu_class="cpu.memory_bound",
        role="preprocess", io_intensity=(0.10, 0.30), memory_base_gib=0.0, cpu_sensitivity=0.75,
    ),
    "cpu_analytics": Family(
        0.25, False, Law(1800.0, 0.9, 300.0, 24 * _HOUR), (0.75, 0.95), (0.20, 0.45),
        Law(32.0, 0.5, 8.0, 128.0), Law(10.0, 0.5, 2.0, 128.0), cpu_class="cpu.compute_bound",
        role="analytics", memory_base_gib=0.0, cpu_sensitivity=0.90,
    ),
}  # fmt: skip
"""In the order of their numbers: the group and queue of a job. A model has these and no others."""

HELPERS: Mapping[str, Helper] = {
    "launcher": Helper(0.5, 1.0, 4.0, 0.4, 1.0, 8.0, 0.25, 0.25),
    "ps": Helper(0.75, 1.0, 6.0, 1.0, 2.0, 16.0, 0.35, 0.45),
    "controller": Helper(0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.10, 0.25),
}


@dataclass(frozen=True)
class JoulieParameters:
    """All parameters; the defaults are published.

    Attributes:
        jobs: at most so many logical workloads; None is as many as arrive in the duration.
        mean_inter_arrival_sec: seconds, at multiplier 1.
        hourly_multipliers: of the rate of arrivals in each hour of the day; a model may also say
            ``"page"`` or ``"head"``.
        burst_day_probability: that a day has a burst: one of the `burst_hours`, in which the
            multiplier is times `burst_multiplier` plus `burst_mean_jobs` / 16.
        burst_multiplier: see there.
        burst_mean_jobs: see there.
        burst_hours: see there.
        dip_day_probability: that a day has a dip: one of the `dip_hours`, in which the multiplier
            is times `dip_multiplier`. 0 on the page.
        dip_multiplier: see there.
        dip_hours: see there.
        gpu_ratio: share of workloads with GPUs.
        gpu_counts: how many they may have.
        gpu_count_probabilities: of these.
        gpu_utilisation_counts: numbers of GPUs, growing; a workload with another number has the
            mean of the next larger one.
        gpu_utilisation_means: mean GPU utilisation of these.
        gpu_utilisation_spread: half the width of the uniform noise on it.
        gpu_utilisation_spread_many: the same from `many_gpus` GPUs on.
        many_gpus: see there.
        least_utilisation: work units count utilisations below this as this.
        perf_ratio: share of workloads that must not be on machines with the power profile eco.
        eco_ratio: share that must be on such machines.
        compute_bound_boost: factor on `perf_ratio`, up to 1 in all, for workloads that are
            compute-bound on CPU or GPU; 1 on the page, 3.5 later.
        no_affinity_only: no workload has an intent.
        amd_ratio: share of GPU workloads that ask for ``amd.com/gpu``; 0 on the page.
        cpu_work_rate_per_core: CPU units per core and second.
        gpu_work_rate_per_gpu: GPU units per GPU and second.
        split_work: see the module.
        least_workers: see the module.
        cpu_per_gpu: a pod's cores are times its GPUs (and stay below the most of the law).
        two_servers_from: workers from which on there are two parameter servers.
        hpo_max_trials: of an experiment; at least 2 are made, uniformly up to it.
        hpo_max_trials_many: the same from `many_gpus` GPUs on.
        hpo_max_trials_no_gpu: the same without GPUs.
        namespace: of Kubernetes.
        emit_workload_records: files have a record per logical workload beside those of its pods.
        emit_head_fields: files have ``intentClass`` and ``tags``, as of the later version.
        epoch_unix_s: Unix time of the midnight from which submit times count.
        time_zone: in which that is a midnight.
        families: by name, see `FAMILIES`.
        helpers: by role, see `HELPERS`.
        phases: of the work of workloads, by family, see `sim.workloads.joulie.phases`; none on the
            page.
        phase_concentration: how near the shares of each workload are to those given; 0 is equal.
    """

    jobs: int | None = None
    mean_inter_arrival_sec: float = 5.0
    hourly_multipliers: tuple[float, ...] = PAGE_HOURS
    burst_day_probability: float = 0.25
    burst_multiplier: float = 2.0
    burst_mean_jobs: float = 8.0
    burst_hours: tuple[int, ...] = (10, 11, 14, 15, 16)
    dip_day_probability: float = 0.0
    dip_multiplier: float = 0.08
    dip_hours: tuple[int, ...] = (3, 4, 5, 19, 20, 21)
    gpu_ratio: float = 0.80
    gpu_counts: tuple[int, ...] = (1, 2, 4, 8)
    gpu_count_probabilities: tuple[float, ...] = (0.80, 0.10, 0.07, 0.03)
    gpu_utilisation_counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    gpu_utilisation_means: tuple[float, ...] = (0.5238, 0.50, 0.4518, 0.5899, 0.4039)
    gpu_utilisation_spread: float = 0.12
    gpu_utilisation_spread_many: float = 0.16
    many_gpus: int = 4
    least_utilisation: float = 0.10
    perf_ratio: float = 0.30
    eco_ratio: float = 0.0
    compute_bound_boost: float = 1.0
    no_affinity_only: bool = False
    amd_ratio: float = 0.0
    cpu_work_rate_per_core: float = 1.0
    gpu_work_rate_per_gpu: float = 1.0
    split_work: bool = False
    least_workers: int = 1
    cpu_per_gpu: bool = False
    two_servers_from: int = 4
    hpo_max_trials: int = 4
    hpo_max_trials_many: int = 8
    hpo_max_trials_no_gpu: int = 6
    namespace: str = "default"
    emit_workload_records: bool = True
    emit_head_fields: bool = False
    epoch_unix_s: float = EPOCH_UNIX_S
    time_zone: str = "UTC"
    families: Mapping[str, Family] = field(default_factory=lambda: dict(FAMILIES))
    helpers: Mapping[str, Helper] = field(default_factory=lambda: dict(HELPERS))
    phases: Phases = field(default_factory=dict)
    phase_concentration: float = 0.0


def model_of(parameters: JoulieParameters, source: str = SOURCE) -> Model:
    """Return a model with these parameters."""
    return Model(NAME, asdict(parameters), source=source)


def published() -> Model:
    """Return the model with the page's values."""
    return model_of(JoulieParameters())

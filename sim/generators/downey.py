"""Downey's model of moldable jobs: work, average parallelism, and the resulting speedup.

Downey, "A parallel workload model and its implications for processor allocation", HPDC 1997. As
there, a job has a cumulative run time L (work on one processor) and an average parallelism A, both
log-uniform, and a variance of parallelism sigma, here `cv2`, uniform from 0 to 2; the speedup is
that of `sim.model.moldable`. Arrivals are exponential, with a rate per weekday. The published
bounds are of two machines of 1997; those of `published_model` are ours, for 128 processors. A rule
of `RULES` chooses processors, because jobs of a workload are rigid; `moldable_jobs` returns the
jobs before that choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.generators.generator import (
    EPOCH_UNIX_S,
    Generator,
    Horizon,
    Model,
    ModelMoment,
    RandomStreams,
    first_submit_s,
    number_of,
    poisson_arrivals,
    weekday_rates,
)
from sim.metrics.wall_clock import DAY_S, MONDAY_S, WEEK_S, WallClock
from sim.model.errors import WorkloadError
from sim.model.moldable import Moldability as Moldability  # noqa: PLC0414 - public here
from sim.model.moldable import speedup as speedup  # noqa: PLC0414
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption

Floats = NDArray[np.float64]


RULES: tuple[str, ...] = ("average", "knee", "fastest", "any")
"""Rules of the number of processors: A; the maximum of speedup times efficiency; the fewest
with the largest speedup; or a log-uniform number from 1 to that."""

ENDS = ("work_low_s", "work_high_s", "parallelism_low", "parallelism_high", "cv2_low", "cv2_high")
LEAST_JOBS = 20
MOST_PROCS = 1e7


def fewest_fastest(parallelism: Floats, cv2: Floats) -> Floats:
    """Return the smallest number of processors at which the speedup is at its maximum: float64."""
    low = np.where(cv2 > 0, 2 * parallelism - 1, parallelism)
    n_procs: Floats = np.where(cv2 <= 1, low, parallelism + parallelism * cv2 - cv2)
    return n_procs


def knee(parallelism: Floats, cv2: Floats) -> Floats:
    """Return the unrounded number of processors that maximises speedup^2 / n: float64."""
    c = np.minimum(cv2, 1.0)
    low = np.clip(c * (parallelism - 0.5) / (1 - c / 2), parallelism, 2 * parallelism - 1)
    high = np.maximum(parallelism - 1 + parallelism / np.maximum(cv2, 1.0), 1.0)
    n_procs: Floats = np.where(cv2 <= 1, low, high)
    return n_procs


@dataclass(frozen=True, eq=False)
class MoldableJobs:
    """Jobs that can run on any number of processors, as float64 columns [n_jobs].

    Attributes:
        submit_s: seconds since the model's midnight.
        work_s: seconds on one processor.
        parallelism: average parallelism, from 1.
    """

    submit_s: Floats
    work_s: Floats
    parallelism: Floats
    cv2: Floats

    def runtimes(self, n: ArrayLike) -> Floats:
        """Return each job's run time in seconds on n processors (scalar or per job)."""
        runtime_s: Floats = self.work_s / speedup(n, self.parallelism, self.cv2)
        return runtime_s

    def processors(self, rule: str, most: float, chances: Floats) -> NDArray[np.int64]:
        """Choose the number of processors of each job by a rule, from 1 to `most`."""
        fastest = np.minimum(fewest_fastest(self.parallelism, self.cv2), most)
        n_procs = {
            "average": self.parallelism,
            "knee": knee(self.parallelism, self.cv2),
            "fastest": np.ceil(fastest),
            "any": np.exp(chances * np.log(fastest)),
        }[rule]
        return np.clip(np.floor(n_procs + 0.5), 1, most).astype(np.int64)


def published() -> Model:
    """Return the default Downey model: 128 processors at most, and 240 jobs per day."""
    return Model(
        "downey",
        {
            "jobs_per_day": 240.0,
            "rule": "average",
            "max_procs": 128,
            "work_low_s": 10.0,
            "work_high_s": 1e6,
            "parallelism_low": 1.0,
            "parallelism_high": 128.0,
            "cv2_low": 0.0,
            "cv2_high": 2.0,
        },
        source="Downey, HPDC 1997, for the laws; rate and bounds are chosen for 128 processors.",
    )


def check(model: Model) -> None:
    """Raise `WorkloadError` for an invalid parameter, naming it and the allowed values."""
    _rates(model)
    rule = model.parameters.get("rule")
    if rule not in RULES:
        raise WorkloadError(
            f"parameter 'rule' of 'downey' is {rule!r}; allowed are {', '.join(RULES)}."
        )
    if number_of(model, "max_procs", 1, MOST_PROCS) % 1:
        raise WorkloadError("parameter 'max_procs' of 'downey' must be a whole number.")
    ends = _ends(model)
    for low, high in (ENDS[:2], ENDS[2:4], ENDS[4:]):
        if ends[low] > ends[high]:
            raise WorkloadError(f"parameter '{low}' of 'downey' is above '{high}'.")


def moldable_jobs(model: Model, horizon: Horizon, streams: RandomStreams) -> MoldableJobs:
    """Draw moldable jobs, whose numbers of processors are not chosen yet.

    Raises:
        WorkloadError: no jobs within the horizon, or too many.
    """
    ends = _ends(model)
    submit_s = poisson_arrivals(_rates(model), horizon, streams.of("arrivals"))
    first_submit_s(submit_s, horizon)
    n_jobs = len(submit_s)

    def between(name: str, low: float, high: float) -> Floats:
        return low + (high - low) * streams.of(name).random(n_jobs)

    logs = {name: float(np.log(ends[name])) for name in ENDS[:4]}
    return MoldableJobs(
        submit_s,
        np.exp(between("work", logs["work_low_s"], logs["work_high_s"])),
        np.exp(between("parallelism", logs["parallelism_low"], logs["parallelism_high"])),
        between("variance of parallelism", ends["cv2_low"], ends["cv2_high"]),
    )


def draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    """Draw moldable jobs and choose their processors by the model's rule.

    Raises:
        WorkloadError: no jobs within the horizon, or too many.
    """
    jobs = moldable_jobs(model, horizon, streams)
    chances = streams.of("processors").random(len(jobs.submit_s))
    most = number_of(model, "max_procs", 1)
    procs = jobs.processors(str(model.parameters["rule"]), most, chances)
    return Workload.from_arrays(
        submit_s=jobs.submit_s,
        runtime_s=jobs.runtimes(procs),
        procs=procs,
        name="downey",
        max_procs=int(most),
        start_unix_s=EPOCH_UNIX_S + float(jobs.submit_s[0]),
        time_zone="UTC",
    )


def moments(model: Model) -> Mapping[str, ModelMoment]:
    """Return a model's expected moments of arrivals, run times and processors, by quadrature."""
    ends, rate = _ends(model), float(_rates(model).mean())
    middles = (np.arange(400) + 0.5) / 400
    few = (np.arange(12) + 0.5) / 12
    a, c, chance = (
        grid.ravel() for grid in np.meshgrid(middles, few, few, indexing="ij")
    )  # fmt: skip
    parallelism = ends["parallelism_low"] ** (1 - a) * ends["parallelism_high"] ** a
    cv2 = ends["cv2_low"] + (ends["cv2_high"] - ends["cv2_low"]) * c
    jobs = MoldableJobs(a, np.ones(len(a)), parallelism, cv2)
    procs = jobs.processors(str(model.parameters["rule"]), number_of(model, "max_procs", 1), chance)
    sped = np.log(speedup(procs, parallelism, cv2))
    # ln(run time), 0 if below, is a clipped uniform variable given the speedup.
    low = np.maximum(np.log(ends["work_low_s"]) - sped, 0.0)
    high = np.maximum(np.log(ends["work_high_s"]) - sped, 0.0)
    width = max(float(np.log(ends["work_high_s"] / ends["work_low_s"])), 1e-12)
    first = (high**2 - low**2) / (2 * width) if width > 1e-9 else high
    second = (high**3 - low**3) / (3 * width) if width > 1e-9 else high**2
    logs = np.log2(procs)
    mean = float(first.mean())
    return {
        "jobs_per_day": ModelMoment(rate, float(np.sqrt(rate))),
        "log_runtime": ModelMoment(mean, float(np.sqrt(max(float(second.mean()) - mean**2, 0.0)))),
        "log2_procs": ModelMoment(float(logs.mean()), float(logs.std())),
        "serial": ModelMoment(float((procs == 1).mean()), float((procs == 1).std())),
    }


def fit_downey(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit Downey's parameter bounds to a log, taking each job's processors as its parallelism.

    A log has no run times on other processors, so a knob sets `cv2`; work follows from the run
    time by the speedup at the middle of it.

    Raises:
        WorkloadError: fewer than `LEAST_JOBS` jobs, or all at one time.
    """
    if workload.n_jobs < LEAST_JOBS or workload.span_s == 0:
        raise WorkloadError(
            f"'downey' needs {LEAST_JOBS} jobs or more at different times; {workload.name} has "
            f"{workload.n_jobs}."
        )
    clock = WallClock.of(workload)
    shown_s = clock.local_s(workload.submit_s)
    since_s = shown_s if clock.basis == "unknown" else shown_s - MONDAY_S
    rates = _fitted_rates(since_s)
    procs = workload.procs.astype(np.float64)
    middle = knobs["cv2_high"] / 2
    work = np.maximum(workload.runtime_s, 1.0) * speedup(procs, procs, middle)
    most = float(workload.max_procs or workload.widest_procs)
    a_low, a_high = _log_uniform(procs, 1.0, max(most, float(workload.widest_procs)))
    work_low, work_high = _log_uniform(work, 1e-3, 1e15)
    return Model(
        "downey",
        {
            "jobs_per_day": rates,
            "rule": "average",
            "max_procs": int(most),
            "work_low_s": work_low,
            "work_high_s": work_high,
            "parallelism_low": a_low,
            "parallelism_high": a_high,
            "cv2_low": 0.0,
            "cv2_high": knobs["cv2_high"],
        },
        source=f"fitted to {workload.name}, {workload.n_jobs} jobs. {clock.sentence}",
    )


def _fitted_rates(since_s: Floats) -> list[float]:
    day = np.floor(since_s / DAY_S).astype(np.int64)
    counts = np.bincount(day % 7, minlength=7)
    edges = np.arange(day[0], day[-1] + 1)
    covered = np.minimum((edges + 1) * DAY_S, since_s[-1]) - np.maximum(edges * DAY_S, since_s[0])
    covered_s = np.bincount(edges % 7, weights=covered, minlength=7)
    mean = len(since_s) / (max(since_s[-1] - since_s[0], 1.0) / DAY_S)
    if since_s[-1] - since_s[0] < WEEK_S:
        return [float(mean)] * 7
    return [
        float(n / (s / DAY_S)) if s > DAY_S / 2 else float(mean)
        for n, s in zip(counts, covered_s, strict=True)
    ]


def _log_uniform(values: Floats, least: float, most: float) -> tuple[float, float]:
    logs = np.log(values)
    mean, half = float(logs.mean()), float(np.sqrt(3.0) * logs.std())
    low, high = np.clip(np.exp([mean - half, mean + half]), least, most).tolist()
    if low == least:  # keep the mean where the lower end is cut off
        high = float(np.clip(np.exp(2 * mean - np.log(least)), low, most))
    return float(low), float(high)


def _rates(model: Model) -> Floats:
    subject = "parameter 'jobs_per_day' of 'downey'"
    if "jobs_per_day" not in model.parameters:
        raise WorkloadError("a model of 'downey' needs the parameter 'jobs_per_day'.")
    return weekday_rates(subject, model.parameters["jobs_per_day"])


def _ends(model: Model) -> dict[str, float]:
    least = {"work": 1e-3, "para": 1.0, "cv2_": 0.0}
    most = {"work": 1e15, "para": MOST_PROCS, "cv2_": 1e3}
    return {name: number_of(model, name, least[name[:4]], most[name[:4]]) for name in ENDS}


DOWNEY = Generator(
    "downey",
    "Moldable jobs with log-uniform work and parallelism (Downey 1997), processors by a rule.",
    check=check,
    draw=draw,
    fit=fit_downey,
    published=published,
    knobs=(
        PolicyOption(
            "cv2_high", 2.0, "upper bound of the variance of parallelism, uniform from 0", 0.0, 1e3
        ),
    ),
    moments=moments,
    extends=True,
)

"""Whether the gain of a tuned configuration carries over to jobs on which it was not tuned.

Both configurations are simulated on

* the first half of the log alone, on which it is tuned (in sample);
* the whole log, of which the jobs of the second half count, so that the queue carries over;
* the second half with 20 % less and more load: other times between the same submissions;
* futures that a generator draws after it was fitted to the first half.

The gain is the ratio of the sums of waits, tuned over current. Its interval is a paired bootstrap
over blocks (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 8): consecutive jobs of
a log in ten blocks of equal number, or whole futures. Both configurations keep their jobs in each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assistant.core.errors import ApplicationError
from sim.api import Scenario, SimError, Workload, format_duration, simulate
from sim.generators import RandomStreams, fit, generate, scale_load

Floats = NDArray[np.float64]
Verdict = Literal[
    "carries over", "is not certain", "does not carry over", "does not exist", "cannot be judged"
]

N_BLOCKS = 10
N_RESAMPLES = 2_000
LOADS = (0.8, 1.2)
GENERATORS = ("resampling", "three_stage")
LONGEST_FUTURE_S = 28 * 86_400.0
LEAST_JOBS = 4 * N_BLOCKS
LEAST_WAIT_S = 60.0
"""Shortest current mean wait of which a ratio says anything."""


@dataclass(frozen=True, slots=True)
class WaitRatio:
    """The waits under the tuned configuration relative to the current one on some jobs.

    Attributes:
        name: jobs on which they are compared.
        in_sample: whether the configuration was tuned on them.
        n_jobs: jobs that run in both schedules.
        current_s, tuned_s: mean waits in seconds.
        ratio: tuned over current; None if no job waits under the current configuration.
        low, high: 95 % interval of the ratio; None if unknown.
    """

    name: str
    in_sample: bool
    n_jobs: int
    current_s: float
    tuned_s: float
    ratio: float | None
    low: float | None
    high: float | None

    @property
    def verdict(self) -> Verdict:
        """Whether the tuned configuration gains here: surely, perhaps, or not.

        It cannot be judged where the current mean wait is below a minute.
        """
        if self.current_s < LEAST_WAIT_S:
            return "cannot be judged"
        if self.ratio is None or self.ratio >= 1:
            return "does not exist" if self.in_sample else "does not carry over"
        certain = self.high is not None and self.high < 1
        return "carries over" if certain else "is not certain"

    def in_words(self) -> str:
        """Return ratio, interval and the current mean wait, for people."""
        interval = "no interval"
        if self.low is not None and self.high is not None:
            interval = f"95 %: {self.low:.2f} to {self.high:.2f}"
        ratio = "unknown" if self.ratio is None else f"{self.ratio:.2f}"
        return f"{ratio} ({interval}; now {format_duration(self.current_s)})"


@dataclass(frozen=True, slots=True)
class OutOfSample:
    """Ratios on the half on which a configuration was tuned, on the other, and on futures."""

    tuned: WaitRatio
    tested: WaitRatio
    variants: tuple[WaitRatio, ...]
    left_out: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict of the second half; there is none without a gain on the first."""
        if self.tuned.verdict in ("does not exist", "cannot be judged"):
            return self.tuned.verdict
        return self.tested.verdict

    @property
    def sentence(self) -> str:
        """One sentence for people on both halves, and one on the variants without a gain."""
        half = (
            f"The mean wait relative to the current one is {self.tuned.in_words()} on the first "
            f"half of the log, and {self.tested.in_words()} on the second: "
        )
        if self.tuned.verdict in ("does not exist", "cannot be judged"):
            half += "there is no gain on the first half that could carry over."
        elif self.verdict == "cannot be judged":
            half += "jobs hardly wait there, so that the gain cannot be judged."
        else:
            half += f"the gain {self.verdict}."
        without = [variant.name for variant in self.variants if variant.verdict != "carries over"]
        if not self.variants:
            return half
        if not without:
            return f"{half} It holds in all {len(self.variants)} variants."
        return (
            f"{half} No certain gain in {len(without)} of {len(self.variants)} variants: "
            f"{'; '.join(without)}."
        )


def out_of_sample(
    tuned: Scenario,
    current: Scenario,
    *,
    n_futures: int = N_BLOCKS,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> OutOfSample:
    """Compare a tuned configuration with the current one on both halves of a log and on futures.

    Args:
        tuned: scenario of the whole log with the tuned configuration.
        current: the same with the configuration in use.
        n_futures: futures of each generator, 2 or more.
        seed: seed of futures and intervals.
        progress: function called with the name of what is simulated next.

    Raises:
        ApplicationError: the workloads differ or are too small, or windows belong to dates.
        SimError: the simulator refuses a scenario.
    """
    workload = tuned.workload
    if workload != current.workload:
        raise ApplicationError("the two configurations have different jobs; use one log for both")
    if workload.n_jobs < LEAST_JOBS:
        raise ApplicationError(
            f"{workload.name} has {workload.n_jobs} jobs; halves in {N_BLOCKS} blocks need "
            f"{LEAST_JOBS} or more"
        )
    if tuned.windows or current.windows:
        raise ApplicationError(
            "capacity windows belong to dates of the log, which futures do not have; leave them out"
        )
    pair = _Pair(tuned, current, np.random.default_rng(seed), progress or (lambda _: None))
    middle = workload.n_jobs // 2
    first, second = workload.part(0, middle), workload.part(middle, workload.n_jobs)
    in_sample = pair.of_log("first half", first, 0, in_sample=True)
    tested = pair.of_log("second half", workload, middle)
    variants = [
        pair.of_log(f"second half, load x {load:g}", scale_load(second, factor=1 / load), 0)
        for load in LOADS
    ]
    left_out = []
    duration_s = min(first.span_s, LONGEST_FUTURE_S)
    for generator in GENERATORS:
        try:
            futures = tuple(_futures(generator, first, duration_s, n_futures, seed))
        except SimError as error:
            left_out.append(f"{generator}: {error}")
            continue
        variants.append(pair.of_futures(f"futures of {generator}", futures))
    return OutOfSample(in_sample, tested, tuple(variants), tuple(left_out))


def _futures(
    generator: str, first: Workload, duration_s: float, n_futures: int, seed: int
) -> Iterator[Workload]:
    model = fit(generator, first)
    streams = RandomStreams(seed).inside("out of sample")
    for number in range(n_futures):
        yield generate(model, duration_s=duration_s, seed=streams.inside(str(number)))


@dataclass(frozen=True, slots=True)
class _Pair:
    tuned: Scenario
    current: Scenario
    random: np.random.Generator
    progress: Callable[[str], None]

    def waits(self, workload: Workload) -> tuple[Floats, Floats]:
        """Return the waits of each job under current and tuned; NaN if it does not run in both."""
        results = (
            simulate(replace(scenario, workload=workload))
            for scenario in (self.current, self.tuned)
        )
        current_s, tuned_s = (result.start_s - result.submissions_s(workload) for result in results)
        missing = np.isnan(current_s) | np.isnan(tuned_s)
        return np.where(missing, np.nan, current_s), np.where(missing, np.nan, tuned_s)

    def of_log(
        self, name: str, workload: Workload, first: int, *, in_sample: bool = False
    ) -> WaitRatio:
        self.progress(name)
        blocks = [np.array_split(waits[first:], N_BLOCKS) for waits in self.waits(workload)]
        return wait_ratio(name, blocks[0], blocks[1], self.random, in_sample=in_sample)

    def of_futures(self, name: str, futures: Sequence[Workload]) -> WaitRatio:
        self.progress(name)
        pairs = [self.waits(replace(future, tasks=None)) for future in futures]
        return wait_ratio(name, [now for now, _ in pairs], [then for _, then in pairs], self.random)


def wait_ratio(
    name: str,
    current: Sequence[Floats],
    tuned: Sequence[Floats],
    random: np.random.Generator,
    *,
    in_sample: bool = False,
) -> WaitRatio:
    """Return the ratio of summed waits, with a paired bootstrap interval over blocks.

    Args:
        name: jobs on which the configurations are compared.
        current: waits of the jobs of each block in seconds; NaN for a job that did not run.
        tuned: the same jobs, under the tuned configuration.
        random: generator that draws the blocks.
        in_sample: whether the configuration was tuned on these jobs.
    """
    sums = np.array([[np.nansum(block) for block in blocks] for blocks in (current, tuned)])
    n_jobs = sum(int(np.count_nonzero(~np.isnan(block))) for block in current)
    current_s, tuned_s = sums.sum(axis=1).tolist()
    low = high = None
    drawn = random.integers(sums.shape[1], size=(N_RESAMPLES, sums.shape[1]))
    resampled = sums[:, drawn].sum(axis=2)
    if (resampled[0] > 0).all():
        low, high = np.percentile(resampled[1] / resampled[0], [2.5, 97.5]).tolist()
    n = max(n_jobs, 1)
    ratio = tuned_s / current_s if current_s > 0 else None
    return WaitRatio(name, in_sample, n_jobs, current_s / n, tuned_s / n, ratio, low, high)

"""From the jobs of a workload to batches of flavours, and from a flavour back to a job.

A batch is what one user submits within one period (Bergsma et al., section 2). A flavour is what
jobs ask for: processors, time and memory. The most frequent requests have a flavour of their own;
all others share one for each power of two of processors. A flavour is turned into a job again by
drawing one of the jobs that it was made of (pseudo-flavours, section 2.2.3), so that no request is
generated that nobody ever made.

Where jobs consist of tasks, what they ask for is also how many tasks and GPUs they have, and the
job that is drawn is kept whole, with its tasks and its run time: of those of its flavour it is the
one that ran nearest to the lifetime that was drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.batches import CloudTrace, Flavour
from sim.model.bins import DAY_S, Bins
from sim.model.hours import WallClock
from sim.model.observed import ObservedJobs, kinds_of
from sim.model.tasks import Tasks
from sim.model.workload import Workload
from sim.workloads.streams import Streams

MOST_EXAMPLES = 200
"""Jobs that a flavour keeps, evenly spread over those that it was made of."""

LIVES = Bins(tuple(np.round(np.geomspace(10.0, 20 * DAY_S, 46), 3).tolist()), 30 * DAY_S)
"""Bins for logs of batch systems, whose jobs often end within minutes: 46 ends, even in their
logarithms, from 10 s to 20 days."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Jobs that flavours were made of, by flavour; each column has shape [n_examples].

    Attributes:
        first: int64 [n_flavours + 1], where those of each flavour begin and the last end.
        procs: int64.
        requested_s: float64.
        mem_bytes_per_proc: int64, -1 where unknown.
        runtime_s: float64, rising within each flavour; None if jobs have no tasks.
        tasks: of the examples; None if jobs have none.
    """

    first: Ints
    procs: Ints
    requested_s: Floats
    mem_bytes_per_proc: Ints
    runtime_s: Floats | None = None
    tasks: Tasks | None = None

    def draw(self, flavour: Ints, rng: np.random.Generator) -> Ints:
        """Draw an example for each job: int64 [n]."""
        many = np.diff(self.first)[flavour]
        return self.first[flavour] + (rng.random(len(flavour)) * many).astype(np.int64)

    def nearest(self, flavour: Ints, lived_s: Floats, runtime_s: Floats) -> Ints:
        """Return the example of each job that ran nearest to how long it lives: int64 [n].

        Args:
            flavour: int64 [n].
            lived_s: float64 [n].
            runtime_s: of the examples.
        """
        found: Ints = np.empty(len(flavour), dtype=np.int64)
        for one in np.unique(flavour).tolist():
            mine = np.flatnonzero(flavour == one)
            times = runtime_s[self.first[one] : self.first[one + 1]]
            above = np.minimum(np.searchsorted(times, lived_s[mine]), len(times) - 1)
            below = np.maximum(above - 1, 0)
            nearer = lived_s[mine] - times[below] < times[above] - lived_s[mine]
            found[mine] = self.first[one] + np.where(nearer, below, above)
        return found


def batches_of(
    workload: Workload, *, period_s: float = 300.0, most_flavours: int = 32, bins: Bins = LIVES
) -> tuple[CloudTrace, Examples]:
    """Return the batches of a workload.

    Args:
        workload: whose users are known.
        period_s: length of a period in seconds, above 0.
        most_flavours: requests with a flavour of their own, 1 or more.
        bins: of lifetimes.

    Raises:
        WorkloadError: no user is known.
    """
    trace, examples, _ = batches_and_rows(
        workload, period_s=period_s, most_flavours=most_flavours, bins=bins
    )
    return trace, examples


def batches_and_rows(
    workload: Workload, *, period_s: float, most_flavours: int, bins: Bins = LIVES
) -> tuple[CloudTrace, Examples, Ints]:
    """Return the same, and the row in the workload of each job of the batches: int64 [n_jobs]."""
    observed = observed_of(workload, most_flavours=most_flavours)
    trace, rows = observed.batches(period_s, bins)
    return trace, _examples(workload, observed.flavour, len(observed.flavours)), rows


def observed_of(workload: Workload, *, most_flavours: int = 32) -> ObservedJobs:
    """Return the jobs of a workload as demand: each begins when it is submitted.

    Args:
        workload: of jobs that all ended.
        most_flavours: requests with a flavour of their own, 1 or more.
    """
    flavour, flavours = _flavours(workload, most_flavours)
    return ObservedJobs(
        begin_s=clock_of(workload),
        lived_s=workload.runtime_s,
        censored=np.zeros(workload.n_jobs, dtype=np.int64),
        user=workload.user,
        flavour=flavour,
        flavours=flavours,
        name=workload.name,
    )


def clock_of(workload: Workload) -> Floats:
    """Return when jobs were submitted by the log's own clock, in seconds since its zero.

    Where dates are unknown the first submission is at zero, as the paper does with Azure's.
    """
    clock = WallClock.of(workload, None)
    return workload.submit_s if clock.zone is None else clock.local_s(workload.submit_s)


def _flavours(workload: Workload, most: int) -> tuple[Ints, tuple[Flavour, ...]]:
    requests = np.column_stack(
        [
            workload.procs,
            np.round(workload.requested_s),
            workload.mem_bytes_per_proc,
            *_of_tasks(workload.tasks),
        ]
    ).astype(np.int64)
    flavour, often, rest = kinds_of(requests, workload.procs, most)
    names = [_flavour(*request) for request in often.tolist()]
    names += [Flavour(f"others up to {2**p}", 2**p * 1000) for p in rest]
    return flavour, tuple(names)


def _of_tasks(tasks: Tasks | None) -> list[Ints]:
    """Return how many tasks and thousandths of GPUs each job has; nothing if there are no tasks."""
    if tasks is None:
        return []
    mgpu = np.bincount(tasks.job, tasks.mgpu * tasks.instances)
    return [np.bincount(tasks.job), mgpu.astype(np.int64)]


def _flavour(procs: int, requested_s: int, memory: int, *of_tasks: int) -> Flavour:
    name = f"{procs}x{requested_s}s"
    mgpu = -1
    if of_tasks:
        mgpu = of_tasks[1]
        name += f", tasks {of_tasks[0]}, GPUs {mgpu / 1000:g}"
    mem_bytes = memory * procs if memory >= 0 else -1
    return Flavour(name, procs * 1000, mem_bytes, mgpu, max(requested_s, -1))


def _examples(workload: Workload, flavour: Ints, n_flavours: int) -> Examples:
    tasks = workload.tasks
    order = np.argsort(flavour, kind="stable")
    if tasks is not None:
        order = np.lexsort((workload.runtime_s, flavour))
    counts = np.bincount(flavour, minlength=n_flavours)
    ends = np.cumsum(counts)
    kept = [
        order[end - n + np.unique(np.linspace(0, n - 1, min(n, MOST_EXAMPLES)).astype(np.int64))]
        for n, end in zip(counts.tolist(), ends.tolist(), strict=True)
    ]
    rows = np.concatenate(kept)
    return Examples(
        first=np.concatenate([[0], np.cumsum([len(some) for some in kept])]).astype(np.int64),
        procs=workload.procs[rows],
        requested_s=workload.requested_s[rows],
        mem_bytes_per_proc=workload.mem_bytes_per_proc[rows],
        runtime_s=None if tasks is None else workload.runtime_s[rows],
        tasks=None if tasks is None else tasks.ordered(rows),
    )


def workload_of(trace: CloudTrace, examples: Examples, streams: Streams, *, name: str) -> Workload:
    """Return a generated trace as a workload.

    Jobs begin within their period in their order, evenly apart (section 2.4), and live for a time
    that is drawn within their bin, but no longer than they requested. `queue` is the flavour.
    Whoever submits a batch is a user of his own (the paper generates none).

    Args:
        trace: with lifetimes.
        examples: of its flavours.
        streams: ``lifetime_s`` and ``example`` are used.
        name: of the workload.
    """
    in_period = np.unique(trace.period, return_index=True, return_inverse=True, return_counts=True)
    _, first, which, counts = in_period
    rank = np.arange(trace.n_jobs) - first[which]
    start_s = (trace.period + rank / counts[which]) * trace.period_s
    lived_s = trace.bins.seconds(trace.lifetime, streams.of("lifetime_s"))
    if examples.tasks is None or examples.runtime_s is None:
        chosen = examples.draw(trace.flavour, streams.of("example"))
    else:
        chosen = examples.nearest(trace.flavour, lived_s, examples.runtime_s)
        lived_s = examples.runtime_s[chosen]
    requested_s = examples.requested_s[chosen]
    return Workload.from_arrays(
        submit_s=start_s - start_s[0],
        runtime_s=np.minimum(lived_s, requested_s),
        requested_s=requested_s,
        procs=examples.procs[chosen],
        mem_bytes_per_proc=examples.mem_bytes_per_proc[chosen],
        queue=trace.flavour,
        user=trace.batch - trace.batch[0],
        tasks=None if examples.tasks is None else examples.tasks.ordered(chosen),
        name=name,
        max_procs=int(examples.procs.max()),
        start_unix_s=float(start_s[0]),
        time_zone="UTC",
    )

"""Conversion between workloads and batches of flavours, and the training and test windows.

A batch is the jobs of one user within one period (Bergsma et al., section 2). A flavour is a
request: processors, time and memory, and where jobs consist of tasks, also numbers of tasks and
GPUs. The most frequent requests have their own flavours; others share one for each power of two of
processors. A flavour becomes a job by drawing one of its real jobs (pseudo-flavours, section
2.2.3), so that only real requests are generated. A job with tasks is kept whole, with its run
time: the one of its flavour that is nearest to the drawn lifetime.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import RandomStreams
from sim.metrics.wall_clock import WallClock
from sim.model.cloud_trace import DAY_S, Bins, CloudTrace, Flavour, ObservedJobs, number_requests
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks
from sim.model.workload import Workload

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


MOST_EXAMPLES = 200  # largest number of examples of a flavour, evenly spread over its jobs

LIVES = Bins(
    tuple(np.round(np.geomspace(10.0, 20 * DAY_S, 46), 3).tolist()),
    30 * DAY_S,
)
"""Bins for logs of batch systems, whose jobs often end within minutes: 46 ends from 10 s to 20
days, even in their logarithms."""


@dataclass(frozen=True, eq=False)
class JobExamples:
    """Real jobs of each flavour, from which generated jobs take their attributes.

    Attributes:
        first: int64 [n_flavours + 1], first example of each flavour, and the end of the last.
        procs, requested_s, mem_bytes_per_proc: numbers; memory is -1 where unknown.
        runtime_s: float64, rising within each flavour; None if jobs have no tasks.
    """

    first: Ints
    procs: Ints
    requested_s: Floats
    mem_bytes_per_proc: Ints
    runtime_s: Floats | None = None
    tasks: Tasks | None = None

    def draw(self, flavour: Ints, rng: np.random.Generator) -> Ints:
        """Draw for each job a random example of its flavour: int64 [n], rows of the examples."""
        many = np.diff(self.first)[flavour]
        return self.first[flavour] + (rng.random(len(flavour)) * many).astype(np.int64)

    def nearest(self, flavour: Ints, lived_s: Floats, runtime_s: Floats) -> Ints:
        """Return, for each job, the row of the example whose run time is closest to `lived_s`."""
        nearest_row: Ints = np.empty(len(flavour), dtype=np.int64)
        for flavour_number in np.unique(flavour).tolist():
            mine = np.flatnonzero(flavour == flavour_number)
            times = runtime_s[self.first[flavour_number] : self.first[flavour_number + 1]]
            above = np.minimum(np.searchsorted(times, lived_s[mine]), len(times) - 1)
            below = np.maximum(above - 1, 0)
            nearer = lived_s[mine] - times[below] < times[above] - lived_s[mine]
            nearest_row[mine] = self.first[flavour_number] + np.where(nearer, below, above)
        return nearest_row


def batches_of(
    workload: Workload, *, period_s: float = 300.0, most_flavours: int = 32, bins: Bins = LIVES
) -> tuple[CloudTrace, JobExamples]:
    """Convert a workload to batches of flavours, with its jobs as examples of the flavours.

    `most_flavours` requests have their own flavour; periods are `period_s` seconds long.

    Raises:
        WorkloadError: no user is known.
    """
    trace, examples, _ = batches_and_rows(
        workload, period_s=period_s, most_flavours=most_flavours, bins=bins
    )
    return trace, examples


def batches_and_rows(
    workload: Workload, *, period_s: float, most_flavours: int, bins: Bins = LIVES
) -> tuple[CloudTrace, JobExamples, Ints]:
    """Return a workload's batches, example jobs, and the workload row of each batched job."""
    observed = observed_of(workload, most_flavours=most_flavours)
    trace, rows = observed.batches(period_s, bins)
    return trace, _examples(workload, observed.flavour, len(observed.flavours)), rows


def observed_of(workload: Workload, *, most_flavours: int = 32) -> ObservedJobs:
    """Convert a workload to observed jobs that begin at submission and live for their run time.

    `most_flavours` requests, 1 or more, have their own flavour; all jobs must have ended.
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
    """Return submit times in local seconds since 1970, or since the first if dates are unknown.

    Without dates the first submission is at zero, as in the paper for Azure's trace.
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
    flavour, often, rest = number_requests(requests, workload.procs, most)
    names = [_flavour(*request) for request in often.tolist()]
    names += [Flavour(f"others up to {2**p}", 2**p * 1000) for p in rest]
    return flavour, tuple(names)


def _of_tasks(tasks: Tasks | None) -> list[Ints]:
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


def _examples(workload: Workload, flavour: Ints, n_flavours: int) -> JobExamples:
    tasks = workload.tasks
    order = np.argsort(flavour, kind="stable")
    if tasks is not None:
        order = np.lexsort((workload.runtime_s, flavour))
    counts = np.bincount(flavour, minlength=n_flavours)
    ends = np.cumsum(counts)
    sampled_rows = [
        order[end - n + np.unique(np.linspace(0, n - 1, min(n, MOST_EXAMPLES)).astype(np.int64))]
        for n, end in zip(counts.tolist(), ends.tolist(), strict=True)
    ]
    rows = np.concatenate(sampled_rows)
    return JobExamples(
        first=np.concatenate([[0], np.cumsum([len(some) for some in sampled_rows])]).astype(
            np.int64
        ),
        procs=workload.procs[rows],
        requested_s=workload.requested_s[rows],
        mem_bytes_per_proc=workload.mem_bytes_per_proc[rows],
        runtime_s=None if tasks is None else workload.runtime_s[rows],
        tasks=None if tasks is None else tasks.ordered(rows),
    )


def workload_of(
    trace: CloudTrace, examples: JobExamples, streams: RandomStreams, *, name: str
) -> Workload:
    """Convert a generated trace of batches to a workload.

    Jobs begin evenly apart within their period (section 2.4), and live for a time drawn within
    their bin, but no longer than they requested. `queue` is the flavour. Each batch has its own
    user, because the paper generates no users.
    """
    start_s = trace.starts_s()
    lived_s = trace.bins.seconds(trace.lifetime, streams.of("lifetime_s"))
    if examples.tasks is None or examples.runtime_s is None:
        example = examples.draw(trace.flavour, streams.of("example"))
    else:
        example = examples.nearest(trace.flavour, lived_s, examples.runtime_s)
        lived_s = examples.runtime_s[example]
    requested_s = examples.requested_s[example]
    return Workload.from_arrays(
        submit_s=start_s - start_s[0],
        runtime_s=np.minimum(lived_s, requested_s),
        requested_s=requested_s,
        procs=examples.procs[example],
        mem_bytes_per_proc=examples.mem_bytes_per_proc[example],
        queue=trace.flavour,
        user=trace.batch - trace.batch[0],
        tasks=None if examples.tasks is None else examples.tasks.ordered(example),
        name=name,
        max_procs=int(examples.procs.max()),
        start_unix_s=float(start_s[0]),
        time_zone="UTC",
    )


LEAST_DAYS = 2.0  # of a training window

LEAST_PERIODS = 12  # of a test window

_OTHERS = "others up to "


@dataclass(frozen=True, eq=False)
class WindowJobs:
    """Observed or generated jobs of a time window, as columns of shape [n_jobs].

    Attributes:
        start_s: float64, submission after the begin of the window, never falling.
        lived_s: float64; known part of the lifetime of a job without an end.
        procs: int64, processors; cores of a cloud.
        mem_bytes: int64, of the whole job; -1 where unknown.
        ended: bool, whether the end was observed.
        batch_size: int64 [n_batches], jobs of each batch.
    """

    start_s: Floats
    lived_s: Floats
    procs: Ints
    mem_bytes: Ints
    ended: NDArray[np.bool_]
    batch_size: Ints


@dataclass(frozen=True, eq=False)
class CloudWindows:
    """A training window and a later test window for the evaluation of cloud generators.

    Attributes:
        lived: training data of lifetimes; mostly `train`.
        jobs: jobs of `test`, in the order of their submission.
        lived_s: float64 [n_jobs], lifetime of each job of `test`, in its order; spread evenly
            within bins where only these are known.
        taught_s: float64 [n], lifetimes of `lived` in any order; None where only bins are known.
    """

    names: tuple[str, str]
    train: CloudTrace
    lived: CloudTrace
    examples: JobExamples
    test: CloudTrace
    jobs: WindowJobs
    lived_s: Floats
    taught_s: Floats | None = None
    notes: tuple[str, ...] = ()


def cloud_windows(
    train: Workload, test: Workload, *, period_s: float = 300.0, most_flavours: int = 32
) -> CloudWindows:
    """Return training and test windows from two workloads with known users.

    Raises:
        WorkloadError: no users, too short, or no request in common.
    """
    learnt, examples = batches_of(train, period_s=period_s, most_flavours=most_flavours)
    days = learnt.n_periods * period_s / DAY_S
    if days < LEAST_DAYS:
        raise WorkloadError(
            f"{train.name} spans {days:.1f} days; fitting needs {LEAST_DAYS:g} or more."
        )
    # One flavour per request, so that each can be looked up in the training flavours.
    test_trace, test_examples, rows = batches_and_rows(
        test, period_s=period_s, most_flavours=test.n_jobs
    )
    if test_trace.n_periods < LEAST_PERIODS:
        raise WorkloadError(
            f"{test.name} spans {test_trace.n_periods} periods of {period_s:g} s; a test "
            f"needs {LEAST_PERIODS} or more."
        )
    learnt_flavour, is_common = _common_flavours(learnt, examples, test_examples)
    flavour = learnt_flavour[test_trace.flavour]
    strange = int((~is_common[test_trace.flavour]).sum())
    if strange == test_trace.n_jobs:
        raise WorkloadError(
            f"no job of {test.name} requests the same as a job of {train.name}; no flavour "
            "can be predicted."
        )
    notes = []
    if strange:
        notes.append(
            f"{strange:,} of {test_trace.n_jobs:,} jobs of {test.name} have requests that no "
            f"job of {train.name} has; they count as the nearest flavour."
        )
    shift, shift_notes = _shift(train, test, learnt, test_trace)
    notes += shift_notes
    first = test_trace.first_period + shift
    moved = replace(
        test_trace, flavour=flavour, flavours=learnt.flavours, period=test_trace.period + shift,
        first_period=first,
    )  # fmt: skip
    begin_s = test.submit_s + _offset_s(test, test_trace, period_s)
    jobs = WindowJobs(
        begin_s, test.runtime_s, test.procs, _memory(test.procs, test.mem_bytes_per_proc),
        np.ones(test.n_jobs, dtype=bool), test_trace.batch_sizes,
    )  # fmt: skip
    return CloudWindows(
        (train.name, test.name), learnt, learnt, examples, moved, jobs, test.runtime_s[rows],
        train.runtime_s, tuple(notes),
    )  # fmt: skip


def cloud_windows_of_traces(
    train: CloudTrace, test: CloudTrace, lived: CloudTrace | None = None,
    names: tuple[str, str] = ("train", "test"),
) -> CloudWindows:  # fmt: skip
    """Return training and test windows from two traces with the same flavours.

    Lifetimes are learnt from `lived`; None is `train`.

    Raises:
        WorkloadError: different flavours, periods or bins, or unknown lifetimes.
    """
    lifetime_trace = lived or train
    alike = all(
        (trace.flavours, trace.period_s, trace.bins) == (test.flavours, test.period_s, test.bins)
        for trace in (train, lifetime_trace)
    )
    if not alike:
        raise WorkloadError("the windows differ in flavours, periods or bins of lifetimes.")
    for trace, name in ((lifetime_trace, names[0]), (test, names[1])):
        if not trace.knows_lifetimes:
            raise WorkloadError(f"the lifetimes of {name} are unknown; name a file that has them.")
    examples = examples_of(train)
    rng = np.random.default_rng(0)
    lived_s = test.bins.seconds(test.lifetime, rng)
    jobs = WindowJobs(
        test.starts_s(test.first_period), lived_s, examples.procs[test.flavour],
        _memory(examples.procs, examples.mem_bytes_per_proc)[test.flavour],
        test.censored == 0, test.batch_sizes,
    )  # fmt: skip
    return CloudWindows(names, train, lifetime_trace, examples, test, jobs, lived_s)


def examples_of(trace: CloudTrace) -> JobExamples:
    """Return one synthetic job per flavour of a trace, with whole cores and no time limit."""
    n = len(trace.flavours)
    cores = np.array([max(flavour.mcpu // 1000, 1) for flavour in trace.flavours])
    memory = np.array([flavour.mem_bytes for flavour in trace.flavours])
    return JobExamples(
        np.arange(n + 1), cores, np.full(n, trace.bins.longest_s),
        np.where(memory >= 0, memory // cores, -1),
    )  # fmt: skip


def generated_jobs(
    trace: CloudTrace,
    examples: JobExamples,
    lifetimes: np.random.Generator,
    example_rng: np.random.Generator,
) -> WindowJobs:
    """Convert a generated trace to jobs, with the same random draws as `workload_of`."""
    lived_s = trace.bins.seconds(trace.lifetime, lifetimes)
    rows = examples.draw(trace.flavour, example_rng)
    return WindowJobs(
        trace.starts_s(trace.first_period), np.minimum(lived_s, examples.requested_s[rows]),
        examples.procs[rows],
        _memory(examples.procs, examples.mem_bytes_per_proc)[rows],
        np.ones(trace.n_jobs, dtype=bool), trace.batch_sizes,
    )  # fmt: skip


def cores_by_period(jobs: WindowJobs, n_periods: int, period_s: float) -> Floats:
    """Return the number of processors in use in each period of a window: float64 [n_periods].

    As in `capacity.cores_in_use`, a job counts from the period of its begin on for its lifetime in
    whole periods, without an observed end to the end of the window.
    """
    begin = np.minimum((jobs.start_s / period_s).astype(np.int64), n_periods - 1)
    stop = begin + np.ceil(jobs.lived_s / period_s).astype(np.int64)
    stop = np.minimum(np.where(jobs.ended, stop, n_periods), n_periods)
    change = np.bincount(begin, jobs.procs, n_periods + 1).astype(np.float64)
    change -= np.bincount(stop, jobs.procs, n_periods + 1)
    used: Floats = np.cumsum(change)[:n_periods]
    return used


def _memory(procs: Ints, per_proc: Ints) -> Ints:
    job_memory: Ints = np.where(per_proc >= 0, per_proc * procs, -1)
    return job_memory


def _common_flavours(
    learnt: CloudTrace, examples: JobExamples, test_examples: JobExamples
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the training flavour of every request, and whether it is in common: [n_requests]."""
    requests = {}
    rest_flavours = {}
    for flavour, learnt_flavour in enumerate(learnt.flavours):
        if learnt_flavour.name.startswith(_OTHERS):
            rest_flavours[round(np.log2(learnt_flavour.mcpu / 1000))] = flavour
        else:
            requests[_request(examples, int(examples.first[flavour]))] = flavour
    procs = np.array([learnt_flavour.mcpu / 1000 for learnt_flavour in learnt.flavours])
    flavour_of_request = np.zeros(len(test_examples.first) - 1, dtype=np.int64)
    is_common = np.ones(len(flavour_of_request), dtype=bool)
    for at, first in enumerate(test_examples.first[:-1].tolist()):
        exact = requests.get(_request(test_examples, first))
        if exact is None:
            power = int(np.ceil(np.log2(max(int(test_examples.procs[first]), 1))))
            exact = rest_flavours.get(power)
        if exact is None:
            is_common[at] = False
            exact = int(np.abs(np.log2(procs) - np.log2(test_examples.procs[first])).argmin())
        flavour_of_request[at] = exact
    return flavour_of_request, is_common


def _request(examples: JobExamples, row: int) -> tuple[int, int, int]:
    return (
        int(examples.procs[row]), round(float(examples.requested_s[row])),
        int(examples.mem_bytes_per_proc[row]),
    )  # fmt: skip


def _shift(
    train: Workload, test: Workload, learnt: CloudTrace, test_trace: CloudTrace
) -> tuple[int, list[str]]:
    stop = learnt.first_period + learnt.n_periods
    if train.start_unix_s is None or test.start_unix_s is None:
        per_day = DAY_S / learnt.period_s
        day = int(np.ceil(stop / per_day))
        own_day = int(np.floor(test_trace.first_period / per_day))
        shift = round((day - own_day) * per_day)
        unknown = train.name if train.start_unix_s is None else test.name
        note = (
            f"The dates of {unknown} are unknown; {test.name} is assumed to begin the day after "
            f"{train.name} ends."
        )
        return shift, [note]
    if test_trace.first_period < stop:
        hours = (stop - test_trace.first_period) * learnt.period_s / 3600.0
        note = (
            f"{test.name} begins {hours:,.1f} h before {train.name} ends; the test overlaps "
            "the training data, so the scores are too good."
        )
        return 0, [note]
    return 0, []


def _offset_s(test: Workload, test_trace: CloudTrace, period_s: float) -> float:
    return float(clock_of(test)[0]) - test_trace.first_period * period_s

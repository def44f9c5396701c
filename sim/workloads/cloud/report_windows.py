"""Two workloads as windows that are learnt from and foreseen: the same flavours, one clock.

The flavours are those of the window that is learnt from. A job of the other one has the flavour of
its request; if nobody made that request before, that of the others with as many processors (to the
power of two), and if there are none, the nearest: a model cannot know what was never asked for, and
how often that happens is told.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import CloudTrace
from sim.model.workload import Workload
from sim.workloads.cloud.batching import Examples, batches_and_rows, batches_of, clock_of

DAY_S = 86_400.0
LEAST_DAYS = 2.0
"""Of the window that is learnt from."""

LEAST_PERIODS = 12
"""Of the window that is foreseen."""

_OTHERS = "others up to "

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Jobs:
    """What the jobs of a window are to somebody who looks on; columns have shape [n_jobs].

    Attributes:
        start_s: float64, submitted so many seconds after the begin of the window, never falling.
        lived_s: float64; what is known of it if it had not ended.
        procs: int64, processors; cores of a cloud.
        mem_bytes: int64, of the whole job; -1 where unknown.
        ended: bool, whether its end was seen.
        batch_size: int64 [n_batches], jobs of each batch.
    """

    start_s: Floats
    lived_s: Floats
    procs: Ints
    mem_bytes: Ints
    ended: NDArray[np.bool_]
    batch_size: Ints


@dataclass(frozen=True, eq=False)
class Windows:
    """What is learnt from, and what is foreseen.

    Attributes:
        names: of both, for people.
        train: jobs in batches, whose flavours all are.
        lived: what lifetimes are learnt from; mostly `train`.
        examples: jobs of each flavour.
        test: jobs in batches.
        jobs: those of `test`, in the order of their submission.
        lived_s: float64 [n_jobs], how long each job of `test` lived, in its order; spread evenly
            within bins where only these are known.
        taught_s: float64 [n], likewise of `lived`, in any order; None where only bins are known.
        notes: what had to be decided, for people.
    """

    names: tuple[str, str]
    train: CloudTrace
    lived: CloudTrace
    examples: Examples
    test: CloudTrace
    jobs: Jobs
    lived_s: Floats
    taught_s: Floats | None = None
    notes: tuple[str, ...] = ()


def windows_of(
    train: Workload, test: Workload, *, period_s: float = 300.0, most_flavours: int = 32
) -> Windows:
    """Return the windows of two workloads.

    Args:
        train: what is learnt from; its users are known.
        test: what is foreseen; likewise.
        period_s: length of a period.
        most_flavours: requests with a flavour of their own.

    Raises:
        WorkloadError: no users, too short, or no request in common.
    """
    learnt, examples = batches_of(train, period_s=period_s, most_flavours=most_flavours)
    days = learnt.n_periods * period_s / DAY_S
    if days < LEAST_DAYS:
        raise WorkloadError(
            f"{train.name} spans {days:.1f} days; {LEAST_DAYS:g} or more can be learnt from."
        )
    # Every request of its own, so that each is looked up in the flavours that are learnt.
    asked, own, rows = batches_and_rows(test, period_s=period_s, most_flavours=test.n_jobs)
    if asked.n_periods < LEAST_PERIODS:
        raise WorkloadError(
            f"{test.name} spans {asked.n_periods} periods of {period_s:g} s; {LEAST_PERIODS} or "
            "more can be foreseen."
        )
    known, is_common = _known(learnt, examples, own)
    flavour = known[asked.flavour]
    strange = int((~is_common[asked.flavour]).sum())
    if strange == asked.n_jobs:
        raise WorkloadError(
            f"no job of {test.name} asks for what a job of {train.name} asked for; there is "
            "nothing in common to foresee."
        )
    notes = []
    if strange:
        notes.append(
            f"{strange:,} of {asked.n_jobs:,} jobs of {test.name} ask for what no job of "
            f"{train.name} asked for; they count as the nearest flavour."
        )
    shift, said = _shift(train, test, learnt, asked)
    notes += said
    first = asked.first_period + shift
    moved = replace(
        asked, flavour=flavour, flavours=learnt.flavours, period=asked.period + shift,
        first_period=first,
    )  # fmt: skip
    begin_s = test.submit_s + _offset_s(test, asked, period_s)
    jobs = Jobs(
        begin_s, test.runtime_s, test.procs, _memory(test.procs, test.mem_bytes_per_proc),
        np.ones(test.n_jobs, dtype=bool), asked.batch_sizes,
    )  # fmt: skip
    return Windows(
        (train.name, test.name), learnt, learnt, examples, moved, jobs, test.runtime_s[rows],
        train.runtime_s, tuple(notes),
    )  # fmt: skip


def windows_of_traces(
    train: CloudTrace, test: CloudTrace, lived: CloudTrace | None = None,
    names: tuple[str, str] = ("train", "test"),
) -> Windows:  # fmt: skip
    """Return the windows of two traces of the same flavours, such as those of the authors.

    Args:
        train: what is learnt from.
        test: what is foreseen; its lifetimes are known.
        lived: what lifetimes are learnt from; None is `train`.
        names: of both.

    Raises:
        WorkloadError: they have other flavours, periods or bins, or lifetimes are unknown.
    """
    told = lived or train
    alike = all(
        (one.flavours, one.period_s, one.bins) == (test.flavours, test.period_s, test.bins)
        for one in (train, told)
    )
    if not alike:
        raise WorkloadError("the windows have other flavours, periods or bins of lifetimes.")
    for one, name in ((told, names[0]), (test, names[1])):
        if not one.knows_lifetimes:
            raise WorkloadError(f"the lifetimes of {name} are unknown; name a file that has them.")
    examples = examples_of(train)
    rng = np.random.default_rng(0)
    lived_s = test.bins.seconds(test.lifetime, rng)
    jobs = Jobs(
        starts_of(test), lived_s, examples.procs[test.flavour],
        _memory(examples.procs, examples.mem_bytes_per_proc)[test.flavour],
        test.censored == 0, test.batch_sizes,
    )  # fmt: skip
    return Windows(names, train, told, examples, test, jobs, lived_s)


def examples_of(trace: CloudTrace) -> Examples:
    """Return one job for each flavour of a trace: its whole cores, and no limit of time."""
    n = len(trace.flavours)
    cores = np.array([max(one.mcpu // 1000, 1) for one in trace.flavours])
    memory = np.array([one.mem_bytes for one in trace.flavours])
    return Examples(
        np.arange(n + 1), cores, np.full(n, trace.bins.longest_s),
        np.where(memory >= 0, memory // cores, -1),
    )  # fmt: skip


def starts_of(trace: CloudTrace) -> Floats:
    """Return when jobs begin after the begin of the window, evenly apart within their periods."""
    _, first, which, counts = np.unique(
        trace.period, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.arange(trace.n_jobs) - first[which]
    begin: Floats = (trace.period - trace.first_period + rank / counts[which]) * trace.period_s
    return begin


def generated_jobs(
    trace: CloudTrace,
    examples: Examples,
    lifetimes: np.random.Generator,
    chosen: np.random.Generator,
) -> Jobs:
    """Return the jobs of a generated trace, as `workload_of` makes them.

    Args:
        trace: with lifetimes.
        examples: of its flavours.
        lifetimes: draws how long jobs live within their bins.
        chosen: draws an example of each flavour.
    """
    lived_s = trace.bins.seconds(trace.lifetime, lifetimes)
    rows = examples.draw(trace.flavour, chosen)
    return Jobs(
        starts_of(trace), np.minimum(lived_s, examples.requested_s[rows]), examples.procs[rows],
        _memory(examples.procs, examples.mem_bytes_per_proc)[rows],
        np.ones(trace.n_jobs, dtype=bool), trace.batch_sizes,
    )  # fmt: skip


def cores_by_period(jobs: Jobs, n_periods: int, period_s: float) -> Floats:
    """Return the processors of the jobs that live in each period of a window: float64 [n_periods].

    As `demand.cores_in_use`: a job counts from the period of its begin on for its lifetime in whole
    periods; one whose end was not seen lives to the end of the window.
    """
    begin = np.minimum((jobs.start_s / period_s).astype(np.int64), n_periods - 1)
    stop = begin + np.ceil(jobs.lived_s / period_s).astype(np.int64)
    stop = np.minimum(np.where(jobs.ended, stop, n_periods), n_periods)
    change = np.bincount(begin, jobs.procs, n_periods + 1).astype(np.float64)
    change -= np.bincount(stop, jobs.procs, n_periods + 1)
    used: Floats = np.cumsum(change)[:n_periods]
    return used


def _memory(procs: Ints, per_proc: Ints) -> Ints:
    """Return the memory of whole jobs in bytes, -1 where unknown."""
    whole: Ints = np.where(per_proc >= 0, per_proc * procs, -1)
    return whole


def _known(learnt: CloudTrace, examples: Examples, own: Examples) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the learnt flavour of every request, and whether it is in common: [n_requests]."""
    requests = {}
    others = {}
    for flavour, one in enumerate(learnt.flavours):
        if one.name.startswith(_OTHERS):
            others[round(np.log2(one.mcpu / 1000))] = flavour
        else:
            requests[_request(examples, int(examples.first[flavour]))] = flavour
    procs = np.array([one.mcpu / 1000 for one in learnt.flavours])
    found = np.zeros(len(own.first) - 1, dtype=np.int64)
    is_common = np.ones(len(found), dtype=bool)
    for at, first in enumerate(own.first[:-1].tolist()):
        exact = requests.get(_request(own, first))
        if exact is None:
            power = int(np.ceil(np.log2(max(int(own.procs[first]), 1))))
            exact = others.get(power)
        if exact is None:
            is_common[at] = False
            exact = int(np.abs(np.log2(procs) - np.log2(own.procs[first])).argmin())
        found[at] = exact
    return found, is_common


def _request(examples: Examples, row: int) -> tuple[int, int, int]:
    return (
        int(examples.procs[row]), round(float(examples.requested_s[row])),
        int(examples.mem_bytes_per_proc[row]),
    )  # fmt: skip


def _shift(
    train: Workload, test: Workload, learnt: CloudTrace, asked: CloudTrace
) -> tuple[int, list[str]]:
    """Return by how many periods the window to foresee is moved, and what is said of it."""
    stop = learnt.first_period + learnt.n_periods
    if train.start_unix_s is None or test.start_unix_s is None:
        per_day = DAY_S / learnt.period_s
        day = int(np.ceil(stop / per_day))
        own_day = int(np.floor(asked.first_period / per_day))
        shift = round((day - own_day) * per_day)
        unknown = train.name if train.start_unix_s is None else test.name
        said = (
            f"The dates of {unknown} are unknown; {test.name} is taken to begin on the day after "
            f"{train.name} ends."
        )
        return shift, [said]
    if asked.first_period < stop:
        hours = (stop - asked.first_period) * learnt.period_s / 3600.0
        said = (
            f"{test.name} begins {hours:,.1f} h before {train.name} ends; what was learnt from is "
            "no test, and the figures are flattered."
        )
        return 0, [said]
    return 0, []


def _offset_s(test: Workload, asked: CloudTrace, period_s: float) -> float:
    """Return how long after the begin of its first period the first job is submitted."""
    return float(clock_of(test)[0]) - asked.first_period * period_s

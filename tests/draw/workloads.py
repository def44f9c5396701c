"""Draw small workloads and clusters in which ties are likely."""

from hypothesis import strategies as st

from sim import ClusterSpec, Partition, Scenario, Workload

WHOLE = st.integers(0, 12).map(float)
FRACTIONS = st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 0.7, 1.1, 1.3, 2.5, 3.9, 5.9, 23.8])
TIMES = st.one_of(WHOLE, FRACTIONS)


@st.composite
def workloads(draw: st.DrawFn, *, widest: int = 8, most_jobs: int = 25) -> Workload:
    """Draw 1 to `most_jobs` jobs; times are few small numbers, so that instants coincide."""
    n_jobs = draw(st.integers(1, most_jobs))
    column = st.lists(TIMES, min_size=n_jobs, max_size=n_jobs)
    widths = st.lists(st.integers(1, widest), min_size=n_jobs, max_size=n_jobs)
    return Workload.from_arrays(
        submit_s=sorted(draw(column)),
        runtime_s=draw(column),
        requested_s=draw(column),
        procs=draw(widths),
        job_id=draw(st.permutations(range(1, n_jobs + 1))),
    )


@st.composite
def clusters(draw: st.DrawFn, *, widest: int = 8) -> ClusterSpec:
    """Draw 1 or 2 partitions; the last admits every job up to `widest` processors."""
    last = Partition("last", widest + draw(st.integers(0, 4)))
    if draw(st.booleans()):
        return ClusterSpec((last,))
    limit_s = draw(st.one_of(st.none(), st.floats(0.1, 12.0)))
    most = draw(st.one_of(st.none(), st.integers(1, widest)))
    return ClusterSpec((Partition("short", draw(st.integers(1, widest)), limit_s, most), last))


@st.composite
def scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw a scenario in which every job finds a place."""
    return Scenario(
        draw(workloads(most_jobs=most_jobs)),
        draw(clusters()),
        order=draw(st.sampled_from(["fcfs", "sjf"])),
        backfill=draw(st.sampled_from(["none", "easy"])),
        overrun=draw(st.sampled_from(["raise", "kill"])),
    )

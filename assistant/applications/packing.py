"""How well the jobs of a trace pack onto servers, and whether others pack as well (FFAR)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assistant.errors import SettingsError
from assistant.files import is_there
from sim.api import (
    PACKING_RULES,
    Model,
    Packings,
    PackingSummary,
    Requests,
    SchedulingTuple,
    TupleRanges,
    Workload,
    draw_tuples,
    generate,
    pack_jobs,
    read_tuples,
    requests_of,
    write_tuples,
)

ALL = "all"
CORES_ONLY = tuple(rule.name for rule in PACKING_RULES if not rule.needs_memory)


@dataclass(frozen=True)
class PackedTrace:
    """What became of one trace.

    Attributes:
        name: for people.
        n_jobs: that were packed, of all windows.
        n_too_wide: jobs that are wider than every server, so that they were passed over.
        summaries: by algorithm; ``all`` is first.
    """

    name: str
    n_jobs: int
    n_too_wide: int
    summaries: dict[str, PackingSummary]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)


def range_of(text: str, option: str) -> tuple[float, float]:
    """Return the two ends of ``32:96``; one number is both.

    >>> range_of("32:96", "--cores"), range_of("2.5", "--memory")
    ((32.0, 96.0), (2.5, 2.5))

    Raises:
        SettingsError: it is not of that form.
    """
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise SettingsError(f"{option} '{text[:60]}' is not of the form 32:96, or 64") from None


def ranges_of(servers: str | None, cores: str | None, memory: str | None) -> TupleRanges:
    """Return the ranges that tuples are drawn from; None leaves the usual one.

    Raises:
        SettingsError: one is not of the form ``32:96``, or is not whole.
        SimError: it is no range.
    """
    usual = TupleRanges()
    whole = {}
    for option, text, of in (
        ("--servers", servers, usual.servers), ("--cores", cores, usual.cores),
    ):  # fmt: skip
        low, high = of if text is None else range_of(text, option)
        if low % 1 or high % 1:
            raise SettingsError(f"{option} '{text}' is no range of whole numbers, such as 32:96")
        whole[option] = (int(low), int(high))
    per_core = usual.gib_per_core if memory is None else range_of(memory, "--memory")
    return TupleRanges(whole["--servers"], whole["--cores"], per_core)


def tuples_of(
    n: int, seed: int, path: Path | None, ranges: TupleRanges, algorithms: Sequence[str]
) -> tuple[SchedulingTuple, ...]:
    """Return the tuples of a file if it is there; otherwise draw some, and write them to it.

    Args:
        n: how many are drawn.
        seed: of the draws.
        path: None keeps them nowhere.
        ranges: that they are drawn from.
        algorithms: names; none is all of them. Of a file only those tuples are taken.

    Raises:
        SettingsError: the file has no tuples of these algorithms.
        SimError: the file cannot be read or written, or there is no such algorithm.
    """
    if path is not None and is_there(path):
        found = read_tuples(path)
        kept = tuple(one for one in found if not algorithms or one.algorithm in algorithms)
        if not kept:
            raise SettingsError(f"'{path}' has no tuples of {', '.join(algorithms)}")
        return kept
    drawn = draw_tuples(n, seed, ranges, algorithms or None)
    if path is not None:
        write_tuples(drawn, path)
    return drawn


def pack_workloads(
    workloads: Sequence[Workload],
    tuples: Sequence[SchedulingTuple],
    *,
    departures: bool = True,
    by_memory: bool = True,
) -> PackedTrace:
    """Pack jobs once for each tuple.

    Args:
        workloads: windows of one kind, one or more; they take turns with the tuples.
        tuples: how.
        departures: whether jobs leave.
        by_memory: pack by cores and memory.

    Raises:
        SimError: memory is unknown, or an algorithm needs it.
    """
    told = [requests_of(one) for one in workloads]
    n = len(told)
    found = [
        pack_jobs(one, tuples[i::n], departures=departures, by_memory=by_memory)
        for i, one in enumerate(told)
    ]
    every = Packings(
        np.concatenate([one.cpu for one in found]),
        np.concatenate([one.memory for one in found]),
        tuple(name for one in found for name in one.algorithm),
    )
    names = [rule.name for rule in PACKING_RULES if rule.name in every.algorithm]
    return PackedTrace(
        name=told[0].name,
        n_jobs=sum(one.n_jobs for one in told),
        n_too_wide=sum(_too_wide(one, tuples, by_memory) for one in told),
        summaries={ALL: every.of(None)} | {name: every.of(name) for name in names},
    )


def futures_of(
    model: Model, like: Workload, n: int, seed: int, demand: float
) -> tuple[Workload, ...]:
    """Draw windows from a model, each as long as a workload.

    Args:
        model: of any generator.
        like: whose span they have.
        n: how many.
        seed: of the first; the others have the next ones.
        demand: factor on the rate of arrivals.

    Raises:
        SimError: the model cannot draw so many jobs.
    """
    span_s = max(like.span_s, 1.0)
    return tuple(generate(model, duration_s=span_s, seed=seed + k, scale=demand) for k in range(n))


def summary_rows(traces: Sequence[PackedTrace]) -> list[list[str]]:
    """Return lines of a table: algorithm, then for each trace median, share above, by cores."""
    return [
        [name, *(cell for one in traces for cell in _cells(one.summaries[name]))]
        for name in traces[0].summaries
    ]


def packing_notes(traces: Sequence[PackedTrace]) -> tuple[str, ...]:
    """Say what the table does not: what never filled the servers, and what was passed over."""
    found = []
    for one in traces:
        every = one.summaries[ALL]
        missing = every.n_tuples - every.n_failed
        if missing:
            found.append(
                f"{one.name}: in {missing:,} of {every.n_tuples:,} packings every job found room, "
                "and they tell nothing; take fewer or smaller servers, or a longer trace."
            )
        if one.n_too_wide:
            found.append(
                f"{one.name}: {one.n_too_wide:,} of {one.n_jobs:,} jobs are wider than every "
                "server and were passed over."
            )
    return tuple(found)


def _too_wide(told: Requests, tuples: Sequence[SchedulingTuple], by_memory: bool) -> int:
    wide = told.mcpu > max(one.mcpu for one in tuples)
    if by_memory:
        wide |= told.mem_bytes > max(one.mem_bytes for one in tuples)
    return int(wide.sum())


def _cells(one: PackingSummary) -> list[str]:
    return ["-" if share is None else f"{share:.1%}" for share in (
        one.median, one.above, one.cpu_limited,
    )]  # fmt: skip

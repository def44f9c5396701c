"""Capacity plans (how many servers suffice) and packing (first-failure allocation ratio)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assistant.core.errors import SettingsError
from assistant.core.files import is_there
from assistant.simtools.workload_generation import has_rules, model_of, with_parameters
from sim.api import ProfileWindow, ReadingRules, Workload, load_workload
from sim.formats import is_cloud_trace, is_model, read_cloud_trace
from sim.generators import Model, fit, generate, generator_named
from sim.generators.cloud import (
    PACKING_RULES,
    CapacityCase,
    CapacityPlan,
    PackingRequests,
    PackingResults,
    PackingSummary,
    SchedulingTuple,
    ServerRequirement,
    ServerSize,
    TupleRanges,
    draw_tuples,
    fit_cloud_trace,
    pack_jobs,
    read_tuples,
    requests_of,
    write_tuples,
)

GIB = 2**30


def model_for(
    source: str,
    generator: str,
    knobs: Mapping[str, float | str],
    *,
    window: ProfileWindow | None = None,
    rules: ReadingRules | None = None,
) -> Model:
    """Load a workload model by file or generator name, or fit a model to a log.

    Args:
        source: file of a model, of a log or of the batches of Bergsma et al., or name of a
            generator with published parameters.
        generator: generator that is fitted to a log.
        knobs: settings of the fit.
        window: jobs of the log to use.
        rules: reading rules for a log in the Standard Workload Format.

    Raises:
        SimError: the source is unknown, cannot be read, or cannot be fitted.
        SettingsError: knobs were passed for an existing model.
    """
    path = Path(source)
    if is_model(path) or not path.exists():
        if knobs:
            raise SettingsError("knobs are for a fit to a log; this model is fitted already")
        return model_of(source)
    if is_cloud_trace(path):
        return fit_cloud_trace(generator, read_cloud_trace(path), knobs, of=path.name)
    generator_named(generator)
    log = load_workload(path, rules=rules if has_rules(path) else None)
    return fit(generator, (window or ProfileWindow()).of(log), knobs)


def alternative_models(
    model: Model, settings: Mapping[str, Any]
) -> tuple[tuple[str, Model, Mapping[str, Any]], ...]:
    """Return name, model and settings of a case with changed parameters, or () if none."""
    if not settings:
        return ()
    name = ", ".join(f"{parameter}={value}" for parameter, value in settings.items())
    return ((f"with {name}", with_parameters(model, settings), settings),)


def answer(plan: CapacityPlan) -> str:
    """Return one sentence on the number of servers that suffice in a capacity plan."""
    first = plan.cases[0]
    needed = first.packed or first.fluid
    how = "placed by first fit" if first.packed else "by the fluid bound"
    return (
        f"{needed.servers:,} servers of {server_words(plan.server)} suffice in "
        f"{share_words(plan)} of {plan.futures:,} generated futures of {plan.days:g} days, {how} "
        f"({interval_words(needed)})."
    )


def notes(plan: CapacityPlan) -> tuple[str, ...]:
    """Return sentences on the limits of a capacity plan."""
    begin = (
        f"Each future starts empty, so it is generated from {plan.warm_up_days:g} days before the "
        "days that count."
    )
    sentences = [begin]
    missing = max(case.missing for case in plan.cases)
    if missing > 0.01:
        sentences.append(
            f"Jobs that live longer than that are {missing:.1%} of the demand. They are missing at "
            "the start, so the answer may be too low by this share. Give a longer warm-up."
        )
    if any((case.packed or case.fluid).high is None for case in plan.cases):
        sentences.append("The interval has no upper end; generate more futures.")
    return tuple(sentences)


def share_words(plan: CapacityPlan) -> str:
    """Return the required share of futures with enough servers, as text in per cent."""
    return f"{100.0 * plan.share:.6g} %"


def server_words(server: ServerSize) -> str:
    """Return the processors and the memory of a server as text."""
    cores = f"{server.cores:,} {'processor' if server.cores == 1 else 'processors'}"
    if server.mem_bytes is None:
        return cores
    return f"{cores} and {server.mem_bytes / GIB:,.4g} GiB"


def interval_words(needed: ServerRequirement) -> str:
    """Return the 95 % confidence interval of the number of servers as text."""
    return f"95 % interval: {_ends(needed)}"


def plan_from_table(table: Mapping[str, Any]) -> CapacityPlan:
    """Restore a plan from the result of `CapacityPlan.to_dict`. Raises KeyError if incomplete."""

    def needed(row: Mapping[str, Any]) -> ServerRequirement:
        return ServerRequirement(
            row["servers"], row["low"], row["high"], row["median"], row["most"], tuple(row["each"])
        )

    cases = tuple(
        CapacityCase(
            case["name"], case["scale"], case["settings"], case["jobs"], case["missing"],
            needed(case["fluid"]), None if case["packed"] is None else needed(case["packed"]),
        )
        for case in table["cases"]
    )  # fmt: skip
    server = ServerSize(table["server"]["cores"], table["server"]["mem_bytes"])
    return CapacityPlan(
        table["generator"], table["source"], server, table["days"], table["warm_up_days"],
        table["futures"], table["share"], table["seed"], cases,
    )  # fmt: skip


HEADINGS = (
    "case", "jobs", "servers, fluid", "interval", "servers, first fit", "interval",
    "median", "most",
)  # fmt: skip


def curves(plan: CapacityPlan) -> dict[str, list[tuple[int, float]]]:
    """Return, by case, pairs of number of servers and share of futures where they suffice."""
    return {case.name: (case.packed or case.fluid).suffice() for case in plan.cases}


def rows(plan: CapacityPlan) -> tuple[tuple[str, ...], ...]:
    """Return the table rows of a capacity plan, one per case, with the columns `HEADINGS`."""
    return tuple(_row(case) for case in plan.cases)


def _row(case: CapacityCase) -> tuple[str, ...]:
    last = case.packed or case.fluid
    packed = ("-", "-") if case.packed is None else (f"{case.packed.servers:,}", _ends(case.packed))
    return (
        case.name, f"{case.jobs:,.0f}", f"{case.fluid.servers:,}", _ends(case.fluid), *packed,
        f"{last.median:,}", f"{last.most:,}",
    )  # fmt: skip


def _ends(needed: ServerRequirement) -> str:
    return (
        f"{needed.low:,} or more" if needed.high is None else f"{needed.low:,} to {needed.high:,}"
    )


ALL = "all"
CORES_ONLY = tuple(rule.name for rule in PACKING_RULES if not rule.needs_memory)


@dataclass(frozen=True)
class PackedTrace:
    """The results of packing the jobs of one trace onto servers.

    Attributes:
        n_too_wide: jobs that are wider than every server and were skipped.
        summaries: summary by algorithm; ``all`` is first.
    """

    name: str
    n_jobs: int
    n_too_wide: int
    summaries: dict[str, PackingSummary]

    def to_dict(self) -> dict[str, Any]:
        """Return the packing results as a JSON object."""
        return asdict(self)


def range_of(text: str, option: str) -> tuple[float, float]:
    """Parse a range such as ``32:96``, or a single number, into its two ends.

    >>> range_of("32:96", "--cores"), range_of("2.5", "--memory")
    ((32.0, 96.0), (2.5, 2.5))

    Raises:
        SettingsError: the text does not have this form.
    """
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise SettingsError(f"{option} '{text[:60]}' is not of the form 32:96, or 64") from None


def ranges_of(servers: str | None, cores: str | None, memory: str | None) -> TupleRanges:
    """Parse the ranges of servers, cores and memory, where None is the default range.

    Raises:
        SettingsError: a text does not have the form ``32:96``, or its numbers are not whole.
        SimError: a range is empty.
    """
    usual = TupleRanges()
    integer_ranges = {}
    for option, text, of in (
        ("--servers", servers, usual.servers), ("--cores", cores, usual.cores),
    ):  # fmt: skip
        low, high = of if text is None else range_of(text, option)
        if low % 1 or high % 1:
            raise SettingsError(f"{option} '{text}' is not a range of whole numbers, such as 32:96")
        integer_ranges[option] = (int(low), int(high))
    per_core = usual.gib_per_core if memory is None else range_of(memory, "--memory")
    return TupleRanges(integer_ranges["--servers"], integer_ranges["--cores"], per_core)


def tuples_of(
    n: int, seed: int, path: Path | None, ranges: TupleRanges, algorithms: Sequence[str]
) -> tuple[SchedulingTuple, ...]:
    """Read packing settings (tuples) from a file, or draw new ones and write them to it.

    Raises:
        SettingsError: the file has no tuples of these algorithms.
        SimError: the file cannot be read or written, or an algorithm is unknown.
    """
    if path is not None and is_there(path):
        stored = read_tuples(path)
        selected = tuple(
            entry for entry in stored if not algorithms or entry.algorithm in algorithms
        )
        if not selected:
            raise SettingsError(f"'{path}' has no tuples of {', '.join(algorithms)}")
        return selected
    sample = draw_tuples(n, seed, ranges, algorithms or None)
    if path is not None:
        write_tuples(sample, path)
    return sample


def pack_workloads(
    workloads: Sequence[Workload],
    tuples: Sequence[SchedulingTuple],
    *,
    departures: bool = True,
    by_memory: bool = True,
) -> PackedTrace:
    """Pack the jobs of a trace once for each tuple of start, servers, size and algorithm.

    Raises:
        SimError: memory is unknown, or an algorithm needs it.
    """
    requests = [requests_of(entry) for entry in workloads]
    n = len(requests)
    packings = [
        pack_jobs(entry, tuples[i::n], departures=departures, by_memory=by_memory)
        for i, entry in enumerate(requests)
    ]
    every = PackingResults(
        np.concatenate([entry.cpu for entry in packings]),
        np.concatenate([entry.memory for entry in packings]),
        tuple(name for entry in packings for name in entry.algorithm),
    )
    names = [rule.name for rule in PACKING_RULES if rule.name in every.algorithm]
    return PackedTrace(
        name=requests[0].name,
        n_jobs=sum(entry.n_jobs for entry in requests),
        n_too_wide=sum(_too_wide(entry, tuples, by_memory) for entry in requests),
        summaries={ALL: every.of(None)} | {name: every.of(name) for name in names},
    )


def futures_of(
    model: Model, like: Workload, n: int, seed: int, demand: float
) -> tuple[Workload, ...]:
    """Draw ``n`` future workloads from a model, each as long as the workload ``like``.

    Args:
        model: model of any generator.
        like: workload whose span the windows have.
        n: number of windows.
        seed: seed of the first window; each next one is larger by 1.
        demand: factor on the rate of arrivals.

    Raises:
        SimError: the model cannot draw so many jobs.
    """
    span_s = max(like.span_s, 1.0)
    return tuple(generate(model, duration_s=span_s, seed=seed + k, scale=demand) for k in range(n))


def summary_rows(traces: Sequence[PackedTrace]) -> list[list[str]]:
    """Return one row of texts per packing algorithm, with three results for each trace."""
    return [
        [name, *(cell for trace in traces for cell in _cells(trace.summaries[name]))]
        for name in traces[0].summaries
    ]


def packing_notes(traces: Sequence[PackedTrace]) -> tuple[str, ...]:
    """Return sentences on packings in which every job fitted, and on skipped jobs."""
    sentences = []
    for trace in traces:
        every = trace.summaries[ALL]
        missing = every.n_tuples - every.n_failed
        if missing:
            sentences.append(
                f"{trace.name}: in {missing:,} of {every.n_tuples:,} packings every job fits, so "
                "they give no result; use fewer or smaller servers, or a longer trace."
            )
        if trace.n_too_wide:
            sentences.append(
                f"{trace.name}: {trace.n_too_wide:,} of {trace.n_jobs:,} jobs are wider than every "
                "server and were skipped."
            )
    return tuple(sentences)


def _too_wide(requests: PackingRequests, tuples: Sequence[SchedulingTuple], by_memory: bool) -> int:
    wide = requests.mcpu > max(server.mcpu for server in tuples)
    if by_memory:
        wide |= requests.mem_bytes > max(server.mem_bytes for server in tuples)
    return int(wide.sum())


def _cells(summary: PackingSummary) -> list[str]:
    return ["-" if share is None else f"{share:.1%}" for share in (
        summary.median, summary.above, summary.cpu_limited,
    )]  # fmt: skip

"""The Lublin-Feitelson model as a generator, and the built-in workload for demo and tests.

`sim.generators.lublin` has the model itself and its published parameters. Here jobs are drawn in
blocks, a million in a second; in a denser workload (`scale`) every job brings fewer points, which
leaves the daily cycle as it is. `truncated_clock` keeps a quirk of the authors' program: its clock
loses the fraction of a second after every job.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from math import floor

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from sim.generators.generator import (
    EPOCH_UNIX_S,
    Generator,
    Horizon,
    Json,
    Model,
    ModelMoment,
    RandomStreams,
    check_number_of_jobs,
    checked_number,
    first_submit_s,
    number_of,
)
from sim.generators.lublin import (
    BATCH,
    BOTH_TYPES,
    BUCKETS,
    INTERACTIVE,
    KNOBS,
    SECONDS_IN_BUCKET,
    TOO_MUCH_ARRIVE_TIME,
    TOO_MUCH_TIME,
    TYPELESS,
    LublinParameters,
    SizeLaw,
    bucket_weights,
    f_model,
    fit_lublin,
    lublin,
    processors,
    round_up,
)
from sim.metrics.workload_profile import offered_load
from sim.model.errors import WorkloadError
from sim.model.workload import ReadingNote, Workload

Floats = NDArray[np.float64]


TYPES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "both": (("interactive", 0), ("batch", 1)),
    "interactive": (("interactive", 0),),
    "batch": (("batch", 1),),
    "typeless": (("typeless", 0),),
}
"""Values of the parameter `types`, with the drawn types of job and their queues."""

BLOCK = 4096
"""Jobs that are drawn together; fixed, so that a longer workload begins with a shorter one."""

LEAST_ACCEPTED = 1e-3  # least share of accepted draws, which bounds the time of repeated draws

MOST_EXPONENT = 24.0


def published() -> Model:
    """Return the Lublin-Feitelson model with its authors' parameters (interactive and batch)."""
    tables = {"interactive": INTERACTIVE, "batch": BATCH, "typeless": TYPELESS}
    return Model(
        "lublin",
        {
            "types": "both",
            "request_factor": 4.0,
            "max_procs": 128,
            "truncated_clock": False,
            "too_much_time": TOO_MUCH_TIME,
            "too_much_arrive_time": TOO_MUCH_ARRIVE_TIME,
            **{name: asdict(p) for name, p in tables.items()},
        },
        source="Lublin and Feitelson, JPDC 63(11), 2003: the parameters of m_lublin99.",
    )


def check(model: Model) -> None:
    """Raise `WorkloadError` for an invalid parameter, naming it and the allowed values."""
    too_long = number_of(model, "too_much_time", 0.1, 30.0)
    too_late = number_of(model, "too_much_arrive_time", 0.1, 30.0)
    number_of(model, "request_factor", 0.0, 1e6)
    if number_of(model, "max_procs", 1, 2.0**MOST_EXPONENT) % 1:
        raise WorkloadError("parameter 'max_procs' of 'lublin' must be a whole number.")
    if not isinstance(model.parameters.get("truncated_clock"), bool):
        raise WorkloadError("parameter 'truncated_clock' of 'lublin' must be true or false.")
    _types_of_model(model)
    parameter_names = {"types", "request_factor", "max_procs", "truncated_clock", "too_much_time"}
    parameter_names.add("too_much_arrive_time")
    for name in sorted(set(model.parameters) - parameter_names):
        if name not in {type_name for kinds in TYPES.values() for type_name, _ in kinds}:
            raise WorkloadError(f"'lublin' has no parameter '{name}'.")
        p = _table(model.parameters[name], name)
        of = f"of '{name}' in a model of 'lublin'"
        if p.serial_prob + p.pow2_prob > 1 + 1e-9:
            raise WorkloadError(f"serial_prob and pow2_prob {of} are together more than 1.")
        if not p.u_low <= p.u_med <= p.u_hi:
            raise WorkloadError(f"u_low, u_med and u_hi {of} must not fall.")
        accepted = min(gammainc(p.a1, too_long / p.b1), gammainc(p.a2, too_long / p.b2))
        arrive = gammainc(p.aarr * p.arar, too_late / p.barr)
        if min(accepted, arrive) < LEAST_ACCEPTED:
            raise WorkloadError(
                f"a1 to b2, or aarr, barr and arar, {of} give nearly only values above "
                "too_much_time or too_much_arrive_time."
            )
        if not np.isfinite(bucket_weights(p)).all() or bucket_weights(p).min() <= 1e-12:
            raise WorkloadError(f"anum and bnum {of} give half hours without arrivals.")


def draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    """Draw the jobs of all types in the model that are submitted within the horizon.

    Raises:
        WorkloadError: there are none, or too many.
    """
    factor = number_of(model, "request_factor", 0.0)
    kinds = _types_of_model(model)
    check_number_of_jobs(
        sum(_jobs_per_day(model, p).mean for _, _, p in kinds)
        * (horizon.duration_s / 86400.0) * horizon.scale
    )  # fmt: skip
    parts = [_jobs_of(model, p, horizon, streams.inside(name)) for name, _, p in kinds]
    submit_s, procs, runtime_s, requested_s = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    first_s = first_submit_s(submit_s, horizon)
    queue = np.concatenate(
        [np.full(len(part[0]), queue) for part, (_, queue, _) in zip(parts, kinds, strict=True)]
    )
    order = np.lexsort((queue, submit_s))
    sentence = (
        f"{len(order):,} requests come from a model: run time * (1 + U(0, {factor:g})), rounded up "
        "to round values."
    )
    return Workload.from_arrays(
        submit_s=submit_s[order],
        runtime_s=runtime_s[order],
        procs=procs[order],
        requested_s=requested_s[order] if factor else None,
        queue=queue[order],
        name="lublin-feitelson",
        max_procs=int(number_of(model, "max_procs", 1)),
        start_unix_s=EPOCH_UNIX_S + first_s,
        time_zone="UTC",
        notes=(ReadingNote("estimate_model", len(order), sentence),) if factor else (),
    )


def moments(model: Model) -> Mapping[str, ModelMoment]:
    """Return a model's expected moments of arrivals, run times and processors, by quadrature."""
    kinds = [p for _, _, p in _types_of_model(model)]
    rates = [_jobs_per_day(model, p) for p in kinds]
    total = sum(rate.mean for rate in rates)
    stated = {"jobs_per_day": ModelMoment(total, float(np.sqrt(sum(rate.sd**2 for rate in rates))))}
    of_types = [_of_one_job(model, p) for p in kinds]
    for name in of_types[0]:
        # Arrivals of a type come in clumps, so its share of the jobs varies more than by chance.
        mean = sum(
            r.mean / total * moments_of_type[name].mean
            for r, moments_of_type in zip(rates, of_types, strict=True)
        )
        variance = sum(
            r.mean / total * moments_of_type[name].sd ** 2
            + r.sd**2 / total * (moments_of_type[name].mean - mean) ** 2
            for r, moments_of_type in zip(rates, of_types, strict=True)
        )  # fmt: skip
        stated[name] = ModelMoment(mean, float(np.sqrt(variance)))
    return stated


def _of_one_job(model: Model, p: LublinParameters) -> dict[str, ModelMoment]:
    law = SizeLaw.of(p)
    sizes = np.arange(1.0, law.widest + 1.0)
    chances = law.chances(sizes)
    logs = np.log2(np.minimum(sizes, number_of(model, "max_procs", 1)))
    share = np.clip(p.pa * sizes + p.pb, 0.0, 1.0)
    values, first, second = _log_runtime_cells(p, number_of(model, "too_much_time", 0.1))
    weights = chances / (share * first.sum() + (1 - share) * second.sum())
    return {
        "log_runtime": _moment(
            values, (weights * share).sum() * first + (weights * (1 - share)).sum() * second
        ),
        "log2_procs": _moment(logs, chances),
        "serial": _moment((logs == 0).astype(np.float64), chances),
    }


def _moment(values: Floats, mass: Floats) -> ModelMoment:
    mean = float((values * mass).sum() / mass.sum())
    return ModelMoment(mean, float(np.sqrt(((values - mean) ** 2 * mass).sum() / mass.sum())))


def _log_runtime_cells(p: LublinParameters, too_long: float) -> tuple[Floats, Floats, Floats]:
    """Return ln of run times (first in whole seconds), and their probabilities by both gammas."""
    seconds = np.arange(1.0, 2001.0)
    seconds = seconds[np.log(seconds) < too_long]
    beyond = np.linspace(np.log(seconds[-1]), too_long, 4001)[1:]
    edges = np.concatenate([np.log(seconds), beyond])
    values = np.concatenate([np.log(seconds[:-1]), (edges[len(seconds) - 1 : -1] + beyond) / 2])
    first, second = (
        np.diff(gammainc(a, np.maximum(edges, 0.0) / b)) for a, b in ((p.a1, p.b1), (p.a2, p.b2))
    )
    return values, first, second


def _jobs_per_day(model: Model, p: LublinParameters) -> ModelMoment:
    """Return the long-run rate and its spread: arrivals are a renewal process in points."""
    too_late = number_of(model, "too_much_arrive_time", 0.1)
    edges = np.linspace(0.0, too_late, 20_001)
    mass = np.diff(gammainc(p.aarr * p.arar, edges / p.barr)).astype(np.float64)
    points = np.exp((edges[:-1] + edges[1:]) / 2) / SECONDS_IN_BUCKET
    gap = _moment(points.astype(np.float64), mass)
    return ModelMoment(BUCKETS / gap.mean, float(np.sqrt(BUCKETS / gap.mean) * gap.sd / gap.mean))


def _jobs_of(
    model: Model, p: LublinParameters, horizon: Horizon, streams: RandomStreams
) -> tuple[Floats, Floats, Floats, Floats]:
    submit_s = _arrivals(model, p, horizon, streams.of("arrivals"))
    n_jobs = len(submit_s)
    n_drawn = -(-n_jobs // BLOCK) * BLOCK
    procs = processors(p, n_drawn, streams.of("processors"))
    too_long = number_of(model, "too_much_time", 0.1)
    runtime_s = _run_times(p, procs, too_long, streams.of("run times"))[:n_jobs]
    factor = number_of(model, "request_factor", 0.0)
    requested_s = round_up(f_model(runtime_s, factor, streams.of("requests")))
    widest = number_of(model, "max_procs", 1)
    return submit_s, np.minimum(procs[:n_jobs], widest), runtime_s, requested_s


def _arrivals(
    model: Model, p: LublinParameters, horizon: Horizon, rng: np.random.Generator
) -> Floats:
    """Draw submit times in whole seconds since midnight, below the duration: float64 [n_jobs]."""
    too_late = number_of(model, "too_much_arrive_time", 0.1)
    paid = np.concatenate([[0.0], np.cumsum(bucket_weights(p))])
    clock_s = np.arange(BUCKETS + 1) * SECONDS_IN_BUCKET
    blocks: list[Floats] = []
    have = 0.0
    while not blocks or blocks[-1][-1] < horizon.duration_s:
        logs = rng.gamma(p.aarr * p.arar, p.barr, BLOCK)
        brought = np.exp(logs[logs <= too_late]) / SECONDS_IN_BUCKET
        points = np.cumsum(np.concatenate([[have], brought]))[1:]
        if len(points) == 0:
            continue
        have = float(points[-1])
        if model.parameters["truncated_clock"]:
            begin_s = float(blocks[-1][-1]) if blocks else 0.0
            blocks.append(_truncated(brought / horizon.scale, paid.tolist(), begin_s))
            continue
        days, rest = np.divmod(points / horizon.scale, paid[-1])
        blocks.append(np.floor(days * 86400.0 + np.interp(rest, paid, clock_s)))
    submit_s = np.concatenate(blocks)
    return submit_s[submit_s < horizon.duration_s]


def _truncated(brought: Floats, paid: list[float], now_s: float) -> Floats:
    """Spend points job by job with a clock of whole seconds, as the authors' program does.

    `paid` is the cumulative cost of the half hours at the 49 bounds of a day.
    """
    submit_s = []
    for points in brought.tolist():
        day, of_day_s = divmod(now_s, 86400.0)
        bucket = int(of_day_s // SECONDS_IN_BUCKET)
        share = of_day_s / SECONDS_IN_BUCKET - bucket
        days, rest = divmod(
            paid[bucket] + share * (paid[bucket + 1] - paid[bucket]) + points, paid[-1]
        )
        bucket = min(bisect_right(paid, rest), BUCKETS) - 1
        share = (rest - paid[bucket]) / (paid[bucket + 1] - paid[bucket])
        now_s = floor((day + days) * 86400.0 + (bucket + share) * SECONDS_IN_BUCKET)
        submit_s.append(now_s)
    return np.array(submit_s, dtype=np.float64)


def _run_times(
    p: LublinParameters, procs: Floats, too_long: float, rng: np.random.Generator
) -> Floats:
    logs = np.empty(len(procs))
    for begin in range(0, len(procs), BLOCK):
        share = np.clip(p.pa * procs[begin : begin + BLOCK] + p.pb, 0.0, 1.0)
        block = logs[begin : begin + BLOCK]
        block[:] = np.inf
        while len(rows := np.flatnonzero(block > too_long)):
            first = rng.random(len(rows)) <= share[rows]
            block[rows] = np.where(
                first, rng.gamma(p.a1, p.b1, len(rows)), rng.gamma(p.a2, p.b2, len(rows))
            )
    seconds: Floats = np.floor(np.exp(logs))
    return seconds


def _types_of_model(model: Model) -> list[tuple[str, int, LublinParameters]]:
    types = model.parameters.get("types")
    if not isinstance(types, str) or types not in TYPES:
        raise WorkloadError(
            f"parameter 'types' of 'lublin' is {types!r}; allowed are {', '.join(TYPES)}."
        )
    return [(name, queue, _table(model.parameters.get(name), name)) for name, queue in TYPES[types]]


_SHARES = ("serial_prob", "pow2_prob", "u_prob")
_EXPONENTS = ("u_low", "u_med", "u_hi")
_LINE = ("pa", "pb")


def _table(values_by_name: Json, name: str) -> LublinParameters:
    field_names = [field.name for field in fields(LublinParameters)]
    if not isinstance(values_by_name, dict) or sorted(values_by_name) != sorted(field_names):
        raise WorkloadError(
            f"parameter '{name}' of 'lublin' must have exactly the entries "
            f"{', '.join(field_names)}."
        )
    values = {}
    for key in field_names:
        low, high = 1e-6, 1e6
        if key in _SHARES:
            low, high = 0.0, 1.0
        elif key in _EXPONENTS:
            low, high = 0.0, MOST_EXPONENT
        elif key in _LINE:
            low = -1e6
        values[key] = checked_number(
            f"parameter '{key}' of '{name}' of 'lublin'", values_by_name[key], low, high
        )
    return LublinParameters(**values)


LUBLIN = Generator(
    "lublin",
    "Rigid parallel jobs with a daily cycle (Lublin and Feitelson 2003): interactive, batch, both.",
    check=check,
    draw=draw,
    fit=fit_lublin,
    published=published,
    knobs=KNOBS,
    moments=moments,
    extends=True,
)

MACHINE_PROCS = 128
"""Processors of the machine; the widest job has 32, so that parts of it can hold all jobs."""

NARROWER = 2.0
"""Difference of all log2 processors from the model: jobs have up to 32 processors, not 128."""

OFFERED_LOAD = 0.65
FACTOR = 4.0


def default_workload(seed: int = 0, n_jobs: int = 1500) -> Workload:
    """Draw the built-in workload for demo and tests: Lublin-Feitelson jobs on 128 processors.

    Lublin-Feitelson jobs of both types, up to 32 processors (ULow, UMed and UHi less 2). Submit
    times are scaled to an offered load of 0.65 on 128 processors. Requests are the run times by
    the f-model with f = 4, rounded up to round values (1 min ... 96 h).

    Raises:
        WorkloadError: fewer than 2 jobs, or a negative seed.
    """
    if n_jobs < 2:
        raise WorkloadError(f"{n_jobs} jobs; the built-in workload needs 2 or more.")
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; allowed are whole numbers from 0.")
    of_jobs, of_requests = np.random.SeedSequence(seed).spawn(2)
    sample = lublin(n_jobs, of_jobs, types=tuple(_narrower(p) for p in BOTH_TYPES))
    load = offered_load(sample, MACHINE_PROCS)
    scale = 1.0 if load is None else load / OFFERED_LOAD
    runtime_s = np.maximum(sample.runtime_s, 1.0)
    rng = np.random.default_rng(of_requests)
    sentence = (
        f"{n_jobs:,} requests come from a model: run time * (1 + U(0, {FACTOR:g})), rounded up to "
        "round values."
    )
    return Workload.from_arrays(
        submit_s=np.round(sample.submit_s * scale),
        runtime_s=runtime_s,
        procs=sample.procs,
        requested_s=round_up(f_model(runtime_s, FACTOR, rng)),
        queue=sample.queue,
        name="lublin-feitelson (built in)",
        max_procs=MACHINE_PROCS,
        notes=(ReadingNote("estimate_model", n_jobs, sentence),),
    )


def _narrower(p: LublinParameters) -> LublinParameters:
    low, middle, high = (max(u - NARROWER, 0.0) for u in (p.u_low, p.u_med, p.u_hi))
    return replace(p, u_low=low, u_med=middle, u_hi=high)

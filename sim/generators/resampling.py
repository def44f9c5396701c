"""Workloads from a log by a block bootstrap: random days or weeks of it in a new order.

Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of Statistics
17(3), 1989, for the idea that blocks keep dependences; blocks here lie on the calendar, so that
weekdays and nights stay what they are. Within a block, order, gaps and users are kept; between
blocks nothing is. A scale of 2.3 overlays two blocks and a third one of which each user stays,
with all submissions in that block, with a probability of 0.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import (
    EPOCH_UNIX_S,
    Generator,
    Horizon,
    Model,
    ModelMoment,
    RandomStreams,
    check_number_of_jobs,
    first_submit_s,
    number_of,
    pack_workload,
    unpack_columns,
    unpack_tasks,
)
from sim.metrics.wall_clock import DAY_S, MONDAY_S, WEEK_S, WallClock
from sim.model.errors import WorkloadError
from sim.model.workload import UNKNOWN, Workload
from sim.policies.policy import PolicyOption, switch

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


def measure_moments(workload: Workload, horizon: Horizon) -> Mapping[str, float]:
    """Return means of a workload, such as jobs per day, by the names that model moments have.

    ``jobs_per_day`` over the whole duration; ``log_runtime``, the mean of ln(run time in s), where
    run times below a second count as one; ``log2_procs``, the mean of log2(processors);
    ``serial``, the share of jobs on one processor; and ``n_tasks`` per job, if the jobs have
    tasks.
    """
    values = {
        "jobs_per_day": workload.n_jobs / (horizon.duration_s / DAY_S),
        "log_runtime": float(log_runtime(workload.runtime_s).mean()),
        "log2_procs": float(np.log2(workload.procs).mean()),
        "serial": float((workload.procs == 1).mean()),
    }
    if workload.tasks is not None:
        values["n_tasks"] = workload.tasks.n_tasks / workload.n_jobs
    return values


def log_runtime(runtime_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(run time in s), with run times below 1 s counted as 1 s."""
    logs: NDArray[np.float64] = np.log(np.maximum(runtime_s, 1.0))
    return logs


COVERED = 0.9  # share of a block that must lie between the first and the last submission of the log

MOST_SLOTS = 10_000_000

KNOBS: tuple[PolicyOption, ...] = (
    PolicyOption("block_s", DAY_S, "length of a block; a part of a week, or weeks", 60.0, unit="s"),
    switch("same_weekday", True, "blocks come from the same weekday, else from any day"),
    switch("new_users", True, "overlaid blocks get new users"),
)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Calendar blocks (such as days) of a log, from which new workloads are assembled.

    Attributes:
        block_s: length of each.
        period_s: period of the calendar: a week, a day, or one block.
        clock_s: float64 [n_jobs], submissions since a Monday midnight; never falling.
        first, last: first and last block that may be drawn, counted from that Monday.
    """

    block_s: float
    period_s: float
    clock_s: Floats
    first: int
    last: int

    @property
    def n_phases(self) -> int:
        """Number of blocks in a calendar period; blocks of equal phase are interchangeable."""
        return max(1, round(self.period_s / self.block_s))

    @cached_property
    def of_phases(self) -> tuple[NDArray[np.int64], ...]:
        """Numbers of the blocks at each phase (position) of the calendar period."""
        numbers = np.arange(self.first, self.last + 1, dtype=np.int64)
        return tuple(numbers[numbers % self.n_phases == phase] for phase in range(self.n_phases))

    def bounds(self, numbers: NDArray[np.int64]) -> tuple[Rows, Rows]:
        """Return the first job row of each block, and the row after its last: intp [n] each."""
        begin, end = numbers * self.block_s, (numbers + 1) * self.block_s
        return np.searchsorted(self.clock_s, begin), np.searchsorted(self.clock_s, end)


def fit_resampling(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Store a log in a model as calendar blocks for a block bootstrap.

    Raises:
        WorkloadError: blocks that do not fit the calendar, or a log too short for one of each
            kind.
    """
    clock = WallClock.of(workload)
    shown_s = clock.local_s(workload.submit_s)
    since_s = shown_s if clock.basis == "unknown" else shown_s - MONDAY_S
    clock_s = since_s - np.floor(since_s[0] / WEEK_S) * WEEK_S
    order = np.argsort(clock_s, kind="stable")
    parameters, arrays = pack_workload(workload)
    if workload.tasks is not None and (np.diff(order) != 1).any():
        order = np.arange(workload.n_jobs)
        clock_s = np.maximum.accumulate(clock_s)  # an hour of autumn that comes twice
    model = Model(
        "resampling",
        {
            "block_s": knobs["block_s"],
            "same_weekday": bool(knobs["same_weekday"]),
            "new_users": bool(knobs["new_users"]),
            **parameters,
        },
        {
            name: array if name.startswith(("task ", "work ", "text ")) else array[order]
            for name, array in {**arrays, "clock_s": clock_s}.items()
        },
        source=f"blocks of {workload.name}, {workload.n_jobs} jobs. {clock.sentence}",
    )
    _blocks(model)
    return model


def check(model: Model) -> None:
    """Raise `WorkloadError` if a model does not contain valid blocks of a log."""
    _blocks(model)
    for name in ("new_users", "requested_is_runtime"):
        _truth(model, name)
    if model.parameters.get("max_procs", 0) is not None:
        number_of(model, "max_procs", 1, 2.0**53)
    columns = unpack_columns(model)
    if (columns["procs"] < 1).any() or not (columns["runtime_s"] >= 0).all():
        raise WorkloadError("the arrays of a model of 'resampling' do not describe jobs.")
    tasks = unpack_tasks(model)
    if tasks is not None and tasks.n_jobs != len(model.arrays["clock_s"]):
        raise WorkloadError("parameter 'tasks' of 'resampling' has another number of jobs.")


def draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    """Draw a workload from random blocks of the log, one after another, overlaid if scale > 1.

    Raises:
        WorkloadError: no jobs within the duration, or too many.
    """
    blocks = _blocks(model)
    n_slots = int(min(np.ceil(horizon.duration_s / blocks.block_s), MOST_SLOTS))
    check_number_of_jobs(
        moments(model)["jobs_per_day"].mean * (horizon.duration_s / DAY_S) * horizon.scale
    )
    if n_slots * np.ceil(horizon.scale) >= MOST_SLOTS:
        raise WorkloadError(f"more than {MOST_SLOTS:,} blocks; ask for fewer or longer blocks.")
    copies = [
        _copy(model, blocks, n_slots, streams.inside(f"copy {i}"), min(1.0, horizon.scale - i))
        for i in range(int(np.ceil(horizon.scale)))
    ]
    submit_s = np.concatenate([submit for submit, _ in copies])
    rows = np.concatenate([rows for _, rows in copies])
    copy = np.repeat(np.arange(len(copies)), [len(rows) for _, rows in copies])
    within = np.flatnonzero(submit_s < horizon.duration_s)
    first_s = first_submit_s(submit_s[within], horizon)
    order = within[np.lexsort((copy[within], submit_s[within]))]
    rows, copy = rows[order], copy[order]
    columns = {name: column[rows] for name, column in unpack_columns(model).items()}
    if _truth(model, "new_users"):
        n_users = int(model.arrays["user"].max()) + 1
        columns["user"] = np.where(
            columns["user"] == UNKNOWN, UNKNOWN, columns["user"] + copy * n_users
        )
    is_runtime = _truth(model, "requested_is_runtime")
    if is_runtime and np.array_equal(model.arrays["requested_s"], model.arrays["runtime_s"]):
        del columns["requested_s"]
    tasks = unpack_tasks(model)
    return Workload.from_arrays(
        submit_s=submit_s[order],
        **columns,
        name="resampled",
        max_procs=model.parameters["max_procs"],
        start_unix_s=EPOCH_UNIX_S + first_s,
        time_zone="UTC",
        requested_is_runtime=is_runtime,
        tasks=None if tasks is None else tasks.ordered(rows),
    )


def _copy(
    model: Model, blocks: Blocks, n_slots: int, streams: RandomStreams, share: float
) -> tuple[Floats, Rows]:
    """Return submit times and log rows of one block per slot, of which a share of users is kept."""
    chances = streams.of("blocks").random(n_slots)
    phases = np.arange(n_slots) % blocks.n_phases
    numbers = np.empty(n_slots, dtype=np.int64)
    for phase, candidates in enumerate(blocks.of_phases):
        mine = phases == phase
        numbers[mine] = candidates[(chances[mine] * len(candidates)).astype(np.int64)]
    begin, end = blocks.bounds(numbers)
    counts = end - begin
    behind = np.cumsum(counts)
    rows = np.arange(behind[-1]) + np.repeat(begin - (behind - counts), counts)
    slot = np.repeat(np.arange(n_slots), counts)
    submit_s = blocks.clock_s[rows] + (slot - numbers[slot]) * blocks.block_s
    if share >= 1.0:
        return submit_s, rows
    stays = np.empty(len(rows), dtype=np.bool_)
    of_users = streams.inside("thinning")
    user = model.arrays["user"]
    for i in range(n_slots):
        mine = slice(behind[i] - counts[i], behind[i])
        user_of_row = user[rows[mine]]
        # Jobs of unknown users stay or go one by one, others with their user.
        unit = np.where(user_of_row == UNKNOWN, -2 - np.arange(counts[i]), user_of_row)
        names, place = np.unique(unit, return_inverse=True)
        stays[mine] = (of_users.of(f"block {i}").random(len(names)) < share)[place]
    return submit_s[stays], rows[stays]


def moments(model: Model) -> Mapping[str, ModelMoment]:
    """Return the expected moments of a workload that is drawn from the model's blocks."""
    blocks = _blocks(model)
    procs = model.arrays["procs"].astype(np.float64)
    values = {
        "log_runtime": log_runtime(model.arrays["runtime_s"]),
        "log2_procs": np.log2(procs),
        "serial": (procs == 1).astype(np.float64),
    }
    counts, sums = [], {name: [] for name in values}  # type: ignore[var-annotated]
    totals = {name: np.concatenate([[0.0], np.cumsum(column)]) for name, column in values.items()}
    for numbers in blocks.of_phases:
        begin, end = blocks.bounds(numbers)
        counts.append((end - begin).astype(np.float64))
        for name, total in totals.items():
            sums[name].append(total[end] - total[begin])
    per_slot = float(np.mean([column.mean() for column in counts]))
    slots_a_day = DAY_S / blocks.block_s
    spread = float(np.mean([column.var() for column in counts]))
    stated = {
        "jobs_per_day": ModelMoment(per_slot * slots_a_day, float(np.sqrt(spread * slots_a_day)))
    }
    for name, parts in sums.items():
        mean = float(np.mean([column.mean() for column in parts])) / max(per_slot, 1e-300)
        rest = [column - mean * n for column, n in zip(parts, counts, strict=True)]
        variance = float(np.mean([column.var() for column in rest])) / max(per_slot, 1e-300)
        stated[name] = ModelMoment(mean, float(np.sqrt(variance)))
    return stated


def _truth(model: Model, name: str) -> bool:
    value = model.parameters.get(name)
    if not isinstance(value, bool):
        raise WorkloadError(
            f"parameter '{name}' of 'resampling' is {value!r}; allowed are true and false."
        )
    return value


def _blocks(model: Model) -> Blocks:
    block_s = number_of(model, "block_s", 60.0, 520 * WEEK_S)
    clock_s = model.arrays.get("clock_s", np.zeros(0))
    if clock_s.dtype.kind != "f" or clock_s.shape != unpack_columns(model)["procs"].shape:
        raise WorkloadError("a model of 'resampling' needs the array 'clock_s', a time per job.")
    if not (np.diff(clock_s) >= 0).all() or not np.isfinite(clock_s).all():
        raise WorkloadError("the array 'clock_s' of a model of 'resampling' must not fall.")
    period_s = max(block_s, WEEK_S if _truth(model, "same_weekday") else DAY_S)
    if (WEEK_S / block_s) % 1 and (block_s / WEEK_S) % 1:
        raise WorkloadError(
            f"parameter 'block_s' of 'resampling' is {block_s:g}; allowed are whole parts of a "
            "week (3600, 86400, 604800 s) and whole weeks."
        )
    if period_s == DAY_S and (DAY_S / block_s) % 1:
        period_s = WEEK_S
    period_s = max(period_s, block_s)
    lack = (1.0 - COVERED) * block_s
    first = int(np.ceil((clock_s[0] - lack) / block_s))
    last = int(np.floor((clock_s[-1] + lack) / block_s)) - 1
    blocks = Blocks(block_s, period_s, clock_s, first, last)
    missing = [phase for phase, numbers in enumerate(blocks.of_phases) if len(numbers) == 0]
    if missing:
        raise WorkloadError(
            f"the log has no block for {len(missing)} of the {blocks.n_phases} kinds of blocks of "
            f"{block_s:g} s; use shorter blocks, or same_weekday=0, or a longer log."
        )
    return blocks


RESAMPLING = Generator(
    "resampling",
    "Days or weeks of a log in another order; users and concurrent jobs stay together.",
    check=check,
    draw=draw,
    fit=fit_resampling,
    knobs=KNOBS,
    moments=moments,
    extends=True,
)

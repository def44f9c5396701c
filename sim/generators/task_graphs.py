"""Jobs as random graphs of tasks: layered graphs, chains, forks and joins, maps and reduces.

Random layers are after Tobita and Kasahara, "A standard task graph set for fair evaluation of
multiprocessor scheduling algorithms", Journal of Scheduling 5(5), 2002 (method layrprob): every
task except those of the first layer has one random parent in the layer before, and each other
possible edge with the probability `density`, so that depth is the number of layers. A chain has
one task per layer; a fork and join alternates between one task and `width` tasks; map and reduce
has two layers, the second `maps_per_reduce` times smaller; in these three every task waits for the
whole layer before. Edges transfer no data. A job is as wide as its widest layer (whole cores) and
runs as long as its longest path.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
    checked_number,
    first_submit_s,
    number_of,
    poisson_arrivals,
    weekday_rates,
)
from sim.metrics.wall_clock import DAY_S
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks, levels, longest_paths, widest_cores
from sim.model.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


FORMS: tuple[str, ...] = ("layered", "chain", "fork_join", "map_reduce")
LAYERED, CHAIN, FORK_JOIN, MAP_REDUCE = range(4)
LEAST_JOBS = 20
MOST_DEPTH, MOST_WIDTH = 1000.0, 10_000.0
WHOLE = ("depth_low", "depth_high", "width_low", "width_high", "maps_per_reduce")


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers of the task graphs of jobs, as columns with one row per layer.

    Attributes:
        job: int64 [n_layers], never falling.
        level: int64 [n_layers], from 0 in each job.
        width: int64 [n_layers], number of tasks.
    """

    job: Ints
    level: Ints
    width: Ints

    @property
    def first_task(self) -> Ints:
        """Index of the first task of each layer: int64 [n_layers]."""
        return np.cumsum(self.width) - self.width

    def of_tasks(self, column: Ints) -> Ints:
        """Return one entry per task, by repeating each layer's entry of `column`."""
        return np.repeat(column, self.width)


def published() -> Model:
    """Return the default mixture of all four graph forms, with 144 jobs per day."""
    return Model(
        "graphs",
        {
            "jobs_per_day": 144.0,
            "forms": {"layered": 0.4, "chain": 0.2, "fork_join": 0.2, "map_reduce": 0.2},
            "depth_low": 2,
            "depth_high": 8,
            "width_low": 1,
            "width_high": 10,
            "density": 0.3,
            "maps_per_reduce": 4,
            "runtime_median_s": 120.0,
            "runtime_sigma": 1.0,
            "mcpu": [500, 1000, 2000, 4000],
            "mem_bytes_per_core": 2_147_483_648,
        },
        source="Forms as in the literature (Tobita and Kasahara 2002); all numbers are chosen.",
    )


def check(model: Model) -> None:
    """Raise `WorkloadError` for an invalid parameter, naming it and the allowed values."""
    _rates(model)
    _shares(model)
    number_of(model, "density", 0.0, 1.0)
    number_of(model, "runtime_median_s", 1e-3, 1e9)
    number_of(model, "runtime_sigma", 0.0, 10.0)
    number_of(model, "mem_bytes_per_core", 0.0, 2.0**50)
    for name in WHOLE:
        if number_of(model, name, 1, MOST_DEPTH if "depth" in name else MOST_WIDTH) % 1:
            raise WorkloadError(f"parameter '{name}' of 'graphs' must be a whole number.")
    for name in ("depth", "width"):
        if number_of(model, f"{name}_low", 1) > number_of(model, f"{name}_high", 1):
            raise WorkloadError(f"parameter '{name}_low' of 'graphs' is above '{name}_high'.")
    _demands(model)


def draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    """Draw a workload whose jobs are graphs of tasks.

    Raises:
        WorkloadError: no jobs within the duration, or too many.
    """
    expected = horizon.duration_s / DAY_S * horizon.scale * float(_rates(model).mean())
    check_number_of_jobs(expected * moments(model)["n_tasks"].mean)
    submit_s = poisson_arrivals(_rates(model), horizon, streams.of("arrivals"))
    first_s = first_submit_s(submit_s, horizon)
    form = _draw_forms(model, len(submit_s), streams.of("forms"))
    layers = _draw_layers(model, form, streams)
    edges = _draw_edges(model, form, layers, streams.of("edges"))
    n_tasks = int(layers.width.sum())
    sigma = number_of(model, "runtime_sigma", 0.0)
    noise = streams.of("run times").standard_normal(n_tasks)
    runtime_s = number_of(model, "runtime_median_s", 0.0) * np.exp(sigma * noise)
    demands = _demands(model)
    demand_index = (streams.of("demands").random(n_tasks) * len(demands)).astype(np.int64)
    mcpu = demands[demand_index]
    per_core = number_of(model, "mem_bytes_per_core", 0.0)
    tasks = Tasks.from_arrays(
        job=layers.of_tasks(layers.job),
        runtime_s=runtime_s,
        mcpu=mcpu,
        mem_bytes=np.floor(mcpu / 1000 * per_core),
        edges=edges,
        role=layers.of_tasks(form[layers.job]),
        roles=FORMS,
    )
    return Workload.from_arrays(
        submit_s=submit_s,
        runtime_s=longest_paths(tasks),
        procs=widest_cores(tasks),
        name="job graphs",
        start_unix_s=EPOCH_UNIX_S + first_s,
        time_zone="UTC",
        tasks=tasks,
    )


def moments(model: Model) -> Mapping[str, ModelMoment]:
    """Return a model's expected moments of arrivals and of tasks per job, by quadrature."""
    rate = float(_rates(model).mean())
    depths, widths = (
        np.arange(number_of(model, f"{name}_low", 1), number_of(model, f"{name}_high", 1) + 1)
        for name in ("depth", "width")
    )
    folded = np.floor(depths / 2)
    reduces = np.maximum(np.floor(widths / number_of(model, "maps_per_reduce", 1)), 1)
    of_forms = {
        "layered": _sum_of(depths, widths),
        "chain": (float(depths.mean()), float((depths**2).mean())),
        "fork_join": _of_product(folded, widths),
        "map_reduce": (float((widths + reduces).mean()), float(((widths + reduces) ** 2).mean())),
    }
    shares = _shares(model)
    mean = sum(share * of_forms[name][0] for name, share in shares.items())
    square = sum(share * of_forms[name][1] for name, share in shares.items())
    return {
        "jobs_per_day": ModelMoment(rate, float(np.sqrt(rate))),
        "n_tasks": ModelMoment(mean, float(np.sqrt(max(square - mean**2, 0.0)))),
    }


def _sum_of(depths: Floats, widths: Floats) -> tuple[float, float]:
    mean, variance = float(widths.mean()), float(widths.var())
    square = float((depths * variance + (depths * mean) ** 2).mean())
    return float(depths.mean()) * mean, square


def _of_product(folded: Floats, widths: Floats) -> tuple[float, float]:
    """Return mean and mean square of the tasks of forks and joins: k times width, and k + 1."""
    k = np.maximum(folded, 1)
    n_tasks = k[:, None] * widths[None, :] + k[:, None] + 1
    return float(n_tasks.mean()), float((n_tasks**2).mean())


def _between(model: Model, name: str, chances: Floats) -> Ints:
    low, high = number_of(model, f"{name}_low", 1), number_of(model, f"{name}_high", 1)
    return (low + np.floor(chances * (high - low + 1))).astype(np.int64)


def _draw_forms(model: Model, n_jobs: int, rng: np.random.Generator) -> Ints:
    shares = _shares(model)
    upto = np.cumsum([shares.get(name, 0.0) for name in FORMS])
    form: Ints = np.searchsorted(upto[:-1], rng.random(n_jobs) * upto[-1], side="right").astype(
        np.int64
    )
    return form


def _draw_layers(model: Model, form: Ints, streams: RandomStreams) -> Layers:
    depth = _between(model, "depth", streams.of("depths").random(len(form)))
    n_layers = np.select(
        [form == MAP_REDUCE, form == FORK_JOIN],
        [np.full(len(form), 2), 2 * np.maximum(depth // 2, 1) + 1],
        depth,
    )
    job = np.repeat(np.arange(len(form)), n_layers)
    level = np.arange(len(job)) - np.repeat(np.cumsum(n_layers) - n_layers, n_layers)
    of_layers = _between(model, "width", streams.of("widths").random(len(job)))
    of_jobs = _between(model, "width", streams.of("widths of jobs").random(len(form)))[job]
    ratio = int(number_of(model, "maps_per_reduce", 1))
    is_form = [form[job] == f for f in (CHAIN, FORK_JOIN, MAP_REDUCE)]
    width = np.select(
        is_form,
        [
            np.ones(len(job), dtype=np.int64),
            np.where(level % 2 == 0, 1, of_jobs),
            np.where(level == 0, of_jobs, np.maximum(of_jobs // ratio, 1)),
        ],
        of_layers,
    )
    return Layers(job, level, width)


def _draw_edges(
    model: Model, form: Ints, layers: Layers, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return `first_parent` [n_tasks + 1] and `parent_task`, as in `Tasks`."""
    before = np.concatenate([[0], layers.width[:-1]]) * (layers.level > 0)
    possible = layers.of_tasks(before)
    begins = layers.of_tasks(np.concatenate([[0], layers.first_task[:-1]]))
    is_random = layers.of_tasks(form[layers.job]) == LAYERED
    first = np.cumsum(possible) - possible
    child = np.repeat(np.arange(len(possible)), possible)
    place = np.arange(len(child)) - first[child]
    # The whole part of a task's first draw chooses its certain parent.
    chances = rng.random(len(child) + int((possible > 0).sum()))
    has = possible > 0
    n_before: Ints = np.cumsum(has.astype(np.int64)) - has
    sure = np.zeros(len(possible), dtype=np.int64)
    sure[has] = (chances[first[has] + n_before[has]] * possible[has]).astype(np.int64)
    edge_chances = chances[np.arange(len(child)) + n_before[child] + 1]
    is_edge = ~is_random[child] | (place == sure[child])
    is_edge |= edge_chances < number_of(model, "density", 0.0)
    counts = np.bincount(child[is_edge], minlength=len(possible))
    return np.concatenate([[0], np.cumsum(counts)]), (begins[child] + place)[is_edge]


def fit_graphs(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit the shares, sizes, densities, run times and demands of task graphs to a workload.

    Forms follow from the graphs: one task per level is a chain; two levels, each task of the
    second waiting for all of the first, map and reduce; alternating levels of one and of equally
    many, fork and join; all others are layered.

    Raises:
        WorkloadError: no tasks, or too few jobs.
    """
    del knobs
    tasks = workload.tasks
    if tasks is None or workload.n_jobs < LEAST_JOBS or workload.span_s == 0:
        raise WorkloadError(
            f"'graphs' needs {LEAST_JOBS} jobs or more with tasks, at different times; "
            f"{workload.name} has {workload.n_jobs if tasks is not None else 0}."
        )
    level = levels(tasks)
    n_levels = int(level.max()) + 1
    widths = np.bincount(tasks.job * n_levels + level, minlength=tasks.n_jobs * n_levels)
    widths = widths.reshape(tasks.n_jobs, n_levels)
    depth = (widths > 0).sum(axis=1)
    n_edges = np.bincount(tasks.job, weights=np.diff(tasks.first_parent), minlength=tasks.n_jobs)
    possible = (widths[:, 1:] * widths[:, :-1]).sum(axis=1)
    form = _classify_forms(widths, depth, n_edges == possible)
    layered = form == LAYERED
    surplus = possible[layered].sum() - widths[layered, 1:].sum()
    extra = n_edges[layered].sum() - widths[layered, 1:].sum()
    wide = np.select(
        [form == FORK_JOIN, form == MAP_REDUCE],
        [widths.max(axis=1), widths[:, 0]],
        widths[:, 0],
    )[form != CHAIN]
    deep = depth[(form == LAYERED) | (form == CHAIN)]
    reducing = widths[form == MAP_REDUCE]
    logs = np.log(np.maximum(tasks.runtime_s, 1e-3))
    demands, counts = np.unique(np.maximum(tasks.mcpu, 1), return_counts=True)
    quantiles = np.quantile(np.repeat(demands, counts), np.linspace(0.05, 0.95, 10))
    choices = demands if len(demands) <= 10 else np.unique(np.round(quantiles))
    ratio = reducing[:, 0].sum() / max(reducing[:, 1].sum(), 1) if len(reducing) else 1.0
    cores = max(float(tasks.mcpu.sum()) / 1000, 1e-3)
    return Model(
        "graphs",
        {
            "jobs_per_day": workload.n_jobs / (workload.span_s / DAY_S),
            "forms": {name: float((form == i).mean()) for i, name in enumerate(FORMS)},
            "depth_low": int(deep.min()) if len(deep) else 1,
            "depth_high": int(deep.max()) if len(deep) else 2,
            "width_low": int(wide.min()) if len(wide) else 1,
            "width_high": int(wide.max()) if len(wide) else 1,
            "density": float(np.clip(extra / surplus, 0.0, 1.0)) if surplus > 0 else 0.0,
            "maps_per_reduce": max(1, int(ratio + 0.5)),
            "runtime_median_s": float(np.exp(logs.mean())),
            "runtime_sigma": float(logs.std()),
            "mcpu": [int(value) for value in choices],
            "mem_bytes_per_core": int(tasks.mem_bytes.sum() / cores),
        },
        source=f"fitted to {workload.name}, {workload.n_jobs} jobs of {tasks.n_tasks} tasks.",
    )


def _classify_forms(widths: Ints, depth: Ints, is_full: NDArray[np.bool_]) -> Ints:
    n_levels = widths.shape[1]
    level = np.arange(n_levels)
    inside = level[None, :] < depth[:, None]
    odd = np.where(inside & (level % 2 == 1), widths, 0)
    widest = odd.max(axis=1)
    by_turns = ((widths == 1) | (level % 2 == 1) | ~inside).all(axis=1) & (
        (odd == widest[:, None]) | (level % 2 == 0) | ~inside
    ).all(axis=1)
    chain = widths.max(axis=1) == 1
    fork = by_turns & (depth % 2 == 1) & (depth > 1) & is_full
    return np.select([chain, fork, (depth == 2) & is_full], [CHAIN, FORK_JOIN, MAP_REDUCE], LAYERED)


def _shares(model: Model) -> dict[str, float]:
    weights = model.parameters.get("forms")
    if not isinstance(weights, dict) or not weights or set(weights) - set(FORMS):
        raise WorkloadError(
            f"parameter 'forms' of 'graphs' must give shares of {', '.join(FORMS)} by name."
        )
    shares = {
        name: checked_number(f"share '{name}' in 'forms' of 'graphs'", value, 0.0, 1e9)
        for name, value in weights.items()
    }
    total = sum(shares.values())
    if total <= 0:
        raise WorkloadError("the shares in parameter 'forms' of 'graphs' are all 0.")
    return {name: share / total for name, share in shares.items()}


def _demands(model: Model) -> Ints:
    values = model.parameters.get("mcpu")
    if not isinstance(values, list) or not values:
        raise WorkloadError(
            f"parameter 'mcpu' of 'graphs' is {values!r}; allowed is a list of thousandths of "
            "a core."
        )
    subject = "a number in parameter 'mcpu' of 'graphs'"
    return np.array([checked_number(subject, value, 1, 1e9) for value in values]).astype(np.int64)


def _rates(model: Model) -> Floats:
    if "jobs_per_day" not in model.parameters:
        raise WorkloadError("a model of 'graphs' needs the parameter 'jobs_per_day'.")
    subject = "parameter 'jobs_per_day' of 'graphs'"
    return weekday_rates(subject, model.parameters["jobs_per_day"])


GRAPHS = Generator(
    "graphs",
    "Jobs of tasks that wait for each other: layered at random, chains, forks and joins, maps.",
    check=check,
    draw=draw,
    fit=fit_graphs,
    published=published,
    moments=moments,
    extends=True,
)

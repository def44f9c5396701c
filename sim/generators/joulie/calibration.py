"""Calibration of a Joulie model's rates, sensitivities and utilisations to measured pods.

Joulie's page plans this. For a pod with work units U, request R, measured utilisation u, duration
D and relative speed c of the device that it waits for,

  U / (D R max(u, least_utilisation)) = r (1 - s (1 - c)) e,

with the rate r of one core or GPU, the sensitivity s to throttling (see
`sim.model.tasks.TaskWork`) and a lognormal error e. All r and s of a device come from least
squares on the logarithms of both sides, with intervals from the curvature at the minimum. Pods
without GPUs determine the values of cores; pods whose cores were throttled no more than their GPUs
determine those of GPUs. Launchers, parameter servers and controllers may outlast their work, so
each of these roles has its own factor and determines only its sensitivity. GPU utilisations are a
mean for the number of GPUs plus a shift of the family (0 for single-GPU training), by linear least
squares.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import Model
from sim.generators.joulie.estimates import ParameterEstimate, Z, mean_of
from sim.generators.joulie.model_fit import has_families
from sim.generators.joulie.parameters import NAME, JoulieParameters, model_of, parameters_of
from sim.model.errors import WorkloadError
from sim.model.pods import KINDS, Telemetry
from sim.model.tasks import Tasks, TaskWork

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]


FEWEST_ROWS = 10
"""Least number of throttled pods for a sensitivity, of pods for a rate, of workloads for a mean."""

REFERENCE = "single_gpu_training"
LEAST_SPEED = 1e-6
MILLI = 1000.0


@dataclass(frozen=True)
class _PodMeasurements:
    """Telemetry with known values of its pods: columns [n_rows] (see `Telemetry`)."""

    telemetry: Telemetry
    tasks: Tasks
    work: TaskWork
    family: Ints
    job: Ints
    gpus: Floats
    cores: Floats
    role: list[str]


def calibrate(model: Model, telemetry: Telemetry) -> tuple[Model, tuple[ParameterEstimate, ...]]:
    """Calibrate a Joulie model to telemetry; return it with estimates of changed parameters.

    Parameters with too few rows stay. Ranges of CPU utilisation become those of a uniform variable
    with the measured mean and spread over workloads.

    Raises:
        WorkloadError: another generator's model, invalid parameters, a workload without families,
            or measurements of too few pods.
    """
    if model.generator != NAME:
        raise WorkloadError(f"the model is of '{model.generator}'; allowed is '{NAME}'.")
    p = parameters_of(model)
    measurements = _measurements_of(telemetry)
    changes: list[ParameterEstimate] = []
    for calibrated in (_cpu_speed, _gpu_speed, _cpu_utilisation, _gpu_utilisation):
        p, rows = calibrated(p, measurements)
        changes += rows
    if not changes:
        raise WorkloadError(
            f"{telemetry.n_rows} rows of telemetry are too few; a rate needs {FEWEST_ROWS} pods "
            "with measured utilisation."
        )
    names = ", ".join(dict.fromkeys(row.parameter.split(".")[-1].split("[")[0] for row in changes))
    sentence = (
        f"{model.source} Calibrated on {telemetry.n_rows:,} pods of {telemetry.workload.name}: "
        f"{names}."
    ).strip()
    return model_of(p, sentence), tuple(changes)


def _measurements_of(telemetry: Telemetry) -> _PodMeasurements:
    workload = telemetry.workload
    tasks, work = workload.tasks, None if workload.tasks is None else workload.tasks.work
    if tasks is None or work is None or not has_families(workload):
        raise WorkloadError(f"{workload.name} does not have Joulie's families for all of its jobs.")
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    total = np.add.reduceat(tasks.mgpu * tasks.instances, first) / MILLI
    job = tasks.job[telemetry.task]
    roles = [*tasks.roles, ""]
    return _PodMeasurements(
        telemetry,
        tasks,
        work,
        workload.group[job],
        job,
        total[job],
        tasks.mcpu[telemetry.task] / MILLI,
        [roles[i] for i in tasks.role[telemetry.task].tolist()],
    )


def _cpu_speed(
    p: JoulieParameters, measurements: _PodMeasurements
) -> tuple[JoulieParameters, list[ParameterEstimate]]:
    names = [
        f"helpers.{role}" if role in p.helpers else f"families.{KINDS[family]}"
        for role, family in zip(measurements.role, measurements.family.tolist(), strict=True)
    ]
    telemetry, units = (
        measurements.telemetry,
        measurements.work.cpu_units[measurements.telemetry.task],
    )
    used = np.maximum(telemetry.cpu_utilisation, p.least_utilisation)
    mine = (
        (measurements.tasks.mgpu[telemetry.task] == 0)
        & (units > 0)
        & (measurements.cores > 0)
        & ~np.isnan(used)
    )
    before = {f"helpers.{role}": entry.cpu_sensitivity for role, entry in p.helpers.items()}
    before |= {f"families.{name}": entry.cpu_sensitivity for name, entry in p.families.items()}
    estimates = _least_squares(
        ("cpu_work_rate_per_core", p.cpu_work_rate_per_core, "cpu_sensitivity"),
        units[mine] / (telemetry.duration_s * measurements.cores * used)[mine],
        telemetry.cpu_speed[mine],
        [name for name, is_mine in zip(names, mine.tolist(), strict=True) if is_mine],
        before,
    )
    return _with_speeds(p, estimates), estimates


def _gpu_speed(
    p: JoulieParameters, measurements: _PodMeasurements
) -> tuple[JoulieParameters, list[ParameterEstimate]]:
    telemetry, units = (
        measurements.telemetry,
        measurements.work.gpu_units[measurements.telemetry.task],
    )
    gpus = measurements.tasks.mgpu[telemetry.task] / MILLI
    used = np.maximum(telemetry.gpu_utilisation, p.least_utilisation)
    mine = (gpus > 0) & (units > 0) & ~np.isnan(used) & (telemetry.cpu_speed >= telemetry.gpu_speed)
    estimates = _least_squares(
        ("gpu_work_rate_per_gpu", p.gpu_work_rate_per_gpu, "gpu_sensitivity"),
        units[mine] / (telemetry.duration_s * gpus * used)[mine],
        telemetry.gpu_speed[mine],
        [f"families.{KINDS[i]}" for i in measurements.family[mine].tolist()],
        {f"families.{name}": family.gpu_sensitivity for name, family in p.families.items()},
    )
    return _with_speeds(p, estimates), estimates


def _least_squares(
    names: tuple[str, float, str],
    rate: Floats,
    speed: Floats,
    group: list[str],
    before: dict[str, float],
) -> list[ParameterEstimate]:
    """Fit a rate and the sensitivities of groups.

    Args:
        names: name of the rate parameter, its value, and name of the sensitivities.
        rate: units by second, request and utilisation, of each pod.
        speed: relative speed of the device, of each pod.
        group: group of each pod, with one sensitivity in the model.
        before: present sensitivities by group, kept for groups that are too rarely throttled.
    """
    from scipy import optimize

    names_of, counts = np.unique(group, return_counts=True)
    is_frequent = np.isin(group, names_of[counts >= FEWEST_ROWS])
    rate, speed, group = (
        rate[is_frequent],
        speed[is_frequent],
        np.array(group)[is_frequent].tolist(),
    )
    groups, which = np.unique(group, return_inverse=True)
    helper_groups = [i for i, name in enumerate(groups) if name.startswith("helpers.")]
    if len(groups) == len(helper_groups):
        return []
    throttled = np.bincount(which[speed < 1], minlength=len(groups))
    free = np.flatnonzero(throttled >= FEWEST_ROWS)
    prior_values = np.array([before[name] for name in groups])
    slower, logs = 1.0 - speed, np.log(rate)

    def sensitivities(point: Floats) -> Floats:
        values = prior_values.copy()
        values[free] = point[1 : 1 + len(free)]
        return values[which]

    def left(point: Floats) -> Floats:
        shares = np.zeros(len(groups))
        shares[helper_groups] = point[1 + len(free) :]
        done: Floats = logs - point[0] - shares[which]
        return done - np.log(_speed(sensitivities(point), slower))

    def slope(point: Floats) -> Floats:
        jacobian = np.zeros((len(logs), 1 + len(free) + len(helper_groups)))
        jacobian[:, 0] = -1.0
        per = slower / _speed(sensitivities(point), slower)
        for column, place in enumerate(free.tolist(), start=1):
            jacobian[:, column] = np.where(which == place, per, 0.0)
        for column, place in enumerate(helper_groups, start=1 + len(free)):
            jacobian[:, column] = np.where(which == place, -1.0, 0.0)
        return jacobian

    start = np.concatenate(
        [[float(np.median(logs))], prior_values[free], np.zeros(len(helper_groups))]
    )
    best = optimize.least_squares(left, start, jac=slope)
    half = _half(left(best.x), slope(best.x))
    name, was, sensitivity = names
    middle = float(best.x[0])
    low, high = math.exp(middle - half[0]), math.exp(middle + half[0])
    n = int((~np.isin(which, helper_groups)).sum())
    rows = [ParameterEstimate(name, was, math.exp(middle), low, high, n)]
    for column, place in enumerate(free.tolist(), start=1):
        value, wide = float(best.x[column]), float(half[column])
        rows.append(
            ParameterEstimate(
                f"{groups[place]}.{sensitivity}", float(prior_values[place]),
                min(max(value, 0.0), 1.0), max(value - wide, 0.0),
                min(value + wide, 1.0), int((which == place).sum()),
            )
        )  # fmt: skip
    return rows


def _speed(sensitivity: Floats, slower: Floats) -> Floats:
    speeds: Floats = np.maximum(1.0 - sensitivity * slower, LEAST_SPEED)
    return speeds


def _half(left: Floats, slope: Floats) -> Floats:
    freedom = max(len(left) - slope.shape[1], 1)
    variance = float(left @ left) / freedom
    half_width: Floats = Z * np.sqrt(variance * np.diag(np.linalg.inv(slope.T @ slope)))
    return half_width


def _with_speeds(p: JoulieParameters, rows: list[ParameterEstimate]) -> JoulieParameters:
    families, helpers, rates = dict(p.families), dict(p.helpers), dict[str, float]()
    for row in rows:
        place, *rest = row.parameter.split(".")
        if place == "families" and rest[1] == "cpu_sensitivity":
            families[rest[0]] = replace(families[rest[0]], cpu_sensitivity=row.after)
        elif place == "families":
            families[rest[0]] = replace(families[rest[0]], gpu_sensitivity=row.after)
        elif place == "helpers":
            helpers[rest[0]] = replace(helpers[rest[0]], cpu_sensitivity=row.after)
        else:
            rates[place] = row.after
    return replace(
        p,
        families=families,
        helpers=helpers,
        cpu_work_rate_per_core=rates.get("cpu_work_rate_per_core", p.cpu_work_rate_per_core),
        gpu_work_rate_per_gpu=rates.get("gpu_work_rate_per_gpu", p.gpu_work_rate_per_gpu),
    )


def _cpu_utilisation(
    p: JoulieParameters, measurements: _PodMeasurements
) -> tuple[JoulieParameters, list[ParameterEstimate]]:
    families, rows = dict(p.families), []
    is_worker = np.array([role not in p.helpers for role in measurements.role])
    for place, name in enumerate(KINDS):
        mine = (
            (measurements.family == place)
            & is_worker
            & ~np.isnan(measurements.telemetry.cpu_utilisation)
        )
        means = _per_workload(measurements.telemetry.cpu_utilisation, mine, measurements.job)
        if len(means) < FEWEST_ROWS:
            continue
        was = families[name].cpu_utilisation
        row = mean_of(f"families.{name}.cpu_utilisation.mean", sum(was) / 2, means)
        wide = math.sqrt(3.0) * float(means.std(ddof=1))
        after = (max(row.after - wide, 0.0), min(row.after + wide, 1.0))
        families[name] = replace(families[name], cpu_utilisation=after)
        rows.append(row)
    return replace(p, families=families), rows


def _per_workload(values: Floats, mine: Rows, job: Ints) -> Floats:
    _, which = np.unique(job[mine], return_inverse=True)
    counts = np.bincount(which)
    means: Floats = np.bincount(which, weights=values[mine]) / counts if len(counts) else values[:0]
    return means


def _gpu_utilisation(
    p: JoulieParameters, measurements: _PodMeasurements
) -> tuple[JoulieParameters, list[ParameterEstimate]]:
    controlled = [i for i, name in enumerate(KINDS) if p.families[name].structure == "controller"]
    mine = ~np.isnan(measurements.telemetry.gpu_utilisation) & (
        measurements.tasks.mgpu[measurements.telemetry.task] > 0
    )
    mine &= ~np.isin(measurements.family, controlled)
    values = _per_workload(measurements.telemetry.gpu_utilisation, mine, measurements.job)
    family = _per_workload(measurements.family.astype(np.float64), mine, measurements.job).astype(
        np.int64
    )
    gpus = _per_workload(measurements.gpus, mine, measurements.job)
    place = np.searchsorted(np.array(p.gpu_utilisation_counts), gpus, side="left")
    place = np.minimum(place, len(p.gpu_utilisation_counts) - 1)
    shift = np.array([p.families[name].gpu_utilisation_shift for name in KINDS])
    free_counts = _often(place, len(p.gpu_utilisation_counts))
    reference = KINDS.index(REFERENCE)
    free_shifts = [i for i in _often(family, len(KINDS)) if i != reference]
    if not (family == reference).sum() >= FEWEST_ROWS:
        free_shifts = []
    rest = values - np.where(np.isin(family, free_shifts), 0.0, shift[family])
    usable = np.isin(place, free_counts)
    if usable.sum() < FEWEST_ROWS:
        return p, []
    design = np.concatenate(
        [place[:, None] == np.array(free_counts), family[:, None] == np.array(free_shifts)], axis=1
    )[usable].astype(np.float64)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return p, []
    best, *_ = np.linalg.lstsq(design, rest[usable], rcond=None)
    half = _half(rest[usable] - design @ best, design)
    means, families, rows = list(p.gpu_utilisation_means), dict(p.families), []
    for column, (value, wide) in enumerate(zip(best.tolist(), half.tolist(), strict=True)):
        n = int(design[:, column].sum())
        if column < len(free_counts):
            at = free_counts[column]
            name = f"gpu_utilisation_means[{p.gpu_utilisation_counts[at]} GPUs]"
            rows.append(ParameterEstimate(name, means[at], value, value - wide, value + wide, n))
            means[at] = min(max(value, 0.0), 1.0)
        else:
            family_name = KINDS[free_shifts[column - len(free_counts)]]
            was = families[family_name].gpu_utilisation_shift
            name = f"families.{family_name}.gpu_utilisation_shift"
            rows.append(ParameterEstimate(name, was, value, value - wide, value + wide, n))
            families[family_name] = replace(
                families[family_name], gpu_utilisation_shift=min(max(value, -1.0), 1.0)
            )
    return replace(p, gpu_utilisation_means=tuple(means), families=families), rows


def _often(column: Ints, n: int) -> list[int]:
    return np.flatnonzero(np.bincount(column, minlength=n) >= FEWEST_ROWS).tolist()

"""The pods of Joulie's logical workloads: structure, requests, work units, sensitivities."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim.model.pods import (
    GIB,
    INTENTS,
    KINDS,
    NO_RECORD,
    USUAL_GPU,
    USUAL_NAMESPACE,
    coded,
    coded_terms,
)
from sim.model.tasks import Tasks, Work
from sim.workloads.joulie.parameters import Family, Helper, JoulieParameters
from sim.workloads.joulie.sampling import Floats, Ints, Logical, lognormal
from sim.workloads.streams import Streams

STRUCTURES: tuple[str, ...] = ("single", "launcher", "parameter_server", "controller")
SINGLE, LAUNCHER, PARAMETER_SERVER, CONTROLLER = range(4)
HELPER_OF = {LAUNCHER: "launcher", PARAMETER_SERVER: "ps", CONTROLLER: "controller"}
GPU_RESOURCES = (USUAL_GPU, "amd.com/gpu")
FEWEST_TRIALS = 2
Rows = NDArray[np.bool_]


def pods_of(p: JoulieParameters, drawn: Logical, streams: Streams) -> Tasks:
    """Return the pods of logical workloads, a row each: helpers first, then workers or trials."""
    families = [p.families[name] for name in KINDS]
    n_jobs = len(drawn.family)
    structure = np.array([STRUCTURES.index(one.structure) for one in families])[drawn.family]
    n_workers = _n_workers(p, drawn, structure, streams)
    n_helpers = np.where(structure == SINGLE, 0, 1)
    two = (structure == PARAMETER_SERVER) & (n_workers >= p.two_servers_from)
    n_helpers = np.where(two, 2, n_helpers)

    n_pods = n_helpers + n_workers
    job = np.repeat(np.arange(n_jobs), n_pods)
    place = np.arange(len(job)) - np.repeat(np.cumsum(n_pods) - n_pods, n_pods)
    is_helper = place < n_helpers[job]
    family, of_structure = drawn.family[job], structure[job]
    gpus = np.where(of_structure == SINGLE, drawn.gpus[job], np.minimum(drawn.gpus[job], 1))
    gpus[is_helper] = 0

    trial = np.where(of_structure == CONTROLLER, place - n_helpers[job], -1)
    cores, memory_gib = _requests(p, families, family, gpus, trial, job, n_jobs, streams)
    share = np.array([one.work_share for one in families])[family] / n_workers[job]
    cpu_sensitivity = np.array([one.cpu_sensitivity for one in families])[family]
    for which, helps in HELPER_OF.items():
        rows = is_helper & (of_structure == which)
        helper = p.helpers[helps]
        cores[rows], memory_gib[rows] = _clamped(helper, cores[rows], memory_gib[rows])
        share[rows] = helper.work_share / n_helpers[job[rows]]
        cpu_sensitivity[rows] = helper.cpu_sensitivity

    hundredths = np.maximum(np.rint(cores * 100.0), 1.0).astype(np.int64)
    work = _work(p, families, drawn, job, hundredths / 100.0, gpus, share, n_workers)
    work = replace(work, cpu_sensitivity=cpu_sensitivity)
    role, roles = _roles(families, family, of_structure, is_helper)
    demand, affinities = coded_terms(list(INTENTS.values()), drawn.intent[job])
    gpu_resource, gpu_resources = coded(
        GPU_RESOURCES, np.where(gpus > 0, drawn.is_amd[job].astype(np.int64), -1)
    )
    return Tasks.from_arrays(
        job=job,
        runtime_s=drawn.duration_s[job],
        mcpu=hundredths * 10,
        mem_bytes=np.maximum(np.rint(memory_gib), 1.0) * GIB,
        mgpu=gpus * 1000,
        gang=np.array([one.gang for one in families], dtype=np.int64)[family],
        role=role,
        demand=demand,
        gpu_resource=gpu_resource,
        roles=roles,
        affinities=affinities,
        gpu_resources=gpu_resources,
        work=work,
        texts=_texts(p, drawn, job),
    )


def _n_workers(p: JoulieParameters, drawn: Logical, structure: Ints, streams: Streams) -> Ints:
    """Return how many pods share the work: one, a worker a GPU, or trials."""
    workers = np.where(structure == SINGLE, 1, np.maximum(drawn.gpus, p.least_workers))
    most = np.where(drawn.gpus >= p.many_gpus, p.hpo_max_trials_many, p.hpo_max_trials)
    most = np.where(drawn.gpus == 0, p.hpo_max_trials_no_gpu, most)
    uniform = streams.of("trials").random(len(structure))
    trials = FEWEST_TRIALS + (uniform * (most - FEWEST_TRIALS + 1)).astype(np.int64)
    return np.where(structure == CONTROLLER, trials, workers)


def _requests(
    p: JoulieParameters,
    families: list[Family],
    family: Ints,
    gpus: Ints,
    trial: Ints,
    job: Ints,
    n_jobs: int,
    streams: Streams,
) -> tuple[Floats, Floats]:
    """Return cores and GiB of workers (of a helper: of the workers that it helps).

    The workers of a job are alike, its trials are not: trial k of every job has a stream.
    """
    normals = []
    for what in ("cpu", "memory"):
        normal = streams.of(what).standard_normal(n_jobs)[job]
        for k in range(int(trial.max(initial=-1)) + 1):
            rows = trial == k
            of_trial = streams.inside(f"trial {k}").of(what).standard_normal(n_jobs)
            normal[rows] = of_trial[job[rows]]
        normals.append(normal)
    cores = lognormal(families, "cpu", family, normals[0])
    if p.cpu_per_gpu:
        most = np.array([one.cpu.most for one in families])[family]
        cores = np.minimum(cores * np.maximum(gpus, 1), most)
    base = np.array([one.memory_base_gib for one in families])[family]
    per_gpu = lognormal(families, "memory_gib", family, normals[1])
    return cores, base + np.maximum(gpus, 1) * per_gpu


def _clamped(helper: Helper, cores: Floats, memory_gib: Floats) -> tuple[Floats, Floats]:
    return (
        np.clip(helper.cpu_share * cores, helper.cpu_least, helper.cpu_most),
        np.clip(helper.memory_share * memory_gib, helper.memory_least, helper.memory_most),
    )


def _work(
    p: JoulieParameters,
    families: list[Family],
    drawn: Logical,
    job: Ints,
    cores: Floats,
    gpus: Ints,
    share: Floats,
    n_workers: Ints,
) -> Work:
    """Return work units: duration * request * utilisation * rate * share of the role."""
    family, profile, duration_s = drawn.family[job], drawn.profile[job], drawn.duration_s[job]
    used = np.maximum(profile[:, :2], p.least_utilisation)
    cpu_units = duration_s * cores * used[:, 0] * p.cpu_work_rate_per_core * share
    gpu_units = duration_s * gpus * used[:, 1] * p.gpu_work_rate_per_gpu
    if p.split_work:
        gpu_units = gpu_units / n_workers[job]
    names = [one.cpu_class for one in families] + [one.gpu_class for one in families]
    both, classes = coded(names, np.concatenate([family, family + len(families)]))
    return Work(
        cpu_units=np.round(cpu_units, 3),
        gpu_units=np.round(gpu_units, 3),
        cpu_sensitivity=np.zeros(len(job)),
        gpu_sensitivity=np.array([one.gpu_sensitivity for one in families])[family],
        cpu_class=both[: len(job)],
        gpu_class=both[len(job) :],
        profile=profile,
        classes=classes,
    )


def _roles(
    families: list[Family], family: Ints, of_structure: Ints, is_helper: Rows
) -> tuple[Ints, tuple[str, ...]]:
    names = [one.role for one in families] + list(HELPER_OF.values())
    of_helper = np.full(len(STRUCTURES), -1, dtype=np.int64)
    for place, which in enumerate(HELPER_OF):
        of_helper[which] = len(families) + place
    return coded(names, np.where(is_helper, of_helper[of_structure], family))


def _texts(p: JoulieParameters, drawn: Logical, job: Ints) -> dict[str, Sequence[str]]:
    """Return what files have beside the columns; nothing if it is as usual."""
    texts: dict[str, Sequence[str]] = {}
    if p.namespace != USUAL_NAMESPACE:
        texts["namespace"] = [p.namespace] * len(job)
    if not p.emit_workload_records:
        texts["workloadRecord"] = [NO_RECORD] * len(job)
    if p.emit_head_fields:
        intents = list(INTENTS)
        texts["intentClass"] = [intents[i] for i in drawn.intent[job]]
        tags = {
            key: json.dumps(_tags(*key), separators=(",", ":"))
            for key in set(zip(drawn.family.tolist(), drawn.gpus.tolist(), strict=True))
        }
        keys = zip(drawn.family[job].tolist(), drawn.gpus[job].tolist(), strict=True)
        texts["tags"] = [tags[key] for key in keys]
    return texts


def _tags(family: int, gpus: int) -> list[str]:
    return ["ai", KINDS[family].replace("_", "-"), f"gpus-{gpus}" if gpus else "cpu-only"]

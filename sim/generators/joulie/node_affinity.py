"""Node affinities of the pods of a trace, changed for the machines of a concrete cluster.

After Joulie's page and its experiment 02: only the affinities change. Work, times, names and the
records of logical workloads stay, so all traces derived from one have the same jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sim.model.columns import read_only_copy
from sim.model.errors import WorkloadError
from sim.model.pods import DRAINING, LOGICAL_RESOURCE, POWER_PROFILE, encode_names, encode_terms
from sim.model.tasks import Tasks, Term
from sim.model.workload import ReadingNote, Workload

KIND = "joulie.io/hw.kind"
PRODUCT = "joulie.io/gpu.product"
FOR_CPUS = Term(KIND, "In", ("cpu-only",))


@dataclass(frozen=True)
class TargetNode:
    """A machine for pods.

    Attributes:
        family: hardware family, such as ``NVIDIA-H100``.
        gpu_resource: resource name of its GPUs, such as ``amd.com/gpu``; empty without GPUs.
    """

    family: str
    gpu_resource: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def family_first(nodes: Sequence[TargetNode]) -> tuple[TargetNode, ...]:
    """Return one machine of each family, then all others, so that few jobs use all families."""
    first: dict[str, int] = {}
    for place, node in enumerate(nodes):
        first.setdefault(node.family, place)
    begin = [first[family] for family in sorted(first)]
    return tuple(nodes[i] for i in [*begin, *(i for i in range(len(nodes)) if i not in begin)])


def retarget(
    workload: Workload,
    nodes: Sequence[TargetNode],
    *,
    by_family: bool = False,
    whole_jobs: bool = False,
) -> Workload:
    """Return the workload with node affinities for a cluster; a repetition changes nothing.

    Pods without GPUs are for machines without (``joulie.io/hw.kind`` In ``cpu-only``). Pods with
    GPUs take turns over the machines with GPUs, `family_first`: each requests the resource of its
    machine and demands the labels of it.

    Args:
        workload: workload with pods, such as the Joulie generator draws.
        nodes: machines of the cluster.
        by_family: whether pods also demand the family of the machine (``joulie.io/gpu.product``).
        whole_jobs: whether a turn is that of a job, so that its pods get GPUs of one vendor,
            instead of that of a pod, as in Joulie's experiment.

    Raises:
        WorkloadError: a workload without pods, or pods for which there is no machine.
    """
    tasks = _pods(workload)
    has_gpus = tasks.mgpu > 0
    pool = family_first([node for node in nodes if node.gpu_resource])
    n_cpu_only = sum(not node.gpu_resource for node in nodes)
    if (has_gpus.any() and not pool) or ((~has_gpus).any() and not n_cpu_only):
        raise WorkloadError(
            f"{int(has_gpus.sum())} pods of {workload.name} need GPUs and {int((~has_gpus).sum())} "
            f"do not; there are {len(pool)} machines with GPUs and {n_cpu_only} without. Name "
            "machines of each kind that is needed."
        )
    turn = np.cumsum(_begins_turn(tasks, has_gpus, whole_jobs)) - 1
    target = np.where(has_gpus, turn % max(len(pool), 1), -1)

    def node_terms(terms: tuple[Term, ...], node: int) -> tuple[Term, ...]:
        return _demanding(terms, pool[node], by_family) if node >= 0 else _added(terms, [FOR_CPUS])

    moved = _with_terms(tasks, target, node_terms)
    resource, resources = encode_names([node.gpu_resource for node in pool], target)
    texts = dict(moved.texts)
    before = _named(tasks.gpu_resources, tasks.gpu_resource)
    if LOGICAL_RESOURCE not in texts and before != _named(resources, resource):
        texts[LOGICAL_RESOURCE] = before
    moved = replace(
        moved, gpu_resource=read_only_copy(resource), gpu_resources=resources, texts=texts
    )
    notes = [note for note in workload.notes if note.rule not in ("retargeted", "idle_machines")]
    return replace(
        workload, tasks=moved, notes=(*notes, *_notes(has_gpus, turn, len(pool), n_cpu_only))
    )


def without_power_terms(workload: Workload) -> Workload:
    """Return the workload with pods that do not demand power profiles.

    Raises:
        WorkloadError: a workload without pods.
    """
    tasks = _pods(workload)
    none = np.full(tasks.n_tasks, -1, dtype=np.int64)

    def plain_terms(terms: tuple[Term, ...], _node: int) -> tuple[Term, ...]:
        return tuple(term for term in terms if term.key not in (POWER_PROFILE, DRAINING))

    return replace(workload, tasks=_with_terms(tasks, none, plain_terms))


def _pods(workload: Workload) -> Tasks:
    if workload.tasks is None:
        raise WorkloadError(
            f"{workload.name} has no pods; retargeting is for workloads such as the Joulie "
            "generator draws."
        )
    return workload.tasks


def _named(resources: tuple[str, ...], codes: NDArray[np.int64]) -> tuple[str, ...]:
    names = [*resources, ""]
    return tuple(names[code] for code in codes.tolist())


def _begins_turn(tasks: Tasks, has_gpus: NDArray[np.bool_], whole_jobs: bool) -> NDArray[np.bool_]:
    if not whole_jobs:
        return has_gpus
    rows = np.flatnonzero(has_gpus)
    begins = np.zeros(tasks.n_tasks, dtype=np.bool_)
    begins[rows[np.unique(tasks.job[rows], return_index=True)[1]]] = True
    return begins


def _demanding(terms: tuple[Term, ...], node: TargetNode, by_family: bool) -> tuple[Term, ...]:
    more = [Term(key, "In", (value,)) for key, value in sorted(node.labels.items())]
    if by_family:
        more.append(Term(PRODUCT, "In", (node.family,)))
    return _added(terms, more)


def _added(terms: tuple[Term, ...], more: list[Term]) -> tuple[Term, ...]:
    keys = {term.key for term in more}
    return (*(term for term in terms if term.key not in keys), *more)


def _with_terms(
    tasks: Tasks,
    target: NDArray[np.int64],
    terms_of: Callable[[tuple[Term, ...], int], tuple[Term, ...]],
) -> Tasks:
    before = [*tasks.affinities, ()]
    pairs, which = np.unique(np.column_stack([tasks.demand, target]), axis=0, return_inverse=True)
    terms = [terms_of(before[demand], node) for demand, node in pairs.tolist()]
    # Two pairs may give the same terms; they get one code.
    place: dict[tuple[Term, ...], int] = {}
    code = np.array([place.setdefault(term_set, len(place)) for term_set in terms], dtype=np.int64)
    demand, affinities = encode_terms(list(place), code[which.ravel()])
    return replace(tasks, demand=read_only_copy(demand), affinities=affinities)


def _notes(
    has_gpus: NDArray[np.bool_], turn: NDArray[np.int64], n_gpu: int, n_cpu_only: int
) -> list[ReadingNote]:
    n_pods = len(has_gpus)
    sentence = f"{n_pods} pods were told for which machines of the cluster they are."
    notes = [ReadingNote("retargeted", n_pods, sentence)]
    turns = int(turn[-1]) + 1
    for count, machines, kind in (
        (turns, n_gpu, "with GPUs"),
        (int((~has_gpus).sum()), n_cpu_only, "without GPUs"),
    ):
        if count < machines:
            sentence = (
                f"There are {machines} machines {kind} and {count} turns for them: some will "
                "have nothing to do."
            )
            notes.append(ReadingNote("idle_machines", machines - count, sentence))
    return notes

"""Kubernetes manifests of workloads as YAML, to submit to a real cluster.

Joulie's page plans this. A logical workload becomes

- ``PyTorchJob`` (kubeflow.org/v1) if it is a single-GPU or a distributed training: the launcher is
  its Master, and the workers its Workers; or, by choice, a distributed training an ``MPIJob``
  (kubeflow.org/v2beta1) with a Launcher;
- ``TFJob`` (kubeflow.org/v1) with PS and Worker if it has parameter servers;
- ``Experiment`` of Katib (kubeflow.org/v1beta1) if it searches hyperparameters: its trials are
  Jobs, and Katib is the controller;
- otherwise a ``Job`` (batch/v1) per task, with a ``PodGroup`` (scheduling.x-k8s.io/v1alpha1) for a
  gang.

Gangs of Kubeflow's jobs are their ``schedulingPolicy``. A replica has one template, so different
pods of one role get the largest of their requests. The containers sleep as long as the workload
runs (a trial then reports an accuracy of 0, for which Katib waits); the work stands in
annotations.

Node affinities of the pods of a trace, changed for the machines of a concrete cluster.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from sim.generators.joulie.model_fit import has_families
from sim.model.columns import read_only_copy
from sim.model.errors import WorkloadError
from sim.model.files import write_atomically
from sim.model.pods import (
    DRAINING,
    GIB,
    KINDS,
    LOGICAL_RESOURCE,
    POWER_PROFILE,
    USUAL_GPU,
    USUAL_NAMESPACE,
    encode_names,
    encode_terms,
)
from sim.model.tasks import SIGNALS, Tasks, Term
from sim.model.workload import ReadingNote, Workload

_WIDEST_LINE = 2**20  # so that no text is folded


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        return True  # a manifest repeats equal parts


def yaml_text(value: Mapping[str, Any]) -> str:
    """Format a manifest as a YAML document in block style, with the keys in their order."""
    text: str = yaml.dump(
        dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDEST_LINE
    )
    return text


MEBIBYTE, MILLI = 2**20, 1000
LONGEST_NAME = 52  # kubernetes adds a suffix to the names of jobs, up to 63 letters in all

Manifest = dict[str, Any]


@dataclass(frozen=True)
class ManifestStyle:
    """Options of Kubernetes manifests: image, namespace, scheduler and kinds of resources.

    Attributes:
        image: image of every container; it needs the command ``sleep``.
        namespace: common namespace; None takes that of each workload.
        scheduler: name of the scheduler of the pods, which must support gangs if there are any;
            empty leaves it to the cluster.
        whole_gpus: whether to round shares of a GPU up, because Kubernetes has only whole ones.
    """

    image: str = "busybox:1.36"
    distributed: Literal["PyTorchJob", "MPIJob"] = "PyTorchJob"
    namespace: str | None = None
    scheduler: str = ""
    whole_gpus: bool = False

    def __post_init__(self) -> None:
        if self.distributed not in ("PyTorchJob", "MPIJob"):
            raise WorkloadError(
                f"distributed is {self.distributed!r}; allowed are 'PyTorchJob' and 'MPIJob'."
            )
        if not self.image or not self.image.isprintable() or " " in self.image:
            raise WorkloadError(f"image is {self.image!r}; give the name of a container image.")


def render_manifests(
    workload: Workload, jobs: Iterable[int] | None = None, style: ManifestStyle | None = None
) -> Iterator[str]:
    """Yield the Kubernetes manifests of each job as one YAML text.

    Raises:
        WorkloadError: there are no tasks, there is no such row, or a share of a GPU is requested.
    """
    if workload.tasks is None:
        raise WorkloadError(
            f"the jobs of {workload.name} have no tasks; manifests need pods and their requests."
        )
    manifest_style, is_joulies = style or ManifestStyle(), has_families(workload)
    for row in range(workload.n_jobs) if jobs is None else jobs:
        if not 0 <= row < workload.n_jobs:
            raise WorkloadError(f"there is no job {row}; {workload.name} has {workload.n_jobs}.")
        job = _Job(workload, workload.tasks, row, manifest_style)
        kind = KINDS[workload.group[row]] if is_joulies else ""
        yield "---\n".join(yaml_text(document) for document in job.rendered(kind))


def write_manifests(
    workload: Workload,
    path: str | PathLike[str],
    jobs: Iterable[int] | None = None,
    style: ManifestStyle | None = None,
) -> int:
    """Write the Kubernetes manifests of jobs to one file; return the number of jobs.

    Raises:
        WorkloadError: as `render_manifests`, or the file cannot be written.
    """
    texts = list(render_manifests(workload, jobs, style))
    write_atomically(Path(path), "---\n".join(texts), raises=WorkloadError, parents=True)
    return len(texts)


@dataclass(frozen=True)
class _Job:
    workload: Workload
    tasks: Tasks
    row: int
    style: ManifestStyle

    def rendered(self, kind: str) -> list[Manifest]:
        if kind == "single_gpu_training":
            return [self._kubeflow("PyTorchJob", {"Master": self._rows()}, kind)]
        if kind == "distributed_training":
            head = "Master" if self.style.distributed == "PyTorchJob" else "Launcher"
            parts = {head: self._rows("launcher"), "Worker": self._others("launcher")}
            return [self._kubeflow(self.style.distributed, parts, kind)]
        if kind == "parameter_server_training":
            parts = {"PS": self._rows("ps"), "Worker": self._others("ps")}
            return [self._kubeflow("TFJob", parts, kind)]
        if kind == "hpo_experiment" and self._others("controller"):
            return [self._experiment(kind)]
        return self._plain(kind)

    def _rows(self, role: str | None = None) -> list[int]:
        low, high = np.searchsorted(self.tasks.job, (self.row, self.row + 1)).tolist()
        rows = range(low, high)
        return [i for i in rows if role is None or self._role(i) == role]

    def _others(self, role: str) -> list[int]:
        return [i for i in self._rows() if self._role(i) != role]

    def _role(self, task: int) -> str:
        role = int(self.tasks.role[task])
        return self.tasks.roles[role] if role >= 0 else ""

    def _kubeflow(self, kind: str, parts: Mapping[str, list[int]], family: str) -> Manifest:
        container = {"PyTorchJob": "pytorch", "MPIJob": "mpi", "TFJob": "tensorflow"}[kind]
        replicas = {
            name: {
                "replicas": self._replicas(rows),
                "restartPolicy": "Never",
                "template": self._template(rows, container, family),
            }
            for name, rows in parts.items()
            if rows
        }
        everyone = [i for rows in parts.values() for i in rows]
        policy: Manifest = {"cleanPodPolicy": "Running"}
        if self.tasks.gang[everyone].any():
            policy["schedulingPolicy"] = {"minAvailable": self._replicas(everyone)}
        spec: Manifest = {"runPolicy": policy}
        if kind == "MPIJob":
            spec = {"slotsPerWorker": self._slots(parts["Worker"]), **spec}
        name = {"PyTorchJob": "pytorch", "MPIJob": "mpi", "TFJob": "tf"}[kind]
        spec[f"{name}ReplicaSpecs"] = replicas
        version = "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1"
        return {
            "apiVersion": version, "kind": kind, "metadata": self._metadata(family), "spec": spec
        }  # fmt: skip

    def _experiment(self, family: str) -> Manifest:
        trials = self._others("controller")
        n = self._replicas(trials)
        trial = self._job_spec(self._template(trials, "trial", family), 1)
        step_command = "echo step ${trialParameters.learningRate}"
        command = ["sh", "-c", f"{step_command}; {self._nap()}; echo accuracy=0"]
        trial["template"]["spec"]["containers"][0]["command"] = command
        return {
            "apiVersion": "kubeflow.org/v1beta1",
            "kind": "Experiment",
            "metadata": self._metadata(family),
            "spec": {
                "objective": {"type": "maximize", "objectiveMetricName": "accuracy"},
                "algorithm": {"algorithmName": "random"},
                "parallelTrialCount": n,
                "maxTrialCount": n,
                "maxFailedTrialCount": n,
                "parameters": [
                    {
                        "name": "lr",
                        "parameterType": "double",
                        "feasibleSpace": {"min": "0.0001", "max": "0.1"},
                    }
                ],
                "trialTemplate": {
                    "primaryContainerName": "trial",
                    "trialParameters": [
                        {"name": "learningRate", "description": "step size", "reference": "lr"}
                    ],
                    "trialSpec": {"apiVersion": "batch/v1", "kind": "Job", "spec": trial},
                },
            },
        }

    def _plain(self, family: str) -> list[Manifest]:
        rows, manifests = self._rows(), []
        gang = [i for i in rows if self.tasks.gang[i]]
        size = self._replicas(gang) if gang else 0
        if size > 1:
            manifests.append(
                {
                    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                    "kind": "PodGroup",
                    "metadata": self._metadata(family),
                    "spec": {"minMember": size},
                }
            )
        for place, task in enumerate(rows):
            template = self._template([task], "main", family)
            if size > 1 and task in gang:
                labels = template["metadata"]["labels"]
                labels["scheduling.x-k8s.io/pod-group"] = self._name()
            suffix = f"-{place:02d}" if len(rows) > 1 else ""
            manifests.append(
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": self._metadata(family, suffix),
                    "spec": self._job_spec(template, self._replicas([task])),
                }
            )
        return manifests

    def _job_spec(self, template: Manifest, n: int) -> Manifest:
        template["spec"]["restartPolicy"] = "Never"
        return {"completions": n, "parallelism": n, "backoffLimit": 0, "template": template}

    def _metadata(self, family: str, suffix: str = "") -> Manifest:
        return {
            "name": self._name() + suffix,
            "namespace": self._namespace(),
            "labels": self._labels(family),
            "annotations": self._annotations(),
        }

    def _labels(self, family: str) -> dict[str, str]:
        labels = {"app.kubernetes.io/part-of": self._name()}
        return {**labels, "workload-type": family} if family else labels

    def _annotations(self) -> dict[str, str]:
        """Return values without a Kubernetes field: time, work and profile; per pod as lists."""
        annotations = {
            "submit-offset-sec": f"{self.workload.submit_s[self.row]:.15g}",
            "duration-sec": f"{self.workload.runtime_s[self.row]:.15g}",
        }
        work, rows = self.tasks.work, self._rows()
        if work is not None:
            for name in ("cpu_units", "gpu_units", "cpu_sensitivity", "gpu_sensitivity"):
                annotations[name.replace("_", "-")] = json.dumps(getattr(work, name)[rows].tolist())
            profile = dict(zip(SIGNALS, work.profile[rows[0]].tolist(), strict=True))
            annotations["profile"] = json.dumps(profile)
        return annotations

    def _name(self) -> str:
        workload_ids = self.tasks.texts.get("workloadId")
        first = self._rows()[0]
        name = (
            workload_ids[first]
            if workload_ids
            else f"workload-{self.workload.job_id[self.row]:06d}"
        )
        cleaned = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-")
        return cleaned or f"workload-{self.workload.job_id[self.row]:06d}"

    def _namespace(self) -> str:
        if self.style.namespace is not None:
            return self.style.namespace
        namespaces = self.tasks.texts.get("namespace")
        return namespaces[self._rows()[0]] if namespaces else USUAL_NAMESPACE

    def _replicas(self, rows: list[int]) -> int:
        return int(self.tasks.instances[rows].sum())

    def _slots(self, rows: list[int]) -> int:
        return max(int(self._gpus(rows)), 1)

    def _nap(self) -> str:
        return f"sleep {max(round(float(self.workload.runtime_s[self.row])), 1)}"

    def _template(self, rows: list[int], container: str, family: str) -> Manifest:
        resources = self._resources(rows)
        spec: Manifest = {}
        if self.style.scheduler:
            spec["schedulerName"] = self.style.scheduler
        terms = self._terms(rows[0])
        if terms:
            must = {"nodeSelectorTerms": [{"matchExpressions": [_expression(t) for t in terms]}]}
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": must}
            }
        spec["containers"] = [
            {
                "name": container,
                "image": self.style.image,
                "command": ["sh", "-c", self._nap()],
                **({"resources": resources} if resources else {}),
            }
        ]
        return {"metadata": {"labels": self._labels(family)}, "spec": spec}

    def _terms(self, task: int) -> tuple[Term, ...]:
        demand = int(self.tasks.demand[task])
        return self.tasks.affinities[demand] if demand >= 0 else ()

    def _gpus(self, rows: list[int]) -> int:
        mgpu = int(self.tasks.mgpu[rows].max())
        if mgpu % MILLI and not self.style.whole_gpus:
            raise WorkloadError(
                f"job {self.row} asks for {mgpu / MILLI:g} GPUs, but Kubernetes gives only whole "
                "ones; round them up with whole_gpus=True (--whole-gpus)."
            )
        return -(-mgpu // MILLI)

    def _resources(self, rows: list[int]) -> Manifest:
        mcpu, mem_bytes = (
            int(column[rows].max()) for column in (self.tasks.mcpu, self.tasks.mem_bytes)
        )
        requests: dict[str, str] = {}
        if mcpu:
            requests["cpu"] = f"{mcpu}m" if mcpu % MILLI else str(mcpu // MILLI)
        if mem_bytes:
            requests["memory"] = quantity(mem_bytes)
        gpus = self._gpus(rows)
        if not gpus:
            return {"requests": requests} if requests else {}
        which = int(self.tasks.gpu_resource[rows[0]])
        name = self.tasks.gpu_resources[which] if which >= 0 else USUAL_GPU
        limits = {name: str(gpus)}
        return {"requests": requests | limits, "limits": limits}


def quantity(n_bytes: int) -> str:
    """Format a number of bytes as a Kubernetes quantity, in the largest exact unit."""
    for unit, size in (("Gi", GIB), ("Mi", MEBIBYTE)):
        if n_bytes % size == 0:
            return f"{n_bytes // size}{unit}"
    return str(n_bytes)


def _expression(term: Term) -> Manifest:
    expression: Manifest = {"key": term.key, "operator": term.operator}
    return {**expression, "values": list(term.values)} if term.values else expression


KIND = "joulie.io/hw.kind"
PRODUCT = "joulie.io/gpu.product"
FOR_CPUS = Term(KIND, "In", ("cpu-only",))


@dataclass(frozen=True)
class TargetNode:
    """A machine of the target cluster: hardware family and GPU resource name.

    Attributes:
        family: hardware family, such as ``NVIDIA-H100``.
        gpu_resource: resource name of its GPUs, such as ``amd.com/gpu``; empty without GPUs.
    """

    family: str
    gpu_resource: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def family_first(nodes: Sequence[TargetNode]) -> tuple[TargetNode, ...]:
    """Reorder machines so that one machine of each hardware family comes first."""
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
    """Return the workload with pod node affinities that match a cluster's machines (idempotent).

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
            "machines of each needed kind."
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
    """Return the workload without the pods' node-affinity terms on power profiles.

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
            f"{workload.name} has no pods; retarget a workload with pods, such as one of the "
            "Joulie generator."
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
    sentence = f"{n_pods} pods were assigned to machines of the cluster."
    notes = [ReadingNote("retargeted", n_pods, sentence)]
    turns = int(turn[-1]) + 1
    for count, machines, kind in (
        (turns, n_gpu, "with GPUs"),
        (int((~has_gpus).sum()), n_cpu_only, "without GPUs"),
    ):
        if count < machines:
            sentence = (
                f"There are {machines} machines {kind} and {count} turns for them: some will "
                "stay idle."
            )
            notes.append(ReadingNote("idle_machines", machines - count, sentence))
    return notes

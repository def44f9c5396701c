"""Objects of Kubernetes that set up a configuration of a sweep: of Kueue, or of kube-scheduler.

A sweep over a job log gives ClusterQueues and a WorkloadPriorityClass of Kueue, one over tasks on
machines a KubeSchedulerConfiguration. Sources: the concepts of Kueue (kueue.sigs.k8s.io/docs,
v1beta2), and kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from assistant.applications.extensions.placement import FleetPlacement
from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_parameters import (
    COMPUTED,
    LANE,
    SMALL_MAX_PROCS,
    SMALL_MAX_REQUESTED,
    SMALL_PROCS,
    RunPolicies,
)
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.simtools.changed_settings import ChangedSettings, SettingsSection, Values
from sim.api import format_duration

ORDERS: Mapping[str, str] = {"fcfs": "by priority and then by submission"}
"""The order of Kueue, by ours within a priority."""

STRATEGIES: Mapping[str, str] = {"none": "StrictFIFO", "greedy": "BestEffortFIFO"}
"""Queueing strategies of a ClusterQueue by the backfilling rule that they are."""

SCORING: Mapping[str, str] = {
    "least_allocated": "LeastAllocated",
    "most_allocated": "MostAllocated",
}
"""Scoring strategies of NodeResourcesFit by placement rule."""

_RESOURCES: Mapping[str, str] = {
    "cpu_weight": "cpu", "mem_weight": "memory", "disk_weight": "ephemeral-storage",
}  # fmt: skip
_BALANCE = "balance_weight"
_KUEUE = "apiVersion: kueue.x-k8s.io/v1beta2"
_IN_QUEUES = {"backfill", *LANE, *COMPUTED}


def kubernetes_objects(
    application: Application, experiment: Experiment, run_id: int | None = None
) -> str:
    """Return commented objects of Kubernetes, as YAML, for a configuration of a sweep.

    Args:
        application: application of the experiment, ``scheduling`` or ``placement``.
        experiment: the experiment, with at least two completed runs.
        run_id: run whose configuration is written; None for the best one.

    Raises:
        SettingsError: another application; there is nothing to change; the configuration violates
            a constraint and was not asked for by its number; or there is no equivalent of it.
    """
    if isinstance(application, FleetPlacement):
        changed = ChangedSettings.of("kube-scheduler", "setting", experiment, run_id)
        changed.check(partial(_not_in_kube_scheduler, application))
        return changed.snippet(
            "the configuration of kube-scheduler",
            "Give it to kube-scheduler as --config, in a test cluster first.",
            [_scheduler_section(application, changed.values)],
            _NOT_IN_SCORES,
        )
    if not isinstance(application, Scheduling):
        raise SettingsError(
            f"experiment '{experiment.opened.experiment_id}' tunes '{application.name}', which "
            "Kubernetes does not configure; its objects need a sweep of the application "
            "scheduling or placement"
        )
    changed = ChangedSettings.of("Kueue", "object of Kueue", experiment, run_id)
    changed.check(partial(_not_in_kueue, application))
    return changed.snippet(
        "objects of Kueue",
        "Apply them to a test cluster first. v1beta1 has the same fields.",
        _queue_sections(application, changed.values, changed.before),
        _NOT_IN_QUEUES,
        between="\n---\n",
    )


def _not_in_kueue(application: Scheduling, values: Values, before: Values) -> str:
    """Return why Kueue cannot be set up so, and what comes nearest; empty if it can."""
    new = application.variation.run_settings(values)
    if new.order not in ORDERS:
        return (
            f"orders the queue by {new.order}, where Kueue goes {' or '.join(ORDERS.values())}; "
            f"nearest is order {', '.join(ORDERS)} with a priority class for short requests "
            "(preset kueue), which was not measured"
        )
    if new.backfill not in STRATEGIES:
        known = " and ".join(f"{rule} ({name})" for rule, name in STRATEGIES.items())
        return f"backfills by {new.backfill}, which Kueue does not have; it has {known}"
    other = _changes(values, before, _IN_QUEUES)
    if other:
        return f"changes {', '.join(other)}, of which no object of Kueue is"
    return ""


def _changes(values: Values, before: Values, settable: set[str]) -> list[str]:
    """Return the names of the parameters that change and cannot be set."""
    return sorted(name for name in set(values) - settable if values[name] != before[name])


def _queue_sections(
    application: Scheduling, values: Values, before: Values
) -> Iterator[SettingsSection]:
    new = application.variation.run_settings(values)
    small = int(values.get(SMALL_PROCS, 0))
    is_split = any(values.get(name) != before.get(name) for name in COMPUTED)
    if is_split or values.get("backfill") != before.get("backfill"):
        note = (
            f"Cluster queue of {'the other' if small else 'all'} jobs. Merge it with yours: names, "
            "flavors, and the quotas of other resources. Where queueingStrategy cannot be changed, "
            "create another ClusterQueue and move the LocalQueues."
        )
        yield SettingsSection((note,), _cluster_queue("main", new.procs - small, new))
    if is_split and small:
        widest = min(int(values[SMALL_MAX_PROCS]), small)
        longest = format_duration(float(values[SMALL_MAX_REQUESTED]))
        note = (
            f"Cluster queue of small jobs: they request at most {longest} and {widest:,} CPUs. "
            "Neither queue has a cohort, so neither borrows: simulated were fixed quotas. Kueue "
            "routes no jobs: give each namespace a LocalQueue of it, and set the label "
            "kueue.x-k8s.io/queue-name of small jobs."
        )
        yield SettingsSection((note,), _cluster_queue("small", small, new))
    elif is_split:
        yield SettingsSection(("No cluster queue for small jobs: delete it.",))
    if any(values.get(name) != before.get(name) for name in LANE):
        yield _priority_section(new)


def _cluster_queue(name: str, procs: int, new: RunPolicies) -> tuple[str, ...]:
    return (
        _KUEUE,
        "kind: ClusterQueue",
        "metadata:",
        f"  name: {name}",
        "spec:",
        "  namespaceSelector: {}",
        f"  queueingStrategy: {STRATEGIES[new.backfill]}",
        "  resourceGroups:",
        '  - coveredResources: ["cpu"]',
        "    flavors:",
        "    - name: default-flavor",
        "      resources:",
        "      - name: cpu",
        f"        nominalQuota: {procs}",
    )


def _priority_section(new: RunPolicies) -> SettingsSection:
    if not new.lane_max_requested_s:
        return SettingsSection(("No priority for short requests: delete its class.",))
    longest = format_duration(new.lane_max_requested_s)
    who = (
        f"Jobs that request at most {longest} and {new.lane_max_procs:,} CPUs go first, and evict "
        "none. The value of the class must be above that of all others."
    )
    labels = (
        "Kueue gives no priority by itself: let users or an admission policy set the label "
        "kueue.x-k8s.io/priority-class: express, and kueue.x-k8s.io/max-exec-time-seconds, which "
        "ends a job that exceeds it."
    )
    return SettingsSection(
        (who, labels),
        (
            _KUEUE,
            "kind: WorkloadPriorityClass",
            "metadata:",
            "  name: express",
            "value: 1000",
            f"description: at most {longest} and {new.lane_max_procs} CPUs",
        ),
    )


_NOT_IN_QUEUES: Sequence[str] = (
    "Cohorts: borrowing (borrowingLimit), lending (lendingLimit), and quotas by account.",
    (
        "Preemption (withinClusterQueue, reclaimWithinCohort, borrowWithinCohort), and jobs that "
        "are evicted and queued again."
    ),
    "Fair sharing (fairSharing.weight, AdmissionFairSharing).",
    (
        "Several flavors, topologies, admission checks, partial admission, elastic jobs, and "
        "quotas of memory or GPUs."
    ),
    (
        "Nodes: a job takes any CPUs that are free, so no pod waits for a node once its job is "
        "admitted."
    ),
    "Users who change their requests or their queue because of the new rules.",
)


def _not_in_kube_scheduler(application: FleetPlacement, values: Values, before: Values) -> str:
    """Return why kube-scheduler cannot be set up so; empty if it can."""
    rule = str(values.get("placement", application.current.get("placement")))
    if rule not in SCORING:
        return (
            f"places by {rule}, which kube-scheduler does not have; it has "
            f"{' and '.join(f'{ours} ({name})' for ours, name in SCORING.items())}"
        )
    weights = {*_RESOURCES, "gpu_weight", _BALANCE}
    for name, value in _weights(application, values).items():
        if float(value) != int(value) or value > 100:
            return f"has {name} {value:g}, where kube-scheduler has whole numbers up to 100"
    other = _changes(values, before, {"placement", *weights})
    if other:
        return f"changes {', '.join(other)}, which kube-scheduler does not set"
    return ""


def _weights(application: FleetPlacement, values: Values) -> dict[str, float]:
    """Return the weights of a run by option; those that are not set are 1."""
    names = (*_RESOURCES, "gpu_weight", _BALANCE)
    return {name: float(values.get(name, application.options.get(name, 1.0))) for name in names}


def _scheduler_section(application: FleetPlacement, values: Values) -> SettingsSection:
    weights = _weights(application, values)
    rule = str(values.get("placement", application.current.get("placement")))
    gpus = sorted({k.spec.gpu_resource for k in application.kinds if k.spec.gpus})
    counted = [(name, weights[option]) for option, name in _RESOURCES.items()]
    counted += [(name, weights["gpu_weight"]) for name in gpus]
    resources = [
        line
        for name, weight in counted
        if weight
        for line in (f"        - name: {name}", f"          weight: {weight:.0f}")
    ]
    balance = "      - name: NodeResourcesBalancedAllocation"
    return SettingsSection(
        (
            (
                "Scores of nodes. Merge it with your profile: other plugins keep their weights, "
                "and a plugin that scores beside these two changes the choice."
            ),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1",
            "kind: KubeSchedulerConfiguration",
            "profiles:",
            "- schedulerName: default-scheduler",
            "  plugins:",
            "    score:",
            *(
                ("      enabled:", balance, f"        weight: {weights[_BALANCE]:.0f}")
                if weights[_BALANCE]
                else ("      disabled:", balance)
            ),
            "  pluginConfig:",
            "  - name: NodeResourcesFit",
            "    args:",
            "      scoringStrategy:",
            f"        type: {SCORING[rule]}",
            "        resources:",
            *resources,
        ),
    )


_NOT_IN_SCORES: Sequence[str] = (
    "Ties: of nodes with equal scores the first is taken, where kube-scheduler draws one.",
    (
        "Other scores (ImageLocality, TaintToleration, NodeAffinity, PodTopologySpread, "
        "InterPodAffinity), RequestedToCapacityRatio, and nodes that are not scored "
        "(percentageOfNodesToScore)."
    ),
    "Pods without requests, which are scored as if they asked for 100m CPU and 200 MiB.",
    (
        "What newer versions of NodeResourcesBalancedAllocation do, which compare a node with and "
        "without the pod: simulated is the score with it, of CPUs and memory."
    ),
    "Preemption by priority, and the back-off of pods that found no node.",
)

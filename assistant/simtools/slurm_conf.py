"""The lines of ``slurm.conf`` that set up a configuration of a scheduling sweep on a real Slurm.

Settings are those of slurm.conf(5), Slurm 22.05.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_parameters import (
    SMALL_MAX_PROCS,
    SMALL_MAX_REQUESTED,
    SMALL_PROCS,
    Kind,
    RunPolicies,
)
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.simtools.changed_settings import ChangedSettings, SettingsSection
from sim.api import known_options
from strategies import Level

_BY_AGE_AND_LANE = (
    "priority/multifactor with PriorityWeightAge, and a lane for short requests (preset lanes)"
)
_BY_SIZE = "priority/multifactor with PriorityWeightJobSize and PriorityFavorSmall="
_NEAREST_ORDER: Mapping[str, str] = {
    "sjf": "a lane for short requests (preset lanes, order fcfs)",
    "ljf": "priority/multifactor with PriorityWeightPartition, and a partition for long requests",
    "saf": f"{_BY_SIZE}YES, and a lane for short requests (preset lanes)",
    "laf": f"{_BY_SIZE}NO",
    "lxf": _BY_AGE_AND_LANE,
    "wfp3": f"{_BY_SIZE}NO and PriorityWeightAge",
    "unicef": f"{_BY_SIZE}YES and PriorityWeightAge",
}
_NEAREST_BACKFILL = "sched/backfill with bf_job_part_count_reserve=1 (backfill easy)"

_WEIGHTS: Mapping[str, str] = {
    "age_weight": "PriorityWeightAge",
    "size_weight": "PriorityWeightJobSize",
    "partition_weight": "PriorityWeightPartition",
    "qos_weight": "PriorityWeightQOS",
    "fairshare_weight": "PriorityWeightFairshare",
}
LANE_TIER = 10


def slurm_conf(application: Application, experiment: Experiment, run_id: int | None = None) -> str:
    """Return a commented snippet of ``slurm.conf`` for a configuration of a scheduling sweep.

    Args:
        application: application of the experiment.
        experiment: the experiment, with at least two completed runs.
        run_id: run whose configuration is written; None for the best one.

    Raises:
        SettingsError: the application schedules no jobs of a cluster; there is nothing to change;
            the configuration violates a constraint and was not asked for by its number; or Slurm
            has no equivalent of it.
    """
    name = experiment.opened.experiment_id
    if not isinstance(application, Scheduling):
        raise SettingsError(
            f"experiment '{name}' tunes '{application.name}', which slurm.conf does not configure; "
            "its lines need a sweep of the application scheduling"
        )
    changed = ChangedSettings.of("Slurm", "line of slurm.conf", experiment, run_id)
    changed.check(partial(_not_in_slurm, application))
    return changed.snippet(
        "lines of slurm.conf",
        "Copy it to a test cluster first; scontrol reconfigure reads it.",
        _sections(application, changed.values, changed.before),
        _not_modelled(application),
    )


def _not_in_slurm(
    application: Scheduling, values: Mapping[str, Level], before: Mapping[str, Level]
) -> str:
    """Return why Slurm cannot be set up so, and what comes nearest; empty if it can."""
    new = application.variation.run_settings(values)
    old = application.variation.run_settings(before)
    if new.order not in _ORDERS:
        nearest = _NEAREST_ORDER.get(new.order, _BY_AGE_AND_LANE)
        return (
            f"orders the queue by {new.order}, which Slurm does not have; nearest is {nearest}, "
            "which was not measured"
        )
    if new.backfill not in _BACKFILLS:
        return (
            f"backfills by {new.backfill}, which Slurm does not have; nearest is "
            f"{_NEAREST_BACKFILL}, which was not measured"
        )
    if not _of(new, "backfill").get("depth", 1):
        return (
            "backfills without any reservation (depth 0), where Slurm reserves for all jobs; "
            f"nearest is {_NEAREST_BACKFILL}, which was not measured"
        )
    if new.procs != old.procs:
        return (
            f"has {new.procs:,} processors instead of {old.procs:,}, which no line of the "
            "scheduler changes; nearest are the same policies on the nodes you have, which were "
            "not measured"
        )
    return ""


def _sections(
    application: Scheduling, values: Mapping[str, Level], before: Mapping[str, Level]
) -> Iterator[SettingsSection]:
    new = application.variation.run_settings(values)
    old = application.variation.run_settings(before)
    if (new.order, _of(new, "order")) != (old.order, _of(old, "order")):
        yield _ORDERS[new.order](new)
    if (new.backfill, _of(new, "backfill")) != (old.backfill, _of(old, "backfill")):
        yield _BACKFILLS[new.backfill](new)
    if (new.overrun, new.grace_s) != (old.overrun, old.grace_s):
        yield _overrun(new)
    lanes = ("lane_max_requested_s", "lane_max_procs")
    if any(values.get(name) != before.get(name) for name in lanes):
        yield _lane(application, new)
    split = (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS)
    if any(values.get(name) != before.get(name) for name in split):
        yield _small_partition(application, values)


def _of(policies: RunPolicies, kind: Kind) -> dict[str, float]:
    """Return all options of an order or a backfilling rule, with the usual values of the others."""
    named = policies.order if kind == "order" else policies.backfill
    return {
        option.name: float(policies.options.get(option.name, option.usual))
        for option in known_options(kind, named)
    }


def _first_come(_: RunPolicies) -> SettingsSection:
    return SettingsSection(("Order: first come, first served.",), ("PriorityType=priority/basic",))


def _multifactor(new: RunPolicies) -> SettingsSection:
    options = _of(new, "order")
    lines = ["PriorityType=priority/multifactor"]
    lines += [f"{setting}={round(options[name])}" for name, setting in _WEIGHTS.items()]
    lines.append(f"PriorityMaxAge={slurm_time(options['age_max_s'])}")
    lines.append(f"PriorityFavorSmall={'YES' if options['favor_small'] else 'NO'}")
    notes = ["Order: priority by weights."]
    if options["fairshare_weight"]:
        half_life_s = options["half_life_s"]
        lines.append(f"PriorityDecayHalfLife={slurm_time(half_life_s) if half_life_s else 0}")
        if options["calc_period_s"]:
            lines.append(f"PriorityCalcPeriod={slurm_time(options['calc_period_s'])}")
        if not options["fair_tree"]:
            lines.append("PriorityFlags=NO_FAIR_TREE")
        notes.append(
            "Fair share needs slurmdbd. Users were simulated as siblings, unless the sweep names "
            "accounts. Merge PriorityFlags with yours."
        )
    return SettingsSection(tuple(notes), tuple(lines))


_ORDERS: Mapping[str, Callable[[RunPolicies], SettingsSection]] = {
    "fcfs": _first_come,
    "multifactor": _multifactor,
}
"""The orders that Slurm has, with the function that writes their lines."""


def _builtin(_: RunPolicies) -> SettingsSection:
    note = "No backfilling: a job that waits blocks those behind it."
    return SettingsSection((note,), ("SchedulerType=sched/builtin",))


def _reserving(n_jobs: int) -> SettingsSection:
    return _planned(
        {"bf_job_part_count_reserve": n_jobs},
        "Simulated was a plan at every event, for all waiting jobs. Slurm plans every "
        "bf_interval, for bf_max_job_test jobs and bf_window minutes ahead.",
    )


def _slurm_backfill(new: RunPolicies) -> SettingsSection:
    options = _of(new, "backfill")
    return _planned(
        {
            "bf_interval": max(1, round(options["bf_interval_s"])),
            "bf_max_job_test": round(options["bf_max_job_test"]),
            "bf_window": math.ceil(options["bf_window_s"] / 60),
            "bf_resolution": max(1, round(options["bf_resolution_s"])),
            "bf_job_part_count_reserve": round(options["bf_reserve"]),
        },
        "bf_window is in minutes, and should reach the longest MaxTime.",
    )


def _planned(parameters: Mapping[str, int], note: str) -> SettingsSection:
    merge = "Backfilling. Merge SchedulerParameters with yours: Slurm reads the last such line."
    text = ",".join(f"{name}={value}" for name, value in parameters.items())
    lines = ("SchedulerType=sched/backfill", f"SchedulerParameters={text}")
    return SettingsSection((merge, note), lines)


_BACKFILLS: Mapping[str, Callable[[RunPolicies], SettingsSection]] = {
    "none": _builtin,
    "easy": lambda _: _reserving(1),
    "depth": lambda new: _reserving(round(_of(new, "backfill")["depth"])),
    "conservative": lambda _: _reserving(0),
    "slurm": _slurm_backfill,
}
"""The rules that Slurm has, with the function that writes their lines; 0 reserved jobs are all."""


def _overrun(new: RunPolicies) -> SettingsSection:
    if new.overrun == "kill":
        limit = str(math.ceil(new.grace_s / 60))
        return SettingsSection(
            ("A job that exceeds its request is ended.",), (f"OverTimeLimit={limit}",)
        )
    return SettingsSection(
        ("A job that exceeds its request runs on.",), ("OverTimeLimit=UNLIMITED",)
    )


def _lane(application: Scheduling, new: RunPolicies) -> SettingsSection:
    if not new.lane_max_requested_s:
        return SettingsSection(("No lane for short requests: remove its partition.",))
    line = (
        f"PartitionName=express Nodes=ALL MaxTime={slurm_time(new.lane_max_requested_s)} "
        f"PriorityTier={LANE_TIER} State=UP"
    )
    notes = [
        (
            "A lane for short requests: a second partition on the same nodes, whose jobs go first. "
            f"The PriorityTier of the other partitions must be below {LANE_TIER} (usual: 1)."
        ),
        (
            "Slurm does not route jobs: let users submit with -p express,YOURS and set "
            "EnforcePartLimits=ANY, or route in job_submit.lua. Simulated: every job within the "
            "limits goes to the lane."
        ),
    ]
    size = application.machine_procs
    if new.lane_max_procs < application.cluster_procs:
        if size is not None:
            line += f" MaxNodes={max(1, new.lane_max_procs // size)}"
        else:
            notes.append(
                f"Jobs of the lane have at most {new.lane_max_procs:,} processors. If a processor "
                f"of the log is a node, add MaxNodes={new.lane_max_procs} to the line; else limit "
                f"them by a QoS of the partition (sacctmgr add qos express set "
                f"MaxTRESPerJob=cpu={new.lane_max_procs}; then QOS=express on the line)."
            )
    return SettingsSection(tuple(notes), (line,))


def _small_partition(application: Scheduling, values: Mapping[str, Level]) -> SettingsSection:
    procs = int(values[SMALL_PROCS])
    if not procs:
        return SettingsSection(
            ("No partition for small jobs: give its nodes back to the main one.",)
        )
    widest = min(int(values[SMALL_MAX_PROCS]), procs)
    size = application.machine_procs
    nodes = f"{procs:,} processors" if size is None else f"{procs // size:,} nodes"
    line = (
        f"PartitionName=small Nodes=NAMES MaxTime="
        f"{slurm_time(float(values[SMALL_MAX_REQUESTED]))} State=UP"
    )
    if size is not None:
        line += f" MaxNodes={max(1, widest // size)}"
    return SettingsSection(
        (
            (
                f"A partition for small jobs: {nodes} that leave the main partition; write their "
                f"names for NAMES, and take them out of its line. Its jobs have at most "
                f"{widest:,} processors. Slurm does not route jobs: let users choose, or route in "
                "job_submit.lua."
            ),
            line,
        )
    )


def slurm_time(seconds: float) -> str:
    """Return seconds as a time of ``slurm.conf``, days-hours:minutes:seconds, in whole minutes up.

    >>> slurm_time(900), slurm_time(90_000), slurm_time(61)
    ('0-00:15:00', '1-01:00:00', '0-00:02:00')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def _not_modelled(application: Scheduling) -> Sequence[str]:
    placement = (
        "Nodes (SelectType): a job takes any processors that are free."
        if application.allocation == "processors"
        else "Features, GRES and topology of nodes."
    )
    return (
        placement,
        "Reservations, drained and failed nodes.",
        "Dependencies, holds, requeues, limits of arrays, limits of QoS and associations.",
        "Preemption (PreemptType) and suspended jobs.",
        (
            "The main scheduler's own passes (sched_interval, default_queue_depth), the time that "
            "a pass of backfilling takes (bf_max_time, bf_yield_interval), and other factors of "
            "priority (PriorityWeightTRES, PriorityWeightAssoc, PrioritySiteFactor)."
        ),
        "Users who change their requests or their partition because of the new rules.",
    )

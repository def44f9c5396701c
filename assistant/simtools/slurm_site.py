"""What a sweep simulates of a Slurm cluster: decided from slurm.conf and a dump of sacct.

Partitions that share nodes, directly or through others, are a group. Groups do not compete for
nodes, so that one group is simulated by itself: the one that did the most work, or a chosen one.
What is decided, and what of slurm.conf is not simulated, is said in sentences.
"""

import csv
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assistant.applications.scheduling_presets import SLURM, Preset, presets_for
from assistant.core.errors import SettingsError, hint
from assistant.core.files import read_text
from assistant.simtools.workload_log import share
from sim.api import ReadingRules, Workload, format_duration, known_options
from sim.formats import SacctRows, SlurmConf, SlurmPartition, jobs_of, slurm_time_s

WEIGHTS: Mapping[str, str] = {
    "age": "age_weight", "jobsize": "size_weight", "fairshare": "fairshare_weight",
}  # fmt: skip
"""PriorityWeight... that an option of the order ``multifactor`` simulates in one queue."""

USUAL_CALC_PERIOD_S = 300.0
"""PriorityCalcPeriod of Slurm where it is not set."""

NOT_SIMULATED: Mapping[str, str] = {
    "priorityweightassoc": "associations have no factor",
    "priorityweightpartition": "the partitions of a group wait in one queue",
    "priorityweightqos": "a sweep knows no priorities of QoS (copperline simulate --qos does)",
    "priorityweighttres": "the size of a job is its processors",
    "priorityflags": "of the flags, NO_FAIR_TREE alone has an effect here",
    "prioritysitefactorplugin": "site factors are not known",
    "preempttype": "running jobs are not preempted",
    "preemptmode": "running jobs are not preempted",
    "preemptexempttime": "running jobs are not preempted",
    "overtimelimit": "jobs run as long as in the log",
    "killwait": "jobs run as long as in the log",
    "enforcepartlimits": "limits of partitions do not hold back jobs",
    "accountingstorageenforce": "limits of associations and QoS do not hold back jobs",
    "licenses": "licenses are not counted",
    "gressypes": "processors alone are counted",
    "grestypes": "processors alone are counted",
    "topologyplugin": "any processors are as good as any others",
    "routeplugin": "any processors are as good as any others",
    "jobsubmitplugins": "the log has the jobs as the plugins left them",
    "defmempercpu": "memory is not counted",
    "defmempernode": "memory is not counted",
    "maxmempercpu": "memory is not counted",
    "maxmempernode": "memory is not counted",
    "maxjobcount": "the queue has no limit",
    "maxarraysize": "the queue has no limit",
    "suspendtime": "nodes are never powered down",
    "resumetimeout": "nodes are never powered down",
    "fairsharedampeningfactor": "classic fair shares are not dampened",
    "priorityusageresetperiod": "usage is never reset",
}
"""Settings that affect when jobs start, by their names in lower case, and why they do not here."""

NOT_SIMULATED_OF_PARTITIONS = (
    "allowqos", "denyqos", "allowaccounts", "denyaccounts", "allowgroups", "qos", "maxnodes",
    "minnodes", "maxcpuspernode", "maxcpuspersocket", "oversubscribe", "exclusiveuser",
    "exclusivetopo", "preemptmode", "gracetime", "lln", "defmempercpu", "defmempernode",
    "maxmempercpu", "maxmempernode", "overtimelimit", "tresbillingweights", "suspendtime",
    "selecttypeparameters", "jobdefaults",
)  # fmt: skip
"""Settings of partitions that hold back jobs, or choose nodes, and do not here."""

BACKFILL: Mapping[str, tuple[str, int]] = {
    "bf_window": ("bf_window_s", 60), "bf_resolution": ("bf_resolution_s", 1),
    "bf_max_job_test": ("bf_max_job_test", 1), "bf_interval": ("bf_interval_s", 1),
    "bf_job_part_count_reserve": ("bf_reserve", 1),
}  # fmt: skip
"""SchedulerParameters that a backfilling rule may have as options: their names and units there."""

RESERVED, CONTINUES = "bf_job_part_count_reserve", "bf_continue"

QOS_COLUMNS = ("name", "priority")
EASY_RESERVATIONS = 1
_MOST_SHOWN = 6


@dataclass(frozen=True)
class QosEntry:
    """A quality of service as ``sacctmgr --parsable2 show qos`` prints it.

    Attributes:
        limits: what limits its jobs, by the column's name.
    """

    name: str
    priority: int
    limits: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SlurmStudy:
    """A log of a Slurm cluster and the application that simulates it.

    Attributes:
        workload: jobs that are simulated.
        application: table ``[application]`` of the sweep file, without the log.
        found: what the files contain; decided: what is simulated, and why; missing: what is not
            simulated, by name. Sentences.
    """

    workload: Workload
    application: Mapping[str, Any]
    found: tuple[str, ...]
    decided: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class PartitionGroup:
    """Partitions that share nodes, by themselves or through others.

    Attributes:
        partitions: in the order of slurm.conf.
        cpus: CPUs of each node of theirs, by name.
        work_proc_s: processor-seconds of their jobs in the log.
    """

    partitions: tuple[SlurmPartition, ...]
    cpus: Mapping[str, int] = field(hash=False)
    work_proc_s: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the partitions."""
        return tuple(part.name for part in self.partitions)

    @property
    def procs(self) -> int:
        """CPUs of all nodes."""
        return sum(self.cpus.values())


def slurm_study(
    rows: SacctRows,
    rules: ReadingRules,
    conf: SlurmConf | None = None,
    qos: Collection[QosEntry] = (),
    partition: str | None = None,
    preset: str | None = None,
) -> SlurmStudy:
    """Decide what a sweep over a dump simulates.

    Args:
        rows: of the dump.
        rules: reading rules.
        conf: slurm.conf; None if it is not known.
        qos: of which priorities and limits are listed as not simulated.
        partition: its group is simulated; without slurm.conf its jobs alone. None chooses the group
            with the most work.
        preset: name of the question; None asks what every log of Slurm is asked.

    Raises:
        SimError: no job is left; SettingsError: there is no such partition, or no such question
            whose answers are lines of slurm.conf.
    """
    asked = _preset(preset)
    question = f"Question: {asked.summary} (preset = '{asked.name}')."
    names = rows.names["partition"][1]
    everything = jobs_of(rows, rules)
    found = [_found_in_log(everything, names)]
    if conf is None:
        if partition is not None and partition not in names:
            raise SettingsError(f"the log has no partition '{partition}'{hint(partition, names)}")
        workload = everything if partition is None else jobs_of(rows, rules, partitions={partition})
        rule = asked.backfill
        backfilling = "EASY backfilling" if rule is None else "Slurm's backfilling as it is usual"
        queue = (
            f"One queue, first come, first served, with {backfilling}, on "
            f"{workload.max_procs:,} processors, as slurm.conf is not known (--conf)."
        )
        alone: dict[str, Any] = {"preset": asked.name}
        if rule is not None:
            alone["baseline"] = {"order": "fcfs", "backfill": rule}
        if workload.max_procs is not None:
            alone["procs"] = workload.max_procs
        return SlurmStudy(workload, alone, tuple(found), (queue, question), ())
    groups = groups_of(conf, everything, names)
    found.append(_found_in_conf(conf, groups))
    group = _chosen(groups, partition)
    limits_s = {p.name: p.max_time_s for p in group.partitions if p.max_time_s is not None}
    workload = jobs_of(
        rows, rules, partitions=set(group.names), max_requested_s=limits_s, max_procs=group.procs
    )
    total = sum(other.work_proc_s for other in groups)
    policies, sentences, missing = _policies(conf, asked, group)
    application: dict[str, Any] = {"procs": group.procs, "preset": asked.name, **policies}
    gone = sorted(set(names) - {part.name for part in conf.partitions})
    decided = [
        _group_words(group, groups, total),
        *_gone_words(everything, names, gone),
        *sentences,
    ]
    if workload.widest_procs > group.procs:
        application["too_wide"] = "clip"
        decided.append(
            f"The widest job has {workload.widest_procs:,} processors, more than slurm.conf has "
            "now: such jobs run on all processors, longer (too_wide = 'clip')."
        )
    decided.append(question)
    missing += [
        *_missing_of_partitions(group, application),
        *_missing_settings(conf),
        *_missing_qos(qos, rows),
    ]
    return SlurmStudy(workload, application, tuple(found), tuple(decided), tuple(missing))


def _preset(name: str | None) -> Preset:
    by_name = {preset.name: preset for preset in presets_for(SLURM)}
    if name is None:
        return next(iter(by_name.values()))
    if name not in by_name:
        raise SettingsError(
            f"the answers to the question '{name}' are no lines of slurm.conf{hint(name, by_name)}"
        )
    return by_name[name]


def groups_of(
    conf: SlurmConf, workload: Workload, names: tuple[str, ...]
) -> tuple[PartitionGroup, ...]:
    """Return the groups of partitions that are up, the one with the most work first.

    `names` are those of the partitions of the workload, by their numbers.
    """
    work = workload.procs * workload.runtime_s
    cpus = conf.cpus_by_node()
    merged: list[tuple[set[str], list[SlurmPartition]]] = []
    for part in conf.partitions:
        nodes, members = set(part.nodes) & set(cpus), [part]
        if not part.is_up or not nodes:
            continue
        for other in [one for one in merged if one[0] & nodes]:
            merged.remove(other)
            nodes, members = nodes | other[0], [*other[1], *members]
        merged.append((nodes, members))
    groups = []
    for nodes, members in merged:
        numbers = [names.index(part.name) for part in members if part.name in names]
        done = float(work[np.isin(workload.partition, numbers)].sum())
        ordered = tuple(part for part in conf.partitions if part in members)
        groups.append(PartitionGroup(ordered, {name: cpus[name] for name in nodes}, done))
    return tuple(sorted(groups, key=lambda group: -group.work_proc_s))


def _chosen(groups: tuple[PartitionGroup, ...], partition: str | None) -> PartitionGroup:
    if not groups:
        raise SettingsError("slurm.conf has no partition that is up and has nodes")
    if partition is None:
        return groups[0]
    known = [name for group in groups for name in group.names]
    for group in groups:
        if partition in group.names:
            return group
    raise SettingsError(
        f"slurm.conf has no partition '{partition}' that is up{hint(partition, known)}"
    )


def _found_in_log(workload: Workload, names: tuple[str, ...]) -> str:
    users = len(set(workload.user.tolist()) - {-1})
    of = f" of {_count(users, 'user')}" if users else ""
    parts = f" in {_count(len(names), 'partition')} ({_some(names)})" if names else ""
    jobs = _count(workload.n_jobs, "job")
    return f"{jobs}{of} over {format_duration(workload.span_s)}{parts}."


def _found_in_conf(conf: SlurmConf, groups: tuple[PartitionGroup, ...]) -> str:
    cpus = conf.cpus_by_node()
    away = sum(len(some.names) for some in conf.nodes if not some.is_there)
    absent = f" ({away:,} more are down or not there yet)" if away else ""
    name = f"cluster '{conf.name}', " if conf.name else ""
    files = f"{len(conf.files):,} files" if len(conf.files) > 1 else conf.files[0].name
    apart = f" in {len(groups):,} groups without common nodes" if len(groups) > 1 else ""
    return (
        f"{files}: {name}{_count(len(cpus), 'node')}{absent} with "
        f"{_count(sum(cpus.values()), 'CPU')}, {_count(len(conf.partitions), 'partition')}{apart}."
    )


def _group_words(
    group: PartitionGroup, groups: tuple[PartitionGroup, ...], total_proc_s: float
) -> str:
    done = (
        f", which did {share(group.work_proc_s, total_proc_s)} of the work" if total_proc_s else ""
    )
    size = f"{_count(group.procs, 'CPU')} of {_count(len(group.cpus), 'node')}"
    if len(groups) == 1:
        which = "All partitions share nodes and are" if len(group.names) > 1 else "The partition is"
        return f"{which} simulated as one queue on {size}."
    others = _some([f"{other.names[0]}" for other in groups if other is not group])
    return (
        f"Simulated is one queue on {size}: {_some(group.names)}{done}. The other groups have "
        f"nodes of their own (--partition {others.split(', ')[0]} takes that of it): {others}."
    )


def _gone_words(workload: Workload, names: tuple[str, ...], gone: list[str]) -> Iterator[str]:
    """Yield a sentence on the jobs of partitions that slurm.conf does not have, if any."""
    if gone:
        numbers = [names.index(name) for name in gone]
        n_jobs = int(np.isin(workload.partition, numbers).sum())
        yield (
            f"{_count(n_jobs, 'job')} left out: slurm.conf does not have the "
            f"{'partition' if len(gone) == 1 else 'partitions'} {_some(gone)}."
        )


def _policies(
    conf: SlurmConf, asked: Preset, group: PartitionGroup
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return tables of the application, sentences on them, and what they do not simulate."""
    baseline, options, sentences, missing = _order(conf)
    backfill, words, lost = _backfill(conf)
    sentences.append(words)
    tables: dict[str, Any] = {}
    if asked.backfill is not None and _has_backfilling(conf):
        backfill, lost = asked.backfill, _without_effect(conf.scheduler_parameters())
        planned, sentences[-1] = _planned(conf, backfill)
        options = {**options, **planned}
        tables, words = _machines(conf, group)
        sentences.append(words)
    tables["baseline"] = {"order": baseline, "backfill": backfill}
    if options:
        tables["options"] = options
    return tables, sentences, [*missing, *lost]


def _order(conf: SlurmConf) -> tuple[str, dict[str, float], list[str], list[str]]:
    kind = conf.settings.get("prioritytype", "priority/multifactor" if conf.weights() else "")
    if not kind.endswith("multifactor"):
        return "fcfs", {}, ["Order: first come, first served (PriorityType)."], []
    options: dict[str, float] = {}
    for name, text in conf.weights().items():
        if name in WEIGHTS:
            options[WEIGHTS[name]] = _number(conf, f"priorityweight{name}", text)
    if not any(options.values()):
        words = "Order: first come, first served, as no weight that is simulated is above 0."
        return "fcfs", {}, [words], []
    options = dict.fromkeys(WEIGHTS.values(), 0.0) | options
    for key, option, usual_s in (
        ("prioritymaxage", "age_max_s", 7 * 86_400.0),
        ("prioritydecayhalflife", "half_life_s", 7 * 86_400.0),
    ):
        if key in conf.settings:
            seconds = _time_s(conf, key)
            options[option] = usual_s if seconds is None else seconds
    if options["fairshare_weight"]:
        flags = conf.settings.get("priorityflags", "").upper().split(",")
        options["fair_tree"] = float("NO_FAIR_TREE" not in flags)
        options["calc_period_s"] = USUAL_CALC_PERIOD_S
        if "prioritycalcperiod" in conf.settings:
            options["calc_period_s"] = _time_s(conf, "prioritycalcperiod") or 0.0
    if conf.settings.get("priorityfavorsmall", "").upper() in ("YES", "TRUE", "1"):
        options["favor_small"] = 1.0
    shown = ", ".join(
        f"{name.removesuffix('_s')} {format_duration(value)}"
        if name.endswith("_s")
        else f"{name} {value:g}"
        for name, value in options.items()
    )
    return "multifactor", options, [f"Order: multifactor priority ({shown})."], []


def _number(conf: SlurmConf, key: str, text: str) -> float:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise SettingsError(
            f"{conf.files[0]}: {conf.spelling[key]} is '{text}'; allowed are whole numbers from 0"
        )
    return float(text)


def _time_s(conf: SlurmConf, key: str) -> float | None:
    try:
        return slurm_time_s(conf.settings[key])
    except ValueError:
        raise SettingsError(
            f"{conf.files[0]}: {conf.spelling[key]} is '{conf.settings[key]}'; allowed are times "
            "such as 7-0 and 12:00:00"
        ) from None


def _backfill(conf: SlurmConf) -> tuple[str, str, list[str]]:
    parameters = conf.scheduler_parameters()
    lost = _without_effect(parameters)
    if not _has_backfilling(conf):
        return "none", "Backfilling: none (SchedulerType).", lost
    if parameters.get(RESERVED, "0") == str(EASY_RESERVATIONS):
        return "easy", f"Backfilling: EASY ({RESERVED}={EASY_RESERVATIONS}).", lost
    names = [name for name in BACKFILL if name in parameters and name != RESERVED]
    told = [f"{name}={parameters[name]}" for name in names]
    if told:
        lost.insert(0, f"{', '.join(told)}: plans see all jobs, as far ahead as they request")
    words = "Backfilling: conservative, as every job that waits gets a reservation."
    return "conservative", words, lost


def _has_backfilling(conf: SlurmConf) -> bool:
    return conf.settings.get("schedulertype", "sched/backfill") == "sched/backfill"


def _planned(conf: SlurmConf, rule: str) -> tuple[dict[str, float], str]:
    """Return the current options of the rule that plans with the parameters of backfilling."""
    parameters = conf.scheduler_parameters()
    options = {option.name: float(option.usual) for option in known_options("backfill", rule)}
    for name, (option, unit) in BACKFILL.items():
        text = parameters.get(name)
        if text is None:
            continue
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise SettingsError(
                f"{conf.files[0]}: {name} of SchedulerParameters is '{text}'; allowed are whole "
                "numbers from 0"
            )
        options[option] = float(text) * unit
    shown = ", ".join(f"{name}={options[key] / unit:g}" for name, (key, unit) in BACKFILL.items())
    return options, f"Backfilling: as Slurm plans ({shown})."


def _machines(conf: SlurmConf, group: PartitionGroup) -> tuple[dict[str, Any], str]:
    """Return the machines on which the rule plans, which all have the same size."""
    sizes = set(group.cpus.values())
    size = math.gcd(*sizes)
    is_whole = conf.settings.get("selecttype", "").endswith("linear") or all(
        part.settings.get("oversubscribe", "").upper() == "EXCLUSIVE" for part in group.partitions
    )
    how = "each job has its machines alone" if is_whole else "jobs share machines"
    unlike = "" if len(sizes) == 1 else f", as nodes have {min(sizes)} to {max(sizes)}"
    words = f"Nodes: machines of {_count(size, 'CPU')}{unlike}; {how}."
    allocation = "whole_nodes" if is_whole else "shared_nodes"
    return {"allocation": allocation, "machine_procs": size}, words


def _without_effect(parameters: Collection[str]) -> list[str]:
    unknown = [name for name in parameters if name not in (*BACKFILL, CONTINUES)]
    return [f"SchedulerParameters {_some(unknown)}: no effect here"] if unknown else []


def _missing_of_partitions(group: PartitionGroup, application: Mapping[str, Any]) -> Iterator[str]:
    tiers = {part.tier for part in group.partitions}
    if len(tiers) > 1:
        shown = ", ".join(f"{part.name} {part.tier}" for part in group.partitions)
        yield f"PriorityTier ({shown}): the partitions of the group wait in one queue"
    if len({part.nodes for part in group.partitions}) > 1:
        yield "Nodes: partitions that have a part of the nodes may use all of them"
    if len({part.max_time_s for part in group.partitions}) > 1:
        yield "MaxTime: limits of partitions are those of the log's jobs, and hold back no others"
    is_simulated = {"oversubscribe"} if "allocation" in application else set()
    for key in NOT_SIMULATED_OF_PARTITIONS:
        if key in is_simulated:
            continue
        having = [p.name for p in group.partitions if p.settings.get(key, "").upper() not in _OFF]
        if having:
            yield f"{key} of {_some(having)}: does not hold back jobs here"


_OFF = ("", "NO", "ALL", "N/A", "OFF", "UNLIMITED", "FORCE:1")


def _missing_settings(conf: SlurmConf) -> Iterator[str]:
    if conf.n_not_understood:
        yield f"{conf.n_not_understood:,} words of slurm.conf are no KEY=VALUE, and are not read"
    for key, why in NOT_SIMULATED.items():
        value = conf.settings.get(key, "")
        if value and value.upper() not in (*_OFF, "0", "PREEMPT/NONE", "TOPOLOGY/NONE"):
            yield f"{conf.spelling[key]}={value[:60]}: {why}"


def _missing_qos(qos: Collection[QosEntry], rows: SacctRows) -> Iterator[str]:
    numbers = rows.names["qos"][1]
    for entry in qos:
        parts = [f"{name} {value}" for name, value in entry.limits.items()]
        if entry.priority and entry.name in numbers:
            option = f"--qos {numbers.index(entry.name)}={entry.priority}"
            parts.insert(0, f"priority {entry.priority} (copperline simulate {option})")
        if parts:
            yield f"QoS {entry.name}: {', '.join(parts)}"


def read_qos(path: Path) -> tuple[QosEntry, ...]:
    """Read what ``sacctmgr --parsable2 show qos`` prints. Raises SettingsError."""
    lines = read_text(path, "the list of QoS").splitlines()
    rows = list(csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE))
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if not set(QOS_COLUMNS) <= set(header):
        raise SettingsError(
            f"'{path}' has no columns Name and Priority; write it with "
            "sacctmgr --parsable2 show qos"
        )
    entries = []
    for number, row in enumerate(rows[1:], start=2):
        values = dict(zip(header, row, strict=False))
        priority = values.get("priority", "") or "0"
        if not priority.isascii() or not priority.isdigit() or len(priority) > 12:
            raise SettingsError(f"'{path}', line {number}: Priority is '{priority[:40]}'")
        limits = {
            original: values[original.lower()]
            for original in (name.strip() for name in rows[0])
            if values.get(original.lower()) and original.lower().startswith(("max", "grp", "preem"))
            and values[original.lower()].lower() not in ("cluster", "off")
        }  # fmt: skip
        entries.append(QosEntry(values.get("name", ""), int(priority), limits))
    return tuple(entries)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _some(names: Collection[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_SHOWN:,} more" if len(listed) > _MOST_SHOWN else ""
    return ", ".join(listed[:_MOST_SHOWN]) + more

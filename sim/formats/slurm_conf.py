"""Reader of slurm.conf: nodes, partitions and settings of a Slurm cluster.

The grammar is that of the man page of slurm.conf: keys in any case, ``#`` begins a comment, a
backslash continues a line, ``Include FILE`` inserts a file, names may be host lists such as
``rack[0-1]n[001-128]``, and a line ``NodeName=DEFAULT`` or ``PartitionName=DEFAULT`` gives the
defaults of those after it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from sim.formats.text_files import lines_of
from sim.model.cluster import MOST_MACHINES, MOST_TIER
from sim.model.errors import TraceError, quoted_text

KIND = "a slurm.conf"
MOST_CPUS = 1_000_000  # of a node
_MOST_INCLUDES = 100
_PAIR = re.compile(r'(?<![\w.-])([A-Za-z][\w.-]{0,60})\s{0,20}=\s{0,20}("[^"]*"|\S*)')
_COMMENT = re.compile(r"(?<!\\)#.*")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_TIMES = (
    (re.compile(r"(?:(\d+)-)(\d+)(?::(\d+))?(?::(\d+))?"), (86_400, 3600, 60, 1)),
    (re.compile(r"(\d+):(\d+):(\d+)"), (3600, 60, 1)),
    (re.compile(r"(\d+)(?::(\d+))?"), (60, 1)),
)
_RECORDS = ("nodename", "partitionname", "nodeset", "downnodes", "frontendname", "switchname")
_ABSENT = ("FUTURE", "DOWN", "FAIL", "CLOUD")


@dataclass(frozen=True)
class SlurmNodes:
    """Nodes of one line.

    Attributes:
        cpus, mem_mib: of each node; the memory is None if it is not told.
        gpus: GPUs of each node.
        state: as written, in capitals; empty if not told.
    """

    names: tuple[str, ...]
    cpus: int = 1
    mem_mib: int | None = None
    gpus: int = 0
    features: frozenset[str] = frozenset()
    state: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the nodes exist for the scheduler from its start."""
        return not self.state.startswith(_ABSENT)


@dataclass(frozen=True)
class SlurmPartition:
    """A partition.

    Attributes:
        nodes: names of its nodes.
        max_time_s, default_time_s: None means no limit, and not told.
        tier, job_factor: PriorityTier and PriorityJobFactor.
        settings: all that its line says, with keys in lower case.
    """

    name: str
    nodes: frozenset[str]
    max_time_s: float | None = None
    default_time_s: float | None = None
    tier: int = 1
    job_factor: int = 1
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_up(self) -> bool:
        """Whether jobs of the partition start."""
        return self.settings.get("state", "UP").upper() in ("UP", "DRAIN")


@dataclass(frozen=True)
class SlurmConf:
    """A Slurm cluster as slurm.conf has it.

    Attributes:
        settings: all keys outside nodes and partitions, in lower case; the last value counts.
        spelling: each key as it is written in the file.
        files: the file and those that it includes.
        n_not_understood: words that are no ``key=value``.
    """

    settings: Mapping[str, str] = field(hash=False)
    spelling: Mapping[str, str] = field(hash=False)
    nodes: tuple[SlurmNodes, ...]
    partitions: tuple[SlurmPartition, ...]
    files: tuple[Path, ...]
    n_not_understood: int = 0

    @property
    def name(self) -> str:
        """Name of the cluster; empty if it is not told."""
        return self.settings.get("clustername", "")

    def cpus_by_node(self) -> dict[str, int]:
        """Return the CPUs of every node that is there, by name."""
        return {name: some.cpus for some in self.nodes if some.is_there for name in some.names}

    def scheduler_parameters(self) -> dict[str, str]:
        """Return SchedulerParameters by name; a switch has an empty value."""
        text = self.settings.get("schedulerparameters", "")
        pairs = (part.partition("=") for part in text.split(",") if part.strip())
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    def weights(self) -> dict[str, str]:
        """Return the settings PriorityWeight..., without this prefix, in lower case."""
        prefix = "priorityweight"
        return {k.removeprefix(prefix): v for k, v in self.settings.items() if k.startswith(prefix)}


def read_slurm_conf(path: str | PathLike[str]) -> SlurmConf:
    """Read slurm.conf and the files that it includes.

    Included files that are not there are an error, as for Slurm itself. Only files in the folder of
    the first one, or below it, are read.

    Raises:
        TraceError: file, line, field, value and what is allowed.
    """
    file = Path(path)
    reader = _Reader(file)
    reader.read(file)
    return reader.conf()


def hosts(text: str) -> tuple[str, ...]:
    """Expand a host list. Raises ValueError if it is none, or has too many hosts.

    >>> hosts("a,n[08-10,12]"), hosts("r[1-2]n[0-1]")
    (('a', 'n08', 'n09', 'n10', 'n12'), ('r1n0', 'r1n1', 'r2n0', 'r2n1'))
    """
    expanded: list[str] = []
    for part in _outside_brackets(text):
        names = [""]
        at = 0
        for match in _RANGES.finditer(part):
            numbers = list(_numbers(match[1]))
            if len(names) * len(numbers) > MOST_MACHINES:
                raise ValueError(text)
            prefix = part[at : match.start()]
            names = [f"{name}{prefix}{number}" for name in names for number in numbers]
            at = match.end()
        rest = part[at:]
        if "[" in rest or "]" in rest or (not rest and names == [""]):
            raise ValueError(text)
        expanded += [name + rest for name in names]
        if len(expanded) > MOST_MACHINES:
            raise ValueError(text)
    return tuple(expanded)


def _outside_brackets(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1
    yield text[begin:].strip()


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(text)
        first, last = match[1], match[2] or match[1]
        if not int(first) <= int(last) < int(first) + MOST_MACHINES:
            raise ValueError(text)
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def slurm_time_s(text: str) -> float | None:
    """Return a time of slurm.conf in seconds, None for no limit. Raises ValueError.

    >>> slurm_time_s("30"), slurm_time_s("1-12"), slurm_time_s("00:30:00"), slurm_time_s("INFINITE")
    (1800.0, 129600.0, 1800.0, None)
    """
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return None
    for pattern, units in _TIMES:
        match = pattern.fullmatch(text)
        if match is not None and max(len(part or "") for part in match.groups()) <= 9:
            parts = zip(match.groups(), units, strict=True)
            return float(sum(int(part or 0) * unit for part, unit in parts))
    raise ValueError(text)


@dataclass(eq=False)
class _Record:
    """A line of a node or a partition: what it says, and where it stands."""

    path: Path
    line: int
    values: dict[str, str]

    def error(self, key: str, expected: str) -> TraceError:
        return TraceError(
            self.path, line=self.line, field=key, value=self.values.get(key), expected=expected
        )

    def whole(self, key: str, usual: int, most: int, least: int = 1) -> int:
        text = self.values.get(key)
        if text is None:
            return usual
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise self.error(key, f"allowed are whole numbers from {least:,} to {most:,}.")
        if not least <= int(text) <= most:
            raise self.error(key, f"allowed are whole numbers from {least:,} to {most:,}.")
        return int(text)

    def time_s(self, key: str) -> float | None:
        text = self.values.get(key)
        if text is None:
            return None
        try:
            return slurm_time_s(text)
        except ValueError:
            expected = "allowed are times such as 60 (minutes), 12:00:00, 7-0 and INFINITE."
            raise self.error(key, expected) from None

    def hosts(self, key: str) -> tuple[str, ...]:
        try:
            return hosts(self.values[key])
        except ValueError:
            expected = (
                f"allowed are names such as n1,n[2-9], at most {MOST_MACHINES:,} of them, with "
                "balanced brackets."
            )
            raise self.error(key, expected) from None


class _Reader:
    """Reader of lines, which knows the defaults and what was read so far."""

    def __init__(self, path: Path) -> None:
        self.root = path.resolve().parent
        self.files: list[Path] = []
        self.settings: dict[str, str] = {}
        self.spelling: dict[str, str] = {}
        self.records: dict[str, list[_Record]] = {name: [] for name in _RECORDS}
        self.n_not_understood = 0

    def read(self, path: Path, opened: tuple[Path, ...] = ()) -> None:
        if path in opened or len(self.files) >= _MOST_INCLUDES:
            raise TraceError(path, expected="files include each other in a circle, or too many.")
        self.files.append(path)
        for number, text in self._whole_lines(path):
            words = text.split(None, 1)
            if words and words[0].lower() == "include":
                self._include(path, number, words[1] if len(words) > 1 else "", (*opened, path))
                continue
            self._line(path, number, text)

    def _whole_lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yield lines without comments, with those joined that a backslash continues."""
        begin, joined = 0, ""
        for number, line in lines_of(path, KIND):
            text = _COMMENT.sub("", line.decode("utf-8", "replace").rstrip("\r\n")).rstrip()
            begin = begin or number
            if text.endswith("\\"):
                joined += text[:-1]
                continue
            yield begin, (joined + text).strip()
            begin, joined = 0, ""
        if joined:
            yield begin, joined.strip()

    def _include(self, path: Path, number: int, name: str, opened: tuple[Path, ...]) -> None:
        cluster = self.settings.get("clustername", "")
        target = Path(name.strip().strip('"').replace("%c", cluster))
        target = target if target.is_absolute() else path.parent / target
        try:
            inside = target.resolve().is_relative_to(self.root)
            is_there = inside and target.is_file()
        except (OSError, ValueError):
            inside, is_there = True, False
        if not is_there:
            where = "is not there" if inside else f"is not in {self.root} or below"
            expected = f"this file {where}; put it there, or remove the line."
            shown = str(target)
            raise TraceError(path, line=number, field="Include", value=shown, expected=expected)
        self.read(target, opened)

    def _line(self, path: Path, number: int, text: str) -> None:
        pairs = [(match[1], match[2].strip('"')) for match in _PAIR.finditer(text)]
        self.n_not_understood += len(_PAIR.sub("", text).split())
        if not pairs:
            return
        first = pairs[0][0].lower()
        if first in self.records:
            values = {key.lower(): value for key, value in pairs}
            self.records[first].append(_Record(path, number, values))
            return
        for key, value in pairs:
            self.settings[key.lower()] = value
            self.spelling[key.lower()] = key

    def conf(self) -> SlurmConf:
        nodes = tuple(self._nodes())
        if not nodes:
            expected = f"it has no line NodeName=...; give the {KIND[2:]} of the whole cluster."
            raise TraceError(self.files[0], expected=expected)
        names = [name for some in nodes for name in some.names]
        if len(names) > MOST_MACHINES:
            expected = f"it has {len(names):,} nodes; allowed are at most {MOST_MACHINES:,}."
            raise TraceError(self.files[0], expected=expected)
        partitions = tuple(self._partitions(nodes))
        if not partitions:
            expected = "it has no line PartitionName=...; without partitions no job can start."
            raise TraceError(self.files[0], expected=expected)
        return SlurmConf(
            self.settings, self.spelling, nodes, partitions, tuple(self.files),
            self.n_not_understood,
        )  # fmt: skip

    def _with_defaults(self, kind: str) -> Iterator[_Record]:
        """Yield the records of a kind, each with the defaults of the DEFAULT lines before it."""
        defaults: dict[str, str] = {}
        for record in self.records[kind]:
            if record.values[kind].upper() == "DEFAULT":
                defaults |= {k: v for k, v in record.values.items() if k != kind}
            else:
                yield _Record(record.path, record.line, {**defaults, **record.values})

    def _nodes(self) -> Iterator[SlurmNodes]:
        seen: set[str] = set()
        for record in self._with_defaults("nodename"):
            names = record.hosts("nodename")
            twice = next((name for name in names if name in seen), None)
            if twice is not None:
                raise record.error("nodename", f"node {quoted_text(twice)} is there twice.")
            seen |= set(names)
            yield SlurmNodes(
                names,
                self._cpus(record),
                record.whole("realmemory", 0, 2**40, 0) or None,
                _gpus(record.values.get("gres", "")),
                frozenset(
                    record.values.get("feature", record.values.get("features", "")).split(",")
                ),
                record.values.get("state", "").upper(),
            )

    def _cpus(self, record: _Record) -> int:
        """Return CPUs, else boards times sockets times cores times threads, as Slurm does."""
        if "cpus" in record.values or "procs" in record.values:
            return record.whole("cpus" if "cpus" in record.values else "procs", 1, MOST_CPUS)
        per_board = record.whole("socketsperboard", 1, MOST_CPUS)
        sockets = record.whole(
            "sockets", record.whole("boards", 1, MOST_CPUS) * per_board, MOST_CPUS
        )
        cores = record.whole("corespersocket", 1, MOST_CPUS)
        cpus = sockets * cores * record.whole("threadspercore", 1, MOST_CPUS)
        if cpus > MOST_CPUS:
            raise record.error("corespersocket", f"allowed are {MOST_CPUS:,} CPUs at most.")
        return cpus

    def _partitions(self, nodes: tuple[SlurmNodes, ...]) -> Iterator[SlurmPartition]:
        every = frozenset(name for some in nodes for name in some.names)
        sets = {
            record.values["nodeset"]: self._node_set(record, nodes, every)
            for record in self.records["nodeset"]
        }
        seen: set[str] = set()
        for record in self._with_defaults("partitionname"):
            for name in record.values["partitionname"].split(","):
                if not name or name in seen:
                    raise record.error("partitionname", "names must be unique, and not empty.")
                seen.add(name)
                yield SlurmPartition(
                    name,
                    self._nodes_of(record, every, sets),
                    record.time_s("maxtime"),
                    record.time_s("defaulttime"),
                    record.whole("prioritytier", record.whole("priority", 1, MOST_TIER, 0),
                                 MOST_TIER, 0),
                    record.whole("priorityjobfactor", record.whole("priority", 1, MOST_TIER, 0),
                                 MOST_TIER, 0),
                    {k: v for k, v in record.values.items() if k not in ("partitionname", "nodes")},
                )  # fmt: skip

    def _node_set(
        self, record: _Record, nodes: tuple[SlurmNodes, ...], every: frozenset[str]
    ) -> frozenset[str]:
        names = self._nodes_of(record, every, {})
        feature = record.values.get("feature")
        of_feature = (some.names for some in nodes if feature and feature in some.features)
        return names | {name for some in of_feature for name in some}

    def _nodes_of(
        self, record: _Record, every: frozenset[str], sets: Mapping[str, frozenset[str]]
    ) -> frozenset[str]:
        text = record.values.get("nodes", "")
        if text.upper() == "ALL":
            return every
        if text in ("", "(null)"):
            return frozenset()
        found: set[str] = set()
        for name in record.hosts("nodes"):
            if name in sets:
                found |= sets[name]
            elif name in every:
                found.add(name)
            else:
                expected = f"there is no node or set of nodes {quoted_text(name)}."
                raise record.error("nodes", expected)
        return frozenset(found)


def _gpus(gres: str) -> int:
    """Return the number of GPUs in ``gpu:a100:4,nvme:1``."""
    total = 0
    for part in gres.split(","):
        fields = part.partition("(")[0].split(":")
        if fields[0].strip().lower() == "gpu":
            count = fields[-1].strip()
            total += int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 1
    return total

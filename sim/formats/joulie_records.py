"""Records of Joulie's JSONL: fields, quantities, affinities and phases, and the check of a line.

Trace format v2 of Joulie's page "Workload Generation"; requests and affinities are those of
Kubernetes. The field ``phases`` is our extension, which other readers can ignore.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.model.columns import MOST_COUNT, MOST_SECONDS
from sim.model.errors import WorkloadError, quoted_text
from sim.model.pods import GIB
from sim.model.tasks import PHASE_SLACK, Term

VERSIONS = ("v1", "v2")
PROFILE: tuple[str, ...] = (
    "cpuUtilization", "gpuUtilization", "memoryIntensity", "ioIntensity", "cpuFeedIntensityGpu",
)  # fmt: skip
"""Names of the `SIGNALS` in files, in their order."""

JOB_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": (
        "type", "schemaVersion", "jobId", "workloadId", "workloadType", "podRole", "gang",
        "submitTimeOffsetSec", "namespace", "podTemplate", "work", "sensitivity", "workloadClass",
        "workloadProfile", "intentClass", "tags", "phases",
    ),
    "podTemplate": ("affinity", "requests"),
    "work": ("cpuUnits", "gpuUnits"),
    "sensitivity": ("cpu", "gpu"),
    "workloadClass": ("cpu", "gpu"),
    "workloadProfile": PROFILE,
}  # fmt: skip
"""Fields of a pod's record and of its nested objects."""

WORKLOAD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": (
        "type", "schemaVersion", "workloadId", "submitTimeOffsetSec", "namespace", "workloadType",
        "gang", "durationSec", "workloadClass", "sharedIntensityProfile", "pods", "intentClass",
        "tags", "phases",
    ),
    "workloadClass": ("cpu", "gpu"),
    "sharedIntensityProfile": PROFILE,
}  # fmt: skip
"""Fields of a logical workload's record."""

POD_FIELDS = ("role", "replicas", "requests", "gang", "nodeClass")

CPU, MEMORY, DISK = "cpu", "memory", "ephemeral-storage"
LONGEST_NAME = 253  # longest name in Kubernetes

MOST_TERMS = 64
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]{0,2})", re.ASCII)
_SUFFIXES: Mapping[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**i) for i, suffix in enumerate(("", "k", "M", "G", "T", "P"))},
    **{suffix: Fraction(1024**i) for i, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi"))},
}


_ENCODER = json.JSONEncoder(separators=(",", ":"))


class RecordFieldError(Exception):
    """Error for an invalid field of a Joulie record; unlike `TraceError` without file and line."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name, self.expected = name, expected
        self.value = value if isinstance(value, str) else json.dumps(value)[:200]
        super().__init__(name, self.value, expected)


def quantity(name: str, value: object, per_unit: int) -> int:
    """Convert a Kubernetes quantity, such as ``"500m"`` or ``"4Gi"``, to a whole number.

    Args:
        name: name of the field, for messages.
        value: value in the file.
        per_unit: parts of a unit: 1000 for cores and GPUs, 1 for bytes.

    Raises:
        RecordFieldError: no quantity, or not a whole number of parts up to 2**53.
    """
    parts = _parts(value, per_unit) if isinstance(value, str) else None
    if parts is None:
        part = "thousandths" if per_unit > 1 else "bytes"
        expected = f'allowed are texts such as "4", "0.50", "500m" or "12Gi", of whole {part}.'
        raise RecordFieldError(name, value, expected)
    return parts


@lru_cache(maxsize=65_536)
def _parts(text: str, per_unit: int) -> int | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _SUFFIXES:
        return None
    parts = Fraction(match[1]) * _SUFFIXES[match[2]] * per_unit
    return parts.numerator if parts.denominator == 1 and parts <= MOST_COUNT else None


def compact(value: object) -> str:
    """Encode a value as JSON without spaces."""
    return _ENCODER.encode(value)


def requests_text(mcpu: int, mem_bytes: int, disk_bytes: int, mgpu: int, resource: str) -> str:
    """Return a pod's resource requests as the JSON of a Kubernetes pod specification."""
    if mcpu % 1000 == 0:
        cores = str(mcpu // 1000)
    else:
        cores = f"{mcpu / 1000:.2f}" if mcpu % 10 == 0 else f"{mcpu}m"
    memory = f"{mem_bytes // GIB}Gi" if mem_bytes % GIB == 0 else str(mem_bytes)
    disk = f',"{DISK}":"{disk_bytes}"' if disk_bytes else ""
    gpus = f',{json.dumps(resource)}:"{_thousandths(mgpu)}"' if mgpu else ""
    return f'{{"cpu":"{cores}","memory":"{memory}"{disk}{gpus}}}'


def _thousandths(count: int) -> str:
    return str(count // 1000) if count % 1000 == 0 else f"{count / 1000:.3f}".rstrip("0")


def read_requests(name: str, requests: object) -> tuple[int, int, int, int, str]:
    """Return mcpu, bytes of memory and disk, mgpu and GPU resource name of a pod's requests.

    Raises:
        RecordFieldError: no JSON object, two kinds of GPUs, or an invalid quantity.
    """
    if not isinstance(requests, dict):
        raise RecordFieldError(
            name, requests, 'it must be a table such as {"cpu":"4","memory":"12Gi"}.'
        )
    mcpu = mem_bytes = disk_bytes = mgpu = 0
    resource = ""
    for key, value in requests.items():
        if key == CPU:
            mcpu = quantity(f"{name}.{key}", value, 1000)
        elif key == MEMORY:
            mem_bytes = quantity(f"{name}.{key}", value, 1)
        elif key == DISK:
            disk_bytes = quantity(f"{name}.{key}", value, 1)
        elif "/" in key and not resource and len(key) <= LONGEST_NAME:
            resource, mgpu = key, quantity(f"{name}.{key}", value, 1000)
        else:
            expected = f"known are {CPU}, {MEMORY}, {DISK} and one resource such as nvidia.com/gpu."
            raise RecordFieldError(f"{name}.{quoted_text(key)}", value, expected)
    return mcpu, mem_bytes, disk_bytes, mgpu, resource if mgpu else ""


def affinity_text(terms: tuple[Term, ...]) -> str:
    """Return the JSON of a Kubernetes node affinity that requires all of the terms."""
    expressions = [
        {"key": term.key, "operator": term.operator}
        | ({"values": term.values} if term.values else {})
        for term in terms
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return compact(affinity)


def read_affinity(name: str, affinity: object) -> tuple[Term, ...]:
    """Return the terms that a Kubernetes node affinity requires.

    Raises:
        RecordFieldError: anything else than one required node selector term of expressions.
    """
    expected = (
        "use nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution with one "
        "nodeSelectorTerm of matchExpressions, which must all hold."
    )
    at: Any = affinity
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if not isinstance(at, dict) or list(at) != [key]:
            raise RecordFieldError(name, affinity, expected)
        at = at[key]
    selector_terms = at.get("nodeSelectorTerms") if isinstance(at, dict) and len(at) == 1 else None
    if (
        not isinstance(selector_terms, list)
        or len(selector_terms) != 1
        or not isinstance(selector_terms[0], dict)
    ):
        raise RecordFieldError(name, affinity, expected)
    expressions = selector_terms[0].get("matchExpressions")
    if list(selector_terms[0]) != ["matchExpressions"] or not isinstance(expressions, list):
        raise RecordFieldError(name, affinity, expected)
    if not 1 <= len(expressions) <= MOST_TERMS:
        raise RecordFieldError(name, affinity, f"allowed are 1 to {MOST_TERMS} matchExpressions.")
    return tuple(_term(f"{name}.matchExpressions", expression) for expression in expressions)


def _term(name: str, expression: object) -> Term:
    if not isinstance(expression, dict) or not set(expression) <= {"key", "operator", "values"}:
        raise RecordFieldError(name, expression, "an expression needs key, operator and values.")
    operator: Any = expression.get("operator")
    key, values = expression.get("key"), expression.get("values", [])
    texts = [key, operator, *values] if isinstance(values, list) else [None]
    if not all(isinstance(text, str) and len(text) <= LONGEST_NAME for text in texts):
        raise RecordFieldError(
            name, expression, "key and operator must be texts, and values a list of texts."
        )
    try:
        return Term(str(key), operator, tuple(values))
    except WorkloadError as error:
        raise RecordFieldError(name, expression, str(error)) from None


def pod_name(role: str) -> str:
    """Return a role in the form that pod names use: lower case with hyphens."""
    return role.strip().lower().replace("_", "-") or "pod"


def short(number: float) -> str:
    """Format a number as JSON, without a fraction if the number is whole."""
    text = repr(number)
    return text[:-2] if text.endswith(".0") else text


PHASES = "phases"
MOST_PHASES = 64

PhaseRows = tuple[tuple[float, ...], ...]  # share and signals of each phase, in order of time


def phases_text(phases: NDArray[np.float64] | None, n_tasks: int) -> list[str]:
    """Return each task's JSON member ``phases`` with a leading comma, or "" without phases."""
    if phases is None:
        return [""] * n_tasks
    texts: dict[bytes, str] = {}
    fragments = []
    for rows in phases:
        key = rows.tobytes()
        if key not in texts:
            texts[key] = _phases_json(rows.tolist())
        fragments.append(texts[key])
    return fragments


def _phases_json(rows: list[list[float]]) -> str:
    while rows and rows[-1][0] == 0:
        rows = rows[:-1]
    if len(rows) <= 1:  # the same as the profile
        return ""
    phases = [dict(zip(("share", *PROFILE), row, strict=True)) for row in rows]
    return f',"{PHASES}":{json.dumps(phases, separators=(",", ":"))}'


def read_phases(raw_phases: object, profile: Sequence[float]) -> PhaseRows:
    """Return the validated phases of a record, whose average must equal the given profile.

    Raises:
        RecordFieldError: no such list, an invalid number, or another average.
    """
    if not isinstance(raw_phases, list) or not 1 <= len(raw_phases) <= MOST_PHASES:
        raise RecordFieldError(
            PHASES, raw_phases, f"it must be a list of 1 to {MOST_PHASES} phases."
        )
    names = ("share", *PROFILE)
    rows = []
    for i, phase in enumerate(raw_phases):
        if not isinstance(phase, dict) or set(phase) != set(names):
            expected = f"it must be a table of {', '.join(names)}."
            raise RecordFieldError(f"{PHASES}[{i}]", phase, expected)
        for name in names:
            value = phase[name]
            is_number = type(value) is float or type(value) is int
            if not (is_number and 0.0 <= value <= 1.0):
                raise RecordFieldError(
                    f"{PHASES}[{i}].{name}", value, "allowed are numbers from 0 to 1."
                )
        rows.append(tuple(float(phase[name]) for name in names))
    if abs(math.fsum(row[0] for row in rows) - 1.0) > PHASE_SLACK:
        raise RecordFieldError(PHASES, raw_phases, "the shares must sum to 1.")
    for column, name in enumerate(PROFILE, start=1):
        mean = math.fsum(row[0] * row[column] for row in rows)
        if abs(mean - profile[column - 1]) > PHASE_SLACK:
            expected = (
                f"{name} averages to {mean:.6g} over the phases, and is {profile[column - 1]:.6g} "
                "in the profile."
            )
            raise RecordFieldError(PHASES, raw_phases, expected)
    return tuple(rows)


def phases_column(
    phases: Sequence[PhaseRows], profile: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the phases of all tasks as one padded array, or None if no task has phases."""
    longest = max(map(len, phases), default=0)
    if longest == 0:
        return None
    column = np.zeros((len(phases), longest, 1 + len(PROFILE)))
    column[:, 0, 0], column[:, 0, 1:] = 1.0, profile
    for row, phase_rows in enumerate(phases):
        if phase_rows:
            column[row, : len(phase_rows)] = phase_rows
    return column


LONGEST_ID = 1024
MOST_TAGS = 64
MOST_PODS = 100_000

_JOB = frozenset(JOB_FIELDS[""])
_WORKLOAD = frozenset(WORKLOAD_FIELDS[""])
_EMPTY: Mapping[str, Any] = {}


class PodRecord(NamedTuple):
    """A Joulie record of type ``job``, which describes one pod, with the values of the file.

    The field `workload_id` is the pod's own id if it belongs to no workload; `odd_requests` holds
    the requests as JSON if they are not in our form.
    """

    pod_id: str
    workload_id: str
    kind: str
    role: str
    gang: bool
    offset_s: float
    namespace: str
    terms: tuple[Term, ...]
    requests: tuple[int, int, int, int, str]
    odd_requests: str
    units: tuple[float, float]
    sensitivity: tuple[float, float]
    classes: tuple[str, str]
    profile: tuple[float, ...]
    intent: str
    tags: str
    phases: PhaseRows
    is_v1: bool
    n_unknown: int


class LogicalRecord(NamedTuple):
    """A Joulie record of type ``workload``, with its JSON `text` without unknown fields."""

    workload_id: str
    offset_s: float
    duration_s: float
    text: str
    n_unknown: int


def read_record(line: bytes, unknown: Literal["refuse", "drop"]) -> PodRecord | LogicalRecord:
    """Parse a line as a Joulie record; without ``type`` and version it is a version 1 pod.

    Raises:
        RecordFieldError: no JSON object, or an invalid field; the name is empty if the line is
            invalid.
    """
    try:
        record = _DECODER.decode(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RecordFieldError("", "", f"this line is not JSON ({error}).") from None
    if not isinstance(record, dict):
        raise RecordFieldError("", "", "this line is not a JSON object; every record is one.")
    version = record.get("schemaVersion", "v1")
    if version not in VERSIONS:
        raise RecordFieldError("schemaVersion", version, f"allowed are {' and '.join(VERSIONS)}.")
    kind = record.get("type", "job")
    if kind == "job":
        return _pod(record, version == "v1", unknown)
    if kind == "workload":
        return _logical(record, unknown)
    raise RecordFieldError("type", kind, "allowed are job and workload.")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _pod(record: dict[str, Any], is_v1: bool, unknown: str) -> PodRecord:
    n_unknown = 0 if record.keys() <= _JOB else _unknown(record, _JOB, "", unknown)
    template = _table(record, "podTemplate")
    work = _table(record, "work")
    sensed = _table(record, "sensitivity") if "sensitivity" in record else _EMPTY
    classes = _table(record, "workloadClass") if "workloadClass" in record else _EMPTY
    profile = _table(record, "workloadProfile") if "workloadProfile" in record else _EMPTY
    for name, table in (
        ("podTemplate", template), ("work", work), ("sensitivity", sensed),
        ("workloadClass", classes), ("workloadProfile", profile),
    ):  # fmt: skip
        allowed = JOB_FIELDS[name]
        for key in table:
            if key not in allowed:
                n_unknown += _unknown(table, allowed, f"{name}.", unknown)
                break
    pod_id = _text(record, "jobId", LONGEST_ID, required=True)
    if "requests" not in template:
        raise RecordFieldError("podTemplate.requests", None, "a pod must request cpu and memory.")
    affinity = template.get("affinity")
    raw = template["requests"]
    requests = read_requests("podTemplate.requests", raw)
    raw_text = compact(raw)
    signals = tuple([_number(profile, name, "workloadProfile.", 1.0, 0.0) for name in PROFILE])
    return PodRecord(
        pod_id=pod_id,
        workload_id=_text(record, "workloadId", LONGEST_ID) or pod_id,
        kind=_text(record, "workloadType", LONGEST_NAME),
        role=_text(record, "podRole", LONGEST_NAME),
        gang=_truth(record, "gang"),
        offset_s=_number(record, "submitTimeOffsetSec", "", MOST_SECONDS, None),
        namespace=_text(record, "namespace", LONGEST_NAME),
        terms=read_affinity("podTemplate.affinity", affinity) if affinity else (),
        requests=requests,
        odd_requests="" if raw_text == requests_text(*requests) else raw_text,
        units=(
            _number(work, "cpuUnits", "work.", MOST_SECONDS, None),
            _number(work, "gpuUnits", "work.", MOST_SECONDS, 0.0),
        ),
        sensitivity=(
            _number(sensed, "cpu", "sensitivity.", 1.0, 1.0),
            _number(sensed, "gpu", "sensitivity.", 1.0, 1.0),
        ),
        classes=(_text(classes, "cpu", LONGEST_NAME), _text(classes, "gpu", LONGEST_NAME)),
        profile=signals,
        intent=_text(record, "intentClass", LONGEST_NAME),
        tags=_tags(record["tags"]) if "tags" in record else "",
        phases=read_phases(record[PHASES], signals) if PHASES in record else (),
        is_v1=is_v1,
        n_unknown=n_unknown,
    )


def _logical(record: dict[str, Any], unknown: str) -> LogicalRecord:
    n_unknown = _unknown(record, _WORKLOAD, "", unknown)
    for name, allowed in WORKLOAD_FIELDS.items():
        if name and name in record:
            table = _table(record, name)
            n_unknown += _unknown(table, allowed, f"{name}.", unknown)
            for key, value in table.items():
                if name == "workloadClass":
                    _text(table, key, LONGEST_NAME)
                elif key in allowed:
                    _number(table, key, f"{name}.", 1.0, value)
    pods = record.get("pods")
    if not isinstance(pods, list) or len(pods) > MOST_PODS:
        raise RecordFieldError("pods", pods, "it must be a list of pods.")
    for i, pod in enumerate(pods):
        if not isinstance(pod, dict):
            raise RecordFieldError(
                f"pods[{i}]", pod, "a pod must be a table of role, replicas and requests."
            )
        n_unknown += _unknown(pod, POD_FIELDS, f"pods[{i}].", unknown)
        replicas = _number(pod, "replicas", f"pods[{i}].", MOST_PODS, None)
        if replicas != int(replicas) or replicas < 1:
            expected = "allowed are whole numbers from 1."
            raise RecordFieldError(f"pods[{i}].replicas", pod["replicas"], expected)
        _text(pod, "role", LONGEST_NAME)
        _truth(pod, "gang")
        read_requests(f"pods[{i}].requests", pod.get("requests"))
    for name in ("namespace", "workloadType", "intentClass"):
        _text(record, name, LONGEST_NAME)
    _truth(record, "gang")
    if "tags" in record:
        _tags(record["tags"])
    if PHASES in record:
        shared = record.get("sharedIntensityProfile", {})
        read_phases(record[PHASES], [shared.get(name, 0.0) for name in PROFILE])
    return LogicalRecord(
        workload_id=_text(record, "workloadId", LONGEST_ID, required=True),
        offset_s=_number(record, "submitTimeOffsetSec", "", MOST_SECONDS, None),
        duration_s=_number(record, "durationSec", "", MOST_SECONDS, None),
        text=compact(record),
        n_unknown=n_unknown,
    )


def _unknown(table: Mapping[str, Any], allowed: Any, where: str, unknown: str) -> int:
    """Drop or refuse the unknown fields of an object; return their number."""
    unknown_keys = [key for key in table if key not in allowed]
    if unknown_keys and unknown == "refuse":
        expected = (
            f"unknown field; known are {', '.join(sorted(allowed))}. Drop it with "
            "unknown_fields='drop'."
        )
        raise RecordFieldError(
            f"{where}{quoted_text(unknown_keys[0])[1:-1]}", table[unknown_keys[0]], expected
        )
    if isinstance(table, dict):
        for key in unknown_keys:
            del table[key]
    return len(unknown_keys)


def _table(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = record.get(name)
    if not isinstance(value, dict):
        raise RecordFieldError(
            name, value, f"it must be a table of {', '.join(JOB_FIELDS.get(name, ()))}."
        )
    return value


def _text(record: Mapping[str, Any], name: str, longest: int, *, required: bool = False) -> str:
    value = record.get(name, "")
    if not isinstance(value, str) or len(value) > longest or (required and not value):
        least = "1" if required else "0"
        raise RecordFieldError(
            name, value, f"allowed are texts of {least} to {longest} characters."
        )
    return value


def _truth(record: Mapping[str, Any], name: str) -> bool:
    value = record.get(name, False)
    if value is not True and value is not False:
        raise RecordFieldError(name, value, "allowed are true and false.")
    return value


def _number(
    record: Mapping[str, Any], name: str, where: str, most: float, usual: float | None
) -> float:
    """Return a number from 0 to `most`; `usual`, unless it is None, if the field is missing."""
    value = record.get(name, usual)
    if (type(value) is float or type(value) is int) and 0.0 <= value <= most:
        return float(value) + 0.0  # no minus zero
    upto = "2**53" if most == MOST_SECONDS else f"{most:g}"
    raise RecordFieldError(f"{where}{name}", value, f"allowed are numbers from 0 to {upto}.")


def _tags(value: object) -> str:
    if (
        not isinstance(value, list)
        or len(value) > MOST_TAGS
        or not all(isinstance(tag, str) and len(tag) <= LONGEST_NAME for tag in value)
    ):
        raise RecordFieldError("tags", value, f"allowed are lists of up to {MOST_TAGS} texts.")
    return compact(value) if value else ""

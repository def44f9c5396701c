"""One line of Joulie's JSONL: a record, checked field by field."""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sim.errors import shown_text
from sim.model.columns import MOST_SECONDS
from sim.model.tasks import Term
from sim.traces.joulie_phases import PHASES, PhaseRows, read_phases
from sim.traces.joulie_text import (
    JOB_FIELDS,
    LONGEST_NAME,
    POD_FIELDS,
    PROFILE,
    VERSIONS,
    WORKLOAD_FIELDS,
    FieldError,
    compact,
    read_affinity,
    read_requests,
    requests_text,
)

LONGEST_ID = 1024
MOST_TAGS = 64
MOST_PODS = 100_000

_JOB = frozenset(JOB_FIELDS[""])
_WORKLOAD = frozenset(WORKLOAD_FIELDS[""])
_EMPTY: Mapping[str, Any] = {}


class PodRecord(NamedTuple):
    """A record of type ``job``: a pod that runs.

    What it has is as in the file, but that `workload_id` is the pod's own if it belongs to none,
    and that `odd_requests` are the requests as JSON if we would write them in another way.
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
    """A record of type ``workload``: a logical workload.

    Attributes:
        workload_id: as in the file; `offset_s` and `duration_s` likewise.
        text: the whole record as JSON, without the unknown fields.
        n_unknown: fields of it that no version has.
    """

    workload_id: str
    offset_s: float
    duration_s: float
    text: str
    n_unknown: int


def read_record(line: bytes, unknown: Literal["refuse", "drop"]) -> PodRecord | LogicalRecord:
    """Return the record of a line.

    A line without ``type`` and ``schemaVersion`` is a pod of version 1.

    Raises:
        FieldError: no object of JSON, or a field that cannot be; the field has no name if it is
            the line.
    """
    try:
        told = _DECODER.decode(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FieldError("", "", f"this line is no JSON ({error}).") from None
    if not isinstance(told, dict):
        raise FieldError("", "", "this line is no object of JSON; every record is one.")
    version = told.get("schemaVersion", "v1")
    if version not in VERSIONS:
        raise FieldError("schemaVersion", version, f"allowed are {' and '.join(VERSIONS)}.")
    kind = told.get("type", "job")
    if kind == "job":
        return _pod(told, version == "v1", unknown)
    if kind == "workload":
        return _logical(told, unknown)
    raise FieldError("type", kind, "allowed are job and workload.")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _pod(told: dict[str, Any], is_v1: bool, unknown: str) -> PodRecord:
    n_unknown = 0 if told.keys() <= _JOB else _unknown(told, _JOB, "", unknown)
    template = _table(told, "podTemplate")
    work = _table(told, "work")
    sensed = _table(told, "sensitivity") if "sensitivity" in told else _EMPTY
    classes = _table(told, "workloadClass") if "workloadClass" in told else _EMPTY
    profile = _table(told, "workloadProfile") if "workloadProfile" in told else _EMPTY
    for name, table in (
        ("podTemplate", template), ("work", work), ("sensitivity", sensed),
        ("workloadClass", classes), ("workloadProfile", profile),
    ):  # fmt: skip
        allowed = JOB_FIELDS[name]
        for key in table:
            if key not in allowed:
                n_unknown += _unknown(table, allowed, f"{name}.", unknown)
                break
    pod_id = _text(told, "jobId", LONGEST_ID, required=True)
    if "requests" not in template:
        raise FieldError("podTemplate.requests", None, "a pod requests cpu and memory.")
    affinity = template.get("affinity")
    raw = template["requests"]
    requests = read_requests("podTemplate.requests", raw)
    shown = compact(raw)
    signals = tuple([_number(profile, name, "workloadProfile.", 1.0, 0.0) for name in PROFILE])
    return PodRecord(
        pod_id=pod_id,
        workload_id=_text(told, "workloadId", LONGEST_ID) or pod_id,
        kind=_text(told, "workloadType", LONGEST_NAME),
        role=_text(told, "podRole", LONGEST_NAME),
        gang=_truth(told, "gang"),
        offset_s=_number(told, "submitTimeOffsetSec", "", MOST_SECONDS, None),
        namespace=_text(told, "namespace", LONGEST_NAME),
        terms=read_affinity("podTemplate.affinity", affinity) if affinity else (),
        requests=requests,
        odd_requests="" if shown == requests_text(*requests) else shown,
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
        intent=_text(told, "intentClass", LONGEST_NAME),
        tags=_tags(told["tags"]) if "tags" in told else "",
        phases=read_phases(told[PHASES], signals) if PHASES in told else (),
        is_v1=is_v1,
        n_unknown=n_unknown,
    )


def _logical(told: dict[str, Any], unknown: str) -> LogicalRecord:
    n_unknown = _unknown(told, _WORKLOAD, "", unknown)
    for name, allowed in WORKLOAD_FIELDS.items():
        if name and name in told:
            table = _table(told, name)
            n_unknown += _unknown(table, allowed, f"{name}.", unknown)
            for key, value in table.items():
                if name == "workloadClass":
                    _text(table, key, LONGEST_NAME)
                elif key in allowed:
                    _number(table, key, f"{name}.", 1.0, value)
    pods = told.get("pods")
    if not isinstance(pods, list) or len(pods) > MOST_PODS:
        raise FieldError("pods", pods, "it must be a list of pods.")
    for i, pod in enumerate(pods):
        if not isinstance(pod, dict):
            raise FieldError(f"pods[{i}]", pod, "a pod is a table of role, replicas and requests.")
        n_unknown += _unknown(pod, POD_FIELDS, f"pods[{i}].", unknown)
        replicas = _number(pod, "replicas", f"pods[{i}].", MOST_PODS, None)
        if replicas != int(replicas) or replicas < 1:
            expected = "allowed are whole numbers from 1."
            raise FieldError(f"pods[{i}].replicas", pod["replicas"], expected)
        _text(pod, "role", LONGEST_NAME)
        _truth(pod, "gang")
        read_requests(f"pods[{i}].requests", pod.get("requests"))
    for name in ("namespace", "workloadType", "intentClass"):
        _text(told, name, LONGEST_NAME)
    _truth(told, "gang")
    if "tags" in told:
        _tags(told["tags"])
    if PHASES in told:
        shared = told.get("sharedIntensityProfile", {})
        read_phases(told[PHASES], [shared.get(name, 0.0) for name in PROFILE])
    return LogicalRecord(
        workload_id=_text(told, "workloadId", LONGEST_ID, required=True),
        offset_s=_number(told, "submitTimeOffsetSec", "", MOST_SECONDS, None),
        duration_s=_number(told, "durationSec", "", MOST_SECONDS, None),
        text=compact(told),
        n_unknown=n_unknown,
    )


def _unknown(table: Mapping[str, Any], allowed: Any, where: str, unknown: str) -> int:
    """Return how many fields are unknown, which were told to be dropped; drop them."""
    found = [key for key in table if key not in allowed]
    if found and unknown == "refuse":
        expected = (
            f"there is no such field; known are {', '.join(sorted(allowed))}. Read files that have "
            "it with unknown_fields='drop'."
        )
        raise FieldError(f"{where}{shown_text(found[0])[1:-1]}", table[found[0]], expected)
    if isinstance(table, dict):
        for key in found:
            del table[key]
    return len(found)


def _table(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = told.get(name)
    if not isinstance(value, dict):
        raise FieldError(
            name, value, f"it must be a table of {', '.join(JOB_FIELDS.get(name, ()))}."
        )
    return value


def _text(told: Mapping[str, Any], name: str, longest: int, *, required: bool = False) -> str:
    value = told.get(name, "")
    if not isinstance(value, str) or len(value) > longest or (required and not value):
        least = "1" if required else "0"
        raise FieldError(name, value, f"allowed are texts of {least} to {longest} characters.")
    return value


def _truth(told: Mapping[str, Any], name: str) -> bool:
    value = told.get(name, False)
    if value is not True and value is not False:
        raise FieldError(name, value, "allowed are true and false.")
    return value


def _number(
    told: Mapping[str, Any], name: str, where: str, most: float, usual: float | None
) -> float:
    """Return a number from 0 to `most`; `usual` if there is none, unless that is None."""
    value = told.get(name, usual)
    if (type(value) is float or type(value) is int) and 0.0 <= value <= most:
        return float(value) + 0.0  # no minus zero
    upto = "2**53" if most == MOST_SECONDS else f"{most:g}"
    raise FieldError(f"{where}{name}", value, f"allowed are numbers from 0 to {upto}.")


def _tags(value: object) -> str:
    if (
        not isinstance(value, list)
        or len(value) > MOST_TAGS
        or not all(isinstance(tag, str) and len(tag) <= LONGEST_NAME for tag in value)
    ):
        raise FieldError("tags", value, f"allowed are lists of up to {MOST_TAGS} texts.")
    return compact(value) if value else ""

"""What both directions of Joulie's JSONL share: the names of its fields, quantities, affinities.

Trace format v2 of Joulie's page "Workload Generation"; requests and affinities are Kubernetes'.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sim.errors import WorkloadError, shown_text
from sim.model.columns import MOST_COUNT
from sim.model.pods import GIB
from sim.model.tasks import Term

VERSIONS = ("v1", "v2")
PROFILE: tuple[str, ...] = (
    "cpuUtilization", "gpuUtilization", "memoryIntensity", "ioIntensity", "cpuFeedIntensityGpu",
)  # fmt: skip
"""As files call the `SIGNALS`, in their order."""

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
"""Of a pod's record: its fields, and those of its tables."""

WORKLOAD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": (
        "type", "schemaVersion", "workloadId", "submitTimeOffsetSec", "namespace", "workloadType",
        "gang", "durationSec", "workloadClass", "sharedIntensityProfile", "pods", "intentClass",
        "tags", "phases",
    ),
    "workloadClass": ("cpu", "gpu"),
    "sharedIntensityProfile": PROFILE,
}  # fmt: skip
"""Of a logical workload's record."""

POD_FIELDS = ("role", "replicas", "requests", "gang", "nodeClass")

CPU, MEMORY, DISK = "cpu", "memory", "ephemeral-storage"
LONGEST_NAME = 253
"""Of anything in Kubernetes."""

MOST_TERMS = 64
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]{0,2})", re.ASCII)
_SUFFIXES: Mapping[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**i) for i, suffix in enumerate(("", "k", "M", "G", "T", "P"))},
    **{suffix: Fraction(1024**i) for i, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi"))},
}


_ENCODER = json.JSONEncoder(separators=(",", ":"))


class FieldError(Exception):
    """A field of a record that cannot be; whoever knows file and line makes it a `TraceError`."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name, self.expected = name, expected
        self.value = value if isinstance(value, str) else json.dumps(value)[:200]
        super().__init__(name, self.value, expected)


def quantity(name: str, value: object, per_unit: int) -> int:
    """Return a quantity of Kubernetes, such as ``"500m"`` or ``"4Gi"``, as a whole number.

    Args:
        name: of the field, for messages.
        value: what the file says.
        per_unit: into how many parts a unit is divided: 1000 for cores and GPUs, 1 for bytes.

    Raises:
        FieldError: no quantity, or not a whole number of parts up to 2**53.
    """
    parts = _parts(value, per_unit) if isinstance(value, str) else None
    if parts is None:
        part = "thousandths" if per_unit > 1 else "bytes"
        expected = f'allowed are texts such as "4", "0.50", "500m" or "12Gi", of whole {part}.'
        raise FieldError(name, value, expected)
    return parts


@lru_cache(maxsize=65_536)
def _parts(text: str, per_unit: int) -> int | None:
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in _SUFFIXES:
        return None
    parts = Fraction(found[1]) * _SUFFIXES[found[2]] * per_unit
    return parts.numerator if parts.denominator == 1 and parts <= MOST_COUNT else None


def compact(told: object) -> str:
    """Return JSON without spaces."""
    return _ENCODER.encode(told)


def requests_text(mcpu: int, mem_bytes: int, disk_bytes: int, mgpu: int, resource: str) -> str:
    """Return the requests of a pod as JSON: cores of two digits, memory in Gi, as the page has."""
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


def read_requests(name: str, told: object) -> tuple[int, int, int, int, str]:
    """Return mcpu, bytes of memory and disk, mgpu and the GPU's resource of a pod's requests.

    Raises:
        FieldError: no table, two kinds of GPUs, or a quantity that cannot be.
    """
    if not isinstance(told, dict):
        raise FieldError(name, told, 'it must be a table such as {"cpu":"4","memory":"12Gi"}.')
    mcpu = mem_bytes = disk_bytes = mgpu = 0
    resource = ""
    for key, value in told.items():
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
            raise FieldError(f"{name}.{shown_text(key)}", value, expected)
    return mcpu, mem_bytes, disk_bytes, mgpu, resource if mgpu else ""


def affinity_text(terms: tuple[Term, ...]) -> str:
    """Return a node affinity as JSON, for terms that must all hold."""
    expressions = [
        {"key": one.key, "operator": one.operator} | ({"values": one.values} if one.values else {})
        for one in terms
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    told = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return compact(told)


def read_affinity(name: str, told: object) -> tuple[Term, ...]:
    """Return the terms of a node affinity.

    Raises:
        FieldError: anything else than one required node selector term of expressions.
    """
    expected = (
        "read is nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution with one "
        "nodeSelectorTerm of matchExpressions, which must all hold."
    )
    at: Any = told
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if not isinstance(at, dict) or list(at) != [key]:
            raise FieldError(name, told, expected)
        at = at[key]
    one = at.get("nodeSelectorTerms") if isinstance(at, dict) and len(at) == 1 else None
    if not isinstance(one, list) or len(one) != 1 or not isinstance(one[0], dict):
        raise FieldError(name, told, expected)
    found = one[0].get("matchExpressions")
    if list(one[0]) != ["matchExpressions"] or not isinstance(found, list):
        raise FieldError(name, told, expected)
    if not 1 <= len(found) <= MOST_TERMS:
        raise FieldError(name, told, f"allowed are 1 to {MOST_TERMS} matchExpressions.")
    return tuple(_term(f"{name}.matchExpressions", expression) for expression in found)


def _term(name: str, told: object) -> Term:
    if not isinstance(told, dict) or not set(told) <= {"key", "operator", "values"}:
        raise FieldError(name, told, "an expression has key, operator and values.")
    operator: Any = told.get("operator")
    key, values = told.get("key"), told.get("values", [])
    texts = [key, operator, *values] if isinstance(values, list) else [None]
    if not all(isinstance(text, str) and len(text) <= LONGEST_NAME for text in texts):
        raise FieldError(name, told, "key and operator are texts, values a list of texts.")
    try:
        return Term(str(key), operator, tuple(values))
    except WorkloadError as error:
        raise FieldError(name, told, str(error)) from None


def pod_name(role: str) -> str:
    """Return how the name of a pod says its role."""
    return role.strip().lower().replace("_", "-") or "pod"


def short(number: float) -> str:
    """Return a number as JSON, without the fraction of a whole one."""
    text = repr(number)
    return text[:-2] if text.endswith(".0") else text

"""Partitions and capacity windows as ``copperline simulate`` takes them in one text each."""

from typing import Any

from assistant.errors import SettingsError
from sim.api import CapacityWindow, Partition, parse_duration

PARTITION = "NAME:PROCS[:MAX_REQUESTED[:MAX_PROCS]][:TERMS]"
WINDOW = "PARTITION:PROCS:FROM:UNTIL[:KIND]"


def partition_of(text: str) -> Partition:
    """Return a partition from a text such as ``small:32:1h:8`` or ``debug:@main:1h:tier=2``.

    Raises:
        SettingsError: it has another form.
        ClusterError: there can be no such partition.
        DurationError: the limit is no time.
    """
    parts = text.split(":")
    limits = [part for part in parts[2:] if "=" not in part and part != "preemptible"]
    plain = parts[:2] + limits
    terms = parts[len(plain) :]
    if parts[: len(plain)] != plain or not 2 <= len(plain) <= 4:
        raise _not_of_the_form(text)
    name, size = plain[:2]
    longest = parse_duration(plain[2]) if len(plain) > 2 and plain[2] else None
    told: dict[str, Any] = {}
    try:
        told |= {"on": size[1:]} if size.startswith("@") else {"procs": int(size)}
        limit = int(plain[3]) if len(plain) == 4 and plain[3] else None
        for term in terms:
            key, _, value = term.partition("=")
            field, kind = _TERMS[key]
            if field in told:
                raise ValueError(term)
            told[field] = kind(value)
    except (KeyError, ValueError):
        raise _not_of_the_form(text) from None
    return Partition(name, max_requested_s=longest, max_procs=limit, **told)


def _yes(value: str) -> bool:
    if value:
        raise ValueError(value)
    return True


_TERMS: dict[str, tuple[str, Any]] = {
    "tier": ("tier", int),
    "per-user": ("running_per_user", int),
    "preemptible": ("preemptible", _yes),
}


def _not_of_the_form(text: str) -> SettingsError:
    return SettingsError(
        f"--partition '{text}' is not of the form {PARTITION}, for example small:32:1h:8; "
        "@OTHER in the place of PROCS makes a queue on the processors of another partition, and "
        "TERMS are tier=N, per-user=N and preemptible, for example debug:@small:10m:tier=2"
    )


def window_of(text: str) -> CapacityWindow:
    """Return a capacity window from a text such as ``main:64:10d:10d 8h:planned``.

    Raises:
        SettingsError: it has another form.
        DurationError: a time is none.
        ScenarioError: there can be no such window.
        UnknownNameError: no such kind.
    """
    parts = text.split(":")
    try:
        if not 4 <= len(parts) <= 5:
            raise ValueError(text)
        procs = int(parts[1])
    except ValueError:
        raise SettingsError(
            f"--window '{text}' is not of the form {WINDOW}, for example main:64:10d:11d:planned"
        ) from None
    times = parse_duration(parts[2]), parse_duration(parts[3])
    return CapacityWindow(parts[0], procs, *times, *parts[4:])  # type: ignore[arg-type]

"""The split of a cluster: its three parameters, and the cluster that their values stand for."""

from collections.abc import Mapping, Sequence

from assistant.applications.scheduling.computed import (
    COMPUTED,
    SMALL_MAX_PROCS,
    SMALL_MAX_REQUESTED,
    SMALL_PROCS,
)
from assistant.applications.scheduling.variation import seconds, whole
from assistant.errors import ApplicationError, RunError
from sim.api import ClusterSpec, Partition
from strategies import Exclusion, Level, Parameter

ROUTING = "a job within both limits goes to the small partition, others to main"

_DESCRIBED: Mapping[str, tuple[str, str]] = {
    SMALL_PROCS: ("processors", "size of the small partition; 0 is none"),
    SMALL_MAX_REQUESTED: (
        "s",
        "jobs that request at most this long may go to the small partition",
    ),
    SMALL_MAX_PROCS: (
        "processors",
        "jobs that request at most so many may go to the small partition",
    ),
}


def checked(name: str, given: Sequence[Level]) -> tuple[Level, ...]:
    """Return levels of one of `COMPUTED` as they are simulated; times may be texts such as '2h'.

    Raises:
        ApplicationError: a level that means nothing for this parameter.
    """
    if name == SMALL_MAX_REQUESTED:
        return tuple(_above_zero(value) for value in given)
    return tuple(whole(name, value, 0 if name == SMALL_PROCS else 1) for value in given)


def _above_zero(value: Level) -> Level:
    found = seconds(SMALL_MAX_REQUESTED, value, least=0.0)
    if not found:
        raise ApplicationError(
            f"{SMALL_MAX_REQUESTED} has the level {value!r}; allowed are times above 0"
        )
    return found


def parameters(levels: Mapping[str, Sequence[Level]]) -> tuple[Parameter, ...]:
    """Return the three parameters with these levels."""
    return tuple(
        Parameter(name, tuple(levels[name]), unit=unit, description=description)
        for name, (unit, description) in _DESCRIBED.items()
    )


def today(levels: Mapping[str, Sequence[Level]]) -> dict[str, Level]:
    """Return the levels that mean one partition.

    Raises:
        ApplicationError: there is no such level.
    """
    if 0 not in levels[SMALL_PROCS]:
        raise ApplicationError(
            f"today's {SMALL_PROCS}, 0, is not among its levels "
            f"({', '.join(map(str, levels[SMALL_PROCS]))}); add it, so that there is something to "
            "compare with"
        )
    return {SMALL_PROCS: 0, **{name: levels[name][-1] for name in COMPUTED[1:]}}


def idle(levels: Mapping[str, Sequence[Level]]) -> Exclusion:
    """Return what leaves one combination of the thresholds where there is no small partition."""
    last_s, last_procs = levels[SMALL_MAX_REQUESTED][-1], levels[SMALL_MAX_PROCS][-1]
    return Exclusion.parse(
        f"{SMALL_PROCS} == 0 and ({SMALL_MAX_REQUESTED} != {last_s!r} "
        f"or {SMALL_MAX_PROCS} != {last_procs!r})"
    )


def cluster(values: Mapping[str, Level], total: int) -> ClusterSpec:
    """Return the cluster of ``total`` processors that the values stand for.

    Raises:
        RunError: nothing is left for the main partition.
    """
    small = int(values.get(SMALL_PROCS, 0))
    if small == 0:
        return ClusterSpec.single(total)
    if small >= total:
        raise RunError(
            f"a small partition of {small} processors leaves none of {total} for the main one"
        )
    return ClusterSpec(
        (
            Partition(
                "small",
                small,
                max_requested_s=float(values[SMALL_MAX_REQUESTED]),
                max_procs=min(int(values[SMALL_MAX_PROCS]), small),
            ),
            Partition("main", total - small),
        )
    )

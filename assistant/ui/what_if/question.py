"""What was filled in on the page *What if*: as fields, and as an address. Values only.

What is None was left as it is, so that it follows the experiment. Regions are numbered anew with
every result: a weight stands with the level ids of its region's best configuration.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from assistant import Sla
from assistant.report.words import moment
from assistant.settings import check_settings
from assistant.sla import Steering
from strategies.parameter import parse_number

NONE: Final = "none"
Seen = tuple[Sla, Steering]
"""Agreement and steering that a person saw to be in force."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was filled in; None is left as it is.

    Args:
        budget: runs in all; `EMPTIED` where nothing stands in the field.
        share: of the runs inside regions, in whole percent; "none" keeps no share.
        goal: as it was typed; empty takes the goal away.
        deadline: as it was typed.
        deadline_s: the moment that was meant, seconds since 1970-01-01 UTC: a time from now counts
            from when it was typed; None if it cannot be read.
        cost: as it was typed.
        strategy: a registered name.
        weights: level ids of a configuration, with how much its region counts.
    """

    budget: int | None = None
    share: int | Literal["none"] | None = None
    goal: str | None = None
    deadline: str | None = None
    deadline_s: float | None = None
    cost: str | None = None
    strategy: str | None = None
    weights: tuple[tuple[tuple[int, ...], float], ...] = ()


UNTOUCHED: Final = Draft()
"""Nothing was filled in."""

EMPTIED: Final = -1
"""Of the runs in all: nothing stands in the field."""


def typed_deadline(text: str, now_s: float) -> float | None:
    """Return the moment that is meant, in whole seconds since 1970-01-01 UTC; None if unreadable.

    Args:
        text: a time from now such as ``30m``, or a moment in UTC.
        now_s: when it was typed.

    >>> typed_deadline("30m", 100.5), typed_deadline("1970-01-01 00:10 UTC", 0.0)
    (1901.0, 600.0)
    >>> typed_deadline("soon", 0.0) is None
    True
    """
    stripped = text.strip()
    if not stripped:
        return None
    try:
        at = datetime.datetime.fromisoformat(stripped.removesuffix("UTC").strip())
    except ValueError:
        pass
    else:
        return at.replace(tzinfo=at.tzinfo or datetime.UTC).timestamp()
    try:
        seconds = check_settings({"deadline": stripped}, "the deadline").deadline
    except Exception:  # of the settings or of the simulator, which reads durations
        return None
    return None if seconds is None else float(math.ceil(now_s + seconds))


def settled(draft: Draft, seen: Seen) -> Draft:
    """Return a draft without what is so already: it is left as it is. Weights stay.

    Args:
        draft: what stands in the fields.
        seen: agreement and steering that are in force, or that the fields were drawn for.
    """
    sla, steering = seen
    share = NONE if steering.exploitation is None else round(100 * steering.exploitation)
    goal = None if draft.goal is None else draft.goal.strip()
    typed = None if not goal else parse_number(goal)
    cost = None if draft.cost is None else parse_number(draft.cost.strip())
    empty: dict[str, Any] = {}
    if draft.budget in (sla.max_runs, EMPTIED if sla.max_runs is None else None):
        empty["budget"] = None
    if draft.share == share:
        empty["share"] = None
    if goal is not None and (sla.goal is None if goal == "" else typed == sla.goal):
        empty["goal"] = None
    is_kept = draft.deadline_s is not None and sla.deadline_s is not None
    if draft.deadline is not None and (
        (is_kept and abs((draft.deadline_s or 0.0) - (sla.deadline_s or 0.0)) < 1)
        or draft.deadline.strip() == ("" if sla.deadline_s is None else moment(sla.deadline_s))
    ):
        empty |= {"deadline": None, "deadline_s": None}
    if draft.cost is not None and (
        draft.cost.strip() == "" if sla.max_cost is None else cost == sla.max_cost
    ):
        empty["cost"] = None
    if draft.strategy == steering.strategy:
        empty["strategy"] = None
    return replace(draft, **empty)


# -- the address -------------------------------------------------------------------------------


def query(draft: Draft) -> dict[str, str]:
    """Return a draft as the parameters of an address; what is left as it is has none."""
    told: dict[str, str] = {}
    if draft.budget is not None:
        told["budget"] = str(draft.budget)
    if draft.share is not None:
        told["share"] = str(draft.share)
    if draft.goal is not None:
        told["goal"] = draft.goal.strip() or NONE
    if draft.deadline is not None:
        at = draft.deadline_s
        told["deadline"] = draft.deadline if at is None else _iso(at)
    if draft.cost is not None:
        told["cost"] = draft.cost
    if draft.strategy is not None:
        told["strategy"] = draft.strategy
    if draft.weights:
        told["weights"] = ",".join(f"{_dotted(ids)}:{weight:g}" for ids, weight in draft.weights)
    return told


def from_query(told: Mapping[str, str], now_s: float) -> tuple[Draft, tuple[str, ...]]:
    """Return what an address asks, and sentences on what of it cannot be read.

    Args:
        told: the parameters of the address; others than those of `query` are not looked at.
        now_s: seconds since 1970-01-01 UTC.
    """
    unread: list[str] = []

    def number(name: str) -> int | None:
        text = told.get(name)
        value = None if text is None else parse_number(text.strip())
        if text is not None and type(value) is not int:
            unread.append(f"{name}={text} in the address is no whole number, and is left out.")
        return value if type(value) is int else None

    percent = None if told.get("share") == NONE else number("share")
    if percent is not None and not 0 <= percent <= 100:
        unread.append(f"share={percent} in the address is not from 0 to 100, and is left out.")
        percent = None
    goal, deadline = told.get("goal"), told.get("deadline")
    at_s = None if deadline is None else typed_deadline(deadline, now_s)
    weights, is_read = _weights(told.get("weights", ""))
    if not is_read:
        unread.append("The weights in the address cannot be read, and are left out.")
    budget = number("budget")
    if budget is not None and budget < 0:
        unread.append(f"budget={budget} in the address is no number of runs, and is left out.")
        budget = None
    draft = Draft(
        budget=budget,
        share=NONE if told.get("share") == NONE else percent,
        goal="" if goal == NONE else goal,
        deadline=deadline if at_s is None else _iso(at_s),
        deadline_s=at_s,
        cost=told.get("cost"),
        strategy=told.get("strategy"),
        weights=weights,
    )
    return draft, tuple(unread)


NAMES: tuple[str, ...] = tuple(one.name for one in fields(Draft) if one.name != "deadline_s")
"""Names of the parameters of an address."""


def _iso(at_s: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def _dotted(ids: tuple[int, ...]) -> str:
    return ".".join(map(str, ids))


def _weights(text: str) -> tuple[tuple[tuple[tuple[int, ...], float], ...], bool]:
    """Return the weights of an address, and whether it could be read."""
    found: list[tuple[tuple[int, ...], float]] = []
    for part in filter(None, text.split(",")):
        dotted, _, number = part.partition(":")
        ids = [parse_number(one) for one in dotted.split(".")]
        weight = parse_number(number)
        if weight is None or not all(type(one) is int for one in ids):
            return (), False
        found.append((tuple(int(one) for one in ids if one is not None), float(weight)))
    return tuple(found), True

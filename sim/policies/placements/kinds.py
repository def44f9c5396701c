"""What a placement rule is, and rules made of scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.kernel.choosing import choose_least, device_of
from sim.kernel.fleet import Fleet
from sim.kernel.text import bound, kernel
from sim.policies.kinds import Option

Choice = Callable[[Fleet, int, int], int]


@dataclass(frozen=True)
class PlacementRule:
    """A placement rule.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people, with the source.
        choose: kernel text, (fleet, need, start) to a machine that has room for the need, or -1 if
            none has. No machine before `start` has room; a rule that looks at all may begin there.
        options: what it can be told; it finds the values in ``fleet.gauges.told``, in this order.
        counts_classes: it asks how many instances of each class of GPUs a machine has.
        has_typical: it asks for which needs room is to be kept; the last option is for them.
    """

    name: str
    summary: str
    choose: Choice
    options: tuple[Option, ...] = ()
    counts_classes: bool = False
    has_typical: bool = False


def by_score(
    name: str,
    summary: str,
    score: Callable[[Fleet, int, int], float],
    device: Callable[[Fleet, int, int], int] = device_of,
    **more: Any,
) -> PlacementRule:
    """Return the rule that chooses the machine of the least score.

    Args:
        name: of the rule.
        summary: of the rule.
        score: kernel text, (fleet, need, machine) to the score of a machine that has room. It may
            look at that machine and at what never changes.
        device: kernel text, (fleet, need, machine) to the GPU of it of which an instance gets a
            part, or -1 for the first.
        more: other fields of the rule.
    """
    text = bound(choose_least, name, score_of=kernel(score), device_of=kernel(device))
    return PlacementRule(name, summary, text, **more)

"""When a model is trained again: rules over what is known of it, any of which suffices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sim.errors import SetupError, UnknownNameError

RULES = ("drift", "age", "data", "schedule")

LEARNING_RATE = 0.1
"""Of what a model lacks, that data as many again as it was trained with would add (ours)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        kind: `drift`: the detector reports a loss of performance above `limit`; `age`: the model is
            older than `limit` seconds; `data`: newly labelled rows exceed `limit` times those it
            was trained with; `schedule`: another `limit` seconds of the simulation have passed.
        limit: above 0.
    """

    kind: str
    limit: float

    def __post_init__(self) -> None:
        if self.kind not in RULES:
            raise UnknownNameError("rule of a trigger", self.kind, RULES)
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise SetupError(
                f"the limit of rule '{self.kind}' is {self.limit!r}; allowed: above 0."
            )


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a deployed model.

    Attributes:
        now_s: when.
        learnt_s: when the data of its last training were taken.
        drift: the loss of performance that its detector reports; None before a first report.
        new_share: labelled rows since, by those that it was trained with.
    """

    now_s: float
    learnt_s: float
    drift: float | None
    new_share: float


def fired(rules: Sequence[Rule], known: Known) -> str | None:
    """Return the kind of the first rule that is met; None if none is."""
    for rule in rules:
        if _is_met(rule, known):
            return rule.kind
    return None


def _is_met(rule: Rule, known: Known) -> bool:
    if rule.kind == "drift":
        return known.drift is not None and known.drift > rule.limit
    if rule.kind == "age":
        return known.now_s - known.learnt_s > rule.limit
    if rule.kind == "data":
        return known.new_share > rule.limit
    return known.now_s // rule.limit > max(known.learnt_s, 0.0) // rule.limit


def data_gain(performance: float, new_share: float) -> float:
    """Return the performance that newly labelled rows are expected to add."""
    return LEARNING_RATE * (1 - performance) * (1 - math.exp(-new_share))


def potential(built: float, lost: float, new_share: float) -> float:
    """Return what training now is expected to gain, in units of performance (section III-A).

    Args:
        built: performance of the model when it was built.
        lost: what it lost since, as measured.
        new_share: labelled rows since, by those that it was trained with.
    """
    return max(lost, 0.0) + data_gain(built, new_share)

"""What becomes of a claim: it holds, it does not, or the episodes do not decide it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agents.playbooks.resampled import Estimate

Outcome = Literal["holds", "does not hold", "undecided"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "does not hold", "undecided")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim of the paper beside the episodes that were played.

    Args:
        claim: its short name.
        figure: of the paper that it is about.
        table: application, or several.
        text: the claim in our words.
        outcome: what becomes of it.
        evidence: a sentence with the numbers and their 95 % intervals.
        why: if it does not hold, as far as the episodes tell; else empty.
    """

    claim: str
    figure: str
    table: str
    text: str
    outcome: Outcome
    evidence: str
    why: str = ""


def above_zero(*estimates: Estimate) -> Outcome:
    """Judge a claim that some numbers are above 0: all of them surely, or one surely not.

    >>> import numpy as np
    >>> few = Estimate(1.0, np.array([0.5, 1.5]))
    >>> above_zero(few), above_zero(few, -few), above_zero(few - 1)
    ('holds', 'does not hold', 'undecided')
    """
    if all(one.low > 0 for one in estimates):
        return "holds"
    return "does not hold" if any(one.high < 0 for one in estimates) else "undecided"


def near_zero(estimate: Estimate, margin: float) -> Outcome:
    """Judge a claim that a number is 0, give or take a margin.

    >>> import numpy as np
    >>> small = Estimate(0.0, np.array([-0.01, 0.01]))
    >>> near_zero(small, 0.1), near_zero(small + 1, 0.1), near_zero(small, 0.001)
    ('holds', 'does not hold', 'undecided')
    """
    low, high = estimate.low, estimate.high
    if -margin <= low and high <= margin:
        return "holds"
    return "does not hold" if low > margin or high < -margin else "undecided"


def told(estimate: Estimate, digits: int = 1) -> str:
    """Return a number with its interval, for people.

    >>> import numpy as np
    >>> told(Estimate(1234.5, np.array([1000.0, 2000.0])), 0)
    '1,234 (1,025 to 1,975)'
    """
    low, high = estimate.low, estimate.high
    return f"{estimate.value:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def percent(estimate: Estimate) -> str:
    """Return a share with its interval in per cent."""
    shown = estimate * 100.0
    return f"{shown.value:+.0f} % ({shown.low:+.0f} to {shown.high:+.0f} %)"


def listed(texts: Sequence[str]) -> str:
    """Return a list for people.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

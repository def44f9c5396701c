"""The words of a warning by the forecast: what studies like this one came to, never a promise."""

from assistant.chances import LIKELY, ON_TRACK, VERY_LIKELY, about, band_words, percent
from assistant.events import Alternative
from assistant.forecasts import Forecast


def verdict(miss: float, band: tuple[float, float]) -> str:
    """Return one sentence on the probability of a miss, with how much spaces differ.

    Args:
        miss: probability that the goal is missed.
        band: the same from and to, in single spaces.

    >>> verdict(0.74, (0.52, 0.89))
    'Likely to miss: about 3 in 4 studies that looked like this missed (52 to 89 % depending on \
the space).'
    >>> verdict(0.5, (0.27, 0.73))
    'Of studies that looked like this 50 % missed (27 to 73 % depending on the space).'
    """
    spread = f"({band_words(band)} depending on the space)"
    if ON_TRACK < miss < LIKELY:
        return f"Of studies that looked like this {percent(miss)} missed {spread}."
    words = "On track" if miss <= ON_TRACK else "Likely to miss"
    if miss >= VERY_LIKELY:
        words = "Very likely to miss"
    return f"{words}: {about(miss)} studies that looked like this missed {spread}."


def warning(seen: Forecast) -> str:
    """Return what is likely, how far the goal is, what doubling would change, and the paper's rule.

    Args:
        seen: a forecast that tells a chance.

    Raises:
        ValueError: it tells none.
    """
    goal = seen.goal
    if goal is None or goal.chance is None or goal.band is None:
        raise ValueError("a forecast that is silent gives no warning")
    low, high = goal.band
    told = [verdict(1.0 - goal.chance, (1.0 - high, 1.0 - low))]
    facts = []
    if goal.steps_away is not None:
        facts.append(f"the goal is {_steps(goal.steps_away)} beyond your best")
    left = None if seen.remaining is None else seen.remaining.median
    if left is not None:
        facts.append("1 run is left" if round(left) == 1 else f"{left:.0f} runs are left")
    if goal.if_doubled is not None and left is not None:
        facts.append(
            f"doubling them raises the chance from {percent(goal.chance)} to "
            f"{percent(goal.if_doubled)}"
        )
    if facts:
        text = "; ".join(facts)
        told.append(f"{text[0].upper()}{text[1:]}.")
    told += [f"{caution[0].upper()}{caution[1:]}." for caution in seen.cautions]
    return " ".join([*told, paper_words(seen)])


def proposal(change: Alternative) -> str:
    """Return an alternative with the chance under it.

    >>> proposal(Alternative("more_runs", "run 20 more, 80 in all", 0.38))
    'run 20 more, 80 in all: the chance would be 38 %'
    """
    if change.chance is None:
        return change.text
    return f"{change.text}: the chance would be {percent(change.chance)}"


def paper_words(seen: Forecast) -> str:
    """Return what the paper's rule says beside it."""
    says = {
        True: "a miss",
        False: "no miss",
        None: "nothing, since what is pending or what is left cannot be counted",
    }[seen.paper.is_miss]
    return f"The paper's rule, which is not calibrated, says {says}."


def span(seconds: float) -> str:
    """Return a time span in its two largest units.

    >>> span(45), span(600), span(5400), span(93_600)
    ('45 s', '10 min', '1 h 30 min', '1 d 2 h')
    """
    left, told = max(1, round(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        n, left = divmod(left, size)
        if n:
            told.append(f"{n} {unit}")
    return " ".join(told[:2])


def _steps(steps: float) -> str:
    rounded = float(f"{steps:.2g}")
    told = f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"  # never 1.1e+02
    return "1 step" if told == "1" else f"{told} steps"

"""Chances as people read them: from when on they have a word, and how they are written.

One place for warnings, the forecast in words, what-if and the command line.
"""

LIKELY, VERY_LIKELY, ON_TRACK = 0.7, 0.9, 0.3
"""Probabilities of a miss from which on, or up to which, a verdict is given; between the first and
the last there are numbers only."""

_SHARES = (
    (1, 20), (1, 10), (1, 5), (1, 4), (3, 10),
    (7, 10), (3, 4), (4, 5), (5, 6), (9, 10), (19, 20),
)  # fmt: skip


def percent(chance: float) -> str:
    """Return a chance in whole percent; neither 0 nor 100 is told of what may still go either way.

    >>> percent(0.254), percent(0.0), percent(0.004), percent(0.999)
    ('25 %', 'below 1 %', 'below 1 %', 'above 99 %')
    """
    if chance < 0.01:
        return "below 1 %"
    return "above 99 %" if chance > 0.99 else f"{chance:.0%}".replace("%", " %")


def band_words(band: tuple[float, float]) -> str:
    """Return a band of chances.

    >>> band_words((0.11, 0.48)), band_words((0.004, 0.02)), band_words((0.999, 1.0))
    ('11 to 48 %', 'below 1 to 2 %', 'above 99 %')
    """
    low, high = sorted(band)
    if percent(low) == percent(high):
        return percent(low)
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def about(share: float) -> str:
    """Return a share of at most 0.3, or at least 0.7, as people say it.

    >>> about(0.25), about(0.75), about(0.9), about(0.985), about(0.01)
    ('about 1 in 4', 'about 3 in 4', 'about 9 in 10', 'nearly all', 'hardly any')
    """
    if share > 0.975 or share < 0.025:
        return "nearly all" if share > 0.5 else "hardly any"
    of, n = min(_SHARES, key=lambda pair: abs(pair[0] / pair[1] - share))
    return f"about {of} in {n}"

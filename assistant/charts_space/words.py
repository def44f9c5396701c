"""What the charts of a space say alike."""

from typing import Literal

Dark = Literal["low", "high"]
"""Which values are drawn dark: those that are better."""


def better(title: str, what: str = "better") -> str:
    """Return the title of a legend of values."""
    return f"{title} (dark is {what})"

"""Exclusions: conditions on the values that no proposed configuration may meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strategies.errors import ExclusionError, hint
from strategies.expression import check_families, evaluate, parse_expression
from strategies.parameter import Family, Level


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A condition such as ``small_procs == 0 and max_requested_s < 86400``.

    Args:
        text: the condition (see `strategies.expression` for the whitelist).
    Raises `ExclusionError` if it cannot be read.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ExclusionError(f"an exclusion is {self.text!r}; write it as a text.")
        object.__setattr__(self, "text", self.text.strip())
        parse_expression(self.text)

    @classmethod
    def parse(cls, text: str) -> Exclusion:
        """Read an exclusion; the same as calling the class."""
        return cls(text)

    @property
    def names(self) -> frozenset[str]:
        """Names of the parameters in the condition."""
        return parse_expression(self.text).names

    def check(self, families: Mapping[str, Family]) -> None:
        """Hold the condition against a space's parameters and their type families.

        Raises `ExclusionError` for an unknown name or a comparison across families.
        """
        for name in sorted(self.names):
            if name not in families:
                raise ExclusionError(
                    f"exclusion '{self.text}' names '{name}', which is no parameter"
                    + hint(name, families)
                )
        check_families(parse_expression(self.text), families)

    def excludes(self, values: Mapping[str, Level]) -> bool:
        """Return whether a configuration with these values is excluded.

        Raises `ExclusionError`, naming the configuration, if that cannot be evaluated.
        """
        return evaluate(parse_expression(self.text), values)

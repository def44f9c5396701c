"""What the parts of a space must be: names that differ, pairs that name levels."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.errors import SpaceError, UnknownParameterError, hint
from strategies.parameter import Parameter

MAX_PARAMETERS = 1_000


def check_names(parameters: Sequence[Parameter]) -> None:
    """Raise `SpaceError` unless there are parameters, not too many, with distinct names."""
    if not parameters:
        raise SpaceError("a space has no parameters; give at least one.")
    if len(parameters) > MAX_PARAMETERS:
        raise SpaceError(
            f"a space has {len(parameters):,} parameters; at most {MAX_PARAMETERS:,} can be told "
            "apart by any search."
        )
    seen: set[str] = set()
    for parameter in parameters:
        if parameter.name in seen:
            raise SpaceError(f"two parameters are named '{parameter.name}'; names must differ.")
        seen.add(parameter.name)


def check_pairs(
    parameters: Sequence[Parameter], pairs: frozenset[tuple[str, int]], verb: str
) -> None:
    """Raise `SpaceError` for a (name, level id) that is no level; ``verb`` says what was wanted."""
    n_levels = {p.name: p.n_levels for p in parameters}
    for name, level_id in sorted(pairs):
        if name not in n_levels:
            raise UnknownParameterError(f"no parameter '{name}' to {verb}" + hint(name, n_levels))
        if not 0 <= level_id < n_levels[name]:
            raise SpaceError(
                f"parameter '{name}' has no level id {level_id} to {verb}; allowed are 0 to "
                f"{n_levels[name] - 1}."
            )


def check_closed(parameters: Sequence[Parameter], closed: frozenset[tuple[str, int]]) -> None:
    """Raise `SpaceError` for a pair that is no level, or a parameter without an open one."""
    check_pairs(parameters, closed, "close")
    n_open = {p.name: p.n_levels for p in parameters}
    for name, _ in closed:
        n_open[name] -= 1
    for name, n in n_open.items():
        if n == 0:
            raise SpaceError(
                f"all levels of parameter '{name}' would be closed; leave at least one open."
            )

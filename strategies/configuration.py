"""A configuration: one level for every parameter of a space."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """One level id per parameter, in the space's order, and the lineage of that space.

    Plain and cheap on purpose: the space that is asked about it checks it. Ids are
    append-only, so equality and hash survive every edit of the space.
    """

    level_ids: tuple[int, ...]
    lineage: str

"""Files of Bergsma et al. by the name of one: the map of flavours and the lifetimes beside it."""

import gzip
import re
from pathlib import Path

from sim.errors import TraceError
from sim.model.batches import CloudTrace
from sim.traces.bergsma import read_bergsma, read_flavours

MAP = "flav_map.txt"
_FIRST_LINE = re.compile(rb"\d+ [^,|\s]+,[^\n]*\|")
_BEGIN_BYTES = 65_536


def is_bergsma(path: Path) -> bool:
    """Tell whether a file looks like batches of flavours as the authors write them."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as text:
            return _FIRST_LINE.match(text.read(_BEGIN_BYTES)) is not None
    except (OSError, EOFError):
        return False


def read_beside(path: Path) -> CloudTrace:
    """Read batches of flavours, with the map and the lifetimes that lie beside them.

    The map is `MAP`; the lifetimes of ``v1.dev.txt.gz`` are the only ``v1.dev.c*.txt.gz``, and are
    unknown if there is none.

    Raises:
        TraceError: there is no map, there are several files of lifetimes, or one cannot be read.
    """
    name = path.name.removesuffix(".gz").removesuffix(".txt")
    there = path.parent / MAP
    if not there.exists():
        raise TraceError(path, expected=f"the map of its flavours, {MAP}, must lie beside it.")
    lives = sorted(
        one for ending in (".txt", ".txt.gz") for one in path.parent.glob(f"{name}.c*{ending}")
    )
    if len(lives) > 1:
        told = " and ".join(one.name for one in lives)
        raise TraceError(path, expected=f"one file of lifetimes lies beside it, not {told}.")
    return read_bergsma(path, read_flavours(there), lives[0] if lives else None)

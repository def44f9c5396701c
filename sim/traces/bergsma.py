"""The text files of Bergsma et al.: batches of flavours, and beside them bins of lifetimes.

One line per period with arrivals: seconds since the clock's zero, a space, and tokens separated by
commas. A token is a flavour (a letter) or ``|``, which ends a batch. The file of lifetimes has the
same shape with ``U7`` (ended in bin 7) and ``C40`` (seen last in bin 40) in the place of flavours.
A map says ``4,14 h`` for each flavour: cores, gigabytes (2**30 bytes) and letter.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim.errors import TraceError
from sim.model.batches import UNKNOWN, CloudTrace, Flavour
from sim.model.bins import PAPER
from sim.traces.swf_bytes import read_bytes

PERIOD_S = 300
GIB = 2**30
_LIFETIME = re.compile(r"([UC])(\d{1,3})", re.ASCII)
_END = "|"


def read_flavours(path: Path) -> tuple[Flavour, ...]:
    """Read a map of flavours.

    Raises:
        TraceError: a line is not ``cores,gigabytes letter``, or a letter occurs twice.
    """
    found: list[Flavour] = []
    for number, line in _lines(path):
        request, _, name = line.partition(" ")
        cores, _, gigabytes = request.partition(",")
        try:
            told = Flavour(name.strip(), round(float(cores) * 1000), round(float(gigabytes) * GIB))
        except (ValueError, OverflowError):
            told = Flavour("", 0)
        if not told.name or told.mcpu <= 0 or told.name in {one.name for one in found}:
            expected = "a line is 'cores,gigabytes name', such as '4,14 k', and a name occurs once."
            raise TraceError(path, line=number, field="flavour", value=line, expected=expected)
        found.append(told)
    return tuple(found)


def read_bergsma(
    path: Path, flavours: tuple[Flavour, ...], lifetimes: Path | None = None
) -> CloudTrace:
    """Read a trace of batches.

    The window is from the first period with arrivals to the last.

    Args:
        path: of the flavours, also gzipped.
        flavours: see `read_flavours`.
        lifetimes: file of the lifetimes; None leaves them unknown.

    Raises:
        TraceError: either file has another form, or they do not tell of the same jobs.
    """
    known = {one.name: index for index, one in enumerate(flavours)}
    periods: list[int] = []
    sizes: list[int] = []
    codes: list[int] = []
    in_line: list[int] = []
    for number, at_s, batches in _periods(path):
        if periods and at_s // PERIOD_S <= periods[-1]:
            expected = "periods rise from line to line."
            raise TraceError(path, line=number, field="period", value=str(at_s), expected=expected)
        for batch in batches:
            try:
                codes.extend([known[name] for name in batch])
            except KeyError as error:
                expected = f"known flavours are {', '.join(known)}."
                raise TraceError(
                    path, line=number, field="flavour", value=str(error.args[0]), expected=expected
                ) from None
        periods.append(at_s // PERIOD_S)
        sizes.extend([len(batch) for batch in batches])
        in_line.append(len(batches))
    if not codes:
        raise TraceError(path, expected="there are no jobs in it.")
    n = len(codes)
    trace = CloudTrace(
        period=np.repeat(np.repeat(periods, in_line), sizes),
        batch=np.repeat(np.arange(len(sizes)), sizes),
        flavour=np.array(codes, dtype=np.int64),
        lifetime=np.full(n, UNKNOWN, dtype=np.int64),
        censored=np.zeros(n, dtype=np.int64),
        flavours=flavours,
        first_period=periods[0],
        n_periods=periods[-1] - periods[0] + 1,
        period_s=float(PERIOD_S),
    )
    return trace if lifetimes is None else _with_lifetimes(trace, lifetimes, periods, sizes)


def _with_lifetimes(
    trace: CloudTrace, path: Path, periods: list[int], sizes: list[int]
) -> CloudTrace:
    cache: dict[str, tuple[int, int]] = {}
    bins: list[int] = []
    censored: list[int] = []
    found: list[int] = []
    seen: list[int] = []
    for number, at_s, batches in _periods(path):
        for batch in batches:
            for token in batch:
                if token not in cache:
                    match = _LIFETIME.fullmatch(token)
                    if match is None or int(match[2]) >= PAPER.n:
                        expected = f"lifetimes are U or C and a bin from 0 to {PAPER.n - 1}."
                        raise TraceError(
                            path, line=number, field="lifetime", value=token, expected=expected
                        )
                    cache[token] = int(match[2]), int(match[1] == "C")
                one = cache[token]
                bins.append(one[0])
                censored.append(one[1])
        seen.append(at_s // PERIOD_S)
        found.extend([len(batch) for batch in batches])
    if seen != periods or found != sizes:
        raise TraceError(path, expected="its periods and batches are not those of the flavours.")
    return replace(
        trace,
        lifetime=np.array(bins, dtype=np.int64),
        censored=np.array(censored, dtype=np.int64),
    )


def write_bergsma(trace: CloudTrace, path: Path, lifetimes: Path | None = None) -> None:
    """Write a trace of batches, gzipped if the name ends in .gz; and its lifetimes, if asked for.

    Raises:
        TraceError: lifetimes are asked for and unknown, or a name of a flavour cannot be told from
            the signs of the format.
    """
    names = [one.name for one in trace.flavours]
    for name in names:
        if not name or set(name) & set(" ,|\n\r"):
            raise TraceError(path, field="flavour", value=name, expected="it cannot be written.")
    _write(trace, path, np.array(names)[trace.flavour])
    if lifetimes is not None:
        if not trace.knows_lifetimes:
            raise TraceError(lifetimes, expected="the lifetimes of this trace are unknown.")
        kinds = np.where(trace.censored == 1, "C", "U")
        _write(trace, lifetimes, np.char.add(kinds, trace.lifetime.astype(str)))


def _write(trace: CloudTrace, path: Path, tokens: np.ndarray) -> None:
    ends = np.append(trace.first_in_batch[1:], True)
    packed = path.suffix == ".gz"
    with gzip.open(path, "wt") if packed else path.open("w", encoding="utf-8") as file:
        steps = np.flatnonzero(np.diff(trace.period)) + 1
        for first, stop in zip([0, *steps], [*steps, trace.n_jobs], strict=True):
            told: list[str] = []
            for token, end in zip(tokens[first:stop], ends[first:stop], strict=True):
                told.append(str(token))
                if end:
                    told.append(_END)
            at_s = int(trace.period[first]) * PERIOD_S
            file.write(f"{at_s} {','.join(told)}\n")


def _periods(path: Path) -> Iterator[tuple[int, int, list[list[str]]]]:
    """Yield number of the line, seconds, and the batches of each period as lists of tokens."""
    for number, line in _lines(path):
        clock, _, rest = line.partition(" ")
        batches = [batch.strip(",").split(",") for batch in rest.split(_END)]
        if batches and batches[-1] == [""]:
            batches.pop()
        is_time = clock.isascii() and clock.isdigit() and int(clock) % PERIOD_S == 0
        if not is_time or not batches or any("" in batch for batch in batches):
            expected = (
                f"a line is seconds (a multiple of {PERIOD_S}), a space, and tokens separated by "
                "commas, with '|' behind each batch."
            )
            raise TraceError(path, line=number, field="period", value=line[:60], expected=expected)
        yield number, int(clock), batches


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    text = read_bytes(path).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line.strip()

"""Files of traces of batches in the format that `sim.formats.vm_trace.read_bergsma` reads."""

import gzip
from pathlib import Path

import numpy as np

from sim.formats.vm_trace import BATCH_END, PERIOD_S
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import TraceError


def write_bergsma(trace: CloudTrace, path: Path, lifetimes: Path | None = None) -> None:
    """Write a Bergsma trace of batches and optionally its lifetimes, gzipped for ``.gz``.

    Raises:
        TraceError: lifetimes are requested and unknown, or the name of a flavour contains
            separators.
    """
    names = [flavour.name for flavour in trace.flavours]
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
            line_tokens: list[str] = []
            for token, end in zip(tokens[first:stop], ends[first:stop], strict=True):
                line_tokens.append(str(token))
                if end:
                    line_tokens.append(BATCH_END)
            at_s = int(trace.period[first]) * PERIOD_S
            file.write(f"{at_s} {','.join(line_tokens)}\n")

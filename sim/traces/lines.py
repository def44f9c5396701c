"""The lines of a text file, plain or gzip, one at a time: for files that no memory need hold.

What is no text, or has no end, is refused as soon as that shows.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from sim.errors import TraceError
from sim.traces.swf_bytes import (
    LONGEST_LINE_BYTES,
    MOST_LINES,
    MOST_RATIO,
    RATIO_FROM_BYTES,
    check_kind,
    size_of,
)

MOST_STREAMED_BYTES = 2**33
_GZIP = b"\x1f\x8b"


def lines_of(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of every line that is not empty.

    Args:
        path: the file; compression is recognised by content.
        what: one such file, for messages, such as "an SWF log".

    Raises:
        TraceError: no ordinary file, broken, binary, another archive, or more than `MOST_LINES`,
            `LONGEST_LINE_BYTES`, `MOST_STREAMED_BYTES` or `MOST_RATIO`.
    """
    size = size_of(path, what)
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            text = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            yield from _lines(path, what, text, size if packed else None)
    except (OSError, EOFError, zlib.error) as error:
        how = "the compressed file is broken" if packed else "it cannot be read"
        raise TraceError(path, expected=f"{how} ({error}); fetch it again.") from None


def _lines(
    path: Path, what: str, text: IO[bytes], packed_bytes: int | None
) -> Iterator[tuple[int, bytes]]:
    most = MOST_STREAMED_BYTES
    if packed_bytes is not None:
        most = min(most, max(RATIO_FROM_BYTES, MOST_RATIO * packed_bytes))
    n_bytes, number = 0, 0
    while line := text.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        n_bytes += len(line)
        if number == 1:
            check_kind(path, line, what)
        if b"\0" in line:
            raise TraceError(path, line=number, expected=f"this is a binary file; {what} is text.")
        if len(line) > LONGEST_LINE_BYTES:
            expected = (
                f"this line is longer than {LONGEST_LINE_BYTES:,} bytes; {what} has none such."
            )
            raise TraceError(path, line=number, expected=expected)
        if n_bytes > most or number > MOST_LINES:
            expected = (
                f"there is more text than is read ({most:,} bytes, for a compressed file "
                f"{MOST_RATIO} times its size, and {MOST_LINES:,} lines); give a part of it."
            )
            raise TraceError(path, line=number, expected=expected)
        if not line.isspace():
            yield number, line

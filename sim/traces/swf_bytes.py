"""The bytes of a log, plain or gzip; what is no log, or too much of one, is refused on the way.

The first pass keeps nothing but counts, so that a file of any size, and whatever a compressed file
unpacks to, is refused in the memory of one chunk; only then is the log read.
"""

import gzip
import stat
import zlib
from pathlib import Path
from typing import IO, cast

from sim.errors import TraceError

MOST_BYTES = 2**30
"""Of text, unpacked: ten times the largest log of the Parallel Workloads Archive that we know."""

MOST_LINES = 5_000_000
LONGEST_LINE_BYTES = 2**20
MOST_RATIO = 100
"""Unpacked to packed, from `RATIO_FROM_BYTES` on: logs shrink to between a fourth and a tenth."""

RATIO_FROM_BYTES = 2**24
_CHUNK_BYTES = 2**20
_GZIP = b"\x1f\x8b"
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\0": "compressed by xz",
    b"(\xb5/\xfd": "compressed by zstd",
    b"7z\xbc\xaf": "a 7z archive",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TAR_AT, _TAR = 257, b"ustar"


def read_bytes(path: Path) -> bytes:
    """Return the text of a log as bytes, unpacked if it is gzip (recognised by content).

    Raises:
        TraceError: no ordinary file, not to be read, a broken or another archive, a binary file,
            or more than `MOST_BYTES`, `MOST_LINES`, `LONGEST_LINE_BYTES` or `MOST_RATIO`.
    """
    size = size_of(path)
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if path.suffix == ".gz" and not packed:
                expected = "the name ends in .gz but this is not gzip; rename it."
                raise TraceError(path, expected=expected)
            # GzipFile reads like any binary file, and says so only to those who know it.
            text = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            n_bytes = _counted(path, text, size if packed else None)
            text.seek(0)
            return text.read(n_bytes)
    except (OSError, EOFError, zlib.error) as error:
        what = "the compressed file is broken" if path.suffix == ".gz" else "it cannot be read"
        raise TraceError(path, expected=f"{what} ({error}); fetch it again.") from None


def size_of(path: Path, what: str = "an SWF log") -> int:
    """Return the size of a file. Raises TraceError if it is none, or one without an end."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL is in no name
        expected = f"there is no such file; give the path of {what}."
        raise TraceError(path, expected=expected) from None
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be read ({error.strerror}).") from None
    if stat.S_ISDIR(found.st_mode):
        raise TraceError(path, expected=f"this is a folder; give the path of {what}.")
    if not stat.S_ISREG(found.st_mode):
        raise TraceError(
            path, expected="this is no ordinary file; write the log into one and give its path."
        )
    return found.st_size


def _counted(path: Path, text: IO[bytes], packed_bytes: int | None) -> int:
    """Return how many bytes there are. Raises TraceError as soon as it is clear that it is no log.

    Args:
        path: the file, for messages.
        text: what is in it, unpacked.
        packed_bytes: its size if it is compressed.
    """
    n_bytes, line, line_bytes = 0, 1, 0
    while chunk := text.read(_CHUNK_BYTES):
        if n_bytes == 0:
            check_kind(path, chunk)
        if b"\0" in chunk:
            raise TraceError(path, expected="this is a binary file; an SWF log is text.")
        n_bytes += len(chunk)
        if packed_bytes and n_bytes > max(RATIO_FROM_BYTES, MOST_RATIO * packed_bytes):
            expected = (
                f"it unpacks to more than {MOST_RATIO} times its size, as no log does; unpack it "
                "yourself, look at it, and give the path of the text."
            )
            raise TraceError(path, expected=expected)
        if n_bytes > MOST_BYTES:
            expected = f"at most {MOST_BYTES:,} bytes of text are read; give a part of the log."
            raise TraceError(path, expected=expected)
        n_ends = chunk.count(b"\n")
        # A line that is too long within one chunk shows at its first end, or is cut by the next.
        if line_bytes + (chunk.find(b"\n") if n_ends else len(chunk)) > LONGEST_LINE_BYTES:
            most = f"{LONGEST_LINE_BYTES:,} bytes"
            expected = f"this line is longer than {most}; an SWF log has one short line per job."
            raise TraceError(path, line=line, expected=expected)
        line += n_ends
        line_bytes = len(chunk) - chunk.rfind(b"\n") - 1 if n_ends else line_bytes + len(chunk)
        if line > MOST_LINES:
            expected = f"at most {MOST_LINES:,} lines are read; give a part of the log."
            raise TraceError(path, line=MOST_LINES + 1, expected=expected)
    return n_bytes


def check_kind(path: Path, head: bytes, what: str = "an SWF log") -> None:
    """Raise TraceError for a file that is known to be something else than text."""
    if head.startswith(_UTF_16):
        raise TraceError(
            path, expected="this is text in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)."
        )
    kind = next((what for mark, what in _ARCHIVES.items() if head.startswith(mark)), None)
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        kind = "a tar archive"
    if kind is not None:
        expected = f"this is {kind}; unpack it yourself and give the path of {what}."
        raise TraceError(path, expected=expected)

"""Text files that a user names: of ordinary kind and size, or refused in one sentence."""

import stat
from pathlib import Path

from assistant.errors import SettingsError

MOST_BYTES = 2**26
"""Of a file that is read whole; sweep files and results are far smaller."""


def read_text(path: Path, what: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Args:
        path: the file.
        what: names it in sentences, such as ``the sweep file``.

    Raises:
        SettingsError: no ordinary file (a device or a pipe may have no end), too large, or not to
            be read.
        UnicodeDecodeError: the caller says what was wanted instead.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise SettingsError(f"cannot read {what} '{shown(path)}': it is no ordinary file")
        if found.st_size > MOST_BYTES:
            raise SettingsError(
                f"cannot read {what} '{shown(path)}': it has {found.st_size:,} bytes, and at most "
                f"{MOST_BYTES:,} are read"
            )
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"cannot read {what} '{shown(path)}': {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        raise SettingsError(f"cannot read {what} '{shown(path)}': no file has that name") from error


def is_file(path: Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def is_folder(path: Path) -> bool:
    """Return whether there is such a folder; a name that no folder can have is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_there(path: Path) -> bool:
    """Return whether anything has that name; what no file can be called is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def shown(path: Path | str, longest: int = 200) -> str:
    """Return a path for a message: of one line, and its end if it is long."""
    line = "".join(c if c.isprintable() else "?" for c in str(path))
    return line if len(line) <= longest else f"...{line[-longest:]}"

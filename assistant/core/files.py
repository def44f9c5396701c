"""Files: read text files that a user names, and read and write private files with secrets.

A file of the wrong kind, size or owner is refused with a one-sentence error.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from assistant.core.errors import ServiceError, SettingsError
from sim.model.files import DRAFT_PREFIX, atomic_file, write_atomically

__all__ = [
    "DRAFT_PREFIX", "MAX_BYTES", "MOST_BYTES", "PRIVATE", "atomic_file", "is_file", "is_folder",
    "is_there", "open_private", "path_beside", "printable_path", "read_private", "read_text",
    "replace_private", "write_atomically", "write_new_private",
]  # fmt: skip

MOST_BYTES = 2**26  # Largest text file that is read; sweep files and results are far smaller


def read_text(path: Path, label: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark; ``label`` names it in errors.

    Raises:
        SettingsError: no ordinary file (a device or a pipe may have no end), too large, or
            unreadable.
        UnicodeDecodeError: no UTF-8; the caller explains which format it expected.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise SettingsError(
                f"cannot read {label} '{printable_path(path)}': it is not an ordinary file"
            )
        if status.st_size > MOST_BYTES:
            raise SettingsError(
                f"cannot read {label} '{printable_path(path)}': it has {status.st_size:,} bytes, "
                f"and at most {MOST_BYTES:,} are read"
            )
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(
            f"cannot read {label} '{printable_path(path)}': {error.strerror}"
        ) from error
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        raise SettingsError(
            f"cannot read {label} '{printable_path(path)}': no file has that name"
        ) from error


def is_file(path: Path) -> bool:
    """Return whether the path is a file; False also for an invalid path name."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder; False also for an invalid path name."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_there(path: Path) -> bool:
    """Return whether the path exists; False also for an invalid path name."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def printable_path(path: Path | str, longest: int = 200) -> str:
    """Return a path as one line of text, shortened at its start if over ``longest`` long."""
    line = "".join(c if c.isprintable() else "?" for c in str(path))
    return line if len(line) <= longest else f"...{line[-longest:]}"


MAX_BYTES = 64 * 1024
PRIVATE = 0o600


def path_beside(store: Path, ending: str) -> Path:
    """Return the path ``<store>.<ending>`` next to the store file, with links resolved."""
    real = store.resolve()
    return real.with_name(f"{real.name}.{ending}")


def open_private(path: Path) -> BinaryIO:
    """Open a file to append to it; a new one is readable for its owner alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, PRIVATE), "ab")


def read_private(path: Path, most_bytes: int = MAX_BYTES) -> bytes | None:
    """Return the content of a file that only its owner may read; None if there is none.

    Raises ServiceError: it is a link or no plain file, is another user's, may be read by others, or
    is longer than ``most_bytes``.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ServiceError(
                f"'{path}' is a symbolic link; replace it with the file itself"
            ) from error
        raise ServiceError(f"cannot read '{path}': {error.strerror}") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise ServiceError(f"'{path}' is not a plain file; move it away")
    with os.fdopen(descriptor, "rb") as file:
        if about.st_uid != os.geteuid() != 0:
            raise ServiceError(f"'{path}' belongs to another user; move it, or run as that user")
        if about.st_mode & 0o077:
            raise ServiceError(
                f"'{path}' can be read by others (mode {stat.S_IMODE(about.st_mode):04o}), but "
                f"holds a secret; if no other user has read it: chmod 600 '{path}'; else delete it"
            )
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ServiceError(f"'{path}' is longer than {most_bytes} bytes: not a Copperline file")
    return content


def write_new_private(path: Path, content: bytes) -> bool:
    """Create a private file atomically, return False if it exists, or raise ServiceError."""
    try:
        write_atomically(path, content, raises=ServiceError, private=True, overwrite=False)
    except FileExistsError:
        return False
    return True


def replace_private(path: Path, content: bytes) -> None:
    """Write or replace a private file atomically, or raise ServiceError."""
    write_atomically(path, content, raises=ServiceError, private=True)

"""Text files that a user names: of ordinary kind and size, or refused in one sentence.

Files that only their owner may read: the tokens, and where a service is reached.
"""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from assistant.core.errors import ServiceError, SettingsError

MOST_BYTES = 2**26
"""Of a file that is read whole; sweep files and results are far smaller."""


def read_text(path: Path, label: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Args:
        path: the file.
        label: names it in sentences, such as ``the sweep file``.

    Raises:
        SettingsError: no ordinary file (a device or a pipe may have no end), too large, or not to
            be read.
        UnicodeDecodeError: the caller says what was wanted instead.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise SettingsError(
                f"cannot read {label} '{printable_path(path)}': it is no ordinary file"
            )
        if status.st_size > MOST_BYTES:
            raise SettingsError(
                f"cannot read {label} '{printable_path(path)}': it has {status.st_size:,} bytes, and at most "
                f"{MOST_BYTES:,} are read"
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


def printable_path(path: Path | str, longest: int = 200) -> str:
    """Return a path for a message: of one line, and its end if it is long."""
    line = "".join(c if c.isprintable() else "?" for c in str(path))
    return line if len(line) <= longest else f"...{line[-longest:]}"


MAX_BYTES = 64 * 1024
PRIVATE = 0o600


def path_beside(store: Path, ending: str) -> Path:
    """Return the file beside a store, wherever links lead to: ``<store>.<ending>``."""
    real = store.resolve()
    return real.with_name(f"{real.name}.{ending}")


def read_private(path: Path, most_bytes: int = MAX_BYTES) -> bytes | None:
    """Return what a private file holds, None if there is none.

    Raises:
        ServiceError: it is a link or no plain file, is another user's, may be read by others, or
            is longer than ``most_bytes``.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not hang us
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ServiceError(
                f"'{path}' is a symbolic link, and may lead anywhere; put the file itself there"
            ) from error
        raise ServiceError(f"cannot read '{path}': {error.strerror}") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise ServiceError(f"'{path}' is no plain file; move it away")
    with os.fdopen(descriptor, "rb") as file:
        if about.st_uid != os.geteuid() != 0:
            raise ServiceError(f"'{path}' belongs to another user; move it away, or be that user")
        if about.st_mode & 0o077:
            raise ServiceError(
                f"'{path}' may be read by others (mode {stat.S_IMODE(about.st_mode):04o}), and "
                f"holds a secret; if nobody has read it: chmod 600 '{path}'; else delete it"
            )
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ServiceError(f"'{path}' is longer than {most_bytes} bytes: not a file of ours")
    return content


def write_new_private(path: Path, content: bytes) -> bool:
    """Make a private file, whole or not at all; return False if there is one already.

    Raises:
        ServiceError: it cannot be written.
    """
    draft = _draft(path, content)
    try:
        path.hardlink_to(draft)  # unlike a rename, it never replaces what is there
    except FileExistsError:
        return False
    except OSError as error:
        raise ServiceError(f"cannot write '{path}': {error.strerror}") from error
    finally:
        draft.unlink()
    return True


def replace_private(path: Path, content: bytes) -> None:
    """Make a private file, or put it in the place of the one that is there, in one step.

    Raises:
        ServiceError: it cannot be written.
    """
    draft = _draft(path, content)
    try:
        draft.replace(path)
    except OSError as error:
        draft.unlink()
        raise ServiceError(f"cannot write '{path}': {error.strerror}") from error


def rewrite_private(path: Path, content: bytes) -> None:
    """Replace a private file, and return once that would survive a loss of power.

    Raises:
        ServiceError: it cannot be written; what was there is there still.
    """
    draft = _draft(path, content)
    try:
        _synced(draft)
        draft.replace(path)
        _synced(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ServiceError(f"cannot write '{path}': {error.strerror}") from error


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft(path: Path, content: bytes) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(draft, flags, PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise ServiceError(f"cannot write '{path}': {error.strerror}") from error
    return draft

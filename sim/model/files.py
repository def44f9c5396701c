"""Atomic files: a file appears complete under its name, or stays as it was.

The only atomic writer of Copperline. It lives in the lowest layer of `sim`, because `sim` may not
import `assistant`; `assistant.core.files` passes it on to the packages above.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sim.model.errors import path_text

DRAFT_PREFIX = ".part-"
"""Prefix of the temporary files, which stay only after the process was killed."""

_KEPT_CHARACTERS = 50  # of the name, at its end: some formats are chosen by the ending


@contextmanager
def atomic_file(
    path: Path,
    *,
    raises: Callable[[str], Exception],
    private: bool = False,
    parents: bool = False,
    overwrite: bool = True,
    sync: bool = True,
) -> Iterator[Path]:
    """Yield the path of an empty temporary file in the same folder, and rename it at the end.

    When the block ends, the temporary file is synced to the disk and replaces ``path``. After any
    error it is removed, and ``path`` is as before. The name ends like that of ``path``. A file
    that is replaced keeps its permissions, a new one gets the usual ones of the process.

    Args:
        path: file to write; a symbolic link is replaced, not followed.
        raises: makes the error to raise from one sentence; for an OSError or ValueError here or in
            the block, which should only write.
        private: make the file readable for its owner alone, whatever was there before.
        parents: create missing folders.
        overwrite: whether an existing file may be replaced; if not, it raises FileExistsError.
        sync: wait until file and folder are on the disk; False only for what can be computed again.

    Raises:
        FileExistsError: ``overwrite`` is False and the file exists.
    """
    draft: Path | None = None
    try:
        try:
            if parents:
                path.parent.mkdir(parents=True, exist_ok=True)
            draft = _new_draft(path, private=private)
            yield draft
            if sync:
                _sync(draft)
            if overwrite:
                draft.replace(path)
            elif not _linked(draft, path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            if sync:
                _sync_folder(path.parent)
        finally:
            if draft is not None:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        if not overwrite and isinstance(error, FileExistsError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise raises(f"cannot write '{path_text(str(path))}': {reason}") from error


def write_atomically(
    path: Path,
    content: bytes | str,
    *,
    raises: Callable[[str], Exception],
    private: bool = False,
    parents: bool = False,
    overwrite: bool = True,
    sync: bool = True,
) -> None:
    """Write a file as `atomic_file` does; text is written as UTF-8, line ends unchanged.

    Raises:
        FileExistsError: ``overwrite`` is False and the file exists.
    """
    with atomic_file(
        path, raises=raises, private=private, parents=parents, overwrite=overwrite, sync=sync
    ) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def _new_draft(path: Path, *, private: bool) -> Path:
    """Create the temporary file with the permissions that the file is to have."""
    mode = None if private else _existing_mode(path)
    name = f"{DRAFT_PREFIX}{secrets.token_hex(8)}-{path.name[-_KEPT_CHARACTERS:]}"
    draft = path.with_name(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600 if private else 0o666)
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return draft


def _existing_mode(path: Path) -> int | None:
    """Return the permissions of an ordinary file, or None if there is none.

    Raises OSError for a device or a pipe, such as /dev/stdout: a rename would remove it.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    return stat.S_IMODE(status.st_mode)


def _linked(draft: Path, path: Path) -> bool:
    """Give the file its name unless the name is taken; unlike a rename, a link never replaces."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, on file systems that can sync a folder."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise

"""Uploaded files, kept beside the store: what an experiment was made from stays where it says."""

import hashlib
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from assistant.errors import SettingsError

MOST_BYTES = 200 * 2**20
"""Of one upload; it is in memory while it is taken."""

_FOLDER = "uploads"
_DIGITS = 12
_LONGEST = 80
_NOT_CLEAN = re.compile(r"[^A-Za-z0-9._-]+")


def clean_name(name: str) -> str:
    """Return a name that is one file of the folder, whatever a browser says.

    >>> clean_name("../../etc/my log.swf.gz"), clean_name("ü.csv"), clean_name("..")
    ('my_log.swf.gz', 'file.csv', 'file')
    """
    last = re.split(r"[/\\]", name)[-1]
    clean = _NOT_CLEAN.sub("_", last).lstrip("_-")[-_LONGEST:].rstrip(".")
    return clean if clean and clean[0].isalnum() else f"file{clean.lstrip('_-')}"


def keep_upload(store: Path, name: str, data: bytes) -> Path:
    """Keep an upload beside the store, readable by its owner alone, and return where.

    The name begins with a digest of the content, so that the same file is kept once and no other
    one takes its place.

    Args:
        store: the file of the store.
        name: as the browser says it.
        data: the content.

    Raises:
        SettingsError: it is empty or too large, or cannot be written.
    """
    if not data:
        raise SettingsError(f"the uploaded file '{clean_name(name)}' is empty")
    if len(data) > MOST_BYTES:
        raise SettingsError(
            f"the uploaded file '{clean_name(name)}' has {len(data) / 2**20:,.0f} MB, and at most "
            f"{MOST_BYTES // 2**20} MB are taken; put it on this machine and name its path"
        )
    folder = store.absolute().parent / _FOLDER
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    path = folder / f"{digest}-{clean_name(name)}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.is_symlink() and path.is_file() and path.read_bytes() == data:
            return path
        descriptor, part = tempfile.mkstemp(prefix=".part-", dir=folder)  # 0600
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
            Path(part).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(part).unlink()
            raise
    except OSError as error:
        raise SettingsError(f"cannot keep the upload in '{folder}': {error.strerror}") from error
    return path

"""Files of a study: written whole or not at all."""

import os
from collections.abc import Sequence
from pathlib import Path

from assistant import AssistantError


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file under another name, then move it into its place.

    Raises:
        AssistantError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise AssistantError(f"cannot write '{path}': {error.strerror}") from error


def make_folder(path: Path) -> None:
    """Make a folder, if there is none.

    Raises:
        AssistantError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AssistantError(f"cannot make the folder '{path}': {error.strerror}") from error


def copy_files(names: Sequence[str], source: Path, into: Path) -> bool:
    """Copy files of a folder into another one, each whole, in this order.

    Returns:
        Whether all of them were there; those after one that is not are left out.

    Raises:
        AssistantError: one of them cannot be written.
    """
    for name in names:
        try:
            content = (source / name).read_bytes()
        except OSError:
            return False
        make_folder(into)
        write_whole(into / name, content)
    return True

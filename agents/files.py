"""Files of a study: written whole or not at all."""

import os
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

"""The file that a run of a program shall write its measures into."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from assistant.applications.child import KEPT_BYTES
from assistant.applications.measuring import from_json
from assistant.errors import RunError

_Mark = tuple[int, int, int, int]


class MeasuredFile:
    """The file that a run shall write: what lies there from before does not count.

    Its time is set back before the run, so that even an equal file, rewritten in the same
    instant, is known to be new.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with suppress(OSError):
            if stat.S_ISREG(path.stat().st_mode):
                os.utime(path, ns=(0, 0))
        self._before = self._seen = self._mark()

    def _mark(self) -> _Mark | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def news(self) -> object | None:
        """Return the value in the file if it was written since the last look, else None.

        None, too, while it cannot be read, as one that is being written.
        """
        mark = self._mark()
        if mark is None or mark in (self._before, self._seen):
            return None
        self._seen = mark
        try:
            return self.value()
        except RunError:
            return None

    def value(self) -> object:
        """Return the value in the file. Raises RunError if the run did not write one."""
        where = f"the file '{self._path}'"
        try:
            found = self._path.stat()
            if self._mark() == self._before:
                raise RunError(f"{where} was not written by this run; it is older")
            if not stat.S_ISREG(found.st_mode):
                raise RunError(f"{where} is no ordinary file")
            if found.st_size > KEPT_BYTES:
                raise RunError(
                    f"{where} is {found.st_size:,} bytes; at most {KEPT_BYTES:,} are read as JSON"
                )
            text = self._path.read_bytes().decode("utf-8-sig", "replace")
        except FileNotFoundError as error:
            raise RunError(f"the program did not write {where}") from error
        except (OSError, ValueError) as error:
            raise RunError(f"{where} cannot be read: {error}") from error
        return from_json(text, where)

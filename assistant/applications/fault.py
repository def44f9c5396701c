"""Why a program did not do what was wanted, in the words of whoever named it."""

import os
import shlex
import shutil
import signal
from pathlib import Path

from assistant.applications.child import Ended
from assistant.applications.measuring import last_lines
from assistant.files import is_file
from sim.api import format_duration


def why_missing(program: str, cwd: str, search: str) -> str | None:
    """Return why a program cannot be started; None if it can.

    Args:
        program: looked for on the path of programs, or in ``cwd`` if it holds a slash.
        cwd: the folder that it would run in.
        search: the path of programs (``PATH``).
    """
    if "/" not in program:
        if shutil.which(program, path=search) is None:
            here = is_file(Path(cwd) / program)
            hint = f"; did you mean './{program}'?" if here else ""
            return f"there is no program '{program}' on the PATH{hint}"
        return None
    path = Path(cwd) / program
    if not is_file(path):
        return f"there is no program '{program}' in the folder '{cwd}'"
    if not os.access(path, os.X_OK):
        return (
            f"the program '{program}' may not be executed; say chmod +x "
            f"{shlex.quote(str(path))}, or name what runs it, as in ['sh', '{program}', ...]"
        )
    return None


def last_words(ended: Ended) -> str:
    """Return the last lines that a program said, in one line; empty if it said nothing."""
    return last_lines(ended.stderr.text) or last_lines(ended.stdout.text)


def why_failed(ended: Ended, limit_s: float | None, hint: str = "") -> str | None:
    """Return why a program that was started failed, with its last words; None if it did not.

    Args:
        ended: how it ended.
        limit_s: that it was started with.
        hint: what else may be the reason; empty for nothing.
    """
    words = last_words(ended)
    said = f"; {hint}" * bool(hint)
    said += f"; its last words: {words}" if words else "; it said nothing"
    if ended.passed:
        return f"{ended.passed}{said}"
    if ended.overtime:
        return f"stopped at the limit of {format_duration(limit_s)}{said}"
    if ended.code < 0:
        return f"the program was ended by {_signal_name(-ended.code)}{said}"
    if ended.code > 0:
        return f"the program ended with exit code {ended.code}{said}"
    return None


def why_not_started(program: str, error: Exception) -> str:
    """Return why the system did not start a program."""
    if isinstance(error, OSError) and error.strerror == "Exec format error":
        return (
            f"the program '{program}' could not be started: it is neither a binary for this "
            "machine nor a script whose first line says what runs it, such as #!/bin/sh"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the program '{program}' could not be started: {reason}"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"

"""Words of a command that a shell runs as code, also behind programs that start other programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

SHELLS = frozenset(
    [
        "ash",
        "bash",
        "csh",
        "dash",
        "fish",
        "ksh",
        "ksh93",
        "mksh",
        "rbash",
        "sh",
        "tcsh",
        "yash",
        "zsh",
    ]
)
LAUNCHERS = frozenset(
    [
        "busybox",
        "chroot",
        "chrt",
        "command",
        "doas",
        "env",
        "exec",
        "ionice",
        "mpiexec",
        "mpirun",
        "nice",
        "nohup",
        "numactl",
        "prlimit",
        "runuser",
        "setpriv",
        "setsid",
        "srun",
        "stdbuf",
        "sudo",
        "systemd-run",
        "taskset",
        "time",
        "timeout",
        "unshare",
        "xargs",
    ]
)
"""Programs that start the program in their arguments."""


def code_words(words: Sequence[str]) -> frozenset[int]:
    """Return the indices of the words that a shell runs as code, or that ``env -S`` splits.

    >>> sorted(code_words(["sh", "-ec", "run $1", "sh", "{x}"]))
    [2]
    >>> sorted(code_words(["/usr/bin/env", "A=1", "bash", "-lc", "run {x}"]))
    [4]
    >>> sorted(code_words(["env", "-S", "sh -c", "run {x}"]))
    [2, 3]
    """
    code: set[int] = set()
    program = Path(words[0]).name
    origin = [(word, index) for index, word in enumerate(words)]
    if program == "env":
        origin = _expanded(origin, code)
    starts = range(len(origin)) if program in LAUNCHERS else range(1)
    for start in starts:
        if Path(origin[start][0]).name in SHELLS:
            code |= _script(origin, start + 1)
    return frozenset(code)


def _expanded(words: list[tuple[str, int]], code: set[int]) -> list[tuple[str, int]]:
    """Return the words of ``env`` with the text of ``-S`` split, and note that text."""
    for at in range(1, len(words)):
        word, index = words[at]
        text: str | None = None
        rest = words[at + 1 :]
        if word.startswith("--split-string"):
            text = word.partition("=")[2]
        elif word.startswith("-") and not word.startswith("--") and "S" in word:
            text = word.partition("S")[2]
        elif "=" not in word and not word.startswith("-"):
            return words  # the program
        if text is None:
            continue
        if not text and rest:
            (text, index), rest = rest[0], rest[1:]
        code.add(index)
        try:
            parts = shlex.split(text)
        except ValueError:  # env refuses it too
            parts = text.split()
        return [*words[:at], *((part, index) for part in parts), *rest]
    return words


def _script(words: list[tuple[str, int]], at: int) -> set[int]:
    """Return the index of the code of a shell whose arguments begin at ``at``, if it has any."""
    has_code, n_values = False, 0
    while at < len(words):
        word, index = words[at]
        at += 1
        if n_values:
            n_values -= 1
        elif word in ("--command", "--init-command"):
            return {words[at][1]} if at < len(words) else set()
        elif word.startswith(("--command=", "--init-command=")):
            return {index}
        elif word in ("--rcfile", "--init-file"):
            n_values = 1
        elif word == "--":
            return {words[at][1]} if has_code and at < len(words) else set()
        elif word.startswith("--"):
            continue
        elif len(word) > 1 and word[0] in "-+":
            has_code = has_code or (word[0] == "-" and "c" in word)
            n_values = sum(word.count(letter) for letter in "oO")
        else:
            return {index} if has_code else set()
    return set()

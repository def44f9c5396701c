"""Peer searches: Optuna's TPE and GPSampler, SMAC3, Nevergrad, BoTorch and Kernel Tuner.

Each is a child process. A peer needs no interpreter in common with ours, so what
clashes can live apart. See `benchmarks.peers.search_child` for what each is told.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.peers import PeerError
from benchmarks.peers.search_child import OPTIONS, PACKAGES

CHILD = Path(__file__).with_name("search_child.py")
NAMES = tuple(PACKAGES)


class PeerProcess:
    """A peer that answers; one serves many episodes, since importing takes seconds.

    Args:
        name: one of `NAMES`.
        python: its interpreter.

    Raises `PeerError` if its package is not there or the interpreter cannot be run.
    """

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the child's for as long as it lives
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        try:
            self._child = subprocess.Popen(
                [python, "-P", str(CHILD), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._words, text=True, env=environment,
            )  # fmt: skip
        except OSError as error:
            self._words.close()
            raise PeerError(
                f"the interpreter '{python}' of the peer '{name}' cannot be run: {error.strerror}; "
                f"name another with --python-of {name}=PATH."
            ) from None
        if self._child.stdin is None or self._child.stdout is None:
            raise PeerError(f"the peer '{name}' was started without pipes.")
        self._input, self._output = self._child.stdin, self._child.stdout
        told = self._answer()
        if "missing" in told:
            self.close()
            raise PeerError(
                f"the peer '{name}' cannot run in '{python}' ({told['missing']}): install "
                f"'copperline[bench]' there, or name another with --python-of {name}=PATH."
            )
        self.version: str = told["version"]

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Put one question; raises `PeerError` with the child's last words if it ends."""
        with contextlib.suppress(BrokenPipeError):  # then its last words say why
            self._input.write(json.dumps(question) + "\n")
            self._input.flush()
        return self._answer()

    def close(self) -> None:
        """End the child; it leaves when its input ends."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._child.wait()
        self._output.close()
        self._words.close()

    def _answer(self) -> dict[str, Any]:
        line = self._output.readline()
        if not line:
            self._child.wait()
            self._words.seek(0)
            last = self._words.read().strip().splitlines()[-1:]
            self.close()
            raise PeerError(
                f"the peer '{self.name}' ended without an answer; its last words: {''.join(last)}"
            )
        told: dict[str, Any] = json.loads(line)
        return told


def peer(name: str, python: str = sys.executable) -> PeerProcess:
    """Return this process's child for a peer, started on first use."""
    return _peer_of(os.getpid(), name, python)


@cache
def _peer_of(process: int, name: str, python: str) -> PeerProcess:  # noqa: ARG001
    """Return the child of a process; one that a fork has inherited is its parent's."""
    return PeerProcess(name, python)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise `PeerError` for an option that the peer does not have."""
    known: Sequence[str] = tuple(OPTIONS.get(name, {}))
    for option in options:
        if option not in known:
            raise PeerError(
                f"the peer '{name}' has no option '{option}'; it has {', '.join(known) or 'none'}."
            )

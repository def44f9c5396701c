"""Processes of a soak: forked from one warm parent, ended by their numbers, never by name."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from ctypes import CDLL
from pathlib import Path

from assistant.cli.main import run as command_line
from tests.faults.soak.board import Board

CLONE_NEWNS = 0x20000


def forked(act: Callable[[], object], output: Path) -> int:
    """Return the number of a new process that does one thing; it writes to a file, not to us."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        with output.open("ab", buffering=0) as file:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        act()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def serve(store: Path, port: int, board: Board) -> None:
    """Be ``copperline serve``, with a time of day that jumps as the board says."""
    true_s = time.time
    time.time = lambda: true_s() + board.jump_s
    arguments = ["serve", "--port", str(port), "--store", str(store), "--allow-programs"]
    code = command_line([*arguments, "--log-format", "json"])
    if code != 0:
        raise SystemExit(code)


def told_to(pid: int, number: signal.Signals) -> bool:
    """Signal a process that is ours; false if it has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """Yield the processes that carry our mark, besides this one, with what they are."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark.encode() in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
                yield int(folder.name), words


def memory_kib(pid: int) -> int:
    """Return how much memory a process has; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def refuse_growth(pid: int, beyond: int) -> None:
    """Let no file that a process writes grow beyond so many bytes, as a disk without room."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (beyond, hard))


def allow_growth(pid: int) -> None:
    """Take `refuse_growth` back."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def small_disk(folder: Path, mebibytes: int) -> bool:
    """Put a small file system of our own on a folder, which ends with us; false if we may not."""
    libc = CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNS) != 0:
        return False
    kind = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=700", "soak", str(folder)]
    steps = (["mount", "--make-rprivate", "/"], kind)
    ran = [subprocess.run(step, capture_output=True, check=False) for step in steps]
    return all(one.returncode == 0 for one in ran)


def give_back_disk(folder: Path) -> None:
    """Take the file system of `small_disk` off its folder; what was on it is gone."""
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def fill(folder: Path) -> Path:
    """Leave no room in the file system of a folder; return the file that takes it."""
    path = folder / "balloon"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return path

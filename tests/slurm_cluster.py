"""A real Slurm for tests: munged, a controller and nodes on the loopback, which can be killed.

It lives in a temporary folder with ports of its own, so that several can run side by side; nothing
of the machine's own Slurm is used or touched. Only processes that it started are ended.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

WITHIN_S = 300.0
"""How long anything may take on a busy machine."""

SETTINGS = """
SlurmdTimeout=30
MessageTimeout=10
UnkillableStepTimeout=120
"""
"""Added to the configuration: no daemon that a busy machine keeps waiting is taken for dead."""


class SlurmAccounting:
    """A MariaDB and a slurmdbd on the loopback, for one cluster in its folder.

    Args:
        folder: of the cluster; its munge key is made here.
        port: of slurmdbd; the next one is the database's.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder / "accounting", port
        self._key = folder / "munge" / "munge.key"
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def settings(self) -> str:
        """Lines for slurm.conf."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStorageHost=127.0.0.1\nAccountingStoragePort={self._port}\n"
            f"AccountingStoragePass={self._folder}/munge.socket\n"  # the way to say which munged
        )

    def start(self) -> None:
        """Start a munged with the cluster's key, the database and slurmdbd, one after another."""
        folder = self._folder
        for path in (folder / "data", self._key.parent):
            path.mkdir(parents=True)
            path.chmod(0o755)
        folder.chmod(0o755)
        self._key.write_bytes(os.urandom(1024))
        self._key.chmod(0o600)
        socket_path, database = folder / "munge.socket", folder / "db.socket"
        self._begin(
            "munged", "--force", "--foreground", f"--socket={socket_path}",
            f"--key-file={self._key}", f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        data = [f"--datadir={folder}/data", "--user=root"]
        install = ["mariadb-install-db", "--no-defaults", *data, "--skip-test-db"]
        how = {"capture_output": True, "timeout": WITHIN_S}
        subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, **how)
        self._begin(
            "mariadbd", "--no-defaults", *data, f"--socket={database}", "--bind-address=127.0.0.1",
            f"--port={self._port + 1}", f"--pid-file={folder}/db.pid",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
        )  # fmt: skip
        ask = ["mariadb", "--no-defaults", "-S", str(database), "-u", "root", "-e"]
        until(lambda: subprocess.run([*ask, "select 1"], check=False, **how).returncode == 0,
              "the database to answer")  # fmt: skip
        users = "create user 's'@'{0}' identified by 's'; grant all on acct.* to 's'@'{0}';"
        grants = "".join(users.format(host) for host in ("127.0.0.1", "localhost"))
        subprocess.run([*ask, grants], check=True, **how)
        conf = folder.parent / "slurmdbd.conf"  # slurmdbd looks for it beside slurm.conf
        conf.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={socket_path}\nDbdHost=localhost\n"
            f"DbdAddr=127.0.0.1\nDbdPort={self._port}\nSlurmUser=root\n"
            "StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
            f"StoragePort={self._port + 1}\nStorageUser=s\nStoragePass=s\nStorageLoc=acct\n"
            f"LogFile={folder}/slurmdbd.log\nPidFile={folder}/slurmdbd.pid\n"
        )
        conf.chmod(0o600)
        until(socket_path.exists, "munged to listen")
        self._begin("slurmdbd", "-D", SLURM_CONF=str(folder.parent / "slurm.conf"))
        until(lambda: not _is_free(self._port), "slurmdbd to listen")

    def stop(self) -> None:
        """End what was started, the last first."""
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _begin(self, *command: str, **more: str) -> None:
        with (self._folder / f"{command[0]}.out").open("ab") as said:
            process = subprocess.Popen(
                command, env=os.environ | more, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        self._started.append(process)


class SlurmCluster:
    """A Slurm with nodes ``n0``, ``n1``, ... in the partition ``main``, of ``cpus`` CPUs each.

    With ``accounting`` it has a slurmdbd with a database of its own, which sacct asks.

    Attributes:
        folder: temporary; also of the scripts' and daemons' logs.
        environment: in which Slurm's commands find it; ``SLURM_CONF`` is what matters.
    """

    def __init__(
        self, scripts: Path, nodes: int = 2, cpus: int = 4, more: str = "", *,
        accounting: bool = False,
    ) -> None:  # fmt: skip
        self._with_accounting = accounting
        self._accounting: SlurmAccounting | None = None
        self._scripts, self._nodes, self._cpus, self._more = scripts, nodes, cpus, more
        self._started: list[subprocess.Popen[bytes]] = []
        self._pids: dict[str, int] = {}

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp"))  # sockets' names are short
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(self, *command: str) -> str:
        """Return what one of Slurm's commands says; raise if it fails."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    # Faults

    def kill_node(self, name: str) -> int:
        """Kill -9 a node's daemon and all that it executes; return how many processes that were."""
        os.kill(self._pids.pop(f"slurmd-{name}"), signal.SIGKILL)
        killed = self._end_all_on(name)
        until(lambda: self._end_all_on(name) == 0, f"the processes of {name} to be gone")
        return killed

    def start_node(self, name: str) -> None:
        """Start a node's daemon."""
        self._begin(f"slurmd-{name}", ["/usr/sbin/slurmd", "-D", "-N", name])

    def kill_controller(self) -> None:
        """Kill -9 the controller."""
        pid = self._pids.pop("slurmctld")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _lives(pid), "the controller to be gone")

    def start_controller(self) -> None:
        """Start the controller with the state that it saved, and wait until it answers."""
        self._begin("slurmctld", ["/usr/sbin/slurmctld", "-D"])
        until(self._answers, "the controller to answer")

    def idle(self) -> int:
        """Return how many nodes are idle."""
        return self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%t").split().count("idle")

    # Beginning and end

    def _start(self) -> None:
        port = _free_ports(self._nodes)
        written = [sys.executable, str(self._scripts / "gen_conf.py"), str(self.folder)]
        written += ["--nodes", str(self._nodes), "--cpus", str(self._cpus), "--base-port"]
        subprocess.run([*written, str(port)], check=True, capture_output=True)
        with (self.folder / "slurm.conf").open("a") as file:
            file.write(SETTINGS + self._more)
            if self._with_accounting:
                self._accounting = SlurmAccounting(self.folder, port + 50)
                file.write(self._accounting.settings)
        if self._accounting is not None:
            self._accounting.start()
            until(self._is_accounted, "the accounting to know the cluster")
        with (self.folder / "start.out").open("wb") as said:
            started = subprocess.run(
                ["bash", str(self._scripts / "start.sh"), str(self.folder)],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True, check=False,
            )  # fmt: skip
        for file in (self.folder / "run").glob("*.mypid"):
            self._pids[file.stem] = int(file.read_text())
        daemons = {"munged", "slurmctld", *(f"slurmd-n{node}" for node in range(self._nodes))}
        if started.returncode != 0 and daemons <= {n for n, p in self._pids.items() if _lives(p)}:
            until(self._is_up, "all nodes to be idle")  # its own patience was too short
        elif started.returncode != 0:
            raise RuntimeError(f"Slurm did not start: {(self.folder / 'start.out').read_text()}")

    def _is_up(self) -> bool:
        with contextlib.suppress(RuntimeError):
            return self.idle() == self._nodes
        return False

    def _is_accounted(self) -> bool:
        with contextlib.suppress(RuntimeError):  # it is there already, or nobody answers yet
            self.ask("sacctmgr", "-i", "add", "cluster", "steer")
        with contextlib.suppress(RuntimeError):
            return "steer" in self.ask("sacctmgr", "-nP", "list", "cluster", "format=cluster")
        return False

    def _begin(self, name: str, command: list[str]) -> None:
        with (self.folder / "log" / f"{name}.again").open("ab") as said:
            process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        self._started.append(process)
        self._pids[name] = process.pid

    def _answers(self) -> bool:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.ask("squeue", "-h")
            return True
        return False

    def _end_all_on(self, name: str | None) -> int:
        """Kill what a node (or any) executes for jobs; return how many processes there were."""
        found = 0
        for pid, told in _environments():
            if f"SLURM_CONF={self.folder}/slurm.conf" not in told:
                continue
            if _command(pid).startswith("slurmstepd"):
                is_it = name is None or self._logs_as(pid, name)
            else:
                nodes = [one for one in told if one.startswith("SLURMD_NODENAME=")]
                is_it = bool(nodes) and name in (None, nodes[0].partition("=")[2])
            if is_it:
                found += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return found

    def _logs_as(self, pid: int, name: str) -> bool:
        """Tell whether a step's daemon writes into the log of a node."""
        log = str(self.folder / "log" / f"slurmd-{name}.log")
        with contextlib.suppress(OSError):
            return any(str(one.readlink()) == log for one in Path(f"/proc/{pid}/fd").iterdir())
        return False

    def _stop(self) -> None:
        if "slurmctld" in self._pids and self._answers():
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                self.ask("scancel", f"--user={os.getuid()}")
                until(lambda: not self.ask("squeue", "-h").strip(), "jobs to end", 5.0)
        self._end_all_on(None)
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._pids.values():
                if _lives(pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, sent)
            with contextlib.suppress(RuntimeError):
                until(lambda: not any(_lives(pid) for pid in self._pids.values()), "the end", 10.0)
        self._end_all_on(None)
        for process in self._started:
            process.wait(timeout=WITHIN_S)
        if self._accounting is not None:
            self._accounting.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def until(true: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until something is true; raise if it does not become so."""
    end_s = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end_s:
            raise RuntimeError(f"waited {within_s:.0f} s for {what}")
        time.sleep(0.05)


def _free_ports(nodes: int) -> int:
    """Return the first of the ports that a Slurm needs, all free just now."""
    drawn = random.SystemRandom()
    while True:
        first = drawn.randrange(20_000, 32_000)
        wanted = [
            first,
            first + 1,
            first + 50,
            first + 51,
            *(first + 100 + node for node in range(nodes)),
        ]
        if all(_is_free(port) for port in wanted):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lives(pid: int) -> bool:
    """Tell whether a pid is still that of one of Slurm's daemons, and not of somebody else."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return False
    known = name.partition("(")[2] in ("munged", "slurmctld", "slurmd")
    return known and rest.split()[0] != "Z"


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()).name
    return ""


def _environments() -> Iterator[tuple[int, set[str]]]:
    """Yield the processes of this machine with their environments, as far as they can be read."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                told = (path / "environ").read_bytes().decode(errors="replace")
                yield int(path.name), set(told.split("\0"))

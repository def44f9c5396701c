"""Workers that are started by hand, as the script of their job starts them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assistant import Measure
from assistant.core.errors import RunStoppedError
from assistant.core.ports import Application, ExecutionRequest, RunControl
from assistant.executors.slurm import jobs
from assistant.executors.slurm.dispatcher import ENDED
from assistant.executors.slurm.protocol import PilotTicket, pickle_application
from strategies import Level
from tests.assistant.examples import Bowl
from tests.assistant.slurm.house import VALUES, WITHIN_S, House, until


@dataclass
class Job:
    """The job script, started by hand."""

    service: House
    kept: jobs.PilotFolder
    ticket: PilotTicket

    def renew(self, **changes: Any) -> None:
        """Get another ticket for the same application."""
        told = {name: getattr(self.ticket, name) for name in ("application", "digest", "path")}
        self.ticket = self.service.ticket(**told | changes)
        self.ticket.write(self.kept.ticket(self.ticket.pilot))

    def start(self) -> "subprocess.Popen[str]":
        command = ["/bin/sh", str(self.kept.script), sys.executable]
        command.append(str(self.kept.ticket(self.ticket.pilot)))
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def outcome(self) -> str:
        """Start it, and return what it says at its end."""
        return ended(self.start())


def ended(started: "subprocess.Popen[str]") -> str:
    """Return what a worker says, without the beginnings of its runs."""
    try:
        said = started.communicate(timeout=4 * WITHIN_S)[1] or ""
        lines = [line for line in said.splitlines() if not line.endswith(" begins")]
        return "\n".join(lines).strip()
    finally:
        started.kill()


@pytest.fixture
def job(service: House, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    kept = jobs.PilotFolder(tmp_path)

    def made(application: Application, **changes: Any) -> Job:
        path, digest = pickle_application(application, kept.path)
        told = {"application": str(path), "digest": digest, "path": tuple(sys.path)}
        ticket = service.ticket(**told | changes)
        ticket.write(kept.ticket(ticket.pilot))
        return Job(service, kept, ticket)

    yield made
    kept.release(tidy=True)


@pytest.mark.soak
@pytest.mark.slow
def test_a_worker_whose_ticket_was_revoked_runs_nothing(
    service: House, job: Callable[..., Job]
) -> None:
    begun = job(Bowl())
    service.dispatcher.take(ExecutionRequest(1, VALUES, 0))
    first = begun.start()
    until(lambda: len(service.over) == 1)
    service.dispatcher.end()
    assert ended(first) == "worker: its ticket is not valid any more"
    service.dispatcher.take(ExecutionRequest(2, VALUES, 0))
    assert begun.outcome() == "worker: its ticket is not valid any more"
    begun.kept.ticket(begun.ticket.pilot).unlink()
    assert "No such file" in begun.outcome()
    assert [one.run_id for one in service.over] == [1]
    assert service.over[0].measures == Bowl().evaluate(VALUES, 0) | {"unknown": None}


@dataclass(frozen=True)
class Patient(Bowl):
    """Its runs write down their process, report, and go on until they are told to end."""

    pids: str = ""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        with Path(self.pids).open("a") as file:
            file.write(f"{os.getpid()}\n")
        threading.Event().wait()
        raise AssertionError


@dataclass(frozen=True)
class Watched(Patient):
    """As above, and it can be told."""

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        oversight.report({"height": 1.0})
        oversight.report({"height": 2.0, "nan": float("nan")})
        while not oversight.wants_end():
            threading.Event().wait(0.01)
        raise RunStoppedError("told to end")


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("kind", [Patient, Watched])
def test_a_run_is_ended_whether_it_can_be_told_or_not_and_the_pilot_goes_on(
    service: House, job: Callable[..., Job], tmp_path: Path, kind: type[Patient]
) -> None:
    pids = tmp_path / "pids"
    started = job(kind(pids=str(pids))).start()
    for run_id in (1, 2):
        service.dispatcher.take(ExecutionRequest(run_id, VALUES, 0))
        if kind is Watched:
            until(lambda run_id=run_id: (run_id, {"height": 2.0, "nan": None}) in service.reports)  # type: ignore[misc]
        else:
            until(lambda n=run_id: pids.exists() and len(pids.read_text().split()) == n)  # type: ignore[misc]
        service.dispatcher.stop(run_id)
        until(lambda n=run_id: len(service.over) == n)  # type: ignore[misc]
    assert [(one.run_id, one.stopped, one.measures) for one in service.over] == [
        (1, True, None), (2, True, None),
    ]  # fmt: skip
    service.dispatcher.end()
    assert ended(started) == "worker: its ticket is not valid any more"


@pytest.mark.soak
@pytest.mark.slow
def test_a_pilot_without_a_gate_kills_its_run_and_ends(
    service: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    started = job(Patient(pids=str(pids)), gone_s=1.0).start()
    service.dispatcher.take(ExecutionRequest(1, VALUES, 0))
    until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    service.server.close()
    assert "does not answer" in ended(started)
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_pilot_takes_its_run_with_it_and_slurms_word_ends_one_politely(
    service: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    begun = job(Patient(pids=str(pids)))
    for n, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        service.dispatcher.take(ExecutionRequest(1, VALUES, 0))
        started = begun.start()
        until(lambda n=n: pids.exists() and len(pids.read_text().split()) == n)  # type: ignore[misc]
        started.send_signal(number)
        said_last = ended(started)
        pid = pids.read_text().split()[-1]
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
    assert said_last == "worker: the job was ended"
    assert len(service.over) == 2
    assert all(one.lost for one in service.over)
    assert (service.over[-1].failure, service.dispatcher.n_runs) == (ENDED, 0)


@pytest.mark.soak
@pytest.mark.slow
def test_a_run_longer_than_the_walltime_is_lost_with_the_reason(
    service: House, job: Callable[..., Job], tmp_path: Path
) -> None:
    service.dispatcher.take(ExecutionRequest(1, VALUES, 0))
    pids = tmp_path / "pids"
    begun = job(Patient(pids=str(pids)))
    for walltime_s in (8.0, 60.0, 300.0):  # until the run begins within it
        begun.renew(walltime_s=walltime_s)
        ended_with = begun.outcome()
        if service.over:
            break
    assert ended_with == "worker: the job was ended"
    (told,) = service.over
    assert (told.lost, told.failure) == (True, ENDED)


@pytest.mark.slow
def test_an_application_that_cannot_be_loaded_is_said(
    service: House, job: Callable[..., Job]
) -> None:
    service.dispatcher.take(ExecutionRequest(1, VALUES, 0))
    assert "is not the application of the ticket" in job(Bowl(), digest="00").outcome()
    assert "is not the application of the ticket" in (service.dispatcher.broken or "")
    assert service.dispatcher.n_runs == 1

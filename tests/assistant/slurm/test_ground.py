"""Tickets and folders, what is decided of jobs, and what Slurm's words mean."""

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from assistant.core.errors import ExecutorError, SettingsError
from assistant.executors.slurm import executor, jobs
from assistant.executors.slurm.protocol import (
    PilotTicket,
    load_application,
    pickle_application,
    read_ticket,
    write_private,
)
from tests.assistant.examples import Bowl


def test_a_ticket_and_an_application_are_read_from_files_of_ones_own_only(tmp_path: Path) -> None:
    path, digest = pickle_application(Bowl(fail_at_x=2), tmp_path)
    ticket = PilotTicket("ab", "1" * 64, "h", 1, "PEM", str(path), digest, ("a", "b"), 60.0)
    ticket.write(tmp_path / "ticket")
    assert read_ticket(tmp_path / "ticket") == ticket
    assert load_application(ticket) == Bowl(fail_at_x=2)
    (tmp_path / "link").symlink_to(tmp_path / "ticket")
    (tmp_path / "ticket").chmod(0o640)
    path.chmod(0o660)
    write_private(tmp_path / "junk", b"{}")
    replace(ticket, protocol=1).write(tmp_path / "older")
    (tmp_path / "other").write_bytes(path.read_bytes() + b" ")
    for read, why in (
        (lambda: read_ticket(tmp_path / "ticket"), r"accessible to other users \(mode 0640\)"),
        (lambda: read_ticket(tmp_path / "link"), "cannot read"),
        (lambda: read_ticket(tmp_path / "junk"), "is not a ticket"),
        (lambda: read_ticket(tmp_path / "nothing"), "No such file"),
        (lambda: read_ticket(tmp_path / "older"), "a ticket of protocol 1, this version .* has 2"),
        (lambda: load_application(ticket), r"accessible to other users \(mode 0660\)"),
        (
            lambda: load_application(replace(ticket, application=str(tmp_path / "other"))),
            "not the application of the ticket",
        ),
    ):
        with pytest.raises(ExecutorError, match=why):
            read()
    unnamed = type("Unnamed", (Bowl,), {"__module__": "__main__"})
    for unsendable in (Unsendable(), unnamed()):
        with pytest.raises(SettingsError, match="cannot be sent to other processes"):
            pickle_application(unsendable, tmp_path)


@dataclass(frozen=True)
class Unsendable(Bowl):
    def __reduce__(self) -> str:
        raise TypeError("it holds a lock")


def test_a_folder_that_was_left_is_found_and_one_in_use_is_not(tmp_path: Path) -> None:
    base = tmp_path / "deep" / "down"
    ours, left = jobs.PilotFolder(base), jobs.PilotFolder(base)
    assert ours.path.stat().st_mode & 0o777 == 0o700
    write_private(left.ticket("abc"), b"")
    assert jobs.leftover_folders(base) == {}
    left.release(tidy=False)
    assert jobs.leftover_folders(base) == {left.path: {"abc"}}
    jobs.remove_folder(left.path)
    ours.release(tidy=True)
    assert list(base.iterdir()) == []
    base.chmod(0o777)
    with pytest.raises(SettingsError, match="others may write to"):
        jobs.PilotFolder(base)


def test_the_lines_of_a_setup_come_before_the_program_and_the_first_that_fails_ends_the_job(
    tmp_path: Path,
) -> None:
    def outcome(*setup: str) -> "subprocess.CompletedProcess[str]":
        script = tmp_path / "job.sh"
        script.write_text(jobs.job_script(setup))
        return subprocess.run(
            ["/bin/bash", str(script), "/bin/echo", "ticket"], capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    plain = outcome()
    assert plain.stdout == "-P -m assistant.client.job_worker ticket\n"
    assert outcome("A=1", "export A", 'echo "A is $A"').stdout == f"A is 1\n{plain.stdout}"
    broken = outcome("echo before", "module_that_is_not_there", "echo after")
    assert broken.stdout == "before\n"
    assert broken.returncode != 0
    assert "module_that_is_not_there" in broken.stderr


def test_the_log_of_a_job_is_found_by_the_run_and_goes_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = jobs.JobLogs(tmp_path / "base")
    for pilot in ("a", "b"):
        logs.path(pilot).write_text(f"one\nlast of {pilot}\n")
        logs.note(pilot, "name/of it", 7)
    logs.note("a", "name/of it", 8)
    logs.note("a", "", 9)
    found = jobs.logs_of_run(tmp_path / "base", "name/of it", 7)
    assert {path.resolve() for path in found} == {logs.path("a"), logs.path("b")}
    assert len(jobs.logs_of_run(tmp_path / "base", "name/of it", 8)) == 1
    assert jobs.logs_of_run(tmp_path / "base", "name/of it", 9) == ()
    assert (logs.last_line("a"), logs.last_line("c")) == ("last of a", "")
    monkeypatch.setattr(jobs, "KEPT_S", -60.0)
    jobs.JobLogs(tmp_path / "base")
    assert jobs.logs_of_run(tmp_path / "base", "name/of it", 7) == ()


def test_jobs_that_slurm_lost_or_holds_are_given_up() -> None:
    waiting = jobs.SlurmJob("b", "PENDING", "Resources")
    held = jobs.SlurmJob("c", "PENDING", "launch failed requeued held")
    asked = {
        "a": executor.ExpectedPilot(10.0),
        "b": executor.ExpectedPilot(90.0, 1),
        "c": executor.ExpectedPilot(10.0),
        "d": executor.ExpectedPilot(10.0, 1),
        "e": executor.ExpectedPilot(1.0, 0),
    }
    told = executor.reconcile_jobs(asked, {"b": [waiting], "c": [held]})
    assert told.missing == {"a": 1, "b": 0, "c": 0, "d": 2, "e": 0}
    assert told.lost == ("d",)
    assert told.on_hold == ("c",)
    assert (told.waits, told.never) == ("Resources", None)
    greedy = jobs.SlurmJob("e", "PENDING", "PartitionConfig")
    assert executor.reconcile_jobs(asked, {"e": [greedy]}).never == "PartitionConfig"
    assert jobs.SlurmJob("c", "PENDING", "launch_failed_requeued_held").is_held
    assert not jobs.SlurmJob("c", "PENDING", "JobHeldUser").is_held


@pytest.mark.parametrize(
    "option",
    [
        "main",
        "-Jx",
        "--wrap=rm",
        "--job-name",
        "-o/etc/x",
        "--array=1-9",
        "--arra=1",
        "--a\nb",
        "-",
    ],
)
def test_options_that_a_pilot_cannot_have_are_refused(option: str) -> None:
    with pytest.raises(SettingsError, match="option"):
        jobs.check_options(["--constraint=fast", option])
    jobs.check_options(["--constraint=fast", "-qnormal", "--gres=gpu:1"])


def test_what_slurm_says_is_its_last_word_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for text, kind in (
        ("sbatch: error: Unable to contact slurm controller (connect failure)", "Away"),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv", "Away"),
        ("sbatch: error: invalid partition specified: nix", "Refused"),
        ("sbatch: error: account is over its limit\nsbatch: error: Batch job failed", "Refused"),
    ):
        program = tmp_path / "sbatch"
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
        program.chmod(0o755)
        wanted = jobs.SlurmUnavailableError if kind == "Away" else jobs.SlurmRefusedError
        with pytest.raises(wanted) as refused:
            jobs.submit_job([])
        said = [line.removeprefix("sbatch: error: ") for line in text.splitlines()]
        assert str(refused.value) == f"sbatch: {'; '.join(said)}"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="no 'squeue' on this machine"):
        jobs.check_commands()

"""An operator asks why a job started when it did."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import run

Ask = Callable[..., tuple[int, str, str]]

LOG = """; MaxProcs: 8
; UnixStartTime: 1000000000
101 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
102 10 -1 50 8 -1 -1 8 60 -1 1 1 1 -1 1 -1 -1 -1
103 20 -1 30 2 -1 -1 2 40 -1 1 2 1 -1 1 -1 -1 -1
104 30 -1 40 1 -1 -1 1 500 -1 1 2 1 -1 1 -1 -1 -1
105 90000 -1 90000 6 -1 -1 6 172800 -1 1 2 1 -1 1 -1 -1 -1
"""
"""Job 101 holds 4 of 8 until 100; 102 needs all, reserved for 200 by the request; 103 ends by then;
104 asks for longer, and no processor is extra."""


@pytest.fixture
def ask(cli: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "tiny.swf").write_text(LOG)
    return lambda job, *more: cli("simulate", "tiny.swf", "--explain", str(job), *more)


def test_the_head_of_the_queue(ask: Ask) -> None:
    code, out, _ = ask(102)
    assert code == 0
    assert "Job 102 of tiny" in out
    assert "8 processors, requested 1 min, ran 50 s" in out
    assert "submitted at 00:00:10, started 1 min 30 s later, at 00:01:40" in out
    assert "needs 8 processors, at most 4 were free, until job 101 (4 processors) ended" in out
    assert "Its turn came when job 101 (4 processors) ended: 8 processors were free" in out
    assert "its start was expected at 00:03:20; it started 1 min 40 s earlier" in out
    assert "jobs 103 (2 processors for 30 s) started from behind it" not in out
    assert "job 103 (2 processors for 30 s) started from behind it in the queue" in out
    assert "first submission, 2001-09-09 01:46 UTC" in out
    assert "slowdown" not in out


def test_a_backfilled_job(ask: Ask) -> None:
    _, out, _ = ask(103)
    assert "started at once" in out
    assert "It was backfilled: 4 processors were free, and it started ahead of job 102" in out
    assert "(8 processors, waiting for 10 s)" in out
    assert "reserved for 00:03:20; by its estimate this job would end 2 min 20 s before" in out


def test_a_job_that_asked_for_too_long(ask: Ask) -> None:
    _, out, _ = ask(104)
    assert "it would have delayed job 102 (8 processors), first in the queue" in out
    assert "ended at least 5 min 30 s after the reservation for 00:03:20" in out
    assert "it needs 1 processor, none was left over then" in out
    assert "with its run time, 40 s, as the estimate it would have ended in time" in out


def test_days_rejected_and_clipped_jobs_are_told(ask: Ask) -> None:
    assert "submitted at 1 d 01:00:00, started at once" in ask(105)[1]
    _, out, _ = ask(102, "--procs", "4", "--too-wide", "reject")
    assert "never started" in out
    assert "main gives a job 4 processors at most" in out
    partitions = ("--partition", "wide:8:30s", "--partition", "main:4", "--too-wide", "reject")
    _, out, _ = ask(102, *partitions)
    assert "wide admits requests of 30 s at most" in out
    _, out, _ = ask(102, "--procs", "4", "--too-wide", "clip")
    assert (
        "4 processors (clipped from 8, so it runs longer), requested 2 min, ran 1 min 40 s" in out
    )
    _, out, _ = ask(104, "--backfill", "none")
    assert (
        "behind jobs 102 (8 processors) and 103 (2 processors), first in the queue one after" in out
    )
    assert "at most 4 were free, up to 2 jobs waited ahead of it" in out
    assert (
        "; meanwhile job 101 (4 processors) ended, and jobs 102 (8 processors) and 103 "
        "(2 processors) started ahead of it" in " ".join(out.split())
    )


def test_jobs_that_the_order_prefers_are_told(ask: Ask) -> None:
    """Shortest request first: 103 (40 s) goes before 102 (60 s), which goes before 104 (500 s)."""
    _, out, _ = ask(102, "--order", "sjf")
    assert (
        "While it waited, job 103 (2 processors for 30 s), submitted later, went ahead by the "
        "order sjf: 0.01667 processor-hours." in out
    )
    assert "from behind it" not in out
    assert "went ahead by the order" not in ask(102)[1]


def test_programs_get_the_same_as_json(ask: Ask) -> None:
    code, out, _ = ask(104, "--json")
    assert code == 0
    explanation = json.loads(out)["explanation"]
    assert explanation["job"]["wait_s"] == 120
    assert sum(phase["seconds"] for phase in explanation["phases"]) == 120
    kinds = [phase["reason"]["kind"] for phase in explanation["phases"]]
    assert kinds == ["would_delay", "is_head"]
    assert explanation["start"]["how"] == "in_turn"


def test_a_wait_of_many_parts_is_summed(ask: Ask, tmp_path: Path) -> None:
    """The reservation of job 2 is far away; short jobs of one processor come and go.

    Job 3 would outlast the reservation; when a wide job arrives one of its 2 processors is taken.
    """
    rows = ["1 0 6 9000", "2 1 8 10", "3 2 2 20000"]
    rows += [f"{10 + 5 * i} {10 + 5 * i} {(1, 8, 1, 8)[i % 4]} 7" for i in range(20)]
    lines = [
        f"{job} {at} -1 {long} {n} -1 -1 {n} {long} -1 1 1 1 -1 1 -1 -1 -1"
        for job, at, n, long in (row.split() for row in rows)
    ]
    (tmp_path / "tiny.swf").write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    _, out, _ = ask(3)
    told = out[out.index("Why it waited") : out.index("Its turn came")]
    delayed, few, last = (" ".join(line.split()) for line in told.splitlines()[1:])
    assert delayed == (
        "in 11 parts 2 h 30 min it would have delayed job 2 (8 processors), "
        "first in the queue at that time"
    )
    assert few.startswith("in 10 parts 20 s too few free processors; meanwhile jobs ")
    assert few.endswith("20 (1 processor), 30 (1 processor) and 7 more ended")
    assert last.startswith("02:30:00 10 s finally first in the queue: it needs 2 ")
    assert told.count("first in the queue:") == 1  # the last part is in no sum
    assert len(out.splitlines()) < 20


def test_when_it_would_have_started(ask: Ask) -> None:
    _, out, _ = ask(104)
    assert "2 min earlier, at 00:00:30, if it had requested its run time" in out
    code, out, _ = ask(104, "--window", "main:4:0:1h")
    assert code == 0
    assert "The reasons for its wait are unknown: the scenario has capacity windows" in out
    assert "if no processors had been away" in out
    body = json.loads(ask(104, "--window", "main:4:0:1h", "--json")[1])
    assert body["explanation"] is None
    assert "constant capacity" in body["reasons_unknown"]
    kinds = {change["kind"] for change in body["changed_starts"]["changes"]}
    assert kinds == {"own_request", "all_requests", "no_windows"}


@pytest.mark.parametrize(
    ("job", "more", "sentence"),
    [
        (7, (), "no job 7 among the 5 jobs of 'tiny', numbered from 101 to 105; the nearest: 101"),
        (104, ("--first", "2"), "the nearest: 102. Jobs that a reading rule dropped"),
        (104, ("--per-job", "jobs.csv"), "give --explain or --per-job, not both"),
        (104, ("--engine", "compiled"), "leave out --engine compiled"),
        (104, ("--engine", "foo"), "no engine 'foo'. Known: auto, compiled"),
        (102, ("--procs", "4"), "needs 8 processors and the widest partition"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_a_sentence(
    ask: Ask, job: int, more: tuple[str, ...], sentence: str
) -> None:
    code, out, err = ask(job, *more)
    assert code == 2
    assert sentence in err
    assert out == ""


def test_the_page_shows_what_is_printed(
    repository: Path,
    shared_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(shared_data / "swf")
    monkeypatch.setenv("COLUMNS", "110")
    page = (repository / "docs" / "howto" / "explain-a-start.md").read_text()
    command, _, shown = page.partition("$ copperline simulate ")[2].partition("\n")
    assert run(["simulate", *command.replace("../shared/data/swf/", "").split()]) == 0
    printed = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    assert printed == shown.partition("```")[0]

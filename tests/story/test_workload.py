"""``copperline workload describe``: the page *Workload* in the terminal."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from assistant.simtools.workload_log import highlights, log_profile, read_log
from sim.api import load_workload
from sim.metrics.workload_profile import ProfileWindow

LOG = """; MaxProcs: 8
; UnixStartTime: 376200
; TimeZoneString: Europe/Paris
1 0 -1 3600 1 -1 -1 1 3600 -1 1 7 1 -1 1 -1 -1 -1
2 0 10 60 4 -1 -1 4 600 -1 1 7 1 -1 1 -1 -1 -1
3 1800 -1 1 3 -1 -1 3 60 -1 1 9 1 -1 1 -1 -1 -1
4 7200 -1 100 8 -1 -1 8 50 -1 1 -1 1 -1 1 -1 -1 -1
5 86400 -1 7200 2 -1 -1 2 14400 -1 1 9 1 -1 1 -1 -1 -1
"""
Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf"
    path.write_text(LOG)
    return path


@pytest.fixture
def described(cli: Told, log: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv("COLUMNS", "60")
    return partial(cli, "workload", "describe", log)


def test_it_tells_what_the_page_tells(described: Told, log: Path) -> None:
    code, out, _ = described()
    assert code == 0
    seen = log_profile(read_log(log), ProfileWindow())
    for sentence in highlights(seen):
        assert f"  {sentence}\n" in out
    assert "  5 jobs by 2 users over 86,400 s (1 d 00 h)\n" in out
    assert "note: 1 job: the run time exceeds the request" in out
    told = json.loads(described("--json")[1])
    assert told["profile"] == json.loads(json.dumps(seen.to_dict()))
    assert told["profile"]["arrivals"]["counts"][0][9] == 2
    assert (told["n_jobs"], told["notes"]) == (5, [note.sentence for note in read_log(log).notes])


def test_the_table_keeps_its_digits_on_a_narrow_terminal(described: Told) -> None:
    _, out, _ = described()
    rows = {line.split("  ")[1]: line.split() for line in out.splitlines() if line[:2] == "  "}
    assert rows["requested time [s]"][-2:] == ["13,968", "14,400"]
    assert "…" not in out


@pytest.mark.parametrize(
    ("options", "n_jobs"),
    [
        (("--leave-out", "2"), 3),
        (("--from", "30m"), 3),
        (("--to", "2h"), 3),
        (("--from", "1s", "--to", "1d"), 2),
        (("--first", "4", "--leave-out", "1"), 3),
    ],
)
def test_a_part_of_a_log(described: Told, options: tuple[str, ...], n_jobs: int) -> None:
    told = json.loads(described(*options, "--json")[1])
    assert told["n_jobs"] == n_jobs
    hours = [n for of_day in told["profile"]["arrivals"]["counts"] for n in of_day]
    assert sum(n or 0 for n in hours) == n_jobs
    whole = 4 if "--first" in options else 5
    assert f"  {n_jobs} of {whole} jobs by" in described(*options)[1]


def test_the_analyst_says_machine_and_time_zone(described: Told) -> None:
    told = json.loads(described("--procs", "4", "--time-zone", "Asia/Tokyo", "--json")[1])
    profile = told["profile"]
    assert (profile["procs"], profile["arrivals"]["zone"]) == (4, "Asia/Tokyo")
    assert profile["offered_load"] == pytest.approx(2 * told["offered_load"])
    assert "machine of 4 processors, offered load 0.055" in described("--procs", "4")[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--leave-out", "5"), "no job of tiny is left in the window; it has 5 jobs"),
        (("--time-zone", "Mars"), "time zone 'Mars' is unknown on this machine"),
        (("--from", "soon"), "'soon' is not a duration"),
        (("--procs", str(10**17)), "a machine has 1 processor or more"),
        (("--leave-out", "-1"), "leave-out"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    described: Told, options: tuple[str, ...], words: str
) -> None:
    code, out, err = described(*options)
    assert (code, out) == (2, "")
    assert words in err


def test_a_table_with_columns_of_its_own_becomes_a_log(cli: Told, tmp_path: Path) -> None:
    table = tmp_path / "bhist.csv"
    table.write_text("SUBMITTED,STARTED,RAN,SLOTS\n100,110,01:30,2\n50,50,12,1\n")
    columns = ("submit=SUBMITTED", "start=STARTED", "runtime=RAN", "procs=SLOTS")
    options = [text for column in columns for text in ("--column", column)]
    code, out, _ = cli("workload", "convert", table, tmp_path / "log.swf", *options)
    assert code == 0, out
    assert load_workload(tmp_path / "log.swf").runtime_s.tolist() == [12, 90]
    code, _, err = cli("workload", "convert", table, tmp_path / "log.swf", *options[2:])
    assert code == 2
    assert "say which it is, such as submit=COLUMN: the columns are SUBMITTED, STARTED" in err

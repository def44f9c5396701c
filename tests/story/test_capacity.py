"""`copperline simulate --partition debug:@main --window ...`: queues, limits, capacity."""

import csv
import json
from pathlib import Path

import pytest

from assistant.cli.main import run

LOG = """; MaxProcs: 8
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 50 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1
3 20 -1 30 8 -1 -1 8 400 -1 1 2 1 -1 1 -1 -1 -1
4 25 -1 10 8 -1 -1 8 20 -1 1 2 1 -1 1 -1 -1 -1
"""

SHARED = [
    "--partition", "debug:@main:30s:tier=5",
    "--partition", "spare:@main:300:4:per-user=1:preemptible",
    "--partition", "main:8::tier=2",
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.swf").write_text(LOG)
    return "small.swf"


def test_queues_share_processors_and_the_table_tells_who_was_killed(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Job 1 is of spare, and 2 is held, since both are of user 1. At 20 job 3 of main has 1 killed
    # and ends at 50; debug goes first then, and at 60 job 1 begins again, until 160.
    assert run(["simulate", log, *SHARED, "--per-job", "jobs.csv"]) == 0
    with (tmp_path / "jobs.csv").open() as file:
        rows = [
            (row["partition"], float(row["start_s"]), row["n_restarts"], row["lost_s"])
            for row in csv.DictReader(file)
        ]
    assert rows == [
        ("spare", 60.0, "1", "20.0"),
        ("spare", 160.0, "0", "0.0"),
        ("main", 20.0, "0", "0.0"),
        ("debug", 50.0, "0", "0.0"),
    ]
    assert "1 restart of killed jobs, which lost 0.02222 processor-hours" in capsys.readouterr().out


def test_windows_close_processors(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    windows = ["--window", "main:8:50s:100s", "--window", "main:4:200:220:failure"]
    assert run(["simulate", log, "--partition", "main:8", *windows, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    # 1 would run into the window from 0, so that it starts at 100, beside 2; 4, of 20 s, starts at
    # 25. The failure at 200 finds nothing of 1 and 2, and 3, from 200 on, gives way until 220.
    assert told["n_restarts"] == 0
    assert told["makespan_s"] == 250.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--partition", "main:8:tier=high"], "TERMS are tier=N, per-user=N and preemptible"),
        (["--partition", "main:8:tier=1:tier=2"], "--partition 'main:8:tier=1:tier=2' is not of"),
        (["--partition", "main:8:tier=1:1h"], "is not of the form NAME:PROCS"),
        (["--partition", "main:8:preemptible=no"], "is not of the form NAME:PROCS"),
        (["--partition", "a:@b"], "'a' is a queue on 'b', which has no processors"),
        (["--window", "main:8:1h"], "not of the form PARTITION:PROCS:FROM:UNTIL[:KIND]"),
        (["--window", "main:some:1h:2h"], "not of the form PARTITION:PROCS:FROM:UNTIL[:KIND]"),
        (["--window", "main:8:soon:2h"], "soon"),
        (["--window", "main:8:1h:2h:drian"], "did you mean 'drain'?"),
        (["--window", "main:9:1h:2h"], "all windows together take 9"),
        ([*SHARED, "--backfill", "conservative"], "'spare' is preemptible, but backfill"),
    ],
)
def test_what_cannot_be_is_said(
    log: str, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", log, *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())

"""An administrator asks how far the simulated waits are those of the machine."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]

LOG = """; MaxProcs: 8
1 0 {0} 600 8 -1 -1 8 600 -1 1 1 1 -1 1 -1 -1 -1
2 60 {1} 600 8 -1 -1 8 600 -1 1 1 1 -1 1 -1 -1 -1
3 120 {2} 600 4 -1 -1 4 600 -1 1 2 1 -1 1 -1 -1 -1
"""
"""Simulated waits are 0, 9 and 18 minutes."""


@pytest.fixture
def backtest(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("COLUMNS", "300")

    def ask(waits: tuple[int, ...], *options: str) -> tuple[int, str, str]:
        (tmp_path / "tiny.swf").write_text(LOG.format(*waits))
        return cli("simulate", "tiny.swf", *options)

    return ask


def test_every_simulation_says_how_far_it_agrees(backtest: Cli) -> None:
    _, out, _ = backtest((0, 540, 1080))
    assert "Simulated and recorded waits agree in the mean" in out
    _, out, _ = backtest((0, 1080, 2160))
    assert "the simulated mean wait is 0.5 times the recorded one (9 min against 18 min" in out
    assert "first in line" not in out
    assert "recorded" not in backtest((-1, -1, -1))[1]


def test_a_backtest_says_what_differs_and_why(backtest: Cli) -> None:
    code, out, _ = backtest((0, 1080, 2160), "--backtest")
    assert code == 0
    assert "mean of all" in out
    assert "33 % of the recorded wait passed while the job was first in line" in out
    assert "Corrected capacity: " in out
    body = json.loads(backtest((0, 1080, 2160), "--backtest", "--json")[1])
    assert body["recorded_waits"]["ratio"] == 0.5
    assert {group["kind"] for group in body["backtest"]["groups"]} == {"width", "user", "week"}
    assert body["backtest"]["corrected"]["replays"][0]["name"] == "as given"


def test_what_cannot_be_compared_is_refused(backtest: Cli) -> None:
    code, _, err = backtest((-1, -1, -1), "--backtest")
    assert code == 2
    assert "tiny records no wait of a job that ran" in err
    code, _, err = backtest((0, 0, 0), "--backtest", "--explain", "1")
    assert code == 2
    assert "--explain is for one job" in err


def test_a_configuration_is_tested_against_the_one_in_use(cli: Cli, tmp_path: Path) -> None:
    jobs = "".join(
        f"{i + 1} {300 * i} -1 600 {8 if i % 4 in (0, 3) else 1} -1 -1 -1 600 -1 1 {i % 3} "
        "1 -1 1 -1 -1 -1\n"
        for i in range(80)
    )
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 8\n{jobs}")
    base = ("simulate", "log.swf", "--backfill", "none", "--order", "saf")
    code, out, _ = cli(*base, "--against", "fcfs:none", "--json")
    assert code == 0
    body = json.loads(out)
    assert body["verdict"] == "carries over"
    assert [row["name"] for row in body["ratios"][:2]] == ["first half", "second half"]
    _, out, err = cli(*base, "--against", "fcfs:none")
    assert "the gain carries over" in " ".join(out.split())
    assert "simulating: second half" in err
    code, _, err = cli(*base, "--against", "fcfs:none:x")
    assert code == 2
    assert "not of the form ORDER[:BACKFILL]" in err

"""``copperline workload share``: a model to give away, and what others draw from it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim.api import Workload, load_workload, write_workload

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return ten days of 20 users; one asked for 777 processors, and nobody else."""
    rng = np.random.default_rng(3)
    n = 2_000
    drawn = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 864_000, n)).astype(np.float64),
        runtime_s=rng.integers(1, 3_000, n).astype(np.float64),
        requested_s=np.full(n, 3_600.0),
        procs=np.where(np.arange(n) == 17, 777, rng.choice([1, 4], size=n)),
        user=rng.integers(0, 20, n),
        max_procs=1_000,
        start_unix_s=1_700_000_000.0,
        time_zone="UTC",
    )
    write_workload(drawn, tmp_path / "log.swf")
    return tmp_path / "log.swf"


def test_a_log_becomes_a_model_that_others_draw_from(say: Told, log: Path) -> None:
    code, out, err = say("share", log, "--to", "s.json", "--seed", "4", "--strength", "0.1")
    assert code == 0, err
    assert "no request or context of fewer than 5 users" in out
    assert "0.1% left out" in out
    assert "log" not in json.loads(Path("s.json").read_text())["source"]
    busier = ("--set", "weekend_load=3", "--set", 'flavour_odds={"4x3600s": 20}')
    code, _, err = say("generate", "s.json", "--duration", "7d", "--to", "g.swf", *busier)
    assert code == 0, err
    drawn = load_workload("g.swf")
    assert set(drawn.procs.tolist()) == {1, 4}
    assert (drawn.procs == 4).mean() > 0.8


def test_the_seed_is_drawn_unless_told(say: Told, log: Path) -> None:
    found = [
        json.loads(say("share", log, "--to", f"{i}.json", "--json", *told)[1])["digest"]
        for i, told in enumerate([(), (), ("--seed", "4"), ("--seed", "4")])
    ]
    assert found[0] != found[1]
    assert found[2] == found[3]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--strength", "3"), "strength"),
        (("--least-users", "21"), "ask for fewer users"),
        (("--knob", "flavor=3"), "flavor"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    say: Told, log: Path, wrong: tuple[str, ...], said: str
) -> None:
    code, _, err = say("share", log, "--to", "s.json", *wrong)
    assert code == 2
    assert said in err
    assert not Path("s.json").exists()

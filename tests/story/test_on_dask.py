"""``copperline sweep --executor dask`` and ``slurm``: the same results as in this process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import run

Told = Callable[..., tuple[int, str, str]]

TABLE = "mode,size,objective\n" + "".join(
    f"{mode},{size},{size * (1 + (mode == 'a'))}\n" for mode in "ab" for size in (2, 4, 8)
)


@pytest.fixture
def say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(TABLE)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["sweep", "--table", "table.csv", "--runs", "6", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.mark.soak
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dask", marks=pytest.mark.slow),
        pytest.param("slurm", marks=pytest.mark.slurm),
    ],
)
def test_a_sweep_elsewhere_has_the_results_of_one_in_this_process(
    say: Told, name: str, request: pytest.FixtureRequest
) -> None:
    if name == "slurm":
        request.getfixturevalue("slurm")
    found = []
    for arguments in ((), ("--executor", name, "--workers", "2")):
        code, out, err = say("--json", *arguments)
        assert code == 0, err
        told = json.loads(out)
        found.append((told["best"], told["runs"]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("dusk", "'dask' or 'slurm', not 'dusk'"),
        ("dask=tcp://10.0.0.1:8786", "tcp is not encrypted"),
        ("dask=here", "is not of the form tls://HOST:PORT"),
        ("serial=slurm", "only the executors 'dask' and 'slurm'"),
        ("serial=tcp://127.0.0.1:1", "only the executor 'dask' takes an address and certificates"),
    ],
)
def test_a_place_that_cannot_be_is_refused_and_nothing_is_stored(
    say: Told, tmp_path: Path, told: str, said: str
) -> None:
    code, _, err = say("--executor", told)
    assert code == 2
    assert said in err
    assert not list(tmp_path.glob("**/*.db"))

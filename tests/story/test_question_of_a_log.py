"""``copperline sweep --log LOG`` without options, on every real log: an answer, or what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]

LOGS: dict[str, tuple[str, ...]] = {
    "UniLu-Gaia-2014-1": (),
    "theta_2022": (),
    "LLNL-Atlas-2006-2.1-cln": (),
    "NASA-iPSC-1993-3.1-cln": (),
    "alea-hpc2n-subset": (),
    "CEA-Curie-2011-2.1-cln": (),
    "lublin_256": ("--procs", "256"),
    "theta_2023": (),
    "wagap-2013": ("--procs", "256"),
}
"""Options that the sentence of the refusal names, where a log is refused without them."""

OF_SLURM = {"LLNL-Atlas-2006-2.1-cln", "CEA-Curie-2011-2.1-cln"}
"""Logs whose headers name Slurm: they are asked what it can do, which are more combinations."""

SAYS = {
    "lublin_256": "set procs",
    "wagap-2013": "set procs",
}


@pytest.mark.soak
@pytest.mark.parametrize("name", LOGS)
def test_a_log_has_an_answer(
    name: str, cli: Cli, shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    log = str(shared_data / "swf" / f"{name}.swf.gz")
    if LOGS[name]:
        code, _, err = cli("sweep", "--log", log)
        assert code == 2
        assert SAYS[name] in err
    code, out, err = cli("sweep", "--log", log, *LOGS[name], "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["runs"]["completed"] == (60 if name in OF_SLURM else 39)
    assert found["verdict"] in ("improved", "baseline_is_best")
    checked = (
        "Checked on the later jobs",
        "Hardly any of the later jobs",
        "No tried configuration",
    )
    assert any(sentence.startswith(checked) for sentence in found["sentences"])

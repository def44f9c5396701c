"""The computing environment that a request names: read, refused where it cannot be, and told."""

import json
from pathlib import Path
from typing import Any

import pytest

from assistant import load_session
from assistant.applications.program import Program
from assistant.cli.main import run
from assistant.config.snapshot import rebuild_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import SettingsError
from assistant.core.events import ExperimentOpened
from assistant.core.ports import Environment
from assistant.executors import make_executor
from assistant.executors.spec import (
    BatchSystem,
    ExecutorSpec,
    MachineCapacity,
    check_capacity,
    this_machine,
)
from assistant.store.event_store import SqliteStore
from tests.assistant.programs import python
from tests.fuzz.watch import fault_of_sentence

GIB = 1 << 30
SMALL = MachineCapacity(4, 8 * GIB)


def tables(**more: Any) -> dict[str, Any]:
    return {
        "application": {"kind": "command", "command": ["true"], "unused": True},
        "objective": {"minimise": "wall_s"},
        "parameters": [{"name": "x", "levels": [1, 2]}],
        **more,
    }


def test_it_reaches_the_place_and_the_program() -> None:
    asked = tables(environment={"cores": 2, "memory": "1.5 GiB"})
    asked["application"] |= {"processes": 9, "file_size": "2 MB", "inherit": ["CUDA_*"]}
    built = build_sweep(check_settings(asked, "here"))
    wanted = Environment(2, 3 * GIB // 2)
    assert built.settings.place.environment == wanted
    program = built.application
    assert isinstance(program, Program)
    assert (program.environment, program.processes) == (wanted, 9)
    assert (program.file_bytes, program.inherit) == (2_000_000, ("CUDA_*",))
    assert build_sweep(check_settings(tables(), "")).settings.place.environment == Environment()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no unit": ({"environment": {"memory": "4"}}, "'environment.memory' should be a size"),
    "half a unit": ({"environment": {"memory": "4 G"}}, "'environment.memory' should be a size"),
    "negative": ({"environment": {"memory": -1}}, "'environment.memory'"),
    "a fraction": ({"environment": {"memory": 1.5}}, "'environment.memory'"),
    "too little": ({"environment": {"memory": "1 KiB"}}, "'environment.memory'"),
    "too large": ({"environment": {"memory": "9999999999 TiB"}}, "'environment.memory'"),
    "no core": ({"environment": {"cores": 0}}, "'environment.cores'"),
    "half a core": ({"environment": {"cores": 0.5}}, "'environment.cores'"),
    "truth": ({"environment": {"cores": True}}, "'environment.cores'"),
    "a typo": ({"environment": {"core": 2}}, "did you mean 'cores'?"),
}


@pytest.mark.parametrize(("more", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_environment(more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words.replace("?", r"\?")) as caught:
        check_settings(tables(**more), "sweep.toml")
    assert fault_of_sentence(str(caught.value)) is None


TOO_MUCH = {
    "one run": (1, Environment(5), "a run would need 5 cores and this machine has 4;"),
    "several": (3, Environment(2), "3 runs at once with 2 each would need 6 cores"),
    "memory": (1, Environment(None, 9 * GIB), "a run would need 9 GiB of memory and this machine"),
    "memories": (3, Environment(1, 3 * GIB), "3 runs at once with 3 GiB each would need 9 GiB"),
}


@pytest.mark.parametrize(("workers", "wanted", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
@pytest.mark.parametrize("executor", [None, "process_pool", "dask"])
def test_more_than_the_machine_has(
    executor: str | None, workers: int, wanted: Environment, words: str
) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        check_capacity(ExecutorSpec(executor, environment=wanted), workers, SMALL)
    assert "; reduce the needs in [environment]" in str(caught.value)
    assert ("fewer workers" in str(caught.value)) == (workers > 1)
    assert fault_of_sentence(str(caught.value)) is None


def test_what_fits_and_what_is_elsewhere() -> None:
    check_capacity(ExecutorSpec(environment=Environment(2, 4 * GIB)), 2, SMALL)
    check_capacity(ExecutorSpec(), 64, SMALL)  # nothing was asked for
    large = Environment(64, 512 * GIB)
    check_capacity(ExecutorSpec("dask", "tcp://127.0.0.1:8786", environment=large), 16, SMALL)
    check_capacity(ExecutorSpec("dask", batch=BatchSystem(), environment=large), 16, SMALL)


def test_this_machine_is_asked() -> None:
    has = this_machine()
    assert has.cores >= 1
    assert has.memory_bytes > 64 << 20
    wanted = ExecutorSpec(environment=Environment(has.cores + 1))
    with pytest.raises(SettingsError, match=f"this machine has {has.cores}"):
        make_executor(python("print(1)"), 1, wanted)


SWEEP = """
runs = 2
{environment}
[application]
command = ["sh", "-c", "echo $OMP_NUM_THREADS"]
unused = true
[objective]
minimise = "threads"
[[parameters]]
name = "x"
levels = [1, 2]
"""


def opened_in(path: Path) -> ExperimentOpened:
    store = SqliteStore(path)
    try:
        return load_session(store, store.experiments()[0].id).experiment.opened
    finally:
        store.close()


def test_options_overrule_the_file_and_the_journal_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP.format(environment='environment = {cores = 1, memory = "64 TiB"}'))
    assert run(["sweep", str(file), "--store", "store.db"]) == 2
    assert "this machine has" in capsys.readouterr().err
    assert not Path("store.db").exists()
    assert run(["try", str(file), "--memory", "half"]) == 2
    assert "'environment.memory' should be a size" in capsys.readouterr().err
    assert run(["try", str(file)]) == 2
    assert run(["try", str(file), "--memory", "600 MB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 1.0
    options = ["--memory", "512 MiB", "--cores", "1", "--store", "store.db", "--json"]
    assert run(["sweep", str(file), *options]) == 0
    opened = opened_in(Path("store.db"))
    facts = {fact.label: fact.text for fact in opened.facts}
    told = "one run at a time, each with 1 core and 512 MiB of memory"
    assert facts["Computing environment"] == told
    assert facts["Limit"] == "no time limit, 500 processes, 512 MiB of memory"
    assert rebuild_sweep(opened).settings.place.environment == Environment(1, 512 << 20)
    (report,) = (tmp_path / "copperline-out").glob("*.html")
    assert told in report.read_text()


def test_where_none_is_named_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP.format(environment="").replace("$OMP_NUM_THREADS", "1"))
    assert run(["sweep", str(file), "--store", "store.db", "--json"]) == 0
    opened = opened_in(Path("store.db"))
    assert "Computing environment" not in {fact.label for fact in opened.facts}

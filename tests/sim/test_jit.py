"""Compiled twins of kernel functions: a cache named after the sources, filled in the background."""

import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.engines import compilation
from sim.generators import default_workload
from sim.kernel import jit
from sim.kernel.jit import bound, called_by, is_kernel, kernel
from sim.model.errors import EngineError
from tests.machine_code import ASK_TWICE, SIMULATE, ColdStart, in_new_process, run_python

PACKAGE = Path(sim.__file__).parent


def test_the_digest_follows_every_kernel_policy_and_engine_source(tmp_path: Path) -> None:
    copy = tmp_path / "sim"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert jit.sources_digest(copy) == jit.sources_digest()
    sources = (
        "kernel/pool.py",
        "kernel/plan.py",
        "policies/backfills.py",
        "engines/event_loop.py",
    )
    for name in sources:
        before = jit.sources_digest(copy)
        path = copy / name
        path.write_text(path.read_text() + "# edited\n")
        assert jit.sources_digest(copy) != before


def test_where_the_cache_lies() -> None:
    told = {"COPPERLINE_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}
    assert jit.cache_root(told) == Path("/a/b")
    assert jit.cache_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/copperline")
    assert jit.cache_root({}) == Path.home() / ".cache" / "copperline"


@pytest.fixture
def full(cold_start: ColdStart, tmp_path: Path) -> Path:
    """A cache of a test's own that is full of machine code."""
    return cold_start.copied(tmp_path)


@pytest.fixture
def undeclared(full: Path) -> Path:
    """The same, where nothing says that it is complete: who compiles finds every program there."""
    for path in full.rglob("ready-*.json"):
        path.unlink()
    return full


@pytest.mark.soak
@pytest.mark.slow
def test_a_cold_machine_is_answered_at_once_and_compiles_meanwhile(
    cold_start: ColdStart, repository: Path
) -> None:
    first, second, same, folder, note, readiness = json.loads(cold_start.printed)
    assert (first, second, same, readiness) == ("interpreted", "compiled", True, "ready")
    assert "being compiled" in note
    assert Path(folder).parent == cold_start.cache
    assert list(Path(folder).glob("compiling-*.json")) == []
    machine_code = {p: p.stat().st_mtime_ns for p in cold_start.cache.rglob("*.nbc")}
    assert machine_code
    first, second, same, _, note, _ = in_new_process(cold_start.cache, repository)
    assert (first, second, same, note) == ("compiled", "compiled", True, None)
    assert {p: p.stat().st_mtime_ns for p in cold_start.cache.rglob("*.nbc")} == machine_code


@pytest.mark.soak
@pytest.mark.slow
def test_without_a_writable_folder_a_temporary_one_serves(tmp_path: Path, repository: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    printed = run_python(ASK_TWICE, repository, COPPERLINE_CACHE_DIR=str(blocked))
    first, second, same, folder, note = json.loads(printed)
    assert (first, second, same) == ("interpreted", "compiled", True)
    assert "cannot be written, so compiled code is not stored; name another folder" in str(note)
    assert not Path(str(folder)).exists(), "the process removes it at its end"
    code = SIMULATE.replace("wait_for_compiler()\n", "")
    told = json.loads(run_python(code, repository, COPPERLINE_CACHE_DIR=str(blocked)))
    assert told[1] == "interpreted", "what would not be kept is not compiled unasked"
    assert not Path(told[3]).parent.exists()


@pytest.mark.soak
@pytest.mark.slow
def test_a_full_folder_that_cannot_be_written_is_used(full: Path, repository: Path) -> None:
    code = "from sim.kernel import jit; jit._writable = lambda folder: False"
    told = json.loads(run_python(code + SIMULATE, repository, COPPERLINE_CACHE_DIR=str(full)))
    assert told[0] == "compiled"
    assert Path(told[3]).parent != full
    assert not Path(told[3]).exists()


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "empty index"])
def test_damaged_machine_code_is_noticed_and_made_anew(
    damage: str, full: Path, repository: Path
) -> None:
    code = [*full.rglob("*.nbc")]
    assert code
    if damage == "truncated":
        for path in code:
            path.write_bytes(path.read_bytes()[:100])
    else:
        for path in full.rglob("*.nbi"):
            path.write_bytes(b"")

    def answered() -> list[str | bool]:
        told = json.loads(run_python(ASK_TWICE, repository, COPPERLINE_CACHE_DIR=str(full)))
        return told[:3]  # type: ignore[no-any-return]

    assert answered() == ["interpreted", "compiled", True]
    assert answered() == ["compiled", "compiled", True]


@pytest.mark.soak
@pytest.mark.slow
def test_a_compiler_that_is_killed_is_started_again(undeclared: Path, repository: Path) -> None:
    code = """
import os, signal
from sim.api import wait_for_compiler
from sim.engines.compilation import begin_to_compile, compilation_state
from sim.engines import compilation
begin_to_compile()
(compiler,) = compilation._started
while not compilation._read(compilation._busy_file()):
    assert compiler.poll() is None
os.kill(compiler.pid, signal.SIGKILL)
os.waitid(os.P_PID, compiler.pid, os.WEXITED | os.WNOWAIT)
print(compilation_state().readiness)
wait_for_compiler()
print(compilation_state().readiness)
"""
    printed = run_python(code, repository, COPPERLINE_CACHE_DIR=str(undeclared))
    assert printed.splitlines() == ["not compiled yet", "ready"]


def test_who_compiles(tmp_path: Path) -> None:
    """However long: on a busy machine it takes many minutes."""

    def compiles(old_s: float = 0.0, **claim: object) -> bool:
        busy = tmp_path / "busy.json"
        busy.write_text(json.dumps({"host": platform.node(), "since_unix_s": 4e9, **claim}))
        os.utime(busy, (time.time() - old_s,) * 2)
        return compilation._is_alive(busy)

    assert not compilation._is_alive(tmp_path / "busy.json")
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        assert not compiles(process=dead.pid), "nobody has buried it yet"
    assert compiles(process=os.getpid(), old_s=1e6)
    assert not compiles(process=os.getpid(), since_unix_s=1e9), "another one with its number"
    assert compiles(process=1, host="another")
    assert not compiles(process=1, host="another", old_s=1e6)
    (tmp_path / "busy.json").write_text("")
    assert compilation._is_alive(tmp_path / "busy.json"), "somebody is about to write it"


@pytest.mark.soak
@pytest.mark.slow
def test_a_preparation_that_died_is_done_again(undeclared: Path, repository: Path) -> None:
    code = "from sim.engines import compilation as p; print(p._busy_file())"
    printed = run_python(code, repository, COPPERLINE_CACHE_DIR=str(undeclared))
    nobody = subprocess.Popen([sys.executable, "-c", ""])
    nobody.wait()
    Path(printed).write_text(
        json.dumps({"process": nobody.pid, "host": platform.node(), "since_unix_s": 4e9})
    )
    first, second, same, *_, readiness = in_new_process(undeclared, repository)
    assert (first, second, same, readiness) == ("interpreted", "compiled", True, "ready")


def test_a_compiler_that_fails_is_told_and_blocks_nobody(tmp_path: Path, repository: Path) -> None:
    code = """
from pathlib import Path
from sim import ClusterSpec, Scenario, simulate
from sim.generators import default_workload
from sim.api import EngineError, wait_for_compiler
from sim.engines.compilation import compilation_state
from sim.engines import compilation
compilation.__file__ = str(Path("nowhere/at/all.py").absolute())
Path("sim").mkdir(); Path("sim/__init__.py").write_text("raise SystemExit('no compiler today')")
try:
    wait_for_compiler()
except EngineError as error:
    print(error)
print(simulate(Scenario(default_workload(3, 20), ClusterSpec.single(128))).engine)
print(compilation_state().readiness)
"""
    told = {"COPPERLINE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", **told},
        capture_output=True,
        text=True,
        check=True,
    )
    sentence, engine, readiness = done.stdout.splitlines()
    log = Path(sentence.split(" is in ")[1].rstrip("."))
    assert sentence.startswith("the compiled engine is not available: the compiler stopped")
    assert "no compiler today" in log.read_text()
    assert (engine, readiness) == ("interpreted", "failed")


def test_without_a_compiler_the_other_engines_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jit, "numba_version", lambda: None)
    scenario = sim.Scenario(default_workload(3, 50), sim.ClusterSpec.single(128))
    assert sim.simulate(scenario).engine == "interpreted"
    assert "unavailable" in str(sim.simulate(scenario).note)
    assert sim.simulate(scenario, engine="process") == sim.simulate(scenario)
    with pytest.raises(EngineError, match="Numba is not installed; install it with"):
        sim.simulate(scenario, engine="compiled")


def test_importing_the_door_imports_neither_engine_nor_compiler(repository: Path) -> None:
    code = "import sys, sim.api; print(sorted({'numba', 'simpy', 'pandas'} & set(sys.modules)))"
    assert run_python(code, repository) == "[]"


@kernel
def _double(value: int) -> int:
    return 2 * value


@kernel
def _triple(value: int) -> int:
    return 3 * value


@kernel
def _plus_one(value: int) -> int:
    return _double(value) + 1


def test_a_text_can_be_bound_to_other_functions() -> None:
    other = bound(_plus_one, "triple", _double=_triple)
    assert is_kernel(other)
    assert set(called_by(_plus_one)) == {"_double"}  # type: ignore[arg-type]
    assert (_plus_one(5), other(5)) == (11, 16)
    assert (jit.compiled(_plus_one, 1)(5), jit.compiled(other, 1)(5)) == (11, 16)
    with pytest.raises(TypeError, match="calls no kernel function"):
        bound(_plus_one, "odd", halve=_triple)


@kernel
def add_to(totals: list[float], place: int, number: float) -> float:
    totals[place] += number
    return totals[place]


def test_native_arguments_are_those_of_the_caller_for_as_long_as_a_function_needs_them() -> None:
    totals = np.zeros(3)
    layout = jit.NativeLayout("numbers", totals, 0)
    add = jit.NativeArguments(layout, (totals, 2)).bind(layout.compiled(add_to, (0, 1), 0.0))
    gc.collect()
    before = np.ones(1000)  # what would now lie where the arguments were
    assert [add(1.5), add(2.0)] == [1.5, 3.5]
    assert totals.tolist() == [0.0, 0.0, 3.5]
    assert before.all()
    other = np.full(3, 10.0)
    assert jit.NativeArguments(layout, (other, 0)).bind(add.func)(1.0) == 11.0
    assert totals[0] == 0.0

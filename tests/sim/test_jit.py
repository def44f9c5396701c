"""The compiled kernels' cache: named after its sources, and never necessary."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sim
from sim.kernel.jit import cache_root, interpreted, sources_digest
from sim.kernel.pool import arrive

PACKAGE = Path(sim.__file__).parent
SIMULATE = (
    "from sim.api import compile_needed, warm_up; from sim.kernel.jit import CACHE_FOLDER;"
    "before = compile_needed(); warm_up(); print(before, compile_needed(), CACHE_FOLDER)"
)


def test_the_digest_follows_every_kernel_and_policy_source(tmp_path: Path) -> None:
    copy = tmp_path / "sim"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert sources_digest(copy) == sources_digest()
    for name in ("kernel/pool.py", "policies/backfill.py"):
        before = sources_digest(copy)
        path = copy / name
        path.write_text(path.read_text() + "# edited\n")
        assert sources_digest(copy) != before


def test_where_the_cache_lies() -> None:
    assert cache_root({"COPPERLINE_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}) == Path("/a/b")
    assert cache_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/copperline")
    assert cache_root({}) == Path.home() / ".cache" / "copperline"


def in_new_process(cache: Path, repository: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SIMULATE],
        cwd=repository,
        env={**os.environ, "COPPERLINE_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_second_process_compiles_nothing(tmp_path: Path, repository: Path) -> None:
    first = in_new_process(tmp_path / "cache", repository)
    second = in_new_process(tmp_path / "cache", repository)
    assert first[:2] == ["True", "False"]
    assert second[:2] == ["False", "False"]
    assert Path(second[2]).parent == tmp_path / "cache"


def test_without_a_writable_folder_it_compiles_and_works(tmp_path: Path, repository: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    assert in_new_process(blocked, repository) == ["True", "False", "None"]


def test_a_kernel_can_be_interpreted() -> None:
    assert interpreted(arrive).__name__ == "arrive"


def test_asking_before_the_policies_are_imported(tmp_path: Path, repository: Path) -> None:
    def answer() -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from sim.kernel.jit import compile_needed; print(compile_needed())",
            ],
            cwd=repository,
            env={**os.environ, "COPPERLINE_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert answer() == "True"
    in_new_process(tmp_path, repository)
    assert answer() == "False"


def test_importing_the_door_imports_neither_engine_nor_compiler(repository: Path) -> None:
    code = "import sys, sim.api; print(sorted({'numba', 'simpy', 'pandas'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

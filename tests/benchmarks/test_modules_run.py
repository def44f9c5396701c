"""Which modules a flow runs: functions that are called count, imports and generated code do not."""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.modules_run import TARGETS, ModuleTrace, traced

MOST = {"sweep": 95, "suggestion": 66, "claim": TARGETS["claim"]}
"""Modules that a flow runs at most; a number here may only fall, until it is the target."""

SOURCES = {
    "__init__": "",
    "values": "from dataclasses import dataclass\n@dataclass\nclass Value:\n    x: int\n",
    "registry": "NAMES = []\ndef register(name):\n    NAMES.append(name)\n",
    "names": "from traced_flow.registry import register\nregister('a')\nTWO = [x for x in 'ab']\n",
    "work": "def apply(act):\n    return act()\n",
    "late": "class Late:\n    @property\n    def two(self):\n        return 2\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that registers at import, and a trace that watches this thread."""
    folder = tmp_path / "traced_flow"
    folder.mkdir()
    for name, source in SOURCES.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    before = sys.getprofile()
    yield tmp_path
    sys.setprofile(before)
    threading.setprofile(None)
    for name in list(sys.modules):
        if name.startswith("traced_flow"):
            del sys.modules[name]


def test_only_modules_whose_functions_are_called_count(package: Path) -> None:
    trace = ModuleTrace(package, ["traced_flow"])
    trace.install()
    with trace.recording():
        importlib.import_module("traced_flow.names")
        value = importlib.import_module("traced_flow.values").Value(1)
        work = importlib.import_module("traced_flow.work")
        late = importlib.import_module("traced_flow.late").Late()
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(work.apply(lambda: late.two)))
        thread.start()
        thread.join()
    importlib.import_module("traced_flow.registry").register("after the flow")
    assert (value.x, seen) == (1, [2])
    functions = trace.functions()
    assert list(functions) == ["traced_flow.late", "traced_flow.work"]
    assert functions["traced_flow.late"] == {"Late.two": "traced_flow.work.apply"}
    assert functions["traced_flow.work"] == {"apply": "outside of the project"}


@pytest.mark.slow
@pytest.mark.parametrize("flow", MOST)
def test_a_flow_runs_no_more_modules_than_before(flow: str) -> None:
    modules = traced(flow)
    assert len(modules) <= MOST[flow], sorted(modules)

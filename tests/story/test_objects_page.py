"""The page about objects that place tasks: its example runs, and says what the page says."""

import re
from pathlib import Path

import pytest

from sim import placement
from sim.placement import LiveCluster, LiveInstance, LiveJob, LiveMachine, LiveTask


def test_the_example_runs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (repository / "docs/howto/placement-object.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, "docs/howto/placement-object.md", "exec"), {})
    machines, makespan, series = capsys.readouterr().out.splitlines()
    assert machines == "[0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1] [105.0, 40.0]"
    assert makespan == "105.0"
    assert series.endswith("[2, 8, 2, 4, 1, 0]")


def test_what_the_page_names_is_there(repository: Path) -> None:
    text = (repository / "docs/howto/placement-object.md").read_text()
    rows = dict(re.findall(r"^\| (?:the |an |a )(\w+) \| (.*) \|$", text, re.M))
    views = {
        "cluster": LiveCluster, "machine": LiveMachine, "task": LiveTask, "job": LiveJob,
        "instance": LiveInstance,
    }  # fmt: skip
    assert rows.keys() == views.keys()
    for word, view in views.items():
        quoted = re.findall(r"`([a-z]\w+(?:\(\w+\))?)`", rows[word])
        named = {one.partition("(")[0] for one in quoted}
        slots = set(getattr(view, "__slots__", ("machines",)))
        public = {one for one in {*dir(view), *slots} if not one.startswith("_")}
        assert named == public, word
    for name in re.findall(r"^\| `(\w+)\(", text, re.M):
        assert hasattr(placement, name), name

"""`copperline agents reproduce`: the paper's evaluation in a folder, from the command line."""

import itertools
import json
from pathlib import Path

import pytest

from assistant.applications.extensions.maze import MazeRunner
from assistant.cli.main import run
from assistant.simtools import measured_tables
from assistant.simtools.measured_tables import NAMES, PaperTable, TabulationTask, paper_table
from strategies import MeasuredTable


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder where the maze was measured before: its best row; the others are made up."""
    question = TabulationTask.of(MazeRunner())
    folder = tmp_path / "to" / "tables"
    folder.mkdir(parents=True)
    parameters = question.space.parameters
    lines = [",".join(question.header)]
    first = next(question.measured([next(question.space.configurations())], 1, None)).value
    for levels in itertools.product(*(parameter.levels for parameter in parameters)):
        value = (
            first
            + (len(lines) > 1)
            + sum((7 * len(str(level)) + i) % 5 for i, level in enumerate(levels))
        )
        value = first if len(lines) == 1 else value + len(lines) % 11
        lines.append(",".join([*map(str, levels), repr(value)]))
    (folder / "maze.csv").write_text("\n".join(lines) + "\n")
    told = {
        "name": "maze", "shape": [3, 3, 2, 3], "feasible": 54, "about": "what was kept",
        "fingerprint": question.fingerprint,
    }  # fmt: skip
    (folder / "maze.json").write_text(json.dumps(told))
    return tmp_path / "to"


REPRODUCE = ["agents", "reproduce", "--to", "to", "--application", "maze", "--workers", "1"]


def test_claims_are_judged_and_a_second_time_from_what_is_kept(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--figure", "6,9", "--quick", "--replications", "2"]
    assert run([*REPRODUCE, *options]) == 0
    shown = capsys.readouterr().out
    assert "bad insight: fewer runs" in shown
    assert "12 claims, application by application:" in shown
    assert "what was kept; 54 of 54 meet every constraint" in (measured / "report.md").read_text()
    before = (measured / "verdicts.json").read_bytes()
    assert run([*REPRODUCE, *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["figures"] == ["6", "9"]
    assert told["replications"] == 2
    assert {one["table"] for one in told["verdicts"]} == {"maze"}
    assert (measured / "verdicts.json").read_bytes() == before
    assert run([*REPRODUCE, *options[:-1], "3"]) == 2
    assert "holds another study" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "message"), [
    (["--figure", "1"], "no figure '1' to reproduce; allowed are 5, 6, 7, 8, 9, compare"),
    (["--figure", "8"], "nothing to reproduce for figure 8 with maze"),
    (["--log", "some.swf"], "--log is for scheduling, which is not among --application"),
    (["--application", "mase"], "the paper has no application 'mase'; did you mean 'maze'?"),
])  # fmt: skip
def test_what_cannot_be_reproduced_is_refused(
    options: list[str], message: str, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*REPRODUCE, *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_table_that_is_not_so_any_more_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_tables, "MazeRunner", lambda: MazeRunner(seed=3, n_games=1))
    before = paper_table("maze", tmp_path)
    content = before.path.read_text()
    assert paper_table("maze", tmp_path) == before
    assert before.path.read_text() == content
    best = min(float(line.rsplit(",", 1)[1]) for line in content.splitlines()[1:])
    before.path.write_text(content.replace(f",{best!r}", f",{best - 1!r}"))
    assert paper_table("maze", tmp_path) == before
    assert before.path.read_text() == content


def test_where_nothing_keeps_the_agreement_that_is_told() -> None:
    table = PaperTable("scheduling", Path("t.csv"), (22, 20, 20), 0, "a log")
    assert table.description == (
        "a log; none meets every constraint, so each value is the violation"
    )


@pytest.mark.soak
@pytest.mark.slow
def test_the_three_spaces_have_the_paper_s_sizes(tmp_path: Path) -> None:
    sizes = {}
    for name in NAMES:
        found = paper_table(name, tmp_path)
        table = MeasuredTable.read(found.path)
        assert table.n_rows == table.space.size == found.size
        sizes[name] = found.size
        before = found.path.stat().st_mtime_ns
        assert paper_table(name, tmp_path) == found
        assert found.path.stat().st_mtime_ns == before, "not measured again"
    assert sizes == {"flood": 1_296, "scheduling": 8_800, "maze": 54}

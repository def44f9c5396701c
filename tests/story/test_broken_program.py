"""A sweep with a misspelt file name, from its end after one run to the repair."""

import json
from pathlib import Path

import pytest

from assistant.cli.console import EXIT_PROGRAM_FAILED
from tests.story.conftest import Told

pytestmark = pytest.mark.slow

SWEEP = """
runs = 8
initial = 4
objective = {minimise = "height"}
parameters = [{name = "x", levels = [1, 2, 3, 4]}, {name = "mode", levels = ["a", "b", "c"]}]

[application]
command = ["sh", "tran.sh", "{x}", "{mode}"]
baseline = {x = 4, mode = "c"}
"""

PROGRAM = """echo '{"height": '$1'}'\n"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SWEEP)
    return path


def test_a_misspelt_file_name_ends_the_sweep_and_the_repaired_one_goes_on(
    cli: Told, file: Path
) -> None:
    code, out, _ = cli("sweep", file)
    assert code == EXIT_PROGRAM_FAILED == 4
    assert "The only run gave no result." in out
    assert "✗ Failed: run 1, the current configuration, failed: the program ended with" in out
    assert "Correct the name or the folder of the file, then resume" in out
    assert "SLA: 8 runs; 1 used (failed)." in out
    assert "(met)" not in out
    assert "Correct the program, then resume with: copperline resume mine-" in out

    code, out, _ = cli("resume", "latest", "--json")  # not repaired: it fails again
    assert code == EXIT_PROGRAM_FAILED
    again = json.loads(out)
    assert again["runs"] == {"submitted": 2, "completed": 0, "failed": 2}
    assert again["broken_program"] == again["finished"]

    (file.parent / "tran.sh").write_text(PROGRAM)
    code, out, err = cli("resume", "latest", "--json")
    assert code == 0, err
    ended = json.loads(out)
    assert ended["runs"] == {"submitted": 8, "completed": 6, "failed": 2}
    assert ended["baseline"]["value"] == 4.0
    assert ended["best"]["value"] == 1.0
    assert ended["broken_program"] is None
    assert [use["verdict"] for use in ended["sla"]] == ["met"]


def test_runs_under_way_end_and_no_more_start(cli: Told, file: Path) -> None:
    lines = [line for line in SWEEP.splitlines() if not line.startswith(("baseline", "runs"))]
    file.write_text("\n".join(["runs = 12", "workers = 2", *lines]))
    code, out, err = cli("sweep", file, "--json")
    assert code == EXIT_PROGRAM_FAILED, err
    counts = json.loads(out)["runs"]
    assert counts["completed"] == 0
    assert 3 <= counts["failed"] <= 4
    (file.parent / "tran.sh").write_text(PROGRAM)
    code, out, err = cli("resume", "latest", "--json")
    assert code == 0, err
    ended = json.loads(out)["runs"]
    assert ended == {
        "submitted": 12,
        "completed": 12 - counts["failed"],
        "failed": counts["failed"],
    }


def test_keep_going_is_a_switch_and_a_setting(cli: Told, file: Path) -> None:
    code, out, _ = cli("sweep", file, "--keep-going", "--runs", "4")
    assert code == 3
    assert "SLA: 4 runs; 4 used (failed)." in out
    file.write_text(f"keep_going = true\n{SWEEP}")
    code, out, _ = cli("sweep", file, "--json")
    assert code == 3
    assert json.loads(out)["runs"]["failed"] == 8
    code, out, _ = cli("sweep", file, "--no-keep-going", "--json")
    assert code == EXIT_PROGRAM_FAILED
    code, out, _ = cli("resume", "latest", "--keep-going", "--json")
    assert code == 3
    assert json.loads(out)["runs"]["failed"] == 8

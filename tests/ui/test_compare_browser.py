"""In a real Chromium: two experiments are compared, charts mark each other, failures run again."""

import re
from pathlib import Path

import pytest

from assistant import RunState, Session, load_session
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from benchmarks.browsing import browsing, kept_up
from benchmarks.screen import Screen

pytestmark = pytest.mark.browser

FAILED = "failed runs, the latest first"


def program(store: Path, name: str, license_file: Path, n: int) -> Session:
    """Run a program n times; with x = 3 it fails until the license is there."""
    says = '[ "$1" -eq 3 ] && ! [ -e "$3" ] && exit 9; echo "{{\\"loss\\": $(($1 * $1 + $2))}}"'
    tables = {
        "runs": 30,
        "application": {
            "kind": "command", "measures": {"stdout": "last_line"},
            "command": ["sh", "-c", says, "sh", "{x}", "{y}", str(license_file)],
        },
        "objective": {"minimise": "loss"},
        "parameters": [{"name": "x", "levels": [1, 2, 3]}, {"name": "y", "levels": [1, 2, 3, 4]}],
    }  # fmt: skip
    built = build_sweep(check_settings(tables, "the test"))
    session = open_sweep(built, SqliteStore(store), name, config_snapshot(tables, ()))
    for i in range(n):
        session.include({"x": 1 + i % 3, "y": 1 + i // 3})
    session.run_queued(SerialExecutor(built.application))
    return session


@pytest.mark.soak
def test_a_person_compares_marks_saves_and_runs_failures_again(
    chromium: str, tmp_path: Path, repository: Path
) -> None:
    store, license_file = tmp_path / "store.db", tmp_path / "license"
    first = program(store, "short", license_file, 5)
    long = program(store, "long", license_file, 9)
    with kept_up(store, repository) as up, browsing(up.address) as opened:
        person = Screen(opened(), up.url)
        page = person.page

        person.goto(f"/compare?c={first.id}&c={long.id}")
        person.says("short and long have the same best loss: 2.")
        person.says("Settings that differ")
        person.shows("stVegaLiteChart", 2)
        with page.expect_download() as caught:
            person.press(re.compile("Download one report"))
        report = tmp_path / "comparison.html"
        caught.value.save_as(report)
        assert report.read_text().count("<svg") == 2

        person.goto(f"/space?e={long.id}")
        lines = page.get_by_test_id("stVegaLiteChart").last
        marked = page.get_by_text(re.compile(r"^3 runs of 9 in the range")).first
        person.brush(lines, (0.02, 0.35), (0.3, 0.72), marked)

        person.press(re.compile("Save a chart"))
        with page.expect_download() as caught:
            person.press("SVG")
        assert caught.value.suggested_filename == "map-of-the-configurations.svg"
        assert b"<svg" in Path(caught.value.path()).read_bytes()

        license_file.touch()  # the repair
        person.goto(f"/queue?e={long.id}")
        person.tick_row(FAILED, 0, page.get_by_text("Run 1 selected run again"))
        person.press("Run all 3 again")
        person.says("Runs 10, 11 and 12 wait in the queue.")
        person.press(re.compile("^Start"))
        person.says(re.compile("12 of 30"))
        assert person.watched.strangers == []
        assert person.watched.complaints == []
    ended = load_session(SqliteStore(store), long.id).experiment
    assert [run.state for run in ended.runs[9:]] == [RunState.COMPLETED] * 3

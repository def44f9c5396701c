"""One story, told by the command line and by the browser's automatic mode: the same journal."""

from pathlib import Path

import pytest

from assistant.cli.main import run
from assistant.store import SqliteStore
from assistant.ui.opening import Form, open_from
from assistant.ui.runner import Runner
from tests.ui.screens import until
from tests.ui.test_app import told


@pytest.mark.parametrize("answer", ["accept", "ignore"])
def test_the_command_line_and_the_browser_end_in_the_same_journal(
    store: Path, tmp_path: Path, answer: str
) -> None:
    table = tmp_path / "bowl.csv"
    cells = [(x, y) for x in range(12) for y in range(12)]
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + (y - 4) ** 2}\n" for x, y in cells)
    table.write_text(f"x,y,objective\n{rows}")
    opened = open_from(Form("table", str(table), runs=32, seed=3), store)
    runner = Runner(store, opened.session.id)
    runner.start(opened.application)
    runner.steer_by_itself(4, answer)  # type: ignore[arg-type]
    until(lambda: not runner.is_busy and runner.automatic is None)
    in_browser = SqliteStore(store).load(opened.session.id)

    other = tmp_path / "cli.db"
    options = ["--runs", "32", "--seed", "3", "--initial", "4", "--batch", "4", "--advice", answer]
    assert run(["sweep", "--table", str(table), *options, "--store", str(other)]) == 0
    journal = SqliteStore(other)
    by_cli = journal.load(journal.experiments()[0].id)

    assert told(by_cli)[-1] == "ExperimentFinished"  # the browser leaves that to the person
    assert told(by_cli)[:-1] == told(in_browser)
    assert "AdviceGiven" in told(by_cli)

"""The Streamlit script itself, run by Streamlit's own tester, over real stores."""

import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant.cli.main import run

SCRIPT = str(Path(__file__).resolve().parents[2] / "streamlit_app.py")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(path))
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
    return path


def test_without_a_store_it_says_how_to_begin(store: Path) -> None:
    page = AppTest.from_file(SCRIPT, default_timeout=30).run()
    assert not page.exception
    assert "No experiment is stored" in page.info[0].value
    assert "copperline demo" in page.code[0].value


def test_an_experiment_is_shown_answer_first(store: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,objective\n1,5\n2,3\n4,9\n")
    assert run(["sweep", "--table", "t.csv", "--name", "older"]) == 0
    assert run(["demo", "--runs", "6"]) in (0, 3)
    page = AppTest.from_file(SCRIPT, default_timeout=30).run()
    assert not page.exception
    assert page.metric[0].value == "6 of 6"
    assert len(page.dataframe[0].value) == 6
    page.selectbox[0].select_index(1).run()
    assert not page.exception
    assert "Best found: objective = 3" in page.success[0].value


def test_a_file_that_is_no_store_is_said_in_a_sentence(store: Path) -> None:
    store.write_text("not a database " * 100)
    page = AppTest.from_file(SCRIPT, default_timeout=30).run()
    assert not page.exception
    assert "cannot be used" in page.error[0].value

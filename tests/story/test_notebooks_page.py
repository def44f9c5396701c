"""The page about notebooks: its cells run in a real IPython kernel, and the view is redrawn."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import pages

pytestmark = pytest.mark.slow


def output(cell: Any, kind: str) -> str:
    """Return the last HTML of the outputs of a kind that a cell has."""
    found = [o.data["text/html"] for o in cell.outputs if o.output_type == kind]
    return str(found[-1])


def test_the_cells_of_the_page_run_and_the_view_follows_the_study(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    page = next(p for p in pages(repository) if p.name == "docs/howto/notebooks.md")
    cells = [nbformat.v4.new_code_cell(code) for code in page.blocks("python")]
    more = ["study", "print(*study.to_pandas()['why'])"]
    cells += [nbformat.v4.new_code_cell(code) for code in more]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    _, watched, effects, frame, best, last, reasons = notebook.cells
    (view,) = watched.outputs
    assert view.output_type == "display_data"
    html = view.data["text/html"]
    assert "24 of 24" in html  # also what later cells did
    assert html == output(last, "execute_result")
    assert "Run " in output(best, "execute_result")
    assert "the best ones, less deep" in reasons.outputs[0].text
    assert "optimiser" in output(frame, "execute_result")
    assert "95 %" in output(effects, "execute_result")


@pytest.mark.soak
def test_a_stored_experiment_is_watched_while_another_session_executes_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    codes = [
        "import threading, copperline as cl",
        "study = cl.study({'x': range(9)}, minimise='y', runs=4, store='runs.db', name='far')",
        "cl.watch('runs.db', every_s=0.02)",
        "study.optimise(lambda x: (x - 3) ** 2)",
        "[t.join(240) for t in threading.enumerate() if t.name == 'copperline-watch'];",
        "try:\n    cl.watch('none.db')\nexcept Exception as error:\n    print(error)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    (view,) = notebook.cells[2].outputs
    assert "4 of 4" in view.data["text/html"]
    assert "the budget of 4 runs is used up" in view.data["text/html"]
    assert "there is no store 'none.db'" in notebook.cells[5].outputs[0].text

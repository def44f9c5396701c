"""The page on Python: its script runs, and every call of its table exists."""

import re
from pathlib import Path

import copperline as cl


def test_the_script_of_the_page_runs_and_its_table_is_true(repository: Path) -> None:
    text = (repository / "docs" / "python.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    exec(script, names)  # the page is ours
    study = names["study"]
    assert isinstance(study, cl.Study)
    assert study.finished == "the budget of 24 runs is used up"
    calls = re.findall(r"\| `cl\.study\(\.\.\., (.*)\)` \|", text)
    assert len(calls) >= 7
    for arguments in calls:
        goal = "" if "minimise=" in arguments else "minimise='loss', "
        space = "{'lr': [0.1, 0.01], 'layers': range(1, 9), 'optimiser': ['adam', 'sgd']}"
        eval(f"cl.study({space}, {goal}{arguments})", {"cl": cl})
    for name in re.findall(r"`study\.(\w+)\(", text):
        assert callable(getattr(study, name))

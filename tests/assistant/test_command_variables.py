"""The environment of a program: clean, but for what is usual and what was asked for."""

import json

import pytest

from assistant.applications.program import THREADS
from assistant.core.errors import ApplicationError
from assistant.core.ports import Environment
from tests.assistant.programs import failure, python

OURS = {
    "MY_SECRET": "s", "CUDA_HOME": "/c", "CUDA_PATH": "/p", "LC_NUMERIC": "C", "LANG": "C.UTF-8",
    "TZ": "UTC", "TMPDIR": "/tmp", "USER": "me", "LOGNAME": "me", "HOME": "/home/me",
    "SHELL": "/bin/sh", "COPPERLINE_TOKEN": "token", "COPPERLINE_TOKEN_OLD": "old",
    "COPPERLINE_UI_TOKEN": "ui",
    "LD_PRELOAD": "", "PYTHONPATH": "/nowhere", "OMP_NUM_THREADS": "5",
}  # fmt: skip
USUAL = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_NUMERIC", "TZ", "TMPDIR"}


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    return OURS


def given(tmp_path: object, **more: object) -> dict[str, str]:
    """Return the environment that a program finds, but for what is ours in it."""
    code = (
        "import json, os, sys\nopen(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))\nprint(1)"
    )
    told = f"{tmp_path}/told.json"
    python(code, told, **more).evaluate({"x": 1}, 0)
    with open(told) as file:  # noqa: PTH123
        found = json.load(file)
    assert isinstance(found.pop("COPPERLINE_RUN"), str)
    found.pop("LC_CTYPE", None)  # Python's own, where the locale is C
    return dict(found)


def test_it_is_clean(tmp_path: object, ours: dict[str, str]) -> None:
    found = given(tmp_path)
    assert set(found) == USUAL
    assert all(found[name] == ours[name] for name in USUAL - {"PATH"})


def test_patterns_take_over_more(tmp_path: object, ours: dict[str, str]) -> None:
    found = given(tmp_path, inherit=["CUDA_*", "MY_SECRET", "NOT_THERE"])
    assert set(found) == USUAL | {"CUDA_HOME", "CUDA_PATH", "MY_SECRET"}


@pytest.mark.parametrize("patterns", [["*"], ["COPPERLINE_*"], ["COPPERLINE_TOKEN"]], ids=str)
def test_the_token_is_given_to_nobody(
    tmp_path: object, ours: dict[str, str], patterns: list[str]
) -> None:
    found = given(tmp_path, inherit=patterns)
    assert not [name for name in found if "TOKEN" in name]
    assert ("MY_SECRET" in found) == (patterns == ["*"])


def test_what_env_says_counts_most(tmp_path: object, ours: dict[str, str]) -> None:
    found = given(tmp_path, inherit=["*"], env={"MY_SECRET": "mine", "HOME": "/x{x}"})
    assert (found["MY_SECRET"], found["HOME"]) == ("mine", "/x1")


def test_the_cores_become_threads(tmp_path: object, ours: dict[str, str]) -> None:
    found = given(tmp_path, environment=Environment(3), inherit=["OMP_*"])
    assert {name: found[name] for name in THREADS} == dict.fromkeys(THREADS, "3")
    own = given(tmp_path, environment=Environment(3), env={"OMP_NUM_THREADS": "1"})
    assert (own["OMP_NUM_THREADS"], own["MKL_NUM_THREADS"]) == ("1", "3")
    assert not set(given(tmp_path)) & set(THREADS)


HINTED = {
    "a key": ("import os; os.environ['MY_SECRET']", "MY_SECRET"),
    "a module": ("import not_there_at_all", "PYTHONPATH"),
    "a library": (
        "raise SystemExit('error while loading shared libraries: libx.so')", "LD_LIBRARY_PATH",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "name"), HINTED.values(), ids=HINTED)
def test_a_failed_program_is_told_what_it_was_not_given(
    monkeypatch: pytest.MonkeyPatch, ours: dict[str, str], code: str, name: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/lib")
    told = failure(python(code))
    assert f"it did not get the variable {name}; set inherit = ['{name}']" in told
    assert "did not get" not in failure(python(code, inherit=["*"]))


def test_the_hint_names_no_token(ours: dict[str, str]) -> None:
    assert "did not get" not in failure(python("import os; os.environ['COPPERLINE_TOKEN']"))


@pytest.mark.parametrize("pattern", ["", "A=b", "A\0", "A\n"], ids=repr)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ApplicationError, match="inherit lists variables"):
        python("print(1)", inherit=[pattern])

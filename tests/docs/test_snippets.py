"""Code of README and docs: Python runs, sweep files are read, commands and options exist."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from assistant.cli.main import COMMANDS, DeferredCommand
from assistant.config.reference import sweep_file_schema
from assistant.config.sweep_file import check_settings
from tests.docs.pages import Page, pages

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {page.name: page for page in pages(REPOSITORY)}

RUN_ELSEWHERE = {
    "docs/howto/http-program.md": "tests/story/test_adapters_page.py serves it",
    "docs/howto/hooks.md": "tests/story/test_hooks.py starts hooks; `session` is the reader's",
    "docs/howto/service.md": "tests/service/test_remote_session.py steers a service",
    "docs/howto/hydra.md": "tests/integrations/test_hydra.py runs it under Hydra",
    "docs/howto/conditions.md": "tests/story/test_conditions.py runs it in a sweep",
    "docs/howto/mlflow.md": "tests/integrations/test_mlflow.py runs it",
    "docs/howto/notebooks.md": "tests/story/test_notebooks_page.py runs it in a notebook",
    "docs/howto/forecast.md": "tests/story/test_forecast.py",
    "docs/howto/analysts.md": "tests/story/test_scripted.py plays its analysts",
    "docs/howto/futures.md": "tests/story/test_futures.py",
    "docs/howto/gpu-fleet.md": "tests/story/test_sharing_gpus_page.py",
    "docs/howto/placement-object.md": "tests/story/test_objects_page.py",
    "docs/howto/placement-rule.md": "tests/story/test_placement_page.py",
    "docs/reference/strategies.md": "tests/strategies/test_two_level.py",
    "docs/explanation/cloud-workloads.md": "learns from a public log that is not in the package",
    "docs/howto/capacity.md": "learns from a public log that is not in the package",
}
"""Pages whose Python does not run here: what runs it, or why nothing does."""

SLOW = {"docs/howto/ai-platform.md"}
"""Pages whose Python takes several seconds."""


def _runnable() -> Iterator[Any]:
    for name, page in PAGES.items():
        if page.blocks("python") and name not in RUN_ELSEWHERE:
            yield pytest.param(name, marks=[pytest.mark.soak] if name in SLOW else [])


def _needs_more(code: str) -> str | None:
    """Return what a snippet needs and this checkout lacks, or None."""
    if "import copperline" in code and find_spec("copperline") is None:
        return "copperline"
    return "a log of the reader's" if "tasks.csv" in code else None


@pytest.mark.parametrize("name", list(_runnable()))
def test_python_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(REPOSITORY)
    for code in PAGES[name].blocks("python"):
        if _needs_more(code) is None:
            exec(compile(code, name, "exec"), {"__name__": "__main__"})


SWEEP_FILES = [
    (name, number, text)
    for name, page in PAGES.items()
    for number, text in enumerate(page.blocks("toml"))
    if name != "docs/howto/analysts.md"  # studies: tests/story/test_agents.py reads them
]


@pytest.mark.parametrize(("name", "number", "text"), SWEEP_FILES)
def test_sweep_files_are_read(name: str, number: int, text: str) -> None:
    tables = tomllib.loads(text)
    application = tables.setdefault("application", {})
    of_programs = {"limit", "processes", "file_size"}
    if "kind" not in application and ("cost" in tables or of_programs & application.keys()):
        application.setdefault("command", ["true", "{threads}"])
        tables.setdefault("parameters", [{"name": "threads", "levels": [1, 2]}])
        tables.setdefault("objective", {"minimise": "time_ms"})
    check_settings(tables, name)
    Draft202012Validator(json.loads(sweep_file_schema())).validate(tables)


def commands_of(page: Page) -> Iterator[str]:
    """Yield the lines that begin with `copperline` in code, joined where they go on."""
    code = [text for kind in ("", "sh", "bash", "console") for text in page.blocks(kind)]
    for line in "\n".join(code).replace("\\\n", " ").splitlines():
        if match := re.match(r"(?:\$ )?copperline (.+)", line.strip()):
            yield match[1].partition("  #")[0].removesuffix(" &")
    prose = " ".join(page.prose.split())
    for match in re.finditer(r"`copperline ([a-z][^`]*)`", prose):
        yield match[1]


def unknown_words(line: str) -> list[str]:
    """Return the command or the options of a line that do not exist."""
    words = shlex.split(line.replace("...", ""))
    path = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    if path not in COMMANDS:
        return [] if any(name.startswith(f"{path} ") for name in COMMANDS) else [path]
    target, help_line = COMMANDS[path]
    command = DeferredCommand(path.split()[-1], target, help_line).load()
    known = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option) or hasattr(parameter, "opts")
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [option for option in options if option not in known]


@pytest.mark.parametrize("name", [n for n in PAGES if n != "docs/reference/cli.md"])
def test_commands_and_options_exist(name: str) -> None:
    lines = list(commands_of(PAGES[name]))
    assert {line: unknown_words(line) for line in lines} == {line: [] for line in lines}


def test_an_unknown_command_or_option_is_seen() -> None:
    assert unknown_words("sweeep x.toml") == ["sweeep"]
    assert unknown_words("sweep x.toml --runz 3 --seed 1") == ["--runz"]
    page = Page("a", Path(), "```\n$ copperline demo --x  # why\n```\nSay `copperline app`.")
    assert list(commands_of(page)) == ["demo --x", "app"]

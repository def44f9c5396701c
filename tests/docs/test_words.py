"""README is one page, and README and docs are written in short sentences."""

import re
import statistics
from pathlib import Path

from tests.docs.pages import Page, pages

GENERATED = {"docs/reference/cli.md", "docs/reference/sweep-file.md", "docs/reference/rest.md"}


def sentences(page: Page) -> list[int]:
    """Return the numbers of words of the sentences of running text; tables and code left out."""
    lines = [
        re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", line)
        for line in page.prose.splitlines()
        if not re.match(r"#|\||!\[|    |<!--|>", line)
    ]
    text = re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.?!])\s+", " ".join(paragraph.split())):
            if len(words := sentence.split()) > 2:
                found.append(len(words))
    return found


def written(repository: Path) -> list[Page]:
    return [page for page in pages(repository) if page.name not in GENERATED]


def test_the_readme_is_one_page(repository: Path) -> None:
    readme = next(page for page in pages(repository) if page.name == "README.md")
    assert len(readme.text.split()) <= 700
    assert len(readme.text.splitlines()) <= 120
    assert statistics.median(sentences(readme)) <= 17


def test_sentences_are_short(repository: Path) -> None:
    every = [length for page in written(repository) for length in sentences(page)]
    assert statistics.median(every) <= 17
    assert statistics.quantiles(every, n=20)[-1] <= 30  # nineteen of twenty


def test_sentences_are_counted() -> None:
    page = Page(
        "a", Path(), "# No title here at all\n\nOne two three. Four five six seven!\n\n| a |\n"
    )
    assert sentences(page) == [3, 4]

"""The pages of README and docs, and what stands in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Page:
    """A Markdown page; ``name`` is its path from the repository's root."""

    name: str
    path: Path
    text: str

    def blocks(self, language: str) -> list[str]:
        """Return its code blocks in a language."""
        return [text for kind, text in _FENCE.findall(self.text) if kind == language]

    @property
    def prose(self) -> str:
        """Its text without code blocks."""
        return _FENCE.sub("", self.text)

    @property
    def anchors(self) -> set[str]:
        """Names of its headings in addresses, as GitHub and the site make them."""
        return {slug(title) for title in _HEADING.findall(self.prose)}

    @property
    def links(self) -> list[str]:
        """Targets of its links and pictures, but not those on the web."""
        targets = _LINK.findall(re.sub(r"`[^`\n]*`", "", self.prose))
        return [target for target in targets if not re.match(r"https?://", target)]


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"`|\[|\]|\*", "", title.strip().lower()))
    return kept.replace(" ", "-")


def pages(repository: Path) -> Iterator[Page]:
    """Yield README and every page of docs, but not the built site."""
    docs = repository / "docs"
    built = docs / "_build"
    for path in (repository / "README.md", *sorted(docs.rglob("*.md"))):
        if built not in path.parents:
            yield Page(str(path.relative_to(repository)), path, path.read_text(encoding="utf-8"))

"""Every link of README and docs leads somewhere, and every page is in the navigation."""

import re
from pathlib import Path

from tests.docs.pages import Page, pages, slug


def dead_links(page: Page, repository: Path) -> list[str]:
    dead = []
    for target in page.links:
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path
        if not path.is_relative_to(repository) or not path.exists():
            dead.append(target)
        elif anchor and path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            if anchor not in Page(name, path, text).anchors:
                dead.append(target)
    return dead


def test_every_link_leads_somewhere(repository: Path) -> None:
    assert {page.name: dead_links(page, repository) for page in pages(repository)} == {
        page.name: [] for page in pages(repository)
    }


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    text = "# A title\n[one](a.md#a-title) [two](a.md#none) [three](b.md) [web](https://x.y)\n"
    path.write_text(text)
    assert dead_links(Page("a.md", path, text), tmp_path) == ["a.md#none", "b.md"]
    assert slug("multifactor: Slurm's `priority`") == "multifactor-slurms-priority"


def test_every_page_is_in_the_navigation(repository: Path) -> None:
    docs = repository / "docs"
    for kind in ("tutorial", "howto", "reference", "explanation"):
        index = (docs / kind / "index.md").read_text(encoding="utf-8")
        listed = " ".join(re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)).split()
        names = {path.stem for path in (docs / kind).glob("*.md")} - {"index"}
        assert "*" in listed or names <= set(listed), names - set(listed)


def test_links_of_the_product_lead_to_pages(repository: Path) -> None:
    for folder in ("assistant", "agents", "sim", "strategies", "benchmarks"):
        for path in (repository / folder).rglob("*.py"):
            for name in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
                assert (repository / name).exists(), f"{path} names {name}"
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        path = repository / name
        page = Page(name, path, path.read_text(encoding="utf-8"))
        assert dead_links(page, repository) == [], name

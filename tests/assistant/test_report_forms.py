"""The forms of a report: each says the same; a bundle gives the experiment back byte for byte."""

import hashlib
import io
import json
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant import Sla, open_session
from assistant.core.codec import encode_event
from assistant.core.errors import SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.forms import (
    EVENTS,
    FORMS,
    MANIFEST,
    ReportContent,
    bundle,
    downloaded,
    form_of,
    read_bundle,
    render_markdown,
    render_summary,
    write_form,
)
from assistant.session.opening import load_session
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import TODAY, Bowl, TickingClock

SWEEP = 'name = "mine"\n'


def content_of(session: Session) -> ReportContent:
    events = session.events()
    return ReportContent(collect(session.experiment, events), session.experiment, events, SWEEP)


def swept(*points: tuple[int, int], name: str = "bowl") -> Session:
    session = open_session(
        Bowl(baseline=TODAY), store=MemoryStore(), sla=Sla(40), clock=TickingClock(), name=name
    )
    session.submit_baseline()
    for x, y in points:
        session.include({"x": x, "y": y, "mode": "plain"}, f"x at {x} | <y> at {y}")
    session.run_queued(SerialExecutor(Bowl(baseline=TODAY)))
    return session


@pytest.fixture(scope="module")
def content() -> ReportContent:
    return content_of(swept((2, 0), (1, 1)))


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), unique=True, max_size=5),
    st.text(min_size=1, max_size=12).filter(
        lambda text: text.strip().isprintable() and text.strip()
    ),
)
def test_a_bundle_gives_the_experiment_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory,
    content: ReportContent,
    points: list[tuple[int, int]],
    label: str,
) -> None:
    session = swept(*points)
    session.tag((label.strip(),))
    events = session.events()
    first = bundle(replace(content, experiment=session.experiment, events=events))
    path = tmp_path_factory.mktemp("bundle") / "a.zip"
    path.write_bytes(first)
    name, imported = read_bundle(path)
    store = MemoryStore()
    store.append(name, 0, imported)
    again = load_session(store, name)
    assert list(map(encode_event, again.events())) == list(map(encode_event, events))
    assert bundle(replace(content, experiment=again.experiment, events=again.events())) == first


def test_a_bundle_opens_in_other_programs(content: ReportContent) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle(content))) as archive:
        manifest = json.loads(archive.read(MANIFEST))
        for name, entry in manifest["files"].items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == entry["sha256"]
        assert {MANIFEST, *manifest["files"]} == set(archive.namelist())
        table = pd.read_parquet(io.BytesIO(archive.read("runs.parquet")))
        assert list(table["height"]) == [
            run.outcome.value for run in content.experiment.runs if run.outcome
        ]
        assert list(pd.read_csv(archive.open("runs.csv"))["run"]) == [1, 2, 3]
        assert tomllib.loads(archive.read("sweep.toml").decode()) == {"name": "mine"}
        assert "python" in json.loads(archive.read("environment.json"))


def repacked(body: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def test_a_damaged_or_foreign_file_is_no_bundle(content: ReportContent, tmp_path: Path) -> None:
    whole, path = bundle(content), tmp_path / "a.zip"

    def refused(body: bytes, words: str) -> None:
        path.write_bytes(body)
        with pytest.raises(SettingsError, match=words):
            read_bundle(path)

    def altered(files: dict[str, bytes]) -> None:
        files[EVENTS] = files[EVENTS].replace(b"bowl", b"bowk")

    def without_an_event(files: dict[str, bytes]) -> None:
        first, _, *more = files[EVENTS].splitlines(keepends=True)
        files[EVENTS] = b"".join((first, *more))
        manifest = json.loads(files[MANIFEST])
        manifest["files"][EVENTS]["sha256"] = hashlib.sha256(files[EVENTS]).hexdigest()
        files[MANIFEST] = json.dumps(manifest).encode()

    refused(repacked(whole, without_an_event), "cannot be imported")
    refused(repacked(whole, altered), "'events.jsonl' is not as it was written")
    refused(repacked(whole, lambda files: files.update({MANIFEST: b"[1]"})), "is no bundle")
    refused(repacked(whole, lambda files: files.pop(EVENTS) and None), "is no bundle")
    refused(whole[: len(whole) // 2], "is no bundle")
    refused(b"", "is no bundle")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_bundle(tmp_path / "missing.zip")


def test_the_markdown_says_what_the_page_says_and_has_its_charts(
    content: ReportContent, tmp_path: Path
) -> None:
    written = write_form(content, tmp_path / "r.md")
    text = written.read_text()
    assert "by 85.7 %, from the current 7 to 1" in text
    assert r"x at 2 \| \<y> at 0" in text  # foreign text neither ends a cell nor is HTML
    charts = sorted((tmp_path / "r-charts").glob("*.svg"))
    assert "best-so-far" in [chart.stem for chart in charts]
    assert all(f"<r-charts/{chart.name}>" in text for chart in charts)
    assert all(chart.read_text().startswith("<svg") for chart in charts)
    assert render_markdown(content.data, {}).count("![") == 0


def test_a_summary_is_the_first_page_and_fits_below_other_text(content: ReportContent) -> None:
    text, whole = render_summary(content.data), render_markdown(content.data, {})
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["## bowl", "### What to change", "### What matters"]
    first_page = whole[: whole.index("# Appendix")]
    assert text.replace("\n##", "\n#")[1:].startswith(first_page)
    assert content.data.effects is not None
    assert content.data.effects.ranking.sentence in text


def test_a_pdf_is_printed_from_the_page(content: ReportContent, tmp_path: Path) -> None:
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):
        pytest.skip("weasyprint or its library Pango is not installed")
    body = write_form(content, tmp_path / "r.pdf").read_bytes()
    assert body.startswith(b"%PDF-")
    assert body.rstrip().endswith(b"%%EOF")


def test_a_pdf_without_its_package_is_refused_with_the_way_out(
    content: ReportContent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "weasyprint", None)
    with pytest.raises(SettingsError, match=r"copperline\[pdf\]"):
        write_form(content, tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


def test_the_ending_chooses_the_form() -> None:
    assert [form_of(Path(f"a{form.ending.upper()}")) for form in FORMS] == list(FORMS)
    with pytest.raises(SettingsError, match=r"must end in one of: \.html .*\.zip"):
        form_of(Path("report.docx"))


def test_a_download_is_one_file_and_says_what_the_written_report_says(
    content: ReportContent, tmp_path: Path
) -> None:
    name = content.experiment.opened.experiment_id
    page = downloaded(content, ".html")
    assert (page.name, page.media_type) == (f"{name}.html", "text/html")
    assert page.body == write_form(content, tmp_path / "r.html").read_bytes()
    assert downloaded(content, ".zip").body == bundle(content)
    packed = downloaded(content, ".md")
    assert (packed.name, packed.media_type) == (f"{name}.md.zip", "application/zip")
    with zipfile.ZipFile(io.BytesIO(packed.body)) as archive:
        assert archive.namelist()[0] == f"{name}-charts/best-so-far.svg"
        text = archive.read(f"{name}.md").decode()
    assert f"![Best so far](<{name}-charts/best-so-far.svg>)" in text

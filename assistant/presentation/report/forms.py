"""The forms of a report: HTML, Markdown with SVG files, PDF, and a bundle of all data.

The ending of a file chooses its form (`FORMS`); `downloaded` makes one file of any form. A bundle
is a zip file with the event log (JSON lines), the runs (CSV, Parquet), the sweep file and the
environment; a manifest has the SHA-256 digest of each. `read_bundle` gives back the events, equal
byte for byte.
"""

import hashlib
import io
import json
import platform
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import AssistantError, CodecError, SettingsError, StoreError
from assistant.core.events import Event, ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.files import write_atomically
from assistant.core.version import version
from assistant.presentation.charts import effects as effect_charts
from assistant.presentation.charts import vega_lite
from assistant.presentation.charts.training import learning_curve
from assistant.presentation.report.data import ReportData
from assistant.presentation.report.html import (
    MAX_EFFECT_CHARTS,
    check_target,
    fan,
    render_html,
    svg,
    write_report,
)
from assistant.presentation.tables.runs import run_rows, runs_frame, write_runs_csv
from assistant.presentation.text.number_format import moment, number
from strategies import StrategyError

MANIFEST: Final = "manifest.json"
EVENTS: Final = "events.jsonl"
_ZIP = "application/zip"
MOST_BUNDLE_BYTES = 2**30  # Of all files of a bundle, unpacked
_MARKUP = re.compile(r"[\\`*{}\[\]<#|]|(?<!\w)_|_(?!\w)|^[>+-]")
_PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "pyarrow")


@dataclass(frozen=True, slots=True)
class ReportContent:
    """What a report is written from; ``sweep_file`` is empty for an experiment without settings."""

    data: ReportData
    experiment: Experiment
    events: Sequence[Event]
    sweep_file: str


@dataclass(frozen=True, slots=True)
class ReportForm:
    """A form of reports: the ending of its file, and the function that writes it.

    Attributes:
        download: ending of the one file that is downloaded, and ``media_type`` what it is.
        missing: what has to be installed before it can be written; None if nothing.
    """

    ending: str
    label: str
    summary: str
    download: str
    media_type: str
    write: Callable[[ReportContent, Path], Path]
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report as one file to download."""

    name: str
    media_type: str
    body: bytes


def form_of(path: Path) -> ReportForm:
    """Return the form that the ending of a file chooses, if it can be written here.

    Raises:
        SettingsError: the ending is unknown, or the form needs a package that is not installed.
    """
    ending = path.suffix.lower()
    for form in FORMS:
        if form.ending == ending:
            missing = form.missing()
            if missing is not None:
                raise SettingsError(missing)
            return form
    endings = ", ".join(f"{form.ending} ({form.summary})" for form in FORMS)
    raise SettingsError(f"the report '{path}' must end in one of: {endings}")


def write_form(content: ReportContent, path: Path) -> Path:
    """Write a report in the form of the ending of its file, and return its absolute path.

    Raises:
        SettingsError: the ending is unknown, or the form needs a package that is not installed.
        StoreError: the file cannot be written.
    """
    return form_of(path).write(content, path)


def downloaded(content: ReportContent, ending: str) -> ReportFile:
    """Return a report as one file; Markdown and its charts are a zip file.

    Raises SettingsError as `form_of`.
    """
    name = content.experiment.opened.experiment_id
    form = form_of(Path(f"{name}{ending}"))
    with TemporaryDirectory() as folder:
        body = form.write(content, Path(folder) / f"{name}{form.ending}").read_bytes()
        if form.download != form.ending:
            files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
            body = _zipped({str(path.relative_to(folder)): path.read_bytes() for path in files})
    return ReportFile(f"{name}{form.download}", form.media_type, body)


def _write_html(content: ReportContent, path: Path) -> Path:
    return write_report(content.data, path)


def _write_pdf(content: ReportContent, path: Path) -> Path:
    from weasyprint import HTML

    target = check_target(path)
    page: bytes = HTML(string=render_html(content.data)).write_pdf()
    write_atomically(target, page, raises=StoreError, private=not target.exists())
    return target


def _missing_for_pdf() -> str | None:
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):  # the package, or the library Pango that it loads
        return (
            "a PDF needs the package weasyprint and the library Pango; install them with pip "
            "install 'copperline[pdf]' (and libpango of your system), or write .html and print it"
        )
    return None


def _write_markdown(content: ReportContent, path: Path) -> Path:
    target = check_target(path)
    folder = target.with_name(f"{target.stem}-charts")
    charts = dict(_charts(content.data))
    for name, (_, drawing) in charts.items():
        picture = check_target(folder / f"{name}.svg")
        write_atomically(picture, drawing, raises=StoreError, private=not picture.exists())
    captions = {f"{folder.name}/{name}.svg": caption for name, (caption, _) in charts.items()}
    text = render_markdown(content.data, captions)
    write_atomically(target, text, raises=StoreError, private=not target.exists())
    return target


def _charts(data: ReportData) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name, caption and SVG of each chart of the Markdown report."""
    title = f"{data.value_name} [{data.unit}]" if data.unit else data.value_name
    if data.points:
        drawing = svg(vega_lite.best_so_far(data.points, data.baseline_value, title))
        yield "best-so-far", ("Best so far", str(drawing))
    if data.second_name is not None and data.trade:
        second = (
            f"{data.second_name} [{data.second_unit}]" if data.second_unit else data.second_name
        )
        drawing = svg(vega_lite.trade_off(data.trade, title, second))
        yield "pareto-front", (f"{data.value_name} against {data.second_name}", str(drawing))
    for figure in () if data.effects is None else data.effects.figures[:MAX_EFFECT_CHARTS]:
        drawing = svg(
            effect_charts.main_effects(
                figure.levels, figure.parameter, figure.unit, f"change of {title}"
            )
        )
        yield (
            f"effect-of-{figure.parameter}",
            (
                f"{figure.parameter}: levels differ by {figure.range_text}",
                str(drawing),
            ),
        )
    spec = None if data.forecast is None else fan(data, data.forecast, title)
    if spec is not None:
        yield "forecast", ("Best so far and its forecast", str(svg(spec)))
    for curve in data.trained:
        yield f"training-of-{curve.name}", (curve.sentence, str(svg(learning_curve(curve))))


def render_markdown(data: ReportData, pictures: Mapping[str, str]) -> str:
    """Render a report as Markdown; ``pictures`` are captions by the path of their file."""
    return "\n\n".join(part for part in _parts(data, pictures) if part) + "\n"


def render_summary(data: ReportData) -> str:
    """Render the first page of a report and what matters as Markdown, without pictures.

    It suits a place that other output shares, such as the summary of a job of GitHub Actions.
    """
    parts = [*_first_page(data, "##")]
    if data.effects is not None:
        parts += ["### What matters", _escaped(data.effects.ranking.sentence)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _parts(data: ReportData, pictures: Mapping[str, str]) -> Iterator[str]:
    yield from _first_page(data, "#")
    compared = ("current", "best", "change")
    yield "# Appendix"
    yield from (f"![{_escaped(caption)}](<{path}>)" for path, caption in pictures.items())
    if data.effects is not None:
        yield "## What matters"
        yield _escaped(data.effects.ranking.sentence)
    if data.forecast is not None:
        yield "## Forecast"
        yield from map(_escaped, (data.forecast.headline, *data.forecast.sentences))
    if data.groups.missing:
        yield f"Note: {_escaped(data.groups.missing)}"
    for table in data.groups.tables:
        yield f"## Who gains and who loses, by {table.group}"
        rows = ((r.name, r.baseline or "", r.best, r.change) for r in table.rows)
        yield _table(("mean wait of the jobs of", *compared), rows)
        yield _escaped(table.note)
    if data.measures:
        yield "## All measures"
        measured = ((r.name, r.baseline or "", r.best, r.change) for r in data.measures)
        yield _table(("measure", *compared), measured)
    yield "## Every run"
    yield _table(
        ("run", "source", *data.parameters, data.value_name, "reason"),
        (
            (
                str(run.id),
                run.source,
                *(run.values[name] for name in data.parameters),
                run.state if run.value is None else number(run.value),
                run.failure or run.reason,
            )
            for run in data.runs
        ),
    )
    yield "## Basis of the result"
    facts = [("Objective", data.objective), *(("Constraint", c) for c in data.constraints)]
    facts += [(fact.label, fact.text) for fact in data.facts]
    facts += [(use.title, f"{use.agreed}; {use.used_text} ({use.verdict})") for use in data.sla]
    facts.append(("Strategy", f"{data.strategy}, seed {data.seed}"))
    facts.append(("Experiment", f"{data.experiment_id} ({data.application}), {data.version}"))
    yield "\n".join(f"- {_escaped(label)}: {_escaped(text)}" for label, text in facts)


def _first_page(data: ReportData, heading: str) -> Iterator[str]:
    compared = ("current", "best", "change")
    yield f"{heading} {_escaped(data.name)}"
    yield f"{moment(data.opened_s)} · {_escaped(data.objective)} · {_escaped(data.state.sentence)}"
    yield f"**{_escaped(data.answer.headline)}**"
    yield from map(_escaped, data.answer.sentences)
    if data.recommendation is not None:
        yield _escaped(data.recommendation.sentence)
    improved = data.answer.verdict == "improved"
    yield f"#{heading} {'What to change' if improved else 'Best configuration'}"
    yield _table(
        ("parameter", "current", "best", "meaning"),
        ((c.parameter, c.baseline or "", c.best, c.description) for c in data.changes),
    )
    if data.classes:
        yield f"#{heading} Who gains and who loses"
        rows = ((r.name, r.baseline or "", r.best, r.change) for r in data.classes)
        yield _table(("mean wait of", *compared), rows)
    if data.cautions:
        yield f"#{heading} Before you change anything"
        yield "\n".join(f"- {_escaped(caution)}" for caution in data.cautions)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *more = ([_escaped(cell) for cell in row] for row in (header, *rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in (first, ["---"] * len(first), *more))


def _escaped(text: str) -> str:
    r"""Return foreign text as one line of Markdown that shows it as it is.

    >>> print(_escaped("a_b_ | <i>"))
    a_b\_ \| \<i>
    """
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _write_bundle(content: ReportContent, path: Path) -> Path:
    target = check_target(path)
    write_atomically(target, bundle(content), raises=StoreError, private=not target.exists())
    return target


def bundle(content: ReportContent) -> bytes:
    """Return the zip file of an experiment: equal bytes for equal experiment and environment."""
    rows = run_rows(content.experiment)
    with TemporaryDirectory() as folder:
        table = Path(folder) / "runs.csv"
        write_runs_csv(rows, table)
        csv = table.read_bytes()
    frame = runs_frame(rows)
    for name in frame.columns:
        if len({type(value) for value in frame[name].dropna()}) > 1:
            frame[name] = frame[name].map(str, na_action="ignore")
    parquet = io.BytesIO()
    frame.to_parquet(parquet, index=False)
    files = {
        EVENTS: "".join(f"{encode_event(event)}\n" for event in content.events).encode(),
        "runs.csv": csv,
        "runs.parquet": parquet.getvalue(),
        "environment.json": _json(_environment()),
    }
    if content.sweep_file:
        files["sweep.toml"] = content.sweep_file.encode()
    manifest = {
        "format": "copperline bundle",
        "version": 1,
        "experiment": content.experiment.opened.experiment_id,
        "files": {
            name: {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
            for name, body in files.items()
        },
    }
    return _zipped({MANIFEST: _json(manifest), **files})


def _zipped(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body)
    return packed.getvalue()


def _json(value: object) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


def _environment() -> dict[str, object]:
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = installed_version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "copperline": version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
    }


def read_bundle(path: Path) -> tuple[str, tuple[Event, ...]]:
    """Return the identifier and the events of the experiment in a bundle.

    Raises:
        SettingsError: it is no bundle; a file is missing, too large or not as it was written; or
            its events are not those of this version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BUNDLE_BYTES:
                raise SettingsError(
                    f"the bundle '{path}' has over {MOST_BUNDLE_BYTES:,} bytes; it is not read"
                )
            manifest = json.loads(archive.read(MANIFEST))
            digests = {name: entry["sha256"] for name, entry in manifest["files"].items()}
            files = {name: archive.read(name) for name in digests}
            experiment_id = str(manifest["experiment"])
            lines = files[EVENTS].decode().splitlines()
    except OSError as error:
        raise SettingsError(f"the bundle '{path}' cannot be read: {error.strerror}") from error
    except (
        zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError,
        RuntimeError, NotImplementedError, RecursionError, EOFError, struct.error,
    ) as error:  # fmt: skip
        raise SettingsError(
            f"'{path}' is no bundle of copperline report --out FILE.zip: {error}"
        ) from error
    for name, body in files.items():
        if hashlib.sha256(body).hexdigest() != digests[name]:
            raise SettingsError(
                f"the bundle '{path}' is damaged: '{name}' is not as it was written; copy it again"
            )
    try:
        events = tuple(map(decode_event, lines))
    except CodecError as error:
        raise SettingsError(f"the bundle '{path}' cannot be imported: {error}") from error
    opened = events[0] if events else None
    if not isinstance(opened, ExperimentOpened) or opened.experiment_id != experiment_id:
        raise SettingsError(f"the bundle '{path}' has no event log of '{experiment_id}'")
    try:
        Experiment.replay(events)
    except (AssistantError, StrategyError) as error:
        raise SettingsError(f"the bundle '{path}' cannot be imported: {error}") from error
    return experiment_id, events


FORMS: tuple[ReportForm, ...] = (
    ReportForm(
        ".html", "HTML", "one page that opens without a network", ".html", "text/html", _write_html
    ),
    ReportForm(
        ".md", "Markdown", "Markdown with charts as SVG files", ".md.zip", _ZIP, _write_markdown
    ),
    ReportForm(
        ".pdf", "PDF", "pages to print", ".pdf", "application/pdf", _write_pdf, _missing_for_pdf
    ),
    ReportForm(
        ".zip", "Bundle", "bundle of all data, for copperline import", ".zip", _ZIP, _write_bundle
    ),
)

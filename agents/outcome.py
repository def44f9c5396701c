"""What a study on the shelf came to, ready to be drawn and to be taken away."""

import io
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from agents.charts_study import drawings, panels
from agents.contrasts import Finding, findings
from agents.report import facts, headline, notes, render_csv, render_html, study_rows
from agents.results import summarise
from agents.running import Finished, read_played, truth_of
from agents.shelf import RESULTS, STUDY, Kept
from agents.study import Study
from agents.study_file import read_study
from assistant import AssistantError
from assistant.charts import Spec
from assistant.report.pages import svg


@dataclass(frozen=True, eq=False)
class Shown:
    """A study that was played to its end.

    Args:
        finished: its cells.
        findings: what it shows, the surest first.
    """

    finished: Finished
    findings: tuple[Finding, ...]

    @property
    def headline(self) -> str:
        """What was played, in one sentence."""
        return headline(self.finished)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the figures are to be read."""
        return notes(self.finished)

    @property
    def facts(self) -> dict[str, str]:
        """What a reader should know of the study."""
        return facts(self.finished)

    @cached_property
    def charts(self) -> tuple[tuple[str, Spec], ...]:
        """The figures: what each shows in words, and its drawing."""
        named = (
            f"{panel.title}: {panel.y} by {panel.x}, with 95 % intervals"
            for panel in panels(self.finished.summaries)
        )
        return tuple(zip(named, drawings(self.finished.summaries), strict=True))

    @property
    def table(self) -> list[dict[str, str]]:
        """A row per cell for people, by the names of its columns."""
        names, rows = study_rows(self.finished)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def html(self) -> str:
        """Return the report; it opens offline."""
        return render_html(self.finished)

    def csv(self) -> str:
        """Return a row per cell with all digits."""
        return render_csv(self.finished.summaries)

    def figures(self) -> bytes:
        """Return the figures (SVG) as one archive (ZIP)."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, (_, spec) in enumerate(self.charts, start=1):
                archive.writestr(f"figure-{number:02d}.svg", str(svg(spec)))
        return buffer.getvalue()


def shown(kept: Kept) -> Shown:
    """Return what a study came to that was played to its end.

    Raises:
        AssistantError: its file or its results cannot be read, or do not belong together.
    """
    study, _, _ = read_study(kept.folder / STUDY, kept.table)
    episodes = read_played(study, kept.folder)
    summaries = tuple(summarise(study, *one) for one in episodes)
    return Shown(Finished(study, _sizes(study), summaries), findings(study, episodes))


def results_of(kept: Kept) -> bytes:
    """Return the rows of all episodes (Parquet)."""
    return (kept.folder / RESULTS).read_bytes()


def study_of(kept: Kept) -> str:
    """Return the file of a study (TOML).

    Raises:
        AssistantError: it cannot be read.
    """
    return read_study(kept.folder / STUDY, kept.table)[1]


def stamp(kept: Kept) -> tuple[int, ...]:
    """Return what changes when a study or its results do. Raises AssistantError without them."""
    try:
        stats = [(kept.folder / name).stat() for name in (RESULTS, STUDY)]
    except OSError as error:
        raise AssistantError(f"the study '{kept.name}' is not there any more") from error
    return tuple(told for stat in stats for told in (stat.st_mtime_ns, stat.st_size))


def _sizes(study: Study) -> dict[str, int]:
    """Return how large the spaces are whose tables are still there."""
    sizes = {}
    for table in study.tables:
        with suppress(Exception):  # whatever is wrong with it, its results are there
            sizes[table.name] = truth_of(table.path).size
    return sizes

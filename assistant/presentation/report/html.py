"""Reports as self-contained HTML pages with charts as SVG: no server, no script, no network.

It also writes a chart as a file of its own (SVG, PNG or a page), and pages on an AI platform:
its dashboard, and the comparison of a log with its simulation.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Protocol

import jinja2
from markupsafe import Markup

from assistant.core import forecast as chances
from assistant.core.errors import SettingsError, StoreError
from assistant.core.files import write_atomically
from assistant.presentation.charts import effects, forecast, vega_lite
from assistant.presentation.charts.ai_platform import (
    PlatformComparison,
    PlatformDrawing,
    QuantileComparison,
    Rows,
    histogram_chart,
    length,
    panel_chart,
    qq_chart,
    scatter_chart,
    week_chart,
)
from assistant.presentation.charts.comparison import best_overlay, effects_beside
from assistant.presentation.charts.forecast import ChanceMark
from assistant.presentation.charts.training import learning_curve
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.data import ReportData, RunRow
from assistant.presentation.tables import effects as effects_tables
from assistant.presentation.tables.experiment_comparison import ExperimentComparison
from assistant.presentation.tables.forecast_backtest import ForecastSection, prediction_marks
from assistant.presentation.text import number_format

_FILTERS: dict[str, Callable[..., str]] = {
    "amount": effects_tables.amount,
    "interval": effects_tables.interval_text,
    "number": number_format.number,
    "quantity": number_format.quantity,
    "moment": number_format.moment,
    "percent": chances.percent,
    "band": chances.band_words,
}


@cache
def page_environment(*packages: str) -> jinja2.Environment:
    """Return a Jinja environment for HTML templates that may include ``style.html.j2``.

    A process has one for the same packages, because it holds the compiled templates.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader(package)
                for package in (*packages, "assistant.presentation.report")
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def svg(spec: Spec) -> Markup:
    """Render a Vega-Lite chart as SVG markup."""
    import vl_convert

    return Markup(vl_convert.vegalite_to_svg(spec))  # noqa: S704 - our own chart


def chance_bar(section: ForecastSection) -> Spec | None:
    """Return a chart of the chance to reach the goal, or None if unknown or decided."""
    if section.chance is None or section.band is None:
        return None
    return forecast.chance_bar(section.chance, section.band)


def fan(data: ReportData, section: ForecastSection, title: str) -> Spec | None:
    """Return a chart of the best value so far and its forecast, or None without a forecast."""
    if not section.fan:
        return None
    left = None if section.remaining is None else section.remaining.median
    return forecast.best_with_fan(
        data.points,
        section.fan,
        baseline=data.baseline_value,
        goal=section.goal,
        end=left,
        title=title,
    )


def fan_goes_on(data: ReportData, section: ForecastSection) -> bool:
    """Return whether the better end of the forecast fan is cut off by its chart."""
    return forecast.goes_on(data.points, section.fan, section.goal)


def over_time(data: ReportData, section: ForecastSection, title: str) -> Spec | None:
    """Return a chart of the forecast until the deadline, or None if one of them is missing."""
    if section.deadline_s is None or not section.fan or section.fan[-1].seconds is None:
        return None
    return forecast.best_over_time(
        data.points,
        section.fan,
        now_s=section.at_s,
        goal=section.goal,
        deadline_s=section.deadline_s,
        title=title,
    )


def chance_over_runs(data: ReportData, section: ForecastSection) -> Spec | None:
    """Return a chart of past forecast chances, or None with fewer than two forecasts."""
    if len(section.course) < 2:
        return None
    marks = [ChanceMark(point.runs, point.chance, *point.band) for point in section.course]
    end = section.reached_at if section.reached else data.n_completed + data.n_failed
    return forecast.chance_over_runs(marks, end, section.reached)


MAX_EFFECT_CHARTS = 12
MAX_ROWS = 2_000
"""Most runs in the table of a report; a browser needs minutes for very many."""


def render_html(data: ReportData) -> str:
    """Render a report as an HTML page with its charts as SVG."""
    title = _titled(data.value_name, data.unit)
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            data=data,
            rows=_rows(data),
            best_so_far=svg(vega_lite.best_so_far(data.points, data.baseline_value, title))
            if data.points
            else None,
            trade=svg(
                vega_lite.trade_off(data.trade, title, _titled(data.second_name, data.second_unit))
            )
            if data.second_name is not None and data.trade
            else None,
            **_effects(data, title),
            **_forecast(data, title),
            promises=_promises(data),
            trained=[(curve.sentence, svg(learning_curve(curve))) for curve in data.trained],
        )
    )


def _rows(data: ReportData) -> Sequence[RunRow]:
    """Return the runs in the table: all, or the best one and the newest of very many."""
    newest = data.runs[-MAX_ROWS:]
    return [*(row for row in data.runs[:-MAX_ROWS] if row.is_best), *newest]


def _promises(data: ReportData) -> Markup | None:
    promise_marks = () if data.trust is None else prediction_marks(data.trust.record.promises)
    return (
        svg(forecast.prediction_chart(promise_marks, data.trust.title))
        if data.trust and promise_marks
        else None
    )


def _effects(data: ReportData, title: str) -> dict[str, Any]:
    section = data.effects
    if section is None:
        return {"figures": [], "figures_left_out": [], "pareto": None, "half_normal": None}
    change = f"change of {title}"
    few = len(section.contrasts) < 2
    return {
        "figures": [
            (f, svg(effects.main_effects(f.levels, f.parameter, f.unit, change)))
            for f in section.figures[:MAX_EFFECT_CHARTS]
        ],
        "figures_left_out": [f.parameter for f in section.figures[MAX_EFFECT_CHARTS:]],
        "pareto": None
        if few
        else svg(effects.pareto(section.contrasts, section.margins, f"effect on {title}")),
        "half_normal": None
        if few
        else svg(effects.half_normal(section.half_normal, section.margins, f"effect on {title}")),
    }


def _forecast(data: ReportData, title: str) -> dict[str, Any]:
    section = data.forecast
    if section is None:
        names = ("chance_bar", "fan", "over_time", "chance_over_runs")
        return {**dict.fromkeys(names), "fan_goes_on": False}
    specs = {
        "chance_bar": chance_bar(section),
        "fan": fan(data, section, title),
        "over_time": over_time(data, section, title),
        "chance_over_runs": chance_over_runs(data, section),
    }
    drawings_svg = {name: None if spec is None else svg(spec) for name, spec in specs.items()}
    return {**drawings_svg, "fan_goes_on": fan_goes_on(data, section)}


def render_comparison_report(data: ExperimentComparison) -> str:
    """Render the report over several experiments as an HTML page with its charts as SVG."""
    charts = [
        (
            group,
            svg(best_overlay(group.courses, data.names, group.title))
            if any(course.points for course in group.courses)
            else None,
            svg(effects_beside(group.ranges, data.names, group.title)) if group.ranges else None,
        )
        for group in data.groups
    ]
    return _render("compare.html.j2", data=data, drawn=charts)


def write_report(data: ReportData, path: Path) -> Path:
    """Write a report as HTML atomically and return its absolute path. Raises StoreError."""
    check_target(path)
    return write_page(render_html(data), path)


def write_page(page: str, path: Path) -> Path:
    """Write an HTML page to a file atomically and return its absolute path. Raises StoreError.

    A new file is readable for its owner alone; one that is replaced keeps its permissions.
    """
    target = check_target(path)
    write_atomically(target, page, raises=StoreError, private=not target.exists())
    return target


def check_target(path: Path) -> Path:
    """Create the folder of a report and return its absolute path. Raises StoreError."""
    target = path.absolute()
    try:
        if target.is_dir():
            raise StoreError(
                f"the report '{path}' is a folder; name a file, such as {path}/report.html"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(f"no permission to write in {target.parent}")
    except OSError as error:
        raise StoreError(f"the report '{path}' cannot be written: {error}") from error
    return target


def _titled(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


ENDINGS = (".svg", ".png", ".html")

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 2rem; background: #fff }}
svg {{ max-width: 100%; height: auto }}
</style>
{drawing}
</html>
"""


def check_picture(path: Path) -> None:
    """Check that a chart can be written to a path.

    Raises:
        SettingsError: the ending of the file is unknown.
        StoreError: the path is a folder, or cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise SettingsError(
            f"the picture '{path}' must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    check_target(path)


def write_picture(spec: Spec, path: Path, title: str) -> Path:
    """Write a chart with a white background to a file and return its absolute path."""
    check_picture(path)
    target = path.absolute()
    try:
        target.write_bytes(drawing(spec, path.suffix.lower(), title))
    except OSError as error:
        raise StoreError(f"the picture '{path}' cannot be written: {error.strerror}") from error
    return target


def drawing(spec: Spec, ending: str, title: str) -> bytes:
    """Render a chart to bytes in the format of a file ending such as ``.png``."""
    import vl_convert

    white = {**spec, "background": "white"}
    if ending == ".png":
        return bytes(vl_convert.vegalite_to_png(white, scale=2.0))
    svg = str(vl_convert.vegalite_to_svg(white))
    return (svg if ending == ".svg" else _PAGE.format(title=escape(title), drawing=svg)).encode()


def comparison_rows(likeness: PlatformComparison) -> list[tuple[str, ...]]:
    """Return one table row per compared sample, with the columns named in `LIKENESS`."""
    return [_row(quantiles) for quantiles in (*likeness.tasks, *likeness.gaps)]


LIKENESS = (
    "sample", "log", "simulated", "median in the log", "simulated median", "KS", "KS limit",
    "Wasserstein", "apart", "verdict",
)  # fmt: skip


def _row(quantiles: QuantileComparison) -> tuple[str, ...]:
    middle = len(quantiles.observed) // 2
    return (
        quantiles.name, f"{quantiles.n_observed:,}", f"{quantiles.n_simulated:,}",
        length(quantiles.observed[middle]),
        length(quantiles.simulated[middle]), f"{quantiles.ks:.3f}", f"{quantiles.ks_critical:.3f}",
        length(quantiles.wasserstein_s), f"{quantiles.apart:.1%}",
        "alike" if quantiles.is_alike else "differs by more than chance",
    )  # fmt: skip


def render_comparison(likeness: PlatformComparison) -> str:
    """Render the Q-Q plots of an AI platform and its simulation as an HTML page."""
    return _render(
        "likeness.html.j2",
        found=likeness,
        header=LIKENESS,
        rows=comparison_rows(likeness),
        scatters=[(one, svg(scatter_chart(one))) for one in likeness.scatters],
        histograms=[(one, svg(histogram_chart(one))) for one in likeness.histograms],
        tasks=[(comparison, svg(qq_chart(comparison))) for comparison in likeness.tasks],
        gaps=[(comparison, svg(qq_chart(comparison))) for comparison in likeness.gaps],
        weeks=[
            (name, comparison, svg(week_chart(comparison)))
            for name, comparison in likeness.hours.items()
        ],
    )


def write_comparison(likeness: PlatformComparison, path: Path) -> Path:
    """Write the HTML page of Q-Q plots to a file and return its absolute path."""
    return write_page(render_comparison(likeness), path)


class DashboardSource(Protocol):
    """The content of a dashboard of a simulated AI platform."""

    @property
    def title(self) -> str:
        """The name of the simulation."""

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Names and values of the simulation settings."""

    @property
    def words(self) -> tuple[str, ...]:
        """Sentences on notable results of the simulation."""

    @property
    def tables(self) -> Mapping[str, Rows]:
        """The tables of task durations and waits, by title."""

    @property
    def over_time(self) -> PlatformDrawing:
        """The drawing over the whole simulated time."""

    @property
    def day(self) -> PlatformDrawing:
        """The drawing of mean values by hour of the day."""


def render_dashboard(board: DashboardSource) -> str:
    """Render the dashboard of a simulated AI platform as an HTML page."""
    sections = [
        (heading, [(panel.title, svg(panel_chart(panel, drawing))) for panel in drawing.panels])
        for heading, drawing in (("Over time", board.over_time), ("A mean day", board.day))
    ]
    return _render("dashboard.html.j2", board=board, drawn=sections)


def write_dashboard(board: DashboardSource, path: Path) -> Path:
    """Write a dashboard as an HTML page and return its absolute path. Raises StoreError."""
    return write_page(render_dashboard(board), path)


def _render(template: str, **variables: Any) -> str:
    return page_environment().get_template(template).render(**variables)

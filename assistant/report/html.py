"""One self-contained HTML page: opens offline, asks nothing of any server, needs no script."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from markupsafe import Markup

from assistant import chances, charts, charts_effects, charts_steering
from assistant.errors import StoreError
from assistant.report import drawings, words
from assistant.report.data import ReportData
from assistant.report.pages import pages, svg
from assistant.report.trust import marks

MAX_EFFECT_CHARTS = 12


def render_html(data: ReportData) -> str:
    """Return the page. Charts are drawn here, into the page, as SVG."""
    environment = pages()
    filters: dict[str, Callable[..., str]] = {
        "number": words.number,
        "quantity": words.quantity,
        "moment": words.moment,
        "percent": chances.percent,
        "band": chances.band_words,
    }
    environment.filters.update(filters)
    title = _titled(data.value_name, data.unit)
    drawn = data.effects[:MAX_EFFECT_CHARTS]
    return environment.get_template("report.html.j2").render(
        data=data,
        best_so_far=svg(charts.best_so_far(data.points, data.today_value, title))
        if data.points
        else None,
        trade=svg(charts.trade_off(data.trade, title, _titled(data.second_name, data.second_unit)))
        if data.second_name is not None and data.trade
        else None,
        effects=[
            (
                effect,
                svg(charts.level_estimates(effect.levels, effect.parameter, effect.unit, title)),
            )
            for effect in drawn
        ],
        effects_left_out=[effect.parameter for effect in data.effects[MAX_EFFECT_CHARTS:]],
        **_adjusted(data, title),
        **_forecast(data, title),
        promises=_promises(data),
    )


def _promises(data: ReportData) -> Markup | None:
    """Return the drawing of what suggestions promised and what came; None without a promise."""
    drawn = () if data.trust is None else marks(data.trust.told.promises)
    return svg(charts_steering.promises(drawn, data.trust.title)) if data.trust and drawn else None


def _adjusted(data: ReportData, title: str) -> dict[str, Any]:
    """Return the drawings of the effects, adjusted for each other."""
    section = data.adjusted
    if section is None:
        return {"adjusted": [], "adjusted_left_out": [], "pareto": None, "half_normal": None}
    change = f"change of {title}"
    few = len(section.contrasts) < 2
    return {
        "adjusted": [
            (f, svg(charts_effects.main_effects(f.levels, f.parameter, f.unit, change)))
            for f in section.figures[:MAX_EFFECT_CHARTS]
        ],
        "adjusted_left_out": [f.parameter for f in section.figures[MAX_EFFECT_CHARTS:]],
        "pareto": None
        if few
        else svg(charts_effects.pareto(section.contrasts, section.margins, f"effect on {title}")),
        "half_normal": None
        if few
        else svg(
            charts_effects.half_normal(section.half_normal, section.margins, f"effect on {title}")
        ),
    }


def _forecast(data: ReportData, title: str) -> dict[str, Any]:
    """Return the drawings of the forecast; None for what is not drawn."""
    told = data.forecast
    if told is None:
        names = ("chance_bar", "fan", "over_time", "chance_over_runs")
        return {**dict.fromkeys(names), "fan_goes_on": False}
    specs = {
        "chance_bar": drawings.chance_bar(told),
        "fan": drawings.fan(data, told, title),
        "over_time": drawings.over_time(data, told, title),
        "chance_over_runs": drawings.chance_over_runs(data, told),
    }
    drawn = {name: None if spec is None else svg(spec) for name, spec in specs.items()}
    return {**drawn, "fan_goes_on": drawings.fan_goes_on(data, told)}


def write_report(data: ReportData, path: Path) -> Path:
    """Write the page to a file, whole or not at all, and return the absolute path.

    Raises:
        StoreError: the file cannot be written.
    """
    check_target(path)
    return write_page(render_html(data), path)


def write_page(page: str, path: Path) -> Path:
    """Write a page to a file, whole or not at all, and return the absolute path.

    Raises:
        StoreError: the file cannot be written.
    """
    target = check_target(path)
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
        ) as part:
            part.write(page)
        umask = os.umask(0)
        os.umask(umask)
        Path(part.name).chmod(0o666 & ~umask)
        Path(part.name).replace(target)
    except OSError as error:
        raise StoreError(f"the report '{path}' cannot be written: {error}") from error
    return target


def check_target(path: Path) -> Path:
    """Return the absolute path of a report, its folder made.

    Raises:
        StoreError: it is a folder, or cannot be written.
    """
    target = path.absolute()
    try:
        if target.is_dir():
            raise StoreError(
                f"the report '{path}' is a folder; name a file, such as {path}/report.html"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(f"no right to write in {target.parent}")
    except OSError as error:
        raise StoreError(f"the report '{path}' cannot be written: {error}") from error
    return target


def _titled(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name

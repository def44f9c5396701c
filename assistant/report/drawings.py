"""The charts of the forecast, of what a report knows; the browser draws the same ones."""

from assistant import charts_forecast
from assistant.charts import Spec
from assistant.charts_forecast import ChanceMark
from assistant.report.course import ForecastSection
from assistant.report.data import ReportData


def chance_bar(told: ForecastSection) -> Spec | None:
    """Return the chance with its band; None if there is none, or if it is decided."""
    if told.chance is None or told.band is None:
        return None
    return charts_forecast.chance_bar(told.chance, told.band)


def fan(data: ReportData, told: ForecastSection, title: str) -> Spec | None:
    """Return best so far with what may come, over runs; None without anything to come.

    ``title`` names the value with its unit.
    """
    if not told.fan:
        return None
    left = None if told.remaining is None else told.remaining.median
    return charts_forecast.best_with_fan(
        data.points, told.fan, today=data.today_value, goal=told.goal, end=left, title=title
    )


def fan_goes_on(data: ReportData, told: ForecastSection) -> bool:
    """Return whether the better end of the fan lies outside of its picture."""
    return charts_forecast.goes_on(data.points, told.fan, told.goal)


def over_time(data: ReportData, told: ForecastSection, title: str) -> Spec | None:
    """Return the same over the time of day; None without a deadline, or anything to come."""
    if told.deadline_s is None or not told.fan:
        return None
    return charts_forecast.best_over_time(
        data.points,
        told.fan,
        now_s=told.at_s,
        goal=told.goal,
        deadline_s=told.deadline_s,
        title=title,
    )


def chance_over_runs(data: ReportData, told: ForecastSection) -> Spec | None:
    """Return the chance as it was told on the way; None if it was not told twice."""
    if len(told.course) < 2:
        return None
    marks = [ChanceMark(point.runs, point.chance, *point.band) for point in told.course]
    end = told.reached_at if told.reached else data.n_completed + data.n_failed
    return charts_forecast.chance_over_runs(marks, end, told.reached)

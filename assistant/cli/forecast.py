"""``copperline forecast``: will the goal be reached with what is left, and what may come."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.table import Table

from assistant import charts_forecast
from assistant.cli.console import OUT, Json, StoreOption, print_json, table_of
from assistant.cli.experiments import stored_session
from assistant.cli.warned import print_warning, warning_object
from assistant.forecasts import FanPoint, Forecast
from assistant.report import collect
from assistant.report.outlook import (
    TERMS,
    Subject,
    Verdict,
    clock,
    figures,
    headline,
    paper_words,
    sentences,
    term_used,
    term_words,
    verdict_of,
)
from assistant.report.words import number
from assistant.session import Session

FAN_ROWS = 6

_STYLES: dict[Verdict, str] = {
    "on_track": "bold green",
    "reached": "bold green",
    "likely_miss": "bold yellow",
    "very_likely_miss": "bold red",
    "missed": "bold red",
}


def forecast(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Say whether the goal will be reached with what is left, and what may come.

    The chance is calibrated on studies that looked alike; the paper's rule stands beside it.
    Nothing is run and nothing is stored.
    """
    session = stored_session(experiment, store)
    seen, subject = session.forecast(), Subject.of(session.experiment)
    if as_json:
        print_json({"experiment": session.id, **_as_object(session, subject, seen)})
        return 0
    OUT.print(f"{session.experiment.opened.name}: {session.experiment.opened.objective}")
    style = _STYLES.get(verdict_of(seen), "bold")
    OUT.print(headline(subject, seen), style=style, soft_wrap=True)
    for sentence in sentences(subject, seen):
        OUT.print(f"  {sentence}", soft_wrap=True)
    if seen.terms:
        OUT.print(_terms(subject, seen))
    if len(seen.fan) > 1 and not seen.is_over:
        OUT.print(_fan(subject, seen))
    OUT.print(paper_words(seen.paper), style="dim", soft_wrap=True)
    print_warning(session.experiment, OUT, store)
    return 0


def _terms(subject: Subject, seen: Forecast) -> Table:
    table = table_of("term", "agreed", "runs left", "")
    several = len(seen.terms) > 1
    for term in seen.terms:
        tightest = "the tightest" if several and term.term == seen.binding else ""
        used = term_used(subject, term, seen.at_s)
        table.add_row(TERMS[term.term], used, figures(term.remaining), tightest)
    return table


def _fan(subject: Subject, seen: Forecast) -> Table:
    unit = f" [{subject.unit}]" if subject.unit else ""
    table = table_of(
        f"best {subject.measure}{unit} to come", "by", "1 in 10 better than", "middle",
        "1 in 10 worse than",
    )  # fmt: skip
    for point in _chosen(seen.fan):
        after = "now" if point.runs == 0 else f"after {point.runs} more"
        by = "unknown" if point.seconds is None else clock(seen.at_s + point.seconds, seen.at_s)
        table.add_row(after, by, number(point.low), number(point.median), number(point.high))
    return table


def _chosen(fan: tuple[FanPoint, ...]) -> tuple[FanPoint, ...]:
    """Return a few points, evenly, the first and the last among them."""
    if len(fan) <= FAN_ROWS:
        return fan
    return tuple(fan[round(i * (len(fan) - 1) / (FAN_ROWS - 1))] for i in range(FAN_ROWS))


def _measured(session: Session, seen: Forecast) -> Forecast:
    """Return the forecast with the regions' values as measured, whatever the direction."""
    value_of = session.experiment.opened.objective.value_of
    regions = tuple(
        replace(region, mean=value_of(region.mean), best=value_of(region.best))
        for region in seen.paper.regions
    )
    return replace(seen, paper=replace(seen.paper, regions=regions))


def _as_object(session: Session, subject: Subject, seen: Forecast) -> dict[str, Any]:
    """Return the whole forecast as JSON, with its words and the fan as a Vega-Lite chart."""
    data = collect(session.experiment)
    title = f"{subject.measure} [{subject.unit}]" if subject.unit else subject.measure
    goal = session.experiment.sla.goal
    left = None if seen.remaining is None else seen.remaining.median
    return {
        "verdict": verdict_of(seen),
        "headline": headline(subject, seen),
        "sentences": sentences(subject, seen),
        "terms_in_words": [term_words(subject, term, seen.at_s) for term in seen.terms],
        "paper_in_words": paper_words(seen.paper),
        "miss": seen.miss,
        "warning": warning_object(session.experiment),
        **asdict(_measured(session, seen)),
        "charts": {
            "fan": charts_forecast.best_with_fan(
                data.points, seen.fan, today=data.today_value, goal=goal, end=left, title=title
            )
        },
    }

"""The end of a sweep, as a few lines for people and one object for programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from assistant.cli.console import OUT
from assistant.experiment import Experiment
from assistant.recommendation import Recommendation
from assistant.report.data import ReportData
from assistant.report.words import number, quantity
from assistant.run import Run
from assistant.trust import Trust

N_EFFECTS = 3


def summary(experiment: Experiment, data: ReportData, report: Path | None) -> dict[str, Any]:
    """Return what a program wants to know at the end of a sweep."""
    best, today = experiment.best, experiment.baseline
    return {
        "experiment": data.experiment_id,
        "name": data.name,
        "verdict": data.answer.verdict,
        "headline": data.answer.headline,
        "improvement": data.answer.improvement,
        "objective": data.objective,
        "today": _run(experiment, today),
        "best": _run(experiment, best),
        "recommended": _recommended(experiment, data.recommendation),
        "front": [_run(experiment, run) for run in experiment.front],
        "runs": {
            "submitted": len(experiment.runs),
            "completed": data.n_completed,
            "failed": data.n_failed,
        },
        "agreement": [asdict(use) for use in data.agreement],
        "space": {"size": data.space_size, "allowed": data.allowed_size},
        "trust": None if data.trust is None else _trust(data.trust.told),
        "finished": data.finished,
        "report": None if report is None else str(report),
    }


def _trust(told: Trust) -> dict[str, Any]:
    """Return how each group of runs did, and whether stated intervals held; not run by run."""
    whole = asdict(told)
    return {name: whole[name] for name in ("scores", "coverage", "error", "unanswered", "today")}


def _run(experiment: Experiment, run: Run | None) -> dict[str, Any] | None:
    """Return a configuration by its first run, with the mean outcome of all its runs."""
    if run is None:
        return None
    standing = experiment.standing(run)
    return {
        "run": run.id,
        "values": experiment.space.values(run.configuration),
        "n_runs": 0 if standing is None else standing.n,
        **({} if standing is None else asdict(standing.outcome)),
    }


def _recommended(
    experiment: Experiment, recommendation: Recommendation | None
) -> dict[str, Any] | None:
    if recommendation is None:
        return None
    return {
        "run": recommendation.run.id,
        "values": experiment.space.values(recommendation.run.configuration),
        "runs": [run.id for run in recommendation.runs],
        "value": recommendation.value,
        "interval": recommendation.interval,
        "confirmed": recommendation.confirmed,
        "rivals": [run.id for run in recommendation.rivals],
        "sentence": recommendation.sentence,
    }


def print_summary(data: ReportData, report: Path) -> None:
    """Print the answer, what to change, what matters, and where the report is."""
    OUT.print()
    OUT.print(data.answer.headline, style="bold", soft_wrap=True)
    for sentence in data.answer.sentences:
        OUT.print(f"  {sentence}", soft_wrap=True)
    if data.recommendation is not None:
        OUT.print(f"  {data.recommendation.sentence}", soft_wrap=True)
    changed = [change for change in data.changes if change.differs]
    if changed and data.answer.verdict == "improved":
        table = Table(box=None, header_style="dim", pad_edge=False)
        for name in ("change", "today", "best"):
            table.add_column(name, justify="left" if name == "change" else "right")
        for change in changed:
            table.add_row(f"  {change.parameter}", change.today, change.best)
        OUT.print(table)
    if data.front:
        _print_front(data)
    known = [effect for effect in data.effects if effect.range_value is not None]
    if known:
        parts = [
            f"{effect.parameter} ({quantity(effect.range_value, data.unit)} between its levels)"
            for effect in known[:N_EFFECTS]
        ]
        OUT.print(f"  What mattered most: {', '.join(parts)}.", soft_wrap=True)
    for use in data.agreement:
        OUT.print(f"  Agreed: {use.agreed}; {use.told} ({use.verdict}).", soft_wrap=True)
    if data.finished:
        OUT.print(f"  Stopped: {data.finished}.", soft_wrap=True)
    OUT.print(f"\nReport: {report}", soft_wrap=True)


def _print_front(data: ReportData) -> None:
    """Print the trade-offs of two measures, the best by the first measure first."""
    OUT.print(f"  The front of {data.value_name} and {data.second_name}:", soft_wrap=True)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("  run", *data.parameters, data.value_name, data.second_name or ""):
        table.add_column(name, justify="right")
    for row in data.front:
        today = " (today)" if row.is_today else ""
        cells = [row.values[name] for name in data.parameters]
        values = (number(row.value), number(row.second_value))
        table.add_row(f"  {row.run_id}{today}", *cells, *values)
    OUT.print(table)

"""The end of a sweep, as a few lines for people and one object for programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from assistant.cli.console import OUT
from assistant.experiment import Experiment
from assistant.report.data import ReportData
from assistant.report.words import quantity

N_EFFECTS = 3


def summary(experiment: Experiment, data: ReportData, report: Path | None) -> dict[str, Any]:
    """Return what a program wants to know at the end of a sweep."""
    best, today = experiment.best, experiment.baseline
    space = experiment.space
    return {
        "experiment": data.experiment_id,
        "name": data.name,
        "verdict": data.answer.verdict,
        "headline": data.answer.headline,
        "improvement": data.answer.improvement,
        "objective": data.objective,
        "today": _run(space, today),
        "best": _run(space, best),
        "runs": {
            "submitted": len(experiment.runs),
            "completed": data.n_completed,
            "failed": data.n_failed,
        },
        "space": {"size": data.space_size, "allowed": data.allowed_size},
        "finished": data.finished,
        "report": None if report is None else str(report),
    }


def _run(space: Any, run: Any) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "run": run.id,
        "values": space.values(run.configuration),
        **({} if run.outcome is None else asdict(run.outcome)),
    }


def print_summary(data: ReportData, report: Path) -> None:
    """Print the answer, what to change, what matters, and where the report is."""
    OUT.print()
    OUT.print(data.answer.headline, style="bold", soft_wrap=True)
    for sentence in data.answer.sentences:
        OUT.print(f"  {sentence}", soft_wrap=True)
    changed = [change for change in data.changes if change.differs]
    if changed and data.answer.verdict == "improved":
        table = Table(box=None, header_style="dim", pad_edge=False)
        for name in ("change", "today", "best"):
            table.add_column(name, justify="left" if name == "change" else "right")
        for change in changed:
            table.add_row(f"  {change.parameter}", change.today, change.best)
        OUT.print(table)
    known = [effect for effect in data.effects if effect.range_value is not None]
    if known:
        parts = [
            f"{effect.parameter} ({quantity(effect.range_value, data.unit)} between its levels)"
            for effect in known[:N_EFFECTS]
        ]
        OUT.print(f"  What mattered most: {', '.join(parts)}.", soft_wrap=True)
    if data.finished:
        OUT.print(f"  Stopped: {data.finished}.", soft_wrap=True)
    OUT.print(f"\nReport: {report}", soft_wrap=True)

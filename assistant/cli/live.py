"""The live view of a sweep: how far, the best so far against today, the latest runs."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assistant import Advice, Run, RunState
from assistant.objective import Second
from assistant.report.agreement import unknown_cost
from assistant.report.outlook import chance_words
from assistant.report.words import level, number, quantity
from assistant.view import View
from assistant.warning_words import proposal

N_LATEST = 8
LINES_EVERY = 10
CHANCE_EVERY_S = 1.0
"""Seconds between two forecasts while runs are quick: a forecast may take longer than a run."""


class SweepView:
    """Shows a session while it is steered; on a terminal as a live table, else as lines."""

    def __init__(self, session: View, console: Console) -> None:
        self._session = session
        self._console = console
        self._chance, self._chance_at_s = "", -CHANCE_EVERY_S
        self._warned_of_cost = False
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(self._picture(), console=console, refresh_per_second=8)

    def on_change(self, run: Run) -> None:
        """Take note of a run that started or ended; say of the first cost that is unknown."""
        unknown = "" if self._warned_of_cost else unknown_cost(self._session.experiment, run)
        if unknown:
            self._warned_of_cost = True
            self._console.print(f"warning: {unknown}", style="yellow", soft_wrap=True)
        if self._live is not None:
            self._live.update(self._picture())
        elif run.ended_s is not None and run.id % LINES_EVERY == 0:
            self._console.print(self._headline(), soft_wrap=True)

    def on_advice(self, advice: Advice) -> None:
        """Show a warning above the table; it stays on the screen."""
        self._console.print(f"warning: {advice.text}", style="yellow", soft_wrap=True)
        for one in advice.alternatives:
            self._console.print(f"  - {proposal(one)}", style="yellow", soft_wrap=True)

    def _headline(self) -> Text:
        experiment = self._session.experiment
        over = len(experiment.runs_in(RunState.COMPLETED, RunState.FAILED))
        budget = experiment.sla.max_runs
        text = Text(f"{over}/{budget} runs" if budget else f"{over} runs")
        tariff = experiment.sla.tariff
        if tariff is not None and experiment.cost is not None:
            text.append(f"   {quantity(experiment.cost, tariff.unit)} spent")
        best = None if experiment.best is None else experiment.standing(experiment.best)
        today = None if experiment.baseline is None else experiment.standing(experiment.baseline)
        if best is None:
            return text
        objective = experiment.opened.objective
        text.append(f"   best {objective.wrapper} ")
        text.append(quantity(best.outcome.value, objective.unit), style="bold")
        if not best.outcome.feasible:
            text.append("  (violates a constraint)", style="red")
        elif today and today.outcome.value:
            change = (best.outcome.value - today.outcome.value) / abs(today.outcome.value)
            text.append(f"  {change:+.1%} against today")
        if objective.second is not None:
            text.append(f"   {len(experiment.front)} on the front")
        text.append(self._chance_words())
        return text

    def _chance_words(self) -> str:
        """Return the chance to reach the goal; empty without a goal, or before there is one."""
        if self._session.experiment.sla.goal is None:
            return ""
        now_s = time.monotonic()
        if self._live is None or now_s - self._chance_at_s >= CHANCE_EVERY_S:
            self._chance = chance_words(self._session.forecast())
            self._chance_at_s = now_s
        return f"   {self._chance}" if self._chance else ""

    def _picture(self) -> Group:
        experiment = self._session.experiment
        budget = experiment.sla.max_runs or max(len(experiment.runs), 1)
        over = len(experiment.runs_in(RunState.COMPLETED, RunState.FAILED))
        bar = ProgressBar(total=budget, completed=over, width=60, complete_style="orange3")
        return Group(self._headline(), bar, self._latest())

    def _latest(self) -> Table:
        experiment = self._session.experiment
        space, best = experiment.space, experiment.best
        table = Table(box=None, header_style="dim", pad_edge=False)
        table.add_column("run", justify="right")
        table.add_column("from")
        for name in space.names:
            table.add_column(name, justify="right")
        table.add_column(str(experiment.opened.objective.wrapper), justify="right")
        second = experiment.opened.objective.second
        if second is not None:
            table.add_column(str(second.wrapper), justify="right")
        table.add_column("constraints")
        for run in experiment.runs[-N_LATEST:]:
            values = [level(value) for value in space.values(run.configuration).values()]
            leads = best is not None and best.id == run.id
            style = "bold orange3" if leads else "dim" if run.outcome is None else ""
            table.add_row(str(run.id), run.source, *values, *_result(run, second), style=style)
        return table

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._picture())
            self._live.__exit__(kind, error, trace)


def _result(run: Run, second: Second | None) -> tuple[str, ...]:
    also = () if second is None else ("",)
    if run.outcome is None:
        return (run.state.value, *also, run.failure or run.cancelled or "")
    if second is not None:
        also = (number(run.outcome.second_value),)
    met = "met" if run.outcome.feasible else f"violated by {run.outcome.violation:.0%}"
    early = "" if run.stopped is None else ", stopped early"
    return (number(run.outcome.value), *also, met + early)

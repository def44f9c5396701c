"""View of an experiment in the terminal: live progress, summary at the end, open warning."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assistant.analysis.broken_program import broken_program
from assistant.analysis.experiment_state import (
    ExecutionStatus,
    ExperimentState,
    NextStep,
    experiment_state,
)
from assistant.analysis.prediction_record import PredictionScoreboard
from assistant.analysis.recommendation import Recommendation
from assistant.analysis.warning import proposal
from assistant.cli.console import OUT, closed_at_end, say, store_path
from assistant.config.snapshot import open_sweep, past_results
from assistant.config.sweep_file import BuiltSweep, build_sweep, check_settings, read_settings
from assistant.core.errors import StoreError
from assistant.core.events import MissWarning
from assistant.core.experiment import Experiment
from assistant.core.files import is_there
from assistant.core.objective import SecondObjective
from assistant.core.run import Run
from assistant.presentation.report.data import ReportData
from assistant.presentation.tables.experiment_summary import gain_words
from assistant.presentation.tables.sla import unknown_cost
from assistant.presentation.text.comparison import compare_best
from assistant.presentation.text.forecast import chance_words
from assistant.presentation.text.number_format import level, number, quantity
from assistant.service.store_connection import open_store
from assistant.session.opening import (
    earlier_sweeps,
    load_session,
    session_in,
    similar_experiment,
)
from assistant.session.session import ExperimentQueries, Session
from assistant.store.event_store import MemoryStore
from strategies import EarlierSweep, strategy_entry

N_LATEST = 8
LINES_EVERY = 10
LINE_EVERY_S = 10.0  # Without a terminal: a line after so many ended runs, or so much time
CHANCE_EVERY_S = 1.0  # between two forecasts, because a forecast may take longer than a run


class LiveView:
    """A live view of a sweep in progress: a table on a terminal, otherwise lines of text."""

    def __init__(
        self,
        session: ExperimentQueries,
        console: Console,
        execution: Callable[[], ExecutionStatus] = lambda: ExecutionStatus(in_process=True),
    ) -> None:
        self._session, self._execution = session, execution
        self._console = console
        self._chance, self._chance_at_s = "", -CHANCE_EVERY_S
        self._warned_of_cost = False
        self._n_printed, self._printed_at_s = 0, -LINE_EVERY_S
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(self._picture(), console=console, refresh_per_second=8)

    def on_change(self, run: Run) -> None:
        """Update the view for a run that started or ended, and warn of an unknown cost."""
        unknown = "" if self._warned_of_cost else unknown_cost(self._session.experiment, run)
        if unknown:
            self._warned_of_cost = True
            self._console.print(f"warning: {unknown}", style="yellow", soft_wrap=True)
        if self._live is not None:
            self._live.update(self._picture())
        elif run.ended_s is not None:
            self._print_if_due(self._session.experiment.n_ended)

    def _print_if_due(self, n_ended: int) -> None:
        """Print a line for the first run, then every `LINES_EVERY` runs or `LINE_EVERY_S`."""
        now_s = time.monotonic()
        due_s = now_s - self._printed_at_s >= LINE_EVERY_S
        if due_s or n_ended // LINES_EVERY > self._n_printed // LINES_EVERY:
            self._n_printed, self._printed_at_s = n_ended, now_s
            self._console.print(self._headline(), soft_wrap=True)

    def on_warning(self, warning: MissWarning) -> None:
        """Print a warning and its alternatives permanently above the live table."""
        self._console.print(
            f"warning: {warning.heading}. {warning.text}", style="yellow", soft_wrap=True
        )
        for alternative in warning.alternatives:
            self._console.print(f"  - {proposal(alternative)}", style="yellow", soft_wrap=True)

    def _headline(self) -> Text:
        experiment = self._session.experiment
        over, budget = experiment.n_ended, experiment.sla.max_runs
        state = experiment_state(experiment, self._session.now_s(), self._execution())
        done = f"{over}/{budget} runs" if budget else f"{over} runs"
        text = Text(f"{done}   {state.icon} {state.name}")
        tariff = experiment.sla.tariff
        if tariff is not None and experiment.cost is not None:
            text.append(f"   {quantity(experiment.cost, tariff.unit)} spent")
        best = None if experiment.best is None else experiment.summary(experiment.best)
        if best is None:
            return text
        objective = experiment.opened.objective
        text.append(f"   best {objective.wrapper} ")
        text.append(quantity(best.outcome.value, objective.unit), style="bold")
        compared = gain_words(experiment)
        if compared:
            text.append(f"  {compared}", style="" if best.outcome.feasible else "red")
        if objective.second is not None:
            text.append(f"   {len(experiment.front)} on the Pareto front")
        text.append(self._chance_words())
        return text

    def _chance_words(self) -> str:
        """Return the chance to reach the goal; empty without a goal or a chance."""
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
        over = experiment.n_ended
        bar = ProgressBar(total=budget, completed=over, width=60, complete_style="orange3")
        line = Padding(bar, 0)  # a bar alone ends no line, so the table would begin beside it
        return Group(self._headline(), line, self._latest())

    def _latest(self) -> Table:
        experiment = self._session.experiment
        space, best = experiment.space, experiment.best
        table = Table(box=None, header_style="dim", pad_edge=False)
        table.add_column("run", justify="right")
        table.add_column("source")
        for name in space.names:
            table.add_column(name, justify="right")
        table.add_column(str(experiment.opened.objective.wrapper), justify="right")
        second = experiment.opened.objective.second
        if second is not None:
            table.add_column(str(second.wrapper), justify="right")
        constrained = bool(experiment.opened.objective.constraints)
        table.add_column("constraints" if constrained else "")
        for run in experiment.runs[-N_LATEST:]:
            values = [level(value) for value in space.all_values(run.configuration).values()]
            leads = best is not None and best.id == run.id
            style = "bold orange3" if leads else "dim" if run.outcome is None else ""
            table.add_row(
                str(run.id), run.source, *values, *_result(run, second, constrained), style=style
            )
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


def _result(run: Run, second: SecondObjective | None, constrained: bool) -> tuple[str, ...]:
    also = () if second is None else ("",)
    if run.outcome is None:
        return (run.state.value, *also, run.failure or run.cancelled or "")
    if second is not None:
        also = (number(run.outcome.second_value),)
    met = "met" if run.outcome.feasible else f"violated by {run.outcome.violation:.0%}"
    early = [] if run.stopped is None else ["stopped early"]
    return (number(run.outcome.value), *also, ", ".join([met] * constrained + early))


def summary(experiment: Experiment, data: ReportData, report: Path | None) -> dict[str, Any]:
    """Return the result of a sweep as a JSON object."""
    best, baseline = experiment.best, experiment.baseline
    compared = compare_best(experiment)
    return {
        "experiment": data.experiment_id,
        "name": data.name,
        "verdict": data.answer.verdict,
        "headline": data.answer.headline,
        "sentences": list(data.answer.sentences),
        "improvement": data.answer.improvement,
        "comparison": None if compared is None else compared.text,
        "objective": data.objective,
        "baseline": _run(experiment, baseline),
        "best": _run(experiment, best),
        "recommended": _recommended(experiment, data.recommendation),
        "front": [_run(experiment, run) for run in experiment.front],
        "runs": {
            "submitted": len(experiment.runs),
            "completed": data.n_completed,
            "failed": data.n_failed,
        },
        "sla": [asdict(use) for use in data.sla],
        "effects": None if data.effects is None else asdict(data.effects.ranking),
        "space": {"size": data.space_size, "allowed": data.allowed_size},
        "trust": None if data.trust is None else _trust(data.trust.record),
        "finished": data.finished,
        "broken_program": broken_program(experiment),
        "state": data.state.as_json(),
        "report": None if report is None else str(report),
    }


def _trust(trust: PredictionScoreboard) -> dict[str, Any]:
    """Return the accuracy of each group of runs and the coverage of the intervals."""
    fields = asdict(trust)
    return {
        name: fields[name] for name in ("scores", "coverage", "error", "unanswered", "baseline")
    }


def _run(experiment: Experiment, run: Run | None) -> dict[str, Any] | None:
    """Return a configuration by its first run, with the mean outcome of all its runs."""
    if run is None:
        return None
    summary = experiment.summary(run)
    return {
        "run": run.id,
        "values": experiment.space.all_values(run.configuration),
        "n_runs": 0 if summary is None else summary.n,
        **({} if summary is None else asdict(summary.outcome)),
    }


def _recommended(
    experiment: Experiment, recommendation: Recommendation | None
) -> dict[str, Any] | None:
    if recommendation is None:
        return None
    return {
        "run": recommendation.run.id,
        "values": experiment.space.all_values(recommendation.run.configuration),
        "runs": [run.id for run in recommendation.runs],
        "value": recommendation.value,
        "interval": recommendation.interval,
        "confirmed": recommendation.confirmed,
        "rivals": [run.id for run in recommendation.rivals],
        "sentence": recommendation.sentence,
    }


def print_summary(data: ReportData, report: Path) -> None:
    """Print the finding, the best configuration, the effects and the report path.

    Of a best configuration that differs from the baseline, only the changed levels are printed.
    """
    OUT.print()
    OUT.print(data.answer.headline, style="bold", soft_wrap=True)
    for sentence in data.answer.sentences:
        OUT.print(f"  {sentence}", soft_wrap=True)
    if data.recommendation is not None:
        OUT.print(f"  {data.recommendation.sentence}", soft_wrap=True)
    _print_best(data)
    if data.front:
        _print_front(data)
    if data.effects is not None:
        OUT.print(f"  {data.effects.ranking.sentence}", soft_wrap=True)
    for use in data.sla:
        judged = "" if use.term == "runs" and use.verdict == "met" else f" ({use.verdict})"
        OUT.print(f"  SLA: {use.agreed}; {use.used_text}{judged}.", soft_wrap=True)
    OUT.print(f"  {data.state.icon} {data.state.sentence}", soft_wrap=True)
    OUT.print(f"\nReport: {report}", soft_wrap=True)


def _print_best(data: ReportData) -> None:
    """Print the levels of the best configuration, unless it is the current one."""
    is_compared = any(change.baseline is not None for change in data.changes)
    shown = [change for change in data.changes if change.differs or not is_compared]
    if not shown:
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("parameter", "current", "best") if is_compared else ("parameter", "best"):
        table.add_column(name, justify="left" if name == "parameter" else "right")
    for change in shown:
        cells = (change.baseline, change.best) if is_compared else (change.best,)
        table.add_row(f"  {change.parameter}", *cells)
    OUT.print(table)


def _print_front(data: ReportData) -> None:
    """Print the trade-offs of two measures, sorted by the first one."""
    OUT.print(f"  Pareto front of {data.value_name} and {data.second_name}:", soft_wrap=True)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("  run", *data.parameters, data.value_name, data.second_name or ""):
        table.add_column(name, justify="right")
    for row in data.front:
        baseline = " (current)" if row.is_baseline else ""
        cells = [row.values[name] for name in data.parameters]
        values = (number(row.value), number(row.second_value))
        table.add_row(f"  {row.run_id}{baseline}", *cells, *values)
    OUT.print(table)


def warning_object(experiment: Experiment) -> dict[str, Any] | None:
    """Return the open warning as a JSON object with numbered alternatives, or None."""
    warning = experiment.open_warning
    if warning is None or experiment.finished is not None:
        return None
    return {
        "number": warning.number,
        "basis": warning.basis,
        "title": warning.heading,
        "text": warning.text,
        "alternatives": [
            {
                "number": number,
                "kind": alternative.kind,
                "text": alternative.text,
                "chance": alternative.chance,
            }
            for number, alternative in enumerate(warning.alternatives, 1)
        ],
    }


def print_warning(experiment: Experiment, console: Console, store: Path | None) -> None:
    """Print the open warning, if any, with its alternatives and the commands to answer it."""
    warning = experiment.open_warning
    if warning is None or experiment.finished is not None:
        return
    console.print(f"warning: {warning.heading}. {warning.text}", style="yellow", soft_wrap=True)
    for i, alternative in enumerate(warning.alternatives, 1):
        console.print(f"  {i}. {proposal(alternative)}", soft_wrap=True)
    where = "" if store is None else f" --store {store}"
    options = " --ignore"
    if warning.basis == "paper" or warning.alternatives:
        options = " --accept 1 (or --ignore)"
    elif warning.basis in ("forecast", "end"):
        options = " (--change, --ignore)"
    answer = f"copperline steer {experiment.opened.experiment_id}{where}{options}"
    step = NextStep.ANSWER.removesuffix(".")
    console.print(f"{step} with: {answer}", soft_wrap=True)


def stored_execution(experiment_id: str, store: Path | None) -> ExecutionStatus:
    """Return who executes the runs of a stored experiment."""
    opened = open_store(existing(store), take_key=False)
    try:
        return opened.execution(experiment_id)
    finally:
        opened.close()


def stored_state(session: ExperimentQueries, store: Path | None) -> ExperimentState:
    """Return the present state of a stored experiment, whoever executes its runs."""
    execution = stored_execution(session.id, store)
    return experiment_state(session.experiment, session.now_s(), execution)


def print_state(state: ExperimentState, store: Path | None, console: Console = OUT) -> None:
    """Print the state of an experiment with its reason, and the next step with its command."""
    console.print(f"{state.icon} {state.sentence}", soft_wrap=True)
    print_next_step(state, store, console)


def print_next_step(state: ExperimentState, store: Path | None, console: Console = OUT) -> None:
    """Print the next step of a person, with its command."""
    where = "" if store is None else f" --store {store}"
    command = f" with: {state.command}{where}" if state.command else "."
    console.print(f"{state.next_step.removesuffix('.')}{command}", soft_wrap=True)


def fresh_session(path: Path) -> Session:
    """Return a session for a sweep file without storing the experiment."""
    built = build_sweep(check_settings(read_settings(path), str(path)))
    session = open_sweep(built, MemoryStore(), path.stem, earlier=earlier_in(None, built))
    session.import_results(past_results(built), replicates=built.settings.replicates)
    return session


def stored_session(experiment: str, store: Path | None, *, take_key: bool = True) -> Session:
    """Return the session of a stored experiment, or of the one opened last for ``latest``.

    The store is closed when the command ends; without ``take_key`` another may be opened to write.
    """
    opened = open_store(existing(store), take_key=take_key)
    return session_in(closed_at_end(opened), experiment)


def earlier_in(store: Path | None, built: BuiltSweep) -> tuple[EarlierSweep, ...]:
    """Return what a sweep learns from the stored experiments that its settings name.

    Raises StoreError or SettingsError if there is no such experiment, or nothing can be learnt.
    """
    named = built.settings.learn_from
    if not named:
        return ()
    with closing(open_store(existing(store), take_key=False)) as opened:
        return earlier_sweeps(opened, named, built.objective)


def say_similar(path: Path, built: BuiltSweep) -> None:
    """Print that an experiment with the parameters of a sweep is stored, if one is."""
    if not is_there(path) or not strategy_entry(built.settings.strategy.name).learns:
        return
    with closing(open_store(path, take_key=False)) as opened:
        similar = similar_experiment(opened, built.space)
    if similar is not None:
        say(
            f"Experiment '{similar.id}' has the same parameters: if its results may guide this "
            f"search, add --learn-from {similar.id}"
        )


def copy_in_memory(session: Session) -> Session:
    """Return a session on a copy of a stored experiment, to try decisions on."""
    store = MemoryStore()
    store.append(session.id, 0, session.events())
    return load_session(store, session.id)


def existing(store: Path | None) -> Path:
    """Return the path of an existing store. Raises StoreError if there is no store."""
    path = store_path(store)
    if not is_there(path):
        raise StoreError(
            f"there is no store '{path}' yet; run a sweep first, or name another with --store"
        )
    return path

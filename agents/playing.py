"""One episode of a study, from a cell and the number of its replication to its row of results."""

from collections.abc import Callable
from dataclasses import dataclass

from agents.episode import Episode, never
from agents.simulated import EPOCH_S, SimulatedClock, SimulatedExecutor
from agents.streams import Streams
from agents.study import Cell, Study
from agents.truth import Truth
from assistant import AssistantError, MemoryStore, Run, RunState, Session, Sla, Watch, open_session


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one episode.

    Args:
        replication: its number in the cell, from 0 on.
        seed: of its experiment, which replays every suggestion.
        runs: that were executed.
        suggested: of these, Copperline's.
        runs_to_optimum: the number of the run that found an optimum first; None if none did.
        censored: whether the search for the optimum ended before it was found.
        best: best measured value; None if every run failed.
        ratio: the paper's quality of the result (`Truth.ratio`): 0 if every run failed, None where
            it has no meaning.
        late: whether the deadline ended it.
        ended: why it ended, for people.
        met: whether the goal of the agreement was reached; None where there is none.
    """

    replication: int
    seed: int
    runs: int
    suggested: int
    runs_to_optimum: int | None
    censored: bool
    best: float | None
    ratio: float | None
    late: bool
    ended: str
    met: bool | None = None


def play_episode(study: Study, cell: Cell, truth: Truth, replication: int) -> Played:
    """Play one episode through a `Session` of its own, which nothing else sees.

    Args:
        study: that the cell is of.
        cell: what is varied.
        truth: of the cell's table.
        replication: from 0 on.
    """
    streams, clock = cell.streams(study.seed, replication), SimulatedClock()
    session = _open(study, cell, truth, streams, clock)
    episode = Episode(
        truth,
        streams,
        study.max_runs(cell, truth.size),
        until=wanted(study, cell, truth),
        clustering=study.clustering(cell),
        wait=clock.wait,
    )
    executor = SimulatedExecutor(truth.application, clock, study.stop.run_s)
    ended = study.agent(cell).play(session, executor, episode)
    return _played(session, truth, replication, ended)


def _open(
    study: Study, cell: Cell, truth: Truth, streams: Streams, clock: SimulatedClock
) -> Session:
    return open_session(
        truth.application,
        store=MemoryStore(),
        clock=clock,
        experiment_id="episode",
        sla=agreement(study, cell, truth),
        strategy=cell.strategy.name,
        options=dict(cell.strategy.options),
        watch=watch(study, cell),
        seed=streams.session_seed,
    )


def agreement(study: Study, cell: Cell, truth: Truth) -> Sla:
    """Return the agreement of an episode: budget, deadline and goal, if the study has them."""
    deadline_s, goal = study.stop.deadline_s, study.stop.goal
    value_of = truth.application.objective.value_of
    return Sla(
        max_runs=cell.runs,
        deadline_s=None if deadline_s is None else EPOCH_S + deadline_s,
        goal=None if goal is None else value_of(truth.reached_by(goal)),
    )


def wanted(study: Study, cell: Cell, truth: Truth) -> Callable[[Run], bool]:
    """Return with which result an episode ends: the optimum, the goal, or with none."""
    if cell.runs is None:
        return lambda run: is_optimal(run, truth)
    if study.stop.goal is None:
        return never
    goal = truth.reached_by(study.stop.goal)
    return lambda run: run.outcome is not None and run.outcome.quality >= goal


def watch(study: Study, cell: Cell) -> Watch:
    """Return how the agreement is watched: by the paper's rule, from its share of the budget on.

    Where the clustering advice is given at a fixed time no warning comes beside it. Where there is
    a goal the forecast warns, when it will.
    """
    if study.stop.goal is not None:
        return Watch()
    given = cell.exploitation is not None
    return Watch(rule="paper", warn_from=1.0 if given else study.stop.advised_from)


def check(study: Study, cell: Cell, truth: Truth) -> None:
    """Refuse what could not be played.

    Raises:
        AssistantError: a ratio to the optimum means nothing, or a trait is out of range.
        StrategyError: there is no such strategy or option.
    """
    _open(study, cell, truth, cell.streams(study.seed, 0), SimulatedClock())
    if cell.runs is not None and truth.ratio(truth.optimum) is None:
        raise AssistantError(
            f"table '{cell.table}' has no values above 0 only, so a ratio to the optimum means "
            "nothing; stop at the optimum instead"
        )
    study.agent(cell)


def is_optimal(run: Run, truth: Truth) -> bool:
    """Return whether a run found an optimum."""
    return run.outcome is not None and run.outcome.quality == truth.optimum


def _played(session: Session, truth: Truth, replication: int, ended: str) -> Played:
    experiment = session.experiment
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    found = next((run.id for run in over if is_optimal(run, truth)), None)
    best = None if experiment.best is None else experiment.best.outcome
    return Played(
        replication=replication,
        seed=experiment.opened.seed,
        runs=len(over),
        suggested=sum(run.source in ("initial", "suggested") for run in over),
        runs_to_optimum=found,
        censored=experiment.sla.max_runs is None and found is None,
        best=None if best is None else best.value,
        ratio=0.0 if best is None else truth.ratio(best.quality),
        late=session.is_overdue(),
        ended=ended,
        met=None if experiment.sla.goal is None else experiment.goal_run is not None,
    )

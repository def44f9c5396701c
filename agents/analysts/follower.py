"""The follower, an analyst who takes every suggestion, as an unattended sweep does.

In the paper's words an agent with a confidence level of 100 % (section 4.2).
"""

from collections.abc import Callable
from dataclasses import dataclass

from agents.analysts.episode import AnalystEpisode, ClusteringAdvice
from assistant import AssistantError, Executor, MissWarning, Run, Session
from assistant.core.sla import AutoSteering, OnWarning
from assistant.session.auto_steering import SubmissionLimits, auto_steer_step


@dataclass(frozen=True, slots=True)
class Follower:
    """Analyst who steers a session through figure 3 of the paper without changing a suggestion.

    Its next step depends on the session's state alone, so it can resume a sweep that was
    interrupted anywhere, with the same result.

    It ends early where a limit of the SLA is used up, and once the goal is reached, unless the SLA
    says to go on. If results vary, the run that reached the goal is repeated twice before; and the
    last 2 runs of a budget of at least 10 repeat the winner, or the leader at that time, before it
    is recommended. Once the space is exhausted the rest of the budget separates it from its rivals.

    Args:
        initial: first runs, before results decide, besides the baseline and included runs.
        batch: suggestions taken at a time, between which the model learns; None takes as many as
            suit the strategy (`Session.batch_size`).
        max_runs: most runs, although the budget may allow more; needed if it has no limit.
        advice: answer to warnings: ``ignore``, ``accept`` alternatives that keep the SLA
            (`MissWarning.unattended`), or ``wait``: stop until a person has answered.

    Raises:
        AssistantError: a number is out of range.
    """

    initial: int = 10
    batch: int | None = None
    max_runs: int | None = None
    advice: OnWarning = "ignore"

    def __post_init__(self) -> None:
        AutoSteering(self.batch, self.initial, self.advice)  # raises for invalid values

    def steer(
        self,
        session: Session,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        on_advice: Callable[[MissWarning], None] | None = None,
    ) -> str:
        """Run the baseline, the first runs, then batches; return the reason of the end.

        Args:
            session: new, or resumed at any point.
            executor: executor of the runs.
            on_change: callback with each run that started or ended.
            on_advice: callback with each warning before it is answered.

        Raises:
            AssistantError: there is no limit of runs or of cost, and no deadline.
        """
        if self.max_runs is None and not session.experiment.sla.is_limited:
            raise AssistantError(
                "a sweep without a limit of runs, a deadline or a limit of cost would not end by "
                "itself; give one (runs, deadline, cost)"
            )
        limited = SubmissionLimits(session, self.max_runs)
        may_start = not session.is_over_limit()
        if may_start and limited.room(1) and session.experiment.baseline is None:
            session.submit_baseline()
        how = AutoSteering(self.batch, self.initial, self.advice)
        while True:
            session.run_queued(executor, on_change, session.is_over_limit)
            ended = auto_steer_step(session, how, self.max_runs, on_advice)
            if ended is not None:
                return ended

    @property
    def name(self) -> str:
        """Registered name."""
        return "follower"

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Steer a new session as `steer` does; see `agents.analysts.episode.Agent.play`.

        Warnings are answered as ``advice`` says; the clustering advice is always accepted.
        """
        how = AutoSteering(self.batch, self.initial, self.advice)
        due, n_runs = episode.clustering, 0
        while True:
            runs = session.experiment.runs
            if any(map(episode.until, runs[n_runs:])):
                return "what was wanted is found"
            n_runs = len(runs)
            if due is not None and n_runs >= due.after:
                session.change_strategy(exploitation=due.exploitation)
                due = None
            ended = auto_steer_step(session, how, _limit(episode, due))
            session.run_queued(executor, stop=session.is_over_limit)
            if ended is not None:
                return ended


def _limit(episode: AnalystEpisode, due: ClusteringAdvice | None) -> int:
    """Return how many runs may be submitted until the next event."""
    return episode.max_runs if due is None else min(due.after, episode.max_runs)

"""Simulated analysts, such as those of the Copper paper's evaluation, and their registry.

Section 4.2 of Silva, Netto and Cunha describes software agents that represent people. They go
through the loop of figure 3: read the list of suggestions, adapt it, submit, read the results. This
text specifies the rest so exactly that another program can produce the same event log.

**Streams** (`agents.analysts.episode`). An episode has the streams ``insight``, ``intuition`` and
``advice``: one NumPy generator each, of which only ``random()`` is called (``u`` below; a float64
in [0, 1)). The fourth, ``session``, gives the experiment's seed (`EpisodeStreams.session_seed`),
from which the session makes a generator per batch of suggestions
(`assistant.core.commands.random_stream`). Sums and products are float64, from the first term on.

**Insight** (`agents.analysts.insight`), once, before the first round. With ``p`` candidates in the
order of their ranks and ``n`` members:

1. For i = 0 .. n - 1 (from 1 for a good insight, whose first member is the first candidate):
   one ``u``; ``j = i + floor(u (p - i))``; candidates i and j change places. The members are the
   first n candidates, in this order.
2. For each member in order one ``u``: its weight is ``1 - u``.

No insight draws nothing, and has no subset.

**A round** (`agents.analysts.analyst`). ``N`` runs are submitted already.

1. ``reaction_s`` simulated seconds pass.
2. The episode ends if the deadline or the cost is used up, if ``N`` is at ``max_runs``, or if no
   configuration is free. The round has ``n = min(batch, max_runs - N)`` runs, and no more than are
   left until the clustering advice is due.
3. If the clustering advice is due at ``N``, and the analyst accepts it (one ``u`` of ``advice``,
   see below), the exploitation level is set: `Session.change_strategy`.
4. **Confidence** c, in per cent. ``k = share(N + n) - share(N)`` of the n runs are Copperline's,
   where ``share(x) = floor((c x + 50) / 100)`` in whole numbers: c % of all runs, rounded to the
   nearest one, after each round. It is a share, not a coin, as in the text: "if the user submits
   100 jobs and the confidence level is 40%, then 40 jobs are submitted based on Copper
   recommendation". If k > 0 the analyst requests k suggestions (`Session.initial_evaluation` in the
   first round, `Session.suggest` in others) and submits all of them in their order; no more,
   because an unused suggestion is not proposed again. Without k there is no batch: batches are
   numbered by the rounds with a request. Their source in the event log is ``initial`` in the first
   round, and while no run has completed (`Suggestion.kind`), else ``suggested``.
5. If a warning came with the suggestions, ``reaction_s`` seconds pass, then it is accepted
   (`MissWarning.unattended`; one ``u`` of ``advice``) or ignored. Accepting brings another
   batch, of which the first k are taken, or leaves the old one.
6. The rest of the n runs is the analyst's own, including as many as k suggestions fell short. Each
   is drawn by **intuition** (below) among the configurations without a run, without those of step
   4, and submitted at once (`Session.include`). Their source in the event log is ``analyst``.
7. Everything that waits is executed, in the order of submission.
8. The analyst sees the results of the round in the order of their run numbers; see **learning**. If
   `AnalystEpisode.until` is true of one of them, the episode ends.

Acceptance a is a probability: 0 and 1 draw nothing; between, it is accepted if ``u < a``.

**Intuition** (`agents.analysts.insight`): one configuration.

1. The source. If no member of the subset is free (or there is no subset): a learner draws from the
   ``levels``, others from the ``space``. Else others draw from the ``subset``; a learner takes one
   ``u``: position 0 of `pick` over the two weights of trust is the ``subset``, 1 the ``levels``.
2. ``subset``: up to 32 times one ``u``: the first member whose running sum of weights
   (`numpy.cumsum` over the members in order) exceeds ``u`` times the last running sum
   (`bisect_right`), until it is free. After 32: one ``u``, `pick` over the weights of the free
   members in their order.
3. ``levels``: up to 32 times one ``u`` for each parameter in order: `pick` over the weights of its
   levels, until the configuration is free. After 32: as from the ``space``, and it counts as that.
4. ``space``: up to 32 times one ``u``: flat index ``floor(u size)``, until it is free. After 32:
   one ``u``: the ``floor(u f)``-th (from 0) of the f free ones by flat index.

**Learning** (`agents.analysts.insight`), learners only. At first, with a subset, level j of a
parameter with ``L`` levels weighs ``L ((1 - mass) (S_j / S) + mass / L)``: ``S_j`` is the sum of
the weights of the members with this level, in their order, ``S`` the last running sum; then it is
bounded to [1 / bound, bound]. Without a subset every level weighs 1. Trust weighs ``2 trust`` for
the subset and ``2 (1 - trust)`` for the levels, bounded likewise.

A result is compared with all before it, Copperline's too: above the one at position ``n // 2`` of
the n earlier qualities in ascending order it is good, below it bad, otherwise neither; a failed run
is bad, and is not compared with. In a good result the weight w of each of its levels, and of the
source that it was drawn from (if that was subset or levels), becomes ``min(w (1 + rate), bound)``;
in a bad one ``max(w / (1 + rate), 1 / bound)``.

The paper's own agents (section 4.2): three insights, confidence 0 to 100 %, learning or not,
acceptance 1, reaction 0. Confidence 100 % is `agents.analysts.analyst`.

The one-at-a-time analyst changes one parameter from the best result so far: Montgomery, Design and
Analysis of Experiments, section 1.1 (the one-factor-at-a-time strategy, which misses interactions).

The follower, an analyst who takes every suggestion, as auto-steering does.

In the paper's words an agent with a confidence level of 100 % (section 4.2).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from agents.analysts.episode import Agent, AnalystEpisode, ClusteringAdvice, Truth
from agents.analysts.insight import FreeConfigurations, Insight, Intuition, Learning, draw_subset
from assistant import AssistantError, BatchSuggested, Executor, MissWarning, Run, Session
from assistant.core.errors import hint
from assistant.core.sla import AutoSteering, OnWarning
from assistant.session.auto_steering import auto_steer, auto_steer_step


@dataclass(frozen=True, slots=True)
class Follower:
    """Simulated analyst who runs every suggestion of a session unchanged.

    Its next step depends on the session's state alone, so it can resume a sweep that was
    interrupted anywhere, with the same result.

    It ends early where a limit of the SLA is used up, and once the goal is reached, unless the SLA
    says to go on. It ends at once if the program cannot run, unless the SLA says to keep going. If
    results vary, the run that reached the goal is repeated twice before; and the last 2 runs of a
    budget of at least 10 repeat the winner, or the leader at that time, before it is recommended.
    Once the space is exhausted the rest of the budget separates it from its rivals.

    Args:
        initial: first runs, before results decide, besides the baseline and included runs.
        batch: suggestions taken at a time, between which the model learns; None takes as many as
            suit the strategy (`Session.batch_size`).
        max_runs: most runs, although the budget may allow more; needed if it has no limit.
        warnings: answer to warnings: ``ignore``, ``accept`` alternatives that keep the SLA
            (`MissWarning.unattended`), or ``wait``: stop until a person has answered.

    Raises:
        AssistantError: a number is out of range.
    """

    initial: int = 10
    batch: int | None = None
    max_runs: int | None = None
    warnings: OnWarning = "ignore"

    def __post_init__(self) -> None:
        AutoSteering(self.batch, self.initial, self.warnings)  # raises for invalid values

    def steer(
        self,
        session: Session,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        on_warning: Callable[[MissWarning], None] | None = None,
    ) -> str:
        """Run the baseline and all suggestions until the session ends, and return the reason.

        Args:
            session: new, or resumed at any point.
            executor: executor of the runs.
            on_change: callback with each run that started or ended.
            on_warning: callback with each warning before it is answered.

        Raises:
            AssistantError: there is no limit of runs or of cost, and no deadline.
        """
        return auto_steer(
            session, executor, AutoSteering(self.batch, self.initial, self.warnings),
            max_runs=self.max_runs, on_change=on_change, on_warning=on_warning,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Registered name of the kind of analyst."""
        return "follower"

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Submit runs to a new session until the episode ends, and return the reason as text.

        Warnings are answered as ``warnings`` says; the clustering advice is always accepted.
        """
        how = AutoSteering(self.batch, self.initial, self.warnings)
        due, n_runs = episode.clustering, 0
        while True:
            runs = session.experiment.runs
            if any(map(episode.until, runs[n_runs:])):
                return "the target is reached"
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


ANALYST_REASON = "the analyst's intuition"


class ConfigurationChooser(Protocol):
    """Protocol of objects that choose an analyst's own configurations and learn from results.

    Configurations are flat indices (`agents.analysts.episode`).
    """

    @property
    def n_free(self) -> int:
        """Number of configurations that have not been run."""

    def take(self, index: int) -> None:
        """Mark a configuration, given by its flat index, as run."""

    def draw(self) -> int | None:
        """Choose a free configuration, mark it as run and return its index; None if all are run."""

    def learn(self, index: int, quality: float | None) -> None:
        """Learn from the quality of a run, where None means a failed run."""


@dataclass(frozen=True, slots=True)
class AnalystProfile:
    """Settings of a simulated analyst: confidence, batch size, warning acceptance, reaction time.

    Raises:
        AssistantError: a field is out of range.
    """

    confidence: int = 100
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        if type(self.confidence) is not int or not 0 <= self.confidence <= 100:
            raise AssistantError(
                f"confidence is a whole number of per cent from 0 to 100, not {self.confidence!r}"
            )
        if type(self.batch) is not int or self.batch < 1:
            raise AssistantError(f"a batch is a whole number of runs from 1 on, not {self.batch!r}")
        if not 0 <= self.acceptance <= 1:
            raise AssistantError(
                f"acceptance is a probability from 0 (never) to 1 (always), not {self.acceptance!r}"
            )
        if not 0 <= self.reaction_s < float("inf"):
            raise AssistantError(
                f"reaction_s is a number of seconds from 0 on, not {self.reaction_s!r}"
            )


def play_rounds(
    manner: AnalystProfile,
    mind: ConfigurationChooser,
    session: Session,
    executor: Executor,
    episode: AnalystEpisode,
) -> str:
    """Play an episode in a new session, one batch of runs per round, and return why it ended."""
    seat = _AnalystRounds(manner, session, episode, mind, episode.streams.generator("advice"))
    while True:
        ended = seat.end() or seat.round(executor)
        if ended is not None:
            return ended


def share(confidence: int, runs: int) -> int:
    """Return how many of `runs` are the tool's suggestions: `confidence` percent, rounded.

    >>> [share(40, runs) for runs in (5, 10, 15, 100)], share(10, 5), share(0, 999)
    ([2, 4, 6, 40], 1, 0)
    """
    return (confidence * runs + 50) // 100


class _AnalystRounds:
    def __init__(
        self,
        manner: AnalystProfile,
        session: Session,
        episode: AnalystEpisode,
        mind: ConfigurationChooser,
        advice: np.random.Generator,
    ) -> None:
        self._manner, self._session, self._episode = manner, session, episode
        self._mind, self._advice = mind, advice
        self._n = 0  # runs submitted
        self._rounds = 0

    def end(self) -> str | None:
        """Wait for the reaction time and return the reason for ending the episode, or None."""
        self._episode.wait(self._manner.reaction_s)
        passed = self._session.passed_limit()
        if passed is not None:
            return passed
        if self._n >= self._episode.max_runs:
            return f"the budget of {self._n} runs is used up"
        return None if self._mind.n_free else "the space is exhausted"

    def round(self, executor: Executor) -> str | None:
        """Run one round, learn from its results and return the reason for ending, or None."""
        n = self._runs_of_round()
        k = share(self._manner.confidence, self._n + n) - share(self._manner.confidence, self._n)
        runs = list(self._take_suggestions(k)) if k else []
        self._rounds += 1
        runs += self._include_own(n - len(runs))
        self._n += len(runs)
        self._session.run_queued(executor, stop=self._session.is_over_limit)
        return self._see(runs)

    def _runs_of_round(self) -> int:
        n = min(self._manner.batch, self._episode.max_runs - self._n)
        due = self._episode.clustering
        if due is None or self._n > due.after:
            return n
        if self._n == due.after:
            self._apply(due)
            return n
        return min(n, due.after - self._n)

    def _apply(self, clustering: ClusteringAdvice) -> None:
        if self._accepts():
            self._session.change_strategy(exploitation=clustering.exploitation)

    def _accepts(self) -> bool:
        acceptance = self._manner.acceptance
        if acceptance in (0, 1):
            return acceptance == 1
        return bool(self._advice.random() < acceptance)

    def _take_suggestions(self, k: int) -> tuple[Run, ...]:
        ask = self._session.suggest if self._rounds else self._session.initial_evaluation
        batch = ask(k)
        open_warning = self._session.experiment.open_warning
        if open_warning is not None:
            batch = self._answer(open_warning) or batch
        runs = self._session.submit(batch, keep=range(min(k, len(batch.suggestions))))
        for run in runs:
            self._mind.take(self._index(run))
        return runs

    def _answer(self, advice: MissWarning) -> BatchSuggested | None:
        self._episode.wait(self._manner.reaction_s)
        if not self._accepts():
            self._session.answer_warning("ignored")
            return None
        answer, alternative = advice.unattended
        return self._session.answer_warning(answer, alternative=alternative)

    def _include_own(self, n: int) -> Iterator[Run]:
        space = self._session.experiment.space
        for _ in range(n):
            index = self._mind.draw()
            if index is None:
                return
            yield self._session.include(space.values(space.configuration(index)), ANALYST_REASON)

    def _see(self, runs: Sequence[Run]) -> str | None:
        content = False
        for run in runs:
            over = self._session.experiment.run(run.id)
            if over.ended_s is None:  # the deadline came first
                continue
            outcome = over.outcome
            self._mind.learn(self._index(run), None if outcome is None else outcome.quality)
            content = content or self._episode.until(over)
        return "the target is reached" if content else None

    def _index(self, run: Run) -> int:
        return self._session.experiment.space.index(run.configuration)


NO_INSIGHT = Insight("none")


@dataclass(frozen=True, slots=True)
class Analyst:
    """Simulated analyst of the Copper paper's evaluation: insight, confidence and learning.

    Args:
        insight: definition of the analyst's subset of the space.
        confidence: share of the runs that are Copperline's suggestions, in whole per cent.
        learning: how results change the analyst's own runs; None without learning.
        batch: runs that are submitted at a time; 5 is a construction of the paper's GRASP with
            its 4 neighbours.
        acceptance: probability that a warning is accepted, from 0 (never) to 1 (always).
        reaction_s: simulated seconds until the answer to a list of suggestions or a warning.

    Raises:
        AssistantError: a field is out of range.
    """

    insight: Insight = NO_INSIGHT
    confidence: int = 100
    learning: Learning | None = None
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        self.manner  # noqa: B018 - refuses what is out of range

    @property
    def manner(self) -> AnalystProfile:
        """Confidence, batch size, acceptance of warnings and reaction time of the analyst."""
        return AnalystProfile(self.confidence, self.batch, self.acceptance, self.reaction_s)

    @property
    def name(self) -> str:
        """Registered name of the kind of analyst."""
        return "analyst"

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Submit runs to a new session until the episode ends, and return the reason as text."""
        subset = draw_subset(self.insight, episode.truth, episode.streams.generator("insight"))
        rng = episode.streams.generator("intuition")
        intuition = Intuition(episode.truth, subset, self.learning, rng)
        return play_rounds(self.manner, intuition, session, executor, episode)


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """Simulated analyst without insight who varies one parameter at a time."""

    confidence: int = 0
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        self.manner  # noqa: B018 - refuses what is out of range

    @property
    def manner(self) -> AnalystProfile:
        """Confidence, batch size, acceptance of warnings and reaction time of the analyst."""
        return AnalystProfile(self.confidence, self.batch, self.acceptance, self.reaction_s)

    @property
    def name(self) -> str:
        """Registered name of the kind of analyst."""
        return "one_at_a_time"

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Submit runs to a new session until the episode ends, and return the reason as text."""
        mind = _OneAtATimeWalk(episode.truth, episode.streams.generator("intuition"))
        return play_rounds(self.manner, mind, session, executor, episode)


class _OneAtATimeWalk:
    """Walk over the parameters from the best result so far."""

    def __init__(self, truth: Truth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._free = FreeConfigurations(truth.size)
        self._best: tuple[float, int] | None = None

    @property
    def n_free(self) -> int:
        return self._free.n

    def take(self, index: int) -> None:
        self._free.take(index)

    def draw(self) -> int | None:
        if self._free.n == 0:
            return None
        index = self._beside()
        if index is None:
            index = self._free.draw(self._rng)
        self.take(index)
        return index

    def learn(self, index: int, quality: float | None) -> None:
        if quality is not None and (self._best is None or quality > self._best[0]):
            self._best = quality, index

    def _beside(self) -> int | None:
        """Return the first free configuration that differs from the best in one parameter."""
        if self._best is None:
            return None
        best, step = self._best[1], self._truth.size
        for n in self._truth.n_levels:
            step //= n
            first = best - best // step % n * step
            for index in range(first, first + n * step, step):
                if self._free[index]:
                    return index
        return None


Trait = Literal["insight", "confidence", "learning", "batch", "acceptance", "reaction_s"]


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """Registry entry of a kind of simulated analyst."""

    name: str  # name in a study
    summary: str  # one line for people
    factory: Callable[..., Agent]  # constructor, called with the traits
    takes: tuple[Trait, ...]  # supported traits, as the fields of `agents.analysts.analyst.Analyst`

    def build(self, **traits: Any) -> Agent:
        """Construct an analyst, ignoring traits that this kind does not support."""
        return self.factory(**{name: traits[name] for name in self.takes if name in traits})


AGENTS: tuple[AgentEntry, ...] = (
    AgentEntry(
        "analyst",
        "The paper's agent: insight, confidence in suggestions, and optional learning.",
        Analyst,
        ("insight", "confidence", "learning", "batch", "acceptance", "reaction_s"),
    ),
    AgentEntry(
        "follower",
        "Takes every suggestion, as auto-steering does.",
        Follower,
        ("batch",),
    ),
    AgentEntry(
        "one_at_a_time",
        "Changes one parameter of the best run at a time; takes a share of suggestions.",
        OneAtATime,
        ("confidence", "batch", "acceptance", "reaction_s"),
    ),
)


def agent_entry(name: str, entries: Iterable[AgentEntry] = AGENTS) -> AgentEntry:
    """Return the registry entry of the analyst kind with this name, or raise `AssistantError`."""
    entries_by_name = {entry.name: entry for entry in entries}
    if name not in entries_by_name:
        raise AssistantError(f"no kind of analyst '{name}'{hint(name, entries_by_name)}")
    return entries_by_name[name]

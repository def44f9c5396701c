"""Commands that need an analysis or a strategy, and the table of all commands.

The table serves sessions, the routes of the service with their bodies, and clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from assistant.analysis.alternatives import events_of_alternative
from assistant.analysis.recommendation import (
    confirming,
    current_strategy,
    initial_strategy,
    refine_levels,
)
from assistant.analysis.warning import build_warning, next_batch
from assistant.core.bounds import BATCH, Count, Position, Share
from assistant.core.commands import CORE_COMMANDS, Command, Route
from assistant.core.errors import ExperimentError
from assistant.core.events import Alternative, Answer, BatchSuggested, Event, WarningAnswered
from assistant.core.experiment import Experiment
from assistant.core.run import random_stream
from assistant.core.sla import Steering
from assistant.core.submission import knowledge_before_results, refuse_if_finished
from strategies import Suggestion

SuggestionKind = Literal["next", "initial", "confirmation"]


@dataclass(frozen=True, slots=True)
class SuggestBatch(Command):
    """Suggest a batch of configurations, with a warning if the SLA will probably be missed.

    Levels of wide parameters may be added before, see `strategies.steering.refinement`.
    ``kind``: ``next`` is chosen by the strategy; ``initial`` by the strategy if it can, else at
    random as in the Copper paper; ``confirmation`` are replicates of the recommended one.
    """

    n: Count
    kind: SuggestionKind = "next"

    route = Route("/suggestions")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the batch of at most ``n`` suggestions, and the events of a warning.

        Raises:
            ExperimentError: the experiment is finished, or there is nothing to confirm.
            SettingsError: ``n`` is no whole number from 1 to 1,000.
        """
        refuse_if_finished(experiment)
        BATCH.check("the number of suggestions in a batch", self.n)
        number = len(experiment.batches) + 1
        if self.kind == "confirmation":
            replicates = confirming(experiment, self.n)
            return (BatchSuggested(now_s, number, replicates, exhausted=False),)
        refined = refine_levels(experiment, now_s) if self.kind == "next" else ()
        experiment = experiment.supposing(refined) if refined else experiment
        suggestions = self._chosen(experiment, number)
        batch = BatchSuggested(now_s, number, suggestions, exhausted=len(suggestions) < self.n)
        if self.kind == "initial":
            return (batch,)
        rng = np.random.default_rng(random_stream(experiment.opened.seed, "advise", number))
        return (*refined, batch, *build_warning(experiment, self.n, now_s, rng))

    def _chosen(self, experiment: Experiment, number: int) -> tuple[Suggestion, ...]:
        rng = np.random.default_rng(random_stream(experiment.opened.seed, "suggest", number))
        if self.kind == "next":
            return current_strategy(experiment).suggest(self.n, experiment.knowledge, rng)
        knowledge = knowledge_before_results(experiment.knowledge)
        chosen = initial_strategy(experiment).suggest(self.n, knowledge, rng)
        return tuple(replace(suggestion, kind="initial") for suggestion in chosen)


@dataclass(frozen=True, slots=True)
class AnswerWarning(Command):
    """Answer the open warning; accepting it makes the proposed change and suggests a new batch.

    ``exploitation`` is the share of ``changed``, ``alternative`` the position (from 0) of the
    ``accepted`` one, by default the first.
    """

    answer: Answer
    exploitation: Share | None = None
    alternative: Position | None = None

    route = Route("/warning/answer")

    def decide(self, experiment: Experiment, now_s: float) -> tuple[Event, ...]:
        """Return the answer, the events of its change, and the batch that follows from it.

        Raises:
            ExperimentError: no warning is open, or the fields contradict each other.
            AssistantError, StrategyError: the alternative is not possible any more.
        """
        answered, accepted = self._answered(experiment, now_s)
        more = () if accepted is None else events_of_alternative(experiment, accepted, now_s)
        batch = next_batch(experiment, answered, accepted, more)
        return (answered, *more) if batch is None else (answered, *more, batch)

    def _answered(
        self, experiment: Experiment, now_s: float
    ) -> tuple[WarningAnswered, Alternative | None]:
        """Return the event of the answer, and the accepted alternative or None.

        A warning by the paper's rule proposes an exploitation level, one by the forecast proposes
        alternatives.
        """
        warning = experiment.open_warning
        if warning is None:
            raise ExperimentError("there is no open warning to answer")
        if self.answer == "changed" and self.exploitation is None:
            raise ExperimentError("name the exploitation level to change to, 0 to 1")
        if self.answer != "changed" and self.exploitation is not None:
            raise ExperimentError("only the answer 'changed' takes an exploitation level")
        if self.answer != "accepted" and self.alternative is not None:
            raise ExperimentError("only the answer 'accepted' takes an alternative")
        is_changed = self.answer == "changed"
        level = self.exploitation if is_changed else experiment.steering.exploitation
        Steering(exploitation=level)  # refuses a level outside 0 to 1
        if self.answer != "accepted":
            return WarningAnswered(now_s, warning.number, self.answer, level), None
        if warning.basis == "paper" and self.alternative is None:
            level = warning.exploitation
            return WarningAnswered(now_s, warning.number, self.answer, level), None
        proposed = warning.alternatives
        if not proposed:
            raise ExperimentError(
                f"warning {warning.number} proposes no alternative that can be accepted; ignore "
                "it, or change it to an exploitation level"
            )
        which = self.alternative or 0
        if type(which) is not int or not 0 <= which < len(proposed):
            raise ExperimentError(
                f"warning {warning.number} has no alternative at position {self.alternative}; it "
                f"has {len(proposed)}, counted from 0"
            )
        accepted = proposed[which]
        if accepted.kind == "exploitation" and accepted.steering is not None:
            level = accepted.steering.exploitation
        return WarningAnswered(now_s, warning.number, self.answer, level, which), accepted


COMMANDS: tuple[type[Command], ...] = (SuggestBatch, AnswerWarning, *CORE_COMMANDS)
"""Every command. A new one is written once, with its route, and added here or in core."""

"""What an analyst is told of the episode that she plays, beside the session that she steers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agents.streams import Streams
from agents.truth import Truth
from assistant import AssistantError, Executor, Run, Session


@dataclass(frozen=True, slots=True)
class Clustering:
    """The clustering advice as the paper's evaluation applies it (section 4.3).

    Args:
        after: runs that are submitted when it is given: 70 % of the budget there.
        exploitation: share of the later suggestions inside regions of good results, from 0 to 1.
    """

    after: int
    exploitation: float

    def __post_init__(self) -> None:
        if type(self.after) is not int or self.after < 0:
            raise AssistantError(
                f"the advice comes after a whole number of runs, not {self.after!r}"
            )
        if not 0 <= self.exploitation <= 1:
            raise AssistantError(
                f"an exploitation level is a share from 0 to 1, not {self.exploitation!r}"
            )


def nobody_waits(seconds: float) -> None:
    """Let time pass where there is no simulated clock: none does."""


def never(run: Run) -> bool:  # noqa: ARG001 - of no run
    """Be content with no result."""
    return False


@dataclass(frozen=True, slots=True)
class Episode:
    """One analyst at one session, from its first run to its end.

    Args:
        truth: the space; analysts look at its shape and, for their insight, at its ranks.
        streams: of random numbers, by name.
        max_runs: runs that may be submitted in all.
        until: whether a result is all that was wanted; the episode ends with its round then.
        clustering: the advice that is given at a fixed time; None for none.
        wait: lets simulated seconds pass.
    """

    truth: Truth
    streams: Streams
    max_runs: int
    until: Callable[[Run], bool] = never
    clustering: Clustering | None = None
    wait: Callable[[float], None] = field(default=nobody_waits)


class Agent(Protocol):
    """A kind of analyst: a value with a name that steers a session to the end of an episode."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""

    def play(self, session: Session, executor: Executor, episode: Episode) -> str:
        """Steer a new session through figure 3 of the paper. Returns why the episode ended.

        It submits at most ``episode.max_runs`` runs, through the session only, draws from
        ``episode.streams`` only, and stops after the round in which ``episode.until`` was true of
        a run. The same streams give the same journal.
        """

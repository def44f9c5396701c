"""Registered kinds of analyst: an explicit tuple. One line here, and the contract suite runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from agents.analyst import Analyst
from agents.episode import Agent
from agents.follower import Follower
from agents.one_at_a_time import OneAtATime
from assistant import AssistantError
from assistant.errors import hint

Trait = Literal["insight", "confidence", "learning", "batch", "acceptance", "reaction_s"]


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """A registered kind of analyst.

    Args:
        name: under which a study asks for it.
        summary: one line for people.
        factory: makes one, from its traits.
        takes: traits that it has, by the names of the fields of `agents.analyst.Analyst`.
    """

    name: str
    summary: str
    factory: Callable[..., Agent]
    takes: tuple[Trait, ...]

    def build(self, **traits: Any) -> Agent:
        """Make one of those traits that it has; the others say nothing to it."""
        return self.factory(**{name: traits[name] for name in self.takes if name in traits})


AGENTS: tuple[AgentEntry, ...] = (
    AgentEntry(
        "analyst",
        "The paper's agent: insight, a share of confidence, and perhaps learning.",
        Analyst,
        ("insight", "confidence", "learning", "batch", "acceptance", "reaction_s"),
    ),
    AgentEntry(
        "follower",
        "Takes every suggestion, as an unattended sweep does.",
        Follower,
        ("batch",),
    ),
    AgentEntry(
        "one_at_a_time",
        "Changes one parameter at a time from the best seen, beside a share of confidence.",
        OneAtATime,
        ("confidence", "batch", "acceptance", "reaction_s"),
    ),
)


def agent_entry(name: str, entries: Iterable[AgentEntry] = AGENTS) -> AgentEntry:
    """Return a kind of analyst by name. Raises AssistantError with the nearest one."""
    known = {entry.name: entry for entry in entries}
    if name not in known:
        raise AssistantError(f"no kind of analyst '{name}'{hint(name, known)}")
    return known[name]

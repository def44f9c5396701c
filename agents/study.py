"""A study: a grid of cells, each played by many analysts who differ in their random streams only.

Values and pure functions; `agents.running` plays them. The two studies of the paper are one grid
each: figure 6 varies insight, confidence and learning and stops at the optimum (section 4.2),
figures 7 to 9 vary the budget of runs and the exploitation level (section 4.3).
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from agents.episode import Agent, Clustering
from agents.insight import Insight, Kind
from agents.learning import Learning
from agents.registry import agent_entry
from agents.rounds import Manner
from agents.streams import Streams
from assistant import AssistantError

STRATEGY, KIND = "grasp", "analyst"
INSIGHTS: tuple[Kind, ...] = ("bad", "good", "none")
CONFIDENCES = tuple(range(0, 101, 10))
LEARNING = (False, True)
"""Axes of the paper's figure 6, which is what a study is unless it says otherwise."""

Options = tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A measured table of a study: the name that its cells go by, and its file."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """A strategy by its registered name, with options in the order of their names."""

    name: str
    options: Options = ()

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options)
        return f"{self.name} ({options})" if options else self.name


@dataclass(frozen=True, slots=True)
class Stop:
    """When the episodes of a study end.

    Args:
        runs: budgets, each a column of cells; without any an episode ends at the optimum.
        exploitation: levels of the clustering advice (section 3.2), with budgets only; None is no
            advice.
        advised_from: share of the budget at which that advice comes; the paper's 0.7.
        censored_at: share of the space at which the search for the optimum is given up.
        deadline_s: simulated seconds until the agreement ends; None is no deadline.
        run_s: simulated seconds of a run of which the table does not say how long it took.
        goal: with budgets only: the agreement's goal is the value that this share of the measured
            configurations reaches, and an episode ends with the round that reaches it. Warnings
            come from the forecast then. None is no goal.

    Raises:
        AssistantError: a field is out of range, or levels or a goal are given without budgets.
    """

    runs: tuple[int, ...] = ()
    exploitation: tuple[float | None, ...] = (None,)
    advised_from: float = 0.7
    censored_at: float = 0.5
    deadline_s: float | None = None
    run_s: float = 1.0
    goal: float | None = None

    def __post_init__(self) -> None:
        if any(type(runs) is not int or runs < 1 for runs in self.runs):
            raise AssistantError(f"budgets are whole numbers of runs from 1 on, not {self.runs}")
        if not self.exploitation:
            raise AssistantError("exploitation needs at least one level; leave it out for none")
        levels = [level for level in self.exploitation if level is not None]
        if levels and not self.runs:
            raise AssistantError(
                "exploitation comes with a share of a budget; give runs, or leave it out"
            )
        if self.goal is not None and not self.runs:
            raise AssistantError("a goal is agreed on with a budget; give runs, or leave it out")
        if self.goal is not None and not 0 < self.goal <= 1:
            raise AssistantError(
                f"goal is a share of the configurations above 0, up to 1, not {self.goal}"
            )
        for name, value in (("exploitation", levels), ("advised_from", [self.advised_from])):
            if not all(0 <= one <= 1 for one in value):
                raise AssistantError(f"{name} is a share from 0 to 1, not {value}")
        if not 0 < self.censored_at <= 1:
            raise AssistantError(
                f"censored_at is a share of the space above 0, up to 1, not {self.censored_at}"
            )
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise AssistantError(f"deadline_s is a number above 0, not {self.deadline_s}")
        if not 0 <= self.run_s < math.inf:
            raise AssistantError(f"run_s is a number from 0 on, not {self.run_s}")


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid. What its kind of analyst does not have, or the stop rule, is None.

    Args:
        table: name of the table.
        strategy: of the suggestions, with its options.
        kind: of analyst.
        insight: ``good``, ``bad`` or ``none``.
        confidence: in whole per cent.
        learning: whether she learns.
        runs: the budget; None if it ends at the optimum.
        exploitation: level of the clustering advice.
    """

    table: str
    strategy: Chosen
    kind: str
    insight: Kind | None = None
    confidence: int | None = None
    learning: bool | None = None
    runs: int | None = None
    exploitation: float | None = None

    def streams(self, seed: int, replication: int) -> Streams:
        """Return the random streams of an episode, which no other cell or replication has.

        They follow from the cell's own fields, so a larger grid keeps the episodes it had.
        """
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).digest()
        words = tuple(int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4))
        return Streams((seed, *words), replication)


@dataclass(frozen=True, slots=True)
class Study:
    """A grid, and what all of its cells have in common.

    Args:
        name: for people.
        tables: measured spaces.
        seed: of everything that is random.
        replications: episodes per cell.
        strategies: that make the suggestions.
        kinds: of analyst (`agents.registry`).
        insights: of the analysts that have one.
        confidences: in whole per cent.
        learning: whether they learn.
        stop: when episodes end.
        insight: sizes and ranks of the subsets; its own kind is not looked at.
        learner: how those learn who do.
        manner: batch, acceptance and reaction; its own confidence is not looked at.

    Raises:
        AssistantError: an axis is empty or repeats itself, or a number is out of range.
    """

    name: str
    tables: tuple[Table, ...]
    seed: int = 0
    replications: int = 500
    strategies: tuple[Chosen, ...] = (Chosen(STRATEGY),)
    kinds: tuple[str, ...] = (KIND,)
    insights: tuple[Kind, ...] = INSIGHTS
    confidences: tuple[int, ...] = CONFIDENCES
    learning: tuple[bool, ...] = LEARNING
    stop: Stop = field(default_factory=Stop)
    insight: Insight = field(default_factory=Insight)
    learner: Learning = field(default_factory=Learning)
    manner: Manner = field(default_factory=Manner)

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise AssistantError(
                f"the seed of a study is a whole number from 0 on, not {self.seed}"
            )
        if type(self.replications) is not int or self.replications < 1:
            raise AssistantError(
                f"replications is a whole number from 1 on, not {self.replications}"
            )
        axes: dict[str, tuple[Any, ...]] = {
            "tables": tuple(table.name for table in self.tables),
            "strategies": self.strategies,
            "kinds": self.kinds,
            "insights": self.insights,
            "confidences": self.confidences,
            "learning": self.learning,
            "runs": self.stop.runs or (None,),
            "exploitation": self.stop.exploitation,
        }
        for name, values in axes.items():
            if not values:
                raise AssistantError(f"a study needs at least one of {name}")
            repeated = next((v for v in values if values.count(v) > 1), None)
            if repeated is not None:
                raise AssistantError(f"{name} of a study names {repeated} twice; name it once")
        for cell in self.cells():
            self.agent(cell)

    def cells(self) -> tuple[Cell, ...]:
        """Return the grid, the last axis moving fastest; what a kind has not is not varied."""
        return tuple(dict.fromkeys(self._product()))

    def _product(self) -> Iterator[Cell]:
        budgets: tuple[int | None, ...] = self.stop.runs or (None,)
        for table, strategy, kind in itertools.product(self.tables, self.strategies, self.kinds):
            takes = agent_entry(kind).takes
            for insight, confidence, learning, runs, exploitation in itertools.product(
                self.insights if "insight" in takes else (None,),
                self.confidences if "confidence" in takes else (None,),
                self.learning if "learning" in takes else (None,),
                budgets,
                self.stop.exploitation,
            ):
                yield Cell(
                    table.name, strategy, kind, insight, confidence, learning, runs, exploitation
                )

    def agent(self, cell: Cell) -> Agent:
        """Return the analyst of a cell. Raises AssistantError for a trait out of range."""
        detail, manner = self.insight, self.manner
        insight = Insight(
            cell.insight or "none", detail.members, detail.best, detail.worst, detail.least
        )
        return agent_entry(cell.kind).build(
            insight=insight,
            confidence=100 if cell.confidence is None else cell.confidence,
            learning=self.learner if cell.learning else None,
            batch=manner.batch,
            acceptance=manner.acceptance,
            reaction_s=manner.reaction_s,
        )

    def max_runs(self, cell: Cell, size: int) -> int:
        """Return how many runs an episode may have in a space of ``size`` configurations."""
        return cell.runs or max(1, math.floor(self.stop.censored_at * size))

    def clustering(self, cell: Cell) -> Clustering | None:
        """Return the advice of a cell, which comes at a share of its budget, rounded up."""
        if cell.exploitation is None or cell.runs is None:
            return None
        return Clustering(math.ceil(self.stop.advised_from * cell.runs), cell.exploitation)

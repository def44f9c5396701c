"""Episodes: one method on one space with one seed, run after run until the budget is used up.

Every proposal is a run, a repeated one too. A combination that is missing from the table is a
failed run, which the method is told.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from assistant.analysis.recommendation import confirming_round, kept_runs
from benchmarks.peers import searches
from benchmarks.spaces import Problem
from strategies import (
    Configuration,
    ExploitationStrategy,
    Failure,
    Knowledge,
    Observation,
    OptionError,
    choose,
    confirmations,
    make_strategy,
    strategy_names,
)
from strategies.data.earlier_sweep import EarlierSweep
from strategies.space.parameter import parse_number

FIRST_RUNS, BATCH = 10, 5
STEERED = ("exploitation", "confirm")
"""Options of a method that are not its strategy's."""
SWEPT = ("copper",)
"""Strategies without first runs of their own, driven as ``copperline sweep`` drives them: ten first
runs at random (the paper's initialEvaluation), then five suggestions at a time, a construction with
its four neighbours."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method as it is written at the command line, ``NAME:OPTION=VALUE``.

    Args:
        text: as written; its name in the results.
        name: of one of our registered strategies, or of a peer.
        options: of either. Strategies also have ``exploitation``, the share inside regions, and
            ``confirm``, the last runs that repeat the winner and its rivals where every run draws
            its noise; as auto-steering does where it is not given.
    """

    text: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Method":
        """Read a method; raises `StrategyError` or `PeerError` if it cannot be made."""
        name, *parts = text.split(":")
        options: dict[str, Any] = {}
        for part in parts:
            option, equals, value = part.partition("=")
            if not equals:
                raise OptionError(f"the method '{text}' has the option '{part}' without a value.")
            number = parse_number(value)
            options[option] = value if number is None else number
        method = cls(text, name, options)
        if method.is_peer:
            searches.check_options(name, options)
        elif name not in strategy_names():
            raise OptionError(
                f"no method '{name}'; there are the strategies {', '.join(strategy_names())} and "
                f"the peers {', '.join(searches.NAMES)}."
            )
        else:
            make_strategy(name, **{k: v for k, v in options.items() if k not in STEERED})
            confirm = method.confirm
            if confirm is not None and (not isinstance(confirm, int) or confirm < 0):
                raise OptionError(f"the method '{text}' confirms with a number of runs from 0 on.")
        return method

    @property
    def confirm(self) -> int | None:
        """Last runs of a noisy sweep that are replicates; None is as auto-steering does."""
        runs: int | None = self.options.get("confirm")
        return runs

    @property
    def is_peer(self) -> bool:
        """Whether another program proposes; a strategy of ours goes before a peer of its name."""
        return self.name in searches.NAMES and self.name not in strategy_names()


class Chooser(Protocol):
    """Proposes and is told; `cpu_s` is what both have taken so far, in CPU seconds."""

    cpu_s: float

    def ask(self) -> int | None:
        """Return the index of the next combination, None when there is no more."""
        ...

    def tell(self, index: int, objective: float | None) -> None:
        """Give the result of a proposal, None if it failed."""
        ...


class OurChooser:
    """One of our strategies, with what it learns from; quality is the negative objective.

    Where results vary (``noisy_budget`` runs in all), the last ones repeat what would be
    recommended, and its rivals, by the rules of auto-steering.
    """

    def __init__(
        self,
        method: Method,
        problem: Problem,
        seed: int | Sequence[int],
        earlier: tuple[EarlierSweep, ...] = (),
        noisy_budget: int | None = None,
    ) -> None:
        exploitation = method.options.get("exploitation")
        options = {k: v for k, v in method.options.items() if k not in STEERED}
        strategy = make_strategy(method.name, **options)
        self._strategy = (
            strategy if exploitation is None else ExploitationStrategy(strategy, exploitation)
        )
        self._swept = method.name in SWEPT
        self._problem, self._rng = problem, np.random.default_rng(seed)
        self._earlier, self._noisy_budget, self._confirm = earlier, noisy_budget, method.confirm
        self._observations: list[Observation] = []
        self._failures: list[Failure] = []
        self._queue: list[Configuration] = []
        self._confirming = False
        self.cpu_s = 0.0

    def ask(self) -> int | None:
        """See `Chooser.ask`."""
        before_s = time.process_time()
        if not (self._confirming and self._queue):
            confirmations_due = self._confirmations()
            self._confirming = bool(confirmations_due)
            self._queue = confirmations_due or self._queue
        if not self._queue:
            knowledge = Knowledge(
                self._problem.space,
                tuple(self._observations),
                tuple(self._failures),
                earlier=self._earlier,
            )
            strategy, n = self._strategy, 1
            if self._swept:
                first = not knowledge.taken
                strategy = make_strategy("random") if first else strategy
                n = FIRST_RUNS if first else BATCH
            self._queue = [s.configuration for s in strategy.suggest(n, knowledge, self._rng)]
        self.cpu_s += time.process_time() - before_s
        return self._problem.index(self._queue.pop(0)) if self._queue else None

    def _confirmations(self) -> list[Configuration]:
        """Return the next round of replicates; none while runs are left to search with."""
        if self._noisy_budget is None:
            return []
        kept = kept_runs(self._noisy_budget) if self._confirm is None else self._confirm
        left = self._noisy_budget - len(self._observations) - len(self._failures)
        choice = choose(self._observations) if left <= kept else None
        if choice is None:
            return []
        repeats = confirmations(choice, confirming_round(left), self._problem.space)
        return [suggestion.configuration for suggestion in repeats]

    def tell(self, index: int, objective: float | None) -> None:
        """See `Chooser.tell`."""
        before_s = time.process_time()
        configuration = self._problem.configuration(index)
        if objective is None:
            self._failures.append(Failure(configuration, "not in the table"))
        else:
            self._observations.append(Observation(configuration, -objective))
        self.cpu_s += time.process_time() - before_s


class PeerChooser:
    """A peer. Numbers of three levels or more are ordinal, by rank; all else is categorical.

    A parameter with one level is not told of. Where only given rows can be run, a proposal of
    another combination runs the nearest row, and the peer takes the result for that of its own.
    """

    def __init__(
        self, method: Method, problem: Problem, seed: int, budget: int, python: str
    ) -> None:
        self._peer = searches.peer(method.name, python)
        self._problem = problem
        space = problem.space
        self._free = [i for i, p in enumerate(space.parameters) if p.n_levels > 1]
        self._ids_by_rank = [
            sorted(range(p.n_levels), key=p.ranks.__getitem__) for p in space.parameters
        ]
        parameters = [
            (
                "ordinal" if p.kind == "ordinal" and p.n_levels > 2 else "categorical",
                p.n_levels,
            )
            for p in (space.parameters[i] for i in self._free)
        ]
        start: dict[str, Any] = {"parameters": parameters, "seed": seed, "budget": budget}
        if space.rows:
            start["rows"] = [
                [space.parameters[i].ranks[row[i]] for i in self._free] for row in space.rows
            ]
        self.cpu_s = 0.0
        self._take({"start": start | {"options": dict(method.options)}})

    def ask(self) -> int | None:
        """See `Chooser.ask`."""
        levels = self._take({"ask": True})["levels"]
        if levels is None:
            return None
        ids = [0] * len(self._ids_by_rank)
        for i, rank in zip(self._free, levels, strict=True):
            ids[i] = self._ids_by_rank[i][rank]
        return self._problem.nearest(tuple(ids))

    def tell(self, index: int, objective: float | None) -> None:  # noqa: ARG002 - it knows what it asked
        """See `Chooser.tell`."""
        self._take({"tell": objective})

    def _take(self, question: dict[str, Any]) -> dict[str, Any]:
        answer = self._peer.ask(question)
        self.cpu_s += answer["cpu_s"]
        return answer


def play(
    problem: Problem,
    method: Method,
    seed: int,
    budget: int,
    *,
    python: str,
    to_optimum: bool,
    earlier: tuple[EarlierSweep, ...] = (),
) -> dict[str, Any]:
    """Play one episode and return its detail, ready for JSON.

    ``proposals`` are the indices of the runs in order, from which every figure follows;
    ``cpu_s`` is what asking and telling took, ``slowest_s`` the longest pair of them; ``by`` the
    program. With ``to_optimum`` the episode ends with the run that finds the optimum. Where every
    run draws its noise, ``recommended`` is the index of what `strategies.choose` recommends then.

    Raises `PeerError` if the peer ends.
    """
    chooser: Chooser
    if method.is_peer:
        chooser = PeerChooser(method, problem, seed, budget, python)
        by = searches.peer(method.name, python).version
    else:
        noisy_budget = budget if problem.run_noise else None
        chooser = OurChooser(method, problem, seed, earlier, noisy_budget)
        by = "copperline"
    best = problem.goal(0.0)
    noise_sd = problem.run_noise * (problem.goal(1.0) - best)
    noise_rng = np.random.default_rng([seed, 2])
    proposals: list[int] = []
    observations: list[Observation] = []
    slowest_s = 0.0
    while len(proposals) < budget:
        before_s = chooser.cpu_s
        index = chooser.ask()
        if index is None:
            break
        value = float(problem.objective[index])
        result = value + noise_sd * float(noise_rng.standard_normal())
        proposals.append(index)
        if not np.isnan(value):
            observations.append(Observation(problem.configuration(index), -result))
        chooser.tell(index, None if np.isnan(value) else result)
        slowest_s = max(slowest_s, chooser.cpu_s - before_s)
        if to_optimum and value <= best:
            break
    detail = {
        "proposals": " ".join(map(str, proposals)),
        "cpu_s": round(chooser.cpu_s, 4),
        "slowest_s": round(slowest_s, 4),
        "by": by,
    }
    choice = choose(observations) if problem.run_noise else None
    if choice is None:
        return detail
    return detail | {"recommended": problem.index(choice.winner.configuration)}

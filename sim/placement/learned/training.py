"""Training of a scheduler by policy gradient: REINFORCE over episodes in parallel processes.

An episode is a part of the workload: some jobs one after the other, from the first one's
submission to the last end. Every iteration draws parts, runs each several times with the present
policy, and climbs the policy gradient. The baseline of a decision is the mean, over the episodes of
its part, of the return that they still got from that time on. So luck with jobs, which is the same
in all of them, cancels (Mao et al., SIGCOMM 2019, call it an input-dependent baseline). Parts at
the end of the workload are held back: on them the policy is checked, and the best one is kept.

Everything follows from the seed, whatever the number of processes.
"""

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sim.engines.compiled import run_instances_interpreted
from sim.model.errors import ScenarioError
from sim.model.scenario import Scenario
from sim.placement.algorithms import FirstFit, simulate_algorithm
from sim.placement.learned.brain import LAYERS, Adam, Brain, Floats, Ints, policy_gradient, softmax
from sim.placement.learned.features import FEATURES
from sim.placement.learned.rewards import (
    FinishedJobs,
    RewardGiver,
    hindsight_bound,
    reward_giver_named,
)
from sim.placement.learned.scheduler import (
    CurvePoint,
    LearnedPlacement,
    TrainingRecord,
    brain_arrays,
    brain_of,
    read_arrays,
    write_arrays,
)
from sim.policies.orders import ORDERS, TASK_ORDERS

CHECKPOINT, VERSION = "copperline checkpoint of a training", 1
HELD_BACK = 0.2
HIDDEN = (32, 16)
LAST_RATE = 0.1
MOST_PAIRS = 20_000
"""Pairs that an episode keeps; of a longer one random decisions are kept, which bounds memory."""

IN_TURN, ANEW, FOR_TIES = "greedy", ("drf", "max_weight", "least_work"), ("fcfs", "upward_rank")
PLACEMENTS = ("first_fit", "best_fit")

MOST = {"iterations": 100_000, "jobs": 10_000, "parts": 1000, "episodes": 1000, "every": 100_000}


@dataclass(frozen=True)
class LearningPlan:
    """Settings of a training.

    Attributes:
        objective: name of the reward giver.
        features: name of the set of features.
        iterations: number of steps of the gradient.
        jobs: number of jobs of an episode.
        parts: number of parts of the workload in an iteration.
        episodes: number of episodes of each part, from 2.
        every: iterations between checks on the jobs that are held back.
        rate: size of the first steps; the last ones are a tenth of it.
        entropy_weight: weight of the entropy at first; it falls to 0.
        seed: seed of all random choices.
    """

    objective: str = "completion"
    features: str = "jobs"
    iterations: int = 100
    jobs: int = 10
    parts: int = 2
    episodes: int = 8
    every: int = 5
    rate: float = 0.01
    entropy_weight: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        reward_giver_named(self.objective)
        if self.features not in FEATURES:
            raise ScenarioError(
                f"features are '{self.features}'; allowed are {', '.join(FEATURES)}."
            )
        for name, most in MOST.items():
            least = 2 if name == "episodes" else 1
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ScenarioError(
                    f"{name} is {value!r}; allowed are whole numbers from {least} to {most:,}."
                )
        for name, least_number, most_number in (("rate", 1e-6, 1.0), ("entropy_weight", 0.0, 10.0)):
            value = getattr(self, name)
            if not least_number <= value <= most_number:
                raise ScenarioError(
                    f"{name} is {value!r}; allowed are numbers from {least_number:g} to "
                    f"{most_number:g}."
                )
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise ScenarioError(f"seed is {self.seed!r}; allowed are whole numbers from 0.")


@dataclass(frozen=True, eq=False)
class Episode:
    """One simulated part with the decisions of a policy.

    Attributes:
        features: float32 [n, n_features], of the pairs of all decisions.
        begins: int64 [n_decisions], the first pair of each decision.
        chosen: int64 [n_decisions], the chosen pair, a row of the features.
        time_s: float64 [n_decisions].
        jobs: times of the jobs.
    """

    features: NDArray[np.float32]
    begins: Ints
    chosen: Ints
    time_s: Floats
    jobs: FinishedJobs


class _Explorer(LearnedPlacement):
    """A scheduler that draws pairs by their probability and keeps what it decided."""

    def __init__(self, brain: Brain, record: TrainingRecord, rng: np.random.Generator) -> None:
        super().__init__(brain, record)
        self.rng = rng
        self.seen: list[NDArray[np.float32]] = []
        self.chosen: list[int] = []
        self.times: list[float] = []

    def select(self, scores: Floats, features: Floats, clock: float) -> int:
        """Return a pair drawn with the softmax of the scores."""
        if len(scores) == 1:
            return 0  # there is nothing to decide, and nothing to learn
        shares = np.cumsum(softmax(scores, np.zeros(1, dtype=np.int64)))
        pick = min(int(np.searchsorted(shares, self.rng.random(), "right")), len(shares) - 1)
        self.seen.append(features.astype(np.float32))
        self.chosen.append(pick)
        self.times.append(clock)
        return pick

    def episode(self, jobs: FinishedJobs) -> Episode:
        """Return the decisions of the simulation that has ended with these times of jobs."""
        order = self.rng.permutation(len(self.seen))
        n_pairs = np.cumsum([len(self.seen[i]) for i in order])
        kept = np.sort(order[n_pairs <= MOST_PAIRS]).tolist()
        seen = [self.seen[i] for i in kept]
        sizes = np.array([len(rows) for rows in seen], dtype=np.int64)
        begins = np.cumsum(sizes) - sizes
        empty = np.zeros((0, len(FEATURES[self.record.features])), dtype=np.float32)
        return Episode(
            np.concatenate([empty, *seen]), begins,
            begins + np.array([self.chosen[i] for i in kept], dtype=np.int64),
            np.array([self.times[i] for i in kept]), jobs,
        )  # fmt: skip


def part_of(scenario: Scenario, first: int, n_jobs: int) -> Scenario:
    """Return the scenario of some consecutive jobs of another one."""
    n = scenario.workload.n_jobs
    return replace(scenario, workload=scenario.workload.part(first, min(first + n_jobs, n)))


def objective_of(scenario: Scenario, algorithm: Any, giver: RewardGiver) -> float:
    """Return the objective of a simulation in which an algorithm object places the tasks."""
    return giver.objective(
        FinishedJobs.of(scenario, simulate_algorithm(scenario, algorithm).result)
    )


def heuristics() -> tuple[tuple[str, str, str], ...]:
    """Return the orders, rules of who is next, and placements that a training is compared with.

    These are every order of jobs and of tasks, and every rule that asks anew who is next (with two
    orders for ties), each with first fit and with best fit.
    """
    turns = [(order.name, IN_TURN) for order in (*ORDERS, *TASK_ORDERS)]
    turns += [(order, rule) for rule in ANEW for order in FOR_TIES]
    return tuple((*turn, placement) for turn in turns for placement in PLACEMENTS)


def heuristic_objective(
    scenario: Scenario, heuristic: tuple[str, str, str], giver: RewardGiver
) -> float:
    """Return the objective under a heuristic; infinite if it cannot place these jobs."""
    order, backfill, placement = heuristic
    try:
        result = run_instances_interpreted(
            replace(scenario, order=order, backfill=backfill, placement=placement)
        )
    except ScenarioError:
        return np.inf
    return giver.objective(FinishedJobs.of(scenario, result))


@dataclass(frozen=True, eq=False)
class _Task:
    """What a process is asked to do: an episode with a seed, or a check without one.

    A check is of a brain, of a heuristic, or of first fit.
    """

    first: int
    n_jobs: int
    brain: Brain | None
    record: TrainingRecord
    seed: tuple[int, ...] | None
    heuristic: tuple[str, str, str] | None = None


def _done(scenario: Scenario, task: _Task) -> Episode | float:
    part = part_of(scenario, task.first, task.n_jobs)
    if task.seed is not None and task.brain is not None:
        explorer = _Explorer(task.brain, task.record, np.random.default_rng(task.seed))
        result = simulate_algorithm(part, explorer).result
        return explorer.episode(FinishedJobs.of(part, result))
    giver = reward_giver_named(task.record.objective)
    if task.heuristic is not None:
        return heuristic_objective(part, task.heuristic, giver)
    algorithm = FirstFit() if task.brain is None else LearnedPlacement(task.brain, task.record)
    return objective_of(part, algorithm, giver)


_scenario_here: list[Scenario] = []


def _start_worker(scenario: Scenario) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    _scenario_here[:] = [scenario]


def _done_in_worker(task: _Task) -> Episode | float:
    return _done(_scenario_here[0], task)


@contextmanager
def _workers(scenario: Scenario, n: int) -> Iterator[Callable[[Sequence[_Task]], list[Any]]]:
    """Yield a function that does several things, in this process or in `n` others."""
    if n == 1:
        yield lambda tasks: [_done(scenario, task) for task in tasks]
        return
    pool: Executor = ProcessPoolExecutor(
        n, mp_context=get_context("spawn"), initializer=partial(_start_worker, scenario)
    )
    try:
        yield lambda tasks: list(pool.map(_done_in_worker, tasks))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What a training has come to, which a checkpoint keeps.

    Attributes:
        iteration: number of iterations that are done.
        brain, adam: the present network and the state of its optimiser.
        best: network of the best check so far.
        curve: checks so far.
    """

    iteration: int
    brain: Brain
    adam: Adam
    best: Brain
    curve: tuple[CurvePoint, ...]

    @classmethod
    def at_first(cls, plan: LearningPlan) -> Self:
        """Return the state before the first iteration."""
        rng = np.random.default_rng([plan.seed, 0])
        brain = Brain.untrained(len(FEATURES[plan.features]), HIDDEN, rng)
        return cls(0, brain, Adam.at_rest(brain.weights), brain, ())

    def save(self, path: Path, fingerprint: str) -> None:
        """Write the state to a file, whole or not at all."""
        arrays = {f"brain {k}": v for k, v in brain_arrays(self.brain).items()}
        arrays |= {f"best {k}": v for k, v in brain_arrays(self.best).items()}
        for name, several in (("mean", self.adam.mean), ("square", self.adam.square)):
            arrays |= {f"adam {name} {k}": v for k, v in zip(LAYERS, several, strict=True)}
        about = {
            "format": CHECKPOINT, "version": VERSION, "fingerprint": fingerprint,
            "iteration": self.iteration, "curve": [asdict(point) for point in self.curve],
        }  # fmt: skip
        write_arrays(path, about, arrays)

    @classmethod
    def load(cls, path: Path, fingerprint: str) -> Self:
        """Read a state. Raises ScenarioError for one of another training."""
        about, arrays = read_arrays(path, "a checkpoint", CHECKPOINT, VERSION)
        if about["fingerprint"] != fingerprint:
            raise ScenarioError(
                f"{path}: this checkpoint belongs to other jobs, machines or settings; repeat them "
                "to go on, or remove the file to begin anew."
            )
        parts = [
            {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}
            for head in ("brain ", "best ", "adam mean ", "adam square ")
        ]
        brain, best = brain_of(parts[0]), brain_of(parts[1])
        mean, square = (tuple(part[name] for name in LAYERS) for part in parts[2:])
        curve = tuple(CurvePoint(**point) for point in about["curve"])
        iteration = int(about["iteration"])
        return cls(iteration, brain, Adam(iteration, mean, square), best, curve)


@dataclass(frozen=True)
class LearningProgress:
    """Progress of a training after an iteration.

    Attributes:
        iteration, iterations: number of iterations done and in all.
        left_s: expected seconds until the end.
        last_check: latest check on the jobs that are held back.
    """

    iteration: int
    iterations: int
    left_s: float
    last_check: CurvePoint


def learn(
    scenario: Scenario,
    plan: LearningPlan,
    *,
    workers: int = 1,
    checkpoint: Path | None = None,
    progress: Callable[[LearningProgress], None] = lambda _: None,
) -> LearnedPlacement:
    """Train a scheduler on the jobs and machines of a scenario.

    Args:
        scenario: scenario with allocation ``instances``; its order is that of ready tasks with
            equal scores.
        plan: settings of the training.
        workers: number of processes in which episodes run; the result does not depend on it.
        checkpoint: file that keeps the state after every iteration; if it exists, the training goes
            on from it.
        progress: function called after every iteration.

    Raises:
        ScenarioError: too few jobs, jobs that cannot be simulated, or a checkpoint of another
            training.
    """
    run = _Training(scenario, plan)
    state = TrainingState.at_first(plan)
    if checkpoint is not None and checkpoint.exists():
        state = TrainingState.load(checkpoint, run.fingerprint)
    began, first = time.monotonic(), state.iteration
    with _workers(scenario, workers) as do:
        if not state.curve:
            state = run.checked(state, do, 0.0)
        while state.iteration < plan.iterations:
            state = run.stepped(state, do)
            if checkpoint is not None:
                state.save(checkpoint, run.fingerprint)
            spent = (time.monotonic() - began) / (state.iteration - first)
            left_s = spent * (plan.iterations - state.iteration)
            progress(LearningProgress(state.iteration, plan.iterations, left_s, state.curve[-1]))
        record = run.compared(do)
    return LearnedPlacement(state.best, replace(record, curve=state.curve))


class _Training:
    """The steps of a training: what does not change while it goes on."""

    def __init__(self, scenario: Scenario, plan: LearningPlan) -> None:
        workload = scenario.workload
        tasks = workload.tasks
        if tasks is None:
            raise ScenarioError(
                f"the jobs of {workload.name} have no tasks to place; use a workload with tasks."
            )
        n_parts = workload.n_jobs // plan.jobs
        if n_parts < 2:
            raise ScenarioError(
                f"{workload.name} has {workload.n_jobs} jobs, but an episode has {plan.jobs} and "
                "there must be two parts, one of them held back; use more jobs, or shorter "
                "episodes."
            )
        self.plan, self.giver = plan, reward_giver_named(plan.objective)
        n_held = max(1, round(HELD_BACK * n_parts))
        self.taught = (n_parts - n_held) * plan.jobs
        self.held = [self.taught + i * plan.jobs for i in range(n_held)]
        self.record = TrainingRecord(
            plan.objective, plan.features, max(float(tasks.runtime_s.mean()), 1e-3), plan.seed,
            {k: v for k, v in asdict(plan).items() if k not in ("objective", "features", "seed")},
            workload.name,
        )  # fmt: skip
        told = json.dumps([asdict(plan), scenario.digest], sort_keys=True)
        self.fingerprint = hashlib.sha256(told.encode()).hexdigest()
        self._scenario = scenario
        self._usual: list[float] | None = None

    def _task(self, first: int, brain: Brain | None, seed: tuple[int, ...] | None = None) -> _Task:
        return _Task(first, self.plan.jobs, brain, self.record, seed)

    def checked(
        self, state: TrainingState, do: Callable[[Sequence[_Task]], list[Any]], entropy: float
    ) -> TrainingState:
        """Return the state with a check on the parts that are held back."""
        found = do([self._task(first, state.brain) for first in self.held])
        ratio = self._ratio(found, do)
        point = CurvePoint(state.iteration, float(np.mean(found)), ratio, entropy)
        is_best = all(ratio < earlier.ratio for earlier in state.curve)
        return replace(
            state, curve=(*state.curve, point), best=state.brain if is_best else state.best
        )

    def _ratio(self, found: Sequence[float], do: Callable[[Sequence[_Task]], list[Any]]) -> float:
        """Return the mean of objectives of the held-back parts over those of first fit."""
        if self._usual is None:
            self._usual = do([self._task(first, None) for first in self.held])
        return float(np.mean([a / max(b, 1e-9) for a, b in zip(found, self._usual, strict=True)]))

    def compared(self, do: Callable[[Sequence[_Task]], list[Any]]) -> TrainingRecord:
        """Return the record with the best heuristic and the bound on the held-back parts."""
        rules, n = heuristics(), len(self.held)
        found = do([
            replace(self._task(first, None), heuristic=rule)
            for rule in rules for first in self.held
        ])  # fmt: skip
        ratios = [self._ratio(found[i * n : (i + 1) * n], do) for i in range(len(rules))]
        best = int(np.argmin(ratios))
        parts = [part_of(self._scenario, first, self.plan.jobs) for first in self.held]
        try:
            bounds = [hindsight_bound(part, self.plan.objective) for part in parts]
        except ScenarioError:  # units of work have no fixed times
            bounds = []
        return replace(
            self.record, best_rule=", ".join(rules[best]), best_rule_ratio=ratios[best],
            bound_ratio=self._ratio(bounds, do) if bounds else None,
        )  # fmt: skip

    def stepped(
        self, state: TrainingState, do: Callable[[Sequence[_Task]], list[Any]]
    ) -> TrainingState:
        """Return the state after an iteration."""
        plan, done = self.plan, state.iteration
        rng = np.random.default_rng([plan.seed, 1, done])
        firsts = rng.integers(0, self.taught - plan.jobs + 1, plan.parts).tolist()
        tasks = [
            self._task(first, state.brain, (plan.seed, 2, done, part, number))
            for part, first in enumerate(firsts)
            for number in range(plan.episodes)
        ]
        episodes: list[Episode] = do(tasks)
        brain = state.brain
        features = np.concatenate([one.features for one in episodes]).astype(np.float64)
        if len(features) == 0:
            raise ScenarioError(
                "there is nothing to decide: at no time could a task be placed in two ways; use "
                "more jobs at a time, or fewer machines."
            )
        if done == 0:
            brain = brain.standardised_by(features)
        share = done / max(plan.iterations - 1, 1)
        gradient, entropy = policy_gradient(
            brain, features, *joined(episodes),
            np.concatenate([
                _advantages(self.giver, episodes[i : i + plan.episodes])
                for i in range(0, len(episodes), plan.episodes)
            ]),
            plan.entropy_weight * (1.0 - share),
        )  # fmt: skip
        rate = plan.rate * (1.0 - (1.0 - LAST_RATE) * share)
        adam, brain = state.adam.climbed(brain, gradient, rate)
        state = replace(state, iteration=done + 1, brain=brain, adam=adam)
        if state.iteration % plan.every == 0 or state.iteration == plan.iterations:
            state = self.checked(state, do, entropy)
        return state


def joined(episodes: Sequence[Episode]) -> tuple[Ints, Ints]:
    """Return `begins` and `chosen` of episodes one after the other."""
    sizes = np.array([len(one.features) for one in episodes])
    offsets = np.cumsum(sizes) - sizes
    pairs = list(zip(episodes, offsets, strict=True))
    return (
        np.concatenate([one.begins + at for one, at in pairs]),
        np.concatenate([one.chosen + at for one, at in pairs]),
    )


def _advantages(giver: RewardGiver, episodes: Sequence[Episode]) -> Floats:
    """Return how much better each decision of a part's episodes went: float64 [n_decisions].

    The return to go minus the mean of all episodes from that time on, over the standard deviation.
    """
    found = []
    for one in episodes:
        mean = np.mean([giver.returns(other.jobs, one.time_s) for other in episodes], axis=0)
        found.append(giver.returns(one.jobs, one.time_s) - mean)
    every = np.concatenate(found)
    deviation = float(every.std()) if len(every) else 0.0
    scaled: Floats = every / deviation if deviation > 1e-12 else every * 0.0
    return scaled

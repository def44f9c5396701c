"""Trained schedulers: features, gradients, rewards, bounds, training and files."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import ScenarioError, Tasks, UnknownNameError, known_names
from sim.placement import (
    FEATURES,
    REWARD_GIVERS,
    FinishedJobs,
    FirstFit,
    LearnedPlacement,
    LearningPlan,
    LearningProgress,
    LiveCluster,
    LiveMachine,
    LiveTask,
    hindsight_bound,
    learn,
    objective_of,
    part_of,
    reward_giver_named,
    simulate_algorithm,
    simulate_learned,
)
from sim.placement.learned import training
from sim.placement.learned.brain import Adam, Brain, policy_gradient, softmax
from sim.placement.learned.scheduler import TrainingRecord
from tests.draw.instances import scenario_of_instances
from tests.sim.test_objects import as_columns, drawn_jobs, scenario

SCALE_S = 7.0


def random_brain(kind: str, seed: int = 0) -> Brain:
    """A brain whose scores differ: nothing is near zero."""
    rng = np.random.default_rng(seed)
    brain = Brain.untrained(len(FEATURES[kind]), (5, 4), rng)
    weights = tuple(rng.normal(0.0, 0.7, array.shape) for array in brain.weights)
    return replace(brain, weights=weights, mean=rng.normal(0.0, 0.1, len(brain.mean)))


def scheduler(kind: str, seed: int = 0) -> LearnedPlacement:
    return LearnedPlacement(random_brain(kind, seed), TrainingRecord("makespan", kind, SCALE_S, 0))


class Naive:
    """The same decision over all pairs, each with features read one by one."""

    def __init__(self, brain: Brain, kind: str) -> None:
        self.brain, self.kind = brain, kind

    def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
        pairs = [
            (machine, task)
            for task in cluster.ready_tasks
            for machine in cluster.machines
            if machine.accommodate(task)
        ]
        if not pairs:
            return None, None
        rows = [self.features(cluster, machine, task, clock) for machine, task in pairs]
        scores = self.brain.scores(np.array(rows))
        return pairs[int(np.flatnonzero(scores >= scores.max() - 1e-9)[0])]

    def features(
        self, cluster: LiveCluster, machine: LiveMachine, task: LiveTask, clock: float
    ) -> list[float]:
        def log(time_s: float) -> float:
            return math.log1p(time_s / SCALE_S)

        most = [max((m.capacity[r] for m in cluster.machines
                     if m.capacity[r] < 2**62), default=0) for r in range(4)]  # fmt: skip
        free = [min(f / m, 1.0) if m else 0.0 for f, m in zip(machine.free, most, strict=True)]
        asked = [a / m if m else 0.0 for a, m in zip(task.takes, most, strict=True)]
        counts = (task.n_waiting, task.n_instances, task.n_running, task.n_finished)
        pair = [*free, *asked, log(machine.seconds_for(task)), *map(math.log1p, counts)]
        graph = [
            log(longest(task)), math.log1p(depth(task)), math.log1p(len(task.children)),
            math.log1p(len(behind(task))),
        ]  # fmt: skip
        left = sum(
            (t.n_instances - t.n_finished) * t.runtime_s
            * max(a / m if m else 0.0 for a, m in zip(t.takes, most, strict=True))
            for t in task.job.tasks
        )  # fmt: skip
        job = [
            log(left), log(max(map(longest, task.job.tasks))),
            math.log1p(sum(t.n_running for t in task.job.tasks)), log(clock - task.job.submit_s),
            sum(f * a for f, a in zip(free, asked, strict=True)),
        ]  # fmt: skip
        return (pair + graph + job)[: len(FEATURES[self.kind])]


def longest(task: LiveTask) -> float:
    return task.runtime_s + max(map(longest, task.children), default=0.0)


def depth(task: LiveTask) -> int:
    return max((1 + depth(parent) for parent in task.parents), default=0)


def behind(task: LiveTask) -> set[int]:
    return {c.number for c in task.children}.union(*map(behind, task.children))


@pytest.mark.soak
@pytest.mark.parametrize("kind", FEATURES)
def test_machine_code_decides_as_python(kind: str) -> None:
    """With units, throttles, gangs, GPUs, labels and parents; stuck where Python is stuck."""
    n_ran = 0
    for seed in range(40, 55):
        drawn = scenario_of_instances(seed)
        one = replace(drawn, options=dict(drawn.options) | {"all_or_nothing": 0})
        outcomes = []
        for compiled in (False, True):
            try:
                outcomes.append(simulate_learned(one, scheduler(kind, seed), compiled=compiled))
            except ScenarioError:
                outcomes.append(None)
        python, machine_code = outcomes
        assert (python is None) == (machine_code is None), seed
        if python is None or machine_code is None:
            continue
        n_ran += 1
        assert machine_code.engine == "compiled"
        assert python.scenario_digest == machine_code.scenario_digest
        for name in ("machine", "device", "start_s", "end_s"):
            mine, theirs = (getattr(r.instances, name) for r in (machine_code, python))
            assert np.array_equal(mine, theirs, equal_nan=True), (seed, name)
    assert n_ran > 5


def test_a_result_names_the_scheduler_that_placed() -> None:
    one = scenario_of_instances(40)
    one = replace(one, options=dict(one.options) | {"all_or_nothing": 0})
    digests = [
        simulate_learned(one, scheduler("jobs", seed), compiled=False).scenario_digest
        for seed in (1, 1, 2)
    ]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["graph", "jobs"])
def test_machine_code_sees_deep_graphs_as_python(kind: str) -> None:
    """Ten jobs of six tasks for one core: nothing but the scores decides their order."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        parents = [
            [6 * job + p for p in range(i) if rng.random() < 0.5]
            for job in range(10) for i in range(6)
        ]  # fmt: skip
        tasks = Tasks.from_arrays(
            job=np.repeat(np.arange(10), 6), runtime_s=rng.integers(1, 9, 60).astype(float),
            mcpu=[1000] * 60, parents=parents,
        )  # fmt: skip
        one = scenario(tasks, MachineSpec("m", 1))
        python, machine_code = (
            simulate_learned(one, scheduler(kind, seed), compiled=c) for c in (False, True)
        )
        assert as_columns(python) == as_columns(machine_code), seed


@pytest.mark.soak
def test_equal_machines_are_filled_in_turn_in_machine_code_too() -> None:
    """Ties, machines that stop being equal, and several of each job in one decision."""
    tasks = Tasks.from_arrays(
        job=[0] * 3 + [1] * 3, runtime_s=[5.0, 5.0, 2.0] * 2, mcpu=[1000, 2000, 1000] * 2,
        instances=[4, 1, 3] * 2,
    )  # fmt: skip
    one = scenario(tasks, MachineSpec("m", 3, count=3), submit_s=[0.0, 1.0])
    for seed in range(8):
        placed = [simulate_learned(one, scheduler("jobs", seed), compiled=c) for c in (False, True)]
        assert as_columns(placed[0]) == as_columns(placed[1]), seed


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("first_seed", [0, 20])
def test_it_decides_as_one_who_reads_every_pair(kind: str, first_seed: int) -> None:
    """With units, throttles, gangs, GPUs, labels and parents; stuck where first fit is."""
    n_ran = 0
    for seed in range(first_seed, first_seed + 20):
        drawn = scenario_of_instances(seed)
        one = replace(drawn, options=dict(drawn.options) | {"all_or_nothing": 0})
        mine = scheduler(kind, seed)
        try:
            wanted = simulate_algorithm(one, Naive(mine.brain, kind)).result
        except ScenarioError:
            with pytest.raises(ScenarioError, match="never placed"):
                simulate_algorithm(one, mine)
            continue
        found = as_columns(simulate_algorithm(one, mine).result)
        for mine_column, column in zip(found, as_columns(wanted), strict=True):
            assert np.array_equal(mine_column, column, equal_nan=True), seed
        n_ran += 1
    assert n_ran >= 10


@pytest.mark.parametrize("seed", range(4))
def test_schedules_keep_capacity_and_dependencies(seed: int) -> None:
    one = drawn_jobs(seed)
    tasks = one.workload.tasks
    found = simulate_algorithm(one, scheduler("jobs", seed)).result.instances
    assert tasks is not None
    assert found is not None
    task_of = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
    for machine, cores in enumerate((2, 2, 4)):
        here = found.machine == machine
        for now in found.start_s[here]:
            at = here & (found.start_s <= now) & (found.end_s > now)
            assert tasks.mcpu[task_of[at]].sum() <= cores * 1000
    for task in range(tasks.n_tasks):
        for parent in tasks.parent_task[tasks.first_parent[task] : tasks.first_parent[task + 1]]:
            assert found.start_s[task_of == task].min() >= found.end_s[task_of == parent].max()


def test_gradients_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(3)
    brain = random_brain("pairs")
    begins = np.array([0, 3, 4, 9])
    features, chosen = rng.normal(0.0, 1.0, (12, len(brain.mean))), np.array([1, 3, 4, 11])
    advantage, entropy_weight = np.array([0.5, -1.0, 2.0, 1.0]), 0.3

    def climbed(weights: tuple[Any, ...]) -> float:
        shares = softmax(replace(brain, weights=weights).scores(features), begins)
        entropy = -np.add.reduceat(shares * np.log(shares), begins)
        return float((advantage * np.log(shares[chosen]) + entropy_weight * entropy).mean())

    gradient, entropy = policy_gradient(brain, features, begins, chosen, advantage, entropy_weight)
    assert 0 < entropy < math.log(5)
    for which, array in enumerate(brain.weights):
        for at in itertools.islice(np.ndindex(array.shape), 0, None, 3):
            sides = []
            for sign in (1.0, -1.0):
                moved = [one.copy() for one in brain.weights]
                moved[which][at] += sign * 1e-6
                sides.append(climbed(tuple(moved)))
            assert gradient[which][at] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-7)


def test_adam_climbs_and_cuts_long_gradients() -> None:
    brain = random_brain("pairs")
    far = tuple(np.full_like(array, 1e6) for array in brain.weights)
    state, moved = Adam.at_rest(brain.weights).climbed(brain, far, rate=0.1)
    assert state.step == 1
    for before, after in zip(brain.weights, moved.weights, strict=True):
        assert np.allclose(after - before, 0.1, rtol=1e-3), "the first step of Adam is the rate"
    assert math.sqrt(sum((10 * array**2).sum() * 10 for array in state.mean)) == pytest.approx(1.0)


JOBS = FinishedJobs(
    submit_s=np.array([0.0, 2.0, 5.0]),
    end_s=np.array([4.0, 12.0, 6.0]),
    path_s=np.array([2.0, 10.0, 0.0]),
)


@pytest.mark.parametrize(
    ("name", "objective", "after_4_s"),
    [
        ("makespan", 12.0, 8.0),
        ("completion", (4 + 10 + 1) / 3, (0 + 8 + 1) / 3),
        ("slowdown", (4 / 2 + 10 / 10) / 2, (0 + 8 / 10) / 2),
    ],
)
def test_rewards_by_hand(name: str, objective: float, after_4_s: float) -> None:
    giver = reward_giver_named(name)
    assert giver.objective(JOBS) == pytest.approx(objective)
    returns = giver.returns(JOBS, np.array([0.0, 4.0, 12.0, 99.0]))
    assert returns == pytest.approx([-objective, -after_4_s, 0.0, 0.0])


def test_rewards_without_a_job_are_zero() -> None:
    none = FinishedJobs(*(np.zeros(0) for _ in range(3)))
    assert [giver.objective(none) for giver in REWARD_GIVERS] == [0.0, 0.0, 0.0]


def test_a_long_episode_keeps_some_of_its_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    one, brain = drawn_jobs(3), random_brain("pairs")
    found = []
    for most in (10**6, 100):
        monkeypatch.setattr(training, "MOST_PAIRS", most)
        explorer = training._Explorer(brain, scheduler("pairs").record, np.random.default_rng(0))
        result = simulate_algorithm(one, explorer).result
        found.append(explorer.episode(FinishedJobs.of(one, result)))
    whole, part = found
    assert 50 < len(part.features) <= 100 < len(whole.features)
    sizes = np.diff(np.append(part.begins, len(part.features)))
    assert (sizes > 1).all()
    assert ((part.chosen - part.begins < sizes) & (part.chosen >= part.begins)).all()
    rows = {row.tobytes() for row in whole.features[whole.chosen]}
    assert {row.tobytes() for row in part.features[part.chosen]} <= rows


def test_an_unknown_objective_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="makespan"):
        reward_giver_named("makspan")


@pytest.mark.parametrize("seed", range(5))
def test_no_schedule_is_below_the_bound(seed: int) -> None:
    one = drawn_jobs(seed)
    for order in ("fcfs", "sjf", "upward_rank"):
        for placement in known_names()["placement"][:4]:
            told = replace(one, order=order, placement=placement)
            jobs = FinishedJobs.of(told, simulate(told, engine="interpreted"))
            for giver in REWARD_GIVERS:
                assert hindsight_bound(one, giver.name) <= giver.objective(jobs) + 1e-9
    assert hindsight_bound(one, "slowdown") == pytest.approx(1.0)


def test_bounds_that_are_reached() -> None:
    """One core, two jobs: 10 s of work first, 2 s come after 1 s and would go first if they could.

    Shortest remaining first ends the second after 3 s and the first after 12 s.
    """
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 2], mcpu=[1000, 1000])
    one = scenario(tasks, MachineSpec("a", 1), submit_s=[0, 1])
    assert hindsight_bound(one, "makespan") == 12.0
    assert hindsight_bound(one, "completion") == (12 + 2) / 2


def batches(n_batches: int = 6) -> Scenario:
    """Batches of a long job and two short ones, the long one first in the queue, on one core."""
    runtime_s = np.tile([50.0, 5.0, 5.0], n_batches)
    job = np.arange(len(runtime_s))
    tasks = Tasks.from_arrays(job=job, runtime_s=runtime_s, mcpu=[1000] * len(job))
    return scenario(tasks, MachineSpec("a", 1), submit_s=np.repeat(np.arange(n_batches) * 1e3, 3))


PLAN = LearningPlan(
    objective="completion", features="pairs", iterations=6, jobs=3, parts=1, episodes=6, every=2,
    rate=0.3, seed=5,
)  # fmt: skip


def test_training_learns_that_short_jobs_go_first() -> None:
    trained = learn(batches(), PLAN)
    curve = trained.record.curve
    assert [point.iteration for point in curve] == [0, 2, 4, 6]
    assert curve[-1].ratio == pytest.approx((5 + 10 + 60) / (50 + 55 + 60))
    assert curve[-1].objective == pytest.approx(25.0)
    one = part_of(batches(), 3, 3)
    assert objective_of(one, trained, reward_giver_named("completion")) == 25.0
    assert objective_of(one, FirstFit(), reward_giver_named("completion")) == 55.0


def test_the_best_policy_is_kept_and_not_the_last() -> None:
    one = drawn_jobs(3, n_jobs=24)
    plan = replace(PLAN, features="jobs", iterations=4, jobs=8, every=1, rate=1.0, seed=2)
    trained = learn(one, plan)
    curve = trained.record.curve
    best = min(curve, key=lambda point: point.ratio)
    assert curve[-1].ratio > best.ratio
    held = part_of(one, 16, 8)
    assert objective_of(held, trained, reward_giver_named("completion")) == best.objective


def test_an_interrupted_training_goes_on_to_the_same_end(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    seen: list[LearningProgress] = []

    def interrupt(progress: LearningProgress) -> None:
        seen.append(progress)
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(batches(), PLAN, checkpoint=path, progress=interrupt)
    went_on = learn(batches(), PLAN, checkpoint=path, progress=seen.append)
    assert [progress.iteration for progress in seen] == list(range(1, 7))
    assert seen[-1].left_s == 0.0
    whole = learn(batches(), PLAN)
    assert went_on.digest == whole.digest != learn(batches(), replace(PLAN, seed=6)).digest
    assert went_on.record == whole.record
    with pytest.raises(ScenarioError, match="belongs to other jobs, machines or settings"):
        learn(batches(), replace(PLAN, seed=6), checkpoint=path)


@pytest.mark.soak
def test_the_number_of_processes_does_not_matter() -> None:
    plan = replace(PLAN, iterations=2)
    assert learn(batches(), plan, workers=2).digest == learn(batches(), plan).digest


def test_a_file_keeps_the_scheduler(tmp_path: Path) -> None:
    trained = learn(batches(), replace(PLAN, iterations=2))
    trained.save(tmp_path / "a.npz")
    found = LearnedPlacement.load(tmp_path / "a.npz")
    assert found.digest == trained.digest
    assert found.record == trained.record
    one = drawn_jobs(1)
    assert as_columns(simulate_algorithm(one, found).result) == as_columns(
        simulate_algorithm(one, trained).result
    )
    with pytest.raises(ScenarioError, match=r"must end in \.npz"):
        trained.save(tmp_path / "a.json")


def test_files_that_are_no_scheduler(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there is no file"):
        LearnedPlacement.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    for name in ("text", "other", "array"):
        with pytest.raises(ScenarioError, match="this is not a trained scheduler"):
            LearnedPlacement.load(tmp_path / f"{name}.npz")
    good = scheduler("jobs")
    good.save(tmp_path / "good.npz")
    kept = dict(np.load(tmp_path / "good.npz"))
    for change, sentence in (
        ({"about": np.array(str(kept["about"]).replace('"version": 1', '"version": 9'))}, "9"),
        ({"about": np.array(str(kept["about"]).replace('"jobs"', '"pairs"'))}, "22 inputs"),
        ({"about": np.array(str(kept["about"]).replace('"jobs"', '"other"'))}, "damaged"),
        ({"out": np.zeros(3)}, "damaged"),
        ({"direct": np.full(22, np.nan)}, "damaged"),
    ):
        np.savez(tmp_path / "bad.npz", **(kept | change))  # type: ignore[arg-type]
        with pytest.raises(ScenarioError, match=sentence):
            LearnedPlacement.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"objective": "speed"}, "makespan"),
        ({"features": "all"}, "allowed are pairs, graph, jobs"),
        ({"episodes": 1}, "episodes is 1; allowed are whole numbers from 2"),
        ({"iterations": 0}, "iterations is 0"),
        ({"jobs": 2.5}, "jobs is 2.5"),
        ({"rate": 0.0}, "rate is 0.0; allowed are numbers from 1e-06"),
        ({"entropy_weight": math.nan}, "entropy_weight is nan"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_plans_that_are_refused(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ScenarioError, UnknownNameError), match=sentence):
        LearningPlan(**told)


def test_jobs_that_cannot_teach() -> None:
    with pytest.raises(ScenarioError, match="there must be two parts"):
        learn(batches(1), PLAN)
    tasks = Tasks.from_arrays(job=range(9), runtime_s=[1] * 9, mcpu=[1000] * 9)
    alone = scenario(tasks, MachineSpec("a", 1), submit_s=np.arange(9) * 10.0)
    with pytest.raises(ScenarioError, match="there is nothing to decide"):
        learn(alone, PLAN)
    rigid = Workload.from_arrays(submit_s=[0.0, 1.0], runtime_s=[1.0, 1.0], procs=[1, 1])
    cluster = ClusterSpec.of([Partition.of_machines("main", [MachineSpec("a", 1)])])
    with pytest.raises(ScenarioError, match="have no tasks to place"):
        learn(Scenario(rigid, cluster), PLAN)

"""The event loop of the platform simulation, on SimPy.

A pipeline is one process. For speed, writing a result and reading the next input are one timeout
(no other process can notice the difference), a free resource is taken without an event, times,
bytes and metrics are drawn in blocks, and trace rows are tuples that become columns twenty
thousand at a time.
"""

import math
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from sim.aiops.fleet import DeployedModel, Retraining, data_gain, draw_fleet, triggered_rule
from sim.aiops.platform import (
    METRICS,
    TASKS,
    Join,
    MetricGate,
    PipelineGraph,
    PipelineTask,
    ResourceRequest,
    discipline_named,
    line_of,
)
from sim.aiops.platform_statistics import arrival_blocks
from sim.aiops.summary import write_metadata
from sim.aiops.synthesis import (
    COMPRESS,
    DEPLOY,
    HARDEN,
    MONITOR,
    TRAIN,
    PipelineSubmission,
    Plans,
    PlatformScenario,
    Synthesiser,
    delays_s,
)
from sim.aiops.trace import FLUSH_ROWS, Collector, PipelineRow, PlatformResult
from sim.generators.generator import RandomStreams

Steps = Generator[simpy.Event, Any, None]

NEW_MODEL = 0.05
"""Assumed potential of a pipeline that builds a new model, compared with deployed models."""

_KINDS = {kind: place for place, kind in enumerate(TASKS)}


def run_platform(
    scenario: PlatformScenario,
    folder: Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> PlatformResult:
    """Simulate a machine-learning platform and return its trace and statistics.

    Args:
        scenario: complete description of the simulation; the result depends on nothing else.
        folder: folder for the trace in Parquet files (`pipelines`, `tasks`, `models`) and its
            metadata; None keeps the trace in memory.
        progress: called with the simulated seconds from time to time.

    Raises:
        SetupError: distributions that the profile needs are missing, or the folder cannot be
            written.
    """
    result = _PlatformSimulation(scenario, folder, progress).run()
    if folder is not None:
        write_metadata(folder, scenario, result)
    return result


class _Pool:
    __slots__ = ("free", "place", "queue")

    def __init__(self, place: int, capacity: int, discipline: str) -> None:
        self.place, self.free, self.queue = place, capacity, discipline_named(discipline)

    def release(self, now_s: float, user: int, seconds: float) -> None:
        queue = self.queue
        queue.served(user, seconds)
        if len(queue):
            queue.pop(now_s).ticket.succeed()
        else:
            self.free += 1


class _Pipeline:
    """A running pipeline: a row of its plans and the current state of its model."""

    __slots__ = (
        "compressed", "framework", "hardened", "metrics", "model", "number", "outcome",
        "planned", "potential", "priority", "read_bytes", "read_s", "renewal", "seconds", "user",
        "version", "waited_s", "weight", "write_bytes", "write_s",
    )  # fmt: skip

    def __init__(self, number: int, plan_row: tuple[Any, ...]) -> None:
        self.number = self.model = number
        self.version = 1
        (
            self.user, self.framework, self.priority, self.seconds, self.read_s, self.write_s,
            self.read_bytes, self.write_bytes, self.planned, self.compressed, self.hardened,
        ) = plan_row  # fmt: skip
        self.metrics: list[float] | None = None
        self.waited_s = 0.0
        self.outcome = 1
        self.potential: Callable[[float], float] = _new_model
        self.weight = 1.0
        self.renewal: Retraining | None = None


def _new_model(now_s: float) -> float:  # noqa: ARG001 - constant over time
    return NEW_MODEL


class _PlatformSimulation:
    def __init__(
        self,
        scenario: PlatformScenario,
        folder: Path | None,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.scenario, self.progress = scenario, progress
        self.env = simpy.Environment()
        self.streams = RandomStreams(scenario.seed)
        platform = scenario.platform
        self.pools = {
            resource.name: _Pool(place, resource.capacity, resource.discipline)
            for place, resource in enumerate(platform.resources)
        }
        pipeline_streams = self.streams.inside("pipelines")
        self.synthesiser = Synthesiser(scenario.statistics, scenario.recipe, pipeline_streams)
        self.places = [
            [self.pools[platform.place_of(kind, name)] for kind in TASKS]
            for name in self.synthesiser.frameworks
        ]
        self.collector = Collector(scenario, self.synthesiser, folder)
        self.rows = self.collector.trace.tasks
        self.number = 0
        self.deployed: list[DeployedModel] = []

    def run(self) -> PlatformResult:
        scenario, env = self.scenario, self.env
        try:
            self._deploy_fleet()
            if scenario.profile != "none":
                env.process(self._arrivals())
            for submission in scenario.submissions:
                env.process(self._submission(submission))
            env.run(None if scenario.drain else scenario.duration_s)
        finally:
            self.collector.close()
        return self.collector.result(self.deployed, env.now)

    # Arrivals

    def _arrivals(self) -> Steps:
        scenario, env = self.scenario, self.env
        blocks = arrival_blocks(
            scenario.statistics.arrivals,
            self.streams.inside("arrivals"),
            profile=scenario.profile,
            factor=scenario.interarrival_factor,
            start_s=scenario.start_s,
            until_s=scenario.duration_s,
        )
        graphs = self.synthesiser.graphs
        for times in blocks:
            plans = self.synthesiser.plan(self.number, times)
            self.number += len(plans)
            self.collector.planned(plans)
            number = plans.first
            at = zip(times.tolist(), plans.graph.tolist(), _rows(scenario, plans), strict=True)
            for time, graph, plan_row in at:
                yield env.timeout(time - env.now)
                env.process(self._pipeline(_Pipeline(number, plan_row), graphs[graph]))
                number += 1
            if self.progress is not None:
                self.progress(env.now)

    def _submission(self, submission: PipelineSubmission) -> Steps:
        yield self.env.timeout(submission.at_s)
        plans = self.synthesiser.plan(self.number, np.array([self.env.now]))
        self.number += 1
        plans.user[0] = submission.user
        self.collector.planned(plans, "submission")
        plan_row = next(_rows(self.scenario, plans))
        yield from self._pipeline(_Pipeline(plans.first, plan_row), submission.graph)

    # Tasks of a pipeline

    def _pipeline(self, pipeline: _Pipeline, graph: PipelineGraph) -> Steps:
        if graph.line is None:
            yield from self._branches(pipeline, graph)
        else:
            owed = 0.0
            for node in graph.line:
                if isinstance(node, PipelineTask):
                    owed = yield from self._task(pipeline, node, owed)
                elif not self._passes(pipeline, node):
                    break
            if owed:
                yield self.env.timeout(owed)
        self._finished(pipeline)

    def _branches(self, pipeline: _Pipeline, graph: PipelineGraph) -> Steps:
        if graph.parallel:
            yield from self._branch(pipeline, graph, graph.start, {})
            return
        walk = graph.walk()
        step: tuple[str, PipelineTask | MetricGate | Join] | None = next(walk)
        while step is not None:
            emitted = yield from self._node(pipeline, step[1])
            try:
                step = walk.send(emitted)
            except StopIteration:
                step = None

    def _branch(
        self, pipeline: _Pipeline, graph: PipelineGraph, name: str, taken: dict[str, int]
    ) -> Steps:
        emitted = yield from self._node(pipeline, graph.nodes[name])
        following = []
        for target in graph.targets(name, emitted):
            taken[target] = taken.get(target, 0) + 1
            is_join = isinstance(graph.nodes[target], Join)
            if not is_join or taken[target] == graph.ways_in(target):
                following.append(target)
        branches = [
            self.env.process(self._branch(pipeline, graph, target, taken)) for target in following
        ]
        if branches:
            yield self.env.all_of(branches)

    def _node(
        self, pipeline: _Pipeline, node: PipelineTask | MetricGate | Join
    ) -> Generator[simpy.Event, Any, str]:
        if isinstance(node, MetricGate):
            return "pass" if self._passes(pipeline, node) else "fail"
        if isinstance(node, PipelineTask):
            owed = yield from self._task(pipeline, node, 0.0)
            if owed:
                yield self.env.timeout(owed)
        return "done"

    def _task(
        self, pipeline: _Pipeline, task: PipelineTask, owed: float
    ) -> Generator[simpy.Event, Any, float]:
        """Read, wait, execute and release; return the seconds that writing will take.

        The task first waits for `owed` seconds, in which the task before it writes.
        """
        env, kind = self.env, _KINDS[task.kind]
        yield env.timeout(owed + pipeline.read_s[kind])
        pool, work = self.places[pipeline.framework][kind], pipeline.seconds[kind] * task.share
        queued = started = env.now
        if pool.free:
            pool.free -= 1
        else:
            ticket = env.event()
            pool.queue.push(
                ResourceRequest(
                    queued, pipeline.user, pipeline.priority, work, pipeline.potential,
                    pipeline.weight, ticket,
                )
            )  # fmt: skip
            yield ticket
            started = env.now
            pipeline.waited_s += started - queued
        yield env.timeout(work)
        ended = env.now
        pool.release(ended, pipeline.user, work)
        rows = self.rows
        rows.append(
            (
                pipeline.number, kind, pool.place, queued, started, ended,
                pipeline.read_bytes[kind], pipeline.write_bytes[kind],
            )
        )  # fmt: skip
        if len(rows) >= FLUSH_ROWS:
            self.collector.flush()
        if kind == TRAIN:
            pipeline.metrics = pipeline.planned
        elif kind == COMPRESS:
            _change(pipeline, pipeline.compressed)
        elif kind == HARDEN:
            _change(pipeline, pipeline.hardened)
        elif kind == DEPLOY:
            pipeline.outcome = 0
        written: float = pipeline.write_s[kind]
        return written

    def _passes(self, pipeline: _Pipeline, gate: MetricGate) -> bool:
        metrics = dict(zip(METRICS, pipeline.metrics or (0.0, 0.0, 0.0, 0.0), strict=True))
        passes = gate.passes(metrics)
        renewal = pipeline.renewal
        if passes and renewal is not None and self.scenario.fleet.keeps:
            passes = metrics["performance"] >= renewal.deployed.performance(self.env.now)
        if not passes:
            pipeline.outcome = 2
        return passes

    def _finished(self, pipeline: _Pipeline) -> None:
        metrics = pipeline.metrics or (math.nan,) * 4
        self.collector.trace.models.append(
            (
                pipeline.number, pipeline.model, pipeline.version, self.env.now,
                pipeline.waited_s, pipeline.outcome, *metrics,
            )
        )  # fmt: skip

    # Deployed models

    def _deploy_fleet(self) -> None:
        scenario, plan = self.scenario, self.scenario.fleet
        if not plan.n_models:
            return
        fleet = draw_fleet(plan, scenario.duration_s, self.streams.inside("fleet"))
        maker = Synthesiser(
            scenario.statistics, scenario.recipe, self.streams.inside("fleet pipelines")
        )
        plans = maker.plan(0, np.zeros(len(fleet)))
        plans.seconds[:, TRAIN] *= plan.work
        self.number = len(fleet)
        self.collector.planned(plans, "deployed before")
        gate = scenario.recipe.gate or MetricGate()
        graph = line_of(
            PipelineTask("preprocess"), PipelineTask("train"), PipelineTask("evaluate"), gate,
            PipelineTask("deploy"), PipelineTask("monitor"),
        )  # fmt: skip
        rows = _rows(scenario, plans)
        for model, (watched, plan_row) in enumerate(zip(fleet, rows, strict=True)):
            deployed = DeployedModel(
                model, watched, plan, float(plans.metrics[model, 0]), plans.sizes[model]
            )
            self.deployed.append(deployed)
            self.env.process(self._watch(deployed, plan_row, graph, plans))

    def _watch(
        self,
        deployed: DeployedModel,
        plan_row: tuple[Any, ...],
        graph: PipelineGraph,
        plans: Plans,
    ) -> Steps:
        env, plan = self.env, self.scenario.fleet
        detectors = plan.detectors
        rng = self.streams.inside("fleet").of(f"life of {deployed.model}")
        yield env.timeout(deployed.watched.check_s)
        while True:
            yield from self._check(deployed, plan_row)
            deployed.report(env.now, float(rng.standard_normal()))
            rule = triggered_rule(plan.triggers, deployed.condition(env.now))
            if rule is not None and not deployed.renewing:
                deployed.renewing = True
                noise = rng.standard_normal(2)
                env.process(self._renew(deployed, plan_row, graph, rule, noise, plans))
            yield env.timeout(detectors.every_s)

    def _check(self, deployed: DeployedModel, plan_row: tuple[Any, ...]) -> Steps:
        """Run the detector of a model; train and deploy it again first if it is too old."""
        detectors = self.scenario.fleet.detectors
        number = deployed.model
        work = detectors.seconds
        is_old = self.env.now - deployed.detector_s > detectors.renewed_s
        if is_old:
            work += plan_row[3][MONITOR]
        check = _Pipeline(number, plan_row)
        check.seconds = list(plan_row[3])
        check.seconds[MONITOR] = work
        check.potential, check.weight = deployed.potential, model_weight(deployed)
        yield from self._task(check, PipelineTask("monitor"), 0.0)
        if is_old:
            deployed.detector_s = self.env.now

    def _renew(
        self,
        deployed: DeployedModel,
        plan_row: tuple[Any, ...],
        graph: PipelineGraph,
        rule: str,
        noise: Any,
        plans: Plans,
    ) -> Steps:
        env, scenario = self.env, self.scenario
        delay = scenario.fleet.human_delay_s * math.exp(0.5 * float(noise[0]))
        if scenario.fleet.quiet:
            delay += self.collector.until_quiet(env.now + delay)
        if delay:
            yield env.timeout(delay)
        pipeline = _Pipeline(self.number, plan_row)
        self.number += 1
        condition = deployed.condition(env.now)
        pipeline.model, pipeline.version = deployed.model, deployed.version + 1
        built = (
            deployed.built
            + data_gain(deployed.built, condition.new_share)
            + 0.005 * float(noise[1])
        )
        pipeline.planned = [min(max(built, 0.0), 1.0), *pipeline.planned[1:]]
        pipeline.potential, pipeline.weight = deployed.potential, model_weight(deployed)
        pipeline.renewal = Retraining(deployed, env.now)
        row = PipelineRow(plans, deployed.model, pipeline.number, env.now, pipeline.version, rule)
        self.collector.renewed(row)
        yield from self._pipeline(pipeline, graph)
        if pipeline.outcome == 0:
            deployed.replace(pipeline.renewal, env.now, pipeline.planned[0])
        deployed.renewing = False


def model_weight(deployed: DeployedModel) -> float:
    """Return the scheduling weight of a model, doubled while the model violates its SLA."""
    return deployed.watched.weight * (2.0 if deployed.is_late else 1.0)


def _change(pipeline: _Pipeline, factors: list[float]) -> None:
    before = pipeline.metrics or [0.0] * 4
    pipeline.metrics = [a * b for a, b in zip(before, factors, strict=True)]


def _rows(scenario: PlatformScenario, plans: Plans) -> Iterator[tuple[Any, ...]]:
    read_s, write_s = delays_s(scenario.platform, plans)
    columns = (
        plans.user, plans.framework, plans.priority, plans.seconds, read_s, write_s,
        plans.read_bytes, plans.write_bytes, plans.metrics, plans.compressed, plans.hardened,
    )  # fmt: skip
    return zip(*(column.tolist() for column in columns), strict=True)

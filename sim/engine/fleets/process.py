"""Instances on machines as SimPy processes: broker, scheduler and an event per end."""

from collections.abc import Callable
from typing import Any, NamedTuple

from simpy.events import Event

from sim.engine import preparation
from sim.engine.fleets.setup import finished, make_fleet
from sim.engine.process import DECIDES, Calendar, Kernel, Steps
from sim.kernel.fleet import Fleet
from sim.kernel.placing import end, submit
from sim.kernel.progress import settle, throttle
from sim.kernel.records import first_of, interpretable
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.policies.backfill import backfill_named, decision_of
from sim.policies.placement import placement_named


class Text(NamedTuple):
    """The kernel functions that the scheduler calls, all compiled or all interpreted."""

    submit: Callable[[Fleet, int], None]
    end: Callable[[Fleet, int], None]
    throttle: Callable[[Fleet, int, float, float], None]
    settle: Callable[[Fleet, float], int]
    decide: Callable[[Fleet, Any, float], int]
    choose: Any


def text_for(scenario: Scenario, kernel: Kernel) -> tuple[Text, bool]:
    """Return the kernel functions for a scenario, and whether they are compiled.

    ``auto`` takes compiled ones if they are ready.
    """
    backfill, rule = backfill_named(scenario.backfill), placement_named(scenario.placement)
    decide = decision_of(backfill, "instances")
    if kernel == "interpreted" or (kernel == "auto" and not preparation.is_ready("instances")):
        return Text(submit, end, throttle, settle, decide, rule.choose), False
    from sim.engine.fleets.compiled import choice, decision, transitions
    from sim.engine.loading import loaded

    preparation.wait("instances")

    def fetch() -> Text:
        return Text._make((*transitions(), decision(backfill), choice(rule)))

    return loaded(fetch, "instances"), True


class Scheduler:
    """Owns the fleet; wakes once at the end of every instant at which something happened."""

    def __init__(self, calendar: Calendar, fleet: Fleet, text: Text) -> None:
        self.calendar, self.fleet, self.text = calendar, fleet, text
        self._ends: dict[int, Event] = {}
        self._wake = Event(calendar)
        self._is_called = False

    def arrive(self, job: int) -> None:
        """Let the tasks of a submitted job wait."""
        self.text.submit(self.fleet, job)
        self.call()

    def turn(self, machine: int, cpu: float, gpu: float) -> None:
        """Let a machine change its speed."""
        self.text.throttle(self.fleet, machine, cpu, gpu)
        self.call()

    def call(self) -> None:
        """Wake at the end of this instant."""
        if not self._is_called:
            self._is_called = True
            self.calendar.at_end_of_instant(self._wake, DECIDES)

    def run(self) -> Steps:
        """Decide at the end of every instant, and plan the ends that are new."""
        while True:
            yield self._wake
            self._wake, self._is_called = Event(self.calendar), False
            now_s = self.calendar.now
            self.text.decide(self.fleet, self.text.choose, now_s)
            for instance in first_of(self.fleet.changed, self.text.settle(self.fleet, now_s)):
                self._plan(instance)

    def _plan(self, instance: int) -> None:
        earlier = self._ends.pop(instance, None)
        if earlier is not None and earlier.callbacks is not None:
            earlier.callbacks.clear()
        ending = self.calendar.at(float(self.fleet.end_s[instance]), instance)
        self._ends[instance] = ending
        ending.callbacks.append(self._ended)

    def _ended(self, ending: Event) -> None:
        instance: Any = ending.value
        del self._ends[instance]
        self.text.end(self.fleet, instance)
        self.call()


def arrivals(
    calendar: Calendar, submit_s: list[float], takes_part: list[int], scheduler: Scheduler
) -> Steps:
    """Let jobs come at their times: the broker."""
    for job, time_s in enumerate(submit_s):
        if not takes_part[job]:
            continue
        if time_s != calendar.now:
            yield calendar.at(time_s)
        scheduler.arrive(job)


def weather(
    calendar: Calendar, turns: list[tuple[float, int, float, float]], scheduler: Scheduler
) -> Steps:
    """Let machines change their speeds."""
    for time_s, machine, cpu, gpu in turns:
        if time_s != calendar.now:
            yield calendar.at(time_s)
        scheduler.turn(machine, cpu, gpu)


def run(scenario: Scenario, *, kernel: Kernel = "auto") -> SimulationResult:
    """Simulate a scenario that places instances.

    Args:
        scenario: what to simulate.
        kernel: which form of the kernel functions to call; the result is the same.

    Raises:
        EngineError: compiled kernel functions are asked for and there is no compiler.
        ScenarioError: what cannot be placed.
    """
    text, is_compiled = text_for(scenario, kernel)
    made, table = make_fleet(scenario)
    table = interpretable(table)
    fleet = made if is_compiled else interpretable(made)
    calendar = Calendar()
    scheduler = Scheduler(calendar, fleet, text)
    turns = list(zip(table.turns_s, table.turning, table.cpu, table.gpu, strict=True))
    calendar.process(arrivals(calendar, table.submit_s, table.takes_part, scheduler))
    calendar.process(weather(calendar, turns, scheduler))
    calendar.process(scheduler.run())
    calendar.run()
    return finished(scenario, fleet, table, "process")

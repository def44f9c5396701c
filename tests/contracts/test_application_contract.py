"""Every registered application: a stable space, repeatable runs, failures and no crashes."""

import dataclasses
import pickle

import pytest

from assistant.applications import APPLICATIONS, ApplicationEntry
from assistant.applications.scheduling_futures import (
    FutureScheduling,
    WorkloadFutures,
    future_scheduling,
)
from assistant.core.errors import RunError
from assistant.core.ports import Application, ExecutionRequest
from assistant.executors.serial import execute_run
from sim.generators import published_model


def _over_futures() -> FutureScheduling:
    futures = WorkloadFutures(published_model("lublin"), 2, 43_200.0, aggregate="worst")
    return future_scheduling(futures, threads=1)


def _each_run_its_own() -> FutureScheduling:
    return future_scheduling(
        WorkloadFutures(published_model("lublin"), 2, 43_200.0, anew=True), threads=1
    )


EVERY = (
    *((entry.name, entry) for entry in APPLICATIONS),
    ("futures", ApplicationEntry("scheduling", "over futures", _over_futures)),
    ("futures anew", ApplicationEntry("scheduling", "over its own futures", _each_run_its_own)),
)
every_application = pytest.mark.parametrize(
    "entry", [entry for _, entry in EVERY], ids=[name for name, _ in EVERY]
)


@every_application
def test_it_is_what_it_says(entry: ApplicationEntry) -> None:
    application = entry.example()
    assert isinstance(application, Application)
    assert application.name == entry.name
    assert application.space.lineage == entry.example().space.lineage
    assert application.facts


@every_application
def test_a_run_is_a_function_of_values_and_seed(entry: ApplicationEntry) -> None:
    application, again = entry.example(), pickle.loads(pickle.dumps(entry.example()))
    measured = 0
    for configuration in list(application.space.configurations())[:5]:
        work = ExecutionRequest(1, application.space.values(configuration), seed=7)
        first, second = execute_run(application, work), execute_run(again, work)
        assert (first.measures, first.failure) == (second.measures, second.failure)
        if first.measures is not None:
            application.objective.assess(first.measures)
            measured += 1
    assert measured


@every_application
def test_one_that_says_it_repeats_itself_does_whatever_the_seed(entry: ApplicationEntry) -> None:
    application = entry.example()
    if application.deterministic is not True:
        if isinstance(application, FutureScheduling):
            assert application.futures.anew
            return
        assert application.deterministic is None  # an example of ours does not know either
        return
    for configuration in list(application.space.configurations())[:5]:
        values = application.space.values(configuration)
        first, other = (
            execute_run(application, ExecutionRequest(1, values, seed)) for seed in (7, 8)
        )
        assert (first.measures, first.failure) == (other.measures, other.failure)


@pytest.mark.parametrize("noisy", [None, True, False])
@pytest.mark.parametrize("name", ["command", "function"])
def test_what_a_user_says_of_noise_crosses_to_other_processes(
    name: str, noisy: bool | None
) -> None:
    example = next(e for e in APPLICATIONS if e.name == name).example()
    said = dataclasses.replace(example, noisy=noisy)  # type: ignore[type-var]
    for one in (said, pickle.loads(pickle.dumps(said))):
        assert one.deterministic is (None if noisy is None else not noisy)


@every_application
def test_today_is_a_point_of_the_space(entry: ApplicationEntry) -> None:
    application = entry.example()
    if application.baseline is None:
        return
    application.space.check(application.space.from_values(application.baseline))
    assert application.evaluate(application.baseline, 0)


def test_a_missing_combination_of_a_table_is_a_failed_run() -> None:
    lookup = next(e for e in APPLICATIONS if e.name == "lookup").example()
    with pytest.raises(RunError, match="not in the table"):
        lookup.evaluate({"size": 2, "mode": "b"}, 0)

"""Ten thousand calls in any order: the queue answers as its model does."""

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults import machine

ALL = settings(
    deadline=None, derandomize=True, database=None, print_blob=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_the_queue_is_as_its_model() -> None:
    run_state_machine_as_test(
        machine.Queue, settings=settings(ALL, max_examples=15, stateful_step_count=40)
    )


@pytest.mark.soak
@pytest.mark.slow
def test_the_queue_is_as_its_model_through_thousands_of_calls() -> None:
    machine.OPERATIONS.clear()
    run_state_machine_as_test(
        machine.Queue, settings=settings(ALL, max_examples=120, stateful_step_count=60)
    )
    print(json.dumps({"calls": machine.OPERATIONS.total(), **machine.OPERATIONS}))  # noqa: T201
    assert machine.OPERATIONS.total() >= 4_000
    assert min(machine.OPERATIONS.values()) >= 5  # what is drawn varies with the loaded modules

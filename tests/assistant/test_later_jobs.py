"""What the later jobs of a log say of an answer: the sentences of every shell."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from assistant import Measure, Objective, SingleMeasure
from assistant.core.objective import Constraint
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.experiment_summary import baseline_finding
from assistant.presentation.text.later_jobs import later_jobs
from assistant.session.opening import open_session
from assistant.session.session import Session
from assistant.store import MemoryStore
from strategies import Level, Parameter, ParameterSpace

CURRENT = {
    "mean_wait_s": 2_160.0, "class_wait_ratio": 0.9, "longest_wait_ratio": 1.0, "n_rejected": 0.0,
    "work_weighted_wait_s": 1_000.0, "later_mean_wait_s": 4_800.0, "later_wait_ratio": 1.0,
    "later_wait_ratio_low": 1.0, "later_wait_ratio_high": 1.0,
    "later_class_wait_ratio": 1.0, "later_longest_wait_ratio": 1.0,
}  # fmt: skip
BETTER = CURRENT | {
    "mean_wait_s": 1_320.0, "later_mean_wait_s": 2_880.0, "later_wait_ratio": 0.6,
    "later_wait_ratio_low": 0.52, "later_wait_ratio_high": 0.81,
    "work_weighted_wait_s": 1_070.0, "later_longest_wait_ratio": 1.24,
}  # fmt: skip


@dataclass(frozen=True)
class Waits:
    """The current order, which is fcfs, and another one, with measures of our choice."""

    current: Mapping[str, Measure]
    other: Mapping[str, Measure]

    name = "waits"
    space = ParameterSpace((Parameter("order", ("fcfs", "saf")),))
    objective = Objective(
        SingleMeasure("mean_wait_s"),
        "minimise",
        (Constraint("class_wait_ratio", at_most=1.0),),
        unit="s",
    )
    facts = ()
    baseline = {"order": "fcfs"}  # noqa: RUF012

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        return self.current if values["order"] == "fcfs" else self.other


def sentences(
    other: Mapping[str, Measure], current: Mapping[str, Measure] = CURRENT
) -> tuple[str, ...]:
    session: Session = open_session(Waits(current, other), store=MemoryStore())
    session.submit_baseline()
    session.include({"order": "saf"})
    session.run_queued(SerialExecutor(Waits(current, other)))
    told = later_jobs(session.experiment)
    assert set(told) <= set(baseline_finding(session.experiment).sentences)
    return told


def test_a_gain_that_carries_over() -> None:
    assert sentences(BETTER) == (
        (
            "Checked on the later jobs, by which nothing was chosen: mean wait 1 h 20 min -> "
            "48 min 00 s, 40 % less (95 %: 19 to 48 % less)."
        ),
        (
            "Of the later jobs, no class waits longer on average, and the longest wait is 24 % "
            "longer (5 min are free)."
        ),
        "Weighted by processor hours, jobs of the runs wait 7 % more.",
    )


@pytest.mark.parametrize(
    ("ratio", "high", "said"),
    [(0.9, 1.2, "That may be chance"), (1.1, 1.2, "The gain did not carry over")],
)
def test_a_gain_that_may_not_carry_over(ratio: float, high: float, said: str) -> None:
    told = sentences(BETTER | {"later_wait_ratio": ratio, "later_wait_ratio_high": high})
    assert "(95 %: 48 % less to 20 % more)" in told[0]
    assert told[1].startswith(said)


def test_where_the_current_configuration_wins_ten_per_cent_more_is_looked_at() -> None:
    nothing = "No tried configuration shortens the mean wait without making a class of jobs wait "
    first, second, third = sentences(BETTER | {"class_wait_ratio": 1.08})
    assert first == f"{nothing}longer."
    assert second == (
        "If every class may wait 10 % longer: order saf (run 2) would give a mean wait of "
        "22 min 00 s instead of 36 min 00 s, 39 % less."
    )
    assert third.startswith("Checked on the later jobs")
    refused = sentences(BETTER | {"class_wait_ratio": 1.2})
    assert refused == (first, "Nor does one if every class may wait 10 % longer.")


def test_short_queues_are_said() -> None:
    short = CURRENT | {"mean_wait_s": 12.0}
    better = BETTER | {"mean_wait_s": 8.0}
    assert "let runs simulate a busier part of the log" in sentences(better, short)[-1]
    quiet = {"later_mean_wait_s": 0.2, "later_wait_ratio": None}
    told = sentences(better | quiet, short | quiet)
    assert told[0] == (
        "Hardly any of the later jobs waits (0.2 s on average), so they cannot check the answer."
    )
    assert told[-1].startswith("The queue is short (12 s on average)")


def test_without_such_measures_nothing_is_said() -> None:
    plain = {"mean_wait_s": 5.0, "class_wait_ratio": 1.0}
    assert sentences(plain | {"mean_wait_s": 4.0}, plain) == ()


def test_where_nothing_waits_nothing_is_compared() -> None:
    idle = CURRENT | {"mean_wait_s": 0.0, "later_mean_wait_s": 0.0}
    told = sentences(idle, idle)
    assert told[0] == "No job waits under the current configuration, so no other can do better."
    assert "ask how much more work fits" in told[1]

"""What is proposed where a share of the runs is kept inside regions: to end that, if it helps."""

from assistant.analysis.alternatives import (
    AlternativeSearch,
    events_of_alternative,
    find_alternatives,
)
from assistant.analysis.forecast import forecast
from assistant.core.events import Alternative, SteeringChanged
from assistant.core.experiment import Experiment
from assistant.core.sla import Sla, Steering
from tests.forecast.examples import MADE, ended_s, told

FALLING = [100.0 - 3 * i + 7 * (i % 3) for i in range(20)]


def proposed(strategy: str, exploitation: float | None) -> dict[float | None, Alternative]:
    """Return the exploitation levels that are proposed, by the level."""
    experiment, now_s = split(strategy, exploitation)
    current = forecast(experiment, now_s, calibration=MADE)
    prospects = AlternativeSearch(experiment, current, now_s, MADE)
    return {
        one.steering.exploitation: one
        for one in find_alternatives(prospects)
        if one.kind == "exploitation" and one.steering is not None
    }


def split(strategy: str, exploitation: float | None) -> tuple[Experiment, float]:
    experiment = told(FALLING, Sla(60, goal=5.0), strategy=strategy)
    now_s = ended_s(experiment)
    steering = Steering(strategy, {}, exploitation)
    return experiment.supposing([SteeringChanged(now_s, steering)]), now_s


def test_the_split_of_a_strategy_that_it_harms_is_proposed_to_end() -> None:
    ending = proposed("grasp", 0.7)[None]
    assert ending.text == "spend no fixed share of the runs inside the regions (70 % now)"
    experiment, now_s = split("grasp", 0.7)
    seen = forecast(experiment, now_s, calibration=MADE).goal
    after = experiment.supposing(events_of_alternative(experiment, ending, now_s))
    told_after = forecast(after, now_s, calibration=MADE).goal
    assert after.steering.exploitation is None
    assert seen is not None
    assert told_after is not None
    assert ending.chance == told_after.chance
    assert (ending.chance or 0.0) > (seen.chance or 0.0)


def test_a_split_that_helps_is_not_proposed_to_end_nor_one_that_is_not_there() -> None:
    assert None not in proposed("copper", 0.7)
    assert None not in proposed("grasp", None)


def test_without_a_goal_the_chance_that_the_budget_suffices_is_raised() -> None:
    experiment = told(FALLING, Sla(60), strategy="copper")
    now_s = ended_s(experiment)
    current = forecast(experiment, now_s, calibration=MADE)
    found = find_alternatives(AlternativeSearch(experiment, current, now_s, MADE))
    kinds = {one.kind for one in found}
    assert {"strategy", "more_runs"} <= kinds
    assert not kinds & {"easier", "close"}  # both need a goal
    assert current.end is not None
    assert current.end.miss is not None
    for one in found:
        after = experiment.supposing(events_of_alternative(experiment, one, now_s))
        end = forecast(after, now_s, calibration=MADE).end
        assert end is not None
        assert end.miss is not None
        assert one.chance == 1.0 - end.miss > 1.0 - current.end.miss

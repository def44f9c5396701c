"""How an experiment goes on, as events: answers to advice, the agreement, the watch, weights. Pure.

As `decisions`: each function returns what shall be recorded, or refuses with one sentence.
"""

from collections.abc import Iterable
from dataclasses import replace

from assistant import decisions
from assistant.errors import ExperimentError, SettingsError
from assistant.events import (
    AdviceAnswered,
    Alternative,
    Answer,
    BudgetChanged,
    HandedOver,
    SpaceChanged,
    SteeringChanged,
    WatchChanged,
)
from assistant.experiment import Experiment
from assistant.sla import Automatic, Sla, Steering, Watch
from strategies import Level, find_regions, home_of


def answer(
    experiment: Experiment,
    given: Answer,
    exploitation: float | None,
    alternative: int | None,
    now_s: float,
) -> tuple[AdviceAnswered, Alternative | None]:
    """Return the answer to the open advice, and the alternative that is accepted with it.

    An advice by the paper's rule proposes an exploitation level; one by the forecast alternatives,
    of which the first is meant unless one is named.

    Raises:
        ExperimentError: no advice is open, or what is given does not go together.
        SettingsError: a level outside 0 to 1.
    """
    advice = experiment.open_advice
    if advice is None:
        raise ExperimentError("there is no open advice to answer")
    if given == "changed" and exploitation is None:
        raise ExperimentError("say which exploitation level the advice is changed to, 0 to 1")
    if given != "changed" and exploitation is not None:
        raise ExperimentError("only a changed advice names an exploitation level")
    if given != "accepted" and alternative is not None:
        raise ExperimentError("only an accepted advice names an alternative")
    level = exploitation if given == "changed" else experiment.steering.exploitation
    Steering(exploitation=level)  # refuses a level outside 0 to 1
    if given != "accepted":
        return AdviceAnswered(now_s, advice.number, given, level), None
    if advice.basis == "paper" and alternative is None:
        return AdviceAnswered(now_s, advice.number, given, advice.exploitation), None
    proposed = advice.alternatives
    if not proposed:
        raise ExperimentError(
            f"advice {advice.number} proposes no alternative that could be accepted; ignore it, or "
            "change it to an exploitation level"
        )
    which = alternative or 0
    if type(which) is not int or not 0 <= which < len(proposed):
        raise ExperimentError(
            f"advice {advice.number} has no alternative at position {alternative}; it has "
            f"{len(proposed)}, counted from 0"
        )
    chosen = proposed[which]
    if chosen.kind == "exploitation" and chosen.steering is not None:
        level = chosen.steering.exploitation
    return AdviceAnswered(now_s, advice.number, given, level, which), chosen


def weighing(
    experiment: Experiment, region_id: int, weight: float, now_s: float
) -> SteeringChanged:
    """Return another weight of a region; 1 is what it has without one.

    Raises:
        ExperimentError: there is no such region, or no share of the runs is spent inside regions.
        SettingsError: a weight that is no number from 0 on.
    """
    decisions.refuse_if_finished(experiment)
    present, rule = experiment.steering, experiment.watch.regions
    if present.exploitation is None:
        raise ExperimentError(
            "no share of the runs is spent inside regions, so that no weight would count; set an "
            "exploitation level first"
        )
    regions = find_regions(experiment.knowledge, rule)
    found = [region for region in regions if region.id == region_id]
    if not found:
        there = f"regions are numbered 1 to {len(regions)}" if regions else "there is none yet"
        raise ExperimentError(f"there is no region {region_id}; {there}")
    space = experiment.space
    others = tuple(
        (at, own)
        for at, own in present.weights
        if home_of(at, regions, space, rule.radius) != regions.index(found[0])
    )
    own = ((found[0].best.configuration, weight),) if weight != 1 else ()
    return SteeringChanged(now_s, replace(present, weights=(*others, *own)))


def agreement(experiment: Experiment, sla: Sla, now_s: float) -> BudgetChanged:
    """Return another agreement.

    Raises:
        SettingsError: it is no agreement, or warnings go by the forecast, and there is no goal any
            more.
    """
    decisions.refuse_if_finished(experiment)
    if not isinstance(sla, Sla):
        raise SettingsError(f"an agreement is an Sla, not {sla!r}")
    experiment.watch.warns_by_forecast(sla)
    return BudgetChanged(now_s, sla)


def watching(experiment: Experiment, watch: Watch, now_s: float) -> WatchChanged:
    """Return another way to count and to warn.

    Raises:
        SettingsError: it is no watch, or warnings shall go by the forecast, and no goal is agreed.
    """
    decisions.refuse_if_finished(experiment)
    if not isinstance(watch, Watch):
        raise SettingsError(f"what is watched is said by a Watch, not {watch!r}")
    watch.warns_by_forecast(experiment.sla)
    return WatchChanged(now_s, watch)


def handing_over(
    experiment: Experiment, automatic: Automatic | None, reason: str, now_s: float
) -> HandedOver | None:
    """Return that it steers itself from now on, or (None) that a person decides again.

    Raises:
        ExperimentError: it is finished, or nothing would ever end it.
        SettingsError: ``automatic`` does not say how.
    """
    decisions.refuse_if_finished(experiment)
    if automatic is None and experiment.automatic is None:
        return None
    if automatic is not None and not isinstance(automatic, Automatic):
        raise SettingsError(f"how it steers itself is said by an Automatic, not {automatic!r}")
    if automatic is not None and not experiment.sla.is_limited:
        raise ExperimentError(
            "a sweep without a limit of runs, a deadline or a limit of cost would not end by "
            "itself; agree on one first"
        )
    return HandedOver(now_s, automatic, reason)


def closing_all(
    experiment: Experiment, levels: Iterable[tuple[str, Level]], now_s: float
) -> tuple[SpaceChanged, ...]:
    """Close several levels, one after another."""
    decisions.refuse_if_finished(experiment)
    space, events = experiment.space, list[SpaceChanged]()
    for name, value in levels:
        space = space.closing(name, value)
        events.append(SpaceChanged(now_s, space, f"{name}={value} closed"))
    return tuple(events)

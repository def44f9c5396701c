"""What the report says about the budget: regions, warnings, and what came of them."""

from dataclasses import dataclass

from assistant.experiment import Experiment
from assistant.forecast import paper_forecast
from assistant.warning_words import proposal
from strategies import find_regions


@dataclass(frozen=True, slots=True)
class RegionRow:
    """One region; ``mean`` and ``best`` are measured values, ``pending`` None if not countable."""

    id: int
    members: int
    evaluated: int
    pending: int | None
    mean: float
    best: float
    ranges: str


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """One warning: after how many runs, with how many left, its words, and the answer.

    ``by_forecast`` tells it from one by the paper's rule, of which ``proposed``, the alternatives
    with the chance under each, is empty.
    """

    number: int
    executed: int
    remaining: int | None
    shortfall: int | None
    text: str
    by_forecast: bool
    proposed: tuple[str, ...]
    answer: str


def region_rows(experiment: Experiment, now_s: float) -> tuple[RegionRow, ...]:
    """Return the regions as they are now, best mean quality first."""
    space, value_of = experiment.space, experiment.opened.objective.value_of
    counted = {region.id: region for region in paper_forecast(experiment, now_s).regions}
    rows = []
    for region in find_regions(experiment.knowledge, experiment.watch.regions):
        ranges = []
        for parameter, ids in zip(space.parameters, region.box, strict=True):
            levels = [parameter.levels[i] for i in sorted(ids, key=parameter.ranks.__getitem__)]
            if len(levels) == 1 or parameter.kind == "nominal":
                ranges.append(f"{parameter.name} {', '.join(map(str, levels))}")
            else:
                ranges.append(f"{parameter.name} {levels[0]} to {levels[-1]}")
        rows.append(
            RegionRow(
                id=region.id,
                members=len(region.members),
                evaluated=region.evaluated,
                pending=counted[region.id].pending,
                mean=value_of(counted[region.id].mean),
                best=value_of(counted[region.id].best),
                ranges="; ".join(ranges),
            )
        )
    return tuple(rows)


def advice_rows(experiment: Experiment) -> tuple[AdviceRow, ...]:
    """Return every warning with what the analyst did about it."""
    rows = []
    for advice in experiment.advice:
        given = experiment.answer_to(advice)
        answer = "not answered" if experiment.open_advice == advice else "overtaken, not answered"
        if given is not None:
            level = given.exploitation
            answer = given.answer + (f" to {level:.0%}" if given.answer == "changed" else "")
            if given.alternative is not None:
                answer += f": {advice.alternatives[given.alternative].text}"
        seen = advice.forecast
        rows.append(
            AdviceRow(
                advice.number,
                seen.executed,
                seen.remaining,
                seen.shortfall,
                advice.text,
                advice.basis == "forecast",
                tuple(map(proposal, advice.alternatives)),
                answer,
            )
        )
    return tuple(rows)

"""What is thought of on the page *What if*: what a draft asks, and how it is applied.

It is applied by the same decisions as from the command line, in the same order.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from assistant import Experiment
from assistant.ending import passed_limit
from assistant.errors import AssistantError, SettingsError
from assistant.report.words import moment
from assistant.sla import figure
from assistant.ui import words
from assistant.ui.desk import Steered
from assistant.ui.intents import FieldError, sentence
from assistant.ui.what_if.question import EMPTIED, NONE, Draft, Seen
from assistant.what_if import Change, agreed, supposed
from strategies import Configuration, Region, StrategyError, find_regions, home_of
from strategies.parameter import parse_number

Place = Literal["share", "budget", "deadline", "cost", "goal", "strategy", "weights"]
_Part = dict[str, Any]
"""Some fields of a `Change`."""

_TIME = "Write a time from now, such as 90s, 30m or 2h, or a moment in UTC such as {moment}."
_TAKEN_AWAY = "Write one to think of another; a term is taken away on *Steering*."


@dataclass(frozen=True, slots=True)
class Question:
    """A draft as it is understood.

    Args:
        change: what is asked; it leaves out what is refused.
        refused: what cannot be, by the field that it belongs beside.
        notes: sentences on what is left out, since it does not apply now.
    """

    change: Change
    refused: Mapping[Place, str]
    notes: tuple[str, ...]

    @property
    def is_asked(self) -> bool:
        """Whether anything is changed, and nothing refused."""
        return not self.refused and self.change != Change()


def question(draft: Draft, experiment: Experiment, now_s: float) -> Question:
    """Return what a draft asks of an experiment; a draft that is `settled`.

    Each field is thought of by itself first, so that a refusal stands beside it.

    Args:
        draft: as it was filled in.
        experiment: as it is now.
        now_s: seconds since 1970-01-01 UTC.
    """
    refused: dict[Place, str] = {}
    parts: dict[str, Any] = {}
    for place, read in _READ.items():
        try:
            part = read(draft, experiment, now_s)
            if not part:
                continue
            with_share = {name: parts[name] for name in ("exploitation",) if name in parts}
            supposed(experiment, now_s, Change(**with_share | part))  # weights go with a share
        except (AssistantError, StrategyError) as error:
            refused[place] = sentence(error)
        else:
            parts |= part
    return Question(Change(**parts), refused, tuple(_notes(draft, experiment)))


def _share(draft: Draft, experiment: Experiment, _now_s: float) -> _Part:
    if draft.share is None or (draft.share != NONE and not _regions(experiment)):
        return {}
    return {"exploitation": None if draft.share == NONE else draft.share / 100}


def _budget(draft: Draft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.budget == EMPTIED:
        raise SettingsError(_TAKEN_AWAY)
    return {} if draft.budget is None else {"max_runs": draft.budget}


def _deadline(draft: Draft, _experiment: Experiment, now_s: float) -> _Part:
    if draft.deadline is None:
        return {}
    if not draft.deadline.strip():
        raise SettingsError(_TAKEN_AWAY)
    at_s = draft.deadline_s
    if at_s is None:
        raise SettingsError(_TIME.format(moment=moment(now_s + 3600)))
    if at_s <= now_s:
        raise SettingsError(f"{moment(at_s)} is past; a time to come is wanted.")
    return {"deadline_s": at_s}


def _cost(draft: Draft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.cost is None:
        return {}
    if not draft.cost.strip():
        raise SettingsError(_TAKEN_AWAY)
    return {"max_cost": _number(draft.cost)}


def _goal(draft: Draft, _experiment: Experiment, _now_s: float) -> _Part:
    if draft.goal is None:
        return {}
    return {"goal": _number(draft.goal) if draft.goal.strip() else NONE}


def _strategy(draft: Draft, _experiment: Experiment, _now_s: float) -> _Part:
    return {} if draft.strategy is None else {"strategy": draft.strategy}


def _weights(draft: Draft, experiment: Experiment, _now_s: float) -> _Part:
    if not draft.weights or _share_then(draft, experiment) is None:
        return {}
    found = [(region_of(experiment, ids), weight) for ids, weight in draft.weights]
    kept = {region: weight for region, weight in found if region is not None}
    return {"weights": tuple(kept.items())} if kept else {}


_READ: Mapping[Place, Callable[[Draft, Experiment, float], _Part]] = {
    "share": _share,
    "budget": _budget,
    "deadline": _deadline,
    "cost": _cost,
    "goal": _goal,
    "strategy": _strategy,
    "weights": _weights,
}


def _number(text: str) -> float:
    number = parse_number(text.strip())
    if number is None:
        raise SettingsError(
            f"'{text.strip()}' is no number; write it with a point, and without commas."
        )
    return float(number)


def _share_then(draft: Draft, experiment: Experiment) -> float | None:
    """Return the share inside regions as it would be."""
    part = _share(draft, experiment, 0.0)
    share: float | None = part.get("exploitation", experiment.steering.exploitation)
    return share


def _notes(draft: Draft, experiment: Experiment) -> Iterator[str]:
    """Say what of a draft is left out, since it does not apply now."""
    if draft.share not in (None, NONE) and not _regions(experiment):
        yield f"A share of {draft.share} % inside regions waits until there is a region."
    if draft.weights and _share_then(draft, experiment) is None:
        yield "Weights of regions count once a share of the runs is kept for regions."
    elif any(region_of(experiment, ids) is None for ids, _ in draft.weights):
        yield "A region that was weighed is none any more; its weight is left out."


def _regions(experiment: Experiment) -> tuple[Region, ...]:
    return find_regions(experiment.knowledge, experiment.watch.regions)


def region_of(experiment: Experiment, ids: tuple[int, ...]) -> int | None:
    """Return the number that the region of a configuration has now; None if it is in none."""
    regions = _regions(experiment)
    space, radius = experiment.space, experiment.watch.regions.radius
    sizes = [parameter.n_levels for parameter in space.parameters]
    if len(ids) != len(sizes) or not all(0 <= i < n for i, n in zip(ids, sizes, strict=True)):
        return None
    at = home_of(Configuration(ids, space.lineage), regions, space, radius)
    return None if at is None else regions[at].id


def parts_of(change: Change, experiment: Experiment) -> tuple[str, ...]:
    """Return what a change comes to, in words: each part as it would be afterwards."""
    told: list[str] = []
    unit = experiment.opened.objective.unit
    if change.exploitation is None:
        told.append("no share kept for regions")
    elif change.exploitation != "keep":
        told.append(f"{100 * change.exploitation:g} % inside regions")
    if change.max_runs is not None:
        told.append(f"{words.runs(change.max_runs)} in all")
    if change.deadline_s is not None:
        told.append(f"until {moment(change.deadline_s)}")
    if change.max_cost is not None:
        tariff = experiment.sla.tariff
        cost = figure(change.max_cost) if tariff is None else tariff.amount(change.max_cost)
        told.append(f"a cost of {cost} in all")
    if change.goal == NONE:
        told.append("no goal")
    elif change.goal is not None:
        told.append(f"a goal of {figure(change.goal)} {unit}".rstrip())
    if change.strategy is not None:
        told.append(f"choosing by {change.strategy}")
    told += [f"region {region} counting {weight:g}" for region, weight in change.weights]
    return tuple(told)


def in_force(experiment: Experiment) -> Seen:
    """Return what a person sees to be in force now."""
    return experiment.sla, experiment.steering


def changed_since(seen: Seen, experiment: Experiment) -> tuple[str, ...]:
    """Return what of agreement and steering is not as it was seen, in words; empty if nothing is.

    Args:
        seen: what was in force then.
        experiment: as it is now.
    """
    (sla, steering), told = seen, list[str]()
    now, tariff = experiment.sla, experiment.sla.tariff

    def note(what: str, was: str, is_now: str) -> None:
        if was != is_now:
            told.append(f"{what} {was} before, {is_now} now")

    def runs(limit: int | None) -> str:
        return "no limit" if limit is None else words.runs(limit)

    def at(at_s: float | None) -> str:
        return "none" if at_s is None else moment(at_s)

    note("runs in all:", runs(sla.max_runs), runs(now.max_runs))
    note("deadline:", at(sla.deadline_s), at(now.deadline_s))
    note("goal:", *("none" if one.goal is None else figure(one.goal) for one in (sla, now)))
    note("cost:", *("no limit" if one.max_cost is None else one.cost_text for one in (sla, now)))
    note("choosing:", str(steering), str(experiment.steering))
    if not told and seen != in_force(experiment):
        what = "the price of a run" if tariff != sla.tariff else "the agreement"
        told.append(f"{what} is another one")
    return tuple(told)


def hindrance(change: Change, experiment: Experiment, now_s: float) -> str:
    """Say why a change can be thought of, and not be made; empty if it can."""
    if experiment.finished is not None:
        return (
            f"This experiment is finished ({experiment.finished.reason}): what is shown is what "
            "would come if it went on. Nothing can be applied to it."
        )
    used = experiment.n_charged
    if change.max_runs is not None and change.max_runs <= used:
        return f"{words.runs(used)} are used; a budget of {change.max_runs} leaves none to apply."
    over = passed_limit(supposed(experiment, now_s, change), now_s)
    if over is not None and agreed(experiment, change) != experiment.sla:
        return f"Under this agreement no run is left: {over}."
    return ""


def apply(session: Steered, draft: Draft, seen: Seen, asked: tuple[str, ...]) -> None:
    """Make the change of a draft, all of it or nothing.

    Everything is checked before the first event is written: agreement, steering, then weights, in
    the order of the command line.

    Args:
        session: takes the decisions.
        draft: what was filled in.
        seen: what was in force when she was asked.
        asked: what she was asked, as `parts_of` told it.

    Raises:
        FieldError: the experiment is another one by now; nothing is changed then.
        GoneOnError: somebody decided something in the same instant.
        AssistantError, StrategyError: what the change itself is refused for.
    """
    session.catch_up()
    latest, now_s = session.experiment, session.now_s()
    wanted = question(draft, latest, now_s)
    is_same = in_force(latest) == seen
    if not is_same or wanted.refused or parts_of(wanted.change, latest) != asked:
        raise FieldError(
            "what-if", "The experiment was changed meanwhile, so nothing was applied. Look again."
        )
    change = wanted.change
    hindered = hindrance(change, latest, now_s)
    if hindered:
        raise FieldError("what-if", hindered)
    supposed(latest, now_s, change)  # refuses, before anything is written, what would be refused
    with session.only_on(latest.version):
        sla = agreed(latest, change)
        if sla != latest.sla:
            session.change_budget(sla)
        if change.strategy is not None or change.exploitation != "keep":
            session.change_strategy(change.strategy, None, change.exploitation)
        for ids, weight in draft.weights if change.weights else ():
            region = region_of(session.experiment, ids)  # numbers may have moved since
            if region is not None:
                session.weigh_region(region, weight)

"""The fields of the page *What if*: what is remembered of them, the address, how they are drawn.

What is filled in stands in the address, so that a colleague can open the same question, and stays
when the page is left. A field that nobody touched follows the experiment; the others keep what was
typed. Whatever is drawn anew, what stands in a field is taken in first, so that nothing is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import streamlit as st

from assistant import Experiment
from assistant.report.words import moment
from assistant.sla import figure
from assistant.ui import words
from assistant.ui.seeding import seed
from assistant.ui.what_if import now_then
from assistant.ui.what_if.question import (
    EMPTIED,
    NAMES,
    NONE,
    UNTOUCHED,
    Draft,
    Seen,
    from_query,
    query,
    settled,
    typed_deadline,
)
from assistant.ui.what_if.supposing import Place, Question, in_force, region_of
from strategies import factors_of, strategy_entry, strategy_names

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What this page remembers of one experiment on one screen.

    Args:
        seen: agreement and steering when the draft was begun.
        drawn: those that the fields were drawn for.
        draft: what was filled in.
        version: of the fields; another one draws them anew.
        address: what this page wrote into the address.
        unread: sentences on what of the address cannot be read.
        anchors: level ids of the best configuration of each region whose weight was drawn, with
            how much it counted then.
        asked: what is to be confirmed: what was in force, and the change in words.
    """

    seen: Seen
    drawn: Seen
    draft: Draft = UNTOUCHED
    version: int = 0
    address: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    anchors: tuple[tuple[Ids, float], ...] = ()
    asked: tuple[Seen, tuple[str, ...]] | None = None


def _key(experiment: Experiment) -> str:
    return f"what-if-{experiment.opened.experiment_id}"


def _prefix(experiment: Experiment, version: int) -> str:
    return f"{_key(experiment)}-{version}"


def taken_in(experiment: Experiment, now_s: float) -> Kept:
    """Take in what was typed, and what the address says; keep it, and write the address."""
    now = in_force(experiment)
    old: Kept = st.session_state.get(_key(experiment)) or Kept(now, now)
    draft, version, unread = _typed(experiment, old, now_s), old.version, old.unread
    address = {name: st.query_params[name] for name in NAMES if name in st.query_params}
    is_new = bool(address) and address != old.address
    if is_new:  # somebody opened another question
        (draft, unread), version = from_query(address, now_s), version + 1
    draft = settled(draft, now)
    written = query(draft)
    for name in NAMES:
        if name in written:
            st.query_params[name] = written[name]
        elif name in st.query_params:
            del st.query_params[name]
    new = replace(
        old,
        seen=now if draft == UNTOUCHED else old.seen,
        drawn=now,
        draft=draft,
        version=version + (now != old.drawn),  # a field that nobody touched follows
        address=written,
        unread=unread if is_new or draft == old.draft else (),
    )
    st.session_state[_key(experiment)] = new
    return new


def _typed(experiment: Experiment, old: Kept, now_s: float) -> Draft:
    """Return what stands in the fields, wherever they were drawn; else what was kept."""
    prefix, state, draft = _prefix(experiment, old.version), st.session_state, old.draft
    if f"{prefix}-goal" not in state:
        return draft
    budget = state.get(f"{prefix}-budget")
    deadline = str(state.get(f"{prefix}-deadline", ""))
    at_s = draft.deadline_s
    if deadline != draft.deadline:  # a time from now counts from when it was typed
        at_s = typed_deadline(deadline, now_s)
    is_split = state.get(f"{prefix}-split", False)
    weights = [(ids, weight) for ids, weight in draft.weights if region_of(experiment, ids) is None]
    factors = _factors(experiment)
    for ids, drawn in old.anchors:
        region, weight = region_of(experiment, ids), state.get(f"{prefix}-weight-{ids}")
        if region is not None and weight is not None and weight not in (drawn, factors[region]):
            weights.append((ids, float(weight)))
    draft = Draft(
        budget=EMPTIED if budget is None else int(budget),
        share=int(state[f"{prefix}-share"]) if is_split else NONE,
        goal=state[f"{prefix}-goal"],
        deadline=deadline,
        deadline_s=at_s,
        cost=state.get(f"{prefix}-cost", draft.cost),
        strategy=state.get(f"{prefix}-strategy", draft.strategy),
        weights=tuple(weights),
    )
    return settled(draft, old.drawn)  # what stands there as it was drawn was not typed


def _factors(experiment: Experiment) -> dict[int, float]:
    """Return how much each region counts now, by its number."""
    regions = now_then.regions_of(experiment)
    steering, rule = experiment.steering, experiment.watch.regions
    found = factors_of(regions, steering.weights, experiment.space, rule.radius)
    return {region.id: factor for region, factor in zip(regions, found, strict=True)}


def put_back(experiment: Experiment) -> None:
    """Put every field back to how things are."""
    old: Kept = st.session_state[_key(experiment)]
    st.session_state[_key(experiment)] = replace(
        old, draft=UNTOUCHED, version=old.version + 1, asked=None, unread=(), anchors=()
    )


def ask(experiment: Experiment, asked: tuple[str, ...] | None) -> None:
    """Ask for a confirmation, or ask no more."""
    old: Kept = st.session_state[_key(experiment)]
    asking = None if asked is None else (in_force(experiment), asked)
    st.session_state[_key(experiment)] = replace(old, asked=asking)


def go_on(experiment: Experiment) -> None:
    """Go on from how the experiment is now."""
    old: Kept = st.session_state[_key(experiment)]
    st.session_state[_key(experiment)] = replace(old, seen=in_force(experiment))


# -- fields ------------------------------------------------------------------------------------


def draw(experiment: Experiment, kept: Kept, asked: Question) -> None:
    """Draw every field, with what is refused beside it."""
    prefix, draft, sla = _prefix(experiment, kept.version), kept.draft, experiment.sla
    unit = experiment.opened.objective.unit
    _share(experiment, prefix, draft)
    _refusal(asked, "share")
    _weights(experiment, kept, prefix, asked)
    budget = sla.max_runs if draft.budget is None else draft.budget
    seed(f"{prefix}-budget", None if budget == EMPTIED else budget)
    st.number_input(
        "Runs in all",
        step=1,
        value=None,
        placeholder="no limit",
        key=f"{prefix}-budget",
        help=f"{words.runs(experiment.n_charged)} are used so far. Now: {_limit(sla.max_runs)}.",
    )
    _refusal(asked, "budget")
    known = "" if sla.deadline_s is None else moment(sla.deadline_s)
    seed(f"{prefix}-deadline", known if draft.deadline is None else draft.deadline)
    st.text_input(
        "Deadline",
        placeholder="none; 30m from now, or a moment in UTC",
        key=f"{prefix}-deadline",
        help="When the last run must be over: a time from now such as 90s, 30m or 2h, or a moment "
        "in UTC such as 2027-01-31 14:30.",
    )
    if asked.change.deadline_s is not None:
        st.caption(f"Until {moment(asked.change.deadline_s)}.")
    _refusal(asked, "deadline")
    known = "" if sla.goal is None else figure(sla.goal).replace(",", "")
    seed(f"{prefix}-goal", known if draft.goal is None else draft.goal)
    st.text_input(
        words.plain(words.titled("Goal", unit)),
        placeholder="none",
        key=f"{prefix}-goal",
        help=f"A value of {experiment.opened.objective.wrapper} that is good enough; empty for "
        "no goal.",
    )
    _refusal(asked, "goal")
    known = "" if sla.max_cost is None else figure(sla.max_cost).replace(",", "")
    seed(f"{prefix}-cost", known if draft.cost is None else draft.cost)
    tariff = sla.tariff
    st.text_input(
        words.plain(words.titled("Cost in all", "" if tariff is None else tariff.unit)),
        placeholder="no limit" if tariff is not None else "no price is agreed",
        key=f"{prefix}-cost",
        disabled=tariff is None and draft.cost is None,
        help="What all runs may cost together."
        if tariff is not None
        else "What a run costs is not agreed; agree on it on Steering.",
    )
    _refusal(asked, "cost")
    names, said = _strategies()
    chosen = draft.strategy or experiment.steering.strategy
    seed(f"{prefix}-strategy", chosen)
    st.selectbox(
        "Strategy",
        names if chosen in names else (*names, chosen),
        key=f"{prefix}-strategy",
        help=said,
    )
    _refusal(asked, "strategy")
    for note in asked.notes:
        st.caption(words.plain(note))


@cache
def _strategies() -> tuple[tuple[str, ...], str]:
    """Return the names of the strategies and what they are: finding them takes a while."""
    names = strategy_names()
    told = [f"{name}: {strategy_entry(name).summary}" for name in names]
    return names, "\n\n".join([*told, "Another strategy comes with its own options."])


def _limit(runs: int | None) -> str:
    return "no limit" if runs is None else f"{words.runs(runs)} in all"


def _refusal(asked: Question, place: Place) -> None:
    if place in asked.refused:
        st.error(words.plain(asked.refused[place]), icon=":material/error:")


def _share(experiment: Experiment, prefix: str, draft: Draft) -> None:
    """Draw the share inside regions as a slider with a box for the number."""
    present = experiment.steering.exploitation
    share = (NONE if present is None else round(100 * present)) if draft.share is None else (
        draft.share)  # fmt: skip
    has_regions = bool(now_then.regions_of(experiment))
    split, slider, box = (f"{prefix}-{name}" for name in ("split", "share", "box"))
    at = round(100 * experiment.watch.advised) if share == NONE else min(max(share, 0), 100)
    seed(split, share != NONE)
    seed(slider, at)
    seed(box, st.session_state[slider])
    is_split = st.toggle(
        "Keep a share for regions",
        key=split,
        disabled=not has_regions,
        help="A share of 0 % keeps out of the regions; without a share they are not looked at.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.slider(
            "Share inside regions (exploitation)", 0, 100, format="%d %%", key=slider,
            disabled=not (has_regions and is_split), on_change=_follow, args=(box, slider),
            help="How many of the runs that are left go where good results lie close together; "
            "the others are left to the strategy.",
        )  # fmt: skip
        st.number_input(
            "Share [%]", 0, 100, key=box, width=110, label_visibility="collapsed",
            disabled=not (has_regions and is_split), on_change=_follow, args=(slider, box),
        )  # fmt: skip
    if not has_regions:
        st.caption(":material/lock: There is no region yet, so that no share can be kept for any.")


def _follow(key: str, changed: str) -> None:
    """Let the slider follow its box, and the box its slider."""
    if st.session_state[changed] is None:
        st.session_state[changed] = st.session_state[key]
    st.session_state[key] = st.session_state[changed]


def _weights(experiment: Experiment, kept: Kept, prefix: str, asked: Question) -> None:
    regions = now_then.regions_of(experiment)
    if not regions:
        return
    wanted = {region_of(experiment, ids): weight for ids, weight in kept.draft.weights}
    factors = _factors(experiment)
    anchors = [region.best.configuration.level_ids for region in regions]
    drawn = tuple(zip(anchors, factors.values(), strict=True))
    st.session_state[_key(experiment)] = replace(kept, anchors=drawn)
    is_split = bool(st.session_state[f"{prefix}-split"])
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for region, (ids, factor) in zip(regions, drawn, strict=True):
            key = f"{prefix}-weight-{ids}"
            seed(key, float(wanted.get(region.id, factor)))
            st.number_input(
                f"Weight of region {region.id}", step=0.5, format="%g", key=key, width=150,
                disabled=not is_split,
                help=f"{words.plain(words.box_words(experiment.space, region.box))}. 1 is as it "
                "is found, 2 twice as much; nothing goes into a region of weight 0.",
            )  # fmt: skip
    if not is_split:
        st.caption("Weights count once a share is kept for regions.")
    _refusal(asked, "weights")

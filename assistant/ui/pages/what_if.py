"""The *What if* page: forecasts for a changed SLA, strategy, share of runs or region weight.

The fields are kept in the address, so a colleague can open the same question, and survive a change
of page. An untouched field follows the experiment. Before each redraw the typed text is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import streamlit as st

from assistant.analysis.experiment_state import ExperimentState, displayed_forecast
from assistant.analysis.what_if import (
    SteeringChange,
    WhatIfSide,
    apply_change,
    reopened_if_finished,
    what_if,
    what_if_side,
)
from assistant.core.experiment import Experiment
from assistant.core.sla import number_text
from assistant.presentation.tables.sla import box_words
from assistant.presentation.text.number_format import moment
from assistant.ui import labels
from assistant.ui.charting import saveable
from assistant.ui.intents import FormFieldError, Intent, answer_at
from assistant.ui.pages import space_map, what_if_comparison
from assistant.ui.pages.what_if_comparison import (
    EMPTIED,
    NAMES,
    NONE,
    UNTOUCHED,
    Place,
    SlaAndSteering,
    WhatIfDraft,
    WhatIfQuestion,
    apply,
    changed_since,
    from_query,
    hindrance,
    in_force,
    parts_of,
    query,
    question,
    region_of,
    typed_deadline,
    without_defaults,
)
from assistant.ui.state import ExperimentView, seed
from strategies import factors_of, strategy_entry, strategy_names

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PageState:
    """State of the what-if page for one experiment in one browser.

    Args:
        terms_at_start: SLA and steering when the draft was begun.
        terms_drawn: SLA and steering for which the fields were drawn.
        version: version of the fields; a new one redraws them.
        address: parameters that this page wrote into the address.
        anchors: level ids of the best configuration of each region with a drawn weight, and the
            weight.
        confirmation: SLA and steering when the question was drawn, and the change in words.
    """

    terms_at_start: SlaAndSteering
    terms_drawn: SlaAndSteering
    draft: WhatIfDraft = UNTOUCHED
    version: int = 0
    address: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    anchors: tuple[tuple[Ids, float], ...] = ()
    confirmation: tuple[SlaAndSteering, tuple[str, ...]] | None = None


def _key(experiment: Experiment) -> str:
    return f"what-if-{experiment.opened.experiment_id}"


def _prefix(experiment: Experiment, version: int) -> str:
    return f"{_key(experiment)}-{version}"


def read_state(experiment: Experiment, now_s: float) -> PageState:
    """Read the fields and the URL, update the URL, and store and return the page state."""
    now = in_force(experiment)
    old: PageState = st.session_state.get(_key(experiment)) or PageState(now, now)
    draft, version, unread = _draft_of_fields(experiment, old, now_s), old.version, old.unread
    address = {name: st.query_params[name] for name in NAMES if name in st.query_params}
    is_new = bool(address) and address != old.address
    if is_new:  # the user opened another question
        (draft, unread), version = from_query(address, now_s), version + 1
    draft = without_defaults(draft, now)
    written = query(draft)
    for name in NAMES:
        if name in written:
            st.query_params[name] = written[name]
        elif name in st.query_params:
            del st.query_params[name]
    new = replace(
        old,
        terms_at_start=now if draft == UNTOUCHED else old.terms_at_start,
        terms_drawn=now,
        draft=draft,
        version=version + (now != old.terms_drawn),  # untouched fields follow the experiment
        address=written,
        unread=unread if is_new or draft == old.draft else (),
    )
    st.session_state[_key(experiment)] = new
    return new


def _draft_of_fields(experiment: Experiment, old: PageState, now_s: float) -> WhatIfDraft:
    """Return the draft in the fields if they were drawn, else the kept draft."""
    prefix, state, draft = _prefix(experiment, old.version), st.session_state, old.draft
    if f"{prefix}-goal" not in state:
        return draft
    budget = state.get(f"{prefix}-budget")
    deadline = str(state.get(f"{prefix}-deadline", ""))
    at_s = draft.deadline_s
    if deadline != draft.deadline:  # a duration counts from the moment when it was typed
        at_s = typed_deadline(deadline, now_s)
    is_split = state.get(f"{prefix}-split", False)
    weights = [(ids, weight) for ids, weight in draft.weights if region_of(experiment, ids) is None]
    factors = _factors(experiment)
    for ids, drawn_weight in old.anchors:
        region, weight = region_of(experiment, ids), state.get(f"{prefix}-weight-{ids}")
        if (
            region is not None
            and weight is not None
            and weight not in (drawn_weight, factors[region])
        ):
            weights.append((ids, float(weight)))
    draft = WhatIfDraft(
        budget=EMPTIED if budget is None else int(budget),
        share=int(state[f"{prefix}-share"]) if is_split else NONE,
        goal=state[f"{prefix}-goal"],
        deadline=deadline,
        deadline_s=at_s,
        cost=state.get(f"{prefix}-cost", draft.cost),
        strategy=state.get(f"{prefix}-strategy", draft.strategy),
        weights=tuple(weights),
    )
    return without_defaults(draft, old.terms_drawn)  # unchanged fields were not typed


def _factors(experiment: Experiment) -> dict[int, float]:
    regions = experiment.regions
    steering, rule = experiment.steering, experiment.warning_policy.regions
    factors = factors_of(regions, steering.weights, experiment.space, rule.radius)
    return {region.id: factor for region, factor in zip(regions, factors, strict=True)}


def reset_fields(experiment: Experiment) -> None:
    """Reset every what-if field to its current value in the experiment."""
    old: PageState = st.session_state[_key(experiment)]
    st.session_state[_key(experiment)] = replace(
        old, draft=UNTOUCHED, version=old.version + 1, confirmation=None, unread=(), anchors=()
    )


def set_confirmation(experiment: Experiment, parts: tuple[str, ...] | None) -> None:
    """Ask the user to confirm the changes in ``parts``, or withdraw the question if None."""
    old: PageState = st.session_state[_key(experiment)]
    asking = None if parts is None else (in_force(experiment), parts)
    st.session_state[_key(experiment)] = replace(old, confirmation=asking)


def accept_current(experiment: Experiment) -> None:
    """Make the current SLA and steering the terms with which the draft is compared."""
    old: PageState = st.session_state[_key(experiment)]
    st.session_state[_key(experiment)] = replace(old, terms_at_start=in_force(experiment))


def draw_fields(experiment: Experiment, state: PageState, change_question: WhatIfQuestion) -> None:
    """Draw all what-if fields, each with its error message, if any."""
    prefix, draft, sla = _prefix(experiment, state.version), state.draft, experiment.sla
    unit = experiment.opened.objective.unit
    _share(experiment, prefix, draft)
    _refusal(change_question, "share")
    _weights(experiment, state, prefix, change_question)
    budget = sla.max_runs if draft.budget is None else draft.budget
    seed(f"{prefix}-budget", None if budget == EMPTIED else budget)
    st.number_input(
        "Maximum number of runs",
        step=1,
        value=None,
        placeholder="no limit",
        key=f"{prefix}-budget",
        help=f"Used: {labels.runs(experiment.n_charged)}. Current limit: {_limit(sla.max_runs)}.",
    )
    _refusal(change_question, "budget")
    present = "" if sla.deadline_s is None else moment(sla.deadline_s)
    seed(f"{prefix}-deadline", present if draft.deadline is None else draft.deadline)
    st.text_input(
        "Deadline",
        placeholder="none; 30m from now, or a moment in UTC",
        key=f"{prefix}-deadline",
        help="End of the last run at the latest: a time from now such as 90s, 30m or 2h, or a "
        "moment in UTC such as 2027-01-31 14:30.",
    )
    if change_question.change.deadline_s is not None:
        st.caption(f"Until {moment(change_question.change.deadline_s)}.")
    _refusal(change_question, "deadline")
    present = "" if sla.goal is None else number_text(sla.goal).replace(",", "")
    seed(f"{prefix}-goal", present if draft.goal is None else draft.goal)
    st.text_input(
        labels.escape_markdown(labels.measure_title("Goal", unit)),
        placeholder="none",
        key=f"{prefix}-goal",
        help=f"A value of {experiment.opened.objective.wrapper} that is good enough; leave "
        "it empty for no goal.",
    )
    _refusal(change_question, "goal")
    present = "" if sla.max_cost is None else number_text(sla.max_cost).replace(",", "")
    seed(f"{prefix}-cost", present if draft.cost is None else draft.cost)
    tariff = sla.tariff
    st.text_input(
        labels.escape_markdown(
            labels.measure_title("Cost limit", "" if tariff is None else tariff.unit)
        ),
        placeholder="no limit" if tariff is not None else "no price is set",
        key=f"{prefix}-cost",
        disabled=tariff is None and draft.cost is None,
        help="Maximum cost of all runs together."
        if tariff is not None
        else "No price of a run is set. Set it on *Steering*.",
    )
    _refusal(change_question, "cost")
    names, help_text = _strategies()
    strategy = draft.strategy or experiment.steering.strategy
    seed(f"{prefix}-strategy", strategy)
    st.selectbox(
        "Strategy",
        names if strategy in names else (*names, strategy),
        key=f"{prefix}-strategy",
        help=help_text,
    )
    _refusal(change_question, "strategy")
    for note in change_question.notes:
        st.caption(labels.escape_markdown(note))


@cache
def _strategies() -> tuple[tuple[str, ...], str]:
    """Return names and descriptions of the strategies; cached, because loading takes a while."""
    names = strategy_names()
    lines = [f"{name}: {strategy_entry(name).summary}" for name in names]
    return names, "\n\n".join([*lines, "Another strategy starts with its own options."])


def _limit(runs: int | None) -> str:
    return "no limit" if runs is None else labels.runs(runs)


def _refusal(change_question: WhatIfQuestion, place: Place) -> None:
    if place in change_question.refused:
        st.error(labels.escape_markdown(change_question.refused[place]), icon=":material/error:")


def _share(experiment: Experiment, prefix: str, draft: WhatIfDraft) -> None:
    present = experiment.steering.exploitation
    share = (NONE if present is None else round(100 * present)) if draft.share is None else (
        draft.share)  # fmt: skip
    has_regions = bool(experiment.regions)
    split, slider, box = (f"{prefix}-{name}" for name in ("split", "share", "box"))
    at = (
        round(100 * experiment.warning_policy.advised) if share == NONE else min(max(share, 0), 100)
    )
    seed(split, share != NONE)
    seed(slider, at)
    seed(box, st.session_state[slider])
    is_split = st.toggle(
        "Keep a share for regions",
        key=split,
        disabled=not has_regions,
        help="With a share of 0 % no run is inside the regions. Without a share they are not used.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.slider(
            "Share inside regions (exploitation)", 0, 100, format="%d %%", key=slider,
            disabled=not (has_regions and is_split), on_change=_follow, args=(box, slider),
            help="Share of the runs to come that go into regions of good results. The strategy "
            "places the others.",
        )  # fmt: skip
        st.number_input(
            "Share [%]", 0, 100, key=box, width=110, label_visibility="collapsed",
            disabled=not (has_regions and is_split), on_change=_follow, args=(slider, box),
        )  # fmt: skip
    if not has_regions:
        st.caption(":material/lock: There is no region yet, so no share can be kept for regions.")


MOST_WEIGHTS = 8  # Regions whose weight is offered, besides those whose weight is not 1


def _follow(key: str, changed: str) -> None:
    if st.session_state[changed] is None:
        st.session_state[changed] = st.session_state[key]
    st.session_state[key] = st.session_state[changed]


def _weights(
    experiment: Experiment, state: PageState, prefix: str, change_question: WhatIfQuestion
) -> None:
    weights = {region_of(experiment, ids): weight for ids, weight in state.draft.weights}
    factors = _factors(experiment)
    regions = [
        region
        for i, region in enumerate(experiment.regions)
        if i < MOST_WEIGHTS or region.id in weights or factors[region.id] != 1
    ]
    if not regions:
        return
    anchors = [region.best.configuration.level_ids for region in regions]
    drawn_weights = tuple(
        (ids, factors[region.id]) for ids, region in zip(anchors, regions, strict=True)
    )
    st.session_state[_key(experiment)] = replace(state, anchors=drawn_weights)
    is_split = bool(st.session_state[f"{prefix}-split"])
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for region, (ids, factor) in zip(regions, drawn_weights, strict=True):
            key = f"{prefix}-weight-{ids}"
            seed(key, float(weights.get(region.id, factor)))
            st.number_input(
                f"Weight of region {region.id}", step=0.5, format="%g", key=key, width=150,
                disabled=not is_split,
                help=f"{labels.escape_markdown(box_words(experiment.space, region.box))}. "
                "Factor of the region's share of runs: 2 doubles it, 0 puts no runs there.",
            )  # fmt: skip
    if len(regions) < len(experiment.regions):
        st.caption(f"Of {len(experiment.regions):,} regions, the best and those with a weight.")
    if not is_split:
        st.caption("Weights take effect once a share is kept for regions.")
    _refusal(change_question, "weights")


_AT = "what-if"


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the what-if page and return the request to apply the confirmed change, or None."""
    st.subheader("What if")
    now_s = view_model.session.now_s()
    state = read_state(experiment, now_s)
    change_question = question(state.draft, experiment, now_s)
    if experiment.finished is not None:
        st.info(
            labels.escape_markdown(hindrance(SteeringChange(), experiment, now_s)),
            icon=":material/lock:",
        )
    _stale(experiment, state)
    left, right = st.columns((2, 3), gap="large")
    with left, st.container(key=f"later-{_AT}"):
        draw_fields(experiment, state, change_question)
        intent = _decision(view_model, experiment, state, change_question, now_s)
    with right:
        now, then = _sides(experiment, now_s, change_question, view_model.snapshot.state)
        if change_question.refused:
            st.warning(
                "A field has an error. Correct it to see the forecast after the change. Until then "
                "the current forecast is shown.",
                icon=":material/edit:",
            )
        what_if_comparison.sides_section(
            experiment, now, then, parts_of(change_question.change, experiment)
        )
        _next_suggestions(experiment, change_question, now_s)
    _regions(experiment, now, then)
    return intent


def _stale(experiment: Experiment, state: PageState) -> None:
    for note in state.unread:
        st.warning(labels.escape_markdown(note), icon=":material/link_off:")
    changed = changed_since(state.terms_at_start, experiment)
    if not changed:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(
            labels.escape_markdown(
                f"The experiment has changed since you began: {'; '.join(changed)}. Your entries "
                "are kept; the current values are updated."
            ),
            icon=":material/history:",
        )
        st.button("Continue here", key=f"{_AT}-seen", on_click=accept_current, args=(experiment,))


def _sides(
    experiment: Experiment,
    now_s: float,
    change_question: WhatIfQuestion,
    shown_state: ExperimentState,
) -> tuple[WhatIfSide, WhatIfSide | None]:
    def displayed(side: WhatIfSide) -> WhatIfSide:
        return replace(side, forecast=displayed_forecast(side.forecast, shown_state, now_s))

    state = (experiment.opened.experiment_id, experiment.n_events, int(now_s))
    cached: tuple[object, dict[str, WhatIfSide]] = st.session_state.get(f"{_AT}-sides", (None, {}))
    sides = cached[1] if cached[0] == state else {}
    change_key = repr(change_question.change)
    if "" not in sides or (change_question.is_asked and change_key not in sides):
        with st.spinner("Computing the forecast …"):
            if "" not in sides:
                sides[""] = what_if_side(reopened_if_finished(experiment, now_s), now_s)
            if change_question.is_asked and change_key not in sides:
                sides[change_key] = what_if_side(
                    apply_change(experiment, now_s, change_question.change), now_s
                )
    st.session_state[f"{_AT}-sides"] = (state, sides)
    then = displayed(sides[change_key]) if change_question.is_asked else None
    return displayed(sides[""]), then


def _next_suggestions(
    experiment: Experiment, change_question: WhatIfQuestion, now_s: float
) -> None:
    if not st.toggle("Show the next suggestions", key=f"{_AT}-next"):
        return
    change = change_question.change if change_question.is_asked else SteeringChange()
    state = (experiment.opened.experiment_id, experiment.n_events, repr(change))
    cached = st.session_state.get(f"{_AT}-following", (None, ()))
    if cached[0] != state:
        with st.spinner("Choosing the next suggestions …"):
            cached = (state, what_if(experiment, now_s, change).suggestions)
        st.session_state[f"{_AT}-following"] = cached
    if not cached[1]:
        st.caption("There are no suggestions: no run is left.")
        return
    table = what_if_comparison.suggestions_table(experiment, cached[1])
    st.dataframe(table, hide_index=True, width="stretch", alt="the next suggestions")


def _regions(experiment: Experiment, now: WhatIfSide, then: WhatIfSide | None) -> None:
    st.subheader("Regions of good results")
    if not experiment.regions:
        st.info(
            labels.escape_markdown(what_if_comparison.region_rule_words(experiment)),
            icon=":material/blur_on:",
        )
        return
    table = what_if_comparison.regions_table(experiment, now, then)
    st.dataframe(table, hide_index=True, width="stretch", alt="the regions, best mean first")
    st.caption(labels.escape_markdown(what_if_comparison.pending_words(experiment)))
    _map(experiment)


def _map(experiment: Experiment) -> None:
    folded = st.expander("The regions on the map", key=f"{_AT}-map-open", on_change="rerun")
    if not folded.open:
        return
    with folded:
        _opened_map(experiment)


def _opened_map(experiment: Experiment) -> None:
    drawing = space_map.region_map(experiment)
    if drawing is None:
        st.caption("No configuration is allowed, so there is no map.")
        return
    n = len(experiment.regions)
    with st.container(horizontal=True, wrap=False):  # it scrolls, not the whole page
        st.vega_lite_chart(
            saveable(drawing.spec), theme=None, width="content", key=f"{_AT}-map",
            alt=f"{n} {'region' if n == 1 else 'regions'} on the map of all configurations",
        )  # fmt: skip
    st.caption("The map with its axes and its cells is on *Space*.")


def _decision(
    view_model: ExperimentView,
    experiment: Experiment,
    state: PageState,
    change_question: WhatIfQuestion,
    now_s: float,
) -> Intent | None:
    answer_at(_AT)
    parts = parts_of(change_question.change, experiment)
    hindered = (
        hindrance(change_question.change, experiment, now_s) if change_question.is_asked else ""
    )
    if hindered and experiment.finished is None:
        st.caption(labels.escape_markdown(f":material/block: {hindered}"))
    terms = in_force(experiment)
    is_asking = change_question.is_asked and not hindered and state.confirmation == (terms, parts)
    if not is_asking:
        with st.container(horizontal=True):
            st.button(
                "Apply …", type="primary", key=f"{_AT}-apply",
                disabled=not change_question.is_asked or bool(hindered),
                help="Asks for confirmation before the change.",
                on_click=set_confirmation, args=(experiment, parts),
            )  # fmt: skip
            st.button(
                "Discard", key=f"{_AT}-discard", disabled=state.draft == UNTOUCHED,
                help="Resets every field to its current value.", on_click=reset_fields,
                args=(experiment,),
            )  # fmt: skip
        return None
    st.warning(
        labels.escape_markdown(f"**Apply: {', '.join(parts)}.** Everything else stays as it is."),
        icon=":material/help:",
    )
    with st.container(horizontal=True):
        sure = st.button("Yes, apply this", type="primary", key=f"{_AT}-sure")
        st.button(
            "Not yet", key=f"{_AT}-not-yet", on_click=set_confirmation, args=(experiment, None)
        )
    if not sure:
        return None

    def do() -> str:
        try:
            apply(view_model.session, state.draft, terms, parts)
        except FormFieldError:
            set_confirmation(experiment, None)
            raise
        reset_fields(experiment)
        return f"Applied: {', '.join(parts)}."

    return Intent(_AT, do, "Applying it")

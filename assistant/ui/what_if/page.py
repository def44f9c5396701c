"""What if: another share, budget, deadline, goal or strategy, seen before it is made.

Nothing is changed before *Apply*, which asks once and names what will change.
"""

import streamlit as st

from assistant import Experiment
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import FieldError, Intent, answer_at
from assistant.ui.space import folded as space_map
from assistant.ui.what_if import now_then, what_if_fields
from assistant.ui.what_if.question import UNTOUCHED
from assistant.ui.what_if.supposing import (
    Question,
    apply,
    changed_since,
    hindrance,
    in_force,
    parts_of,
    question,
)
from assistant.ui.what_if.what_if_fields import Kept, ask, go_on, put_back, taken_in
from assistant.what_if import Change, Side, going_on, side, supposed, what_if

_AT = "what-if"


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns the change, once it is confirmed."""
    st.subheader("What if")
    now_s = desk.session.now_s()
    kept = taken_in(experiment, now_s)
    asked = question(kept.draft, experiment, now_s)
    if experiment.finished is not None:
        st.info(words.plain(hindrance(Change(), experiment, now_s)), icon=":material/lock:")
    _stale(experiment, kept)
    left, right = st.columns((2, 3), gap="large")
    with left:
        what_if_fields.draw(experiment, kept, asked)
        intent = _decision(desk, experiment, kept, asked, now_s)
    with right:
        now, then = _sides(experiment, now_s, asked)
        if asked.refused:
            st.warning(
                "One of the fields cannot be read or cannot be so; mend it, and what would come is "
                "shown here. Until then this is how things are.",
                icon=":material/edit:",
            )
        now_then.section(experiment, now, then, parts_of(asked.change, experiment))
        _following(experiment, asked, now_s)
    _regions(experiment, now, then)
    return intent


def _stale(experiment: Experiment, kept: Kept) -> None:
    for said in kept.unread:
        st.warning(words.plain(said), icon=":material/link_off:")
    changed = changed_since(kept.seen, experiment)
    if not changed:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(
            words.plain(
                f"The experiment was changed since you began: {'; '.join(changed)}. Now follows; "
                "what you filled in stays."
            ),
            icon=":material/history:",
        )
        st.button("Go on from here", key=f"{_AT}-seen", on_click=go_on, args=(experiment,))


# -- the preview -------------------------------------------------------------------------------


def _sides(experiment: Experiment, now_s: float, asked: Question) -> tuple[Side, Side | None]:
    """Return both sides; of one state, one second and one question they are computed once."""
    state = (experiment.opened.experiment_id, experiment.n_events, int(now_s))
    held: tuple[object, dict[str, Side]] = st.session_state.get(f"{_AT}-sides", (None, {}))
    known = held[1] if held[0] == state else {}
    wanted = repr(asked.change)
    if "" not in known or (asked.is_asked and wanted not in known):
        with st.spinner("Working out what would come of it …"):
            if "" not in known:
                known[""] = side(going_on(experiment, now_s), now_s)
            if asked.is_asked and wanted not in known:
                known[wanted] = side(supposed(experiment, now_s, asked.change), now_s)
    st.session_state[f"{_AT}-sides"] = (state, known)
    return known[""], known[wanted] if asked.is_asked else None


def _following(experiment: Experiment, asked: Question, now_s: float) -> None:
    """Draw the suggestions that would come next, for who wants to see them: they take a while."""
    if not st.toggle("Show what would be suggested next", key=f"{_AT}-next"):
        return
    change = asked.change if asked.is_asked else Change()
    state = (experiment.opened.experiment_id, experiment.n_events, repr(change))
    held = st.session_state.get(f"{_AT}-following", (None, ()))
    if held[0] != state:
        with st.spinner("Choosing what would come next …"):
            held = (state, what_if(experiment, now_s, change).suggestions)
        st.session_state[f"{_AT}-following"] = held
    if not held[1]:
        st.caption("Nothing would be suggested: no run is left.")
        return
    table = now_then.suggestions_table(experiment, held[1])
    st.dataframe(table, hide_index=True, width="stretch", alt="what would be suggested next")


def _regions(experiment: Experiment, now: Side, then: Side | None) -> None:
    st.subheader("Regions of good results")
    if not now_then.regions_of(experiment):
        st.info(words.plain(now_then.how_found(experiment)), icon=":material/blur_on:")
        return
    table = now_then.regions_table(experiment, now, then)
    st.dataframe(table, hide_index=True, width="stretch", alt="the regions, best mean first")
    st.caption(words.plain(now_then.pending_words(experiment)))
    _map(experiment)


def _map(experiment: Experiment) -> None:
    """Draw the regions on the map of the space."""
    drawn = space_map.of_regions(experiment)
    if drawn is None:
        return
    n = len(drawn.regions)
    with st.container(horizontal=True, wrap=False):  # it scrolls, and not the whole page
        st.vega_lite_chart(
            drawn.spec, theme=None, width="content", key=f"{_AT}-map",
            alt=f"{n} {'region' if n == 1 else 'regions'} on the map of all configurations",
        )  # fmt: skip
    st.caption("The map with its axes and its cells is on *Space*.")


# -- apply and discard -------------------------------------------------------------------------


def _decision(
    desk: Desk, experiment: Experiment, kept: Kept, asked: Question, now_s: float
) -> Intent | None:
    """Draw *Apply*, which asks once, and *Discard*."""
    answer_at(_AT)
    parts = parts_of(asked.change, experiment)
    hindered = hindrance(asked.change, experiment, now_s) if asked.is_asked else ""
    if hindered and experiment.finished is None:
        st.caption(words.plain(f":material/block: {hindered}"))
    seen = in_force(experiment)
    is_asking = asked.is_asked and not hindered and kept.asked == (seen, parts)
    if not is_asking:
        with st.container(horizontal=True):
            st.button(
                "Apply …", type="primary", key=f"{_AT}-apply",
                disabled=not asked.is_asked or bool(hindered),
                help="Asks once before anything is changed.",
                on_click=ask, args=(experiment, parts),
            )  # fmt: skip
            st.button(
                "Discard", key=f"{_AT}-discard", disabled=kept.draft == UNTOUCHED,
                help="Puts every field back to how things are.", on_click=put_back,
                args=(experiment,),
            )  # fmt: skip
        return None
    st.warning(
        words.plain(f"**Apply: {', '.join(parts)}.** Everything else stays as it is."),
        icon=":material/help:",
    )
    with st.container(horizontal=True):
        sure = st.button("Yes, apply this", type="primary", key=f"{_AT}-sure")
        st.button("Not yet", key=f"{_AT}-not-yet", on_click=ask, args=(experiment, None))
    if not sure:
        return None

    def do() -> str:
        try:
            apply(desk.session, kept.draft, seen, parts)
        except FieldError:
            ask(experiment, None)
            raise
        put_back(experiment)
        return f"Applied: {', '.join(parts)}."

    return Intent(_AT, do, "Applying it")

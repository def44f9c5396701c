"""*Capacity*: how many servers suffice in 95 % of the futures that a model of the log generates."""

import pandas as pd
import streamlit as st

from assistant import charts_clouds as specs
from assistant.applications.capacity import (
    CAPACITY_DEFINITIONS,
    HEADINGS,
    CapacityPlan,
    answer,
    curves,
    notes,
    rows,
    share_words,
)
from assistant.applications.generating import GENERATORS
from assistant.ui.background import Attempted
from assistant.ui.charting import low
from assistant.ui.intents import FieldError, Intent, answer_at, sentence
from assistant.ui.words import plain
from assistant.ui.workload.drawing import shown_chart
from assistant.ui.workload.generate import Shown
from assistant.ui.workload.making import owner
from assistant.ui.workload.planning import Planned, Planning, PlanWish, plannings

PLACE = "workload-capacity"
_KEY = "workload-capacity"
_KIND = "capacity"
_EVERY_S = 0.5
_MOST_CORES, _MOST_DAYS, _MOST_FUTURES = 2**20, 365.0, 5000
_GIB = 2**30
_COLUMNS = (
    "supposition", "jobs", "servers, fluid", "interval (fluid)", "servers, first fit",
    "interval (first fit)", "median", "most",
)  # fmt: skip
"""Those of `HEADINGS`; a table of pandas needs names that differ."""


def section(shown: Shown) -> Intent | None:
    """Draw the fields, the button, and the plan. Returns the wish to make one."""
    wish = _asked(shown)
    planned = _came()
    answer_at(PLACE)
    pressed = st.button(
        "How many servers?", type="primary", key=f"{_KEY}-plan", icon=":material/dns:"
    )
    if planned is not None:
        if planned.plan is None:
            _not_done(planned)
        else:
            if planned.wish != wish:
                st.caption("The plan below is of another log, window or choice.")
            _plan(planned.plan)
    if not pressed:
        return None

    def do() -> str:
        try:
            plannings().begin(owner(_KIND), lambda: Planning(wish, shown.found, shown.window))
        except OSError as error:
            raise FieldError(PLACE, f"It cannot be started: {error}.") from error
        st.session_state.pop(f"{_KEY}-made", None)
        return ""

    return Intent(PLACE, do, "Preparing")


def _asked(shown: Shown) -> PlanWish:
    """Draw the fields and return what they ask for."""
    names = [one.name for one in GENERATORS]
    usual = "resampling" if shown.seen.described.n_users is None else "three_stage"
    first, second, third = st.columns(3)
    generator = first.selectbox(
        "Generator", names, names.index(usual), key=f"{_KEY}-generator", persist_state="session",
        help="It is fitted to this log, and the futures are drawn from it.",
    )  # fmt: skip
    cores = second.number_input(
        "Processors of a server", 1, _MOST_CORES, 64, key=f"{_KEY}-cores", persist_state="session"
    )
    memory = third.number_input(
        "Memory of a server [GiB]", 0.0, 1e6, 0.0, format="%g", key=f"{_KEY}-memory",
        persist_state="session", help="0: memory is not looked at.",
    )  # fmt: skip
    first, second, third = st.columns(3)
    days = first.number_input(
        "Days", 0.01, _MOST_DAYS, 7.0, format="%g", key=f"{_KEY}-days", persist_state="session",
        help="The servers shall suffice for so long.",
    )  # fmt: skip
    share = second.number_input(
        "Share of the futures [%]", 1.0, 100.0, 95.0, format="%g", key=f"{_KEY}-share",
        persist_state="session", help="In which the servers suffice at every moment.",
    )  # fmt: skip
    futures = third.number_input(
        "Futures", 1, _MOST_FUTURES, 200, key=f"{_KEY}-futures", persist_state="session"
    )
    first, second, third = st.columns(3)
    scales = first.text_input(
        "Scales", "1, 1.5, 2", key=f"{_KEY}-scales", persist_state="session",
        help="Factors on the rate of arrivals, separated by commas; a case each.",
    )  # fmt: skip
    settings = second.text_area(
        "What if, a line each", key=f"{_KEY}-settings", persist_state="session",
        placeholder="end_odds=0.5", height=68,
        help="NAME=VALUE: another value of a parameter of the model, beside it as it is.",
    )  # fmt: skip
    seed = third.number_input(
        "Seed", 0, 2**31, 0, key=f"{_KEY}-seed", persist_state="session",
        help="Of the first future; the others count on.",
    )  # fmt: skip
    return PlanWish(
        generator, int(cores), round(memory * _GIB), float(days), int(futures),
        round(float(share) / 100.0, 6), _parts(scales, ","), _parts(settings, "\n"), int(seed),
        shown.identity,
    )  # fmt: skip


def _parts(text: str | None, by: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(by) if part.strip())


def _came() -> Planned | None:
    """Return what came of the last plan; draw it while it goes on."""
    kept = f"{_KEY}-made"
    try:
        planned = plannings().fetch(owner(_KIND))
    except Exception as error:
        st.error(plain(sentence(error)), icon=":material/error:")
        return None
    if planned is not None:
        st.session_state[kept] = planned
    if plannings().of(owner(_KIND)) is not None:
        with st.container(border=True):
            st.fragment(_watch, run_every=_EVERY_S)()
    found: Planned | None = st.session_state.get(kept)
    return found


def _watch() -> None:
    """Draw how long it has taken, and the button that ends it."""
    attempt: Attempted[Planned] | None = plannings().of(owner(_KIND))
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Drawing futures … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{_KEY}-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _not_done(planned: Planned) -> None:
    if planned.state == "stopped":
        st.info("The plan was stopped; nothing is known.", icon=":material/stop_circle:")
    else:
        st.error(plain(planned.sentence), icon=":material/error:")


def _plan(plan: CapacityPlan) -> None:
    """Draw a plan: the answer, what to know of it, its cases, and how many suffice how often."""
    st.subheader("Servers")
    st.markdown(f"**{plain(answer(plan))}**")
    st.caption(plain(plan.source))
    for note in notes(plan):
        st.caption(plain(note))
    table = pd.DataFrame(rows(plan), columns=list(_COLUMNS))
    st.dataframe(
        table, hide_index=True, width="stretch", height="content",
        alt="servers that suffice, by supposition",
    )  # fmt: skip
    made = curves(plan)
    every = pd.DataFrame(
        {"supposition": name, "servers": n, "futures": f"{share:.1%}"}
        for name, steps in made.items()
        for n, share in steps
    )
    alt = f"share of the futures for which so many servers suffice; {answer(plan)}"
    caption = f"The dashed line is {share_words(plan)} of the futures."
    shown_chart(low(specs.servers(made, plan.share)), alt, every, caption)
    with st.expander("What the figures mean"):
        told = CAPACITY_DEFINITIONS.items()
        st.markdown("\n".join(f"- **{name}**: {plain(text)}" for name, text in told))


assert len(_COLUMNS) == len(HEADINGS)  # noqa: S101 - the same table as on the console

"""The warning: what is likely, what could be done about it with the chance of each, the answer."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from assistant import Advice, Experiment
from assistant.chances import percent
from assistant.events import Answer
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, answer_at
from assistant.ui.suggestions import held

_ACCEPTED = "Accepted; the suggestions below are the new ones."
_Answering = Callable[[Answer, float | None, int | None, str], Intent]


def section(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the open warning, if there is one. Returns how the person answers it."""
    advice = experiment.open_advice
    answer_at("advice")
    if advice is None or experiment.finished is not None:
        return None
    session = desk.session

    def answer(given: Answer, share: float | None, which: int | None, said: str) -> Intent:
        def do() -> str:
            now = session.look()
            if now.open_advice is None or now.open_advice.number != advice.number:
                return "The warning was answered elsewhere already."
            with session.only_on(now.version):
                session.answer_advice(given, share, which)
            held.release(session.id)
            return said

        return Intent("advice", do)

    with st.container(border=True):
        if advice.basis == "paper":
            lead = f"**The agreement is about to be missed.** {advice.text}"
            st.warning(lead, icon=":material/warning:")
            intent = _share(experiment, advice, session.id, answer)
        else:
            st.warning(advice.text, icon=":material/warning:")
            intent = _alternatives(advice, answer)
            with st.expander("Another share inside regions"):
                intent = _share(experiment, advice, session.id, answer) or intent
        if advice.suggestions:
            with st.expander("What accepting would suggest instead"):
                rows = [
                    {**words.cells(experiment.space, one.configuration), "why": one.reason}
                    for one in advice.suggestions
                ]
                st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    return intent


def _share(
    experiment: Experiment, advice: Advice, session_id: str, answer: _Answering
) -> Intent | None:
    """Draw the slider of the exploitation level with its buttons."""
    proposed = advice.exploitation if advice.basis == "paper" else None
    at = experiment.watch.advised if proposed is None else proposed
    share = st.slider(
        "Share of the remaining runs inside the regions",
        0, 100, round(at * 100), 5, format="%d %%",
        key=f"share-{session_id}-{advice.number}",
        help="100 % spends every further run where good results lie close together.",
    ) / 100  # fmt: skip
    with st.container(horizontal=True):
        accept = proposed is not None and st.button(
            f"Accept: {proposed:.0%}", type="primary", key=f"accept-{advice.number}"
        )
        change = st.button(
            f"Change to {share:.0%}",
            key=f"change-{advice.number}",
            disabled=share == (experiment.steering.exploitation if proposed is None else proposed),
        )
        ignore = proposed is not None and st.button("Ignore", key=f"ignore-{advice.number}")
    if accept:
        return answer("accepted", None, None, _ACCEPTED)
    if change:
        said = f"From now on {share:.0%} of the runs go inside the regions."
        return answer("changed", share, None, said)
    if ignore:
        return _ignored(answer)
    return None


def _alternatives(advice: Advice, answer: _Answering) -> Intent | None:
    """Draw what could be done, the best chance first, with a button each."""
    if not advice.alternatives:
        st.caption("Nothing that was looked at would raise the chance.")
    intent = None
    for position, one in enumerate(advice.alternatives):
        with st.container(horizontal=True, vertical_alignment="center"):
            chance = "" if one.chance is None else f", chance {percent(one.chance)}"
            pressed = st.button(
                f"Accept {position + 1}",
                type="primary" if position == 0 else "secondary",
                key=f"accept-{advice.number}-{position}",
                help=one.text,
            )
            said = f"{position + 1}\\. {one.text[0].upper()}{one.text[1:]}{chance}"
            st.markdown(said, width="content")
        if pressed:
            intent = answer("accepted", None, position, _ACCEPTED)
    if advice.alternatives:
        st.caption("Chances of studies like this one; what a change does was not tested.")
    if st.button("Ignore", key=f"ignore-{advice.number}"):
        intent = _ignored(answer)
    return intent


def _ignored(answer: _Answering) -> Intent:
    return answer("ignored", None, None, "Ignored; everything stays as it was.")

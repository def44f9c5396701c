"""*Try one run* on *New*: the button's process, and what came of it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

import streamlit as st

from assistant.report.words import duration, number, quantity, unit_of
from assistant.ui import words
from assistant.ui.new.trying import Tried, trials

_OWNER, _LAST = "new-state-owner", "new-state-tried"
_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Last:
    """The last trial: of which sweep file, and what came of it (None while it goes on)."""

    digest: str
    tried: Tried | None


def _owner() -> str:
    owner: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return owner


def digest_of(text: str) -> str:
    """Return what tells sweep files apart."""
    return sha256(text.encode()).hexdigest()[:16]


def start(text: str) -> None:
    """Begin to try a sweep file. Raises OSError if the process cannot be started."""
    trials().start(_owner(), text)
    st.session_state[_LAST] = Last(digest_of(text), None)


def last() -> Last | None:
    """Return the last trial of this browser, with its result if that is there by now."""
    found: Last | None = st.session_state.get(_LAST)
    if found is not None and found.tried is None:
        tried = trials().fetch(_owner())
        if tried is None and trials().of(_owner()) is None:
            tried = Tried("stopped")
        if tried is not None:
            found = st.session_state[_LAST] = Last(found.digest, tried)
    return found


def measures() -> list[str]:
    """Return the names of the measures that the last trial gave."""
    said = _said()
    return sorted(said["measures"]) if said and said.get("measures") else []


def seconds() -> float | None:
    """Return how long the run of the last trial took; None if it did not work out."""
    said = _said()
    return float(said["duration_s"]) if said and said["ok"] else None


def _said() -> Mapping[str, Any] | None:
    found = last()
    return None if found is None or found.tried is None else found.tried.said


def section(text: str | None, known: Last | None) -> None:
    """Draw the trial that goes on, or what came of the last one.

    Args:
        text: the sweep file as it is now; None while a field is at fault.
        known: the trial as it was when the page was begun.
    """
    found = last()
    if found is not known:
        st.rerun()  # it ended while the fields above were drawn without what it told
    if found is None:
        return
    with st.container(border=True, key="new-state-trial"):
        if found.tried is None:
            st.fragment(_watch, run_every=_EVERY_S)()
            return
        if text is None or digest_of(text) != found.digest:
            st.caption("Of what was filled in before your last change.")
        _result(found.tried)


def _watch() -> None:
    """Draw how long it has taken, and the button that ends it."""
    attempt = trials().of(_owner())
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Trying one run … {attempt.seconds:.0f} s")
        if st.button("Stop trying", key="new-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _result(tried: Tried) -> None:
    if tried.state == "stopped":
        st.info("The trial was stopped; nothing of it was kept.", icon=":material/stop_circle:")
    elif tried.said is None:
        st.error(words.plain(tried.sentence), icon=":material/error:")
    elif tried.said["ok"]:
        _made(tried.said)
    else:
        _failed(tried.said["failure"])


def _made(said: Mapping[str, Any]) -> None:
    who = "Today's configuration" if said["today"] else "The first configuration"
    st.success(f"{who} was run once; nothing was stored.", icon=":material/check_circle:")
    with st.container(horizontal=True):
        value = quantity(said["value"], said["unit"]).partition(" (")[0]
        st.metric(words.plain(said["objective"]), value, border=True)
        st.metric("The run took", duration(said["duration_s"]), border=True)
        held = "all met" if said["feasible"] else "violated"
        if said["constraints"]:
            st.metric("Constraints", held, border=True)
    st.markdown(words.plain(f"{said['budget'][:1].upper()}{said['budget'][1:]}."))
    if said["note"]:
        st.caption(words.plain(f"{said['note']}."))
    for one in said["constraints"]:
        icon = ":material/check:" if one["met"] else ":material/close:"
        verdict = "met" if one["met"] else "violated"
        st.markdown(f"{icon} {verdict}: {words.plain(one['text'])}")
    with st.expander("All measures"):
        st.dataframe(
            {
                "measure": list(said["measures"]),
                "value": [_measured(name, value) for name, value in said["measures"].items()],
            },
            hide_index=True,
            alt="Every measure that the run gave",
        )
    with st.expander("The configuration"):
        st.dataframe(
            {
                "parameter": list(said["configuration"]),
                "level": [str(value) for value in said["configuration"].values()],
            },
            hide_index=True,
            alt="The levels of the configuration that was run",
        )


def _measured(name: str, value: float | Sequence[float] | None) -> str:
    if isinstance(value, Sequence):
        return f"a series of {len(value):,} numbers, from {number(value[0])} to {number(value[-1])}"
    return quantity(value, unit_of(name))


def _failed(failure: Mapping[str, Any]) -> None:
    st.error(words.plain(f"The run failed: {failure['reason']}."), icon=":material/error:")
    st.markdown(f"**What to change**: {words.plain(failure['advice'])}")
    if failure["command"]:
        st.caption("The command")
        st.code(shlex.join(failure["command"]), language=None, wrap_lines=True)
        code = failure["exit_code"]
        ended = "it was not started" if code is None else f"exit code {code}"
        st.caption(f"in the folder `{failure['folder']}`: {ended}")
    for name, lines in (
        ("standard output", failure["stdout"]), ("standard error", failure["stderr"]),
    ):  # fmt: skip
        if lines:
            st.caption(f"The end of {name}")
            st.code("\n".join(lines), language=None, height=min(320, 40 + 24 * len(lines)))

"""Agents: how much do suggestions help people who know much, nothing, or are wrong?

The page sets a study up and shows what came of it. It is played by a process of its own
(`agents.shelf`), which neither a page that is closed nor one that is killed ends.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
import streamlit as st

from agents import Kept, Shelf, State, Study, study_of, truths
from assistant.applications.workloads import read_log
from assistant.report.words import duration, moment
from assistant.ui.agents import filling, looking
from assistant.ui.agents.draft import KEY, PLAY, Draft, Written, draft_of, written
from assistant.ui.intents import Intent, answer_at, refusal
from assistant.ui.new.fields import Beside
from assistant.ui.new.writing import Fault
from assistant.ui.words import plain

View = Literal["set up", "played"]
_VIEWS: Mapping[View, str] = {"set up": "Set up a study", "played": "Studies"}
_STATES: Mapping[State, str] = {
    "playing": "► playing", "stopped": "◔ stopped", "done": "■ done", "refused": "✗ refused",
    "broken": "✗ broken",
}  # fmt: skip
_VIEW, _OPEN, _GO, _SURE = "agents-view", "agents-open", "agents-go", "agents-sure"
_ACT, _LAST = "agents-act", "agents-last"
_EVERY_S = 1.0


def page(store: Path) -> Intent | None:
    """Draw the page. Returns the wish to play, stop, go on with or remove a study."""
    shelf = _shelf(str(store.absolute()))
    kept = shelf.kept()
    st.title("Agents")
    st.caption(
        "Simulated analysts steer sweeps over spaces whose every configuration was measured: how "
        "much do suggestions help people who know a lot, know nothing, or are wrong?"
    )
    _went(kept)
    view = st.segmented_control(
        "View", list(_VIEWS), key=_VIEW, label_visibility="collapsed", required=True,
        format_func=_VIEWS.__getitem__,
    )  # fmt: skip
    if view == "played":
        return _played(shelf, kept)
    if not kept:
        st.info(
            "No study was played yet. What is filled in below is a small one: *Play* takes "
            "seconds, and what came of it stays here.",
            icon=":material/groups:",
        )
    return _set_up(shelf)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shelf(store: str) -> Shelf:
    return Shelf.beside(Path(store))


def _went(kept: Sequence[Kept]) -> None:
    """Choose what is shown: what a button asked for, what the address names, or what there is."""
    state = st.session_state
    named = st.query_params.get("study") or state.get(_LAST)
    if _GO in state:
        view, name = state.pop(_GO)
        state[_VIEW] = view
        if name:
            state[_OPEN] = name
    elif _VIEW not in state:
        state[_VIEW] = "played" if kept else "set up"
        if any(one.name == named for one in kept):
            state[_OPEN] = named


# -- setting up --------------------------------------------------------------------------------


def _set_up(shelf: Shelf) -> Intent | None:
    filling.from_file()
    beside = Beside()
    draft = filling.draw(beside)
    told = written(draft)
    st.divider()
    places = beside.tell(_with_refusal(told.faults), missing=True)
    for fault in places:
        st.error(plain(fault.text), icon=":material/error:")
    if told.study is not None:
        st.markdown(f":material/grid_on: {_amount(told.study)}")
    answer_at(PLAY)
    pressed = st.button(
        "Play", key=PLAY, type="primary", icon=":material/play_arrow:",
        disabled=told.text is None,
    )  # fmt: skip
    _as_file(told)
    if not pressed or told.text is None:
        return None
    text = told.text

    def do() -> str:
        _looked_at(draft, told)
        name = shelf.start(text, draft.full_name)
        _lead("played", name)
        return ""

    return Intent(PLAY, do, "Starting the study")


def _with_refusal(faults: Sequence[Fault]) -> list[Fault]:
    """Return what is wrong by itself, and what playing it was refused for."""
    told = refusal()
    if told is None or not told.place.startswith(KEY) or faults:
        return list(faults)
    return [Fault(told.place, told.text)]


def _amount(study: Study) -> str:
    n_cells, n = len(study.cells()), study.replications
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    return f"{cells}, {n:,} {'episode' if n == 1 else 'episodes'} each: {n_cells * n:,} episodes."


def _looked_at(draft: Draft, told: Written) -> None:
    """Read what the study needs before anything is kept.

    Raises:
        FieldError: the log or a table cannot be read or played on.
    """
    if draft.log_path is not None:
        try:
            read_log(str(draft.log_path), {})
        except Exception as error:
            raise filling.led_to(f"{KEY}log", error) from error
    if told.study is not None and not draft.applications:
        try:
            truths(told.study)
        except Exception as error:
            raise filling.led_to(f"{KEY}tables", error) from error


def _as_file(told: Written) -> None:
    with st.expander("The same study as a file", icon=":material/description:"):
        if told.text is None:
            st.caption("It stands here once every field is as it should be.")
            return
        st.caption(
            "It gives the same results on any command line of this machine: "
            "`copperline agents run study.toml --to FOLDER`."
        )
        st.code(told.text, language="toml")
        st.download_button(
            "Download the study", told.text, "study.toml", "application/toml",
            key="agents-download", icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def _lead(view: View, name: str = "") -> None:
    """Make a view the one that is drawn next."""
    st.session_state[_GO] = (view, name)


# -- what was played ---------------------------------------------------------------------------


def _played(shelf: Shelf, kept: Sequence[Kept]) -> Intent | None:
    if not kept:
        st.info(
            "No study was played yet. Set one up; what is filled in there takes seconds.",
            icon=":material/groups:",
        )
        answer_at(_ACT)
        return None
    names = {one.name: one for one in kept}
    if st.session_state.get(_OPEN) not in names:
        st.session_state[_OPEN] = kept[0].name
    is_live = any(one.state == "playing" for one in kept)
    st.fragment(_listed, run_every=_EVERY_S if is_live else None)(
        shelf, {one.name: one.state for one in kept}
    )
    name: str = st.selectbox(
        "Study", list(names), key=_OPEN, format_func=lambda name: _label(names[name])
    )
    st.query_params["study"] = st.session_state[_LAST] = name
    answer_at(_ACT)
    return _open(shelf, names[name])


def _label(one: Kept) -> str:
    return one.title if one.title == one.name else f"{one.title} ({one.name})"


def _listed(shelf: Shelf, drawn: Mapping[str, State]) -> None:
    """Draw every study with how far it is; the page is drawn anew once a state is another one."""
    kept = shelf.kept()
    if {one.name: one.state for one in kept} != drawn:
        st.rerun()
    is_live = "playing" in drawn.values()
    rows = [
        {
            "study": one.title,
            "state": _STATES[one.state],
            "how far": _how_far(one).removesuffix(" episodes"),
            **({"time left": _left(one)} if is_live else {}),
            "begun": moment(one.begun_s),
        }
        for one in kept
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="the studies")


def _how_far(one: Kept) -> str:
    told = one.progress
    if one.state == "done":
        return "all"
    if told is None:
        return "beginning" if one.state == "playing" else "nothing yet"
    of = "" if told.total is None else f" of {told.total:,}"
    what = "episodes" if told.stage == "playing" else f"combinations ({told.stage})"
    return f"{told.done:,}{of} {what}"


def _left(one: Kept) -> str:
    if one.state != "playing" or one.progress is None:
        return ""
    left_s = one.progress.left_s
    return "not known yet" if left_s is None else duration(max(0.1, left_s))


def _open(shelf: Shelf, one: Kept) -> Intent | None:
    """Draw a study with what can be done about it."""
    st.header(plain(one.title))
    st.caption(f"Kept in `{one.folder}`.")
    if one.state == "playing":
        return _watched(shelf, one)
    if one.state == "done":
        looking.done(one)
    elif one.state == "stopped":
        st.warning(
            f"Stopped: {_how_far(one)}. What was played is kept, and playing goes on from there.",
            icon=":material/pause_circle:",
        )
    else:
        st.error(plain(one.sentence), icon=":material/error:")
    wish = None
    with st.container(horizontal=True):
        if one.state != "done" and st.button(
            "Go on" if one.state == "stopped" else "Try again",
            key="agents-go-on",
            type="primary",
            icon=":material/play_arrow:",
        ):
            wish = _wish(lambda: shelf.go_on(one.name), "", "Starting the study")
        st.button(
            "Set up one like it", key="agents-again", icon=":material/content_copy:",
            on_click=_again, args=(one,),
        )  # fmt: skip
        if st.session_state.get(_SURE) == one.name:
            if st.button("Yes, remove it with its results", key="agents-remove-sure"):
                wish = _wish(lambda: shelf.remove(one.name), f"{one.title} is removed.", "Removing")
            st.button("Keep it", key="agents-keep", on_click=_ask, args=(None,))
        else:
            st.button(
                "Remove …", key="agents-remove", type="tertiary", on_click=_ask, args=(one.name,)
            )
    return wish


def _watched(shelf: Shelf, one: Kept) -> Intent | None:
    """Draw how far a study is that is being played, and the button that stops it."""
    st.fragment(_bar, run_every=_EVERY_S)(shelf, one.name)
    st.caption(
        "It is played by a process of its own: this page may be closed, and others see the same."
    )
    if st.button("Stop", key="agents-stop", icon=":material/stop:"):
        return _wish(lambda: shelf.stop(one.name), "", "Stopping")
    return None


def _bar(shelf: Shelf, name: str) -> None:
    one = shelf.study(name)
    if one is None or one.state != "playing":
        st.rerun()
    told = one.progress
    if told is None:
        st.progress(0.0, "Beginning")
        return
    left = f", {_left(one)} left" if told.left_s is not None else ""
    share = 0.0 if not told.total else min(1.0, told.done / told.total)
    st.progress(share, f"{_how_far(one)}{left}")


def _wish(act: Callable[[], None], told: str, waiting: str) -> Intent:
    def do() -> str:
        _ask(None)
        act()
        return told

    return Intent(_ACT, do, waiting)


def _ask(name: str | None) -> None:
    """Ask whether a study shall be removed; None asks no more."""
    st.session_state[_SURE] = name


def _again(one: Kept) -> None:
    """Fill the fields in with a study that was played."""
    try:
        filling.put(draft_of(study_of(one)))
    except Exception as error:
        filling.fail(error)
    _lead("set up")

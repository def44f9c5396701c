"""AI platform: one configuration played, a trace looked at, a log beside its simulation."""

from pathlib import Path

import streamlit as st

from assistant.applications.platform_view import Dashboard, traced
from assistant.report.platform import render_dashboard
from assistant.ui import dashboard
from assistant.ui.intents import Intent, sentence
from assistant.ui.platform import likeness, playing
from assistant.ui.words import plain

_KEY = "platform"
_PLAY, _TRACE, _LOG = "Set and play", "A trace", "Beside a log"


def page() -> Intent | None:
    """Draw the page. Returns a wish, if there is one."""
    st.subheader("AI platform")
    view = st.segmented_control(
        "What is looked at", [_PLAY, _TRACE, _LOG], key=f"{_KEY}-what", default=_PLAY,
        required=True, persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view == _TRACE:
        _trace()
        return None
    return likeness.section() if view == _LOG else playing.section()


def _trace() -> None:
    """Draw the choice of a trace and its dashboard."""
    told = st.text_input(
        "Folder of the trace", placeholder="trace", key=f"{_KEY}-folder", persist_state="session",
        help="It holds pipelines.parquet, tasks.parquet and models.parquet. A path is relative to "
        "the folder that the app runs in.",
    )  # fmt: skip
    if not (told or "").strip():
        st.info(
            "Name the folder of a trace. `copperline play ai_platform --trace trace` writes one, "
            "and so does `run_platform(scenario, folder)` in Python.",
            icon=":material/folder_open:",
        )
        return
    folder = Path((told or "").strip()).expanduser()
    try:
        with st.spinner(f"Reading {plain(folder.name)} …"):
            board = _traced(str(folder), _stamp(folder))
    except Exception as error:
        st.error(plain(sentence(error)), icon=":material/error:")
        return
    st.markdown(f"**{plain(board.title)}**")
    st.download_button(
        "Download the dashboard (HTML)", lambda: render_dashboard(board),
        file_name="dashboard.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{_KEY}-trace-html",
    )  # fmt: skip
    dashboard.draw(board, f"{_KEY}-trace")


def _stamp(folder: Path) -> tuple[int, ...]:
    """Return what changes when a trace does."""
    try:
        return tuple(path.stat().st_mtime_ns for path in sorted(folder.glob("*.*")))
    except (OSError, ValueError):
        return ()


@st.cache_resource(max_entries=4, show_spinner=False)
def _traced(folder: str, stamp: tuple[int, ...]) -> Dashboard:  # noqa: ARG001 - a part of the key
    return traced(Path(folder))

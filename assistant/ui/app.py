"""The frame around the pages: what is open, which page is drawn, what is carried out."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from assistant import Experiment
from assistant.door import open_store
from assistant.ports import StoredExperiment
from assistant.ui import learn, reporting, start, steer
from assistant.ui.intents import Intent, forget, perform, sentence
from assistant.ui.runner import Runner, runner_of

_CHOSEN = "experiment"
_Draw = Callable[[Runner, Experiment], Intent | None]


def run(store: Path) -> None:
    """Draw the page that the address names, over a store file that may not exist yet."""
    pages: dict[str, Page] = {}

    def act(intent: Intent | None) -> None:
        if intent is None:
            return
        if perform(intent) and intent.then:
            st.switch_page(pages[intent.then])
        st.rerun()

    def start_page() -> None:
        stored = _stored(store)
        if stored is not None:
            act(start.page(store, stored, _choose))

    def page_of(draw: _Draw) -> Callable[[], None]:
        def drawn() -> None:
            runner = _open_runner(store, pages)
            if runner is None:
                return
            try:
                intent = draw(runner, runner.experiment)
            except Exception as error:
                st.error(sentence(error))
                return
            act(intent)

        return drawn

    pages["start"] = Page(
        start_page, title="Start or open", icon=":material/folder_open:", url_path="start",
        default=True,
    )  # fmt: skip
    shown: tuple[tuple[str, str, str, _Draw], ...] = (
        ("steer", "Steer", ":material/tune:", steer.page),
        ("learn", "Learn", ":material/insights:", learn.page),
        ("report", "Report", ":material/description:", reporting.page),
    )
    for name, title, icon, draw in shown:
        pages[name] = Page(page_of(draw), title=title, icon=icon, url_path=name)
    st.navigation(list(pages.values())).run()


def _choose(experiment_id: str) -> None:
    if st.session_state.get(_CHOSEN) != experiment_id:
        forget()
    st.session_state[_CHOSEN] = experiment_id


def _stored(store: Path) -> tuple[StoredExperiment, ...] | None:
    """Return what is stored; None, with the reason drawn, if the store cannot be read."""
    if not store.exists():
        return ()
    try:
        opened = open_store(store, take_key=False)
        try:
            return opened.experiments()
        finally:
            opened.close()
    except Exception as error:
        st.error(sentence(error))
        return None


def _open_runner(store: Path, pages: dict[str, Page]) -> Runner | None:
    """Return the runner of the open experiment; the address may name one with ?e=."""
    chosen = st.query_params.get("e") or st.session_state.get(_CHOSEN)
    if chosen is None or not store.exists():
        st.title("Copperline")
        st.info("No experiment is open.")
        st.page_link(pages["start"], label="Start or open one", icon=":material/folder_open:")
        return None
    st.session_state[_CHOSEN] = chosen
    st.query_params["e"] = chosen
    try:
        runner = runner_of(str(store), chosen)
        runner.refresh()
    except Exception as error:
        st.error(sentence(error))
        return None
    return runner

"""The frame around the pages: what is open, which page is drawn, what is carried out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from assistant import Experiment
from assistant.errors import ServiceError
from assistant.starting import job_log
from assistant.ui import experiments, reporting
from assistant.ui.agents import page as agents
from assistant.ui.bar import bar, start
from assistant.ui.desk import Office, SharedDesk, office_of
from assistant.ui.effects import page as effects
from assistant.ui.intents import Intent, forget, perform, sentence
from assistant.ui.new import page as new
from assistant.ui.new.opening import Opened
from assistant.ui.overview import page as overview
from assistant.ui.platform import page as platform
from assistant.ui.queue import page as queue
from assistant.ui.run import page as run
from assistant.ui.seeding import heard
from assistant.ui.space import page as space
from assistant.ui.steering import page as steering
from assistant.ui.suggestions import page as suggestions
from assistant.ui.what_if import page as what_if
from assistant.ui.words import plain
from assistant.ui.workload import page as workload

_CHOSEN = "experiment"
_Draw = Callable[[SharedDesk, Experiment], Intent | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of an experiment: its title, its icon, and what draws it."""

    title: str
    icon: str
    draw: _Draw


PAGES: Mapping[str, Shown] = {
    "overview": Shown("Overview", ":material/speed:", overview.page),
    "suggestions": Shown("Suggestions", ":material/lightbulb:", suggestions.page),
    "queue": Shown("Queue", ":material/format_list_numbered:", queue.page),
    "what-if": Shown("What if", ":material/alt_route:", what_if.page),
    "space": Shown("Space", ":material/grid_on:", space.page),
    "effects": Shown("Effects", ":material/insights:", effects.page),
    "run": Shown("Run", ":material/view_timeline:", run.page),
    "steering": Shown("Steering", ":material/tune:", steering.page),
    "report": Shown("Report", ":material/description:", reporting.page),
}
"""The pages of an experiment by their address, in the order of the menu."""


def run_app(store: Path) -> None:
    """Draw the page that the address names, over a store file that may not exist yet."""
    pages: dict[str, Page] = {}

    def act(intent: Intent | None) -> None:
        if intent is None:
            return
        if perform(intent) and intent.then:
            st.switch_page(pages[intent.then])
        st.rerun()

    def guarded(draw: Callable[[Office], Intent | None]) -> Callable[[], None]:
        def drawn() -> None:
            try:
                intent = draw(office_of(str(store)))
            except ServiceError as error:
                st.error(sentence(error), icon=":material/cloud_off:")
                if st.button("Try again", icon=":material/refresh:"):
                    st.rerun()
                return
            except Exception as error:
                st.error(plain(sentence(error)), icon=":material/error:")
                return
            act(intent)

        return drawn

    def of_experiment(draw: _Draw) -> Callable[[Office], Intent | None]:
        def drawn(office: Office) -> Intent | None:
            desk = _open_desk(office, pages)
            if desk is None:
                return None
            experiment = desk.refresh(now=True).experiment
            with st.container():  # a box for each part, so that what comes moves no other
                intent = bar(desk, experiment)
            with st.container():
                return draw(desk, experiment) or intent

        return drawn

    def first(office: Office) -> Intent | None:
        kept = office.kept().experiments() if office.store.exists() else ()
        return experiments.page(office.store, kept, _choose, lambda made: _begin(office, made))

    def making(office: Office) -> Intent | None:
        return new.page(office.store, lambda made: _begin(office, made))

    def log(office: Office) -> Intent | None:
        return workload.page(_log_of(office))

    def aiops(office: Office) -> Intent | None:  # noqa: ARG001 - a page needs no store
        return platform.page()

    def studies(office: Office) -> Intent | None:
        return agents.page(office.store)

    def page(name: str, title: str, icon: str, draw: Callable[[Office], Intent | None]) -> Page:
        pages[name] = Page(
            guarded(draw), title=title, icon=icon, url_path=name, default=name == "experiments"
        )
        return pages[name]

    general = [
        page("experiments", "Experiments", ":material/folder_open:", first),
        page("new", "New", ":material/add_circle:", making),
    ]
    own = [page(name, s.title, s.icon, of_experiment(s.draw)) for name, s in PAGES.items()]
    tools = [
        page("workload", "Workload", ":material/stacked_bar_chart:", log),
        page("platform", "AI platform", ":material/hub:", aiops),
        page("agents", "Agents", ":material/groups:", studies),
    ]
    st.navigation({"": general, "Experiment": own, "Tools": tools}).run()
    heard()


def _begin(office: Office, made: Opened) -> None:
    """Open a new experiment and see that it is executed."""
    _choose(made.session.id)
    desk = office.desk(made.session.id)
    if made.automatic is not None:
        desk.session.hand_over(made.automatic, "from its opening on")
    start(desk)


def _choose(experiment_id: str) -> None:
    if st.session_state.get(_CHOSEN) != experiment_id:
        forget()
    st.session_state[_CHOSEN] = experiment_id
    st.query_params["e"] = experiment_id


def _open_desk(office: Office, pages: Mapping[str, Page]) -> SharedDesk | None:
    """Return the desk of the open experiment; the address may name one with ?e=."""
    chosen = st.query_params.get("e") or st.session_state.get(_CHOSEN)
    if chosen is None:
        st.title("Copperline")
        st.info("No experiment is open.")
        st.page_link(pages["experiments"], label="Start or open one", icon=":material/folder_open:")
        return None
    st.session_state[_CHOSEN] = chosen
    st.query_params["e"] = chosen
    return office.desk(chosen)


def _log_of(office: Office) -> str | None:
    """Return the path of the job log that the open experiment simulates, if it does."""
    chosen = st.session_state.get(_CHOSEN)
    return None if chosen is None else job_log(office.desk(chosen).experiment.opened)

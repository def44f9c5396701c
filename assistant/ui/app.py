"""The frame around the pages: what is open, which page is drawn, what is carried out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from assistant.config.snapshot import job_log
from assistant.core.errors import ServiceError
from assistant.core.experiment import Experiment
from assistant.ui.intents import Intent, forget, perform, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import (
    agents,
    effects,
    experiments,
    new,
    overview,
    platform,
    queue,
    report,
    run,
    space,
    steering,
    suggestions,
    what_if,
    workload,
)
from assistant.ui.pages.new_preview import NewExperiment
from assistant.ui.state import ExperimentViewModel, ServiceConnection, heard, service_connection
from assistant.ui.status_bar import start, status_bar

_EXPERIMENT_KEY = "experiment"
_Draw = Callable[[ExperimentViewModel, Experiment], Intent | None]


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """A page of an experiment: its title, its icon, and what draws it."""

    title: str
    icon: str
    draw: _Draw


PAGES: Mapping[str, ExperimentPage] = {
    "overview": ExperimentPage("Overview", ":material/speed:", overview.page),
    "suggestions": ExperimentPage("Suggestions", ":material/lightbulb:", suggestions.page),
    "queue": ExperimentPage("Queue", ":material/format_list_numbered:", queue.page),
    "what-if": ExperimentPage("What if", ":material/alt_route:", what_if.page),
    "space": ExperimentPage("Space", ":material/grid_on:", space.page),
    "effects": ExperimentPage("Effects", ":material/insights:", effects.page),
    "run": ExperimentPage("Run", ":material/view_timeline:", run.page),
    "steering": ExperimentPage("Steering", ":material/tune:", steering.page),
    "report": ExperimentPage("Report", ":material/description:", report.page),
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

    def guarded(draw: Callable[[ServiceConnection], Intent | None]) -> Callable[[], None]:
        def drawn() -> None:
            try:
                intent = draw(service_connection(str(store)))
            except ServiceError as error:
                st.error(sentence(error), icon=":material/cloud_off:")
                if st.button("Try again", icon=":material/refresh:"):
                    st.rerun()
                return
            except Exception as error:
                st.error(escape_markdown(sentence(error)), icon=":material/error:")
                return
            act(intent)

        return drawn

    def of_experiment(draw: _Draw) -> Callable[[ServiceConnection], Intent | None]:
        def drawn(office: ServiceConnection) -> Intent | None:
            desk = _open_view(office, pages)
            if desk is None:
                return None
            experiment = desk.refresh(now=True).experiment
            with st.container():  # a box for each part, so that what comes moves no other
                intent = status_bar(desk, experiment)
            with st.container():
                return draw(desk, experiment) or intent

        return drawn

    def first(office: ServiceConnection) -> Intent | None:
        kept = office.kept().experiments() if office.store.exists() else ()
        return experiments.page(office.store, kept, _choose, lambda made: _begin(office, made))

    def making(office: ServiceConnection) -> Intent | None:
        return new.page(office.store, lambda made: _begin(office, made))

    def log(office: ServiceConnection) -> Intent | None:
        return workload.page(_log_of(office))

    def aiops(office: ServiceConnection) -> Intent | None:  # noqa: ARG001 - a page needs no store
        return platform.page()

    def studies(office: ServiceConnection) -> Intent | None:
        return agents.page(office.store)

    def page(
        name: str, title: str, icon: str, draw: Callable[[ServiceConnection], Intent | None]
    ) -> Page:
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


def _begin(office: ServiceConnection, made: NewExperiment) -> None:
    """Open a new experiment and see that it is executed."""
    _choose(made.session.id)
    desk = office.desk(made.session.id)
    if made.automatic is not None:
        desk.session.hand_over(made.automatic, "from its opening on")
    start(desk)


def _choose(experiment_id: str) -> None:
    if st.session_state.get(_EXPERIMENT_KEY) != experiment_id:
        forget()
    st.session_state[_EXPERIMENT_KEY] = experiment_id
    st.query_params["e"] = experiment_id


def _open_view(office: ServiceConnection, pages: Mapping[str, Page]) -> ExperimentViewModel | None:
    """Return the desk of the open experiment; the address may name one with ?e=."""
    chosen = st.query_params.get("e") or st.session_state.get(_EXPERIMENT_KEY)
    if chosen is None:
        st.title("Copperline")
        st.info("No experiment is open.")
        st.page_link(pages["experiments"], label="Start or open one", icon=":material/folder_open:")
        return None
    st.session_state[_EXPERIMENT_KEY] = chosen
    st.query_params["e"] = chosen
    return office.desk(chosen)


def _log_of(office: ServiceConnection) -> str | None:
    """Return the path of the job log that the open experiment simulates, if it does."""
    chosen = st.session_state.get(_EXPERIMENT_KEY)
    return None if chosen is None else job_log(office.desk(chosen).experiment.opened)

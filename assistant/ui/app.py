"""The Streamlit app around the pages: opens experiments, draws pages, executes user requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

from assistant.config.snapshot import job_log
from assistant.core.errors import ServiceError
from assistant.core.experiment import Experiment
from assistant.core.ports import StoredExperiment
from assistant.service.browser_access import is_guarded
from assistant.ui.charting import forget_charts, save_menu
from assistant.ui.intents import Intent, forget, perform, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.new_preview import NewExperiment
from assistant.ui.state import (
    ExperimentViewModel,
    ServiceConnection,
    mark_rendered,
    service_connection,
)
from assistant.ui.status_bar import start, status_bar

_EXPERIMENT_KEY = "experiment"
_STYLE = """<style>
[data-testid=stMainBlockContainer] { padding-top: 3.25rem; }
[data-testid=stMainBlockContainer] h1 { font-size: 2rem; }
[data-testid=stButtonGroup] { max-width: 100%; }
[data-testid=stButtonGroup] > div { flex-wrap: wrap; }
@media (max-width: 1100px) {
  [data-testid=stMainBlockContainer] [data-testid=stHorizontalBlock]:has(> [data-testid=stColumn]) {
    flex-wrap: wrap; }
  [data-testid=stMainBlockContainer] [data-testid=stColumn] { min-width: min(16rem, 100%); }
}
@media (max-width: 1000px) {
  [data-testid=stMetric] { padding: 0.4rem 0.6rem; }
  [data-testid=stMetric] > * { padding: 0; }
  [data-testid=stMetricValue] { font-size: 1.15rem; }
  [data-testid=stMetricDelta] { font-size: 0.75rem; }
  [data-testid=stMetricValue] *, [data-testid=stMetricDelta], [data-testid=stMetricDelta] * {
    white-space: normal !important; overflow: visible; text-overflow: clip; max-width: 100%;
    height: auto; }
}
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] [data-testid=stVerticalBlock] { gap: 0.7rem; }
  [data-testid=stMainBlockContainer] [data-testid=stHorizontalBlock] { row-gap: 0.5rem; }
  [data-testid=stColumn]:has([class*=st-key-later-]),
  [data-testid=stLayoutWrapper]:has(> [class*=st-key-later-]) { order: 1; }
}
@media print {
  [data-testid=stSidebar], [data-testid=stHeader], button { display: none !important; }
}
</style>"""
"""Less space above a page, columns that wrap beside an open menu, and no buttons on paper.

On a phone tiles are small, and a container with a key ``later-...`` follows those beside it: the
first chart is on the first screen.
"""
_Draw = Callable[[ExperimentViewModel, Experiment], Intent | None]


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """Menu entry of one experiment page: title, icon, and module name in `assistant.ui.pages`."""

    title: str
    icon: str
    module: str

    def draw(self, view: ExperimentViewModel, experiment: Experiment) -> Intent | None:
        """Draw the page and return the action that the user requested, or None."""
        intent: Intent | None = _module(self.module).page(view, experiment)
        return intent


PAGES: Mapping[str, ExperimentPage] = {
    "overview": ExperimentPage("Overview", ":material/speed:", "overview"),
    "suggestions": ExperimentPage("Suggestions", ":material/lightbulb:", "suggestions"),
    "queue": ExperimentPage("Queue", ":material/format_list_numbered:", "queue"),
    "what-if": ExperimentPage("What if", ":material/alt_route:", "what_if"),
    "space": ExperimentPage("Space", ":material/grid_on:", "space"),
    "effects": ExperimentPage("Effects", ":material/insights:", "effects"),
    "run": ExperimentPage("Run", ":material/view_timeline:", "run"),
    "steering": ExperimentPage("Steering", ":material/tune:", "steering"),
    "report": ExperimentPage("Report", ":material/description:", "report"),
}
"""Pages of an experiment by their name in the address, in the order of the menu."""


UNGUARDED = (
    "These pages are served without access control, so they show nothing. Start them with "
    "`copperline app`, or with `streamlit run streamlit_app.py`."
)


def _module(name: str) -> Any:
    """Return the module of a page; it is imported when it is first drawn."""
    return import_module(f"assistant.ui.pages.{name}")


def import_pages() -> None:
    """Import the modules of all pages in advance, so that the first drawing of a page is fast."""
    for name in ("experiments", "new", "compare", "workload", "platform", "agents"):
        _module(name)
    for entry in PAGES.values():
        _module(entry.module)


def run_app(store: Path) -> None:
    """Draw the page in the browser's URL, for an experiment store that may not exist yet.

    Nothing is drawn if the pages of this process are served without access control.
    """
    if not is_guarded():
        st.error(UNGUARDED, icon=":material/lock:")
        return
    st.html(_STYLE)
    pages: dict[str, Page] = {}

    def act(intent: Intent | None) -> None:
        if intent is None:
            return
        if perform(intent) and intent.then:
            st.switch_page(pages[intent.then])
        st.rerun()

    def guarded(draw: Callable[[ServiceConnection], Intent | None]) -> Callable[[], None]:
        def draw_page() -> None:
            forget_charts()
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
            save_menu()
            act(intent)

        return draw_page

    def of_experiment(name: str, draw: _Draw) -> Callable[[ServiceConnection], Intent | None]:
        def draw_page(connection: ServiceConnection) -> Intent | None:
            view_model = _open_view(connection, pages)
            if view_model is None:
                return None
            experiment = view_model.refresh(now=True).experiment
            with st.container():  # one box for each part, so that a new message moves no other part
                intent = status_bar(view_model, experiment, name)
            with st.container():
                return draw(view_model, experiment) or intent

        return draw_page

    def comparing(connection: ServiceConnection) -> Intent | None:
        stored = connection.http_store().experiments() if connection.store.exists() else ()
        intent: Intent | None = _module("compare").page(
            stored,
            lambda experiment_id: connection.view_model(experiment_id).refresh(now=True).experiment,
        )
        return intent

    def making(connection: ServiceConnection) -> Intent | None:
        intent: Intent | None = _module("new").page(
            connection.store, lambda opened: _begin(connection, opened)
        )
        return intent

    def page(
        name: str,
        title: str,
        icon: str,
        draw: Callable[[ServiceConnection], Intent | None],
        *,
        is_listed: bool = True,
    ) -> Page:
        pages[name] = Page(
            guarded(draw), title=title, icon=icon, url_path=name, default=name == "experiments",
            visibility="visible" if is_listed else "hidden",
        )  # fmt: skip
        return pages[name]

    general = [
        page("experiments", "Experiments", ":material/folder_open:", _experiments),
        page("new", "New", ":material/add_circle:", making),
        page("compare", "Compare", ":material/compare_arrows:", comparing),
    ]
    is_open = _open_id() is not None
    of_open_experiment = [
        page(name, s.title, s.icon, of_experiment(name, s.draw), is_listed=is_open)
        for name, s in PAGES.items()
    ]
    labs = [
        page("workload", "Workload", ":material/stacked_bar_chart:", _workload),
        page("platform", "AI platform", ":material/hub:", _platform),
        page("agents", "Agents", ":material/groups:", _agents),
    ]
    st.navigation({"": general, "Experiment": of_open_experiment, "Labs": labs}).run()
    mark_rendered()


def _experiments(connection: ServiceConnection) -> Intent | None:
    stored: tuple[StoredExperiment, ...] = ()
    deleted: tuple[StoredExperiment, ...] = ()
    if connection.store.exists():
        kept = connection.http_store()
        stored, deleted = kept.experiments(), kept.experiments(deleted=True)
    if _open_id() in [entry.id for entry in deleted]:
        _close_experiment()
        st.rerun()
    intent: Intent | None = _module("experiments").page(
        connection.store, stored, deleted, _choose, lambda opened: _begin(connection, opened)
    )
    return intent


def _workload(connection: ServiceConnection) -> Intent | None:
    intent: Intent | None = _module("workload").page(_log_of(connection))
    return intent


def _platform(connection: ServiceConnection) -> Intent | None:  # noqa: ARG001 - a page needs no store
    intent: Intent | None = _module("platform").page()
    return intent


def _agents(connection: ServiceConnection) -> Intent | None:
    intent: Intent | None = _module("agents").page(connection.store)
    return intent


def _begin(connection: ServiceConnection, opened: NewExperiment) -> None:
    _choose(opened.session.id)
    view_model = connection.view_model(opened.session.id)
    if opened.auto_steering is not None:
        view_model.session.set_auto_steering(opened.auto_steering, "set at the opening")
    start(view_model)


def _choose(experiment_id: str) -> None:
    if st.session_state.get(_EXPERIMENT_KEY) != experiment_id:
        forget()
    st.session_state[_EXPERIMENT_KEY] = experiment_id
    st.query_params["e"] = experiment_id


def _close_experiment() -> None:
    st.session_state.pop(_EXPERIMENT_KEY, None)
    st.query_params.pop("e", None)


def _open_id() -> str | None:
    """Return the id of the open experiment; the address may name one with ``?e=``."""
    experiment_id: str | None = st.query_params.get("e") or st.session_state.get(_EXPERIMENT_KEY)
    return experiment_id


def _open_view(
    connection: ServiceConnection, pages: Mapping[str, Page]
) -> ExperimentViewModel | None:
    """Return the view of the open experiment, or say that none is open and return None."""
    experiment_id = _open_id()
    if experiment_id is None:
        st.title("Copperline")
        st.info("No experiment is open.")
        st.page_link(pages["experiments"], label="Start or open one", icon=":material/folder_open:")
        return None
    st.session_state[_EXPERIMENT_KEY] = experiment_id
    st.query_params["e"] = experiment_id
    return connection.view_model(experiment_id)


def _log_of(connection: ServiceConnection) -> str | None:
    experiment_id = st.session_state.get(_EXPERIMENT_KEY)
    return (
        None
        if experiment_id is None
        else job_log(connection.view_model(experiment_id).experiment.opened)
    )

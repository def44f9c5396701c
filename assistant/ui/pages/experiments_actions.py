"""Actions on the experiments that are ticked on the front page, and the deleted ones to restore."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from assistant.analysis.experiment_state import refuse_if_executed
from assistant.client.remote_session import RemoteSession
from assistant.core.ports import StoredExperiment
from assistant.core.run import RunState
from assistant.presentation.tables.experiment_comparison import FEWEST, MOST
from assistant.service.store_connection import StoreConnection, needs_service, open_store
from assistant.session.opening import load_session
from assistant.session.session import Session
from assistant.ui import labels
from assistant.ui.intents import Intent
from assistant.ui.pages.compare import CHOSEN
from assistant.ui.state import put

_ASKED = "experiments-delete"  # Ids of the experiments whose deletion is asked about
_JUST_DELETED = "experiments-just-deleted"


def actions(
    store: Path,
    place: str,
    ticked: Sequence[StoredExperiment],
    n_runs: int,
    tags: Sequence[str],
    duplicate: Callable[[], str],
) -> Intent | None:
    """Draw what can be done with the ticked experiments; return what was requested, or None.

    Args:
        store: file that the experiments are in.
        place: of the messages on the page.
        ticked: at least one experiment.
        n_runs: of all ticked experiments together.
        tags: of all experiments, to choose from.
        duplicate: fills *New* with the settings of the first ticked one.
    """
    is_one = len(ticked) == 1
    with st.container(horizontal=True, vertical_alignment="center", key="experiment-actions"):
        st.markdown(f"**{len(ticked)} selected**", width="content")
        intent = _rename(store, place, ticked[0], is_one)
        intent = _tag(store, place, ticked, tags) or intent
        if st.button(
            "Duplicate", icon=":material/content_copy:", key="duplicate", disabled=not is_one,
            help="Fill in *New* with the settings of this experiment; nothing is started.",
        ):  # fmt: skip
            intent = Intent(place, duplicate, "Reading", then="new")
        intent = _compare(place, [one.id for one in ticked]) or intent
        is_pressed = st.button("Delete", icon=":material/delete:", key="delete")
    return _delete(store, place, ticked, n_runs, is_pressed) or intent


def _rename(store: Path, place: str, stored: StoredExperiment, is_one: bool) -> Intent | None:
    key = f"{stored.id}-{stored.name}"  # once it is renamed, the field closes
    with (
        st.popover("Rename", icon=":material/edit:", disabled=not is_one, key=f"rename-{key}"),
        st.form(f"rename-form-{key}", border=False),
    ):
        name = st.text_input("New name", stored.name, key=f"rename-name-{key}")
        if not st.form_submit_button("Rename it", type="primary", key="rename-it"):
            return None

    def do() -> str:
        with _sessions(store, [stored]) as (_, (session,)):
            session.rename(name)
            return f"'{stored.name}' is now called '{session.experiment.opened.name}'."

    return Intent(place, do, "Renaming")


def _tag(
    store: Path, place: str, ticked: Sequence[StoredExperiment], tags: Sequence[str]
) -> Intent | None:
    common = [tag for tag in ticked[0].tags if all(tag in one.tags for one in ticked)]
    key = "-".join([*(one.id for one in ticked), *common])  # once they are saved, the field closes
    with (
        st.popover("Tag", icon=":material/label:", key=f"tag-{key}"),
        st.form(f"tag-form-{key}", border=False),
    ):
        chosen: list[str] = st.multiselect(
            "Tags" if len(ticked) == 1 else "Tags of all that are selected", tags, common,
            key=f"tags-{key}", accept_new_options=True, placeholder="Choose, or type a new one",
        )  # fmt: skip
        if not st.form_submit_button("Save the tags", type="primary", key="save-tags"):
            return None
    add = [tag for tag in chosen if tag not in common]
    remove = [tag for tag in common if tag not in chosen]

    def do() -> str:
        with _sessions(store, ticked) as (_, sessions):
            for session in sessions:
                session.tag(add, [tag for tag in remove if tag in session.experiment.tags])
            if len(sessions) > 1:
                return f"The tags of {_count(len(sessions))} are saved."
            present = ", ".join(sessions[0].experiment.tags) or "none"
            return f"'{ticked[0].name}' has the tags: {present}."

    return Intent(place, do, "Saving the tags")


def _compare(place: str, experiment_ids: Sequence[str]) -> Intent | None:
    if not st.button(
        "Compare", icon=":material/compare_arrows:", key="compare",
        disabled=not FEWEST <= len(experiment_ids) <= MOST,
        help=f"Tick {FEWEST} to {MOST} experiments to see them beside each other.",
    ):  # fmt: skip
        return None

    def do() -> str:
        put(CHOSEN, list(experiment_ids))
        return ""

    return Intent(place, do, then="compare")


# -- deletion --------------------------------------------------------------------------------------


def _delete(
    store: Path, place: str, ticked: Sequence[StoredExperiment], n_runs: int, is_pressed: bool
) -> Intent | None:
    """Draw the question before experiments are deleted; another selection drops it."""
    experiment_ids = tuple(one.id for one in ticked)
    if is_pressed:
        st.session_state[_ASKED] = experiment_ids
    if st.session_state.get(_ASKED) != experiment_ids:
        return None
    name = f"'{ticked[0].name}'" if len(ticked) == 1 else _count(len(ticked))
    back = "It" if len(ticked) == 1 else "They"
    with st.container(border=True):
        st.warning(
            labels.escape_markdown(
                f"Delete {name} with {labels.runs(n_runs)}? {back} can be restored."
            ),
            icon=":material/delete:",
        )
        with st.container(horizontal=True):
            is_sure = st.button(
                f"Yes, delete {_count(len(ticked))}", type="primary", key="delete-sure"
            )
            if st.button("Keep it" if len(ticked) == 1 else "Keep them", key="delete-keep"):
                st.session_state.pop(_ASKED, None)
                st.rerun()
    if not is_sure:
        return None

    def do() -> str:
        st.session_state.pop(_ASKED, None)
        delete(store, ticked)
        st.session_state[_JUST_DELETED] = experiment_ids
        return f"{name[:1].upper()}{name[1:]} {'is' if len(ticked) == 1 else 'are'} deleted."

    return Intent(place, do, "Deleting")


def delete(store: Path, listed: Sequence[StoredExperiment]) -> None:
    """Delete experiments, so that lists leave them out; those that are started are paused first.

    Raises:
        SettingsError: another process executes one of them; then none is deleted.
        ExperimentError: runs of one are running, or it is deleted already.
    """
    with _sessions(store, listed) as (opened, sessions):
        to_pause = [session for session in sessions if _must_pause(opened, session)]
        for session in to_pause:
            _pause(store, session.id)
        for session in sessions:
            session.catch_up()
            session.delete()


def _must_pause(opened: StoreConnection, session: Session) -> bool:
    """Return whether an experiment is started but no run is running, or refuse its deletion."""
    execution = opened.execution(session.id)
    is_busy = execution.in_process or session.experiment.n_in(RunState.RUNNING) > 0
    if is_busy:
        refuse_if_executed(session.experiment, execution)
    return execution.active and not is_busy


def _pause(store: Path, experiment_id: str) -> None:
    link = needs_service(store)
    try:
        RemoteSession(link, experiment_id).pause()
    finally:
        link.close()


def restore_just_deleted(
    store: Path, place: str, deleted: Sequence[StoredExperiment]
) -> Intent | None:
    """Draw the button that undoes the last deletion, below its message."""
    last = st.session_state.get(_JUST_DELETED, ())
    listed = [one for one in deleted if one.id in last]
    if listed and st.button(
        "Restore" if len(listed) == 1 else f"Restore {_count(len(listed))}",
        icon=":material/undo:", key="restore-just-deleted",
    ):  # fmt: skip
        return _restoring(store, place, listed)
    return None


def deleted_section(store: Path, place: str, deleted: Sequence[StoredExperiment]) -> Intent | None:
    """Draw the deleted experiments, each with a button that restores it."""
    if not deleted:
        return None
    intent = None
    with st.expander(f"Deleted: {_count(len(deleted))}", icon=":material/delete:"):
        for one in deleted:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(labels.escape_markdown(one.name), width="stretch")
                if st.button("Restore", icon=":material/undo:", key=f"restore-{one.id}"):
                    intent = _restoring(store, place, [one])
        st.caption("To remove one for good, end the pages; then `copperline delete NAME --purge`.")
    return intent


def _restoring(store: Path, place: str, listed: Sequence[StoredExperiment]) -> Intent:
    def do() -> str:
        with _sessions(store, listed) as (_, sessions):
            for session in sessions:
                session.undelete()
        st.session_state.pop(_JUST_DELETED, None)
        return (
            f"'{listed[0].name}' is back."
            if len(listed) == 1
            else f"{_count(len(listed))} are back."
        )

    return Intent(place, do, "Restoring")


@contextmanager
def _sessions(
    store: Path, listed: Sequence[StoredExperiment]
) -> Iterator[tuple[StoreConnection, list[Session]]]:
    """Open the store for a ``with`` block; yield it with a session of each experiment."""
    opened = open_store(store, take_key=False)
    try:
        yield opened, [load_session(opened, one.id) for one in listed]
    finally:
        opened.close()


def _count(n: int) -> str:
    return "1 experiment" if n == 1 else f"{n:,} experiments"

"""What this screen holds: which batch is shown, and the list that is being made of it.

The batch stays the one that was first drawn until it is let go. The table of the list is drawn from
a base, over which the browser keeps what is edited; the base changes only where rows are added or
ticked together, or where the page was left and with it what the browser kept. It stands in the
address of the page as well, so that base and edits come together again after the server was
restarted: the key of the table follows from the base alone.
"""

import zlib

import streamlit as st

from assistant import BatchSuggested, Experiment
from assistant.ui.suggestions.draft import MOST_TEXT, Draft

_PARAMETER = "list"


def release(experiment_id: str) -> None:
    """Let the next drawing show the batch that is open then."""
    st.session_state.pop(_held(experiment_id), None)


def batch_on_screen(experiment: Experiment) -> BatchSuggested | None:
    """Return the batch that this screen shows: the open one when it was first drawn."""
    key = _held(experiment.opened.experiment_id)
    number = st.session_state.get(key)
    if number is None:
        batch = experiment.open_batch
        if batch is not None:
            st.session_state[key] = batch.number
        return batch
    return experiment.batches[number - 1] if number <= len(experiment.batches) else None


def base(experiment: Experiment, batch: BatchSuggested | None) -> Draft:
    """Return what the table is drawn from."""
    of = _of(experiment, batch)
    kept: Draft | None = st.session_state.get(f"base-{of}")
    if kept is None:
        n = 0 if batch is None else len(batch.suggestions)
        text = st.query_params.get(_PARAMETER, "")
        kept = Draft.read(text, of, n, experiment.space) if text else Draft()
    elif table_key(experiment, batch, kept) not in st.session_state:
        # The page was left, and its widgets are forgotten: what they held goes into the base.
        kept = st.session_state.get(f"draft-{of}", kept)
    st.session_state[f"base-{of}"] = kept
    _into_address("" if kept.is_empty else kept.text(of))
    return kept


def keep(experiment: Experiment, batch: BatchSuggested | None, draft: Draft) -> None:
    """Keep the list as the table shows it."""
    st.session_state[f"draft-{_of(experiment, batch)}"] = draft


def kept(experiment: Experiment, batch: BatchSuggested | None) -> Draft:
    """Return the list as it was last kept; an empty one if none was."""
    draft: Draft = st.session_state.get(f"draft-{_of(experiment, batch)}", Draft())
    return draft


def put(experiment: Experiment, batch: BatchSuggested | None, draft: Draft) -> None:
    """Draw the table from another base next time."""
    of = _of(experiment, batch)
    st.session_state[f"base-{of}"] = st.session_state[f"draft-{of}"] = draft


def table_key(experiment: Experiment, batch: BatchSuggested | None, drawn_from: Draft) -> str:
    """Return the key of the table: the same wherever and whenever it is drawn from this base."""
    of = _of(experiment, batch)
    return f"editor-{of}-{zlib.crc32(drawn_from.text(of).encode()):08x}"


def _held(experiment_id: str) -> str:
    return f"held-{experiment_id}"


def _of(experiment: Experiment, batch: BatchSuggested | None) -> str:
    return f"{experiment.opened.experiment_id}-{0 if batch is None else batch.number}"


def _into_address(text: str) -> None:
    if text and len(text) <= MOST_TEXT:
        if st.query_params.get(_PARAMETER) != text:
            st.query_params[_PARAMETER] = text
    elif _PARAMETER in st.query_params:
        del st.query_params[_PARAMETER]

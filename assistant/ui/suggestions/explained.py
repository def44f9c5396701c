"""The full explanation of a suggestion, in a dialog over the page."""

from dataclasses import asdict

import pandas as pd
import streamlit as st

from assistant import BatchSuggested, Experiment
from assistant.report.why import explanation
from assistant.ui import words


@st.dialog("Why it was suggested", width="large")
def dialog(experiment: Experiment, batch: BatchSuggested) -> None:
    """Draw why each suggestion of a batch was made, one at a time."""
    at = st.selectbox(
        "Suggestion",
        range(len(batch.suggestions)),
        format_func=lambda i: (
            f"no. {i + 1}: "
            + words.settings_of(experiment.space, batch.suggestions[i].configuration)
        ),
        key=f"explain-{experiment.opened.experiment_id}-{batch.number}",
    )
    told = explanation(experiment, batch.suggestions[at])
    for said in told.sentences:
        st.markdown(words.plain(said))
    unit = experiment.opened.objective.unit
    value = words.titled(str(experiment.opened.objective.wrapper), unit)
    rows = pd.DataFrame([asdict(row) for row in told.levels])
    rows.columns = pd.Index(
        ["parameter", "level", "best run has", "typical with this level", "runs with it"]
    )
    st.dataframe(rows, hide_index=True, width="stretch", alt=f"levels of suggestion {at + 1}")
    st.caption(
        f"Typical: the {words.plain(value)} to expect of a configuration with this level, averaged "
        "over all others, with a 95% interval."
    )

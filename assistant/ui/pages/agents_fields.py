"""The fields of a study form, filled by hand or from a study file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from agents import AGENTS
from assistant.applications.scheduling import presets
from assistant.core.files import MOST_BYTES
from assistant.simtools.measured_tables import NAMES
from assistant.ui.intents import FormFieldError, forget, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import new_fields
from assistant.ui.pages.agents_draft import (
    KEY,
    LEARNS,
    LEARNS_NOT,
    NO_ADVICE,
    Accepts,
    Ends,
    StudyDraft,
    draft_of,
)
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.state import seed
from strategies import strategy_entry, strategy_names

_DRAFT, _FAULT, _SEEN, _TOLD = (
    "agents-draft", "agents-file-fault", "agents-file-seen", "agents-file-told",
)  # fmt: skip
_PASTED = "agents-pasted"
_APPLICATIONS: Mapping[str, str] = {
    "maze": "maze (54 configurations, seconds)",
    "flood": "flood (1,296, about 15 s to measure)",
    "scheduling": "scheduling (8,800, a minute or more to measure)",
}
_INSIGHTS = ("good", "none", "bad")
_LEVELS = (NO_ADVICE, "0", "0.33", "0.66", "1")
_ENDS: Mapping[Ends, str] = {"optimum": "at the optimum", "budget": "with a budget of runs"}
_ACCEPTS: tuple[Accepts, ...] = ("always", "never", "sometimes")


def current_study_draft() -> StudyDraft:
    """Return the draft of the study in this browser."""
    study_draft: StudyDraft = st.session_state.setdefault(_DRAFT, StudyDraft())
    return study_draft


def from_file() -> None:
    """Draw the upload of a study file; a file that cannot be read changes no field."""
    with st.expander("Begin with a study file", icon=":material/upload_file:"):
        st.caption(
            "What `copperline agents run` reads. Its paths are relative to the folder that the app "
            "runs in."
        )
        uploaded = st.file_uploader(
            "A study (TOML)", type=("toml",), key="agents-upload",
            max_upload_size=MOST_BYTES // 2**20,
        )  # fmt: skip
        if uploaded is not None and st.session_state.get(_SEEN) != uploaded.file_id:
            st.session_state[_SEEN] = uploaded.file_id
            try:
                _take(uploaded.getvalue().decode("utf-8-sig"))
            except ValueError:
                st.session_state[_FAULT] = "The uploaded file is not UTF-8 text."
        st.text_area("or paste it", key=_PASTED, height=140, placeholder='applications = ["maze"]')
        st.button("Fill the fields in with it", key="agents-fill", on_click=_pasted)
        if st.session_state.get(_FAULT):
            st.error(escape_markdown(st.session_state[_FAULT]), icon=":material/error:")
        elif st.session_state.get(_TOLD):
            st.success("The fields below say what the file says.", icon=":material/check:")


def _pasted() -> None:
    _take(st.session_state.get(_PASTED) or "")


def _take(text: str) -> None:
    """Fill all fields from a study file; show the fault of a wrong file and change nothing."""
    st.session_state[_TOLD] = False
    try:
        fill_fields(draft_of(text))
    except Exception as error:
        fail(error)
        return
    st.session_state[_FAULT], st.session_state[_TOLD] = "", True


def fail(error: Exception) -> None:
    """Show why a study file cannot be used."""
    st.session_state[_FAULT], st.session_state[_TOLD] = sentence(error), False


def fill_fields(filled: StudyDraft) -> None:
    """Fill the fields; call this before they are drawn."""
    new_fields.leave(KEY)
    st.session_state[_DRAFT] = filled


def draw_study_fields(beside: FieldMessages) -> StudyDraft:
    """Draw the fields; keep and return the draft."""
    study_draft = current_study_draft()
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("What is searched")
        study_draft = _spaces(study_draft, beside)
        st.subheader("When an episode ends")
        study_draft = _ends(study_draft, beside)
        st.subheader("How much is played")
        study_draft = _amount(study_draft, beside)
    with right:
        st.subheader("Who searches")
        study_draft = _analysts(study_draft, beside)
    if study_draft.extra_tables:
        st.caption(
            escape_markdown(
                f"Kept from the study file: {', '.join(_names(study_draft.extra_tables))}."
            )
        )
    if study_draft != st.session_state[_DRAFT]:
        st.session_state[_DRAFT] = study_draft
        forget()  # a refusal is about the draft before this change
    return study_draft


def _names(tables: Mapping[str, Any]) -> list[str]:
    return sorted(
        f"{table}.{name}" if isinstance(entries, Mapping) else table
        for table, entries in tables.items()
        for name in (entries if isinstance(entries, Mapping) else ("",))
    )


def _spaces(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    applications = new_fields.several(
        f"{KEY}applications", "Applications", draft.applications,
        [name for name in _APPLICATIONS if name in NAMES], others=False,
        format_func=lambda name: _APPLICATIONS.get(name, name),
        help="Measured whole before the first episode, once for all studies. "
        + " ".join(f"{preset.name}: {preset.summary}" for preset in presets()
                       if preset.name in NAMES),
    )  # fmt: skip
    beside.at(f"{KEY}applications")
    draft = replace(draft, applications=applications)
    if "scheduling" in applications:
        log = new_fields.text(
            f"{KEY}log", "Job log of scheduling", draft.log,
            placeholder="empty for the built-in workload, or logs/your.swf.gz",
            help="SWF, plain or gzipped. A path is relative to the folder that the app runs in.",
        )  # fmt: skip
        first = new_fields.count(
            f"{KEY}first", "Only its first jobs", draft.first, 1, placeholder="all of them"
        )
        beside.at(f"{KEY}log")
        draft = replace(draft, log=log, first=first)
    tables = new_fields.area(
        f"{KEY}tables", "Measured tables (CSV), one path a line", draft.tables, height=68,
        placeholder="none",
        help="A row per configuration: parameter columns, then `objective`, which is minimised. "
        "`copperline tabulate` makes one.",
    )  # fmt: skip
    beside.at(f"{KEY}tables")
    strategies = new_fields.several(
        f"{KEY}strategies", "Strategies that make the suggestions", draft.strategies,
        [*strategy_names(), *map(str, draft.file_strategies)], others=False,
        help=" ".join(f"{name}: {strategy_entry(name).summary}" for name in strategy_names()),
    )  # fmt: skip
    beside.at(f"{KEY}strategies")
    return replace(draft, tables=tables, strategies=strategies)


def _analysts(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    kinds = new_fields.several(
        f"{KEY}kinds", "Kinds of analyst", draft.kinds, [entry.name for entry in AGENTS],
        others=False, help=" ".join(f"{entry.name}: {entry.summary}" for entry in AGENTS),
    )  # fmt: skip
    beside.at(f"{KEY}kinds")
    draft = replace(draft, kinds=kinds)
    if draft.has("insight"):
        insights = new_fields.several(
            f"{KEY}insights", "Insight", draft.insights, _INSIGHTS, others=False,
            help="What she believes of the space: good ones hold the optimum, bad ones are from "
            "the worse half, and none is a draw from everything.",
        )  # fmt: skip
        beside.at(f"{KEY}insights")
        draft = replace(draft, insights=insights)
    if draft.has("confidence"):
        confidences = new_fields.several(
            f"{KEY}confidences", "Confidence [%]", draft.confidences,
            [str(entry) for entry in range(0, 101, 10)],
            help="How many of the runs are Copperline's suggestions; the others are her own.",
        )  # fmt: skip
        beside.at(f"{KEY}confidences")
        draft = replace(draft, confidences=confidences)
    if draft.has("learning"):
        learning = new_fields.several(
            f"{KEY}learning", "Learning", draft.learning, (LEARNS_NOT, LEARNS), others=False,
            help="Whether results change what she tries next.",
        )  # fmt: skip
        beside.at(f"{KEY}learning")
        draft = replace(draft, learning=learning)
    return _manner(draft) if draft.has("acceptance") else draft


def _manner(draft: StudyDraft) -> StudyDraft:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        accepts = new_fields.choice(
            f"{KEY}accepts", "Accepts advice", draft.accepts, _ACCEPTS, width=160
        )
        share = draft.share
        if accepts == "sometimes":
            percent = new_fields.count(f"{KEY}share", "in so many of 100", share, 0, 100, width=150)
            share = share if percent is None else percent
        key = f"{KEY}reaction"
        seed(key, draft.reaction_s)
        reaction_s = st.number_input(
            "Seconds to react", 0.0, 1e9, value=None, step=1.0, key=key, width=170,
            help="Simulated seconds before she answers; they matter where there is a deadline.",
        )  # fmt: skip
    return replace(
        draft, accepts=accepts, share=share,
        reaction_s=draft.reaction_s if reaction_s is None else float(reaction_s),
    )  # fmt: skip


def _ends(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    key = f"{KEY}ends"
    seed(key, draft.ends)
    ends: Ends = st.radio(
        "An episode ends", list(_ENDS), format_func=_ENDS.__getitem__, horizontal=True, key=key,
        help="At the optimum, runs are counted (the paper's figure 6). With a budget, the best "
        "result is held against the optimum (figures 7 to 9).",
    )  # fmt: skip
    if ends == "optimum":
        censored = new_fields.count(
            f"{KEY}censored", "Given up after so many per cent of the space", draft.censored, 1, 100
        )
        return replace(draft, ends=ends, censored=draft.censored if censored is None else censored)
    runs = new_fields.several(f"{KEY}runs", "Budgets [runs]", draft.runs, ("10", "25", "50", "100"))
    beside.at(f"{KEY}runs")
    exploitation = new_fields.several(
        f"{KEY}exploitation", "Levels of the clustering advice", draft.exploitation, _LEVELS,
        placeholder="no advice",
        help="The share of the rest that is spent inside regions of good results, proposed at 70 % "
        "of the budget (the paper's exploitation).",
    )  # fmt: skip
    beside.at(f"{KEY}exploitation")
    return replace(draft, ends=ends, runs=runs, exploitation=exploitation)


def _amount(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    with st.container(horizontal=True, vertical_alignment="top"):
        replications = new_fields.count(
            f"{KEY}replications", "Episodes per cell", draft.replications, 1, 100_000, width=160,
            help="The paper plays 500.",
        )  # fmt: skip
        batch = new_fields.count(f"{KEY}batch", "Runs at a time", draft.batch, 1, 1_000, width=160)
        seed = new_fields.count(
            f"{KEY}seed", "Seed", draft.seed, 0, width=160,
            help="The same study with the same seed gives the same results.",
        )  # fmt: skip
    name = new_fields.text(
        f"{KEY}name", "Name of the study", draft.name, placeholder=draft.full_name, max_chars=200
    )
    beside.at(f"{KEY}name")
    return replace(
        draft,
        name=name,
        replications=draft.replications if replications is None else replications,
        batch=draft.batch if batch is None else batch,
        seed=draft.seed if seed is None else seed,
    )


def error_at(place: str, error: Exception) -> FormFieldError:
    """Return an error as one that is drawn beside its field."""
    return FormFieldError(place, sentence(error))

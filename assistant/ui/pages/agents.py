"""The *Agents* page: studies of how much suggestions help simulated analysts.

A study runs in its own process (`agents.studies.study_repository`), so it survives a closed page.

The fields of a study form, filled by hand or from a study file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import streamlit as st

from agents import (
    AGENTS,
    StoredStudy,
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRepository,
    StudyState,
    read_outcome,
    results_of,
    stamp,
    study_of,
    truths,
)
from assistant.applications.scheduling_presets import presets
from assistant.core.files import MOST_BYTES
from assistant.presentation.text.number_format import lasting, moment
from assistant.simtools.measured_tables import NAMES
from assistant.simtools.workload_log import read_log
from assistant.ui.charting import low
from assistant.ui.intents import FormFieldError, Intent, answer_at, forget, refusal, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import new_fields
from assistant.ui.pages.agents_draft import (
    KEY,
    LEARNS,
    LEARNS_NOT,
    NO_ADVICE,
    PLAY,
    Accepts,
    Ends,
    StudyDocument,
    StudyDraft,
    draft_of,
    study_document,
)
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_sweep_file import FormFault
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
_ENDS: Mapping[Ends, str] = {"optimum": "at the optimum", "budget": "after a budget of runs"}
_ACCEPTS: tuple[Accepts, ...] = ("always", "never", "sometimes")


def current_study_draft() -> StudyDraft:
    """Return the draft study of the current browser session."""
    study_draft: StudyDraft = st.session_state.setdefault(_DRAFT, StudyDraft())
    return study_draft


def from_file() -> None:
    """Draw the upload of a study file, which fills the form if the file is valid."""
    with st.expander("Begin with a study file", icon=":material/upload_file:"):
        st.caption(
            "The format is that of `copperline agents run`. Paths are relative to the folder that "
            "the app runs in."
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
        st.button("Fill in the fields", key="agents-fill", on_click=_pasted)
        if st.session_state.get(_FAULT):
            st.error(escape_markdown(st.session_state[_FAULT]), icon=":material/error:")
        elif st.session_state.get(_TOLD):
            st.success("The fields below contain the values of the file.", icon=":material/check:")


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
    """Store the error of an invalid study file, to show it at the next drawing of the page."""
    st.session_state[_FAULT], st.session_state[_TOLD] = sentence(error), False


def fill_fields(filled: StudyDraft) -> None:
    """Fill the study form from a draft, before its fields are drawn."""
    new_fields.leave(KEY)
    st.session_state[_DRAFT] = filled


def draw_study_fields(beside: FieldMessages) -> StudyDraft:
    """Draw the form fields of a study, then store and return the resulting draft."""
    study_draft = current_study_draft()
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Search spaces")
        study_draft = _spaces(study_draft, beside)
        st.subheader("When an episode ends")
        study_draft = _ends(study_draft, beside)
        st.subheader("Size of the study")
        study_draft = _field_amount(study_draft, beside)
    with right:
        st.subheader("Analysts")
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
        [name for name in _APPLICATIONS if name in NAMES], accept_new=False,
        format_func=lambda name: _APPLICATIONS.get(name, name),
        help="All configurations are measured before the first episode, once for all studies. "
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
            f"{KEY}first", "Number of first jobs", draft.first, 1, placeholder="all"
        )
        beside.at(f"{KEY}log")
        draft = replace(draft, log=log, first=first)
    tables = new_fields.area(
        f"{KEY}tables", "Measured tables (CSV), one path per line", draft.tables, height=68,
        placeholder="none",
        help="One row per configuration: parameter columns, then `objective` (minimised). "
        "`copperline tabulate` writes such a table.",
    )  # fmt: skip
    beside.at(f"{KEY}tables")
    strategies = new_fields.several(
        f"{KEY}strategies", "Strategies", draft.strategies,
        [*strategy_names(), *map(str, draft.file_strategies)], accept_new=False,
        help=" ".join(f"{name}: {strategy_entry(name).summary}" for name in strategy_names()),
    )  # fmt: skip
    beside.at(f"{KEY}strategies")
    return replace(draft, tables=tables, strategies=strategies)


def _analysts(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    kinds = new_fields.several(
        f"{KEY}kinds", "Kinds of analyst", draft.kinds, [entry.name for entry in AGENTS],
        accept_new=False, help=" ".join(f"{entry.name}: {entry.summary}" for entry in AGENTS),
    )  # fmt: skip
    beside.at(f"{KEY}kinds")
    draft = replace(draft, kinds=kinds)
    if draft.has("insight"):
        insights = new_fields.several(
            f"{KEY}insights", "Insight", draft.insights, _INSIGHTS, accept_new=False,
            help="Where the analyst expects the optimum. `good`: a set that contains it; `bad`: "
            "a set from the worse half; `none`: anywhere.",
        )  # fmt: skip
        beside.at(f"{KEY}insights")
        draft = replace(draft, insights=insights)
    if draft.has("confidence"):
        confidences = new_fields.several(
            f"{KEY}confidences", "Confidence [%]", draft.confidences,
            [str(entry) for entry in range(0, 101, 10)],
            help="Share of the runs that are suggestions; the analyst chooses the others.",
        )  # fmt: skip
        beside.at(f"{KEY}confidences")
        draft = replace(draft, confidences=confidences)
    if draft.has("learning"):
        learning = new_fields.several(
            f"{KEY}learning", "Learning", draft.learning, (LEARNS_NOT, LEARNS), accept_new=False,
            help="Whether results change the next choices of the analyst.",
        )  # fmt: skip
        beside.at(f"{KEY}learning")
        draft = replace(draft, learning=learning)
    return _manner(draft) if draft.has("acceptance") else draft


def _manner(draft: StudyDraft) -> StudyDraft:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        accepts = new_fields.choice(
            f"{KEY}accepts", "Accepts warnings", draft.accepts, _ACCEPTS, width=160
        )
        share = draft.share
        if accepts == "sometimes":
            percent = new_fields.count(f"{KEY}share", "Accepted [%]", share, 0, 100, width=150)
            share = share if percent is None else percent
        key = f"{KEY}reaction"
        seed(key, draft.reaction_s)
        reaction_s = st.number_input(
            "Reaction time [s]", 0.0, 1e9, value=None, step=1.0, key=key, width=170,
            help="Simulated seconds until the analyst answers. They matter only with a deadline.",
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
        help="At the optimum: the study counts the runs (figure 6 of the paper). After a budget: "
        "it compares the best result with the optimum (figures 7 to 9).",
    )  # fmt: skip
    if ends == "optimum":
        censored = new_fields.count(
            f"{KEY}censored", "Give up after a share of the space [%]", draft.censored, 1, 100
        )
        return replace(draft, ends=ends, censored=draft.censored if censored is None else censored)
    runs = new_fields.several(f"{KEY}runs", "Budgets [runs]", draft.runs, ("10", "25", "50", "100"))
    beside.at(f"{KEY}runs")
    exploitation = new_fields.several(
        f"{KEY}exploitation", "Exploitation levels", draft.exploitation, _LEVELS,
        placeholder="no level",
        help="Share of the runs left that is spent inside regions of good results, set at 70 % of "
        "the budget (exploitation in the paper).",
    )  # fmt: skip
    beside.at(f"{KEY}exploitation")
    return replace(draft, ends=ends, runs=runs, exploitation=exploitation)


def _field_amount(draft: StudyDraft, beside: FieldMessages) -> StudyDraft:
    with st.container(horizontal=True, vertical_alignment="top"):
        replications = new_fields.count(
            f"{KEY}replications", "Episodes per cell", draft.replications, 1, 100_000, width=160,
            help="The paper uses 500.",
        )  # fmt: skip
        batch = new_fields.count(f"{KEY}batch", "Runs per batch", draft.batch, 1, 1_000, width=160)
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
    """Return an error as a FormFieldError that is drawn beside the given field."""
    return FormFieldError(place, sentence(error))


MOST_CHARTS = 24
_SENTENCES = 8
_ROWS = 40


def study_results(study: StoredStudy) -> None:
    """Draw the results of a completed study."""
    try:
        with st.spinner("Reading the results …"):
            outcome = _study_outcome(str(study.folder), stamp(study), study)
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return
    st.markdown(escape_markdown(outcome.headline))
    _sentences(outcome.findings)
    _take_away(study, outcome)
    _charts(outcome)
    st.subheader("Every cell")
    st.dataframe(
        pd.DataFrame(outcome.table), hide_index=True, width="stretch",
        height="content" if len(outcome.table) <= _ROWS else "auto", alt="every cell of the study",
    )  # fmt: skip
    st.subheader("About this study")
    for name, text in outcome.facts.items():
        st.markdown(f"**{escape_markdown(name)}**: {escape_markdown(text)}")


def _sentences(findings: tuple[StudyFinding, ...]) -> None:
    if not findings:
        st.info(
            "Each axis has one value, so there is nothing to compare. Select two confidences, "
            "insights or strategies to see their effect.",
            icon=":material/compare_arrows:",
        )
        return
    sure = [finding for finding in findings if finding.sure]
    if sure:
        first, *further = (escape_markdown(finding.text) for finding in sure)
        more = "\n".join(f"- {text}" for text in further[: _SENTENCES - 1])
        st.success(f"**{first}**\n\n{more}", icon=":material/insights:")
    else:
        st.info(
            "No difference is larger than chance. More episodes may show one.",
            icon=":material/question_mark:",
        )
    rest = [*sure[_SENTENCES:], *(finding for finding in findings if not finding.sure)]
    if rest:
        with st.expander(f"{len(rest)} more comparisons" if len(rest) > 1 else "1 more comparison"):
            st.markdown("\n".join(f"- {escape_markdown(finding.text)}" for finding in rest))
    st.caption("Each difference has a 95 % interval, from a bootstrap over episodes.")


def _charts(outcome: StudyOutcome) -> None:
    st.subheader("Figures")
    charts = outcome.charts[:MOST_CHARTS]
    # row by row, so that their order is kept in a narrow window
    for at in range(0, len(charts), 2):
        for column, (description, spec) in zip(
            st.columns(2, gap="large"), charts[at : at + 2], strict=False
        ):
            with column:
                st.vega_lite_chart(low(spec), theme=None, width="stretch", alt=description)
    if len(outcome.charts) > MOST_CHARTS:
        st.caption(f"{len(outcome.charts) - MOST_CHARTS} more are in the report.")
    for note in outcome.notes:
        st.caption(escape_markdown(note))


def _take_away(study: StoredStudy, outcome: StudyOutcome) -> None:
    with st.container(horizontal=True):
        for label, make, file, kind in (
            ("Download the report (HTML)", outcome.html, "html", "text/html"),
            (
                "Episodes (Parquet)", lambda: results_of(study), "parquet",
                "application/vnd.apache.parquet",
            ),
            ("Cells (CSV)", outcome.csv, "csv", "text/csv"),
            ("Figures (SVG)", outcome.figures, "zip", "application/zip"),
        ):  # fmt: skip
            st.download_button(
                label, make, f"{study.name}.{file}", kind, on_click="ignore",
                key=f"agents-take-{file}", icon=":material/download:",
                type="primary" if file == "html" else "secondary",
            )  # fmt: skip


@st.cache_resource(max_entries=8, show_spinner=False)
def _study_outcome(
    folder: str,  # noqa: ARG001 - a part of the key
    changed: tuple[int, ...],  # noqa: ARG001 - a part of the key
    _kept: StoredStudy,
) -> StudyOutcome:
    return read_outcome(_kept)


View = Literal["set up", "played"]
_VIEWS: Mapping[View, str] = {"set up": "Set up a study", "played": "Studies"}
_STATES: Mapping[StudyState, str] = {
    "playing": "► playing", "stopped": "◔ stopped", "done": "■ done", "refused": "✗ refused",
    "broken": "✗ broken",
}  # fmt: skip
_VIEW, _OPEN, _GO, _SURE = "agents-view", "agents-open", "agents-go", "agents-sure"
_ACT, _LAST = "agents-act", "agents-last"
_EVERY_S = 1.0


def page(store: Path) -> Intent | None:
    """Draw the page of studies and return a request, such as to start a study, or None."""
    shelf = _shelf(str(store.absolute()))
    studies = shelf.studies()
    st.title("Agents")
    st.caption(
        "Simulated analysts steer sweeps over spaces with measured results. A study shows how "
        "much suggestions help analysts who know much, know nothing, or are wrong."
    )
    _select_view(studies)
    view = st.segmented_control(
        "View", list(_VIEWS), key=_VIEW, label_visibility="collapsed", required=True,
        format_func=_VIEWS.__getitem__,
    )  # fmt: skip
    if view == "played":
        return _played(shelf, studies)
    if not studies:
        st.info(
            "There is no study yet. The fields below describe a small one. *Play* takes seconds "
            "and keeps the results here.",
            icon=":material/groups:",
        )
    return _set_up(shelf)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shelf(store: str) -> StudyRepository:
    return StudyRepository.beside(Path(store))


def _select_view(studies: Sequence[StoredStudy]) -> None:
    """Select the view: the one of a button, else of the address, else the list or the form."""
    state = st.session_state
    study_name = st.query_params.get("study") or state.get(_LAST)
    if _GO in state:
        view, name = state.pop(_GO)
        state[_VIEW] = view
        if name:
            state[_OPEN] = name
    elif _VIEW not in state:
        state[_VIEW] = "played" if studies else "set up"
        if any(study.name == study_name for study in studies):
            state[_OPEN] = study_name


def _set_up(shelf: StudyRepository) -> Intent | None:
    from_file()
    beside = FieldMessages()
    draft = draw_study_fields(beside)
    document = study_document(draft)
    st.divider()
    places = beside.tell(_with_refusal(document.faults), missing=True)
    for fault in places:
        st.error(escape_markdown(fault.text), icon=":material/error:")
    if document.study is not None:
        st.markdown(f":material/grid_on: {_amount(document.study)}")
    answer_at(PLAY)
    pressed = st.button(
        "Play", key=PLAY, type="primary", icon=":material/play_arrow:",
        disabled=document.text is None,
    )  # fmt: skip
    _as_file(document)
    if not pressed or document.text is None:
        return None
    text = document.text

    def do() -> str:
        _check_inputs(draft, document)
        name = shelf.start(text, draft.full_name)
        _lead("played", name)
        return ""

    return Intent(PLAY, do, "Starting the study")


def _with_refusal(faults: Sequence[FormFault]) -> list[FormFault]:
    result = refusal()
    if result is None or not result.place.startswith(KEY) or faults:
        return list(faults)
    return [FormFault(result.place, result.text)]


def _amount(study: Study) -> str:
    n_cells, n = len(study.cells()), study.replications
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    return f"{cells}, {n:,} {'episode' if n == 1 else 'episodes'} each: {n_cells * n:,} episodes."


def _check_inputs(draft: StudyDraft, document: StudyDocument) -> None:
    """Read the input files of a study; raise FormFieldError if one cannot be used."""
    if draft.log_path is not None:
        try:
            read_log(str(draft.log_path), {})
        except Exception as error:
            raise error_at(f"{KEY}log", error) from error
    if document.study is not None and not draft.applications:
        try:
            truths(document.study)
        except Exception as error:
            raise error_at(f"{KEY}tables", error) from error


def _as_file(document: StudyDocument) -> None:
    with st.expander("The same study as a file", icon=":material/description:"):
        if document.text is None:
            st.caption("The file appears here when all fields are valid.")
            return
        st.caption(
            "This command gives the same results on this machine: "
            "`copperline agents run study.toml --to FOLDER`."
        )
        st.code(document.text, language="toml")
        st.download_button(
            "Download the study", document.text, "study.toml", "application/toml",
            key="agents-download", icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def _lead(view: View, name: str = "") -> None:
    st.session_state[_GO] = (view, name)


def _played(shelf: StudyRepository, studies: Sequence[StoredStudy]) -> Intent | None:
    if not studies:
        st.info(
            "There is no study yet. Set one up; the predefined one takes seconds.",
            icon=":material/groups:",
        )
        answer_at(_ACT)
        return None
    names = {study.name: study for study in studies}
    if st.session_state.get(_OPEN) not in names:
        st.session_state[_OPEN] = studies[0].name
    is_live = any(study.state == "playing" for study in studies)
    st.fragment(_study_list, run_every=_EVERY_S if is_live else None)(
        shelf, {study.name: study.state for study in studies}
    )
    name: str = st.selectbox(
        "Study", list(names), key=_OPEN, format_func=lambda name: _label(names[name])
    )
    st.query_params["study"] = st.session_state[_LAST] = name
    answer_at(_ACT)
    return _open(shelf, names[name])


def _label(study: StoredStudy) -> str:
    return study.title if study.title == study.name else f"{study.title} ({study.name})"


def _study_list(shelf: StudyRepository, drawn_states: Mapping[str, StudyState]) -> None:
    """Draw every study with its progress; redraw the page once a state has changed."""
    studies = shelf.studies()
    if {study.name: study.state for study in studies} != drawn_states:
        st.rerun()
    is_live = "playing" in drawn_states.values()
    rows = [
        {
            "study": study.title,
            "state": _STATES[study.state],
            "progress": _how_far(study).removesuffix(" episodes"),
            **({"time left": _left(study)} if is_live else {}),
            "started": moment(study.begun_s),
        }
        for study in studies
    ]
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, width="stretch", alt="the studies",
        column_config={"progress": st.column_config.TextColumn(width="medium")},
    )  # fmt: skip


def _how_far(study: StoredStudy) -> str:
    progress = study.progress
    if study.state == "done":
        return "all"
    if progress is None:
        return "starting" if study.state == "playing" else "nothing yet"
    of = "" if progress.total is None else f" of {progress.total:,}"
    unit = "episodes" if progress.stage == "playing" else f"combinations ({progress.stage})"
    return f"{progress.done:,}{of} {unit}"


def _left(study: StoredStudy) -> str:
    if study.state != "playing" or study.progress is None:
        return ""
    left_s = study.progress.left_s
    return "not known yet" if left_s is None else lasting(left_s)


def _open(shelf: StudyRepository, study: StoredStudy) -> Intent | None:
    st.header(escape_markdown(study.title))
    st.caption(f"Stored in `{study.folder}`.")
    if study.state == "playing":
        return _study_in_progress(shelf, study)
    if study.state == "done":
        study_results(study)
    elif study.state == "stopped":
        st.warning(
            f"Stopped: {_how_far(study)}. The results are kept; *Go on* continues the study.",
            icon=":material/pause_circle:",
        )
    else:
        st.error(escape_markdown(study.sentence), icon=":material/error:")
    wish = None
    with st.container(horizontal=True):
        if study.state != "done" and st.button(
            "Go on" if study.state == "stopped" else "Try again",
            key="agents-go-on",
            type="primary",
            icon=":material/play_arrow:",
        ):
            wish = _wish(lambda: shelf.go_on(study.name), "", "Starting the study")
        st.button(
            "Set up a similar study", key="agents-again", icon=":material/content_copy:",
            on_click=_again, args=(study,),
        )  # fmt: skip
        if st.session_state.get(_SURE) == study.name:
            if st.button("Yes, remove it with its results", key="agents-remove-sure"):
                wish = _wish(
                    lambda: shelf.remove(study.name), f"{study.title} is removed.", "Removing"
                )
            st.button("Keep it", key="agents-keep", on_click=_ask, args=(None,))
        else:
            st.button(
                "Remove …", key="agents-remove", type="tertiary", on_click=_ask, args=(study.name,)
            )
    return wish


def _study_in_progress(shelf: StudyRepository, study: StoredStudy) -> Intent | None:
    st.fragment(_bar, run_every=_EVERY_S)(shelf, study.name)
    st.caption(
        "The study has its own process. You can close this page; other users see the same state."
    )
    if st.button("Stop", key="agents-stop", icon=":material/stop:"):
        return _wish(lambda: shelf.stop(study.name), "", "Stopping")
    return None


def _bar(shelf: StudyRepository, name: str) -> None:
    study = shelf.study(name)
    if study is None or study.state != "playing":
        st.rerun()
    progress = study.progress
    if progress is None:
        st.progress(0.0, "Starting")
        return
    left = f", {_left(study)} left" if progress.left_s is not None else ""
    share = 0.0 if not progress.total else min(1.0, progress.done / progress.total)
    st.progress(share, f"{_how_far(study)}{left}")


def _wish(act: Callable[[], None], message: str, waiting: str) -> Intent:
    def do() -> str:
        _ask(None)
        act()
        return message

    return Intent(_ACT, do, waiting)


def _ask(name: str | None) -> None:
    st.session_state[_SURE] = name


def _again(study: StoredStudy) -> None:
    try:
        fill_fields(draft_of(study_of(study)))
    except Exception as error:
        fail(error)
    _lead("set up")

"""The *AI platform* page: simulate one configuration, show a trace, compare a log with a model.

*Compare with a log* fits statistics to a log, simulates them, and compares both (Q-Q, hours).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.core.objective import Measure
from assistant.presentation.charts.ai_platform import (
    PlatformComparison,
    QuantileComparison,
    histogram_chart,
    qq_chart,
    scatter_chart,
    week_chart,
)
from assistant.presentation.report.html import (
    LIKENESS,
    comparison_rows,
    render_comparison,
    render_dashboard,
)
from assistant.presentation.text.number_format import number, quantity
from assistant.simtools.ai_platform import (
    FULL_TRAINING,
    PlatformDashboard,
    from_table,
    simulated_dashboard,
    trace_dashboard,
)
from assistant.ui import platform_dashboard
from assistant.ui.charting import low
from assistant.ui.intents import FormFieldError, Intent, answer_at, sentence
from assistant.ui.jobs import BackgroundJob, JobHandle, JobRegistry, work_folder
from assistant.ui.labels import column, escape_markdown
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_form import Form
from strategies import Level, Parameter

LIKENESS_PLACE = "platform-log"
MOST = 4  # Comparisons at a time, over all browsers; a further one ends the oldest

_EVERY_S = 0.5
_EXAMPLE, _PATH, _UPLOAD = "Built-in example", "A file here", "Upload"
_OWNER, _RESULT_KEY = f"{LIKENESS_PLACE}-owner", f"{LIKENESS_PLACE}-made"


@dataclass(frozen=True, slots=True)
class LikenessResult:
    """Result of comparing a task log with its simulation, or the reason for its absence."""

    state: Literal["done", "refused", "stopped", "broken"]
    likeness: PlatformComparison | None = None
    sentence: str = ""


class LikenessJob(BackgroundJob):
    """Background comparison of a task log with a simulation (``copperline platform validate``).

    The log is a path, an upload (name and content), or the built-in example if both are None.
    Raises OSError if the process cannot be started.
    """

    def __init__(
        self, log: str | None, upload: tuple[str, bytes] | None, weeks: int, seed: int
    ) -> None:
        folder = work_folder("copperline-platform-")
        if upload is not None:
            path = Path(folder.name) / f"log{Path(upload[0]).suffix}"
            path.write_bytes(upload[1])
            log = str(path)
        command = ["platform", "validate", "--weeks", str(weeks), "--seed", str(seed), "--json"]
        super().__init__([[*command, *([] if log is None else [log])]], folder)

    def result(self) -> LikenessResult | None:
        """Return the comparison (only once) and remove its files, or None while running."""
        ended = self.ended()
        if ended is None:
            return None
        self.close()
        if ended.stopped:
            return LikenessResult("stopped")
        if ended.code == 0:
            table = json.loads(ended.out)
            table.pop("report")
            return LikenessResult("done", from_table(table))
        word = ended.last_word
        if ended.code == 2:
            return LikenessResult("refused", sentence=f"{word[:1].upper()}{word[1:]}")
        return LikenessResult(
            "broken",
            sentence=f"Something in Copperline went wrong: it ended with exit code {ended.code}; "
            f"its last message: {word}",
        )


@st.cache_resource(max_entries=1, show_spinner=False)
def likeness_jobs() -> JobRegistry[LikenessResult]:
    """Return the registry of log comparisons of this process."""
    return JobRegistry(MOST)


def likeness_section() -> Intent | None:
    """Draw the fields, progress and result of a log comparison; return the request to start it."""
    st.caption(
        "Fit statistics to a log of executed tasks and simulate them for some weeks. Then compare "
        "task durations and pipeline arrivals with the log."
    )
    source = st.segmented_control(
        "Log", [_EXAMPLE, _PATH, _UPLOAD], key=f"{LIKENESS_PLACE}-source", default=_EXAMPLE,
        required=True, persist_state="session",
    )  # fmt: skip
    log, upload, is_there = _log(source or _EXAMPLE)
    left, right = st.columns(2)
    weeks = left.number_input(
        "Weeks to simulate", 1, 52, 4, key=f"{LIKENESS_PLACE}-weeks", persist_state="session",
        help="Hours of the week are compared only with two weeks or more.",
    )  # fmt: skip
    seed = right.number_input(
        "Seed of the simulation", 0, 2**31, 0, key=f"{LIKENESS_PLACE}-seed", persist_state="session"
    )
    answer_at(LIKENESS_PLACE)
    pressed = st.button(
        "Compare", type="primary", icon=":material/compare_arrows:",
        key=f"{LIKENESS_PLACE}-compare", disabled=not is_there,
    )  # fmt: skip
    result = _latest_likeness()
    if result is not None:
        _likeness_result(result)
    if not pressed:
        return None

    def do() -> str:
        try:
            likeness_jobs().begin(_owner(), lambda: LikenessJob(log, upload, int(weeks), int(seed)))
        except OSError as error:
            raise FormFieldError(LIKENESS_PLACE, f"The process did not start: {error}.") from error
        st.session_state.pop(_RESULT_KEY, None)
        return ""

    return Intent(LIKENESS_PLACE, do, "Preparing")


def _log(source: str) -> tuple[str | None, tuple[str, bytes] | None, bool]:
    columns = "Columns `task` and `seconds`; `submitted`, `framework` and others where known."
    if source == _PATH:
        typed = st.text_input(
            "Path of the log", placeholder="tasks.csv", key=f"{LIKENESS_PLACE}-path",
            persist_state="session", help=f"CSV or Parquet. {columns}",
        )  # fmt: skip
        path = (typed or "").strip()
        return str(Path(path).expanduser().absolute()), None, bool(path)
    if source == _UPLOAD:
        uploaded: UploadedFile | None = st.file_uploader(
            "A log of executed tasks", type=["csv", "parquet"], key=f"{LIKENESS_PLACE}-file",
            help=columns,
        )  # fmt: skip
        upload = None if uploaded is None else (uploaded.name, uploaded.getvalue())
        return None, upload, upload is not None
    st.caption("An example log of four weeks, simulated with other random draws.")
    return None, None, True


def _owner() -> str:
    name: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return name


def _latest_likeness() -> LikenessResult | None:
    result = likeness_jobs().fetch(_owner())
    if result is not None:
        st.session_state[_RESULT_KEY] = result
    if likeness_jobs().of(_owner()) is not None:
        with st.container(border=True):
            st.fragment(_watch, run_every=_EVERY_S)()
    latest: LikenessResult | None = st.session_state.get(_RESULT_KEY)
    return latest


def _watch() -> None:
    attempt: JobHandle[LikenessResult] | None = likeness_jobs().of(_owner())
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Fitting and simulating … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{LIKENESS_PLACE}-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _likeness_result(result: LikenessResult) -> None:
    if result.likeness is None:
        if result.state == "stopped":
            st.info("The comparison was stopped.", icon=":material/stop_circle:")
        else:
            st.error(escape_markdown(result.sentence), icon=":material/error:")
        return
    likeness = result.likeness
    st.markdown(
        f"**{escape_markdown(likeness.log)}**: {likeness.n_observed:,} executed tasks beside "
        f"{likeness.n_simulated:,} simulated pipelines of {likeness.weeks} weeks, "
        f"seed {likeness.seed}."
    )
    st.markdown(escape_markdown(likeness.headline))
    st.download_button(
        "Download the Q-Q report (HTML)", lambda: render_comparison(likeness),
        file_name="likeness.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{LIKENESS_PLACE}-html",
    )  # fmt: skip
    st.dataframe(
        pd.DataFrame(comparison_rows(likeness), columns=list(LIKENESS)), hide_index=True,
        width="stretch", alt="every sample of the log beside the simulated one",
    )  # fmt: skip
    st.caption(
        "KS: the largest distance of the two distribution functions, beside the distance that 1 of "
        "20 pairs of samples of one law exceeds. Apart: how much longer one is than the other."
    )
    _plots("Execution times, quantiles over quantiles", likeness.tasks)
    _plots("Gaps between arrivals, by profile", likeness.gaps)
    _samples(likeness)
    if likeness.hours:
        st.markdown("**Arrivals by hour of the week**")
    for name, bands in likeness.hours.items():
        caption = f"Profile {name}: {bands.within:.0%} of the hours lie within the bands."
        st.vega_lite_chart(
            low(week_chart(bands)), theme=None, width="stretch",
            alt=f"arrivals by hour of the week. {caption}",
        )  # fmt: skip
        st.caption(caption)


def _samples(likeness: PlatformComparison) -> None:
    """Draw data sets, preprocessing and training: figures 8, 9a and 9b of PipeSim."""
    drawn = [
        (scatter_chart(one), f"{one.name}; the line is the fitted curve" if one.curve else one.name)
        for one in likeness.scatters
    ]
    drawn += [
        (histogram_chart(one), f"{one.name}, up to the 99th percentile of the log")
        for one in likeness.histograms
    ]
    if not drawn:
        return
    st.markdown("**Data sets, preprocessing and training**")
    for at in range(0, len(drawn), 3):
        for cell, (chart, caption) in zip(st.columns(3), drawn[at : at + 3], strict=False):
            with cell:
                st.vega_lite_chart(
                    low(chart), theme=None, width="stretch",
                    alt=f"the log beside the simulation: {caption}",
                )  # fmt: skip
                st.caption(escape_markdown(caption))


def _plots(title: str, several: tuple[QuantileComparison, ...]) -> None:
    if not several:
        return
    st.markdown(f"**{title}**")
    for at in range(0, len(several), 4):
        columns = st.columns(4)
        for cell, quantiles in zip(columns, several[at : at + 4], strict=False):
            with cell:
                st.vega_lite_chart(
                    low(qq_chart(quantiles)), theme=None, width="stretch",
                    alt=f"quantiles of {quantiles.name}, simulated over observed: "
                    f"KS {quantiles.ks:.3f}",
                )  # fmt: skip
                st.caption(f"{quantiles.name}: KS {quantiles.ks:.3f}")


SIMULATION_PLACE = "platform-play"
MOST_DAYS, MOST_MODELS = 30.0, 500

_SCENARIO_KEY = f"{SIMULATION_PLACE}-shown"


@dataclass(frozen=True, slots=True)
class PlatformSetup:
    """Settings of an AI platform simulation, which determine its results."""

    values: tuple[tuple[str, Level], ...]
    days: float
    models: int
    factor: float
    seed: int

    @property
    def application(self) -> AiPlatform:
        """AI platform to simulate, with the seed, duration, models and load of these settings."""
        return AiPlatform(self.seed, self.days, self.models, self.factor)


def simulation_section() -> Intent | None:
    """Draw the fields and buttons of a platform simulation, and its last result."""
    st.caption(
        "A simulated platform for AI pipelines. Pipelines arrive, train, are checked and deployed; "
        "deployed models drift until they are trained again. All settings get the same future."
    )
    with st.container(horizontal=True):
        st.button(
            "Current settings", icon=":material/restart_alt:", key=f"{SIMULATION_PLACE}-baseline",
            on_click=_set, args=(dict(AiPlatform().baseline),),
        )  # fmt: skip
        st.button(
            "The paper's case: a full training cluster", icon=":material/traffic:",
            key=f"{SIMULATION_PLACE}-paper", on_click=_set, args=(dict(FULL_TRAINING),),
            help="Pipelines peak at 16:00, the training cluster is full from then on, and steps "
            "after training are late: see *Mean day*.",
        )  # fmt: skip
    wish = _scenario_fields()
    answer_at(SIMULATION_PLACE)
    with st.container(horizontal=True):
        pressed = st.button(
            "Play", type="primary", icon=":material/play_arrow:", key=f"{SIMULATION_PLACE}-play"
        )
        steer = st.button(
            "Steer this platform", icon=":material/tune:", key=f"{SIMULATION_PLACE}-steer",
            help="Fill in *New* with this future; nothing is started.",
        )  # fmt: skip
    if pressed:
        st.session_state[_SCENARIO_KEY] = wish
    current: PlatformSetup | None = st.session_state.get(_SCENARIO_KEY)
    if current is None:
        st.info("No simulation yet: press *Play*.", icon=":material/play_circle:")
    else:
        if current != wish:
            st.caption("The settings have changed since this simulation was played.")
        _simulation_result(current)
    return _to_steer(wish) if steer else None


def _scenario_fields() -> PlatformSetup:
    application = AiPlatform()
    baseline, values = application.baseline, {}
    parameters = application.space.parameters
    for at in range(0, len(parameters), 3):  # row by row, so that a narrow window keeps the order
        for box, parameter in zip(st.columns(3), parameters[at : at + 3], strict=False):
            with box:
                values[parameter.name] = _level(parameter, baseline[parameter.name])
    with st.expander("Simulated future"):
        first, two, three, four = st.columns(4)
        days = first.number_input(
            "Days", 1.0, MOST_DAYS, application.days, 1.0, format="%g",
            key=f"{SIMULATION_PLACE}-days", persist_state="session",
        )  # fmt: skip
        models = two.number_input(
            "Deployed models", 1, MOST_MODELS, application.models, key=f"{SIMULATION_PLACE}-models",
            persist_state="session",
        )  # fmt: skip
        factor = three.number_input(
            "Gaps between pipelines, times", 1.0, 100.0, application.interarrival_factor, 0.5,
            format="%g", key=f"{SIMULATION_PLACE}-factor", persist_state="session",
            help="Factor on the published gaps, 44 s on average.",
        )  # fmt: skip
        seed = four.number_input(
            "Seed",
            0,
            2**31,
            application.seed,
            key=f"{SIMULATION_PLACE}-seed",
            persist_state="session",
        )
    return PlatformSetup(tuple(values.items()), float(days), int(models), float(factor), int(seed))


def _level(parameter: Parameter, usual: Level) -> Level:
    key = _field(parameter.name)
    st.session_state.setdefault(key, usual)
    selected: Level = st.selectbox(
        column(parameter), parameter.levels, key=key, help=parameter.description,
        persist_state="session",
    )  # fmt: skip
    return selected


def _field(name: str) -> str:
    return f"{SIMULATION_PLACE}-level-{name}"


def _set(values: Mapping[str, Level]) -> None:
    for name, value in values.items():
        st.session_state[_field(name)] = value


def _simulation_result(wish: PlatformSetup) -> None:
    try:
        with st.spinner("Simulating …"):
            board, measures = _played(wish)
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return
    objective = wish.application.objective
    cost = quantity(objective.assess(measures).value, objective.unit)
    st.markdown(f"**{escape_markdown(board.title)}**")
    st.markdown(f"Capacity, late models and waiting cost **{cost}**.")
    platform_dashboard.draw_dashboard(board, SIMULATION_PLACE)
    with st.expander("Measures"):
        st.dataframe(
            pd.DataFrame({"measure": list(measures), "value": [_told(v) for v in
                                                               measures.values()]}),
            hide_index=True, width="stretch", alt="measures of the simulation",
        )  # fmt: skip
    st.download_button(
        "Download the dashboard (HTML)", lambda: render_dashboard(board),
        file_name="dashboard.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{SIMULATION_PLACE}-html",
    )  # fmt: skip


def _told(value: Measure) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


@st.cache_resource(max_entries=16, show_spinner=False)
def _played(wish: PlatformSetup) -> tuple[PlatformDashboard, Mapping[str, Measure]]:
    return simulated_dashboard(wish.application, dict(wish.values))


def _to_steer(wish: PlatformSetup) -> Intent:
    def do() -> str:
        new_fields.begin(Form("platform", extra_tables={"application": future_of(wish)}))
        return ""

    return Intent(SIMULATION_PLACE, do, "Preparing the form", then="new")


def future_of(wish: PlatformSetup) -> dict[str, int | float]:
    """Return a sweep file's settings of the simulated platform that are not defaults."""
    usual = AiPlatform()
    settings = {
        "seed": (wish.seed, usual.seed),
        "days": (wish.days, usual.days),
        "models": (wish.models, usual.models),
        "interarrival_factor": (wish.factor, usual.interarrival_factor),
    }
    return {name: value for name, (value, before) in settings.items() if value != before}


_KEY = "platform"
_PLAY, _TRACE, _LOG = "Set and play", "A trace", "Compare with a log"


def page() -> Intent | None:
    """Draw the AI platform page and return the action of the pressed button, or None."""
    st.subheader("AI platform")
    view = st.segmented_control(
        "View", [_PLAY, _TRACE, _LOG], key=f"{_KEY}-what", default=_PLAY,
        required=True, persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view == _TRACE:
        _trace()
        return None
    return likeness_section() if view == _LOG else simulation_section()


def _trace() -> None:
    typed = st.text_input(
        "Folder of the trace", placeholder="trace", key=f"{_KEY}-folder", persist_state="session",
        help="It contains pipelines.parquet, tasks.parquet, models.parquet. A path is relative to "
        "the folder that the app runs in.",
    )  # fmt: skip
    if not (typed or "").strip():
        st.info(
            "Enter the folder of a trace. `copperline play ai_platform --trace trace` writes one, "
            "and so does `run_platform(scenario, folder)` in Python.",
            icon=":material/folder_open:",
        )
        return
    folder = Path((typed or "").strip()).expanduser()
    try:
        with st.spinner(f"Reading {escape_markdown(folder.name)} …"):
            board = _traced(str(folder), _stamp(folder))
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return
    st.markdown(f"**{escape_markdown(board.title)}**")
    st.download_button(
        "Download the dashboard (HTML)", lambda: render_dashboard(board),
        file_name="dashboard.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{_KEY}-trace-html",
    )  # fmt: skip
    platform_dashboard.draw_dashboard(board, f"{_KEY}-trace")


def _stamp(folder: Path) -> tuple[int, ...]:
    try:
        return tuple(path.stat().st_mtime_ns for path in sorted(folder.glob("*.*")))
    except (OSError, ValueError):
        return ()


@st.cache_resource(max_entries=4, show_spinner=False)
def _traced(folder: str, stamp: tuple[int, ...]) -> PlatformDashboard:  # noqa: ARG001 - a part of the key
    return trace_dashboard(Path(folder))

"""*Beside a log*: statistics are fitted to a log, simulated, and laid over it (Q-Q, hours)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from assistant.applications.platform_accuracy import from_table
from assistant.charts_platform import Likeness, Quantiles, qq_chart, week_chart
from assistant.report.platform import LIKENESS, likeness_rows, render_likeness
from assistant.ui.background import Attempted, Attempts, Work, work_folder
from assistant.ui.charting import low
from assistant.ui.intents import FieldError, Intent, answer_at
from assistant.ui.words import plain

PLACE = "platform-log"
MOST = 4
"""Comparisons at a time, over all browsers; a further one ends the oldest."""

_EVERY_S = 0.5
_EXAMPLE, _PATH, _UPLOAD = "Built-in example", "A file here", "Upload"
_OWNER, _MADE = f"{PLACE}-owner", f"{PLACE}-made"


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a comparison: it is there, was refused, was stopped or broke."""

    state: Literal["done", "refused", "stopped", "broken"]
    found: Likeness | None = None
    sentence: str = ""


class Checking(Work):
    """A comparison under way: ``copperline platform validate``.

    Args:
        log: path of the log; None is the built-in example.
        upload: name and content of an uploaded log instead.
        weeks: simulated.
        seed: of the simulation.

    Raises:
        OSError: the process could not be started.
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

    def result(self) -> Checked | None:
        """Return the comparison, once; None while it goes on. Its files are gone afterwards."""
        ended = self.ended()
        if ended is None:
            return None
        self.close()
        if ended.stopped:
            return Checked("stopped")
        if ended.code == 0:
            told = json.loads(ended.out)
            told.pop("report")
            return Checked("done", from_table(told))
        word = ended.last_word
        if ended.code == 2:
            return Checked("refused", sentence=f"{word[:1].upper()}{word[1:]}")
        return Checked(
            "broken",
            sentence=f"Something in Copperline went wrong: it ended with exit code {ended.code}; "
            f"its last word: {word}",
        )


@st.cache_resource(max_entries=1, show_spinner=False)
def checks() -> Attempts[Checked]:
    """Return the comparisons of this process."""
    return Attempts(MOST)


def section() -> Intent | None:
    """Draw the choice of a log, what is under way, and what came of it."""
    st.caption(
        "Statistics are fitted to a log of executed tasks and simulated for some weeks: are tasks "
        "as long, and do pipelines come as often, as they did?"
    )
    source = st.segmented_control(
        "Log", [_EXAMPLE, _PATH, _UPLOAD], key=f"{PLACE}-source", default=_EXAMPLE, required=True,
        persist_state="session",
    )  # fmt: skip
    log, upload, is_there = _log(source or _EXAMPLE)
    left, right = st.columns(2)
    weeks = left.number_input(
        "Weeks to simulate", 1, 52, 4, key=f"{PLACE}-weeks", persist_state="session",
        help="Hours of the week are compared over two weeks or more.",
    )  # fmt: skip
    seed = right.number_input(
        "Seed of the simulation", 0, 2**31, 0, key=f"{PLACE}-seed", persist_state="session"
    )
    answer_at(PLACE)
    pressed = st.button(
        "Compare", type="primary", icon=":material/compare_arrows:", key=f"{PLACE}-compare",
        disabled=not is_there,
    )  # fmt: skip
    made = _came()
    if made is not None:
        _result(made)
    if not pressed:
        return None

    def do() -> str:
        try:
            checks().begin(_owner(), lambda: Checking(log, upload, int(weeks), int(seed)))
        except OSError as error:
            raise FieldError(PLACE, f"It cannot be started: {error}.") from error
        st.session_state.pop(_MADE, None)
        return ""

    return Intent(PLACE, do, "Preparing")


def _log(source: str) -> tuple[str | None, tuple[str, bytes] | None, bool]:
    """Return a path, an upload, and whether there is a log."""
    columns = "Columns `task` and `seconds`; `submitted`, `framework` and others where known."
    if source == _PATH:
        told = st.text_input(
            "Path of the log", placeholder="tasks.csv", key=f"{PLACE}-path",
            persist_state="session", help=f"CSV or Parquet. {columns}",
        )  # fmt: skip
        path = (told or "").strip()
        return str(Path(path).expanduser().absolute()), None, bool(path)
    if source == _UPLOAD:
        given: UploadedFile | None = st.file_uploader(
            "A log of executed tasks", type=["csv", "parquet"], key=f"{PLACE}-file",
            help=columns,
        )  # fmt: skip
        upload = None if given is None else (given.name, given.getvalue())
        return None, upload, upload is not None
    st.caption("A log as a platform would write it: four weeks, simulated with other draws.")
    return None, None, True


def _owner() -> str:
    told: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return told


def _came() -> Checked | None:
    """Return what came of the last comparison; draw it while it goes on."""
    made = checks().fetch(_owner())
    if made is not None:
        st.session_state[_MADE] = made
    if checks().of(_owner()) is not None:
        with st.container(border=True):
            st.fragment(_watch, run_every=_EVERY_S)()
    found: Checked | None = st.session_state.get(_MADE)
    return found


def _watch() -> None:
    """Draw how long it has taken, and the button that ends it."""
    attempt: Attempted[Checked] | None = checks().of(_owner())
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Fitting and simulating … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{PLACE}-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _result(made: Checked) -> None:
    if made.found is None:
        if made.state == "stopped":
            st.info("The comparison was stopped.", icon=":material/stop_circle:")
        else:
            st.error(plain(made.sentence), icon=":material/error:")
        return
    found = made.found
    st.markdown(
        f"**{plain(found.log)}**: {found.n_observed:,} executed tasks beside "
        f"{found.n_simulated:,} simulated pipelines of {found.weeks} weeks, seed {found.seed}."
    )
    st.markdown(plain(found.headline))
    st.download_button(
        "Download the Q-Q report (HTML)", lambda: render_likeness(found),
        file_name="likeness.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{PLACE}-html",
    )  # fmt: skip
    st.dataframe(
        pd.DataFrame(likeness_rows(found), columns=list(LIKENESS)), hide_index=True,
        width="stretch", alt="every sample of the log beside the simulated one",
    )  # fmt: skip
    st.caption(
        "KS: the largest distance of the two distribution functions, beside what one of twenty "
        "pairs of samples of one law exceeds. Apart: by how much the one is longer than the other."
    )
    _plots("Execution times, quantiles over quantiles", found.tasks)
    _plots("Gaps between arrivals, by profile", found.gaps)
    if found.hours:
        st.markdown("**Arrivals by hour of the week**")
    for name, bands in found.hours.items():
        said = f"Profile {name}: {bands.within:.0%} of the hours lie within the bands."
        st.vega_lite_chart(
            low(week_chart(bands)), theme=None, width="stretch",
            alt=f"arrivals by hour of the week. {said}",
        )  # fmt: skip
        st.caption(said)


def _plots(title: str, several: tuple[Quantiles, ...]) -> None:
    if not several:
        return
    st.markdown(f"**{title}**")
    for at in range(0, len(several), 4):
        columns = st.columns(4)
        for column, one in zip(columns, several[at : at + 4], strict=False):
            with column:
                st.vega_lite_chart(
                    low(qq_chart(one)), theme=None, width="stretch",
                    alt=f"quantiles of {one.name}, simulated over observed: KS {one.ks:.3f}",
                )  # fmt: skip
                st.caption(f"{one.name}: KS {one.ks:.3f}")

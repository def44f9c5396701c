"""A study that was played: its charts, its table, what it shows in sentences, and to take away."""

import pandas as pd
import streamlit as st

from agents import Finding, Kept, Shown, results_of, shown, stamp
from assistant.ui.charting import low
from assistant.ui.intents import sentence
from assistant.ui.words import plain

MOST_CHARTS = 24
_SENTENCES = 8
_ROWS = 40


def done(kept: Kept) -> None:
    """Draw a study that was played to its end."""
    try:
        with st.spinner("Reading the results …"):
            seen = _seen(str(kept.folder), stamp(kept), kept)
    except Exception as error:
        st.error(plain(sentence(error)), icon=":material/error:")
        return
    st.markdown(plain(seen.headline))
    _sentences(seen.findings)
    _take_away(kept, seen)
    _charts(seen)
    st.subheader("Every cell")
    st.dataframe(
        pd.DataFrame(seen.table), hide_index=True, width="stretch",
        height="content" if len(seen.table) <= _ROWS else "auto", alt="every cell of the study",
    )  # fmt: skip
    st.subheader("What was played")
    for name, text in seen.facts.items():
        st.markdown(f"**{plain(name)}**: {plain(text)}")


def _sentences(found: tuple[Finding, ...]) -> None:
    """Draw what the study shows, the surest first, and what it leaves open folded away."""
    if not found:
        st.info(
            "One value of each axis is no comparison: play it with two confidences, insights or "
            "strategies to see what they change.",
            icon=":material/compare_arrows:",
        )
        return
    sure = [one for one in found if one.sure]
    if sure:
        first, *others = (plain(one.text) for one in sure)
        more = "\n".join(f"- {text}" for text in others[: _SENTENCES - 1])
        st.success(f"**{first}**\n\n{more}", icon=":material/insights:")
    else:
        st.info(
            "These episodes show no difference that chance does not explain; more of them may.",
            icon=":material/question_mark:",
        )
    rest = [*sure[_SENTENCES:], *(one for one in found if not one.sure)]
    if rest:
        with st.expander(f"{len(rest)} more comparisons" if len(rest) > 1 else "1 more comparison"):
            st.markdown("\n".join(f"- {plain(one.text)}" for one in rest))
    st.caption("Each difference with its 95 % interval, by the bootstrap over episodes.")


def _charts(seen: Shown) -> None:
    st.subheader("Figures")
    drawn = seen.charts[:MOST_CHARTS]
    for at in range(0, len(drawn), 2):  # row by row, so that their order is kept in a narrow window
        for column, (told, spec) in zip(
            st.columns(2, gap="large"), drawn[at : at + 2], strict=False
        ):
            with column:
                st.vega_lite_chart(low(spec), theme=None, width="stretch", alt=told)
    if len(seen.charts) > MOST_CHARTS:
        st.caption(f"{len(seen.charts) - MOST_CHARTS} more are in the report.")
    for note in seen.notes:
        st.caption(plain(note))


def _take_away(kept: Kept, seen: Shown) -> None:
    with st.container(horizontal=True):
        for label, make, file, kind in (
            ("Download the report (HTML)", seen.html, "html", "text/html"),
            (
                "Episodes (Parquet)", lambda: results_of(kept), "parquet",
                "application/vnd.apache.parquet",
            ),
            ("Cells (CSV)", seen.csv, "csv", "text/csv"),
            ("Figures (SVG)", seen.figures, "zip", "application/zip"),
        ):  # fmt: skip
            st.download_button(
                label, make, f"{kept.name}.{file}", kind, on_click="ignore",
                key=f"agents-take-{file}", icon=":material/download:",
                type="primary" if file == "html" else "secondary",
            )  # fmt: skip


@st.cache_resource(max_entries=8, show_spinner=False)
def _seen(
    folder: str,  # noqa: ARG001 - a part of the key
    changed: tuple[int, ...],  # noqa: ARG001 - a part of the key
    _kept: Kept,
) -> Shown:
    return shown(_kept)

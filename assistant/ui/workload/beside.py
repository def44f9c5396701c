"""A log and a workload that was generated, side by side: verdict, figures, charts, downloads."""

import io
import tempfile
import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from assistant import charts_workload as specs
from assistant.applications.generating import (
    Compared,
    Comparison,
    Model,
    Workload,
    as_bytes,
    compare_workloads,
    definitions,
    distance_rows,
    quantity_rows,
    save_model,
    task_words,
    verdict,
    written_endings,
)
from assistant.applications.workloads import Window, WorkloadProfile, file_name, look, share
from assistant.ui.charting import low
from assistant.ui.words import plain
from assistant.ui.workload.drawing import draw_beside, shown_chart

_MIMES = {".swf": "text/plain", ".jsonl": "application/jsonl"}


def draw(log: Workload, seen: WorkloadProfile, generated: Workload) -> None:
    """Draw how like the generated workload is to the log."""
    with st.spinner("Comparing …"):
        found = _compared(_identity(log), _identity(generated), seen.procs, log, generated)
        other = _seen(_identity(generated), seen.procs, generated)
    st.subheader("How like the log it is")
    st.markdown("\n".join(f"- {plain(one)}" for one in verdict(found)))
    for sentence in (*task_words(generated), *found.notes):
        st.caption(plain(sentence))
    st.markdown("**Distances**")
    _distances(found)
    _hours(found)
    st.markdown("**Both in figures and curves**")
    draw_beside(seen, other)
    st.markdown("**Quantiles, rates and load**")
    names = {"one": found.one, "two": found.two, "value": "generated / log", "interval": "interval"}
    _table(quantity_rows(found), names, "quantiles and rates of both workloads")
    with st.expander("What the figures mean"):
        st.markdown("\n".join(f"- **{name}**: {plain(text)}" for name, text in definitions()))


def downloads(model: Model, workload: Workload, key: str) -> None:
    """Draw the buttons that hand out a generated workload and its model."""
    name = file_name(workload.name)
    with st.container(horizontal=True):
        for ending in written_endings():
            st.download_button(
                f"Download as {ending.removeprefix('.').upper()}",
                partial(_bytes, workload, ending), file_name=f"{name}{ending}",
                mime=_MIMES.get(ending, "text/plain"), icon=":material/download:",
                on_click="ignore", key=f"{key}-get{ending}",
            )  # fmt: skip
        ending = ".zip" if model.arrays else ".json"
        st.download_button(
            "Download the model", partial(_model_bytes, model),
            file_name=f"{model.generator}{ending}",
            mime="application/zip" if model.arrays else "application/json",
            icon=":material/download:", on_click="ignore", key=f"{key}-get-model",
        )  # fmt: skip


def _distances(found: Comparison) -> None:
    names = {"value": "distance", "interval": "interval", "usual": "usual among the log's days"}
    _table(distance_rows(found), names, "distances between the distributions of both workloads")


def _table(rows: Iterable[Compared], names: dict[str, str], alt: str) -> None:
    table = pd.DataFrame(
        {"": row.what, **{title: getattr(row, name) or "-" for name, title in names.items()},
         "verdict": row.verdict}
        for row in rows
    )  # fmt: skip
    st.dataframe(table, hide_index=True, width="stretch", height="content", alt=alt)


def _hours(found: Comparison) -> None:
    names = (found.one, found.two if found.two != found.one else f"{found.two} (generated)")
    shares = dict(zip(names, found.hours, strict=True))
    table = pd.DataFrame(
        {"hour": hour, **{name: share(of[hour], 1.0) for name, of in shares.items()}}
        for hour in range(24)
    )
    busiest = [max(range(24), key=of.__getitem__) for of in found.hours]
    alt = (
        f"share of the jobs by hour of the day; {names[0]} is busiest from {busiest[0]} to "
        f"{busiest[0] + 1} h, {names[1]} from {busiest[1]} to {busiest[1] + 1} h"
    )
    st.markdown("**Hours of the day**")
    shown_chart(low(specs.hours_of_the_day(shares)), alt, table)


def _bytes(workload: Workload, ending: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        return as_bytes(workload, ending, Path(folder))


def _model_bytes(model: Model) -> bytes:
    """Return a model as one file: JSON, or JSON and arrays packed together."""
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        path = Path(folder) / f"{model.generator}.json"
        save_model(model, path)
        if not model.arrays:
            return path.read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as into:
            for one in sorted(Path(folder).iterdir()):
                into.write(one, one.name)
        return packed.getvalue()


def _identity(log: Workload) -> tuple[object, ...]:
    return log.name, log.digest, log.max_procs, log.start_unix_s, log.time_zone


@st.cache_resource(max_entries=4, show_spinner=False)
def _compared(
    one: tuple[object, ...],  # noqa: ARG001 - a part of the key
    two: tuple[object, ...],  # noqa: ARG001 - a part of the key
    procs: int | None,
    _log: Workload,
    _generated: Workload,
) -> Comparison:
    return compare_workloads(_log, _generated, procs=procs)


@st.cache_resource(max_entries=4, show_spinner=False)
def _seen(
    identity: tuple[object, ...],  # noqa: ARG001 - a part of the key
    procs: int | None,
    _log: Workload,
) -> WorkloadProfile:
    return look(_log, Window(), procs, None)

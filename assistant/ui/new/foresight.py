"""Which jobs a run is judged on: those that are given, or generated futures of them."""

from dataclasses import replace

import streamlit as st

from assistant.applications import generators
from assistant.ui.new import fields
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Foresight, Form

_JUDGES = {
    "mean": "their mean",
    "quantile": "a quantile of them",
    "worst": "the worst of them",
}


def asked(form: Form, beside: Beside) -> Form:
    """Draw the fields. Returns what is filled in."""
    st.markdown("**Judged on**")
    kept = form.kept.get("application", {}).get("futures")
    if kept is not None:
        st.caption("Futures that are said by the sweep file, which stay as they are.")
        return form
    futures = form.cluster.futures
    known = generators(fitted=form.source == "log")
    as_given = "the jobs of the log, as they are" if form.source == "log" else "one generated log"
    told = {"": as_given, **{name: f"futures by {name}: {text}" for name, text in known.items()}}
    generator = fields.choice(
        "new-futures", "Every run is judged on", futures.generator, list(told),
        format_func=lambda name: told.get(name, name),
        help="A sweep over one log learns that log by heart. Over futures every run simulates "
        "several generated workloads, the same for all runs.",
    )  # fmt: skip
    futures = replace(futures, generator=generator)
    if generator:
        futures = _told(futures)
    beside.at("new-futures", "new-futures-count", "new-futures-duration", "new-futures-quantile")
    return replace(form, cluster=replace(form.cluster, futures=futures))


def _told(futures: Foresight) -> Foresight:
    with st.container(horizontal=True):
        count = fields.text("new-futures-count", "Futures", futures.count, width=120)
        duration = fields.text(
            "new-futures-duration", "Each as long as", futures.duration, width=160
        )
        judge = fields.choice(
            "new-futures-judge", "Judged by", futures.judge, list(_JUDGES), width=240,
            format_func=lambda name: _JUDGES.get(name, name),
        )  # fmt: skip
        quantile = futures.quantile
        if judge == "quantile":
            quantile = fields.text(
                "new-futures-quantile", "Futures that are no worse", quantile, width=240,
                placeholder="0.9",
            )  # fmt: skip
    return replace(futures, count=count, duration=duration, judge=judge, quantile=quantile)

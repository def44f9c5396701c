"""Step 4 of *New*: how it chooses; and the review of everything with the sweep file."""

import re
from dataclasses import replace

import streamlit as st

from assistant.report.words import duration
from assistant.sla import Sla
from assistant.toml_text import toml_text
from assistant.ui import words
from assistant.ui.new import fields
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Form
from assistant.ui.new.outline import Outline
from assistant.ui.new.source import SOURCES
from assistant.ui.steering.controls import strategy_fields
from strategies import strategy_entry, strategy_names

_USUAL_SHARE = 0.7


def step(form: Form, beside: Beside) -> Form:
    """Draw the fields. Returns what is filled in."""
    if form.source == "file":
        st.info("The sweep file says how it chooses.", icon=":material/description:")
    else:
        form = _chosen(form, beside)
    unattended = fields.tick(
        "new-unattended", "Take suggestions by themselves", form.unattended,
        help="Automatic steering: every suggestion is run as it comes, until the budget is used, "
        "the goal is reached or you stop it. Otherwise you look at each batch first.",
    )  # fmt: skip
    return replace(form, unattended=unattended)


def _chosen(form: Form, beside: Beside) -> Form:
    strategy, options = strategy_fields("new", form.strategy, form.options)
    st.caption(strategy_entry(strategy).summary if strategy in strategy_names() else "")
    beside.at("new-strategy")
    with st.container(horizontal=True, vertical_alignment="top"):
        seed = fields.count(
            "new-seed", "Seed of every random choice", form.seed, 0, width=220,
            help="The same seed makes the same choices again.",
        )  # fmt: skip
        workers = fields.count("new-workers", "Runs at once", form.workers, 1, 64, width=160)
        initial = fields.count(
            "new-initial", "First runs", form.initial, 0, width=160,
            help="Runs that are spread over the space before results decide.",
        )  # fmt: skip
        batch = fields.count(
            "new-batch", "Suggestions at a time", form.batch, 1, width=200,
            placeholder="what suits",
        )  # fmt: skip
    share = _share(form)
    if form.kept:
        st.caption(
            f"Kept from the original: {', '.join(sorted(form.kept))}; see the sweep file below."
        )
    usual = {one.name: one.default for one in strategy_entry(strategy).options}
    return replace(
        form,
        strategy=strategy,
        options={name: value for name, value in options.items() if value != usual[name]},
        seed=form.seed if seed is None else seed,
        workers=form.workers if workers is None else workers,
        initial=form.initial if initial is None else initial,
        batch=batch,
        exploitation=share,
    )


def _share(form: Form) -> float | None:
    split = fields.tick(
        "new-split", "Spend a share of the runs inside regions of good results",
        form.exploitation is not None,
        help="A share of 0 % keeps out of the regions; without a split they are not looked at.",
    )  # fmt: skip
    if not split:
        return None
    key = "new-share"
    if key not in st.session_state:
        st.session_state[key] = round(
            100 * (0.7 if form.exploitation is None else form.exploitation)
        )
    percent: int = st.slider(
        "Share inside regions (exploitation)", 0, 100, step=5, format="%d %%", key=key
    )
    kept = form.exploitation
    return kept if kept is not None and round(100 * kept) == percent else percent / 100


def review(form: Form, beside: Beside, seen: Outline) -> Form:
    """Draw everything in words, and the sweep file that says it. Returns the form with its name."""
    if form.source != "file":
        name = fields.text(
            "new-name", "Name of the experiment", form.name, placeholder=form.full_name
        )
        form = replace(form, name=name)
        beside.at("new-name")
    for line in _in_words(form, seen):
        st.markdown(line)
    if seen.faults:
        return form
    text = toml_text(seen.tables)
    st.markdown("**The sweep file**")
    st.caption(
        "It says the same on any command line of this machine: `copperline sweep FILE` runs it to "
        "its end, `copperline try FILE` tries one run."
    )
    st.code(text, language="toml", height=320)
    st.download_button(
        "Download the sweep file", text, f"{_file_name(form)}.toml", "application/toml",
        key="new-download", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    return form


def _file_name(form: Form) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", form.full_name).strip("-") or "sweep"


def _in_words(form: Form, seen: Outline) -> list[str]:
    """Return what was filled in, a line for each step."""
    named = f" `{form.path}`" if form.path and form.source in ("log", "table", "file") else ""
    lines = [f"**What is run**: {SOURCES[form.source]}{named}", f"**Space**: {seen.size_words}"]
    if seen.built is not None:
        settings, objective = seen.built.settings, seen.built.objective
        constraints = "; ".join(str(one) for one in objective.constraints)
        subject = f", subject to: {constraints}" if constraints else ""
        lines.append(f"**Goal**: {objective}{subject}")
        lines.append(f"**Agreement**: {_agreed(settings.agreement(0.0))}")
        lines.append(
            f"**Chosen by**: {settings.strategy.name}, seed {settings.seed}, "
            f"{words.runs(settings.workers)} at once"
        )
    who = "suggestions are taken by themselves" if form.unattended else "you look at each batch"
    lines.append(f"**Who decides**: {who}")
    return [words.plain(line) for line in lines]


def _agreed(sla: Sla) -> str:
    """Return the terms in words; a deadline counts from the start."""
    told = [] if sla.max_runs is None else [words.runs(sla.max_runs)]
    if sla.deadline_s is not None:
        told.append(f"over {duration(sla.deadline_s)} after the start")
    if sla.goal is not None:
        told.append(f"good enough at {sla.goal:g}")
    if sla.run_limit_s is not None:
        told.append(f"at most {sla.run_limit_s:g} s a run")
    if sla.tariff is not None:
        told.append(f"cost {sla.cost_text}" if sla.max_cost is not None else "cost is counted")
    return ", ".join(told) or "no limit"

"""Step 3 of *New*: what is wanted, and what may be spent on it."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import streamlit as st

from assistant.objective import Objective
from assistant.report.words import duration, moment
from assistant.settings import check_settings
from assistant.ui import words
from assistant.ui.new import fields
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Bound, Direction, Form, Wish
from assistant.ui.new.outline import Outline, plain_application
from assistant.ui.steering.terms import Terms

_GOALS: Mapping[str, str] = {"minimise": "as small as possible", "maximise": "as large as possible"}


def step(form: Form, beside: Beside, seen: Outline, given: Sequence[str]) -> Form:
    """Draw the fields. Returns what is filled in.

    Args:
        form: what was filled in so far.
        beside: where refusals are told.
        seen: what the form comes to.
        given: names of the measures that a trial gave; empty if none was made.
    """
    if form.source == "file":
        _told(seen)
        return form
    known = None if form.is_own_program else plain_application(form)
    own = None if known is None else known.objective
    names = list(known.application.measures or ()) if known is not None else list(given)
    st.subheader("Goal", divider="gray")
    wish = _wanted(form, beside, own, names)
    wish = _constraints(wish, beside, own, names)
    form = replace(form, wish=wish)
    st.subheader("Agreement", divider="gray")
    return _agreement(form, beside)


def _told(seen: Outline) -> None:
    """Say what the sweep file says."""
    if seen.built is None:
        st.info("The goal and the agreement are shown once the sweep file can be read.")
        return
    settings, objective = seen.built.settings, seen.built.objective
    st.markdown(f"**Goal**: {words.plain(str(objective))}")
    for constraint in objective.constraints:
        st.markdown(f"subject to: {words.plain(str(constraint))}")
    runs = "no limit of runs" if settings.max_runs is None else words.runs(settings.max_runs)
    st.markdown(f"**Agreement**: {runs}")
    st.caption("The sweep file says them; the first step has a button to change them in fields.")


def _wanted(form: Form, beside: Beside, own: Objective | None, names: list[str]) -> Wish:
    wish = form.wish
    options: dict[str, str] = dict(_GOALS)
    if not form.is_own_program:
        what = f" ({own})" if own is not None else ""
        options = {"own": f"what suits it{what}", **options}
    if "objective" in form.kept:
        options["kept"] = "as in the original"
    now = "minimise" if wish.direction == "own" and form.is_own_program else wish.direction
    with st.container(horizontal=True, vertical_alignment="bottom"):
        direction: Direction = fields.choice(
            "new-direction", "Wanted is", now, list(options),  # type: ignore[arg-type]
            format_func=lambda name: options.get(name, name), width=370,
        )  # fmt: skip
        wish = replace(wish, direction=direction)
        if direction in _GOALS:
            measure = _measure("new-measure", "of the measure", wish.measure, names)
            unit = fields.text("new-unit", "Unit", wish.unit, placeholder="as usual", width=130)
            wish = replace(wish, measure=measure, unit=unit)
    beside.at("new-measure")
    if form.is_own_program and not names:
        st.caption("A measure is a name in what the program gives; *Try one run* shows them all.")
    with st.expander("A second measure: find the trade-offs of both"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            second = _measure("new-second", "Second measure", wish.second, names)
            second_direction = fields.choice(
                "new-second-direction", "which should be", wish.second_direction, list(_GOALS),
                format_func=_GOALS.__getitem__, width=240,
            )  # fmt: skip
        beside.at("new-second")
    return replace(wish, second=second, second_direction=second_direction)


def _measure(key: str, label: str, value: str, names: list[str], width: int = 300) -> str:
    """Draw a measure: a choice of those that are known, else a line of text."""
    if not names:
        return fields.text(key, label, value, placeholder="time_ms", width=width)
    return fields.choice(  # another key: one that was typed is no state of a choice, and is lost
        f"{key}-known", label, value, ["", *names], format_func=lambda name: name or "none",
        width=width, accept_new_options=True,
    )  # fmt: skip


def _constraints(wish: Wish, beside: Beside, own: Objective | None, names: list[str]) -> Wish:
    st.markdown("**Constraints**")
    if own is not None and own.constraints:
        labels = {one.measure: str(one) for one in own.constraints}
        kept = fields.several(
            "new-own-constraints", "Of the simulation",
            [name for name in labels if name not in wish.without], list(labels),
            format_func=lambda name: labels.get(name, name),
            placeholder="none is kept",
            others=False,
        )  # fmt: skip
        without = tuple(name for name in labels if name not in kept)
        wish = replace(wish, without=without)
    bounds = tuple(_bound(bound, beside, names) for bound in wish.bounds)
    st.button(
        "Add a constraint", key="new-add-bound", icon=":material/add:",
        on_click=fields.changed, args=(Form.with_bound,),
    )  # fmt: skip
    return replace(wish, bounds=bounds)


def _bound(bound: Bound, beside: Beside, names: list[str]) -> Bound:
    key = f"new-c{bound.uid}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        measure = _measure(f"{key}-measure", "Measure", bound.measure, names, width=230)
        low = fields.text(f"{key}-low", "at least", bound.at_least, width=120)
        high = fields.text(f"{key}-high", "at most", bound.at_most, width=120)
        label = fields.text(
            f"{key}-label", "In words", bound.label, placeholder="optional", width=200
        )
        st.button(
            "Remove", key=f"{key}-remove", icon=":material/delete:",
            on_click=fields.changed, args=(partial(Form.without_bound, uid=bound.uid),),
        )  # fmt: skip
    beside.at(key)
    return replace(bound, measure=measure, at_least=low, at_most=high, label=label)


def _agreement(form: Form, beside: Beside) -> Form:
    terms = form.terms
    with st.container(horizontal=True, vertical_alignment="top"):
        runs = fields.count(
            "new-runs", "Budget of runs", form.runs, 1, width=200, placeholder="no limit",
            help="How many runs may be made in all. Empty is what the deadline or the cost allow, "
            "and 60 without either.",
        )  # fmt: skip
        deadline = fields.text(
            "new-deadline", "Deadline, from now", form.deadline, placeholder="none, or 30m",
            width=200,
        )  # fmt: skip
        goal = fields.text(
            "new-goal", "A value that is good enough", terms.goal, placeholder="none", width=220,
            help="Of the measure above. Automatic steering ends once a run that meets every "
            "constraint reaches it.",
        )  # fmt: skip
        run_limit = fields.text(
            "new-run-limit", "A single run may take", terms.run_limit,
            placeholder="any time, or 10m", width=200,
            help="A run that takes longer has failed. A program of your own is ended; a function, "
            "a simulation or a table is judged when it is over.",
        )  # fmt: skip
    beside.at("new-deadline", "new-goal", "new-run-limit", "new-runs")
    with suppress(Exception):  # whatever is wrong with it is said beside the field
        span_s = check_settings({"deadline": deadline.strip() or None}, "the form").deadline
        if span_s is not None:
            st.caption(_until(span_s, time.time()))
    terms = replace(terms, goal=goal, run_limit=run_limit)
    with st.expander("More: cost, going on beyond the goal"):
        terms = _more(terms, beside)
    return replace(form, runs=runs, deadline=deadline, terms=terms)


def _until(span_s: float, now_s: float) -> str:
    """Say what a deadline comes to, since ``20:00`` is a span and no time of the day.

    >>> _until(1800.0, 0.0)
    'The deadline is 30 min 00 s after the start: 1970-01-01 00:30 UTC if that is now.'
    """
    after = duration(span_s)
    return f"The deadline is {after} after the start: {moment(now_s + span_s)} if that is now."


def _more(terms: Terms, beside: Beside) -> Terms:
    go_on = fields.tick("new-go-on", "Go on automatically once the goal is reached", terms.go_on)
    with st.container(horizontal=True):
        limit = fields.text(
            "new-cost", "All runs may cost", terms.cost_limit, placeholder="no limit", width=180
        )
        unit = fields.text("new-cost-unit", "in", terms.unit, placeholder="EUR", width=100)
        per_hour = fields.text(
            "new-per-hour", "An hour of a run costs", terms.per_hour, placeholder="0.5", width=180
        )
        resources = fields.text(
            "new-resources", "times this parameter or measure", terms.resources,
            placeholder="nothing, or nodes", width=230,
        )  # fmt: skip
        measure = fields.text(
            "new-cost-measure", "or the cost is the measure", terms.measure,
            placeholder="energy_j", width=230,
        )  # fmt: skip
    beside.at("new-cost")
    return replace(
        terms, go_on=go_on, cost_limit=limit, unit=unit, per_hour=per_hour, resources=resources,
        measure=measure,
    )  # fmt: skip

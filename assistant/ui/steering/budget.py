"""The agreement while it runs: its terms, and what changes them."""

import time
from dataclasses import replace

import streamlit as st

from assistant import Experiment, Tariff
from assistant.report.agreement import agreed_words
from assistant.settings import check_settings
from assistant.settings_agreement import check_tariff
from assistant.ui.desk import Desk
from assistant.ui.intents import FieldError, Intent, answer_at, sentence
from assistant.ui.steering.terms import Terms, goal_field, more_fields


def section(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the agreement and what changes it. Returns the change, if it is wanted."""
    sla = experiment.sla
    agreed = "; ".join(agreed_words(experiment)) or "no limit and no goal"
    st.caption(f"Now: {agreed}.")
    limited = st.checkbox(
        "Limit the number of runs", sla.max_runs is not None, key="budget-limited"
    )
    n = st.number_input(
        "Runs in all",
        1,
        value=sla.max_runs or max(1, experiment.n_charged + 20),
        disabled=not limited,
        key=f"budget-{desk.session.id}-{sla.max_runs}",
    )
    choices = [
        "keep it" if sla.deadline_s else "none",
        "set another" if sla.deadline_s else "set one",
    ]
    if sla.deadline_s:
        choices.append("take it away")
    chosen = st.segmented_control("Deadline", choices, default=choices[0], key="budget-deadline")
    text = ""
    if chosen == choices[1]:
        text = st.text_input("Time from now", placeholder="30m", key="budget-deadline-text")
    answer_at("budget", "budget-deadline-text")
    key, present = f"budget-{desk.session.id}-{hash(sla)}", Terms.of(sla)
    goal = goal_field(key, present)
    with st.expander("More of the agreement: cost, time of a run"):
        terms = more_fields(key, goal, present)
    if not st.button("Agree on this budget", key="change-budget"):
        return None

    def do() -> str:
        at = sla.deadline_s if chosen != "take it away" else None
        if chosen == choices[1]:
            at = _deadline_s(text, "budget-deadline-text")
        said = check_settings({"runs": n, **terms.tables(key)}, "the fields")
        agreed = replace(
            said.agreement(time.time()), max_runs=n if limited else None, deadline_s=at
        )
        _check_cost(agreed.tariff, experiment, f"{key}-cost")
        desk.session.change_budget(agreed)

        return "The budget is changed."

    return Intent("budget", do)


def _deadline_s(text: str, place: str) -> float:
    """Return a moment from a time from now such as ``30m``. Raises FieldError for its place."""
    try:
        settings = check_settings({"deadline": text.strip()}, "the deadline")
    except Exception as error:
        hint = "A time from now is wanted, such as 90s, 30m or 2h."
        raise FieldError(place, f"{sentence(error)} {hint}") from error
    if settings.deadline is None:
        raise FieldError(place, "A time from now is wanted, such as 90s, 30m or 2h.")
    return time.time() + settings.deadline


def _check_cost(tariff: Tariff | None, experiment: Experiment, place: str) -> None:
    """Raise FieldError for its place if the cost is by what there is not."""
    if tariff is None:
        return
    opened = experiment.opened
    try:
        check_tariff(tariff, experiment.space, experiment.known_measures, opened.application)
    except Exception as error:
        raise FieldError(place, sentence(error)) from error

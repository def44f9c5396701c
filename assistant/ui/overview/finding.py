"""What was found so far, on *Overview*: the answer, the levels that give it, and what matters."""

from collections.abc import Mapping

import streamlit as st

from assistant import Experiment
from assistant.effects import Filter, effects_report, strengths
from assistant.objective import Constraint, Measure
from assistant.report.answer import answer
from assistant.report.data import Change, changes
from assistant.report.effects import headline, responses_of
from assistant.report.words import quantity, unit_of
from assistant.ui import words
from strategies.errors import AnalysisError

MOST_TOLD = 8
"""Levels that are told in a sentence; of more parameters the rest is counted."""


def section(experiment: Experiment) -> None:
    """Draw what was found; nothing before the first result."""
    if experiment.best is None:
        return
    st.subheader("What was found so far")
    found = answer(experiment)
    st.markdown(f"**{words.plain(found.headline)}** {words.plain(levels_text(experiment))}")
    if found.verdict == "nothing_feasible":
        for sentence in violated(experiment):
            st.markdown(f":material/close: {words.plain(sentence)}")
    st.markdown(f"**What matters**: {words.plain(_effects(experiment))}")


def levels_text(experiment: Experiment) -> str:
    """Say the levels of the best: what it changes of today's, else all of them."""
    told = changes(experiment)
    differing = [one for one in told if one.differs]
    if told and told[0].today is not None:
        if not differing:
            return ""
        return f"It changes {_listed([_changed(one) for one in differing])}."
    return f"It has {_listed([f'{one.parameter} {one.best}' for one in told])}."


def _changed(one: Change) -> str:
    return f"{one.parameter} from {one.today} to {one.best}"


def _listed(parts: list[str]) -> str:
    if len(parts) <= MOST_TOLD:
        return ", ".join(parts)
    return f"{', '.join(parts[:MOST_TOLD])}, and {len(parts) - MOST_TOLD:,} more"


def violated(experiment: Experiment) -> list[str]:
    """Say of each constraint that the best violates how many runs meet it, and its measure."""
    best = None if experiment.best is None else experiment.standing(experiment.best)
    if best is None:
        return []
    mean = best.outcome.measures
    measured = [run.outcome.measures for run in experiment.runs if run.outcome is not None]
    sentences = []
    for one in experiment.opened.objective.constraints:
        if one.violation(mean) > 0:
            n = sum(one.violation(measures) == 0 for measures in measured)
            who = f"met by {n:,} of {words.runs(len(measured))}"
            sentences.append(f"{one}: {who}; run {best.run.id} has {_value(one, mean)}.")
    return sentences


def _value(one: Constraint, measures: Mapping[str, Measure]) -> str:
    value = measures[one.measure]
    if isinstance(value, int | float):
        return f"{one.measure} = {quantity(float(value), unit_of(one.measure))}"
    return f"{one.measure} = {value}"


def _state(experiment: Experiment) -> tuple[str, int, int]:
    opened = experiment.opened
    return opened.experiment_id, experiment.version, len(experiment.measured)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs={Experiment: _state})
def _effects(experiment: Experiment) -> str:
    """Return what matters in a sentence or two, made once for the results and the space."""
    response, every = responses_of(experiment)[0], Filter(feasible=False)
    try:
        report = effects_report(experiment, (), response, every)
        return headline(report, strengths(experiment, response, every))
    except AnalysisError as error:
        text = str(error).removesuffix(".")
        return f"not known yet: {text}."

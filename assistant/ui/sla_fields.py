"""Form fields of the SLA except budget and deadline, as typed text and as settings tables."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import streamlit as st

from assistant.config.sweep_file import check_settings, sla_tables
from assistant.core.sla import Sla
from assistant.ui.bindings import Binding, changed, put, read, write
from assistant.ui.intents import FormFieldError, answer_at, sentence


@dataclass(frozen=True, slots=True)
class SlaFields:
    """SLA form fields as typed, except budget and deadline; an empty field means no limit.

    Args:
        go_on: whether auto-steering continues once the goal is reached.
        keep_going: whether auto-steering continues although the program cannot run.
        run_limit: longest runtime of a single run, such as ``10m``.
        cost_limit: limit of the cost of all runs; if empty, the cost is only counted.
        unit: unit of the cost, such as EUR.
        per_hour: price of an hour of a run; empty where a measure is the cost.
        resources: parameter or measure that multiplies this price.
    """

    goal: str = ""
    go_on: bool = False
    keep_going: bool = False
    run_limit: str = ""
    cost_limit: str = ""
    unit: str = ""
    per_hour: str = ""
    resources: str = ""
    measure: str = ""

    @classmethod
    def of(cls, sla: Sla) -> "SlaFields":
        """Return the form fields of an existing SLA."""
        return read(SLA_BINDINGS, sla_tables(sla), cls())

    def tables(self, key: str) -> dict[str, Any]:
        """Return the fields as settings tables of a sweep file, or raise FormFieldError."""
        tables: dict[str, Any] = {}
        for path, value in write(SLA_BINDINGS, self, key, Refusal()):
            put(tables, path, value)
        if "cost" in tables:
            check_field(f"{key}-cost", {"cost": tables["cost"]})
        return tables


class Refusal:
    """Recorder that raises the first error."""

    def beside(self, _place: str) -> AbstractContextManager[None]:
        """Let an error in the block pass."""
        return nullcontext()


SLA_BINDINGS = (
    Binding("goal", "goal"),
    Binding(
        "at_goal",
        "go_on",
        place="go-on",
        values={True: "go_on", False: "stop"},
        words="Continue auto-steering after the goal is reached",
    ),
    Binding("keep_going", "keep_going"),
    Binding("run_limit", "run_limit"),
    Binding("cost.limit", "cost_limit", place="cost"),
    Binding("cost.unit", "unit", place="cost-unit", beside="cost"),
    Binding("cost.per_hour", "per_hour", beside="cost"),
    Binding("cost.resources", "resources", beside="cost"),
    Binding("cost.measure", "measure", place="cost-measure", beside="cost"),
)
"""Fields of the SLA except budget and deadline, in the order of a form."""


def check_field(place: str, tables: Mapping[str, Any], hint: str = "") -> None:
    """Raise FormFieldError for a field (``place``) if its settings tables are invalid."""
    try:
        check_settings(tables, "the form").sla(0.0)
    except Exception as error:
        raise FormFieldError(place, f"{sentence(error)} {hint}".strip()) from error


def sla_field(key: str, path: str, present: SlaFields) -> SlaFields:
    """Draw the field of one key, and return the fields with what is entered."""
    binding = next(each for each in SLA_BINDINGS if each.path == path)
    entered, widget = attrgetter(binding.attribute)(present), binding.widget(key)
    value: bool | str
    if isinstance(entered, bool):
        value = st.checkbox(binding.label, entered, key=widget, help=binding.help)
    else:
        value = st.text_input(
            binding.label, entered, key=widget, help=binding.help, placeholder=binding.placeholder
        )
    if not binding.beside:
        answer_at(binding.message_place(key))
    return changed(present, binding.attribute, value)


def more_fields(key: str, present: SlaFields) -> SlaFields:
    """Draw the SLA fields other than the goal, and return all fields."""
    for path in ("at_goal", "keep_going", "run_limit"):
        present = sla_field(key, path, present)
    left, right = st.columns(2)
    for i, binding in enumerate(each for each in SLA_BINDINGS if each.path.startswith("cost.")):
        with (left, right)[i % 2]:
            present = sla_field(key, binding.path, present)
    return present

"""Form fields of the SLA except budget and deadline, as typed text and as settings tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from assistant.config.sweep_file import check_settings
from assistant.core.sla import Sla, number_text
from assistant.ui.intents import FormFieldError, answer_at, sentence
from strategies.space.parameter import parse_number

KEEP_GOING = "Keep going although the current configuration, or each of the first 3 runs, fails"
_TIME = "Enter a time such as 90s, 30m or 2h, or leave the field empty."


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
        tariff = sla.tariff
        return cls(
            goal=_field_text(sla.goal),
            go_on=sla.at_goal == "go_on",
            keep_going=sla.keep_going,
            run_limit=_field_text(sla.run_limit_s),
            cost_limit=_field_text(sla.max_cost),
            unit="" if tariff is None else tariff.unit,
            per_hour="" if tariff is None else _field_text(tariff.per_hour),
            resources="" if tariff is None else tariff.resources or "",
            measure="" if tariff is None else tariff.measure or "",
        )

    def tables(self, key: str) -> dict[str, Any]:
        """Return the fields as settings tables of a sweep file, or raise FormFieldError."""
        tables: dict[str, Any] = {}
        goal = _number(self.goal, f"{key}-goal")
        if goal is not None:
            tables["goal"] = goal
        if self.go_on:
            tables["at_goal"] = "go_on"
        if self.keep_going:
            tables["keep_going"] = True
        if self.run_limit.strip():
            tables["run_limit"] = self.run_limit.strip()
            check_field(f"{key}-run-limit", {"run_limit": tables["run_limit"]}, _TIME)
        texts = {"unit": self.unit, "resources": self.resources, "measure": self.measure}
        cost: dict[str, Any] = {name: text.strip() for name, text in texts.items() if text.strip()}
        for name, text in (("limit", self.cost_limit), ("per_hour", self.per_hour)):
            number = _number(text, f"{key}-cost")
            if number is not None:
                cost[name] = number
        if cost:
            check_field(f"{key}-cost", {"cost": cost})
            tables["cost"] = cost
        return tables


def check_field(place: str, tables: Mapping[str, Any], hint: str = "") -> None:
    """Raise FormFieldError for a field (``place``) if its settings tables are invalid."""
    try:
        check_settings(tables, "the form").sla(0.0)
    except Exception as error:
        raise FormFieldError(place, f"{sentence(error)} {hint}".strip()) from error


def goal_field(key: str, present: SlaFields) -> str:
    """Draw the text field for the goal and return its content."""
    goal = st.text_input(
        "Goal: target value of the first measure",
        present.goal,
        placeholder="none",
        key=f"{key}-goal",
        help="Auto-steering ends once a feasible run reaches the goal.",
    )
    answer_at(f"{key}-goal")
    return goal


def more_fields(key: str, goal: str, present: SlaFields) -> SlaFields:
    """Draw the SLA fields other than the goal, and return all fields including the goal."""
    go_on = st.checkbox(
        "Continue auto-steering after the goal is reached", present.go_on, key=f"{key}-go-on"
    )
    keep_going = st.checkbox(KEEP_GOING, present.keep_going, key=f"{key}-keep-going")
    run_limit = st.text_input(
        "Run limit: longest duration of a run",
        present.run_limit,
        placeholder="no limit, or 10m",
        key=f"{key}-run-limit",
        help="A run that takes longer fails. Your own program is stopped at the limit; a function, "
        "a simulation or a table is checked when it ends.",
    )
    answer_at(f"{key}-run-limit")
    left, two = st.columns(2)
    limit = left.text_input(
        "Cost limit of all runs", present.cost_limit, placeholder="no limit", key=f"{key}-cost"
    )
    unit = two.text_input("Unit of the cost", present.unit, placeholder="EUR", key=f"{key}-unit")
    per_hour = left.text_input(
        "Price of an hour of a run", present.per_hour, placeholder="0.5", key=f"{key}-per-hour"
    )
    resources = two.text_input(
        "Multiply by this parameter or measure",
        present.resources,
        placeholder="none, or nodes",
        key=f"{key}-resources",
    )
    measure = left.text_input(
        "Or: measure that is the cost",
        present.measure,
        placeholder="energy_j",
        key=f"{key}-measure",
    )
    answer_at(f"{key}-cost")
    return SlaFields(goal, go_on, keep_going, run_limit, limit, unit, per_hour, resources, measure)


def _field_text(number: float | None) -> str:
    return "" if number is None else number_text(number).replace(",", "")


def _number(text: str, place: str) -> int | float | None:
    if not text.strip():
        return None
    number = parse_number(text.strip())
    if number is None:
        raise FormFieldError(
            place, f"'{text.strip()}' is not a number; use a decimal point and no commas."
        )
    return number

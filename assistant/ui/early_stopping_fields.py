"""Form fields of early stopping, as typed text and as settings."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from assistant.config.sweep_file import check_settings
from assistant.core.early_stopping import STOP_RULES, EarlyStopping, StopRule
from assistant.ui.bindings import Binding, put, read, write
from assistant.ui.intents import answer_at
from assistant.ui.sla_fields import Refusal

RULES = {rule: words.removeprefix("the ") for rule, words in STOP_RULES.items()}
NEEDS_STEPS = "It needs a program that prints its measures while it works, with their step."


@dataclass(frozen=True, slots=True)
class EarlyStoppingFields:
    """Form fields of early stopping as typed; without ``step`` no run is stopped."""

    step: str = ""
    rule: StopRule = "median"
    first_step: str = ""
    factor: str = ""
    others: str = ""

    @classmethod
    def of(cls, settings: EarlyStopping | None) -> "EarlyStoppingFields":
        """Return the form fields of existing settings."""
        tables = {} if settings is None else {"early_stopping": asdict(settings)}
        return read(EARLY_STOPPING_BINDINGS, tables, cls())

    def value(self, key: str) -> EarlyStopping | None:
        """Return the settings, or raise FormFieldError for a field of the form ``key``."""
        if not self.step.strip():
            return None
        tables: dict[str, Any] = {}
        for path, value in write(EARLY_STOPPING_BINDINGS, self, key, Refusal()):
            put(tables, path, value)
        early = check_settings(tables, "the fields").early_stopping
        return None if early is None else early.build()


EARLY_STOPPING_BINDINGS = tuple(
    Binding(f"early_stopping.{name}", name, place=f"early-{name.replace('_', '-')}")
    for name in ("step", "rule", "first_step", "factor", "others")
)
"""Fields of early stopping, in the order of a form."""


def shown(fields: EarlyStoppingFields) -> tuple[str, ...]:
    """Return the keys whose fields matter: the first alone if no run is stopped."""
    if not fields.step.strip():
        return ("step",)
    factor = ("factor",) if fields.rule == "halving" else ()
    return ("step", "rule", "first_step", *factor, "others")


def early_stopping_fields(key: str, present: EarlyStoppingFields) -> EarlyStoppingFields:
    """Draw the fields that matter, and return them with what is entered."""
    drawn: dict[str, Any] = {}
    draw: dict[str, Callable[..., Any]] = {"rule": _rule_field}
    for binding in EARLY_STOPPING_BINDINGS:
        entered = EarlyStoppingFields(**{**asdict(present), **drawn})
        if binding.attribute in shown(entered):
            field = draw.get(binding.attribute, _text_field)
            drawn[binding.attribute] = field(binding, key, getattr(present, binding.attribute))
            answer_at(binding.message_place(key))
    return EarlyStoppingFields(**{**asdict(present), **drawn})


def _text_field(binding: Binding, key: str, entered: str) -> str:
    return st.text_input(
        binding.label, entered, key=binding.widget(key), help=binding.help,
        placeholder=binding.placeholder,
    )  # fmt: skip


def _rule_field(binding: Binding, key: str, entered: StopRule) -> StopRule:
    rules = list(RULES)
    return st.selectbox(
        binding.label, rules, rules.index(entered), format_func=RULES.__getitem__,
        key=binding.widget(key), help=binding.help,
    )  # fmt: skip

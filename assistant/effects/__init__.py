"""What parameters do to a measured value, and what is missing before more can be said."""

from assistant.effects.analysis import (
    EffectsReport,
    Interaction,
    MainEffect,
    ValueChange,
    Verdict,
    effects_report,
)
from assistant.effects.missing import MissingReport, missing_report
from assistant.effects.response import EVERY, Filter, Response, first_response, measured
from assistant.effects.strength import (
    MOST_PAIRED,
    StandardisedEffects,
    Strength,
    Strengths,
    standardised,
    strengths,
)

__all__ = [
    "EVERY",
    "MOST_PAIRED",
    "EffectsReport",
    "Filter",
    "Interaction",
    "MainEffect",
    "MissingReport",
    "Response",
    "StandardisedEffects",
    "Strength",
    "Strengths",
    "ValueChange",
    "Verdict",
    "effects_report",
    "first_response",
    "measured",
    "missing_report",
    "standardised",
    "strengths",
]

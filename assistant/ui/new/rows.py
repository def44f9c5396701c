"""The parameters of one's own program, from rows of fields to levels, and the words of refusals."""

from collections.abc import Mapping
from typing import Any

from assistant.settings import check_settings
from assistant.ui.intents import FieldError, sentence
from assistant.ui.new.form import Kind, Row
from strategies import Level, Parameter
from strategies.parameter import Family, parse_number

KINDS: Mapping[Kind, tuple[Family, str | None]] = {
    "numbers": ("number", None),
    "numbers without order": ("number", "nominal"),
    "names": ("text", None),
    "names in order": ("text", "ordinal"),
    "yes or no": ("truth", None),
    "yes or no in order": ("truth", "ordinal"),
}
"""Type of the levels, and the kind where it is not the usual one."""


class MissingError(FieldError):
    """Nothing was typed where something is needed."""


def parameter_of(row: Row) -> tuple[dict[str, Any], Parameter]:
    """Return a parameter as a sweep file says it, and as it is.

    Raises:
        FieldError: the first field that is wrong.
    """
    place = f"new-p{row.uid}"
    name = row.name.strip()
    if not name:
        raise MissingError(f"{place}-name", "Name the parameter.")
    try:
        Parameter(name, (1,))
    except Exception as error:
        raise FieldError(f"{place}-name", sentence(error)) from error
    table: dict[str, Any] = {"name": name, **_levels(row, f"{place}-levels")}
    kind = KINDS[row.kind][1]
    if kind is not None:
        table["kind"] = kind
    table |= {k: t.strip() for k, t in _texts(row).items() if t.strip()}
    try:
        settings = check_settings({"parameters": [table]}, "the form")
        return table, settings.parameters[0].build()
    except Exception as error:
        raise FieldError(f"{place}-levels", sentence(error)) from error


def _texts(row: Row) -> dict[str, str]:
    return {"unit": row.unit, "description": row.description}


def _levels(row: Row, place: str) -> dict[str, Any]:
    if row.how == "list":
        if not row.levels:
            raise MissingError(place, "Add at least one level.")
        return {"levels": [_level(text, row.kind, place) for text in row.levels]}
    third = "step" if row.how == "steps" else "count"
    ends = {"low": row.low, "high": row.high, third: row.step}
    if not all(text.strip() for text in ends.values()):
        what = "the step" if third == "step" else "how many levels there are"
        raise MissingError(place, f"Say where the levels begin and end, and {what}.")
    if KINDS[row.kind][0] != "number":
        raise FieldError(place, "Levels between two ends are numbers; choose numbers, or a list.")
    numbers = {name: number_in(text, place) for name, text in ends.items()}
    if row.how == "steps":
        return {"range": numbers}
    return {"logarithmic": numbers | ({"integer": True} if row.whole else {})}


def _level(text: str, kind: Kind, place: str) -> Level:
    """Return the level that was typed, of the type that the kind wants."""
    family = KINDS[kind][0]
    if family == "text":
        return text.strip()
    if family == "truth":
        truth = {"true": True, "yes": True, "false": False, "no": False}.get(text.strip().lower())
        if truth is None:
            raise FieldError(place, f"'{text}' is neither yes nor no.")
        return truth
    return number_in(text, place, ", or say that the levels are names")


def number_in(text: str, place: str, more: str = "") -> int | float:
    """Return the number that was typed. Raises FieldError for its place if it is none."""
    number = parse_number(text.strip())
    if number is None:
        raise FieldError(
            place,
            f"'{text.strip()}' is no number; write it with a point, and without commas{more}.",
        )
    return number


def todays_level(row: Row) -> Level:
    """Return the level of a parameter in today's configuration.

    Raises:
        FieldError: none is chosen, or it is no level.
    """
    place = f"new-p{row.uid}-today"
    name = row.name.strip() or "this parameter"
    if not row.today.strip():
        raise MissingError(place, f"Choose today's level of {name}, or say that there is no today.")
    try:
        _, parameter = parameter_of(row)
    except FieldError:
        return row.today.strip()  # said beside the levels
    value = _level(row.today, row.kind, place)
    try:
        return parameter.levels[parameter.level_id(value)]
    except Exception as error:
        raise FieldError(place, f"Today's level is none of them: {sentence(error)}") from error

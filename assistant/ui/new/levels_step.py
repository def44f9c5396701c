"""Step 2 of *New*: what can be set, to which levels, and how it is set today."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from assistant.report.words import level
from assistant.ui import words
from assistant.ui.intents import FieldError
from assistant.ui.new import cluster, fields
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Form, How, Row
from assistant.ui.new.outline import Outline, outline, plain_application
from assistant.ui.new.rows import KINDS, parameter_of
from strategies import Parameter, ParameterSpace

_HOW: Mapping[How, str] = {
    "list": "listed",
    "steps": "in steps",
    "ratio": "by a ratio",
}


def step(form: Form, beside: Beside, seen: Outline) -> Form:
    """Draw the fields. Returns what is filled in."""
    if form.source == "file":
        _shown(seen.space)
        return form
    if form.is_own_program:
        form = _own(form, beside)
    elif form.source in ("table", "platform"):
        known = plain_application(form)
        _shown(None if known is None else known.space)
    else:
        before, form = form, cluster.step(form, beside)
        seen = seen if form == before else outline(form)
    exclude = fields.area(
        "new-exclude", "Never try what meets one of these conditions (one a line)", form.exclude,
        height=80, placeholder=_example_condition(seen.space),
        help="A condition on parameters, such as threads > 8 and layout == 'rows'.",
    )  # fmt: skip
    beside.at("new-exclude")
    return replace(form, exclude=exclude)


def _example_condition(space: ParameterSpace | None) -> str:
    if space is None or len(space.parameters) < 2:
        return "threads > 8 and layout == 'rows'"
    one, two = space.parameters[:2]
    return f"{one.name} == {one.levels[0]!r} and {two.name} == {two.levels[-1]!r}"


def _shown(space: ParameterSpace | None) -> None:
    """Draw levels that cannot be changed here."""
    if space is None or not space.parameters:
        st.info("The parameters are shown once the first step says what is run.")
        return
    st.caption("These come from what was named in the first step; conditions leave some out.")
    st.dataframe(
        {
            "parameter": [parameter.name for parameter in space.parameters],
            "levels": [_listed(parameter) for parameter in space.parameters],
            "kind": [parameter.kind for parameter in space.parameters],
        },
        hide_index=True,
        alt="The parameters with their levels",
    )


def _listed(parameter: Parameter, most: int = 12) -> str:
    ordered = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    texts = [level(parameter.levels[i]) for i in ordered]
    if len(texts) > most:
        texts[most - 1 : -1] = ["…"]
    unit = f" {parameter.unit}" if parameter.unit else ""
    return f"{parameter.n_levels}: {', '.join(texts)}{unit}"


# -- a program of one's own ------------------------------------------------------------------------


def _own(form: Form, beside: Beside) -> Form:
    if form.unsaid and all(row == Row(row.uid) for row in form.rows):
        form = form.with_unsaid()
    has_today = fields.tick(
        "new-has-today", "There is a configuration of today, to compare with",
        form.program.has_today,
        help="It runs first, and every result is told as a gain or a loss against it.",
    )  # fmt: skip
    rows = tuple(_row(row, beside, has_today) for row in form.rows)
    beside.at("new-parameters")
    with st.container(horizontal=True):
        st.button(
            "Add a parameter", key="new-add-row", icon=":material/add:",
            on_click=fields.changed, args=(Form.with_row,),
        )  # fmt: skip
        if form.unsaid:
            st.button(
                f"Add {', '.join(form.unsaid)}", key="new-add-unsaid", icon=":material/add:",
                help="The command asks for these, and they are no parameters yet.",
                on_click=fields.changed, args=(Form.with_unsaid,),
            )  # fmt: skip
    return replace(form, rows=rows, program=replace(form.program, has_today=has_today))


def _row(row: Row, beside: Beside, has_today: bool) -> Row:
    key = f"new-p{row.uid}"
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = fields.text(f"{key}-name", "Parameter", row.name, placeholder="size", width=200)
            kind = fields.choice(f"{key}-kind", "Levels are", row.kind, list(KINDS), width=210)
            how: How = fields.choice(
                f"{key}-how", "and are", row.how, list(_HOW), format_func=_HOW.__getitem__,
                width=130,
            )  # fmt: skip
            unit = fields.text(f"{key}-unit", "Unit", row.unit, placeholder="none", width=110)
            st.button(
                "Remove", key=f"{key}-remove", icon=":material/delete:",
                help=f"Remove the parameter {row.name}".strip(),
                on_click=fields.changed, args=(partial(Form.without_row, uid=row.uid),),
            )  # fmt: skip
        beside.at(f"{key}-name")
        row = replace(row, name=name, kind=kind, how=how, unit=unit)
        row = _with_levels(row, key)
        beside.at(f"{key}-levels")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if has_today:
                today = fields.choice(
                    f"{key}-today", "Today", row.today, ["", *_texts(row)], width=200,
                    format_func=lambda text: text or "choose",
                )  # fmt: skip
                row = replace(row, today=today)
            description = fields.text(
                f"{key}-description", "What it is (optional)", row.description, width=470
            )
        beside.at(f"{key}-today")
    return replace(row, description=description)


def _with_levels(row: Row, key: str) -> Row:
    if row.how == "list":
        chosen = fields.several(
            f"{key}-levels", "Levels", row.levels, (),
            placeholder="type a level and press Enter, then the next one; or 1, 2, 4",
        )  # fmt: skip
        return replace(row, levels=chosen)
    third = "in steps of" if row.how == "steps" else "how many"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        low = fields.text(f"{key}-low", "from", row.low, width=130)
        high = fields.text(f"{key}-high", "to", row.high, width=130)
        step_text = fields.text(f"{key}-step", third, row.step, width=130)
        whole = row.whole
        if row.how == "ratio":
            whole = fields.tick(f"{key}-whole", "whole numbers", row.whole)
    row = replace(row, low=low, high=high, step=step_text, whole=whole)
    texts = _texts(row)
    if texts:
        st.caption(f"{len(texts)} levels: {_shortened(texts)}")
    return row


def _texts(row: Row) -> list[str]:
    """Return the levels as they are typed; none while they cannot be read."""
    if row.how == "list":
        return list(row.levels)
    try:
        named = replace(row, name=row.name.strip() or "x")
        return [repr(value) for value in parameter_of(named)[1].levels]
    except FieldError:
        return []


def _shortened(texts: Sequence[str], most: int = 10) -> str:
    shown = list(texts) if len(texts) <= most else [*texts[: most - 1], "…", texts[-1]]
    return words.plain(", ".join(shown))

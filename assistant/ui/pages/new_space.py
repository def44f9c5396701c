"""Step 2 of *New*: parameters and their levels, settings of a simulated cluster, and futures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from assistant.applications import generators, policy_names
from assistant.applications.scheduling import presets
from assistant.applications.scheduling_parameters import OptionalParameter, optional_parameters
from assistant.presentation.text.number_format import level, setting
from assistant.ui import labels
from assistant.ui.intents import FormFieldError
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_form import KINDS, Form, FuturesFields, How, ParameterRow, parameter_of
from assistant.ui.pages.new_preview import Outline, outline, plain_application
from strategies import Parameter, ParameterSpace
from strategies.space.parameter import parse_number

_JUDGES = {
    "mean": "their mean",
    "quantile": "a quantile of them",
    "worst": "the worst of them",
}


def futures_step(form: Form, beside: FieldMessages) -> Form:
    """Draw the futures; return the changed form."""
    st.markdown("**Judged on**")
    extra = form.extra_tables.get("application", {}).get("futures")
    if extra is not None:
        st.caption("Futures that are said by the sweep file, which stay as they are.")
        return form
    futures = form.cluster.futures
    generator_names = generators(fitted=form.source == "log")
    as_given = "the jobs of the log, as they are" if form.source == "log" else "one generated log"
    labels = {
        "": as_given,
        **{name: f"futures by {name}: {text}" for name, text in generator_names.items()},
    }
    generator = new_fields.choice(
        "new-futures", "Every run is judged on", futures.generator, list(labels),
        format_func=lambda name: labels.get(name, name),
        help="A sweep over one log learns that log by heart. Over futures every run simulates "
        "several generated workloads, the same for all runs.",
    )  # fmt: skip
    futures = replace(futures, generator=generator)
    if generator:
        futures = _futures_fields(futures)
    beside.at("new-futures", "new-futures-count", "new-futures-duration", "new-futures-quantile")
    return replace(form, cluster=replace(form.cluster, futures=futures))


def _futures_fields(futures: FuturesFields) -> FuturesFields:
    with st.container(horizontal=True):
        count = new_fields.text("new-futures-count", "Futures", futures.count, width=120)
        duration = new_fields.text(
            "new-futures-duration", "Each as long as", futures.duration, width=160
        )
        judge = new_fields.choice(
            "new-futures-judge", "Judged by", futures.judge, list(_JUDGES), width=240,
            format_func=lambda name: _JUDGES.get(name, name),
        )  # fmt: skip
        quantile = futures.quantile
        if judge == "quantile":
            quantile = new_fields.text(
                "new-futures-quantile", "Futures that are no worse", quantile, width=240,
                placeholder="0.9",
            )  # fmt: skip
    return replace(futures, count=count, duration=duration, judge=judge, quantile=quantile)


def cluster_step(form: Form, beside: FieldMessages) -> Form:
    """Draw the settings of a simulated cluster; return the changed form."""
    form = _preset_fields(form)
    names = policy_names()
    st.markdown("**Today**")
    with st.container(horizontal=True):
        procs = new_fields.text(
            "new-procs", "Processors of the cluster", form.cluster.procs, width=240,
            placeholder="as the log says" if form.source == "log" else "128",
        )  # fmt: skip
        order = new_fields.choice(
            "new-order", "Order of waiting jobs", form.cluster.order, names["order"], width=240
        )
        backfill = new_fields.choice(
            "new-backfill", "Backfill", form.cluster.backfill, names["backfill"], width=240
        )
    beside.at("new-procs", "new-order")
    cluster = replace(form.cluster, procs=procs, order=order, backfill=backfill)
    form = replace(form, cluster=cluster)
    form = futures_step(form, beside)
    application = plain_application(form)
    st.markdown("**Levels to try**")
    beside.at("new-levels", "new-options")
    if application is None:
        st.info("The levels are computed from the log once it can be read.")
        return form
    return _level_fields(form, application.space)


def _preset_fields(form: Form) -> Form:
    summaries = {preset.name: preset.summary for preset in presets()}
    preset_name = new_fields.choice(
        "new-preset", "Question", form.cluster.preset, list(summaries),
        format_func=lambda name: f"{name}: {summaries[name]}" if name in summaries else name,
        help="Opens the parameters that belong to the question, with levels; each can be changed.",
    )  # fmt: skip
    if preset_name == form.cluster.preset:
        return form
    new_fields.leave("new-level-")
    return replace(form, cluster=replace(form.cluster, preset=preset_name, levels=None))


def _level_fields(form: Form, usual: ParameterSpace) -> Form:
    st.caption(
        "Computed from the log and the question. Take some away, or type others and press Enter. "
        "Today's must be among them, so that there is something to compare with."
    )
    names, levels = policy_names(), dict(form.levels)
    for parameter in usual.parameters:
        computed = tuple(level(value) for value in parameter.levels)
        texts = _chips(
            parameter.name, parameter.unit, levels.get(parameter.name), computed,
            names.get(parameter.name, ()), parameter.description,
        )  # fmt: skip
        _put(levels, parameter.name, texts, unless=computed)
    more = [
        parameter_field
        for parameter_field in _known(form, usual, levels)
        if parameter_field.name not in usual.names
    ]
    is_varied = any(parameter_field.name in levels for parameter_field in more)
    with st.expander("More that can be varied: policies and their options", expanded=is_varied):
        for parameter_field in more:
            texts = _chips(
                parameter_field.name, parameter_field.unit, levels.get(parameter_field.name), (),
                tuple(map(level, parameter_field.choices)), parameter_field.description,
            )  # fmt: skip
            _put(levels, parameter_field.name, texts, unless=())
    options = _options(form, _known(form, usual, levels))
    cluster = replace(form.cluster, options=options)
    if levels != form.levels:
        cluster = replace(cluster, levels=levels)
    return replace(form, cluster=cluster)


def _known(
    form: Form, usual: ParameterSpace, levels: Mapping[str, tuple[str, ...]]
) -> tuple[OptionalParameter, ...]:
    names = policy_names()
    computed = {entry.name: tuple(map(str, entry.levels)) for entry in usual.parameters}

    def among(kind: str, now: str) -> list[str]:
        names_in_use = (now, *levels.get(kind, computed.get(kind, ())))
        return [name for name in names_in_use if name in names[kind]]

    return optional_parameters(
        {
            "order": among("order", form.cluster.order),
            "backfill": among("backfill", form.cluster.backfill),
        }
    )


def _options(form: Form, fields_of_options: Sequence[OptionalParameter]) -> dict[str, str]:
    texts = {}
    present = form.cluster.options
    with (
        st.expander("Told in every run: options of the policies", expanded=bool(present)),
        st.container(horizontal=True),
    ):
        for option in fields_of_options:
            if option.usual is not None:
                texts[option.name] = new_fields.text(
                    f"new-option-{option.name}", labels.measure_title(option.name, option.unit),
                    present.get(option.name, ""), width=240, placeholder=level(option.usual),
                    help=_sentence(option.description),
                )  # fmt: skip
    return {name: text for name, text in texts.items() if text.strip()}


def _put(
    levels: dict[str, tuple[str, ...]], name: str, texts: tuple[str, ...], unless: Sequence[str]
) -> None:
    """Keep levels that differ from the default, numbers in ascending order."""
    ordered = in_order(texts)
    if ordered == tuple(unless) or (not ordered and not unless):
        levels.pop(name, None)
    else:
        levels[name] = ordered


def in_order(texts: Sequence[str]) -> tuple[str, ...]:
    """Return numbers in ascending order; other texts in the given order.

    >>> in_order(["20", "5", "10"]), in_order(["sjf", "fcfs"])
    (('5', '10', '20'), ('sjf', 'fcfs'))
    """
    numbers = [parse_number(text) for text in texts]
    if any(number is None for number in numbers):
        return tuple(texts)
    return tuple(sorted(texts, key=lambda text: parse_number(text) or 0))


def _chips(
    name: str,
    unit: str,
    texts: tuple[str, ...] | None,
    computed: tuple[str, ...],
    further: Sequence[str] = (),
    description: str = "",
) -> tuple[str, ...]:
    now = computed if texts is None else texts
    new_fields.follow(f"new-level-{name}", computed)
    return new_fields.several(
        f"new-level-{name}", labels.measure_title(name, unit), now, [*computed, *further],
        format_func=partial(_spoken, unit=unit),
        placeholder="not varied; choose or type levels, today's among them",
        help=_sentence(description) if description else None,
    )  # fmt: skip


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _spoken(text: str, unit: str) -> str:
    """Return the label of a level; seconds also in hours and minutes."""
    number = parse_number(text)
    if unit != "s" or number is None:
        return text
    return setting(number, "s").partition("(")[2].rstrip(")") or f"{text} s"


_HOW: Mapping[How, str] = {
    "list": "listed",
    "steps": "in steps",
    "ratio": "by a ratio",
}


def parameters_step(form: Form, beside: FieldMessages, preview: Outline) -> Form:
    """Draw the parameters; return the changed form."""
    if form.source == "file":
        _space_table(preview.space)
        return form
    if form.is_own_program:
        form = _own(form, beside)
    elif form.source in ("table", "platform"):
        application = plain_application(form)
        _space_table(None if application is None else application.space)
    else:
        before, form = form, cluster_step(form, beside)
        preview = preview if form == before else outline(form)
    exclude = new_fields.area(
        "new-exclude", "Never try what meets one of these conditions (one a line)", form.exclude,
        height=80, placeholder=_example_condition(preview.space),
        help="A condition on parameters, such as threads > 8 and layout == 'rows'.",
    )  # fmt: skip
    beside.at("new-exclude")
    return replace(form, exclude=exclude)


def _example_condition(space: ParameterSpace | None) -> str:
    if space is None or len(space.parameters) < 2:
        return "threads > 8 and layout == 'rows'"
    first, two = space.parameters[:2]
    return f"{first.name} == {first.levels[0]!r} and {two.name} == {two.levels[-1]!r}"


def _space_table(space: ParameterSpace | None) -> None:
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


def _own(form: Form, beside: FieldMessages) -> Form:
    if form.unsaid and all(row == ParameterRow(row.uid) for row in form.rows):
        form = form.with_unsaid()
    has_today = new_fields.tick(
        "new-has-today", "There is a configuration of today, to compare with",
        form.program.has_today,
        help="It runs first, and every result is told as a gain or a loss against it.",
    )  # fmt: skip
    rows = tuple(_row(row, beside, has_today) for row in form.rows)
    beside.at("new-parameters")
    with st.container(horizontal=True):
        st.button(
            "Add a parameter", key="new-add-row", icon=":material/add:",
            on_click=new_fields.change_form, args=(Form.with_row,),
        )  # fmt: skip
        if form.unsaid:
            st.button(
                f"Add {', '.join(form.unsaid)}", key="new-add-unsaid", icon=":material/add:",
                help="The command asks for these, and they are no parameters yet.",
                on_click=new_fields.change_form, args=(Form.with_unsaid,),
            )  # fmt: skip
    return replace(form, rows=rows, program=replace(form.program, has_today=has_today))


def _row(row: ParameterRow, beside: FieldMessages, has_today: bool) -> ParameterRow:
    key = f"new-p{row.uid}"
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = new_fields.text(
                f"{key}-name", "Parameter", row.name, placeholder="size", width=200
            )
            kind = new_fields.choice(f"{key}-kind", "Levels are", row.kind, list(KINDS), width=210)
            how: How = new_fields.choice(
                f"{key}-how", "and are", row.how, list(_HOW), format_func=_HOW.__getitem__,
                width=130,
            )  # fmt: skip
            unit = new_fields.text(f"{key}-unit", "Unit", row.unit, placeholder="none", width=110)
            st.button(
                "Remove", key=f"{key}-remove", icon=":material/delete:",
                help=f"Remove the parameter {row.name}".strip(),
                on_click=new_fields.change_form, args=(partial(Form.without_row, uid=row.uid),),
            )  # fmt: skip
        beside.at(f"{key}-name")
        row = replace(row, name=name, kind=kind, how=how, unit=unit)
        row = _with_levels(row, key)
        beside.at(f"{key}-levels")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if has_today:
                today = new_fields.choice(
                    f"{key}-today", "Today", row.today, ["", *_texts(row)], width=200,
                    format_func=lambda text: text or "choose",
                )  # fmt: skip
                row = replace(row, today=today)
            description = new_fields.text(
                f"{key}-description", "What it is (optional)", row.description, width=470
            )
        beside.at(f"{key}-today")
    return replace(row, description=description)


def _with_levels(row: ParameterRow, key: str) -> ParameterRow:
    if row.how == "list":
        level_texts = new_fields.several(
            f"{key}-levels", "Levels", row.levels, (),
            placeholder="type a level and press Enter, then the next one; or 1, 2, 4",
        )  # fmt: skip
        return replace(row, levels=level_texts)
    third = "in steps of" if row.how == "steps" else "how many"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        low = new_fields.text(f"{key}-low", "from", row.low, width=130)
        high = new_fields.text(f"{key}-high", "to", row.high, width=130)
        step_text = new_fields.text(f"{key}-step", third, row.step, width=130)
        is_integer = row.is_integer
        if row.how == "ratio":
            is_integer = new_fields.tick(f"{key}-whole", "whole numbers", row.is_integer)
    row = replace(row, low=low, high=high, step=step_text, is_integer=is_integer)
    texts = _texts(row)
    if texts:
        st.caption(f"{len(texts)} levels: {_abbreviated(texts)}")
    return row


def _texts(row: ParameterRow) -> list[str]:
    if row.how == "list":
        return list(row.levels)
    try:
        filled_row = replace(row, name=row.name.strip() or "x")
        return [repr(value) for value in parameter_of(filled_row)[1].levels]
    except FormFieldError:
        return []


def _abbreviated(texts: Sequence[str], most: int = 10) -> str:
    parts = list(texts) if len(texts) <= most else [*texts[: most - 1], "…", texts[-1]]
    return labels.escape_markdown(", ".join(parts))

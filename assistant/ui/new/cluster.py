"""Step 2 of *New* for a simulated cluster: the question, how it is run today, levels to try."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from assistant.applications import Openable, openable, policy_names, presets
from assistant.report.words import level, setting
from assistant.ui import words
from assistant.ui.new import fields, foresight
from assistant.ui.new.fields import Beside
from assistant.ui.new.form import Form
from assistant.ui.new.outline import plain_application
from strategies import ParameterSpace
from strategies.parameter import parse_number


def step(form: Form, beside: Beside) -> Form:
    """Draw the fields. Returns what is filled in."""
    form = _asked(form)
    names = policy_names()
    st.markdown("**Today**")
    with st.container(horizontal=True):
        procs = fields.text(
            "new-procs", "Processors of the cluster", form.cluster.procs, width=240,
            placeholder="as the log says" if form.source == "log" else "128",
        )  # fmt: skip
        order = fields.choice(
            "new-order", "Order of waiting jobs", form.cluster.order, names["order"], width=240
        )
        backfill = fields.choice(
            "new-backfill", "Backfill", form.cluster.backfill, names["backfill"], width=240
        )
    beside.at("new-procs", "new-order")
    cluster = replace(form.cluster, procs=procs, order=order, backfill=backfill)
    form = replace(form, cluster=cluster)
    form = foresight.asked(form, beside)
    known = plain_application(form)
    st.markdown("**Levels to try**")
    beside.at("new-levels", "new-options")
    if known is None:
        st.info("The levels are computed from the log once it can be read.")
        return form
    return _varied(form, known.space)


def _asked(form: Form) -> Form:
    """Draw the choice of a preset. Another one brings its own parameters and levels."""
    told = {preset.name: preset.summary for preset in presets()}
    chosen = fields.choice(
        "new-preset", "Question", form.cluster.preset, list(told),
        format_func=lambda name: f"{name}: {told[name]}" if name in told else name,
        help="Opens the parameters that belong to the question, with levels; each can be changed.",
    )  # fmt: skip
    if chosen == form.cluster.preset:
        return form
    fields.leave("new-level-")
    return replace(form, cluster=replace(form.cluster, preset=chosen, levels=None))


def _varied(form: Form, usual: ParameterSpace) -> Form:
    """Draw the levels of what the preset opens, and what else can be opened or told."""
    st.caption(
        "Computed from the log and the question. Take some away, or type others and press Enter. "
        "Today's must be among them, so that there is something to compare with."
    )
    names, levels = policy_names(), dict(form.levels)
    for parameter in usual.parameters:
        computed = tuple(level(value) for value in parameter.levels)
        chosen = _chips(
            parameter.name, parameter.unit, levels.get(parameter.name), computed,
            names.get(parameter.name, ()), parameter.description,
        )  # fmt: skip
        _put(levels, parameter.name, chosen, unless=computed)
    more = [one for one in _known(form, usual, levels) if one.name not in usual.names]
    is_varied = any(one.name in levels for one in more)
    with st.expander("More that can be varied: policies and their options", expanded=is_varied):
        for one in more:
            chosen = _chips(
                one.name, one.unit, levels.get(one.name), (), tuple(map(level, one.choices)),
                one.description,
            )  # fmt: skip
            _put(levels, one.name, chosen, unless=())
    options = _options(form, _known(form, usual, levels))
    cluster = replace(form.cluster, options=options)
    if levels != form.levels:
        cluster = replace(cluster, levels=levels)
    return replace(form, cluster=cluster)


def _known(
    form: Form, usual: ParameterSpace, levels: Mapping[str, tuple[str, ...]]
) -> tuple[Openable, ...]:
    """Return what can be varied with the policies that are chosen now."""
    names = policy_names()
    computed = {one.name: tuple(map(str, one.levels)) for one in usual.parameters}

    def among(kind: str, now: str) -> list[str]:
        wanted = (now, *levels.get(kind, computed.get(kind, ())))
        return [one for one in wanted if one in names[kind]]

    return openable(
        {
            "order": among("order", form.cluster.order),
            "backfill": among("backfill", form.cluster.backfill),
        }
    )


def _options(form: Form, known: Sequence[Openable]) -> dict[str, str]:
    """Draw what the policies are told in every run."""
    told = {}
    given = form.cluster.options
    with (
        st.expander("Told in every run: options of the policies", expanded=bool(given)),
        st.container(horizontal=True),
    ):
        for one in known:
            if one.usual is not None:
                told[one.name] = fields.text(
                    f"new-option-{one.name}", words.titled(one.name, one.unit),
                    given.get(one.name, ""), width=240, placeholder=level(one.usual),
                    help=_sentence(one.description),
                )  # fmt: skip
    return {name: text for name, text in told.items() if text.strip()}


def _put(
    levels: dict[str, tuple[str, ...]], name: str, chosen: tuple[str, ...], unless: Sequence[str]
) -> None:
    """Keep levels that are not the usual ones, numbers in their order."""
    ordered = in_order(chosen)
    if ordered == tuple(unless) or (not ordered and not unless):
        levels.pop(name, None)
    else:
        levels[name] = ordered


def in_order(texts: Sequence[str]) -> tuple[str, ...]:
    """Return numbers in ascending order; anything else as it was typed.

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
    chosen: tuple[str, ...] | None,
    computed: tuple[str, ...],
    others: Sequence[str] = (),
    told: str = "",
) -> tuple[str, ...]:
    now = computed if chosen is None else chosen
    fields.follow(f"new-level-{name}", computed)
    return fields.several(
        f"new-level-{name}", words.titled(name, unit), now, [*computed, *others],
        format_func=partial(_spoken, unit=unit),
        placeholder="not varied; choose or type levels, today's among them",
        help=_sentence(told) if told else None,
    )  # fmt: skip


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _spoken(text: str, unit: str) -> str:
    """Return a level as a chip: seconds also as people say them."""
    number = parse_number(text)
    if unit != "s" or number is None:
        return text
    return setting(number, "s").partition("(")[2].rstrip(")") or f"{text} s"

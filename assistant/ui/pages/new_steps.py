"""Steps 2 and 3 of the *New* page: parameters, objective and goal, who chooses, the sweep file.

Step 2 also has the settings of a simulated cluster and of generated workloads.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import streamlit as st

from assistant.applications import generators, policy_names
from assistant.applications.measures import WALL
from assistant.applications.scheduling_parameters import OptionalParameter, optional_parameters
from assistant.applications.scheduling_presets import preset_named, presets
from assistant.config.sweep_file import check_settings, toml_text
from assistant.core.objective import Objective
from assistant.core.ports import SystemClock
from assistant.core.sla import OnWarning
from assistant.presentation.text.number_format import duration, level, moment, setting
from assistant.ui import labels
from assistant.ui.bindings import label
from assistant.ui.early_stopping_fields import (
    EARLY_STOPPING_BINDINGS,
    NEEDS_STEPS,
    RULES,
    EarlyStoppingFields,
    shown,
)
from assistant.ui.intents import FormFieldError
from assistant.ui.pages import new_fields
from assistant.ui.pages.new_fields import FieldMessages
from assistant.ui.pages.new_form import (
    BINDINGS,
    KINDS,
    ConstraintField,
    Direction,
    Form,
    How,
    ObjectiveFields,
    ParameterRow,
    parameter_of,
)
from assistant.ui.pages.new_preview import Outline, outline, plain_application
from assistant.ui.state import put, seed
from assistant.ui.strategy_fields import strategy_fields
from strategies import Parameter, ParameterSpace, strategy_entry, strategy_names
from strategies.space.exclusion import equality
from strategies.space.parameter import parse_number

_JUDGES = {
    "mean": "the mean",
    "quantile": "a quantile",
    "worst": "the worst",
}


def futures_step(form: Form, beside: FieldMessages) -> Form:
    """Draw the form fields of the generated workloads (futures) and return the changed form."""
    st.markdown("**Evaluation**")
    extra = form.extra_tables.get("application", {}).get("futures")
    if extra is not None:
        st.caption("The sweep file defines the futures. They stay unchanged.")
        return form
    futures = form.cluster.futures
    generator_names = generators(fitted=form.source == "log")
    as_given = "the unchanged jobs of the log" if form.source == "log" else "one generated log"
    labels = {
        "": as_given,
        **{name: f"futures by {name}: {text}" for name, text in generator_names.items()},
    }
    generator = new_fields.choice(
        "new-futures", "Evaluate every run on", futures.generator, list(labels),
        format_func=lambda name: labels.get(name, name),
        help="A sweep over one log fits that log only. With futures, every run simulates several "
        "generated workloads, the same for all runs.",
    )  # fmt: skip
    futures = replace(futures, generator=generator)
    form = replace(form, cluster=replace(form.cluster, futures=futures))
    if generator:
        form = _futures_fields(form)
    beside.at("new-futures", "new-futures-count", "new-futures-duration", "new-futures-quantile")
    return form


def _futures_fields(form: Form) -> Form:
    with st.container(horizontal=True):
        form = new_fields.bound(form, "application.futures.count", width=120)
        form = new_fields.bound(form, "application.futures.duration", width=160)
        form = new_fields.bound(form, "application.futures.aggregate", words=_JUDGES, width=240)
        if form.cluster.futures.aggregate == "quantile":
            form = new_fields.bound(form, "application.futures.quantile", width=240)
    return form


def cluster_step(form: Form, beside: FieldMessages) -> Form:
    """Draw the form fields of a simulated cluster and return the changed form."""
    form = _preset_fields(form)
    names = policy_names()
    st.markdown("**Current configuration**")
    with st.container(horizontal=True):
        placeholder = "from the log" if form.source == "log" else "128"
        form = new_fields.bound(form, "application.procs", placeholder=placeholder, width=240)
        for name in ("order", "backfill"):
            words = {policy: policy for policy in names[name]}
            form = new_fields.bound(form, f"application.baseline.{name}", words=words, width=240)
    beside.at("new-procs", "new-order")
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
    changed = new_fields.bound(
        form, "application.preset",
        words={name: f"{name}: {text}" for name, text in summaries.items()},
        help="Adds the parameters of the question, with levels. You can change each of them.",
    )  # fmt: skip
    if changed == form:
        return form
    new_fields.leave("new-level-")
    cluster = replace(changed.cluster, levels=None)
    if cluster.backfill == preset_named(form.cluster.preset).usual_backfill:
        new_fields.leave("new-backfill")
        cluster = replace(cluster, backfill=preset_named(cluster.preset).usual_backfill)
    return replace(changed, cluster=cluster)


def _level_fields(form: Form, usual: ParameterSpace) -> Form:
    st.caption(
        "Computed from the log and the question. Remove levels, or type others and press Enter. "
        "Keep the current level: results are compared with it."
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
    with st.expander("More parameters: policies and their options", expanded=is_varied):
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
        st.expander("Fixed in every run: options of the policies", expanded=bool(present)),
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
    """Sort texts in ascending order if all are numbers, else return them in the given order.

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
        placeholder="not varied; choose or type levels, with the current one",
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
    "list": "a list",
    "steps": "steps",
    "ratio": "a ratio",
}


def parameters_step(form: Form, beside: FieldMessages, preview: Outline) -> Form:
    """Draw the form step for the parameters and return the changed form."""
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
    form = new_fields.bound(
        form, "exclude", height=80, placeholder=_example_condition(preview.space)
    )
    beside.at("new-exclude")
    return form


def _example_condition(space: ParameterSpace | None) -> str:
    if space is None or len(space.parameters) < 2:
        return "threads > 8 and layout == 'rows'"
    first, two = space.parameters[:2]
    return equality({first.name: first.levels[0], two.name: two.levels[-1]})


def _space_table(space: ParameterSpace | None) -> None:
    if space is None or not space.parameters:
        st.info("Fill in step 1 to see the parameters.")
        return
    st.caption("Parameters of the application in step 1. Conditions exclude combinations.")
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
    rows = tuple(_row(row, beside) for row in form.rows)
    beside.at("new-parameters")
    with st.container(horizontal=True):
        st.button(
            "Add a parameter", key="new-add-row", icon=":material/add:",
            on_click=new_fields.change_form, args=(Form.with_row,),
        )  # fmt: skip
        if form.unsaid:
            st.button(
                f"Add {', '.join(form.unsaid)}", key="new-add-unsaid", icon=":material/add:",
                help="The command uses these names, but they are not parameters yet.",
                on_click=new_fields.change_form, args=(Form.with_unsaid,),
            )  # fmt: skip
    return replace(form, rows=rows)


def _row(row: ParameterRow, beside: FieldMessages) -> ParameterRow:
    key = f"new-p{row.uid}"
    with st.container(border=True):
        head, levels, current, end = st.columns((24, 42, 19, 15), vertical_alignment="bottom")
        beside.at(f"{key}-name", f"{key}-levels", f"{key}-baseline")
        row = _row_details(row, key)
        with head:
            name = new_fields.text(
                f"{key}-name", label("parameters.name"), row.name, placeholder="size"
            )
        with levels:
            row = _with_levels(replace(row, name=name), key)
        with current:
            baseline = new_fields.choice(
                f"{key}-baseline", "Current", row.baseline, ["", *_texts(row)],
                format_func=lambda text: text or "none",
                help="Your setting now. With one for every parameter, that configuration runs "
                "first, and every result is compared with it.",
            )  # fmt: skip
        end.button(
            "Remove", key=f"{key}-remove", icon=":material/delete:",
            help=f"Remove the parameter {row.name}".strip(),
            on_click=new_fields.change_form, args=(partial(Form.without_row, uid=row.uid),),
        )  # fmt: skip
    return replace(row, baseline=baseline)


def _row_details(row: ParameterRow, key: str) -> ParameterRow:
    """Draw the fields of a parameter that most do without, and return the changed row."""
    is_plain = row.how == "list" and row.kind in ("numbers", "names")
    is_more = not is_plain or bool(row.unit or row.description or row.when)
    with (
        st.expander("More: kind of levels, range, unit, condition", expanded=is_more),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        _name_words(key)
        kind = new_fields.choice(f"{key}-kind", "Levels are", row.kind, list(KINDS), width=210)
        how: How = new_fields.choice(
            f"{key}-how", "Given as", row.how, list(_HOW), format_func=_HOW.__getitem__, width=130
        )
        unit = new_fields.text(
            f"{key}-unit", label("parameters.unit"), row.unit, placeholder="none", width=110
        )
        when = new_fields.text(
            f"{key}-when", label("parameters.when"), row.when, placeholder="always", width=300,
            help="Condition on other parameters, such as kernel == 'rbf'. Elsewhere the "
            "program does not get this parameter.",
        )  # fmt: skip
        description = new_fields.text(
            f"{key}-description", label("parameters.description"), row.description, width=470
        )
    return replace(row, kind=kind, how=how, unit=unit, when=when, description=description)


def _name_words(key: str) -> None:
    """Set the kind of a parameter to names if it is numbers and no typed level is one."""
    typed = new_fields.apart(st.session_state.get(f"{key}-levels", ()))
    is_number = any(parse_number(text) is not None for text in typed)
    if typed and not is_number and st.session_state.get(f"{key}-kind") == "numbers":
        put(f"{key}-kind", "names")


def _with_levels(row: ParameterRow, key: str) -> ParameterRow:
    if row.how == "list":
        level_texts = new_fields.several(
            f"{key}-levels", label("parameters.levels"), row.levels, (),
            placeholder="type 1, 2, 4 or 1..8 and press Enter",
            are_numbers=KINDS[row.kind][0] == "number",
            help="A range has steps of 1, or as in 0 to 1 by 0.25.",
        )  # fmt: skip
        return replace(row, levels=level_texts)
    ends = "parameters.range" if row.how == "steps" else "parameters.logarithmic"
    third = label(f"{ends}.{'step' if row.how == 'steps' else 'count'}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        low = new_fields.text(f"{key}-low", label(f"{ends}.low"), row.low, width=130)
        high = new_fields.text(f"{key}-high", label(f"{ends}.high"), row.high, width=130)
        step_text = new_fields.text(
            f"{key}-step", third, row.step, width=130, placeholder="refined",
            help="Empty: a few levels at first, and more near the best result.",
        )  # fmt: skip
        is_integer = row.is_integer
        if row.how == "ratio":
            is_integer = new_fields.tick(
                f"{key}-whole", label("parameters.logarithmic.integer"), row.is_integer
            )
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


_GOALS: Mapping[str, str] = {"minimise": "as small as possible", "maximise": "as large as possible"}


def objective_step(
    form: Form, beside: FieldMessages, preview: Outline, trial_measures: Sequence[str]
) -> Form:
    """Draw the fields of objective, goal and limits, and return the changed form."""
    if form.source == "file":
        _objective_summary(preview)
        return form
    application = None if form.is_own_program else plain_application(form)
    application_objective = None if application is None else application.objective
    names = (
        list(application.application.measures or ())
        if application is not None
        else list(trial_measures)
    )
    st.subheader("Objective", divider="gray")
    wish = _objective_fields(form, beside, application_objective, names)
    form = replace(form, wish=wish)
    st.subheader("Goal and limits", divider="gray")
    return _sla_fields(form, beside)


def _objective_summary(preview: Outline) -> None:
    if preview.built is None:
        st.info("The objective and the limits are shown once the sweep file can be read.")
        return
    settings, objective = preview.built.settings, preview.built.objective
    st.markdown(f"**Objective**: {labels.escape_markdown(str(objective))}")
    for constraint in objective.constraints:
        st.markdown(f"subject to: {labels.escape_markdown(str(constraint))}")
    runs = "no budget of runs" if settings.max_runs is None else labels.runs(settings.max_runs)
    st.markdown(f"**Limits**: {runs}")
    st.caption("These are from the sweep file. A button in step 1 opens it in fields.")


def _objective_fields(
    form: Form, beside: FieldMessages, own: Objective | None, names: list[str]
) -> ObjectiveFields:
    wish = form.wish
    options: dict[str, str] = dict(_GOALS)
    if not form.is_own_program:
        suffix = f" ({own})" if own is not None else ""
        options = {"own": f"its own objective{suffix}", **options}
    if "objective" in form.extra_tables:
        options["kept"] = "as in the original"
    now = "minimise" if wish.direction == "own" and form.is_own_program else wish.direction
    with st.container(horizontal=True, vertical_alignment="bottom"):
        direction: Direction = new_fields.choice(
            "new-direction", "Objective", now, list(options),  # type: ignore[arg-type]
            format_func=lambda name: options.get(name, name), width=370,
        )  # fmt: skip
        wish = replace(wish, direction=direction)
        if direction in _GOALS:
            only = [name for name in names if name != WALL]
            first = only[0] if form.is_own_program and len(only) == 1 else ""
            measure = _measure("new-measure", "Measure", wish.measure or first, names)
            unit = new_fields.text(
                "new-unit", label("objective.unit"), wish.unit, placeholder="default", width=130
            )
            wish = replace(wish, measure=measure, unit=unit)
    beside.at("new-measure")
    if form.is_own_program and not names:
        st.caption(
            "A measure is a name in the output of the program; *Try one run* shows all. If the "
            "program prints one number, give it any name."
        )
    is_more = bool(wish.second or wish.bounds or (own and own.constraints))
    with st.expander("More: second measure, constraints", expanded=is_more):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            second = _measure("new-second", label("objective.second"), wish.second, names)
            second_direction = new_fields.choice(
                "new-second-direction", label("objective.second_goal"), wish.second_direction,
                list(_GOALS),
                format_func=_GOALS.__getitem__, width=240,
            )  # fmt: skip
        beside.at("new-second")
        wish = replace(wish, second=second, second_direction=second_direction)
        return _constraints(wish, beside, own, names)


def _measure(key: str, label: str, value: str, names: list[str], width: int = 300) -> str:
    if not names:
        return new_fields.text(key, label, value, placeholder="time_ms", width=width)
    return new_fields.choice(  # a key of its own, because typed text is no state of a choice
        f"{key}-known", label, value, ["", *names], format_func=lambda name: name or "none",
        width=width, accept_new_options=True,
    )  # fmt: skip


def _constraints(
    wish: ObjectiveFields,
    beside: FieldMessages,
    application_objective: Objective | None,
    names: list[str],
) -> ObjectiveFields:
    st.markdown("**Constraints**")
    if application_objective is not None and application_objective.constraints:
        labels = {
            constraint.measure: str(constraint) for constraint in application_objective.constraints
        }
        active = new_fields.several(
            "new-own-constraints", label("objective.without"),
            [name for name in labels if name not in wish.without], list(labels),
            format_func=lambda name: labels.get(name, name),
            placeholder="none",
            accept_new=False,
        )  # fmt: skip
        without = tuple(name for name in labels if name not in active)
        wish = replace(wish, without=without)
    bounds = tuple(_bound(bound, beside, names) for bound in wish.bounds)
    st.button(
        "Add a constraint", key="new-add-bound", icon=":material/add:",
        on_click=new_fields.change_form, args=(Form.with_bound,),
    )  # fmt: skip
    return replace(wish, bounds=bounds)


def _bound(bound: ConstraintField, beside: FieldMessages, names: list[str]) -> ConstraintField:
    key = f"new-c{bound.uid}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        measure = _measure(
            f"{key}-measure",
            label("objective.constraints.measure"),
            bound.measure,
            names,
            width=230,
        )
        low = new_fields.text(
            f"{key}-low", label("objective.constraints.at_least"), bound.at_least, width=120
        )
        high = new_fields.text(
            f"{key}-high", label("objective.constraints.at_most"), bound.at_most, width=120
        )
        name = new_fields.text(
            f"{key}-label",
            label("objective.constraints.label"),
            bound.label,
            placeholder="optional",
            width=200,
        )
        st.button(
            "Remove", key=f"{key}-remove", icon=":material/delete:",
            on_click=new_fields.change_form, args=(partial(Form.without_bound, uid=bound.uid),),
        )  # fmt: skip
    beside.at(key)
    return replace(bound, measure=measure, at_least=low, at_most=high, label=name)


def _sla_fields(form: Form, beside: FieldMessages) -> Form:
    with st.container(horizontal=True, vertical_alignment="top"):
        for path in ("runs", "deadline", "goal", "run_limit"):
            form = new_fields.bound(form, path, width=200)
    beside.at("new-deadline", "new-goal", "new-run-limit", "new-runs")
    with suppress(Exception):  # the message is drawn beside the field
        span_s = check_settings({"deadline": form.deadline.strip() or None}, "the form").deadline
        if span_s is not None:
            st.caption(_until(span_s, SystemClock().now_s()))
    with st.expander("More: cost, auto-steering after the goal"):
        form = new_fields.bound(form, "at_goal")
        form = new_fields.bound(form, "keep_going")
        with st.container(horizontal=True):
            for path in BINDINGS:
                if path.startswith("cost."):
                    form = new_fields.bound(form, path, width=230)
        beside.at("new-cost")
    return form


def _until(span_s: float, now_s: float) -> str:
    """Return the moment of a deadline, because ``20:00`` is a duration and not a time of day.

    >>> _until(1800.0, 0.0)
    'The deadline is 30 min 00 s after the start: 1970-01-01 00:30 UTC if you start now.'
    """
    after = duration(span_s)
    return f"The deadline is {after} after the start: {moment(now_s + span_s)} if you start now."


AT_WARNING: Mapping[OnWarning, str] = {
    "ignore": "go on",
    "wait": "wait for me",
    "accept": "accept what it proposes",
}


def steering_step(form: Form, beside: FieldMessages, similar: str) -> Form:
    """Draw who chooses the runs, and the fields of the strategy; return the changed form.

    ``similar`` is what `new_preview.similar_words` says.
    """
    st.subheader("Who chooses the runs", divider="gray")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        unattended = new_fields.tick(
            "new-unattended", "Auto-steering: Copperline chooses and starts them", form.unattended,
            help="It ends at the budget or the goal, and you can turn it off at any time. Without "
            "it you choose each batch yourself.",
        )  # fmt: skip
        form = replace(form, unattended=unattended)
        if unattended and form.source != "file":
            form = new_fields.bound(form, "warnings", words=AT_WARNING, width=240)
    if form.source != "file":
        with st.expander("Strategy, seed, runs at once"):
            form = _strategy(form)
        if form.is_own_program:
            with st.expander("Stop hopeless runs early"):
                form = _early_stopping(form, beside)
        if similar:
            st.caption(labels.escape_markdown(similar))
        with st.expander("Learn from earlier experiments", expanded=bool(form.learn_from.strip())):
            form = new_fields.bound(form, "learn_from", height=80)
        beside.at("new-learn-from")
    beside.at("new-strategy")
    return form


def _early_stopping(form: Form, beside: FieldMessages) -> Form:
    st.caption(NEEDS_STEPS)
    for binding in EARLY_STOPPING_BINDINGS:
        if binding.attribute in shown(form.early):
            words = RULES if binding.attribute == "rule" else None
            form = new_fields.bound(form, binding.path, words=words, width=320)
            beside.at(binding.message_place("new"))
    return form if form.early.step.strip() else replace(form, early=EarlyStoppingFields())


def _strategy(form: Form) -> Form:
    strategy, options = strategy_fields("new", form.strategy, form.options)
    st.caption(strategy_entry(strategy).summary if strategy in strategy_names() else "")
    with st.container(horizontal=True, vertical_alignment="top"):
        for path in ("seed", "workers", "initial", "batch"):
            form = new_fields.bound(form, path, width=200)
    share = _share(form)
    if form.extra_tables:
        st.caption(
            f"Kept from the original: {', '.join(sorted(form.extra_tables))}; "
            "see the sweep file below."
        )
    usual = {option.name: option.default for option in strategy_entry(strategy).options}
    return replace(
        form,
        strategy=strategy,
        options={name: value for name, value in options.items() if value != usual[name]},
        exploitation=share,
    )


def _share(form: Form) -> float | None:
    split = new_fields.tick(
        "new-split", "Spend a share of the runs inside regions of good results",
        form.exploitation is not None,
        help="With a share of 0 % no run is inside the regions. Without a split they are not used.",
    )  # fmt: skip
    if not split:
        return None
    key = "new-share"
    seed(key, round(100 * (0.7 if form.exploitation is None else form.exploitation)))
    percent: int = st.slider(
        BINDINGS["exploitation"].label, 0, 100, step=5, format="%d %%", key=key
    )
    exploitation = form.exploitation
    return (
        exploitation
        if exploitation is not None and round(100 * exploitation) == percent
        else percent / 100
    )


def file_section(form: Form, beside: FieldMessages, preview: Outline) -> Form:
    """Draw the name field and the sweep file, and return the changed form."""
    if form.source != "file":
        name = new_fields.text(
            "new-name", label("name"), form.name, placeholder=form.full_name, width=370
        )
        form = replace(form, name=name)
        beside.at("new-name")
    if preview.faults:
        return form
    text = toml_text(preview.tables)
    with st.expander("The same as a file for the terminal"):
        st.caption("`copperline sweep FILE` runs it, `copperline try FILE` makes one dry run.")
        st.code(text, language="toml", height=320)
        st.download_button(
            "Download the sweep file", text, f"{_file_name(form)}.toml", "application/toml",
            key="new-download", icon=":material/download:", on_click="ignore",
        )  # fmt: skip
    return form


def _file_name(form: Form) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", form.full_name).strip("-") or "sweep"

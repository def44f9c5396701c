"""The *Steering* page: SLA, levels, regions, strategy, auto-steering, import of past results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from assistant.analysis.broken_program import broken_program
from assistant.analysis.recommendation import passed_limit, reached_goal
from assistant.analysis.what_if import reopened_if_finished
from assistant.config.models import check_tariff
from assistant.config.snapshot import read_results
from assistant.config.sweep_file import check_settings
from assistant.core.commands import ChangeSla
from assistant.core.experiment import Experiment
from assistant.core.ports import SystemClock
from assistant.core.sla import PENDING, AutoSteering, OnWarning, Sla, Tariff
from assistant.presentation.tables.sla import region_rows, sla_words
from assistant.ui import labels
from assistant.ui.early_stopping_fields import (
    NEEDS_STEPS,
    EarlyStoppingFields,
    early_stopping_fields,
)
from assistant.ui.intents import FormFieldError, Intent, answer_at, sentence
from assistant.ui.pages import suggestions_batch
from assistant.ui.sla_fields import SlaFields, more_fields, sla_field
from assistant.ui.state import ExperimentView
from assistant.ui.strategy_fields import strategy_fields
from strategies import (
    Level,
    ParameterSpace,
    RegionRule,
    factors_of,
)
from strategies.space.exclusion import equality
from strategies.steering.regions import Good


def budget_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the SLA with fields to change it and return the request to change it, or None."""
    sla = experiment.sla
    agreed = "; ".join(sla_words(experiment)) or "no limit and no goal"
    st.caption(f"Now: {agreed}.")
    limited = st.checkbox(
        "Limit the number of runs", sla.max_runs is not None, key="budget-limited"
    )
    n = st.number_input(
        "Maximum number of runs",
        1,
        value=_runs_to_offer(experiment),
        disabled=not limited,
        key=f"budget-{view_model.session.id}-{sla.max_runs}",
    )
    choices = [
        "keep it" if sla.deadline_s else "none",
        "set another" if sla.deadline_s else "set one",
    ]
    if sla.deadline_s:
        choices.append("remove it")
    deadline_choice = st.segmented_control(
        "Deadline", choices, default=choices[0], key="budget-deadline"
    )
    text = ""
    if deadline_choice == choices[1]:
        text = st.text_input("Time from now", placeholder="30m", key="budget-deadline-text")
    answer_at("budget", "budget-deadline-text")
    key, present = f"budget-{view_model.session.id}-{hash(sla)}", SlaFields.of(sla)
    terms = sla_field(key, "goal", present)
    with st.expander("More SLA terms: cost limit, run limit"):
        terms = more_fields(key, terms)
    is_over = experiment.finished is not None
    label = "Reopen with this SLA" if is_over else "Change the SLA"
    if not st.button(label, key="change-budget"):
        return None

    def do() -> str:
        at = sla.deadline_s if deadline_choice != "remove it" else None
        if deadline_choice == choices[1]:
            at = _deadline_s(text, "budget-deadline-text")
        settings = check_settings({"runs": n, **terms.tables(key)}, "the fields")
        agreed = replace(
            settings.sla(SystemClock().now_s()), max_runs=n if limited else None, deadline_s=at
        )
        _check_cost(agreed.tariff, experiment, f"{key}-cost")
        if not is_over:
            view_model.session.change_budget(agreed)
            return "The SLA is changed."
        _check_reopening(experiment, agreed)
        view_model.session.reopen()
        view_model.session.change_budget(agreed)
        return "The experiment is open again, and the SLA is changed."

    return Intent("budget", do)


def _runs_to_offer(experiment: Experiment) -> int:
    """Return the budget to fill in: the present one, more if it is used up."""
    used, present = experiment.n_charged, experiment.sla.max_runs
    return used + 20 if present is None or present <= used else present


def _check_reopening(experiment: Experiment, sla: Sla) -> None:
    """Raise FormFieldError if a finished experiment would have no run left with this SLA."""
    now_s, used = SystemClock().now_s(), experiment.n_charged
    if sla.max_runs is not None and sla.max_runs <= used:
        words = f"{labels.runs(used)} are used; a budget of {sla.max_runs} leaves no run."
        raise FormFieldError("budget", words)
    after = reopened_if_finished(experiment, now_s)
    after = after.supposing(ChangeSla(sla).decide(after, now_s))
    over, reached = passed_limit(after, now_s), reached_goal(after)
    if over is not None:
        raise FormFieldError("budget", f"With this SLA no run is left: {over}.")
    if reached is not None and sla.at_goal == "stop":
        raise FormFieldError("budget", f"Set a better goal: {reached} already.")


def _deadline_s(text: str, place: str) -> float:
    """Return the moment of a duration such as ``30m``; raise FormFieldError for its place."""
    try:
        settings = check_settings({"deadline": text.strip()}, "the deadline")
    except Exception as error:
        hint = "Enter a time from now, such as 90s, 30m or 2h."
        raise FormFieldError(place, f"{sentence(error)} {hint}") from error
    if settings.deadline is None:
        raise FormFieldError(place, "Enter a time from now, such as 90s, 30m or 2h.")
    return SystemClock().now_s() + settings.deadline


def _check_cost(tariff: Tariff | None, experiment: Experiment, place: str) -> None:
    if tariff is None:
        return
    opened = experiment.opened
    try:
        check_tariff(tariff, experiment.space, experiment.known_measures, opened.application)
    except Exception as error:
        raise FormFieldError(place, sentence(error)) from error


Pair = tuple[str, Level]


def levels_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw which levels and combinations may be suggested; return a request to change them."""
    space, session = experiment.space, view_model.session
    open_ones = [
        (parameter.name, value)
        for parameter in space.parameters
        for value in labels.open_levels(space, parameter)
    ]
    answer_at("levels")
    st.caption(
        "A closed level is not suggested any more; runs with it stay. Half of the suggestions "
        "use preferred levels, if there are any."
    )
    closed, preferred = labels.closed_levels(space), labels.preferred_levels(space)
    intents = [  # all are drawn, even after a press, so that no typed text is lost
        _choice(
            "Open level",
            "close-level",
            open_ones,
            {
                "close": ("Close", session.close_level, "is closed."),
                "prefer": ("Prefer", session.prefer_level, "is preferred."),
            },
        ),
        _choice(
            "Closed level",
            f"reopen-level-{len(closed)}",
            closed,
            {"reopen": ("Reopen", session.reopen_level, "is open again.")},
        ),
        _choice(
            "Preferred level",
            f"unprefer-level-{len(preferred)}",
            preferred,
            {"unprefer": ("Stop preferring", session.unprefer_level, "is not preferred any more.")},
        ),
        _new_level(view_model, space),
        _exclusion(view_model, space),
    ]
    return next((intent for intent in intents if intent is not None), None)


_Action = tuple[str, Callable[[str, Level], None], str]


def _choice(
    label: str, key: str, pairs: Sequence[Pair], actions: dict[str, _Action]
) -> Intent | None:
    intent = None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selected = st.selectbox(
            label, pairs, format_func=_text, key=key, width=320,
            placeholder="none",
        )  # fmt: skip
        for name, (title, change, message) in actions.items():
            if st.button(title, key=name, disabled=selected is None) and selected is not None:

                def do(
                    pair: Pair = selected,
                    change: Callable[[str, Level], None] = change,
                    message: str = message,
                ) -> str:
                    change(*pair)
                    return f"{_text(pair)} {message}"

                intent = Intent("levels", do)
    return intent


def _text(pair: Pair) -> str:
    return f"{pair[0]} = {pair[1]}"


def _new_level(view_model: ExperimentView, space: ParameterSpace) -> Intent | None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Parameter", space.names, key="add-parameter", width=200)
        text = st.text_input("New level", key="add-level", width=160)
        is_pressed = st.button("Add", key="add")
    answer_at("add-level")
    if not is_pressed:
        return None

    def do() -> str:
        if not text.strip():
            raise FormFieldError("add-level", "Enter the level to add.")
        value = space.parameter(name).read(text)
        view_model.session.add_level(name, value)
        return f"{name} = {value} is added."

    return Intent("add-level", do)


def _exclusion(view_model: ExperimentView, space: ParameterSpace) -> Intent | None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Never suggest configurations with", key="exclude", width=440,
            placeholder=equality({space.names[0]: space.parameters[0].levels[0]}),
        )  # fmt: skip
        is_pressed = st.button("Forbid", key="forbid")
    answer_at("exclude")
    for exclusion in space.exclusions:
        st.caption(f"Forbidden: {labels.escape_markdown(exclusion.text)}")
    if not is_pressed:
        return None

    def do() -> str:
        if not text.strip():
            raise FormFieldError("exclude", "Enter a condition on the parameters.")
        view_model.session.exclude(text.strip())
        return f"Configurations with '{text.strip()}' are not suggested any more."

    return Intent("exclude", do)


def weights_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the fields for a region's weight, a factor of its share of runs; return a request."""
    answer_at("weights")
    steering, rule = experiment.steering, experiment.warning_policy.regions
    if steering.exploitation is None:
        return None
    regions = experiment.regions
    if not regions:
        st.caption("You can set weights once there are regions.")
        return None
    factors = factors_of(regions, steering.weights, experiment.space, rule.radius)
    ranges = {row.id: row.ranges for row in region_rows(experiment, 0.0)}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        region_id = st.selectbox(
            "Region",
            [region.id for region in regions],
            format_func=lambda at: f"{at}: {ranges[at]}",
            key="weigh-region",
            width=320,
        )
        present = factors[region_id - 1]
        weight = st.number_input(
            "Weight",
            0.0,
            value=present,
            step=0.5,
            key=f"weigh-{region_id}-{present}",
            width=130,
            help="Factor of the region's share of runs: 2 doubles it, 0 puts no runs there.",
        )
        pressed = st.button("Set weight", key="weigh", disabled=weight == present)
    if not pressed:
        return None

    def do() -> str:
        view_model.session.weigh_region(region_id, weight)
        return f"Region {region_id} has the weight {weight:g} from now on."

    return Intent("weights", do)


_PENDING = {
    "near": "configurations near the good ones",
    "queued": "waiting runs inside a region",
    "box": "configurations inside a region's box",
    "plan": "the remaining runs of the plan",
}
_GOOD: Mapping[Good, str] = {
    "quantile": "the best share of the results",
    "threshold": "results that reach a value",
    "verdicts": "results that you rated good",
}
_ON_WARNING: Mapping[str, OnWarning] = {
    "ignore": "ignore",
    "accept": "accept",
    "wait for me": "wait",
}


def _choosing(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    session, steering = view_model.session, experiment.steering
    key = f"steer-{session.id}-{steering}"
    st.caption(f"Now: {steering}.")
    name, options = strategy_fields(key, steering.strategy, steering.options)
    share = steering.exploitation
    split = st.toggle(
        "Spend a share of the runs inside regions of good results",
        share is not None,
        key=f"{key}-split",
        help="With a share of 0 % no run is inside the regions. Without a split they are not used.",
    )
    level = None
    if split:
        at = round(100 * (share if share is not None else experiment.warning_policy.advised))
        level = st.slider(
            "Share inside regions (exploitation)", 0, 100, at, 5, format="%d %%", key=f"{key}-share"
        ) / 100  # fmt: skip
    refine = steering.refine
    if experiment.space.is_wide:
        refine = st.toggle(
            "Add levels near the best result to ranges", refine, key=f"{key}-refine"
        )  # fmt: skip
    answer_at("steering")
    if st.button("Use this strategy from now on", key="change-steering"):

        def do() -> str:
            session.change_strategy(name, options, level, refine)
            return f"From now on: {session.experiment.steering}."

        return Intent("steering", do)
    weighed = weights_section(view_model, experiment)
    st.divider()
    return _automatic(view_model, experiment) or weighed


def _automatic(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    answer_at("auto_steering")
    how = experiment.auto_steering
    with st.container(horizontal=True, vertical_alignment="bottom"):
        size = st.number_input(
            "Suggestions per batch", 1, 100, 5 if how is None else how.batch, width=160,
            key="auto-n" if how is None else "auto-n-now", disabled=how is not None,
            placeholder="as the strategy",
        )  # fmt: skip
        on_warning = st.selectbox(
            "At a warning", list(_ON_WARNING), width=160,
            index=0 if how is None else list(_ON_WARNING.values()).index(how.warnings),
            key="auto-advice" if how is None else "auto-advice-now", disabled=how is not None,
        )  # fmt: skip
        pressed = st.button(
            "Turn auto-steering on" if how is None else "Turn auto-steering off",
            key="auto_steering",
            help="The service runs the current configuration, ten first runs, then batches until "
            "an SLA limit is reached or you turn it off. You may close the page."
        )  # fmt: skip
    if not pressed:
        return None

    def do() -> str:
        if how is not None:
            view_model.session.set_auto_steering(None, "you turned it off")
            return "Auto-steering is off."
        suggestions_batch.release_batch(view_model.session.id)
        view_model.session.set_auto_steering(AutoSteering(size, warnings=_ON_WARNING[on_warning]))
        return "Auto-steering is on. It submits every suggestion after you start the runs."

    return Intent("auto_steering", do)


def _warning_policy_fields(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    policy, objective = experiment.warning_policy, experiment.opened.objective
    rule = policy.regions
    goods: list[Good] = list(_GOOD)
    good = st.selectbox(
        "Good results are",
        goods,
        goods.index(rule.good),
        format_func=_GOOD.__getitem__,
        key="warning-policy-good",
    )
    share, reached = rule.quantile, None
    if good == "quantile":
        share = (
            st.slider(
                "Best share",
                5,
                100,
                round(share * 100),
                5,
                format="%d %%",
                key="warning-policy-share",
            )
            / 100
        )
    if good == "threshold":
        at = objective.value_of(rule.threshold) if rule.threshold is not None else None
        bound = "at most" if objective.goal == "minimise" else "at least"
        reached = st.number_input(
            f"{objective.wrapper} {bound}", value=at, key="warning-policy-threshold"
        )
    pending = st.selectbox(
        "Pending are", PENDING, PENDING.index(policy.pending), format_func=_PENDING.__getitem__,
        key="warning-policy-pending",
    )  # fmt: skip
    answer_at("warning-policy")
    if not st.button("Use this rule from now on", key="change-warning-policy"):
        return None

    def do() -> str:
        if good == "threshold" and reached is None:
            raise FormFieldError("warning-policy", "Enter the value that a good result must reach.")
        threshold = None
        if good == "threshold" and reached is not None:
            threshold = -reached if objective.goal == "minimise" else reached
        regions = RegionRule(good, threshold, share, rule.eps, rule.min_samples)
        view_model.session.change_warning_policy(replace(policy, regions=regions, pending=pending))
        return "Regions and pending runs follow this rule from now on."

    return Intent("warning-policy", do)


def _past(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    st.caption(
        f"A CSV file with the columns {', '.join(experiment.space.names)}, then a column for "
        "each measure. Imported results do not use the budget."
    )
    path = st.text_input("Path of past results", key="import-path", placeholder="results.csv")
    replicates = st.checkbox(
        "Import other results of the same configuration as replicates", key="import-replicates"
    )
    answer_at("import")
    if not st.button("Import", key="import"):
        return None

    def do() -> str:
        if not path.strip():
            raise FormFieldError("import", "Enter the path of a CSV file.")
        results = read_results(Path(path.strip()).expanduser(), experiment.space)
        n = view_model.session.import_results(results, replicates=replicates)
        return f"{n} of {len(results)} results were imported; the others already have a run."

    return Intent("import", do, "Reading results")


def _finishing(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    answer_at("finish")
    if experiment.finished is not None:
        st.info(f"Finished: {experiment.finished.reason}")
        if broken_program(experiment) is None or experiment.remaining_runs == 0:
            return None
        if not st.button("Go on after the repair", key="go-on-repaired", type="primary"):
            return None
        return Intent("finish", lambda: _go_on(view_model))
    reason = st.text_input("Reason for the end", "the analyst is satisfied", key="finish-reason")
    sure = st.checkbox("I want no more runs in this experiment", key="finish-sure")
    if not st.button("Finish the experiment", key="finish", disabled=not sure):
        return None

    def do() -> str:
        view_model.session.finish(reason.strip() or "the analyst is satisfied")
        return ""

    return Intent("finish", do)


def _go_on(view_model: ExperimentView) -> str:
    view_model.session.reopen()
    return "The experiment is open again. Auto-steering repeats the failed runs."


def early_stopping_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the rule that stops hopeless runs; return a request to change it."""
    present, session = experiment.early_stopping, view_model.session
    answer_at("early")
    st.caption("No run is stopped." if present is None else f"Now: {present}, by {present.step}.")
    st.caption(f"{NEEDS_STEPS} Without it, no run is stopped.")
    key = f"early-{session.id}-{hash(present)}"
    fields = early_stopping_fields(key, EarlyStoppingFields.of(present))
    if not st.button("Change early stopping", key="change-early"):
        return None

    def do() -> str:
        settings = fields.value(key)
        session.change_early_stopping(settings)
        if settings is None:
            return "No run is stopped early from now on."
        return f"Hopeless runs are stopped by {settings} from now on."

    return Intent("early", do)


SECTIONS: Mapping[str, Callable[[ExperimentView, Experiment], Intent | None]] = {
    "Strategy": _choosing,
    "Budget": budget_section,
    "Levels": levels_section,
    "Early stopping": early_stopping_section,
    "Regions": _warning_policy_fields,
    "Past results": _past,
    "Finish": _finishing,
}


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the steering page and return the user's request to change the steering, or None."""
    intent = None
    names = list(SECTIONS)
    for tab, draw in zip(st.tabs(names), SECTIONS.values(), strict=True):
        with tab, st.container(width=720):
            intent = draw(view_model, experiment) or intent
    return intent

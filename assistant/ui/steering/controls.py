"""What can be changed while it runs: how it chooses, the budget, levels, the watch, the past."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import streamlit as st

from assistant import Experiment
from assistant.results import read_results
from assistant.sla import PENDING, Automatic, OnWarning
from assistant.ui.desk import Desk
from assistant.ui.intents import FieldError, Intent, answer_at
from assistant.ui.steering import budget, levels, weights
from assistant.ui.suggestions import held
from strategies import Level, RegionRule, strategy_entry, strategy_names
from strategies.regions import Good

_PENDING = {
    "near": "configurations near the good ones",
    "queued": "runs that wait inside a region",
    "box": "configurations inside a region's box",
    "plan": "what is left of the plan",
}
_GOOD: Mapping[Good, str] = {
    "quantile": "the best share of the results",
    "threshold": "results that reach a value",
    "verdicts": "results that you rated good",
}
_ON_ADVICE: Mapping[str, OnWarning] = {
    "wait for me": "wait",
    "accept": "accept",
    "ignore": "ignore",
}


def strategy_fields(
    key: str, present: str, options: Mapping[str, Level]
) -> tuple[str, dict[str, Level]]:
    """Draw a choice of strategy with its own options. Returns both."""
    names = list(strategy_names())
    name = st.selectbox(
        "Strategy",
        names,
        index=names.index(present) if present in names else 0,
        help="\n\n".join(f"{one}: {strategy_entry(one).summary}" for one in names),
        key=f"{key}-strategy",
    )
    chosen: dict[str, Level] = {}
    for option in strategy_entry(name).options:
        value = options.get(option.name, option.default) if name == present else option.default
        field = f"{key}-{name}-{option.name}"
        label = option.name.replace("_", " ").capitalize()
        if option.choices:
            at = option.choices.index(str(value))
            chosen[option.name] = st.selectbox(
                label, option.choices, at, help=option.summary, key=field
            )
        elif option.type is bool:
            chosen[option.name] = st.checkbox(label, bool(value), help=option.summary, key=field)
        elif option.type is float and option.low is not None and option.high is not None:
            chosen[option.name] = st.slider(
                label, option.low, option.high, float(value), 0.05, help=option.summary, key=field
            )
        elif option.type is int:
            low = None if option.low is None else int(option.low)
            high = None if option.high is None else int(option.high)
            chosen[option.name] = st.number_input(
                label, low, high, int(value), help=option.summary, key=field
            )
        elif option.type is float:
            chosen[option.name] = st.number_input(
                label, option.low, option.high, float(value), help=option.summary, key=field
            )
        else:
            chosen[option.name] = st.text_input(label, str(value), help=option.summary, key=field)
    return name, chosen


def _choosing(desk: Desk, experiment: Experiment) -> Intent | None:
    session, steering = desk.session, experiment.steering
    key = f"steer-{session.id}-{steering}"
    st.caption(f"Now: {steering}.")
    name, options = strategy_fields(key, steering.strategy, steering.options)
    share = steering.exploitation
    split = st.toggle(
        "Spend a share of the runs inside regions of good results",
        share is not None,
        key=f"{key}-split",
        help="A share of 0 % keeps out of the regions; without a split they are not looked at.",
    )
    level = None
    if split:
        at = round(100 * (share if share is not None else experiment.watch.advised))
        level = st.slider(
            "Share inside regions (exploitation)", 0, 100, at, 5, format="%d %%", key=f"{key}-share"
        ) / 100  # fmt: skip
    answer_at("steering")
    if st.button("Choose like this from now on", key="change-steering"):

        def do() -> str:
            session.change_strategy(name, options, level)
            return f"From now on: {session.experiment.steering}."

        return Intent("steering", do)
    weighed = weights.section(desk, experiment)
    st.divider()
    return _automatic(desk, experiment) or weighed


def _automatic(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the switch between the person and the automatic mode."""
    answer_at("automatic")
    how = experiment.automatic
    with st.container(horizontal=True, vertical_alignment="bottom"):
        size = st.number_input(
            "Suggestions at a time", 1, 100, 5, key="auto-n", width=160, persist_state="session"
        )
        on_advice = st.selectbox(
            "At a warning", list(_ON_ADVICE), key="auto-advice", width=160, persist_state="session"
        )
        pressed = st.button(
            "Take every suggestion automatically" if how is None else "Let me decide again",
            key="automatic",
            help="Today's configuration, ten first runs, then one batch after another until the "
            "agreement is used up or you decide again. The service does it: you may close the page."
        )  # fmt: skip
    if not pressed:
        return None

    def do() -> str:
        if how is not None:
            desk.session.hand_over(None, "you decide again")
            return "You decide again."
        held.release(desk.session.id)
        desk.session.hand_over(Automatic(size, advice=_ON_ADVICE[on_advice]))
        return "Suggestions are taken as they come, as soon as runs are started."

    return Intent("automatic", do)


def _watch(desk: Desk, experiment: Experiment) -> Intent | None:
    watch, objective = experiment.watch, experiment.opened.objective
    rule = watch.regions
    goods: list[Good] = list(_GOOD)
    good = st.selectbox(
        "Good are", goods, goods.index(rule.good), format_func=_GOOD.__getitem__, key="watch-good"
    )
    share, reached = rule.quantile, None
    if good == "quantile":
        share = (
            st.slider(
                "Best share", 5, 100, round(share * 100), 5, format="%d %%", key="watch-share"
            )
            / 100
        )
    if good == "threshold":
        at = objective.value_of(rule.threshold) if rule.threshold is not None else None
        bound = "at most" if objective.goal == "minimise" else "at least"
        reached = st.number_input(f"{objective.wrapper} {bound}", value=at, key="watch-threshold")
    pending = st.selectbox(
        "Pending are", PENDING, PENDING.index(watch.pending), format_func=_PENDING.__getitem__,
        key="watch-pending",
    )  # fmt: skip
    answer_at("watch")
    if not st.button("Watch like this from now on", key="change-watch"):
        return None

    def do() -> str:
        if good == "threshold" and reached is None:
            raise FieldError("watch", "Name the value from which a result is good.")
        threshold = None
        if good == "threshold" and reached is not None:
            threshold = -reached if objective.goal == "minimise" else reached
        regions = RegionRule(good, threshold, share, rule.eps, rule.min_samples)
        desk.session.change_watch(replace(watch, regions=regions, pending=pending))
        return "Regions and pending runs are counted like this from now on."

    return Intent("watch", do)


def _past(desk: Desk, experiment: Experiment) -> Intent | None:
    st.caption(
        f"A CSV file with the columns {', '.join(experiment.space.names)}, then a column for "
        "each measure. Imported results cost nothing of the budget."
    )
    path = st.text_input(
        "Path of results from before", key="import-path", placeholder="results.csv"
    )
    replicates = st.checkbox(
        "Other results of the same configuration are replicates of it", key="import-replicates"
    )
    answer_at("import")
    if not st.button("Import", key="import"):
        return None

    def do() -> str:
        if not path.strip():
            raise FieldError("import", "Name the path of a CSV file.")
        results = read_results(Path(path.strip()).expanduser(), experiment.space)
        n = desk.session.import_results(results, replicates=replicates)
        return f"{n} of {len(results)} results were taken in; the others have a run already."

    return Intent("import", do, "Reading results")


def _finishing(desk: Desk, experiment: Experiment) -> Intent | None:
    answer_at("finish")
    if experiment.finished is not None:
        st.info(f"Finished: {experiment.finished.reason}")
        return None
    reason = st.text_input("Why it ends here", "the analyst is satisfied", key="finish-reason")
    sure = st.checkbox("Nothing more shall be run in this experiment", key="finish-sure")
    if not st.button("Finish the experiment", key="finish", disabled=not sure):
        return None

    def do() -> str:
        desk.session.finish(reason.strip() or "the analyst is satisfied")
        return ""

    return Intent("finish", do)


SECTIONS: Mapping[str, Callable[[Desk, Experiment], Intent | None]] = {
    "How it chooses": _choosing,
    "Budget": budget.section,
    "Levels": levels.section,
    "Regions": _watch,
    "Past results": _past,
    "Finish": _finishing,
}

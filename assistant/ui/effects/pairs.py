"""Pairs of parameters on *Effects*, and what stands out of the noise."""

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.charts_effects import (
    CHOSEN_PAIR,
    CombinationChange,
    half_normal,
    interaction,
    pareto,
    pareto_standardised,
    strength_matrix,
)
from assistant.effects import (
    EffectsReport,
    Filter,
    Interaction,
    Response,
    Strength,
    Strengths,
    effects_report,
    standardised,
)
from assistant.report.effects import f_text, p_text
from assistant.report.words import level, number
from assistant.ui import words
from assistant.ui.charting import low, wide

_KEPT = "effects-pair-kept"


def section(
    experiment: Experiment, report: EffectsReport, found: Strengths, response: Response,
    only: Filter,
) -> None:  # fmt: skip
    """Draw how much every parameter and pair explains, and one pair by its combinations."""
    st.subheader("Which pairs act together")
    if not found.pairs:
        st.caption("A pair needs two parameters with two levels or more that were run.")
        return
    st.caption(
        "How much of the variation between the runs each parameter explains by itself (on the "
        "diagonal) and each pair beyond that, less what chance would explain. A plus: only some of "
        "its comparisons can be estimated yet. A question mark: none. Where runs are spread "
        "unevenly the shares add up to less than all. Click a pair to see it."
    )
    if found.left_out:
        st.caption(f"Not paired, since weaker: {words.plain(', '.join(found.left_out))}.")
    own = experiment.opened.experiment_id
    left, right = st.columns([1, 1])
    names = [text_of(one) for one in found.pairs]
    key = f"effects-matrix-{own}"
    with left:
        strongest = f"{names[0]}: {_share(found.pairs[0])}"
        st.vega_lite_chart(
            low(strength_matrix(found.main, found.pairs)),
            theme=None,
            width="stretch",
            alt=f"share of the variation by parameter and pair; the strongest pair {strongest}",
            key=key,
            on_select=lambda: _clicked(own, key, names),
        )
    with right:
        picked = f"effects-pair-{own}"
        if st.session_state.get(picked) not in names:
            st.session_state.pop(picked, None)
        chosen = st.selectbox("Pair", names, key=picked, help="The strongest first.")
        pair = found.pairs[names.index(chosen)]
        told = _pair(experiment, pair, response, only)
        _lines(told, pair, report)
    with st.expander("As a table"):
        st.dataframe(
            strengths_table(found), hide_index=True, width="stretch", alt="parameters and pairs"
        )
        st.dataframe(
            combinations_table(told, report.unit), hide_index=True, width="stretch",
            alt=f"combinations of {chosen}",
        )  # fmt: skip


def text_of(one: Strength) -> str:
    """Return a term as it is named."""
    return " x ".join(one.parameters)


def _clicked(own: str, chart: str, names: list[str]) -> None:
    points = st.session_state[chart]["selection"].get(CHOSEN_PAIR)
    if not points:
        return
    ends = points[0]["first"], points[0]["second"]
    name = next((one for one in names if one in (" x ".join(ends), " x ".join(ends[::-1]))), None)
    if name is not None:  # none is on the diagonal
        st.session_state[f"effects-pair-{own}"] = name


def _pair(
    experiment: Experiment, pair: Strength, response: Response, only: Filter
) -> Interaction | None:
    """Return one pair's combinations, estimated once; None if they cannot be."""
    first, second = pair.parameters
    if not pair.test.df:
        return None
    key = (
        experiment.opened.experiment_id, experiment.version, len(experiment.measured),
        response, only, pair.parameters,
    )  # fmt: skip
    kept = st.session_state.get(_KEPT)
    if kept is None or kept[0] != key:
        report = effects_report(experiment, [(first, second)], response, only)
        kept = st.session_state[_KEPT] = (key, report.interactions[0])
    told: Interaction = kept[1]
    return told


def _lines(told: Interaction | None, pair: Strength, report: EffectsReport) -> None:
    title = f"change of {words.titled(report.value_name, report.unit)}"
    known = [one for one in told.combinations if one.change is not None] if told else []
    if told is None or len(known) < 2:
        why = "" if pair.test.reason is None else f" ({pair.test.reason})"
        st.info(
            f"The runs do not say how these two act together{words.plain(why)}. Which runs would: "
            "*What is missing*, below."
        )
        return
    changes = [
        CombinationChange(level(one.levels[0]), level(one.levels[1]), one.change or 0.0, one.n)
        for one in known
    ]
    st.vega_lite_chart(
        wide(interaction(changes, *told.parameters, title)),
        theme=None,
        width="stretch",
        alt=f"{title} over {told.parameters[0]}, a line for each {told.parameters[1]}",
    )
    st.caption(
        f"{words.plain(f_text(told.test))}. Parallel lines would be parameters that act each by "
        "itself."
    )


def strengths_table(found: Strengths) -> pd.DataFrame:
    """Return parameters and pairs by what they explain, as it is shown."""
    return pd.DataFrame(
        {
            "term": text_of(one),
            "explains": _share(one),
            "degrees of freedom": f"{one.test.df} of {one.test.full_df}",
            "F": number(one.test.f),
            "p": "unknown" if one.test.p is None else p_text(one.test.p).removeprefix("= "),
            "": one.test.reason or "",
        }
        for one in (*sorted(found.main, key=lambda one: -(one.share or 0.0)), *found.pairs)
    )


def combinations_table(told: Interaction | None, unit: str) -> pd.DataFrame:
    """Return the combinations of a pair, as they are shown; no rows if they are unknown."""
    if told is None:
        return pd.DataFrame()
    first, second = told.parameters
    in_unit = f" [{unit}]" if unit else ""
    beyond = {one.levels: one for one in told.beyond}
    return pd.DataFrame(
        {
            first: level(one.levels[0]),
            second: level(one.levels[1]),
            "runs": one.n,
            f"change in all{in_unit}": number(one.change),
            "95 % interval": words.interval(one.low, one.high),
            f"beyond the sum{in_unit}": number(beyond[one.levels].change),
            "": one.verdict or "",
        }
        for one in told.combinations
    )


def _share(one: Strength) -> str:
    if one.share is None:
        return "unknown"
    return f"{'at least ' if one.is_part else ''}{one.share:.1%}"


def noise(report: EffectsReport, title: str) -> None:
    """Draw which contrasts stand out of the noise: Pareto chart and half-normal plot."""
    st.subheader("What stands out of the noise")
    if len(report.contrasts) < 2:
        st.caption("Fewer than two contrasts of levels can be estimated, so there is no noise yet.")
        return
    found = standardised(report)
    left, right = st.columns(2)
    effect = f"effect on {title}"
    with left:
        if found is not None:
            spec = pareto_standardised(found)
            beyond = sum(abs(t) > found.bonferroni for _, t in found.effects)
            said = (
                f"Each contrast in standard errors of {found.df} degrees of freedom. Beyond the "
                f"first line it is clear if it alone is looked at (|t| {found.limit:.2f}), beyond "
                f"the second among all {len(found.effects)} ({found.bonferroni:.2f}); {beyond} are."
            )
        else:
            spec = pareto(report.contrasts, report.margins, effect)
            said = (
                "The error is unknown or 0, so the lines are Lenth's margins, which take the small "
                "contrasts for noise."
            )
        st.vega_lite_chart(
            low(spec), theme=None, width="stretch",
            alt=f"contrasts by size, the largest {report.contrasts[0].name}",
        )  # fmt: skip
        st.caption(said)
    with right:
        st.vega_lite_chart(
            wide(half_normal(report.half_normal, report.margins, effect)),
            theme=None,
            width="stretch",
            alt="sizes of contrasts against half-normal quantiles",
        )
        st.caption(
            "Half-normal plot: noise lies along the line, what matters leaves it to the right and "
            "is named (Lenth's margin)."
        )
    with st.expander("As a table"):
        st.dataframe(
            contrasts_table(report), hide_index=True, width="stretch", alt="contrasts by size"
        )


def contrasts_table(report: EffectsReport) -> pd.DataFrame:
    """Return the contrasts, the largest first, as they are shown."""
    found = standardised(report)
    ts = {} if found is None else {one.name: t for one, t in found.effects}
    unit = f" [{report.unit}]" if report.unit else ""
    return pd.DataFrame(
        {
            "contrast": one.name,
            f"effect{unit}": number(one.effect),
            "t": number(ts.get(one.name)),
            "": _beyond(one.effect, ts.get(one.name), report),
        }
        for one in report.contrasts
    )


def _beyond(effect: float, t: float | None, report: EffectsReport) -> str:
    found = standardised(report)
    if found is not None and t is not None:
        size, alone, among = abs(t), found.limit, found.bonferroni
    elif report.margins.margin is not None and report.margins.simultaneous is not None:
        size, alone, among = abs(effect), report.margins.margin, report.margins.simultaneous
    else:
        return ""
    if size > among:
        return "clear among all"
    return "clear by itself" if size > alone else ""

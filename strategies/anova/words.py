"""Why a configuration is proposed, in one sentence: chance, effects, and the best run beside it."""

from __future__ import annotations

from strategies.anova.model import AnovaModel
from strategies.configuration import Configuration
from strategies.knowledge import Knowledge
from strategies.observation import best
from strategies.parameter import show
from strategies.reasons import difference, joined

NEAR = 2
"""Parameters in which a configuration may differ from the best run and still be near it."""

SURE = 0.9
NEGLIGIBLE = 0.02
"""Share of the main effects below which a parameter is not worth a word."""


def improvement_reason(
    model: AnovaModel,
    configuration: Configuration,
    knowledge: Knowledge,
    *,
    exact: bool,
    n_before: int,
) -> str:
    """Say what the model expects of a configuration, and what for.

    Args:
        model: the model that chose it.
        configuration: what was chosen.
        knowledge: what was known then.
        exact: whether all free configurations were compared.
        n_before: runs under way and suggestions before it, which were imagined to have ended.
    """
    prediction = model.predict(configuration)
    field = "free configurations" if exact else "configurations compared"
    if n_before:
        field += (
            f" beside the {n_before} under way" if n_before > 1 else " beside the one under way"
        )
    if prediction.chance is None:
        parts = [f"Least is known of it among the {field}: no run differs from another yet"]
    else:
        parts = [
            f"Promises most of the {field}: {_percent(prediction.chance)} to beat the best run"
        ]
    if prediction.succeeds < SURE:
        parts.append(f"{_percent(prediction.succeeds)} that it gives a result")
    effects = _best_levels(model, configuration)
    if effects:
        verb = "has" if len(effects) == 1 else "have"
        parts.append(f"{joined(effects)} {verb} the best estimated effect")
    leader = best(knowledge.observations)
    if leader is not None:
        parts.append(_beside(model, configuration, leader.configuration))
    return "; ".join(parts) + "."


def scouting_reason(knowledge: Knowledge) -> str:
    """Say why a place that works is looked for."""
    n_failed, n_done = len(knowledge.failures), len(knowledge.observations)
    if not n_failed:
        return "Far from what is under way, since no run has given a result yet."
    runs = "run has" if n_failed == 1 else "runs have"
    return (
        f"Far from what was tried and near what worked, since {n_failed} {runs} failed and "
        f"{n_done or 'none'} given a result."
    )


def _best_levels(model: AnovaModel, configuration: Configuration) -> list[str]:
    """Return "order='sjf' (of 8 levels)" for levels with the best main effect, by importance."""
    found = []
    for name, share in sorted(model.shares.items(), key=lambda item: -item[1]):
        if share < NEGLIGIBLE:
            break
        position = model.space.names.index(name)
        open_ids = model.space.open_ids[position]
        level_id = configuration.level_ids[position]
        values = model.main_values(position)
        if len(open_ids) > 1 and values[level_id] >= max(values[i] for i in open_ids):
            level = show(model.space.parameters[position].levels[level_id])
            found.append(f"{name}={level} (of {len(open_ids)} levels)")
    return found


def _beside(model: AnovaModel, configuration: Configuration, leader: Configuration) -> str:
    differences = [
        difference(parameter, a, b)
        for parameter, a, b in zip(
            model.space.parameters, configuration.level_ids, leader.level_ids, strict=True
        )
        if a != b
    ]
    if not differences:
        return "the best run once more"
    if len(differences) <= NEAR:
        return f"{joined(differences)} from the best run"
    return f"unlike the best run in {len(differences)} of {len(model.space.parameters)} parameters"


def _percent(p: float) -> str:
    if p < 0.01:
        return "a chance below 1 %"
    if p > 0.99:
        return "a chance above 99 %"
    return f"a chance of {p:.0%}".replace("%", " %")

"""The why of a suggestion, in one sentence for people."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.configuration import Configuration
from strategies.design import DesignModel, Method
from strategies.parameter import Parameter, show
from strategies.space import ParameterSpace

SHOWN = 3
_METHOD_NAMES: dict[Method, str] = {
    "means": "level means",
    "blocks": "complete blocks",
    "least_squares": "least squares",
}


def construction_reason(model: DesignModel, configuration: Configuration, beta: float) -> str:
    """Say which levels of a construction are the best seen and which are untried."""
    best: list[str] = []
    untried: list[str] = []
    unknown: list[str] = []
    others: list[str] = []
    compared, quality = "tried", "mean quality seen"
    if model.method != "means":
        compared, quality = "compared", f"quality estimated by {_METHOD_NAMES[model.method]}"
    for name, value in _by_importance(model, configuration):
        level_id = model.space.parameter(name).level_id(value)
        level = model.level(name, level_id)
        n_known = sum(1 for other in model.levels(name) if other.mean is not None)
        text = f"{name}={show(value)}"
        if level.mean is None:
            (unknown if level.count else untried).append(text)
        elif n_known > 1 and level.mean == model.q_max(name):
            best.append(f"{text} (of {n_known} levels {compared})")
        else:
            others.append(text)
    parts = []
    if best:
        verb = "has" if len(best) == 1 else "have"
        parts.append(f"{joined(best)} {verb} the best {quality}")
    if untried:
        parts.append(f"{joined(untried)} {'is' if len(untried) == 1 else 'are'} untried")
    if unknown:
        verb = "has" if len(unknown) == 1 else "have"
        parts.append(f"{joined(unknown)} {verb} runs, but nothing to be compared with yet")
    if not parts:
        return f"{joined(others)} drawn from the levels above the greediness {beta:g}."
    return "; ".join(parts) + "."


def neighbour_reason(
    space: ParameterSpace, configuration: Configuration, near: Configuration, near_text: str
) -> str:
    """Say how a neighbour differs from the configuration it was derived from."""
    differences = [
        difference(parameter, a, b)
        for parameter, a, b in zip(
            space.parameters, configuration.level_ids, near.level_ids, strict=True
        )
        if a != b
    ]
    sentence = f"{joined(differences)} from {near_text}."
    return sentence[0].upper() + sentence[1:]


def difference(parameter: Parameter, level_id: int, other_id: int) -> str:
    """Say how one level of a parameter differs from another."""
    if parameter.kind == "nominal":
        return f"a change to {parameter.name}={show(parameter.levels[level_id])}"
    steps = abs(parameter.ranks[level_id] - parameter.ranks[other_id])
    return f"{'one step' if steps == 1 else f'{steps} steps'} in {parameter.name}"


def _by_importance(
    model: DesignModel, configuration: Configuration
) -> list[tuple[str, str | int | float | bool]]:
    values = model.space.values(configuration)
    return [(entry.parameter, values[entry.parameter]) for entry in model.importance]


def joined(parts: Sequence[str]) -> str:
    """Join as people do, at most three and a count of the rest."""
    shown = list(parts[:SHOWN])
    if len(parts) > SHOWN:
        shown.append(f"{len(parts) - SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"

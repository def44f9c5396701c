"""How many servers suffice: from a model, a generator or a log, in the words of every shell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assistant.applications.generating import fit, has_rules, model_of, told
from assistant.errors import SettingsError
from sim.api import (
    CAPACITY_DEFINITIONS,
    CapacityPlan,
    Case,
    Model,
    Needed,
    ReadingRules,
    Server,
    Window,
    fit_cloud_trace,
    generator_named,
    is_cloud_trace,
    is_model,
    load_workload,
    plan_capacity,
    read_cloud_trace,
)

GIB = 2**30


def model_for(
    what: str,
    generator: str,
    knobs: Mapping[str, float | str],
    *,
    window: Window | None = None,
    rules: ReadingRules | None = None,
) -> Model:
    """Return a model by its file or name, or fit one to a log.

    Args:
        what: a file of a model or of a log (or of Bergsma et al.'s batches), or a generator with
            published parameters.
        generator: that is fitted to a log.
        knobs: how.
        window: which jobs of the log.
        rules: for a log in the Standard Workload Format.

    Raises:
        SimError: it is neither, cannot be read, or cannot be fitted.
        SettingsError: knobs for a model that is there.
    """
    path = Path(what)
    if is_model(path) or not path.exists():
        if knobs:
            raise SettingsError("knobs are for fitting to a log; this model is fitted already")
        return model_of(what)
    if is_cloud_trace(path):
        return fit_cloud_trace(generator, read_cloud_trace(path), knobs, of=path.name)
    generator_named(generator)
    log = load_workload(path, rules=rules if has_rules(path) else None)
    return fit(generator, (window or Window()).of(log), knobs)


def suppositions(
    model: Model, settings: Mapping[str, Any]
) -> tuple[tuple[str, Model, Mapping[str, Any]], ...]:
    """Return what is supposed beside the model as it is: nothing, or other values of parameters."""
    if not settings:
        return ()
    name = ", ".join(f"{one}={value}" for one, value in settings.items())
    return ((f"with {name}", told(model, settings), settings),)


def answer(plan: CapacityPlan) -> str:
    """Say how many servers suffice, in one sentence."""
    first = plan.cases[0]
    needed = first.packed or first.fluid
    how = "placed by first fit" if first.packed else "if jobs were water"
    return (
        f"{needed.servers:,} servers of {server_words(plan.server)} suffice in "
        f"{share_words(plan)} of {plan.futures:,} generated futures of {plan.days:g} days, {how} "
        f"({interval_words(needed)})."
    )


def notes(plan: CapacityPlan) -> tuple[str, ...]:
    """Say what a reader should know of the answer."""
    begin = (
        f"Each future is generated from {plan.warm_up_days:g} days before the days that count, "
        "since it begins empty."
    )
    said = [begin]
    missing = max(one.missing for one in plan.cases)
    if missing > 0.01:
        said.append(
            f"Jobs that live longer than that make {missing:.1%} of the demand; at the begin they "
            "are missing, and the answer lies too low by up to as much. Give a longer warm-up."
        )
    if any((one.packed or one.fluid).high is None for one in plan.cases):
        said.append("The interval has no upper end: with more futures it would.")
    return tuple(said)


def share_words(plan: CapacityPlan) -> str:
    """Return the share of the futures."""
    return f"{100.0 * plan.share:.6g} %"


def server_words(server: Server) -> str:
    """Return what a server has."""
    cores = f"{server.cores:,} {'processor' if server.cores == 1 else 'processors'}"
    if server.mem_bytes is None:
        return cores
    return f"{cores} and {server.mem_bytes / GIB:,.4g} GiB"


def interval_words(needed: Needed) -> str:
    """Return the interval of an answer."""
    return f"95 % interval: {_ends(needed)}"


def plan_of(told: Mapping[str, Any]) -> CapacityPlan:
    """Return a plan from what `CapacityPlan.to_dict` said, such as the command line prints.

    Raises:
        KeyError: something is missing.
    """

    def needed(one: Mapping[str, Any]) -> Needed:
        return Needed(
            one["servers"], one["low"], one["high"], one["median"], one["most"], tuple(one["each"])
        )

    cases = tuple(
        Case(
            one["name"], one["scale"], one["settings"], one["jobs"], one["missing"],
            needed(one["fluid"]), None if one["packed"] is None else needed(one["packed"]),
        )
        for one in told["cases"]
    )  # fmt: skip
    server = Server(told["server"]["cores"], told["server"]["mem_bytes"])
    return CapacityPlan(
        told["generator"], told["source"], server, told["days"], told["warm_up_days"],
        told["futures"], told["share"], told["seed"], cases,
    )  # fmt: skip


HEADINGS = (
    "supposition", "jobs", "servers, fluid", "interval", "servers, first fit", "interval",
    "median", "most",
)  # fmt: skip


def curves(plan: CapacityPlan) -> dict[str, list[tuple[int, float]]]:
    """Return, by case, numbers of servers and the share of the futures in which they suffice."""
    return {one.name: (one.packed or one.fluid).suffice() for one in plan.cases}


def rows(plan: CapacityPlan) -> tuple[tuple[str, ...], ...]:
    """Return a line for each case, as `HEADINGS` name its cells."""
    return tuple(_row(one) for one in plan.cases)


def _row(one: Case) -> tuple[str, ...]:
    last = one.packed or one.fluid
    packed = ("-", "-") if one.packed is None else (f"{one.packed.servers:,}", _ends(one.packed))
    return (
        one.name, f"{one.jobs:,.0f}", f"{one.fluid.servers:,}", _ends(one.fluid), *packed,
        f"{last.median:,}", f"{last.most:,}",
    )  # fmt: skip


def _ends(needed: Needed) -> str:
    return (
        f"{needed.low:,} or more" if needed.high is None else f"{needed.low:,} to {needed.high:,}"
    )


__all__ = [
    "CAPACITY_DEFINITIONS",
    "HEADINGS",
    "CapacityPlan",
    "Server",
    "answer",
    "curves",
    "model_for",
    "notes",
    "plan_capacity",
    "plan_of",
    "rows",
    "server_words",
    "share_words",
    "suppositions",
]

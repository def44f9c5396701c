"""The registry of generators, with their fit and draw by name.

The contract suite (`tests/contracts`) covers all registered generators.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from sim.generators.generator import Generator, Horizon, Model, RandomStreams
from sim.model.errors import UnknownNameError, WorkloadError
from sim.model.workload import Workload

_TARGETS = (
    "sim.generators.lublin_generator:LUBLIN",
    "sim.generators.downey:DOWNEY",
    "sim.generators.task_graphs:GRAPHS",
    "sim.generators.joulie.generator:JOULIE",
    "sim.generators.resampling:RESAMPLING",
    "sim.generators.cloud.three_stage:THREE_STAGE",
    "sim.generators.cloud.three_stage:SIMPLE_BATCH",
    "sim.generators.cloud.three_stage:NAIVE",
)


@cache
def generators() -> tuple[Generator, ...]:
    """Return the registered generators; their modules are imported at the first call."""
    targets = (target.split(":") for target in _TARGETS)
    return tuple(getattr(import_module(module), name) for module, name in targets)


def generator_named(name: str) -> Generator:
    """Return the registered generator with this name, or raise `UnknownNameError`."""
    for generator in generators():
        if generator.name == name:
            return generator
    raise UnknownNameError("generator", name, (generator.name for generator in generators()))


def published_model(name: str) -> Model:
    """Return a generator's model with the parameters that its source publishes.

    Raises:
        UnknownNameError: there is no such generator.
        WorkloadError: no parameters are published; the generator must be fitted.
    """
    generator = generator_named(name)
    if generator.published is None:
        raise WorkloadError(
            f"generator '{name}' has no parameters of its own; fit it to a workload first."
        )
    return generator.published()


def fit(
    name: str,
    workload: Workload,
    knobs: Mapping[str, float | str] | None = None,
    **more: float | str,
) -> Model:
    """Fit a model of the generator with this name to a workload.

    Raises:
        UnknownNameError: no such generator, or no such knob.
        WorkloadError: the workload is too small or lacks required data.
        ScenarioError: a knob out of range.
    """
    generator = generator_named(name)
    knob_values = {**(knobs or {}), **more}
    knobs_by_name = {knob.name: knob for knob in generator.knobs}
    for knob_name in knob_values:
        if knob_name not in knobs_by_name:
            raise UnknownNameError(f"knob of fitting '{name}'", knob_name, knobs_by_name)
    values = {
        knob.name: knob.checked(knob_values.get(knob.name, knob.usual), f"fitting '{name}'")
        for knob in generator.knobs
    }
    model = generator.fit(workload, values)
    generator.check(model)
    return model


def generate(
    model: Model, *, duration_s: float, seed: int | RandomStreams, scale: float = 1.0
) -> Workload:
    """Draw a workload of `duration_s` seconds of submissions from a model.

    Jobs are submitted within `duration_s` seconds; `scale` is a factor on the rate of arrivals.

    Raises:
        UnknownNameError: no such generator.
        WorkloadError: invalid parameters, or no jobs or too many within the duration.
    """
    generator = generator_named(model.generator)
    generator.check(model)
    streams = seed if isinstance(seed, RandomStreams) else RandomStreams(seed)
    return generator.draw(model, Horizon(duration_s, scale), streams)

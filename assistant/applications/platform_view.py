"""One run of an AI platform as it is drawn: hour by hour, what came, ran, waited and drifted."""

from collections.abc import Mapping

import numpy as np

from assistant.applications.ai_platform import AiPlatform
from assistant.charts_platform import Panel, PlatformDrawing
from assistant.objective import Measure
from sim.aiops.arrivals import HOUR_S, Floats
from sim.aiops.collecting import PlatformResult
from sim.aiops.scenario import PlatformScenario
from strategies import Level


def platform_drawing(
    application: AiPlatform, values: Mapping[str, Level]
) -> tuple[PlatformDrawing, Mapping[str, Measure]]:
    """Simulate one configuration and return how it went, with its measures."""
    scenario = application.scenario(values)
    result = application.simulate(values)
    setting = ", ".join(f"{name} {value}" for name, value in values.items())
    measures = application.measured(scenario, result)
    title = f"AI platform: {setting}"
    return PlatformDrawing(title, panels(scenario, result), _hour(scenario)), measures


def panels(scenario: PlatformScenario, result: PlatformResult) -> tuple[Panel, ...]:
    """Return what the dashboard shows of a simulation."""
    hours, resources = result.hours, scenario.platform.resources
    shown = [
        Panel("pipelines that came, an hour", {"pipelines": _told(hours["arrivals"])}),
        Panel(
            "tasks that were ready, an hour",
            {kind: _told(hours[f"asked {kind}"]) for kind in ("preprocess", "train", "evaluate")},
        ),
        Panel(
            "share of the capacity in use",
            {
                one.name: _told(hours[f"busy {one.name}"] / HOUR_S / one.capacity)
                for one in resources
            },
        ),
        Panel(
            "tasks that wait, on average",
            {one.name: _told(hours[f"waited {one.name}"] / HOUR_S) for one in resources},
        ),
        Panel(
            "network traffic, MB/s with TCP's headers",
            {"traffic": _told(hours["traffic_bytes"] / HOUR_S / 1e6)},
        ),
    ]
    if result.fleet is not None:
        shown += [
            Panel(
                "performance of deployed models, mean",
                {"performance": _told(result.fleet.performance.mean(axis=0))},
            ),
            Panel(
                "total potential improvement of deployed models",
                {"potential": _told(result.fleet.potential.sum(axis=0))},
            ),
        ]
    return tuple(shown)


def _hour(scenario: PlatformScenario) -> int:
    return int(scenario.start_s // HOUR_S)


def _told(series: Floats) -> tuple[float, ...]:
    return tuple(np.round(series, 6).tolist())

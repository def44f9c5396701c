"""The Joulie generator, as it is registered."""

from collections.abc import Mapping

import numpy as np

from sim.model.pods import KINDS, pods_workload
from sim.model.workload import Workload
from sim.workloads.generator import Generator, Horizon
from sim.workloads.joulie.arrivals import arrivals
from sim.workloads.joulie.fitting import KNOBS, fit_joulie
from sim.workloads.joulie.parameters import NAME, published
from sim.workloads.joulie.phases import with_phases
from sim.workloads.joulie.pods import pods_of
from sim.workloads.joulie.reading import parameters_of
from sim.workloads.joulie.sampling import logical
from sim.workloads.model import Model
from sim.workloads.streams import Streams


def draw(model: Model, horizon: Horizon, streams: Streams) -> Workload:
    """Draw logical workloads and their pods; a job is a logical workload.

    Group and queue of a job are the index of its family in `sim.model.pods.KINDS`; its request is
    its duration.

    Raises:
        WorkloadError: parameters that cannot be, or no or too many workloads.
    """
    p = parameters_of(model)
    offset_s = arrivals(p, horizon, streams.inside("arrivals"))
    drawn = logical(p, len(offset_s), streams)
    made = pods_workload(
        pods_of(p, drawn, streams.inside("pods")),
        offset_s=offset_s,
        kind=drawn.family,
        job_id=np.arange(1, len(offset_s) + 1),
        name=NAME,
        epoch_unix_s=p.epoch_unix_s,
        time_zone=p.time_zone,
    )
    return with_phases(made, p.phases, KINDS, streams.of("phases"), p.phase_concentration)


def check(model: Model) -> None:
    """Refuse a model that cannot be one of this generator.

    Raises:
        WorkloadError: the parameter, and what is allowed.
    """
    parameters_of(model)


def fit(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit a model to a workload; see `sim.workloads.joulie.fitting`."""
    return fit_joulie(workload, knobs)


JOULIE = Generator(
    name=NAME,
    summary="AI workloads of pods with GPUs, families, profiles and work units (Joulie's page)",
    check=check,
    draw=draw,
    fit=fit,
    published=published,
    knobs=KNOBS,
)

"""What a generator is: it fits a model to a workload and draws workloads from a model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.workload import Workload
from sim.policies.kinds import Option
from sim.workloads.model import Json, Model
from sim.workloads.streams import Streams

MOST_JOBS = 20_000_000
"""Of one generated workload: what the columns of need fits into some gigabytes."""


EPOCH_UNIX_S = 1_704_067_200.0
"""Monday, 1 January 2024, midnight UTC: when a model begins that knows of no other day."""


@dataclass(frozen=True)
class Horizon:
    """For how long, and how densely, a workload is drawn.

    Attributes:
        duration_s: jobs are submitted within so many seconds from the beginning of the model's
            time (its midnight, if it has days); above 0.
        scale: factor on the rate of arrivals: 10 gives 10 times the jobs, of the same kinds.

    Raises:
        WorkloadError: either is not finite and above 0.
    """

    duration_s: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("duration_s", self.duration_s), ("scale", self.scale)):
            if checked_number(name, value, 0.0) == 0:
                raise WorkloadError(f"{name} is {value!r}; allowed are finite numbers above 0.")


@dataclass(frozen=True)
class Moment:
    """What a model states of a figure of the jobs that it draws.

    Attributes:
        mean: what is expected of one job; of ``jobs_per_day``, of one day in the long run.
        sd: the mean over n jobs has the standard deviation sd / sqrt(n); of ``jobs_per_day``, that
            over n days.
    """

    mean: float
    sd: float


@dataclass(frozen=True)
class Generator:
    """A generator of workloads.

    Attributes:
        name: as commands and models call it.
        summary: one line for people, with the source.
        check: raises `WorkloadError`, in one sentence that names the parameter and what is
            allowed, if a model cannot be one of this generator. It is called before every draw.
        draw: model, horizon and streams to a workload; the same for the same three, on every
            machine. Every stage draws from a stream of its own name.
        fit: workload and knobs to a model; pure, no draws (those that it needs it makes with a
            fixed seed of its own).
        published: the model with the parameters of the source; None if there are none, and a
            workload must be fitted.
        knobs: what `fit` can be told.
        moments: model to what it states of the jobs at scale 1, by the names of
            `sim.workloads.moments.measured`; None if it states nothing.
        extends: a workload of a longer duration begins with the one of a shorter.
    """

    name: str
    summary: str
    check: Callable[[Model], None]
    draw: Callable[[Model, Horizon, Streams], Workload]
    fit: Callable[[Workload, Mapping[str, float]], Model]
    published: Callable[[], Model] | None = None
    knobs: tuple[Option, ...] = ()
    moments: Callable[[Model], Mapping[str, Moment]] | None = None
    extends: bool = False


def first_submit_s(submit_s: NDArray[np.float64], horizon: Horizon) -> float:
    """Return the earliest of submit times in seconds since the model's midnight.

    Raises:
        WorkloadError: there is none.
    """
    if len(submit_s) == 0:
        raise WorkloadError(
            f"no job is submitted within {horizon.duration_s:g} s; ask for a longer duration or a "
            "larger scale."
        )
    return float(submit_s.min())


def check_number_of_jobs(expected: float) -> None:
    """Refuse to draw more jobs than `MOST_JOBS`.

    Raises:
        WorkloadError: more are expected.
    """
    if not expected <= MOST_JOBS:
        raise WorkloadError(
            f"about {expected:.3g} jobs would be drawn, and {MOST_JOBS:,} are allowed; ask for a "
            "shorter duration or a smaller scale."
        )


def number_of(model: Model, name: str, lowest: float, highest: float = math.inf) -> float:
    """Return a parameter of a model as a float.

    Raises:
        WorkloadError: it is missing, no number, or not from `lowest` to `highest`.
    """
    return checked_number(
        f"parameter '{name}' of '{model.generator}'", _of(model, name), lowest, highest
    )


def checked_number(what: str, value: Json, lowest: float, highest: float = math.inf) -> float:
    """Return a value as a float; raise `WorkloadError` unless it is from `lowest` to `highest`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and lowest <= value <= highest):
        upto = "" if math.isinf(highest) else f" to {highest:g}"
        raise WorkloadError(f"{what} is {value!r}; allowed are numbers from {lowest:g}{upto}.")
    return float(value)


def _of(model: Model, name: str) -> Json:
    if name not in model.parameters:
        raise WorkloadError(f"a model of '{model.generator}' needs the parameter '{name}'.")
    return model.parameters[name]

"""Submissions at random: exponential gaps whose rate may differ from weekday to weekday."""

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.hours import DAY_S
from sim.workloads.generator import Horizon, check_number_of_jobs, checked_number
from sim.workloads.model import Json

Floats = NDArray[np.float64]

BLOCK = 4096


def weekday_rates(what: str, told: Json) -> Floats:
    """Return jobs per day for Monday to Sunday, float64 [7], from one number or seven.

    Raises:
        WorkloadError: something else, or no job in a week.
    """
    values = told if isinstance(told, list) else [told] * 7
    if len(values) != 7:
        raise WorkloadError(
            f"{what} has {len(values)} numbers; allowed are 1, or 7 from Monday on."
        )
    rates = np.array([checked_number(what, value, 0.0, 1e9) for value in values])
    if rates.sum() <= 0:
        raise WorkloadError(f"{what} is 0 on every day; allowed are numbers above 0.")
    return rates


def poisson_arrivals(rates: Floats, horizon: Horizon, rng: np.random.Generator) -> Floats:
    """Draw submit times in seconds since a Monday's midnight, below the duration: float64 [n].

    A longer duration continues a shorter one.

    Args:
        rates: jobs per day from Monday on, float64 [7].
        horizon: duration and factor on the rates.
        rng: one exponential variable is drawn per job, in blocks.

    Raises:
        WorkloadError: too many jobs would come.
    """
    check_number_of_jobs(float(rates.mean()) * horizon.duration_s / DAY_S * horizon.scale)
    paid = np.concatenate([[0.0], np.cumsum(rates)])
    clock_s = np.arange(8) * DAY_S
    found: list[Floats] = []
    have = 0.0
    while not found or found[-1][-1] < horizon.duration_s:
        brought = rng.exponential(1.0, BLOCK) / horizon.scale
        jobs = np.cumsum(np.concatenate([[have], brought]))[1:]
        have = float(jobs[-1])
        weeks, rest = np.divmod(jobs, paid[-1])
        found.append(weeks * 7 * DAY_S + np.interp(rest, paid, clock_s))
    submit_s = np.concatenate(found)
    return submit_s[submit_s < horizon.duration_s]

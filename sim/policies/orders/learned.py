"""Orders found by regression over simulated schedules: F1 to F4.

D. Carastan-Santos and R. Y. de Camargo, Obtaining dynamic scheduling policies with simulation and
machine learning, SC 2017. With r the requested time, n the processors and s the submission:

    F1  log10(r) n + 870 log10(s)
    F2  sqrt(r) n + 25,600 log10(s)
    F3  r n + 6,860,000 log10(s)
    F4  r sqrt(n) + 530,000 log10(s)

Times are in seconds, s since the first submission of the workload. The logarithm of 0 does not
exist: r and s count as 1 s at least.
"""

import numpy as np

from sim.policies.kinds import Facts, Floats, Order


def _log10_submit(facts: Facts) -> Floats:
    return np.asarray(np.log10(np.maximum(facts.submit_s, 1.0)))


def _f1(facts: Facts) -> Floats:
    request = np.log10(np.maximum(facts.requested_s, 1.0))
    return np.asarray(request * facts.procs + 870.0 * _log10_submit(facts))


def _f2(facts: Facts) -> Floats:
    return np.asarray(
        np.sqrt(np.maximum(facts.requested_s, 1.0)) * facts.procs + 25_600.0 * _log10_submit(facts)
    )


def _f3(facts: Facts) -> Floats:
    area = np.maximum(facts.requested_s, 1.0) * facts.procs
    return np.asarray(area + 6_860_000.0 * _log10_submit(facts))


def _f4(facts: Facts) -> Floats:
    request = np.maximum(facts.requested_s, 1.0)
    return np.asarray(request * np.sqrt(facts.procs) + 530_000.0 * _log10_submit(facts))


_SOURCE = "learned from simulations (Carastan-Santos & de Camargo 2017)"

F1 = Order("f1", f"log10(r) n + 870 log10(s), {_SOURCE}", _f1)
F2 = Order("f2", f"sqrt(r) n + 25,600 log10(s), {_SOURCE}", _f2)
F3 = Order("f3", f"r n + 6,860,000 log10(s), {_SOURCE}", _f3)
F4 = Order("f4", f"r sqrt(n) + 530,000 log10(s), {_SOURCE}", _f4)

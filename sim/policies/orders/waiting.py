"""Orders that weigh how long a job has waited: their scores change while it waits.

With w the wait until now, r the requested time (1 s at least, since it divides) and n the
processors; the smallest score goes first:

    LXF     -(w + r) / r             the largest expansion factor
    WFP3    -(w / r)^3 n             W. Tang, Z. Lan, N. Desai, D. Buettner, Fault-aware,
    UNICEF  -w / (log2(n) r)         utility-based job scheduling on Blue Gene/P systems, 2009

log2(1) is 0. As in RLScheduler, UNICEF takes log2(n + 1e-15), so that a job of one processor that
has waited at all goes before all wider ones.
"""

import numpy as np

from sim.kernel.text import kernel
from sim.policies.kinds import Facts, Floats, Order


def _request(facts: Facts) -> Floats:
    return np.asarray(np.maximum(facts.requested_s, 1.0))


def _weight(facts: Facts) -> Floats:
    return np.asarray(np.log2(facts.procs + 1e-15) * _request(facts))


@kernel
def _lxf(
    waited_s: float, _procs: int, request_s: float, _fair_share: float, _options: list[float]
) -> float:
    return -((waited_s + request_s) / request_s)


@kernel
def _wfp3(
    waited_s: float, procs: int, request_s: float, _fair_share: float, _options: list[float]
) -> float:
    share = waited_s / request_s
    return -(share * share * share * procs)


@kernel
def _unicef(
    waited_s: float, _procs: int, weight_s: float, _fair_share: float, _options: list[float]
) -> float:
    return -(waited_s / weight_s)


LXF = Order("lxf", "largest expansion factor first, (w + r) / r", factor=_request, score_now=_lxf)
WFP3 = Order(
    "wfp3",
    "(w / r)^3 n, the largest first (Tang et al. 2009)",
    factor=_request,
    score_now=_wfp3,
)
UNICEF = Order(
    "unicef",
    "w / (log2(n) r), the largest first (Tang et al. 2009)",
    factor=_weight,
    score_now=_unicef,
)

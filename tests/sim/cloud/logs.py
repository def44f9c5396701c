"""Small logs whose users submit batches, for tests."""

import numpy as np

from sim.model.workload import Workload

KINDS = ((1, 600.0), (2, 1200.0), (4, 3600.0), (8, 7200.0))


def log_of(days: float, seed: int, *, begin_day: float = 0.0, name: str = "log") -> Workload:
    """Return batches of like jobs of 1 to 6, about 12 an hour, by 40 users; drawn, not fitted."""
    rng = np.random.default_rng(seed)
    n = int(12 * 24 * days)
    begin_s = np.sort(rng.uniform(0.0, days * 86_400.0, n))
    sizes = rng.integers(1, 7, n)
    kind = np.repeat(rng.choice(4, n, p=(0.5, 0.3, 0.15, 0.05)), sizes)
    procs, asked_s = np.array(KINDS).T
    lived = np.repeat(rng.uniform(0.05, 1.0, n), sizes)
    submit_s = np.repeat(begin_s, sizes) + np.concatenate([np.arange(k) * 0.5 for k in sizes])
    order = np.argsort(submit_s, kind="stable")
    return Workload.from_arrays(
        submit_s=submit_s[order],
        runtime_s=(asked_s[kind] * lived)[order],
        requested_s=asked_s[kind][order],
        procs=procs[kind][order].astype(np.int64),
        user=np.repeat(rng.integers(0, 40, n), sizes)[order],
        name=name,
        start_unix_s=begin_day * 86_400.0 + submit_s.min(),
        time_zone="UTC",
    )

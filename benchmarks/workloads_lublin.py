"""The published Lublin-Feitelson model beside one run of the authors' program (m_lublin99).

That run has 20,000 jobs of both types, 16,534 interactive and 3,466 batch. Gaps between arrivals
are heavy-tailed, so the number of batch jobs varies by about 300 from run to run and carries the
run times of a whole run with it. So three things are set beside the reference: gaps over whole
runs, run times with as many jobs of each type as in the reference, and, for who doubts that, run
times over whole runs. Quantiles are of all runs together; the deviation is that of their
logarithms, and the spread what single runs of 20,000 jobs vary by.
"""

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Record, table
from sim.generators import generate, published_model

QUANTILES = (10, 25, 50, 75, 90, 99)
REFERENCE_GAPS_S = (7, 17, 53, 187, 685, 9132)
REFERENCE_RUN_TIMES_S = (3, 6, 20, 102, 1456, 33487)
OF_TYPES = (16_534, 3_466)
N_JOBS = sum(OF_TYPES)
LONG_ENOUGH_S = 260 * 86400.0

Floats = NDArray[np.float64]


def compare(n_runs: int) -> dict[str, Any]:
    """Return, for each of the three comparisons, reference, ours, deviation and spread."""
    model = published_model("lublin").with_parameters({"truncated_clock": True})
    runs = [
        generate(model, duration_s=LONG_ENOUGH_S, seed=seed).head(N_JOBS) for seed in range(n_runs)
    ]
    pools = [
        np.concatenate([run.runtime_s[run.queue == queue] for run in runs]) for queue in (0, 1)
    ]
    n_mixed = min(len(pool) // n for pool, n in zip(pools, OF_TYPES, strict=True))
    mixed = [
        np.concatenate([pool[i * n : (i + 1) * n] for pool, n in zip(pools, OF_TYPES, strict=True)])
        for i in range(n_mixed)
    ]
    return {
        "gaps": _beside(REFERENCE_GAPS_S, [np.diff(run.submit_s) for run in runs]),
        "run times, types as in the reference": _beside(REFERENCE_RUN_TIMES_S, mixed),
        "run times, whole runs": _beside(REFERENCE_RUN_TIMES_S, [run.runtime_s for run in runs]),
    }


def _beside(reference: tuple[int, ...], parts: list[Floats]) -> dict[str, list[float]]:
    log_reference = np.log(np.array(reference, dtype=np.float64))
    pooled = np.percentile(np.concatenate(parts), QUANTILES)
    single = np.log(np.array([np.percentile(part, QUANTILES) for part in parts]))
    return {
        "reference": [float(value) for value in reference],
        "ours": pooled.tolist(),
        "deviation": (np.log(pooled) / log_reference - 1).tolist(),
        "spread": (single.std(axis=0, ddof=1) / log_reference).tolist(),
    }


def lublin(record: Record, options: Namespace) -> None:
    """Measure and print the comparison."""
    found = record.step("lublin", lambda: compare(6 if options.quick else 40))
    rows = []
    for name, one in found.items():
        for i, q in enumerate(QUANTILES):
            off = f"{one['deviation'][i]:+.1%}"
            told = [f"{one[key][i]:,.0f}" for key in ("reference", "ours")]
            rows.append([f"{name}, {q} %", *told, off, f"{one['spread'][i]:.1%}"])
        worst = max(abs(value) for value in one["deviation"])
        record.figure(f"lublin: {name}, largest deviation of a log quantile", worst)
    table(["quantile", "authors' run, s", "ours, s", "of the log", "spread of a run"], rows)

"""Generators of workloads against figures that others published.

``python -m benchmarks.workloads --part lublin`` draws runs of 20,000 jobs from the published
Lublin-Feitelson model and sets quantiles of gaps and run times beside one run of the authors' own
program.
"""

import os
from argparse import Namespace
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.harness import Record, guarded, parser
from benchmarks.workloads_lublin import lublin

PARTS: dict[str, Callable[[Record, Namespace], None]] = {"lublin": lublin}


def main() -> None:
    """Measure and print one part, or all of them one after the other."""
    options = parser(__doc__ or "")
    options.add_argument("--part", choices=(*PARTS, "all"), default="all")
    told = options.parse_args()
    record = Record("workloads", told, seeds=list(range(40)))
    for name, part in PARTS.items():
        if told.part in (name, "all"):
            part(record, told)
    record.write()


if __name__ == "__main__":
    guarded(main)

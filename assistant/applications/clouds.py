"""Windows of a cloud that are foreseen: from files.

The shells come to `sim` through here, so that all of them say the same.
"""

from collections.abc import Mapping
from pathlib import Path

from assistant.applications.generating import has_rules
from sim.api import (
    CLOUD_GENERATORS,
    CloudReport,
    CloudWindows,
    ReadingRules,
    WorkloadError,
    chosen_generators,
    cloud_knobs,
    cloud_report,
    cloud_windows,
    cloud_windows_of_traces,
    is_cloud_trace,
    load_workload,
    read_cloud_trace,
)


def read_windows(
    train: Path,
    test: Path,
    lifetimes: Path | None = None,
    rules: ReadingRules | None = None,
    knobs: Mapping[str, float | str] | None = None,
) -> CloudWindows:
    """Read two windows, either workloads or files of Bergsma et al.

    Args:
        train: what is learnt from.
        test: what is foreseen.
        lifetimes: what lifetimes are learnt from, if `train` does not tell them; of the authors'
            files only.
        rules: for files in the Standard Workload Format.
        knobs: of fitting; here those of periods and flavours matter.

    Raises:
        SimError: a file cannot be read, has no users, is too short, or has nothing in common with
            the other.
    """
    told = cloud_knobs(knobs or {})
    kinds = {is_cloud_trace(path) for path in (train, test, *([lifetimes] if lifetimes else []))}
    if kinds == {True}:
        lived = None if lifetimes is None else read_cloud_trace(lifetimes)
        names = (train.name, test.name)
        return cloud_windows_of_traces(
            read_cloud_trace(train), read_cloud_trace(test), lived, names
        )
    if True in kinds:
        raise WorkloadError(
            f"{train.name} and {test.name} are of different kinds; both must be batches of "
            "flavours, or both workloads."
        )
    if lifetimes is not None:
        raise WorkloadError(
            f"{train.name} tells the lifetimes of its jobs; another file is read for them only "
            "beside the authors' batches of flavours."
        )
    logs = [load_workload(p, rules=rules if has_rules(p) else None) for p in (train, test)]
    return cloud_windows(*logs, period_s=told["period_s"], most_flavours=int(told["flavours"]))


__all__ = [
    "CLOUD_GENERATORS",
    "CloudReport",
    "CloudWindows",
    "chosen_generators",
    "cloud_report",
    "read_windows",
]

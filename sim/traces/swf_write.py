"""The Standard Workload Format: a workload becomes a log."""

import gzip
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from sim.model.workload import Workload
from sim.traces.swf_text import BYTES_PER_KB


def write_swf(workload: Workload, path: str | PathLike[str]) -> None:
    """Write a workload as SWF 2.2, compressed if the name ends in ``.gz``.

    Unknown values are -1. If every request is the run time (clairvoyant), requests are written
    as unknown, so that reading flags them again. Columns and what the header says come back exactly
    when run times of 0 are read with ``never_ran='keep_zero'`` and parts of jobs with
    ``partial_executions='keep'``. Not so: a request of 0, which is read as none; that some (not
    all) requests stand in for unknown ones; a start at Unix time 0; tasks and notes; and the name,
    which is that of the file. Fields 6, 7, 14, 17 and 18 of a log are in no workload.
    """
    target = Path(path)
    data = ("\n".join(_swf_lines(workload)) + "\n").encode()
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def _swf_lines(workload: Workload) -> Iterator[str]:
    yield "; Version: 2.2"
    yield f"; Note: {' '.join(workload.name.split())}"
    yield f"; MaxJobs: {workload.n_jobs}"
    yield f"; MaxRecords: {workload.n_jobs}"
    if workload.start_unix_s is not None:
        yield f"; UnixStartTime: {_short(workload.start_unix_s)}"
    if workload.time_zone is not None:
        yield f"; TimeZoneString: {' '.join(workload.time_zone.split())}"
    if workload.max_procs is not None:
        yield f"; MaxProcs: {workload.max_procs}"
    clairvoyant = workload.requested_is_runtime and bool(
        (workload.requested_s == workload.runtime_s).all()
    )
    columns = (
        workload.job_id,
        workload.submit_s,
        np.where(np.isnan(workload.logged_wait_s), -1.0, workload.logged_wait_s),
        workload.runtime_s,
        workload.procs,
        np.where(clairvoyant, -1.0, workload.requested_s),
        np.where(workload.mem_bytes_per_proc < 0, -1.0, workload.mem_bytes_per_proc / BYTES_PER_KB),
        workload.status,
        workload.user,
        workload.group,
        workload.queue,
        workload.partition,
    )
    for row in zip(*(column.tolist() for column in columns), strict=True):
        job, submit, wait, runtime, procs, asked, memory, status, user, group, queue, part = row
        times = f"{_short(submit)} {_short(wait)} {_short(runtime)}"
        who = f"{status} {user} {group} -1 {queue} {part} -1 -1"
        yield f"{job} {times} {procs} -1 -1 {procs} {_short(asked)} {_short(memory)} {who}"


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)

"""The SWF writer: what it writes is read back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Workload
from sim.api import ReadingRules
from sim.formats.swf import read_swf, write_swf
from tests.draw.workloads import workloads


@given(workloads(), st.booleans())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload, small: bool
) -> None:
    path = tmp_path_factory.mktemp("round") / ("one.swf.gz" if small else "one.swf")
    positive = Workload.from_arrays(
        submit_s=workload.submit_s,
        runtime_s=workload.runtime_s,
        requested_s=np.maximum(workload.requested_s, 0.1),
        procs=workload.procs,
        job_id=workload.job_id,
        user=workload.procs,
        max_procs=99,
        start_unix_s=12.0,
    )
    write_swf(positive, path)
    back = read_swf(path, ReadingRules(never_ran="keep_zero"))
    assert back == positive
    assert (back.max_procs, back.start_unix_s) == (99, 12.0)


def test_clairvoyant_requests_are_flagged_again_after_a_round_trip(tmp_path: Path) -> None:
    workload = Workload.from_arrays(submit_s=[0, 1], runtime_s=[3, 4], procs=[1, 1])
    write_swf(workload, tmp_path / "c.swf")
    back = read_swf(tmp_path / "c.swf")
    assert back == workload
    assert back.requested_is_runtime

"""The SWF reader on every real log."""

from pathlib import Path

import pytest

from sim import Workload, load_workload
from sim.api import ReadingRules
from sim.model.errors import TraceError
from tests.draw import real_logs


def noted(workload: Workload) -> dict[str, int]:
    return {note.rule: note.n_rows for note in workload.notes}


LOGS = {
    "CEA-Curie-2011-2.1-cln": (295540, 93312, {"never_ran": 17286, "procs": 19904}),
    "LLNL-Atlas-2006-2.1-cln": (36600, 9216, {"never_ran": 7178, "procs": 19}),
    "NASA-iPSC-1993-3.1-cln": (18066, 128, {"never_ran": 173}),
    "UniLu-Gaia-2014-1": (
        51859, 2004, {"requested_below_runtime": 1500, "partial_executions": 127},
    ),
    "alea-hpc2n-subset": (3145, 240, {"never_ran": 25, "procs": 213}),
    "lublin_256": (10000, 256, {"requested_missing": 10000, "machine_size": 1}),
    "theta_2022": (23911, 4360, {"requested_below_runtime": 6264}),
    "theta_2023": (8401, 4389, {"unsorted": 2726, "wider_than_machine": 8}),
    "wagap-2013": (17898, None, {"extra_columns": 17900, "negative": 2, "never_ran": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_real_logs(shared_data: Path, name: str) -> None:
    n_jobs, max_procs, counts = LOGS[name]
    workload = real_logs.read(shared_data, name)
    assert (workload.n_jobs, workload.max_procs) == (n_jobs, max_procs)
    assert workload.submit_s[0] == 0.0
    assert counts.items() <= noted(workload).items()
    assert "requested_time" not in noted(workload)


STRICT = ReadingRules(unsorted="refuse", extra_columns="refuse")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("theta_2023", "line 9: submit time is '1693590951'; the line before has 1693606566"),
        ("wagap-2013", "line 1: 21 fields where SWF has 18"),
    ],
)
def test_real_logs_that_a_strict_rule_refuses(shared_data: Path, name: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        load_workload(shared_data / "swf" / f"{name}.swf.gz", rules=STRICT)
    assert sentence in str(caught.value)


def test_a_year_of_theta_starts_in_2022(shared_data: Path) -> None:
    workload = load_workload(shared_data / "swf" / "theta_2022.swf.gz", first=10)
    assert workload.start_unix_s == 1641021254.0

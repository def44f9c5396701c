"""Formats of workloads: told by content, written by name, and what a format cannot hold is said."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.api import ReadingRules, Workload, WorkloadError, format_of, load_workload, write_workload
from sim.formats import FORMATS, format_by_name, is_model, registry, roundtrip_losses, scheduler_of
from sim.generators import Model, default_workload, generate, published_model, save_model

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\np-0,2000,1024,1,500,,LS,Succeeded,0,100,5\n"
)
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n"
SACCT = "JobID|Submit|Start|Elapsed|NCPUS\n7|2024-01-01T00:00:00|2024-01-01T00:00:05|00:01:00|2\n"
SWF = "; MaxProcs: 8\n1 0 -1 3600 1 -1 -1 1 3600 -1 1 7 1 -1 1 -1 -1 -1\n"
RECORD = '{"type": "workload"}\n'


@pytest.mark.parametrize(
    ("text", "name"),
    [(OPENB, "openb"), (PHILLY, "philly"), (SACCT, "sacct"), (SWF, "swf"), (RECORD, "jsonl"),
     ("", "swf"), ("\x00\xff", "swf"), ("a,b\n1,2\n", "swf")],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_a_format_is_told_by_content_whatever_the_name(
    tmp_path: Path, text: str, name: str, packed: bool
) -> None:
    path = tmp_path / "log.csv"
    data = text.encode("latin-1")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert format_of(path).name == name


def test_a_damaged_file_is_left_to_its_reader(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(SWF.encode() * 50, mtime=0))
    for place in range(10, len(data)):
        bent = bytes(data[:place]) + bytes([data[place] ^ 0xFF]) + bytes(data[place + 1 :])
        (tmp_path / "bent.swf.gz").write_bytes(bent)
        assert format_of(tmp_path / "bent.swf.gz").name in ("swf", "jsonl")


def test_what_is_not_there_is_refused_by_a_reader(tmp_path: Path) -> None:
    assert format_of(tmp_path).name == "swf"
    with pytest.raises(WorkloadError, match="there is no such file"):
        load_workload(tmp_path / "none")


def test_tables_are_read_through_the_one_door(tmp_path: Path) -> None:
    for text in (OPENB, PHILLY):
        path = tmp_path / "table.csv"
        path.write_text(text)
        found = load_workload(path)
        assert found.n_jobs == 1
        assert found.tasks is not None
        with pytest.raises(WorkloadError, match="it has no reading rules; leave out unsorted"):
            load_workload(path, rules=ReadingRules(unsorted="refuse"))
        assert load_workload(path, rules=ReadingRules()) == found


def test_a_model_is_no_workload(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(Model("lublin", {"types": "both"}), path)
    assert is_model(path)
    with pytest.raises(WorkloadError, match="draw one from it first with copperline workload gen"):
        load_workload(path)


@pytest.mark.parametrize("name", ["a.swf", "a.swf.gz", "A.SWF"])
def test_swf_loses_nothing_of_rigid_jobs(tmp_path: Path, name: str) -> None:
    workload = replace(
        default_workload(3, 200), start_unix_s=1e9, time_zone="Europe/Paris", scheduler="slurm"
    )
    write_workload(workload, tmp_path / "deep" / name)
    assert roundtrip_losses(workload, load_workload(tmp_path / "deep" / name)) == ()


@pytest.mark.parametrize(
    ("begin", "scheduler"),
    [
        ("; Note: Scheduler is Slurm (https://computing.llnl.gov/linux/slurm/)\n", "slurm"),
        ("; Note: Scheduler is OAR (http://oar.imag.fr/)\n", "oar"),
        ("; Note: the Scheduler is unknown\n", None),
        ("JobID|Submit|Start|ElapsedRaw|NCPUS\n", "slurm"),
        ("04/01/2024 10:00:00;E;7.head;user=ann\n", None),
    ],
)
def test_the_beginning_of_a_log_says_its_scheduler(
    tmp_path: Path, begin: str, scheduler: str | None
) -> None:
    (tmp_path / "log").write_text(begin + "no row is read\n")
    assert scheduler_of(tmp_path / "log") == scheduler
    assert scheduler_of(tmp_path / "nowhere") is None


def test_what_is_lost_is_counted() -> None:
    before = default_workload(3, 10)
    user = np.arange(10)
    known = Workload.from_arrays(
        submit_s=before.submit_s, runtime_s=before.runtime_s, procs=before.procs, user=user,
        requested_s=before.requested_s, logged_wait_s=np.ones(10), max_procs=128,
    )  # fmt: skip
    runtime_s = before.runtime_s.copy()
    runtime_s[4] += 1
    after = Workload.from_arrays(
        submit_s=before.submit_s, runtime_s=runtime_s, procs=before.procs,
        requested_s=before.requested_s,
    )  # fmt: skip
    told = roundtrip_losses(known, after)
    first = f"first: {before.runtime_s[4]:g} as {runtime_s[4]:g}"
    assert told == (
        f"runtime_s: read back differently for 1 of 10 jobs ({first}).",
        "logged_wait_s: read back unknown for 10 of 10 jobs.",
        "user: read back unknown for 10 of 10 jobs.",
        "max_procs: 128 is read back as unknown.",
    )
    assert roundtrip_losses(known, known) == ()
    assert roundtrip_losses(known, known.head(4)) == (
        "6 of 10 jobs are not read back; nothing is compared.",
    )


def test_tasks_are_lost_in_swf_and_kept_in_jsonl(tmp_path: Path) -> None:
    drawn = generate(published_model("joulie"), duration_s=3600.0, seed=2, scale=0.2)
    write_workload(drawn, tmp_path / "a.swf")
    told = roundtrip_losses(drawn, load_workload(tmp_path / "a.swf"))
    assert [sentence[:6] for sentence in told] == ["tasks:"]
    write_workload(drawn, tmp_path / "a.jsonl")
    assert roundtrip_losses(drawn, load_workload(tmp_path / "a.jsonl")) == ()


def test_a_name_of_no_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        WorkloadError, match=r"allowed are \.jsonl, .*\.tasks\.csv, .*\.swf, \.swf\.gz"
    ):
        format_by_name(tmp_path / "a.csv")
    only_read = {one.name for one in FORMATS if one.write is None}
    assert only_read == {"bergsma", "openb", "philly", "sacct", "pbs"}


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.swf"
    path.write_text(SWF)

    def full(_workload: Workload, target: Path) -> None:
        target.write_text("; half")
        raise OSError(28, "No space left on device")

    broken = replace(registry.SWF, write=full)
    monkeypatch.setattr(registry, "FORMATS", (broken,))
    with pytest.raises(WorkloadError, match=r"cannot write '.*a\.swf': No space left"):
        write_workload(default_workload(1, 5), path)
    assert path.read_text() == SWF
    assert [one.name for one in tmp_path.iterdir()] == ["a.swf"]

"""Dumps of Slurm's sacct: which rows are jobs, from when they wait, and that all of it is noted."""

import gzip
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Workload, load_workload
from sim.api import ReadingRules, write_workload
from sim.formats.sacct import read_rows
from sim.formats.sacct_layout import LAYOUTS, Layout
from sim.formats.slurm_jobs import YEAR_S, jobs_of, read_sacct
from sim.model.errors import TraceError, WorkloadError

WITH_QOS = next(fields for fields in LAYOUTS if {"qos", "alloctres"} < set(fields))
USUAL = {
    "jobid": "7", "jobidraw": "7", "cluster": "c", "partition": "batch", "qos": "normal",
    "account": "bio", "group": "g", "gid": "5", "user": "ann", "uid": "1000",
    "submit": "2024-03-01T10:00:00", "eligible": "2024-03-01T10:00:00",
    "start": "2024-03-01T10:05:00", "end": "2024-03-01T11:05:00", "elapsed": "01:00:00",
    "exitcode": "0:0", "state": "COMPLETED", "nnodes": "2", "ncpus": "8", "reqcpus": "6",
    "reqmem": "16G", "reqgres": "", "reqtres": "billing=6,cpu=6,mem=16G,node=2",
    "alloctres": "billing=8,cpu=8,mem=16G,node=2", "timelimit": "1-02:00:00",
    "nodelist": "n[1-2]", "jobname": "run",
}  # fmt: skip
Dump = Callable[..., Path]


def line(fields: tuple[str, ...] = WITH_QOS, **changed: str) -> str:
    job = changed.get("jobid", USUAL["jobid"])
    values = USUAL | {"jobidraw": job} | changed
    return "|".join(values[name] for name in fields)


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    def write(*lines: str, header: str = "") -> Path:
        path = tmp_path / "sacct.txt"
        path.write_text("".join(f"{one}\n" for one in ((header,) if header else ()) + lines))
        return path

    return write


def noted(workload: Workload) -> dict[str, int]:
    return {note.rule: note.n_rows for note in workload.notes}


@pytest.mark.parametrize("fields", LAYOUTS, ids=lambda fields: str(len(fields)))
@pytest.mark.parametrize("end", ["", "|"])
def test_the_fields_of_open_xdmod_without_a_header(
    dump: Dump, fields: tuple[str, ...], end: str
) -> None:
    lines = [line(fields, jobid=str(n), partition="abc"[n % 3]) + end for n in range(1, 4)]
    workload = load_workload(dump(*lines))
    assert workload.job_id.tolist() == [1, 2, 3]
    assert workload.procs.tolist() == [8, 8, 8]
    assert workload.runtime_s.tolist() == [3600.0] * 3
    assert workload.requested_s.tolist() == [26 * 3600.0] * 3
    assert workload.logged_wait_s.tolist() == [300.0] * 3
    assert workload.partition.tolist() == [1, 2, 0]
    assert workload.queue.tolist() == [0 if "qos" in fields else -1] * 3
    assert workload.mem_bytes_per_proc.tolist() == [2**31] * 3
    assert workload.start_unix_s == 1_709_287_200.0


def test_any_fields_in_any_order_below_a_header(dump: Dump) -> None:
    header = "State|JobName|ElapsedRaw|Start|AllocCPUS|JobID|TimelimitRaw|Submit"
    path = dump(
        "CANCELLED by 17|a|b|90|1709287260|4|5_3|2|1709287200",
        "COMPLETED|plain|60|1709287260|4|12|3|1709287200",
        header=header,
    )
    workload = read_sacct(path)
    assert workload.runtime_s.tolist() == [60.0, 90.0]
    assert workload.requested_s.tolist() == [180.0, 120.0]
    assert workload.status.tolist() == [1, 5]
    assert workload.job_id.tolist() == [12, 13]
    assert noted(workload)["job_ids"] == 1
    assert "time_zone" not in noted(workload)
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes().replace(b"\n", b"\r\n")))
    assert load_workload(packed) == workload


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|Start\n7|2024-01-01T00:00:00\n",
         "line 1: the header has no submit or eligible, and no elapsed or elapsedraw or end, and"),
        ("JobID|JobID|Start\n", "the header has 'jobid' twice"),
        ("|".join("x" * 26) + "\n", "leave out --noheader"),
        ("JobID|Submit|Start|Elapsed|NCPUS\n7|soon|2024-01-01T00:00:00|1:00|1\n",
         "line 2: submit is 'soon'; allowed are times such as 2024-03-31T12:30:00"),
        ("JobID|Submit|Start|Elapsed|NCPUS\n7|x\n", "line 2: 2 fields where a dump of sacct has 5"),
        ("JobID|Submit|Start|Elapsed|NCPUS\n7.batch|Unknown|Unknown|0|1\n", "only 1 job steps"),
        ("JobID|Submit|Start|Elapsed|NCPUS\n7|Unknown|Unknown|0|1\n",
         "none of its 1 rows is a job that ran. 1 job never started"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        load_workload(path)


def test_each_row_that_is_no_job_is_counted(dump: Dump) -> None:
    usual = [line(jobid=str(n)) for n in range(1, 41)]
    workload = read_sacct(
        dump(
            *usual,
            line(jobid="7.batch", jobidraw="7.batch"),
            line(jobid="7.0"),
            line(jobid="900_[9201-10000%500]", jobidraw="900", state="PENDING", start="Unknown",
                 end="Unknown", elapsed="00:00:00", nnodes="1"),
            line(jobid="901", state="CANCELLED by 17", start="None", elapsed="00:00:00"),
            line(jobid="902", state="CANCELLED by 17", start=USUAL["end"], elapsed="00:00:00"),
            line(jobid="903", state="RUNNING", end="Unknown"),
            line(jobid="904", state="FAILED", end=USUAL["start"], elapsed="00:00:00"),
            line(jobid="905", ncpus="0", reqcpus="0", alloctres="", reqtres=""),
            line(jobid="3"),
            "no row",
            "",
        ),
        ReadingRules(procs_missing="drop"),
    )  # fmt: skip
    counts = noted(workload)
    assert workload.n_jobs == 40
    assert counts["steps"] == 2
    assert counts["never_ran"] == 3
    assert counts["running"] == counts["zero"] == counts["copies"] == counts["broken"] == 1
    assert counts["procs_missing"] == 1
    sentences = " ".join(note.sentence for note in workload.notes)
    assert "among them 800 waiting tasks of arrays" in sentences
    assert "line 50: 1 fields" in sentences
    never = {"state": "CANCELLED by 0", "start": USUAL["end"], "elapsed": "00:00:00"}
    rows = [*usual, line(jobid="904", elapsed="00:00:00"),
            line(jobid="905", nodelist="None assigned", alloctres="", **never)]  # fmt: skip
    zero = read_sacct(dump(*rows), ReadingRules(never_ran="keep_zero"))
    assert noted(zero)["never_ran"] == 1
    assert zero.n_jobs == 41
    with pytest.raises(TraceError, match="line 1: ncpus; the job ran, so it needs 1 or more CPUs"):
        read_sacct(dump(line(ncpus="0", reqcpus="0", alloctres="", reqtres="")))
    with pytest.raises(TraceError, match=r"line 1: start; this job never ran"):
        read_sacct(dump(line(start="None"), *usual), ReadingRules(never_ran="refuse"))


def test_a_requeued_job_counts_once_for_each_execution(dump: Dump) -> None:
    path = dump(
        line(jobid="1", state="NODE_FAIL", end="2024-03-01T10:15:00", elapsed="00:10:00"),
        line(jobid="1", start="2024-03-01T10:20:00", elapsed="00:30:00"),
        line(jobid="2", submit="2024-03-01T10:01:00", eligible="2024-03-01T10:01:00"),
    )
    workload = read_sacct(path)
    assert workload.job_id.tolist() == [3, 2, 1]
    assert workload.submit_s.tolist() == [0.0, 60.0, 15 * 60.0]
    assert workload.logged_wait_s.tolist() == [300.0, 240.0, 300.0]
    assert workload.runtime_s.tolist() == [600.0, 3600.0, 1800.0]
    assert noted(workload)["requeues"] == 1
    last = read_sacct(path, ReadingRules(requeues="last"))
    assert last.job_id.tolist() == [1, 2]
    assert last.runtime_s.tolist() == [1800.0, 3600.0]


def test_a_job_waits_from_when_it_is_eligible(dump: Dump) -> None:
    path = dump(line(jobid="1", eligible="2024-03-01T10:04:00"), line(jobid="2"))
    assert read_sacct(path).logged_wait_s.tolist() == [300.0, 60.0]  # the second is first eligible
    assert read_sacct(path).submit_s.tolist() == [0.0, 240.0]
    sentence = next(n.sentence for n in read_sacct(path).notes if n.rule == "wait_from")
    assert "1 job became eligible" in sentence
    assert "40 % of all time between submission and start" in sentence
    chosen = read_sacct(path, ReadingRules(wait_from="submit"))
    assert chosen.logged_wait_s.tolist() == [300.0, 300.0]


def test_limits_that_are_no_times(dump: Dump) -> None:
    path = dump(
        line(jobid="1", timelimit="UNLIMITED"),
        line(jobid="2", timelimit="Partition_Limit"),
        line(jobid="3", timelimit="02:00:00"),
        line(jobid="4", timelimit=""),
        line(jobid="5", timelimit="00:30:00"),
    )
    workload = read_sacct(path)
    assert workload.requested_s.tolist() == [YEAR_S, 7200.0, 7200.0, 3600.0, 1800.0]
    assert workload.requested_is_runtime
    counts = noted(workload)
    assert [counts[rule] for rule in ("unlimited", "partition_limit", "requested_missing")] == [
        1
    ] * 3
    assert counts["requested_below_runtime"] == 1
    limits = {"batch": 86_400.0}
    assert jobs_of(read_rows(path), max_requested_s=limits).requested_s[1] == 86_400.0
    assert read_sacct(path, ReadingRules(requested_missing="drop")).n_jobs == 4
    with pytest.raises(TraceError, match="line 4: timelimit; there is no requested time"):
        read_sacct(path, ReadingRules(requested_missing="refuse"))


@pytest.mark.parametrize(
    ("reqmem", "mib_per_cpu"),
    [("4000Mc", 4000 * 6 / 8), ("4Gn", 1024), ("16G", 2048), ("16384", 2048), ("0n", 2048),
     ("?", 2048), ("", 2048)],
)  # fmt: skip
def test_memory_by_cpu_node_or_job(dump: Dump, reqmem: str, mib_per_cpu: float) -> None:
    assert read_sacct(dump(line(reqmem=reqmem))).mem_bytes_per_proc[0] == mib_per_cpu * 2**20


def test_resources(dump: Dump) -> None:
    gpus = "cpu=8,gres/gpu:a100=2,gres/gpu:h100=1,node=1"
    path = dump(line(jobid="1", alloctres=gpus), line(jobid="2", alloctres=f"{gpus},gres/gpu=3"))
    workload = read_sacct(path)
    assert "2 jobs had GPUs (6 in all)" in " ".join(n.sentence for n in workload.notes)
    assert noted(workload)["slurm_cpus"] == 2
    assert read_sacct(path, ReadingRules(slurm_cpus="requested")).procs.tolist() == [6, 6]
    without = dump(
        "7|1709287200|1709287260|90|cpu=1K", header="JobID|Submit|Start|Elapsed|AllocTRES"
    )
    with pytest.raises(TraceError, match="none of its 1 rows"):
        read_sacct(without)  # 90 is no elapsed time
    path = dump(
        "7|1709287200|1709287260|90|cpu=1K", header="JobID|Submit|Start|ElapsedRaw|AllocTRES"
    )
    assert read_sacct(path).procs.tolist() == [1000]


def test_the_machine_is_as_large_as_what_was_in_use(dump: Dump) -> None:
    path = dump(
        line(jobid="1"),
        line(jobid="2", start="2024-03-01T11:05:00", end="2024-03-01T12:05:00"),  # as 1 ends
        line(jobid="3", start="2024-03-01T11:00:00", state="RUNNING", end="Unknown", ncpus="5"),
    )
    assert read_sacct(path).max_procs == 13
    assert jobs_of(read_rows(path), max_procs=99).max_procs == 99


@pytest.mark.parametrize(("hour", "wait_s"), [("01", 3600.0), ("02", 300.0)])
def test_summer_time_ends_while_a_job_waits(dump: Dump, hour: str, wait_s: float) -> None:
    """In Paris 02:30 comes twice on 27 October 2024; the later one if the earlier is too early."""
    path = dump(
        line(
            submit=f"2024-10-27T{hour}:55:00", eligible=f"2024-10-27T{hour}:55:00",
            start="2024-10-27T02:00:00", end="2024-10-27T03:00:00", elapsed="01:00:00",
        )
    )  # fmt: skip
    workload = read_sacct(path, ReadingRules(time_zone="Europe/Paris"))
    assert workload.logged_wait_s[0] == (300.0 if hour == "01" else wait_s)
    assert workload.time_zone == "Europe/Paris"
    assert noted(workload)["ambiguous"] == 1


def test_an_hour_that_is_skipped_and_a_zone_that_is_not_named(dump: Dump) -> None:
    path = dump(line(start="2024-03-31T01:55:00", submit="2024-03-31T01:50:00",
                     eligible="2024-03-31T01:50:00", end="2024-03-31T03:55:00"))  # fmt: skip
    unnamed = read_sacct(path)
    assert "1 job ended an hour beside" in " ".join(note.sentence for note in unnamed.notes)
    named = read_sacct(path, ReadingRules(time_zone="Europe/Paris"))
    assert not {"time_zone", "skipped"} & set(noted(named))
    skipped = dump(line(submit="2024-03-31T02:30:00"))
    assert noted(read_sacct(skipped, ReadingRules(time_zone="Europe/Paris")))["skipped"] == 1
    with pytest.raises(TraceError, match="time zone 'Mars' is unknown"):
        read_sacct(path, ReadingRules(time_zone="Mars"))


def test_two_clusters_and_rules_of_other_formats(dump: Dump) -> None:
    path = dump(line(jobid="1"), line(jobid="2", cluster="d"))
    with pytest.raises(TraceError, match=r"2 clusters: c \(1\), d \(1\)"):
        read_sacct(path)
    with pytest.raises(WorkloadError, match="its reading rules are never_ran, procs_missing"):
        load_workload(path, rules=ReadingRules(unsorted="refuse"))


def test_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    text = line(jobid="1", user="J\xf6rg", jobname="\xff|\xfe") + "\n" + line(jobid="2") + "\n"
    path.write_bytes(text.encode("latin-1"))
    assert load_workload(path).user.tolist() == [0, 1]
    path.write_bytes(b"\0" + text.encode("latin-1"))
    with pytest.raises(TraceError, match="binary"):
        read_sacct(path)


def test_separators_in_several_free_texts(dump: Dump) -> None:
    """As with --format ALL, where the line that submitted the job has the job's name in it."""
    header = "Comment|ElapsedRaw|JobID|JobName|NCPUS|Start|State|Submit|SubmitLine|User|WorkDir"
    path = dump(
        "|90|1|a|4|1709287260|COMPLETED|1709287200|sbatch a|ann|/home",
        "|90|2|a|b|4|1709287260|COMPLETED|1709287200|sbatch -J a|b x|ann|/home",
        "y|z|90|3|1|b|3|4|1709287260|CANCELLED by 7|1709287200|cat x | grep | wc|ann|/home",
        "|90|4|a|4|1709287260|COMPLETED|1709287200|1|2|3|ann|/home",
        header=header,
    )
    workload = read_sacct(path)
    assert workload.job_id.tolist() == [1, 2, 3, 4]
    assert workload.procs.tolist() == [4, 4, 4, 4]
    assert workload.user.tolist() == [0, 0, 0, 0]
    worse = path.read_text() + "|90|5|x|4|1709287260|COMPLETED|someday|1709287200|a|ann|/home\n"
    path.write_text(worse + path.read_text().partition("\n")[2] * 2)
    assert noted(read_sacct(path))["broken"] == 1


@given(st.data())
def test_fields_are_joined_where_the_anchors_keep_their_form(data: st.DataObject) -> None:
    """Beside every way to join them: as few free texts as can be, of these the first."""
    names = "ncpus comment state reqcpus jobname start submitline workdir"
    layout = Layout(tuple(names.split()))
    cell = st.sampled_from([b"4", b"x", b"DONE"])
    fields = data.draw(st.lists(cell, min_size=9, max_size=13))
    extra = len(fields) - len(layout.names)
    ways = []
    for extras in product(range(extra + 1), repeat=len(layout.free_texts)):
        if sum(extras) != extra:
            continue
        row = list(fields)
        for place, n in zip(layout.free_texts, extras, strict=True):
            row[place : place + n + 1] = [b" ".join(row[place : place + n + 1])]
        if layout.has_forms(row):
            ways.append((sum(n > 0 for n in extras), [n == 0 for n in extras], extras, row))
    assert layout.evened(fields) == (min(ways)[-1] if ways else None)


def test_many_blocks_are_read_as_one(tmp_path: Path) -> None:
    """Numbers of names and lines go on from block to block, of about a megabyte each."""
    path = tmp_path / "dump.txt"
    n = 12_000
    with path.open("w") as file:
        for job in range(1, n + 1):
            file.write(line(jobid=str(job), user=f"u{job % 7}", jobname=f"a|b{job}") + "\n")
        file.write("broken\n")
    workload = read_sacct(path)
    assert path.stat().st_size > 2 * 2**20
    assert (workload.user == np.arange(1, n + 1) % 7).all()
    assert f"line {n + 1}: 1 fields" in " ".join(note.sentence for note in workload.notes)


def test_the_decisions_go_with_the_log_that_is_written(dump: Dump, tmp_path: Path) -> None:
    path = dump(line(jobid="1"), line(jobid="2.batch"), line(jobid="3", partition="gpu"))
    workload = load_workload(path)
    write_workload(workload, tmp_path / "log.swf")
    back = load_workload(tmp_path / "log.swf")
    assert sorted(back.notes, key=str) == sorted(workload.notes, key=str)
    gpu = jobs_of(read_rows(path), partitions={"gpu"})
    assert gpu.job_id.tolist() == [3]
    assert noted(gpu)["other_partitions"] == 1

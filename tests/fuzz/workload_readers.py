"""Readers of other logs and of what belongs to Joulie's models, for the fuzzer."""
# ruff: noqa: ISC004

import functools
import json
from collections.abc import Callable
from pathlib import Path

from sim.api import (
    ClusterSpec,
    Partition,
    ReadingRules,
    Workload,
    describe,
    load_workload,
    read_machines,
    write_workload,
)
from sim.formats import (
    read_cloudsimpy,
    read_job_table,
    read_openb,
    read_pbs,
    read_philly,
    read_sacct,
    read_slurm_conf,
    read_task_table,
    read_telemetry,
)
from sim.generators.generator import generate
from sim.generators.joulie import import_bundle, learn_joulie
from sim.generators.joulie.parameters import FORMAT, JoulieParameters, model_of
from tests.fuzz.watch import fault_of_sentence

PHILLY = (
    b"timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    b"2017-10-09 06:13:03,2951.0,16,2951.0,6214e9\n2017-09-29 07:58:32,0,1,86,6c71a0\n",
    b'timestamp,duration,num_gpus\n2017-10-09T07:01:55+02:00,1e3,12\n"2017-10-09 07:01",5,0\n',
)
PHILLY_WORDS = (b"timestamp", b"duration", b"num_gpus", b"2017-10-09", b"9999-12-31", b"+23:59")
OPENB = (
    b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    b"deletion_time,scheduled_time\np0,12000,16384,1,460,,LS,Running,100,400,150\n"
    b"p1,500,1024,0,0,,BE,Failed,120,121,120\np2,8000,1,8,1000,V100|G2,BE,Pending,130,190,\n",
)
OPENB_WORDS = (b"cpu_milli", b"1000", b"|", b"scheduled_time", b"9007199254740992")
CLOUDSIMPY = (
    b",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"
    b"0,539,116.38,1.0,0.0054,1,1,283,0\n1,7448,73.5,0.5,0.0078,9,23,67,0\n"
    b"2,7448,3.0,0.55,0.005404705821447985,9,24,1,0.5\n3,77,1.0,2.0,0.5,3,7,2,0\n",
)
CLOUDSIMPY_WORDS = (b"job_id", b"instances_num", b"disk", b"0.5", b"8192", b"100000000", b"1e6")
TASKS = (
    b"job_id,submit_s,task,parents,runtime_s,mcpu\n7,5,a,,10,1000\n7,5,b,a,20,500\n"
    b"3,5,x,,1,250\n7,5,c,b a,5,2000\n",
    b"job_id,submit_s,task,parents,runtime_s,instances,mgpu,gang,role,gpu_resource,job_runtime_s,"
    b"job_procs,requested_s,logged_wait_s,user,status\n1,0,1,,5,2,500,1,ps,amd.com/gpu,9,3,20,,5,\n"
    b"1,0,2,1,1.5,1,0,0,,,9,3,20,,5,\n2,2.5,1,,3,,,,worker,,,,,4,,1\n",
)
TASKS_WORDS = (b"parents", b"job_procs", b"a b", b" ", b"requested_s", b"9007199254740992", b"-1")
TELEMETRY = (
    b"jobId,start,end,cpuUtilization,gpuSpeed\nworkload-000001-worker-01,0,5.5,0.5,1\n",
    b'{"jobId":"workload-000001-worker-01","start":1,"end":2,"cpuUtilization":null}\n'
    b'{"jobId":"nobody","start":1,"end":2e3,"cpuUtilization":0.25}\n',
)
TELEMETRY_WORDS = (b"jobId", b"workload-000002", b"null", b"cpuSpeed", b"{", b"NaN", b"1e999")
MACHINES = (
    b"name,count,cores,mem_gib,gpus,gpu_resource,disk_gib,cpu_throttle,label:zone\n"
    b"a,2,16,64.5,8,nvidia.com/gpu,,0.8,x\nb,,4,,,,100,,\n",
    b"sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,0,\n",
    b'[[machine]]\nname = "a"\ncores = 8\ngpus = 2\ncpu_throttle = 0.5\nlabels = {zone = "x"}\n'
    b'[[machine]]\nname = "b"\ncount = 3\ncpu_milli = 4000\n"label:zone" = "y"\n',
)
MACHINES_WORDS = (b"label:", b"cpu_milli", b"9007199254740992", b"nan", b"1025", b"[[machine]]")
BUNDLE = (
    json.dumps(
        {
            "format": FORMAT, "version": 1, "name": "site", "source": "s", "notes": "n",
            "parameters": {
                "gpu_ratio": 0.5, "hourly_multipliers": "head", "burst_hours": [1, 2],
                "families": {"debug_eval": {"duration_sec": {"median": 100}}},
                "phases": {"debug_eval": [{"name": "a", "share": 1, "io_intensity": 2}]},
            },
        }
    ).encode(),
)  # fmt: skip
BUNDLE_WORDS = (b'"families"', b'"share"', b"[]", b"{}", b"null", b"1e999", b"-1", b'"median"')

SACCT = (
    b"JobID|JobIDRaw|Partition|User|Account|QOS|Submit|Eligible|Start|End|Elapsed|State|NNodes|"
    b"NCPUS|ReqCPUS|ReqMem|AllocTRES|Timelimit|JobName\n"
    b"7_1|8|a|ann|x|q|2024-10-27T01:55:00|2024-10-27T02:00:00|2024-10-27T02:30:00|Unknown|00:10:00|"
    b"CANCELLED by 17|2|8|6|4Gc|cpu=8,gres/gpu:a100=2,mem=4G|UNLIMITED|a|b\n"
    b"7_[3-9%2]|7|a|ann|x|q|2024-10-27T01:55:00|Unknown|Unknown|Unknown|00:00:00|PENDING|1|1|1|0n||"
    b"Partition_Limit|c\n8.batch|8.batch||||||||||||||||||batch\n9|9|b|bob|y||1709287200|1709287200|"
    b"1709287300|1709287400|00:01:40|COMPLETED|1|4|4|16G|cpu=4|1-00:00:00|d\n",
    b"1|1|c|p|acc|g|5|u|9|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T10:05:00|"
    b"2024-03-01T11:05:00|01:00:00|0:0|NODE_FAIL|2|8|6|16G||cpu=6,mem=16G|cpu=8|02:00:00|n[1-2]|r\n"
    b"1|1|c|p|acc|g|5|u|9|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T12:05:00|"
    b"2024-03-01T13:05:00|01:00:00|0:0|COMPLETED|2|8|6|16G||cpu=6|cpu=8|02:00:00|n[1-2]|r|s\n",
    b"Comment|ElapsedRaw|JobID|JobName|NCPUS|Start|State|Submit|SubmitLine|User|WorkDir\n"
    b"|90|2|a|b|4|1709287260|COMPLETED|1709287200|sbatch -J a|b x|ann|/home\n"
    b"y|z|90|3|c|4|1709287260|CANCELLED by 7|1709287200|cat x | grep | wc|ann|/home\n",
)
SACCT_WORDS = (
    b"|", b"JobID", b"Unknown", b"None", b"UNLIMITED", b"Partition_Limit", b"RUNNING", b"PENDING",
    b"1970-01-01T00:00:00", b"9998-12-31T23:59:60", b"2024-02-29T00:00:00", b"999999999999",
    b"_[1-999999999%5]", b"+0", b"gres/gpu=", b"mem=9999999999P", b"999999-99:99:99", b"\xff",
)  # fmt: skip
PBS = (
    b"04/01/2024 00:00:00;Q;11.h;queue=w\n04/01/2024 00:00:40;S;11.h;user=a group=x queue=w "
    b"ctime=1711929600 etime=1711929600 start=1711929640 exec_host=n1/0*8\n04/01/2024 00:10:40;E;"
    b'11.h;user=a group=x account="p q" queue=w ctime=1711929600 etime=1711929610 '
    b"start=1711929640 exec_host=n1/0*8+n2/0-3,5 Resource_List.mem=8gb Resource_List.ncpus=12 "
    b"Resource_List.walltime=01:00:00 end=1711930240 Exit_status=0\n04/01/2024 00:20:01;E;12[3].h;"
    b"queue=l ctime=1711929700 start=1711930100 end=1711930800 Resource_List.nodes=2:ppn=4\n",
    b"04/01/2024 00:05:00;R;5.h;ctime=1711929600 start=1711929610 end=1711929900 exec_host=n/0\n"
    b"04/01/2024 00:20:00;E;5.h;ctime=1711929600 start=1711930000 end=1711930800 exec_host=n/0*2 "
    b"Resource_List.pmem=512mw Resource_List.walltime=5400\n04/01/2024 00:21:00;D;6.h;x=y\n",
)
PBS_WORDS = (
    b";E;", b";S;", b"[]", b"[3]", b"*8", b"+", b"/0-7", b"=", b"start=", b"end=0", b"ppn=99999999",
    b"999999999999999", b"Resource_List.walltime=", b"99999999:00:00", b"gb", b'"', b"\xff", b";",
)  # fmt: skip
JOB_TABLE = (
    b"job;user;state;queue;submit;start;end;procs;requested;memory\n101;ann;DONE;s;"
    b"2024-03-01T10:00:00;2024-03-01T10:00:30;2024-03-01T10:10:30;8;3600;16 G\n102[1];bob;EXIT;l;"
    b"2024-03-01T10:01:00;2024-03-01T10:06:00;2024-03-01T11:06:00;4;02:00:00;-\n",
    b"submit,eligible,start,runtime,requested_procs,group,partition,gpus\n100,105,110,0:01:30,2,"
    b'"a,b",p,1\n50,,50,12.5,1,c,,0\n',
)
JOB_TABLE_WORDS = (
    b",", b";", b"\t", b"|", b'"', b"-", b"none", b"RUN", b"999999999999", b"1e9", b"99-99:99:99",
    b"procs", b"start", b"1970-01-01T00:00:00", b"9999-12-31T23:59:59", b"\xff", b"\xef\xbb\xbf",
)  # fmt: skip
SLURM_CONF = (
    b"ClusterName=c SlurmctldHost=h\nPriorityWeightAge=5 # x\nSchedulerParameters=a=1,\\\nb\n"
    b"NodeName=DEFAULT Sockets=2 CoresPerSocket=4\nNodeName=r[0-1]n[01-12] Feature=f Gres=gpu:a:4\n"
    b"NodeSet=s Feature=f\nPartitionName=DEFAULT MaxTime=1-0\nPartitionName=a,b Nodes=s,r0n01\n"
    b'PartitionName=d Nodes=ALL MaxTime=INFINITE PriorityTier=3 AllowQos="x y"\n',
    b"Include slurm.conf\n",
)
SLURM_CONF_WORDS = (
    b"[", b"]", b"[1-999999999]", b"-", b",", b"=", b"#", b"\\\n", b"DEFAULT", b"Include /dev/zero",
    b"Nodes=", b"CPUs=", b"99999999999999999999", b"MaxTime=", b"State=DOWN", b"\xff", b"%c",
)  # fmt: skip


def _checked(workload: Workload) -> None:
    assert (workload.runtime_s >= 0).all()
    assert (workload.procs >= 1).all()
    assert workload.tasks is not None
    assert workload.tasks.n_jobs == workload.n_jobs
    describe(workload)
    if workload.n_jobs >= 50:
        learn_joulie(workload)


def philly(data: bytes, folder: Path) -> None:
    """Read jobs of Philly."""
    path = folder / "philly.csv"
    path.write_bytes(data)
    _checked(read_philly(path))


def openb(data: bytes, folder: Path) -> None:
    """Read pods of openb."""
    path = folder / "openb.csv"
    path.write_bytes(data)
    _checked(read_openb(path, pending="keep"))


@functools.cache
def _pods() -> Workload:
    return generate(model_of(JoulieParameters(jobs=5)), duration_s=3600, seed=1)


def cloudsimpy(data: bytes, folder: Path) -> None:
    """Read tasks of CloudSimPy; what is read is written and read again."""
    path = folder / "jobs.csv"
    path.write_bytes(data)
    _kept(read_cloudsimpy(path), folder / "again.cloudsimpy.csv")


def tasks(data: bytes, folder: Path) -> None:
    """Read tasks that wait for each other; what is read is written and read again."""
    path = folder / "jobs.csv"
    path.write_bytes(data)
    _kept(read_task_table(path), folder / "again.tasks.csv")


def _kept(workload: Workload, path: Path) -> None:
    _checked(workload)
    write_workload(workload, path)
    assert load_workload(path) == workload


def sacct(data: bytes, folder: Path) -> None:
    """Read a dump of sacct with each rule; what is read is written as SWF and read again."""
    _accounting(data, folder, read_sacct)


def pbs(data: bytes, folder: Path) -> None:
    """Read a file of PBS as `sacct` reads dumps."""
    _accounting(data, folder, read_pbs)


def job_table(data: bytes, folder: Path) -> None:
    """Read a table of jobs as `sacct` reads dumps."""
    _accounting(data, folder, lambda path, rules: read_job_table(path, None, rules))


def _accounting(data: bytes, folder: Path, read: Callable[[Path, ReadingRules], Workload]) -> None:
    path = folder / "dump.txt"
    path.write_bytes(data)
    lenient = ReadingRules(time_zone="Europe/Paris", procs_missing="drop", never_ran="keep_zero")
    for rules in (ReadingRules(procs_missing="drop", requeues="last"), lenient):
        workload = read(path, rules)
        assert (workload.procs >= 1).all()
        assert (workload.requested_s > 0).all() or rules is lenient
        assert not (workload.logged_wait_s < 0).any()
        assert len({*workload.job_id.tolist()}) == workload.n_jobs
        assert all(fault_of_sentence(note.sentence) is None for note in workload.notes)
        describe(workload)
    write_workload(workload, folder / "again.swf")
    kept = ReadingRules(never_ran="keep_zero", partial_executions="keep")
    assert load_workload(folder / "again.swf", rules=kept).n_jobs == workload.n_jobs


def slurm_conf(data: bytes, folder: Path) -> None:
    """Read a slurm.conf; partitions have nodes that are there."""
    path = folder / "slurm.conf"
    path.write_bytes(data)
    conf = read_slurm_conf(path)
    names = {name for some in conf.nodes for name in some.names}
    assert all(part.nodes <= names for part in conf.partitions)
    assert all(cpus >= 1 for cpus in conf.cpus_by_node().values())


def telemetry(data: bytes, folder: Path) -> None:
    """Read measurements of pods."""
    path = folder / "telemetry"
    path.write_bytes(data)
    made = read_telemetry(path, _pods(), unknown_pods="drop")
    assert (made.duration_s > 0).all()


def bundle(data: bytes, folder: Path) -> None:
    """Read a bundle; what it makes is a model that can be drawn from."""
    path = folder / "bundle.json"
    path.write_bytes(data)
    model = import_bundle(path)
    assert model.with_parameters({"jobs": 3}).parameters["jobs"] == 3


def machines(data: bytes, folder: Path) -> None:
    """Read a list of machines; what is read can be a cluster, or is refused as one."""
    path = folder / ("machines.toml" if data.lstrip().startswith(b"[") else "machines.csv")
    path.write_bytes(data)
    specs = read_machines(path)
    ClusterSpec.of([Partition.of_machines("main", specs)])

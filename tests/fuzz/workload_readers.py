"""Readers of other logs and of what belongs to Joulie's models, for the fuzzer."""
# ruff: noqa: ISC004

import functools
import json
from pathlib import Path

from sim.api import (
    ClusterSpec,
    Partition,
    Workload,
    describe,
    load_workload,
    read_machines,
    write_workload,
)
from sim.formats import read_cloudsimpy, read_openb, read_philly, read_task_table, read_telemetry
from sim.generators.generator import generate
from sim.generators.joulie import import_bundle, learn_joulie
from sim.generators.joulie.parameters import FORMAT, JoulieParameters, model_of

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

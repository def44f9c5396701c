"""Small valid files of every kind, written in code, and the words that mean something in them."""
# ruff: noqa: E501, ISC004 - data: a line of it is as long as it is

import sqlite3
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from assistant import Sla, open_session
from assistant.core.codec import encode_event
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore, SqliteStore
from tests.assistant.examples import TODAY, Bowl, TickingClock

SWF = (
    b"; Version: 2.2\n; MaxProcs: 64\n; MaxNodes: 16\n; UnixStartTime: 1000\n; Note: any\n"
    b"1 0 5 10 4 -1 -1 4 20 -1 1 7 8 -1 1 2 -1 -1\n2 3 -1 30.5 8 -1 -1 8 60 2048 1 7 8 -1 1 2 -1 -1\n"
    b"3 9 0 0 -1 -1 -1 -1 -1 -1 5 7 8 -1 1 2 -1 -1\n4 9 1 600 1 60 -1 1 900 -1 1 7 8 -1 1 2 -1 -1\n",
    b"1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1\n",
    b"; MaxProcs: 8\n\n; a remark\n1 0 1 7 4 -1 -1 4 -1 -1 2 1 1 -1 1 -1 -1 -1\n"
    b"1 5 1 7 4 -1 -1 4 -1 -1 3 1 1 -1 1 -1 -1 -1\n1 0 1 14 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
    b"2 1 1 14 4 120 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1 x\n",
)
SWF_WORDS = (b"MaxProcs", b"MaxNodes", b"UnixStartTime", b"; MaxProcs:", b"; Note:", b" -1" * 18)

TABLE = (
    b"size,mode,objective,duration_s\n1,a,3.5,1\n2,a,2.5,\n1,b,9,3\n2,b,1e3,4.5\n",
    b'x,objective\n0.5,1\n"a, b",2\ntext,-3\n',
    b"a,b,c,objective\n" + b"".join(b"%d,%d,%d,%d\n" % (i % 3, i % 5, i % 7, i) for i in range(60)),
)
TABLE_WORDS = (b"objective", b"duration_s", b"size", b"nan", b"None", b'""', b'"', b",,", b"\n\n")

RESULTS = (
    b"x,y,mode,height,cost\n0,0,plain,1.5,2\n3,2,odd,,3e5\n",
    b"height,mode,y,x\n4,odd,1,2\n",
)
RESULTS_WORDS = (b"x", b"y", b"mode", b"height", b"plain", b"odd", b'"', b",,")

MEASURES = (
    b'{"cost": 1.5, "wait": {"mean": 2, "most": [1, 2.5]}, "version": "1.2", "odd": null}',
    b"[1, 2.5, 3]",
    b"17",
    b"cost: 9\nn=4\ncost: 7.5\n",
)
MEASURES_WORDS = (b'"cost"', b"cost: ", b'{"cost":', b"[[", b"NaN", b"-Infinity", b"true", b"null")

BENCHMARKS = (
    b'{"results": [{"command": "a", "mean": 0.2, "stddev": 0.1, "median": 0.2, "user": 0.1,'
    b' "system": 0.0, "min": 0.1, "max": 0.3, "times": [0.1, 0.3], "exit_codes": [0, null],'
    b' "memory_usage_byte": [9, 7]}]}',
    b'{"benchmarks": [{"name": "a", "fullname": "t.py::a", "extra_info": {"n": 1}, "stats": {'
    b'"min": 1, "max": 3, "mean": 2, "stddev": 1, "median": 2, "iqr": 1, "rounds": 3}}]}',
)
BENCHMARKS_WORDS = (b"results", b"benchmarks", b"stats", b"mean", b"name", b"rounds", b"null")

_PARAMETERS = (
    b'[[parameters]]\nname = "x"\nlevels = [1, 2, 3]\n[[parameters]]\nname = "rate"\n'
    b'range = {low = 0.1, high = 0.5, step = 0.1}\n[[parameters]]\nname = "size"\n'
    b'logarithmic = {low = 1, high = 64, count = 4, integer = true}\nkind = "ordinal"\nunit = "MB"\n'
)
SETTINGS = (
    b'name = "n"\nseed = 3\nruns = 12\ninitial = 4\nbatch = 2\nworkers = 1\ndeadline = "2h"\n'
    b'goal = 2.5\nat_goal = "stop"\nrun_limit = "90s"\nexploitation = 0.5\nwarnings = "accept"\n'
    b'results = []\nexclude = ["x == 2 and size > 4"]\nreplicates = true\n'
    b'[cost]\nlimit = 5.0\nunit = "EUR"\nper_hour = 1.5\nresources = "x"\n'
    b'[warning_policy]\ngood = "quantile"\nquantile = 0.3\neps = 1.5\nmin_samples = 3\npending = "near"\n'
    b'warn_from = 0.1\nadvised = 0.7\nrule = "auto"\nwarn_at = 0.2\n'
    b'[application]\nkind = "command"\ncommand = ["sh", "{x}", "--rate={rate}", "{size}", "{seed}"]\n'
    b'env = {A = "{x}"}\nstdin = "{size}"\nlimit = "1m"\ninherit = ["C_*"]\n'
    b'processes = 9\nfile_size = "2 MB"\nmeasures = {stdout = "last_line"}\n'
    b'baseline = {x = 1, rate = 0.1, size = 1}\nnoisy = true\n'
    b'[objective]\nminimise = "time_ms"\nunit = "ms"\nsecond = "cost"\nsecond_goal = "minimise"\n'
    b'constraints = [{measure = "memory_mb", at_most = 600.0, label = "m"}]\n'
    b'[strategy]\nname = "copper"\nbeta = 0.5\n' + _PARAMETERS +
    b"[[run]]\nx = 1\nrate = 0.1\nsize = 1\n[plan]\nx = [1, 2]\n"
    b'[hooks]\non_warning = ["true"]\ntimeout = "30s"\n[environment]\ncores = 1\nmemory = "1 GiB"\n',
    b'runs = 5\n[application]\ntable = "table.csv"\n[objective]\nmaximise = "objective"\n'
    b'[strategy]\nname = "grasp"\n',
    b'runs = 5\n[application]\nlog = "few.swf"\nfirst = 3\nprocs = 64\nsmall_job_below = "1h"\n'
    b'small_job_wait = "3h"\ntoo_wide = "clip"\noverrun = "kill"\n[application.reading]\n'
    b'unsorted = "sort"\n[application.baseline]\norder = "fcfs"\nbackfill = "easy"\n'
    b'[application.levels]\norder = ["fcfs", "sjf"]\nsmall_procs = [0, 16]\n'
    b'[objective]\nweighted = {mean_wait_s = 1.0, utilisation = -2.0}\nwithout = []\n',
    b'runs = 5\n[application]\nfunction = "own:cost"\n[objective]\n'
    b'rmse = {measure = "y", reference = [1.0, 2.5]}\n' + _PARAMETERS,
    b'runs = 5\n[application]\ncommand = ["true"]\nunused = true\n'
    b'measures = {pattern = ["(?P<cost>\\\\d+)"], stream = "stderr"}\n'
    b'[objective]\nminimise = "cost"\n' + _PARAMETERS,
    b"runs = 3\n",
)  # fmt: skip
SETTINGS_WORDS = (
    b"kind", b"command", b"function", b"lookup", b"scheduling", b"levels", b"range", b"low", b"high",
    b"step", b"count", b"name", b"strategy", b"objective", b"minimise", b"exclude", b"reading", b"log",
    b"table", b"measures", b"pattern", b"file", b"stdout", b"today", b"seed", b"workers", b"deadline",
    b"cost", b"[[parameters]]\n", b"[application]\n", b"[x.y.z]\n", b"true", b"false", b"[]", b"{}",
    b"1979-05-27T07:32:00Z", b"07:32:00", b"0o17", b'"""', b"x ** x ** x > 1", b"x % 0 == 1",
    b"not x", b"'a' < 1", b"(x", b"{seed}", b"{scratch}", b"random", b"particle_swarm",
)  # fmt: skip
FILES = {
    "table.csv": TABLE[0],
    "few.swf": SWF[0],
    "own.py": b"def cost(x, rate, size):\n    return {'y': [1.0, 2.0]}\n",
}


_POD = (
    b'{"type":"job","schemaVersion":"v2","jobId":"workload-000001-worker-01","workloadId":'
    b'"workload-000001","workloadType":"distributed_training","podRole":"worker","gang":true,'
    b'"submitTimeOffsetSec":12.4,"namespace":"default","podTemplate":{"affinity":{"nodeAffinity":'
    b'{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":'
    b'[{"key":"joulie.io/power-profile","operator":"NotIn","values":["eco"]}]}]}}},"requests":'
    b'{"cpu":"4","memory":"12Gi","nvidia.com/gpu":"1"}},"work":{"cpuUnits":1024,"gpuUnits":6800},'
    b'"sensitivity":{"cpu":0.65,"gpu":0.90},"workloadClass":{"cpu":"cpu.mixed"},'
    b'"workloadProfile":{"cpuUtilization":0.28,"ioIntensity":0.08},"intentClass":"eco",'
    b'"tags":["ai"]}\n'
)
_LOGICAL = (
    b'{"type":"workload","schemaVersion":"v2","workloadId":"workload-000001",'
    b'"submitTimeOffsetSec":12.4,"namespace":"default","workloadType":"distributed_training",'
    b'"gang":true,"durationSec":14400,"workloadClass":{"cpu":"cpu.mixed"},'
    b'"sharedIntensityProfile":{"cpuUtilization":0.28},"pods":[{"role":"worker","replicas":4,'
    b'"requests":{"cpu":"4","memory":"12Gi"},"gang":true}]}\n'
)
_V1 = (
    b'{"jobId":"a","submitTimeOffsetSec":0.333,"podTemplate":{"requests":{"cpu":"250m"}},'
    b'"work":{"cpuUnits":3e2}}\n'
)
JOULIE = (_LOGICAL + _POD, _V1 + _POD, _POD.replace(b"-01", b"-02") + _POD + _LOGICAL)
JOULIE_WORDS = (
    b"workload", b"job", b"v1", b"In", b"Exists", b"0.5", b"1e300", b"NaN", b"-1", b"null", b"{}",
    b"[]", b"500m", b"Ki", b"amd.com/gpu", b"ephemeral-storage", b"\\ud800", b"true", b"\n",
)  # fmt: skip


@cache
def journals() -> tuple[bytes, ...]:
    """Return journals as lines of JSON: of a steered sweep with most kinds of events in it."""
    found = []
    for settled in (False, True):
        bowl = Bowl(baseline=TODAY, fail_at_x=1)
        session = open_session(
            bowl,
            store=MemoryStore(),
            sla=Sla(12),
            clock=TickingClock(),
            name="n",
            experiment_id="n",
        )
        session.submit(session.suggest(3))
        session.run_queued(SerialExecutor(bowl))
        if settled:
            session.change_warning_policy(session.experiment.warning_policy)
            session.submit(session.suggest(4))
            session.run_queued(SerialExecutor(bowl))
            session.close_level("mode", "odd")
            session.submit(session.suggest(2))
            session.finish("enough")
        found.append("\n".join(map(encode_event, session.events())).encode())
    return tuple(found)


JOURNAL_WORDS = (
    b'"type"', b'"v"', b'"at_s"', b'"run_id"', b'"level_ids"', b'"lineage"', b'"ExperimentOpened"',
    b'"RunStarted"', b'"RunCompleted"', b'"RunFailed"', b'"SpaceChanged"', b'"levels"', b"[[]]",
    b"{}", b'"measures"', b'"quality"', b'"exclusions"', b'"closed"', b'"kind"', b'"nominal"',
)  # fmt: skip


@cache
def databases() -> tuple[bytes, ...]:
    """Return a stored experiment as the bytes of its file, and an empty store."""
    found = []
    for fill in (True, False):
        with TemporaryDirectory() as folder:
            path = Path(folder, "store.db")
            store = SqliteStore(path)
            if fill:
                bowl = Bowl()
                session = open_session(
                    bowl, store=store, sla=Sla(4), clock=TickingClock(), name="n", experiment_id="n"
                )
                session.submit(session.suggest(3))
                session.run_queued(SerialExecutor(bowl))
            store.close()
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
            found.append(path.read_bytes())
    return tuple(found)


DATABASE_WORDS = (
    b"CREATE TABLE",
    b"event",
    b"SQLite format 3\0",
    b"STRICT",
    b'"type"',
    b"\0\0\0\1",
)

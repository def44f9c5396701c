"""slurm.conf: its grammar, host lists, times, and what is refused."""

from pathlib import Path

import pytest

from sim.formats.slurm_conf import hosts, read_slurm_conf, slurm_time_s
from sim.model.errors import TraceError

CONF = r"""
# A cluster \
ClusterName=Big SlurmctldHost=head   # two pairs in a line
SchedulerParameters=bf_window=2880,\
defer,bf_max_job_test=100
priorityweightage=1000
PriorityWeightQOS=5
Include more/%c.conf
NodeName=DEFAULT Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1000
NodeName=n[1-3] Feature=fast,new
NodeName=g[01-02] CPUs=64 Gres=gpu:a100:4,nvme:1 State=DOWN
NodeSet=quick Feature=fast
PartitionName=DEFAULT MaxTime=2-0 State=UP
PartitionName=main Nodes=ALL Default=YES
PartitionName=debug,test Nodes=quick MaxTime=INFINITE PriorityTier=7 AllowQos="high, low"
PartitionName=part Nodes=n1,x[1-2] MaxTime=90 PriorityJobFactor=3 State=DOWN
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "slurm.conf"
    path.write_text(text)
    return path


def test_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "Big.conf").write_text("NodeName=x[1-2] Boards=2 SocketsPerBoard=3\n")
    conf = read_slurm_conf(written(tmp_path, CONF))
    assert conf.name == "Big"
    assert conf.scheduler_parameters() == {
        "bf_window": "2880", "defer": "", "bf_max_job_test": "100",
    }  # fmt: skip
    assert conf.weights() == {"age": "1000", "qos": "5"}
    assert conf.spelling["priorityweightage"] == "priorityweightage"
    assert conf.cpus_by_node() == {"n1": 16, "n2": 16, "n3": 16, "x1": 6, "x2": 6}
    gpus = next(some for some in conf.nodes if some.names == ("g01", "g02"))
    assert (gpus.gpus, gpus.cpus, gpus.mem_mib, gpus.is_there) == (4, 64, 1000, False)
    parts = {part.name: part for part in conf.partitions}
    assert parts["main"].nodes == {"n1", "n2", "n3", "x1", "x2", "g01", "g02"}
    assert parts["main"].max_time_s == 172_800.0
    assert parts["test"].nodes == {"n1", "n2", "n3"}
    assert (parts["test"].max_time_s, parts["test"].tier) == (None, 7)
    assert parts["test"].settings["allowqos"] == "high, low"
    assert parts["part"].nodes == {"n1", "x1", "x2"}
    assert (parts["part"].max_time_s, parts["part"].job_factor) == (5400.0, 3)
    assert [part.is_up for part in conf.partitions] == [True, True, True, False]
    assert len(conf.files) == 2
    assert conf.n_not_understood == 0


ONE = "NodeName=n1 CPUs=2\nPartitionName=a Nodes=n1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line NodeName="),
        ("NodeName=n1\n", "no line PartitionName="),
        (ONE + "NodeName=n[0-2]\n", "line 3: nodename is 'n.0-2.'; node 'n1' is there twice"),
        ("NodeName=n[1-\nPartitionName=a Nodes=n1\n", r"line 1: nodename is 'n\[1-'; allowed are"),
        ("NodeName=n[1-9999999]\n" + ONE, "allowed are names such as"),
        ("NodeName=n1 CPUs=many\n", "line 1: cpus is 'many'; allowed are whole numbers from 1"),
        (ONE.replace("Nodes=n1", "Nodes=n2"), "there is no node or set of nodes 'n2'"),
        (ONE + "NodeSet=s Nodes=n7\n", "line 3: nodes is 'n7'; there is no node or set of nodes"),
        (ONE + "PartitionName=a Nodes=n1\n", "line 3: partitionname is 'a'; names must be unique"),
        (ONE + "PartitionName=b Nodes=n1 MaxTime=ever\n", "maxtime is 'ever'; allowed are times"),
        ("Include slurm.conf\n" + ONE, "files include each other in a circle"),
        ("Include none.conf\n" + ONE, "line 1: Include is '.*'; this file is not there"),
        ("Include ../other.conf\n" + ONE, "or below; put it there"),
        ("NodeName=n1 Sockets=1000000 CoresPerSocket=1000000\n", "1,000,000 CPUs at most"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "other.conf").write_text(ONE)
    (tmp_path / "here").mkdir()
    with pytest.raises(TraceError, match=message):
        read_slurm_conf(written(tmp_path / "here", text))


@pytest.mark.parametrize("text", ["", "n[", "n]", "n[a]", "n[3-1]", "n[1-2]]", "n[1-1000][1-9999]"])
def test_texts_that_are_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        hosts(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("90:30", 5430), ("1:00:01", 3601), ("2-3", 183_600), ("1-00:30", 88_200),
     ("1-0:0:9", 86_409), ("UNLIMITED", None)],
)  # fmt: skip
def test_times(text: str, seconds: float | None) -> None:
    assert slurm_time_s(text) == seconds

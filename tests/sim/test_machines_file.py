"""Lists of machines: CSV, TOML and openb's node lists; refused in words."""

from pathlib import Path

import pytest

from sim.api import MachineSpec, TraceError, read_machines

CSV = (
    "name,count,cores,mem_gib,gpus,gpu_resource,disk_gib,cpu_throttle,gpu_throttle,label:zone\n"
    "gpu,2,16,64.5,8,amd.com/gpu,100,0.8,0.5,a\n"
    "plain,,4,,,,,,,\n"
)
TOML = """
[[machine]]
name = "gpu"
count = 2
cores = 16
mem_gib = 64.5
gpus = 8
gpu_resource = "amd.com/gpu"
disk_gib = 100
cpu_throttle = 0.8
gpu_throttle = 0.5
labels = {zone = "a"}
[[machine]]
name = "plain"
cores = 4
"""
EXPECTED = (
    MachineSpec(
        "gpu", 16, 2, 64 * 2**30 + 2**29, 8, "amd.com/gpu", 100 * 2**30, {"zone": "a"}, 0.8, 0.5
    ),
    MachineSpec("plain", 4),
)


def written(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_csv_and_toml_say_the_same(tmp_path: Path) -> None:
    assert read_machines(written(tmp_path, CSV)) == EXPECTED
    assert read_machines(written(tmp_path, TOML, "list.toml")) == EXPECTED


def test_a_node_list_of_openb_is_read_as_it_is(tmp_path: Path) -> None:
    text = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,1,0,\n"
    assert read_machines(written(tmp_path, text)) == (
        MachineSpec("n0", 64, mem_bytes=2**38, gpus=2, labels={"gpu.model": "P100"}),
        MachineSpec("n1", 96, mem_bytes=2**20),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,cores,colour\na,4,red\n", "line 1: 'colour'; it is unknown; allowed are name,"),
        ("name,gpus\na,4\n", "line 1: the cores of machines is missing; give cores or"),
        ("cores\n4\n", "the name of machines is missing"),
        ("name,cores,cpu_milli\na,4,4000\n", "'cpu_milli'; it means the same as cores"),
        ("name,cores,mem_gib,memory_mib\na,4,1,1\n", "'memory_mib'; it means the same as mem_gib"),
        ("name,cpu_milli\na,1500\n", "cpu_milli is '1500'; machines have whole cores"),
        ("name,cores\na,2.5\n", "line 2: cores is '2.5'; allowed are whole numbers from 0"),
        ("name,cores\na,\n", "line 2: cores is ''; give the number of cores"),
        ("name,cores\na,0\n", "machine 'a': procs is 0; allowed are whole numbers from 1"),
        ("name,cores\n,4\n", "line 2: a machine has an empty name"),
        ("name,cores,gpus\na,4,2000\n", "line 2: machine 'a': gpus is 2000"),
        ("name,cores,cpu_throttle\na,4,1.5\n", "cpu_throttle is 1.5; allowed are numbers above 0"),
        ("name,cores,label:\na,4,x\n", "'label:'; "),
        ("name,cores\na,4\nb,4\na,8\n", "line 4: two rows are called 'a'"),
        ("name,cores\n", "there are no rows below the header"),
    ],
)
def test_what_is_no_list_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_machines(written(tmp_path, text))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[machine]", "it is not TOML"),
        ("machine = 3", "allowed are tables [[machine]], one or more"),
        ("machine = [3]", "machine 1: it is '3'; allowed are tables"),
        ('zone = "a"\n[[machine]]\nname = "a"\ncores = 1', "and nothing else"),
        (
            '[[machine]]\nname = "a"\ncores = "4"',
            "machine 1: cores is \"'4'\"; allowed are numbers",
        ),
        ('[[machine]]\nname = "a"\ncores = true', "machine 1: cores is 'True'; allowed are num"),
        ("[[machine]]\nname = 7\ncores = 4", "machine 1: name is '7'; allowed are texts"),
        (
            f'[[machine]]\nname = "a"\ncores = {10**400}',
            "allowed are whole numbers from 0 to 2**53",
        ),
        ('[[machine]]\nname = "a"\ncores = nan', "allowed are whole numbers from 0 to 2**53"),
        ('[[machine]]\nname = "a"\ncores = 4\nlabels = 3', "labels is '3'; allowed is a table"),
    ],
)
def test_what_is_no_list_in_toml_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_machines(written(tmp_path, text, "list.toml"))
    assert sentence in str(refused.value)

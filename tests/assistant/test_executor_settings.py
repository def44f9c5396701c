"""``[executor]``: workers of Dask that a batch system starts."""

from pathlib import Path

import pytest

from assistant.cli.options import executor_table
from assistant.config.sweep_file import check_settings, read_settings
from assistant.core.errors import SettingsError
from assistant.executors import spec as addresses
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates

FILE = """
[executor]
kind = "dask"
system = "slurm"
partition = "short"
account = "physics"
walltime = "2h"
options = ["--nice=7"]
host = "10.0.0.1"
folder = "shared"
"""


def place_of(text: str, folder: Path) -> ExecutorSpec:
    (folder / "sweep.toml").write_text(text)
    return check_settings(read_settings(folder / "sweep.toml"), "sweep.toml").place


def test_a_sweep_file_has_slurm_start_the_workers_of_dask(tmp_path: Path) -> None:
    place = place_of(FILE, tmp_path)
    assert place.executor == "dask"
    assert place.batch == BatchSystem(
        "slurm", "short", "physics", 7200.0, ("--nice=7",), "10.0.0.1", tmp_path / "shared"
    )


def test_certificates_of_ones_own_may_be_used(tmp_path: Path) -> None:
    names = ("authority", "certificate", "key")
    told = FILE + "".join(f'{name} = "{name}.pem"\n' for name in names)
    with pytest.raises(SettingsError, match="authority of TLS"):
        place_of(told, tmp_path)
    for name in names:
        (tmp_path / f"{name}.pem").write_text("")
    expected = TlsCertificates(*(tmp_path / f"{name}.pem" for name in names))
    assert place_of(told, tmp_path).certificates == expected


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ('system = "slurm"\n', "", "'partition' is for jobs; name the system that starts them"),
        ('system = "slurm"', 'system = "pbs"', "system"),
        ('partition = "short"', 'partition = "a b"', "partition"),
        ('host = "10.0.0.1"', 'host = "a\\nb"', "host is empty or not printable"),
        ('host = "10.0.0.1"', 'host = ""', "host is empty or not printable"),
        ("--nice=7", "--nice=7\\u0000", "options is empty or not printable"),
        ('host = "10.0.0.1"', 'address = "tls://h:1"', "set either its address or the system"),
        ('kind = "dask"', 'kind = "process_pool"', "only the executors 'dask' and 'slurm'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, was: str, becomes: str, said: str) -> None:
    assert was in FILE
    with pytest.raises(SettingsError, match=said):
        place_of(FILE.replace(was, becomes), tmp_path)


def test_an_option_says_who_starts_workers_or_where_they_are() -> None:
    told = {"kind": "dask", "address": "tls://b:1", "key": "a"}
    assert executor_table(told, "dask=slurm") == {"kind": "dask", "key": "a", "system": "slurm"}
    jobs = {"kind": "dask", "system": "slurm", "partition": "short", "walltime": "2h"}
    assert executor_table(jobs, "dask") == jobs
    assert executor_table(jobs, "dask=tcp://127.0.0.1:1") == {
        "kind": "dask", "address": "tcp://127.0.0.1:1",
    }  # fmt: skip
    assert executor_table(jobs, "slurm") == {"kind": "slurm"}


def test_without_dask_jobqueue_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_is_missing", lambda package: package == "dask_jobqueue")
    with pytest.raises(SettingsError, match=r"pip install 'copperline\[slurm\]'"):
        ExecutorSpec("dask", batch=BatchSystem())
    ExecutorSpec("dask")


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"kind": "slurm", "partion": "main"}, "partition"),
        ({"kind": "dask", "adress": "x"}, "address"),
    ],
)
def test_a_key_that_is_misspelt_is_looked_for_in_its_own_table(
    told: dict[str, str], meant: str
) -> None:
    with pytest.raises(SettingsError, match=f"did you mean '{meant}'"):
        check_settings({"executor": told}, "x")

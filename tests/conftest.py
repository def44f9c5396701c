"""What every test may ask for, and how a missing part of the machine is said.

A test that needs something that this machine may lack asks for a fixture below. Without it the
test skips and says why; with that word in the environment variable COPPERLINE_REQUIRE (a comma
list such as ``browser,shared``) the same absence is a failure.
"""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.machine_code import ColdStart, started_cold

if TYPE_CHECKING:
    from tests.slurm_cluster import SlurmCluster

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests themselves use all cores
os.environ.pop("COLUMNS", None)  # how wide the terminal of whoever runs the tests is, is not asked
settings.register_profile("dev", deadline=None, max_examples=15, print_blob=True)  # 50 in CI
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    print_blob=True,
    derandomize=True,  # a gate judges a change, not the dice; the dice roll in "dev"
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
if "HYPOTHESIS_EXAMPLES" in os.environ:  # so many of each property, whatever the profile says
    settings.register_profile("counted", max_examples=int(os.environ["HYPOTHESIS_EXAMPLES"]))
    settings.load_profile("counted")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_xdist_auto_num_workers() -> int:
    """Return the cores that this process may use; `-n 0` runs everything in one process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _absent(part: str, reason: str) -> None:
    required = {word.strip() for word in os.environ.get("COPPERLINE_REQUIRE", "").split(",")}
    if part in required:
        pytest.fail(f"COPPERLINE_REQUIRE names '{part}', but {reason}", pytrace=False)
    pytest.skip(f"{part}: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and later look no more among what stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _main_is_kept() -> Iterator[None]:
    """Streamlit's tester leaves its script, which is deleted, as the main module of children."""
    kept = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = kept


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def scripts() -> Path:
    """The scripts that start a Slurm, where one is installed and may be started."""
    folder = REPOSITORY.parent / "shared" / "slurm"
    if not folder.is_dir():
        _absent(
            "slurm", "the scripts that start one, ../shared/slurm, are not beside this checkout"
        )
    if shutil.which("sbatch") is None or os.geteuid() != 0:
        _absent("slurm", "no Slurm is installed (slurm-wlm, munge), or this is not root")
    return folder


@pytest.fixture(scope="session")
def accounting_scripts(scripts: Path) -> Path:
    """The scripts that start a Slurm, where its accounting can be started, too."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    programs = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
    lacking = [name for name in programs if shutil.which(name, path=path) is None]
    if lacking:
        _absent(
            "slurm", f"no {', '.join(lacking)} (Debian: apt-get install slurmdbd mariadb-server)"
        )
    return scripts


@pytest.fixture
def slurm(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["SlurmCluster"]:
    """A real Slurm of two nodes, which can be killed; its commands here find it."""
    from tests.slurm_cluster import SlurmCluster

    with SlurmCluster(scripts) as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        yield cluster


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real logs and measured tables that lies beside the checkout."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        _absent("shared", "the folder of real logs, ../shared/data, is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a real Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _absent("browser", "no chromium on the PATH (Debian: apt-get install chromium)")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def node() -> str:
    """The path of node, for programs in JavaScript."""
    found = shutil.which("node")
    if found is None:
        _absent("node", "no node on the PATH (Debian: apt-get install nodejs)")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def cold_start(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> ColdStart:
    """A simulation that had nothing compiled; it takes a minute, so all workers share one."""
    own = tmp_path_factory.getbasetemp()
    return started_cold(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own, repository)


@pytest.fixture(scope="session", autouse=True)
def _own_user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's own experiments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPPERLINE_STORE", str(tmp_path_factory.mktemp("store") / "experiments.db"))
        yield

"""The public interfaces of the simulator: a small core, and a package for each extension."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sim import api
from sim.model.errors import ScenarioError, UnknownNameError


def scenario(procs: int = 4, **policies: str) -> api.Scenario:
    workload = api.Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[2])
    return api.Scenario(workload, api.ClusterSpec.single(procs), **policies)  # type: ignore[arg-type]


CORE = {"model", "kernel", "metrics", "policies", "formats", "engines", "simulation"}
PUBLIC = (
    "sim.api", "sim", "sim.formats", "sim.metrics", "sim.generators", "sim.generators.cloud",
    "sim.generators.joulie", "sim.placement", "sim.aiops", "sim.explain",
)  # fmt: skip


@pytest.mark.parametrize("package", PUBLIC)
def test_every_exported_name_is_there(package: str) -> None:
    module = import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)  # in order, as ruff checks
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_the_core_has_few_names_and_no_extension(repository: Path) -> None:
    stub = (repository / "sim" / "__init__.pyi").read_text()
    assert {line.split(".")[1].split()[0] for line in stub.splitlines()} <= CORE
    assert len(re.findall(r" as \w+$", stub, re.M)) == len(api.__all__) <= 60


def test_a_name_is_in_one_public_package() -> None:
    names = [name for package in PUBLIC[1:] for name in import_module(package).__all__]
    assert {name for name in names if names.count(name) > 1} == {"summarise"}  # schedules, traces


def test_the_package_exports_what_the_api_exports() -> None:
    import sim

    assert sim.__all__ == api.__all__


def test_the_api_loads_no_module_before_a_name_is_used(repository: Path) -> None:
    code = "import sys, sim.api; print(sorted(name for name in sys.modules if name[:3] == 'sim'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['sim', 'sim.api']"


def test_a_scenario_is_checked_before_it_is_simulated() -> None:
    api.check_scenario(scenario())
    with pytest.raises(UnknownNameError, match="no order 'fcfc'; did you mean 'fcfs'"):
        api.check_scenario(scenario(order="fcfc"))
    with pytest.raises(UnknownNameError, match="no backfill 'eazy'; did you mean 'easy'"):
        api.check_scenario(scenario(backfill="eazy"))
    with pytest.raises(ScenarioError, match="needs 2 processors and the widest partition"):
        api.check_scenario(scenario(procs=1))
    api.check_scenario(scenario(procs=1, too_wide="reject"))


def test_known_names_pass_their_checks() -> None:
    known = api.known_names()
    for order in known["order"]:
        api.check_policies(scenario(order=order))
    for backfill in api.backfills_for("processors"):
        api.check_policies(scenario(backfill=backfill))
    with pytest.raises(UnknownNameError):
        api.check_policies(scenario(order="easy"))
    with pytest.raises(UnknownNameError):
        api.check_policies(scenario(backfill="fcfs"))


def test_light_work_loads_nothing_heavy(repository: Path) -> None:
    code = (
        "import sys; from sim import api, formats, generators;"
        "w = generators.default_workload(0, 9); api.describe(w);"
        "formats.rules_from_texts({}); formats.rule_choices();"
        "api.check_policies(api.Scenario(w, api.ClusterSpec.single(160)));"
        "api.parse_duration('1h');"
        "print(sorted({'numba', 'simpy', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

"""The one door: everything a shell needs, checked before anything slow begins."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim import api
from sim.model.errors import ScenarioError, UnknownNameError


def scenario(procs: int = 4, **policies: str) -> api.Scenario:
    workload = api.Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[2])
    return api.Scenario(workload, api.ClusterSpec.single(procs), **policies)  # type: ignore[arg-type]


def test_every_exported_name_is_there() -> None:
    assert len(set(api.__all__)) == len(api.__all__)  # in order, as ruff checks
    for name in api.__all__:
        assert getattr(api, name) is not None


def test_the_package_exports_nothing_that_the_door_does_not() -> None:
    import sim

    assert set(sim.__all__) <= set(api.__all__)


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
        api.check_order(order)
    for backfill in known["backfill"]:
        api.check_backfill(backfill)
    with pytest.raises(UnknownNameError):
        api.check_order("easy")
    with pytest.raises(UnknownNameError):
        api.check_backfill("fcfs")


def test_light_work_at_the_door_loads_nothing_heavy(repository: Path) -> None:
    code = (
        "import sys; from sim import api; w = api.default_workload(0, 9); api.describe(w);"
        "api.rules_from_texts({}); api.rule_choices(); api.check_order('fcfs');"
        "api.parse_duration('1h');"
        "print(sorted({'numba', 'simpy', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

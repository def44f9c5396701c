"""Each rule of Joulie's page holds in what is drawn, and the table sees when one does not."""

from typing import Any

import numpy as np
import pytest

from benchmarks.drawn_checks import Check, holds
from benchmarks.joulie_rules import rule_table
from sim.generators.generator import published_model

pytestmark = pytest.mark.statistical
N, SEED = 20_000, 4


def broken(told: dict[str, Any]) -> set[str]:
    """Return the rules that do not hold of a model with other parameters.

    A name `family__parameter` stands for the parameter of one family.
    """
    families: dict[str, Any] = published_model("joulie").parameters["families"]
    made = {name: dict(family) for name, family in families.items()}
    changes: dict[str, Any] = {"families": made}
    for name, value in told.items():
        family, _, key = name.rpartition("__")
        (made[family] if family else changes)[key] = value
    checks = rule_table(N, SEED, changes)
    return {check.rule for check in checks if not holds(check, len(checks))}


def test_every_rule_holds() -> None:
    checks = rule_table(60_000, 1)
    assert [check for check in checks if not holds(check, len(checks))] == []
    assert {check.rule[:3].strip() for check in checks} >= {f"J{i}" for i in range(3, 10)}
    assert {check.rule for check in checks} >= {f"J{i}" for i in range(10, 18)}
    random = [check for check in checks if check.low < check.high]
    outside = sum(not check.is_in_interval for check in random)
    mean, sd = 0.05 * len(random), np.sqrt(0.05 * 0.95 * len(random))
    assert abs(outside - mean) < 4 * sd, "intervals of 95 % should miss 1 of 20"


LAW = {"median": 7200.0, "sigma": 1.0, "least": 900.0, "most": 604800.0}

BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"mean_inter_arrival_sec": 5.2}, "J3"),
    ({"hourly_multipliers": [0.7] * 9 + [1.2] * 15}, "J3"),
    ({"burst_multiplier": 2.2}, "J4 burst"),
    ({"burst_day_probability": 0.6}, "J4 burst"),
    ({"dip_multiplier": 0.2}, "J4 [H] dip"),
    ({"gpu_ratio": 0.78}, "J5"),
    ({"debug_eval__share": 0.43, "hpo_experiment__share": 0.11}, "J5"),
    ({"gpu_count_probabilities": [0.78, 0.12, 0.07, 0.03]}, "J6"),
    ({"single_gpu_training__duration_sec": LAW | {"median": 6400.0}}, "J7"),
    ({"single_gpu_training__duration_sec": LAW | {"sigma": 1.15}}, "J7"),
    ({"single_gpu_training__duration_sec": LAW | {"least": 800.0}}, "J7"),
    ({"gpu_utilisation_means": [0.53, 0.50, 0.4518, 0.5899, 0.4039]}, "J8"),
    ({"gpu_utilisation_spread": 0.11}, "J8"),
    ({"cpu_preprocess__cpu_utilisation": [0.50, 0.80]}, "J9"),
    ({"hpo_experiment__memory_intensity": [0.25, 0.80]}, "J10"),
    ({"hpo_experiment__gpu_class": "gpu.compute_bound"}, "J11"),
    ({"debug_eval__gang": True}, "J12"),
    ({"least_workers": 2}, "J6"),
    ({"two_servers_from": 8}, "J12"),
    ({"hpo_max_trials": 5}, "J12"),
    ({"debug_eval__memory_base_gib": 1.0}, "J13"),
    ({"cpu_work_rate_per_core": 1.01}, "J14"),
    ({"split_work": True}, "J14"),
    ({"distributed_training__gpu_sensitivity": 0.85}, "J15"),
    ({"perf_ratio": 0.28}, "J16"),
]  # fmt: skip
"""Changed parameters, each with the rule that the change breaks."""


@pytest.mark.soak
@pytest.mark.parametrize(("told", "rule"), BROKEN)
def test_the_table_sees_a_rule_that_is_broken(told: dict[str, Any], rule: str) -> None:
    found = broken(told)
    assert rule in found, found


@pytest.mark.soak
@pytest.mark.parametrize("nth", range(3))
def test_the_table_sees_rules_that_are_broken_together(nth: int) -> None:
    """Break all rules at a time: each by the first, second or third change that breaks it."""
    rules = {rule for _, rule in BROKEN}
    changes = {rule: [told for told, other in BROKEN if other == rule][nth:] for rule in rules}
    together = {rule: told[0] for rule, told in changes.items() if told}
    found = broken({name: value for told in together.values() for name, value in told.items()})
    assert set(together) <= found, set(together) - found


def test_a_check_of_nothing_does_not_hold() -> None:
    from benchmarks.drawn_checks import never, share

    nothing = np.zeros(0, dtype=np.bool_)
    for check in (never("J0", "nothing", nothing), share("J0", "nothing", 0.5, nothing)):
        assert isinstance(check, Check)
        assert not holds(check, 1) or not check.is_in_interval

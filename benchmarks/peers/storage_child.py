"""Optuna's relational storage on SQLite with very many finished trials; all it needs of ours.

``PYTHON storage_child.py FILE N`` prints one line of JSON: seconds by operation. The trials are
written into Optuna's own tables at once, since telling 100,000 of them takes an hour.
"""

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

STUDY, N_PARAMETERS, N_LEVELS = "big", 6, 10
AT = "2026-01-01 00:00:00.000000"


def filled(optuna: Any, path: str, n_trials: int) -> None:
    """Make a study with so many finished trials."""
    url = f"sqlite:///{path}"
    optuna.create_study(study_name=STUDY, storage=url, direction="minimize")
    domain = optuna.distributions.distribution_to_json(
        optuna.distributions.IntDistribution(0, N_LEVELS - 1)
    )
    drawn = random.Random(1)
    trials, parameters, values = [], [], []
    for number in range(n_trials):
        trial, levels = number + 1, [drawn.randrange(N_LEVELS) for _ in range(N_PARAMETERS)]
        trials.append((trial, number, 1, "COMPLETE", AT, AT))
        parameters += [(trial, f"p{i}", float(x), domain) for i, x in enumerate(levels)]
        loss = 1.0 + sum((x - 3) ** 2 for x in levels) / 10 + drawn.gauss(0, 0.1)
        values.append((trial, 0, loss, "FINITE"))
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)", trials)
        connection.executemany(
            "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)"
            " VALUES (?, ?, ?, ?)",
            parameters,
        )
        connection.executemany(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?, ?, ?, ?)",
            values,
        )
    connection.close()


def main() -> None:
    """Fill a storage, then time what a person asks of it."""
    path, n_trials = sys.argv[1], int(sys.argv[2])
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found: dict[str, Any] = {"version": optuna.__version__}

    def timed(name: str, act: Callable[[], Any]) -> Any:
        cpu_s, began_s = time.process_time(), time.perf_counter()
        value = act()
        found[name] = {
            "s": time.perf_counter() - began_s, "cpu_s": time.process_time() - cpu_s
        }  # fmt: skip
        return value

    timed("filling", lambda: filled(optuna, path, n_trials))
    study = timed("load", lambda: optuna.load_study(study_name=STUDY, storage=f"sqlite:///{path}"))
    trials = timed("all trials", lambda: study.trials)
    assert len(trials) == n_trials
    timed("best trial", lambda: study.best_trial)
    domains = {
        f"p{i}": optuna.distributions.IntDistribution(0, N_LEVELS - 1) for i in range(N_PARAMETERS)
    }
    timed("ask (TPE)", lambda: study.ask(domains))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    timed(
        "importances",
        lambda: optuna.importance.get_param_importances(study, evaluator=evaluator),
    )
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

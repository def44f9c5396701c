"""Optuna's relational storage on SQLite: trials per second by ask and tell; all it needs of ours.

``PYTHON queue_child.py FILE --processes N --seconds S [--wal]`` prints one line of JSON: the
version, and how many trials all processes told in how many seconds. A trial is four floats by
`RandomSampler`, so that the storage is what is measured. Without ``--wal`` the storage is as Optuna
makes it (rollback journal, every commit waits for the disk); with it, WAL and synchronous NORMAL.
"""

import argparse
import json
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

STUDY = "queue"


def storage(path: str, wal: bool) -> Any:
    """Return Optuna's storage of a file."""
    optuna, sqlalchemy = import_module("optuna"), import_module("sqlalchemy")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def connected(connection: Any, _record: object) -> None:
        if wal:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", connected)
    kwargs = {"connect_args": {"timeout": 120}}
    return optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=kwargs)


def work(path: str, wal: bool, seconds: float) -> None:
    """Wait for a line, then ask and tell; print how many, and when it began and ended."""
    optuna = import_module("optuna")
    sampler = optuna.samplers.RandomSampler()
    study = optuna.load_study(study_name=STUDY, storage=storage(path, wal), sampler=sampler)
    domains = {f"p{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(4)}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    began_s, n_told = time.monotonic(), 0
    while time.monotonic() - began_s < seconds:
        study.tell(study.ask(domains), 1.0)
        n_told += 1
    sys.stdout.write(json.dumps([n_told, began_s, time.monotonic()]) + "\n")


def main() -> None:
    """Make the study, start the processes, add up."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("path")
    options.add_argument("--processes", type=int, default=0, help="0 is one of the workers")
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--wal", action="store_true")
    asked = options.parse_args()
    if not asked.processes:
        work(asked.path, asked.wal, asked.seconds)
        return
    try:
        optuna = import_module("optuna")
    except ImportError as error:
        sys.stdout.write(json.dumps({"missing": str(error)}) + "\n")
        return
    optuna.create_study(study_name=STUDY, storage=storage(asked.path, asked.wal))
    command = [sys.executable, __file__, asked.path, "--seconds", str(asked.seconds)]
    workers = [
        subprocess.Popen(
            [*command, *(["--wal"] if asked.wal else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(asked.processes)
    ]  # fmt: skip
    pipes = [(one.stdin, one.stdout) for one in workers]
    for _, told in pipes:
        assert told is not None
        told.readline()
    for asks, _ in pipes:
        assert asks is not None
        asks.write("go\n")
        asks.flush()
    ends = [json.loads(told.readline()) for _, told in pipes if told is not None]
    for one in workers:
        one.wait()
    counts, began, ended = zip(*ends, strict=True)
    result = {"version": optuna.__version__, "n": sum(counts), "s": max(ended) - min(began)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

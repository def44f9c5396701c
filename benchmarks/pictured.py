"""Experiments in every state that a page may have to show, for the pictures of the pages."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assistant import RunState, Session
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.ports import Store
from assistant.core.sla import AutoSteering
from assistant.executors import make_executor
from assistant.store.event_store import SqliteStore
from benchmarks.ui import table_of
from sim.formats import write_swf
from sim.generators import default_workload

OWN = (
    "overview", "suggestions", "queue", "what-if", "space", "effects", "run", "steering", "report",
)  # fmt: skip
"""Addresses of the pages of an experiment."""
_PROGRAM = """
import json, sys
size, mode, threads = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if mode == "lazy" and size > 60:
    sys.exit("no memory is left for tiles of %d" % size)
print(json.dumps({"time_ms": 900 / size + size / threads + 7 * (mode == "eager"),
                  "memory_mb": 3.5 * size * threads}))
"""


@dataclass(frozen=True)
class State:
    """An experiment in one state.

    Args:
        make: opens it in a store and brings it there; the folder holds its files.
        pages: addresses of the pages worth a look; its first page is seen in a narrow window too.
        starts: whether its runs are started, so that some of them go on while one looks.
    """

    make: Callable[[Store, Path], Session]
    pages: tuple[str, ...] = OWN
    starts: bool = False


def _opened(store: Store, said: Mapping[str, Any], name: str) -> tuple[Session, Callable[[], None]]:
    """Open an experiment, and return it with what runs all that waits."""
    tables = {"seed": 3, "name": name, **said}
    built = build_sweep(check_settings(tables, name))
    session = open_sweep(built, store, name, config_snapshot(tables, ()))
    session.submit_baseline()

    def run_all() -> None:
        with make_executor(built.application, 1) as executor:
            session.run_queued(executor)

    return session, run_all


def _log(store: Store, folder: Path, name: str, **said: Any) -> tuple[Session, Callable[[], None]]:
    path = folder / "cluster.swf"
    if not path.exists():
        write_swf(default_workload(1, 400), path)
    application = {"kind": "scheduling", "log": str(path)}
    return _opened(store, {"runs": 40, "application": application, **said}, name)


def _begun(store: Store, folder: Path) -> Session:
    return _log(store, folder, "just begun")[0]


def _little(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "too little to say")
    session.submit(session.initial_evaluation(2))
    run_all()
    session.initial_evaluation(5)
    return session


def _middle(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "in the middle", goal=300)
    session.submit(session.initial_evaluation(11))
    run_all()
    batch = session.suggest(6)
    space = session.experiment.space
    values = dict(space.values(batch.suggestions[1].configuration))
    name, other = next(
        (parameter.name, level)
        for parameter in space.parameters
        for level in parameter.levels
        if level != values[parameter.name]
        and space.is_allowed(space.from_values({**values, parameter.name: level}))
    )
    session.submit(batch, keep=[0, 1, 2, 4], edits={1: {name: other}})
    run_all()
    best = session.experiment.best
    if best is not None:
        session.rate(best.id, True)
    session.suggest(6)
    return session


def _warned(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "warned", goal=1, strategy={"name": "copper"})
    session.submit(session.initial_evaluation(8))
    run_all()
    while session.experiment.open_warning is None:
        batch = session.suggest(4)
        if session.experiment.open_warning is None:
            session.submit(batch)
            run_all()
    return session


def _used_up(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "budget used up", runs=16)
    session.submit(session.initial_evaluation(15))
    run_all()
    return session


def _finished(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "finished", runs=24)
    session.submit(session.initial_evaluation(14))
    run_all()
    session.submit(session.suggest(6))
    run_all()
    session.finish("good enough for this year")
    return session


def _two(store: Store, folder: Path) -> Session:
    objective = {"minimise": "mean_wait_s", "second": "utilisation", "second_goal": "maximise"}
    session, run_all = _log(store, folder, "two measures", objective=objective)
    session.submit(session.initial_evaluation(14))
    run_all()
    session.suggest(5)
    return session


def _program(
    store: Store, folder: Path, name: str, **said: Any
) -> tuple[Session, Callable[[], None]]:
    path = folder / "tiles.py"
    path.write_text(_PROGRAM)
    command = [sys.executable, str(path), "{size}", "{mode}", "{threads}"]
    baseline = {"size": 8, "mode": "plain", "threads": 1}
    return _opened(
        store,
        {
            "runs": 30,
            "application": {"kind": "command", "command": command, "baseline": baseline},
            "objective": {
                "minimise": "time_ms",
                "constraints": [{"measure": "memory_mb", "at_most": 600}],
            },
            "parameters": [
                {"name": "size", "levels": [8, 16, 32, 64, 128], "unit": "KB"},
                {"name": "mode", "levels": ["plain", "eager", "lazy"]},
                {"name": "threads", "levels": [1, 2, 4, 8]},
            ],
            **said,
        },
        name,
    )


def _own(store: Store, folder: Path) -> Session:
    session, run_all = _program(store, folder, "tiles of my program", deadline="2h")
    session.submit(session.initial_evaluation(13))
    run_all()
    session.suggest(5)
    return session


def _failed(store: Store, folder: Path) -> Session:
    session, run_all = _program(store, folder, "with failed runs")
    for size in (64, 128):
        session.include({"size": size, "mode": "lazy", "threads": 2}, "is it really too large?")
    run_all()
    return session


def _paused(store: Store, folder: Path) -> Session:
    session, run_all = _program(store, folder, "paused")
    session.submit(session.initial_evaluation(4))
    run_all()
    session.submit(session.suggest(6))
    waiting = session.experiment.runs_in(RunState.QUEUED)
    session.run_first(waiting[4].id)
    session.hold(waiting[1].id)
    return session


def _running(store: Store, _folder: Path) -> Session:
    wait = ["sh", "-c", 'sleep "$1"', "sh", "{seconds}"]
    session, run_all = _opened(
        store,
        {
            "runs": 40,
            "deadline": "1h",
            "workers": 2,
            "application": {"kind": "command", "command": wait},
            "objective": {"minimise": "wall_s"},
            "parameters": [
                {"name": "seconds", "levels": [0.1, 0.2, 0.3, 600, 700, 800, 900]},
            ],
        },
        "running",
    )
    for seconds in (0.1, 0.2, 0.3):
        session.include({"seconds": seconds}, "quick ones")
    session.cancel(session.experiment.runs_in(RunState.QUEUED)[0].id, "not needed")
    run_all()
    for seconds in (600, 700, 800, 900):
        session.include({"seconds": seconds}, "slow ones")
    return session


def _itself(store: Store, folder: Path) -> Session:
    session, run_all = _log(store, folder, "steers itself")
    session.submit(session.initial_evaluation(6))
    run_all()
    session.set_auto_steering(AutoSteering(4, 4, "wait"), "from its opening on")
    return session


def _many(store: Store, folder: Path) -> Session:
    path = folder / "many.csv"
    if not path.exists():
        table_of(path, (22, 20, 10))
    application = {"kind": "lookup", "table": str(path)}
    session, run_all = _opened(store, {"runs": 600, "application": application}, "many runs")
    session.submit(session.initial_evaluation(200))
    run_all()
    session.submit(session.suggest(40))
    run_all()
    session.submit(session.suggest(60))
    return session


STATES: Mapping[str, State] = {
    "just-begun": State(_begun),
    "too-little": State(_little),
    "middle": State(_middle),
    "warned": State(_warned, ("overview", "suggestions", "what-if", "steering", "report")),
    "paused": State(_paused, ("overview", "queue", "suggestions", "run")),
    "running": State(_running, ("overview", "queue", "suggestions", "run"), starts=True),
    "itself": State(_itself, ("overview", "suggestions", "steering")),
    "used-up": State(_used_up, ("overview", "suggestions", "what-if", "steering")),
    "finished": State(_finished),
    "two-measures": State(_two, ("overview", "suggestions", "space", "run", "report")),
    "own-program": State(_own),
    "failed": State(_failed, ("overview", "space", "effects", "run", "report")),
    "many-runs": State(_many),
}


def stored(folder: Path, names: tuple[str, ...]) -> tuple[Path, dict[str, str]]:
    """Make experiments in a store of a folder. Returns the store and their ids by state."""
    path = folder / "store.db"
    store = SqliteStore(path)
    ids = {}
    for name in names:
        ids[name] = STATES[name].make(store, folder).id
    store.close()
    return path, ids

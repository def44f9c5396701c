"""A program that still runs: what it has measured so far is told, and it can be ended early."""

import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from assistant import Objective, SingleMeasure
from assistant.applications.measures import (
    KEPT_BYTES,
    REPORT_S,
    JsonFile,
    JsonOutput,
    MeasureFollower,
    Patterns,
)
from assistant.core.errors import RunError, RunStoppedError
from assistant.core.objective import Measure
from assistant.core.ports import MonitoredApplication
from tests.assistant.programs import COST, Listener, alive, linux, python

WAITS = """
import json, os, sys, time
def await_(path):
    end = time.monotonic() + 300
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
"""
LINES = """
print('begun')
print(json.dumps({'cost': 3, 'loss': {'train': 2.5}, 'note': 'x'}), flush=True)
await_(sys.argv[1])
print(json.dumps({'cost': 1}))
"""
MATCHES = """
print('cost=3;', flush=True, file=sys.{stream})
await_(sys.argv[1])
print('cost=1;', file=sys.{stream})
"""
REPLACED = """
def say(n):
    open('new', 'w').write(json.dumps({'cost': n}))
    os.replace('new', 'told.json')
say(3)
await_(sys.argv[1])
say(1)
"""
REWRITTEN = """
open('told.json', 'w').write('3')
await_(sys.argv[1])
open('told.json', 'w').write('1')
"""
MATCH = r"cost=(?P<cost>\d+);"
PROGRAMS = {
    "lines": (LINES, None, {"cost": 3.0, "loss.train": 2.5}),
    "patterns": (MATCHES.format(stream="stdout"), Patterns((MATCH,)), {"cost": 3.0}),
    "stderr": (MATCHES.format(stream="stderr"), Patterns((MATCH,), "stderr"), {"cost": 3.0}),
    "a file": (REPLACED, JsonFile("told.json"), {"cost": 3.0}),
    "a file with a number": (REWRITTEN, JsonFile("told.json"), {"cost": 3.0}),
}


@pytest.mark.parametrize(("code", "reading", "first"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_it_has_measured_so_far_is_told(
    code: str, reading: object, first: Mapping[str, Measure], tmp_path: Path
) -> None:
    (tmp_path / "told.json").write_text('{"cost": 77}')  # of an earlier run
    seen = tmp_path / "seen"

    def then(_: Mapping[str, Measure]) -> bool:
        seen.touch()  # the program goes on once it was heard
        return False

    command = python(WAITS + code, str(seen), reading=reading, cwd=str(tmp_path))
    assert isinstance(command, MonitoredApplication)
    listener = Listener(then)
    assert command.evaluate_watched({"x": 1}, 0, None, listener) == {"cost": 1.0}
    assert listener.told[0] == first
    assert all(told in ({"cost": 1.0}, first) for told in listener.told)


UNREADABLE = (
    "print('{\"cost\": '); print('{\"cost\": NaN, \"cost\": 2}'); print('{' * 5000)\n"
    "print(json.dumps({'cost': float('nan'), 'x' * 9: 'text'}), flush=True)\n"
    "await_(sys.argv[1])\nprint(5)"
)


def test_reports_never_change_the_result(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    listener = Listener(lambda _: bool(seen.touch()))
    command = python(WAITS + UNREADABLE, str(seen))
    assert command.evaluate_watched({"x": 1}, 0, None, listener) == {"cost": 5.0}
    assert listener.told == [{"cost": None}]


@linux
@pytest.mark.parametrize("stubborn", [False, True], ids=["heeds TERM", "ignores TERM"])
def test_it_can_be_ended_early(stubborn: bool, tmp_path: Path) -> None:
    mark, ended = uuid4().hex, tmp_path / "ended"
    deed = "signal.SIG_IGN" if stubborn else "bye"
    code = (
        "import os, signal, sys, time\n"
        f"def bye(*_):\n    open({str(ended)!r}, 'w'); sys.exit(0)\n"
        "if os.fork() == 0: time.sleep(600)\n"
        f"signal.signal(signal.SIGTERM, {deed})\n"
        "print('{\"cost\": 1}', flush=True)\ntime.sleep(600)"
    )
    listener = Listener(lambda _: True)
    started_s = time.monotonic()
    command = python(code, mark, grace_s=0.2 if stubborn else 300.0)
    with pytest.raises(RunStoppedError, match="the run was stopped early on request"):
        command.evaluate_watched({"x": 1}, 0, None, listener)
    assert time.monotonic() - started_s < 240.0
    assert listener.told == [{"cost": 1.0}]
    assert ended.exists() != stubborn
    assert not alive(mark)


@pytest.mark.parametrize(("own_s", "limit_s"), [(0.3, None), (None, 0.3), (60.0, 0.3)])
def test_the_tighter_limit_holds_for_a_run_that_is_watched(
    own_s: float | None, limit_s: float | None
) -> None:
    command = python("import time; time.sleep(600)", limit_s=own_s)
    with pytest.raises(RunError, match=r"stopped at the limit of 0\.3 s"):
        command.evaluate_watched({"x": 1}, 0, limit_s, Listener(lambda _: True))


class Times:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_few_reports_a_second_at_most() -> None:
    clock, listener = Times(), Listener(lambda _: False)
    following = MeasureFollower(JsonOutput(), COST, listener, clock=clock)
    for i in range(1000):
        following.on_output("stdout", b'{"cost": %d}\n' % i)
        clock.now_s += REPORT_S / 100
        following.wants_end()
    assert 8 <= len(listener.told) <= 11
    following.on_output("stdout", b'{"cost": 7}\n{"cost": 8')
    clock.now_s += REPORT_S
    following.wants_end()
    assert listener.told[-1] == {"cost": 7.0}  # a line counts once it is complete
    following.on_output("stdout", b"}\n")
    clock.now_s += REPORT_S
    following.wants_end()
    assert listener.told[-1] == {"cost": 8.0}


def test_a_line_of_names_and_numbers_counts_if_it_has_the_objective() -> None:
    clock, listener = Times(), Listener(lambda _: False)
    following = MeasureFollower(JsonOutput(), COST, listener, clock=clock)
    lines = (b"epoch: 3\n", b"epoch: 3, cost: 7\n", b"cost: 6 so far\n", b"cost: 1, cost: 2\n")
    for line in lines:
        following.on_output("stdout", line)
        following.wants_end()
        clock.now_s += 2 * REPORT_S
    assert listener.told == [{"epoch": 3.0, "cost": 7.0}]


def test_a_flood_is_not_kept() -> None:
    clock, listener = Times(), Listener(lambda _: False)
    following = MeasureFollower(JsonOutput(), COST, listener, clock=clock)
    for _ in range(200):
        following.on_output("stdout", b"y" * 10_000)
    assert len(following._fresh) <= 2 * KEPT_BYTES + 10_000
    following.on_output("stdout", b'\n{"cost": 2}\n')
    following.wants_end()
    assert listener.told == [{"cost": 2.0}]


@pytest.mark.parametrize("reading", [None, JsonOutput("whole")], ids=str)
def test_where_there_are_no_lines_nothing_is_told(reading: JsonOutput | None) -> None:
    listener = Listener(lambda _: False)
    following = MeasureFollower(reading, Objective(SingleMeasure("wall_s")), listener)
    following.on_output("stdout", b'{"cost": 2}\n')
    assert not following.wants_end()
    assert listener.told == []

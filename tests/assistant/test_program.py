"""Programs of one's own: values stay single arguments, and nothing that a program does gets out."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assistant import Constraint, Objective, Rmse, SingleMeasure
from assistant.applications import child_process
from assistant.applications.child_process import _SessionGuard
from assistant.applications.measures import JsonFile, JsonOutput, Patterns
from assistant.applications.program import Program
from assistant.core.errors import ApplicationError, AssistantError, RunError
from assistant.core.ports import ExecutionRequest
from assistant.executors import make_executor
from strategies import Level, Parameter, ParameterSpace, SpaceError

SPACE = ParameterSpace((Parameter("x", (1, 2)),))
COST = Objective(SingleMeasure("cost"))
PATIENCE_S = 120.0


def python(code: str, *arguments: str, **more: object) -> Program:
    """A command that runs Python text; braces in the text are the text's own."""
    escaped = code.replace("{", "{{").replace("}", "}}")
    space = more.pop("space", SPACE)
    return Program(
        (sys.executable, "-I", "-S", "-c", escaped, *(arguments or ("{x}",))),
        **{"space": space, "objective": COST, **more},  # type: ignore[arg-type]
    )


def failure(command: Program, **values: Level) -> str:
    with pytest.raises(RunError) as caught:
        command.evaluate(values or {"x": 1}, 7)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def until(happens: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happens():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

NASTY = (
    "; rm -rf canary", "$(touch canary)", "`touch canary`", "| touch canary", "a b  c", "--help",
    "-o/etc/x", "it's", '"quoted"', "{x}", "{0.__class__}", "{{", "*", "~", "\\", "\u00e9\u03c0",
    "x'); DROP TABLE task;--", "../../x", "&& touch canary",
)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["12.5", "cost: 12.5", "cost=12.5, error=.1;", "error: 1e-1 | cost = +12.5", '{"cost": 12.5}'],
)
def test_the_last_line_is_a_number_names_with_numbers_or_json(line: str) -> None:
    assert python(f"print('took: 3 s'); print({line!r})").evaluate({"x": 1}, 0)["cost"] == 12.5


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_argument_byte_for_byte(value: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    code = (
        "import json,sys,os; v=[sys.argv[2:], os.environ['HINT'], sys.stdin.read()]; "
        "open(sys.argv[1],'w').write(json.dumps(v)); print(1)"
    )
    command = python(
        code, str(told), "{text}", "--text={text}",
        space=ParameterSpace((Parameter("text", (value,)),)),
        env={"HINT": "<{text}>"}, stdin="{text}\n", cwd=str(tmp_path),
    )  # fmt: skip
    assert command.evaluate({"text": value}, 0) == {"cost": 1.0}
    assert json.loads(told.read_text()) == [
        [value, f"--text={value}"], f"<{value}>", f"{value}\n",
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["told.json"]


def test_the_seed_and_levels_are_written_as_in_the_file() -> None:
    space = ParameterSpace((Parameter("rate", (0.1, 1e-05)), Parameter("fast", (True, False))))
    command = python(
        "import sys, json; print(json.dumps({'cost': int(sys.argv[1]), 'n': len(sys.argv)})); "
        "assert sys.argv[2:] == ['1e-05', 'true'], sys.argv",
        "{seed}", "{rate}", "{fast}", space=space,
    )  # fmt: skip
    assert command.evaluate({"rate": 1e-05, "fast": True}, 4_000_000_000)["cost"] == 4e9


@linux
@pytest.mark.parametrize("mode", ["plain", "ignores TERM", "own group", "leaves it behind"])
def test_the_limit_and_the_end_stop_grandchildren(mode: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, signal, subprocess, sys, time
mode = {mode!r}
if mode == "ignores TERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"],
                         process_group=0 if mode == "own group" else None)
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print(1, flush=True)
if mode != "leaves it behind":
    time.sleep(600)
"""
    ends = mode == "leaves it behind"
    for limit_s in (600.0,) if ends else (1.0, 10.0, 100.0):  # until it comes so far
        command = python(code, limit_s=limit_s, grace_s=0.2)
        started_s = time.monotonic()
        if ends:
            assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
        else:
            assert "stopped at the limit of " in failure(command)
        assert time.monotonic() - started_s < 300
        if pids.exists() and pids.read_text():
            break
    first, second = map(int, pids.read_text().split())
    for pid in (first, second):
        assert until(lambda pid=pid: not runs(pid)), mode  # type: ignore[misc]


@linux
def test_a_killed_copperline_leaves_nothing_running(tmp_path: Path) -> None:
    pids, scratch = tmp_path / "pids", tmp_path / "scratch"
    scratch.mkdir()
    script = tmp_path / "steer.py"
    script.write_text(f"""
from assistant import Objective, SingleMeasure
from assistant.applications import Program
from strategies import Parameter, ParameterSpace
Program(
    ("sh", "-c", 'sleep 600 & echo "$$ $!" > "$1"; wait', "sh", {str(pids)!r}, "{{scratch}}"),
    ParameterSpace((Parameter("x", (1,)),)), Objective(SingleMeasure("cost")), unused=True,
).evaluate({{"x": 1}}, 0)
""")
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "TMPDIR": str(scratch)}
    steering = subprocess.Popen([sys.executable, str(script)], env=environment)
    try:
        assert until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        assert any(scratch.iterdir())
    finally:
        steering.send_signal(signal.SIGKILL)
        steering.wait()
    for pid in map(int, pids.read_text().split()):
        assert until(lambda pid=pid: not runs(pid))  # type: ignore[misc]
    assert until(lambda: not any(scratch.iterdir()))


@linux
def test_a_child_is_watched_before_its_number_is_known() -> None:
    guard = _SessionGuard(None)
    child = subprocess.Popen(
        ["sleep", "600"], env={**os.environ, "COPPERLINE_RUN": guard.run}, start_new_session=True
    )
    assert guard._process.stdin is not None
    guard._process.stdin.close()  # as if this process had died between the two
    assert child.wait(PATIENCE_S) == -signal.SIGTERM
    assert guard._process.wait(PATIENCE_S) is not None


@linux
def test_cancelling_a_pool_stops_the_program(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = Program(
        ("sh", "-c", 'sleep 600 & echo "$$ $!" > "$1"; wait', "sh", str(pids), "{x}"), SPACE, COST
    )
    with make_executor(command, 2) as executor:
        executor.submit(ExecutionRequest(1, {"x": 1}, 0))
        assert until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        executor.cancel()
        for pid in map(int, pids.read_text().split()):
            assert until(lambda pid=pid: not runs(pid))  # type: ignore[misc]


@linux
def test_ctrl_c_stops_the_program(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, signal, time
open({str(pids)!r}, "w").write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGINT)
time.sleep(600)
"""
    with pytest.raises(KeyboardInterrupt):
        python(code).evaluate({"x": 1}, 0)
    assert until(lambda: not runs(int(pids.read_text())))


@linux
def test_ctrl_c_in_the_start_of_a_program_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    start = subprocess.Popen

    def interrupted(argv: tuple[str, ...], **how: Any) -> subprocess.Popen[bytes]:
        child = start(argv, **how)
        if "COPPERLINE_RUN" not in how["env"]:  # the guard
            return child
        assert until(lambda: pids.exists() and pids.read_text())
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        child.returncode = 0  # nobody has it: it does not warn that it still runs
        raise KeyboardInterrupt

    monkeypatch.setattr("assistant.applications.child_process.subprocess.Popen", interrupted)
    code = f"""
import os, time
open({str(pids)!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
    with pytest.raises(KeyboardInterrupt):
        python(code).evaluate({"x": 1}, 0)
    assert until(lambda: not runs(int(pids.read_text())))


def test_output_that_is_there_is_read_however_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "DRAIN_S", 0.0)
    with subprocess.Popen(["echo", "1"], stdout=subprocess.PIPE, start_new_session=True) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with child_process._StreamReader(child) as reader:
            assert reader.listen(None) is None
            reader.drain()
        assert reader.stdout.text == "1\n"


def test_a_flood_is_bounded_and_its_end_is_kept() -> None:
    flood = "import sys; [sys.stdout.write('y' * 65536 + '\\n') for _ in range(200)]; "
    assert python(flood + "print(3.5)").evaluate({"x": 1}, 0) == {"cost": 3.5}
    assert "at most" in failure(python(flood, reading=JsonOutput("whole")))
    assert "longer than" in failure(python("print('y' * 3_000_000)"))
    said = failure(python("import sys; sys.stderr.write('no' * 3_000_000); sys.exit(3)"))
    assert "exit code 3" in said
    assert len(said) < 1000


def test_bytes_that_are_no_text_do_no_harm() -> None:
    noise = "import sys; sys.stdout.buffer.write(bytes(range(128, 256)) + b'\\n\\x1b[31m\\n'); "
    assert python(noise + "print(2)").evaluate({"x": 1}, 0) == {"cost": 2.0}
    said = failure(python("import sys; sys.stderr.buffer.write(b'\\xff\\x1b[31mbad'); sys.exit(1)"))
    assert "bad" in said
    assert "\x1b" not in said


FAILURES: dict[str, tuple[str, str]] = {
    "exit code": ("import sys; sys.exit('it broke')", "exit code 1; its last output: it broke"),
    "signal": ("import os; os.kill(os.getpid(), 11)", "SIGSEGV (signal 11)"),
    "nothing": ("", "printed nothing"),
    "words": ("print('done')", "neither a number nor JSON nor NAME: NUMBER: 'done'"),
    "unit": ("print('cost: 3 s')", "nor NAME: NUMBER: 'cost: 3 s'"),
    "half of JSON": ("print('{')", "not JSON"),
    "comma": ("print('1,5')", "neither a number"),
    "NaN": ("print('NaN')", "gave nan"),
    "infinite": ("print('1e999')", "gave inf"),
    "huge": ("print('9' * 400)", "gave inf"),
    "digits": ("print('9' * 9000)", "cannot be read as JSON"),
    "deep": ("print('[' * 100_000)", "cannot be read as JSON"),
    "truth": ("print('true')", "True"),
    "null": ("print('null')", "nothing (None)"),
    "text": ("print('{\"cost\": \"1,5\"}')", "the text '1,5'"),
    "NaN inside": ("print('{\"cost\": NaN}')", "gave nan as the measure 'cost'"),
    "another name": ("print('{\"cots\": 1}')", "no measure 'cost'; it gave: cots"),
    "named twice": ("print('cost=1 cost=2')", "names 'cost' twice"),
    "NaN by name": ("print('cost: nan')", "gave nan as the measure 'cost'"),
    "twice": ('print(\'{"cost": 1, "cost": 2}\')', "occurs twice"),
    "too many": ("import json; print(json.dumps({str(i): i for i in range(2000)} | {'cost': 1}))",
                 "at most 1,000"),
}  # fmt: skip


@pytest.mark.parametrize("code,words", FAILURES.values(), ids=FAILURES)  # noqa: PT006
def test_a_failed_run_says_why(code: str, words: str) -> None:
    assert words in failure(python(code))


def test_a_mapping_keeps_numbers_and_passes_over_the_rest() -> None:
    printed = {"cost": 1, "wait": {"mean": 2.5}, "series": [1, 2], "version": "1.2", "odd": None}
    measures = python(f"print({json.dumps(json.dumps(printed))})").evaluate({"x": 1}, 0)
    assert measures == {"cost": 1.0, "wait.mean": 2.5, "series": (1.0, 2.0), "odd": None}


def test_a_series_can_be_compared_with_a_reference() -> None:
    command = python("print([1, 2.5])", objective=Objective(Rmse("level", (1.0, 2.5))))
    measures = command.evaluate({"x": 1}, 0)
    assert measures == {"level": (1.0, 2.5)}
    assert command.objective.assess(measures).value == 0.0


def test_the_time_of_a_run_is_a_measure_if_it_is_asked_for() -> None:
    command = python("", objective=Objective(SingleMeasure("wall_s")))
    assert 0 < (command.evaluate({"x": 1}, 0)["wall_s"] or 0) < PATIENCE_S  # type: ignore[operator]
    both = Objective(SingleMeasure("cost"), constraints=(Constraint("wall_s", at_most=60.0),))
    assert set(python("print(1)", objective=both).evaluate({"x": 1}, 0)) == {"cost", "wall_s"}


def test_patterns_take_the_last_match() -> None:
    code = "import sys; print('cost: 9\\nn=4\\ncost: 7.5'); print('cost: 1', file=sys.stderr)"
    patterns = Patterns((r"^cost: (?P<cost>\S+)$", r"n=(?P<n>\d+)( of (?P<m>\d+))?"))
    command = python(code, reading=patterns)
    assert command.evaluate({"x": 1}, 0) == {"cost": 7.5, "n": 4.0, "m": None}
    odd = Patterns((r"[[a](?P<n>\d)",))  # of which Python warns that it may change its meaning
    assert odd.of("x[3") == {"n": 3.0}
    from_stderr = Patterns((r"cost: (?P<cost>\S+)",), "stderr")
    assert python(code, reading=from_stderr).evaluate({"x": 1}, 0) == {"cost": 1.0}
    said = failure(python("print('all well')", reading=patterns))
    assert "matches" in said
    assert "all well" in said
    for number in ("1,5", "nan", "inf", "1_000", "0x1f"):
        assert number in failure(python(f"print('cost: {number}\\nn=4')", reading=patterns))


def test_a_file_counts_only_if_this_run_wrote_it(tmp_path: Path) -> None:
    write = "import sys; open(sys.argv[2], 'w').write('{\"cost\": 4}')"
    path = tmp_path / "out.json"
    command = python(write, "{x}", str(path), reading=JsonFile(str(path)))
    for _ in range(5):
        assert command.evaluate({"x": 1}, 0) == {"cost": 4.0}
    assert "was not written by this run" in failure(replace(command, argv=(sys.executable, "-c",
                                                                           "", "{x}")))  # fmt: skip
    path.unlink()
    assert "did not write" in failure(replace(command, argv=(sys.executable, "-c", "", "{x}")))
    os.mkfifo(path)
    code = f"import os; p={str(path)!r}; os.unlink(p); os.mkfifo(p)"
    assert "a regular file" in failure(replace(command, argv=(sys.executable, "-c", code, "{x}")))


def test_a_scratch_folder_is_the_runs_own_and_is_removed(tmp_path: Path) -> None:
    write = (
        "import os, sys; assert not os.listdir(sys.argv[2]); "
        "open(sys.argv[2] + '/o.json', 'w').write('{\"cost\": 4}'); "
        f"open({str(tmp_path / 'where')!r}, 'w').write(sys.argv[2])"
    )
    command = python(write, "{x}", "{scratch}", reading=JsonFile("{scratch}/o.json"))
    assert command.apart
    assert command.evaluate({"x": 1}, 0) == {"cost": 4.0}
    assert not Path((tmp_path / "where").read_text()).exists()


def test_whether_runs_write_the_same_file() -> None:
    assert not python("", reading=JsonFile("out.json")).apart
    assert python("", reading=JsonFile("out-{x}.json")).apart
    assert python("", reading=JsonFile("out-{seed}.json")).apart


def test_it_survives_another_process(tmp_path: Path) -> None:
    command = python("print(2)", reading=Patterns((r"(?P<cost>\d)",)), cwd=str(tmp_path))
    again = pickle.loads(pickle.dumps(command))
    assert again == command
    assert again.evaluate({"x": 1}, 0) == {"cost": 2.0}


def test_a_program_that_vanishes_or_is_no_program_is_a_failed_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("plain words\n")
    program.chmod(0o755)
    command = Program(("./program", "{x}"), SPACE, COST, cwd=str(tmp_path))
    assert "could not be started" in failure(command)
    program.unlink()
    assert "could not be started" in failure(command)


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no program": ({"argv": ()}, "at least the name"),
    "missing on the PATH": ({"argv": ("no-such-program-x", "{x}")}, "no-such-program-x"),
    "missing in the folder": ({"argv": ("./nowhere", "{x}")}, "./nowhere"),
    "forgotten ./": ({"argv": ("here", "{x}")}, "did you mean './here'"),
    "not executable": ({"argv": ("./here", "{x}")}, "chmod +x"),
    "a folder": ({"argv": ("./folder", "{x}")}, "no program './folder'"),
    "unknown placeholder": ({"argv": ("sh", "{y}", "{x}")}, "'{y}', which is not a parameter"),
    "near placeholder": ({"argv": ("sh", "{sed}", "{x}")}, "did you mean '{seed}'"),
    "attribute": ({"argv": ("sh", "{x.__class__}")}, "{x.__class__}"),
    "lone brace": ({"argv": ("sh", "{x")}, "a literal brace twice"),
    "NUL": ({"argv": ("sh", "\0{x}")}, "NUL"),
    "unused": ({"argv": ("sh",)}, "has no effect"),
    "only in the file": ({"argv": ("sh",), "reading": JsonFile("{x}")}, "has no effect"),
    "shell text": ({"argv": ("/bin/sh", "-c", "run {x}")}, "which a shell runs as code"),
    "program by seed": ({"argv": ("{seed}", "{x}")}, "cannot depend"),
    "limit": ({"limit_s": 0.0}, "above 0 s"),
    "folder": ({"cwd": "/nowhere/at/all"}, "/nowhere/at/all"),
    "environment": ({"env": {"A=B": "1"}}, "A=B"),
    "baseline": ({"baseline": {"x": 9}}, "9"),
    "half of today": ({"baseline": {}}, "x"),
    "measure": ({"reading": Patterns(("(?P<time>.)",))}, "no pattern names"),
    "reserved": (
        {"space": ParameterSpace((Parameter("seed", (1,)),)), "argv": ("sh", "{seed}")},
        "cannot have the name 'seed'",
    ),
    "one of several programs": (
        {"space": ParameterSpace((Parameter("x", ("sh", "no-such-x")),)), "argv": ("{x}",)},
        "no-such-x",
    ),
}


@pytest.mark.parametrize("changes,words", REFUSED.values(), ids=REFUSED)  # noqa: PT006
def test_what_cannot_be_run_is_refused_when_it_is_built(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    good: dict[str, object] = {
        "argv": ("sh", "{x}"), "space": SPACE, "objective": COST, "cwd": str(tmp_path),
    }  # fmt: skip
    Program(**good)  # type: ignore[arg-type]
    with pytest.raises((AssistantError, SpaceError)) as caught:
        Program(**{**good, **changes})  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "patterns,words",  # noqa: PT006
    [((), "at least one"), (("(?P<a>",), "not a regular"), ((".",), "names no measure"),
     (("(?P<a>.)", "(?P<a>x)"), "two patterns")],
)  # fmt: skip
def test_a_bad_pattern_is_refused(patterns: tuple[str, ...], words: str) -> None:
    with pytest.raises(ApplicationError, match=words):
        Patterns(patterns)


def test_an_unused_parameter_may_be_allowed() -> None:
    assert Program(("sh",), SPACE, COST, unused=True).space == SPACE


@pytest.mark.parametrize("pattern", [r"^(?P<cost>(a+)+)$", r"(?P<cost>(.*a){12})b"])
def test_a_pattern_that_would_backtrack_for_ever_is_matched_at_once(pattern: str) -> None:
    command = python("print('a' * 5000 + '!')", reading=Patterns((pattern,)), limit_s=PATIENCE_S)
    started_s = time.monotonic()
    assert "nothing in stdout matches" in failure(command)
    assert time.monotonic() - started_s < PATIENCE_S / 2


def test_matching_ends_at_the_limit_of_the_run() -> None:
    every_match_reads_to_the_end = Patterns((r"a(?P<v>1)*[^c]*c|a",))
    started_s = time.monotonic()
    with pytest.raises(RunError, match=r"matching 'a.*' in 1,000,000 bytes of stdout was stopped"):
        every_match_reads_to_the_end.of("a" * 1_000_000, 0.2)
    assert every_match_reads_to_the_end.matches("a" * 1_000_000, 0.2) == {}
    assert time.monotonic() - started_s < PATIENCE_S / 2


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?<=cost: )(?P<v>\d+)", r"\(\?<="),
        (r"(?P<v>\d+)(?= s)", r"\(\?="),
        (r"(?P<v>a)\1", r"\\1"),
        (r"(?P<v>\d++)", r"\+\+"),
    ],
)
def test_a_pattern_that_needs_backtracking_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(
        ApplicationError, match=rf"bounded time \(.*{reason}.*outside of \(\?P<name"
    ):
        Patterns((pattern,))


def test_a_pattern_of_many_steps_is_refused() -> None:
    with pytest.raises(ApplicationError, match=r"has \d,\d{3} steps when compiled; at most 2,000"):
        Patterns((r"(?P<v>\S{1,300})",))


def test_a_program_gets_nothing_of_an_inactive_parameter() -> None:
    space = ParameterSpace(
        (
            Parameter("opt.kind", ("sgd", "adam")),
            Parameter("momentum", (0.5, 0.9), when="`opt.kind` == 'sgd'"),
            Parameter("beta-1", (0.8, 0.9), when="`opt.kind` == 'adam'"),
        )
    )
    code = (
        "import os, sys; text = sys.stdin.read(); kind = sys.argv[2];"
        " own = 'momentum 0.9\\n' * (kind == 'sgd');"
        " assert text == f'kind {{kind}}\\n{{own}}end\\n';"
        " print(len(sys.argv[1:]) + float(os.environ.get('MOMENTUM', 0)))"
    )
    program = Program(
        (sys.executable, "-c", code, "--kind", "{opt.kind}", "--momentum", "{momentum}",
         "--beta={beta-1}", "-v", "m{momentum}", "--x=1", "{beta-1}"),
        space, Objective(SingleMeasure("words")), env={"MOMENTUM": "{momentum}"},
        stdin="kind {opt.kind}\nmomentum {momentum}\nend\n",
    )  # fmt: skip
    sgd = {"opt.kind": "sgd", "momentum": 0.9}
    adam = {"opt.kind": "adam", "beta-1": 0.8}
    assert program.command_line(sgd, 0)[3:] == (
        "--kind", "sgd", "--momentum", "0.9", "-v", "m0.9", "--x=1",
    )  # fmt: skip
    assert program.command_line(adam, 0)[3:] == (
        "--kind", "adam", "--beta=0.8", "-v", "--x=1", "0.8",
    )  # fmt: skip
    assert program.evaluate(adam, 0)["words"] == 6
    assert program.evaluate(sgd, 0)["words"] == 7.9
    with pytest.raises(ApplicationError, match=r"contains '\{momentum\}', a parameter with a cond"):
        replace(program, argv=("{momentum}", "{beta-1}", "{opt.kind}"))

"""*Try one run*: a process of its own that is looked in on, and ended with all that it started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.ui.jobs import CommandExit
from assistant.ui.pages import new
from assistant.ui.pages.new import DryRunJob, DryRunJobs, DryRunResult
from tests.ui.screens import until

pytestmark = pytest.mark.slow


@pytest.fixture
def attempts() -> Iterator[list[DryRunJob]]:
    made: list[DryRunJob] = []
    yield made
    for one in made:
        one.stop()
        one.result()


def sweep(folder: Path, script: str, name: str = "p.sh") -> str:
    (folder / name).write_text(script)
    return (
        f'[application]\ncommand = ["sh", "{name}", "{{x}}"]\ncwd = "{folder}"\n'
        '[objective]\nminimise = "m"\n[[parameters]]\nname = "x"\nlevels = [1, 2]\n'
    )


def result_of(attempt: DryRunJob) -> DryRunResult:
    until(lambda: attempt.is_over)
    found = attempt.result()
    assert found is not None
    return found


def test_a_run_that_works_out_and_one_that_fails(
    tmp_path: Path, attempts: list[DryRunJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('a module of the folder here')\n")
    monkeypatch.chdir(tmp_path)
    attempts += [
        DryRunJob(sweep(tmp_path, "echo $1", "a.sh")),
        DryRunJob(sweep(tmp_path, "echo why >&2; exit 3", "b.sh")),
    ]
    good, bad = (result_of(one) for one in attempts)
    assert good.state == bad.state == "tried", "and no file here is taken for one of Python's"
    assert good.output is not None
    assert bad.output is not None
    assert (good.output["ok"], good.output["value"]) == (True, 1.0)
    assert (bad.output["ok"], bad.output["failure"]["exit_code"]) == (False, 3)
    assert bad.output["failure"]["stderr"] == ["why"]
    for one in attempts:
        assert not Path(one._folder.name).exists(), "its files are gone"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_one_that_hangs_is_stopped_with_all_that_it_started(
    tmp_path: Path, attempts: list[DryRunJob]
) -> None:
    script = 'trap "" TERM\nsleep 600 &\necho "$$ $!" > pids\nwait\nsleep 600\n'
    attempt = DryRunJob(sweep(tmp_path, script))
    attempts.append(attempt)
    until(
        lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2
    )
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert attempt.result() is None
    assert all(map(is_running, pids))
    assert attempt.seconds > 0
    attempt.stop()
    assert attempt.is_over
    assert attempt.result() == DryRunResult("stopped")
    until(lambda: not any(map(is_running, pids)))


def test_a_refusal_is_a_sentence_and_a_fault_of_ours_is_named_as_one() -> None:
    refused = new._parse_exit(ended(2, "", "warning\ncopperline: there is no setting 'runz'\n"))
    assert refused == DryRunResult("refused", None, "There is no setting 'runz'")
    assert new._parse_exit(ended(1, "", "Traceback\nKeyError: 'x'\n")).state == "broken"
    assert "KeyError" in new._parse_exit(ended(1, "", "Traceback\nKeyError: 'x'\n")).sentence
    assert new._parse_exit(ended(0, "no json", "")).state == "broken"
    assert new._parse_exit(ended(-9, "", "")).sentence.endswith("no error message")


def ended(code: int, out: str, err: str) -> CommandExit:
    return CommandExit(code, out, err, stopped=False)


class Slow:
    """An attempt that goes on until it is stopped."""

    def __init__(self, text: str) -> None:
        self.text, self.is_over = text, False

    def stop(self) -> None:
        self.is_over = True

    def result(self) -> DryRunResult | None:
        return DryRunResult("stopped") if self.is_over else None


def test_trials_are_bounded_and_one_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "DryRunJob", Slow)
    trials = DryRunJobs()
    trials.start("a", "1")
    first = trials.of("a")
    trials.start("a", "2")
    assert first is not None
    assert first.is_over, "a second trial takes the place of the first"
    second = trials.of("a")
    for i in range(new.MOST):
        trials.start(f"b{i}", "x")
    assert second is not None
    assert second.is_over, "the oldest makes room"
    assert trials.of("a") is None
    assert trials.fetch("b0") is None
    left = trials.of("b1")
    trials.close()
    assert left is not None
    assert left.is_over
    assert trials.fetch("b1") is None

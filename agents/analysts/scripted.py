"""Scripted analysts: a Python callable, or a client of the Model Context Protocol, in an episode.

A callable is called with an `AnalystView` and returns `Decision`s: commands of the table that
serves the browser, the command line and the service, each with a reason. Waiting runs are executed
after each call. A client is a program that gets the command line of a ``copperline mcp`` for the
store of its episode, with the role ``steers`` and the episode's budget; its runs are executed while
it goes on. In both cases the event log has a `ToolCalled` before the events of each decision.

What goes wrong ends the episode with one sentence, and the episode counts with what it reached.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np

from agents.analysts.episode import AnalystEpisode
from assistant import AssistantError, BatchSuggested, Executor, Forecast, MissWarning, Run, Session
from assistant.core.commands import (
    Command,
    FinishExperiment,
    HoldRun,
    IncludeRun,
    PrioritiseRun,
    ReleaseRun,
    SubmitBatch,
)
from assistant.core.events import BudgetChanged, Event, RunSubmitted, ToolCalled
from assistant.core.experiment import Experiment
from assistant.session.commands import AnswerWarning, SuggestBatch

COMMANDS = (
    SuggestBatch, SubmitBatch, IncludeRun, PrioritiseRun, HoldRun, ReleaseRun, AnswerWarning,
    FinishExperiment,
)  # fmt: skip
"""Commands that a callable may decide: suggest, submit and edit, reorder, answer, and stop."""

FAULT = "the analyst broke off: "
"""Beginning of the sentence why an episode ended, if the analyst was at fault."""

SERVER, SEED = "{server}", "{seed}"
"""Arguments of a client's command: the command line of its server, and the seed of its episode."""

FUNCTION = "analyst"  # function of a file, if none is named
MOST_IDLE_CALLS = 3  # calls in a row that change nothing
LONGEST_WHY = 500
_LOOK_S = 0.02
_GRACE_S = 5.0
_REPEAT_S = 0.5


@dataclass(frozen=True, slots=True)
class Decision:
    """Command that a callable decides on, with its reason, which is stored with it."""

    command: Command
    why: str


@dataclass(frozen=True, slots=True)
class AnalystView:
    """What a callable sees of its experiment; nothing in it changes the experiment.

    ``rng`` is the random generator of the episode, ``runs_left`` how many runs it may still submit,
    ``refusal`` why decisions of its last call were refused (empty if none was), and ``forecast``
    makes the present forecast when it is called.
    """

    experiment: Experiment
    rng: np.random.Generator
    runs_left: int
    refusal: str
    forecast: Callable[[], Forecast]

    @property
    def parameters(self) -> Mapping[str, tuple[Any, ...]]:
        """Levels of each parameter, by name."""
        return {p.name: tuple(p.levels) for p in self.experiment.space.parameters}

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs so far, by number from 1; ``run.outcome`` is None if it failed or has not ended."""
        return tuple(self.experiment.runs)

    @property
    def best(self) -> Run | None:
        """Best run so far; None without a result."""
        return self.experiment.best

    @property
    def batch(self) -> BatchSuggested | None:
        """The latest batch of suggestions while none of it is submitted, otherwise None."""
        return self.experiment.open_batch

    @property
    def warning(self) -> MissWarning | None:
        """The warning that waits for an answer, or None."""
        return self.experiment.open_warning

    def values(self, run: Any) -> dict[str, Any]:
        """Return the levels of a run or of a suggestion, by name of the parameter."""
        return dict(self.experiment.space.values(run.configuration))

    def has_run(self, values: Mapping[str, Any]) -> bool:
        """Return whether a configuration is submitted already."""
        configuration = self.experiment.space.from_values(values)
        return any(run.configuration == configuration for run in self.experiment.runs)


AnalystCallable = Callable[[AnalystView], Iterable[Decision] | None]
"""A scripted analyst: called until the budget is used up, or it returns no decision."""


@dataclass(frozen=True, slots=True)
class Script:
    """Scripted analyst of a study: its name there, and its callable or its client's command.

    Args:
        name: name in tables and charts.
        kind: ``script`` for a callable, ``mcp`` for a client.
        target: ``module:function``, ``file.py:function`` or ``file.py`` (its function
            ``analyst``); of a client its command line, with an argument ``{server}``.
        folder: folder from which relative paths and modules count, and where a client runs.

    Raises:
        AssistantError: the name or the target cannot be one.
    """

    name: str
    kind: Literal["script", "mcp"]
    target: str
    folder: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 80 or not self.name.isprintable():
            raise AssistantError(
                f"the name of an analyst has 1 to 80 printable characters, not {self.name!r}"
            )
        if self.kind == "mcp" and SERVER not in self.arguments:
            raise AssistantError(
                f"the command of the MCP client '{self.name}' needs the argument {SERVER}, which "
                f"becomes the command line of its server, as in: python client.py {SERVER}"
            )
        if self.kind == "script" and not (self.file or all(self.target.partition(":"))):
            raise AssistantError(
                f"the analyst '{self.name}' needs a function, module:function or "
                f"file.py:function, not '{self.target}'"
            )

    @classmethod
    def named(cls, kind: Literal["script", "mcp"], target: str, folder: str) -> Script:
        """Return an analyst with the name of its function, or of its client's file or program."""
        name = target.rpartition(":")[2] if kind == "script" else ""
        if not name or name.endswith(".py"):
            arguments = _split(target) or [target]
            files = [each for each in arguments if each.endswith(".py")]
            name = Path([*files, arguments[0]][0]).stem
        return cls(name, kind, target, folder)

    @property
    def arguments(self) -> list[str]:
        """Arguments of a client's command; none if its quotes do not match."""
        return _split(self.target)

    @property
    def file(self) -> Path | None:
        """Path of the callable's file; None for a callable of a module."""
        path = self.target if self.target.endswith(".py") else self.target.rpartition(":")[0]
        return Path(self.folder, path) if path.endswith(".py") else None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that are known to define the analyst."""
        if self.kind == "script":
            return () if self.file is None else (self.file,)
        return tuple(path for each in self.arguments if (path := Path(self.folder, each)).is_file())

    def target_from(self, folder: Path) -> str:
        """Return the target with its files relative to another folder."""
        if self.kind == "mcp":
            files = set(self.files)
            return shlex.join(
                _from(folder, path) if (path := Path(self.folder, each)) in files else each
                for each in self.arguments
            )
        if self.file is None:
            return self.target
        function = "" if self.target.endswith(".py") else f":{self.target.rpartition(':')[2]}"
        return _from(folder, self.file) + function

    def load(self) -> AnalystCallable:
        """Return the callable. Raises AssistantError if it cannot be imported, or is none."""
        where, _, function = self.target.rpartition(":")
        if self.target.endswith(".py"):
            function = FUNCTION
        try:
            module = _module(self.file, where, self.folder)
        except Exception as error:
            raise AssistantError(
                f"the analyst '{self.name}' cannot be imported from '{self.target}': {_told(error)}"
            ) from error
        found = getattr(module, function, None)
        if not callable(found):
            raise AssistantError(
                f"the analyst '{self.name}': '{self.file or where}' has no function '{function}'"
            )
        return found  # type: ignore[no-any-return]


def _from(folder: Path, file: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _module(file: Path | None, name: str, folder: str) -> Any:
    if file is None:
        with _first_in_path(folder):
            return importlib.import_module(name)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file '{file}'")
    spec = importlib.util.spec_from_file_location(f"scripted_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"'{file}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # as an import does; dataclasses look there
    with _first_in_path(str(file.parent)):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder or ".")
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder or ".")


def one_line(text: str) -> str:
    """Return a text on one line, of limited length and without control characters."""
    line = " ".join(text.split())[:LONGEST_WHY]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """Limits of a scripted analyst in one episode.

    Args:
        decisions: most decisions; None is 10 for each run of the budget.
        seconds: most seconds in its own code, of a client from its start to its end.

    Raises:
        AssistantError: a limit is out of range.
    """

    decisions: int | None = None
    seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.decisions is not None and (type(self.decisions) is not int or self.decisions < 1):
            raise AssistantError(
                f"decisions is a whole number of decisions from 1 on, not {self.decisions!r}"
            )
        if not 0 < self.seconds <= 86_400:
            raise AssistantError(f"seconds is a number above 0, up to 86,400, not {self.seconds!r}")

    def most(self, episode: AnalystEpisode) -> int:
        """Return the most decisions in an episode."""
        return 10 * episode.max_runs if self.decisions is None else self.decisions


@dataclass(frozen=True, slots=True)
class ScriptedAnalyst:
    """Analyst whose decisions a Python callable makes.

    It must play in the main thread of its process, where its seconds can be limited.
    """

    name: str
    call: AnalystCallable
    limits: ScriptLimits = ScriptLimits()

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Call the callable until the episode ends, and return the reason as text."""
        return _ScriptedEpisode(self, session, executor, episode).play()


class _ScriptedEpisode:
    def __init__(
        self, analyst: ScriptedAnalyst, session: Session, executor: Executor,
        episode: AnalystEpisode,
    ) -> None:  # fmt: skip
        self._analyst, self._session = analyst, session
        self._executor, self._episode = executor, episode
        self._rng = episode.streams.generator("intuition")
        self._due = episode.clustering
        self._seconds_left = analyst.limits.seconds
        self._n_decisions = self._n_idle = self._n_judged = 0
        self._refusal = ""

    def play(self) -> str:
        while True:
            ended = self._end() or self._turn()
            if ended is not None:
                return ended

    @property
    def _n_runs(self) -> int:
        return len(self._session.experiment.runs)

    def _end(self) -> str | None:
        """Return why the episode is over, before the next call; None if it goes on."""
        experiment = self._session.experiment
        over = experiment.runs[self._n_judged :]
        self._n_judged = self._n_runs
        if any(map(self._episode.until, over)):
            return "the target is reached"
        if experiment.finished is not None:
            return f"the analyst stopped: {one_line(experiment.finished.reason)}"
        if (passed := self._session.passed_limit()) is not None:
            return passed
        if self._n_runs >= self._episode.max_runs:
            return f"the budget of {self._n_runs} runs is used up"
        return "the space is exhausted" if self._n_runs >= self._episode.truth.size else None

    def _turn(self) -> str | None:
        """Call the callable once, and store and execute what it decides."""
        if self._due is not None and self._n_runs >= self._due.after:
            self._session.change_strategy(exploitation=self._due.exploitation)
            self._due = None
        view = AnalystView(
            self._session.look(), self._rng, self._episode.max_runs - self._n_runs,
            self._refusal, self._session.forecast,
        )  # fmt: skip
        try:
            decisions = self._called(view)
        except _TimeIsUpError:
            return f"{FAULT}it took more than its {self._analyst.limits.seconds:g} s"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # its own code, which may raise anything
            return f"{FAULT}{_told(error)}"
        if decisions is None:
            return f"{FAULT}it returned something else than a list of Decision"
        if not decisions:
            return "the analyst stopped"
        return self._decide(decisions)

    def _called(self, view: AnalystView) -> Sequence[Decision] | None:
        with _time_limit(self._seconds_left):
            started_s = time.monotonic()
            answer = self._analyst.call(view)
            decisions: list[Any] = [] if answer is None else list(answer)
            self._seconds_left -= time.monotonic() - started_s
        return decisions if all(isinstance(each, Decision) for each in decisions) else None

    def _decide(self, decisions: Sequence[Decision]) -> str | None:
        refusals, has_changed = [], False
        for decision in decisions:
            self._n_decisions += 1
            if self._n_decisions > (most := self._analyst.limits.most(self._episode)):
                return f"{FAULT}it made more than its {most} decisions"
            try:
                has_changed |= self._take(decision)
            except Exception as error:  # refused by the command, or of other types
                refusals.append(_told(error) if not _is_ours(error) else str(error))
        self._refusal = "; ".join(refusals)
        self._session.run_queued(self._executor, stop=self._session.is_over_limit)
        self._n_idle = 0 if has_changed else self._n_idle + 1
        if self._n_idle < MOST_IDLE_CALLS:
            return None
        why = f", last refused: {one_line(self._refusal)}" if self._refusal else ""
        return f"{FAULT}it repeated itself, {self._n_idle} calls changed nothing{why}"

    def _take(self, decision: Decision) -> bool:
        """Store the events of a decision behind a `ToolCalled`; return whether there are any."""
        command, session = decision.command, self._session
        if not isinstance(command, COMMANDS):
            names = ", ".join(each.__name__ for each in COMMANDS)
            raise AssistantError(f"{type(command).__name__} is not among {names}")
        why = one_line(str(decision.why))
        if not why:
            raise AssistantError("'why' must say why the decision is made; it is stored with it")
        with session.deciding():
            now_s = session.now_s()
            events = command.decide(session.experiment, now_s)
            _check(events, self._episode.max_runs - self._n_runs)
            if events:
                called = ToolCalled(now_s, type(command).__name__, self._analyst.name, "", why)
                session.take((called, *events))
        return bool(events)


def _check(events: Sequence[Event], runs_left: int) -> None:
    """Raise AssistantError for events that no analyst may decide in an episode."""
    if any(isinstance(event, BudgetChanged) for event in events):
        raise AssistantError("this changes the budget of the episode, which is fixed")
    n = sum(isinstance(event, RunSubmitted) for event in events)
    if n > runs_left:
        raise AssistantError(f"{n} runs were submitted, and {runs_left} are left; submit fewer")


def _is_ours(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("assistant", "strategies")


class _TimeIsUpError(BaseException):
    """A callable used up its seconds; no `except Exception` of its own catches it."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _TimeIsUpError in the block after so many seconds. Raises AssistantError in threads."""
    if threading.current_thread() is not threading.main_thread():
        raise AssistantError(
            "a scripted analyst must play in the main thread, where its seconds can be limited"
        )

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), _REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class McpAnalyst:
    """Analyst that is a program: a client of the Model Context Protocol.

    Args:
        name: name in the study.
        script: its command, and the folder where it runs.
        store: file of the episode's experiment, which the client's server opens.
        limits: of the client.
    """

    name: str
    script: Script
    store: Path
    limits: ScriptLimits = ScriptLimits()

    def play(self, session: Session, executor: Executor, episode: AnalystEpisode) -> str:
        """Start the client, execute its runs until it ends, and return the reason as text."""
        said = self.store.with_suffix(".txt")
        with said.open("w+b") as stderr:
            try:
                client = subprocess.Popen(  # noqa: S603 - the command of the study
                    self._command(session, episode), stdin=subprocess.DEVNULL,
                    stdout=stderr, stderr=stderr, cwd=self.script.folder or None,
                    start_new_session=True, env=_environment(),
                )  # fmt: skip
            except OSError as error:
                return f"{FAULT}its command cannot be started: {_told(error)}"
            try:
                ended = self._watch(client, session, executor, episode)
            finally:
                _kill(client)
        return ended if ended is not None else _how(client.returncode, said)

    def _command(self, session: Session, episode: AnalystEpisode) -> list[str]:
        server = [
            sys.executable, "-P", "-m", "assistant.cli", "mcp", "--role", "steers",
            "--budget", str(episode.max_runs), "--calls-per-min", "10000",
            "--store", str(self.store),
        ]  # fmt: skip
        command: list[str] = []
        for each in self.script.arguments:
            match each:
                case "{server}":
                    command += server
                case "python" if not command:
                    command.append(sys.executable)
                case _:
                    command.append(each.replace(SEED, str(session.experiment.opened.seed)))
        return command

    def _watch(
        self, client: subprocess.Popen[bytes], session: Session, executor: Executor,
        episode: AnalystEpisode,
    ) -> str | None:  # fmt: skip
        """Execute runs until the client ends by itself (None), or a limit ends it."""
        until_s, n_judged, is_over = time.monotonic() + self.limits.seconds, 0, False
        calls: list[Event] = []
        session.listen(lambda _e, event: calls.append(event) if _is_call(event) else None)
        while True:
            is_over = is_over or client.poll() is not None
            session.catch_up()
            session.run_queued(executor)
            runs = session.experiment.runs
            if any(map(episode.until, runs[n_judged:])):
                return "the target is reached"
            n_judged = len(runs)
            if len(runs) >= episode.max_runs:
                return f"the budget of {len(runs)} runs is used up"
            if session.experiment.finished is not None:
                return f"the analyst stopped: {one_line(session.experiment.finished.reason)}"
            if is_over:
                return None
            if len(calls) > (most := self.limits.most(episode)):
                return f"{FAULT}it made more than its {most} decisions"
            if time.monotonic() >= until_s:
                return f"{FAULT}it took more than its {self.limits.seconds:g} s"
            with suppress(subprocess.TimeoutExpired):
                client.wait(_LOOK_S)


def _is_call(event: Event) -> bool:
    return isinstance(event, ToolCalled)


def _environment() -> dict[str, str]:
    """Return the environment in which the client and its server find these packages."""
    packages = str(Path(__file__).resolve().parents[2])
    path = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _kill(client: subprocess.Popen[bytes]) -> None:
    """End a client with the processes of its session; do nothing if it has ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if client.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(client.pid, number)
            with suppress(subprocess.TimeoutExpired):
                client.wait(_GRACE_S)


def _how(code: int, said: Path) -> str:
    """Return why a client that ended by itself did so, with its last line."""
    if code == 0:
        return "the analyst stopped"
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = f": {one_line(lines[-1])}" if lines else ""
    return f"{FAULT}its program ended with exit code {code}{last}"

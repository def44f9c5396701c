"""Repository of studies: a folder per study, with lock, progress and results.

The right to play is a lock on one byte of ``.playing``, which the kernel releases when the process
ends; so no process plays in an unlocked folder, whatever its files say. The file names the process,
and ``progress.json`` beside it holds the progress.
"""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal, Self

from agents.studies.report import (
    StudyFinding,
    facts,
    findings,
    headline,
    notes,
    panel_specs,
    panels,
    render_csv,
    render_html,
    study_rows,
)
from agents.studies.results import make_folder, summarise, write_whole
from agents.studies.study import Study, TableRequest, read_study
from agents.studies.study_runner import PlayedStudy, read_played, truth_of
from assistant import AssistantError
from assistant.core.files import DRAFT_PREFIX
from assistant.core.process_lock import ProcessLock, lock_content
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.html import svg

LOCK, PROGRESS = ".playing", "progress.json"
PROGRESS_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a study: stage, finished and total steps, and elapsed time."""

    stage: str  # current step, for people: ``playing``, or the measuring of a table
    done: int  # completed episodes, or combinations of the table
    total: int | None  # their number in all; None while unknown
    began: int  # value of ``done`` when the first progress was seen
    elapsed_s: float  # seconds since then

    @property
    def left_s(self) -> float | None:
        """Estimated remaining time in seconds at the same pace, or None if unknown.

        >>> StudyProgress("playing", 30, 50, 10, 4.0).left_s
        4.0
        """
        if self.total is None or self.done <= self.began:
            return None
        return (self.total - self.done) * self.elapsed_s / (self.done - self.began)


@dataclass(frozen=True, slots=True)
class StudyLockHolder:
    """Process that is playing a study in a folder."""

    pid: int  # process id
    started: bool  # whether a viewer started it, and it ends with the viewer


class StudyLock:
    """Exclusive lock on a folder in which a study is played.

    ``descriptor`` is that of the lock, if the parent process holds it already. Raises
    `AssistantError` if another process plays there, or the folder cannot be made.
    """

    def __init__(self, folder: Path, descriptor: int | None = None) -> None:
        self.folder = folder
        self._is_new = not folder.exists()
        self._stage, self._began, self._at_s, self._told_s = "", 0, 0.0, 0.0
        self._is_warm = False
        self._is_handed_down = descriptor is not None
        if descriptor is not None:
            self._lock = ProcessLock(folder / LOCK, descriptor)
            return
        make_folder(folder)
        self._lock = _taken(folder)
        self.name(os.getpid(), started=False)

    @property
    def descriptor(self) -> int | None:
        """Descriptor of the lock, to pass on to a child process; None once it is closed."""
        return self._lock.descriptor

    def name(self, pid: int, *, started: bool) -> None:
        """Write the id of the playing process into the lock file."""
        self._lock.write(json.dumps({"pid": pid, "started": started}).encode())

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Write the progress of the study to disk, at a limited rate."""
        now_s = time.monotonic()
        if stage != self._stage:
            self._stage, self._began, self._at_s, self._is_warm = stage, done, now_s, False
        elif not self._is_warm and done > self._began:  # the start-up time is no measure
            self._began, self._at_s, self._is_warm = done, now_s, True
        elif done != total and now_s < self._told_s + PROGRESS_INTERVAL_S:
            return
        self._told_s = now_s
        state = StudyProgress(stage, done, total, self._began, now_s - self._at_s)
        write_whole(self.folder / PROGRESS, json.dumps(asdict(state)))

    def end(self, *, finished: bool) -> None:
        """Release the lock, removing the progress file only if the study is finished."""
        if not self._lock.is_held:
            return
        with suppress(OSError):
            if finished:
                (self.folder / PROGRESS).unlink(missing_ok=True)
                for draft in self.folder.glob(f"{DRAFT_PREFIX}*"):  # of a process that was killed
                    draft.unlink(missing_ok=True)
            (self.folder / LOCK).unlink(missing_ok=True)
            if self._is_new and {path.name for path in self.folder.iterdir()} <= {PROGRESS}:
                (self.folder / PROGRESS).unlink(missing_ok=True)
                self.folder.rmdir()  # nothing was written: the study was refused
        self.hand_over()

    def hand_over(self) -> None:
        """Close the lock in this process, leaving it to a child process that inherited it."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._is_handed_down:
            return  # held until the process ends: viewers wait for its last message
        self.end(finished=error is None)


def lock_holder(folder: Path) -> StudyLockHolder | None:
    """Return the process that is playing a study in a folder, or None."""
    try:
        text = lock_content(folder / LOCK)
        if text is None:
            return None
        content = json.loads(text or b"{}")
        return StudyLockHolder(int(content.get("pid", 0)), bool(content.get("started", False)))
    except (OSError, ValueError):
        return None


def read_progress(folder: Path) -> StudyProgress | None:
    """Return the last written progress of the study in a folder, or None."""
    try:
        return StudyProgress(**json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _taken(folder: Path) -> ProcessLock:
    lock = ProcessLock.take(folder / LOCK, raises=AssistantError)
    if lock is None:
        raise AssistantError(
            f"another process plays the study in '{folder}'; wait until it is done, or end it first"
        )
    return lock


StudyState = Literal["playing", "stopped", "done", "refused", "broken"]
STUDY, STDERR, RESULTS, TABLES = "study.toml", "said.txt", "results.parquet", "tables"
GRACE_S = 2.0  # Seconds that a process has to end before it is killed
KILLED_S = 60.0  # Longest wait for the end of a killed process, on a busy machine or a slow disk
_LOOK_S = 0.01
_MOST_NAMES = 10_000
_NOT_CLEAN = re.compile(r"[^A-Za-z0-9_-]+")
_STDERR_BYTES = 20_000
_REFUSED = "copperline: "
_IGNORED = "Exception ignored in"  # Python goes on after such a traceback


@dataclass(frozen=True, slots=True)
class StoredStudy:
    """Study in the repository, with its folder and current state."""

    name: str  # name of its folder, which is unique
    title: str  # title by its author
    folder: Path  # folder of its results
    # ``refused`` if its tables or its log are at fault, ``broken`` for an internal error
    state: StudyState
    progress: StudyProgress | None  # last written progress
    sentence: str  # why it was refused or is broken; empty otherwise
    begun_s: float  # time of its creation, in seconds since 1970-01-01 UTC

    def table(self, request: TableRequest) -> Path:
        """Return the path of the study's measured table of an application."""
        return self.folder / TABLES / f"{request.name}.csv"


class StudyRepository:
    """Repository of studies, with one subfolder per study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()

    @classmethod
    def beside(cls, store: Path) -> "StudyRepository":
        """Return the repository in the folder ``studies`` next to an event store."""
        return cls(store.absolute().parent / "studies")

    def studies(self) -> tuple[StoredStudy, ...]:
        """Return all studies of the repository, latest first."""
        self._reap()
        try:
            folders = [entry for entry in self.folder.iterdir() if (entry / STUDY).is_file()]
        except OSError:
            return ()
        stored_studies = [
            _stored_study(entry) for entry in folders if not entry.name.startswith(".")
        ]
        return tuple(sorted(stored_studies, key=lambda entry: (-entry.begun_s, entry.name)))

    def study(self, name: str) -> StoredStudy | None:
        """Return the study in the subfolder with this name, or None if there is none."""
        self._reap()
        if _NOT_CLEAN.search(name) or not name or not (self.folder / name / STUDY).is_file():
            return None
        return _stored_study(self.folder / name)

    def start(self, text: str, title: str) -> str:
        """Store a new study, start playing it and return the name of its folder.

        Paths in the text (TOML) are absolute. Raises `AssistantError` if it cannot be written or
        started; nothing is stored then.
        """
        name = self._placed(text, title)
        try:
            self.go_on(name)
        except BaseException:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            raise
        return name

    def go_on(self, name: str) -> None:
        """Start a process that plays the remaining episodes of a study.

        Raises `AssistantError` if it is being played, does not exist, or no process can be started.
        """
        folder = self._of(name)
        turn = StudyLock(folder)
        command = [
            sys.executable, "-P", "-m", "assistant.cli", "agents", "run", str(folder / STUDY),
            "--to", str(folder), "--tables", str(self.folder / f".{TABLES}"),
            "--held", str(turn.descriptor), "--json",
        ]  # fmt: skip
        packages = str(Path(__file__).resolve().parents[2])
        python_path = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            with (folder / STDERR).open("wb") as stderr:
                child = subprocess.Popen(  # noqa: S603 - our own command
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                    start_new_session=True, cwd=folder, pass_fds=[turn.descriptor or 0],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path)},
                )  # fmt: skip
            turn.name(child.pid, started=True)
        except OSError as error:
            turn.end(finished=False)
            raise AssistantError(f"the study cannot be started: {error}") from error
        turn.hand_over()
        with self._lock:
            self._children.append(child)

    def stop(self, name: str) -> None:
        """Stop the process that plays a study, if any, and keep finished episodes.

        Raises `AssistantError` if there is no such study, or its process cannot be ended from here.
        """
        folder = self._of(name)
        for number, grace_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
            current_holder = lock_holder(folder)
            if current_holder is None:
                return
            with suppress(ProcessLookupError):
                try:
                    os.kill(current_holder.pid, number)
                    (folder / STDERR).unlink(missing_ok=True)  # whatever it says now: it is stopped
                except PermissionError as error:
                    raise AssistantError(
                        f"process {current_holder.pid}, which plays the study, belongs to another "
                        "user; end it as that user"
                    ) from error
            until_s = time.monotonic() + grace_s
            while lock_holder(folder) is not None and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
        if lock_holder(folder) is not None:
            raise AssistantError(f"the study in '{folder}' does not end; check its process")

    def remove(self, name: str) -> None:
        """Delete a study and its results from the repository.

        Raises `AssistantError` if it is being played, does not exist, or cannot be removed.
        """
        folder = self._of(name)
        with StudyLock(folder):
            aside = Path(tempfile.mkdtemp(prefix=".gone-", dir=self.folder))
            try:
                folder.rename(aside / name)
            except OSError as error:
                raise AssistantError(
                    f"the study in '{folder}' cannot be removed: {error.strerror}"
                ) from error
        shutil.rmtree(aside, ignore_errors=True)

    def end(self) -> None:
        """Stop all running studies that were started from a viewer."""
        for study in self.studies():
            current_holder = lock_holder(study.folder)
            if current_holder is not None and current_holder.started:
                with suppress(AssistantError):
                    self.stop(study.name)
        self._reap()

    def _of(self, name: str) -> Path:
        study = self.study(name)
        if study is None:
            raise AssistantError(f"there is no study '{name}' in '{self.folder}' any more")
        return study.folder

    def _placed(self, text: str, title: str) -> str:
        """Write the study into a folder that appears at once, complete."""
        make_folder(self.folder)
        clean = _NOT_CLEAN.sub("-", title).strip("-_").lower()[:40].strip("-_") or "study"
        new_folder = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            (new_folder / STUDY).write_text(text, encoding="utf-8")
            new_folder.chmod(0o755)
            for number in range(1, _MOST_NAMES):
                name = clean if number == 1 else f"{clean}-{number}"
                with suppress(OSError):  # the name is taken
                    if not (self.folder / name).exists():
                        new_folder.rename(self.folder / name)
                        return name
            raise AssistantError(f"there are too many studies named '{clean}'; use another name")
        except (OSError, ValueError) as error:
            raise AssistantError(f"cannot write the study in '{self.folder}': {error}") from error
        finally:
            if new_folder.exists():
                shutil.rmtree(new_folder, ignore_errors=True)

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def _stored_study(folder: Path) -> StoredStudy:
    is_held = lock_holder(folder) is not None
    sentence, state = "", _state(folder)
    if is_held:
        state = "playing"
    elif state == "stopped":
        state, sentence = _last_word(folder)
    path = folder / STUDY
    with suppress(OSError):
        begun_s = path.stat().st_mtime
        return StoredStudy(
            folder.name, _title(path, folder.name), folder, state, read_progress(folder), sentence,
            begun_s,
        )  # fmt: skip
    return StoredStudy(folder.name, folder.name, folder, state, None, sentence, 0.0)


def _state(folder: Path) -> StudyState:
    return "done" if (folder / RESULTS).is_file() else "stopped"


def _title(path: Path, usual: str) -> str:
    try:
        settings: Mapping[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return usual
    return str(settings.get("name") or usual)


def _last_word(folder: Path) -> tuple[StudyState, str]:
    """Return whether a process that has ended was stopped, or why it failed."""
    try:
        with (folder / STDERR).open("rb") as file:
            file.seek(max(0, (folder / STDERR).stat().st_size - _STDERR_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return "stopped", ""
    refused = next((line for line in reversed(lines) if line.startswith(_REFUSED)), None)
    if refused is not None:
        text = refused.removeprefix(_REFUSED)
        return "refused", f"{text[:1].upper()}{text[1:]}"
    if any(
        line.startswith("Traceback (most recent call last)") and not above.startswith(_IGNORED)
        for above, line in pairwise(["", *lines])
    ):
        return "broken", f"Something in Copperline went wrong; last line: {lines[-1].strip()}"
    return "stopped", ""


@dataclass(frozen=True, eq=False)
class StudyOutcome:
    """Results of a completely played study, for display and download."""

    finished: PlayedStudy  # its cells
    findings: tuple[StudyFinding, ...]  # sentences about it, the surest first

    @property
    def headline(self) -> str:
        """Sentence with the numbers of cells and episodes of the study."""
        return headline(self.finished)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that explain how to read the results."""
        return notes(self.finished)

    @property
    def facts(self) -> dict[str, str]:
        """Settings of the study as texts, by label."""
        return facts(self.finished)

    @cached_property
    def charts(self) -> tuple[tuple[str, Spec], ...]:
        """Bar charts of the study, as pairs of caption and chart specification."""
        captions = (
            f"{panel.title}: {panel.y} by {panel.x}, with 95 % intervals"
            for panel in panels(self.finished.summaries)
        )
        return tuple(zip(captions, panel_specs(self.finished.summaries), strict=True))

    @property
    def table(self) -> list[dict[str, str]]:
        """Readable table with one row per cell of the study, each with texts by column title."""
        names, rows = study_rows(self.finished)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def html(self) -> str:
        """Return the study's report as a self-contained HTML page."""
        return render_html(self.finished)

    def csv(self) -> str:
        """Return the summaries of all cells as CSV, in full precision."""
        return render_csv(self.finished.summaries)

    def figures(self) -> bytes:
        """Return the study's charts as SVG files in a ZIP archive."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, (_, spec) in enumerate(self.charts, start=1):
                archive.writestr(f"figure-{number:02d}.svg", str(svg(spec)))
        return buffer.getvalue()


def read_outcome(stored: StoredStudy) -> StudyOutcome:
    """Return the results of a completely played study in the repository.

    Raises `AssistantError` if its files cannot be read or do not belong together.
    """
    study, _, _ = read_study(stored.folder / STUDY, stored.table)
    episodes = read_played(study, stored.folder)
    summaries = tuple(summarise(study, *episode) for episode in episodes)
    return StudyOutcome(PlayedStudy(study, _sizes(study), summaries), findings(study, episodes))


def results_of(stored: StoredStudy) -> bytes:
    """Return the contents of the Parquet file with all episode results of a study."""
    return (stored.folder / RESULTS).read_bytes()


def study_of(stored: StoredStudy) -> str:
    """Return the TOML text of a stored study, or raise `AssistantError`."""
    return read_study(stored.folder / STUDY, stored.table)[1]


def stamp(stored: StoredStudy) -> tuple[int, ...]:
    """Return modification times and sizes of a stored study's files, as a cache key."""
    try:
        stats = [(stored.folder / name).stat() for name in (RESULTS, STUDY)]
    except OSError as error:
        raise AssistantError(f"the study '{stored.name}' does not exist any more") from error
    return tuple(number for stat in stats for number in (stat.st_mtime_ns, stat.st_size))


def _sizes(study: Study) -> dict[str, int]:
    """Return the sizes of the spaces whose tables still exist."""
    sizes = {}
    for table in study.tables:
        with suppress(Exception):  # the results are valid whatever is wrong with the table
            sizes[table.name] = truth_of(table.path).size
    return sizes

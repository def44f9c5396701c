"""A shelf of studies: a folder each, played by processes of their own, the same for all who look.

A study on the shelf is what ``copperline agents run STUDY --to FOLDER`` makes of a folder, whoever
called it: the files and the lock in it (`agents.under_way`) are all there is to know, so a page
that is closed, another browser and a script see the same, and what was killed can go on.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from agents.files import make_folder
from agents.study_file import Asked
from agents.under_way import Progress, UnderWay, holder, progress
from assistant import AssistantError

State = Literal["playing", "stopped", "done", "refused", "broken"]
STUDY, SAID, RESULTS, TABLES = "study.toml", "said.txt", "results.parquet", "tables"
GRACE_S = 2.0
"""So long a process has to end before it is killed."""
_LOOK_S = 0.01
_MOST_NAMES = 10_000
_NOT_CLEAN = re.compile(r"[^A-Za-z0-9_-]+")
_SAID_BYTES = 20_000
_REFUSED = "copperline: "


@dataclass(frozen=True, slots=True)
class Kept:
    """A study on the shelf, as it is now.

    Args:
        name: of its folder, which no other one has.
        title: that its author gave it.
        folder: of its results.
        state: ``refused`` if its tables or its log are at fault, ``broken`` for a fault of ours.
        progress: how far it was when that was last written.
        sentence: why it was refused or is broken; empty otherwise.
        begun_s: when it was put here, in seconds since 1970-01-01 UTC.
    """

    name: str
    title: str
    folder: Path
    state: State
    progress: Progress | None
    sentence: str
    begun_s: float

    def table(self, asked: Asked) -> Path:
        """Return where the table of an application is that was measured for it."""
        return self.folder / TABLES / f"{asked.name}.csv"


class Shelf:
    """Studies in a folder.

    Args:
        folder: of the studies; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()

    @classmethod
    def beside(cls, store: Path) -> "Shelf":
        """Return the shelf of a store: the folder ``studies`` beside it."""
        return cls(store.absolute().parent / "studies")

    def kept(self) -> tuple[Kept, ...]:
        """Return the studies, latest first."""
        self._reap()
        try:
            folders = [one for one in self.folder.iterdir() if (one / STUDY).is_file()]
        except OSError:
            return ()
        found = [_kept(one) for one in folders if not one.name.startswith(".")]
        return tuple(sorted(found, key=lambda one: (-one.begun_s, one.name)))

    def study(self, name: str) -> Kept | None:
        """Return a study by the name of its folder; None if there is none."""
        self._reap()
        if _NOT_CLEAN.search(name) or not name or not (self.folder / name / STUDY).is_file():
            return None
        return _kept(self.folder / name)

    def start(self, text: str, title: str) -> str:
        """Put a study on the shelf and begin to play it.

        Args:
            text: of the study (TOML); its paths are absolute.
            title: of it; the name of its folder is made from that.

        Returns:
            The name.

        Raises:
            AssistantError: it cannot be written or started; nothing is kept then.
        """
        name = self._placed(text, title)
        try:
            self.go_on(name)
        except BaseException:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            raise
        return name

    def go_on(self, name: str) -> None:
        """Play what of a study was not played yet, in a process that this one may leave behind.

        Raises:
            AssistantError: it is being played, is not there, or no process can be started.
        """
        folder = self._of(name)
        turn = UnderWay(folder)
        command = [
            sys.executable, "-P", "-m", "assistant.cli", "agents", "run", str(folder / STUDY),
            "--to", str(folder), "--tables", str(self.folder / f".{TABLES}"),
            "--held", str(turn.descriptor), "--json",
        ]  # fmt: skip
        packages = str(Path(__file__).resolve().parent.parent)
        known = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            with (folder / SAID).open("wb") as said:
                child = subprocess.Popen(  # noqa: S603 - our own command
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                    start_new_session=True, cwd=folder, pass_fds=[turn.descriptor or 0],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(known)},
                )  # fmt: skip
            turn.name(child.pid, started=True)
        except OSError as error:
            turn.end(finished=False)
            raise AssistantError(f"the study cannot be started: {error}") from error
        turn.hand_over()
        with self._lock:
            self._children.append(child)

    def stop(self, name: str) -> None:
        """End the process that plays a study; what was played is kept. Does nothing without one.

        Raises:
            AssistantError: there is no such study, or its process cannot be ended from here.
        """
        folder = self._of(name)
        for number, grace_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            found = holder(folder)
            if found is None:
                return
            with suppress(ProcessLookupError):
                try:
                    os.kill(found.pid, number)
                except PermissionError as error:
                    raise AssistantError(
                        f"process {found.pid}, which plays the study, is somebody else's; end it "
                        "there"
                    ) from error
            until_s = time.monotonic() + grace_s
            while holder(folder) is not None and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
        if holder(folder) is not None:
            raise AssistantError(f"the study in '{folder}' does not end; look at its process")

    def remove(self, name: str) -> None:
        """Throw a study away, with its results.

        Raises:
            AssistantError: it is being played, is not there, or cannot be removed.
        """
        folder = self._of(name)
        with UnderWay(folder):
            aside = Path(tempfile.mkdtemp(prefix=".gone-", dir=self.folder))
            try:
                folder.rename(aside / name)
            except OSError as error:
                raise AssistantError(
                    f"the study in '{folder}' cannot be removed: {error.strerror}"
                ) from error
        shutil.rmtree(aside, ignore_errors=True)

    def end(self) -> None:
        """Stop what was started for those who look on, by whatever process; they can go on."""
        for one in self.kept():
            found = holder(one.folder)
            if found is not None and found.started:
                with suppress(AssistantError):
                    self.stop(one.name)
        self._reap()

    def _of(self, name: str) -> Path:
        found = self.study(name)
        if found is None:
            raise AssistantError(f"there is no study '{name}' in '{self.folder}' any more")
        return found.folder

    def _placed(self, text: str, title: str) -> str:
        """Write the study into a folder that appears at once, whole."""
        make_folder(self.folder)
        clean = _NOT_CLEAN.sub("-", title).strip("-_").lower()[:40].strip("-_") or "study"
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            (made / STUDY).write_text(text, encoding="utf-8")
            made.chmod(0o755)
            for number in range(1, _MOST_NAMES):
                name = clean if number == 1 else f"{clean}-{number}"
                with suppress(OSError):  # it is taken
                    if not (self.folder / name).exists():
                        made.rename(self.folder / name)
                        return name
            raise AssistantError(f"there are too many studies named '{clean}'; name it otherwise")
        except (OSError, ValueError) as error:
            raise AssistantError(f"cannot write the study in '{self.folder}': {error}") from error
        finally:
            if made.exists():
                shutil.rmtree(made, ignore_errors=True)

    def _reap(self) -> None:
        """Take notice of processes that have ended."""
        with self._lock:
            self._children = [one for one in self._children if one.poll() is None]


def _kept(folder: Path) -> Kept:
    is_held = holder(folder) is not None
    sentence, state = "", _state(folder)
    if is_held:
        state = "playing"
    elif state == "stopped":
        state, sentence = _last_word(folder)
    path = folder / STUDY
    with suppress(OSError):
        begun_s = path.stat().st_mtime
        return Kept(
            folder.name, _title(path, folder.name), folder, state, progress(folder), sentence,
            begun_s,
        )  # fmt: skip
    return Kept(folder.name, folder.name, folder, state, None, sentence, 0.0)


def _state(folder: Path) -> State:
    return "done" if (folder / RESULTS).is_file() else "stopped"


def _title(path: Path, usual: str) -> str:
    try:
        told: Mapping[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return usual
    return str(told.get("name") or usual)


def _last_word(folder: Path) -> tuple[State, str]:
    """Return whether a process that has ended was stopped, or why it could not go on."""
    try:
        with (folder / SAID).open("rb") as file:
            file.seek(max(0, (folder / SAID).stat().st_size - _SAID_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return "stopped", ""
    refused = next((line for line in reversed(lines) if line.startswith(_REFUSED)), None)
    if refused is not None:
        text = refused.removeprefix(_REFUSED)
        return "refused", f"{text[:1].upper()}{text[1:]}"
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return "broken", f"Something in Copperline went wrong; its last word: {lines[-1].strip()}"
    return "stopped", ""

"""Studies on a shelf: the same for all who look, stopped and killed without a loss."""

import fcntl
import io
import os
import signal
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents import StoredStudy, StudyLock, StudyRepository, play_study, read_study
from agents.studies.study_repository import (
    LOCK,
    PROGRESS,
    RESULTS,
    StudyProgress,
    lock_holder,
    read_outcome,
    read_progress,
)
from assistant import AssistantError
from assistant.cli.main import run
from tests.agents.examples import TEXTS

PLAYED = ("results.parquet", "summary.csv", "report.html", "report.md", "study.toml", "study.json")


def text(folder: Path, replications: int = 3, strategy: str = "random") -> str:
    path = folder / "small.csv"
    path.write_text(TEXTS["small"])
    return (
        f'name = "Small ones"\nseed = 5\nreplications = {replications}\nworkers = 1\n'
        f'tables = ["{path}"]\nstrategies = ["{strategy}"]\ninsights = ["good", "none"]\n'
        "confidences = [50]\nlearning = [true]\n"
    )


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[StudyRepository]:
    found = StudyRepository.beside(tmp_path / "store.db")
    yield found
    for one in found.studies():
        found.stop(one.name)
    found._reap()
    for child in found._children:
        child.wait(120)


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def studied(shelf: StudyRepository, name: str) -> StoredStudy:
    found = shelf.study(name)
    assert found is not None
    return found


def put(shelf: StudyRepository, told: str, name: str = "small-ones") -> Path:
    """Put a study on the shelf as a script would that plays into its folder."""
    folder = shelf.folder / name
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(told)
    return folder


def played(folder: Path) -> None:
    study, told, workers = read_study(folder / "study.toml")
    play_study(study, folder, told, workers)


# -- who plays ---------------------------------------------------------------------------------


def test_one_plays_and_everybody_sees_who(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert lock_holder(folder) is None
    with StudyLock(folder) as turn:
        found = lock_holder(folder)
        assert found is not None
        assert (found.pid, found.started) == (os.getpid(), False)
        with pytest.raises(AssistantError, match="another process plays the study in"):
            StudyLock(folder)
        turn.tell("playing", 0, 9)
        assert read_progress(folder) == StudyProgress(
            "playing", 0, 9, 0, read_progress(folder).elapsed_s
        )  # type: ignore[union-attr]
    assert lock_holder(folder) is None
    assert not folder.exists(), "nothing was in it"


def test_what_is_left_behind_holds_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    turn = StudyLock(folder)
    turn.tell("playing", 3, 9)
    turn.hand_over()  # as by a kill: the kernel takes the lock back, the files stay
    assert (folder / LOCK).exists()
    assert lock_holder(folder) is None
    kept = read_progress(folder)
    assert kept is not None
    assert (kept.done, kept.total) == (3, 9)
    with StudyLock(folder):
        assert lock_holder(folder) is not None
    assert list(folder.iterdir()) == [], "of what is finished nothing tells how far it is"


def test_a_refused_study_leaves_no_folder_and_a_stopped_one_says_how_far(tmp_path: Path) -> None:
    for name in ("new", "old"):
        if name == "old":
            (tmp_path / name).mkdir()
            (tmp_path / name / "study.json").write_text("{}")
        turn = StudyLock(tmp_path / name)
        turn.tell("measuring maze", 0, 54)
        turn.end(finished=False)
    assert not (tmp_path / "new").exists()
    assert {one.name for one in (tmp_path / "old").iterdir()} == {"study.json", PROGRESS}


def test_a_lock_on_a_file_that_was_just_taken_away_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / LOCK
    gone, real = [os.open(path, os.O_RDWR | os.O_CREAT)], os.open
    path.unlink()  # by who ended between our opening it and our locking it

    def opened(name: object, *flags: int) -> int:
        return gone.pop() if gone and name == path else real(name, *flags)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("agents.studies.study_repository.os.open", opened)
    with StudyLock(tmp_path):
        assert not gone
        assert lock_holder(tmp_path) is not None


@pytest.mark.parametrize(
    ("told", "left_s"),
    [
        (StudyProgress("playing", 30, 50, 10, 4.0), 4.0),
        (StudyProgress("playing", 10, 50, 10, 4.0), None),
        (StudyProgress("measuring scheduling", 10, None, 0, 4.0), None),
        (StudyProgress("playing", 50, 50, 10, 4.0), 0.0),
    ],
)
def test_the_time_left_is_at_the_rate_so_far(told: StudyProgress, left_s: float | None) -> None:
    assert told.left_s == left_s


def test_what_it_took_to_begin_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("agents.studies.study_repository.time.monotonic", lambda: now_s[0])
    (tmp_path / "kept").write_text("")
    turn = StudyLock(tmp_path)
    for at_s, done in ((0.0, 0), (10.0, 20), (11.0, 40), (11.1, 60), (12.0, 80)):
        now_s[0] = at_s
        turn.tell("playing", done, 100)
        if at_s == 11.1:
            assert read_progress(tmp_path).done == 40, "not at every step"  # type: ignore[union-attr]
    found = read_progress(tmp_path)
    assert found is not None
    assert (found.done, found.began, found.elapsed_s) == (80, 20, 2.0)
    assert found.left_s == pytest.approx(20 * 2 / 60)
    turn.end(finished=False)


# -- the shelf ---------------------------------------------------------------------------------


def test_an_empty_shelf_and_what_is_no_study(shelf: StudyRepository) -> None:
    assert shelf.studies() == ()
    for name in ("", "..", "a/b", "gone"):
        assert shelf.study(name) is None
    with pytest.raises(AssistantError, match="there is no study 'gone' in"):
        shelf.stop("gone")


def test_a_folder_that_a_script_played_is_a_study(shelf: StudyRepository, tmp_path: Path) -> None:
    folder = put(shelf, text(tmp_path))
    assert studied(shelf, "small-ones").state == "stopped"
    with StudyLock(folder) as turn:
        turn.tell("playing", 1, 6)
        seen = StudyRepository(shelf.folder).study("small-ones")
        assert seen is not None
        assert (seen.state, seen.title) == ("playing", "Small ones")
        assert seen.progress is not None
        assert seen.progress.done == 1
        for act in (shelf.go_on, shelf.remove):
            with pytest.raises(AssistantError, match="another process plays"):
                act("small-ones")
    played(folder)
    assert studied(shelf, "small-ones").state == "done"
    assert [one.name for one in shelf.studies()] == ["small-ones"]
    shelf.remove("small-ones")
    assert shelf.studies() == ()
    assert list(shelf.folder.iterdir()) == [], "nothing is left of it"


def test_what_a_study_came_to_is_read_back_whole(shelf: StudyRepository, tmp_path: Path) -> None:
    folder = put(shelf, text(tmp_path))
    study, told, _ = read_study(folder / "study.toml")
    finished = play_study(study, folder, told, 1)
    assert read_outcome(studied(shelf, "small-ones")).finished == finished
    (tmp_path / "small.csv").unlink()
    assert "50% of the space" in read_outcome(studied(shelf, "small-ones")).facts["Episodes end"]
    (folder / "study.toml").write_text(told.replace('"good"', '"bad"'))
    with pytest.raises(AssistantError, match="the results of another study"):
        read_outcome(studied(shelf, "small-ones"))
    (folder / "study.toml").write_text(told.replace("replications = 3", "replications = 4"))
    with pytest.raises(AssistantError, match="has 6 episodes, not those of the study"):
        read_outcome(studied(shelf, "small-ones"))


def test_a_study_that_cannot_be_started_is_not_kept(
    shelf: StudyRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("agents.studies.study_repository.subprocess.Popen", refuse)
    with pytest.raises(AssistantError, match="cannot be started: no more processes"):
        shelf.start(text(tmp_path), "x")
    assert shelf.studies() == ()
    assert list(shelf.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "state", "sentence"),
    [
        ("", "stopped", ""),
        ("a warning\n", "stopped", ""),
        ("copperline: cannot read 'x'\nlate warning\n", "refused", "Cannot read 'x'"),
        ("Traceback (most recent call last):\n  x\nKeyError: 'y'\n", "broken", "KeyError: 'y'"),
        (
            "Exception ignored in: <x>\nTraceback (most recent call last):\nKeyError\n",
            "stopped",
            "",
        ),
    ],
)
def test_the_last_word_of_a_process_tells_why(
    shelf: StudyRepository, tmp_path: Path, said: str, state: str, sentence: str
) -> None:
    (put(shelf, text(tmp_path)) / "said.txt").write_text(said)
    found = studied(shelf, "small-ones")
    assert found.state == state
    assert sentence in found.sentence


# -- processes of their own ----------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.slow
def test_what_is_started_ends_as_the_command_line_ends(
    shelf: StudyRepository, tmp_path: Path
) -> None:
    told = text(tmp_path, 40)
    (tmp_path / "study.toml").write_text(told)
    name = shelf.start(told, "Small ones!")
    assert name == "small-ones"
    assert studied(shelf, name).state == "playing", "from the very beginning"
    with pytest.raises(AssistantError, match="another process plays"):
        StudyRepository(shelf.folder).go_on(name)
    second = shelf.start(told, "Small ones!")
    assert second == "small-ones-2"
    until(lambda: {one.state for one in shelf.studies()} == {"done"})
    until(lambda: not any(lock_holder(one.folder) for one in shelf.studies()))
    to = tmp_path / "by-hand"
    assert run(["agents", "run", str(tmp_path / "study.toml"), "--to", str(to), "--json"]) == 0
    for one in shelf.studies():
        for file in PLAYED:
            assert (one.folder / file).read_bytes() == (to / file).read_bytes(), file
        assert not (one.folder / PROGRESS).exists()
        seen = read_outcome(one)
        assert seen.html() == (to / "report.html").read_text()
        assert seen.csv() == (to / "summary.csv").read_text()
        assert len(zipfile.ZipFile(io.BytesIO(seen.figures())).namelist()) == 2


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_stopped_or_killed_goes_on_to_the_same_bytes(
    shelf: StudyRepository, tmp_path: Path, how: str
) -> None:
    def is_under_way(folder: Path) -> bool:
        found = read_progress(folder)
        return found is not None and found.stage == "playing" and found.done > 0

    for n in (200, 2_000, 20_000):  # until this process is quick enough to meet it under way
        told = text(tmp_path, n)
        name = shelf.start(told, "long")
        folder = shelf.folder / name
        until(lambda at=folder: is_under_way(at) or (at / RESULTS).exists())  # type: ignore[misc]
        if how == "stop":
            shelf.stop(name)
        elif (found := lock_holder(folder)) is not None:
            assert found.started
            os.kill(found.pid, signal.SIGKILL)
        until(lambda name=name: studied(shelf, name).state != "playing")  # type: ignore[misc]
        kept = studied(shelf, name)
        if kept.state != "done":
            break
    assert kept.state == "stopped"
    assert kept.progress is not None
    before = kept.progress.done
    assert 0 < before <= 2 * n
    n_parts = len(list((folder / "parts").glob("*.json")))
    assert n_parts * 20 >= before
    another = StudyRepository(shelf.folder)  # as after a restart of the pages
    another.go_on(name)
    until(lambda: studied(another, name).state == "done" and lock_holder(folder) is None)
    until(lambda: not [one for one in another._children if one.poll() is None])
    study, _, _ = read_study(folder / "study.toml")
    whole = tmp_path / "whole"
    play_study(study, whole, told, 1)
    assert (folder / "results.parquet").read_bytes() == (whole / "results.parquet").read_bytes()


@pytest.mark.slow
def test_the_end_of_the_app_stops_what_it_started_alone(
    shelf: StudyRepository, tmp_path: Path
) -> None:
    name = shelf.start(text(tmp_path, 100_000), "long")
    folder = put(shelf, text(tmp_path), "by-hand")
    with StudyLock(folder):
        StudyRepository(shelf.folder).end()
        assert studied(shelf, name).state == "stopped"
        assert studied(shelf, "by-hand").state == "playing"


@pytest.mark.slow
def test_a_log_that_cannot_be_read_is_told_and_can_be_tried_again(
    shelf: StudyRepository, tmp_path: Path
) -> None:
    told = f'applications = ["scheduling"]\n[scheduling]\nlog = "{tmp_path / "gone.swf"}"\n'
    name = shelf.start(told, "gone")
    until(lambda: studied(shelf, name).state != "playing")
    found = studied(shelf, name)
    assert found.state == "refused"
    assert "gone.swf" in found.sentence
    assert "Traceback" not in found.sentence


@pytest.mark.soak
@pytest.mark.slow
def test_a_table_is_measured_once_for_all_studies(shelf: StudyRepository, tmp_path: Path) -> None:
    told = 'applications = ["maze"]\nreplications = 2\nworkers = 1\nconfidences = [50]\n'
    names = []
    for seed in (1, 2):
        names.append(shelf.start(f"seed = {seed}\n{told}", "maze"))
        until(lambda: studied(shelf, names[-1]).state == "done")
        until(lambda: lock_holder(shelf.folder / names[-1]) is None)
    tables = [(shelf.folder / name / "tables" / "maze.csv") for name in names]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    assert len(list((shelf.folder / ".tables").iterdir())) == 1
    assert [one.name for one in shelf.studies()] == sorted(names, reverse=True)
    assert read_outcome(studied(shelf, names[0])).finished.sizes == {"maze": 54}


def test_a_lock_that_was_handed_down_is_kept_until_the_process_has_said_why(tmp_path: Path) -> None:
    """Or somebody who looks on at this moment takes a refusal for a stop."""
    folder = tmp_path / "out"
    starter = StudyLock(folder)
    assert starter.descriptor is not None
    handed_down = os.dup(starter.descriptor)
    starter.hand_over()
    with pytest.raises(AssistantError, match="no such log"), StudyLock(folder, handed_down):
        raise AssistantError("no such log")
    assert lock_holder(folder) is not None
    os.close(handed_down)
    assert lock_holder(folder) is None


def test_the_lock_is_one_that_other_programs_can_ask_for(tmp_path: Path) -> None:
    with StudyLock(tmp_path / "out"), (tmp_path / "out" / LOCK).open("r+b") as file:
        wanted = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        with pytest.raises(OSError, match="temporarily unavailable"):
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)

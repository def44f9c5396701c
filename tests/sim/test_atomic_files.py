"""The one atomic writer: whole or as before, with the permissions of the file that it replaces."""

import os
import stat
from pathlib import Path

import pytest

from sim.model.errors import WorkloadError
from sim.model.files import atomic_file, write_atomically


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("present", [False, True])
def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path: Path, present: bool) -> None:
    path = tmp_path / "a.swf"
    if present:
        path.write_text("old")

    def write() -> None:
        with atomic_file(path, raises=WorkloadError) as draft:
            draft.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(WorkloadError) as refused:
        write()
    assert str(refused.value) == f"cannot write '{path}': No space left on device"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == (
        [("a.swf", "old")] if present else []
    )


def test_the_content_is_synced_before_it_gets_its_name_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "a", list[tuple[str, bool]]()

    def fsync(descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        synced.append((name, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"1", raises=WorkloadError, sync=False)
    assert synced == []
    path.unlink()
    write_atomically(path, b"1", raises=WorkloadError)
    (draft, named), (folder, last) = synced
    assert draft.startswith(str(tmp_path / ".part-"))
    assert (named, folder, last) == (False, str(tmp_path), True)


def test_permissions_stay_and_private_files_become_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, "1", raises=WorkloadError)
    plain = tmp_path / "plain"
    plain.touch()
    assert mode_of(path) == mode_of(plain), "the usual ones of the process"
    path.chmod(0o640)
    write_atomically(path, "2", raises=WorkloadError)
    assert (path.read_text(), mode_of(path)) == ("2", 0o640)
    write_atomically(path, "3", raises=WorkloadError, private=True)
    assert (path.read_text(), mode_of(path)) == ("3", 0o600)


def test_an_existing_file_is_kept_where_it_must_be_new(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, "1", raises=WorkloadError, overwrite=False)
    with pytest.raises(FileExistsError):
        write_atomically(path, "2", raises=WorkloadError, overwrite=False)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a", "1")]


def test_a_device_a_folder_and_a_missing_folder_are_refused_in_one_sentence(tmp_path: Path) -> None:
    def sentence(path: Path) -> str:
        with pytest.raises(WorkloadError) as refused:
            write_atomically(path, "1", raises=WorkloadError)
        return str(refused.value)

    assert sentence(Path("/dev/null")) == "cannot write '/dev/null': it is not an ordinary file"
    assert sentence(tmp_path) == f"cannot write '{tmp_path}': Is a directory"
    inside = tmp_path / "none" / "a"
    assert sentence(inside) == f"cannot write '{inside}': No such file or directory"
    assert "embedded null byte" in sentence(tmp_path / "a\0b")
    write_atomically(inside, "1", raises=WorkloadError, parents=True)
    assert inside.read_text() == "1"


def test_a_long_name_keeps_its_ending_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120 + ".swf.gz")
    with atomic_file(path, raises=WorkloadError) as draft:
        assert draft.parent == tmp_path
        assert draft.name.endswith(".swf.gz")
        draft.write_text("1")
    assert path.read_text() == "1"

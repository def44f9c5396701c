"""Which file system a path lies on, by mount points as a kernel lists them."""

from pathlib import Path

import pytest

from assistant.core.errors import StoreError
from assistant.store.event_store import (
    NETWORK_FILE_SYSTEMS,
    current_mounts,
    file_system_of,
    refuse_network_file_system,
)

MOUNTS = [
    ("/proc", "proc"), ("/", "ext4"), ("/home", "nfs4"), ("/home/a/local", "xfs"),
    ("/mnt/with space", "cifs"), ("/mnt/hidden", "nfs"), ("/mnt/hidden", "tmpfs"),
    ("/mnt/ssh", "fuse.sshfs"), ("/mnt/-", "9p"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind", "place"),
    [
        ("/srv/x.db", "ext4", "/"),
        ("/home/a/x.db", "nfs4", "/home"),
        ("/homework/x.db", "ext4", "/"),
        ("/home/a/local/x.db", "xfs", "/home/a/local"),
        ("/mnt/with space/x.db", "cifs", "/mnt/with space"),
        ("/mnt/hidden/x.db", "tmpfs", "/mnt/hidden"),
        ("/mnt/ssh/x.db", "fuse.sshfs", "/mnt/ssh"),
        ("/mnt/-/x.db", "9p", "/mnt/-"),
    ],
)
def test_the_nearest_mount_says(path: str, kind: str, place: str) -> None:
    assert file_system_of(path, MOUNTS) == (kind, place)


def test_a_text_that_says_nothing() -> None:
    assert file_system_of("/x", []) is None
    refuse_network_file_system(Path("/x"), [])


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_every_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = [("/", "ext4"), (str(tmp_path), kind)]
    with pytest.raises(StoreError, match=rf"\({kind}, mounted at '{tmp_path}'\).*local disk") as no:
        refuse_network_file_system(tmp_path / "not" / "yet" / "x.db", mounts)
    assert "\n" not in str(no.value)
    refuse_network_file_system(tmp_path.parent / "x.db", mounts)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts = [(f"{tmp_path}/far", "nfs")]
    with pytest.raises(StoreError):
        refuse_network_file_system(tmp_path / "link" / "x.db", mounts)


def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    assert file_system_of(str(tmp_path.resolve()), current_mounts()) is not None

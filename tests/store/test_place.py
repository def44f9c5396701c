"""Which file system a path lies on, by texts as kernels write them."""

from pathlib import Path

import pytest

from assistant.core.errors import StoreError
from assistant.store.event_store import (
    NETWORK_FILE_SYSTEMS,
    file_system_of,
    refuse_network_file_system,
)

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
40 27 0:40 / /home rw shared:3 - nfs4 server:/home rw,vers=4.2
41 40 0:41 / /home/a/local rw - xfs /dev/vdb rw
42 27 0:42 / /mnt/with\040space rw - cifs //server/share rw
43 27 0:43 / /mnt/hidden rw - nfs server:/x rw
44 27 0:44 / /mnt/hidden rw - tmpfs tmpfs rw
45 27 0:45 / /mnt/ssh rw - fuse.sshfs host:/ rw
a line that says nothing
46 27 0:46 / /mnt/- rw - 9p host rw
"""


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
    assert file_system_of("/x", "") is None
    refuse_network_file_system(Path("/x"), "")


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_every_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path} rw - {kind} server:/ rw"
    with pytest.raises(StoreError, match=rf"\({kind}, mounted at '{tmp_path}'\).*local disk") as no:
        refuse_network_file_system(tmp_path / "not" / "yet" / "x.db", mounts)
    assert "\n" not in str(no.value)
    refuse_network_file_system(tmp_path.parent / "x.db", mounts)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts = f"2 1 0:2 / {tmp_path}/far rw - nfs server:/ rw"
    with pytest.raises(StoreError):
        refuse_network_file_system(tmp_path / "link" / "x.db", mounts)


def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo")
    if not mounts.exists():
        pytest.skip("only Linux says what is mounted")
    assert file_system_of(str(tmp_path.resolve()), mounts.read_text()) is not None

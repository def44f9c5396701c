"""Where a store may lie: on a disk of this machine."""

import re
from pathlib import Path

from assistant.errors import StoreError

NETWORK_FILE_SYSTEMS = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2",
    "smb3", "smbfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs",
    "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.smbnetfs",
    "fuse.curlftpfs", "fuse.juicefs", "fuse.moosefs", "fuse.mfs", "fuse.lizardfs", "fuse.afp",
))  # fmt: skip
"""Types as the kernel of Linux names them (see proc(5), mountinfo)."""

MOUNTS = Path("/proc/self/mountinfo")


def file_system_of(path: str, mounts: str) -> tuple[str, str] | None:
    r"""Return the type of file system a path lies on, and where that is mounted.

    Args:
        path: absolute, with no symbolic link in it.
        mounts: the text of ``/proc/self/mountinfo``; the latest of several mounts at one place
            hides the earlier ones.

    >>> file_system_of("/home/a/x.db", "25 1 0:22 / / rw - ext4 /dev/sda rw\n"
    ...                                "31 25 0:40 / /home rw shared:1 - nfs4 server:/home rw")
    ('nfs4', '/home')
    """
    found: tuple[str, str] | None = None
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6:
            continue
        place = _unescaped(fields[4])
        if _contains(place, path) and (found is None or len(place) >= len(found[1])):
            found = (kinds[0], place)
    return found


def refuse_network_file_system(path: Path, mounts: str | None = None) -> None:
    """Refuse a path on a file system that other machines write too.

    Where this machine does not say what is mounted (only Linux does), nothing is refused.

    Args:
        path: of the store; need not exist yet.
        mounts: the text of mountinfo; read from the kernel if None.

    Raises:
        StoreError: it lies on one of `NETWORK_FILE_SYSTEMS`.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(errors="surrogateescape")
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot tell where the store '{path}' lies: {error}") from error
    found = file_system_of(str(path.resolve()), mounts)
    if found is None or found[0] not in NETWORK_FILE_SYSTEMS:
        return
    kind, place = found
    raise StoreError(
        f"the store '{path}' lies on a network file system ({kind}, mounted at '{place}'): its "
        "write-ahead log needs memory that all who open it share, and locks may not hold between "
        "machines; keep it on a local disk, and let other machines reach it by 'copperline serve'"
    )


def _contains(place: str, path: str) -> bool:
    return place in ("/", path) or path.startswith(f"{place}/")


def _unescaped(text: str) -> str:
    """Read the kernel's octal escapes of space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)

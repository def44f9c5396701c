"""The ticket that a pilot carries: a secret of ours, and where whoever gave it can be reached.

A Slurm job id is never trusted: a controller that is killed gives ids out again and brings
cancelled jobs back. Whether a pilot may run anything is asked under its ticket.
"""

import hashlib
import json
import os
import pickle
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from assistant.errors import ExecutorError
from assistant.ports import Application

PREFIX = "copperline-"
"""Before the public id of a ticket, in the names of Slurm's jobs."""

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a pilot is told.

    Attributes:
        pilot: the public id; 16 hexadecimal digits.
        secret: 256 bits that are never sent.
        host: where the gate listens.
        port: of the gate.
        application: a file, the application pickled.
        digest: SHA-256 of that file.
        path: where modules are looked for, as by who gave the ticket.
        walltime_s: how long the job may last; None is not known.
        idle_s: how long the pilot may have nothing to do.
        gone_s: how long the gate may not answer.
    """

    pilot: str
    secret: bytes
    host: str
    port: int
    application: str
    digest: str
    path: tuple[str, ...] = ()
    walltime_s: float | None = None
    idle_s: float = 30.0
    gone_s: float = 60.0

    @property
    def job_name(self) -> str:
        """The name of its job, known to everybody."""
        return PREFIX + self.pilot

    def write(self, path: Path) -> None:
        """Write it into a file that only its owner may read."""
        body = {name: getattr(self, name) for name in self.__slots__}
        text = json.dumps({**body, "secret": self.secret.hex(), "path": list(self.path)})
        write_private(path, text.encode())


def new_id() -> str:
    """Return a public id."""
    return secrets.token_hex(8)


def write_private(path: Path, content: bytes) -> None:
    """Make a file that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)


def read_ticket(path: Path) -> Ticket:
    """Return the ticket of a file.

    Raises:
        ExecutorError: it is not there, may be read by others, or is no ticket.
    """
    content = _read_own(path, 0o077, MOST_BYTES)
    try:
        body = json.loads(content)
        secret, folders = bytes.fromhex(body.pop("secret")), tuple(body.pop("path"))
        return Ticket(secret=secret, path=folders, **body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExecutorError(f"'{path}' is no ticket ({error})") from error


def pickled(application: Application, folder: Path) -> tuple[Path, str]:
    """Write an application into a file of a folder; return the file and its SHA-256.

    Raises:
        ExecutorError: it cannot be sent to other processes.
    """
    try:
        content = pickle.dumps(application)
    except Exception as error:
        raise ExecutorError(
            f"the application '{application.name}' cannot be sent to other processes ({error}); "
            "define its class in a module that they can import"
        ) from error
    path = folder / "application"
    write_private(path, content)
    return path, hashlib.sha256(content).hexdigest()


def load_application(ticket: Ticket) -> Application:
    """Return the application of a ticket.

    Raises:
        ExecutorError: the file is not there, is another's, or is not the one of the ticket.
    """
    content = _read_own(Path(ticket.application), 0o022, None)
    if hashlib.sha256(content).hexdigest() != ticket.digest:
        raise ExecutorError(f"'{ticket.application}' is not the application of the ticket")
    application: Application = pickle.loads(content)  # noqa: S301 - ours: owner and digest fit
    return application


def _read_own(path: Path, forbidden: int, most_bytes: int | None) -> bytes:
    """Return what a plain file of this user's holds, with none of the forbidden mode bits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ExecutorError(f"cannot read '{path}': {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise ExecutorError(f"'{path}' is no plain file of this user's")
        if about.st_mode & forbidden:
            mode = stat.S_IMODE(about.st_mode)
            raise ExecutorError(f"'{path}' is open to others (mode {mode:04o})")
        content = file.read(-1 if most_bytes is None else most_bytes + 1)
    if most_bytes is not None and len(content) > most_bytes:
        raise ExecutorError(f"'{path}' is longer than {most_bytes} bytes: not a file of ours")
    return content

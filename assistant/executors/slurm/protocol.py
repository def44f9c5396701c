"""Tickets of the workers in jobs of Slurm (pilots), and the application that they execute.

Slurm's job ids are not trusted: a killed controller reuses ids and restores cancelled jobs, so the
ticket decides whether a job may execute runs.
"""

import hashlib
import json
import os
import pickle
import platform
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.ports import Application

PROTOCOL = 2
"""Number of the protocol of workers and executor, in every request and ticket."""

ABOUT = "Copperline-Worker"
"""Header of a worker's requests with what it has to have in common with the executor."""

PREFIX = "copperline-"  # Prefix of a ticket's public id in the names of Slurm jobs

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PilotTicket:
    """Credentials of a pilot (worker job): its id and secret, the server and the application file.

    Attributes:
        pilot: public id; 16 hexadecimal digits.
        secret: 256 bits, the bearer token of its requests.
        host: address of the server.
        certificate: certificate of the server (PEM), the only one that the worker accepts.
        application: file of the pickled application.
        digest: SHA-256 of that file.
        path: import path of the submitting process.
        walltime_s: walltime of the job; None if unknown.
        idle_s: longest time without a run, in seconds.
        gone_s: longest time without an answer of the server, in seconds.
    """

    pilot: str
    secret: str
    host: str
    port: int
    certificate: str
    application: str
    digest: str
    path: tuple[str, ...] = ()
    walltime_s: float | None = None
    idle_s: float = 30.0
    gone_s: float = 60.0
    protocol: int = PROTOCOL

    def write(self, path: Path) -> None:
        """Write the ticket to a new file that only its owner may read."""
        body = {name: getattr(self, name) for name in self.__slots__}
        text = json.dumps({**body, "path": list(self.path)})
        write_private(path, text.encode())


def about() -> dict[str, str]:
    """Return what a worker has to have in common with the executor, by name."""
    return {
        "protocol": str(PROTOCOL), "version": version("copperline"),
        "python": platform.python_version(),
    }  # fmt: skip


def about_as_header() -> dict[str, str]:
    """Return the header of a worker's requests with what `about` says."""
    return {ABOUT: ";".join(f"{name}={text}" for name, text in about().items())}


def about_of(header: str) -> Mapping[str, str]:
    """Return what the header of a request says of its worker, by name."""
    pairs = (part.partition("=") for part in header.split(";"))
    return {name: text for name, _, text in pairs}


def new_id() -> str:
    """Return a new random public id for a pilot, 16 hexadecimal digits."""
    return secrets.token_hex(8)


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)


def read_ticket(path: Path) -> PilotTicket:
    """Read a ticket file, or raise ExecutorError if it is missing, exposed or invalid."""
    content = _read_own(path, 0o077, MOST_BYTES)
    try:
        body = json.loads(content)
        ticket = PilotTicket(path=tuple(body.pop("path")), **body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExecutorError(f"'{path}' is not a ticket ({error})") from error
    if ticket.protocol != PROTOCOL:
        raise ExecutorError(
            f"'{path}' is a ticket of protocol {ticket.protocol}, this version of Copperline has "
            f"{PROTOCOL}; install the same version on both"
        )
    return ticket


def pickle_application(application: Application, folder: Path) -> tuple[Path, str]:
    """Pickle an application; return the file path and its SHA-256, or raise SettingsError."""
    try:
        if type(application).__module__ == "__main__":
            raise pickle.PicklingError("its class is defined in the main program")
        content = pickle.dumps(application)
    except Exception as error:
        raise SettingsError(
            f"the application '{application.name}' cannot be sent to other processes ({error}); "
            "define its class in a module that they can import"
        ) from error
    path = folder / "application"
    write_private(path, content)
    return path, hashlib.sha256(content).hexdigest()


def load_application(ticket: PilotTicket) -> Application:
    """Load a ticket's application, or raise ExecutorError if its SHA-256 differs."""
    content = _read_own(Path(ticket.application), 0o022, None)
    if hashlib.sha256(content).hexdigest() != ticket.digest:
        raise ExecutorError(f"'{ticket.application}' is not the application of the ticket")
    application: Application = pickle.loads(content)  # noqa: S301 - ours: owner and digest fit
    return application


def _read_own(path: Path, forbidden: int, most_bytes: int | None) -> bytes:
    """Return the content of a plain file of this user, with none of the forbidden mode bits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ExecutorError(f"cannot read '{path}': {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise ExecutorError(f"'{path}' is not a regular file of this user")
        if about.st_mode & forbidden:
            mode = stat.S_IMODE(about.st_mode)
            raise ExecutorError(f"'{path}' is accessible to other users (mode {mode:04o})")
        content = file.read(-1 if most_bytes is None else most_bytes + 1)
    if most_bytes is not None and len(content) > most_bytes:
        raise ExecutorError(f"'{path}' is longer than {most_bytes} bytes: not a Copperline file")
    return content

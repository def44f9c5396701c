"""Protocol of pilots (worker jobs) and dispatcher: tickets, and signed JSON messages over TCP.

A ticket holds a secret that is never sent. Slurm's job ids are not trusted: a killed controller
reuses ids and restores cancelled jobs, so the ticket decides whether a pilot may execute runs.
"""

import hashlib
import hmac
import json
import os
import pickle
import re
import secrets
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from assistant.core.errors import AssistantError, ExecutorError, SettingsError
from assistant.core.objective import Measure
from assistant.core.ports import Application, ExecutionRequest, ExecutionResult
from assistant.core.run import RunOutput

PREFIX = "copperline-"  # Prefix of a ticket's public id in the names of Slurm jobs

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PilotTicket:
    """Credentials of a pilot (worker job): its id and secret, the server and the application file.

    Attributes:
        pilot: public id; 16 hexadecimal digits.
        secret: 256 bits that are never sent.
        host: address of the server.
        application: file of the pickled application.
        digest: SHA-256 of that file.
        path: import path of the submitting process.
        walltime_s: walltime of the job; None if unknown.
        idle_s: longest time without a run, in seconds.
        gone_s: longest time without an answer of the server, in seconds.
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
        """Name of the pilot's Slurm job: a fixed prefix and the pilot's public id."""
        return PREFIX + self.pilot

    def write(self, path: Path) -> None:
        """Write the ticket to a new file that only its owner may read."""
        body = {name: getattr(self, name) for name in self.__slots__}
        text = json.dumps({**body, "secret": self.secret.hex(), "path": list(self.path)})
        write_private(path, text.encode())


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
        secret, folders = bytes.fromhex(body.pop("secret")), tuple(body.pop("path"))
        return PilotTicket(secret=secret, path=folders, **body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExecutorError(f"'{path}' is not a ticket ({error})") from error


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


MOST_HEADER = 1024

MOST_BODY = 1 << 20
MOST_RESULT = 16 << 20  # Largest number of bytes of a body, and of a body with measures

KINDS = ("hello", "next", "heartbeat", "report", "result", "lost", "bye")

Direction = Literal["ask", "answer"]

_HEX = re.compile(r"[0-9a-f]{1,64}")


class FrameError(AssistantError):
    """Error: a message between pilot and server is malformed or has a wrong signature."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """Header of a message between pilot and server: its first line.

    Attributes:
        pilot: public id of its ticket.
        session: session from the answer to a hello; in a hello, a number used once.
        counter: number of the question in its session.
        digest: SHA-256 of the body.
        signature: HMAC of all this and the direction.
    """

    pilot: str
    session: str
    counter: int
    kind: str
    length: int
    digest: str
    signature: str = ""

    def sign(self, secret: bytes, direction: Direction) -> str:
        """Return the signature of the header under a secret."""
        fields = (self.pilot, self.session, str(self.counter), self.kind, str(self.length))
        text = "\n".join((direction, *fields, self.digest))
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def is_signed(self, secret: bytes, direction: Direction) -> bool:
        """Return whether the header's signature is correct for a secret."""
        return hmac.compare_digest(self.sign(secret, direction), self.signature)

    def answers(self, question: "FrameHeader") -> bool:
        """Return whether the message with this header is the reply to ``question``."""
        expected = (question.pilot, question.session, question.counter, question.kind)
        return (self.pilot, self.session, self.counter, self.kind) == expected

    @property
    def most_bytes(self) -> int:
        """Largest permitted size of the message body in bytes."""
        return MOST_RESULT if self.kind in ("report", "result") else MOST_BODY


def encode(
    secret: bytes, direction: Direction, about: tuple[str, str, int, str], body: Mapping[str, Any]
) -> bytes:
    """Encode a signed message, or raise FrameError; ``about``: pilot, session, counter, kind."""
    try:
        content = json.dumps(body, allow_nan=False, default=_plain).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError(f"this cannot be sent: {error}") from error
    header = FrameHeader(*about, len(content), hashlib.sha256(content).hexdigest())
    if len(content) > header.most_bytes:
        raise FrameError(
            f"{len(content)} bytes are too many to send; the limit is {header.most_bytes}"
        )
    signed = replace(header, signature=header.sign(secret, direction))
    line = json.dumps({name: getattr(signed, name) for name in FrameHeader.__slots__})
    return line.encode() + b"\n" + content


def decode_header(line: bytes) -> FrameHeader:
    """Decode a message header without checking its signature, or raise FrameError."""
    try:
        body = json.loads(line) if len(line) <= MOST_HEADER else None
        header = FrameHeader(**body)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError("the message header is not valid") from error
    texts: list[object] = [header.pilot, header.session, header.digest, header.signature]
    numbers: list[object] = [header.counter, header.length]
    if (
        not all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts)
        or not all(_is_count(number) for number in numbers)
        or header.kind not in KINDS
        or header.length > header.most_bytes
    ):
        raise FrameError("the message header is not valid")
    return header


def _is_count(value: object) -> bool:
    return isinstance(value, int) and type(value) is int and 0 <= value < 2**53


def decode_body(header: FrameHeader, content: bytes) -> dict[str, Any]:
    """Decode the body of a message, or raise FrameError if it does not match its header."""
    if hashlib.sha256(content).hexdigest() != header.digest:
        raise FrameError("the body does not match its signature")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise FrameError("the body is not an object")
    return body


def work_as_json(work: ExecutionRequest) -> dict[str, Any]:
    """Convert an execution request to a JSON object."""
    return {
        "run_id": work.run_id, "values": dict(work.values), "seed": work.seed,
        "limit_s": work.limit_s,
    }  # fmt: skip


def work_of(body: Mapping[str, Any]) -> ExecutionRequest:
    """Convert a JSON object to an execution request."""
    return ExecutionRequest(body["run_id"], body["values"], body["seed"], body["limit_s"])


def completion_as_json(completion: ExecutionResult) -> dict[str, Any]:
    """Convert an execution result to a JSON object."""
    body = {name: getattr(completion, name) for name in ExecutionResult.__slots__}
    output = completion.output
    text = None if output is None else {"stdout": output.stdout, "stderr": output.stderr}
    return {**body, "output": text}


def completion_of(body: Mapping[str, Any]) -> ExecutionResult:
    """Convert a JSON object to an execution result, or raise FrameError if invalid."""
    try:
        fields = dict(body)
        measures = fields.pop("measures")
        completion = ExecutionResult(
            measures=None if measures is None else measures_of(measures),
            run_id=int(fields.pop("run_id")), failure=fields.pop("failure"),
            duration_s=float(fields.pop("duration_s")), stopped=bool(fields.pop("stopped")),
            output=_output_of(fields.pop("output", None)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError(f"not a valid result: {error}") from error
    if completion.failure is not None and not isinstance(completion.failure, str):
        raise FrameError("not a valid result: its failure is not text")
    return completion


def _output_of(body: object) -> RunOutput | None:
    if body is None:
        return None
    if not isinstance(body, dict) or not all(isinstance(text, str) for text in body.values()):
        raise ValueError("its output is not text")
    return RunOutput(**body)


def measures_of(body: object) -> dict[str, Measure]:
    """Convert a JSON object to measures by name (a list becomes a series), or raise FrameError."""
    if not isinstance(body, dict):
        raise FrameError("measures are not an object")
    return {name: _measure(name, value) for name, value in body.items()}


def _measure(name: str, value: object) -> Measure:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list) and all(isinstance(number, int | float) for number in value):
        return tuple(value)
    raise FrameError(f"the measure '{name}' is neither a number nor a list of numbers")


def _plain(value: Any) -> Any:
    """Return a NumPy number or array as plain Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


ANSWER_S = 20.0  # Seconds of one try; an answer that says wait takes some seconds

AGAIN_S = 0.5


class DispatcherUnreachableError(ExecutorError):
    """Error: the dispatcher of the executor does not answer, or rejects the ticket."""


class PilotConnection:
    """TCP connection of a pilot to the dispatcher, opened again when it breaks."""

    def __init__(self, ticket: PilotTicket) -> None:
        self._ticket = ticket
        self._socket: socket.socket | None = None
        self._session, self._counter = "", 0

    def hello(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session with the dispatcher, or raise DispatcherUnreachableError."""
        answer = self.ask("hello", about)
        self._session, self._counter = str(answer.get("session", "")), 0
        return answer

    def ask(
        self, kind: str, body: Mapping[str, Any] | None = None, within_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request and return the reply, with retries for ``within_s`` seconds.

        ``within_s`` None is the time in the ticket.

        Raises:
            DispatcherUnreachableError: no answer came.
            FrameError: the content cannot be sent.
        """
        until_s = time.monotonic() + (self._ticket.gone_s if within_s is None else within_s)
        while True:
            try:
                return self._try(kind, body or {})
            except (OSError, _ConnectionBrokenError) as error:
                self.close()
                if time.monotonic() + AGAIN_S > until_s:
                    gate = f"{self._ticket.host}:{self._ticket.port}"
                    raise DispatcherUnreachableError(
                        f"the server {gate} does not answer ({error})"
                    ) from error
                time.sleep(AGAIN_S)

    def close(self) -> None:
        """Close the connection to the dispatcher."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try(self, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._counter += 1
        session = secrets.token_hex(16) if kind == "hello" else self._session
        about = (self._ticket.pilot, session, self._counter, kind)
        frame = encode(self._ticket.secret, "ask", about, body)
        if self._socket is None:
            address = (self._ticket.host, self._ticket.port)
            self._socket = socket.create_connection(address, timeout=ANSWER_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(frame)
        with self._socket.makefile("rb") as file:
            line = file.readline(MOST_HEADER + 1)
            try:
                header = decode_header(line.removesuffix(b"\n"))
                question = decode_header(frame.partition(b"\n")[0])
                signed = header.is_signed(self._ticket.secret, "answer")
                if not signed or not header.answers(question):
                    raise FrameError("the answer does not match the request")
                return decode_body(header, file.read(header.length))
            except FrameError as error:
                raise _ConnectionBrokenError(
                    str(error) if line else "it closed the connection"
                ) from error


class _ConnectionBrokenError(Exception):
    """Error: no valid answer came on this connection."""

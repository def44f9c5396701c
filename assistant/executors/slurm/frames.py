"""What pilots and the gate say to each other: JSON in signed frames, nothing secret in them.

A frame is one line, the header, and a body. The header tells the length and the SHA-256 of the
body and is signed (HMAC-SHA256) with the secret of the pilot's ticket, so that nobody else can
make a gate read a body at all. Every question has a number of its own within a session, larger
than the one before, and the answer has the same: neither can be said a second time.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from assistant.errors import AssistantError
from assistant.objective import Measure
from assistant.ports import Completion, Work

MOST_HEADER = 1024
"""Bytes of a header."""

MOST_BODY = 1 << 20
MOST_RESULT = 16 << 20
"""Bytes of a body, and of one with measures."""

KINDS = ("hello", "next", "heartbeat", "report", "result", "lost", "bye")

Direction = Literal["ask", "answer"]

_HEX = re.compile(r"[0-9a-f]{1,64}")


class FrameError(AssistantError):
    """What came is no frame, or not from who it says."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a frame.

    Attributes:
        pilot: the public id of its ticket.
        session: that the gate gave in answer to a hello; of a hello, a number used once.
        counter: of the question in its session.
        kind: of the question.
        length: of the body, in bytes.
        digest: SHA-256 of the body.
        signature: of all this and the direction.
    """

    pilot: str
    session: str
    counter: int
    kind: str
    length: int
    digest: str
    signature: str = ""

    def sign(self, secret: bytes, direction: Direction) -> str:
        """Return what its signature has to be."""
        told = (self.pilot, self.session, str(self.counter), self.kind, str(self.length))
        text = "\n".join((direction, *told, self.digest))
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def is_signed(self, secret: bytes, direction: Direction) -> bool:
        """Tell whether the signature is that of who has the secret."""
        return hmac.compare_digest(self.sign(secret, direction), self.signature)

    def answers(self, asked: "Header") -> bool:
        """Tell whether it belongs to a question."""
        ours = (asked.pilot, asked.session, asked.counter, asked.kind)
        return (self.pilot, self.session, self.counter, self.kind) == ours

    @property
    def most_bytes(self) -> int:
        """How long the body may be."""
        return MOST_RESULT if self.kind in ("report", "result") else MOST_BODY


def encode(
    secret: bytes, direction: Direction, about: tuple[str, str, int, str], body: Mapping[str, Any]
) -> bytes:
    """Return a frame.

    Args:
        secret: of the pilot's ticket.
        direction: a question, or its answer.
        about: pilot, session, counter and kind.
        body: what is said.

    Raises:
        FrameError: the body is too long, or JSON has no word for it.
    """
    try:
        content = json.dumps(body, allow_nan=False, default=_plain).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError(f"this cannot be sent: {error}") from error
    header = Header(*about, len(content), hashlib.sha256(content).hexdigest())
    if len(content) > header.most_bytes:
        raise FrameError(
            f"{len(content)} bytes are too many to send; at most {header.most_bytes} may go"
        )
    signed = replace(header, signature=header.sign(secret, direction))
    line = json.dumps({name: getattr(signed, name) for name in Header.__slots__})
    return line.encode() + b"\n" + content


def decode_header(line: bytes) -> Header:
    """Return the header of a frame; its signature is still to be looked at.

    Raises:
        FrameError: it is none.
    """
    try:
        body = json.loads(line) if len(line) <= MOST_HEADER else None
        header = Header(**body)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError("no header of a frame") from error
    texts: list[object] = [header.pilot, header.session, header.digest, header.signature]
    numbers: list[object] = [header.counter, header.length]
    if (
        not all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts)
        or not all(_is_count(number) for number in numbers)
        or header.kind not in KINDS
        or header.length > header.most_bytes
    ):
        raise FrameError("no header of a frame")
    return header


def _is_count(value: object) -> bool:
    return isinstance(value, int) and type(value) is int and 0 <= value < 2**53


def decode_body(header: Header, content: bytes) -> dict[str, Any]:
    """Return what a frame says, once its header is known to be signed.

    Raises:
        FrameError: the body is not the one that was signed, or no object.
    """
    if hashlib.sha256(content).hexdigest() != header.digest:
        raise FrameError("the body is not the one that was signed")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise FrameError("the body is no object")
    return body


def work_as_json(work: Work) -> dict[str, Any]:
    """Return a run to execute as JSON has it."""
    return {
        "run_id": work.run_id, "values": dict(work.values), "seed": work.seed,
        "limit_s": work.limit_s,
    }  # fmt: skip


def work_of(body: Mapping[str, Any]) -> Work:
    """Return the run that JSON tells of."""
    return Work(body["run_id"], body["values"], body["seed"], body["limit_s"])


def completion_as_json(completion: Completion) -> dict[str, Any]:
    """Return what came of a run as JSON has it."""
    return {name: getattr(completion, name) for name in Completion.__slots__}


def completion_of(body: Mapping[str, Any]) -> Completion:
    """Return what came of a run. Raises FrameError if that cannot be understood."""
    try:
        told = dict(body)
        measures = told.pop("measures")
        found = Completion(
            measures=None if measures is None else measures_of(measures),
            run_id=int(told.pop("run_id")), failure=told.pop("failure"),
            duration_s=float(told.pop("duration_s")), stopped=bool(told.pop("stopped")),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError(f"no result of a run: {error}") from error
    if found.failure is not None and not isinstance(found.failure, str):
        raise FrameError("no result of a run: its failure is no text")
    return found


def measures_of(body: object) -> dict[str, Measure]:
    """Return measures from JSON, in which a series is a list. Raises FrameError."""
    if not isinstance(body, dict):
        raise FrameError("measures are not an object")
    return {name: _measure(name, value) for name, value in body.items()}


def _measure(name: str, value: object) -> Measure:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list) and all(isinstance(one, int | float) for one in value):
        return tuple(value)
    raise FrameError(f"the measure '{name}' is neither a number nor a list of numbers")


def _plain(value: Any) -> Any:
    """Return a number of NumPy's, or an array, as Python has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")

"""What every reader owes us for any input: an answer or one sentence, soon, in little memory."""

import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from assistant.core.errors import AssistantError
from sim.model.errors import SimError
from strategies.space.errors import StrategyError

OURS = (AssistantError, SimError, StrategyError)
MOST_CPU_S = 2.0
MOST_WALL_S = 30.0
MOST_BYTES = 300 * 2**20
LONGEST_SENTENCE = 600

_INTERNALS = re.compile(
    r"<class |<function | object at 0x|Traceback|ValidationError|pydantic|\bdtype\b|array\(|"
    r"Decimal\(|NoneType|unhashable|not subscriptable|has no attribute|unexpected keyword|"
    r"float64|int64\b"
)


class TooLong(BaseException):
    """Raised in the middle of a reader that took too long; no reader catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """Interrupt what takes more than `MOST_CPU_S` of the processor, or `MOST_WALL_S`."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = [signal.signal(one, stop) for one in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for one, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(one, handler)


def fault_of(read: Callable[[], object]) -> str | None:
    """Return what is wrong with how a reader took one input; None if nothing is."""
    rest_bytes = _start_of_peak()
    started_s = time.process_time()
    try:
        with limited():
            read()
    except OURS as error:
        fault = fault_of_sentence(str(error))
    except TooLong:
        return f"more than {MOST_CPU_S:g} s: {traceback.format_exc(limit=-3)}"
    except BaseException:
        return f"no error of ours: {traceback.format_exc(limit=-4)}"
    else:
        fault = None
    if fault is None and time.process_time() - started_s > MOST_CPU_S:
        return f"more than {MOST_CPU_S:g} s"
    if fault is None and rest_bytes and _status_bytes("VmHWM") - rest_bytes > MOST_BYTES:
        return f"more than {MOST_BYTES:,} bytes"
    return fault


def fault_of_sentence(sentence: str) -> str | None:
    """Return what is wrong with an error's text; None if nothing is."""
    if not sentence.strip():
        return "an empty sentence"
    if len(sentence) >= LONGEST_SENTENCE:
        return f"a sentence of {len(sentence)} characters: {sentence[:200]!r}"
    odd = next((c for c in sentence if not c.isprintable()), None)
    if odd is not None:
        return f"a sentence with {odd!r} in it: {sentence!r}"
    found = _INTERNALS.search(sentence)
    return None if found is None else f"a sentence that shows internals: {sentence!r}"


def _start_of_peak() -> int:
    """Begin to measure the peak of memory anew, and return what is in use; 0 where it cannot be."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status_bytes("VmRSS")
    except OSError:
        return 0


def _status_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0

"""What fuzzing found, by name: each was a traceback, a hang or a sentence that nobody can read."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.core.codec import decode_event
from assistant.core.errors import AssistantError
from tests.fuzz import corpus
from tests.fuzz import workload_readers as others
from tests.fuzz.readers import READERS
from tests.fuzz.watch import fault_of, fault_of_sentence

HUGE = b"9" * 400
"""Digits of a whole number that is no float."""


def journal(**changes: object) -> bytes:
    """A journal whose first event has other fields."""
    first, *rest = corpus.journals()[0].split(b"\n")
    return b"\n".join([json.dumps({**json.loads(first), **changes}).encode(), *rest])


def settings(old: bytes, new: bytes, which: int = 0) -> bytes:
    assert old in corpus.SETTINGS[which]
    return corpus.SETTINGS[which].replace(old, new, 1)


FOUND: dict[str, tuple[str, Callable[[], bytes]]] = {
    "table: an objective of 400 digits": ("table", lambda: b"x,objective\n1," + HUGE + b"\n"),
    "table: a duration of 400 digits": (
        "table", lambda: b"x,objective,duration_s\n1,2," + HUGE + b"\n"),
    "table: cells of 120,000 digits that are no number": (
        "table", lambda: b"x,objective\n" + (b"9" * 120_000 + b"x,1\n") * 7),
    "table: a header in UTF-16 without its mark": (
        "table", lambda: f"size,mode,obje{'a' * 200}\n1,2,3\n".encode("utf-16-be")),
    "table: a header of characters that cannot be printed": (
        "table", lambda: b"size," + b"\x01" * 600 + b"\n1,2\n"),
    "swf: 900,000 digits that are no number": (
        "swf", lambda: corpus.SWF[1].replace(b"100", b"9" * 900_000 + b"x")),
    "swf: a header of 900,000 digits that are no number": (
        "swf", lambda: b"; MaxProcs: " + b"9" * 900_000 + b"x\n" + corpus.SWF[1]),
    "swf: 900,000 digits": ("swf", lambda: corpus.SWF[1].replace(b"100", b"9" * 900_000)),
    "sacct: a partition that changes the direction of writing": (
        "sacct", lambda: others.SACCT[1].replace(b"|p|", "|\u202e|".encode())),
    "sacct: 900 rows of 50 fields too many": (
        "sacct", lambda: others.SACCT[-1] + (b"|90|2|a" + b"|b" * 57 + b"\n") * 900),
    "sacct: a header of 100,000 names": (
        "sacct", lambda: others.SACCT[0].replace(b"|ReqCPUS", b"|ReqCPUS" * 100_000)),
    "slurm_conf: a word of 500 kB that is no key": (
        "slurm_conf", lambda: b"x" * 500_000 + b"\n" + others.SLURM_CONF[0]),
    "results: a measure of 400 digits": (
        "results", lambda: b"x,y,mode,height\n0,0,plain," + HUGE + b"\n"),
    "results: 1_000": ("results", lambda: b"x,y,mode,height\n0,0,plain,1_000\n"),
    "results: a level that is spelt like a type": (
        "results", lambda: b"height,mode,y,x\n4,oddtype,1,2\n"),
    "measures: a match of 400 digits": ("measures", lambda: b"cost: " + HUGE + b"\nn=4\n"),
    "swf: a header of spaces": ("swf", lambda: b"; a" + b" " * 900_000 + b"!\n" + corpus.SWF[1]),
    "swf: a header value of 500 kB": (
        "swf", lambda: b"; MaxProcs: " + b"x" * 500_000 + b"\n" + corpus.SWF[1]),
    "swf: Arabic digits": ("swf", lambda: corpus.SWF[1].replace(b"100", "\u0661".encode())),
    "settings: a logarithmic range to 400 digits": (
        "settings", lambda: settings(b"high = 64", b"high = " + HUGE)),
    "settings: a program with a long name": (
        "settings", lambda: settings(b'"sh", "{x}"', b'"' + b"p" * 300 + b'", "{x}"')),
    "settings: a folder with a long name": (
        "settings", lambda: settings(b"stdin =", b'cwd = "' + b"p" * 300 + b'"\nstdin =')),
    "settings: an option of a strategy of 400 digits": (
        "settings", lambda: b'[strategy]\nname = "copper"\nbeta = ' + HUGE + b"\n"),
    "settings: a level of 400 digits": (
        "settings", lambda: settings(b"[0, 16]", b"[" + HUGE + b"]", 2)),
    "tables: half a character": (
        "tables", lambda: b"{'application': {'command': ['true']}, 'parameters': [{'name': "
        b"'\\ud800', 'kind': 'ordinal', 'unit': 'MB'}]}"),
    "settings: an unknown key with line ends": (
        "settings", lambda: b'"a\\n\\u001b[31mb" = 1\n' + corpus.SETTINGS[0]),
    "settings: an unknown key of 3,000 characters": (
        "settings", lambda: b"k" * 3000 + b" = 1\n" + corpus.SETTINGS[0]),
    "settings: a deadline of 400 digits": (
        "settings", lambda: settings(b'"2h"', b'"' + HUGE + b':00"')),
    "journal: nested 100,000 times": ("journal", lambda: b"[" * 100_000),
    "journal: a list for the type": ("journal", lambda: journal(type=[1])),
    "journal: a type of 5,000 characters": ("journal", lambda: journal(type="x" * 5000)),
    "journal: half a character": ("journal", lambda: journal(name="\ud800")),
    "journal: NaN": ("journal", lambda: journal(at_s=float("nan"))),
    "journal: bytes that are no text": (
        "journal", lambda: corpus.journals()[0].replace(b"series", b"\xfe\xff")),
    "journal: a space that cannot be": (
        "journal", lambda: corpus.journals()[0].replace(b"[0, 1, 2, 3]", b"[0, 0]", 1)),
    "store: a schema that is no text": (
        "store", lambda: corpus.databases()[1].replace(b"CREATE TABLE", b"\xd9REATE \xffABLE")),
}  # fmt: skip


@pytest.mark.parametrize("reader,make", FOUND.values(), ids=FOUND)  # noqa: PT006
def test_it_is_taken_as_it_should(reader: str, make: Callable[[], bytes], tmp_path: Path) -> None:
    assert READERS[reader].fault(make(), tmp_path) is None


@pytest.mark.parametrize(
    "line",
    ['{"type": "RunStarted", "v": 1, "at_s": NaN, "run_id": 1}',
     '{"type": "RunStarted", "v": 1, "at_s": 1e999, "run_id": 1}',
     '{"type": "RunStarted", "v": true, "at_s": 1, "run_id": 1}',
     '{"type": {}, "v": 1}', '{"type": "\\ud800", "v": 1}', "[]", "1", "", "[" * 100_000],
)  # fmt: skip
def test_what_is_no_event(line: str) -> None:
    with pytest.raises(AssistantError) as caught:
        decode_event(line)
    assert fault_of_sentence(str(caught.value)) is None


@pytest.mark.soak
def test_the_watch_sees_what_it_shall_see() -> None:
    """A hang, a flood of memory, a traceback, and sentences that are none."""

    def hang() -> None:
        while True:
            pass

    def flood() -> None:
        bytearray(400 * 2**20)

    def says(text: str) -> Callable[[], None]:
        def refuse() -> None:
            raise AssistantError(text)

        return refuse

    before = signal.getsignal(signal.SIGPROF)
    assert "more than 2 s" in (fault_of(hang) or "")
    assert signal.getsignal(signal.SIGPROF) == before
    if Path("/proc/self/clear_refs").exists():
        assert "bytes" in (fault_of(flood) or "")
    assert "no error of ours" in (fault_of(lambda: 1 // 0) or "")
    assert "internals" in (fault_of(says("'NoneType' object has no attribute 'x'")) or "")
    assert "an empty sentence" in (fault_of(says(" ")) or "")
    assert fault_of_sentence("a\nb") is not None
    assert fault_of_sentence("a" * 700) is not None
    assert fault_of(says("the file 'x' is empty; give another")) is None

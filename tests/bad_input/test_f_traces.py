"""Group F, 76-92: logs that are none, or too much of one. A sentence, and no trace."""

import gzip
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

import pytest

from sim.api import (
    ClusterSpec,
    ReadingRules,
    Scenario,
    ScenarioError,
    TraceError,
    Workload,
    load_workload,
    simulate,
)
from sim.formats.text_files import LONGEST_LINE_BYTES, MOST_BYTES, MOST_LINES, read_bytes
from tests.fuzz.watch import fault_of, fault_of_sentence

HEADER = "; MaxProcs: 64\n"
LENIENT = ReadingRules(
    unsorted="sort", negative="unknown", duplicate_ids="renumber", extra_columns="drop",
    procs_missing="drop", partial_executions="keep", requested_missing="drop",
)  # fmt: skip
STRICT = ReadingRules(unsorted="refuse", negative="refuse", extra_columns="refuse")


def row(
    job: object = 1, submit: object = 0, run: object = 10, alloc: object = 4, procs: object = 4,
    asked: object = 20, memory: object = -1,
) -> str:  # fmt: skip
    return f"{job} {submit} 5 {run} {alloc} -1 -1 {procs} {asked} {memory} 1 7 8 -1 1 2 -1 -1\n"


def refused(path: Path, rules: ReadingRules | None = None) -> str:
    """Return the sentence, after checking time, memory, its shape, and that nothing is left."""
    folder = path.parent if path.is_relative_to(gettempdir()) else Path.cwd()
    before = sorted(folder.iterdir())
    assert fault_of(lambda: load_workload(path, rules=rules)) is None
    with pytest.raises(TraceError) as caught:
        load_workload(path, rules=rules)
    assert before == sorted(folder.iterdir())
    sentence = str(caught.value)
    assert fault_of_sentence(sentence) is None
    return sentence


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def given(content: str | bytes, name: str = "log.swf") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return given


TEXTS: dict[str, tuple[str, str]] = {
    "F76 an empty file": ("", "it contains no jobs"),
    "F76 an empty file of blank lines": ("\n \n\t\n", "it contains no jobs"),
    "F77 only comments": (HEADER + "; Note: nothing here\n;\n", "it contains no jobs"),
    "F78 17 fields": (HEADER + row() + row(2)[:-4] + "\n", "line 3: 17 fields where SWF has 18"),
    "F78 19 fields": (HEADER + row() + row(2)[:-1] + " 9\n", "line 3: 19 fields where SWF has 18"),
    "F78 one field": (HEADER + "word\n", "line 2: 1 fields where SWF has 18"),
    "F79 a negative run time": (HEADER + row(run=-5), "line 2: run time is '-5'; allowed are"),
    "F79 negative processors": (
        HEADER + row() + row(2, procs=-5), "line 3: requested processors is '-5'; allowed are"),
    "F79 half below zero": (HEADER + row(run="-0.5"), "line 2: run time is '-0.5'"),
    "F80 0 processors": (
        HEADER + row(alloc=0, procs=0), "line 2: requested processors is '0'; the job ran, so"),
    "F81 NaN": (HEADER + row(run="NaN"), "line 2: run time is 'NaN'; allowed are finite numbers"),
    "F81 inf": (HEADER + row(submit="inf"), "line 2: submit time is 'inf'; allowed are finite"),
    "F81 -inf": (HEADER + row(asked="-inf"), "line 2: requested time is '-inf'; allowed are"),
    "F81 1e300": (HEADER + row(run="1e300"), "line 2: run time is '1e300'; allowed are numbers up"),
    "F81 1e999": (HEADER + row(run="1e999"), "line 2: run time is '1e999'; allowed are finite"),
    "F81 memory": (HEADER + row(memory="1e300"), "line 2: requested memory is '1e300'"),
    "F82 1_000": (HEADER + row(run="1_000"), "line 2: run time is '1_000'; allowed are finite"),
    "F82 Arabic digits": (HEADER + row(run="\u0661\u0662"), "line 2: run time is"),
    "F82 full-width digits": (HEADER + row(run="\uff11\uff12"), "line 2: run time is"),
    "F82 hex": (HEADER + row(run="0x10"), "line 2: run time is '0x10'; allowed are finite"),
    "F82 a hex float": (HEADER + row(run="0x1p3"), "line 2: run time is '0x1p3'"),
    "F82 a comma": (HEADER + row(run="1,5"), "line 2: run time is '1,5'"),
    "F83 decreasing submit times": (
        HEADER + row(1, 50) + row(2, 40),
        "line 3: submit time is '40'; the line before has 50, and submit times must not step back"),
    "F92 a job of 10^18 processors": (
        HEADER + row(procs=10**18), "line 2: requested processors is '1000000000000000000'"),
    "F91 an escape sequence": (HEADER + row(run="\x1b[31m7"), r"run time is '\x1b[31m7'"),
    "F91 old Mac line ends": (
        (HEADER + row()).replace("\n", "\r"), "it contains no jobs; an SWF log has one line"),
}  # fmt: skip


@pytest.mark.parametrize("text,words", TEXTS.values(), ids=TEXTS)  # noqa: PT006
def test_text_that_is_no_log(write: Callable[..., Path], text: str, words: str) -> None:
    assert words in refused(write(text), STRICT)


@pytest.mark.parametrize(
    "content",
    [HEADER + row(run="\u0661\u0662"), HEADER + row(run="1_000"), HEADER + row(run="0x10")],
    ids=["F82 Arabic digits", "F82 1_000", "F82 hex"],
)
def test_no_rule_lets_strange_digits_pass(write: Callable[..., Path], content: str) -> None:
    assert "line 2: run time is" in refused(write(content), LENIENT)


def test_f79_minus_one_is_unknown(write: Callable[..., Path]) -> None:
    workload = load_workload(write(HEADER + row(alloc=-1) + row(2, run=-1)))
    assert workload.job_id.tolist() == [1]


SORTED: dict[str, tuple[tuple[str, ...], list[int], int]] = {
    "F83 equal": ((row(3, 5), row(1, 5), row(2, 5)), [1, 2, 3], 0),
    "F83 decreasing": ((row(1, 50), row(2, 40), row(3, 40)), [2, 3, 1], 1),
    "F83 unsorted": ((row(1, 9), row(2, 3), row(3, 9), row(4, 0)), [4, 2, 1, 3], 2),
}


@pytest.mark.parametrize("rows,order,n_back", SORTED.values(), ids=SORTED)  # noqa: PT006
def test_submit_times_are_sorted_with_a_note(
    write: Callable[..., Path], rows: tuple[str, ...], order: list[int], n_back: int
) -> None:
    workload = load_workload(write(HEADER + "".join(rows)), rules=ReadingRules(unsorted="sort"))
    assert workload.job_id.tolist() == order
    assert [n.n_rows for n in workload.notes if n.rule == "unsorted"] == [n_back] * (n_back > 0)


@pytest.mark.parametrize("too_wide", ["refuse", "reject", "clip"], ids="F84 {}".format)
def test_a_job_wider_than_the_machine_is_said_and_ends(
    write: Callable[..., Path], too_wide: str
) -> None:
    workload = load_workload(write(HEADER + row(1) + row(2, 1, procs=65, alloc=65) + row(3, 2)))
    assert [n.n_rows for n in workload.notes if n.rule == "wider_than_machine"] == [1]
    scenario = Scenario(workload, ClusterSpec.single(64), too_wide=too_wide)  # type: ignore[arg-type]
    if too_wide == "refuse":
        with pytest.raises(ScenarioError, match="65"):
            simulate(scenario)
        return
    result = simulate(scenario)
    assert (result.start_s[[0, 2]] >= 0).all()


def test_f85_a_request_below_the_run_time_is_kept_and_noted(write: Callable[..., Path]) -> None:
    workload = load_workload(write(HEADER + row(run=30, asked=20)))
    assert [n.rule for n in workload.notes] == ["requested_below_runtime"]


def test_f86_ten_million_lines(write: Callable[..., Path]) -> None:
    path = write(HEADER + "\n" * 10**7)
    assert refused(path) == (
        f"{path}, line {MOST_LINES + 1}: at most {MOST_LINES:,} lines are read; give a part of "
        "the log."
    )


def test_f86_a_line_of_a_gigabyte_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    with path.open("wb") as file:
        file.write(row().encode() + b"7 " * LONGEST_LINE_BYTES)
        file.truncate(2**30)  # sparse: it costs no disk
    assert "line 2: this line is longer than 1,048,576 bytes" in refused(path)


def test_f86_more_bytes_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BYTES == 2**30
    monkeypatch.setattr("sim.formats.text_files.MOST_BYTES", 3 * 2**20)
    path = tmp_path / "log.swf"
    path.write_text(row() * 100_000)
    assert "at most 3,145,728 bytes of text are read" in refused(path)


@pytest.mark.parametrize(
    "filling", [b"\n", b" ", b"1 ", b"; a\n", row().encode()], ids="F87 {}".format
)
def test_a_gzip_bomb_is_stopped_on_the_way(tmp_path: Path, filling: bytes) -> None:
    path = tmp_path / "log.swf.gz"
    block = row().encode() + filling * (2**20 // len(filling))
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(48):
            file.write(block)
    assert path.stat().st_size < 2**20
    said = refused(path)
    assert any(words in said for words in ("more than 100 times its size", "lines are read",
                                           "this line is longer than"))  # fmt: skip


def test_f87_what_was_counted_is_all_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    text = (HEADER + row()).encode()
    path.write_bytes(gzip.compress(text))
    assert read_bytes(path) == text


GZIP = gzip.compress((HEADER + row() * 1).encode(), mtime=0)
DAMAGED = {
    "F88 truncated": (GZIP[:-9], "the compressed file is broken"),
    "F88 the head alone": (GZIP[:4], "the compressed file is broken"),
    "F88 trailing garbage": (GZIP + b"garbage", "the compressed file is broken"),
    "F88 a bent byte": (GZIP[:30] + b"\xff\xff" + GZIP[32:], "the compressed file is broken"),
    "F88 another checksum": (GZIP[:-8] + b"\0\0\0\0" + GZIP[-4:], "the compressed file is broken"),
    "F88 no gzip": ((HEADER + row()).encode(), "the name ends in .gz but this is not gzip"),
    "F88 gzip in gzip": (gzip.compress(GZIP), "this is a binary file"),
}


@pytest.mark.parametrize("content,words", DAMAGED.values(), ids=DAMAGED)  # noqa: PT006
def test_a_damaged_gzip_file(write: Callable[..., Path], content: bytes, words: str) -> None:
    assert words in refused(write(content, "log.swf.gz"))


def test_f88_concatenated_members_are_one_log(write: Callable[..., Path]) -> None:
    members = gzip.compress((HEADER + row()).encode()) + gzip.compress(row(2).encode())
    assert load_workload(write(members, "log.swf.gz")).n_jobs == 2


def archive(kind: str, member: str) -> bytes:
    """Return an archive with one member that would lie outside, be a link, or be a device."""
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr(member, HEADER + row())
    else:
        with tarfile.open(fileobj=out, mode=f"w:{kind}") as packed_tar:
            info = tarfile.TarInfo(member)
            if member == "link":
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            if member == "device":
                info.type = tarfile.CHRTYPE
            packed_tar.addfile(info)
    return out.getvalue()


@pytest.mark.parametrize("member", ["../evil.swf", "/tmp/evil.swf", "link", "device", "log.swf"])
@pytest.mark.parametrize(
    ("kind", "words"),
    [("zip", "a zip archive"), ("", "a tar archive"), ("gz", "a tar archive"),
     ("bz2", "compressed by bzip2"), ("xz", "compressed by xz")],
    ids=["F89 zip", "F89 tar", "F89 tar.gz", "F89 tar.bz2", "F89 tar.xz"],
)  # fmt: skip
def test_an_archive_is_refused_and_nothing_is_taken_out(
    write: Callable[..., Path], kind: str, words: str, member: str
) -> None:
    said = refused(write(archive(kind, member), "log.swf"))
    assert f"this is {words}; unpack it yourself" in said


NAMES: dict[str, tuple[str, str]] = {
    "F90 ../../evil": ("../../no-such-evil", "there is no such file"),
    "F90 CON": ("CON", "there is no such file"),
    "F90 300 characters": ("n" * 300, "File name too long"),
    "F90 5,000 characters": ("n/" * 2500, "File name too long"),
    "F90 NUL": ("a\0b", "there is no such file"),
    "F90 a dot": (".", "this is a folder"),
    "F90 nothing": ("", "this is a folder"),
    "F90 a leading dash": ("-rf", "there is no such file"),
    "F90 a line end": ("a\nb\x1b[31m", "there is no such file"),
    "F90 half a character": ("a\udcff", "there is no such file"),
    "F90 a file for a folder": ("/etc/passwd/log.swf", "there is no such file"),
    "F90 a device without an end": ("/dev/zero", "this is not a regular file"),
    "F90 memory": ("/proc/self/mem", "it cannot be read"),
}


@pytest.mark.parametrize("name,words", NAMES.values(), ids=NAMES)  # noqa: PT006
def test_names_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.startswith(("/dev", "/proc")) and not Path(name).exists():
        pytest.skip("not on this system")
    assert words in refused(Path(name))


def test_f90_a_strange_name_that_exists_is_read(write: Callable[..., Path]) -> None:
    for name in ("-rf.swf", "=1+1.swf", "$(touch x).swf", "\u202efws.gol", "a b;c.swf"):
        assert load_workload(write(HEADER + row(), name)).n_jobs == 1


def test_f90_a_pipe_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "pipe.swf"
    os.mkfifo(path)
    assert "this is not a regular file" in refused(path)


def test_f90_a_link_in_a_circle(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.symlink_to(path)
    assert "it cannot be read" in refused(path)


CODED: dict[str, tuple[bytes, str]] = {
    "F91 UTF-16": ((HEADER + row()).encode("utf-16"), "this is text in UTF-16; save it as UTF-8"),
    "F91 UTF-16 without a mark": ((HEADER + row()).encode("utf-16-le"), "this is a binary file"),
    "F91 UTF-32": ((HEADER + row()).encode("utf-32-be"), "this is a binary file"),
    "F91 latin-1": (b"; Caf\xe9\n" + row().encode(), "line 1: this line is not UTF-8"),
    "F91 surrogates": (HEADER.encode() + b"; \xed\xa0\x80\n", "line 2: this line is not UTF-8"),
    "F91 NUL at the end": ((HEADER + row()).encode() + b"\0", "this is a binary file"),
}


@pytest.mark.parametrize("content,words", CODED.values(), ids=CODED)  # noqa: PT006
def test_other_codes(write: Callable[..., Path], content: bytes, words: str) -> None:
    assert words in refused(write(content))


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf" + (HEADER + row()).encode(), (HEADER + row()).replace("\n", "\r\n").encode(),
     (HEADER + row()).replace(" ", "\t").encode(), (HEADER + row()[:-1]).encode()],
    ids=["F91 a byte order mark", "F91 CRLF", "F91 tabs", "F91 no last line end"],
)  # fmt: skip
def test_codes_that_are_read(write: Callable[..., Path], content: bytes) -> None:
    workload = load_workload(write(content))
    assert (workload.n_jobs, workload.max_procs) == (1, 64)


SIZES = (
    "-5", "0", "8.5", "1000000000000000000", "9" * 400, "1e300", "nan", "inf", "0x40", "\u0666",
    "1_0", "many", "\x1b[31m",
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=[f"F92 {ascii(size)[:24]}" for size in SIZES])
def test_a_machine_of_no_size_is_unknown_with_a_note(write: Callable[..., Path], size: str) -> None:
    workload = load_workload(write(f"; MaxProcs: {size}\n{row()}"))
    assert workload.max_procs is None
    assert "MaxProcs is unclear" in workload.notes[0].sentence
    for note in workload.notes:
        assert fault_of_sentence(note.sentence) is None


def test_f92_minus_one_is_unknown(write: Callable[..., Path]) -> None:
    assert load_workload(write("; MaxProcs: -1\n" + row())).max_procs is None


def test_f92_a_header_line_of_spaces_is_read_at_once(write: Callable[..., Path]) -> None:
    path = write(f"; a{' ' * 900_000}!\n" + row())
    assert fault_of(lambda: load_workload(path)) is None


def test_f92_a_header_said_50_000_times(write: Callable[..., Path]) -> None:
    lines = "".join(f"; MaxProcs: {n}\n" for n in range(1, 50_000))
    note = load_workload(write(lines + row())).notes[0]
    assert fault_of_sentence(note.sentence) is None


def test_nothing_of_an_earlier_log_stays_when_a_thread_reads_a_bad_one(
    write: Callable[..., Path],
) -> None:
    good, bad = write(HEADER + row(), "good.swf"), write(HEADER + row(run="x"), "bad.swf")
    read: list[Workload] = []

    def both() -> None:
        for _ in range(20):
            with pytest.raises(TraceError):
                load_workload(bad)
            read.append(load_workload(good))

    threads = [threading.Thread(target=both) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.digest for one in read} == {load_workload(good).digest}
    assert len(read) == 80

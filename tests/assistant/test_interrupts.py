"""What a signal does to this process: it interrupts once, and never in the middle of an end."""

import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from importlib import import_module

import pytest

from assistant.core.interrupts import (
    STOP_SIGNALS,
    Interrupted,
    end_on_stop_signals,
    raise_on_stop_signals,
    uninterrupted,
)

GOES_ON = "Jobs and workers are being ended"


@pytest.fixture(autouse=True)
def _as_a_command() -> Iterator[None]:
    before, hook = {number: signal.getsignal(number) for number in STOP_SIGNALS}, sys.unraisablehook
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
    raise_on_stop_signals()
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_each_signal_interrupts_and_says_its_name(number: int, said: str) -> None:
    with pytest.raises(Interrupted, match=said):
        os.kill(os.getpid(), number)


def test_a_second_signal_lets_the_first_one_clean_up(capfd: pytest.CaptureFixture[str]) -> None:
    cleaned: list[str] = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            try:
                signal.raise_signal(signal.SIGTERM)
                raise OSError("no such job")
            except OSError:
                signal.raise_signal(signal.SIGHUP)
                cleaned.append("all")

    with pytest.raises(Interrupted, match="Ctrl-C"):
        work()
    assert cleaned == ["all"]
    assert capfd.readouterr().err.count(GOES_ON) == 2


class Referent:
    """Something with weak references to it."""


def test_an_interruption_that_python_ignores_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    referent = Referent()
    reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGTERM))
    del referent  # the callback of `reference` raises, and Python goes on
    began_s = time.monotonic()
    with pytest.raises(Interrupted, match="SIGTERM"):
        signal.sigtimedwait([], 200)
    assert time.monotonic() - began_s < 150, "it wakes the main thread"
    assert reference() is None
    assert capfd.readouterr().err == ""


def test_other_errors_that_python_ignores_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    referent = Referent()
    reference = weakref.ref(referent, lambda _: int("seven"))
    del referent
    assert reference() is None
    assert "seven" in capfd.readouterr().err


def test_a_further_signal_as_a_command_ends_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line, arriving = import_module("assistant.cli.main"), [signal.SIGINT]

    def end() -> None:
        if arriving:
            signal.raise_signal(arriving.pop())
        end_on_stop_signals()

    monkeypatch.setattr(command_line, "run", lambda _arguments: 130)
    monkeypatch.setattr(command_line, "end_on_stop_signals", end)
    with pytest.raises(BaseException) as ended:  # a KeyboardInterrupt would end all tests
        command_line.main([])
    assert isinstance(ended.value, SystemExit)
    assert ended.value.code == 130
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL


def test_an_interruption_that_got_lost_can_be_repeated() -> None:
    def swallowing() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            return

    swallowing()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_waits_for_the_end_of_what_must_not_be_interrupted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done: list[str] = []

    def end_job() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            done.append("job cancelled")

    with pytest.raises(Interrupted, match="SIGTERM"):
        end_job()
    assert done
    assert GOES_ON in capfd.readouterr().err


def test_what_a_process_was_started_to_ignore_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    raise_on_stop_signals()
    with uninterrupted():
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    end_on_stop_signals()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

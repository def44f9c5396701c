"""Signals that ask this process to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, treated alike.

The first one raises `Interrupted` in the main thread. While that exception cleans up (cancels
jobs and workers, returns runs to the queue), further signals only say that this goes on. Python
ignores exceptions in finalizers and callbacks of weak references; an `Interrupted` that is raised
there is raised again soon after.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PR_SET_PDEATHSIG = 1
_AGAIN_S = 0.05  # after which a signal that Python ignored is raised again

_GOES_ON = (
    "Jobs and workers are being ended, which takes some seconds. After kill -9 they end by "
    "themselves, later.\n"
)


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end; the text is the name of the signal, or Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        self.number = number


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the `STOP_SIGNALS`, without a SIGHUP that this process was started to ignore."""
    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
    return tuple(n for n in STOP_SIGNALS if not (is_kept and n == signal.SIGHUP))


def raise_on_stop_signals() -> None:
    """Let each of the `STOP_SIGNALS` raise `Interrupted`; call it in the main thread.

    A signal that this process was started to ignore stays ignored, as with nohup.
    """
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _raise_again


def end_on_stop_signals() -> None:
    """Let the `STOP_SIGNALS` end this process at once again; call it in the main thread."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == _interrupt:
            signal.signal(number, signal.SIG_DFL)
    if sys.unraisablehook is _raise_again:
        sys.unraisablehook = sys.__unraisablehook__


def _interrupt(number: int, _frame: FrameType | None) -> None:
    error = sys.exception()  # that the interrupted code handles
    while error is not None:
        if isinstance(error, Interrupted):
            _say_that_it_goes_on()
            return
        error = error.__context__
    raise Interrupted(number)


def _raise_again(ignored: "sys.UnraisableHookArgs", /) -> None:
    error = ignored.exc_value
    if not isinstance(error, Interrupted):
        sys.__unraisablehook__(ignored)
        return
    main = threading.main_thread().ident or 0  # which a signal wakes, whatever it waits for
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, [main, error.number])
    again.daemon = True
    again.start()


def _say_that_it_goes_on() -> None:
    with suppress(OSError):  # without buffers: the handler may have interrupted a print
        os.write(2, _GOES_ON.encode())


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Finish a block that ends jobs or workers; a signal meanwhile acts at the end of the block.

    Only signals that have a handler or would end this process wait; outside of the main thread,
    where no signal is handled, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def wait(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)
        _say_that_it_goes_on()

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    waiting = {n: h for n, h in before.items() if h not in (None, signal.SIG_IGN)}
    for number in waiting:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in waiting.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Start threads and processes in a block that the `STOP_SIGNALS` do not reach.

    A terminal and a batch system signal whole process groups; workers are ended by their parent.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        resource_tracker.ensure_running()  # a process that unblocks two of the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_parent() -> None:
    """Let the `STOP_SIGNALS` do nothing in a worker process; its parent handles them.

    They are handled, not ignored or blocked, because programs that a run starts would inherit that.
    Call it in the main thread of a process that was started with `signals_blocked`.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def die_with_parent(parent: int) -> None:
    """Let Linux kill this process as soon as the thread of process ``parent`` that started it ends.

    This ends it in the middle of machine code too. Elsewhere it does nothing.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

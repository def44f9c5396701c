"""A connection to SQLite with a fault in it: what happens before and after each statement."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

PLAIN_CONNECT = sqlite3.connect


class Died(BaseException):
    """The process is dead from here on; nothing may catch it."""


class Fault:
    """Numbers the statements and lets each pass; others do something at some of them."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, sql: str, do: Callable[[], Any]) -> Any:
        self.statements.append(" ".join(sql.split()))
        number = len(self.statements)
        self.before(number, sql)
        given = do()
        self.after(number, sql)
        return given

    def before(self, number: int, sql: str) -> None:
        """Do what the fault does before the statement of that number, counted from 1."""

    def after(self, number: int, sql: str) -> None:
        """Do what the fault does when it has been carried out."""


class Death(Fault):
    """Die before or after one statement; nothing reaches the file any more.

    Args:
        number: of the statement.
        is_after: whether it is carried out before.
        die: what dying is; by default `Died` is raised, now and ever after.
    """

    def __init__(self, number: int, is_after: bool, die: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._number = number
        self._is_after = is_after
        self._die = die or self._raise
        self.is_dead = False

    def _raise(self) -> None:
        self.is_dead = True
        raise Died

    def before(self, number: int, sql: str) -> None:
        if self.is_dead or (number == self._number and not self._is_after):
            self._die()

    def after(self, number: int, sql: str) -> None:
        if number == self._number and self._is_after:
            self._die()


class Refusal(Fault):
    """SQLite says an error instead of carrying out some statements in a row.

    It never refuses to roll back: with a write-ahead log that writes nothing.

    Args:
        number: of the first of them.
        text: what it says.
        times: how many.
    """

    def __init__(self, number: int, text: str, times: int = 1) -> None:
        super().__init__()
        self._numbers = range(number, number + times)
        self._text = text
        self.n_refused = 0

    def before(self, number: int, sql: str) -> None:
        if number in self._numbers and sql != "ROLLBACK":
            self.n_refused += 1
            raise sqlite3.OperationalError(self._text)


@contextmanager
def wired(fault: Fault) -> Iterator[None]:
    """Let every connection that is opened within carry out its statements through a fault."""

    class Wired(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> Any:
            plain = super().execute
            return fault(sql, lambda: plain(sql, *parameters))

        def executemany(self, sql: str, rows: Iterable[Any]) -> None:  # type: ignore[override]
            for row in rows:  # SQLite carries it out once per row, and may stop in between
                self.execute(sql, row)

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        return PLAIN_CONNECT(*given, **named, factory=Wired)

    sqlite3.connect = connect  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = PLAIN_CONNECT

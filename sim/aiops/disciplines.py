"""Which of those that wait for a resource comes next.

A discipline is told who waits and asked who is next; it knows no event loop. Adding one is a class
here and a line in `DISCIPLINES`.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sim.errors import UnknownNameError

PATIENCE_S = 4 * 3600.0
"""Who waited so long counts, for `potential`, as much as a model that lost all that it could."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A task that waits.

    Attributes:
        asked_s: since when.
        user: whose pipeline it is.
        priority: of the pipeline; higher is sooner.
        seconds: of computing that are expected.
        potential: of the model at a time, 0 to 1: what a new training is expected to gain.
        weight: of the model beside others.
        ticket: whom to wake.
    """

    asked_s: float
    user: int
    priority: float
    seconds: float
    potential: Callable[[float], float]
    weight: float
    ticket: Any


class Discipline(Protocol):
    """A queue."""

    def push(self, request: Request) -> None:
        """Take note of one that waits."""

    def pop(self, now_s: float) -> Request:
        """Return who is next, who then waits no more; there is somebody."""

    def served(self, user: int, seconds: float) -> None:
        """Take note that a user's task was computed for so long."""

    def __len__(self) -> int: ...


class Fifo:
    """First come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()

    def push(self, request: Request) -> None:
        """Queue behind all others."""
        self._waiting.append(request)

    def pop(self, now_s: float) -> Request:  # noqa: ARG002 - time changes nothing
        """Return who came first."""
        return self._waiting.popleft()

    def served(self, user: int, seconds: float) -> None:
        """Nothing to remember."""

    def __len__(self) -> int:
        return len(self._waiting)


class Priority:
    """The highest priority first, then who came first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Request]] = []
        self._came = 0

    def push(self, request: Request) -> None:
        """Queue by priority."""
        self._came += 1
        heapq.heappush(self._waiting, (-request.priority, self._came, request))

    def pop(self, now_s: float) -> Request:  # noqa: ARG002 - time changes nothing
        """Return the most important."""
        return heapq.heappop(self._waiting)[2]

    def served(self, user: int, seconds: float) -> None:
        """Nothing to remember."""

    def __len__(self) -> int:
        return len(self._waiting)


class Potential:
    """Who gains most for an hour of computing, with patience for those who wait.

    Section III-B of the PipeSim paper asks for the scheduler, and leaves its rule open. Ours: the
    potential of the model now, times its weight, by the seconds that are expected (Smith's rule:
    what is worth most per second goes first), plus the share of `PATIENCE_S` that was waited, so
    that nobody starves.
    """

    def __init__(self) -> None:
        self._waiting: list[Request] = []

    def push(self, request: Request) -> None:
        """Take note; the order is found when somebody is asked for."""
        self._waiting.append(request)

    def pop(self, now_s: float) -> Request:
        """Return who has the highest score now; of equals who came first."""
        waiting = self._waiting
        best, chosen = -1.0, 0
        for place, request in enumerate(waiting):
            score = worth(request, now_s)
            if score > best:
                best, chosen = score, place
        return waiting.pop(chosen)

    def served(self, user: int, seconds: float) -> None:
        """Nothing to remember."""

    def __len__(self) -> int:
        return len(self._waiting)


def worth(request: Request, now_s: float) -> float:
    """Return the score of one that waits, for `Potential`."""
    hours = max(request.seconds, 60.0) / 3600.0
    gain = request.potential(now_s) * request.weight / hours
    return gain + (now_s - request.asked_s) / PATIENCE_S


class Fair:
    """The user first whose tasks were computed least so far; each user's own in order."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Request]] = {}
        self._served: dict[int, float] = {}
        self._n = 0

    def push(self, request: Request) -> None:
        """Queue behind the user's own."""
        self._waiting.setdefault(request.user, deque()).append(request)
        self._n += 1

    def pop(self, now_s: float) -> Request:  # noqa: ARG002 - time changes nothing
        """Return the first request of the user who had least; of equals who waits longest."""
        user = min(
            self._waiting,
            key=lambda one: (self._served.get(one, 0.0), self._waiting[one][0].asked_s),
        )
        request = self._waiting[user].popleft()
        if not self._waiting[user]:
            del self._waiting[user]
        self._n -= 1
        return request

    def served(self, user: int, seconds: float) -> None:
        """Remember what a user had."""
        self._served[user] = self._served.get(user, 0.0) + seconds

    def __len__(self) -> int:
        return self._n


DISCIPLINES: dict[str, Callable[[], Discipline]] = {
    "fifo": Fifo,
    "priority": Priority,
    "potential": Potential,
    "fair": Fair,
}


def discipline_named(name: str) -> Discipline:
    """Return an empty queue of a discipline.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in DISCIPLINES:
        raise UnknownNameError("queueing discipline", name, DISCIPLINES)
    return DISCIPLINES[name]()

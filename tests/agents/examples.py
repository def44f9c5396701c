"""Small measured tables with known optima, and one way to play an analyst on them."""

import itertools
from collections.abc import Callable, Sequence
from functools import cache

from agents import Agent, AnalystEpisode, EpisodeStreams, SimulatedClock, SimulatedExecutor, Truth
from assistant import MemoryStore, Run, Session, Sla, open_session
from assistant.applications.lookup import Lookup


def table(shape: Sequence[int], value: Callable[[tuple[int, ...]], float | None]) -> str:
    """Return a table's text: parameters a, b, ... with levels from 0; None leaves a row out."""
    lines = [",".join([*"abcdefgh"[: len(shape)], "objective"])]
    for ids in itertools.product(*map(range, shape)):
        found = value(ids)
        if found is not None:
            lines.append(f"{','.join(map(str, ids))},{found!r}")
    return "\n".join(lines) + "\n"


def rugged(ids: Sequence[int]) -> float:
    """A slope with bumps: the least is 1.0 at (2, 1, 0), and nowhere else."""
    slope = sum(abs(own - best) for own, best in zip(ids, (2, 1, 0), strict=True))
    return 1.0 + slope + 0.01 * ((7 * ids[0] + 5 * ids[1] + 3 * ids[2] + 1) % 5) * (slope > 0)


def failing(ids: Sequence[int]) -> float | None:
    """The same, of which a fifth fails."""
    return None if sum(ids) % 5 == 4 else rugged(ids)


TEXTS = {
    "rugged": table((4, 3, 5), rugged),
    "failing": table((4, 3, 5), failing),
    "small": table((3, 4), lambda ids: 1.0 + abs(ids[0] - 1) + 0.5 * ids[1] + (sum(ids) % 2)),
    "flat": table((3, 3), lambda ids: 2.0 + (ids != (1, 1))),
}


@cache
def truth(name: str) -> Truth:
    """Return the truth of a table above."""
    return Truth.of(Lookup.parse(TEXTS[name], name))


def played(
    agent: Agent,
    known: Truth,
    *,
    replication: int = 0,
    max_runs: int = 20,
    until: Callable[[Run], bool] = lambda run: False,
    strategy: str = "copper",
    sla: Sla | None = None,
    run_s: float = 1.0,
    **told: object,
) -> tuple[Session, str]:
    """Play one episode; return the session and why it ended."""
    streams, clock = EpisodeStreams((77,), replication), SimulatedClock()
    session = open_session(
        known.application,
        store=MemoryStore(),
        clock=clock,
        experiment_id="episode",
        seed=streams.session_seed,
        strategy=strategy,
        sla=sla,
    )
    episode = AnalystEpisode(known, streams, max_runs, until, wait=clock.wait, **told)  # type: ignore[arg-type]
    return session, agent.play(session, SimulatedExecutor(known.application, clock, run_s), episode)


def indices(session: Session, *sources: str) -> list[int]:
    """Return the flat indices of the runs, in their order; of some sources only if any is named."""
    space = session.experiment.space
    return [
        space.index(run.configuration)
        for run in session.experiment.runs
        if not sources or run.source in sources
    ]

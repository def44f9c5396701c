"""What a worker holds, and what is known of the token that it holds it under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strategies import Level


@dataclass(frozen=True, slots=True)
class Claim:
    """One run that a worker holds.

    Args:
        experiment_id: of the experiment.
        run_id: in it.
        token: the right to say how it ended.
        attempt: how often it has been started, this time included.
        values: levels by parameter.
        seed: of the run.
        limit_s: how long it may take; None is no limit.
        lease_s: seconds until it is taken away, unless a heartbeat comes.
        again: whether it had been given under the same key before.
    """

    experiment_id: str
    run_id: int
    token: str
    attempt: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None
    lease_s: float
    again: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of a token.

    Args:
        token: of the attempt.
        experiment_id: of the experiment.
        run_id: in it.
        worker: who holds or held it.
        result: digest of the result that was recorded under it; None if none was.
        refused: digest of the result that came too late; None if none did.
        is_current: whether the run goes on under it.
        state: of the run.
    """

    token: str
    experiment_id: str
    run_id: int
    worker: str
    result: str | None
    refused: str | None
    is_current: bool
    state: str

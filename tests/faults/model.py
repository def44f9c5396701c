"""What the model of the queue holds: runs, sweeps, and tokens that were told."""

from dataclasses import dataclass, field


@dataclass
class Run:
    name: str
    id: int
    seq: int
    values: dict[str, object]
    state: str = "queued"
    priority: float = 0.0
    held: bool = False
    attempts: int = 0
    lost: int = 0
    token: str = ""


@dataclass
class Sweep:
    active: bool = False
    finished: bool = False
    deadline_s: float | None = None
    n_events: int = 1
    n_refused: int = 0
    runs: list[Run] = field(default_factory=list)


@dataclass
class Told:
    """What was said under a token."""

    run: Run
    result: object = None
    refused: object = None

    @property
    def goes_on(self) -> bool:
        return self.run.state == "running" and self.run.token == self.token

    token: str = ""

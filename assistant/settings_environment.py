"""``[environment]`` of a sweep file: the computing environment of each run."""

from typing import Annotated

from pydantic import Field

from assistant.applications.schema import SizeBytes, Strict
from assistant.events import Fact
from assistant.executors import Place
from assistant.ports import Environment
from sim.api import format_size

LEAST_MEMORY_BYTES = 1 << 20


class EnvironmentSettings(Strict):
    """``[environment]``: what each run needs."""

    cores: int | None = Field(default=None, ge=1)
    memory: Annotated[SizeBytes, Field(ge=LEAST_MEMORY_BYTES)] | None = None

    def build(self) -> Environment:
        """Return the environment."""
        return Environment(self.cores, self.memory)


def computing_facts(place: Place, workers: int) -> tuple[Fact, ...]:
    """Return how a reader is told of the computing environment; nothing where none was named."""
    wanted = place.environment
    told = []
    if wanted.cores is not None:
        told.append(f"{wanted.cores} core{'' if wanted.cores == 1 else 's'}")
    if wanted.memory_bytes is not None:
        told.append(f"{format_size(wanted.memory_bytes)} of memory")
    if not told:
        return ()
    runs = "one run at a time" if workers == 1 else f"{workers} runs at once"
    where = "" if place.executor is None else f", executed by {place.executor}"
    return (Fact("Computing environment", f"{runs}, each with {' and '.join(told)}{where}"),)

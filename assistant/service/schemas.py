"""What may come in a request: strict types, nothing unknown, bounded sizes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assistant.objective import Measure
from assistant.service.roles import Role
from assistant.sla import AtGoal, OnWarning, Sla, Tariff
from assistant.store.queue import LEASES_S

Text = Annotated[str, Field(max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
LevelIn = bool | int | float | Annotated[str, Field(max_length=1000)]
Levels = Annotated[dict[Name, LevelIn], Field(max_length=1000)]
Count = Annotated[int, Field(ge=1, le=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e11, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
MeasureIn = float | int | None | Annotated[list[Number], Field(max_length=100_000)]
Measures = Annotated[dict[Name, MeasureIn], Field(max_length=1000)]


class Body(BaseModel):
    """A body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class OpenIn(Body):
    """A new experiment: the tables of a sweep file, or a description of one that runs elsewhere."""

    settings: dict[str, Any] | None = None
    described: dict[str, Any] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class JournalIn(Body):
    """Events that a session elsewhere has decided, with the position of the first."""

    position: Annotated[int, Field(ge=0)]
    events: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=200_000)]


class SuggestIn(Body):
    """A batch: of the strategy, the first one, or replicates that confirm what is best."""

    n: Count
    kind: Literal["next", "initial", "confirmation"] = "next"


class SubmitIn(Body):
    """What of a batch is taken, and with which other levels."""

    keep: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] | None = None
    edits: Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], Levels], Field()] = {}


class IncludeIn(Body):
    """A configuration of the analyst's own."""

    values: Levels
    reason: Text = ""


class ReplicateIn(Body):
    """More runs of a configuration that has one: by the run, or by its values."""

    of: Annotated[int, Field(ge=1)] | Levels
    n: Count = 1
    reason: Text = ""


class PriorityIn(Body):
    """When a waiting run starts: a number, or before all that wait now."""

    priority: Number | Literal["first"]


class ReasonIn(Body):
    """Why."""

    reason: Text = ""


class StopIn(Body):
    """Whether what the run has reported last counts as its result, and why it is stopped."""

    keep: bool = True
    reason: Text = ""


class RatingIn(Body):
    """The analyst's verdict on a result; null takes it back."""

    good: bool | None


class SteeringIn(Body):
    """Another strategy or exploitation level; what is not named stays as it is."""

    strategy: Name | None = None
    options: Levels | None = None
    exploitation: Share | Literal["keep"] | None = "keep"


class AutomaticIn(Body):
    """How an experiment steers itself; see `Automatic`."""

    batch: Annotated[int, Field(ge=1, le=1000)] | None = None
    initial: Annotated[int, Field(ge=0, le=1000)] = 10
    advice: OnWarning = "wait"


class HandOverIn(Body):
    """It steers itself from now on; null gives it back to the person."""

    automatic: AutomaticIn | None
    reason: Text = ""


class TariffIn(Body):
    """What a run costs."""

    unit: Annotated[str, Field(max_length=40)] = ""
    per_hour: Number | None = None
    resources: Name | None = None
    measure: Name | None = None


class AgreementIn(Body):
    """All terms of the agreement; null is none."""

    max_runs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    deadline_s: Seconds | None = None
    max_cost: Number | None = None
    tariff: TariffIn | None = None
    goal: Number | None = None
    run_limit_s: Seconds | None = None
    at_goal: AtGoal = "stop"

    def agreement(self) -> Sla:
        """Return it as a value. Raises SettingsError where terms do not go together."""
        told = self.model_dump()
        tariff = told.pop("tariff")
        return Sla(**told, tariff=None if tariff is None else Tariff(**tariff))


class WatchIn(Body):
    """How regions and pending runs are counted, and when warnings come; as in the journal."""

    watch: dict[str, Any]


class LevelChangeIn(Body):
    """A change of one level."""

    change: Literal["close", "reopen", "add", "prefer", "unprefer"]
    parameter: Name
    value: LevelIn


class ExcludeIn(Body):
    """A condition that is never proposed, such as ``nodes > 4 and mode == 'fast'``."""

    condition: Annotated[str, Field(min_length=1, max_length=4000)]


class PlanIn(Body):
    """A range of values as the pending strategy; empty takes it back."""

    levels: Annotated[
        dict[Name, Annotated[list[LevelIn], Field(max_length=10_000)]], Field(max_length=1000)
    ]


class WeightIn(Body):
    """How much a region counts."""

    region: Annotated[int, Field(ge=1)]
    weight: Number


class AnswerIn(Body):
    """The answer to the open warning."""

    answer: Literal["accepted", "changed", "ignored"]
    exploitation: Share | None = None
    alternative: Annotated[int, Field(ge=0)] | None = None


class ResultIn(Body):
    """A result from before."""

    values: Levels
    measures: Measures


class ImportIn(Body):
    """Results from before."""

    results: Annotated[list[ResultIn], Field(max_length=100_000)]
    replicates: bool = False


class WhatIfIn(Body):
    """A change that is thought of; what is null stays as it is."""

    exploitation: Share | Literal["keep"] | None = "keep"
    max_runs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    deadline_s: Seconds | None = None
    max_cost: Number | None = None
    goal: Number | None = None
    strategy: Name | None = None
    options: Levels | None = None
    close: Annotated[list[tuple[Name, LevelIn]], Field(max_length=1000)] = []
    weights: Annotated[list[tuple[int, Number]], Field(max_length=1000)] = []


class RegisterIn(Body):
    """A program that asks for its runs itself: its parameters, objective and agreement.

    The settings are the tables of a sweep file; ``automatic`` true steers as they say.
    """

    name: Name
    settings: dict[str, Any]
    automatic: AutomaticIn | bool | None = True
    resume: bool = False


class ClaimIn(Body):
    """A worker asks for the next run. The token of an adapter says who, and of which experiment."""

    worker: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    lease_s: Annotated[float, Field(ge=LEASES_S[0], le=LEASES_S[1])] = 30.0
    experiment: Name | None = None
    without: Annotated[list[Name], Field(max_length=1000)] = []


class ReportIn(Body):
    """What a run that goes on has measured so far."""

    measures: Measures


class ResultOfRunIn(Body):
    """How a run ended: its measures, or the sentence that says why there are none.

    Without ``duration_s`` it has lasted since it was claimed.
    """

    measures: Measures | None = None
    failure: Text | None = None
    duration_s: Annotated[float, Field(ge=0, le=1e11)] | None = None


class TokenIn(Body):
    """A token with a name: what it is for, of which experiment alone, until when."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
    role: Literal["viewer", "steerer", "worker", "adapter"] = "worker"
    experiment: Name | None = None
    expires_s: Seconds | None = None


def measures_of(told: dict[str, Any] | None) -> dict[str, Measure] | None:
    """Return measures as values: a series becomes a tuple."""
    if told is None:
        return None
    return {name: tuple(x) if isinstance(x, list) else x for name, x in told.items()}


class DecidedOut(BaseModel):
    """What came of a decision: the events that it made, and the version of the experiment."""

    experiment: str
    version: int
    first: int
    events: list[dict[str, Any]]
    again: bool = False


class EventsOut(BaseModel):
    """A page of a journal; ``next`` is where to go on."""

    events: list[dict[str, Any]]
    next: int
    more: bool


class RegisteredOut(BaseModel):
    """A program that may ask for runs: with which token, and under which name it is known."""

    experiment: str
    token: str
    worker: str
    resumed: bool


class ClaimOut(BaseModel):
    """A run that a worker holds, for as long as its lease is renewed."""

    experiment: str
    run: int
    token: str
    attempt: int
    values: dict[str, LevelIn]
    seed: int
    limit_s: float | None
    lease_s: float


class LeaseOut(BaseModel):
    """A renewed lease."""

    lease_s: float


class RecordedOut(BaseModel):
    """Whether a result was told for the first time."""

    recorded: bool
    first_time: bool


class RecipeOut(BaseModel):
    """What a worker needs to build the application of a run that it holds."""

    experiment: str
    recipe: str
    opened: dict[str, Any]


class CallerOut(BaseModel):
    """Whose token a request has come by; name and experiment are null where it has none."""

    role: Role
    name: str | None
    experiment: str | None
    expires_s: float | None


class HolderOut(CallerOut):
    """Who was handed a token with a name, when, and by whose token."""

    name: str
    made_s: float
    made_by: str | None


class TokenOut(HolderOut):
    """A token that was made, told this once."""

    token: str


class HealthOut(BaseModel):
    """Whether the service answers."""

    status: Literal["ok", "draining"]
    version: str

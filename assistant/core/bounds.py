"""Bounds of the numbers that people set: one range each, with its words for error messages.

The settings models, the request bodies and the constructors of values all check these ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from assistant.core.errors import SettingsError
from strategies.space.parameter import MAX_LEVELS

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Bound:
    """Range of a number, usable as the metadata of an annotated field of a pydantic model.

    Args:
        low: least value; excluded if ``above``.
        high: greatest value, included.
        above: whether values must be above ``low``.
        words: the range in words; made of the numbers if empty.

    >>> str(Bound(1, 10_000)), str(Bound(0.0, 1.5, above=True))
    ('a whole number from 1 to 10,000', 'a number above 0 and at most 1.5')
    """

    low: float
    high: float
    above: bool = False
    words: str = ""

    def __str__(self) -> str:
        if self.words:
            return self.words
        noun = "a whole number" if isinstance(self.low, int) else "a number"
        low, high = (f"{end:,.10g}" for end in (self.low, self.high))
        return (
            f"{noun} above {low} and at most {high}"
            if self.above
            else (f"{noun} from {low} to {high}")
        )

    def __contains__(self, value: float) -> bool:
        """Return whether a number lies in the range; NaN does not."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def check(self, subject: str, value: object) -> None:
        """Raise SettingsError unless a value is None or a number of the range's kind inside it."""
        if value is None:
            return
        kinds = int if isinstance(self.low, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or value not in self:
            raise SettingsError(f"{subject} must be {self}, not {value!r}")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a field: its own type, then the range."""
        return core_schema.no_info_after_validator_function(self._validated, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON schema of a field, with the ends of the range."""
        least = "exclusiveMinimum" if self.above else "minimum"
        return {**handler(schema), least: self.low, "maximum": self.high}

    def _validated(self, value: Any) -> Any:
        if value not in self:
            raise ValueError(f"must be {self}")
        return value


RUNS = Bound(1, 10**9)
"""Budget of runs; also the first rows of a file."""

BATCH = Bound(1, 1_000)
"""Suggestions of a batch, and replicates that are submitted together."""

INITIAL = Bound(0, 1_000)
WORKERS = Bound(1, 10_000)
CORES = Bound(1, 1_000_000)
PROCESSES = Bound(1, 1_000_000)
SEED = Bound(0, 2**63 - 1)
MIN_SAMPLES = Bound(1, 1_000_000)

DURATION_S = Bound(
    0.0, 36_500 * DAY_S, above=True, words="a time above 0 s and at most 36,500 days"
)
MOMENT_S = Bound(
    0.0, 1e11, above=True, words="a moment above 0 and at most 1e11 s since 1970-01-01 UTC"
)
"""A moment; 1e11 s is in the year 5138, and dates end in the year 9999."""

COST = Bound(0.0, 1e15, above=True)
COST_PER_H = Bound(0.0, 1e15)

VALUE = Bound(-1e150, 1e150)
"""Value of an objective, such as a goal or a bound; its square is finite."""

FACTOR = Bound(0.0, 1e9, above=True)
"""Factor, such as on the rate of arrivals."""

REGION_WEIGHT = Bound(0.0, 1e6)
RADIUS = Bound(0.0, 1e6, above=True)
PRIORITY = Bound(-1e6, 1e6)

LEVELS = Bound(2, MAX_LEVELS)
"""Levels of a parameter with a constant ratio between them."""

WATTS = Bound(0.0, 1e9)
PRICE = Bound(0.0, 1e9)
HOUR_OF_DAY = Bound(0.0, 24.0)

MACHINES = Bound(1, 100_000)
MACHINE_COUNTS = Bound(0, 100_000)
GPUS = Bound(0, 1_024)
GIBIBYTES = Bound(0.0, 2.0**23, above=True)


# -- types of fields in commands and requests ------------------------------------------------------

Text = Annotated[str, Field(max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
LevelValue = bool | int | float | Annotated[str, Field(max_length=1000)]
LevelValues = Annotated[Mapping[Name, LevelValue], Field(max_length=1000)]
Count = Annotated[int, BATCH]
Number = Annotated[float, Field(allow_inf_nan=False)]
Moment = Annotated[float, MOMENT_S]
Share = Annotated[float, Field(ge=0, le=1)]
Priority = Annotated[  # the command refuses what is beyond, with the sentence of every shell
    float,
    Field(
        allow_inf_nan=False,
        json_schema_extra={"minimum": PRIORITY.low, "maximum": PRIORITY.high},
    ),
]
Position = Annotated[int, Field(ge=0, le=10**9)]
PositiveNumber = Annotated[int, Field(ge=1, le=10**9)]

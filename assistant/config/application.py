"""Models of ``[application]`` for a program of your own, and of its ``[[parameters]]``.

Each model is strict and builds its application: a command, a Python function, or a REST program.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from assistant.applications.benchmark_files import FileFormat
from assistant.applications.function import Function
from assistant.applications.measures import JsonFile, JsonOutput, Patterns
from assistant.applications.process_limits import MOST_PROCESSES
from assistant.applications.program import Program, Reading
from assistant.applications.rest import Rest
from assistant.applications.switches import NONE, SwitchGroup
from assistant.config.fields import (
    BoundedNumber,
    DurationS,
    LevelValue,
    SizeBytes,
    StrictModel,
    setting,
)
from assistant.core.bounds import LEVELS, PROCESSES
from assistant.core.errors import ApplicationError
from assistant.core.objective import Objective
from assistant.core.ports import Environment
from strategies import Level, Parameter, ParameterSpace


def _words(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(
            "must be a list with one element per argument (no shell splits a text), such as "
            "['./program', '--size={size}']"
        )
    return value


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


_TEXT = {"type": "string"}
_TextOrList = WithJsonSchema({"anyOf": [{"type": "array", "items": _TEXT}, _TEXT]})


class RangeSettings(StrictModel):
    """Settings ``range = {low, high, step}`` of evenly spaced levels, both ends included.

    Without a step the levels are coarse, and become finer near the best result.
    """

    low: BoundedNumber = setting("First level.", title="from")
    high: BoundedNumber = setting("Last level, included.", title="to")
    step: BoundedNumber | None = setting(
        "Difference between two levels.", None, title="in steps of",
        usual="5 to 7 levels, and others near the best result",
    )  # fmt: skip
    log: bool = setting("Without a step: levels have a constant ratio.", False)

    @model_validator(mode="after")
    def _one(self) -> "RangeSettings":
        if self.step is not None and self.log:
            raise ValueError(
                "has a step and log = true; leave out the step, or use logarithmic = {low, high, "
                "count}"
            )
        return self


class LogarithmicSettings(StrictModel):
    """Settings ``logarithmic = {low, high, count, integer}`` of geometrically spaced levels."""

    low: BoundedNumber = setting("First level.", title="from")
    high: BoundedNumber = setting("Last level, included.", title="to")
    count: Annotated[int, LEVELS] = setting("Number of levels.", title="number")
    integer: bool = setting("Round levels to whole numbers.", False, title="whole numbers")


class ParameterSettings(StrictModel):
    """Settings ``[[parameters]]``: a name, and levels, a range, logarithmic levels or switches."""

    name: str = setting(
        "Letters, digits and underscores, also with dashes and dots between them.",
        title="Parameter", example="size",
    )  # fmt: skip
    levels: list[LevelValue] | None = setting(
        "The values: numbers, texts, or truth values.", None, title="Levels"
    )
    range: RangeSettings | None = setting(
        "`{low, high, step}`: evenly spaced levels; `{low, high}` or `{low, high, log = true}`: "
        "coarse levels, and finer ones near the best result.",
        None,
    )
    logarithmic: LogarithmicSettings | None = setting(
        "`{low, high, count, integer}`: levels with a constant ratio.", None
    )
    one_of: list[str] | None = setting(
        "Switches of which exactly one is on in a run: `{name}` is the one that is on, and the "
        "placeholder of each switch is 1 or 0; a function gets each as a truth value.",
        None,
    )
    or_none: bool = setting("With `one_of`: also none of the switches is on.", False)
    when: str = setting(
        "Condition on other parameters under which this one matters, such as `\"kernel == "
        "'rbf'\"`. Elsewhere it is inactive: the program does not get it.",
        "", title="Only when", example="kernel == 'rbf'", usual="always",
    )  # fmt: skip
    kind: Literal["ordinal", "nominal"] | None = setting(
        "Kind of the levels.", None, usual="numbers are ordinal, texts nominal"
    )
    unit: str = setting("Unit of the levels, for people.", "", title="Unit")
    description: str = setting(
        "What the parameter means, for people.", "", title="Description (optional)"
    )

    @model_validator(mode="after")
    def _one(self) -> "ParameterSettings":
        alternatives = [self.levels, self.range, self.logarithmic, self.one_of]
        if sum(x is not None for x in alternatives) != 1:
            raise ValueError(
                f"for the parameter '{self.name}' give exactly one of levels = [...], "
                "range = {low, high, step}, logarithmic = {low, high, count} and one_of = [...]"
            )
        if self.one_of is not None and self.when:
            raise ValueError(
                f"the parameter '{self.name}' has one_of, whose switches are in every run, so it "
                "cannot have 'when'; give levels = [...] instead"
            )
        if self.one_of is None:
            if self.or_none:
                raise ValueError(f"or_none of the parameter '{self.name}' is for one_of = [...]")
            return self
        if self.kind == "ordinal":
            raise ValueError(f"the parameter '{self.name}' cannot be ordinal: one_of has no order")
        if self.or_none and NONE in self.one_of:
            raise ValueError(
                f"one_of of the parameter '{self.name}' contains '{NONE}', which or_none adds; "
                "leave out one of them"
            )
        return self

    @property
    def switches(self) -> SwitchGroup | None:
        """The switches of ``one_of``; None if the parameter has none."""
        return None if self.one_of is None else SwitchGroup(self.name, tuple(self.one_of))

    def build(self) -> Parameter:
        """Build the parameter, or raise SpaceError if it is invalid."""
        more: dict[str, Any] = {
            "unit": self.unit, "description": self.description, "when": self.when.strip(),
        }  # fmt: skip
        if self.kind is not None:
            more["kind"] = self.kind
        if self.range is not None:
            ends = self.range
            if ends.step is None:
                return Parameter.wide_range(self.name, ends.low, ends.high, ends.log, **more)
            return Parameter.range(self.name, ends.low, ends.high, ends.step, **more)
        if self.logarithmic is not None:
            log = self.logarithmic
            return Parameter.logarithmic(
                self.name, log.low, log.high, log.count, log.integer, **more
            )
        if self.one_of is not None:
            return Parameter(self.name, (*self.one_of, *([NONE] if self.or_none else [])), **more)
        return Parameter(self.name, tuple(self.levels or ()), **more)


class MeasuresSettings(StrictModel):
    """Settings ``measures``: how to read a run's measures: from output, a file or by patterns."""

    stdout: Literal["json", "last_line"] | None = setting(
        "A number, `NAME: NUMBER` or JSON in the last line, or all of stdout as JSON.", None
    )
    file: str | None = setting(
        "JSON in a file that the run writes.", None, title="File", example="{scratch}/result.json"
    )
    format: FileFormat | None = setting(
        "What the file holds: JSON of your own, or the file of a benchmark tool.",
        None, title="Format", usual="`json`",
    )  # fmt: skip
    pattern: Annotated[list[str] | None, BeforeValidator(_several), _TextOrList] = setting(
        "Regular expressions with named groups; the last match of each counts.", None,
        title="Patterns, one per line", example="time: (?P<time_ms>[0-9.]+)",
    )  # fmt: skip
    stream: Literal["stdout", "stderr"] | None = setting(
        "Where patterns are looked for.", None, title="Search in"
    )

    @model_validator(mode="after")
    def _one(self) -> "MeasuresSettings":
        alternatives = [self.stdout, self.file, self.pattern]
        if sum(x is not None for x in alternatives) != 1:
            raise ValueError(
                "for the measures give exactly one of stdout = 'json' or 'last_line', file and "
                "pattern"
            )
        if self.stream is not None and self.pattern is None:
            raise ValueError("stream is for a pattern; give a pattern too, or leave out stream")
        if self.format is not None and self.file is None:
            raise ValueError("format is for a file; give the file too, or leave out format")
        return self

    def build(self) -> Reading:
        """Build the reader of the measures, or raise ApplicationError if invalid."""
        if self.pattern is not None:
            return Patterns(tuple(self.pattern), self.stream or "stdout")
        if self.file is not None:
            return JsonFile(self.file, self.format or "json")
        return JsonOutput("whole" if self.stdout == "json" else "last_line")


class CommandSettings(StrictModel):
    """Settings ``[application]`` of kind ``command``: a program started for each run."""

    kind: Literal["command"] = setting("What a run executes.")
    command: Annotated[list[str], BeforeValidator(_words)] = setting(
        "One element per argument; `{name}` is a parameter's value, `{seed}` the run's seed, "
        "`{scratch}` an empty folder of the run; `{{` and `}}` are braces. No shell reads it.",
        title="The command", example="./program --size={size} --mode {mode}",
    )  # fmt: skip
    cwd: str = setting(
        "Folder where the program runs, relative to the file.", ".", title="Working folder"
    )
    env: dict[str, str] = setting(
        "Variables of its environment, with placeholders.", {},
        title="Environment: NAME=value, one per line", example="OMP_NUM_THREADS={threads}",
    )  # fmt: skip
    stdin: str = setting("What the program reads, with placeholders.", "", title="Standard input")
    inherit: list[str] = setting(
        'Patterns of variables that it gets of your environment, such as `"CUDA_*"`.', []
    )
    limit: DurationS | None = setting(
        "Wall-clock time of a run.", None, title="Stop a run after", example="1m", usual="none"
    )
    processes: Annotated[int, PROCESSES] = setting(
        "How many processes a run may have at once.", MOST_PROCESSES
    )
    file_size: SizeBytes | None = setting("Largest file that it may write.", None, usual="no limit")
    unused: bool = setting(
        "Allow a parameter that neither `command` nor `env` nor `stdin` mentions.", False,
        title="Allow parameters that the command does not use",
    )  # fmt: skip
    measures: MeasuresSettings | None = setting(
        "How measures are read.", None, usual="the last line of stdout"
    )
    noisy: bool | None = setting(
        "Whether the same values give other results from run to run.", None,
        title="Results vary from run to run", usual="unknown",
    )  # fmt: skip
    baseline: dict[str, LevelValue] | None = setting(
        "The current configuration, a value for every parameter.", None
    )

    def build(
        self,
        parameters: Sequence[ParameterSettings],
        objective: Objective,
        environment: Environment,
    ) -> Program:
        """Build the command application, or raise ApplicationError or SpaceError."""
        return Program(
            tuple(self.command),
            _space(parameters),
            objective,
            reading=None if self.measures is None else self.measures.build(),
            baseline=_baseline(self.baseline),
            cwd=self.cwd,
            env=self.env,
            inherit=self.inherit,
            stdin=self.stdin,
            limit_s=self.limit,
            processes=self.processes,
            file_bytes=self.file_size,
            environment=environment,
            unused=self.unused,
            noisy=self.noisy,
            switches=_switches(parameters),
        )


class FunctionSettings(StrictModel):
    """Settings ``[application]`` of kind ``function``: a Python function called for each run."""

    kind: Literal["function"] = setting("What a run executes.")
    function: str = setting(
        "`module:function`, called with one keyword argument per parameter.", title="The function",
        example="module:function",
    )  # fmt: skip
    folder: str = setting(
        "Folder where the module is looked for.", "", title="Folder of the module",
        usual="that of the file",
    )  # fmt: skip
    noisy: bool | None = setting(
        "Whether the same values give other results from run to run.", None,
        title="Results vary from run to run", usual="unknown",
    )  # fmt: skip
    baseline: dict[str, LevelValue] | None = setting(
        "The current configuration, a value for every parameter.", None
    )

    def build(self, parameters: Sequence[ParameterSettings], objective: Objective) -> Function:
        """Build the function application, or raise ApplicationError or SpaceError."""
        return Function.load(
            self.function,
            _space(parameters),
            objective,
            baseline=_baseline(self.baseline),
            folder=self.folder,
            noisy=self.noisy,
            switches=_switches(parameters),
        )


class RestSettings(StrictModel):
    """Settings ``[application]`` of kind ``rest``: an HTTP server or client performs the runs."""

    kind: Literal["rest"] = setting("What a run executes.")
    url: str | None = setting(
        "Address of the program that is called.", None, usual="the program asks for its runs"
    )
    limit: DurationS | None = setting(
        "Wall-clock time of a run.", None, title="Stop a run after", example="1m", usual="none"
    )
    noisy: bool | None = setting(
        "Whether the same values give other results from run to run.", None,
        title="Results vary from run to run", usual="unknown",
    )  # fmt: skip
    baseline: dict[str, LevelValue] | None = setting(
        "The current configuration, a value for every parameter.", None
    )

    def build(self, parameters: Sequence[ParameterSettings], objective: Objective) -> Rest:
        """Build the REST application, or raise ApplicationError or SpaceError."""
        for group in _switches(parameters):
            raise ApplicationError(
                f"one_of of the parameter '{group.parameter}' is for a command or a function; a "
                "program over HTTP gets the level itself: write levels = [...]"
            )
        return Rest(
            _space(parameters),
            objective,
            url=self.url,
            baseline=_baseline(self.baseline),
            limit_s=self.limit,
            noisy=self.noisy,
        )


class LookupSettings(StrictModel):
    """Settings ``[application]`` of kind ``lookup``: a CSV file of measured configurations."""

    kind: Literal["lookup"] = setting("What a run executes.")
    table: str = setting(
        "Measured table (CSV) with a column per parameter and `objective`, which is minimised.",
        title="Path of the table", example="measured.csv",
    )  # fmt: skip
    alternatives: Literal["merge", "keep"] = setting(
        "Columns of 0 and 1 of which every row has at most one 1: `merge` makes them one "
        "parameter, `keep` leaves each a parameter.",
        "merge",
    )


def _space(parameters: Sequence[ParameterSettings]) -> ParameterSpace:
    return ParameterSpace(tuple(parameter.build() for parameter in parameters))


def _switches(parameters: Sequence[ParameterSettings]) -> tuple[SwitchGroup, ...]:
    return tuple(group for each in parameters if (group := each.switches) is not None)


def _baseline(levels: dict[str, LevelValue] | None) -> dict[str, Level] | None:
    return None if levels is None else dict(levels)

"""The form of the *New* page: typed values of all fields, parameter rows, and field errors.

`assistant.ui.pages.new_sweep_file` converts a form to the tables of a sweep file and back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from assistant.applications.scheduling_presets import DEFAULT_PRESET
from assistant.config.sweep_file import check_settings
from assistant.core.sla import OnWarning
from assistant.ui.bindings import Binding
from assistant.ui.early_stopping_fields import EARLY_STOPPING_BINDINGS, EarlyStoppingFields
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.sla_fields import SLA_BINDINGS, SlaFields
from strategies import DEFAULT_STRATEGY, Level, Parameter
from strategies.space.parameter import Family, is_name, parse_number

Source = Literal["example", "log", "platform", "table", "command", "function", "file"]
How = Literal["list", "steps", "ratio"]
Kind = Literal[
    "numbers", "numbers without order", "names", "names in order", "yes or no",
    "yes or no in order",
]  # fmt: skip
Direction = Literal["own", "minimise", "maximise", "kept"]
Measures = Literal["usual", "last_line", "json", "file", "pattern"]

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_PLAIN = re.compile(r"[\w.-]*\w", re.ASCII)
_INTERPRETER = re.compile(
    r"(env|nice|time|python|pypy|bash|sh|perl|ruby|node|java|julia|Rscript)[0-9.]*"
)
_NOT_PARAMETERS = frozenset(("seed", "scratch"))

OWN_PROGRAM: tuple[Source, ...] = ("command", "function")
USUAL_ORDERS = ("fcfs", "sjf")


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """Form row for one parameter of a user program, as typed.

    Args:
        uid: identifier of the row; it does not change with the name or the order.
        how: list of levels, or range by step or by ratio.
        step: step, or number of levels where they go by a ratio; empty for levels that are
            coarse at first, and become finer near the best result.
        is_integer: whether levels by a ratio are rounded to whole numbers.
        when: condition on other parameters under which it matters; empty for always.
        baseline: level in the current configuration; empty in every row if there is none.
    """

    uid: int = 0
    name: str = ""
    how: How = "list"
    levels: tuple[str, ...] = ()
    low: str = ""
    high: str = ""
    step: str = ""
    is_integer: bool = False
    kind: Kind = "numbers"
    unit: str = ""
    description: str = ""
    when: str = ""
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class ConstraintField:
    """Form row for one constraint: bounds of one measure, as typed."""

    uid: int = 0
    measure: str = ""
    at_most: str = ""
    at_least: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ProgramFields:
    """Form fields of a user program, as typed.

    Args:
        words: program and arguments in one line, quoted as in a shell.
        function: ``module:function`` instead.
        folder: working folder, or folder of the module.
        environment: ``NAME=value``, one a line.
        measures: source of the measures; ``usual`` is the last line of the output.
        where: the file, or the patterns, one a line; ``stream`` is searched for them.
        noisy: whether results vary; None is unknown.
        unused: whether a parameter may be absent from the command.
    """

    words: str = ""
    function: str = ""
    folder: str = ""
    environment: str = ""
    stdin: str = ""
    limit: str = ""
    measures: Measures = "usual"
    where: str = ""
    stream: str = "stdout"
    noisy: bool | None = None
    unused: bool = False


@dataclass(frozen=True, slots=True)
class FuturesFields:
    """Form fields of the generated workloads (futures) on which every run is evaluated.

    Args:
        generator: name of the workload generator; empty means no futures.
        aggregate: ``mean``, ``quantile`` or ``worst``.
        quantile: share of the futures that are no worse; empty is the default.
    """

    generator: str = ""
    count: str = "10"
    duration: str = "7d"
    aggregate: str = "mean"
    quantile: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFields:
    """Form fields of a cluster simulated with a job log; an empty field means its default.

    ``levels`` holds the parameters with changed levels. None means those for the preset and the
    source: two orders for the built-in example with the paper's parameters, none otherwise. An
    empty entry closes a parameter that the preset opens. ``options`` are options of the policies.
    """

    preset: str = DEFAULT_PRESET

    first: str = ""
    procs: str = ""
    order: str = "fcfs"
    backfill: str = "easy"
    small_job_below: str = ""
    small_job_wait: str = ""
    too_wide: str = "reject"
    overrun: str = "raise"
    dependencies: str = "ignore"
    accounts: str = ""
    levels: Mapping[str, tuple[str, ...]] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    futures: FuturesFields = field(default_factory=FuturesFields)


@dataclass(frozen=True, slots=True)
class ObjectiveFields:
    """Form fields of the objective, as typed.

    Args:
        direction: ``own`` is the objective of the application, ``kept`` that of `Form.kept`.
        without: measures whose constraints by the application are dropped.
    """

    direction: Direction = "own"
    measure: str = ""
    unit: str = ""
    second: str = ""
    second_direction: str = "minimise"
    bounds: tuple[ConstraintField, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """Typed values of all form fields of a new experiment.

    Args:
        path: path of the log, the table or the sweep file.
        text: text of an uploaded sweep file; it wins over the path.
        name: name of the experiment; made from the source if empty.
        runs: budget of runs; None is what the other limits allow, and 60 without any.
        deadline: time from now, such as ``30m``; none if empty.
        terms: the other fields of the SLA.
        exclude: conditions, one a line; a configuration that meets one is never suggested.
        early: fields of early stopping.
        learn_from: earlier experiments that guide the search, one a line.
        exploitation: share of suggestions inside regions of good results; None is no split.
        initial: number of runs in the initial design.
        batch: suggestions at a time; empty is the default of the strategy.
        unattended: whether auto-steering is on.
        warnings: what auto-steering does at a warning.
        extra_tables: tables of a sweep file that no field shows, such as hooks; they are kept.
        run_s: runtime of a run in the experiment that this form copies, in seconds; None for a new
            form or a changed application.
    """

    source: Source = "example"
    path: str = ""
    text: str | None = None
    name: str = ""
    runs: int | None = 40
    deadline: str = ""
    terms: SlaFields = field(default_factory=SlaFields)
    strategy: str = DEFAULT_STRATEGY
    options: Mapping[str, Level] = field(default_factory=dict)
    seed: int = 3
    workers: int = 1
    program: ProgramFields = field(default_factory=ProgramFields)
    rows: tuple[ParameterRow, ...] = (ParameterRow(),)
    cluster: ClusterFields = field(default_factory=ClusterFields)
    exclude: str = ""
    wish: ObjectiveFields = field(default_factory=ObjectiveFields)
    learn_from: str = ""
    early: EarlyStoppingFields = field(default_factory=EarlyStoppingFields)
    exploitation: float | None = None
    initial: int = 10
    batch: int | None = None
    unattended: bool = True
    warnings: OnWarning = "ignore"
    extra_tables: Mapping[str, Any] = field(default_factory=dict)
    run_s: float | None = None

    @property
    def is_own_program(self) -> bool:
        """Whether the user defines the parameters and the objective."""
        return self.source in OWN_PROGRAM

    @property
    def what_is_run(self) -> tuple[object, ...]:
        """Values of the fields that determine how long a run takes."""
        return (self.source, self.path, self.text, self.program, self.cluster)

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Levels of those cluster parameters whose levels differ from the defaults, by name."""
        if self.cluster.levels is not None:
            return self.cluster.levels
        is_usual = self.source == "example" and self.cluster.preset == DEFAULT_PRESET
        return {"order": USUAL_ORDERS} if is_usual else {}

    @property
    def full_name(self) -> str:
        """Name of the experiment, by default made from its source."""
        return self.name.strip() or self._usual_name

    @property
    def _usual_name(self) -> str:
        if self.source == "example":
            return "built-in example"
        if self.source == "platform":
            return "AI platform"
        if self.source == "command":
            arguments = [
                word for word in self.program.words.split() if not re.search("^-|[={]", word)
            ]
            names = [Path(word).stem for word in arguments]
            program_names = [name for name in names if not _INTERPRETER.fullmatch(name)]
            name = next(iter(program_names or names), "sweep")
            return name if _PLAIN.fullmatch(name) else "sweep"
        if self.source == "function":
            return self.program.function.rpartition(":")[2].strip() or "sweep"
        name = Path(self.path.strip()).name
        if "/uploads/" in self.path:
            name = name.partition("-")[2] or name
        return re.sub(r"(\.(swf|gz|txt|csv|toml))+$", "", name) or "sweep"

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Placeholders in command, environment and input that have no parameter row."""
        if self.source != "command":
            return ()
        program = self.program
        texts = f"{program.words}\n{program.environment}\n{program.stdin}".replace("{{", "")
        row_names = {row.name.strip() for row in self.rows} | _NOT_PARAMETERS
        names = dict.fromkeys(_PLACEHOLDER.findall(texts))
        return tuple(name for name in names if is_name(name) and name not in row_names)

    @property
    def has_baseline(self) -> bool:
        """Whether some parameter of the user's program has a current level."""
        return any(row.baseline.strip() for row in self.rows)

    def reading(self, measure: str, pattern: str) -> "Form":
        """Return the form with a measure that a pattern reads from the standard output."""
        program = replace(self.program, measures="pattern", where=pattern, stream="stdout")
        wish = replace(self.wish, measure=measure)
        if wish.direction not in ("minimise", "maximise"):
            wish = replace(wish, direction="minimise")
        return replace(self, program=program, wish=wish)

    def with_row(self) -> "Form":
        """Return the form with one more parameter row."""
        return replace(self, rows=(*self.rows, ParameterRow(self._next_uid)))

    def with_unsaid(self) -> "Form":
        """Return the form with a row for each placeholder in `unsaid` and without blank rows."""
        first = self._next_uid
        filled_rows = tuple(row for row in self.rows if row != ParameterRow(row.uid))
        more = tuple(ParameterRow(first + i, name) for i, name in enumerate(self.unsaid))
        return replace(self, rows=(*filled_rows, *more))

    @property
    def _next_uid(self) -> int:
        return max((row.uid for row in self.rows), default=-1) + 1

    def without_row(self, uid: int) -> "Form":
        """Return the form without the parameter row with this identifier."""
        return replace(self, rows=tuple(row for row in self.rows if row.uid != uid))

    def with_bound(self) -> "Form":
        """Return the form with one more constraint."""
        uid = max((bound.uid for bound in self.wish.bounds), default=-1) + 1
        wish = replace(self.wish, bounds=(*self.wish.bounds, ConstraintField(uid)))
        return replace(self, wish=wish)

    def without_bound(self, uid: int) -> "Form":
        """Return the form without the constraint with this identifier."""
        bounds = tuple(bound for bound in self.wish.bounds if bound.uid != uid)
        return replace(self, wish=replace(self.wish, bounds=bounds))


SWEEP_BINDINGS = (
    Binding("runs", "runs"),
    Binding("deadline", "deadline"),
    *(replace(binding, attribute=f"terms.{binding.attribute}") for binding in SLA_BINDINGS),
    *(Binding(name, name) for name in ("seed", "workers", "initial", "batch", "warnings")),
    Binding("exploitation", "exploitation", place="share"),
    Binding("exclude", "exclude", lines=True),
    Binding("learn_from", "learn_from", lines=True),
    *(replace(each, attribute=f"early.{each.attribute}") for each in EARLY_STOPPING_BINDINGS),
)
CLUSTER_BINDINGS = tuple(
    Binding(f"application.{path}", f"cluster.{path.rpartition('.')[2]}")
    for path in (
        "preset", "first", "procs", "baseline.order", "baseline.backfill", "small_job_below",
        "small_job_wait", "too_wide", "overrun", "dependencies", "accounts",
    )
)  # fmt: skip
FUTURES_BINDINGS = tuple(
    Binding(f"application.futures.{name}", f"cluster.futures.{name}", place=f"futures-{name}")
    for name in ("count", "duration", "aggregate", "quantile")
)
COMMAND_BINDINGS = tuple(
    Binding(f"application.{name}", f"program.{name}", kind="command")
    for name in ("limit", "unused", "noisy")
)
FUNCTION_BINDINGS = (Binding("application.noisy", "program.noisy", kind="function"),)
BINDINGS: Mapping[str, Binding] = {
    binding.path: binding
    for group in (
        SWEEP_BINDINGS, CLUSTER_BINDINGS, FUTURES_BINDINGS, FUNCTION_BINDINGS, COMMAND_BINDINGS
    )
    for binding in group
}  # fmt: skip
"""Fields that edit one key each, by the path of the key."""


def bindings_of(source: Source) -> tuple[Binding, ...]:
    """Return the bindings of the fields that a form with this source has."""
    own: Mapping[str, tuple[Binding, ...]] = {
        "example": (*CLUSTER_BINDINGS, *FUTURES_BINDINGS),
        "log": (*CLUSTER_BINDINGS, *FUTURES_BINDINGS),
        "command": COMMAND_BINDINGS,
        "function": FUNCTION_BINDINGS,
    }
    return (*SWEEP_BINDINGS, *own.get(source, ()))


KINDS: Mapping[Kind, tuple[Family, str | None]] = {
    "numbers": ("number", None),
    "numbers without order": ("number", "nominal"),
    "names": ("text", None),
    "names in order": ("text", "ordinal"),
    "yes or no": ("truth", None),
    "yes or no in order": ("truth", "ordinal"),
}
"""Type of the levels, and kind where it is not the default."""


class MissingError(FormFieldError):
    """Error for a required field that is empty."""


def parameter_of(row: ParameterRow) -> tuple[dict[str, Any], Parameter]:
    """Return a row's parameter as settings table and as object, or raise FormFieldError."""
    place = f"new-p{row.uid}"
    name = row.name.strip()
    if not name:
        raise MissingError(f"{place}-name", "Name the parameter.")
    try:
        Parameter(name, (1,))
    except Exception as error:
        raise FormFieldError(f"{place}-name", sentence(error)) from error
    table: dict[str, Any] = {"name": name, **_levels(row, f"{place}-levels")}
    kind = KINDS[row.kind][1]
    if kind is not None:
        table["kind"] = kind
    table |= {k: t.strip() for k, t in _texts(row).items() if t.strip()}
    try:
        settings = check_settings({"parameters": [table]}, "the form")
        return table, settings.parameters[0].build()
    except Exception as error:
        raise FormFieldError(f"{place}-levels", sentence(error)) from error


def _texts(row: ParameterRow) -> dict[str, str]:
    return {"unit": row.unit, "description": row.description, "when": row.when}


def _levels(row: ParameterRow, place: str) -> dict[str, Any]:
    if row.how == "list":
        if not row.levels:
            raise MissingError(place, "Add at least one level.")
        return {"levels": [_level(text, row.kind, place) for text in row.levels]}
    third = "step" if row.how == "steps" else "count"
    ends = {"low": row.low, "high": row.high}
    if not all(text.strip() for text in ends.values()):
        raise MissingError(place, "Enter the first level and the last level.")
    if row.step.strip():
        ends[third] = row.step
    if KINDS[row.kind][0] != "number":
        raise FormFieldError(place, "A range of levels needs numbers. Choose numbers or a list.")
    numbers = {name: number_in(text, place) for name, text in ends.items()}
    if row.how == "steps":
        return {"range": numbers}
    if third not in numbers:
        if row.is_integer and not all(isinstance(end, int) for end in numbers.values()):
            raise FormFieldError(place, "Whole numbers need whole first and last levels.")
        return {"range": numbers | {"log": True}}
    return {"logarithmic": numbers | ({"integer": True} if row.is_integer else {})}


def _level(text: str, kind: Kind, place: str) -> Level:
    family = KINDS[kind][0]
    if family == "text":
        return text.strip()
    if family == "truth":
        truth = {"true": True, "yes": True, "false": False, "no": False}.get(text.strip().lower())
        if truth is None:
            raise FormFieldError(place, f"'{text}' is not yes or no.")
        return truth
    return number_in(text, place, ". Or set 'Levels are' to names, under More")


def number_in(text: str, place: str, more: str = "") -> int | float:
    """Parse a typed number, or raise FormFieldError for the field at ``place``."""
    number = parse_number(text.strip())
    if number is None:
        raise FormFieldError(
            place, f"'{text.strip()}' is not a number; use a decimal point and no commas{more}."
        )
    return number


def baseline_level(row: ParameterRow) -> Level:
    """Return a parameter's level in the baseline, or raise FormFieldError without one."""
    place = f"new-p{row.uid}-baseline"
    name = row.name.strip() or "this parameter"
    if not row.baseline.strip():
        if row.how == "list" and not row.levels:
            return ""  # there is none to choose from; the message is drawn beside the levels
        raise MissingError(
            place,
            f"Choose the current level of {name}, or none for every parameter.",
        )
    try:
        _, parameter = parameter_of(row)
    except FormFieldError:
        return row.baseline.strip()  # the message is drawn beside the levels
    value = _level(row.baseline, row.kind, place)
    try:
        return parameter.levels[parameter.level_id(value)]
    except Exception as error:
        raise FormFieldError(place, f"Current level not listed: {sentence(error)}") from error

"""What is filled in on *New*, as it is typed: a value, so that going back and forth loses nothing.

`assistant.ui.writing` makes the tables of a sweep file of it, `assistant.ui.reading` the other way
round.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from assistant.applications import DEFAULT_PRESET
from assistant.ui.steering.terms import Terms
from strategies import DEFAULT_STRATEGY, Level

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
class Row:
    """A parameter of one's own program.

    Args:
        uid: tells rows apart whatever their names and places.
        name: of the parameter.
        how: whether levels are listed, or go in steps or by a ratio between two ends.
        levels: the list.
        low: the first level of a range.
        high: its last one.
        step: between levels, or their number where they go by a ratio.
        whole: whether levels by a ratio are rounded to whole numbers.
        kind: what the levels are.
        unit: for people.
        description: for people.
        today: level of today's configuration.
    """

    uid: int = 0
    name: str = ""
    how: How = "list"
    levels: tuple[str, ...] = ()
    low: str = ""
    high: str = ""
    step: str = ""
    whole: bool = False
    kind: Kind = "numbers"
    unit: str = ""
    description: str = ""
    today: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A constraint: bounds on one measure."""

    uid: int = 0
    measure: str = ""
    at_most: str = ""
    at_least: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of one's own.

    Args:
        words: program and arguments in one line, quoted as a shell would want them.
        function: ``module:function`` instead.
        folder: that it runs in, or is looked for in.
        environment: ``NAME=value``, one a line.
        stdin: what it reads.
        limit: what a run may take.
        measures: where its measures stand; ``usual`` is the last line of what it prints.
        where: the file, or the patterns, one a line.
        stream: that the patterns are looked for in; ``stdout`` or ``stderr``.
        noisy: whether results vary; None is unknown.
        unused: whether a parameter may stand nowhere in the command.
        has_today: whether there is a configuration of today.
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
    has_today: bool = True


@dataclass(frozen=True, slots=True)
class Foresight:
    """Generated futures that every run is judged on.

    Args:
        generator: that draws them; without one there are none.
        count: how many.
        duration: how long each is.
        judge: ``mean``, ``quantile`` or ``worst``.
        quantile: of the futures that are no worse; empty is as usual.
    """

    generator: str = ""
    count: str = "10"
    duration: str = "7d"
    judge: str = "mean"
    quantile: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """How a job log is simulated; empty fields are as usual.

    ``levels`` are those of the parameters whose levels were changed; None is what suits preset and
    source: two orders for the built-in example with the paper's parameters, none otherwise. No
    levels of one that the preset opens close it. ``options`` are what policies are told.
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
    levels: Mapping[str, tuple[str, ...]] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    futures: Foresight = field(default_factory=Foresight)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted.

    Args:
        direction: ``own`` is what the application wants, ``kept`` what `Form.kept` says.
        measure: that is minimised or maximised.
        unit: of it; empty is as usual.
        second: a second measure, with its direction.
        second_direction: minimise or maximise.
        bounds: constraints.
        without: measures on which the application's own constraints are dropped.
    """

    direction: Direction = "own"
    measure: str = ""
    unit: str = ""
    second: str = ""
    second_direction: str = "minimise"
    bounds: tuple[Bound, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """What was filled in, as it was typed. A sweep file says everything itself.

    Args:
        source: what is run.
        path: of the log, the table or the sweep file.
        text: an uploaded sweep file; wins over the path.
        name: of the experiment; made from the source if empty.
        runs: budget of runs; None is what the other limits allow, and 60 without any.
        deadline: time from now, such as ``30m``; none if empty.
        terms: the other terms of the agreement.
        strategy: a registered name, with its ``options``.
        options: of the strategy.
        seed: of every random choice.
        workers: runs at once.
        program: one's own program.
        rows: its parameters.
        cluster: how a log is simulated.
        exclude: conditions, one a line; what meets one is never proposed.
        wish: what is wanted.
        exploitation: share of suggestions inside regions of good results; None is no split.
        initial: first runs, before results decide.
        batch: suggestions at a time; empty is what suits the strategy.
        unattended: whether suggestions are taken by themselves.
        kept: tables of a sweep file that no field shows, such as hooks, and stay as they are.
        run_s: how long a run took in the experiment that this one is copied from, in seconds; None
            if it is no copy, or runs something else by now.
    """

    source: Source = "example"
    path: str = ""
    text: str | None = None
    name: str = ""
    runs: int | None = 40
    deadline: str = ""
    terms: Terms = field(default_factory=Terms)
    strategy: str = DEFAULT_STRATEGY
    options: Mapping[str, Level] = field(default_factory=dict)
    seed: int = 3
    workers: int = 1
    program: Program = field(default_factory=Program)
    rows: tuple[Row, ...] = (Row(),)
    cluster: Cluster = field(default_factory=Cluster)
    exclude: str = ""
    wish: Wish = field(default_factory=Wish)
    exploitation: float | None = None
    initial: int = 10
    batch: int | None = None
    unattended: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)
    run_s: float | None = None

    @property
    def is_own_program(self) -> bool:
        """Whether parameters and goal are one's own to say."""
        return self.source in OWN_PROGRAM

    @property
    def what_is_run(self) -> tuple[object, ...]:
        """What decides how long a run takes, as far as the fields go."""
        return (self.source, self.path, self.text, self.program, self.cluster)

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Levels of the cluster's parameters that are not the computed ones."""
        if self.cluster.levels is not None:
            return self.cluster.levels
        is_usual = self.source == "example" and self.cluster.preset == DEFAULT_PRESET
        return {"order": USUAL_ORDERS} if is_usual else {}

    @property
    def full_name(self) -> str:
        """The name of the experiment; made from the source where none is typed."""
        return self.name.strip() or self._usual_name

    @property
    def _usual_name(self) -> str:
        if self.source == "example":
            return "built-in example"
        if self.source == "platform":
            return "AI platform"
        if self.source == "command":
            said = [word for word in self.program.words.split() if not re.search("^-|[={]", word)]
            names = [Path(word).stem for word in said]
            own = [name for name in names if not _INTERPRETER.fullmatch(name)]
            name = next(iter(own or names), "sweep")
            return name if _PLAIN.fullmatch(name) else "sweep"
        if self.source == "function":
            return self.program.function.rpartition(":")[2].strip() or "sweep"
        name = Path(self.path.strip()).name
        if "/uploads/" in self.path:
            name = name.partition("-")[2] or name
        return name.split(".")[0] or "sweep"

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Names in the command, the environment and standard input that are no parameter yet."""
        if self.source != "command":
            return ()
        program = self.program
        texts = f"{program.words}\n{program.environment}\n{program.stdin}".replace("{{", "")
        known = {row.name.strip() for row in self.rows} | _NOT_PARAMETERS
        names = dict.fromkeys(_PLACEHOLDER.findall(texts))
        return tuple(name for name in names if name.isidentifier() and name not in known)

    def with_row(self) -> "Form":
        """Return the form with one more parameter."""
        return replace(self, rows=(*self.rows, Row(self._next_uid)))

    def with_unsaid(self) -> "Form":
        """Return the form with a parameter for every name that is none yet; blank ones go."""
        first = self._next_uid
        kept = tuple(row for row in self.rows if row != Row(row.uid))
        more = tuple(Row(first + i, name) for i, name in enumerate(self.unsaid))
        return replace(self, rows=(*kept, *more))

    @property
    def _next_uid(self) -> int:
        return max((row.uid for row in self.rows), default=-1) + 1

    def without_row(self, uid: int) -> "Form":
        """Return the form without a parameter."""
        return replace(self, rows=tuple(row for row in self.rows if row.uid != uid))

    def with_bound(self) -> "Form":
        """Return the form with one more constraint."""
        uid = max((bound.uid for bound in self.wish.bounds), default=-1) + 1
        wish = replace(self.wish, bounds=(*self.wish.bounds, Bound(uid)))
        return replace(self, wish=wish)

    def without_bound(self, uid: int) -> "Form":
        """Return the form without a constraint."""
        bounds = tuple(bound for bound in self.wish.bounds if bound.uid != uid)
        return replace(self, wish=replace(self.wish, bounds=bounds))

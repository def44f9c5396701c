"""A form as the tables of a sweep file, and every field that says what it cannot, in words."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assistant.applications import DEFAULT_PRESET
from assistant.settings import check_settings, parse_settings, read_settings
from assistant.ui.intents import FieldError, sentence
from assistant.ui.new.form import Bound, Cluster, Foresight, Form, Program, Wish
from assistant.ui.new.rows import MissingError, number_in, parameter_of, todays_level
from assistant.ui.steering.terms import check_field
from strategies import Level
from strategies.parameter import parse_number

_TIME = "A time is wanted, such as 90s, 30m or 2h; empty for none."
_FROM_NOW = "A time from now is wanted, such as 90s, 30m or 2h; empty for none."


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a field.

    Args:
        place: the key of the field.
        text: one sentence.
        missing: whether nothing was typed yet where something is needed.
    """

    place: str
    text: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What a form says: the tables of a sweep file, without the fields that are at fault."""

    tables: Mapping[str, Any]
    faults: tuple[Fault, ...]


class _Pen:
    """Writes tables and notes what could not be written."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    @contextmanager
    def beside(self, place: str) -> Iterator[None]:
        """Note what is refused inside; it belongs to this field unless it names another."""
        try:
            yield
        except FieldError as error:
            text = sentence(error)
            self.faults.append(Fault(error.place, text, isinstance(error, MissingError)))
        except Exception as error:
            self.faults.append(Fault(place, sentence(error)))


def written(form: Form) -> Written:
    """Return the tables that say what the form says, and every fault of a field by itself.

    Nothing is run. Of the file system a sweep file is read, and nothing else.
    """
    pen = _Pen()
    if form.source == "file":
        tables: dict[str, Any] = {}
        with pen.beside("new-path"):
            tables = _of_file(form)
            if not check_settings(tables, "the sweep file").name:
                tables["name"] = form.full_name
        return Written(tables, tuple(pen.faults))
    tables = {"name": form.full_name}
    with pen.beside("new-name"):
        check_settings(tables, "the form")
    if form.runs is not None:
        tables["runs"] = form.runs
    _deadline(pen, form, tables)
    with pen.beside("new-goal"):
        tables |= form.terms.tables("new")
    tables |= {"seed": form.seed, "workers": form.workers, "initial": form.initial}
    if form.initial == check_settings({}, "the form").initial:
        del tables["initial"]
    if form.batch is not None:
        tables["batch"] = form.batch
    if form.exploitation is not None:
        tables["exploitation"] = form.exploitation
    conditions = [line.strip() for line in form.exclude.splitlines() if line.strip()]
    if conditions:
        tables["exclude"] = conditions
    tables |= {k: v for k, v in form.kept.items() if k not in ("application", "objective")}
    tables["application"] = _application(pen, form)
    objective = {**form.kept.get("objective", {}), **_objective(pen, form)}
    if objective:
        tables["objective"] = objective
    tables["strategy"] = {"name": form.strategy, **form.options}
    if form.is_own_program:
        tables["parameters"] = _parameters(pen, form)
    if not pen.faults:
        with pen.beside("new-start"):
            check_settings(tables, "the form")
    return Written(tables, tuple(pen.faults))


def _of_file(form: Form) -> dict[str, Any]:
    if form.text is not None:
        what = "the uploaded sweep file"
        return _absolute(parse_settings(form.text, what, Path.cwd(), "sweep"))
    if not form.path.strip():
        raise MissingError("new-path", "Name the path of a sweep file, or upload one.")
    return _absolute(read_settings(_path(form.path).absolute()))


def _absolute(tables: dict[str, Any]) -> dict[str, Any]:
    """Return tables of which the results from before are found from any folder."""
    given = tables.get("results")
    if not isinstance(given, list) or not all(isinstance(path, str) for path in given):
        return tables
    return {**tables, "results": [str(Path(path).absolute()) for path in given]}


def _path(text: str) -> Path:
    return Path(text.strip()).expanduser()


def _deadline(pen: _Pen, form: Form, tables: dict[str, Any]) -> None:
    if not form.deadline.strip():
        return
    with pen.beside("new-deadline"):
        deadline = {"deadline": form.deadline.strip()}
        check_field("new-deadline", deadline, _FROM_NOW)
        tables |= deadline


def _application(pen: _Pen, form: Form) -> dict[str, Any]:
    kept = dict(form.kept.get("application", {}))
    if form.source in ("example", "log"):
        table = {"kind": "scheduling", **_cluster(pen, form.cluster, form.levels)}
        if form.source == "log":
            with pen.beside("new-path"):
                table["log"] = _named(form, "the job log (SWF, also .gz)")
        return table | kept
    if form.source == "platform":
        return {"kind": "ai_platform"} | kept
    if form.source == "table":
        table = {"kind": "lookup"}
        with pen.beside("new-path"):
            table["table"] = _named(form, "the table (CSV)")
        return table | kept
    return _program(pen, form) | kept


def _named(form: Form, what: str) -> str:
    if not form.path.strip():
        raise MissingError("new-path", f"Name the path of {what}, or upload one.")
    return str(_path(form.path).absolute())


def _cluster(pen: _Pen, cluster: Cluster, levels: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if cluster.preset != DEFAULT_PRESET:
        table["preset"] = cluster.preset
    for name in ("first", "procs"):
        text = getattr(cluster, name).strip()
        if text:
            with pen.beside(f"new-{name}"):
                table[name] = _whole(text, f"new-{name}")
    usual = Cluster()
    today = {
        name: getattr(cluster, name)
        for name in ("order", "backfill")
        if getattr(cluster, name) != getattr(usual, name)
    }
    if today:
        table["today"] = today
    for name in ("small_job_below", "small_job_wait"):
        text = getattr(cluster, name).strip()
        if text:
            place = f"new-{name.replace('_', '-')}"
            with pen.beside(place):
                check_field(place, {"application": {"kind": "scheduling", name: text}}, _TIME)
                table[name] = text
    for name in ("too_wide", "overrun"):
        if getattr(cluster, name) != getattr(usual, name):
            table[name] = getattr(cluster, name)
    options = {name: _loose(text) for name, text in cluster.options.items() if text.strip()}
    if options:
        table["options"] = options
    if cluster.futures.generator:
        table["futures"] = _futures(pen, cluster.futures)
    if levels:
        table["levels"] = {name: [_loose(text) for text in texts] for name, texts in levels.items()}
    return table


def _futures(pen: _Pen, futures: Foresight) -> dict[str, Any]:
    table: dict[str, Any] = {"generator": futures.generator, "judge": futures.judge}
    with pen.beside("new-futures-count"):
        table["count"] = _whole(futures.count.strip(), "new-futures-count")
    with pen.beside("new-futures-duration"):
        told = {"generator": futures.generator, "duration": futures.duration.strip()}
        check_field(
            "new-futures-duration", {"application": {"kind": "scheduling", "futures": told}},
            "A time is wanted, such as 12h, 2d or 7d.",
        )  # fmt: skip
        table["duration"] = futures.duration.strip()
    if futures.judge == "quantile" and futures.quantile.strip():
        with pen.beside("new-futures-quantile"):
            number = parse_number(futures.quantile.strip())
            if number is None or not 0 < number <= 1:
                raise FieldError(
                    "new-futures-quantile",
                    f"'{futures.quantile}' is no number above 0 and up to 1, such as 0.9.",
                )
            table["quantile"] = float(number)
    return table


def _loose(text: str) -> Level:
    """Return a number where one is written, else the text, such as an order or ``2h``."""
    number = parse_number(text.strip())
    return text.strip() if number is None else number


def _whole(text: str, place: str) -> int:
    number = parse_number(text)
    if not isinstance(number, int) or number < 1:
        raise FieldError(place, f"'{text}' is no whole number of at least 1; empty for all.")
    return number


def _program(pen: _Pen, form: Form) -> dict[str, Any]:
    program = form.program
    folder = str(_path(program.folder or ".").absolute())
    if form.source == "function":
        table: dict[str, Any] = {"kind": "function", "folder": folder}
        with pen.beside("new-function"):
            if not program.function.strip():
                raise MissingError("new-function", "Name the function, as in module:function.")
            table["function"] = program.function.strip()
    else:
        table = {"kind": "command", "cwd": folder, **_command(pen, program)}
    if program.noisy is not None:
        table["noisy"] = program.noisy
    if program.has_today:
        today: dict[str, Level] = {}
        for row in form.rows:
            with pen.beside(f"new-p{row.uid}-today"):
                today[row.name.strip()] = todays_level(row)
        table["today"] = today
    return table


def _command(pen: _Pen, program: Program) -> dict[str, Any]:
    table: dict[str, Any] = {}
    with pen.beside("new-command"):
        table["command"] = _argv(program.words)
    with pen.beside("new-environment"):
        environment = dict(_pair(line) for line in program.environment.splitlines() if line.strip())
        if environment:
            table["env"] = environment
    if program.stdin:
        table["stdin"] = program.stdin
    if program.limit.strip():
        with pen.beside("new-limit"):
            told = {"kind": "command", "command": ["x"], "limit": program.limit.strip()}
            check_field("new-limit", {"application": told}, _TIME)
            table["limit"] = program.limit.strip()
    if program.unused:
        table["unused"] = True
    if program.measures != "usual":
        with pen.beside("new-measures"):
            table["measures"] = _measures(program)
    return table


def _argv(words: str) -> list[str]:
    try:
        argv = shlex.split(words)
    except ValueError as error:
        raise FieldError(
            "new-command", f"The command cannot be split into arguments: {error}."
        ) from error
    if not argv:
        raise MissingError("new-command", "Say what is started, such as ./program --size={size}.")
    return argv


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise FieldError("new-environment", f"'{line.strip()}' is not of the form NAME=value.")
    return name.strip(), value


def _measures(program: Program) -> dict[str, Any]:
    if program.measures in ("last_line", "json"):
        return {"stdout": program.measures}
    lines = [line for line in program.where.splitlines() if line.strip()]
    if not lines:
        what = "the file" if program.measures == "file" else "a pattern"
        raise MissingError("new-measures", f"Name {what} in which the measures are found.")
    if program.measures == "file":
        return {"file": program.where.strip()}
    table: dict[str, Any] = {"pattern": lines}
    if program.stream != "stdout":
        table["stream"] = program.stream
    check_settings(
        {"application": {"kind": "command", "command": ["x"], "measures": table}}, "the form"
    )
    return table


def _parameters(pen: _Pen, form: Form) -> list[dict[str, Any]]:
    if not form.rows:
        pen.faults.append(Fault("new-parameters", "Add at least one parameter.", missing=True))
    rows = []
    seen: set[str] = set()
    for row in form.rows:
        name = row.name.strip()
        with pen.beside(f"new-p{row.uid}-name"):
            if name in seen:
                raise FieldError(f"new-p{row.uid}-name", f"There is a parameter '{name}' already.")
            seen.add(name)
            table, _ = parameter_of(row)
            rows.append(table)
    return rows


# -- what is wanted --------------------------------------------------------------------------------


def _objective(pen: _Pen, form: Form) -> dict[str, Any]:
    wish, table = form.wish, dict[str, Any]()
    with pen.beside("new-measure"):
        table |= _wanted(form, wish)
    if wish.unit.strip():
        table["unit"] = wish.unit.strip()
    if wish.second.strip():
        table["second"] = wish.second.strip()
        if wish.second_direction != "minimise":
            table["second_goal"] = wish.second_direction
    bounds = []
    for bound in wish.bounds:
        with pen.beside(f"new-c{bound.uid}"):
            bounds.append(_constraint(bound))
    if bounds:
        table["constraints"] = bounds
    if wish.without:
        table["without"] = list(wish.without)
    return table


def _wanted(form: Form, wish: Wish) -> dict[str, Any]:
    if wish.direction == "own" and not form.is_own_program:
        return {}
    if wish.direction == "kept":
        return {}
    direction = "minimise" if wish.direction == "own" else wish.direction
    if not wish.measure.strip():
        raise MissingError(
            "new-measure",
            "Name the measure that counts; wall_s is the time of a run."
            if form.is_own_program
            else "Name the measure that counts.",
        )
    return {direction: wish.measure.strip()}


def _constraint(bound: Bound) -> dict[str, Any]:
    place = f"new-c{bound.uid}"
    if not bound.measure.strip():
        raise MissingError(place, "Name the measure of this constraint, or remove it.")
    table: dict[str, Any] = {"measure": bound.measure.strip()}
    for name, text in (("at_most", bound.at_most), ("at_least", bound.at_least)):
        if text.strip():
            table[name] = float(number_in(text, place))
    if len(table) == 1:
        raise MissingError(place, f"Say the bound on {bound.measure.strip()}, or remove it.")
    if bound.label.strip():
        table["label"] = bound.label.strip()
    check_bounds(place, table)
    return table


def check_bounds(place: str, table: Mapping[str, Any]) -> None:
    """Raise FieldError for its place if no value can meet a constraint."""
    low, high = table.get("at_least"), table.get("at_most")
    if low is not None and high is not None and low > high:
        raise FieldError(place, f"Nothing is at least {low:g} and at most {high:g}.")


def first_fault(faults: Sequence[Fault]) -> FieldError | None:
    """Return the first fault as what is raised; None without any."""
    return FieldError(faults[0].place, faults[0].text) if faults else None

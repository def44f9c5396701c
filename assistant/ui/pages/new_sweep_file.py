"""Conversion of a form to the settings tables of a sweep file, with field errors, and back."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assistant.config.snapshot import stored_settings
from assistant.config.sweep_file import (
    SweepSettings,
    check_settings,
    kind_of,
    parse_settings,
    read_settings,
    toml_text,
)
from assistant.core.events import ExperimentOpened
from assistant.ui.bindings import Binding, as_typed, put, read, write
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.pages.new_form import (
    BINDINGS,
    FUTURES_BINDINGS,
    KINDS,
    ClusterFields,
    ConstraintField,
    Form,
    FuturesFields,
    How,
    Kind,
    MissingError,
    ObjectiveFields,
    ParameterRow,
    ProgramFields,
    Source,
    baseline_level,
    bindings_of,
    number_in,
    parameter_of,
)
from assistant.ui.sla_fields import check_field
from strategies import Level, StrategyError, make_strategy
from strategies.space.parameter import family_of, parse_number


@dataclass(frozen=True, slots=True)
class FormFault:
    """Error of a form field: field key, message, and whether a required value is missing."""

    place: str
    text: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class SweepTables:
    """Settings tables made from a form, without invalid fields, and the errors of the fields."""

    tables: Mapping[str, Any]
    faults: tuple[FormFault, ...]


class _TableWriter:
    """Writer of tables that collects faults."""

    def __init__(self) -> None:
        self.faults: list[FormFault] = []

    @contextmanager
    def beside(self, place: str) -> Iterator[None]:
        """Record an error in the block as a fault of this field, or of the error's field."""
        try:
            yield
        except FormFieldError as error:
            text = sentence(error)
            self.faults.append(FormFault(error.place, text, isinstance(error, MissingError)))
        except Exception as error:
            self.faults.append(FormFault(place, sentence(error)))


def write_tables(form: Form) -> SweepTables:
    """Convert a form to settings tables and field errors; only a sweep file is read from disk."""
    pen = _TableWriter()
    if form.source == "file":
        tables: dict[str, Any] = {}
        with pen.beside("new-path"):
            tables = _of_file(form)
            if not check_settings(tables, "the sweep file").name:
                tables["name"] = form.full_name
        return SweepTables(tables, tuple(pen.faults))
    tables = {"name": form.full_name}
    with pen.beside("new-name"):
        check_settings(tables, "the form")
    for path, value in write(_bindings(form), form, "new", pen):
        put(tables, path, value)
    if "cost" in tables:
        with pen.beside("new-cost"):
            check_field("new-cost", {"cost": tables["cost"]})
    tables |= {k: v for k, v in form.extra_tables.items() if k not in ("application", "objective")}
    tables["application"] = _application(pen, form, tables.get("application", {}))
    objective = {**form.extra_tables.get("objective", {}), **_objective(pen, form)}
    if objective:
        tables["objective"] = objective
    tables["strategy"] = {"name": form.strategy, **form.options}
    if form.is_own_program:
        tables["parameters"] = _parameters(pen, form)
    if not pen.faults:
        with pen.beside("new-start"):
            check_settings(tables, "the form")
    return SweepTables(tables, tuple(pen.faults))


def _of_file(form: Form) -> dict[str, Any]:
    if form.text is not None:
        origin = "the uploaded sweep file"
        return _absolute(parse_settings(form.text, origin, Path.cwd(), "sweep"))
    if not form.path.strip():
        raise MissingError("new-path", "Enter the path of a sweep file, or upload one.")
    return _absolute(read_settings(_path(form.path).absolute()))


def _absolute(tables: dict[str, Any]) -> dict[str, Any]:
    paths = tables.get("results")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return tables
    return {**tables, "results": [str(Path(path).absolute()) for path in paths]}


def _path(text: str) -> Path:
    return Path(text.strip()).expanduser()


def _bindings(form: Form) -> tuple[Binding, ...]:
    """Return the bindings of the fields that count; others keep what was typed before."""
    futures = form.cluster.futures
    hidden = (
        FUTURES_BINDINGS if not futures.generator
        else () if futures.aggregate == "quantile"
        else (BINDINGS["application.futures.quantile"],)
    )  # fmt: skip
    return tuple(binding for binding in bindings_of(form.source) if binding not in hidden)


def _application(pen: _TableWriter, form: Form, bound: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of the application: what is bound, and the fields of other forms."""
    extra = dict(form.extra_tables.get("application", {}))
    if form.source in ("example", "log"):
        table = {"kind": "scheduling", **bound, **_cluster_table(form.cluster, form.levels)}
        if form.cluster.futures.generator:
            table["futures"] = {
                "generator": form.cluster.futures.generator, **bound.get("futures", {})
            }  # fmt: skip
        if form.source == "log":
            with pen.beside("new-path"):
                table["log"] = _path_of(form, "the job log (SWF, also .gz)")
        return table | extra
    if form.source == "platform":
        return {"kind": "ai_platform"} | extra
    if form.source == "table":
        table = {"kind": "lookup"}
        with pen.beside("new-path"):
            table["table"] = _path_of(form, "the table (CSV)")
        return table | extra
    return {**bound, **_program_table(pen, form)} | extra


def _path_of(form: Form, noun: str) -> str:
    if not form.path.strip():
        raise MissingError("new-path", f"Enter the path of {noun}, or upload one.")
    return str(_path(form.path).absolute())


def _cluster_table(cluster: ClusterFields, levels: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    options = {name: _loose(text) for name, text in cluster.options.items() if text.strip()}
    if options:
        table["options"] = options
    if levels:
        table["levels"] = {name: [_loose(text) for text in texts] for name, texts in levels.items()}
    return table


def _loose(text: str) -> Level:
    number = parse_number(text.strip())
    return text.strip() if number is None else number


def _program_table(pen: _TableWriter, form: Form) -> dict[str, Any]:
    program = form.program
    folder = str(_path(program.folder or ".").absolute())
    if form.source == "function":
        table: dict[str, Any] = {"kind": "function", "folder": folder}
        with pen.beside("new-function"):
            if not program.function.strip():
                raise MissingError("new-function", "Enter the function as module:function.")
            table["function"] = program.function.strip()
    else:
        table = {"kind": "command", "cwd": folder, **_command(pen, program)}
    if form.has_baseline:
        baseline: dict[str, Level] = {}
        for row in form.rows:
            if row.when.strip() and not row.baseline:
                continue  # it may be inactive
            with pen.beside(f"new-p{row.uid}-baseline"):
                baseline[row.name.strip()] = baseline_level(row)
        table["baseline"] = baseline
    return table


def _command(pen: _TableWriter, program: ProgramFields) -> dict[str, Any]:
    table: dict[str, Any] = {}
    with pen.beside("new-command"):
        table["command"] = _argv(program.words)
    with pen.beside("new-environment"):
        environment = dict(_pair(line) for line in program.environment.splitlines() if line.strip())
        if environment:
            table["env"] = environment
    if program.stdin:
        table["stdin"] = program.stdin
    if program.measures != "usual":
        with pen.beside("new-measures"):
            table["measures"] = _measures(program)
    return table


def _argv(words: str) -> list[str]:
    try:
        argv = shlex.split(words)
    except ValueError as error:
        raise FormFieldError(
            "new-command", f"The command cannot be split into arguments: {error}."
        ) from error
    if not argv:
        raise MissingError("new-command", "Enter the command, such as ./program --size={size}.")
    return argv


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise FormFieldError("new-environment", f"'{line.strip()}' is not of the form NAME=value.")
    return name.strip(), value


def _measures(program: ProgramFields) -> dict[str, Any]:
    if program.measures in ("last_line", "json"):
        return {"stdout": program.measures}
    lines = [line for line in program.where.splitlines() if line.strip()]
    if not lines:
        noun = "the file" if program.measures == "file" else "a pattern"
        raise MissingError("new-measures", f"Enter {noun} for the measures.")
    if program.measures == "file":
        return {"file": program.where.strip()}
    table: dict[str, Any] = {"pattern": lines}
    if program.stream != "stdout":
        table["stream"] = program.stream
    check_settings(
        {"application": {"kind": "command", "command": ["x"], "measures": table}}, "the form"
    )
    return table


def _parameters(pen: _TableWriter, form: Form) -> list[dict[str, Any]]:
    if not form.rows:
        pen.faults.append(FormFault("new-parameters", "Add at least one parameter.", missing=True))
    rows = []
    names: set[str] = set()
    for row in form.rows:
        name = row.name.strip()
        with pen.beside(f"new-p{row.uid}-name"):
            if name in names:
                raise FormFieldError(
                    f"new-p{row.uid}-name", f"There is a parameter '{name}' already."
                )
            names.add(name)
            table, _ = parameter_of(row)
            rows.append(table)
    return rows


def _objective(pen: _TableWriter, form: Form) -> dict[str, Any]:
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


def _wanted(form: Form, wish: ObjectiveFields) -> dict[str, Any]:
    if wish.direction == "own" and not form.is_own_program:
        return {}
    if wish.direction == "kept":
        return {}
    direction = "minimise" if wish.direction == "own" else wish.direction
    if not wish.measure.strip():
        raise MissingError(
            "new-measure",
            "Name the measure to optimise; wall_s is the duration of a run."
            if form.is_own_program
            else "Enter the measure to optimise.",
        )
    return {direction: wish.measure.strip()}


def _constraint(bound: ConstraintField) -> dict[str, Any]:
    place = f"new-c{bound.uid}"
    if not bound.measure.strip():
        raise MissingError(place, "Enter the measure of this constraint, or remove it.")
    table: dict[str, Any] = {"measure": bound.measure.strip()}
    for name, text in (("at_most", bound.at_most), ("at_least", bound.at_least)):
        if text.strip():
            table[name] = float(number_in(text, place))
    if len(table) == 1:
        raise MissingError(place, f"Enter a bound on {bound.measure.strip()}, or remove it.")
    if bound.label.strip():
        table["label"] = bound.label.strip()
    check_bounds(place, table)
    return table


def check_bounds(place: str, table: Mapping[str, Any]) -> None:
    """Raise FormFieldError if the bounds of a constraint contradict each other."""
    low, high = table.get("at_least"), table.get("at_most")
    if low is not None and high is not None and low > high:
        raise FormFieldError(place, f"No value is at least {low:g} and at most {high:g}.")


_PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_FORM_KEYS = frozenset((
    *(path.partition(".")[0] for path in BINDINGS),
    "name", "application", "objective", "strategy", "parameters",
))  # fmt: skip
_OBJECTIVE_KEYS = frozenset((
    "minimise", "maximise", "unit", "second", "second_goal", "constraints", "without",
))  # fmt: skip
_APPLICATION_KEYS = frozenset((
    *(path.split(".")[1] for path in BINDINGS if path.startswith("application.")),
    "kind", "log", "table", "levels", "options", "command", "cwd", "env", "stdin", "measures",
    "function", "folder",
)) - {"futures"}  # fmt: skip

_SHOWN_FUTURES = {binding.path.rpartition(".")[2] for binding in FUTURES_BINDINGS} | {"generator"}


def form_of(tables: Mapping[str, Any]) -> Form:
    """Return a form filled from the settings tables of a sweep, or raise SettingsError."""
    settings = check_settings(tables, "the sweep")
    try:
        make_strategy(settings.strategy.name, **settings.strategy.options)
    except StrategyError:
        return as_file(tables)  # fields can only hold the options that a strategy has
    if settings.application.kind not in _SOURCES:
        return as_file(tables)  # the form has no fields for them
    form = _form(tables, settings)
    draft_tables = write_tables(form)
    if not draft_tables.faults and _meaning(draft_tables.tables) == _meaning(tables):
        return form
    return as_file(tables)


def form_of_experiment(opened: ExperimentOpened, name: str) -> Form:
    """Return a form filled from an experiment's stored settings, or raise SettingsError."""
    stored = stored_settings(opened).items()
    tables = {k: v for k, v in stored if not (k in ("run", "results") and v == [])}
    return form_of({**tables, "name": name})


def as_file(tables: Mapping[str, Any]) -> Form:
    """Return a form that holds the settings tables as the text of an uploaded sweep file."""
    return Form("file", text=toml_text(tables), name=str(tables.get("name", "")))


def _meaning(tables: Mapping[str, Any]) -> object:
    """Return the meaning of tables, equal for different spellings of the same sweep."""
    settings = check_settings(tables, "the sweep")
    parameters = tuple((each.build(), each.switches) for each in settings.parameters)
    objective = settings.objective.model_dump() if settings.objective is not None else {}
    rest = settings.model_copy(update={"parameters": [], "name": "", "objective": None})
    return parameters, {k: v for k, v in objective.items() if v not in (None, [])}, rest


def _form(tables: Mapping[str, Any], settings: SweepSettings) -> Form:
    application = tables.get("application", {})
    source = _source(application)
    strategy = settings.strategy
    extra_tables = {key: value for key, value in tables.items() if key not in _FORM_KEYS}
    for key, field_keys in (("application", _APPLICATION_KEYS), ("objective", _OBJECTIVE_KEYS)):
        if key == "application" and _has_fields(application):
            field_keys |= {"futures"}
        rest = {k: v for k, v in tables.get(key, {}).items() if k not in field_keys}
        if rest:
            extra_tables[key] = rest
    levels = {k: tuple(map(as_typed, v)) for k, v in application.get("levels", {}).items()}
    options = {k: as_typed(v) for k, v in application.get("options", {}).items()}
    futures = FuturesFields()
    bound = bindings_of(source)
    if _has_fields(application):
        futures = replace(futures, generator=application["futures"]["generator"])
    else:
        bound = tuple(binding for binding in bound if binding not in FUTURES_BINDINGS)
    form = Form(
        source=source,
        path=str(application.get("log", application.get("table", ""))),
        name=settings.name,
        strategy=strategy.name,
        options=strategy.options,
        program=_program_fields(application),
        rows=_rows(tables.get("parameters", []), application.get("baseline")),
        cluster=(
            ClusterFields(levels=levels, options=options, futures=futures)
            if source in ("example", "log")
            else ClusterFields()
        ),
        wish=_wish(tables.get("objective", {}), extra_tables.get("objective", {})),
        extra_tables=extra_tables,
    )
    return read(bound, tables, form)


def _source(application: Mapping[str, Any]) -> Source:
    source = _SOURCES[kind_of(application)]
    return "example" if source == "log" and application.get("log") is None else source


_SOURCES: Mapping[str, Source] = {
    "scheduling": "log", "lookup": "table", "command": "command", "function": "function",
    "ai_platform": "platform",
}  # fmt: skip
"""Sources of the form by the kind of the application; it has no fields for others."""


def _has_fields(application: Mapping[str, Any]) -> bool:
    futures = application.get("futures")
    return futures is not None and "generator" in futures and set(futures) <= _SHOWN_FUTURES


def _program_fields(application: Mapping[str, Any]) -> ProgramFields:
    measures = application.get("measures") or {}
    where = measures.get("file") or measures.get("pattern") or ""
    how: Any = "usual"
    if "stdout" in measures:
        how = measures["stdout"]
    elif where:
        how = "file" if "file" in measures else "pattern"
    return ProgramFields(
        words=" ".join(map(_quoted, application.get("command", []))),
        function=application.get("function", ""),
        folder=application.get("cwd", application.get("folder", "")),
        environment="\n".join(f"{k}={v}" for k, v in application.get("env", {}).items()),
        stdin=application.get("stdin", ""),
        measures=how,
        where=where if isinstance(where, str) else "\n".join(where),
        stream=measures.get("stream", "stdout"),
    )


def _quoted(word: str) -> str:
    return word if _PLAIN_WORD.fullmatch(word) else shlex.quote(word)


def _rows(
    parameters: Sequence[Mapping[str, Any]], baseline: Mapping[str, Level] | None
) -> tuple[ParameterRow, ...]:
    if not parameters:
        return (ParameterRow(),)
    return tuple(_row(uid, table, baseline or {}) for uid, table in enumerate(parameters))


def _row(uid: int, table: Mapping[str, Any], baseline: Mapping[str, Level]) -> ParameterRow:
    name = table["name"]
    how: How = "list"
    ends: Mapping[str, Any] = {}
    if table.get("range") is not None:
        ends = table["range"]
        how = "ratio" if ends.get("log") else "steps"
    elif table.get("logarithmic") is not None:
        how, ends = "ratio", table["logarithmic"]
    return ParameterRow(
        uid=uid,
        name=name,
        how=how,
        levels=tuple(map(as_typed, table.get("levels") or ())),
        low=as_typed(ends.get("low")),
        high=as_typed(ends.get("high")),
        step=as_typed(ends.get("step", ends.get("count"))),  # empty for a range that is refined
        is_integer=bool(ends.get("integer", False)),
        kind=_kind(table),
        unit=table.get("unit", ""),
        description=table.get("description", ""),
        when=table.get("when", ""),
        baseline=as_typed(baseline.get(name)),
    )


def _kind(table: Mapping[str, Any]) -> Kind:
    levels = table.get("levels") or [0]
    family, kind = family_of(levels[0]), table.get("kind")
    usual = "ordinal" if family == "number" else "nominal"
    pair = (family, None if kind in (None, usual) else kind)
    return next(name for name, means in KINDS.items() if means == pair)


def _wish(objective: Mapping[str, Any], extra: Mapping[str, Any]) -> ObjectiveFields:
    measure, direction = "", "own"
    for name in ("minimise", "maximise"):
        if objective.get(name) is not None:
            measure, direction = objective[name], name
    if extra:
        direction = "kept"
    bounds = tuple(
        ConstraintField(
            uid,
            constraint["measure"],
            as_typed(constraint.get("at_most")),
            as_typed(constraint.get("at_least")),
            constraint.get("label", ""),
        )
        for uid, constraint in enumerate(objective.get("constraints", []))
    )
    return ObjectiveFields(
        direction=direction,  # type: ignore[arg-type]
        measure=measure,
        unit=objective.get("unit") or "",
        second=objective.get("second") or "",
        second_direction=objective.get("second_goal") or "minimise",
        bounds=bounds,
        without=tuple(objective.get("without", ())),
    )

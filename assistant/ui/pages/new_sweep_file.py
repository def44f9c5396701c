"""Conversion of a form to the settings tables of a sweep file, with field errors, and back."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from assistant.applications.scheduling import DEFAULT_PRESET
from assistant.config.sweep_file import (
    SweepSettings,
    check_settings,
    kind_of,
    parse_settings,
    read_settings,
    toml_text,
)
from assistant.core.events import ExperimentOpened
from assistant.ui.intents import FormFieldError, sentence
from assistant.ui.pages.new_form import (
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
    number_in,
    parameter_of,
)
from assistant.ui.sla_fields import SlaFields, check_field
from strategies import Level, StrategyError, make_strategy
from strategies.space.parameter import family_of, parse_number

_TIME = "Enter a time such as 90s, 30m or 2h, or leave the field empty."
_FROM_NOW = "Enter a time from now, such as 90s, 30m or 2h, or leave the field empty."


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
    if form.warnings != Form().warnings:
        tables["warnings"] = form.warnings
    if form.exploitation is not None:
        tables["exploitation"] = form.exploitation
    conditions = [line.strip() for line in form.exclude.splitlines() if line.strip()]
    if conditions:
        tables["exclude"] = conditions
    tables |= {k: v for k, v in form.extra_tables.items() if k not in ("application", "objective")}
    tables["application"] = _application(pen, form)
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


def _deadline(pen: _TableWriter, form: Form, tables: dict[str, Any]) -> None:
    if not form.deadline.strip():
        return
    with pen.beside("new-deadline"):
        deadline = {"deadline": form.deadline.strip()}
        check_field("new-deadline", deadline, _FROM_NOW)
        tables |= deadline


def _application(pen: _TableWriter, form: Form) -> dict[str, Any]:
    extra = dict(form.extra_tables.get("application", {}))
    if form.source in ("example", "log"):
        table = {"kind": "scheduling", **_cluster_table(pen, form.cluster, form.levels)}
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
    return _program_table(pen, form) | extra


def _path_of(form: Form, noun: str) -> str:
    if not form.path.strip():
        raise MissingError("new-path", f"Enter the path of {noun}, or upload one.")
    return str(_path(form.path).absolute())


def _cluster_table(
    pen: _TableWriter, cluster: ClusterFields, levels: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if cluster.preset != DEFAULT_PRESET:
        table["preset"] = cluster.preset
    for name in ("first", "procs"):
        text = getattr(cluster, name).strip()
        if text:
            with pen.beside(f"new-{name}"):
                table[name] = _whole(text, f"new-{name}")
    usual = ClusterFields()
    baseline = {
        name: getattr(cluster, name)
        for name in ("order", "backfill")
        if getattr(cluster, name) != getattr(usual, name)
    }
    if baseline:
        table["baseline"] = baseline
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


def _futures(pen: _TableWriter, futures: FuturesFields) -> dict[str, Any]:
    table: dict[str, Any] = {"generator": futures.generator, "aggregate": futures.aggregate}
    with pen.beside("new-futures-count"):
        table["count"] = _whole(futures.count.strip(), "new-futures-count")
    with pen.beside("new-futures-duration"):
        settings = {"generator": futures.generator, "duration": futures.duration.strip()}
        check_field(
            "new-futures-duration", {"application": {"kind": "scheduling", "futures": settings}},
            "Enter a time such as 12h, 2d or 7d.",
        )  # fmt: skip
        table["duration"] = futures.duration.strip()
    if futures.aggregate == "quantile" and futures.quantile.strip():
        with pen.beside("new-futures-quantile"):
            number = parse_number(futures.quantile.strip())
            if number is None or not 0 < number <= 1:
                raise FormFieldError(
                    "new-futures-quantile",
                    f"'{futures.quantile}' is not a number above 0 and up to 1, such as 0.9.",
                )
            table["quantile"] = float(number)
    return table


def _loose(text: str) -> Level:
    number = parse_number(text.strip())
    return text.strip() if number is None else number


def _whole(text: str, place: str) -> int:
    number = parse_number(text)
    if not isinstance(number, int) or number < 1:
        raise FormFieldError(place, f"'{text}' is not a whole number of at least 1; empty: all.")
    return number


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
    if program.noisy is not None:
        table["noisy"] = program.noisy
    if program.has_baseline:
        baseline: dict[str, Level] = {}
        for row in form.rows:
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
    if program.limit.strip():
        with pen.beside("new-limit"):
            settings = {"kind": "command", "command": ["x"], "limit": program.limit.strip()}
            check_field("new-limit", {"application": settings}, _TIME)
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


def first_fault(faults: Sequence[FormFault]) -> FormFieldError | None:
    """Return the first field error as a FormFieldError, or None if there is none."""
    return FormFieldError(faults[0].place, faults[0].text) if faults else None


_PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_FORM_KEYS = frozenset((
    "name", "runs", "deadline", "goal", "at_goal", "keep_going", "run_limit", "cost", "seed",
    "workers", "initial", "batch", "exploitation", "exclude", "application", "objective",
    "strategy", "parameters", "warnings",
))  # fmt: skip
_OBJECTIVE_KEYS = frozenset((
    "minimise", "maximise", "unit", "second", "second_goal", "constraints", "without",
))  # fmt: skip
_APPLICATION_KEYS = frozenset((
    "kind", "log", "table", "first", "procs", "baseline", "levels", "small_job_below",
    "small_job_wait", "preset", "options", "too_wide", "overrun", "command", "cwd", "env", "stdin",
    "limit", "unused", "measures", "noisy", "function", "folder",
))  # fmt: skip


_SHOWN_FUTURES = frozenset(("generator", "count", "duration", "aggregate", "quantile"))


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
    tables = {k: v for k, v in opened.recipe.items() if not (k in ("run", "results") and v == [])}
    return form_of({**tables, "name": name})


def as_file(tables: Mapping[str, Any]) -> Form:
    """Return a form that holds the settings tables as the text of an uploaded sweep file."""
    return Form("file", text=toml_text(tables), name=str(tables.get("name", "")))


def _meaning(tables: Mapping[str, Any]) -> object:
    """Return the meaning of tables, equal for different spellings of the same sweep."""
    settings = check_settings(tables, "the sweep")
    parameters = tuple(parameter.build() for parameter in settings.parameters)
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
    return Form(
        source=source,
        path=str(application.get("log", application.get("table", ""))),
        name=settings.name,
        runs=settings.runs,
        deadline=_text(tables.get("deadline")),
        terms=_terms(tables),
        strategy=strategy.name,
        options=strategy.options,
        seed=settings.seed,
        workers=settings.workers,
        program=_program_fields(application),
        rows=_rows(tables.get("parameters", []), application.get("baseline")),
        cluster=_cluster_fields(application) if source in ("example", "log") else ClusterFields(),
        exclude="\n".join(settings.exclude),
        wish=_wish(tables.get("objective", {}), extra_tables.get("objective", {})),
        exploitation=settings.exploitation,
        initial=settings.initial,
        batch=settings.batch,
        warnings=settings.warnings,
        extra_tables=extra_tables,
    )


def _source(application: Mapping[str, Any]) -> Source:
    source = _SOURCES[kind_of(application)]
    return "example" if source == "log" and application.get("log") is None else source


_SOURCES: Mapping[str, Source] = {
    "scheduling": "log", "lookup": "table", "command": "command", "function": "function",
    "ai_platform": "platform",
}  # fmt: skip
"""Sources of the form by the kind of the application; it has no fields for others."""


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _terms(tables: Mapping[str, Any]) -> SlaFields:
    cost = tables.get("cost", {})
    names = [entry.name for entry in fields(SlaFields)]
    texts = {name: _text(value) for name, value in cost.items() if name in names}
    return SlaFields(
        goal=_text(tables.get("goal")),
        go_on=tables.get("at_goal") == "go_on",
        keep_going=tables.get("keep_going", False),
        run_limit=_text(tables.get("run_limit")),
        cost_limit=_text(cost.get("limit")),
        **texts,
    )


def _cluster_fields(application: Mapping[str, Any]) -> ClusterFields:
    baseline = application.get("baseline", {})
    usual = ClusterFields()
    levels: Mapping[str, Sequence[Level]] = application.get("levels", {})
    return ClusterFields(
        preset=application.get("preset", usual.preset),
        first=_text(application.get("first")),
        procs=_text(application.get("procs")),
        order=baseline.get("order", usual.order),
        backfill=baseline.get("backfill", usual.backfill),
        small_job_below=_text(application.get("small_job_below")),
        small_job_wait=_text(application.get("small_job_wait")),
        too_wide=application.get("too_wide", usual.too_wide),
        overrun=application.get("overrun", usual.overrun),
        levels={name: tuple(map(_text, values)) for name, values in levels.items()},
        options={name: _text(value) for name, value in application.get("options", {}).items()},
        futures=_foresight(application),
    )


def _has_fields(application: Mapping[str, Any]) -> bool:
    futures = application.get("futures")
    return futures is not None and "generator" in futures and set(futures) <= _SHOWN_FUTURES


def _foresight(application: Mapping[str, Any]) -> FuturesFields:
    if not _has_fields(application):
        return FuturesFields()
    futures, usual = application["futures"], FuturesFields()
    return FuturesFields(
        futures["generator"],
        _text(futures.get("count", usual.count)),
        _text(futures.get("duration", usual.duration)),
        futures.get("aggregate", usual.aggregate),
        _text(futures.get("quantile")),
    )


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
        limit=_text(application.get("limit")),
        measures=how,
        where=where if isinstance(where, str) else "\n".join(where),
        stream=measures.get("stream", "stdout"),
        noisy=application.get("noisy"),
        unused=application.get("unused", False),
        has_baseline=application.get("baseline") is not None,
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
        how, ends = "steps", table["range"]
    elif table.get("logarithmic") is not None:
        how, ends = "ratio", table["logarithmic"]
    return ParameterRow(
        uid=uid,
        name=name,
        how=how,
        levels=tuple(map(_text, table.get("levels") or ())),
        low=_text(ends.get("low")),
        high=_text(ends.get("high")),
        step=_text(ends.get("step", ends.get("count"))),
        is_integer=bool(ends.get("integer", False)),
        kind=_kind(table),
        unit=table.get("unit", ""),
        description=table.get("description", ""),
        baseline=_text(baseline.get(name)),
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
            _text(constraint.get("at_most")),
            _text(constraint.get("at_least")),
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

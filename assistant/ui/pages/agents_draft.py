"""The draft of a study: its form fields, the study file made from them, and field errors."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from agents import (
    AGENTS,
    AnalystProfile,
    Insight,
    Learning,
    StoppingRule,
    StrategyChoice,
    Study,
    TableRequest,
    parse_study,
    truth_of,
)
from assistant import AssistantError
from assistant.config.sweep_file import toml_text
from assistant.core.files import is_file
from assistant.ui.intents import sentence
from assistant.ui.pages.new_sweep_file import FormFault

T = TypeVar("T")

KEY = "agents-f-"
PLAY = "agents-play"  # The place of messages that belong to no single field
NO_ADVICE = "no level"
LEARNS, LEARNS_NOT = "learns", "does not learn"
MOST_LOOKED_AT_BYTES = 4 * 2**20
"""Largest table that is read while the page is drawn; a larger one is read at the start."""

Ends = Literal["optimum", "budget"]
Accepts = Literal["always", "never", "sometimes"]


@dataclass(frozen=True, slots=True)
class StudyDraft:
    """Form fields of a study of simulated analysts; with the defaults, it takes a few seconds.

    Args:
        first: number of jobs taken from the start of the log.
        tables: paths of measured tables, one a line.
        strategies: names in the form of `StrategyChoice`.
        ends: whether an episode ends at the optimum or after a budget of runs.
        censored: per cent of the space after which the search for the optimum stops.
        exploitation: shares of runs inside regions, or `NO_ADVICE`.
        accepts: whether an analyst accepts a warning; ``sometimes`` is with probability
            ``share`` (in per cent).
        file_strategies: strategies with options from a study file.
        extra_tables: tables of a study file that no field shows.
    """

    name: str = ""
    applications: tuple[str, ...] = ("maze",)
    log: str = ""
    first: int | None = None
    tables: str = ""
    strategies: tuple[str, ...] = ("copper",)
    kinds: tuple[str, ...] = ("analyst",)
    insights: tuple[str, ...] = ("good", "none", "bad")
    confidences: tuple[str, ...] = ("0", "50", "100")
    learning: tuple[str, ...] = (LEARNS_NOT, LEARNS)
    ends: Ends = "optimum"
    censored: int = 50
    runs: tuple[str, ...] = ("10", "25")
    exploitation: tuple[str, ...] = ()
    accepts: Accepts = "always"
    share: int = 50
    batch: int = 5
    reaction_s: float = 0.0
    replications: int = 20
    seed: int = 1
    file_strategies: tuple[StrategyChoice, ...] = ()
    extra_tables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Absolute paths of the files with tables of measured results."""
        lines = (line.strip() for line in self.tables.splitlines())
        return tuple(Path(line).expanduser().absolute() for line in lines if line)

    @property
    def log_path(self) -> Path | None:
        """Absolute path of the job log, or None for the built-in log or without scheduling."""
        if "scheduling" not in self.applications or not self.log.strip():
            return None
        return Path(self.log.strip()).expanduser().absolute()

    @property
    def full_name(self) -> str:
        """Name of the study, by default made from its applications and tables."""
        spaces = [*self.applications, *(path.stem for path in self.paths)]
        return self.name.strip() or f"Analysts on {', '.join(spaces) or 'nothing yet'}"

    def has(self, trait: str) -> bool:
        """Return whether any selected kind of analyst has a trait, such as ``learning``."""
        return any(trait in entry.takes for entry in AGENTS if entry.name in self.kinds)


@dataclass(frozen=True, slots=True)
class StudyDocument:
    """Study file made from a form draft, together with the errors of its fields.

    ``text`` and ``study`` (its applications not measured yet) are None while a field is at fault.
    """

    text: str | None
    study: Study | None
    faults: tuple[FormFault, ...]


def study_document(draft: StudyDraft) -> StudyDocument:
    """Return the study file of a form draft, or the errors of its fields."""
    faults: list[FormFault] = []
    tables = _tables(draft, faults)
    if faults:
        return StudyDocument(None, None, tuple(faults))
    text = toml_text(tables)
    try:
        study, _ = parse_study(text, "the study", Path(), _unmeasured)
    except Exception as error:
        return StudyDocument(None, None, (FormFault(_blamed(tables), sentence(error)),))
    return StudyDocument(text, study, ())


def draft_of(text: str) -> StudyDraft:
    """Return the form fields that describe a study file, or raise AssistantError if invalid.

    Paths in the file are relative to the working folder. Scripted analysts are refused, since they
    are programs, which not everybody who has this page may start.
    """
    applications_by_name: dict[str, TableRequest] = {}

    def note(application: TableRequest) -> Path:
        applications_by_name[application.name] = application
        return Path(application.name)

    study, workers = parse_study(text, "the study file", Path(), note, "")
    if study.scripts:
        raise AssistantError(
            f"the study has the scripted analyst '{study.scripts[0].name}', which is a program; "
            "play it with: copperline agents run STUDY.toml --to FOLDER"
        )
    about = applications_by_name.get("scheduling", TableRequest("scheduling"))
    stop, manner = study.stop, study.manner
    accepts: Accepts = {0.0: "never", 1.0: "always"}.get(manner.acceptance, "sometimes")  # type: ignore[assignment]
    return StudyDraft(
        name=study.name,
        applications=tuple(applications_by_name),
        log="" if about.log is None else str(about.log),
        first=about.first,
        tables="\n".join(
            table.path for table in study.tables if table.name not in applications_by_name
        ),
        strategies=tuple(map(str, study.strategies)),
        kinds=study.kinds,
        insights=study.insights,
        confidences=tuple(map(str, study.confidences)),
        learning=tuple(LEARNS if entry else LEARNS_NOT for entry in study.learning),
        ends="budget" if stop.runs else "optimum",
        censored=round(100 * stop.censored_at),
        runs=tuple(map(str, stop.runs)) or StudyDraft().runs,
        exploitation=()
        if stop.exploitation == (None,)
        else tuple(NO_ADVICE if entry is None else f"{entry:g}" for entry in stop.exploitation),
        accepts=accepts,
        share=round(100 * manner.acceptance) if accepts == "sometimes" else StudyDraft().share,
        batch=manner.batch,
        reaction_s=manner.reaction_s,
        replications=study.replications,
        seed=study.seed,
        file_strategies=tuple(entry for entry in study.strategies if entry.options),
        extra_tables=_kept(study, workers),
    )


def _unmeasured(application: TableRequest) -> Path:
    return Path(application.name)


def _kept(study: Study, workers: int | None) -> dict[str, Any]:
    stop, usual = study.stop, StoppingRule()
    names = ("advised_from", "deadline_s", "run_s", "goal")
    ends = {n: getattr(stop, n) for n in names if getattr(stop, n) != getattr(usual, n)}
    if round(100 * stop.censored_at) != 100 * stop.censored_at:
        ends["censored_at"] = stop.censored_at
    extra_tables: dict[str, Any] = {"stop": ends, "workers": workers}
    for name, value, plain in (
        ("insight", study.insight, Insight("none")), ("learner", study.learner, Learning()),
    ):  # fmt: skip
        settings = asdict(value)
        extra_tables[name] = {
            n: setting
            for n, setting in settings.items()
            if setting != asdict(plain)[n] and n != "kind"
        }
    if study.manner.acceptance not in (0.0, 1.0, round(study.manner.acceptance, 2)):
        extra_tables["analyst"] = {"acceptance": study.manner.acceptance}
    return {name: value for name, value in extra_tables.items() if value}


def _tables(draft: StudyDraft, faults: list[FormFault]) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "name": draft.full_name, "seed": draft.seed, "replications": draft.replications,
    }  # fmt: skip
    if "workers" in draft.extra_tables:
        tables["workers"] = draft.extra_tables["workers"]
    _spaces(draft, tables, faults)
    for name, values, noun in (
        ("strategies", draft.strategies, "strategy"), ("kinds", draft.kinds, "kind of analyst"),
    ):  # fmt: skip
        if not values:
            faults.append(_missing(name, f"Choose at least one {noun}."))
    file_strategies = {str(entry): entry for entry in draft.file_strategies}
    tables["strategies"] = [
        {"name": file_strategies[entry].name, **dict(file_strategies[entry].options)}
        if entry in file_strategies
        else entry
        for entry in draft.strategies
    ]
    tables["kinds"] = list(draft.kinds)
    _traits(draft, tables, faults)
    tables["stop"] = {**_stop(draft, faults), **draft.extra_tables.get("stop", {})}
    accepts = draft.share / 100 if draft.accepts == "sometimes" else draft.accepts
    usual = AnalystProfile()
    manner = {"batch": draft.batch, "acceptance": accepts, "reaction_s": float(draft.reaction_s)}
    plain = {"batch": usual.batch, "acceptance": "always", "reaction_s": usual.reaction_s}
    tables["analyst"] = {n: entry for n, entry in manner.items() if entry != plain[n]}
    for name in ("insight", "learner", "analyst"):
        tables[name] = {**tables.get(name, {}), **draft.extra_tables.get(name, {})}
        if not tables[name]:
            del tables[name]
    if draft.log_path is not None:
        tables["scheduling"] = {"log": str(draft.log_path)}
        if draft.first is not None:
            tables["scheduling"]["first"] = draft.first
    return tables


def _spaces(draft: StudyDraft, tables: dict[str, Any], faults: list[FormFault]) -> None:
    if draft.applications:
        tables["applications"] = list(draft.applications)
    if draft.paths:
        tables["tables"] = [str(path) for path in draft.paths]
    if not draft.applications and not draft.paths:
        faults.append(_missing("applications", "Choose an application, or enter a measured table."))
    log = draft.log_path
    if log is not None and not is_file(log):
        faults.append(FormFault(f"{KEY}log", f"There is no job log '{log}'."))
    if log is None and draft.first is not None and "scheduling" in draft.applications:
        faults.append(FormFault(f"{KEY}log", "The number of first jobs needs a job log."))
    for path in draft.paths:
        try:
            if not is_file(path):
                raise FileNotFoundError
            if path.stat().st_size <= MOST_LOOKED_AT_BYTES:
                truth_of(str(path))
        except OSError:
            faults.append(FormFault(f"{KEY}tables", f"There is no table '{path}'."))
        except Exception as error:
            faults.append(FormFault(f"{KEY}tables", sentence(error)))


def _traits(draft: StudyDraft, tables: dict[str, Any], faults: list[FormFault]) -> None:
    if draft.has("insight"):
        tables["insights"] = list(draft.insights)
        if not draft.insights:
            faults.append(_missing("insights", "Choose at least one insight."))
    if draft.has("confidence"):
        tables["confidences"] = _each(
            draft.confidences, int, lambda entry: 0 <= entry <= 100, "confidences", faults,
            "A confidence is a whole number of per cent from 0 to 100",
        )  # fmt: skip
    if draft.has("learning"):
        tables["learning"] = [entry == LEARNS for entry in draft.learning]
        if not draft.learning:
            faults.append(_missing("learning", "Choose whether the analyst learns, or both."))


def _stop(draft: StudyDraft, faults: list[FormFault]) -> dict[str, Any]:
    if draft.ends == "optimum":
        return {"censored_at": draft.censored / 100}
    ends: dict[str, Any] = {
        "runs": _each(
            draft.runs, int, lambda entry: entry >= 1, "runs", faults,
            "A budget is a whole number of runs from 1 on",
        )
    }  # fmt: skip
    levels = _each(
        [entry for entry in draft.exploitation if entry != NO_ADVICE], float,
        lambda entry: 0 <= entry <= 1, "exploitation", faults,
        "A level of exploitation is a share from 0 to 1", may_lack=True,
    )  # fmt: skip
    if draft.exploitation:
        ends["exploitation"] = (["none"] if NO_ADVICE in draft.exploitation else []) + levels
    return ends


def _each(
    typed: Sequence[str],
    kind: Callable[[str], T],
    allowed: Callable[[T], bool],
    name: str,
    faults: list[FormFault],
    requirement: str,
    *,
    may_lack: bool = False,
) -> list[T]:
    """Return the typed numbers; the first text that is no allowed number is a fault."""
    numbers: list[T] = []
    for entry in typed:
        try:
            value = kind(entry.strip())
        except ValueError:
            value = None
        if value is None or not math.isfinite(value) or not allowed(value):  # type: ignore[arg-type]
            faults.append(FormFault(f"{KEY}{name}", f"{requirement}, not '{entry}'."))
            return []
        numbers.append(value)
    if not numbers and not may_lack:
        faults.append(_missing(name, f"{requirement}; enter at least one."))
    return numbers


def _missing(name: str, text: str) -> FormFault:
    return FormFault(f"{KEY}{name}", text, missing=True)


def _blamed(tables: Mapping[str, Any]) -> str:
    """Return the field without which a study is valid; the general place if there is none."""
    for name in ("tables", "strategies", "kinds", "insights", "confidences", "learning"):
        less = {key: value for key, value in tables.items() if key != name}
        if name == "tables" and "applications" not in less:
            less["applications"] = ["maze"]
        try:
            parse_study(toml_text(less), "the study", Path(), _unmeasured)
        except Exception:  # noqa: S112 - it is something else
            continue
        return f"{KEY}{name}"
    return PLAY

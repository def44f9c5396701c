"""Models of the other settings tables of a sweep file, such as ``[objective]`` and ``[hooks]``."""

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from assistant.config.fields import DurationS, SizeBytes, StrictModel, setting
from assistant.core.bounds import CORES, COST, MIN_SAMPLES, RADIUS, VALUE
from assistant.core.early_stopping import EarlyStopping, StopRule
from assistant.core.errors import SettingsError, hint
from assistant.core.objective import (
    Constraint,
    Goal,
    Objective,
    Rmse,
    SecondObjective,
    SingleMeasure,
    WeightedSum,
    Wrapper,
)
from assistant.core.ports import Application, Environment
from assistant.core.sla import Tariff, WarnRule
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates, executor_entry
from assistant.hooks.notices import LONGEST_S, TIMEOUT_S, HookCommands
from strategies import DEFAULT_STRATEGY, Level, ParameterSpace


class RmseSettings(StrictModel):
    """Settings ``rmse``: a measure that is a series, and the reference series for its error."""

    measure: str = setting("A measure that is a series.")
    reference: list[Annotated[float, VALUE]] = setting("Values that the series is to have.")


class ConstraintSettings(StrictModel):
    """Settings ``[[objective.constraints]]``: a bound on one measure."""

    measure: str = setting("The measure that is bounded.", title="Measure")
    at_most: Annotated[float, VALUE] | None = setting(
        "Largest allowed value.", None, title="at most"
    )
    at_least: Annotated[float, VALUE] | None = setting(
        "Smallest allowed value.", None, title="at least"
    )
    label: str = setting("Name of the constraint, for people.", "", title="Label")


class ObjectiveSettings(StrictModel):
    """Settings ``[objective]``: measures to optimise, their directions and constraints."""

    minimise: str | None = setting("Measure to make small.", None)
    maximise: str | None = setting("Measure to make large.", None)
    weighted: dict[str, Annotated[float, VALUE]] | None = setting(
        "Weighted sum of measures, which is minimised.", None
    )
    rmse: RmseSettings | None = setting("A series that is to be near a reference.", None)
    unit: str | None = setting("Unit of the objective, for people.", None, title="Unit")
    second: str | None = setting(
        "A second measure: find the trade-offs of both.", None, title="Second measure"
    )
    second_goal: Goal | None = setting(
        "Direction of the second measure.", None, title="Direction", usual="minimise"
    )
    constraints: list[ConstraintSettings] = setting("Bounds beside the application's own.", [])
    without: list[str] = setting(
        "Measures whose constraints of the application are left out.", [],
        title="From the simulation",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one(self) -> "ObjectiveSettings":
        if self._n_named > 1:
            raise ValueError("name only one of minimise, maximise, weighted and rmse")
        if self.second_goal is not None and self.second is None:
            raise ValueError("'second_goal' is for a second measure; name it with 'second'")
        return self

    @property
    def _n_named(self) -> int:
        forms = [self.minimise, self.maximise, self.weighted, self.rmse]
        return sum(x is not None for x in forms)

    @property
    def names_one(self) -> bool:
        """Whether the settings name a measure to optimise, not only constraints."""
        return self._n_named == 1


def objective_of(settings: ObjectiveSettings | None, default: Objective) -> Objective:
    """Build the objective from settings, with the application's default for missing parts.

    Raises:
        SettingsError: ``without`` names a measure that has no constraint.
        ObjectiveError: an invalid constraint or reference.
    """
    if settings is None:
        return default
    constraints = _constraints(settings, default.constraints)
    wrapper: Wrapper = default.wrapper
    goal = default.goal
    if settings.minimise is not None:
        wrapper, goal = SingleMeasure(settings.minimise), "minimise"
    elif settings.maximise is not None:
        wrapper, goal = SingleMeasure(settings.maximise), "maximise"
    elif settings.weighted is not None:
        wrapper, goal = WeightedSum(tuple(settings.weighted.items())), "minimise"
    elif settings.rmse is not None:
        wrapper, goal = Rmse(settings.rmse.measure, tuple(settings.rmse.reference)), "minimise"
    unit = settings.unit
    if unit is None:
        unit = default.unit if wrapper == default.wrapper else _unit_of(wrapper)
    second = default.second
    if settings.second is not None:
        also = SingleMeasure(settings.second)
        second = SecondObjective(also, settings.second_goal or "minimise", _unit_of(also))
    return Objective(wrapper, goal, constraints, unit, second)


def _unit_of(wrapper: Wrapper) -> str:
    return "s" if isinstance(wrapper, SingleMeasure) and wrapper.measure.endswith("_s") else ""


def _constraints(
    settings: ObjectiveSettings, defaults: tuple[Constraint, ...]
) -> tuple[Constraint, ...]:
    """Return the constraints of the application and of the settings.

    Settings replace those on the same measure; others are removed only if ``without`` names them.
    """
    hers = tuple(Constraint(**c.model_dump()) for c in settings.constraints)
    measures = [constraint.measure for constraint in defaults]
    for name in settings.without:
        if name not in measures:
            raise SettingsError(
                f"'without' names '{name}', on which the application has no constraint"
                f"{hint(name, measures)}"
            )
    replaced = {constraint.measure for constraint in hers} | set(settings.without)
    return (*(c for c in defaults if c.measure not in replaced), *hers)


def check_measures(objective: Objective, application: Application) -> None:
    """Raise SettingsError if the objective uses a measure that the application does not provide."""
    available = application.measures
    for name in objective.measures:
        if available is not None and name not in available:
            raise SettingsError(
                f"the {application.name} application has no measure '{name}'"
                f"{hint(name, list(available))}"
            )


class CostSettings(StrictModel):
    """Settings ``[cost]``: the price of a run, and the cost limit of all runs together."""

    limit: Annotated[float, COST] | None = setting(
        "Maximum cost of all runs.", None, title="Cost limit", usual="no limit"
    )
    unit: str = setting("Unit of the cost, e.g. EUR or kWh.", "", title="Unit", example="EUR")
    per_hour: Annotated[float, COST] | None = setting(
        "Price of an hour of a run.", None, title="Price per hour of a run", example="0.5"
    )
    resources: str | None = setting(
        "Parameter or measure that multiplies the price of an hour.", None,
        title="Multiply by this parameter or measure", example="nodes",
    )  # fmt: skip
    measure: str | None = setting(
        "Measure to use as the cost of a run, instead of a price.", None,
        title="Or: measure that is the cost", example="energy_j",
    )  # fmt: skip

    @property
    def tariff(self) -> Tariff:
        """Pricing rule of the settings; raises SettingsError unless one price is set."""
        return Tariff(self.unit, self.per_hour, self.resources, self.measure)


def check_tariff(
    tariff: Tariff, space: ParameterSpace, measures: Collection[str] | None, application: str
) -> None:
    """Raise SettingsError if a tariff uses a missing or non-numeric measure or parameter.

    ``measures`` are those of a run; None if they are known only after a run, so that an unknown
    name may be one of them.
    """
    if tariff.measure is not None and measures is not None and tariff.measure not in measures:
        raise SettingsError(
            f"the cost is the measure '{tariff.measure}', which the {application} application "
            f"does not return{hint(tariff.measure, measures)}"
        )
    if tariff.resources is None:
        return
    if tariff.resources in space.names:
        levels = space.parameter(tariff.resources).levels
        if any(isinstance(level, bool | str) for level in levels):
            raise SettingsError(
                f"the cost is per unit of '{tariff.resources}', whose levels are not numbers; "
                "name a parameter or a measure that counts the resources of a run"
            )
    elif measures is not None and tariff.resources not in measures:
        raise SettingsError(
            f"the cost is per unit of '{tariff.resources}', which is neither a parameter nor a "
            f"measure{hint(tariff.resources, {*space.names, *measures})}"
        )


class StrategySettings(BaseModel):
    """Settings ``[strategy]``: the name of a strategy, and its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = setting("Strategy of the sweep.", DEFAULT_STRATEGY)

    @property
    def options(self) -> dict[str, Level]:
        """Options of the strategy by name."""
        return dict(self.model_extra or {})


class OrName:
    """Mark of a table that may also be the text of its name, in the JSON schema."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string"}]}


class WarningPolicySettings(StrictModel):
    """Settings ``[warning_policy]``: rules for good results, pending runs and warnings."""

    good: Literal["quantile", "threshold", "verdicts"] = setting(
        "Which results make regions.", "quantile"
    )
    quantile: float = setting("Best share of the results, for `quantile`.", 0.3, gt=0, le=1)
    threshold: Annotated[float, VALUE] | None = setting(
        "A value at least this good, for `threshold`.", None
    )
    eps: Annotated[float, RADIUS] | None = setting(
        "Radius of DBSCAN, in level steps.", None, usual="1.5"
    )
    min_samples: Annotated[int, MIN_SAMPLES] = setting("Least number of neighbours of DBSCAN.", 3)
    pending: Literal["near", "queued", "box", "plan"] = setting(
        "Which configurations count as pending.", "near"
    )
    warn_from: float = setting("Share of the budget spent before warnings begin.", 0.0, ge=0, le=1)
    advised: float = setting("Exploitation level that a warning proposes.", 0.7, ge=0, le=1)
    rule: WarnRule = setting("What warns.", "auto")
    warn_at: float | None = setting(
        "Probability of a miss from which the forecast warns.", None, gt=0, lt=1,
        usual="that measured for the strategy",
    )  # fmt: skip


class EarlyStoppingSettings(StrictModel):
    """Settings ``[early_stopping]``: which runs end by their intermediate results."""

    step: str = setting(
        "The measure that counts the steps of a run, such as `epoch`.",
        min_length=1,
        title="Measure that counts steps",
    )
    rule: StopRule = setting("Rule by which a run is hopeless.", "median", title="Rule")
    first_step: float = setting(
        "No run is stopped before it.", 1.0, gt=0, le=1e9, title="First step"
    )
    factor: float = setting(
        "Ratio of the steps at which `halving` looks.", 3.0, gt=1, le=1e6, title="Factor"
    )
    others: int = setting(
        "Number of other runs that must have come as far.",
        5,
        ge=1,
        le=1_000_000,
        title="Other runs",
    )

    def build(self) -> EarlyStopping:
        """Return the settings as a value."""
        return EarlyStopping(self.step, self.rule, self.first_step, self.factor, self.others)


CERTIFICATES = ("authority", "certificate", "key")

OF_SYSTEM = (
    "system", "partition", "account", "walltime", "options", "host", "folder",
    "setup",
)  # fmt: skip

PATHS = (*CERTIFICATES, "folder")
"""Keys of ``[executor]`` that are paths, relative to the sweep file."""


_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.,@+-]*$"


class ExecutorSettings(StrictModel):
    """Settings ``[executor]``: the executor of the runs and its options."""

    kind: Literal["serial", "process_pool", "dask", "slurm"] = setting("Where runs execute.")
    address: str | None = setting("Address of a Dask scheduler.", None)
    authority: str | None = setting("PEM file of the certificate authority, for `tls://`.", None)
    certificate: str | None = setting("PEM file of the certificate.", None)
    key: str | None = setting("PEM file of the key.", None)
    system: Literal["slurm"] | None = setting("Have Slurm start the workers of Dask.", None)
    partition: str | None = setting("Partition of Slurm.", None, pattern=_NAME)
    account: str | None = setting("Account of Slurm.", None, pattern=_NAME)
    walltime: DurationS | None = setting("Time limit of each job of Slurm; a run has to fit.", None)
    options: list[str] = setting("More options of `sbatch`, one argument each.", [])
    host: str | None = setting("This machine, as the nodes reach it.", None)
    folder: str | None = setting("Folder that this machine and the nodes share.", None)
    setup: list[str] = setting(
        "Lines of the shell before the program of a job, such as `module load`.", []
    )

    def build(self) -> ExecutorSpec:
        """Build the executor specification, or raise SettingsError if invalid."""
        tls_files = (self.authority, self.certificate, self.key)
        if any(tls_files) and not all(tls_files):
            raise SettingsError(
                "[executor]: TLS needs all of authority, certificate and key, paths of PEM files"
            )
        certificates = (
            TlsCertificates(*(Path(str(file)) for file in tls_files)) if all(tls_files) else None
        )
        return ExecutorSpec(self.kind, self.address, certificates, self._batch())

    def _batch(self) -> BatchSystem | None:
        batch_names = [name for name in OF_SYSTEM if getattr(self, name)]
        entry = executor_entry(self.kind)
        may_batch = "batch" in entry.takes and not entry.needs_batch
        if may_batch and batch_names and self.system is None:
            raise SettingsError(
                f"[executor]: '{batch_names[0]}' is for jobs; name the system that starts them: "
                'system = "slurm"'
            )
        if not (entry.needs_batch or batch_names):
            return None
        return BatchSystem(
            "slurm", self.partition, self.account, self.walltime, tuple(self.options), self.host,
            None if self.folder is None else Path(self.folder), tuple(self.setup),
        )  # fmt: skip


LEAST_MEMORY_BYTES = 1 << 20


class EnvironmentSettings(StrictModel):
    """Settings ``[environment]``: cores and memory requested for each run."""

    cores: Annotated[int, CORES] | None = setting("Cores that each run needs.", None)
    memory: Annotated[SizeBytes, Field(ge=LEAST_MEMORY_BYTES)] | None = setting(
        "Memory that all processes of a run need together, such as '4 GiB'.", None
    )

    def build(self) -> Environment:
        """Build the requested computing environment of a run."""
        return Environment(self.cores, self.memory)


def _words(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(
            "should be a list of a program and its arguments (no shell reads it), such as "
            f"{_split_for_show(value)}"
        )
    if isinstance(value, list) and not value:
        raise ValueError("should name a program; leave it out for no hook")
    return value


def _split_for_show(text: str) -> str:
    try:
        return json.dumps(shlex.split(text) or ["program", "argument"])
    except ValueError:
        return '["program", "argument"]'


Argv = Annotated[list[str] | None, BeforeValidator(_words)]


class HookSettings(StrictModel):
    """Settings ``[hooks]``: programs started on warnings, at the end of a sweep and on failures."""

    on_warning: Argv = setting("Program to start when a warning is given.", None)
    on_finish: Argv = setting("Program to start when a sweep ends.", None)
    on_failure: Argv = setting(
        "Program to start when runs or the sweep fail; at most once a minute.", None
    )
    timeout: Annotated[DurationS, Field(le=LONGEST_S)] = setting("Time limit of a hook.", TIMEOUT_S)
    cwd: str = setting("Folder that hooks run in, relative to the file.", ".")

    def build(self) -> HookCommands:
        """Build the hook commands, or raise SettingsError if one is invalid."""
        return HookCommands(
            tuple(self.on_warning or ()),
            tuple(self.on_finish or ()),
            tuple(self.on_failure or ()),
            self.timeout,
            self.cwd,
        )

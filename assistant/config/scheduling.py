"""Models of ``[application]`` of kind ``scheduling``: a cluster over a log, or over futures."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from assistant.applications.scheduling import DEFAULT_PRESET, CurrentPolicies, Scheduling
from assistant.applications.scheduling_futures import (
    FutureAggregate,
    WorkloadFutures,
    future_scheduling,
)
from assistant.config.application import DurationS, LevelValue, Number, StrictModel
from assistant.core.errors import SettingsError
from sim.api import Allocation, Model, Workload, fit, load_model, published_model

_KEPT_FITS = 4


class BaselineSettings(StrictModel):
    """``[application.today]``: current policies of the cluster."""

    order: str = "fcfs"
    backfill: str = "easy"


class FuturesSettings(StrictModel):
    """``[application.futures]``: generated workloads over which each run is evaluated."""

    model: str | None = None
    generator: str | None = None
    knobs: dict[str, Number | str] = Field(default_factory=dict)
    count: int = Field(default=10, ge=1, le=1000)
    duration: DurationS = 7 * 86_400.0
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0)
    judge: FutureAggregate = "mean"
    quantile: float | None = Field(default=None, gt=0, le=1)
    anew: bool = False

    @model_validator(mode="after")
    def _one(self) -> "FuturesSettings":
        if (self.model is None) == (self.generator is None):
            raise ValueError(
                "give exactly one of model, the file of a fitted one, and generator, the name of "
                "what is fitted to the log"
            )
        if self.knobs and self.generator is None:
            raise ValueError("'knobs' are told to what is fitted; name it with generator")
        if self.quantile is not None and self.judge != "quantile":
            raise ValueError("'quantile' is of judge = 'quantile'; say that too, or leave it out")
        return self

    def build(self, log: Workload | None) -> WorkloadFutures:
        """Return the futures; the generator is fitted to ``log``, or as published if None.

        Raises:
            SettingsError: a log beside a fitted model, or knobs without a log.
            SimError: no such file or generator, or nothing that can be fitted.
        """
        return WorkloadFutures(
            self._model(log),
            count=self.count,
            duration_s=self.duration,
            scale=self.scale,
            seed=self.seed,
            judge=self.judge,
            quantile=0.9 if self.quantile is None else self.quantile,
            anew=self.anew,
        )

    def _model(self, log: Workload | None) -> Model:
        if self.model is not None:
            if log is not None:
                raise SettingsError(
                    "the futures come from a model that is fitted already, so the log would not "
                    "be looked at; leave out log, or name a generator instead of the model"
                )
            return load_model(Path(self.model))
        if self.generator is None:
            raise AssertionError("one of model and generator is checked to be there")
        if log is not None:
            return _fitted(self.generator, log, tuple(sorted(self.knobs.items())))
        if self.knobs:
            raise SettingsError("'knobs' are about fitting to a log; name the log with log")
        return published_model(self.generator)


@lru_cache(maxsize=_KEPT_FITS)
def _fitted(generator: str, log: Workload, knobs: tuple[tuple[str, float | str], ...]) -> Model:
    """Fit once; a log is identified by its digest."""
    return fit(generator, log, dict(knobs))


class SchedulingSettings(StrictModel):
    """``[application]`` with ``kind = "scheduling"``."""

    kind: Literal["scheduling"] = "scheduling"
    preset: str = DEFAULT_PRESET
    log: str | None = None
    first: int | None = Field(default=None, ge=1)
    procs: int | None = Field(default=None, ge=1, le=10**12)
    today: BaselineSettings = BaselineSettings()
    levels: dict[str, list[LevelValue]] = Field(default_factory=dict)
    reading: dict[str, str] = Field(default_factory=dict)
    small_job_below: DurationS = 3600.0
    small_job_wait: DurationS = 10800.0
    too_wide: Literal["reject", "clip"] = "reject"
    overrun: Literal["raise", "kill", "extend"] = "raise"
    grace: DurationS | None = None
    split: bool | None = None
    options: dict[str, LevelValue] = Field(default_factory=dict)
    allocation: Allocation | None = None
    machine_procs: int | None = Field(default=None, ge=1, le=10**12)
    futures: FuturesSettings | None = None

    def build(self, workload: Workload, workers: int) -> Scheduling:
        """Return the application. Raises AssistantError or SimError if it cannot be built."""
        arguments: dict[str, Any] = {
            "procs": self.procs,
            "today": CurrentPolicies(self.today.order, self.today.backfill),
            "levels": {name: tuple(levels) for name, levels in self.levels.items()},
            "small_job_below_s": self.small_job_below,
            "small_job_wait_s": self.small_job_wait,
            "too_wide": self.too_wide,
            "overrun": self.overrun,
            "preset": self.preset,
            "split": self.split,
            "options": self.options,
            "grace_s": self.grace or 0.0,
            "allocation": self.allocation,
            "machine_procs": self.machine_procs,
        }
        if self.futures is None:
            return Scheduling(workload, **arguments)
        futures = self.futures.build(None if self.log is None else workload)
        return future_scheduling(futures, threads=None if workers == 1 else 1, **arguments)

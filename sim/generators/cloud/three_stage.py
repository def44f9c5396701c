"""The three-stage workload generator of Bergsma et al. and its two baselines.

- ``three_stage``: arrivals of batches; sequences of flavours and lifetimes that depend on those
  before (section 2), by models of some quality (`model_parts`).
- ``simple_batch``: arrivals of batches; each has an observed size, one flavour and one lifetime
  for all of its jobs (section 6, SIMPLEBATCH).
- ``naive``: arrivals of single jobs with independent flavours and lifetimes (NAIVE).

A generated workload begins at the midnight after the last day of the fit. Each batch has its own
user, because the paper generates no users. Parameters of a model can tilt its probabilities after
the fit (section 7 and its note 5), see `ModelTilts`; the rate of all arrivals is the `scale` of a
horizon.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.arrivals import DAY_S, BatchArrivals, fit_arrivals, recent_mean
from sim.generators.cloud.batches import JobExamples, batches_of, workload_of
from sim.generators.cloud.contexts import integers_of, shares_of
from sim.generators.cloud.flavours import hours_of
from sim.generators.cloud.lifetimes import LifetimeTable, fit_lifetimes, lifetime_probabilities
from sim.generators.cloud.lstm import LstmFlavours, LstmLifetimes
from sim.generators.cloud.lstm_training import LSTM_KNOBS, TrainingPlan
from sim.generators.cloud.model_parts import (
    QUALITIES,
    CloudModelParts,
    NextFlavour,
    encode_flavours,
    encode_parts,
    fit_hazards,
    fit_next_flavour,
    model_parts_of,
    next_flavour_of,
)
from sim.generators.generator import (
    FitWatch,
    Generator,
    Horizon,
    Json,
    Model,
    RandomStreams,
    check_number_of_jobs,
    checked_number,
)
from sim.model.cloud_trace import CloudTrace, Flavour
from sim.model.errors import WorkloadError
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]


MOST_ODDS = 1e6
MOST_TILT = 10.0
WEEKEND = (2, 3)
"""Saturday and Sunday by the clock of a model, whose day 0 is 1 January 1970, a Thursday."""

FOR_ALL: dict[str, Json] = {
    "flavour_odds": {}, "cores_tilt": 0.0, "memory_tilt": 0.0, "ending_rate": 1.0,
    "weekend_load": 1.0,
}  # fmt: skip
"""Parameters of every cloud model, with defaults for models without them."""

FOR_BATCHES: dict[str, Json] = {"end_odds": 1.0}  # parameters of models whose tables end batches


@dataclass(frozen=True, eq=False)
class ModelTilts:
    """What-if changes to the probabilities of a fitted cloud model.

    Attributes:
        end_odds: factor on the odds of the end of a batch; 0.1 makes batches larger.
        flavour_odds: float64 [K], factors on the odds of flavours, which also change batch sizes.
        weight: float64 [K], factors on the shares of flavours among each other, at most 1: their
            cores to the power of `cores_tilt` times their memory to that of `memory_tilt` (unknown
            memory counts as the least). Batch sizes do not change.
        ending_rate: factor on the rate at which jobs end: survival to any age is taken to this
            power.
        weekend_load: factor on the arrivals of Saturdays and Sundays.
    """

    end_odds: float
    flavour_odds: Floats
    weight: Floats
    ending_rate: float
    weekend_load: float

    def ground(self, ground: CloudModelParts) -> CloudModelParts:
        """Return the model parts with arrivals and lifetimes changed by these tilts."""
        return replace(
            ground,
            arrivals=self.arrivals(ground.arrivals),
            lifetimes=ground.lifetimes.ending(self.ending_rate),
        )

    def arrivals(self, law: BatchArrivals) -> BatchArrivals:
        """Return the arrival distribution with weekend arrivals scaled by `weekend_load`."""
        if self.weekend_load == 1:
            return law
        of_day = law.of_day.copy()
        of_day[list(WEEKEND)] += np.log(self.weekend_load)
        return replace(law, of_day=of_day)

    def next_flavour(self, flavours: NextFlavour) -> NextFlavour:
        """Return the flavour model with scaled odds of flavours and of batch ends."""
        odds = np.append(self.flavour_odds, self.end_odds)
        if (odds == 1).all() and (self.weight == 1).all():
            return flavours
        return flavours.tilted(odds, self.weight)

    def shares(self, share: Floats) -> Floats:
        """Return probabilities of independently drawn flavours after the tilts."""
        tilted = share * self.flavour_odds * self.weight
        other: Floats = tilted / tilted.sum()
        return other


def tilts_of(model: Model, flavours: Sequence[Flavour]) -> ModelTilts:
    """Return the what-if tilts that a model's parameters specify.

    Raises:
        WorkloadError: a value is not allowed, or a flavour or its memory is unknown.
    """

    def number(name: str, lowest: float, highest: float) -> float:
        parameter = {**FOR_ALL, **FOR_BATCHES, **model.parameters}[name]
        return checked_number(
            f"parameter '{name}' of '{model.generator}'", parameter, lowest, highest
        )

    weight = np.zeros(len(flavours))
    for name, column in (
        ("cores_tilt", [flavour.mcpu for flavour in flavours]),
        ("memory_tilt", [flavour.mem_bytes for flavour in flavours]),
    ):
        tilt = number(name, -MOST_TILT, MOST_TILT)
        if tilt != 0:
            weight += tilt * _logs(model, name, column)
    return ModelTilts(
        end_odds=number("end_odds", 1 / MOST_ODDS, MOST_ODDS),
        flavour_odds=_odds(model, [flavour.name for flavour in flavours]),
        weight=np.exp(weight - weight.max()),
        ending_rate=number("ending_rate", 1 / MOST_ODDS, MOST_ODDS),
        weekend_load=number("weekend_load", 1 / MOST_ODDS, MOST_ODDS),
    )


def _logs(model: Model, name: str, column: Sequence[int]) -> Floats:
    values = np.array(column, dtype=np.float64)
    if (values <= 0).all():
        raise WorkloadError(
            f"parameter '{name}' of '{model.generator}' must be 0: flavour memory is unknown."
        )
    logs: Floats = np.log(np.where(values > 0, values, values[values > 0].min()))
    return logs


def _odds(model: Model, names: Sequence[str]) -> Floats:
    flavour_odds = model.parameters.get("flavour_odds", {})
    if not isinstance(flavour_odds, dict):
        raise WorkloadError(
            f"parameter 'flavour_odds' of '{model.generator}' is {flavour_odds!r}; it must be a "
            "table of numbers by flavour, or empty."
        )
    odds = np.ones(len(names))
    for name, factor in flavour_odds.items():
        if name not in names:
            raise WorkloadError(
                f"parameter 'flavour_odds' of '{model.generator}' names '{name}'; its "
                f"flavours are {', '.join(names[:20])}."
            )
        label = f"flavour_odds of '{name}' of '{model.generator}'"
        odds[names.index(name)] = checked_number(label, factor, 1 / MOST_ODDS, MOST_ODDS)
    return odds


Arrays = dict[str, NDArray[Any]]

THREE_STAGE_NAME, SIMPLE_BATCH_NAME, NAIVE_NAME = "three_stage", "simple_batch", "naive"

KNOBS: tuple[PolicyOption, ...] = (
    PolicyOption("period_s", 300.0, "Length of a period.", 1.0, 86_400.0, unit="s"),
    PolicyOption("flavours", 32, "Requests with their own flavour.", 1, 1000, is_whole=True),
    PolicyOption("penalty", 1e-3, "Weight of the lasso on the arrivals.", 1e-9, 1e3),
    PolicyOption("back_days", 7.0, "Mean age of the days that recur.", 1.0, 1e4, unit="d"),
    PolicyOption(
        "half_life_days",
        7.0,
        "Age at which flavours count half; 0 gives all the same weight.",
        0.0,
        1e4,
        unit="d",
    ),
    PolicyOption("days_differ", 1, "Each day has its own table of flavours.", 0, 1, is_whole=True),
    PolicyOption("overdispersed", 1, "Counts may vary more than Poisson's.", 0, 1, is_whole=True),
)

QUALITY = PolicyOption(
    "quality", 0, "How flavours and lifetimes are predicted; all but the first take longer to fit.",
    0, len(QUALITIES) - 1, is_whole=True, names=QUALITIES,
)  # fmt: skip


def _fit(
    name: str, workload: Workload, knobs: Mapping[str, float], watch: FitWatch | None = None
) -> Model:
    trace, examples = batches_of(
        workload, period_s=knobs["period_s"], most_flavours=int(knobs["flavours"])
    )
    return fit_batches(name, trace, examples, knobs, of=workload.name, watch=watch)


def fit_batches(
    name: str,
    trace: CloudTrace,
    examples: JobExamples,
    knobs: Mapping[str, float],
    *,
    of: str,
    lived: CloudTrace | None = None,
    watch: FitWatch | None = None,
) -> Model:
    """Fit the three-stage generator, or one of its two baselines, to batches.

    Args:
        name: name of the generator.
        trace: training data of arrivals and flavours.
        examples: examples of its flavours.
        knobs: values of all `KNOBS` except those of periods and flavours, and for three_stage of
            `QUALITY` (default ``tables``).
        of: name of the training data, for people.
        lived: training data of lifetimes; None is `trace`.
        watch: progress and checkpoint of the training of networks.

    Raises:
        WorkloadError: nothing arrives, lifetimes are unknown, or a checkpoint is asked for where
            no network is trained.
    """
    by_job = name == NAIVE_NAME
    quality = QUALITIES[int(knobs.get(QUALITY.name, QUALITY.usual))]
    in_stages = name == THREE_STAGE_NAME
    plan = TrainingPlan.of(knobs)
    if watch is not None and watch.checkpoint is not None and quality != "lstm":
        raise WorkloadError(
            f"fitting with quality '{quality}' keeps no checkpoint; leave it out, or use quality "
            "'lstm'."
        )
    counts = trace.jobs_by_period() if by_job else trace.batches_by_period()
    arrivals = fit_arrivals(
        counts,
        trace.first_period,
        trace.period_s,
        penalty=knobs["penalty"],
        with_history=not by_job,
        overdispersed=bool(knobs["overdispersed"]) and not by_job,
        back=1.0 / knobs["back_days"],
    )
    ground = CloudModelParts(
        trace.period_s, trace.bins, trace.flavours, examples, arrivals,
        fit_hazards(quality, lived or trace, plan, watch) if in_stages
        else fit_lifetimes(lived or trace, 1),
        trace.n_jobs / int(counts.sum()),
    )  # fmt: skip
    parameters, arrays = encode_parts(ground)
    parameters |= FOR_ALL
    warning = ""
    if in_stages:
        flavours = fit_next_flavour(
            quality, trace, knobs["half_life_days"], bool(knobs["days_differ"]), plan, watch
        )
        of_flavours, more_arrays = encode_flavours(flavours)
        parameters |= {"quality": quality, **FOR_BATCHES, **of_flavours}
        arrays |= more_arrays
        warning = _poor_fit(flavours, ground.lifetimes)
    else:
        share = np.bincount(trace.flavour, minlength=len(trace.flavours)) / trace.n_jobs
        arrays |= {"flavour_share": share}
    if name == SIMPLE_BATCH_NAME:
        sizes, times = np.unique(trace.batch_sizes, return_counts=True)
        arrays |= {"sizes": sizes, "size_share": times / times.sum()}
    source = (
        f"Fitted to {of}: {trace.n_jobs:,} jobs in {trace.n_batches:,} batches of "
        f"{len(trace.flavours)} flavours."
    )
    if not by_job:
        per_day = DAY_S / trace.period_s
        jobs = trace.jobs_by_period()
        recent = recent_mean(jobs, trace.first_period, trace.period_s, 1.0 / knobs["back_days"])
        source += (
            f" Days come from its last weeks, with about {recent * per_day:,.0f} jobs a day; "
            f"the whole log has {float(jobs.mean()) * per_day:,.0f}."
        )
    return Model(name, parameters, arrays, source + warning)


def _poor_fit(*fitted: object) -> str:
    """Return a sentence on networks that predict worse than tables, or nothing."""
    poor = [
        f"{of} ({one.score.network:.3f}, tables {one.score.tables:.3f})"
        for kind, of in ((LstmFlavours, "flavours"), (LstmLifetimes, "lifetimes"))
        for one in fitted
        if isinstance(one, kind) and one.score.is_poor
    ]
    if not poor:
        return ""
    return (
        " Quality 'tables' predicts the held-out last part of the log better than the network, by "
        f"negative log-likelihood, of {' and of '.join(poor)}: train longer (lstm_epochs) or use "
        "another quality."
    )


def _jobs_in_batches(
    model: Model, ground: CloudModelParts, day: Ints, hour: Ints, streams: RandomStreams
) -> tuple[Ints, Ints, Ints]:
    flavours = tilts_of(model, ground.flavours).next_flavour(_next_flavour(model, ground))
    flavour, batch = flavours.draw(len(day), streams.of("flavours"), day, hour)
    lifetime = ground.lifetimes.draw(
        flavour, batch, len(ground.flavours), streams.of("lifetimes"), day, hour
    )
    return flavour, batch, lifetime


def _alike_in_batches(
    model: Model, ground: CloudModelParts, day: Ints, _hour: Ints, streams: RandomStreams
) -> tuple[Ints, Ints, Ints]:
    n = len(day)
    sizes = integers_of(model, "sizes", (None,), 1, 10**7)
    share = shares_of(model, "size_share", (len(sizes),))
    batch_sizes = sizes[_draw_indices(share, n, streams.of("sizes"))]
    flavour = _draw_indices(_flavour_share(model, ground), n, streams.of("flavours"))
    lifetime = ground.lifetimes.draw(
        flavour, np.arange(n), len(ground.flavours), streams.of("lifetimes")
    )
    return (
        np.repeat(flavour, batch_sizes),
        np.repeat(np.arange(n), batch_sizes),
        np.repeat(lifetime, batch_sizes),
    )


def _jobs_alone(
    model: Model, ground: CloudModelParts, day: Ints, _hour: Ints, streams: RandomStreams
) -> tuple[Ints, Ints, Ints]:
    n = len(day)
    flavour = _draw_indices(_flavour_share(model, ground), n, streams.of("flavours"))
    lifetime = ground.lifetimes.draw(
        flavour, np.arange(n), len(ground.flavours), streams.of("lifetimes")
    )
    return flavour, np.arange(n), lifetime


_Stages = Callable[[Model, CloudModelParts, Ints, Ints, RandomStreams], tuple[Ints, Ints, Ints]]
"""Functions of the model, its parts, the day of the history and the hour of the week of each
batch, and streams, which return flavour, batch and lifetime bin of each job."""


def draw_batches(
    model: Model, first_period: int, n_periods: int, streams: RandomStreams, scale: float = 1.0
) -> CloudTrace | None:
    """Draw the jobs of `n_periods` periods from a model; return None if no jobs arrive.

    Args:
        model: model of one of the three generators.
        first_period: first period, by the clock of the model.
        n_periods: number of periods.
        streams: random streams, of which ``arrivals``, ``flavours``, ``sizes``, ``lifetimes`` are
            used.
        scale: factor on the rate of arrivals.

    Raises:
        WorkloadError: invalid parameters, or too many jobs.
    """
    stages, ground = _STAGES[model.generator], _ground_of(model)
    period = first_period + np.arange(n_periods)
    counts, day = ground.arrivals.draw(
        period,
        ground.period_s,
        streams.of("arrivals"),
        scale,
        by_week=model.generator == THREE_STAGE_NAME,
    )
    check_number_of_jobs(float(counts.sum()) * ground.jobs_per_arrival)
    if counts.sum() == 0:
        return None
    hour = hours_of(period, ground.period_s)
    arrival_period = np.repeat(np.arange(n_periods), counts)
    flavour, batch, lifetime = stages(
        model, ground, day[arrival_period], hour[arrival_period], streams
    )
    return CloudTrace(
        period=np.repeat(period, counts)[batch],
        batch=batch,
        flavour=flavour,
        lifetime=lifetime,
        censored=np.zeros(len(batch), dtype=np.int64),
        flavours=ground.flavours,
        first_period=first_period,
        n_periods=n_periods,
        period_s=ground.period_s,
        bins=ground.bins,
    )


_STAGES: Mapping[str, _Stages] = {
    THREE_STAGE_NAME: _jobs_in_batches,
    SIMPLE_BATCH_NAME: _alike_in_batches,
    NAIVE_NAME: _jobs_alone,
}


def _draw(model: Model, horizon: Horizon, streams: RandomStreams) -> Workload:
    ground = _ground_of(model)
    law = ground.arrivals
    n_periods = int(np.ceil(horizon.duration_s / ground.period_s))
    highest = law.intercept + law.of_hour.mean() + law.of_day.mean() + law.history().mean()
    check_number_of_jobs(n_periods * horizon.scale * np.exp(highest) * ground.jobs_per_arrival)
    begin_s = (law.first_day + law.n_days) * DAY_S
    first_period = int(np.ceil(begin_s / ground.period_s))
    trace = draw_batches(model, first_period, n_periods, streams, horizon.scale)
    if trace is None:
        raise WorkloadError(_nothing(horizon))
    workload = workload_of(trace, ground.examples, streams, name=f"{model.generator} (generated)")
    told_s = workload.start_unix_s or 0.0
    offset_s = told_s - first_period * ground.period_s
    n = int(np.searchsorted(workload.submit_s + offset_s, horizon.duration_s, side="left"))
    if n == 0:
        raise WorkloadError(_nothing(horizon))
    return workload.head(n)


def _nothing(horizon: Horizon) -> str:
    return (
        f"no job is submitted within {horizon.duration_s:g} s; ask for a longer duration or a "
        "larger scale."
    )


def _draw_indices(share: NDArray[np.float64], n: int, rng: np.random.Generator) -> Ints:
    sums = np.cumsum(share)
    position = np.searchsorted(sums, rng.random(n) * sums[-1], side="right")
    indices: Ints = np.minimum(position, len(share) - 1).astype(np.int64)
    return indices


def _flavour_share(model: Model, ground: CloudModelParts) -> NDArray[np.float64]:
    share = shares_of(model, "flavour_share", (len(ground.flavours),))
    return tilts_of(model, ground.flavours).shares(share)


def _ground_of(model: Model) -> CloudModelParts:
    ground = model_parts_of(model)
    return tilts_of(model, ground.flavours).ground(ground)


def _next_flavour(model: Model, ground: CloudModelParts) -> NextFlavour:
    return next_flavour_of(model, len(ground.flavours), ground.arrivals.n_days)


def _check(model: Model) -> None:
    ground = model_parts_of(model)
    if model.generator == THREE_STAGE_NAME:
        parameter_names = {"quality", *FOR_ALL, *FOR_BATCHES}
        parameter_names |= set(encode_flavours(_next_flavour(model, ground))[0])
    else:
        _flavour_share(model, ground)
        parameter_names = {*FOR_ALL}
    tilts_of(model, ground.flavours)
    if model.generator == SIMPLE_BATCH_NAME:
        n = len(integers_of(model, "sizes", (None,), 1, 10**7))
        shares_of(model, "size_share", (n,))
    unknown = set(model.parameters) - set(encode_parts(ground)[0]) - parameter_names
    if unknown:
        raise WorkloadError(f"'{model.generator}' has no parameter '{min(unknown)}'.")
    table = ground.lifetimes
    if isinstance(table, LifetimeTable) and lifetime_probabilities(table.hazard).min() < 0:
        raise WorkloadError(f"array 'lifetimes_hazard' of '{model.generator}' holds no hazards.")


def _generator(name: str, summary: str, knobs: tuple[PolicyOption, ...] = KNOBS) -> Generator:
    return Generator(name, summary, check=_check, draw=_draw, fit=partial(_fit, name), knobs=knobs)


THREE_STAGE = replace(
    _generator(
        THREE_STAGE_NAME,
        "Batches of similar jobs, with the history of a cloud (Bergsma et al. 2021).",
        (QUALITY, *KNOBS, *LSTM_KNOBS),
    ),
    watched_fit=partial(_fit, THREE_STAGE_NAME),
)
SIMPLE_BATCH = _generator(
    SIMPLE_BATCH_NAME,
    "Batches of equal jobs (SIMPLEBATCH of Bergsma et al. 2021).",
)
NAIVE = _generator(
    NAIVE_NAME,
    "Independent jobs (NAIVE of Bergsma et al. 2021).",
)

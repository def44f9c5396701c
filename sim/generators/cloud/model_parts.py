"""Parts of a fitted cloud model, with their interfaces, fits, and checked encoding in a `Model`.

| quality | flavours | lifetimes |
|---|---|---|
| ``tables`` | one table of contexts (`flavours`) | one table of contexts (`lifetimes`) |
| ``mix`` | a log-linear mix of a dozen tables (`flavour_mix`) | as ``tables`` |
| ``trees`` | as ``mix`` | boosted trees (`lifetimes`) |
| ``dimensions`` | tables by dimension (`flavour_dimensions`) | as ``tables`` |
| ``lstm`` | an LSTM network (`lstm`) | an LSTM network (`lstm`) |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.arrivals import DAYS, HOURS, BatchArrivals
from sim.generators.cloud.batches import JobExamples
from sim.generators.cloud.contexts import (
    Contexts,
    array_of,
    contexts_of,
    encode_contexts,
    integers_of,
    shares_of,
)
from sim.generators.cloud.flavour_models import (
    MEMORIES,
    RUN_CLASSES,
    DimensionTable,
    FlavourChain,
    FlavourDimensions,
    FlavourExpert,
    FlavourMix,
    fit_dimensions,
    fit_mix,
)
from sim.generators.cloud.flavours import (
    FlavourTable,
    FlavourTokens,
    days_of,
    fit_flavours,
    recency,
    tokens_of,
)
from sim.generators.cloud.lifetimes import (
    N_FEATURES,
    BoostedTrees,
    LifetimeTable,
    LifetimeTrees,
    fit_lifetimes,
    fit_trees,
)
from sim.generators.cloud.lstm import (
    FLAVOURS_NAME,
    LIFETIMES_NAME,
    LstmFlavours,
    LstmLifetimes,
    encode_network,
    lstm_flavour_parameters,
    lstm_flavours_of,
    lstm_lifetime_parameters,
    lstm_lifetimes_of,
)
from sim.generators.cloud.lstm_training import (
    TrainingPlan,
    fit_lstm_flavours,
    fit_lstm_lifetimes,
)
from sim.generators.generator import (
    FitWatch,
    Json,
    Model,
    checked_number,
    number_of,
    pack_tasks,
    unpack_tasks,
)
from sim.model.cloud_trace import Bins, CloudTrace, Flavour
from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


QUALITIES = ("tables", "mix", "trees", "dimensions", "lstm")
MOST_WEIGHT, MOST_LOGIT = 1e3, 1e6
Packed = tuple[dict[str, Json], dict[str, NDArray[Any]]]  # parameters and arrays of a model


class NextFlavour(Protocol):
    """Interface of models that predict the next token from the preceding ones in its batch."""

    @property
    def end(self) -> int:
        """Token number of the end of a batch, which equals the number of flavours."""

    def probabilities(self, tokens: FlavourTokens) -> Floats:
        """Return the probabilities of each next token: float64 [n, n_flavours + 1]."""

    def tilted(self, odds: Floats, weight: Floats) -> "NextFlavour":
        """Return a copy that multiplies token odds by `odds` and flavour shares by `weight`."""

    def draw(
        self, n_batches: int, rng: np.random.Generator, day: Ints | None, hour: Ints
    ) -> tuple[Ints, Ints]:
        """Draw the flavours of the jobs of `n_batches` non-empty batches.

        Args:
            n_batches: number of batches.
            rng: random generator.
            day: int64 [n_batches], day of the history of each; None takes the table of all days.
            hour: int64 [n_batches], hour of the week at which each begins.

        Returns:
            flavours int64 [n_jobs] and their batches int64 [n_jobs], in order.
        """


class Hazards(Protocol):
    """Interface of models of lifetime-bin hazards, given the preceding jobs of the batch."""

    @property
    def n_bins(self) -> int:
        """Number of lifetime bins."""

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards by context, float64 [n, n_bins], and each job's row, int64."""

    def ending(self, rate: float) -> "Hazards":
        """Return a model for jobs that end `rate` times as fast, with rescaled hazards."""

    def draw(
        self,
        flavour: Ints,
        batch: Ints,
        n_flavours: int,
        rng: np.random.Generator,
        day: Ints | None = None,
        hour: Ints | None = None,
    ) -> Ints:
        """Draw an uncensored lifetime bin for every job: int64 [n_jobs].

        Args:
            flavour: int64 [n_jobs].
            batch: int64 [n_jobs], batch of each, in order.
            n_flavours: number of flavours.
            rng: random generator.
            day: int64 [n_batches], day of the history of each batch, if known.
            hour: int64 [n_batches], hour of the week at which each begins, if known.
        """


def fit_next_flavour(
    quality: str,
    trace: CloudTrace,
    half_life_days: float,
    days_differ: bool,
    plan: TrainingPlan | None = None,
    watch: FitWatch | None = None,
) -> NextFlavour:
    """Fit the flavour model that a quality level, such as ``mix``, prescribes.

    `plan` and `watch` are those of the training of a network, by default the usual ones.
    """
    if quality == "lstm":
        plan, watch = plan or TrainingPlan.of({}), watch or FitWatch()
        return fit_lstm_flavours(trace, plan, half_life_days, watch)
    tokens = tokens_of(trace)
    day = days_of(tokens, trace) if days_differ else None
    table = fit_flavours(tokens, recency(tokens, trace, half_life_days), day)
    if quality == "tables":
        return table
    if quality == "dimensions":
        return fit_dimensions(trace, table, half_life_days)
    return fit_mix(trace, table, half_life_days)


def fit_hazards(
    quality: str,
    trace: CloudTrace,
    plan: TrainingPlan | None = None,
    watch: FitWatch | None = None,
) -> Hazards:
    """Fit the lifetime model of a quality level. Raises WorkloadError for unknown lifetimes."""
    if quality == "lstm":
        return fit_lstm_lifetimes(trace, plan or TrainingPlan.of({}), watch or FitWatch())
    return fit_trees(trace) if quality == "trees" else fit_lifetimes(trace)


def quality_of(model: Model) -> str:
    """Return the quality level of a cloud model; the default is ``tables``.

    Raises:
        WorkloadError: there is no such quality.
    """
    quality = model.parameters.get("quality", QUALITIES[0])
    if quality not in QUALITIES:
        raise WorkloadError(
            f"parameter 'quality' of '{model.generator}' is {quality!r}; allowed are "
            f"{', '.join(QUALITIES)}."
        )
    return str(quality)


def encode_flavours(flavours: NextFlavour) -> Packed:
    """Return the parameters and arrays with which a flavour model is stored."""
    if isinstance(flavours, LstmFlavours):
        return lstm_flavour_parameters(flavours), encode_network(FLAVOURS_NAME, flavours.network)
    table = flavours.table if isinstance(flavours, FlavourMix | FlavourDimensions) else flavours
    if not isinstance(table, FlavourTable):
        raise TypeError(f"{type(flavours).__name__} is not a model of flavours that can be stored.")
    arrays = {
        "flavours_probability": table.probability,
        "flavours_by_day": table.by_day,
        **encode_contexts("flavours", table.contexts),
    }
    if isinstance(flavours, FlavourMix):
        arrays["mix_weight"] = flavours.weight
        for place, expert in enumerate(flavours.experts):
            arrays[f"mix_{place}_probability"] = expert.probability
            arrays |= encode_contexts(f"mix_{place}", expert.contexts)
    if isinstance(flavours, FlavourDimensions):
        arrays["dimensions_value"] = flavours.chain.value
        for place, dimension in enumerate((flavours.ends, *flavours.dimensions)):
            arrays[f"dimensions_{place}_probability"] = dimension.probability
            arrays |= encode_contexts(f"dimensions_{place}", dimension.contexts)
    return {}, arrays


def next_flavour_of(model: Model, n_flavours: int, n_days: int) -> NextFlavour:
    """Restore the flavour model that `encode_flavours` stored. Raises WorkloadError."""
    quality = quality_of(model)
    if quality == "lstm":
        return lstm_flavours_of(model, n_flavours)
    table = _flavour_table_of(model, n_flavours, n_days)
    if quality == "tables":
        return table
    if quality == "dimensions":
        return _dimensions_of(model, table)
    experts = []
    for place, memory in enumerate(MEMORIES):
        name = f"mix_{place}"
        contexts = _contexts_of(model, name, len(memory.levels) + 1)
        shape = (contexts.n_rows, n_flavours + 1)
        experts.append(
            FlavourExpert(contexts, _positive_shares(model, f"{name}_probability", shape))
        )
    weight = array_of(
        model, "mix_weight", (len(RUN_CLASSES) + 1, len(MEMORIES)), -MOST_WEIGHT, MOST_WEIGHT
    )
    return FlavourMix(table, tuple(experts), weight, np.ones(n_flavours + 1), np.ones(n_flavours))


def _dimensions_of(model: Model, table: FlavourTable) -> FlavourDimensions:
    n = table.end
    value = integers_of(model, "dimensions_value", (n, None), 0, n - 1)
    chain = FlavourChain.of(value)
    if not chain.parts:
        raise WorkloadError(
            f"array 'dimensions_value' of '{model.generator}' has the same values for two "
            "flavours; they must differ."
        )
    dimensions = []
    for place in range(chain.n_dimensions + 1):
        name = f"dimensions_{place}"
        contexts = _contexts_of(model, name, chain.n_levels(place - 1) + 1)
        shape = (contexts.n_rows, chain.width(place - 1) if place else 2)
        dimensions.append(
            DimensionTable(contexts, _positive_shares(model, f"{name}_probability", shape))
        )
    return FlavourDimensions(
        table, chain, dimensions[0], tuple(dimensions[1:]), np.ones(n + 1), np.ones(n)
    )


def _contexts_of(model: Model, name: str, n_levels: int) -> Contexts:
    contexts = contexts_of(model, name)
    if len(contexts.keys) != n_levels:
        raise WorkloadError(
            f"the contexts '{name}' of '{model.generator}' have {len(contexts.keys)} levels; "
            f"{n_levels} are expected."
        )
    return contexts


def encode_hazards(hazards: Hazards) -> Packed:
    """Return the parameters and arrays with which a lifetime model is stored."""
    if isinstance(hazards, LifetimeTable):
        arrays = {
            "lifetimes_hazard": hazards.hazard,
            **encode_contexts("lifetimes", hazards.contexts),
        }
        return {"long_bin": hazards.long_bin}, arrays
    if isinstance(hazards, LstmLifetimes):
        return lstm_lifetime_parameters(hazards), encode_network(LIFETIMES_NAME, hazards.network)
    if not isinstance(hazards, LifetimeTrees):
        raise TypeError(f"{type(hazards).__name__} is not a model of lifetimes that can be stored.")
    trees = hazards.trees
    return {"trees_baseline": trees.baseline}, {
        f"trees_{name}": getattr(trees, name)
        for name in ("first", "feature", "threshold", "left", "right", "value")
    }


def hazards_of(model: Model, n_bins: int, n_flavours: int) -> Hazards:
    """Restore the lifetime model that `encode_hazards` stored. Raises WorkloadError."""
    if quality_of(model) == "lstm":
        return lstm_lifetimes_of(model, n_bins, n_flavours)
    if quality_of(model) != "trees":
        long_bin = int(number_of(model, "long_bin", 0, n_bins))
        contexts = contexts_of(model, "lifetimes")
        hazard = array_of(model, "lifetimes_hazard", (contexts.n_rows, n_bins), 0.0, 1.0)
        return LifetimeTable(contexts, hazard, long_bin)
    return LifetimeTrees(_trees_of(model), n_bins, n_flavours)


def _flavour_table_of(model: Model, n_flavours: int, n_days: int) -> FlavourTable:
    contexts = contexts_of(model, "flavours")
    shape = (contexts.n_rows, n_flavours + 1)
    stored_days = model.arrays.get("flavours_by_day")
    n_told = 0 if stored_days is None else len(stored_days)
    if not n_told <= n_days:
        raise WorkloadError(f"array 'flavours_by_day' of '{model.generator}' has too many days.")
    by_day = np.empty((0, *shape))
    if n_told:
        by_day = shares_of(model, "flavours_by_day", (n_told, *shape))
    probability = shares_of(model, "flavours_probability", shape)
    return FlavourTable(contexts, probability, by_day, n_days)


def _positive_shares(model: Model, name: str, shape: tuple[int, int]) -> Floats:
    shares = shares_of(model, name, shape)
    if shares.min() <= 0:
        raise WorkloadError(f"array '{name}' of '{model.generator}' has shares of 0.")
    return shares


def _trees_of(model: Model) -> BoostedTrees:
    where = f"the trees of '{model.generator}'"
    first = integers_of(model, "trees_first", (None,), 0)
    n = int(first[-1])
    node_number = np.arange(n)
    if first[0] != 0 or len(first) < 2 or (np.diff(first) < 1).any():
        raise WorkloadError(f"{where} must have rising first nodes, from 0.")
    left = integers_of(model, "trees_left", (n,), 0, n - 1)
    right = integers_of(model, "trees_right", (n,), 0, n - 1)
    stop = np.repeat(first[1:], np.diff(first))
    is_leaf = (left == node_number) & (right == node_number)
    goes_on = (left > node_number) & (right > node_number) & (left < stop) & (right < stop)
    if not (is_leaf | goes_on).all():
        raise WorkloadError(f"{where} have a cycle; children must follow their node, in its tree.")
    threshold = model.arrays.get("trees_threshold")
    is_whole = threshold is not None and threshold.shape == (n,) and threshold.dtype.kind == "f"
    if threshold is None or not is_whole or np.isnan(threshold).any():
        raise WorkloadError(f"{where} need the array 'trees_threshold', a number per node.")
    return BoostedTrees(
        first=first,
        feature=integers_of(model, "trees_feature", (n,), 0, N_FEATURES - 1),
        threshold=threshold.astype(np.float64),
        left=left,
        right=right,
        value=array_of(model, "trees_value", (n,), -MOST_LOGIT, MOST_LOGIT),
        baseline=number_of(model, "trees_baseline", -MOST_LOGIT, MOST_LOGIT),
    )


MOST_DAYS = 100_000
_FURTHER = ("mgpu", "requested_s")
_EXAMPLES = ("procs", "requested_s", "mem_bytes_per_proc")


@dataclass(frozen=True, eq=False)
class CloudModelParts:
    """Fitted parts that all cloud models share: flavours, examples, arrivals and lifetimes."""

    period_s: float
    bins: Bins
    flavours: tuple[Flavour, ...]
    examples: JobExamples
    arrivals: BatchArrivals
    lifetimes: Hazards
    jobs_per_arrival: float


def encode_parts(ground: CloudModelParts) -> tuple[dict[str, Json], dict[str, NDArray[Any]]]:
    """Return the parameters and arrays with which the shared model parts are stored."""
    law = ground.arrivals
    parameters = {
        "period_s": ground.period_s,
        "bin_ends_s": list(ground.bins.ends_s),
        "longest_s": ground.bins.longest_s,
        "flavours": [_flavour_entries(flavour) for flavour in ground.flavours],
        "arrivals": {
            "intercept": law.intercept,
            "dispersion": law.dispersion,
            "first_day": law.first_day,
            "back": law.back,
        },
        "jobs_per_arrival": ground.jobs_per_arrival,
    }
    arrays = {
        "arrivals_of_hour": law.of_hour,
        "arrivals_of_day": law.of_day,
        "arrivals_of_history": law.of_history,
        "examples_first": ground.examples.first,
        **{f"examples_{name}": getattr(ground.examples, name) for name in _EXAMPLES},
    }
    hazard_parameters, more = encode_hazards(ground.lifetimes)
    examples = ground.examples
    if examples.tasks is not None and examples.runtime_s is not None:
        of_tasks, arrays_of_tasks = pack_tasks(examples.tasks)
        hazard_parameters |= of_tasks
        more |= arrays_of_tasks | {"examples_runtime_s": examples.runtime_s}
    return parameters | hazard_parameters, arrays | more


def model_parts_of(model: Model) -> CloudModelParts:
    """Restore the shared parts of a model. Raises WorkloadError if one is missing or invalid."""
    flavours = _flavours(model)
    bins = Bins(tuple(_numbers(model, "bin_ends_s")), number_of(model, "longest_s", 1e-6))
    entries = model.parameters.get("arrivals")
    entry_names = ["back", "dispersion", "first_day", "intercept"]
    if not isinstance(entries, dict) or sorted(entries) != entry_names:
        raise WorkloadError(
            f"parameter 'arrivals' of '{model.generator}' must have exactly the entries "
            f"{', '.join(entry_names)}."
        )

    def of(name: str, lowest: float, highest: float) -> float:
        where = f"parameter '{name}' of 'arrivals' of '{model.generator}'"
        return checked_number(where, entries[name], lowest, highest)

    history = array_of(model, "arrivals_of_history", (None,), -50.0, 50.0)
    arrivals = BatchArrivals(
        intercept=of("intercept", -50.0, 50.0),
        of_hour=array_of(model, "arrivals_of_hour", (HOURS,), -50.0, 50.0),
        of_day=array_of(model, "arrivals_of_day", (DAYS,), -50.0, 50.0),
        of_history=history,
        dispersion=of("dispersion", 0.0, 1e3),
        first_day=int(of("first_day", 0, MOST_DAYS)),
        back=of("back", 1e-6, 1.0),
    )
    return CloudModelParts(
        period_s=number_of(model, "period_s", 1e-3, 86_400.0),
        bins=bins,
        flavours=flavours,
        examples=_examples(model, len(flavours)),
        arrivals=arrivals,
        lifetimes=hazards_of(model, bins.n, len(flavours)),
        jobs_per_arrival=number_of(model, "jobs_per_arrival", 1e-6, 1e6),
    )


def _flavours(model: Model) -> tuple[Flavour, ...]:
    entries = model.parameters.get("flavours")
    if not isinstance(entries, list) or not entries:
        raise WorkloadError(
            f"parameter 'flavours' of '{model.generator}' must be a list of tables."
        )
    return tuple(_flavour(model, entry) for entry in entries)


def _flavour_entries(flavour: Flavour) -> dict[str, Json]:
    further = {name: getattr(flavour, name) for name in _FURTHER}
    optional_fields = {name: value for name, value in further.items() if value >= 0}
    return {
        "name": flavour.name, "mcpu": flavour.mcpu, "mem_bytes": flavour.mem_bytes,
        **optional_fields,
    }  # fmt: skip


def _flavour(model: Model, entry: Json) -> Flavour:
    entries: Mapping[str, Json] = entry if isinstance(entry, dict) else {}
    where = f"of a flavour of '{model.generator}'"
    needed = {"mcpu", "mem_bytes", "name"}
    are_known = needed <= set(entries) <= {*needed, *_FURTHER}
    if not are_known or not isinstance(entries["name"], str):
        raise WorkloadError(
            f"the entries {where} must be name, mcpu, mem_bytes, and if known mgpu, requested_s."
        )
    return Flavour(
        entries["name"],
        int(checked_number(f"mcpu {where}", entries["mcpu"], 1, 2.0**53)),
        int(checked_number(f"mem_bytes {where}", entries["mem_bytes"], -1, 2.0**53)),
        *(
            int(checked_number(f"{name} {where}", entries.get(name, -1), -1, 2.0**53))
            for name in _FURTHER
        ),
    )


def _numbers(model: Model, name: str) -> list[float]:
    numbers = model.parameters.get(name)
    if not isinstance(numbers, list) or not numbers:
        raise WorkloadError(f"parameter '{name}' of '{model.generator}' must be a list of numbers.")
    where = f"an entry of parameter '{name}' of '{model.generator}'"
    return [checked_number(where, number, 0.0, 1e12) for number in numbers]


def _examples(model: Model, n_flavours: int) -> JobExamples:
    first = integers_of(model, "examples_first", (n_flavours + 1,), 0)
    if first[0] != 0 or (np.diff(first) < 1).any():
        raise WorkloadError(f"every flavour of '{model.generator}' needs an example.")
    n = int(first[-1])
    tasks, runtime_s = unpack_tasks(model), None
    if tasks is not None:
        runtime_s = array_of(model, "examples_runtime_s", (n,), 0.0, 2.0**53)
        inside = np.repeat(np.arange(n_flavours), np.diff(first))
        falls = (np.diff(runtime_s) < 0) & (np.diff(inside) == 0)
        if falls.any() or tasks.n_jobs != n:
            raise WorkloadError(
                f"the tasks of '{model.generator}' must be those of its examples, with rising run "
                "times within each flavour."
            )
    return JobExamples(
        first,
        integers_of(model, "examples_procs", (n,), 1, 2**53),
        array_of(model, "examples_requested_s", (n,), 0.0, 2.0**53),
        integers_of(model, "examples_mem_bytes_per_proc", (n,), -1, 2**53),
        runtime_s,
        tasks,
    )

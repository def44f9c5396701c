"""Workload models to share instead of a confidential log, changed to protect its users.

Idea: Bergsma et al., section 7. A model of `three_stage` is made from a log as follows:

- A request (processors, time, memory) of fewer than ``least_users`` users is rounded up, ever more
  coarsely (`RUNGS`), until so many have it; jobs that are too rare for any rung are left out. Jobs
  of unknown users are all of one user.
- A context of fewer users is removed, and the one above it replaces it. Days have no own tables.
- With a ``strength`` s above 0 every probability is drawn anew, as if its row had been counted in
  a sample of 1/s**2 (nine parts of a Dirichlet variable around the row, one of the row), and every
  factor of the arrivals is multiplied by exp(s z), z standard normal.
- Names and numbers of users, jobs or dates are removed: days of the history keep their weekday.

This is no differential privacy. Shares of a common request may come from one user mostly; with
strength 0 shares and rates are the real ones; and noise can be removed with the seed, or with two
models of one log. Bins of lifetimes are those of all logs.

k users: L. Sweeney, "k-anonymity: a model for protecting privacy", International Journal of
Uncertainty, Fuzziness and Knowledge-Based Systems 10(5), 2002 (generalisation and suppression).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.arrivals import DAYS, BatchArrivals
from sim.generators.cloud.batches import LIVES, batches_of, observed_of
from sim.generators.cloud.contexts import Contexts, encode_contexts
from sim.generators.cloud.flavours import FlavourTable, FlavourTokens, keys_of, tokens_of
from sim.generators.cloud.lifetimes import LifetimeTable, lifetime_keys, lifetime_probabilities
from sim.generators.cloud.model_parts import encode_parts, model_parts_of, next_flavour_of
from sim.generators.cloud.scores import score_flavours, score_lifetimes
from sim.generators.cloud.three_stage import KNOBS, THREE_STAGE_NAME, fit_batches
from sim.generators.generator import EPOCH_UNIX_S, Model, RandomStreams, checked_number
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import WorkloadError
from sim.model.workload import Workload
from sim.policies.policy import knob_values

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


USUAL_LEAST, USUAL_STRENGTH = 5, 0.1
MOST_STRENGTH = 1.0

HOURS_S = 3600.0 * np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 96, 168, 336, 720])
COARSE_S = 3600.0 * np.array([1, 8, 24, 168, 720])
RUNGS = ("as it stands", "powers of two, usual hours", "powers of four, few hours", "one of four")
"""Steps of rounding: processors and memory per processor to powers of two and the time to one
of 13, then to powers of four and one of 5, then the same without memory."""

REAL = 0.1  # share of the real probability in a drawn one, so that rare events stay possible


@dataclass(frozen=True)
class SharingLoss:
    """Changes that make a model shareable, and the resulting losses of accuracy.

    Attributes:
        rounded: share of the jobs whose request was rounded.
        left_out: share of the jobs whose request is too rare for any rung.
        contexts: share of the contexts of flavours and lifetimes that were removed.
        flavour_nll: additional loss of the next flavour, in nats per token of the log, compared
            with the model without noise and with all contexts.
        flavour_tv: mean total variation between the two for the next token.
        lifetime_nll: additional loss of a lifetime, in nats per job.
        lifetime_tv: mean total variation between the two for the bin of the next lifetime.
        rate: arrivals of the model over those without noise, in the long run.
    """

    rounded: float
    left_out: float
    contexts: float
    flavour_nll: float
    flavour_tv: float
    lifetime_nll: float
    lifetime_tv: float
    rate: float


@dataclass(frozen=True)
class ShareableModel:
    """A model fit to be shared instead of a confidential log, with its changes and losses."""

    model: Model
    loss: SharingLoss


def make_shareable(
    workload: Workload,
    seed: int | RandomStreams,
    *,
    least_users: int = USUAL_LEAST,
    strength: float = USUAL_STRENGTH,
    knobs: Mapping[str, float | str] | None = None,
) -> ShareableModel:
    """Fit a shareable model to a confidential log, deterministically for a seed.

    Args:
        workload: workload with known users.
        seed: seed of the noise, to be kept secret.
        least_users: least number of users of a request or context; 1 keeps all.
        strength: strength of the noise, 0 to 1; 0 is none.
        knobs: knobs of fitting `three_stage`.

    Raises:
        WorkloadError: no user is known, every request is too rare, or a value is not allowed.
        UnknownNameError: no such knob.
        ScenarioError: a knob out of range.
    """
    if type(least_users) is not int or least_users < 1:
        raise WorkloadError(f"least_users is {least_users!r}; allowed are whole numbers from 1.")
    strength = checked_number("strength", strength, 0.0, MOST_STRENGTH)
    streams = seed if isinstance(seed, RandomStreams) else RandomStreams(seed)
    knob_settings = knob_values(KNOBS, knobs or {}, f"fitting '{THREE_STAGE_NAME}'")
    rounded, level = generalise_requests(workload, least_users)
    trace, examples = batches_of(
        rounded, period_s=knob_settings["period_s"], most_flavours=int(knob_settings["flavours"])
    )
    fitted = fit_batches(
        THREE_STAGE_NAME, trace, examples, knob_settings | {"days_differ": 0.0}, of="a log"
    )
    observed = observed_of(rounded, most_flavours=int(knob_settings["flavours"]))
    user = rounded.user[observed.batches(knob_settings["period_s"], LIVES)[1]]
    ground = model_parts_of(fitted)
    plain = next_flavour_of(fitted, len(trace.flavours), ground.arrivals.n_days)
    if not isinstance(plain, FlavourTable) or not isinstance(ground.lifetimes, LifetimeTable):
        raise AssertionError("tables are fitted by default")
    tokens = tokens_of(trace)
    flavours = _fewer_flavours(plain, tokens, user, least_users)
    lifetimes = _fewer_lifetimes(ground.lifetimes, trace, user, least_users)
    n_contexts = plain.contexts.n_rows + ground.lifetimes.contexts.n_rows
    n_kept = flavours.contexts.n_rows + lifetimes.contexts.n_rows
    arrivals = ground.arrivals
    if strength > 0:
        flavours = replace(
            flavours, probability=_redrawn(flavours.probability, strength, streams.of("flavours"))
        )
        lives = _redrawn(
            lifetime_probabilities(lifetimes.hazard), strength, streams.of("lifetimes")
        )
        lifetimes = replace(lifetimes, hazard=_hazard(lives))
        arrivals = _other_arrivals(arrivals, strength, streams.of("arrivals"))
    arrivals = replace(arrivals, first_day=_nobodys_day(arrivals.first_day))
    parameters, arrays = encode_parts(
        replace(
            ground, arrivals=arrivals, lifetimes=lifetimes,
            jobs_per_arrival=float(f"{ground.jobs_per_arrival:.2g}"),
        )
    )  # fmt: skip
    arrays |= encode_contexts("flavours", flavours.contexts)
    arrays |= {
        "flavours_probability": flavours.probability,
        "flavours_by_day": np.empty((0, *flavours.probability.shape)),
    }
    source = (
        f"For sharing: no request or context of fewer than {least_users} users, noise of "
        f"strength {strength:g}."
    )
    model = Model(THREE_STAGE_NAME, {**fitted.parameters, **parameters}, arrays, source)
    loss = SharingLoss(
        rounded=float(((level > 0) & (level < len(RUNGS))).mean()),
        left_out=float((level == len(RUNGS)).mean()),
        contexts=1.0 - n_kept / n_contexts,
        flavour_nll=score_flavours(flavours, tokens).nll - score_flavours(plain, tokens).nll,
        flavour_tv=_flavour_variation(plain, flavours, tokens),
        lifetime_nll=score_lifetimes(lifetimes, trace).nll
        - score_lifetimes(ground.lifetimes, trace).nll,
        lifetime_tv=_lifetime_variation(ground.lifetimes, lifetimes, trace),
        rate=_rate(arrivals) / _rate(ground.arrivals),
    )
    return ShareableModel(model, loss)


def generalise_requests(workload: Workload, least_users: int) -> tuple[Workload, Ints]:
    """Round requests up until at least `least_users` users share each, or drop the jobs.

    Returns:
        the workload without jobs that are too rare; int64 [n_jobs] of the original one, an index
            of `RUNGS`, or their number for jobs that are left out.

    Raises:
        WorkloadError: all are too rare.
    """
    level = np.full(workload.n_jobs, len(RUNGS), dtype=np.int64)
    settled = np.zeros((workload.n_jobs, 3), dtype=np.int64)
    for rung in range(len(RUNGS)):
        left = level == len(RUNGS)
        rounded = np.where(left[:, None], _rounded(workload, rung), settled)
        users = users_by(_numbered(rounded), workload.user)
        fits = left & (users >= least_users)
        level[fits], settled[fits] = rung, rounded[fits]
    rows = np.flatnonzero(level < len(RUNGS))
    if len(rows) == 0:
        raise WorkloadError(
            f"no request of {workload.name} has {least_users} users, not even if rounded; ask "
            "for fewer users."
        )
    procs, requested_s, memory = settled[rows].T
    first_s, start = float(workload.submit_s[rows[0]]), workload.start_unix_s
    return (
        Workload.from_arrays(
            submit_s=workload.submit_s[rows] - first_s,
            runtime_s=np.minimum(workload.runtime_s[rows], requested_s),
            requested_s=requested_s.astype(np.float64),
            procs=procs,
            mem_bytes_per_proc=memory,
            user=workload.user[rows],
            name=workload.name,
            max_procs=workload.max_procs,
            start_unix_s=None if start is None else start + first_s,
            time_zone=workload.time_zone,
        ),
        level,
    )


def users_by(group: Ints, user: Ints) -> Ints:
    """Return the number of distinct users in each row's group: int64 [n].

    Args:
        group: int64 [n], from 0; rows of -1 have no group and no users.
        user: int64 [n]; all unknown users (-1) are one.
    """
    pairs = np.unique(np.column_stack([group, user]), axis=0)
    pairs = pairs[pairs[:, 0] >= 0]
    counts = np.bincount(pairs[:, 0], minlength=int(group.max(initial=0)) + 1)
    return np.where(group >= 0, counts[np.maximum(group, 0)], 0).astype(np.int64)


def _rounded(workload: Workload, rung: int) -> Ints:
    """Return the requests of jobs on a rung: int64 [n_jobs, 3], processors, seconds, memory."""
    procs = workload.procs.astype(np.float64)
    requested_s = np.ceil(workload.requested_s)
    memory = workload.mem_bytes_per_proc.astype(np.float64)
    if rung > 0:
        power, hours = (1, HOURS_S) if rung == 1 else (2, COARSE_S)
        procs = _up_to_power(procs, power)
        place = np.searchsorted(hours, requested_s, side="left")
        longer = np.ceil(requested_s / hours[-1]) * hours[-1]
        requested_s = np.where(place < len(hours), np.append(hours, 0.0)[place], longer)
        memory = np.where(memory > 0, _up_to_power(np.maximum(memory, 1), power), memory)
    if rung == len(RUNGS) - 1:
        memory = np.full_like(memory, -1.0)
    return np.column_stack([procs, requested_s, memory]).astype(np.int64)


def _up_to_power(values: Floats, step: int) -> Floats:
    powers: Floats = np.exp2(step * np.ceil(np.log2(values) / step))
    return powers


def _numbered(rows: Ints) -> Ints:
    numbers: Ints = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return numbers


def _fewer_flavours(
    table: FlavourTable, tokens: FlavourTokens, user: Ints, least_users: int
) -> FlavourTable:
    level_keys = keys_of(tokens.before, tokens.run, tokens.earlier, tokens.end)
    contexts, rows = drop_rare_contexts(table.contexts, level_keys, user[tokens.job], least_users)
    none = np.empty((0, len(rows), table.probability.shape[1]))
    return FlavourTable(contexts, table.probability[rows], none, table.n_days)


def _fewer_lifetimes(
    table: LifetimeTable, trace: CloudTrace, user: Ints, least_users: int
) -> LifetimeTable:
    level_keys = lifetime_keys(trace, table.long_bin)
    contexts, rows = drop_rare_contexts(table.contexts, level_keys, user, least_users)
    return replace(table, contexts=contexts, hazard=table.hazard[rows])


def drop_rare_contexts(
    contexts: Contexts, level_keys: Sequence[Ints], user: Ints, least_users: int
) -> tuple[Contexts, Ints]:
    """Remove the contexts that occur with fewer than `least_users` different users.

    Args:
        contexts: contexts of a table.
        level_keys: key of every data row, for each level except 0.
        user: int64 [n], user of every data row.
        least_users: least number of users of a context, from level 1 on.

    Returns:
        the remaining contexts, and their rows in the table, int64 [n_left].
    """
    keys, parents, rows = [contexts.keys[0]], [np.zeros(1, dtype=np.int64)], [np.zeros(1, np.int64)]
    place = np.full(contexts.n_rows, -1, dtype=np.int64)
    place[0], n = 0, 1
    for level in range(1, len(contexts.keys)):
        stored_keys, first = contexts.keys[level], contexts.first_row(level)
        at = np.minimum(np.searchsorted(stored_keys, level_keys[level - 1]), len(stored_keys) - 1)
        group = np.where(stored_keys[at] == level_keys[level - 1], at, -1)
        users = np.zeros(len(stored_keys), dtype=np.int64)
        users[group[group >= 0]] = users_by(group, user)[group >= 0]
        frequent = np.flatnonzero(users >= least_users)
        if len(frequent) == 0:
            break
        place[first + frequent] = n + np.arange(len(frequent))
        keys.append(stored_keys[frequent])
        parents.append(place[contexts.parent[first + frequent]])
        rows.append(first + frequent)
        n += len(frequent)
    return Contexts(tuple(keys), np.concatenate(parents)), np.concatenate(rows)


def _redrawn(share: Floats, strength: float, rng: np.random.Generator) -> Floats:
    gammas = rng.standard_gamma(share / strength**2) + np.finfo(np.float64).tiny
    mixed = REAL * share + (1.0 - REAL) * gammas / gammas.sum(axis=1, keepdims=True)
    shares: Floats = mixed / mixed.sum(axis=1, keepdims=True)
    return shares


def _hazard(share: Floats) -> Floats:
    reached = np.cumsum(share[:, ::-1], axis=1)[:, ::-1]
    hazard: Floats = np.clip(share / reached, 1e-7, 1 - 1e-7)
    return hazard


def _other_arrivals(law: BatchArrivals, strength: float, rng: np.random.Generator) -> BatchArrivals:
    levels = law.history() + strength * rng.normal(size=law.n_days)
    return replace(
        law,
        intercept=law.intercept + strength * float(rng.normal()),
        of_hour=law.of_hour + strength * rng.normal(size=len(law.of_hour)),
        of_day=law.of_day + strength * rng.normal(size=len(law.of_day)),
        of_history=np.diff(levels, prepend=0.0),
    )


def _nobodys_day(day: int) -> int:
    """Return a day of the same weekday, in the first week of `EPOCH_UNIX_S` or the one before."""
    epoch = int(EPOCH_UNIX_S // 86_400)
    return epoch - epoch % DAYS + day % DAYS


def _rate(law: BatchArrivals) -> float:
    usual = np.exp(law.of_hour).mean() * np.exp(law.of_day).mean()
    return float(np.exp(law.intercept) * usual * np.exp(law.history()).mean())


def _flavour_variation(original: FlavourTable, other: FlavourTable, tokens: FlavourTokens) -> float:
    first, second = (
        table.rows(tokens.before, tokens.run, tokens.earlier) for table in (original, other)
    )
    return _variation(original.probability, other.probability, first, second)


def _lifetime_variation(original: LifetimeTable, other: LifetimeTable, trace: CloudTrace) -> float:
    level_keys = lifetime_keys(trace, original.long_bin)
    first, second = (table.contexts.rows(level_keys) for table in (original, other))
    return _variation(
        lifetime_probabilities(original.hazard), lifetime_probabilities(other.hazard), first, second
    )


def _variation(original: Floats, other: Floats, first: Ints, second: Ints) -> float:
    pairs, counts = np.unique(np.column_stack([first, second]), axis=0, return_counts=True)
    apart = np.abs(original[pairs[:, 0]] - other[pairs[:, 1]]).sum(axis=1) / 2.0
    return float((apart * counts).sum() / counts.sum())

"""F4: the alarm, and what its advice is worth at the same number of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.forecast_features import features
from assistant.core.forecast import WarningCheck, alarm_states
from benchmarks.episodes import Method, OurChooser
from benchmarks.forecasting import scores
from benchmarks.forecasting.goal import Held, fit_of
from benchmarks.forecasting.rows import (
    BUDGETS,
    END,
    TRUE_GOALS,
    Episode,
    family_of,
    fit_weights,
    weights_of,
)
from benchmarks.harness import Record, table

Floats = NDArray[np.float64]

FIRST_CHECK, EVERY = 12, 4
THRESHOLDS = tuple(round(0.5 + 0.025 * i, 3) for i in range(19))
FALSE_ALARMS = 0.14  # Largest share on the families that a threshold is chosen on


@dataclass(frozen=True, slots=True)
class Watched:
    """One goal and budget of an episode with the checks before its end.

    Args:
        space, kind, family, driver, seed, goal, budget: which.
        checks: every 4 runs, until the goal is reached or the budget is used up.
        missed: whether the goal was missed.
    """

    space: str
    kind: str
    family: str
    driver: str
    seed: int
    goal: str
    budget: int
    checks: tuple[WarningCheck, ...]
    missed: bool

    def on_at(self, threshold: float) -> int | None:
        """Return the runs used when the alarm first goes on; None if it never does."""
        states = alarm_states(self.checks, threshold)
        return next((c.used for c, on in zip(self.checks, states, strict=True) if on), None)

    def stays_from(self, threshold: float) -> int | None:
        """Return the runs used since when the alarm is on at the last check that may warn."""
        last = [i for i, check in enumerate(self.checks) if check.may_warn]
        if not last:
            return None
        states = alarm_states(self.checks, threshold)
        i = last[-1]
        if not states[i]:
            return None
        while i > 0 and states[i - 1]:
            i -= 1
        return self.checks[i].used


def watch(episode: Episode, held: Held, held_end: Held) -> list[Watched]:
    """Return every goal and budget of one episode, as the product would have watched it."""
    fits = {name: fit_of(held, episode.problem) for name in episode.goals()}
    fits[END] = fit_of(held_end, episode.problem)
    goals = episode.goals() | {END: episode.problem.goal(0.05)}
    at = {name: episode.reached(goal) for name, goal in goals.items()}
    hardness: dict[tuple[str, int], float] = {}
    n_runs = len(episode.proposals)
    for used in range(FIRST_CHECK, min(n_runs, max(BUDGETS)), EVERY):
        evidence = episode.evidence(range(used))
        if evidence.silence:
            continue
        for name, goal in goals.items():
            if name == END or at[name] > used:
                terms, offsets = fits[name]
                told = features(evidence, evidence.losses[0] if name == END else goal)
                mean = float(np.mean(list(offsets.values())))
                hardness[name, used] = terms.at(told) + offsets.get(episode.driver, mean)
    found = []
    for name in goals:
        slope = fits[name][0].of["left"]
        for budget in BUDGETS:
            if not episode.knows(budget) or (name != END and at[name] <= FIRST_CHECK):
                continue
            checks = []
            for used in range(FIRST_CHECK, budget, EVERY):
                if used >= n_runs or (name != END and at[name] <= used):
                    break
                left = float(budget - used)
                hard = hardness.get((name, used))
                logit = None if hard is None else hard + slope * math.log(left)
                miss = None if logit is None else 1.0 / (1.0 + math.exp(-logit))
                checks.append(WarningCheck(used, left, miss))
            if any(check.may_warn for check in checks):
                found.append(
                    Watched(
                        episode.problem.name, episode.problem.kind, family_of(episode.problem.name),
                        episode.driver, episode.seed, name, budget, tuple(checks),
                        at[name] > budget,
                    )
                )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class Alarms:
    """Watched goals as arrays: with each of `THRESHOLDS`, was a miss detected, a hit warned of?

    Args:
        fired: bool [n, thresholds]: the alarm stays on until the last check (of a miss), or was
            ever on (of a goal that was reached).
        missed: bool [n].
        space, kind, family: of each, str [n].
    """

    fired: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    space: NDArray[np.str_]
    kind: NDArray[np.str_]
    family: NDArray[np.str_]

    @classmethod
    def of(cls, watched: Sequence[Watched]) -> Alarms:
        """Return the alarms of watched goals."""
        fired = [
            [(one.stays_from(x) if one.missed else one.on_at(x)) is not None for x in THRESHOLDS]
            for one in watched
        ]
        return cls(
            np.array(fired).reshape(len(watched), len(THRESHOLDS)),
            np.array([one.missed for one in watched], dtype=np.bool_),
            np.array([one.space for one in watched]),
            np.array([one.kind for one in watched]),
            np.array([one.family for one in watched]),
        )

    def threshold(self, mask: NDArray[np.bool_]) -> float:
        """Return the least threshold with at most `FALSE_ALARMS` among the masked goals."""
        hits = mask & ~self.missed
        if not hits.any():
            return THRESHOLDS[-1]
        weights = fit_weights(self.space[hits], self.kind[hits])
        false = np.average(self.fired[hits], axis=0, weights=weights)
        return next(
            (x for x, f in zip(THRESHOLDS, false, strict=True) if f <= FALSE_ALARMS), THRESHOLDS[-1]
        )


def threshold_of(watched: Sequence[Watched]) -> float:
    """Return the least threshold with at most `FALSE_ALARMS` on all but fresh spaces."""
    alarms = Alarms.of(watched)
    return alarms.threshold(alarms.kind != "fresh")


def nested(watched: Sequence[Watched]) -> dict[tuple[str, str], float]:
    """Return the threshold of each driver and family, chosen on the driver's other families."""
    found = {}
    for driver in sorted({one.driver for one in watched}):
        alarms = Alarms.of([one for one in watched if one.driver == driver])
        fresh = alarms.kind == "fresh"
        for family in np.unique(alarms.family):
            found[driver, str(family)] = alarms.threshold((alarms.family != family) & ~fresh)
    return found


def show(
    watched: Sequence[Watched], drivers: Sequence[str], record: Record, part: str
) -> dict[tuple[str, str], float]:
    """Print the table of the alarm; return the nested thresholds."""
    chosen = nested(watched)
    lines = []
    cuts = [(driver, kind) for driver in drivers for kind in ("all but fresh", "fresh")]
    for driver, kind in cuts:
        own = [
            one for one in watched
            if one.driver == driver and (one.kind == "fresh") == (kind == "fresh")
        ]  # fmt: skip
        if not own:
            continue
        hits, false, leads, right = [], [], [], []
        for one in own:
            threshold = chosen[driver, one.family]
            if one.missed:
                since = one.stays_from(threshold)
                hits.append((one.space, float(since is not None)))
                if since is not None:
                    leads.append(1.0 - since / one.budget)
            else:
                false.append((one.space, float(one.on_at(threshold) is not None)))
            if one.on_at(threshold) is not None:
                right.append(float(one.missed))
        cells = [f"{driver}, {kind}", f"{len(own):,}"]
        for label, told in (("detects", hits), ("false alarms", false)):
            if not told:
                cells.append("-")
                continue
            names = np.array([name for name, _ in told])
            values = np.array([value for _, value in told])
            value = float(np.average(values, weights=weights_of(names)))
            low, high = scores.interval(
                lambda i, w, v=values: float(np.average(v[i], weights=w)),
                names,  # type: ignore[misc]
            )
            record.figure(f"{part}, {driver}, {kind}: {label}", round(value, 4))
            cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
        lead = float(np.median(leads)) if leads else float("nan")
        record.figure(f"{part}, {driver}, {kind}: median lead, share of the budget", round(lead, 3))
        cells += [f"{np.mean(right):.2f}" if right else "-", f"{lead:.2f}"]
        cells.append(f"{threshold_of([one for one in watched if one.driver == driver]):.3f}")
        lines.append(cells)
    header = ["watched", "detects", "false alarms", "right", "median lead", "threshold"]
    table([f"{part}: method", *header], lines)
    return chosen


def advised(driver: str, default: str) -> dict[str, Method]:
    """Return what the advice may be: the default strategy; for itself another exploitation."""
    if driver.partition(":")[0] != default:
        return {f"{default} goes on": Method.parse(default)}
    return {"exploitation 0.7": Method.parse(f"{default}:exploitation=0.7")}


def go_on(episode: Episode, used: int, method: Method, budget: int) -> str:
    """Return the proposals of an episode that goes on by another method after some runs."""
    problem = episode.problem
    chooser = OurChooser(method, problem, seed=[episode.seed, used])
    proposals = list(episode.proposals[:used])
    for index in proposals:
        value = float(problem.objective[index])
        chooser.tell(index, None if math.isnan(value) else value)
    best = problem.valid[0]
    while len(proposals) < budget:
        asked = chooser.ask()
        if asked is None:
            break
        value = float(problem.objective[asked])
        chooser.tell(asked, None if math.isnan(value) else value)
        proposals.append(asked)
        if value <= best:
            break
    return " ".join(map(str, proposals))


def show_value(
    watched: Sequence[Watched],
    chosen: Mapping[tuple[str, str], float],
    episodes: Mapping[tuple[str, str, int], Episode],
    drivers: Sequence[str],
    default: str,
    record: Record,
) -> None:
    """Follow the advice where the alarm went on, and print what it was worth."""
    lines = []
    for driver in drivers:
        for arm, method in advised(driver, default).items():
            pairs = []
            for one in watched:
                used = one.on_at(chosen[one.driver, one.family]) if one.driver == driver else None
                if used is None:
                    continue
                episode = episodes[one.space, driver, one.seed]
                step = f"{one.space}, {driver}, seed {one.seed}, after {used}: {arm}"
                told = record.step(
                    step,
                    lambda e=episode, u=used, m=method: {  # type: ignore[misc]
                        "proposals": go_on(e, u, m, max(BUDGETS))
                    },
                )
                proposals = tuple(int(i) for i in told["proposals"].split())
                other = Episode(episode.problem, driver, one.seed, proposals)
                hit = other.reached(episode.goals()[one.goal]) <= one.budget
                pairs.append((one.space, one.goal, float(hit), float(not one.missed)))
            if not pairs:
                continue
            kinds = {"all goals": None, "true goals": True, "users' goals": False}
            for kind, wanted in kinds.items():
                told_pairs = [p for p in pairs if wanted is None or (p[1] in TRUE_GOALS) == wanted]
                lines.append(_value_line(f"{driver}: {arm}", kind, told_pairs, record))
    header = ["goals", "alarms", "reached, accepted", "reached, ignored", "difference, points"]
    table(["F4: advice", *header], lines)


def _value_line(
    name: str, kind: str, pairs: Sequence[tuple[str, str, float, float]], record: Record
) -> list[str]:
    space = np.array([pair[0] for pair in pairs])
    accepted = np.array([pair[2] for pair in pairs])
    ignored = np.array([pair[3] for pair in pairs])
    weights = weights_of(space)
    gain = accepted - ignored
    value = float(np.average(gain, weights=weights))
    low, high = scores.interval(lambda i, w: float(np.average(gain[i], weights=w)), space)
    record.figure(f"F4, {name}, {kind}: points", round(100 * value, 2))
    record.figure(f"F4, {name}, {kind}: points, low", round(100 * low, 2))
    record.figure(f"F4, {name}, {kind}: points, high", round(100 * high, 2))
    return [
        name, kind, f"{len(pairs):,}", f"{np.average(accepted, weights=weights):.0%}",
        f"{np.average(ignored, weights=weights):.0%}",
        f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]",
    ]  # fmt: skip

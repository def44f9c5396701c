"""F4: the alarm, and what its advice is worth at the same number of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.calibration import model_inputs
from assistant.core.forecast import WarningCheck, alarm_states
from benchmarks.episodes import Method, OurChooser
from benchmarks.forecasting import scores
from benchmarks.forecasting.goal import Held
from benchmarks.forecasting.rows import BUDGETS, TRUE_GOALS, Episode, weights_of
from benchmarks.harness import Record, table

Floats = NDArray[np.float64]

FIRST_CHECK, EVERY = 12, 4
THRESHOLDS = tuple(round(0.5 + 0.025 * i, 3) for i in range(19))
FALSE_ALARMS = 0.15


@dataclass(frozen=True, slots=True)
class Watched:
    """One goal and budget of an episode with the checks before its end.

    Args:
        space, driver, seed, goal, budget: which.
        checks: every 4 runs, until the goal is reached or the budget is used up.
        missed: whether the goal was missed.
    """

    space: str
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


def watch(episode: Episode, held: Held) -> list[Watched]:
    """Return every goal and budget of one episode, as the product would have watched it."""
    terms, offsets = held.fits[episode.problem.name]
    offset = offsets.get(episode.driver, float(np.mean(list(offsets.values()))))
    goals = episode.goals()
    at = {name: episode.reached(goal) for name, goal in goals.items()}
    hardness: dict[tuple[str, int], float] = {}
    n_runs = len(episode.proposals)
    for used in range(FIRST_CHECK, min(n_runs, max(BUDGETS)), EVERY):
        evidence = episode.evidence(range(used))
        if evidence.silence or evidence.reach is None:
            continue
        for name, goal in goals.items():
            if at[name] > used:
                hardness[name, used] = terms.at(model_inputs(evidence, goal)) + offset
    found = []
    for name in goals:
        for budget in BUDGETS:
            if not episode.knows(budget) or at[name] <= FIRST_CHECK:
                continue
            checks = []
            for used in range(FIRST_CHECK, budget, EVERY):
                if at[name] <= used or used >= n_runs:
                    break
                left = float(budget - used)
                hard = hardness.get((name, used))
                logit = None if hard is None else hard + terms.of["left"] * math.log(left)
                miss = None if logit is None else 1.0 / (1.0 + math.exp(-logit))
                checks.append(WarningCheck(used, left, miss))
            if any(check.may_warn for check in checks):
                found.append(
                    Watched(
                        episode.problem.name, episode.driver, episode.seed, name, budget,
                        tuple(checks), at[name] > budget,
                    )
                )  # fmt: skip
    return found


def rates(watched: Sequence[Watched], threshold: float) -> tuple[float, float]:
    """Return how many misses are detected, and how many hits had an alarm; by space."""
    told: dict[bool, list[tuple[str, float]]] = {True: [], False: []}
    for one in watched:
        on = one.stays_from(threshold) if one.missed else one.on_at(threshold)
        told[one.missed].append((one.space, float(on is not None)))
    found = []
    for missed in (True, False):
        names = np.array([name for name, _ in told[missed]])
        values = np.array([value for _, value in told[missed]])
        found.append(float(np.average(values, weights=weights_of(names))) if len(names) else 0.0)
    return found[0], found[1]


def threshold_of(watched: Sequence[Watched]) -> float:
    """Return the least threshold with at most 15 % false alarms."""
    for threshold in THRESHOLDS:
        if rates(watched, threshold)[1] <= FALSE_ALARMS:
            return threshold
    return THRESHOLDS[-1]


def nested(watched: Sequence[Watched]) -> dict[tuple[str, str], float]:
    """Return the threshold of each driver and space, chosen on the driver's other spaces."""
    found = {}
    for driver in sorted({one.driver for one in watched}):
        own = [one for one in watched if one.driver == driver]
        for space in sorted({one.space for one in own}):
            rest = [one for one in own if one.space != space]
            found[driver, space] = threshold_of(rest or own)
    return found


def show(
    watched: Sequence[Watched], drivers: Sequence[str], record: Record
) -> dict[tuple[str, str], float]:
    """Print the table of the alarm; return the nested thresholds."""
    chosen = nested(watched)
    lines = []
    for driver in drivers:
        own = [one for one in watched if one.driver == driver]
        if not own:
            continue
        hits, false, leads, right = [], [], [], []
        for one in own:
            threshold = chosen[driver, one.space]
            if one.missed:
                since = one.stays_from(threshold)
                hits.append((one.space, float(since is not None)))
                if since is not None:
                    leads.append(1.0 - since / one.budget)
            else:
                false.append((one.space, float(one.on_at(threshold) is not None)))
            if one.on_at(threshold) is not None:
                right.append(float(one.missed))
        cells = [driver, f"{len(own):,}"]
        for label, told in (("detects", hits), ("false alarms", false)):
            names = np.array([name for name, _ in told])
            values = np.array([value for _, value in told])
            value = float(np.average(values, weights=weights_of(names)))
            low, high = scores.interval(
                lambda i, w, v=values: float(np.average(v[i], weights=w)),
                names,  # type: ignore[misc]
            )
            record.figure(f"F4, {driver}: {label}", round(value, 4))
            cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
        lead = float(np.median(leads)) if leads else float("nan")
        record.figure(f"F4, {driver}: median lead, share of the budget", round(lead, 3))
        cells += [f"{np.mean(right):.2f}" if right else "-", f"{lead:.2f}"]
        cells.append(f"{threshold_of(own):.3f}")
        lines.append(cells)
    header = ["goals watched", "detects", "false alarms", "right", "median lead", "threshold"]
    table(["F4: method", *header], lines)
    return chosen


def advised(driver: str, default: str) -> dict[str, Method]:
    """Return what the advice may be: the default strategy; for itself another exploitation."""
    if driver.partition(":")[0] != default:
        return {f"{default} goes on": Method.parse(default)}
    return {"exploitation 0.7": Method.parse(f"{default}:exploitation=0.7")}


def go_on(episode: Episode, used: int, method: Method, budget: int) -> str:
    """Return the proposals of an episode that goes on by another method after some runs."""
    problem = episode.problem
    chooser = OurChooser(method, problem.space, seed=[episode.seed, used])
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
                used = one.on_at(chosen[one.driver, one.space]) if one.driver == driver else None
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

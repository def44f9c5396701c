"""What matters, against the truth: an additive program whose ranges are known, swept with noise.

The program minimises loss = 0.302 + one effect per level + Gaussian noise (sd 0.03, seeded by the
run). The true ranges of the main effects are those of `RANGES`. Each sweep is what ``copperline
sweep`` does: the default strategy, 40 runs, the last of them to confirm the winner. The spaces have
few, some or many levels. Two questions are answered per sweep: does the headline's order agree for
all pairs whose true ranges differ by more than 0.05, and does each 95 % interval hold the true
range of the levels that it compares?
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from agents import Follower
from assistant import Measure, Objective, Session, SingleMeasure, Sla, open_session
from assistant.analysis.effects import effects_report
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.effects import ranking_of
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from strategies import Level, Parameter, ParameterSpace

RANGES = {"lr": 0.45, "dropout": 0.30, "layers": 0.18, "opt": 0.15, "batch": 0.024}
"""True range of each parameter's main effect on the loss."""

LEVELS = {"few": (3, 3, 3, 2, 3), "some": (5, 5, 5, 3, 4), "many": (9, 8, 8, 4, 6)}
"""Levels of each parameter, in the order of `RANGES`, by the name of the space."""

BASE, NOISE_SD, APART = 0.302, 0.03, 0.05


def level_effects(name: str, n_levels: int) -> tuple[float, ...]:
    """Return the true effect of each level: a parabola from 0 to the parameter's range."""
    best = round(0.6 * (n_levels - 1))
    squares = [float((i - best) ** 2) for i in range(n_levels)]
    return tuple(RANGES[name] * square / max(squares) for square in squares)


@dataclass(frozen=True)
class AdditiveProgram:
    """Noisy program without interactions, over a space of `LEVELS`."""

    levels: str = "some"
    name = "additive"
    facts = ()
    baseline = None
    deterministic = False
    objective = Objective(SingleMeasure("loss"), "minimise")

    @property
    def space(self) -> ParameterSpace:
        """Space of the parameters in `RANGES`, with level ids as ordered levels."""
        counts = zip(RANGES, LEVELS[self.levels], strict=True)
        return ParameterSpace(tuple(Parameter(name, tuple(range(n))) for name, n in counts))

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Return the loss of a configuration, with the noise of this run."""
        counts = zip(RANGES, LEVELS[self.levels], strict=True)
        effects = (level_effects(name, n)[int(values[name])] for name, n in counts)
        noise = NOISE_SD * float(np.random.default_rng(seed).standard_normal())
        return {"loss": BASE + sum(effects) + noise}


def swept(levels: str, seed: int, runs: int = 40) -> Session:
    """Return the session of one finished sweep."""
    application = AdditiveProgram(levels)
    session = open_session(
        application,
        store=MemoryStore(),
        sla=Sla(max_runs=runs),
        seed=seed,
        experiment_id="additive",
    )
    session.finish(Follower().steer(session, SerialExecutor(application)))
    return session


def judged(session: Session, levels: str) -> dict[str, Any]:
    """Compare the ranking of a sweep with the truth.

    Returns:
        ``sentence``; ``ordered``: no pair of true ranges `APART` stands the other way round;
        ``parameters``: by name the range, its interval, the true range of the levels compared
        (``truth``), and whether the interval holds it.
    """
    report = effects_report(session.experiment)
    counts = dict(zip(RANGES, LEVELS[levels], strict=True))
    names = [entry.parameter for entry in report.ranking]
    ordered = not any(
        RANGES[later] > RANGES[earlier] + APART
        for i, earlier in enumerate(names)
        for later in names[i + 1 :]
    )
    parameters = {}
    for effect in report.main:
        true_effects = level_effects(effect.parameter, counts[effect.parameter])
        compared = [true_effects[int(change.levels[0])] for change in effect.comparable]
        entry, truth = effect.range, max(compared, default=0.0) - min(compared, default=0.0)
        known = entry.low is not None and entry.high is not None
        parameters[effect.parameter] = {
            "range": entry.value,
            "low": entry.low,
            "high": entry.high,
            "truth": truth,
            "holds": known and (entry.low or 0.0) <= truth <= (entry.high or 0.0),
        }
    return {
        "sentence": ranking_of(report).sentence, "ordered": ordered, "parameters": parameters
    }  # fmt: skip


def main() -> None:
    """Print how often order and intervals hold, by space and parameter."""
    found = parser("Ranges of main effects against known ones.")
    found.add_argument("--seeds", type=int, default=20)
    found.add_argument("--runs", type=int, default=40)
    options = found.parse_args()
    seeds = list(range(2 if options.quick else options.seeds))
    record = Record("ranking", options, seeds)
    rows = []
    for levels in ("some",) if options.quick else tuple(LEVELS):
        results = []
        for seed in seeds:
            session = partial(swept, levels, seed, options.runs)
            name = f"{levels} {seed}"
            results.append(record.step(name, lambda run=session, at=levels: judged(run(), at)))
        rows += summarised(record, levels, results)
    record.write()
    table(["levels", "parameter", "true range", "mean range", "mean 95 % interval", "held"], rows)


def summarised(record: Record, levels: str, results: list[dict[str, Any]]) -> list[list[str]]:
    """Note the figures of one space, and return its rows of the table."""
    rows, every = [], []
    for name, size in RANGES.items():
        entries = [result["parameters"][name] for result in results]
        every += [entry["holds"] for entry in entries]
        record.figure(f"{levels}: {name} held", fmean(entry["holds"] for entry in entries))
        known = [entry for entry in entries if entry["low"] is not None]
        means = {key: fmean(e[key] for e in known) for key in ("range", "low", "high")}
        interval = f"{means['low']:.3f} to {means['high']:.3f}"
        held = f"{sum(e['holds'] for e in entries)} of {len(entries)}"
        rows.append([levels, name, f"{size}", f"{means['range']:.3f}", interval, held])
    n_ordered = sum(result["ordered"] for result in results)
    record.figure(f"{levels}: share in the true order", n_ordered / len(results))
    record.figure(f"{levels}: all held", fmean(every))
    order = f"true order in {n_ordered} of {len(results)}"
    return [*rows, [levels, "all", "", "", order, f"{sum(every)} of {len(every)}"]]


if __name__ == "__main__":
    guarded(main)

"""How good the forecast is, and what it is worth: asked before the end, answered by the end.

``python -m benchmarks.forecast --tables DIR --generated --scheduling DIR --methods grasp,...``
plays every method on every space (the episodes of `benchmarks.search`, kept by ``--resume``, taken
from another result by ``--from``) and asks the questions of `benchmarks.forecasting.rows`.

* F1, goal: P(missed). Fitted leaving out one family of spaces at a time; fresh spaces are in no
  fit. Beside it the base rate, plain and by ln R; the paper's rule in its readings,
  hard and soft; the regret bound; the line of the best so far.
* F2, effort: further runs until the goal, and the best value at the end; coverage of 80 %
  intervals, censored runs by their conditional share.
* F3, deadline: the goal by a moment in time, with 1 and 4 workers. Run times are the objective of
  the kt_* tables (they measure times), a column ``duration_s`` where there is one, else lognormal
  by configuration with a standard deviation of 0.6 (drawn by hash, the same for every method).
* F4, warning: the product's alarm, checked every 4 runs, with the threshold of each method chosen
  on other families for at most 14 % false alarms, to have at most 15 % on new spaces. Its
  advice is then followed, and not: the same episode goes on with the default strategy, or as it
  was, to the same number of runs.
* End: the same two questions without a goal: does the end of the budget leave more than 5 % of the
  way from the best possible value to the median on the table?
* ``--fit`` writes the coefficients that are shipped, from everything that was played.

Skill is 1 - Brier / Brier of a base rate; all spaces count the same; intervals are 95 % of a
bootstrap over spaces.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from assistant.analysis.calibration import write_calibration
from benchmarks.episodes import Method
from benchmarks.forecasting import deadline, effort, goal, shipping, warning
from benchmarks.forecasting.baselines import READINGS
from benchmarks.forecasting.rows import END, Episode, ask, family_of, gather
from benchmarks.harness import Record, guarded, parser
from benchmarks.search import (
    FREE,
    add_options,
    asked_for,
    episodes_elsewhere,
    measure,
    parse_seeds,
    step_name,
)
from benchmarks.spaces import Problem
from strategies import DEFAULT_STRATEGY

PARTS = ("goal", "effort", "deadline", "warning", "value")


def episodes_of(
    problems: Sequence[Problem], methods: Sequence[Method], seeds: Sequence[int], record: Record
) -> list[Episode]:
    """Return every episode that the record has of what was asked for."""
    steps = record.body["steps"]
    found = []
    for problem in problems:
        for method in methods:
            for seed in seeds:
                told = steps.get(step_name(problem, method, seed))
                if told is not None:
                    proposals = tuple(int(index) for index in told["proposals"].split())
                    found.append(Episode(problem, method.text, seed, proposals))
    return found


def in_parallel(work: Any, episodes: Sequence[Episode], jobs: int) -> list[Any]:
    """Return what a function makes of every episode, in order."""
    if jobs == 1:
        return [work(episode) for episode in episodes]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(work, episodes, chunksize=4))


def main() -> None:
    """Play, ask, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    add_options(options_parser, seeds="0-4")
    add = options_parser.add_argument
    add("--part", action="append", choices=PARTS, help="only these; all if not given")
    add("--of", help="methods of F3 and F4; all are fitted to")
    add("--fit", type=Path, metavar="FILE", help="write the coefficients that are shipped")
    options = options_parser.parse_args()
    if options.quick:
        options.budget, options.seeds, options.methods = 30, "0", "grasp,random"
        options.generated = True
    problems, methods = asked_for(options, options_parser)
    if len({family_of(problem.name) for problem in problems}) < 2:
        options_parser.error(
            "spaces of at least two families are needed, since each is forecast by the others: "
            "give more --tables, or --generated"
        )
    if options.fit and options.of:
        options_parser.error("--fit is for every method, so that --of cannot be given with it")
    os.environ["OMP_NUM_THREADS"] = "1"
    seeds = parse_seeds(options.seeds)
    record = Record("forecast", options, seeds, (*FREE, "part", "of", "fit"))
    record.body["budget"] = options.budget
    record.body["steps"] |= episodes_elsewhere(options)
    if not options.only_known:
        measure(problems, methods, seeds, options, record)
    episodes = episodes_of(problems, methods, seeds, record)
    tell(episodes, methods, options, record)


def tell(
    episodes: Sequence[Episode],
    methods: Sequence[Method],
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Print the tables of the parts that are asked for, and write the coefficients."""
    parts = options.part or PARTS
    names = [method.text for method in methods if shipping.EXPLOITATION not in method.text]
    rows, bests = gather(in_parallel(partial(ask, readings=READINGS), episodes, options.jobs))
    main_rows = shipping.plain(rows)
    held = goal.hold_out(main_rows, names)
    end_rows = shipping.at_end(rows)
    held_end = goal.hold_out(end_rows, names)
    if "goal" in parts:
        goal.show(main_rows, held, DEFAULT_STRATEGY, record, "F1")
        goal.show(end_rows, held_end, DEFAULT_STRATEGY, record, "End")
        record.write()
    wanted = options.of.split(",") if options.of else names
    plain = [episode for episode in episodes if episode.driver in wanted]
    if "effort" in parts:
        effort.show(main_rows, shipping.plain_bests(bests), held, names, record)
        record.write()
    if "deadline" in parts:
        known = [e for e in plain if e.problem.kind != "drawn"]
        asked = in_parallel(partial(deadline.ask, held=held), known, options.jobs)
        deadline.show([one for told in asked for one in told], wanted, record)
        record.write()
    if "warning" in parts or "value" in parts or options.fit:
        seen = in_parallel(
            partial(warning.watch, held=held, held_end=held_end), plain, options.jobs
        )
        watched = [one for told in seen for one in told]
        goals = [one for one in watched if one.goal != END]
        chosen = warning.show(goals, wanted, record, "F4")
        warning.show([one for one in watched if one.goal == END], wanted, record, "End")
        record.write()
        if options.fit:
            calibration = shipping.ship(rows, bests, watched, names)
            write_calibration(calibration, options.fit)
            sys.stderr.write(f"{options.fit}: {calibration.fitted}\n")
        if "value" in parts:
            known = {(e.problem.name, e.driver, e.seed): e for e in plain}
            warning.show_value(goals, chosen, known, wanted, DEFAULT_STRATEGY, record)
    record.write()


if __name__ == "__main__":
    guarded(main)

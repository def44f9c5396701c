"""Command ``copperline learn``: train a scheduler that places tasks on machines."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from assistant.cli.commands.workload import First, Log, load_log
from assistant.cli.console import EXIT_INTERRUPTED, OUT, Json, print_json, progress_spinner, say
from assistant.cli.job_table import check_writable, cluster_of
from assistant.core.errors import SettingsError
from assistant.presentation.charts.training import learning_curve
from assistant.presentation.report.html import check_picture, write_picture
from assistant.presentation.text.number_format import number, quantity
from assistant.simtools.application_views import training_curve
from sim.api import Scenario, UnknownNameError, known_names
from sim.placement import (
    FEATURES,
    REWARD_GIVERS,
    LearnedPlacement,
    LearningPlan,
    LearningProgress,
    reward_giver_named,
)
from sim.placement import learn as train

USUAL = LearningPlan()


def learn(
    log: Log,
    machines: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Machines (CSV or TOML) of the training.", show_default=False
        ),
    ],
    to: Annotated[
        Path, typer.Option(help="Write the trained scheduler here (.npz).", show_default=False)
    ],
    objective: Annotated[
        str,
        typer.Option(
            help="What is to be low: "
            + "; ".join(f"{giver.name} ({giver.summary})" for giver in REWARD_GIVERS)
            + "."
        ),
    ] = USUAL.objective,
    features: Annotated[
        str,
        typer.Option(
            help=f"What it sees: {', '.join(FEATURES)}, each with those before. pairs: machine and "
            "task; graph: the task's place in its job; jobs: progress of the job."
        ),
    ] = USUAL.features,
    iterations: Annotated[int, typer.Option(help="Number of steps of the gradient.")] = (
        USUAL.iterations
    ),
    jobs: Annotated[int, typer.Option(help="Jobs of an episode.")] = USUAL.jobs,
    parts: Annotated[
        int, typer.Option(help="Parts of the log in an iteration, drawn at random.")
    ] = USUAL.parts,
    episodes: Annotated[int, typer.Option(help="Episodes of each part, compared with each other.")]
    = USUAL.episodes,
    rate: Annotated[float, typer.Option(help="Size of the first steps; the last are a tenth.")] = (
        USUAL.rate
    ),
    seed: Annotated[int, typer.Option(help="Seed of all random choices of the training.")] = (
        USUAL.seed
    ),
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes, which does not change the result.  [default: one per core]",
            min=1, max=1024, show_default=False,
        ),
    ] = None,
    order: Annotated[
        str, typer.Option(help="Order that decides between equal scores.")
    ] = "fcfs",
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the training curve here (.svg, .png, .html).", show_default=False),
    ] = None,
    first: First = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Train a scheduler by policy gradient; after Ctrl-C the same command goes on."""
    if to.suffix != ".npz":
        raise SettingsError(f"--to '{to}' must end in .npz")
    check_writable(to)
    if picture is not None:
        check_picture(picture)
    if order not in (*known_names()["order"], *known_names()["task_order"]):
        raise UnknownNameError("order", order, known_names()["order"])
    plan = LearningPlan(
        objective, features, iterations=iterations, jobs=jobs, parts=parts, episodes=episodes,
        rate=rate, seed=seed,
    )  # fmt: skip
    workload = load_log(log, first, None)
    cluster = cluster_of(machines, workload)
    scenario = Scenario(
        workload, cluster, order=order, backfill="greedy", allocation="instances",
        too_wide="reject",
    )  # fmt: skip
    checkpoint = to.with_suffix(".checkpoint.npz")
    say(f"training on {workload.n_jobs:,} jobs, seed {seed}")
    if checkpoint.exists():
        say(f"going on from {checkpoint}; remove it to begin anew")
    done = [0]

    def kept(progress: LearningProgress) -> None:
        done[0] = progress.iteration
        describe(_progress_line(plan, progress))

    try:
        with progress_spinner(f"Training for {objective} …") as describe:
            scheduler = train(
                scenario, plan, workers=workers or os.cpu_count() or 1, checkpoint=checkpoint,
                progress=kept,
            )  # fmt: skip
    except KeyboardInterrupt:
        if not checkpoint.exists():
            raise
        so_far = f" after iteration {done[0]} of {iterations}" if done[0] else ""
        say(f"interrupted{so_far}; the same command goes on from {checkpoint}")
        return EXIT_INTERRUPTED
    scheduler.save(to)
    checkpoint.unlink(missing_ok=True)
    if picture is not None:
        drawn = learning_curve(training_curve(to.stem, scheduler.record))
        write_picture(drawn, picture, "Training curve")
    if as_json:
        print_json({"file": str(to), "digest": scheduler.digest, **asdict(scheduler.record)})
    else:
        _print_training(scheduler, to, log, machines)
    return 0


def _progress_line(plan: LearningPlan, progress: LearningProgress) -> str:
    check = progress.last_check
    return (
        f"iteration {progress.iteration} of {progress.iterations}, {plan.objective} on held-back "
        f"jobs {check.ratio:.3f} of first fit, about {progress.left_s / 60:.1f} min left"
    )


def _print_training(scheduler: LearnedPlacement, to: Path, log: Path, machines: Path) -> None:
    record = scheduler.record
    best = min(record.curve, key=lambda point: point.ratio)
    unit = reward_giver_named(record.objective).unit
    value = quantity(best.objective, unit) if unit else number(best.objective)
    OUT.print(f"{to}: a scheduler for {record.objective}, seed {record.seed}", soft_wrap=True)
    OUT.print(
        f"  best on held-back jobs after iteration {best.iteration}: {record.objective} {value}, "
        f"{best.ratio:.3f} of first fit",
        soft_wrap=True,
    )
    if record.best_rule_ratio is not None:
        OUT.print(
            f"  best of the heuristics there, in hindsight: {record.best_rule}, "
            f"{record.best_rule_ratio:.3f} of first fit",
            soft_wrap=True,
        )
    if record.bound_ratio is not None:
        OUT.print(f"  no schedule there goes below {record.bound_ratio:.3f} of first fit")
    OUT.print("  training curve, of first fit (lower is better):")
    for line in _curve_lines([(point.iteration, point.ratio) for point in record.curve]):
        OUT.print(f"    {line}", soft_wrap=True)
    OUT.print(
        f"  next: copperline simulate {log} --machines {machines} --placement {to}", soft_wrap=True
    )


MOST_LINES, WIDEST_BAR = 12, 40


def _curve_lines(points: list[tuple[int, float]]) -> list[str]:
    """Return a line with a bar for each of at most `MOST_LINES` points, the last one included."""
    step = -(-len(points) // MOST_LINES)
    some = points[::-1][::step][::-1]
    low, high = min(ratio for _, ratio in some), max(ratio for _, ratio in some)
    span = high - low or 1.0
    return [
        f"{iteration:>6} {ratio:.3f} {'#' * (1 + round((WIDEST_BAR - 1) * (ratio - low) / span))}"
        for iteration, ratio in some
    ]

"""Commands ``workload fit``, ``generate``, ``convert``, ``validate`` and ``share``."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

from assistant.cli.commands.window_validation import (
    HowMany,
    HowManyPackings,
    Knob,
    Lifetimes,
    Page,
    Test,
    Train,
    WhichGenerator,
    WindowValidation,
    validate_windows,
)
from assistant.cli.commands.workload import First, Log, load_log, model_dict, model_lines, rules_of
from assistant.cli.console import OUT, Json, print_json, progress_spinner
from assistant.cli.options import ReadingRule, pairs
from assistant.core.errors import SettingsError
from assistant.core.files import is_folder
from assistant.presentation.text.number_format import quantity
from assistant.simtools.workload_generation import (
    ComparisonRow,
    definitions,
    distance_rows,
    has_rules,
    knobs_of,
    model_of,
    omitted_parts,
    quantity_rows,
    settings_of,
    verdict,
    with_ending,
    with_parameters,
    write_and_compare,
)
from sim.api import ProfileWindow, Workload, load_workload, parse_duration, write_workload
from sim.formats import format_by_name, read_job_table
from sim.generators import FitWatch, generator_named, registered_generators, save_model
from sim.generators import compare_workloads as compare
from sim.generators import fit as fit_model
from sim.generators import generate as draw
from sim.generators.cloud import SharingLoss
from sim.generators.cloud import make_shareable as share_log

_GENERATOR_NAMES = ", ".join(generator.name for generator in registered_generators())
ToModel = Annotated[
    Path, typer.Option("--to", help="Write the model here (.json; arrays beside it, .npz).")
]
ToWorkload = Annotated[
    Path,
    typer.Option(
        "--to",
        help="Write the jobs here: .swf or .jsonl, also .gz; without an ending one is chosen.",
    ),
]
LeaveOut = Annotated[int, typer.Option(help="Leave out the first N jobs.", min=0)]
From = Annotated[
    str, typer.Option("--from", help="Use jobs from this time after the first on: 30d.")
]
Until = Annotated[
    str | None,
    typer.Option("--until", help="Use jobs up to this time after the first.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Seed; another seed gives another future.")]


def fit(
    generator: Annotated[
        str, typer.Argument(help=f"Kind of generator: {_GENERATOR_NAMES}.", show_default=False)
    ],
    log: Log,
    to: ToModel,
    knob: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the fit; see the documentation."),
    ] = None,
    leave_out: LeaveOut = 0,
    begin: From = "0s",
    end: Until = None,
    first: First = None,
    reading: ReadingRule = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep the state of a long fit (quality=lstm) in this file; from it an "
            "interrupted fit goes on.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fit a model to a log, for `copperline workload generate`."""
    check_model_file(to)
    knobs = knobs_of(knob or [])
    generator_named(generator)
    with progress_spinner(f"Reading {log.name} …"):
        workload = _window(leave_out, begin, end).of(load_log(log, first, reading))
    with progress_spinner(f"Fitting {generator} to {workload.n_jobs:,} jobs …") as describe:
        watch = FitWatch(describe, checkpoint)
        model = fit_model(generator, workload, knobs, watch=watch)
    save_model(model, to)
    if as_json:
        print_json({**model_dict(model), "file": str(to)})
        return 0
    OUT.print(f"{to}: a model of '{model.generator}'", soft_wrap=True)
    for line in model_lines(model):
        OUT.print(f"  {line}", soft_wrap=True)
    OUT.print(f"  next: copperline workload generate {to} --duration 7d --to FILE", soft_wrap=True)
    return 0


def generate(
    what: Annotated[
        str,
        typer.Argument(
            metavar="GENERATOR|MODEL",
            help=f"A generator ({_GENERATOR_NAMES}) with its published parameters, "
            "or a model (.json).",
            show_default=False,
        ),
    ],
    to: ToWorkload,
    duration: Annotated[
        str, typer.Option(help="Time in which jobs are submitted, from the first midnight on.")
    ] = "7d",
    seed: Seed = 1,
    scale: Annotated[
        float, typer.Option(help="Factor on the rate of arrivals: 2 gives twice the jobs.")
    ] = 1.0,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE",
            help="Another value of a parameter; batch.pa=0 and hours.3=1.5 change one entry.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Draw a workload from a model; equal model, seed, duration and scale give equal jobs."""
    if to.suffix:
        format_by_name(to)
    check_place(to)
    seconds = parse_duration(duration)
    model = with_parameters(model_of(what), settings_of(setting or [], "--set"))
    with progress_spinner(f"Drawing {duration} of '{model.generator}' …"):
        workload = draw(model, duration_s=seconds, seed=seed, scale=scale)
    to = with_ending(workload, to)
    with progress_spinner(f"Writing {workload.n_jobs:,} jobs …"):
        write_workload(workload, to)
    left_out = omitted_parts(workload, to)
    if as_json:
        print_json(
            {
                "file": str(to), "generator": model.generator, "model_digest": model.digest,
                "seed": seed, "duration_s": seconds, "scale": scale, **_size(workload),
                "not_written": list(left_out),
            }
        )  # fmt: skip
        return 0
    OUT.print(f"{to}: {_in_words(workload)}", soft_wrap=True)
    OUT.print(f"  drawn from '{model.generator}' with seed {seed}: {model.source}", soft_wrap=True)
    for sentence in left_out:
        OUT.print(f"  note: {sentence}", soft_wrap=True)
    return 0


def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="IN", help="A workload in any readable format.", show_default=False),
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="File to write: .swf, .swf.gz or .jsonl."),
    ],
    leave_out: LeaveOut = 0,
    begin: From = "0s",
    end: Until = None,
    first: First = None,
    reading: ReadingRule = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUANTITY=COLUMN",
            help="IN is a table with a header, such as of LSF: the column of submit, eligible, "
            "start, end, runtime, requested, procs, user, queue and others (repeatable).",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a workload, or a part of it, in another format, and list what is lost."""
    format_by_name(target)
    check_place(target)
    window = _window(leave_out, begin, end)
    with progress_spinner(f"Reading {source.name} …"):
        if column:
            columns = dict(pairs(column, "--column", "submit=SUBMIT_TIME"))
            table = read_job_table(source, columns, rules_of(reading))
            full = table if first is None else table.head(first)
        else:
            full = load_log(source, first, reading)
        workload = window.of(full)
    with progress_spinner(f"Writing {workload.n_jobs:,} jobs, and reading them again …"):
        losses = write_and_compare(workload, target)
    notes = [note.sentence for note in full.notes]
    if as_json:
        print_json({"file": str(target), **_size(workload), "lost": list(losses), "notes": notes})
        return 0
    OUT.print(f"{target}: {_in_words(workload)}", soft_wrap=True)
    for sentence in losses:
        OUT.print(f"  lost: {sentence}", soft_wrap=True)
    if not losses:
        OUT.print("  nothing is lost: the file reads back unchanged")
    for sentence in notes:
        OUT.print(f"  note from reading: {sentence}", soft_wrap=True)
    return 0


def validate(
    one: Annotated[
        Path | None,
        typer.Argument(metavar="LOG", help="The log to compare with.", show_default=False),
    ] = None,
    two: Annotated[
        Path | None,
        typer.Argument(metavar="OTHER", help="Generated or held-back jobs.", show_default=False),
    ] = None,
    procs: Annotated[
        int | None,
        typer.Option(help="Processors for both loads (default: the number in each log)."),
    ] = None,
    reading: ReadingRule = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the bootstrap over days, or of the drawn windows.", min=0)
    ] = 0,
    train: Train = None,
    test: Test = None,
    lifetimes: Lifetimes = None,
    generator: WhichGenerator = "all",
    windows: HowMany = 200,
    packings: HowManyPackings = 500,
    knob: Knob = None,
    html: Page = None,
    as_json: Json = False,
) -> int:
    """Compare a workload with a log: distances, quantiles, hours, load, with intervals.

    With --train and --test: how well generators fitted to one window predict the other.
    """
    if train is not None or test is not None:
        if train is None or test is None or one is not None:
            raise SettingsError("name either LOG and OTHER, or both --train and --test")
        request = WindowValidation(
            train, test, lifetimes, generator, windows, seed, html, packings, knobs_of(knob or [])
        )
        return validate_windows(request, rules_of(reading), as_json=as_json)
    if one is None or two is None:
        raise SettingsError("name LOG and OTHER to compare, or --train and --test to predict")
    if procs is not None and procs < 1:
        raise SettingsError(f"--procs is {procs}; allowed are whole numbers from 1")
    with progress_spinner(f"Reading {one.name} and {two.name} …"):
        measure, other = load_log(one, None, reading), _other(two, reading)
    with progress_spinner("Comparing …"):
        comparison = compare(measure, other, procs=procs, seed=seed)
    if as_json:
        print_json({**comparison.to_dict(), "definitions": dict(definitions())})
        return 0
    days = f"{comparison.n_days[0]:,} and {comparison.n_days[1]:,} days with jobs"
    OUT.print(
        f"{comparison.two} ({comparison.n_jobs[1]:,} jobs) against {comparison.one} "
        f"({comparison.n_jobs[0]:,} jobs); {days}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    for sentence in verdict(comparison):
        OUT.print(f"  {sentence}", soft_wrap=True)
    for note in comparison.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    _print_rows("distance", ("value", "interval", "usual"), distance_rows(comparison))
    _print_rows("quantity", ("one", "two", "value", "interval"), quantity_rows(comparison))
    for name, meaning in definitions():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    return 0


_HEADINGS = {
    "one": "log", "two": "other", "value": "value", "interval": "interval", "usual": "usual",
}  # fmt: skip


def _print_rows(kind: str, columns: tuple[str, ...], rows: tuple[ComparisonRow, ...]) -> None:
    names = [
        "other / log" if kind == "quantity" and c == "value" else _HEADINGS[c] for c in columns
    ]
    cells = [["", *names, ""]]
    cells += [
        [row.quantity, *(getattr(row, c) or "-" for c in columns), row.verdict] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        told_cells = [
            cell.ljust(width) if i in (0, len(line) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(told_cells)}".rstrip(), soft_wrap=True)


def _other(path: Path, reading: list[str] | None) -> Workload:
    """Return the second workload; the rules apply only if its format has them."""
    return load_log(path, None, reading) if has_rules(path) else load_workload(path)


def _window(leave_out: int, begin: str, end: str | None) -> ProfileWindow:
    return ProfileWindow(
        leave_out, parse_duration(begin), None if end is None else parse_duration(end)
    )


def _size(workload: Workload) -> dict[str, object]:
    return {
        "n_jobs": workload.n_jobs, "n_tasks": workload.tasks.n_tasks if workload.tasks else None,
        "span_s": workload.span_s, "digest": workload.digest,
    }  # fmt: skip


def _in_words(workload: Workload) -> str:
    tasks = f" of {workload.tasks.n_tasks:,} tasks" if workload.tasks else ""
    return f"{workload.n_jobs:,} jobs{tasks} over {quantity(workload.span_s, 's')}"


def check_model_file(path: Path) -> None:
    """Raise SettingsError for a path that no model can be written to."""
    if path.suffix != ".json":
        raise SettingsError(f"--to '{path}': the name of a model file ends in .json")
    check_place(path)


def check_place(path: Path) -> None:
    """Raise SettingsError for a path that no file can be written to."""
    if is_folder(path) or not is_folder(path.absolute().parent):
        raise SettingsError(f"'{path}' cannot be written: its folder is missing, or it is a folder")


def share(
    log: Log,
    to: ToModel,
    strength: Annotated[
        float, typer.Option(help="Strength of the noise, 0 to 1: rates and shares vary this much.")
    ] = 0.1,
    least_users: Annotated[
        int, typer.Option(help="Round or remove requests and contexts of fewer users.")
    ] = 5,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the noise; keep it secret (default: random).", show_default=False
        ),
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Option of the fit of three_stage; see the documentation."
        ),
    ] = None,
    first: First = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:
    """Make a slightly fictitious model of a log for sharing, and show the loss of accuracy."""
    check_model_file(to)
    knobs = knobs_of(knob or [])
    with progress_spinner(f"Reading {log.name} …"):
        workload = load_log(log, first, reading)
    with progress_spinner(f"Making a model of {workload.n_jobs:,} jobs …"):
        shared = share_log(
            workload,
            secrets.randbits(63) if seed is None else seed,
            least_users=least_users, strength=strength, knobs=knobs,
        )  # fmt: skip
    save_model(shared.model, to)
    if as_json:
        print_json({**model_dict(shared.model), "file": str(to), "loss": vars(shared.loss)})
        return 0
    OUT.print(f"{to}: {shared.model.source}", soft_wrap=True)
    for line in _lines(shared.loss):
        OUT.print(f"  {line}", soft_wrap=True)
    OUT.print(f"  next: copperline workload generate {to} --duration 7d --to FILE", soft_wrap=True)
    return 0


def _lines(loss: SharingLoss) -> list[str]:
    """Return the losses of a shared model as lines."""
    return [
        f"requests: {loss.rounded:.1%} of the jobs rounded, {loss.left_out:.1%} left out",
        f"contexts: {loss.contexts:.1%} taken out",
        f"next flavour: {loss.flavour_nll:+.3f} nats, total variation {loss.flavour_tv:.3f}",
        f"lifetimes: {loss.lifetime_nll:+.3f} nats per job, total variation {loss.lifetime_tv:.3f}",
        f"arrivals: {loss.rate:.2f} times the real rate; do not share this or the lines above",
    ]

"""Commands ``workload describe``, ``capacity`` and ``pack``; models as text; reading of logs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, Json, print_json, progress_spinner
from assistant.cli.options import ReadingRule
from assistant.core.errors import SettingsError
from assistant.presentation.charts import capacity as charts_clouds
from assistant.presentation.report.html import check_picture, write_picture
from assistant.presentation.text.number_format import number, quantity
from assistant.simtools.capacity import (
    CORES_ONLY,
    HEADINGS,
    alternative_models,
    answer,
    curves,
    futures_of,
    model_for,
    notes,
    pack_workloads,
    packing_notes,
    ranges_of,
    rows,
    summary_rows,
    tuples_of,
)
from assistant.simtools.workload_generation import (
    abbreviated_value,
    knobs_of,
    settings_of,
    task_words,
)
from assistant.simtools.workload_log import highlights, log_profile, percentiles
from sim.api import ProfileWindow, ReadingRules, Workload, load_workload, parse_duration
from sim.formats import is_model, rules_from_texts
from sim.generators import Model, load_model, registered_generators
from sim.generators.cloud import CAPACITY_DEFINITIONS as DEFINITIONS
from sim.generators.cloud import PACKING_RULES, ServerSize, plan_capacity
from sim.metrics import WorkloadProfile


def model_dict(model: Model) -> dict[str, object]:
    """Return a workload model as a JSON object, with arrays represented by their shapes."""
    return {
        "generator": model.generator, "source": model.source, "digest": model.digest,
        "parameters": dict(model.parameters),
        "arrays": {name: list(array.shape) for name, array in model.arrays.items()},
    }  # fmt: skip


def model_lines(model: Model) -> list[str]:
    """Return lines of text with the source and every parameter of a workload model."""
    lines = [model.source] if model.source else []
    lines += [f"{name} = {abbreviated_value(value)}" for name, value in model.parameters.items()]
    lines += [
        f"array {name}: {' x '.join(f'{n:,}' for n in array.shape)}"
        for name, array in model.arrays.items()
    ]
    return lines


Log = Annotated[
    Path,
    typer.Argument(
        help="A workload: a job log in SWF, a dump of Slurm's sacct, JSONL, batches of flavours, a "
        "table of openb, Philly, CloudSimPy or tasks; also gzipped.",
        show_default=False,
    ),
]
First = Annotated[
    int | None, typer.Option(help="Use only the first N jobs.", min=1, show_default=False)
]


def load_log(log: Path, first: int | None, reading: list[str] | None) -> Workload:
    """Read the jobs of a log with the reading rules of ``--reading`` options.

    Raises:
        SettingsError: a rule has the wrong form; SimError: the log cannot be read so.
    """
    return load_workload(log, rules=rules_of(reading), first=first)


def rules_of(reading: list[str] | None) -> ReadingRules:
    """Parse the ``--reading`` options into reading rules.

    Raises:
        SettingsError: a rule has the wrong form; SimError: there is no such rule or choice.
    """
    choices = {}
    for text in reading or []:
        rule, equals, choice = text.partition("=")
        if not equals:
            raise SettingsError(f"--reading '{text}' is not of the form never_ran=keep_zero")
        choices[rule.strip()] = choice.strip()
    return rules_from_texts(choices)


def describe(
    log: Log,
    first: First = None,
    leave_out: Annotated[
        int, typer.Option(help="Leave out the first N jobs, which fill the machine.", min=0)
    ] = 0,
    begin: Annotated[
        str, typer.Option("--from", help="Use jobs from this time after the first on: 7d.")
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--to", help="Use jobs up to this time after the first.", show_default=False),
    ] = None,
    procs: Annotated[
        int | None,
        typer.Option(help="Processors for the load (default: the number in the log).", min=1),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Time zone of the log, such as Europe/Paris (default: that in the log).",
            show_default=False,
        ),
    ] = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:
    """Describe a job log or a model: contents, notable figures, and choices made in reading."""
    if is_model(log):
        return _describe_model(log, as_json)
    window = ProfileWindow(
        leave_out, parse_duration(begin), None if end is None else parse_duration(end)
    )
    workload = load_log(log, first, reading)
    profile = log_profile(workload, window, procs, time_zone)
    described = profile.described
    if as_json:
        print_json({**described.to_dict(), "profile": profile.to_dict()})
        return 0
    OUT.print(described.name, style="bold")
    users = "unknown" if described.n_users is None else f"{described.n_users:,}"
    load = "unknown" if profile.offered_load is None else f"{profile.offered_load:.3f}"
    part = f" of {workload.n_jobs:,}" if described.n_jobs != workload.n_jobs else ""
    OUT.print(
        f"  {described.n_jobs:,}{part} jobs by {users} users over {quantity(described.span_s, 's')}"
    )
    OUT.print(f"  machine of {number(profile.procs)} processors, offered load {load}")
    for sentence in highlights(profile):
        OUT.print(f"  {sentence}", soft_wrap=True)
    for sentence in task_words(workload):
        OUT.print(f"  {sentence}", soft_wrap=True)
    for line in _percentile_lines(profile):
        OUT.print(line, soft_wrap=True)
    classes = ", ".join(f"{name}: {n:,}" for name, n in described.size_classes.items() if n)
    OUT.print(f"  jobs by processors: {classes}", soft_wrap=True)
    for note in described.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    return 0


def _describe_model(path: Path, as_json: bool) -> int:
    model = load_model(path)
    if as_json:
        print_json({"model": model_dict(model)})
        return 0
    OUT.print(f"a model of '{model.generator}'", style="bold")
    for line in model_lines(model):
        OUT.print(f"  {line}", soft_wrap=True)
    return 0


def _percentile_lines(profile: WorkloadProfile) -> list[str]:
    """Return the lines of the table of percentiles; narrow terminals fold them without loss."""
    rows = percentiles(profile)
    quantiles = [f"p{float(q) * 100:g}" for q in rows[0].summary.quantiles]
    cells = [["", "mean", "least", *quantiles, "most"]]
    for row in rows:
        summary, unit = row.summary, f" [{row.unit}]" if row.unit else ""
        values = (summary.mean, summary.least, *summary.quantiles.values(), summary.most)
        cells.append([f"{row.name}{unit}", *(number(value) for value in values)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]  # fmt: skip


_GENERATOR_NAMES = ", ".join(generator.name for generator in registered_generators())


def capacity(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|LOG", show_default=False,
            help="A model (.json), a log to fit a model to, or a published generator.",
        ),
    ],
    cores_per_server: Annotated[
        int, typer.Option(help="Processors of a server.", min=1, show_default=False)
    ],
    memory_per_server: Annotated[
        int | None,
        typer.Option(help="Bytes of memory of a server; without it memory is ignored.", min=1,
                     show_default=False),
    ] = None,
    days: Annotated[float, typer.Option(help="Days for which the servers must suffice.")] = 7.0,
    futures: Annotated[int, typer.Option(help="Generated futures of each case.", min=1)] = 200,
    share: Annotated[
        float, typer.Option(help="Share of the futures in which the servers must suffice.")
    ] = 0.95,
    scale: Annotated[
        list[float] | None,
        typer.Option(help="Factor on the rate of arrivals; each gives one case [default: 1]."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Case with another value of a parameter."),
    ] = None,
    warm_up: Annotated[
        float | None,
        typer.Option(help="Generated days before the days that count (default: from the "
                     "lifetimes).", show_default=False),
    ] = None,
    first_fit: Annotated[
        bool, typer.Option(help="Also place the jobs; otherwise print only the fluid bound.")
    ] = True,
    generator: Annotated[
        str, typer.Option(help=f"Generator to fit to a log: {_GENERATOR_NAMES}.")
    ] = "three_stage",
    knob: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the fit; see the documentation."),
    ] = None,
    leave_out: Annotated[int, typer.Option(help="Leave out the log's first N jobs.", min=0)] = 0,
    begin: Annotated[
        str, typer.Option("--from", help="Use jobs of the log from this time after the first on.")
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--until", help="Use jobs up to this time after the first.",
                     show_default=False),
    ] = None,
    reading: ReadingRule = None,
    seed: Annotated[int, typer.Option(help="Seed of the first future.", min=0)] = 0,
    picture: Annotated[
        Path | None,
        typer.Option(help="Chart of the futures in which N servers suffice: .svg, .png, .html.",
                     show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Estimate how many servers suffice in 95 % of the futures of a model, with intervals."""
    if picture is not None:
        check_picture(picture)
    server = ServerSize(cores_per_server, memory_per_server)
    window = ProfileWindow(
        leave_out, parse_duration(begin), None if end is None else parse_duration(end)
    )
    with progress_spinner(f"Reading {Path(what).name} …"):
        model = model_for(
            what, generator, knobs_of(knob or []), window=window, rules=rules_of(reading)
        )
    supposed = alternative_models(model, settings_of(setting or [], "--set"))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as progress:
        task = progress.add_task("")
        plan = plan_capacity(
            model, server, days=days, futures=futures, share=share, scales=scale or [1.0],
            suppositions=supposed, warm_up_days=warm_up, packed=first_fit, seed=seed,
            progress=lambda case, done, of: progress.update(
                task, description=case, completed=done, total=of
            ),
        )  # fmt: skip
    if picture is not None:
        spec = charts_clouds.servers(curves(plan), plan.share)
        write_picture(spec, picture, "Servers that suffice")
    if as_json:
        print_json({**plan.to_dict(), "answer": answer(plan), "notes": list(notes(plan))})
        return 0
    OUT.print(answer(plan), style="bold", soft_wrap=True)
    OUT.print(f"  drawn from '{plan.generator}': {plan.source}", soft_wrap=True)
    for note in notes(plan):
        OUT.print(f"  note: {note}", soft_wrap=True)
    cells = [HEADINGS, *rows(plan)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        told_cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(told_cells)}".rstrip(), soft_wrap=True)
    for name, meaning in DEFINITIONS.items():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    return 0


_PACKING_RULE_NAMES = ", ".join(rule.name for rule in PACKING_RULES)


def pack(
    log: Log,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG|MODEL", help="Another workload, or a model to draw windows from.",
            show_default=False,
        ),
    ] = None,
    tuples: Annotated[int, typer.Option(help="Number of packings to draw.", min=1)] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 1,
    tuples_file: Annotated[
        Path | None,
        typer.Option(
            help="Read the packings from this CSV file; if it does not exist, write them to it.",
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(help=f"Only these algorithms: {_PACKING_RULE_NAMES}.")
    ] = None,
    departures: Annotated[
        bool, typer.Option("--departures/--no-departures", help="Whether jobs leave.")
    ] = True,
    cores_only: Annotated[
        bool, typer.Option("--cores-only", help="Pack by cores, without memory.")
    ] = False,
    servers: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="Number.  [default: 40:200]", show_default=False),
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="Per server.  [default: 32:96]", show_default=False),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="GiB per core.  [default: 2:4]", show_default=False),
    ] = None,
    windows: Annotated[int, typer.Option(help="Windows drawn from a model.", min=1, max=1000)] = 10,
    demand: Annotated[
        float, typer.Option(help="Factor on the arrivals of a model: 10 is ten times the jobs.")
    ] = 1.0,
    first: First = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Measure how full servers are when the first job fits nowhere (FFAR), by four algorithms."""
    is_generated = against is not None and is_model(against)
    if demand != 1.0 and not is_generated:
        raise SettingsError("--demand is for drawn windows: give --against a model (.json)")
    names = list(algorithm or (CORES_ONLY if cores_only else ()))
    packings = tuples_of(tuples, seed, tuples_file, ranges_of(servers, cores, memory), names)
    with progress_spinner(f"Reading {log.name} …"):
        jobs = load_log(log, first, reading)
    sides: list[tuple[str, tuple[Workload, ...]]] = [(log.name, (jobs,))]
    if against is not None:
        with progress_spinner(f"{'Drawing' if is_generated else 'Reading'} {against.name} …"):
            other_workloads = (
                futures_of(load_model(against), jobs, windows, seed, demand)
                if is_generated
                else (load_log(against, None, reading),)
            )
        sides.append((against.name, other_workloads))
    with progress_spinner(f"Packing {len(packings):,} times …"):
        results = [
            pack_workloads(some, packings, departures=departures, by_memory=not cores_only)
            for _, some in sides
        ]
    if as_json:
        print_json(
            {
                "n_tuples": len(packings), "seed": seed, "departures": departures,
                "by_memory": not cores_only, "demand": demand,
                "traces": [
                    {"file": name, **result.to_dict()}
                    for (name, _), result in zip(sides, results, strict=True)
                ],
            }
        )  # fmt: skip
        return 0
    resource = "cores" if cores_only else "limiting resource"
    OUT.print(
        f"Share of the {resource} allocated when the first job fits nowhere; {len(packings):,} "
        f"packings{'' if departures else ', no departures'}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    headings = [""]
    for name, _ in sides:
        headings += [f"{name}: median", "above 95 %", "cores limit"]
    cells = [headings, *summary_rows(results)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(padded)}".rstrip(), soft_wrap=True)
    for note in packing_notes(results):
        OUT.print(f"  note: {note}", soft_wrap=True)
    if tuples_file is not None:
        OUT.print(f"  the packings are in {tuples_file}", soft_wrap=True)
    return 0

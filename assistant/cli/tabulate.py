"""``copperline tabulate``: simulate every allowed combination and write a measured table."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from assistant.applications import Scheduling
from assistant.cli.console import ERR, OUT, Json, print_json
from assistant.cli.options import (
    Backfill,
    Exclude,
    FirstJobs,
    JobLog,
    Levels,
    Order,
    PolicyOptions,
    PresetName,
    Procs,
    ReadingRule,
    SweepFile,
    TooWide,
    merge_options,
)
from assistant.errors import SettingsError
from assistant.files import is_folder
from assistant.objective import Assessment
from assistant.report.words import quantity
from assistant.settings import Sweep, build_sweep, check_settings, read_settings
from strategies import Level

MOST_COMBINATIONS = 1_000_000


def tabulate(
    out: Annotated[Path, typer.Option("--out", help="Write the table (CSV) here.")],
    file: SweepFile = None,
    log: JobLog = None,
    first: FirstJobs = None,
    procs: Procs = None,
    order: Order = None,
    backfill: Backfill = None,
    preset: PresetName = None,
    levels: Levels = None,
    policy_option: PolicyOptions = None,
    reading: ReadingRule = None,
    too_wide: TooWide = None,
    exclude: Exclude = None,
    feasible: Annotated[
        bool, typer.Option("--feasible", help="Leave out what violates a constraint.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="Simulations at once; one per core if not given.", min=1)
    ] = None,
    as_json: Json = False,
) -> int:
    """Simulate every allowed combination of a scheduling sweep, on all cores.

    The table has a column per parameter and ``objective``, which is to be minimised: what
    ``copperline sweep --table`` takes, and the truth to compare a search with.
    """
    tables: dict[str, Any] = read_settings(file) if file is not None else {}
    where = str(file) if file is not None else "options"
    check_settings(tables, where)
    merge_options(
        tables,
        log=log, first=first, procs=procs, order=order, backfill=backfill,
        levels=levels or [], preset=preset, policy_options=policy_option or [],
        reading=reading or [], too_wide=too_wide,
        table=None, exclude=exclude or [], strategy=None,
    )  # fmt: skip
    built = build_sweep(check_settings(tables, where))
    application = built.application
    if not isinstance(application, Scheduling):
        raise SettingsError(
            f"tabulate simulates; the application '{application.name}' is a program or a table, "
            "and every combination would be a run of it: use copperline sweep"
        )
    size = built.space.size
    if size > MOST_COMBINATIONS:
        raise SettingsError(
            f"{size:,} combinations are more than {MOST_COMBINATIONS:,}; name fewer --levels"
        )
    if is_folder(out) or not is_folder(out.absolute().parent):
        raise SettingsError(f"--out '{out}' cannot be written: its folder is missing, or it is one")
    return _write(built, application, out, threads, feasible, as_json)


def _write(
    built: Sweep,
    application: Scheduling,
    out: Path,
    threads: int | None,
    feasible: bool,
    as_json: bool,
) -> int:
    part = out.with_name(f"{out.name}.part")
    best: tuple[Mapping[str, Level], Assessment] | None = None
    n_rows = n_feasible = 0
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*built.space.names, "objective"])
            for values, found in _assessed(built, application, threads):
                n_feasible += found.feasible
                if feasible and not found.feasible:
                    continue
                value = found.value if built.objective.goal == "minimise" else -found.value
                writer.writerow([*values.values(), repr(value)])
                n_rows += 1
                if best is None or found.quality > best[1].quality:
                    best = values, found
        part.replace(out)
    except OSError as error:
        raise SettingsError(f"cannot write '{out}': {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    if as_json:
        told = None if best is None else {"configuration": best[0], "value": best[1].value}
        print_json({"table": str(out), "rows": n_rows, "feasible": n_feasible, "best": told})
        return 0
    told_rows = f"{out}: {n_rows:,} combinations, {n_feasible:,} meet every constraint"
    OUT.print(told_rows, soft_wrap=True)
    if best is not None:
        setting = ", ".join(f"{name} {value}" for name, value in best[0].items())
        reached = quantity(best[1].value, built.objective.unit)
        OUT.print(f"  best: {reached}  ({setting})", soft_wrap=True)
    return 0


def _assessed(
    built: Sweep, application: Scheduling, threads: int | None
) -> Iterator[tuple[Mapping[str, Level], Assessment]]:
    allowed = [built.space.values(one) for one in built.space.configurations()]
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True) as shown:
        task = shown.add_task("", total=len(allowed))
        measured = application.evaluate_many(
            allowed, threads=threads, progress=lambda done: shown.update(task, completed=done)
        )
        for values, measures in measured:
            yield values, built.objective.assess(measures)

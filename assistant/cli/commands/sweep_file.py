"""Commands ``copperline init`` and ``tabulate``: write a sweep file, or a measured table of one."""

import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.rest_address import check_url
from assistant.applications.scheduling import Scheduling
from assistant.cli.console import ERR, OUT, Json, print_json, say
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
    sweep_tables,
)
from assistant.config.sweep_file import build_sweep, check_settings, toml_text
from assistant.core.errors import SettingsError
from assistant.core.files import is_folder
from assistant.presentation.text.number_format import quantity
from assistant.simtools.measured_tables import TabulationTask
from assistant.simtools.measured_tables import tabulate as tabulate_all

_PROGRAMS = {"command": ("command.sh", ".sh"), "function": ("function.py.txt", ".py")}
KINDS = (*_PROGRAMS, "scheduling", "ai_platform", "placement")


def init(
    file: Annotated[Path, typer.Argument(help="The sweep file to write.")] = Path("sweep.toml"),
    kind: Annotated[
        str | None,
        typer.Option(
            help="Application: command (the default), function, scheduling, ai_platform or "
            "placement.",
            show_default=False,
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="HTTP program that describes its parameters.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a commented sweep file that runs as it is; nothing is overwritten.

    For a program of your own (command, the default) or a Python function, a small example to
    replace is written beside it. With --adapter, an HTTP program is asked for its parameters, and
    its answer is written to the file.
    """
    if adapter is not None and kind is not None:
        raise SettingsError(
            f"--adapter and --kind {kind} name different applications; give only one of them"
        )
    kind = kind or "command"
    if kind not in KINDS:
        raise SettingsError(f"there is no kind '{kind}'; choose from {', '.join(KINDS)}")
    if file.suffix != ".toml":
        raise SettingsError(f"the name of a sweep file must end in .toml, but it is '{file}'")
    texts = _texts(file, kind) if adapter is None else {file: _adapter_text(adapter, file)}
    _write_new_files(texts)
    command = f"copperline sweep {shlex.quote(str(file))}"
    if as_json:
        print_json({"written": [str(path) for path in texts], "next": command})
    else:
        wrote = f"Wrote {' and '.join(map(str, texts))}."
        OUT.print(wrote, markup=False, soft_wrap=True)
        OUT.print(f"Next: {command}", markup=False, soft_wrap=True)
    return 0


def _adapter_text(adapter: str, file: Path) -> str:

    sweep_text = described_sweep(adapter)
    command = f"copperline sweep {shlex.quote(str(file))}".replace("\n", " ")
    return (
        f"# A sweep over the program at {adapter}, as it describes itself:\n#     {command}\n\n"
        f"runs = 24                       # the budget\n# workers = 2                   # runs at "
        f"once\n\n{sweep_text}"
    )


def _texts(file: Path, kind: str) -> dict[Path, str]:
    templates = files("assistant.cli") / "templates"
    program = re.sub(r"\W|^(?=\d)", "_", file.stem)
    text = (templates / f"{kind}.toml").read_text(encoding="utf-8")
    name = shlex.quote(str(file)).replace("\n", " ")
    texts = {file: text.replace("@PROGRAM@", program).replace("sweep FILE", f"sweep {name}")}
    if kind in _PROGRAMS:
        example, ending = _PROGRAMS[kind]
        texts[file.with_name(program + ending)] = (templates / example).read_text(encoding="utf-8")
    return texts


def _write_new_files(texts: dict[Path, str]) -> None:
    """Write all files or none. Raises SettingsError if one exists or cannot be written."""
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as out:
                written.append(path)
                out.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise SettingsError(
                f"'{error.filename}' already exists and is not changed; name another file"
            ) from error
        raise SettingsError(f"cannot write '{error.filename}': {error.strerror}") from error


_OF_THE_PROGRAM = ("baseline", "noisy", "limit")
_KEYS = ("parameters", "objective", *_OF_THE_PROGRAM)


def described_sweep(url: str) -> str:
    """Generate the text of a sweep file from the self-description of the program at a URL.

    Raises:
        AssistantError, StrategyError: no answer, or the description cannot be swept.
    """
    from assistant.applications.rest_client import request_description

    source = f"the program at {check_url(url)}"
    description = _without_nulls(request_description(url))
    strange = sorted(description.keys() - set(_KEYS))
    if strange:
        raise SettingsError(
            f"{source} describes itself with '{strange[0]}'; it may give {', '.join(_KEYS)}, as in "
            "the sweep file of a command"
        )
    tables = {
        "application": {
            "kind": "rest", "url": url,
            **{k: description[k] for k in _OF_THE_PROGRAM if k in description},
        },
        **{key: description[key] for key in ("objective", "parameters") if key in description},
    }  # fmt: skip
    build_sweep(check_settings(tables, source))
    text = toml_text(tables)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{source} describes itself with an invalid character") from error
    return text


def _without_nulls(value: Any) -> Any:
    """Return a description without its null entries."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(entry) for name, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def tabulate(
    out: Annotated[Path, typer.Option("--out", help="Path of the table (CSV).")],
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
        bool, typer.Option("--feasible", help="Leave out rows that violate a constraint.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Simulations at once.  [default: one per core; one for flood and maze]", min=1
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Simulate every allowed combination of a scheduling sweep, of flood or of maze.

    The table has a column for each parameter and the column ``objective``, which is minimised. It
    is input of ``copperline sweep --table``, and the truth to compare a search with. After an
    interruption, the same command continues.
    """
    tables: dict[str, Any] = sweep_tables(file)
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
    if not isinstance(application, Scheduling | Flood | MazeRunner):
        raise SettingsError(
            f"tabulate needs a simulation, but the application '{application.name}' is a program "
            "or a table; use copperline sweep"
        )
    question = TabulationTask(application, built.space, built.objective)
    if is_folder(out) or not is_folder(out.absolute().parent):
        raise SettingsError(f"--out '{out}': its folder is missing, or it is a folder")
    return _write_table(question, out, threads, feasible, as_json)


def _write_table(
    question: TabulationTask, out: Path, threads: int | None, feasible: bool, as_json: bool
) -> int:
    n_allowed = question.space.count_allowed()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=ERR, transient=True) as progress:
            task = progress.add_task("", total=n_allowed)
            tabulated = tabulate_all(
                question, out, feasible_only=feasible, threads=threads,
                progress=lambda done: progress.update(task, completed=done),
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"Stopped; the results are kept in {out}.part. Repeat the command to continue.")
        raise
    objective, best = question.objective, tabulated.best
    reached = None
    if best is not None:
        reached = best.value if objective.goal == "minimise" else -best.value
    if as_json:
        best_row = None if best is None else {"configuration": best.values, "value": reached}
        print_json(
            {
                "table": str(out), "rows": tabulated.rows, "feasible": tabulated.feasible,
                "best": best_row, "taken_up": tabulated.taken_up,
            }
        )  # fmt: skip
        return 0
    counts = f"{tabulated.rows:,} combinations, {tabulated.feasible:,} meet every constraint"
    OUT.print(f"{out}: {counts}", soft_wrap=True)
    if tabulated.taken_up:
        OUT.print(f"  {tabulated.taken_up:,} of them were measured before an interruption")
    if best is not None:
        setting = ", ".join(f"{name} {value}" for name, value in best.values.items())
        OUT.print(f"  best: {quantity(reached, objective.unit)}  ({setting})", soft_wrap=True)
    return 0

"""Commands ``copperline init`` and ``tabulate``: write a sweep file, or a measured table of one."""

import re
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.measures import WALL
from assistant.applications.program import SCRATCH, SEED, Template
from assistant.applications.rest_address import check_url
from assistant.applications.scheduling import Scheduling
from assistant.cli.console import ERR, OUT, Json, print_json, say
from assistant.cli.options import (
    APPLICATION_OPTIONS,
    SWEEP_FILE,
    Levels,
    Overrides,
    SweepFile,
    overridden_sweep,
    pairs,
    setting_options,
    values_of,
)
from assistant.config.sweep_file import (
    build_sweep,
    check_settings,
    parse_settings,
    toml_text,
    toml_value,
)
from assistant.core.errors import SettingsError, hint
from assistant.core.files import is_folder
from assistant.presentation.text.number_format import quantity
from assistant.simtools.measured_tables import TabulationTask
from assistant.simtools.measured_tables import tabulate as tabulate_all
from strategies import Level

_PROGRAMS = {"command": ("command.sh", ".sh"), "function": ("function.py.txt", ".py")}
OWN = (SEED, SCRATCH)  # placeholders that are no parameters


def init(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|COMMAND",
            help="The sweep file to write; or, in quotes, the command of your program, with {name} "
            "for each parameter.",
        ),
    ] = SWEEP_FILE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The sweep file, for a command.  [default: sweep.toml]",
            show_default=False,
        ),
    ] = None,
    levels: Levels = None,
    minimise: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Measure to make small, on the last line that the command prints: 12.5, "
            "MEASURE: 12.5 or JSON; wall_s is its time.",
            show_default=False,
        ),
    ] = None,
    maximise: Annotated[
        str | None,
        typer.Option(metavar="MEASURE", help="Measure to make large, instead.", show_default=False),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Application: command (the default), function, scheduling, ai_platform or "
            "placement.",
            show_default=False,
        ),
    ] = None,
    noisy: Annotated[
        bool,
        typer.Option(
            "--noisy", help="Results vary from run to run: the last runs repeat the best."
        ),
    ] = False,
    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="HTTP program that describes its parameters.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a commented sweep file that runs as it is; nothing is overwritten.

    With a command such as "python train.py --lr {lr}" it is a sweep of your program: --levels
    gives the levels, or they are asked for. Otherwise a small example to replace is written beside
    the file. With --adapter, an HTTP program is asked for its parameters.
    """
    if adapter is not None and kind is not None:
        raise SettingsError(
            f"--adapter and --kind {kind} name different applications; give only one of them"
        )
    if is_command(target):
        if adapter is not None or kind is not None:
            raise SettingsError("a command needs neither --adapter nor --kind; leave them out")
        file = out or Path(SWEEP_FILE)
        return _init_command(target, file, levels, (minimise, maximise), noisy, as_json)
    for flag, value in (
        ("--out", out), ("--levels", levels), ("--minimise", minimise), ("--maximise", maximise),
        ("--noisy", noisy),
    ):  # fmt: skip
        if value:
            raise SettingsError(
                f"{flag} is for a command, such as copperline init 'python train.py --lr {{lr}}'"
            )
    file, kind = Path(target), kind or "command"
    kinds = sorted(
        path.name.removesuffix(".toml")
        for path in (files("assistant.cli") / "templates").iterdir()
        if path.name.endswith(".toml")
    )
    if kind not in kinds:
        raise SettingsError(f"there is no kind '{kind}'; choose from {', '.join(kinds)}")
    _check_name(file)
    texts = _texts(file, kind) if adapter is None else {file: _adapter_text(adapter, file)}
    write_new_files(texts)
    command = f"copperline sweep {shlex.quote(str(file))}"
    if as_json:
        print_json({"written": [str(path) for path in texts], "next": command})
    else:
        wrote = f"Wrote {' and '.join(map(str, texts))}."
        OUT.print(wrote, markup=False, soft_wrap=True)
        OUT.print(f"Next: {command}", markup=False, soft_wrap=True)
    return 0


def _check_name(file: Path) -> None:
    if file.suffix != ".toml":
        raise SettingsError(f"the name of a sweep file must end in .toml, but it is '{file}'")


def is_command(text: str) -> bool:
    """Return whether the argument of ``init`` is a command line instead of a file name.

    >>> is_command("python train.py --lr {lr}"), is_command("my sweep.toml")
    (True, False)
    """
    return "{" in text or (" " in text.strip() and not text.endswith(".toml"))


def _init_command(
    command: str,
    file: Path,
    levels: list[str] | None,
    objective: tuple[str | None, str | None],
    noisy: bool,
    as_json: bool,
) -> int:
    """Write the sweep file of a command line, and offer its dry run to a person."""
    _check_name(file)
    if file.exists():
        raise SettingsError(f"'{file}' already exists and is not changed; name another with --out")
    may_ask = sys.stdin.isatty() and not as_json
    text = _command_text(command, file, levels or [], objective, noisy, may_ask)
    write_new_files({file: text})
    name = shlex.quote(str(file))
    if as_json:
        print_json({"written": [str(file)], "next": f"copperline try {name}"})
        return 0
    OUT.print(f"Wrote {file}.", markup=False, soft_wrap=True)
    if may_ask and typer.confirm("Check it with one run now?", default=True):
        from assistant.cli.commands.dry_run import dry_run

        code = dry_run(file=file)
        if code:
            return code
    else:
        OUT.print(f"Check it with one run: copperline try {name}", markup=False, soft_wrap=True)
    OUT.print(f"Next: copperline sweep {name}", markup=False, soft_wrap=True)
    return 0


def _command_text(
    command: str,
    file: Path,
    levels: list[str],
    objective: tuple[str | None, str | None],
    noisy: bool,
    may_ask: bool,
) -> str:
    """Return the text of the sweep file of a command line. Raises SettingsError."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"the command '{command}' cannot be split: {error}") from error
    templates = [Template.parse(part, f"element {n}") for n, part in enumerate(argv, 1)]
    placeholders = [name for template in templates for _, name in template.parts if name]
    names = list(dict.fromkeys(name for name in placeholders if name not in OWN))
    if not names:
        raise SettingsError(
            f"the command '{command}' names no parameter; write {{name}} where its value belongs"
        )
    texts = dict(pairs(levels, "--levels", "lr=0.1,0.01"))
    for name in texts:
        if name not in names:
            raise SettingsError(
                f"--levels {name}: the command has no {{{name}}}{hint(name, names)}"
            )
    chosen = {name: _levels_of(name, texts.get(name), may_ask) for name in names}
    parameters = [{"name": name, "levels": listed} for name, listed in chosen.items()]
    minimise, maximise = objective
    if minimise is not None and maximise is not None:
        raise SettingsError("--minimise and --maximise contradict each other; give one of them")
    if minimise is None and maximise is None:
        minimise = WALL
        if may_ask:
            question = "Measure to minimise, as the program names it (wall_s is its time)"
            minimise = typer.prompt(question, default=WALL)
    if may_ask and not noisy:
        noisy = typer.confirm("Do results vary between runs with the same levels?", default=False)
    goal = {"maximise": maximise} if maximise is not None else {"minimise": minimise}
    application: dict[str, Any] = {"kind": "command", "command": argv}
    if noisy:
        application["noisy"] = True
    tables = {"runs": 24, "application": application, "objective": goal, "parameters": parameters}
    current = toml_value({name: listed[0] for name, listed in chosen.items()})
    name = shlex.quote(str(file)).replace("\n", " ")
    text = _COMMENT.format(file=name, current=current) + toml_text(tables)
    parsed = parse_settings(text, f"the sweep file '{file}'", file.parent, file.stem)
    build_sweep(check_settings(parsed, str(file)))
    return text


_COMMENT = r"""# A sweep over a program of your own:
#     copperline try {file}       checks it with one run
#     copperline sweep {file}
# The last line that the program prints is its result: the number that you minimise, loss: 0.31, or
# JSON such as {{"loss": 0.31}}; "wall_s" is the time of a run. What else [application] may have:
#     baseline = {current}
#         your values of today: they run first, and every result is compared with them
#     noisy = true
#         results vary between runs with the same levels: the last runs repeat the best
#     measures = {{pattern = ['loss[:= ]+(?P<loss>\S*\d)']}}
#         reads the last "loss: 0.31" anywhere in the output
# copperline init example.toml writes an example with every setting.

"""


def _levels_of(name: str, text: str | None, may_ask: bool) -> list[Level]:
    """Return the levels of a parameter, asked for if necessary. Raises SettingsError."""
    if text is None and not may_ask:
        raise SettingsError(
            f"the levels of '{name}' are missing, and nobody can be asked without a terminal; add "
            f"--levels {name}=V,V,..."
        )
    while text is None:
        text = _separated(typer.prompt(f"Levels of {name}, separated by commas"))
        if len(values_of(text)) < 2:
            say(f"'{name}' needs at least two levels; write a fixed value into the command.")
            text = None
    parsed = values_of(_separated(text))
    if not parsed:
        raise SettingsError(f"'{name}' has no level; give one or several, separated by commas")
    return parsed


def _separated(text: str) -> str:
    """Return a list with commas, also if only spaces separate its values.

    >>> _separated("1 2  4"), _separated("very good, bad")
    ('1,2,4', 'very good, bad')
    """
    return text if "," in text else ",".join(text.split())


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


def write_new_files(texts: dict[Path, str]) -> None:
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


@setting_options(*(name for name in APPLICATION_OPTIONS if name != "table"))
def tabulate(
    overrides: Overrides,
    out: Annotated[Path, typer.Option("--out", help="Path of the table (CSV).")],
    file: SweepFile = None,
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
    _, settings = overridden_sweep(file, overrides)
    built = build_sweep(settings)
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

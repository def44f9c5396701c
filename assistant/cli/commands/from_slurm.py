"""Command ``copperline from-slurm``: from a dump of sacct and slurm.conf to a sweep file."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.applications.scheduling_presets import SLURM, presets_for
from assistant.cli.commands.sweep_file import write_new_files
from assistant.cli.commands.workload import rules_of
from assistant.cli.console import OUT, Json, print_json, progress_spinner
from assistant.cli.options import SWEEP_FILE, ReadingRule
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings, toml_text
from assistant.core.errors import SettingsError
from assistant.core.files import is_there
from assistant.simtools.slurm_site import SlurmStudy, read_qos, slurm_study
from sim.api import format_of, write_workload
from sim.formats import SACCT, SWF, format_by_name, read_rows, read_slurm_conf

_HEAD = """# A sweep over the log of a Slurm cluster, written by copperline from-slurm.
# {decided}
"""


_QUESTIONS = tuple(preset.name for preset in presets_for(SLURM))


def from_slurm(
    dump: Annotated[
        Path,
        typer.Argument(
            metavar="SACCT",
            help="What sacct --allusers --parsable2 printed: with a header, or with the fields "
            "that Open XDMoD asks for; also gzipped.",
            show_default=False,
        ),
    ],
    conf: Annotated[
        Path | None,
        typer.Option(help="slurm.conf of the cluster.", show_default=False),
    ] = None,
    qos: Annotated[
        Path | None,
        typer.Option(
            help="What sacctmgr --parsable2 show qos printed.", show_default=False
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="Simulate this partition and those that share nodes with it.  "
            "[default: the ones with the most work]",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"The question: {', '.join(_QUESTIONS)}.  [default: {_QUESTIONS[0]}]",
            show_default=False,
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--tz", metavar="NAME",
            help="Time zone of the cluster, such as Europe/Paris; Unix times need none.",
            show_default=False,
        ),
    ] = None,
    reading: ReadingRule = None,
    output: Annotated[Path, typer.Option(help="The sweep file to write.")] = Path(SWEEP_FILE),
    log: Annotated[
        Path | None,
        typer.Option(
            help="The log to write (.swf, .swf.gz).  [default: beside the sweep file, .swf.gz]",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Write the log and the sweep file of a Slurm cluster, and say what was decided.

    Nothing is overwritten. What slurm.conf has and the simulator does not is listed by name.
    """
    target = log or output.with_suffix(".swf.gz")
    _check(output, target)
    zone = [] if time_zone is None else [f"time_zone={time_zone}"]
    rules = rules_of([*(reading or []), *zone])
    site = None if conf is None else read_slurm_conf(conf)
    services = () if qos is None else read_qos(qos)
    with progress_spinner(f"Reading {dump.name} …"):
        log_format = format_of(dump)
        if log_format is not SACCT:
            raise SettingsError(
                f"{dump} is {log_format.title}, not a dump of sacct; copperline sweep --log "
                f"{shlex.quote(str(dump))} reads it as it is"
            )
        log_format.check_rules(dump, rules)
        study = slurm_study(read_rows(dump), rules, site, services, partition, preset)
    tables = _tables(study, target, output)
    text = _HEAD.format(decided="\n# ".join(study.decided)) + toml_text(tables)
    with progress_spinner(f"Writing {study.workload.n_jobs:,} jobs …"):
        write_workload(study.workload, target)
        try:
            settings = parse_settings(
                text, f"the sweep file '{output}'", output.parent, output.stem
            )
            build_sweep(check_settings(settings, str(output)))
            write_new_files({output: text})
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    commands = [_backtest(study, target), f"copperline sweep {shlex.quote(str(output))}"]
    notes = [note.sentence for note in study.workload.notes]
    if as_json:
        print_json({
            "written": [str(target), str(output)], "next": commands, "found": list(study.found),
            "decided": list(study.decided), "read": notes, "not_simulated": list(study.missing),
        })  # fmt: skip
        return 0
    _print(study, notes)
    OUT.print(f"Wrote {target} and {output}.", markup=False, soft_wrap=True)
    OUT.print("Next, how far simulated waits agree with the recorded ones, and what is better:")
    for command in commands:
        OUT.print(f"  {command}", markup=False, soft_wrap=True)
    return 0


def _backtest(study: SlurmStudy, target: Path) -> str:
    """Return the command that simulates the current configuration, beside the recorded waits."""
    application = study.application
    parts = ["copperline", "simulate", str(target)]
    for name, value in application.get("baseline", {}).items():
        parts += [f"--{name}", value]
    for name, value in application.get("options", {}).items():
        parts += ["--option", f"{name}={value:g}"]
    if "machine_procs" in application:
        option = f"--{application['allocation'].replace('_', '-')}"
        parts += [option, str(application["machine_procs"])]
    if "too_wide" in application:
        parts += ["--too-wide", application["too_wide"]]
    return shlex.join([*parts, "--backtest"])


def _check(output: Path, target: Path) -> None:
    """Refuse names of other formats and files that exist. Raises SettingsError or SimError."""
    if output.suffix != ".toml":
        raise SettingsError(f"the name of a sweep file must end in .toml, but it is '{output}'")
    if format_by_name(target) is not SWF:
        raise SettingsError(f"--log {target}: the log is written as .swf or .swf.gz")
    for path, option in ((output, "--output"), (target, "--log")):
        if is_there(path):
            raise SettingsError(
                f"'{path}' already exists and is not changed; name another with {option}"
            )


def _tables(study: SlurmStudy, target: Path, output: Path) -> dict[str, Any]:
    same = target.parent.resolve() == output.parent.resolve()
    name = target.name if same else str(target.resolve())
    return {"application": {"kind": "scheduling", "log": name, **study.application}}


def _print(study: SlurmStudy, notes: list[str]) -> None:
    for title, sentences in (
        ("Found", study.found),
        ("Decided while reading", notes),
        ("Simulated", study.decided),
        ("Not simulated", study.missing),
    ):
        if sentences:
            OUT.print(f"{title}:", style="bold")
        for sentence in sentences:
            OUT.print(f"  {sentence}", markup=False, soft_wrap=True)

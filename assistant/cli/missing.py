"""The second half of ``copperline effects``: which runs are missing before an effect is known."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from assistant.cli.console import OUT, print_json, table_of
from assistant.effects import MissingReport, missing_report
from assistant.experiment import Experiment
from assistant.report.words import level
from assistant.session import Session
from strategies import Level
from strategies.analysis import Target
from strategies.parameter import show

EVERYTHING = "all"
MOST_SHOWN = 40


def target_of(experiment: Experiment, text: str) -> Target:
    """Return what ``--missing`` asks for: ``a``, ``a=4``, ``a,b`` or ``all``.

    Raises:
        StrategyError: a name that is no parameter, or a value that is no level.
    """
    if text == EVERYTHING:
        return Target()
    name, equals, value = (part.strip() for part in text.partition("="))
    if equals:
        parameter = experiment.space.parameter(name)
        return Target((name,), parameter.level_id(parameter.parse(value)))
    return Target(tuple(part.strip() for part in text.split(",")))


def tell_missing(session: Session, target: Target, store: Path | None, *, as_json: bool) -> int:
    """Print the missing runs, the nearest factorial block, and the commands that run them."""
    report = missing_report(session.experiment, target)
    command = _command(session, report.runs, store)
    block_command = _command(session, report.block_runs, store)
    if as_json:
        found = report.found
        print_json(
            {
                "experiment": session.id,
                "lacking": found.lacking,
                "left": found.left,
                "smallest": found.is_smallest,
                "waiting": found.n_waiting,
                "looked_at_all": found.looked_at_all,
                "runs": list(report.runs),
                "command": command,
                "block": list(report.block_runs) if report.block else None,
                "block_command": block_command,
            }
        )
        return 0
    _print_missing(session, report, command)
    _print_block(session, report, block_command)
    return 0


def _print_missing(session: Session, report: MissingReport, command: str | None) -> None:
    found, what = report.found, _what(session.experiment, report.found.target)
    if found.n_waiting:
        OUT.print(f"{found.n_waiting} waiting runs are counted as if they were over.")
    if not found.lacking:
        shut = _closed(session.experiment, found.target)
        but = f" among the open levels; what closed {shut} would need is left out" if shut else ""
        OUT.print(f"Nothing is missing: the runs determine {what}{but}.", soft_wrap=True)
    elif report.runs:
        n = "1 run is" if len(report.runs) == 1 else f"{len(report.runs)} runs are"
        sure = "; fewer cannot do it" if found.is_smallest else ", found by greedy search"
        missing = f"{n} missing to estimate {what}{sure}:"
        if found.left:
            missing = f"{n} missing to estimate what can be of {what}{sure}:"
        OUT.print(missing, soft_wrap=True)
        _print_runs(session, report.runs, command)
    if found.left:
        _print_left(found.left, found.lacking, what, whole=found.looked_at_all)


def _closed(experiment: Experiment, target: Target) -> str:
    """Return the closed levels of what is asked for, for people; nothing if there are none."""
    space = experiment.space
    if target.level_id is not None:
        return ""
    return ", ".join(
        f"{name}={level(space.parameter(name).levels[level_id])}"
        for name, level_id in sorted(space.closed)
        if name in (target.parameters or space.names)
    )


def _print_left(left: int, lacking: int, what: str, *, whole: bool) -> None:
    why = (
        "closed levels, exclusions or failed runs leave no configuration that would"
        if whole
        else "no configuration near the runs would; the whole space is too large to look at"
    )
    OUT.print(
        f"{left} of the {lacking} comparisons that {what} lacks cannot be had: {why}.",
        style="yellow", soft_wrap=True,
    )  # fmt: skip


def _what(experiment: Experiment, target: Target) -> str:
    if not target.parameters:
        return "all main effects"
    if len(target.parameters) == 2:
        return f"the interaction of {' and '.join(target.parameters)}"
    (name,) = target.parameters
    if target.level_id is None:
        return f"the effect of {name}"
    return f"the effect of {name}={show(experiment.space.parameter(name).levels[target.level_id])}"


def _print_block(session: Session, report: MissingReport, command: str | None) -> None:
    if report.block is None:
        why = "each holds an excluded or failed combination"
        if not session.experiment.measured:
            why = "nothing was run yet"
        OUT.print(f"No factorial block round the runs can be completed: {why}.", soft_wrap=True)
        return
    space, block = session.experiment.space, report.block.block
    sides = " x ".join(f"{len(block.level_ids[i])} {space.names[i]}" for i in block.varied)
    if not report.block_runs:
        OUT.print(f"A complete factorial block, {sides}, is there already.", soft_wrap=True)
        return
    n = "1 run completes" if len(report.block_runs) == 1 else f"{len(report.block_runs)} complete"
    OUT.print(f"\n{n} the nearest factorial block, {sides}:", soft_wrap=True)
    _print_runs(session, report.block_runs, command)


def _print_runs(session: Session, runs: Sequence[Mapping[str, Level]], command: str | None) -> None:
    table = table_of(*session.experiment.space.names, left=0)
    for values in runs[:MOST_SHOWN]:
        table.add_row(*(level(value) for value in values.values()))
    OUT.print(table)
    if len(runs) > MOST_SHOWN:
        left = len(runs) - MOST_SHOWN
        OUT.print(f"and {left} more; --json has them all, with the command that runs them.")
    elif command is not None:
        OUT.print(f"Run them with: {command}", soft_wrap=True)
    else:
        OUT.print("Run them with session.include(values) in Python.", soft_wrap=True)


def _command(
    session: Session, runs: Sequence[Mapping[str, Level]], store: Path | None
) -> str | None:
    """Return the command that runs these; None if only Python can, or there are none."""
    experiment = session.experiment
    texts = [",".join(f"{n}={level(v)}" for n, v in values.items()) for values in runs]
    commas = any(isinstance(v, str) and "," in v for values in runs for v in values.values())
    if not runs or not experiment.opened.recipe or commas:
        return None
    words = ["copperline", "resume", session.id]
    needed, budget = experiment.n_charged + len(runs), experiment.sla.max_runs
    if experiment.finished is not None or (budget is not None and budget < needed):
        words += ["--runs", str(max(needed, budget or 0))]
    for text in texts:
        words += ["--include", text]
    if store is not None:
        words += ["--store", str(store)]
    return shlex.join(words)

"""``copperline demo`` and ``copperline sweep``: steer a whole sweep and write its report."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agents import Follower
from assistant import Session, open_session
from assistant.cli.console import (
    ERR,
    EXIT_NOTHING_FEASIBLE,
    Json,
    StoreOption,
    print_json,
    say,
    store_path,
    version,
)
from assistant.cli.live import SweepView
from assistant.cli.options import merge_options, own_runs
from assistant.cli.summary import print_summary, summary
from assistant.executors import make_executor
from assistant.report import collect, write_report
from assistant.settings import Sweep, build_sweep, check_settings, read_settings
from assistant.sla import Sla
from assistant.store import SqliteStore

DEMO: dict[str, Any] = {
    "name": "demo",
    "application": {"kind": "scheduling", "levels": {"order": ["fcfs", "sjf"]}},
}

Report = Annotated[
    Path | None,
    typer.Option("--report", help="Where the HTML report goes.", show_default=False),
]


def demo(
    runs: Annotated[int, typer.Option(help="Budget of runs.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the workload and of every choice.")] = 3,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer the built-in example: a generated job log on a cluster of 128 processors.

    Which part of the cluster should be kept for small jobs, which jobs are small, and in which
    order should jobs wait? Thousands of combinations; the demo tries a few dozen of them.
    """
    tables = {**DEMO, "runs": runs, "seed": seed}
    target = report or Path("copperline-out") / "demo.html"
    return _steer(build_sweep(check_settings(tables, "demo")), (), store, target, as_json)


def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="A sweep file (TOML).", show_default=False)
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Job log (SWF, also .gz) to simulate.", show_default=False)
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Measured table (CSV) to look up instead.", show_default=False),
    ] = None,
    first: Annotated[
        int | None, typer.Option(help="Use only the first N jobs.", show_default=False)
    ] = None,
    procs: Annotated[
        str | None,
        typer.Option(help="Processors of the cluster; a list makes them a parameter."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Today's queue order; a list (today's first) makes it a parameter."),
    ] = None,
    backfill: Annotated[
        str | None,
        typer.Option(help="Today's backfill; a list (today's first) makes it a parameter."),
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option("--levels", metavar="NAME=V,V,...", help="Levels of one parameter."),
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE=CHOICE", help="A rule for reading the log, e.g. unsorted=sort."),
    ] = None,
    too_wide: Annotated[
        str | None, typer.Option(help="Jobs that fit no partition: reject or clip.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Never propose what meets this condition."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", metavar="NAME=V,...", help="Run this configuration of your own."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Budget of runs.  [default: 60]")] = None,
    initial: Annotated[
        int | None, typer.Option(help="First runs at random.  [default: 10]")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Suggestions at a time.  [default: 5]")] = None,
    strategy: Annotated[str | None, typer.Option(help="How to choose.  [default: grasp]")] = None,
    beta: Annotated[
        float | None, typer.Option(help="Greediness of GRASP, 0 to 1.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of every random choice.  [default: 0]")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at once.  [default: 1]")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the experiment.")] = None,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Steer a sweep: today's configuration first, then random runs, then what the strategy says.

    Options overrule the file. Without a log or a table the built-in example workload is used.
    """
    tables = read_settings(file) if file is not None else {}
    where = str(file) if file is not None else "options"
    merge_options(
        tables,
        log=log, table=table, first=first, procs=procs, order=order, backfill=backfill,
        levels=levels or [], reading=reading or [], too_wide=too_wide, exclude=exclude or [],
        runs=runs, initial=initial, batch=batch, strategy=strategy, beta=beta, seed=seed,
        workers=workers, name=name,
    )  # fmt: skip
    built = build_sweep(check_settings(tables, where))
    return _steer(built, own_runs(built, include or []), store, report, as_json)


def _steer(
    built: Sweep,
    own: tuple[dict[str, Any], ...],
    store: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    settings, path = built.settings, store_path(store)
    session = open_session(
        built.application,
        store=SqliteStore(path),
        name=settings.name or _name(built),
        space=built.space,
        objective=built.objective,
        sla=Sla(max_runs=settings.runs),
        strategy=settings.strategy.name,
        options=settings.strategy.options,
        seed=settings.seed,
        version=version(),
    )
    target = report or Path("copperline-out") / f"{session.id}.html"
    if not as_json:
        _introduce(session)
    _run(session, built, own, path)
    data = collect(session.experiment)
    written = write_report(data, target)
    if as_json:
        print_json(summary(session.experiment, data, written))
    else:
        print_summary(data, written)
    found = data.answer.verdict not in ("no_runs", "nothing_feasible")
    return 0 if found else EXIT_NOTHING_FEASIBLE


def _run(session: Session, built: Sweep, own: tuple[dict[str, Any], ...], path: Path) -> None:
    settings = built.settings
    agent = Follower(initial=settings.initial, batch=settings.batch)
    try:
        with (
            make_executor(built.application, settings.workers) as executor,
            SweepView(session, ERR) as view,
        ):
            session.submit_baseline()
            for values in own:
                session.include(values)
            session.finish(agent.steer(session, executor, view.on_change))
    except KeyboardInterrupt:
        n = len(session.experiment.runs)
        say(f"Stopped after {n} submitted runs; what was finished is kept in {path}.")
        say(f"See it with: copperline report {session.id} --store {path}")
        raise


def _introduce(session: Session) -> None:
    opened = session.experiment.opened
    allowed = opened.space.count_allowed()
    say(f"[bold]{opened.name}[/bold]  {opened.objective}")
    for constraint in opened.objective.constraints:
        say(f"  subject to: {constraint}")
    for fact in opened.facts[:3]:
        say(f"  {fact.label.lower()}: {fact.text}")
    say(
        f"  {opened.space.size:,} combinations of {len(opened.space.parameters)} parameters"
        + (f", {allowed:,} allowed" if allowed not in (None, opened.space.size) else "")
        + f"; {opened.sla.max_runs} runs"
    )
    if _compiling():
        say("  compiling the scheduling kernel, once per machine and version (a few seconds)")


def _compiling() -> bool:
    from sim.kernel.jit import compile_needed

    return compile_needed()


def _name(built: Sweep) -> str:
    chosen = built.settings.application
    source = getattr(chosen, "log", None) or getattr(chosen, "table", None)
    return Path(source).name.split(".")[0] if source else "built-in workload"

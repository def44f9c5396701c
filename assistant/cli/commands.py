"""The table of commands: one line each, imported when it is called."""

import typer

from assistant.cli import (
    agents,
    backup,
    browser,
    capacity,
    dashboards,
    doctor,
    effects,
    experiments,
    forecast,
    generating,
    hooks,
    init,
    packing,
    platform,
    play,
    pods,
    queue,
    reproduce,
    resume,
    service,
    sharing,
    simulating,
    steer,
    sweep,
    tabulate,
    tokens,
    try_out,
    what_if,
    workloads,
)


def register(app: typer.Typer) -> None:
    """Put every command on the application."""
    app.command("demo")(sweep.demo)
    app.command("init")(init.init)
    app.command("try")(try_out.try_out)
    app.command("sweep")(sweep.sweep)
    app.command("resume")(resume.resume)
    app.command("steer")(steer.steer)
    app.command("what-if")(what_if.what_if)
    app.command("queue")(queue.queue)
    app.command("suggest")(experiments.suggest)
    app.command("forecast")(forecast.forecast)
    app.command("effects")(effects.effects)
    app.command("report")(experiments.report)
    app.command("journal")(experiments.journal)
    app.command("experiments")(experiments.experiments)
    app.command("simulate")(simulating.simulate)
    app.command("app")(browser.app)
    app.command("serve")(service.serve)
    app.command("work")(service.work)
    app.command("backup")(backup.backup)
    app.command("restore")(backup.put_back)
    app.command("tabulate")(tabulate.tabulate)
    app.command("play")(play.play)
    app.command("doctor")(doctor.doctor)
    _about_workloads(app)
    aiops = typer.Typer(
        help="Tell the simulated AI platform of yours.", no_args_is_help=True, rich_markup_mode=None
    )
    aiops.command("fit")(platform.fit)
    aiops.command("describe")(dashboards.describe)
    aiops.command("validate")(dashboards.validate)
    app.add_typer(aiops, name="platform")
    token = typer.Typer(
        help="Hand out tokens with names, and take them back.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    token.command("make")(tokens.make)
    token.command("list")(tokens.show)
    token.command("revoke")(tokens.revoke)
    app.add_typer(token, name="token")
    hook = typer.Typer(help="Try hooks.", no_args_is_help=True, rich_markup_mode=None)
    hook.command("test")(hooks.try_out)
    app.add_typer(hook, name="hooks")
    studies = typer.Typer(
        help="Study simulated analysts.", no_args_is_help=True, rich_markup_mode=None
    )
    studies.command("run")(agents.run)
    studies.command("reproduce")(reproduce.reproduce)
    studies.command("list")(agents.list_kinds)
    app.add_typer(studies, name="agents")


def _about_workloads(app: typer.Typer) -> None:
    workload = typer.Typer(
        help="Look at workloads, and make your own.", no_args_is_help=True, rich_markup_mode=None
    )
    workload.command("describe")(workloads.describe)
    workload.command("fit")(generating.fit)
    workload.command("generate")(generating.generate)
    workload.command("convert")(generating.convert)
    workload.command("validate")(generating.validate)
    workload.command("pack")(packing.pack)
    workload.command("capacity")(capacity.capacity)
    workload.command("share")(sharing.share)
    workload.command("manifests")(pods.manifests)
    workload.command("retarget")(pods.retarget)
    workload.command("calibrate")(pods.measured)
    workload.command("bundle")(pods.bundle)
    app.add_typer(workload, name="workload")

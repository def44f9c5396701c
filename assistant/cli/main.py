"""The commands together, and the one place where errors become exit codes.

The table of commands: one line each, imported when it is called.
"""

import sys

import typer

from assistant.cli.commands import (
    administration,
    agents,
    ai_platform,
    analysis,
    dry_run,
    experiments,
    hooks,
    pods,
    service,
    simulate,
    steer,
    sweep,
    sweep_file,
    workload_model,
)
from assistant.cli.commands import workload as capacity
from assistant.cli.console import ERR, EXIT_BAD_INPUT, EXIT_INTERRUPTED
from assistant.config.snapshot import version
from assistant.core.errors import AssistantError
from sim.model.errors import SimError
from strategies.space.errors import StrategyError


def register(app: typer.Typer) -> None:
    """Put every command on the application."""
    app.command("demo")(sweep.demo)
    app.command("init")(sweep_file.init)
    app.command("try")(dry_run.dry_run)
    app.command("sweep")(sweep.sweep)
    app.command("resume")(steer.resume)
    app.command("steer")(steer.steer)
    app.command("what-if")(steer.what_if)
    app.command("queue")(experiments.queue)
    app.command("suggest")(experiments.suggest)
    app.command("forecast")(analysis.forecast)
    app.command("effects")(analysis.effects)
    app.command("report")(experiments.report)
    app.command("journal")(experiments.journal)
    app.command("experiments")(experiments.experiments)
    app.command("simulate")(simulate.simulate)
    app.command("app")(service.app)
    app.command("serve")(service.serve)
    app.command("work")(service.work)
    app.command("backup")(administration.backup)
    app.command("restore")(administration.restore_backup)
    app.command("tabulate")(sweep_file.tabulate)
    app.command("play")(ai_platform.play)
    app.command("doctor")(administration.doctor)
    _about_workloads(app)
    aiops = typer.Typer(
        help="Tell the simulated AI platform of yours.", no_args_is_help=True, rich_markup_mode=None
    )
    aiops.command("fit")(ai_platform.fit)
    aiops.command("describe")(ai_platform.describe)
    aiops.command("validate")(ai_platform.validate)
    app.add_typer(aiops, name="platform")
    token = typer.Typer(
        help="Hand out tokens with names, and take them back.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    token.command("make")(administration.make_token)
    token.command("list")(administration.list_tokens)
    token.command("revoke")(administration.revoke)
    app.add_typer(token, name="token")
    hook = typer.Typer(help="Try hooks.", no_args_is_help=True, rich_markup_mode=None)
    hook.command("test")(hooks.run_hook_test)
    app.add_typer(hook, name="hooks")
    studies = typer.Typer(
        help="Study simulated analysts.", no_args_is_help=True, rich_markup_mode=None
    )
    studies.command("run")(agents.run)
    studies.command("reproduce")(agents.reproduce)
    studies.command("list")(agents.list_kinds)
    app.add_typer(studies, name="agents")


def _about_workloads(app: typer.Typer) -> None:
    workload = typer.Typer(
        help="Look at workloads, and make your own.", no_args_is_help=True, rich_markup_mode=None
    )
    workload.command("describe")(capacity.describe)
    workload.command("fit")(workload_model.fit)
    workload.command("generate")(workload_model.generate)
    workload.command("convert")(workload_model.convert)
    workload.command("validate")(workload_model.validate)
    workload.command("pack")(capacity.pack)
    workload.command("capacity")(capacity.capacity)
    workload.command("share")(workload_model.share)
    workload.command("manifests")(pods.manifests)
    workload.command("retarget")(pods.retarget)
    workload.command("calibrate")(pods.calibrate_model)
    workload.command("bundle")(pods.bundle)
    app.add_typer(workload, name="workload")


# Typer carries a Click of its own in some versions; its root error is found through its leaves.
_ClickError: type[Exception] = next(
    kind
    for kind in typer.BadParameter.__mro__
    if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="copperline",
    help="Steer a parameter sweep: propose configurations, run them, learn what matters, report."
    "\n\nExit codes: 0 done; 1 a fault of ours; 2 bad input; 3 nothing feasible found; "
    "4 the run that was tried failed; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
register(app)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"copperline {version()}")
        raise typer.Exit


@app.callback()
def _options(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Steer a parameter sweep: propose configurations, run them, learn what matters, report."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = app(args=arguments, prog_name="copperline", standalone_mode=False)
    except (AssistantError, SimError, StrategyError) as error:
        return _refuse(error)
    except _ClickError as error:
        return _refuse(error)
    except (typer.Abort, KeyboardInterrupt):
        ERR.print("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return 0
    return result if isinstance(result, int) else 0


def _refuse(error: Exception) -> int:
    message = getattr(error, "format_message", error.__str__)()
    name = "" if type(error).__name__ == "NoArgsIsHelpError" else "copperline: "
    ERR.print(f"{name}{message}", soft_wrap=True)
    return EXIT_BAD_INPUT

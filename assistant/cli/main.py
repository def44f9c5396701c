"""The table of commands, and the one place where errors become exit codes.

A command is imported when it is called: `--help` and `--version` import none.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from assistant.cli.console import ERR, EXIT_BAD_INPUT, EXIT_INTERRUPTED
from assistant.core.errors import AssistantError
from assistant.core.version import version
from sim.model.errors import SimError
from strategies.space.errors import StrategyError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "sweep:demo",
        "Steer the built-in example: a generated job log on a cluster of 128 processors.",
    ),
    "init": (
        "sweep_file:init",
        "Write a commented sweep file that runs as it is; nothing is overwritten.",
    ),
    "try": (
        "dry_run:dry_run",
        "Check a sweep, run today's configuration once, and say how long the budget would take.",
    ),
    "sweep": (
        "sweep:sweep",
        "Steer a sweep: today's configuration, a few first runs, then what the strategy says.",
    ),
    "resume": (
        "steer:resume",
        "Go on with a sweep that was interrupted, by Ctrl-C or by anything else.",
    ),
    "steer": (
        "steer:steer",
        "Answer a warning; change the SLA, levels or strategy of a stored experiment: all or none.",
    ),
    "what-if": (
        "steer:what_if",
        "Say what a change would come to: the chance, where runs would go, what would come next.",
    ),
    "queue": (
        "experiments:queue",
        "Show what waits and what runs, the next one in front, and change its order.",
    ),
    "suggest": (
        "experiments:suggest",
        "Say what should run next, and why, without running anything.",
    ),
    "forecast": (
        "analysis:forecast",
        "Say whether the goal will be reached with what is left, and what may come.",
    ),
    "effects": (
        "analysis:effects",
        "Say what each parameter does to the measured value, with intervals and tests.",
    ),
    "report": ("experiments:report", "Write the report of a stored experiment, finished or not."),
    "events": (
        "experiments:print_events",
        "Print what happened, event by event: every decision, run, warning and answer.",
    ),
    "experiments": ("experiments:experiments", "List what is stored, latest first."),
    "simulate": (
        "simulate:simulate",
        "Replay a job log on a cluster and measure waits, responses, slowdowns and utilisation.",
    ),
    "app": ("service:app", "Open the browser UI over the stored experiments; Ctrl-C ends it."),
    "serve": (
        "service:serve",
        "Serve the stored experiments over HTTP: steer, watch and execute them from elsewhere.",
    ),
    "work": (
        "service:work",
        "Execute runs for a service, one at a time, until it is ended; start more for more.",
    ),
    "backup": (
        "administration:backup",
        "Copy the store, whole and at one moment, while it may be in use.",
    ),
    "restore": (
        "administration:restore_backup",
        "Put a backup in the place of the store; what was there is kept beside it.",
    ),
    "tabulate": (
        "sweep_file:tabulate",
        "Simulate every allowed combination of a scheduling sweep, of flood or of maze.",
    ),
    "play": (
        "ai_platform:play",
        "Run one configuration of flood, maze, ai_platform or placement and show what happened.",
    ),
    "doctor": (
        "administration:doctor",
        "Say what is installed, where compiled code and experiments are kept, and what is wrong.",
    ),
    "workload describe": (
        "workload:describe",
        "Say what a job log or a model holds, what stands out, and what reading it had to decide.",
    ),
    "workload fit": (
        "workload_model:fit",
        "Fit a model to a log, for `copperline workload generate`.",
    ),
    "workload generate": (
        "workload_model:generate",
        "Draw a workload from a model; the same for the same model, seed, duration and scale.",
    ),
    "workload convert": (
        "workload_model:convert",
        "Write a workload, or a part of it, in another format, and say what is lost.",
    ),
    "workload validate": (
        "workload_model:validate",
        "Say how like a workload is to a log: distances, quantiles, hours, load, with intervals.",
    ),
    "workload pack": (
        "workload:pack",
        "Say how full servers are when the first job fits nowhere (FFAR), by four algorithms.",
    ),
    "workload capacity": (
        "workload:capacity",
        "Say how many servers suffice in 95 % of the futures of a model, with intervals.",
    ),
    "workload share": (
        "workload_model:share",
        "Make a slightly fictitious model of a log, to give away, and say what that costs.",
    ),
    "workload manifests": (
        "pods:manifests",
        "Write the workloads of a trace as manifests for Kubernetes: PyTorchJob, Katib, Job ...",
    ),
    "workload retarget": (
        "pods:retarget",
        "Tell the pods of a trace which machines of a cluster they are for; jobs and work stay.",
    ),
    "workload calibrate": (
        "pods:calibrate_model",
        "Calibrate a model of joulie by what pods of a trace were measured to do.",
    ),
    "workload bundle": (
        "pods:bundle",
        "Hand the priors of a model of joulie out as a profile bundle, or take one in as a model.",
    ),
    "platform fit": (
        "ai_platform:fit",
        "Fit the statistics of an AI platform to its logs, for `statistics` of a sweep file.",
    ),
    "platform describe": (
        "ai_platform:describe",
        "Say what a trace of an AI platform holds: tasks, waits, use, arrivals, models, over time.",
    ),
    "platform validate": (
        "ai_platform:validate",
        "Say how like a log of an AI platform its simulation is: Q-Q, KS, Wasserstein, hours.",
    ),
    "token make": (
        "administration:make_token",
        "Make a token with a name and print it, this once: only its digest is kept.",
    ),
    "token list": (
        "administration:list_tokens",
        "List the tokens with names: for what, of whom, until when; never the tokens themselves.",
    ),
    "token revoke": (
        "administration:revoke",
        "Let nobody in by a token any more, from now on; the runs that it holds wait again.",
    ),
    "hooks test": (
        "administration:run_hook_test",
        "Start each hook once with a sample of what it would be told, and say what came back.",
    ),
    "agents run": (
        "agents:run",
        "Play a study; one that was interrupted goes on in the same folder.",
    ),
    "agents reproduce": (
        "agents:reproduce",
        "Reproduce the paper's evaluation with simulated analysts, and judge its claims.",
    ),
    "agents list": ("agents:list_kinds", "List the kinds of analyst that a study can name."),
}
"""Name of each command: module and function in `assistant.cli.commands`, first line of its help."""

GROUPS: Mapping[str, str] = {
    "workload": "Look at workloads, and make your own.",
    "platform": "Tell the simulated AI platform of yours.",
    "token": "Hand out tokens with names, and take them back.",
    "hooks": "Try hooks.",
    "agents": "Study simulated analysts.",
}
"""First line of the help of each group of commands."""


class DeferredCommand(TyperCommand):
    """A command that shows its name and help line before its module is imported."""

    def __init__(self, name: str, target: str, line: str) -> None:
        super().__init__(name, help=line, rich_markup_mode=None)
        self.target = target

    def load(self) -> Any:
        """Import the command's module and return the command with its options."""
        module, function = self.target.split(":")
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        commands = import_module(f"assistant.cli.commands.{module}")
        app.command(self.name)(getattr(commands, function))
        return typer.main.get_command(app)


class CommandGroup(TyperGroup):
    """A group of commands that imports a command's module only when the command is called."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options, or None for an unknown name."""
        command = super().get_command(ctx, cmd_name)
        return command.load() if isinstance(command, DeferredCommand) else command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (of the base class)
        """Write the names and help lines of the commands."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.get_short_help_str(limit)) for name, entry in self.commands.items()]
            )


class RootGroup(CommandGroup):
    """The root group with all commands of `COMMANDS`, those of two words in subgroups."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for path, (target, line) in COMMANDS.items():
            *group, name = path.split()
            parent = self._group(*group) if group else self
            parent.add_command(DeferredCommand(name, target, line), name)

    def _group(self, name: str) -> Any:
        if name not in self.commands:
            group = CommandGroup(
                name=name, help=GROUPS[name], no_args_is_help=True, rich_markup_mode=None
            )
            self.add_command(group, name)
        return self.commands[name]


# Typer carries a Click of its own in some versions; its root error is found through its leaves.
_ClickError: type[Exception] = next(
    kind
    for kind in typer.BadParameter.__mro__
    if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="copperline",
    cls=RootGroup,
    help="Steer a parameter sweep: propose configurations, run them, learn what matters, report."
    "\n\nExit codes: 0 done; 1 a fault of ours; 2 bad input; 3 nothing feasible found; "
    "4 the run that was tried failed; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    """Run the command line and exit the process with a documented exit code."""
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

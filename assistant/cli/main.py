"""Registry of the commands, and conversion of their errors into exit codes.

A command is imported when it is called: `--help` and `--version` import none.
"""

import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from assistant.cli.console import (
    ERR,
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    closing_what_is_opened,
)
from assistant.core.errors import AssistantError
from assistant.core.interrupts import Interrupted, end_on_stop_signals, raise_on_stop_signals
from assistant.core.version import version
from sim.model.errors import SimError
from strategies.space.errors import StrategyError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "sweep:demo",
        "Steer the built-in example: a generated job log on a cluster of 88 processors.",
    ),
    "init": (
        "sweep_file:init",
        "Write a commented sweep file that runs as it is; nothing is overwritten.",
    ),
    "from-slurm": (
        "from_slurm:from_slurm",
        "Write the log and the sweep file of a Slurm cluster, and say what was decided.",
    ),
    "try": (
        "dry_run:dry_run",
        "Check a sweep, run the current configuration once, and estimate the time for all runs.",
    ),
    "sweep": (
        "sweep:sweep",
        "Steer a sweep: the current configuration, a few first runs, then suggested runs.",
    ),
    "resume": (
        "steer:resume",
        "Continue an interrupted sweep, for example after Ctrl-C.",
    ),
    "steer": (
        "steer:steer",
        "Answer a warning, or change the SLA, levels or strategy of a stored experiment.",
    ),
    "what-if": (
        "steer:what_if",
        "Preview a change: chance to reach the goal, runs inside regions, next suggestions.",
    ),
    "queue": (
        "experiments:queue",
        "Show running and waiting runs in order of their start, and change the queue.",
    ),
    "suggest": (
        "experiments:suggest",
        "Suggest the next runs, with reasons, without running anything.",
    ),
    "forecast": (
        "analysis:forecast",
        "Forecast whether the sweep will reach its goal, and the best value to expect.",
    ),
    "effects": (
        "analysis:effects",
        "Estimate the effect of each parameter on the measured value, with intervals and tests.",
    ),
    "report": ("experiments:report", "Write the report of an experiment, or compare several."),
    "import": (
        "experiments:import_bundle",
        "Add the experiment of a bundle to the store, or each study of a storage of Optuna.",
    ),
    "events": (
        "experiments:print_events",
        "Print the event log: every decision, run, warning and answer.",
    ),
    "experiments": (
        "experiments:experiments",
        "List the stored experiments with state, progress and best, latest first.",
    ),
    "rename": (
        "experiments:rename",
        "Give a stored experiment another name; its identifier stays.",
    ),
    "tag": (
        "experiments:tag_experiment",
        "Add tags to a stored experiment, or remove them; without any, show them.",
    ),
    "delete": (
        "experiments:delete",
        "Delete a stored experiment: lists leave it out; `--undo` brings it back until `--purge`.",
    ),
    "runs": (
        "runs:runs",
        "List the runs of an experiment: state, levels, measures, time and reason.",
    ),
    "logs": (
        "runs:logs",
        "Print the output of a run's program: of a long stream the first and the last 64 KiB.",
    ),
    "simulate": (
        "simulate:simulate",
        "Replay a job log on a cluster and measure waits, responses, slowdowns and utilisation.",
    ),
    "learn": (
        "learn:learn",
        "Train a scheduler by policy gradient; after Ctrl-C the same command goes on.",
    ),
    "app": ("service:app", "Open the browser UI for the stored experiments; Ctrl-C ends it."),
    "serve": (
        "service:serve",
        "Serve the stored experiments over HTTP, to steer, watch and execute them remotely.",
    ),
    "work": (
        "service:work",
        "Execute runs for a service, one at a time, until the worker is stopped.",
    ),
    "mcp": (
        "mcp:mcp",
        "Offer the stored experiments as tools to a client of the Model Context Protocol.",
    ),
    "backup": (
        "administration:backup",
        "Copy the store as it is at one moment, even while it is in use.",
    ),
    "restore": (
        "administration:restore_backup",
        "Replace the store with a backup; the old store is kept beside it.",
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
        "Show installed packages, the places of compiled code and experiments, and any problems.",
    ),
    "workload describe": (
        "workload:describe",
        "Describe a job log or a model: contents, notable figures, and choices made in reading.",
    ),
    "workload fit": (
        "workload_model:fit",
        "Fit a model to a log, for `copperline workload generate`.",
    ),
    "workload generate": (
        "workload_model:generate",
        "Draw a workload from a model; equal model, seed, duration and scale give equal jobs.",
    ),
    "workload convert": (
        "workload_model:convert",
        "Write a workload, or a part of it, in another format, and list what is lost.",
    ),
    "workload validate": (
        "workload_model:validate",
        "Compare a workload with a log: distances, quantiles, hours, load, with intervals.",
    ),
    "workload pack": (
        "workload:pack",
        "Measure how full servers are when the first job fits nowhere (FFAR), by four algorithms.",
    ),
    "workload capacity": (
        "workload:capacity",
        "Estimate how many servers suffice in 95 % of the futures of a model, with intervals.",
    ),
    "workload share": (
        "workload_model:share",
        "Make a slightly fictitious model of a log for sharing, and show the loss of accuracy.",
    ),
    "workload manifests": (
        "pods:manifests",
        "Write the workloads of a trace as manifests for Kubernetes: PyTorchJob, Katib, Job ...",
    ),
    "workload retarget": (
        "pods:retarget",
        "Assign the pods of a trace to the machines of a cluster; jobs and work do not change.",
    ),
    "workload calibrate": (
        "pods:calibrate_model",
        "Calibrate a model of joulie with measurements of the pods of a trace.",
    ),
    "workload bundle": (
        "pods:bundle",
        "Export the priors of a model of joulie as a profile bundle, or import one as a model.",
    ),
    "platform fit": (
        "ai_platform:fit",
        "Fit the statistics of an AI platform to its logs, for `statistics` of a sweep file.",
    ),
    "platform describe": (
        "ai_platform:describe",
        "Describe a trace of an AI platform: tasks, waits, use, arrivals and models over time.",
    ),
    "platform validate": (
        "ai_platform:validate",
        "Compare a log of an AI platform with its simulation: Q-Q, KS, Wasserstein, hours.",
    ),
    "token make": (
        "administration:make_token",
        "Make a token with a name and print it once; only its digest is stored.",
    ),
    "token list": (
        "administration:list_tokens",
        "List the tokens: name, role, experiment, maker and end, but not the tokens themselves.",
    ),
    "token revoke": (
        "administration:revoke",
        "Revoke a token at once; the runs leased with it return to the queue.",
    ),
    "hooks test": (
        "administration:run_hook_test",
        "Start each hook once with a sample notice, and print its result.",
    ),
    "agents run": (
        "agents:run",
        "Play a study; an interrupted study continues in the same folder.",
    ),
    "agents reproduce": (
        "agents:reproduce",
        "Reproduce the paper's evaluation with simulated analysts, and check its claims.",
    ),
    "agents list": ("agents:list_kinds", "List the kinds of analyst that a study can name."),
}
"""Name of each command: module and function in `assistant.cli.commands`, first line of its help."""

GROUPS: Mapping[str, str] = {
    "workload": "Describe workloads, and generate your own.",
    "platform": "Fit and describe simulated AI platforms.",
    "token": "Make, list and revoke tokens with names.",
    "hooks": "Test hooks.",
    "agents": "Study simulated analysts.",
}
"""First line of the help of each group of commands."""


SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Start": ("demo", "init", "from-slurm", "try"),
    "Steer": ("sweep", "resume", "steer", "what-if", "queue", "suggest"),
    "Results": ("forecast", "effects", "runs", "logs", "events", "report"),
    "Stored experiments": (
        "experiments",
        "rename",
        "tag",
        "delete",
        "import",
        "backup",
        "restore",
    ),
    "Browser and service": ("app", "serve", "work", "mcp", "token", "hooks", "doctor"),
    "Simulator": ("simulate", "learn", "workload", "platform", "play", "tabulate", "agents"),
}
"""Commands and groups under the headings of `copperline --help`; each is in one."""


class SectionedCommand(TyperCommand):
    """A command whose help shows the options with a heading of theirs under it, others last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options of the command."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            is_option = parameter.param_type_name == "option"
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            row = parameter.get_help_record(ctx)
            if row is not None:
                sections.setdefault(heading if is_option else "Arguments", []).append(row)
        for heading in sorted(
            sections, key=lambda heading: {"Arguments": -1, "Options": 1}.get(heading, 0)
        ):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])


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
        app.command(self.name, cls=SectionedCommand)(getattr(commands, function))
        return typer.main.get_command(app)


class CommandGroup(TyperGroup):
    """A group of commands that imports a command's module only when the command is called."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options, or None for an unknown name."""
        command = super().get_command(ctx, cmd_name)
        return command.load() if isinstance(command, DeferredCommand) else command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (of the base class)
        """Write the names and help lines of the commands, under their headings."""
        widest = max(map(len, self.commands))
        limit = formatter.width - 6 - widest
        for heading, names in self.sections().items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name.ljust(widest), self.commands[name].get_short_help_str(limit))
                        for name in names
                    ]
                )

    def sections(self) -> Mapping[str, Collection[str]]:
        """Return the names of the commands by heading."""
        return {"Commands": self.commands}


class RootGroup(CommandGroup):
    """The root group with all commands of `COMMANDS`, those of two words in subgroups."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for path, (target, line) in COMMANDS.items():
            *group, name = path.split()
            parent = self._group(*group) if group else self
            parent.add_command(DeferredCommand(name, target, line), name)

    def sections(self) -> Mapping[str, Collection[str]]:
        """Return the names of the commands by heading."""
        return SECTIONS

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
    help="Steer a parameter sweep: suggest configurations, run them, estimate effects, report."
    "\n\nExit codes: 0 done; 1 internal error; 2 bad input; 3 no feasible configuration; "
    "4 the program failed (a sweep ends, or a dry run); 130 interrupted.",
    no_args_is_help=True,
    add_completion=True,
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
    """Steer a parameter sweep: suggest configurations, run them, estimate effects, report."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process with a documented exit code.

    Ctrl-C, SIGTERM and SIGHUP interrupt a command in the same way, unless it handles them itself.
    """
    raise_on_stop_signals()
    try:
        try:
            code = run(sys.argv[1:] if arguments is None else arguments)
        finally:
            end_on_stop_signals()
    except Interrupted:  # by a further signal, as the command ended
        end_on_stop_signals()
        code = EXIT_INTERRUPTED
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        with closing_what_is_opened():
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
    if type(error).__name__ in ("MissingParameter", "BadOptionUsage"):
        context = getattr(error, "ctx", None)
        message += f" See: {context.command_path} --help" if context is not None else ""
    ERR.print(f"{name}{message}{_reading_options(error)}", soft_wrap=True)
    return EXIT_BAD_INPUT


def _reading_options(error: Exception) -> str:
    """Return how a command sets the reading rules that an error on a job log suggests."""
    if "='" not in str(error):
        return ""
    from assistant.simtools.workload_log import reading_alternatives

    ways = " or ".join(f"--reading {rule}={choice}" for rule, choice in reading_alternatives(error))
    return f" In a command: {ways}." if ways else ""

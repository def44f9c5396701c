"""Hooks on the command line: the options that name them, and ``copperline hooks test``."""

import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.applications.measures import last_lines
from assistant.cli.console import OUT, Json, StoreOption, print_json
from assistant.cli.experiment_view import fresh_session, stored_session
from assistant.config.snapshot import stored_hooks
from assistant.config.sweep_file import check_settings, read_settings
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.hooks.notices import HookCommands, of_test
from assistant.hooks.notifier import HookResult, start_hook

OnWarning = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND", help="Program to start when a warning is given.", show_default=False
    ),
]
OnFinish = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Program to start at the end.", show_default=False),
]
OnFailure = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Program to start when runs fail, or the sweep does.",
        show_default=False,
    ),
]
HookTimeout = Annotated[
    str | None, typer.Option(help="What such a program may take.  [default: 30s]")
]


def hook_tables(
    tables: dict[str, Any],
    on_warning: str | None,
    on_finish: str | None,
    on_failure: str | None,
    timeout: str | None,
) -> dict[str, Any] | None:
    """Return the table of hooks with the options merged into it; None if there are none.

    A program path in an option is relative to the current folder. Raises SettingsError if an
    option cannot be split into a program and its arguments.
    """
    texts = {"on_warning": on_warning, "on_finish": on_finish, "on_failure": on_failure}
    options: dict[str, Any] = {
        name: _argv(text, f"--{name.replace('_', '-')}")
        for name, text in texts.items()
        if text is not None
    }
    if timeout is not None:
        options["timeout"] = timeout
    return {**tables.get("hooks", {}), **options} if options else None


def _argv(text: str, option: str) -> list[str]:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise SettingsError(
            f"{option} '{text}' cannot be split into a program and its arguments: {error}"
        ) from error
    if not argv:
        raise SettingsError(f"{option} names no program; leave it out for no hook")
    return [str(Path(argv[0]).absolute()) if "/" in argv[0] else argv[0], *argv[1:]]


def run_hook_test(
    experiment: Annotated[
        str, typer.Argument(help="A stored experiment, 'latest', or a sweep file (TOML).")
    ] = "latest",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Start each hook once with a sample of what it would be told, and say what came back."""
    if experiment.endswith(".toml"):
        path = Path(experiment)
        hooks = check_settings(read_settings(path), str(path)).hooks.build()
        subject = fresh_session(path).experiment  # checks them
    else:
        subject = stored_session(experiment, store).experiment
        hooks = stored_hooks(subject)
        hooks.check()
    if not hooks.kinds:
        raise SettingsError(
            f"'{experiment}' has no hooks; name some in [hooks], such as "
            'on_finish = ["notify-send", "Copperline"]'
        )
    answers = [_try(subject, hooks, number, as_json) for number in range(len(hooks.kinds))]
    if as_json:
        print_json(
            {"experiment": subject.opened.experiment_id, "hooks": [_row(a) for a in answers]}
        )
    failed = [f"on_{answer.kind}" for answer in answers if answer.fault is not None]
    if failed:
        raise SettingsError(f"{' and '.join(failed)} failed; see above what came back")
    return 0


def _try(subject: Experiment, hooks: HookCommands, number: int, as_json: bool) -> HookResult:
    kind = hooks.kinds[number]
    notice = of_test(subject, kind, time.time())
    if not as_json:
        OUT.print(f"on_{kind}: {json.dumps(hooks.argv(kind))}", soft_wrap=True)
        OUT.print(f"it reads: {notice.as_json().strip()}", soft_wrap=True)
    answer = start_hook(hooks, notice)
    if not as_json:
        output = last_lines(answer.output) or "nothing"
        ended = answer.fault or f"ended well after {answer.wall_s:.1f} s; it said {output}"
        OUT.print(f"on_{kind}: {ended}", soft_wrap=True)
    return answer


def _row(answer: HookResult) -> dict[str, object]:
    return {
        "hook": f"on_{answer.kind}",
        "code": answer.code,
        "wall_s": answer.wall_s,
        "said": last_lines(answer.output),
        "fault": answer.fault,
    }

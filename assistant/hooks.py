"""Hooks: programs of the operator's that are told while nobody watches, as the sweep file has them.

There are three: a warning was given, the experiment is finished, a run or the sweep itself failed.
`assistant.notices` says what they are told and when, `assistant.notify` starts them.
"""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from assistant.applications.fault import why_missing
from assistant.applications.schema import DurationS, Strict
from assistant.errors import SettingsError
from assistant.files import is_folder
from assistant.notices import KINDS, Kind

TIMEOUT_S = 30.0
LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is started when; an empty list starts nothing.

    Args:
        on_warning: program and arguments, handed over as they are; never a shell.
        on_finish: the same, at the end of the experiment.
        on_failure: the same, when a run fails or the sweep ends by an error.
        timeout_s: a hook that is at work longer is ended, with all that it started.
        cwd: the folder that hooks run in.

    Raises:
        SettingsError: a list that names no program, or a timeout that is out of range.
    """

    on_warning: tuple[str, ...] = ()
    on_finish: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    cwd: str = "."

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= LONGEST_S:
            raise SettingsError(
                f"the timeout of hooks is above 0 s and at most a day, not {self.timeout_s:g} s"
            )
        for kind in self.kinds:
            argv = self.argv(kind)
            if not argv[0] or any("\0" in text for text in argv):
                raise SettingsError(
                    f"the hook on_{kind} is a program and its arguments, without NUL characters, "
                    f"not {json.dumps(argv)}"
                )

    def check(self) -> None:
        """Raise SettingsError if one of them cannot be started on this machine."""
        if self.kinds and not is_folder(Path(self.cwd)):
            raise SettingsError(f"the folder '{self.cwd}' that hooks run in is missing")
        search = os.environ.get("PATH", os.defpath)
        for kind in self.kinds:
            reason = why_missing(self.argv(kind)[0], self.cwd, search)
            if reason is not None:
                raise SettingsError(f"the hook on_{kind} cannot be started: {reason}")

    def argv(self, kind: Kind) -> tuple[str, ...]:
        """Return program and arguments of a hook; empty if there is none."""
        return {
            "warning": self.on_warning,
            "finish": self.on_finish,
            "failure": self.on_failure,
        }[kind]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds for which there is a hook."""
        return tuple(kind for kind in KINDS if self.argv(kind))

    def __str__(self) -> str:
        return "\n".join(f"  on_{kind}: {json.dumps(self.argv(kind))}" for kind in self.kinds)


def _words(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(
            "should be a list of a program and its arguments, which no shell reads, as in "
            f"{_split_for_show(value)}"
        )
    if isinstance(value, list) and not value:
        raise ValueError("should name a program; leave it out for no hook")
    return value


def _split_for_show(text: str) -> str:
    try:
        return json.dumps(shlex.split(text) or ["program", "argument"])
    except ValueError:
        return '["program", "argument"]'


Argv = Annotated[list[str] | None, BeforeValidator(_words)]


class HookSettings(Strict):
    """``[hooks]``: what is told of warnings, the end and failures."""

    on_warning: Argv = None
    on_finish: Argv = None
    on_failure: Argv = None
    timeout: Annotated[DurationS, Field(le=LONGEST_S)] = TIMEOUT_S
    cwd: str = "."

    def build(self) -> Hooks:
        """Return the hooks. Raises SettingsError for a list that cannot be one."""
        return Hooks(
            tuple(self.on_warning or ()),
            tuple(self.on_finish or ()),
            tuple(self.on_failure or ()),
            self.timeout,
            self.cwd,
        )


def anchored(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tables of a sweep with the folder of its hooks absolute, seen from ``folder``."""
    hooks = tables.get("hooks")
    if not isinstance(hooks, dict) or not isinstance(hooks.get("cwd", "."), str):
        return dict(tables)
    return {**tables, "hooks": {**hooks, "cwd": str((folder / hooks.get("cwd", ".")).absolute())}}

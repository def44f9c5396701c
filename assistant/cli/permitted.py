"""What a worker executes: of all that a service may send, what its own operator allows.

A recipe names what is to be executed. Whoever can send one to a worker (a steerer where programs
are allowed, or whoever has taken a service over) would otherwise start what he likes on the
worker's machine.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from assistant.applications.schema import CommandSettings
from assistant.errors import NotExecutedHereError, SettingsError
from assistant.events import ExperimentOpened
from assistant.service.admission import SAFE
from assistant.settings import check_settings


@dataclass(frozen=True, slots=True)
class Permitted:
    """What a worker executes besides the applications that are built in and start nothing.

    Args:
        programs: whatever the recipe of an experiment names.
        named: programs that a command may start, by name or absolute path.

    Raises:
        SettingsError: a named program is not there.
    """

    programs: bool = False
    named: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.named:
            if _found(name) is None:
                raise SettingsError(
                    f"--program {name}: there is no such program here; give its name as on the "
                    "PATH, or its absolute path"
                )

    def check(self, opened: ExperimentOpened) -> None:
        """Refuse an experiment that would execute what is not allowed, before any of it is built.

        Raises:
            NotExecutedHereError: it would.
            SettingsError: its recipe is none.
        """
        if self.programs or not opened.recipe:
            return
        try:
            tables = json.loads(opened.recipe)
        except (ValueError, RecursionError) as error:
            raise SettingsError(
                f"the recipe of '{opened.experiment_id}' is none: {error}"
            ) from error
        application = check_settings(tables, opened.experiment_id).application
        if application.kind in SAFE:
            return
        what = f"an application of kind '{application.kind}'"
        way_out = "--allow-programs"
        if isinstance(application, CommandSettings) and application.command:
            why = self._why_not(application)
            if why is None:
                return
            what = f"a command that {why}"
            if why == _starts(application):
                way_out = f"--program {application.command[0]}, or {way_out}"
        raise NotExecutedHereError(
            f"experiment '{opened.experiment_id}' is {what}, which this worker does not execute; "
            f"its operator can allow it with {way_out}"
        )

    def _why_not(self, application: CommandSettings) -> str | None:
        """Return what of a command goes beyond starting a named program; None if nothing does."""
        if application.env:
            return "sets variables of the environment"  # which may name code to load
        if application.inherit:
            return "takes over variables of the environment"  # which may hold secrets
        first = application.command[0] if application.command else ""
        found = None if "{" in first else _found(first)
        if found is None or found not in {_found(name) for name in self.named}:
            return _starts(application)
        return None


def _starts(application: CommandSettings) -> str:
    return f"starts '{application.command[0] if application.command else ''}'"


def _found(name: str) -> str | None:
    """Return the path of a program; None if there is none, or if it hangs on a folder."""
    if not name or ("/" in name and not Path(name).is_absolute()):
        return None
    return shutil.which(name)


ANYTHING = Permitted(programs=True)
"""For workers of one's own store: what stands there was allowed when it was opened."""

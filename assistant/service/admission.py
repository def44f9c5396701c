"""What the settings of a request may name: programs and files, if the operator says so.

Whoever holds the token of a steerer steers experiments; starting programs and reading files is
more than that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from assistant.applications.rest_address import origin_of
from assistant.applications.schema import RestSettings
from assistant.errors import SettingsError
from assistant.settings import FILES_NAMED, check_settings

SAFE = ("scheduling", "lookup", "flood", "maze", "ai_platform", "placement")
"""Applications that start nothing; every other kind is taken for one that does."""


def admitted(
    tables: Mapping[str, Any],
    *,
    programs: bool,
    files: Path | None,
    adapters: Collection[str] = (),
) -> dict[str, Any]:
    """Return the tables of a request with the files that they name where they may be.

    Args:
        tables: of a sweep file, as they came.
        programs: whether they may name programs to start.
        files: folder that they may name files of, relative to it; None is no file, or any file
            where programs may be named.
        adapters: origins of programs over HTTP that they may name where they may name no others;
            see `origin_of`.

    Raises:
        SettingsError: they are wrong, or name what they may not.
    """
    settings = check_settings(tables, "the request")  # the kind may be implied by what is given
    chosen = settings.application
    if isinstance(chosen, RestSettings):
        if not programs and chosen.url is not None and origin_of(chosen.url) not in adapters:
            raise SettingsError(
                f"this service asks no program at {origin_of(chosen.url)} for runs; its operator "
                "can name it with --adapter (or any, with --allow-programs)"
            )
    elif not programs and chosen.kind not in SAFE:
        raise SettingsError(_starts(f"an application of kind '{chosen.kind}'"))
    if not programs and settings.hooks.build().kinds:
        raise SettingsError(_starts("hooks"))
    if settings.executor is not None:
        raise SettingsError(
            "a service gives runs to its workers, and to no executor of a sweep file; leave "
            "[executor] away"
        )
    found = dict(tables)
    if files is None and programs:
        return found
    application = dict(found.get("application", {}))
    for key in FILES_NAMED:
        if application.get(key) is not None:
            application[key] = _placed(application[key], files)
    futures = application.get("futures")
    if futures and futures.get("model") is not None:
        application["futures"] = {**futures, "model": _placed(futures["model"], files)}
    if application:
        found["application"] = application
    if found.get("results"):
        found["results"] = [_placed(path, files) for path in found["results"]]
    return found


def _starts(what: str) -> str:
    return (
        f"{what} would start programs on this machine, which this service does not allow; its "
        "operator can with --allow-programs"
    )


def _placed(named: str, files: Path | None) -> str:
    """Return the absolute path of a file within the folder."""
    if files is None:
        raise SettingsError(
            f"this service reads no files that requests name, such as '{named}'; its operator can "
            "name a folder of them with --files"
        )
    path = (files / named).resolve()
    if not path.is_relative_to(files.resolve()):
        raise SettingsError(
            f"the file '{named}' lies outside of the folder that this service may read"
        )
    return str(path)

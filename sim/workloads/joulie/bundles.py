"""Profile bundles: the priors of a Joulie model as one JSON file, to be handed on and read by hand.

Joulie's page names this as not yet there, so the format is ours: ``format``, ``version``,
``name``, ``source``, ``notes`` and ``parameters``. A bundle may hold some parameters only; those
that it lacks are as published, so that one family's durations are a bundle. Unlike a model's file
it has no digest: people may change it, and what they wrote is checked.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from sim.errors import TraceError, WorkloadError, shown_text
from sim.workloads.joulie.parameters import NAME, JoulieParameters, model_of
from sim.workloads.joulie.reading import parameters_of
from sim.workloads.model import Json, Model, read_told, write_whole

FORMAT = "copperline-joulie-profiles"
VERSION = 1
ENTRIES = ("format", "version", "name", "source", "notes", "parameters")
NEEDED = ("format", "version", "name", "parameters")
MOST_TEXT = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")


def export_bundle(
    model: Model,
    path: str | PathLike[str],
    *,
    name: str | None = None,
    notes: str = "",
    only_changed: bool = False,
) -> None:
    """Write the parameters of a Joulie model as a bundle.

    Args:
        model: a model of the generator ``joulie``.
        path: of a file whose name ends in .json; written whole or not at all.
        name: of the bundle; None takes the file's.
        notes: for people.
        only_changed: leave out what is as published.

    Raises:
        WorkloadError: another generator's model, parameters that cannot be, a name that is none,
            or the file cannot be written.
    """
    file = Path(path)
    if model.generator != NAME:
        raise WorkloadError(
            f"the model is of '{model.generator}'; a bundle has profiles of '{NAME}'."
        )
    if file.suffix != ".json":
        raise WorkloadError(f"{file}: a bundle is written to a file whose name ends in .json.")
    called = file.stem if name is None else name
    if not _NAME.fullmatch(called):
        raise WorkloadError(
            f"the name of a bundle is {shown_text(called)}; allowed are up to 100 letters, digits, "
            "blanks, '.', '_' and '-'."
        )
    parameters = dict(model_of(parameters_of(model)).parameters)
    if only_changed:
        parameters = _changed(parameters, dict(model_of(JoulieParameters()).parameters))
    told = {
        "format": FORMAT,
        "version": VERSION,
        "name": called,
        "source": model.source,
        "notes": notes,
        "parameters": parameters,
    }
    try:
        write_whole(file, (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise WorkloadError(f"{file}: cannot be written ({error.strerror}).") from None


def import_bundle(path: str | PathLike[str]) -> Model:
    """Read a bundle; what it does not tell is as published.

    Returns:
        A model whose source names the bundle and its source.

    Raises:
        TraceError: no such file, no bundle, another version, an unknown entry, or a parameter that
            cannot be, with what is allowed.
    """
    file = Path(path)
    told = _read(file)
    try:
        parameters = _merged(
            asdict(JoulieParameters()), told["parameters"], "a bundle's parameters"
        )
        source = f"Profile bundle '{told['name']}'."
        if told.get("source"):
            source = f"Profile bundle '{told['name']}': {told['source']}"
        return model_of(parameters_of(Model(NAME, parameters)), source)
    except WorkloadError as error:
        raise TraceError(file, expected=str(error)) from None


def _read(file: Path) -> dict[str, Any]:
    told = read_told(file, "bundle", FORMAT, VERSION, _unique)
    for entry in told:
        if entry not in ENTRIES:
            expected = f"a bundle has no entry {shown_text(entry)}; it has {', '.join(ENTRIES)}."
            raise TraceError(file, expected=expected)
    for entry in NEEDED:
        if entry not in told:
            raise TraceError(file, expected=f"a bundle needs the entry '{entry}'.")
    for entry in ("name", "source", "notes"):
        text = told.get(entry, "")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            expected = f"the entry '{entry}' must be a text of at most {MOST_TEXT:,} letters."
            raise TraceError(file, expected=expected)
    if not _NAME.fullmatch(told["name"]):
        expected = "the entry 'name' may have letters, digits, blanks, '.', '_' and '-'."
        raise TraceError(file, expected=expected)
    return told


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {shown_text(twice)} occurs twice")
    return made


def _merged(usual: Json, told: Json, where: str) -> Json:
    """Return what is told over what is usual, table by table; an unknown name is refused."""
    if not isinstance(told, Mapping):
        raise WorkloadError(f"{where} are {shown_text(repr(told))}; they must be a table.")
    made = dict(usual)
    for name, value in told.items():
        if name not in usual:
            known = ", ".join(list(usual)[:80])
            raise WorkloadError(f"{where} have no {shown_text(name)}; known: {known}.")
        deeper = isinstance(usual[name], Mapping) and name != "phases"
        made[name] = _merged(usual[name], value, f"{where}.{name}") if deeper else value
    return made


def _changed(after: Mapping[str, Json], before: Mapping[str, Json]) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for name, value in after.items():
        if value == before[name]:
            continue
        deeper = isinstance(value, Mapping) and name != "phases"
        made[name] = _changed(value, before[name]) if deeper else value
    return made

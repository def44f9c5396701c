"""``copperline init``: a commented sweep file that runs as it is, with an example beside it."""

import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from assistant.cli.console import OUT, Json, print_json
from assistant.errors import SettingsError

_PROGRAMS = {"command": ("command.sh", ".sh"), "function": ("function.py.txt", ".py")}
KINDS = (*_PROGRAMS, "scheduling", "ai_platform", "placement")


def init(
    file: Annotated[Path, typer.Argument(help="The sweep file to write.")] = Path("sweep.toml"),
    kind: Annotated[
        str | None,
        typer.Option(
            help="What is swept: command (the default), function, scheduling, ai_platform or "
            "placement.",
            show_default=False,
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A program over HTTP that says what it can set.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a commented sweep file that runs as it is; nothing is overwritten.

    For a program of your own (command, the default) or a Python function, a small example to
    replace is written beside it. With --adapter a program that speaks HTTP is asked for its
    parameters, and the file holds what it answered.
    """
    if adapter is not None and kind is not None:
        raise SettingsError(
            f"--adapter names a program that speaks HTTP, and --kind {kind} another; give one"
        )
    kind = kind or "command"
    if kind not in KINDS:
        raise SettingsError(f"there is no kind '{kind}' to begin with; take {', '.join(KINDS)}")
    if file.suffix != ".toml":
        raise SettingsError(f"the name of a sweep file ends in .toml, not as in '{file}'")
    texts = _texts(file, kind) if adapter is None else {file: _told_by(adapter, file)}
    _write(texts)
    command = f"copperline sweep {shlex.quote(str(file))}"
    if as_json:
        print_json({"written": [str(path) for path in texts], "next": command})
    else:
        wrote = f"Wrote {' and '.join(map(str, texts))}."
        OUT.print(wrote, markup=False, soft_wrap=True)
        OUT.print(f"Next: {command}", markup=False, soft_wrap=True)
    return 0


def _told_by(adapter: str, file: Path) -> str:
    from assistant.cli.described import described_sweep

    told = described_sweep(adapter)
    command = f"copperline sweep {shlex.quote(str(file))}".replace("\n", " ")
    return (
        f"# A sweep over the program at {adapter}, as it describes itself:\n#     {command}\n\n"
        f"runs = 24                       # the budget\n# workers = 2                   # runs at "
        f"once\n\n{told}"
    )


def _texts(file: Path, kind: str) -> dict[Path, str]:
    templates = files("assistant.cli") / "templates"
    program = re.sub(r"\W|^(?=\d)", "_", file.stem)
    text = (templates / f"{kind}.toml").read_text(encoding="utf-8")
    name = shlex.quote(str(file)).replace("\n", " ")
    texts = {file: text.replace("@PROGRAM@", program).replace("sweep FILE", f"sweep {name}")}
    if kind in _PROGRAMS:
        example, ending = _PROGRAMS[kind]
        texts[file.with_name(program + ending)] = (templates / example).read_text(encoding="utf-8")
    return texts


def _write(texts: dict[Path, str]) -> None:
    """Write all files or none. Raises SettingsError if one exists or cannot be written."""
    made: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as out:
                made.append(path)
                out.write(text)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise SettingsError(
                f"'{error.filename}' exists already and is left as it is; name another file"
            ) from error
        raise SettingsError(f"cannot write '{error.filename}': {error.strerror}") from error

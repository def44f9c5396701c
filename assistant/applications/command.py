"""Any program as an application: an argument list with placeholders, never a shell.

A run is one process. Each element of the list is handed over as one argument, whatever the
values hold; what the program prints or writes becomes measures (`measuring`), and a program that
fails, hangs or prints nonsense is a failed run with a sentence (`child` contains it).
"""

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from assistant.applications.child import KEPT_BYTES, Ended, run_child
from assistant.applications.fault import why_failed, why_missing, why_not_started
from assistant.applications.measuring import (
    WALL,
    JsonFile,
    JsonOutput,
    Patterns,
    from_json,
    measures_of,
)
from assistant.applications.template import Template, written
from assistant.errors import ApplicationError, ProgramError, RunError
from assistant.events import Fact
from assistant.files import is_folder
from assistant.objective import Measure, Objective
from sim.api import format_duration
from strategies import Level, ParameterSpace

Reading = JsonOutput | JsonFile | Patterns
SEED, SCRATCH = "seed", "scratch"
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
_MAX_PROGRAMS = 1_000
MOST_VALUE_BYTES = 100_000
"""Of one level as text. Linux takes 128 KiB per argument, of which the rest may be the user's."""


@dataclass(frozen=True)
class Command:
    """Run a program with the values of a configuration as its arguments.

    Args:
        argv: the program and its arguments; each may hold ``{parameter}``, ``{seed}`` and
            ``{scratch}`` (an empty folder of the run's own, removed afterwards). A brace of its
            own is written twice.
        space: the parameters.
        objective: what is wanted of the measures; `WALL` is how long the run took.
        reading: where the measures are; by default the last line of stdout as JSON, or
            nowhere if the objective looks at `WALL` alone.
        baseline: today's configuration.
        cwd: the folder that the program runs in, and that relative paths are relative to.
        env: additions to the environment; the values may hold placeholders.
        stdin: what the program reads, with placeholders.
        limit_s: wall-clock seconds per run; no limit if None.
        grace_s: seconds between SIGTERM and SIGKILL at the limit.
        unused: whether a parameter that nothing above mentions is allowed.
        noisy: whether it gives other results for the same values; None if unknown.

    Raises:
        ApplicationError: the program cannot be started, a placeholder is unknown, a parameter is
            unused, or the objective asks for what the patterns do not name.
        SpaceError: today's configuration is no point of the space.
    """

    argv: tuple[str, ...]
    space: ParameterSpace
    objective: Objective
    reading: Reading | None = None
    baseline: Mapping[str, Level] | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    limit_s: float | None = None
    grace_s: float = 2.0
    unused: bool = False
    noisy: bool | None = None

    name = "command"
    measures = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", tuple(self.argv))
        object.__setattr__(self, "cwd", str(Path(self.cwd).absolute()))
        if not self.argv or not self.argv[0]:
            raise ApplicationError("a command has at least the name of a program")
        if self.limit_s is not None and not self.limit_s > 0:
            raise ApplicationError(f"the limit of a run is above 0 s, not {self.limit_s}")
        if not is_folder(Path(self.cwd)):
            raise ApplicationError(f"the folder '{self.cwd}' that the command runs in is missing")
        self._check_placeholders()
        self._check_shell()
        self._check_values()
        for program in self._programs():
            self._locate(program)
        if isinstance(self.reading, Patterns):
            for wanted in self.objective.measures:
                if wanted != WALL and wanted not in self.reading.names:
                    named = ", ".join(sorted(self.reading.names))
                    raise ApplicationError(
                        f"the objective looks at '{wanted}', which no pattern names; they name "
                        f"{named} ({WALL} is the time of a run)"
                    )
        check_today(self.space, self.baseline)

    @property
    def deterministic(self) -> bool | None:
        """Whether the same values give the same result, as its user said; None if unknown."""
        return None if self.noisy is None else not self.noisy

    def _check_placeholders(self) -> None:
        parameters = self.space.names
        for reserved in (SEED, SCRATCH):
            if reserved in parameters:
                raise ApplicationError(
                    f"a parameter cannot be named '{reserved}', which has a meaning of its own "
                    "in a command; choose another name"
                )
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise ApplicationError(f"{name!r} cannot be the name of an environment variable")
        everything = self._templates
        for where, template in everything:
            template.check((*parameters, SEED, SCRATCH), where)
        if self._argv[0].names & {SEED, SCRATCH}:
            raise ApplicationError("the program itself cannot depend on {seed} or {scratch}")
        used = frozenset[str]().union(*(t.names for where, t in everything if where != _FILE))
        for name in parameters:
            if name not in used and not self.unused:
                raise ApplicationError(
                    f"the parameter '{name}' changes nothing: neither the command nor env nor "
                    f"stdin holds '{{{name}}}'; put it there, or say unused = true"
                )

    def _check_shell(self) -> None:
        words = [template.text for template in self._argv]
        if Path(words[0]).name not in _SHELLS or "-c" not in words[:-1]:
            return
        script = self._argv[words.index("-c") + 1]
        if script.names - {SEED}:
            raise ApplicationError(
                f"'{{{min(script.names - {SEED})}}}' stands in the text after -c, where a shell "
                "would read it as code; pass it behind as an argument and write $1, as in "
                "['sh', '-c', 'run --size \"$1\"', 'sh', '{size}']"
            )

    def _check_values(self) -> None:
        """Raise ApplicationError for a level that no program can be given."""
        for parameter in self.space.parameters:
            for value in map(written, parameter.levels):
                if len(value.encode("utf-8", "surrogatepass")) > MOST_VALUE_BYTES:
                    raise ApplicationError(
                        f"the parameter '{parameter.name}' has a level of {len(value):,} "
                        f"characters; at most {MOST_VALUE_BYTES:,} bytes can be given to a "
                        "program: name a file instead"
                    )

    @cached_property
    def _argv(self) -> tuple[Template, ...]:
        return tuple(
            Template.parse(text, f"element {number} of the command")
            for number, text in enumerate(self.argv, 1)
        )

    @cached_property
    def _env(self) -> Mapping[str, Template]:
        return {k: Template.parse(v, f"the variable {k} of env") for k, v in self.env.items()}

    @cached_property
    def _stdin(self) -> Template:
        return Template.parse(self.stdin, "stdin")

    @cached_property
    def _file(self) -> Template | None:
        if not isinstance(self.reading, JsonFile):
            return None
        return Template.parse(self.reading.path, _FILE)

    @property
    def _templates(self) -> tuple[tuple[str, Template], ...]:
        return (
            *((f"element {number} of the command", t) for number, t in enumerate(self._argv, 1)),
            *((f"the variable {name} of env", t) for name, t in self._env.items()),
            ("stdin", self._stdin),
            *([(_FILE, self._file)] if self._file is not None else []),
        )

    @property
    def apart(self) -> bool:
        """Whether two runs at once cannot write the same file of measures."""
        if self._file is None:
            return True
        varied = {p.name for p in self.space.parameters if p.n_levels > 1}
        return bool(self._file.names & {SEED, SCRATCH}) or varied <= self._file.names

    def _programs(self) -> Iterator[str]:
        """Yield the programs that the levels name, or the one that is always run."""
        first = self._argv[0]
        chosen = [p for p in self.space.parameters if p.name in first.names]
        for number, levels in enumerate(product(*(p.levels for p in chosen))):
            if number >= _MAX_PROGRAMS:
                return
            yield first.fill({p.name: written(v) for p, v in zip(chosen, levels, strict=True)})

    def _locate(self, program: str) -> None:
        """Raise ApplicationError if this program cannot be started."""
        search = self.env.get("PATH", os.environ.get("PATH", os.defpath))
        reason = why_missing(program, self.cwd, search)
        if reason is not None:
            raise ApplicationError(reason)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The command, where it runs, what it is allowed, and how its measures are read."""
        reading = self._read_from
        limit = "none" if self.limit_s is None else f"{format_duration(self.limit_s)} a run"
        return (
            Fact("Command", shlex.join(self.argv)),
            Fact("Measures", f"{WALL}, the time of a run" if reading is None else str(reading)),
            Fact("Limit", limit),
            Fact("Folder", self.cwd),
            *([Fact("Environment", f"with {', '.join(self.env)}")] if self.env else []),
        )

    @property
    def _read_from(self) -> Reading | None:
        if self.reading is None and set(self.objective.measures) != {WALL}:
            return JsonOutput()
        return self.reading

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Run the program once.

        Raises:
            RunError: it did not start, did not end in time or not with 0, or gave no measures.
        """
        return self._once(values, seed, self.limit_s)

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Run the program once, as `evaluate` does, for at most so many seconds.

        The tighter of this limit and the command's own holds.
        """
        own_s = self.limit_s
        return self._once(values, seed, limit_s if own_s is None else min(own_s, limit_s))

    def _once(
        self, values: Mapping[str, Level], seed: int, limit_s: float | None
    ) -> dict[str, Measure]:
        texts = {name: written(value) for name, value in values.items()} | {SEED: str(seed)}
        if not any(SCRATCH in template.names for _, template in self._templates):
            return self._evaluate(texts, None, limit_s)
        with TemporaryDirectory(prefix="copperline-", ignore_cleanup_errors=True) as scratch:
            return self._evaluate({**texts, SCRATCH: scratch}, scratch, limit_s)

    def _evaluate(
        self, texts: Mapping[str, str], scratch: str | None, limit_s: float | None
    ) -> dict[str, Measure]:
        output = None if self._file is None else _Output(Path(self.cwd, self._file.fill(texts)))
        argv = tuple(template.fill(texts) for template in self._argv)
        try:
            ended = run_child(
                argv,
                cwd=self.cwd,
                env={**os.environ, **{k: t.fill(texts) for k, t in self._env.items()}},
                stdin=self._stdin.fill(texts).encode(),
                limit_s=limit_s,
                grace_s=self.grace_s,
                scratch=scratch,
            )
        except (OSError, ValueError) as error:
            raise ProgramError(why_not_started(argv[0], error), argv) from error
        try:
            reason = why_failed(ended, limit_s)
            if reason is not None:
                raise RunError(reason)
            measures = self._read(ended, output)
        except RunError as error:
            raise ProgramError(
                str(error), argv, ended.code, ended.overtime, ended.stdout.text, ended.stderr.text
            ) from error
        if WALL in self.objective.measures:
            measures.setdefault(WALL, ended.wall_s)
        return measures

    def _read(self, ended: Ended, output: "_Output | None") -> dict[str, Measure]:
        reading = self._read_from
        if reading is None:
            return {}
        given: object
        if isinstance(reading, Patterns):
            stream = ended.stdout if reading.stream == "stdout" else ended.stderr
            given = reading.of(stream.text)
        elif output is not None:
            given = output.value()
        elif isinstance(reading, JsonOutput):
            given = reading.of(ended.stdout)
        return measures_of(given, self.objective, "the program")


_FILE = "the file of measures"


class _Output:
    """The file that a run shall write: what lies there from before does not count.

    Its time is set back before the run, so that even an equal file, rewritten in the same
    instant, is known to be new.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with suppress(OSError):
            if stat.S_ISREG(path.stat().st_mode):
                os.utime(path, ns=(0, 0))
        self._before = self._mark()

    def _mark(self) -> tuple[int, int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def value(self) -> object:
        """Return the value in the file. Raises RunError if the run did not write one."""
        where = f"the file '{self._path}'"
        try:
            found = self._path.stat()
            if self._mark() == self._before:
                raise RunError(f"{where} was not written by this run; it is older")
            if not stat.S_ISREG(found.st_mode):
                raise RunError(f"{where} is no ordinary file")
            if found.st_size > KEPT_BYTES:
                raise RunError(
                    f"{where} is {found.st_size:,} bytes; at most {KEPT_BYTES:,} are read as JSON"
                )
            text = self._path.read_bytes().decode("utf-8-sig", "replace")
        except FileNotFoundError as error:
            raise RunError(f"the program did not write {where}") from error
        except (OSError, ValueError) as error:
            raise RunError(f"{where} cannot be read: {error}") from error
        return from_json(text, where)


def check_today(space: ParameterSpace, today: Mapping[str, Level] | None) -> None:
    """Raise SpaceError if today's configuration is no allowed point of the space."""
    if today is not None:
        space.check(space.from_values(today))

"""Application "command": an external program with placeholders in its arguments; no shell.

A run is one process (`child_process`). Each element of the list is passed as one argument,
whatever the values hold; what the program prints or writes becomes measures (`measures`). A
program that fails, hangs or prints no measures is a failed run with a reason. This module also
has the templates of the arguments, the words among them that a shell runs as code (also behind
programs that start other programs), the environment of the program, and the reasons of failures.
"""

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from assistant.applications.child_process import ProcessResult, run_child
from assistant.applications.measures import (
    LEAST_MATCH_S,
    MATCH_S,
    WALL,
    JsonFile,
    JsonOutput,
    MeasuredFile,
    MeasureFollower,
    Patterns,
    last_lines,
    measures_of,
)
from assistant.applications.process_limits import MOST_PROCESSES, ProcessLimits
from assistant.applications.switches import (
    SwitchGroup,
    check_switches,
    switch_texts,
    unused_parameters,
)
from assistant.core.errors import ApplicationError, ProgramError, RunError, RunStoppedError
from assistant.core.events import Fact
from assistant.core.files import is_file, is_folder
from assistant.core.objective import Measure, Objective
from assistant.core.ports import Environment, OutputKeeper, RunControl
from assistant.core.run import RunOutput
from sim.api import format_duration
from strategies import Level, ParameterSpace
from strategies.space.parameter import is_name

USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR")
"""Variables that every program inherits from the environment of Copperline."""

SECRET = "COPPERLINE_*TOKEN*"  # noqa: S105 - the name of environment variables
"""Pattern of the variables that no program inherits."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables from which numerical libraries read the number of their threads."""

SHELLS = frozenset((
    "ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "rbash", "sh", "tcsh", "yash",
    "zsh",
))  # fmt: skip
LAUNCHERS = frozenset((
    "busybox", "chroot", "chrt", "command", "doas", "env", "exec", "ionice", "mpiexec", "mpirun",
    "nice", "nohup", "numactl", "prlimit", "runuser", "setpriv", "setsid", "srun", "stdbuf",
    "sudo", "systemd-run", "taskset", "time", "timeout", "unshare", "xargs",
))  # fmt: skip
"""Programs that start the program in their arguments."""

_NAME = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_CLUES = (
    ("error while loading shared libraries", "LD_LIBRARY_PATH"),
    ("ModuleNotFoundError", "PYTHONPATH"),
)


def check_patterns(patterns: Iterable[str]) -> None:
    """Raise ApplicationError if a text is not a valid pattern of environment variable names."""
    for pattern in patterns:
        if not pattern or "=" in pattern or not pattern.isprintable():
            raise ApplicationError(
                f"inherit lists variables, such as ['CUDA_*', 'LD_LIBRARY_PATH'], not {pattern!r}"
            )


def inherited_variables(environment: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables that are usual or match a pattern, without tokens of Copperline.

    >>> inherited_variables({"PATH": "/bin", "CUDA_HOME": "/cuda", "A": "b"}, ["CUDA_*"])
    {'PATH': '/bin', 'CUDA_HOME': '/cuda'}
    """
    allowed = (*USUAL, *patterns)
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in allowed) and not fnmatchcase(name, SECRET)
    }


def thread_variables(cores: int | None) -> dict[str, str]:
    """Return the environment variables that limit the threads of numerical libraries."""
    return {} if cores is None else dict.fromkeys(THREADS, str(cores))


def missing_variable_hint(
    words: str, environment: Mapping[str, str], passed: Mapping[str, str]
) -> str:
    """Return a hint about a variable that a failed program did not inherit, or an empty text.

    >>> missing_variable_hint("KeyError: 'KEY'", {"KEY": "1"}, {})
    "it did not get the variable KEY; set inherit = ['KEY'] in [application], or set it in env"
    """
    withheld = {n for n in environment if n not in passed and not fnmatchcase(n, SECRET)}
    candidates = [name for name in _NAME.findall(words) if name in withheld]
    candidates += [name for clue, name in _CLUES if clue in words and name in withheld]
    if not candidates:
        return ""
    return (
        f"it did not get the variable {candidates[0]}; set inherit = ['{candidates[0]}'] in "
        "[application], or set it in env"
    )


_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """A text with ``{name}`` placeholders, parsed into literal parts and placeholder names.

    >>> Template.parse("--size={size}x{{1}}", "the command").fill({"size": "a b; rm"})
    '--size=a b; rmx{1}'
    """

    text: str
    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, text: str, where: str) -> "Template":
        """Parse a template text, named ``where`` in error messages. Raises ApplicationError."""
        if "\0" in text:
            raise ApplicationError(f"{where} contains a NUL character; programs cannot receive it")
        parts: list[tuple[str, str | None]] = []
        literal, position = "", 0
        for token in _TOKEN.finditer(text):
            literal += text[position : token.start()]
            position = token.end()
            name = token.group(1)
            if token.group() in ("{{", "}}"):
                literal += token.group()[0]
            elif name is not None and is_name(name):
                parts.append((literal, name))
                literal = ""
            else:
                raise ApplicationError(
                    f"{where}, '{text}', contains '{token.group()}', which is not a parameter "
                    "name in braces; write a literal brace twice, {{ or }}"
                )
        parts.append((literal + text[position:], None))
        return cls(text, tuple(parts))

    @property
    def names(self) -> frozenset[str]:
        """The names of the placeholders."""
        return frozenset(name for _, name in self.parts if name is not None)

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the text with every placeholder replaced by its value in ``texts``, unchanged."""
        return "".join(
            literal + (texts[name] if name is not None else "") for literal, name in self.parts
        )

    def check(self, parameters: Iterable[str], where: str) -> None:
        """Raise ApplicationError if a placeholder is not one of ``parameters``."""
        names = sorted(parameters)
        for name in sorted(self.names - set(names)):
            close = get_close_matches(name, names, 1)
            suggestion = f"; did you mean '{{{close[0]}}}'?" if close else "."
            raise ApplicationError(
                f"{where}, '{self.text}', contains '{{{name}}}', which is not a "
                f"parameter{suggestion} Known: {', '.join(names)}."
            )


def active_arguments(arguments: Sequence[Template], texts: Mapping[str, str]) -> Sequence[Template]:
    """Return the arguments without those that have a placeholder without a text.

    Such a placeholder is that of an inactive parameter. If the argument is nothing else, an option
    before it is left out too.
    """
    active: list[Template] = []
    for template in arguments:
        if template.names <= texts.keys():
            active.append(template)
        elif len(template.parts) == 2 and not any(literal for literal, _ in template.parts):
            before = active[-1] if active else template
            if before.text.startswith("-") and "=" not in before.text and not before.names:
                active.pop()
    return active


def value_text(value: Level) -> str:
    """Return a parameter value as text for a program, with booleans as ``true`` and ``false``.

    >>> value_text(0.1), value_text(16), value_text(True), value_text("a b")
    ('0.1', '16', 'true', 'a b')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def why_missing(program: str, cwd: str, search: str) -> str | None:
    """Return the reason why a program cannot be started, or None if it can."""
    if "/" not in program:
        if shutil.which(program, path=search) is None:
            here = is_file(Path(cwd) / program)
            hint = f"; did you mean './{program}'?" if here else ""
            return f"there is no program '{program}' on the PATH{hint}"
        return None
    path = Path(cwd) / program
    if not is_file(path):
        return f"there is no program '{program}' in the folder '{cwd}'"
    if not os.access(path, os.X_OK):
        return (
            f"the program '{program}' is not executable; run chmod +x "
            f"{shlex.quote(str(path))}, or name its interpreter, as in ['sh', '{program}', ...]"
        )
    return None


def last_output_lines(ended: ProcessResult) -> str:
    """Return the last lines of stderr, or of stdout if stderr is empty, joined into one line."""
    return last_lines(ended.stderr.text) or last_lines(ended.stdout.text)


def why_failed(ended: ProcessResult, limit_s: float | None, hint: str = "") -> str | None:
    """Return the reason why a program failed, with its last output, or None if it succeeded."""
    words = last_output_lines(ended)
    details = f"; {hint}" * bool(hint)
    details += f"; its last output: {words}" if words else "; it printed nothing"
    if ended.passed:
        return f"{ended.passed}{details}"
    if ended.overtime:
        return f"stopped at the limit of {format_duration(limit_s)}{details}"
    if ended.code < 0:
        return f"the program was ended by {_signal_name(-ended.code)}{details}"
    if ended.code > 0:
        return f"the program ended with exit code {ended.code}{details}"
    return None


def why_not_started(program: str, error: Exception) -> str:
    """Return an error message for a program that the operating system did not start."""
    if isinstance(error, OSError) and error.strerror == "Exec format error":
        return (
            f"the program '{program}' could not be started: it is neither a binary for this "
            "machine nor a script whose first line names its interpreter, such as #!/bin/sh"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the program '{program}' could not be started: {reason}"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


Reading = JsonOutput | JsonFile | Patterns
SEED, SCRATCH = "seed", "scratch"
_MAX_PROGRAMS = 1_000
MOST_VALUE_BYTES = 100_000
"""Largest level as text. Linux allows 128 KiB per argument; the user's own text needs the rest."""


@dataclass(frozen=True)
class Program:
    """An application that runs a program once per configuration, with the values as arguments.

    Args:
        argv: program and arguments; each may hold ``{parameter}``, ``{seed}`` and ``{scratch}`` (an
            empty folder of the run, removed afterwards). A literal brace is written twice. An
            argument with an inactive parameter is left out, and if it is nothing but the
            placeholder, so is an option (a word that begins with a dash) before it.
        objective: objective over its measures; `WALL` is the duration of a run.
        reading: source of the measures; by default the last line of stdout as JSON, or none if the
            objective needs only `WALL`.
        cwd: working folder, also the base of relative paths.
        env: environment variables; values may hold placeholders, and one with an inactive parameter
            is not set.
        inherit: patterns of variables inherited in addition to `USUAL`.
        stdin: standard input, with placeholders; lines with an inactive parameter are left out.
        limit_s: wall-clock seconds per run; no limit if None.
        grace_s: seconds between SIGTERM and SIGKILL at the limit.
        processes: largest number of processes at once.
        file_bytes: largest file that the program may write; no limit if None.
        environment: cores and memory of a run: the cores set the variables `THREADS`, the memory is
            a limit.
        unused: whether a parameter without a placeholder is allowed.
        noisy: whether equal values give different results; None if unknown.
        switches: parameters that are groups of switches. An argument that is nothing but the
            placeholder of a group is left out where none is on.

    Raises:
        ApplicationError: the program cannot be started, a placeholder is unknown, a parameter is
            unused, or the patterns do not name a measure of the objective.
        SpaceError: the baseline is not a point of the space.
    """

    argv: tuple[str, ...]
    space: ParameterSpace
    objective: Objective
    reading: Reading | None = None
    baseline: Mapping[str, Level] | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    inherit: Sequence[str] = ()
    stdin: str = ""
    limit_s: float | None = None
    grace_s: float = 2.0
    processes: int = MOST_PROCESSES
    file_bytes: int | None = None
    environment: Environment = field(default_factory=Environment)
    unused: bool = False
    noisy: bool | None = None
    switches: tuple[SwitchGroup, ...] = ()

    name = "command"
    measures = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", tuple(self.argv))
        object.__setattr__(self, "inherit", tuple(self.inherit))
        check_patterns(self.inherit)
        object.__setattr__(self, "cwd", str(Path(self.cwd).absolute()))
        if not self.argv or not self.argv[0]:
            raise ApplicationError("a command needs at least the name of a program")
        if self.limit_s is not None and not self.limit_s > 0:
            raise ApplicationError(f"the limit of a run must be above 0 s, not {self.limit_s}")
        _ = self._limits  # raises for impossible limits
        if not is_folder(Path(self.cwd)):
            raise ApplicationError(f"the working folder '{self.cwd}' of the command is missing")
        self._check_placeholders()
        self._check_shell()
        self._check_values()
        for program in self._programs():
            self._locate(program)
        if isinstance(self.reading, Patterns):
            for measure in self.objective.measures:
                if measure != WALL and measure not in self.reading.names:
                    pattern_names = ", ".join(sorted(self.reading.names))
                    raise ApplicationError(
                        f"the objective uses '{measure}', which no pattern names; they name "
                        f"{pattern_names} ({WALL} is the time of a run)"
                    )
        check_baseline(self.space, self.baseline)

    @property
    def deterministic(self) -> bool | None:
        """Whether equal parameter values give equal results, or None if the user did not say."""
        return None if self.noisy is None else not self.noisy

    def _check_placeholders(self) -> None:
        parameters = self.space.names
        for reserved in (SEED, SCRATCH):
            if reserved in parameters:
                raise ApplicationError(
                    f"a parameter cannot have the name '{reserved}', which is reserved in a "
                    "command; choose another name"
                )
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise ApplicationError(f"{name!r} cannot be the name of an environment variable")
        everything = self._templates
        switches = [name for group in self.switches for name in group.names]
        if switches:
            check_switches(self.switches, (*parameters, SEED, SCRATCH))
        for where, template in everything:
            template.check((*parameters, *switches, SEED, SCRATCH), where)
        if self._argv[0].names & {SEED, SCRATCH, *switches}:
            raise ApplicationError(
                "the program itself cannot depend on {seed}, {scratch} or a switch of one_of"
            )
        conditional = {p.name for p in self.space.parameters if p.when}
        for where, template in (everything[0], *(each for each in everything if each[0] == _FILE)):
            if template.names & conditional:
                raise ApplicationError(
                    f"{where} contains '{{{min(template.names & conditional)}}}', a parameter with "
                    "a condition ('when'), which is not in every run; use another one"
                )
        used = frozenset[str]().union(*(t.names for where, t in everything if where != _FILE))
        missing = [name for name in parameters if name not in used and not self.unused]
        if self.switches:
            missing = unused_parameters(self.switches, missing, used)
        for name in missing:
            raise ApplicationError(
                f"the parameter '{name}' has no effect: the command, env and stdin do not "
                f"contain '{{{name}}}'; add it there, or set unused = true"
            )

    def _check_shell(self) -> None:
        for number in sorted(code_words([template.text for template in self._argv])):
            names = self._argv[number].names - {SEED}
            if names:
                raise ApplicationError(
                    f"'{{{min(names)}}}' is in element {number + 1} of the command, "
                    "which a shell runs as code; pass it as an argument after the text and write "
                    "$1, as in ['sh', '-c', 'run --size \"$1\"', 'sh', '{size}']"
                )

    def _check_values(self) -> None:
        for parameter in self.space.parameters:
            for value in map(value_text, parameter.levels):
                if len(value.encode("utf-8", "surrogatepass")) > MOST_VALUE_BYTES:
                    raise ApplicationError(
                        f"the parameter '{parameter.name}' has a level of {len(value):,} "
                        f"characters; at most {MOST_VALUE_BYTES:,} bytes can be passed to a "
                        "program: use a file instead"
                    )

    @cached_property
    def _limits(self) -> ProcessLimits:
        return ProcessLimits(self.processes, self.environment.memory_bytes, self.file_bytes)

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
        """Whether parallel runs always write their measures to different files."""
        if self._file is None:
            return True
        varied = {p.name for p in self.space.parameters if p.n_levels > 1}
        return bool(self._file.names & {SEED, SCRATCH}) or varied <= self._file.names

    def _programs(self) -> Iterator[str]:
        first = self._argv[0]
        parameters = [p for p in self.space.parameters if p.name in first.names]
        for number, levels in enumerate(product(*(p.levels for p in parameters))):
            if number >= _MAX_PROGRAMS:
                return
            yield first.fill(
                {p.name: value_text(v) for p, v in zip(parameters, levels, strict=True)}
            )

    def _locate(self, program: str) -> None:
        search = self.env.get("PATH", os.environ.get("PATH", os.defpath))
        reason = why_missing(program, self.cwd, search)
        if reason is not None:
            raise ApplicationError(reason)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The command line, working folder, limits and source of the measures, for display."""
        reading = self._read_from
        most = "no time limit" if self.limit_s is None else f"{format_duration(self.limit_s)} a run"
        variables = [*(["inherits " + ", ".join(self.inherit)] if self.inherit else [])]
        variables += [f"with {', '.join(self.env)}"] if self.env else []
        return (
            Fact("Command", shlex.join(self.argv)),
            Fact("Measures", f"{WALL}, the time of a run" if reading is None else str(reading)),
            Fact("Limit", f"{most}, {self._limits}"),
            Fact("Folder", self.cwd),
            *([Fact("Environment", "; ".join(variables))] if variables else []),
        )

    def command_line(self, values: Mapping[str, Level], seed: int) -> tuple[str, ...]:
        """Return the program with its arguments for one run, with ``{scratch}`` as it stands."""
        return self._arguments(self._texts(values, seed) | {SCRATCH: f"{{{SCRATCH}}}"})

    def _texts(self, values: Mapping[str, Level], seed: int) -> dict[str, str]:
        """Return the texts of all placeholders except ``{scratch}``."""
        texts = {name: value_text(value) for name, value in values.items()} | {SEED: str(seed)}
        return texts | switch_texts(self.switches, values) if self.switches else texts

    def _arguments(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        filled = [
            (template, template.fill(texts)) for template in active_arguments(self._argv, texts)
        ]
        lone = {f"{{{group.parameter}}}" for group in self.switches}
        return tuple(text for template, text in filled if text or template.text not in lone)

    def _input(self, texts: Mapping[str, str]) -> str:
        """Return the standard input, without the lines that have an inactive parameter."""
        if self._stdin.names <= texts.keys():
            return self._stdin.fill(texts)
        lines = (Template.parse(line, "stdin") for line in self.stdin.splitlines(keepends=True))
        return "".join(line.fill(texts) for line in lines if line.names <= texts.keys())

    @property
    def _read_from(self) -> Reading | None:
        if self.reading is None and set(self.objective.measures) != {WALL}:
            return JsonOutput()
        return self.reading

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Run the program once. Raises RunError if it fails, times out or gives no measures."""
        return self._once(values, seed, self.limit_s)

    def evaluate_within(
        self, values: Mapping[str, Level], seed: int, limit_s: float
    ) -> Mapping[str, Measure]:
        """Run the program once, within ``limit_s`` or its own time limit if that is shorter."""
        return self._once(values, seed, self._tighter_s(limit_s))

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        """Run the program once, and report its intermediate results to the run control.

        Raises:
            StoppedError: the run control ended the run.
            RunError: as `evaluate` does.
        """
        return self._once(values, seed, self._tighter_s(limit_s), oversight)

    def _tighter_s(self, limit_s: float | None) -> float | None:
        return min((s for s in (self.limit_s, limit_s) if s is not None), default=None)

    def _once(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl | None = None,
    ) -> dict[str, Measure]:
        texts = self._texts(values, seed)
        if not any(SCRATCH in template.names for _, template in self._templates):
            return self._evaluate(texts, None, limit_s, oversight)
        with TemporaryDirectory(prefix="copperline-", ignore_cleanup_errors=True) as scratch:
            return self._evaluate({**texts, SCRATCH: scratch}, scratch, limit_s, oversight)

    def _evaluate(
        self,
        texts: Mapping[str, str],
        scratch: str | None,
        limit_s: float | None,
        oversight: RunControl | None,
    ) -> dict[str, Measure]:
        output = None
        if self._file is not None and isinstance(self.reading, JsonFile):
            output = MeasuredFile(Path(self.cwd, self._file.fill(texts)), self.reading.format)
        argv = self._arguments(texts)
        assigned = {
            name: template.fill(texts)
            for name, template in self._env.items()
            if template.names <= texts.keys()
        }
        env = (
            inherited_variables(os.environ, self.inherit)
            | thread_variables(self.environment.cores)
            | assigned
        )
        following = (
            None
            if oversight is None
            else MeasureFollower(self._read_from, self.objective, oversight, output)
        )
        try:
            ended = run_child(
                argv,
                cwd=self.cwd,
                env=env,
                stdin=self._input(texts).encode(),
                limit_s=limit_s,
                grace_s=self.grace_s,
                scratch=scratch,
                limits=self._limits,
                company=following,
            )
        except (OSError, ValueError) as error:
            raise ProgramError(why_not_started(argv[0], error), argv) from error
        if isinstance(oversight, OutputKeeper):
            oversight.keep_output(RunOutput(ended.stdout.excerpt, ended.stderr.excerpt))
        if ended.stopped:
            raise RunStoppedError("the run was stopped early on request")
        try:
            reason = why_failed(ended, limit_s, self._hint(ended, env))
            if reason is not None:
                raise RunError(reason)
            measures = self._read(ended, output, limit_s)
        except RunError as error:
            raise ProgramError(
                str(error), argv, ended.code, ended.overtime, ended.stdout.text, ended.stderr.text,
                bool(ended.passed),
            ) from error  # fmt: skip
        if WALL in self.objective.measures:
            measures.setdefault(WALL, ended.wall_s)
        return measures

    def _hint(self, ended: ProcessResult, env: Mapping[str, str]) -> str:
        if ended.code == 0 or ended.overtime or ended.passed:
            return ""
        words = last_output_lines(ended)
        return self._limits.hint(ended.code, words) or missing_variable_hint(words, os.environ, env)

    def _read(
        self, ended: ProcessResult, output: MeasuredFile | None, limit_s: float | None
    ) -> dict[str, Measure]:
        reading = self._read_from
        if reading is None:
            return {}
        output_value: object
        if isinstance(reading, Patterns):
            stream = ended.stdout if reading.stream == "stdout" else ended.stderr
            left_s = MATCH_S if limit_s is None else max(limit_s - ended.wall_s, LEAST_MATCH_S)
            output_value = reading.of(stream.text, left_s)
        elif output is not None:
            output_value = output.value()
        elif isinstance(reading, JsonOutput):
            output_value = reading.of(ended.stdout)
        return measures_of(output_value, self.objective, "the program")


_FILE = "the file of measures"


def check_baseline(space: ParameterSpace, baseline: Mapping[str, Level] | None) -> None:
    """Raise SpaceError if the current configuration is not an allowed point of the space."""
    if baseline is not None:
        space.check(space.from_values(baseline))


def code_words(words: Sequence[str]) -> frozenset[int]:
    """Return the indices of the words that a shell runs as code, or that ``env -S`` splits.

    >>> sorted(code_words(["sh", "-ec", "run $1", "sh", "{x}"]))
    [2]
    >>> sorted(code_words(["/usr/bin/env", "A=1", "bash", "-lc", "run {x}"]))
    [4]
    >>> sorted(code_words(["env", "-S", "sh -c", "run {x}"]))
    [2, 3]
    """
    code: set[int] = set()
    program = Path(words[0]).name
    origin = [(word, index) for index, word in enumerate(words)]
    if program == "env":
        origin = _expanded(origin, code)
    starts = range(len(origin)) if program in LAUNCHERS else range(1)
    for start in starts:
        if Path(origin[start][0]).name in SHELLS:
            code |= _script(origin, start + 1)
    return frozenset(code)


def _expanded(words: list[tuple[str, int]], code: set[int]) -> list[tuple[str, int]]:
    """Return the words of ``env`` with the text of ``-S`` split, and note that text."""
    for at in range(1, len(words)):
        word, index = words[at]
        text: str | None = None
        rest = words[at + 1 :]
        if word.startswith("--split-string"):
            text = word.partition("=")[2]
        elif word.startswith("-") and not word.startswith("--") and "S" in word:
            text = word.partition("S")[2]
        elif "=" not in word and not word.startswith("-"):
            return words  # the program
        if text is None:
            continue
        if not text and rest:
            (text, index), rest = rest[0], rest[1:]
        code.add(index)
        try:
            parts = shlex.split(text)
        except ValueError:  # env refuses it too
            parts = text.split()
        return [*words[:at], *((part, index) for part in parts), *rest]
    return words


def _script(words: list[tuple[str, int]], at: int) -> set[int]:
    """Return the index of the code of a shell whose arguments begin at ``at``, if it has any."""
    has_code, n_values = False, 0
    while at < len(words):
        word, index = words[at]
        at += 1
        if n_values:
            n_values -= 1
        elif word in ("--command", "--init-command"):
            return {words[at][1]} if at < len(words) else set()
        elif word.startswith(("--command=", "--init-command=")):
            return {index}
        elif word in ("--rcfile", "--init-file"):
            n_values = 1
        elif word == "--":
            return {words[at][1]} if has_code and at < len(words) else set()
        elif word.startswith("--"):
            continue
        elif len(word) > 1 and word[0] in "-+":
            has_code = has_code or (word[0] == "-" and "c" in word)
            n_values = sum(word.count(letter) for letter in "oO")
        else:
            return {index} if has_code else set()
    return set()

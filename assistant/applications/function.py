"""A Python function as an application, called with one keyword argument per parameter.

It returns a number (if the objective needs one measure), a series, or a mapping of measures. An
exception is a failed run. Its prints go to stderr, because stdout belongs to Copperline.
"""

import hashlib
import importlib
import importlib.util
import inspect
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from assistant.applications.measures import WALL, measures_of
from assistant.applications.program import SEED, check_baseline
from assistant.applications.switches import SwitchGroup, check_switches, switch_arguments
from assistant.core.errors import ApplicationError, RunError
from assistant.core.events import Fact
from assistant.core.files import is_file
from assistant.core.objective import Measure, Objective
from strategies import Level, ParameterSpace
from strategies.space.parameter import argument_name


@dataclass(frozen=True)
class Function:
    """An application that calls a Python function once per run.

    Args:
        function: function that takes every parameter by name, and ``seed`` if it has that argument.
            Dashes and dots of a name are underscores in the argument, unless only ``**values`` of
            the function takes it. Arguments of inactive parameters are left out, so they need
            default values.
        objective: objective over its result; `WALL` is the duration of the call.
        reference: ``module:function`` if it was found by name; see `load`.
        folder: first folder in which the module was searched.
        noisy: whether equal values give different results; None if unknown.
        switches: parameters that are groups of switches; the function gets a truth value for each
            switch in place of the group.

    With several workers the function must be at the top of a module, because other processes import
    it by name.

    Raises:
        ApplicationError: the function cannot be called with these parameters.
        SpaceError: the baseline is not a point of the space.
    """

    function: Callable[..., object]
    space: ParameterSpace
    objective: Objective
    baseline: Mapping[str, Level] | None = None
    reference: str = ""
    folder: str = ""
    noisy: bool | None = None
    switches: tuple[SwitchGroup, ...] = ()

    name = "function"
    measures = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ApplicationError(
                f"{self._called} is not a function: {type(self.function).__name__}"
            )
        if inspect.iscoroutinefunction(self.function):
            raise ApplicationError(
                f"{self._called} is an async function; use one that returns its result"
            )
        if SEED in self.space.names:
            raise ApplicationError(
                "a parameter cannot be named 'seed', which is the random seed of a run; choose "
                "another name"
            )
        if self.switches:
            self._check_switches()
        self._check_call()
        check_baseline(self.space, self.baseline)

    @classmethod
    def load(
        cls,
        reference: str,
        space: ParameterSpace,
        objective: Objective,
        *,
        baseline: Mapping[str, Level] | None = None,
        folder: Path | str = "",
        noisy: bool | None = None,
        switches: tuple[SwitchGroup, ...] = (),
    ) -> "Function":
        """Import ``module:function`` and return its application. Raises ApplicationError."""
        where = str(Path(folder).absolute()) if folder else ""
        function = _find(reference, where)
        return cls(function, space, objective, baseline, reference, where, noisy, switches)

    @property
    def deterministic(self) -> bool | None:
        """Whether equal parameter values give equal results, or None if the user did not say."""
        return None if self.noisy is None else not self.noisy

    @property
    def _called(self) -> str:
        return f"'{self.reference or getattr(self.function, '__qualname__', self.function)}'"

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.function)
        except (TypeError, ValueError):  # some built-in functions have no signature
            return None

    @property
    def _takes_seed(self) -> bool:
        return self._signature is not None and SEED in self._signature.parameters

    def _check_switches(self) -> None:
        check_switches(self.switches, (*self.space.names, SEED))
        for group in self.switches:
            for switch in set(group.switches) - set(group.names):
                raise ApplicationError(
                    f"the switch '{switch}' of the parameter '{group.parameter}' cannot be an "
                    "argument of a function; write a name, such as "
                    f"'{switch.strip('-').replace('-', '_') or 'quick'}'"
                )

    def _check_call(self) -> None:
        if self._signature is None:
            return
        values: dict[str, Level] = dict.fromkeys(self.space.names, "")
        plain = [argument_name(name) for name in values]
        twice = next((name for name in plain if plain.count(name) > 1), None)
        if twice is not None:
            raise ApplicationError(
                f"two parameters would be the argument '{twice}' of {self._called}; rename one"
            )
        names = [*self._arguments(values, 0)]
        try:
            self._signature.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise ApplicationError(
                f"{self._called} takes {self._signature} and cannot be called with the parameters "
                f"{', '.join(names)} by name: {error}"
            ) from error
        always: dict[str, Level] = {p.name: "" for p in self.space.parameters if not p.when}
        try:
            self._signature.bind(**self._arguments(always, 0))
        except TypeError as error:
            raise ApplicationError(
                f"{self._called} takes {self._signature}, and parameters with a condition ('when') "
                f"are not in every call; give their arguments a default value, such as None: "
                f"{error}"
            ) from error

    def _arguments(self, values: Mapping[str, Level], seed: int) -> dict[str, Level]:
        """Return the keyword arguments of a call."""
        named = switch_arguments(self.switches, values) if self.switches else dict(values)
        taken = () if self._signature is None else self._signature.parameters
        arguments = {
            plain if (plain := argument_name(name)) in taken or not self._takes_any else name: value
            for name, value in named.items()
        }
        return arguments | ({SEED: seed} if self._takes_seed else {})

    @property
    def _takes_any(self) -> bool:
        parameters = () if self._signature is None else self._signature.parameters.values()
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The name of the function and the first line of its docstring."""
        words = (inspect.getdoc(self.function) or "").partition("\n")[0]
        where = f" in {self.folder}" if self.folder else ""
        seed = "gets the seed of the run" if self._takes_seed else "gets no seed"
        return (
            Fact("Function", f"{self._called.strip(chr(39))}{where}; {seed}"),
            *([Fact("What it does", words)] if words else []),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Call the function once. Raises RunError if it fails or returns no measures."""
        arguments = self._arguments(values, seed)
        started_s = time.perf_counter()
        try:
            with redirect_stdout(sys.stderr):
                returned = self.function(**arguments)
        except RunError:
            raise
        except (Exception, SystemExit) as error:
            raise RunError(f"{self._called} raised {_told(error)}") from error
        wall_s = time.perf_counter() - started_s
        alone = returned is None and set(self.objective.measures) == {WALL}
        measures = {} if alone else measures_of(returned, self.objective, self._called)
        if WALL in self.objective.measures:
            measures.setdefault(WALL, wall_s)
        return measures

    def __reduce__(self) -> tuple[Callable[..., "Function"], tuple[object, ...]]:
        """Pickle by reference if there is one, else as Python does it."""
        if self.reference:
            by_name = (self.reference, self.space, self.objective, self.baseline, self.folder)
            return _load, (*by_name, self.noisy, self.switches)
        try:
            pickle.dumps(self.function)
        except (pickle.PicklingError, AttributeError, TypeError, ValueError) as error:
            raise ApplicationError(
                f"{self._called} cannot be sent to other processes ({error}); define it at the "
                "top of a module, or use one worker"
            ) from error
        arguments = (self.function, self.space, self.objective, self.baseline, "", "")
        return Function, (*arguments, self.noisy, self.switches)


def _load(
    reference: str,
    space: ParameterSpace,
    objective: Objective,
    baseline: Mapping[str, Level] | None,
    folder: str,
    noisy: bool | None,
    switches: tuple[SwitchGroup, ...],
) -> Function:
    return Function.load(
        reference, space, objective,
        baseline=baseline, folder=folder, noisy=noisy, switches=switches,
    )  # fmt: skip


def _find(reference: str, folder: str) -> Callable[..., object]:
    module_name, colon, name = reference.partition(":")
    parts = [*module_name.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ApplicationError(f"'{reference}' is not of the form module:function")
    try:
        with redirect_stdout(sys.stderr):
            module = _module(module_name, folder)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            searched = f"in '{folder}' or among the installed packages" if folder else "here"
            raise ApplicationError(
                f"there is no module '{error.name}' {searched}; '{reference}' names it"
            ) from error
        raise ApplicationError(f"the module '{module_name}' raised {_told(error)}") from error
    except (Exception, SystemExit) as error:
        raise ApplicationError(f"the module '{module_name}' raised {_told(error)}") from error
    target: object = module
    for part in name.split("."):
        if not hasattr(target, part):
            functions = sorted(
                key for key, value in vars(module).items()
                if inspect.isfunction(value) and not key.startswith("_")
            )  # fmt: skip
            raise ApplicationError(
                f"the module '{module_name}' has no '{name}'; its functions are "
                f"{', '.join(functions) or 'none'}"
            )
        target = getattr(target, part)
    if not callable(target):
        raise ApplicationError(f"'{reference}' is not a function: {type(target).__name__}")
    return target


def _module(name: str, folder: str) -> ModuleType:
    """Load ``name`` from its file in the folder under a private name, else import it.

    The folder comes last in ``sys.path`` for imports of the module itself, so that no file in it
    can replace an installed package.
    """
    if folder and folder not in sys.path:
        sys.path.append(folder)
    path = Path(folder, f"{name}.py") if folder else None
    if path is None or not is_file(path):
        importlib.invalidate_caches()
        return importlib.import_module(name)
    private = f"_own_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{name}"
    spec = importlib.util.spec_from_file_location(private, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"'{path}' cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module


def _told(error: BaseException) -> str:
    """Return an error in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{': ' if words else ''}{words}{place}"

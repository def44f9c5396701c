"""One peer search in a process of its own; this file is all it needs of ours.

``PYTHON search_child.py NAME`` says `{"version": ...}` or `{"missing": ...}`, then answers one
line of JSON with one: ``start`` (parameters, seed, budget, options, and the rows where
only they can be run) begins an episode, ``ask`` proposes, ``tell`` gives a result or a failure. A
parameter is an ordinal whole number (the rank of its level) or a categorical one. Answers carry the
CPU seconds that the peer took.

What a peer does with failures, duplicates and its first runs is its own default, except where its
programming interface leaves it to the caller:

* Optuna (TPE, GPSampler): both samplers leave out failed trials, and GPSampler pruned ones too,
  so a failure told as `FAIL` may be proposed for ever: it gets the worst value so far. Our own
  sampler for Optuna learns from `FAIL`;
* SMAC3 2.4.1: status `CRASHED`, whose cost has to be a number: the worst value so far (at its own
  default, infinity, its forest cannot be fitted);
* Kernel Tuner's own value for a failure, the greatest number;
* Nevergrad and BoTorch have no failed runs: the worst value so far. Nevergrad has several
  parameters for a range of levels.

`OPTIONS` has the other ways, so that the choice can be measured again.

A failure before the first result is told once there is one.
"""

import contextlib
import json
import logging
import math
import os
import random
import sys
import tempfile
import time
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any, Literal, Protocol

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

Parameter = tuple[Literal["ordinal", "categorical"], int]
"""Kind and number of levels, 2 or more."""

N_START = 10
CHUNK = 2048


class Search(Protocol):
    """A search with the interface of its package: minimise over level numbers."""

    def ask(self) -> list[int] | None:
        """Return the next proposal, None when it has no more."""
        ...

    def tell(self, value: float | None) -> None:
        """Give the result of the last proposal, None if it failed."""
        ...


class Worst:
    """The worst value so far in the place of failures; they wait for the first value."""

    def __init__(self) -> None:
        self._worst: float | None = None
        self._waiting: list[Any] = []

    def told(self, proposal: Any, value: float | None) -> list[tuple[Any, float, bool]]:
        """Return what can be told now: proposal, value, whether it failed."""
        if value is None:
            self._waiting.append(proposal)
            ready: list[tuple[Any, float, bool]] = []
        else:
            self._worst = value if self._worst is None else max(self._worst, value)
            ready = [(proposal, value, False)]
        if self._worst is not None:
            ready += [(one, self._worst, True) for one in self._waiting]
            self._waiting.clear()
        return ready


class Optuna:
    """Optuna's samplers by ask and tell (Akiba et al. 2019), defaults but the seed.

    ``failed``: "worst" tells a failure as a completed trial with the worst value so far, "pruned"
    and "fail" with that state.
    """

    def __init__(self, sampler: str, parameters: list[Parameter], seed: int, failed: str) -> None:
        optuna = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        ours = sampler == "CopperlineSampler"
        make = getattr(import_module("copperline") if ours else optuna.samplers, sampler)
        self._study = optuna.create_study(sampler=make(seed=seed))
        self._domains = {
            f"p{i}": optuna.distributions.IntDistribution(0, n - 1)
            if kind == "ordinal"
            else optuna.distributions.CategoricalDistribution(list(range(n)))
            for i, (kind, n) in enumerate(parameters)
        }
        states = optuna.trial.TrialState
        self._state = {"worst": None, "pruned": states.PRUNED, "fail": states.FAIL}[failed]
        self._worst = Worst()

    def ask(self) -> list[int]:
        """See `Search.ask`."""
        self._trial = self._study.ask(self._domains)
        return [self._trial.params[name] for name in self._domains]

    def tell(self, value: float | None) -> None:
        """See `Search.tell`."""
        if value is None and self._state is not None:
            self._study.tell(self._trial, state=self._state)
            return
        for trial, told, _ in self._worst.told(self._trial, value):
            self._study.tell(trial, told)


class Smac:
    """SMAC3's facade for hyper-parameters by ask and tell (Lindauer et al. 2022).

    Defaults but the seed, and that a run is deterministic, as it is here: otherwise it would
    repeat runs to average them. Nothing is saved between runs. It says that a space is exhausted
    when a few draws bring nothing new, on small ones before they are; the episode ends then.
    """

    def __init__(self, parameters: list[Parameter], seed: int, budget: int) -> None:
        space = import_module("ConfigSpace")
        smac = import_module("smac")
        history = import_module("smac.runhistory")
        logging.getLogger("smac").setLevel(logging.ERROR)
        self._value, self._status = history.TrialValue, history.StatusType
        self._exhausted = import_module("smac.main.exceptions").ConfigurationSpaceExhaustedException
        configurations = space.ConfigurationSpace(seed=seed)
        self._names = [f"p{i}" for i in range(len(parameters))]
        for name, (kind, n) in zip(self._names, parameters, strict=True):
            configurations.add(
                space.Integer(name, (0, n - 1))
                if kind == "ordinal"
                else space.Categorical(name, list(range(n)))
            )
        self._folder = tempfile.TemporaryDirectory()
        scenario = smac.Scenario(
            configurations,
            deterministic=True,
            n_trials=budget,
            seed=seed,
            output_directory=Path(self._folder.name),
        )
        self._smac = smac.HyperparameterOptimizationFacade(
            scenario, None, overwrite=True, logging_level=logging.ERROR
        )
        self._worst = Worst()

    def ask(self) -> list[int] | None:
        """See `Search.ask`."""
        try:
            self._info = self._smac.ask()
        except (StopIteration, self._exhausted):
            return None
        return [int(self._info.config[name]) for name in self._names]

    def tell(self, value: float | None) -> None:
        """See `Search.tell`."""
        for info, told, failed in self._worst.told(self._info, value):
            status = self._status.CRASHED if failed else self._status.SUCCESS
            self._smac._optimizer.tell(info, self._value(cost=told, status=status), save=False)


class Nevergrad:
    """Nevergrad by ask and tell (Bennet et al. 2021): NGOpt, its own choice, or a named optimiser.

    ``ordinal``: "scalar" makes an ordinal parameter a scalar cast to integers, "transition" an
    ordered choice, "choice" one without an order.
    """

    def __init__(
        self, optimizer: str, parameters: list[Parameter], seed: int, budget: int, ordinal: str
    ) -> None:
        ng = import_module("nevergrad")
        make = {
            "scalar": lambda n: ng.p.Scalar(lower=0, upper=n - 1).set_integer_casting(),
            "transition": lambda n: ng.p.TransitionChoice(range(n)),
            "choice": lambda n: ng.p.Choice(range(n)),
        }[ordinal]
        domain = ng.p.Tuple(
            *(make(n) if kind == "ordinal" else ng.p.Choice(range(n)) for kind, n in parameters)
        )
        domain.random_state.seed(seed)
        self._optimizer = ng.optimizers.registry[optimizer](domain, budget=budget)
        self._worst = Worst()

    def ask(self) -> list[int]:
        """See `Search.ask`."""
        self._candidate = self._optimizer.ask()
        return [int(level) for level in self._candidate.value]

    def tell(self, value: float | None) -> None:
        """See `Search.tell`."""
        for candidate, told, _ in self._worst.told(self._candidate, value):
            self._optimizer.tell(candidate, told)


class Botorch:
    """BoTorch (Balandat et al. 2020): a single-task GP and log EI (Ament et al. 2023).

    Ten first runs at random without repeats. Ordinal parameters are ranks scaled to [0, 1], others
    one-hot. The outcome is standardised, and the acquisition is evaluated at every combination of
    the full product that was not run, so none is repeated; at the given rows, where only they can
    be run.
    """

    def __init__(self, parameters: list[Parameter], seed: int, rows: list[list[int]]) -> None:
        self._numpy = np = import_module("numpy")
        self._torch = torch = import_module("torch")
        torch.manual_seed(seed)
        shape = [n for _, n in parameters]
        if rows:
            ids = np.array(rows)
        else:
            ids = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
        columns = []
        for i, (kind, n) in enumerate(parameters):
            if kind == "ordinal":
                columns.append(ids[:, [i]] / (n - 1))
            else:
                columns.append(np.eye(n)[ids[:, i]])
        self._ids = ids
        self._points = torch.tensor(np.concatenate(columns, axis=1), dtype=torch.float64)
        self._free = np.ones(len(ids), dtype=bool)
        rng = np.random.default_rng(seed)
        self._start = rng.permutation(len(ids))[:N_START].tolist()
        self._values: dict[int, float | None] = {}

    def ask(self) -> list[int] | None:
        """See `Search.ask`."""
        if not self._free.any():
            return None
        known = [value for value in self._values.values() if value is not None]
        if self._start:
            self._last = self._start.pop(0)
        elif not known:  # nothing to model yet
            free = self._numpy.flatnonzero(self._free)
            self._last = int(free[int(self._torch.randint(len(free), (1,)))])
        else:
            self._last = self._best_by_log_ei(max(known))
        self._free[self._last] = False
        return [int(level) for level in self._ids[self._last]]

    def tell(self, value: float | None) -> None:
        """See `Search.tell`."""
        self._values[self._last] = value

    def _best_by_log_ei(self, worst: float) -> int:
        torch, np = self._torch, self._numpy
        models, fit = import_module("botorch.models"), import_module("botorch.fit")
        gpytorch = import_module("gpytorch")
        outcome = import_module("botorch.models.transforms.outcome").Standardize(m=1)
        run = list(self._values)
        values = [worst if value is None else value for value in self._values.values()]
        y = -torch.tensor(values, dtype=torch.float64)[:, None]
        model = models.SingleTaskGP(self._points[run], y, outcome_transform=outcome)
        fit.fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = import_module("botorch.acquisition").LogExpectedImprovement(
            model, best_f=y.max()
        )
        free = np.flatnonzero(self._free)
        with torch.no_grad():
            parts = [
                acquisition(self._points[free[i : i + CHUNK]][:, None, :])
                for i in range(0, len(free), CHUNK)
            ]
        return int(free[int(torch.cat(parts).argmax())])


class KernelTuner:
    """A strategy of Kernel Tuner (van Werkhoven 2019), in a thread that waits for each result.

    At its defaults but the seed; a failure is the value that its own cost function gives for one. A
    configuration that it evaluates again is answered from memory and is no run, as there.
    """

    def __init__(
        self, strategy: str, parameters: list[Parameter], seed: int, rows: list[list[int]]
    ) -> None:
        tune_params = {f"p{i}": list(range(n)) for i, (_, n) in enumerate(parameters)}
        make_space = import_module("kernel_tuner.searchspace").Searchspace
        if rows:
            named = {i: dict(zip(tune_params, row, strict=True)) for i, row in enumerate(rows)}
            cache = {"tune_params": tune_params, "cache": named}
            space = make_space(None, None, None, from_cache=cache)
        else:
            space = make_space(tune_params, [], 1024)
        random.seed(seed)
        import_module("numpy").random.seed(seed)
        module = import_module(f"kernel_tuner.strategies.{strategy}")
        module.CostFunc = lambda *_, **__: self._value
        self._proposals: SimpleQueue[list[int] | None] = SimpleQueue()
        self._results: SimpleQueue[float] = SimpleQueue()
        self._values: dict[tuple[int, ...], float] = {}
        options = SimpleNamespace(strategy_options={}, verbose=False)
        Thread(target=self._run, args=(module.tune, space, options), daemon=True).start()

    def ask(self) -> list[int] | None:
        """See `Search.ask`."""
        return self._proposals.get()

    def tell(self, value: float | None) -> None:
        """See `Search.tell`."""
        self._results.put(sys.float_info.max if value is None else value)

    def _run(self, tune: Any, space: Any, options: Any) -> None:
        with contextlib.suppress(AttributeError):  # of `results`, which only its cost function has
            tune(space, None, options)
        self._proposals.put(None)

    def _value(self, configuration: Any, **_: Any) -> float:
        levels = tuple(int(level) for level in configuration)
        if levels not in self._values:
            self._proposals.put(list(levels))
            self._values[levels] = self._results.get()
        return self._values[levels]


PACKAGES = {
    "copperline-sampler": "optuna",
    "tpe": "optuna",
    "gpsampler": "optuna",
    "smac": "smac",
    "nevergrad": "nevergrad",
    "nevergrad-discrete": "nevergrad",
    "botorch": "botorch",
    "kernel-tuner-vndx": "kernel_tuner",
    "kernel-tuner-greywolf": "kernel_tuner",
}
OPTUNA = {
    "copperline-sampler": "CopperlineSampler",
    "tpe": "TPESampler",
    "gpsampler": "GPSampler",
}
KERNEL_TUNER = {
    "kernel-tuner-vndx": "gen_hybrid_vndx",
    "kernel-tuner-greywolf": "gen_adaptive_tabu_greywolf",
}
"""The strategies of "Automated Algorithm Design For Auto-Tuning Optimizers" in Kernel Tuner 1.5."""
OPTIONS = {
    "copperline-sampler": {"failed": "fail"},
    "tpe": {"failed": "worst"},
    "gpsampler": {"failed": "worst"},
    "nevergrad": {"ordinal": "choice"},
    "nevergrad-discrete": {"ordinal": "transition"},
}
"""Options of the peers. The defaults are what served each best on measured tables."""


def make(
    name: str,
    parameters: list[Parameter],
    seed: int,
    budget: int,
    options: dict[str, str],
    rows: list[list[int]],
) -> Search:
    """Return a new search of that name."""
    if name in OPTUNA:
        return Optuna(OPTUNA[name], parameters, seed, **options)
    if name == "smac":
        return Smac(parameters, seed, budget)
    if name in KERNEL_TUNER:
        return KernelTuner(KERNEL_TUNER[name], parameters, seed, rows)
    if name == "botorch":
        return Botorch(parameters, seed, rows)
    optimizer = "NGOpt" if name == "nevergrad" else "DiscreteOnePlusOne"
    return Nevergrad(optimizer, parameters, seed, budget, **options)


def main() -> None:
    """Answer until the input ends."""
    name = sys.argv[1]
    out = sys.stdout
    sys.stdout = sys.stderr  # a package that prints must not speak for us
    warnings.simplefilter("ignore")

    def say(answer: dict[str, Any]) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    package = PACKAGES[name]
    try:
        import_module(package)
    except ImportError as error:
        say({"missing": f"{error}"})
        return
    if name in ("gpsampler", "botorch"):
        try:
            import_module("torch").set_num_threads(1)
        except ImportError as error:
            say({"missing": f"{error}"})
            return
    say({"version": f"{package} {version(package)}"})
    search: Search | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        before_s = time.process_time()
        if "start" in asked:
            told = asked["start"]
            options = OPTIONS.get(name, {}) | told["options"]
            parameters = [(kind, n) for kind, n in told["parameters"]]
            search = make(
                name, parameters, told["seed"], told["budget"], options, told.get("rows", [])
            )
            answer: dict[str, Any] = {}
        elif search is None:
            raise SystemExit("start comes first")
        elif "ask" in asked:
            answer = {"levels": search.ask()}
        else:
            search.tell(asked["tell"])
            answer = {}
        say(answer | {"cpu_s": time.process_time() - before_s})


if __name__ == "__main__":
    main()

"""Sweeper of Hydra: ``python train.py --multirun hydra/sweeper=copperline lr=0.1,0.01``.

Hydra finds this module by its place. It executes it before it is among ``sys.modules``: annotations
of dataclasses cannot be texts. `parameter_of` reads one override; `CopperlineSweeper` asks a
study of `copperline` for the next runs and lets Hydra's launcher execute them.
"""

import keyword
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, Transformer
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    import copperline as cl

N_LEVELS = 21
"""Levels of an interval."""

RESULTS = "optimization_results.yaml"
"""File of the best values, with the keys that Hydra's sweepers of Optuna and Ax write."""

_log = logging.getLogger(__name__)


@dataclass
class CopperlineSweeperConf:
    """Settings ``hydra.sweeper``; they mean what the arguments of `copperline.study` do.

    Args:
        n_jobs: runs that the launcher gets at once.
        params: overrides by name, such as ``{lr: "0.1,0.01"}``; those of the command line win.
    """

    _target_: str = "hydra_plugins.copperline_sweeper.CopperlineSweeper"
    runs: int = 60
    minimise: str | None = None
    maximise: str | None = None
    n_jobs: int = 1
    seed: int = 0
    noisy: bool | None = None
    name: str = "${hydra.job.name}"
    store: str | None = None
    params: dict[str, str] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="copperline", node=CopperlineSweeperConf, provider="copperline"
)


@dataclass(frozen=True, slots=True)
class SweptParameter:
    """A swept override: its key, and the text that sets each of its levels."""

    key: str
    texts: Mapping[Any, str]

    def override(self, level: object) -> str:
        """Return the override of one run."""
        return f"{self.key}={self.texts[level]}"


def parameter_of(override: Override) -> SweptParameter:
    """Return the levels of a swept override: numbers if all its values are, else texts."""
    key = str(override.get_key_element())
    swept = override.value()
    if isinstance(swept, IntervalSweep):
        return SweptParameter(key, {x: repr(x) for x in _levels(swept)})
    texts = [str(text) for text in override.sweep_string_iterator()]
    values = list(override.sweep_iterator(transformer=Transformer.identity))
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return SweptParameter(key, dict(zip(values if numeric else texts, texts, strict=True)))


def _levels(interval: IntervalSweep) -> list[float]:
    """Return evenly spaced levels of an interval, in logarithms if it has the tag ``log``."""
    low, high = float(interval.start or 0), float(interval.end or 0)
    steps = [step / (N_LEVELS - 1) for step in range(N_LEVELS)]
    if "log" not in interval.tags:
        return [float(f"{low + (high - low) * step:.12g}") for step in steps]
    if min(low, high) <= 0:
        raise HydraException(f"the interval from {low} to {high} has the tag log; begin above 0")
    first, last = math.log(low), math.log(high)
    return [float(f"{math.exp(first + (last - first) * step):.12g}") for step in steps]


def parameter_names(keys: Sequence[str]) -> list[str]:
    """Return names of parameters for keys: the keys, where a parameter can have such a name.

    >>> parameter_names(["optimiser.lr", "+model/kind", "lambda"])
    ['optimiser.lr', 'model.kind', 'lambda_']
    """
    names: list[str] = []
    for key in keys:
        name = re.sub(r"[^\w.-]+", ".", key).strip(".-")
        while keyword.iskeyword(name) or name in names:
            name += "_"
        names.append(name)
    return names


class CopperlineSweeper(Sweeper):
    """Sweeper that searches the values of the overrides in few runs."""

    def __init__(self, params: Mapping[str, str], n_jobs: int, **settings: Any) -> None:
        self._params, self._n_jobs, self._settings = params, n_jobs, settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Make the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the search, and write its result and report into the folder of the sweep.

        Raises HydraException: nothing is swept, or a setting is wrong.
        """
        import copperline as cl

        context, config, launcher = self.hydra_context, self.config, self.launcher
        if context is None or config is None or launcher is None:
            raise HydraException("the sweeper is not set up; Hydra calls setup first")
        fixed, swept = self._overrides(context, arguments)
        if not swept:
            raise HydraException("no override is swept; write such as lr=0.1,0.01 or n=range(1,9)")
        names = parameter_names([parameter.key for parameter in swept])
        parameters = dict(zip(names, swept, strict=True))
        settings = dict(self._settings)
        if settings["minimise"] is None and settings["maximise"] is None:
            settings["minimise"] = "value"
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(config, folder / "multirun.yaml")
        try:
            with cl.study(
                {name: list(p.texts) for name, p in parameters.items()},
                workers=self._n_jobs,
                **settings,
            ) as study:
                self._search(study, launcher, fixed, parameters)
                _write(study, parameters, folder)
        except (cl.AssistantError, cl.StrategyError) as error:
            raise HydraException(str(error)) from error

    def _overrides(
        self, context: HydraContext, arguments: list[str]
    ) -> tuple[list[str], list[SweptParameter]]:
        """Return the overrides of every run, and the swept ones."""
        parser = OverridesParser.create(config_loader=context.config_loader)
        texts = [f"{key}={text}" for key, text in self._params.items()] + arguments
        overrides = {o.get_key_element(): o for o in parser.parse_overrides(texts)}
        fixed = [o.input_line for o in overrides.values() if not o.is_sweep_override()]
        swept = [parameter_of(o) for o in overrides.values() if o.is_sweep_override()]
        return [line for line in fixed if line is not None], swept

    def _search(
        self,
        study: "cl.Study",
        launcher: Launcher,
        fixed: list[str],
        parameters: Mapping[str, SweptParameter],
    ) -> None:
        n_started = 0
        while runs := self._asked(study):
            jobs = [
                [*fixed, *(parameters[name].override(run[name]) for name in run)] for run in runs
            ]
            self.validate_batch_is_legal(jobs)
            returns = launcher.launch(jobs, initial_job_idx=n_started)
            n_started += len(jobs)
            for run, result in zip(runs, returns, strict=True):
                _tell(study, run, result)

    def _asked(self, study: "cl.Study") -> "list[cl.Run]":
        runs: list[cl.Run] = []
        while len(runs) < self._n_jobs and (run := study.ask()) is not None:
            runs.append(run)
        return runs


def _tell(study: "cl.Study", run: "cl.Run", result: JobReturn) -> None:
    if result.status is not JobStatus.COMPLETED:
        error = result._return_value
        study.tell(run, failed=f"{type(error).__name__}: {error}"[:300])
        return
    from copperline import AssistantError

    try:
        study.tell(run, result.return_value)
    except AssistantError as error:
        study.tell(run, failed=str(error)[:300])


def _write(study: "cl.Study", parameters: Mapping[str, SweptParameter], folder: Path) -> None:
    """Write the best values and the report, and log both."""
    study.report(folder / "report.html")
    best = study.best
    if best is None:
        _log.warning("no run gave a result: %s", study.finished)
        return
    values = {parameters[name].key.lstrip("+"): level for name, level in best.values.items()}
    found = {
        "name": "copperline",
        "best_evaluated_params": values,
        "best_evaluated_result": best.value,
    }
    OmegaConf.save(OmegaConf.create(found), folder / RESULTS)
    _log.info("Best: %s. %s Report: %s", best, best.sentence, folder / "report.html")

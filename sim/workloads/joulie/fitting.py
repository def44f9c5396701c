"""A Joulie model of a workload: what its columns tell is learnt, all else stays as published.

Joulie's page names this as not yet there. From any log are learnt the rate and the hours of
submissions and their bursts; from one with tasks (Philly's jobs, openb's pods) also GPUs, durations
and requests of families that rules assign; from one of Joulie's own everything but work rates and
sensitivities, which need measurements (see `sim.workloads.joulie.calibration`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from sim.errors import WorkloadError
from sim.model.hours import WallClock
from sim.model.workload import Workload
from sim.policies.kinds import Option
from sim.workloads.joulie.fit_arrivals import fit_arrivals
from sim.workloads.joulie.fit_families import MANY_CORES, SHORT_S, fit_by_rules
from sim.workloads.joulie.fit_told import fit_told, has_families
from sim.workloads.joulie.learning import Learnt
from sim.workloads.joulie.parameters import JoulieParameters, model_of
from sim.workloads.joulie.reading import parameters_of
from sim.workloads.model import Model

FEWEST_JOBS = 50

KNOBS: tuple[Option, ...] = (
    Option(
        "least_rows", 30, "fewer rows than this leave a law as published",
        lowest=2, highest=1e9, is_whole=True,
    ),
    Option(
        "short_s", SHORT_S, "a GPU job that runs for less is debug_eval, where nothing else tells",
        lowest=0, highest=1e9, unit="s",
    ),
    Option(
        "many_cores", MANY_CORES, "a job without GPUs with so many is cpu_analytics, likewise",
        lowest=0, highest=1e9,
    ),
    Option(
        "untold_gpu_ratio", 0.0, "share of jobs with GPUs for a log that tells of none",
        lowest=0, highest=1,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Fitting:
    """A model and where its numbers come from.

    Attributes:
        model: the model.
        learnt: every number that data changed, with its interval.
        kept: sentences about what stays as published, and why.
        dispersion: of hourly submissions, 1 is Poisson; NaN where hours are unknown.
    """

    model: Model
    learnt: tuple[Learnt, ...]
    kept: tuple[str, ...]
    dispersion: float


def fit_joulie(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit a model; see the module.

    Raises:
        WorkloadError: fewer than `FEWEST_JOBS` jobs, or all submitted at once.
    """
    return learn_joulie(workload, knobs).model


def learn_joulie(workload: Workload, knobs: Mapping[str, float] | None = None) -> Fitting:
    """Fit a model and say what was learnt.

    Args:
        workload: a log, or what a generator made.
        knobs: see `KNOBS`; the others are as usual.

    Raises:
        WorkloadError: fewer than `FEWEST_JOBS` jobs, or all submitted at once.
    """
    if workload.n_jobs < FEWEST_JOBS or workload.span_s <= 0:
        raise WorkloadError(
            f"{workload.name} has {workload.n_jobs} jobs over {workload.span_s:g} s; the Joulie "
            f"generator is fitted to {FEWEST_JOBS} or more, not all submitted at once."
        )
    told = {knob.name: knob.usual for knob in KNOBS} | dict(knobs or {})
    prior = JoulieParameters()
    arrivals = fit_arrivals(workload, prior)
    found = (fit_told if has_families(workload) else fit_by_rules)(workload, prior, told)
    zone = WallClock.of(workload).zone or prior.time_zone
    values = asdict(
        replace(
            prior,
            families=found.families,
            time_zone=zone,
            epoch_unix_s=datetime(2024, 1, 1, tzinfo=ZoneInfo(zone)).timestamp(),
        )
    )
    words = ["arrivals", *found.words]
    kept = (*arrivals.kept, *found.kept)
    sentence = (
        f"Fitted to {workload.name} ({workload.n_jobs:,} jobs): {', '.join(words)}; the rest as "
        f"published. Note: {'; '.join(kept)}."
        if kept
        else f"Fitted to {workload.name} ({workload.n_jobs:,} jobs): {', '.join(words)}."
    )
    draft = model_of(prior, sentence).told(values | arrivals.told | found.told)
    model = model_of(parameters_of(draft), sentence)
    return Fitting(model, (*arrivals.learnt, *found.learnt), kept, arrivals.dispersion)

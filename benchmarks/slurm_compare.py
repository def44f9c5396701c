"""What a rule of ours makes of the jobs of a measured schedule, beside what Slurm did with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from benchmarks.slurm_runs import Policy, SlurmRun
from sim import Workload, simulate

LEAST_TAU = 0.95
TIE = 0.01
"""How much of tau two rules may differ by and count as equal: a pair of jobs or two."""

PLAIN = ("fcfs", "easy", "conservative")
"""Rules that know nothing of Slurm, and are to predict it no better."""

MOST_OFF = 0.05
"""How far the mean wait may be off."""

CLEANUP_S = 0.5
"""How long a job holds its nodes behind its end: times are told in whole seconds, and a node comes
back when Slurm has heard of the end, so that starts lag by something between 0 and 1 s."""

PASS_S = 0.5
"""When passes come, in seconds after the turn at which submissions are told: Slurm begins a pass as
a second turns, and what came in that second is told by its begin, so half a second is the middle.
All that came and ended in one second is therefore seen by the same pass."""


def _slurm(reserve: int) -> dict[str, Any]:
    """Return Slurm's rules as `gen_conf.py` of the shared scripts sets them."""
    options = {"bf_interval_s": 1, "bf_resolution_s": 1, "bf_reserve": reserve}
    return {
        "backfill": "slurm",
        "allocation": "shared_nodes",
        "cleanup_s": CLEANUP_S,
        "options": options,
    }


RULES: Mapping[str, Mapping[str, Any]] = {
    "slurm, easy": _slurm(1),
    "slurm, default": _slurm(0),
    "fcfs": {"backfill": "none"},
    "greedy": {"backfill": "greedy"},
    "easy": {"backfill": "easy"},
    "easy, no extra": {"backfill": "easy", "options": {"extra_processors": 0}},
    "depth 500": {"backfill": "depth", "options": {"depth": 500}},
    "conservative": {"backfill": "conservative"},
}
"""What each rule makes of a scenario: order, backfilling, their options, allocation."""

RIGHT: Mapping[tuple[Policy, str], str] = {
    ("easy", "thin"): "slurm, easy",
    ("easy", "fat"): "slurm, easy",
    ("default", "thin"): "slurm, default",
    ("default", "fat"): "slurm, default",
}
"""The rule that is held to the targets, by Slurm's policy and the shape of the nodes."""


@dataclass(frozen=True)
class Fit:
    """A predicted schedule of one partition beside the measured one.

    Attributes:
        partition: its name.
        n_jobs: of the partition.
        tau: Kendall's tau-b of the starts; None if either schedule has but one.
        mean_error_s: of the starts, absolute, seconds after the first submission.
        median_error_s: see mean_error_s.
        max_error_s: see mean_error_s.
        mean_wait_s: predicted.
        measured_wait_s: measured, in the mean.
        makespan_s: predicted, from the first submission to the last end.
        measured_makespan_s: measured.
    """

    partition: str
    n_jobs: int
    tau: float | None
    mean_error_s: float
    median_error_s: float
    max_error_s: float
    mean_wait_s: float
    measured_wait_s: float
    makespan_s: float
    measured_makespan_s: float

    @property
    def off(self) -> float | None:
        """By how much of itself the measured mean wait is missed; None if nobody waited."""
        return off(self.mean_wait_s, self.measured_wait_s)


@dataclass(frozen=True)
class Verdict:
    """Whether a target is met.

    Attributes:
        subject: the run, or the kind of Slurm if it is about several.
        target: ``tau``, ``no worse``, ``wait`` or, of several runs, ``better`` and than what.
        is_met: None if the run cannot tell.
        why: the figures, and what was wanted.
    """

    subject: str
    target: str
    is_met: bool | None
    why: str


def off(predicted_s: float, measured_s: float) -> float | None:
    """Return the relative difference, signed; None if nothing was measured to wait."""
    return predicted_s / measured_s - 1 if measured_s > 0 else None


def shape(run: SlurmRun) -> str:
    """Return ``thin`` if nodes have one CPU, else ``fat``."""
    return "thin" if run.cpus == 1 else "fat"


def replay(run: SlurmRun, rule: str) -> tuple[Fit, ...]:
    """Simulate the jobs of a run under one of `RULES` and compare, partition by partition."""
    return tuple(
        _fit(name, _predicted(run, name, rule), _measured(run, name)) for name in run.partitions
    )


def repeated(run: SlurmRun, again: SlurmRun) -> tuple[Fit, ...] | None:
    """Compare two measurements of the same jobs, the second as if it were predicted.

    Where Slurm does not repeat itself nobody can predict it. The result is None if the runs differ
    in policy or nodes, or in what any job asked for.
    """
    if _asked(run) != _asked(again):
        return None
    return tuple(
        _fit(name, _measured(again, name), _measured(run, name)) for name in run.partitions
    )


def _asked(run: SlurmRun) -> tuple[object, ...]:
    jobs = [(job.job_id, job.partition, job.procs, job.limit_s) for job in run.jobs]
    return run.policy, run.nodes, run.cpus, sorted(jobs)


@dataclass(frozen=True)
class _Schedule:
    """Times of the jobs of a partition, by their ids, in seconds after the first submission."""

    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    @property
    def mean_wait_s(self) -> float:
        return float((self.start_s - self.submit_s).mean())


def _measured(run: SlurmRun, partition: str) -> _Schedule:
    jobs = sorted(run.of(partition), key=lambda job: job.job_id)
    rows = np.array([[job.submit_s, job.start_s, job.end_s] for job in jobs])
    return _Schedule(*(rows - rows[:, 0].min()).T)


def _predicted(run: SlurmRun, partition: str, rule: str) -> _Schedule:
    """Simulate the jobs of a partition, with passes at `PASS_S`.

    Passes come at multiples of their interval after the first job, which is one more here: it is
    over before the others come.
    """
    scenario = run.scenario(partition, RULES[rule])
    told, early_s = scenario.workload, 4 - PASS_S
    workload = Workload.from_arrays(
        submit_s=np.append(0.0, told.submit_s + early_s),
        runtime_s=np.append(1.0, told.runtime_s),
        requested_s=np.append(1.0, told.requested_s),
        procs=np.append(1, told.procs),
    )
    result = simulate(replace(scenario, workload=workload), engine="interpreted")
    by_id = np.argsort(told.job_id)
    return _Schedule(
        told.submit_s[by_id],
        result.start_s[1:][by_id] - early_s,
        result.end_s[1:][by_id] - early_s,
    )


def _fit(partition: str, predicted: _Schedule, measured: _Schedule) -> Fit:
    error_s = np.abs(predicted.start_s - measured.start_s)
    tau = None
    if len(np.unique(measured.start_s)) > 1 and len(np.unique(predicted.start_s)) > 1:
        tau = float(kendalltau(measured.start_s, predicted.start_s).statistic)
    return Fit(
        partition=partition,
        n_jobs=len(error_s),
        tau=tau,
        mean_error_s=float(error_s.mean()),
        median_error_s=float(np.median(error_s)),
        max_error_s=float(error_s.max()),
        mean_wait_s=predicted.mean_wait_s,
        measured_wait_s=measured.mean_wait_s,
        makespan_s=float(predicted.end_s.max()),
        measured_makespan_s=float(measured.end_s.max()),
    )


def whole_wait_s(fits: Sequence[Fit]) -> tuple[float, float]:
    """Return the mean wait over all partitions: predicted and measured."""
    n_jobs = sum(fit.n_jobs for fit in fits)
    predicted_s = sum(fit.n_jobs * fit.mean_wait_s for fit in fits) / n_jobs
    return predicted_s, sum(fit.n_jobs * fit.measured_wait_s for fit in fits) / n_jobs


def mean_lag_s(run: SlurmRun) -> float:
    """Return how long Slurm took, in the mean, to start a job after what last came or went there.

    The simulator takes no time; a queue of many short jobs feels this after each of them.
    """
    lags_s = []
    for partition in run.partitions:
        jobs = run.of(partition)
        events_s = np.sort([at_s for job in jobs for at_s in (job.submit_s, job.end_s)])
        starts_s = np.array([job.start_s for job in jobs])
        last_s = events_s[np.searchsorted(events_s, starts_s, side="right") - 1]
        lags_s += (starts_s - last_s).tolist()
    return float(np.mean(lags_s))


def right_rule(run: SlurmRun) -> str:
    """Return the name of the rule that is held to the targets."""
    return RIGHT[run.policy, shape(run)]


def judge(run: SlurmRun, fits: Mapping[str, Sequence[Fit]]) -> list[Verdict]:
    """Hold a run to its targets.

    Args:
        run: the run.
        fits: of the right rule and of the wrong ones, by their names.
    """
    right = fits[right_rule(run)]
    told = ", ".join(f"{_tau(fit.tau)} in {fit.partition}" for fit in right)
    taus = [fit.tau for fit in right if fit.tau is not None]
    least = Verdict(
        run.name,
        "tau",
        all(tau >= LEAST_TAU for tau in taus) if taus else None,
        f"{right_rule(run)} has {told}; at least {LEAST_TAU} is wanted",
    )
    return [least, _no_worse(run, fits), _wait(run, right)]


def _no_worse(run: SlurmRun, fits: Mapping[str, Sequence[Fit]]) -> Verdict:
    pairs = [
        (name, ours.partition, theirs.tau, ours.tau)
        for name in wrong_rules(run)
        for theirs, ours in zip(fits[name], fits[right_rule(run)], strict=True)
        if theirs.tau is not None and ours.tau is not None
    ]
    worse = [
        f"{name} has {theirs:.3f} in {partition} and {right_rule(run)} {ours:.3f}"
        for name, partition, theirs, ours in pairs
        if theirs > ours + TIE
    ]
    names = "; ".join(wrong_rules(run))
    why = f"no other rule ({names}) may have a tau greater by more than {TIE}; "
    why += "; ".join(worse) or "none has"
    return Verdict(run.name, "no worse", not worse if pairs else None, why)


def _wait(run: SlurmRun, right: Sequence[Fit]) -> Verdict:
    predicted_s, measured_s = whole_wait_s(right)
    share = off(predicted_s, measured_s)
    return Verdict(
        run.name,
        "wait",
        None if share is None else abs(share) <= MOST_OFF,
        f"{predicted_s:.1f} s in the mean, measured {measured_s:.1f} s: {_percent(share)}; within "
        f"{MOST_OFF:.0%} is wanted (starts lag {mean_lag_s(run):.2f} s in the mean)",
    )


def judge_together(
    runs: Sequence[SlurmRun], fits: Mapping[str, Mapping[str, Sequence[Fit]]]
) -> list[Verdict]:
    """Ask whether the right rule is better than each wrong one in one partition of one run.

    A wrong rule that predicts the very figures of the right one in all of them cannot be told
    from it, which is no fault.

    Args:
        runs: all of them.
        fits: by the name of the run, then by that of the rule.
    """
    found = []
    for kind in dict.fromkeys((run.policy, shape(run)) for run in runs):
        of_policy = [run for run in runs if (run.policy, shape(run)) == kind]
        for name in wrong_rules(of_policy[0]):
            pairs = [
                pair
                for run in of_policy
                for pair in zip(fits[run.name][right_rule(run)], fits[run.name][name], strict=True)
            ]
            n_better = sum(
                ours.tau is not None and theirs.tau is not None and ours.tau > theirs.tau
                for ours, theirs in pairs
            )
            is_same = all(ours == theirs for ours, theirs in pairs)
            why = f"{n_better} of {len(pairs)} partitions; 1 is wanted"
            why += ", but both rules predict the same figures" if is_same else ""
            subject = f"Slurm's {kind[0]} on {kind[1]} nodes"
            is_met = None if is_same else n_better > 0
            found.append(Verdict(subject, f"better than {name}", is_met, why))
    return found


def wrong_rules(run: SlurmRun) -> list[str]:
    """Return the rules that the right one is held against.

    The plain ones, and what would be right had Slurm been told the other policy.
    """
    return [
        *PLAIN,
        *(RIGHT[other, shape(run)] for other in get_args(Policy) if other != run.policy),
    ]


def _tau(tau: float | None) -> str:
    return "unknown" if tau is None else f"{tau:.3f}"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:+.1%}"

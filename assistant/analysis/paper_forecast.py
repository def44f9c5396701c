"""Forecast whether the remaining runs suffice, by the rule of the Copper paper (section 3.2).

DBSCAN over good observations finds the regions of interest. The rule compares the runs pending in
them with the runs that can still be executed: more pending runs are a miss. The paper does not
define good and pending; both are options (`WarningPolicy`). The cost limit is our extension.
"""

from collections.abc import Sequence

from assistant.core.experiment import Experiment, once_per_state
from assistant.core.forecast import PaperForecast, RegionCount
from assistant.core.run import RunState
from strategies import PendingRule, PendingRuns, Region, pending_in_region


def paper_forecast(experiment: Experiment, now_s: float) -> PaperForecast:
    """Forecast whether the runs left suffice, by the rule of the Copper paper (section 3.2).

    Reference: Silva, Netto, Cunha: SLA-aware Interactive Workflow Assistant, section 3.2.
    """
    counted, pending = _counted(experiment)
    executed = executed_runs(experiment)
    mean_duration_s = _mean_duration_s(experiment)
    by_runs = experiment.sla.remaining_runs(executed)
    by_deadline = experiment.sla.runs_until_deadline(
        now_s, mean_duration_s, experiment.opened.workers
    )
    spent = experiment.spending
    by_cost = experiment.sla.runs_until_cost(experiment.cost, None if spent is None else spent.mean)
    remaining = min((n for n in (by_runs, by_deadline, by_cost) if n is not None), default=None)
    is_countable = pending is not None and remaining is not None
    return PaperForecast(
        at_s=now_s,
        basis=experiment.warning_policy.pending,
        executed=executed,
        remaining=remaining,
        remaining_by_runs=by_runs,
        remaining_by_deadline=by_deadline,
        pending=pending,
        shortfall=pending - remaining if is_countable else None,  # type: ignore[operator]
        regions=counted,
        mean_duration_s=mean_duration_s,
        predicted_end_s=_end_s(now_s, pending, mean_duration_s, experiment.opened.workers),
        remaining_by_cost=by_cost,
    )


@once_per_state
def _counted(experiment: Experiment) -> tuple[tuple[RegionCount, ...], int | None]:
    """Return the counts of every region, and the number of pending runs in all of them."""
    pending_regions = [_pending_in(experiment, region) for region in experiment.regions]
    counted = tuple(
        RegionCount(
            id=region.id,
            members=len(region.members),
            evaluated=region.evaluated,
            pending=pending_runs.count,
            mean=region.measured_mean,
            best=region.best.quality,
        )
        for region, pending_runs in zip(experiment.regions, pending_regions, strict=True)
    )
    return counted, _pending(experiment, pending_regions)


def _pending_in(experiment: Experiment, region: Region) -> PendingRuns:
    basis = experiment.warning_policy.pending
    rule: PendingRule = "queued" if basis == "plan" else basis
    radius = experiment.warning_policy.regions.radius
    return pending_in_region(experiment.space, region, experiment.submitted_knowledge, rule, radius)


def _pending(experiment: Experiment, pending_regions: Sequence[PendingRuns]) -> int | None:
    return (
        count_planned(experiment)
        if experiment.warning_policy.pending == "plan"
        else count_pending(pending_regions)
    )


def count_pending(pending_regions: Sequence[PendingRuns]) -> int | None:
    """Return the number of pending runs in all regions; None if unknown or without regions.

    Regions may overlap: each configuration counts once, as long as all of them are listed.
    """
    counts = [pending_runs.count for pending_runs in pending_regions]
    if not counts or any(count is None for count in counts):
        return None
    if all(
        region_pending.count == len(region_pending.configurations)
        for region_pending in pending_regions
    ):
        return len(
            {
                configuration
                for region_pending in pending_regions
                for configuration in region_pending.configurations
            }
        )
    return sum(count for count in counts if count is not None)


def count_planned(experiment: Experiment) -> int | None:
    """Return how many allowed configurations of the plan have no ended run; None if unknown."""
    if not experiment.plan:
        return None
    space = experiment.space
    for parameter in space.parameters:
        planned_levels = experiment.plan.get(parameter.name)
        if planned_levels is None:
            continue
        keep = {parameter.level_id(value) for value in planned_levels}
        if all((parameter.name, level_id) in space.closed for level_id in keep):
            return 0
        for level_id in range(parameter.n_levels):
            is_open = (parameter.name, level_id) not in space.closed
            if level_id not in keep and is_open:
                space = space.closing(parameter.name, parameter.levels[level_id])
    allowed = space.count_allowed()
    if allowed is None:
        return None
    evaluated = {
        run.configuration
        for run in experiment.runs
        if run.state in (RunState.COMPLETED, RunState.FAILED)
    }
    return allowed - sum(space.is_allowed(configuration) for configuration in evaluated)


def executed_runs(experiment: Experiment) -> int:
    """Return the number of started runs, excluding imported results."""
    started = experiment.runs_in(RunState.RUNNING, RunState.COMPLETED, RunState.FAILED)
    return sum(run.source != "imported" for run in started)


def _mean_duration_s(experiment: Experiment) -> float | None:
    durations = [
        run.duration_s
        for run in experiment.runs
        if run.duration_s is not None and run.source != "imported"
    ]
    return sum(durations) / len(durations) if durations else None


def _end_s(
    now_s: float, pending: int | None, mean_duration_s: float | None, workers: int
) -> float | None:
    if pending is None or mean_duration_s is None:
        return None
    return now_s + -(-pending // workers) * mean_duration_s

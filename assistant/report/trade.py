"""What the report says of two measures: the front of trade-offs, as rows and as points."""

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.charts import TradePoint
from assistant.experiment import Experiment
from assistant.report.words import level


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One configuration of the front: values by both measures, means of its ``n_runs`` runs."""

    run_id: int
    values: Mapping[str, str]
    value: float
    second_value: float
    n_runs: int
    feasible: bool
    is_today: bool


def front_rows(experiment: Experiment) -> tuple[FrontRow, ...]:
    """Return the front, the best by the first measure first; empty without a second measure."""
    rows = []
    for run in experiment.front:
        standing = experiment.standings[run.configuration]
        outcome = standing.outcome
        if outcome.second_value is None:
            continue
        values = experiment.space.values(run.configuration)
        rows.append(
            FrontRow(
                run_id=run.id,
                values={name: level(value) for name, value in values.items()},
                value=outcome.value,
                second_value=outcome.second_value,
                n_runs=standing.n,
                feasible=outcome.feasible,
                is_today=run.configuration == experiment.opened.baseline,
            )
        )
    return tuple(rows)


def trade_points(experiment: Experiment) -> tuple[TradePoint, ...]:
    """Return every configuration with a result as a point of two measured values."""
    front = {run.configuration for run in experiment.front}
    return tuple(
        TradePoint(
            run_id=standing.run.id,
            value=standing.outcome.value,
            second=standing.outcome.second_value,
            on_front=configuration in front,
            feasible=standing.outcome.feasible,
            is_today=configuration == experiment.opened.baseline,
        )
        for configuration, standing in experiment.standings.items()
        if standing.outcome.second_value is not None
    )

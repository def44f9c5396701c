"""Which runs are missing before an effect can be told."""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.errors import ExperimentError
from assistant.experiment import Experiment
from strategies import Configuration, Level
from strategies.analysis import Completion, MissingRuns, Target, complete_block, missing_runs


@dataclass(frozen=True, slots=True)
class MissingReport:
    """Runs that would make an effect known.

    Args:
        found: the search's result, see `strategies.analysis.missing`.
        runs: the values of its configurations, ready to be included.
        block: the factorial block that lies nearest, None if there is none.
        block_runs: the values of the runs that complete it.
    """

    found: MissingRuns
    runs: tuple[dict[str, Level], ...]
    block: Completion | None
    block_runs: tuple[dict[str, Level], ...]


def missing_report(experiment: Experiment, target: Target) -> MissingReport:
    """Say which runs are missing before a target can be estimated.

    Queued and running runs count as if they were over; suggestions that nobody submitted do not.

    Raises:
        StrategyError: a name that is no parameter, a closed level, or too many combinations.
        ExperimentError: a parameter with a single open level, which has no effect to estimate.
    """
    space, knowledge = experiment.space, experiment.submitted_knowledge
    for name in target.parameters:
        position = space.names.index(space.parameter(name).name)
        if len(space.open_ids[position]) == 1 and target.level_id is None:
            raise ExperimentError(
                f"parameter '{name}' has a single open level, so there is no effect to estimate; "
                "add or reopen a level"
            )
    found = missing_runs(knowledge, target)
    block = complete_block(knowledge, target.parameters)

    def told(configurations: Sequence[Configuration]) -> tuple[dict[str, Level], ...]:
        return tuple(space.values(configuration) for configuration in configurations)

    return MissingReport(
        found, told(found.configurations), block, told(block.configurations) if block else ()
    )

"""The content of a stored experiment's report, as every shell writes and shows it.

Its log is simulated again for the waits by user and partition, which no run has as measures.
"""

from collections.abc import Callable, Sequence

from assistant.analysis.experiment_state import ExperimentState
from assistant.config.snapshot import rebuild, stored_sweep_file
from assistant.core.errors import AssistantError
from assistant.core.events import Event
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.presentation.report.data import GroupWaits, class_rows, collect
from assistant.presentation.report.forms import ReportContent
from sim.api import SimError
from strategies import StrategyError


def report_content(
    experiment: Experiment,
    events: Sequence[Event],
    *,
    state: ExperimentState | None = None,
    application: Callable[[], Application] | None = None,
) -> ReportContent:
    """Return what the forms of a report are written from.

    Args:
        experiment: the experiment so far.
        events: its event log.
        state: state of the experiment; None derives it as if nobody executed its runs.
        application: returns the application of its runs; None rebuilds it from the settings.
    """
    groups = group_waits(experiment, application)
    data = collect(experiment, events, state=state, groups=groups)
    return ReportContent(data, experiment, events, stored_sweep_file(experiment.opened))


def group_waits(
    experiment: Experiment, application: Callable[[], Application] | None = None
) -> GroupWaits:
    """Return the waits by user and by partition of a scheduling sweep, or why there are none."""
    if not class_rows(experiment):
        return GroupWaits()
    from assistant.simtools.group_waits import group_tables

    try:
        built = rebuild(experiment.opened) if application is None else application()
        return GroupWaits(group_tables(built, experiment))
    except (AssistantError, SimError, StrategyError) as error:
        return GroupWaits(missing=f"the waits by user and partition are missing: {error}")

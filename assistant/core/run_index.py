"""Index of an experiment's runs: totals, groups and the best, kept up to date run by run.

It is a fold like the state itself. Whoever asks for a total or for the best does not go through all
runs again, so that 100,000 of them cost a question no more than 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from assistant.core.run import (
    ConfigurationSummary,
    Run,
    RunState,
    best_of,
    observation_of,
    summarise_configuration,
)
from strategies import Configuration, Observation


class RunIndex:
    """Totals and groups over the runs of one experiment.

    Only `update` changes it. ``by_configuration`` has the numbers of all runs of a configuration,
    ``observations`` and ``summaries`` are of completed runs, ``batches`` the batches with a run.
    """

    def __init__(self) -> None:
        self.n_in = dict.fromkeys(RunState, 0)
        self.open_ids: set[int] = set()  # queued or running
        self.failed_ids: set[int] = set()
        self.n_charged = 0
        self.n_ended = 0
        self.n_taken = 0  # submitted unchanged from a batch
        self.batches: set[int] = set()
        self.measures: set[str] = set()
        self.by_configuration: dict[Configuration, tuple[int, ...]] = {}
        self.observations: dict[int, Observation] = {}
        self.summaries: dict[Configuration, ConfigurationSummary] = {}
        self.replicated: set[Configuration] = set()  # with more than one completed run
        self.leader: ConfigurationSummary | None = None

    def copied(self) -> RunIndex:
        """Return a copy that can be updated independently."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set):
                setattr(other, name, copy(value))
        return other

    def update(self, before: Run | None, after: Run) -> None:
        """Take in a new run (``before`` is None) or a change of one."""
        if before is None:
            same = self.by_configuration.get(after.configuration, ())
            self.by_configuration[after.configuration] = (*same, after.id)
            if after.batch is not None:
                self.batches.add(after.batch)
                self.n_taken += after.source in ("initial", "suggested", "replicate")
        else:
            self._count(before, -1)
        self._count(after, 1)
        state = after.state
        (self.open_ids.add if _is_open(state) else self.open_ids.discard)(after.id)
        if state is RunState.FAILED:
            self.failed_ids.add(after.id)
        if after.outcome is not None:
            self._summarise(after)

    def _count(self, run: Run, sign: int) -> None:
        self.n_in[run.state] += sign
        if run.is_charged:
            self.n_charged += sign
            self.n_ended += sign * (run.ended_s is not None)

    def _summarise(self, run: Run) -> None:
        """Take in a completed run, or the rating of one."""
        observation = observation_of(run)
        if observation is None or run.outcome is None:
            return
        self.measures.update(run.outcome.measures)
        self.observations[run.id] = observation
        earlier = self.summaries.get(run.configuration)
        if earlier is None:
            runs = [run]
        else:
            earlier_runs = (other for other in earlier.runs if other.id != run.id)
            runs = sorted((*earlier_runs, run), key=lambda each: each.id)
        summary = self.summaries[run.configuration] = summarise_configuration(runs)
        if summary.n > 1:
            self.replicated.add(run.configuration)
        self.leader = _leader(self.summaries, self.leader, summary)


def _is_open(state: RunState) -> bool:
    return state is RunState.QUEUED or state is RunState.RUNNING


def _leader(
    summaries: Mapping[Configuration, ConfigurationSummary],
    leader: ConfigurationSummary | None,
    changed: ConfigurationSummary,
) -> ConfigurationSummary:
    """Return the best summary after one has changed: of equal ones that with the first run."""
    if leader is None:
        return changed
    if changed.configuration != leader.configuration:
        is_better = (changed.rank, -changed.run.id) > (leader.rank, -leader.run.id)
        return changed if is_better else leader
    if (changed.rank, -changed.run.id) >= (leader.rank, -leader.run.id):
        return changed
    in_order = sorted(summaries.values(), key=lambda summary: summary.run.id)
    return best_of(in_order) or changed

"""A configuration of a sweep beside the current one, for snippets of a scheduler's own settings.

Such a snippet has what changes, with the effect that the simulation expects and the names of what
it does not model. A configuration that the scheduler cannot express is refused: an approximation
of it was not measured.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assistant.applications.scheduling import RECORDED_WAITS
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.run import ConfigurationSummary
from assistant.presentation.text.comparison import compare
from assistant.presentation.text.later_jobs import check_on_later_jobs
from assistant.presentation.text.number_format import quantity
from strategies import Level

Values = Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class SettingsSection:
    """Lines that belong together, and sentences on them."""

    notes: tuple[str, ...]
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((*map(_comment, self.notes), *self.lines))


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """A completed configuration of an experiment, and the current one.

    Attributes:
        program: what is to be set up, such as ``Slurm``.
    """

    program: str
    experiment: Experiment
    summary: ConfigurationSummary
    current: ConfigurationSummary

    @classmethod
    def of(
        cls, program: str, unit: str, experiment: Experiment, run_id: int | None
    ) -> "ChangedSettings":
        """Return the configuration of a run; of the best one without a number.

        `unit` names what would be written, such as ``line of slurm.conf``. Raises SettingsError if
        there is none, it does not meet every constraint and is not named, or nothing changes.
        """
        changed = cls(program, experiment, _chosen(experiment, run_id), _current(experiment))
        if changed.values == changed.before:
            raise SettingsError(
                f"the {'best' if run_id is None else 'named'} configuration of "
                f"'{experiment.opened.experiment_id}' is the current one: there is no {unit} to "
                "change"
            )
        return changed

    @property
    def values(self) -> Values:
        """Values of the parameters in the configuration."""
        return self.experiment.space.values(self.summary.configuration)

    @property
    def before(self) -> Values:
        """Values of the parameters in the current configuration."""
        return self.experiment.space.values(self.current.configuration)

    def check(self, reason_against: Callable[[Values, Values], str]) -> None:
        """Raise SettingsError if the program cannot be set up so, with the best run that it can.

        `reason_against` gives the reason for values beside the current ones, or an empty text.
        """
        reason = reason_against(self.values, self.before)
        if reason:
            instead = self._instead(reason_against)
            raise SettingsError(f"run {self.summary.run.id} {reason}{instead}")

    def _instead(self, reason_against: Callable[[Values, Values], str]) -> str:
        able = [
            summary
            for summary in self.experiment.summaries.values()
            if summary.outcome.feasible
            and summary.rank > self.current.rank
            and not reason_against(self.experiment.space.values(summary.configuration), self.before)
        ]
        if not able:
            return (
                f"; no tried configuration that {self.program} can express is better than the "
                "current one"
            )
        best = max(able, key=lambda summary: summary.rank)
        objective = self.experiment.opened.objective
        value = f"{objective.wrapper} = {quantity(best.outcome.value, objective.unit)}"
        return (
            f"; the best tried configuration that {self.program} can express is run {best.run.id} "
            f"({value}): add --run {best.run.id}"
        )

    def snippet(
        self,
        form: str,
        advice: str,
        sections: Iterable[SettingsSection],
        not_modelled: Sequence[str],
        between: str = "\n\n",
    ) -> str:
        """Return sections between the expected effect and what is not modelled, as comments."""
        name = self.experiment.opened.experiment_id
        title = f"Copperline: run {self.summary.run.id} of {name}, as {form}."
        parts = (
            SettingsSection((title, advice)),
            SettingsSection(("Expected effect, simulated:", *self._effect())),
            SettingsSection(("Not modelled, so not in the expected effect:", *not_modelled)),
        )
        head, effect, missing = map(str, parts)
        return "\n\n".join((head, effect, between.join(map(str, sections)), missing)) + "\n"

    def _effect(self) -> tuple[str, ...]:
        experiment, run = self.experiment, f"run {self.summary.run.id}"
        objective = experiment.opened.objective
        found = compare(objective, self.summary.outcome, self.current.outcome, run)
        return (
            f"{objective.wrapper}: {found.text}.",
            *check_on_later_jobs(experiment, self.summary),
            *(
                f"{fact.label}: {fact.text}"
                for fact in experiment.opened.facts
                if fact.label == RECORDED_WAITS
            ),
        )


def _chosen(experiment: Experiment, run_id: int | None) -> ConfigurationSummary:
    run = experiment.best if run_id is None else experiment.run(run_id)
    summary = None if run is None else experiment.summary(run)
    if summary is None:
        which = "no run has" if run_id is None else f"run {run_id} has not"
        raise SettingsError(f"{which} completed, so there is no result to write lines for")
    if run_id is None and not summary.outcome.feasible:
        raise SettingsError(
            "no tried configuration meets every constraint; to write one all the same, name its "
            f"run, such as --run {summary.run.id}"
        )
    return summary


def _current(experiment: Experiment) -> ConfigurationSummary:
    baseline = experiment.baseline
    summary = None if baseline is None else experiment.summary(baseline)
    if summary is None:
        raise SettingsError(
            "the current configuration has no result, so the changed lines are unknown; run it "
            "first (copperline resume)"
        )
    return summary


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, 94, break_on_hyphens=False))

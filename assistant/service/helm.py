"""The helm of the house: experiments that steer themselves take their next step, hooks are told.

It acts for the experiments whose runs may be had by workers, in a thread beside the requests. A
person may decide at the same instant: then it thinks again at the next turn.
"""

from __future__ import annotations

from assistant.automatic import step
from assistant.errors import AssistantError, GoneOnError
from assistant.notify import Notifier
from assistant.run import RunState
from assistant.service.house import House
from assistant.session import Session
from assistant.sla import Automatic
from assistant.starting import stored_hooks
from strategies import StrategyError


class Helm:
    """Steers what was handed over, and tells the hooks of what is started here.

    Args:
        house: with the experiments. Hooks are started where it executes runs, or where requests may
            name programs anyway.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._notifiers: dict[str, Notifier | None] = {}

    def turn(self) -> None:
        """Take the steps that are due; a fault of one experiment does not concern the others."""
        for experiment_id in self._house.queue.active():
            try:
                session = self._house.session(experiment_id)
                self._follow(session)
                self._step(session)
            except GoneOnError:
                continue  # somebody decided meanwhile
            except (AssistantError, StrategyError) as error:
                self._give_back(experiment_id, error)

    def end(self) -> None:
        """Give hooks their time to end."""
        for notifier in self._notifiers.values():
            if notifier is not None:
                notifier.end()

    def _follow(self, session: Session) -> None:
        if session.id in self._notifiers:
            return
        self._notifiers[session.id] = None
        hooks = stored_hooks(session.experiment)
        if not hooks.kinds:
            return
        if not (self._house.executes or self._house.programs):
            self._house.note(session.id, "its hooks are not started by this service")
            return
        notifier = Notifier(hooks, lambda said: self._house.note(session.id, said))
        notifier.follow(session)
        self._notifiers[session.id] = notifier

    def _step(self, session: Session) -> None:
        experiment = session.experiment
        how = experiment.automatic
        if how is None or experiment.runs_in(RunState.QUEUED, RunState.RUNNING):
            return
        if how.advice == "wait" and experiment.open_advice is not None:
            return
        reason = step(session, how)
        if reason is not None and not _waits(session, how):
            session.hand_over(None, reason)
            if self._house.queue.is_outside(session.id):
                session.finish(reason)  # so its program learns of the end
            notifier = self._notifiers[session.id]
            if notifier is not None:
                notifier.steering_ended(reason)

    def _give_back(self, experiment_id: str, error: Exception) -> None:
        """Let a person decide again: it could not go on."""
        sentence = str(error)
        self._house.log.error("cannot steer", error=error, experiment=experiment_id)
        self._house.note(experiment_id, sentence)
        session = self._house.session(experiment_id)
        if session.experiment.automatic is not None:
            session.hand_over(None, sentence)
        notifier = self._notifiers.get(experiment_id)
        if notifier is not None:
            notifier.sweep_failed(sentence)


def _waits(session: Session, how: Automatic) -> bool:
    return how.advice == "wait" and session.experiment.open_advice is not None

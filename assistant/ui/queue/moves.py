"""What a person does to several runs of the queue at once: to all of them, or to none.

A session decides about one run at a time. So each action looks first whether every run still stands
as it was shown, and takes back what was done where a later one is refused all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assistant import AssistantError, Experiment, Run, RunState
from assistant.errors import ExperimentError
from assistant.queueing import ahead, behind, changes, stopping
from assistant.report.queue import named
from assistant.ui.desk import Steered

UNDO_S = 600.0
"""So long a change of the order can be undone."""

Change = Callable[[Run], None]


@dataclass(frozen=True, slots=True)
class Reordered:
    """A change of the order that was made, with the way back.

    Args:
        at_s: when, seconds since 1970-01-01 UTC.
        before: the priorities that were changed, by run; empty if nothing was.
        after: what they were changed to.
        told: what was done, in a sentence.
    """

    at_s: float
    before: Mapping[int, float]
    after: Mapping[int, float]
    told: str

    def can_be_undone(self, now_s: float) -> bool:
        """Whether there is something to undo, and it was done a few minutes ago."""
        return bool(self.before) and now_s - self.at_s < UNDO_S


def first(session: Steered, shown: Sequence[Run]) -> Reordered:
    """Let runs start before all others that wait, in the order that they have.

    Raises:
        ExperimentError: one of them stands otherwise than it was shown; nothing is changed then.
    """
    return _moved(session, shown, ahead(_as_shown(session, shown), _ids(shown)), "first")


def later(session: Steered, shown: Sequence[Run]) -> Reordered:
    """Let runs start after all others that wait; see `first`."""
    return _moved(session, shown, behind(_as_shown(session, shown), _ids(shown)), "last")


def _moved(
    session: Steered, shown: Sequence[Run], wanted: Mapping[int, float], where: str
) -> Reordered:
    start = f"{_named(_ids(shown))} {'starts' if len(shown) == 1 else 'start'} {where}"
    if not wanted:
        return Reordered(session.now_s(), {}, {}, f"{start} already.")
    return _prioritised(session, shown, wanted, f"{start} now.")


def prioritise(session: Steered, shown: Sequence[Run], priority: float) -> Reordered:
    """Give runs one priority; raises as `first`, and for a priority that no run can have."""
    _as_shown(session, shown)
    ids = _ids(shown)
    wanted = {run.id: priority for run in shown if run.priority != priority}
    verb = "has" if len(ids) == 1 else "have"
    if not wanted:
        told = f"{_named(ids)} {verb} the priority {priority:g} already."
        return Reordered(session.now_s(), {}, {}, told)
    return _prioritised(session, shown, wanted, f"{_named(ids)} {verb} the priority {priority:g}.")


def undo(session: Steered, kept: Reordered) -> str:
    """Give back the priorities from before, to those that wait as the change had left them.

    Returns what was done. Raises ExperimentError if none of them waits so any more.
    """
    session.catch_up()
    now = {run_id: session.experiment.run(run_id) for run_id in kept.before}
    same = tuple(
        run
        for run_id, run in now.items()
        if run.state is RunState.QUEUED and run.priority == kept.after[run_id]
    )
    others = tuple(sorted(set(now) - set(_ids(same))))
    if not same:
        raise ExperimentError(
            f"nothing is left to undo: {named(others)} started, ended or were moved again since"
        )
    _prioritised(session, same, {run.id: kept.before[run.id] for run in same}, "")
    told = f"{_named(_ids(same))} {'has its' if len(same) == 1 else 'have their'} old place again."
    if others:
        told += f" Not {named(others)}: started, ended or moved again since."
    return told


def hold(session: Steered, shown: Sequence[Run]) -> str:
    """Let runs wait until they are released; raises as `first`."""
    free = [run for run in shown if not run.held]
    _all_or_none(
        session, shown, free, lambda r: session.hold(r.id), lambda r: session.release(r.id)
    )
    return f"{_named(_ids(shown))} {'is' if len(shown) == 1 else 'are'} held until released."


def release(session: Steered, shown: Sequence[Run]) -> str:
    """Let held runs start in their turn; raises as `first`."""
    held = [run for run in shown if run.held]
    _all_or_none(
        session, shown, held, lambda r: session.release(r.id), lambda r: session.hold(r.id)
    )
    return f"{_named(_ids(shown))} may start."


def cancel(session: Steered, shown: Sequence[Run], reason: str) -> str:
    """Give runs up; raises as `first`.

    A run that is given up cannot be brought back: where one ends in the moment between the look
    and the decision, the refusal names those that were cancelled before it.
    """
    _all_or_none(session, shown, shown, lambda run: session.cancel(run.id, reason), None)
    return f"{_named(_ids(shown))} {'was' if len(shown) == 1 else 'were'} cancelled."


def stop(session: Steered, shown: Sequence[Run], reason: str) -> str:
    """End runs now, with what they have reported last as their results; raises as `first`.

    Nothing is stopped if of one of them nothing could be kept.
    """
    experiment = _as_shown(session, shown)
    for run in shown:
        stopping(experiment, run.id, reason, session.now_s())
    _all_or_none(session, shown, shown, lambda run: session.stop(run.id, reason), None)
    if len(shown) == 1:
        return f"{_named(_ids(shown))} was stopped; what it reported last is its result."
    return f"{_named(_ids(shown))} were stopped; what they reported last are their results."


def _prioritised(
    session: Steered, shown: Sequence[Run], wanted: Mapping[int, float], told: str
) -> Reordered:
    runs = [run for run in shown if run.id in wanted]
    before = {run.id: run.priority for run in runs}
    _all_or_none(
        session,
        shown,
        runs,
        lambda run: session.reprioritise(run.id, wanted[run.id]),
        lambda run: session.reprioritise(run.id, before[run.id]),
    )
    return Reordered(session.now_s(), before, dict(wanted), told)


def _as_shown(session: Steered, shown: Sequence[Run]) -> Experiment:
    """Return the state of this moment. Raises ExperimentError if a run stands otherwise in it."""
    session.catch_up()
    became = changes(shown, session.experiment)
    if became:
        raise ExperimentError(
            f"nothing was changed: {_listed(became)} since this list was shown; refresh it and "
            "choose again"
        )
    return session.experiment


def _all_or_none(
    session: Steered, shown: Sequence[Run], runs: Sequence[Run], change: Change, back: Change | None
) -> None:
    _as_shown(session, shown)
    done: list[Run] = []
    for run in runs:
        try:
            change(run)
        except AssistantError as error:
            stay = _not_taken_back(done, back)
            left = f"{named(_ids(stay))} had been changed before that" if stay else "nothing was"
            raise ExperimentError(f"{str(error).removesuffix('.')}; {left}") from error
        done.append(run)


def _not_taken_back(done: Sequence[Run], back: Change | None) -> list[Run]:
    """Take decisions back, the last one first; return the runs of those that could not be."""
    if back is None:
        return list(done)
    stay = []
    for run in reversed(done):
        try:
            back(run)
        except AssistantError:
            stay.append(run)
    return stay[::-1]


def _listed(parts: Sequence[str]) -> str:
    shown = parts[:3]
    more = [f"{len(parts) - len(shown)} more"] if len(parts) > len(shown) else []
    *most, last = (*shown, *more)
    return f"{', '.join(most)} and {last}" if most else last


def _named(ids: tuple[int, ...]) -> str:
    text = named(ids)
    return text[0].upper() + text[1:]


def _ids(runs: Sequence[Run]) -> tuple[int, ...]:
    return tuple(run.id for run in runs)

"""Errors of the assistant that a user can act on, each with a one-sentence message.

::

    AssistantError
    ├── ObjectiveError, ApplicationError, ExecutorError, CodecError, SettingsError
    ├── ExperimentError: ImpossibleValueError
    ├── RunError: RunStoppedError, ProgramError
    ├── StoreError: UnknownExperimentError, NameTakenError, VersionConflictError, StoreFullError,
    │       DamagedEventError
    ├── ServiceError: AccessDeniedError
    └── UnknownLeaseError, LeaseLostError, IdempotencyKeyReusedError, ExecutionRefusedError
"""

from collections.abc import Iterable
from difflib import get_close_matches

from strategies.space.errors import one_line


class AssistantError(Exception):
    """Base class of all errors that the user can correct."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class ObjectiveError(AssistantError):
    """Error: a measure that the objective needs is missing, unknown or of the wrong shape."""


class ExperimentError(AssistantError):
    """Error: the present state of the experiment does not allow an event or a request."""


class ImpossibleValueError(ExperimentError):
    """Error: a value is invalid whatever the state of the experiment, such as a priority of NaN."""


class ApplicationError(AssistantError):
    """Error: an application cannot be built from its settings."""


class RunError(AssistantError):
    """Error: one run failed, so that a failure is recorded instead of an observation."""


class RunStoppedError(RunError):
    """Error: a run was ended early on request."""


class ProgramError(RunError):
    """Error: the user's program could not be started, failed, or gave no measures.

    Args:
        code: exit code, negative for a signal; None if it was not started.
        overtime: whether the time limit of the run ended it.
        stdout: end of the standard output.
        limited: whether another limit ended it, such as memory.
    """

    def __init__(
        self,
        sentence: str,
        argv: tuple[str, ...] = (),
        code: int | None = None,
        overtime: bool = False,
        stdout: str = "",
        stderr: str = "",
        limited: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.argv, self.code, self.overtime = argv, code, overtime
        self.stdout, self.stderr = stdout, stderr
        self.limited = limited


class ExecutorError(AssistantError):
    """Error: runs cannot be executed at the moment, because no worker or cluster responds."""


class StoreError(AssistantError):
    """Error: the store cannot be read or written."""


class UnknownExperimentError(StoreError):
    """Error: no experiment with this identifier is stored."""


class NameTakenError(StoreError):
    """Error: an experiment with this identifier exists already."""


class VersionConflictError(StoreError):
    """Error: the event log of an experiment has grown since it was read."""


class ServiceError(AssistantError):
    """Error: the HTTP service, or its token or lock file, cannot be used."""


class AccessDeniedError(ServiceError):
    """Error: the service rejects the API token, or the token lacks permission."""


class StoreFullError(StoreError):
    """Error: the disk is full, so that nothing was stored."""


class DamagedEventError(StoreError):
    """Error: a stored event is not as it was written; the experiment cannot be trusted."""


class UnknownLeaseError(AssistantError):
    """Error: no run was ever leased under the given lease token."""


class IdempotencyKeyReusedError(AssistantError):
    """Error: the idempotency key was used before for a different request."""


class ExecutionRefusedError(AssistantError):
    """Error: the worker's operator does not allow the application to be executed there."""


class LeaseLostError(AssistantError):
    """Error: the worker does not hold a lease of the run, or holds it no longer."""


class CodecError(AssistantError):
    """Error: a stored value cannot be decoded."""


class SettingsError(AssistantError):
    """Error: a setting in a sweep file, or an option, is invalid."""


def hint(name: str, candidates: Iterable[str]) -> str:
    """Return the end of an error message: the closest valid name, and all valid names.

    >>> hint("nods", ["nodes", "rate"])
    "; did you mean 'nodes'? Known: nodes, rate."
    """
    names = sorted(candidates)
    close = get_close_matches(name, names, 1)
    suggestion = f"; did you mean '{close[0]}'?" if close else "."
    return f"{suggestion} Known: {', '.join(names)}."


class StudyWarning(UserWarning):
    """The goal or the budget of a study will probably be missed; the text says what to change."""

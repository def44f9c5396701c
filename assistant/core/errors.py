"""What can go wrong in the assistant, one sentence each.

::

    AssistantError
    ├── ObjectiveError      a measure is missing, of the wrong shape, or unknown
    ├── ExperimentError     an event or a request that the experiment cannot take
    │   └── ImpossibleValueError    a value that it could take in no state at all
    ├── ApplicationError    an application cannot be built from what was given
    ├── RunError            one run failed; recorded as a failure, never as an observation
    │   └── ProgramError            a program of the user's failed; it knows what was printed
    ├── StoreError          the store cannot be read or written
    │   ├── UnknownExperimentError  no experiment of that name is stored
    │   ├── TakenNameError          there is an experiment of that name already
    │   ├── GoneOnError             the journal has gone on elsewhere
    │   └── StoreFullError          the medium has no room; nothing was stored
    ├── UnknownClaimError   no run was ever claimed under a token
    ├── KeyReusedError      the key of a request was used for another one before
    ├── NotExecutedHereError    a worker is not allowed to execute what a run needs
    ├── ClaimLostError      a run is not (any more) the worker's who speaks of it
    ├── ServiceError        a service that cannot be started, found or trusted
    │   └── NotLetInError           the service takes no such token
    ├── CodecError          a stored value cannot be read back
    └── SettingsError       a sweep file or an option is wrong
"""

from collections.abc import Iterable
from difflib import get_close_matches

from strategies.space.errors import one_line


class AssistantError(Exception):
    """Root of every error that is the user's to mend."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class ObjectiveError(AssistantError):
    """A measure is missing, of the wrong shape, or unknown."""


class ExperimentError(AssistantError):
    """An event or a request that the experiment cannot take in its present state."""


class ImpossibleValueError(ExperimentError):
    """A value that no state of the experiment could take."""


class ApplicationError(AssistantError):
    """An application cannot be built from what was given."""


class RunError(AssistantError):
    """One run failed; it is recorded as a failure, never as an observation."""


class RunStoppedError(RunError):
    """A run was ended early because somebody wanted so."""


class ProgramError(RunError):
    """A program of the user's own was started, or was to be, and gave no measures.

    Args:
        sentence: why.
        argv: program and arguments as they were handed over.
        code: exit code, negative for a signal; None if it was not started.
        overtime: whether the limit of a run ended it.
        stdout: the end of what it printed.
        stderr: the same of standard error.
        limited: whether another limit than that of time ended it, as the sentence says.
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
    """Runs cannot be executed: nothing answers where they should be, for now."""


class StoreError(AssistantError):
    """The store cannot be read or written."""


class UnknownExperimentError(StoreError):
    """No experiment of that name is stored."""


class NameTakenError(StoreError):
    """There is an experiment of that name already."""


class VersionConflictError(StoreError):
    """The journal of an experiment has gone on since it was read."""


class ServiceError(AssistantError):
    """A service cannot be started, found or trusted."""


class AccessDeniedError(ServiceError):
    """The service does not take the token, or not for this."""


class StoreFullError(StoreError):
    """The medium has no room; nothing was stored."""


class UnknownLeaseError(AssistantError):
    """No run was ever claimed under a token."""


class IdempotencyKeyReusedError(AssistantError):
    """The key of a request was used for another one before."""


class ExecutionRefusedError(AssistantError):
    """The operator of a worker does not allow what a run would execute."""


class LeaseLostError(AssistantError):
    """A run is not (any more) the worker's who speaks of it."""


class CodecError(AssistantError):
    """A stored value cannot be read back."""


class SettingsError(AssistantError):
    """A sweep file or an option is wrong."""


def hint(name: str, candidates: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: what was meant, and what there is.

    >>> hint("nods", ["nodes", "rate"])
    "; did you mean 'nodes'? Known: nodes, rate."
    """
    names = sorted(candidates)
    close = get_close_matches(name, names, 1)
    suggestion = f"; did you mean '{close[0]}'?" if close else "."
    return f"{suggestion} Known: {', '.join(names)}."

"""Registration of external clients: programs that lease and execute the runs of one experiment.

The token is for one experiment and appears only in the answer. A registration that is repeated
under its key, because the answer was lost, replaces the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assistant.config.sweep_file import BuiltSweep, build_sweep, check_settings
from assistant.core.commands import ChangeAutoSteering
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.events import is_external_application
from assistant.core.sla import AutoSteering
from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.service.experiment_service import ExperimentService, IdempotentRequest

MOST_PROGRAMS = 20  # per experiment at once; one more revokes the first token
FINISHED_KEPT = 100  # tokens of finished experiments, so that clients learn of the end
LIMIT_OF_A_RUN = (
    "the time limit of a run of an external client is a term of the SLA; set it as run_limit"
)
_NAME_LENGTH = 32


@dataclass(frozen=True, slots=True)
class ProgramRegistration:
    """Registration of an external client: experiment name, sweep settings and auto-steering.

    ``auto_steering`` is True for that of the settings, None for none. ``resume``
    continues the latest unfinished experiment of this name.
    """

    name: str
    settings: Mapping[str, Any]
    auto_steering: AutoSteering | bool | None
    resume: bool


@dataclass(frozen=True, slots=True)
class RegisteredProgram:
    """Result of registering an external client: experiment id, token and token name."""

    experiment_id: str
    token: str
    holder: str
    resumed: bool


def register(
    service: ExperimentService,
    registration: ProgramRegistration,
    request: IdempotentRequest,
    created_by: str | None = None,
) -> RegisteredProgram:
    """Open a new experiment for an external client, or continue an existing one.

    Raises:
        SettingsError: the settings are wrong, or of another kind of application.
        ExperimentError: the experiment to continue has other parameters or another objective.
        IdempotencyKeyReusedError: the key was used for another request.
    """
    tables = _tables(registration)
    built = build_sweep(check_settings(service.placed(tables), "the settings"))
    earlier = service.answered(request)
    there = (
        None
        if earlier is not None or not registration.resume
        else _unfinished(service, registration.name)
    )
    if there is not None:
        _refuse_another(service, there, built)
        return _registered(service, there, created_by, resumed=True)
    opened = service.open_settings(tables, registration.name, request).experiment_id
    how = _automatic(registration, built)
    if how is not None:
        # A key of its own: the command is applied once, even if this process ends between the two.
        key = None if request.key is None else f"{request.key} automatic"
        handing = IdempotentRequest(key, request.digest)
        if service.answered(handing) is None:
            service.decide(opened, handing, ChangeAutoSteering(how))
    return _registered(service, opened, created_by, again=earlier is not None)


def _tables(registration: ProgramRegistration) -> dict[str, Any]:
    tables = dict(registration.settings)
    application = tables.setdefault("application", {"kind": "rest"})
    if isinstance(application, dict):
        application = tables["application"] = {"kind": "rest", **application}
    if not is_external_application(application):
        raise SettingsError(
            "an external client takes its runs itself, so [application] must have the kind 'rest' "
            "and no url; open other experiments with POST /v1/experiments"
        )
    if application.get("limit") is not None:
        raise SettingsError(LIMIT_OF_A_RUN)
    if tables.setdefault("name", registration.name) != registration.name:
        raise SettingsError("the settings have another name than the registration; give it once")
    return tables


def _automatic(registration: ProgramRegistration, built: BuiltSweep) -> AutoSteering | None:
    if registration.auto_steering is True:
        settings = built.settings
        return AutoSteering(settings.batch, settings.initial, settings.warnings)
    return registration.auto_steering or None


def _unfinished(service: ExperimentService, name: str) -> str | None:
    """Return the latest unfinished experiment of a name that has an external client."""
    queue = service.queue
    return next(
        (
            stored.id
            for stored in service.store.experiments()
            if stored.name == name
            and queue.is_external(stored.id)
            and queue.why_finished(stored.id) is None
        ),
        None,
    )


def _refuse_another(service: ExperimentService, experiment_id: str, built: BuiltSweep) -> None:
    opened = service.store.opened(experiment_id)
    if opened.space.lineage != built.space.lineage or opened.objective != built.objective:
        raise ExperimentError(
            f"experiment '{experiment_id}' of this name has other parameters or another objective; "
            "register with another name, or without resume to open a new one"
        )


def _registered(
    service: ExperimentService,
    experiment_id: str,
    created_by: str | None,
    *,
    again: bool = False,
    resumed: bool = False,
) -> RegisteredProgram:
    _tidy(service, experiment_id)
    first = experiment_id[-_NAME_LENGTH:].lstrip("-")
    name = first if again else _free(service.book, experiment_id, first)
    token = service.book.issue(
        name, Role.ADAPTER, experiment_id=experiment_id, created_by=created_by, again=again
    )
    service.client_liveness.note(experiment_id)
    return RegisteredProgram(experiment_id, token, name, resumed)


def _free(book: ApiTokenStore, experiment_id: str, first: str) -> str:
    """Return a name that no current or recent client of the experiment has."""
    names = {holder.name for holder in book.holders() if holder.experiment_id == experiment_id}
    if not names:
        return first
    numbers = [name.removeprefix(f"{first}-") for name in names]
    return f"{first}-{max([1, *(int(n) for n in numbers if n.isdecimal())]) + 1}"


def _tidy(service: ExperimentService, experiment_id: str) -> None:
    """Revoke the oldest tokens of external clients, so that there is room for others."""
    book = service.book
    programs = [holder for holder in book.holders() if holder.role is Role.ADAPTER]
    same_experiment = [holder for holder in programs if holder.experiment_id == experiment_id]
    over = [
        holder
        for holder in programs
        if holder.experiment_id and service.queue.why_finished(holder.experiment_id) is not None
    ]
    for holder in {*same_experiment[MOST_PROGRAMS - 1 :], *over[FINISHED_KEPT:]}:
        book.revoke(holder.name)

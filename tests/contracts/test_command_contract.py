"""Every command: its request gives the command again, and is no other's request."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from assistant import Sla, WarningPolicy
from assistant.client.remote_session import request_of
from assistant.core import commands as core_commands
from assistant.core.commands import (
    CancelRun,
    ChangeAutoSteering,
    ChangeEarlyStopping,
    ChangeLevel,
    ChangeSla,
    ChangeSteering,
    ChangeWarningPolicy,
    Command,
    DeleteExperiment,
    ExcludeConfigurations,
    FinishExperiment,
    HoldRun,
    ImportResults,
    IncludeRun,
    PrioritiseRun,
    RateRun,
    RecoverRuns,
    ReleaseRun,
    RenameExperiment,
    ReopenExperiment,
    ReplicateRun,
    StopRun,
    SubmitBaseline,
    SubmitBatch,
    SubmitPlan,
    TagExperiment,
    UndeleteExperiment,
    WeighRegion,
)
from assistant.core.early_stopping import EarlyStopping
from assistant.core.sla import AutoSteering, Tariff
from assistant.core.submission import PastResult
from assistant.service.schemas import command_body, path_fields
from assistant.session import commands as session_commands
from assistant.session.commands import COMMANDS, AnswerWarning, SuggestBatch

EXAMPLES: tuple[Command, ...] = (
    SuggestBatch(3, "initial"),
    AnswerWarning("changed", 0.25),
    SubmitBatch(2, [0, 3], {3: {"x": 1, "mode": "odd"}}),
    IncludeRun({"x": 1.5, "on": True}, "because"),
    ReplicateRun(4, 2),
    ReplicateRun({"x": 1}),
    SubmitBaseline(),
    ImportResults(
        [PastResult({"x": 1}, {"height": 2.0, "series": (1.0, 2.0), "none": None})], True
    ),
    PrioritiseRun(3, "first"),
    PrioritiseRun(3, -2.5),
    HoldRun(1),
    ReleaseRun(1),
    CancelRun(1, "no"),
    StopRun(7, False, "enough"),
    RateRun(2, None),
    RecoverRuns(),
    ChangeSteering("copper", {"beta": 0.5}, None),
    ChangeSteering(),
    WeighRegion(1, 2.0),
    ChangeSla(Sla(9, max_cost=2.0, tariff=Tariff("EUR", per_hour=1.0), goal=1.0, at_goal="go_on")),
    ChangeWarningPolicy(WarningPolicy(warn_from=0.5)),
    ChangeEarlyStopping(EarlyStopping("epoch", "halving", first_step=2.0)),
    ChangeEarlyStopping(None),
    ChangeAutoSteering(AutoSteering(4, 2, "wait"), "go"),
    ChangeAutoSteering(None),
    ChangeLevel("prefer", "x", 2),
    ExcludeConfigurations("x > 1"),
    SubmitPlan({"x": (1, 2)}),
    FinishExperiment("enough"),
    ReopenExperiment(),
    RenameExperiment("another"),
    TagExperiment(("a",), ("b",)),
    DeleteExperiment(),
    UndeleteExperiment(),
)


def test_every_command_is_in_the_table_with_an_example_and_a_route_of_its_own() -> None:
    modules = (core_commands, session_commands)
    classes = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Command) and kind is not Command
    }
    assert classes == set(COMMANDS) == {type(example) for example in EXAMPLES}
    routes = [(kind.route.method, kind.route.path) for kind in COMMANDS]
    assert len(set(routes)) == len(COMMANDS)


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: type(command).__name__)
def test_a_request_gives_the_command_again(command: Command) -> None:
    kind = type(command)
    path, body = request_of(command)
    model = command_body(kind)
    fields: dict[str, Any] = {}
    if model is None:
        assert body == {}
    else:
        fields = model.model_validate(json.loads(json.dumps(body))).fields()
    for name in path_fields(kind):
        fields[name] = getattr(command, name)
        assert str(fields[name]) in path
    assert _plain(kind(**fields)) == _plain(command)


def _plain(command: Command) -> str:
    """Return a command as text, in which lists and tuples are alike."""
    return repr(command).replace("(", "[").replace(")", "]").replace(",]", "]")

"""MCP server by the package `mcp`: the tools, resources and prompts, on stdio or over HTTP."""

from __future__ import annotations

import inspect
import json
import socket
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from assistant.cli.mcp_access import (
    MEANINGS,
    NOTE,
    UNTRUSTED,
    CallRefusedError,
    McpCaller,
    McpRole,
    clean_text,
    role_of_token,
)
from assistant.cli.mcp_tools import COMMAND_TOOLS, CommandTool, ExperimentName, McpTools, Why
from assistant.client.api import REMOTE_ERRORS
from assistant.core.version import version
from assistant.service.api_tokens import ApiToken, ApiTokenStore, token_store_path
from assistant.service.auth import AuthMiddleware, caller_of, read_or_make_tokens, tokens_path

LONGEST_CLIENT = 80  # characters of a client's name in the event log
LONGEST_REFUSAL = 2_000
MOST_FAULTS = 5
MCP_PATH = "/mcp"

_INSTRUCTIONS = (
    "Copperline steers a parameter sweep: it suggests configurations, and a person or a program "
    "submits them as runs, within a budget. Another process executes the runs: copperline resume, "
    "or copperline serve --execute. "
) + NOTE

FIRST_SESSION = (
    "Get to know the sweep '{experiment}' with the tools of Copperline. Call describe_experiment "
    "and describe_space. Say in three sentences what is optimised, what is left of the budget, and "
    "what is best so far. Then call forecast and effects. Change nothing. End with one "
    "proposal for the next step and your reason. " + NOTE
)
FIRST_BATCH = (
    "Help with the next batch of the sweep '{experiment}'. Call describe_experiment. If a warning "
    "is open, explain its alternatives and stop. Else call suggest with 4 suggestions and your "
    "reason in 'why'. Compare each with the best run, and say which to submit, and why. " + NOTE
)


class _StoredTokens(ApiTokenStore):
    """Named tokens of a store, read again for each request, since its service writes them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = path

    def holder_of(self, presented: bytes) -> ApiToken | None:
        """Return the valid named token with this secret, as it is on the disk now."""
        return ApiTokenStore(self._file).holder_of(presented)


class _SteeringServer(MCPServer):
    """Server whose refusals are sentences alone, without names of the package or of types."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        """Call a tool. Raises ToolError with one sentence."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as invalid:
                    faults = "; ".join(
                        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
                        for fault in invalid.errors(include_url=False)[:MOST_FAULTS]
                    )
                    sentence = clean_text(faults, LONGEST_REFUSAL)
                    raise ToolError(f"the arguments of {name} are invalid: {sentence}") from error
                case ToolError() as refusal:
                    raise refusal from None
            raise


def make_mcp_server(tools: McpTools, role: McpRole) -> MCPServer:
    """Return the server; ``role`` is that of a client on stdio, and over HTTP the most of any."""
    server = _SteeringServer(
        "copperline",
        title="Copperline",
        instructions=f"{_INSTRUCTIONS} You {MEANINGS[role]}.",
        version=version(),
        log_level="WARNING",
    )
    for query in tools.queries():
        server.add_tool(
            _query_tool(tools, query, role),
            name=query.__name__,
            description=inspect.getdoc(query),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
    for tool in COMMAND_TOOLS:
        server.add_tool(
            _command_tool(tools, tool, role),
            name=tool.name,
            description=f"{inspect.getdoc(tool.command)} Needs the role '{tool.role}'.",
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=False, open_world_hint=False
            ),
        )
    _add_resources(server, tools, role)
    _add_prompts(server)
    return server


def serve_http(
    server: MCPServer, store: Path, listening: socket.socket, on_start: Callable[[str], None]
) -> None:
    """Serve streamable HTTP on a bound socket until Ctrl-C or SIGTERM, with the store's tokens.

    Raises ServiceError: the tokens cannot be read.
    """
    host, port = listening.getsockname()[:2]
    app = AuthMiddleware(
        server.streamable_http_app(streamable_http_path=MCP_PATH, host=host),
        read_or_make_tokens(tokens_path(store)),
        book=_StoredTokens(token_store_path(store)),
    )
    listening.listen()
    name = f"[{host}]" if ":" in host else host
    on_start(f"http://{name}:{port}{MCP_PATH}")
    uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    ).run(sockets=[listening])


def _caller(context: Context[Any, Any], most: McpRole) -> McpCaller:
    """Return who calls. Raises CallRefusedError for a token that may not call at all."""
    params = context.session.client_params
    client = "a client without a name" if params is None else params.client_info.name
    client = clean_text(client, LONGEST_CLIENT)
    request = context.request_context.request
    if request is None:
        return McpCaller(most, client)
    caller = caller_of(request)
    name = caller.name or f"the token of the role {caller.role}"
    return McpCaller(role_of_token(caller.role, most), client, name)


def _refusal(error: Exception) -> ToolError:
    """Return the error of a tool: a sentence of ours, or else one in which names are data."""
    sentence = clean_text(str(error), LONGEST_REFUSAL)
    if isinstance(error, CallRefusedError):
        return ToolError(sentence)
    body = {"refused": f"The call was refused, and nothing was changed. {NOTE}"}
    return ToolError(json.dumps({**body, UNTRUSTED: {"reason": sentence}}, ensure_ascii=False))


def _query_tool(
    tools: McpTools, query: Callable[..., dict[str, Any]], most: McpRole
) -> Callable[..., dict[str, Any]]:
    """Return a query as a function for the package, with the context of the call."""

    @wraps(query)
    def called(*, context: Context[Any, Any], **values: Any) -> dict[str, Any]:
        try:
            tools.count_call(_caller(context, most))
            return query(**values)
        except REMOTE_ERRORS as error:
            raise _refusal(error) from error

    hints = typing.get_type_hints(query, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(query).parameters.items()
    ]
    return _with_signature(called, parameters)


def _command_tool(
    tools: McpTools, tool: CommandTool, most: McpRole
) -> Callable[..., dict[str, Any]]:
    """Return a tool with the arguments of its command, an experiment and a reason."""

    def called(
        *, context: Context[Any, Any], experiment: str, why: str, **values: Any
    ) -> dict[str, Any]:
        try:
            caller = _caller(context, most)
            return tools.change(caller, tool, experiment, why, tool.command(**values))
        except REMOTE_ERRORS as error:
            raise _refusal(error) from error

    parameters = [
        _parameter("experiment", ExperimentName, "latest"),
        _parameter("why", Why),
        *_parameters_of(tool.command),
    ]
    return _with_signature(called, parameters)


def _parameters_of(command: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the arguments of a command, with the types that the routes of the service have."""
    hints = typing.get_type_hints(command, include_extras=True)
    if is_dataclass(command):
        defaults = {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in fields(command)
        }
        return [
            _parameter(
                name, hints[name], inspect.Parameter.empty if default is MISSING else default
            )
            for name, default in defaults.items()
        ]
    return [
        _parameter(name, hints[name], parameter.default)
        for name, parameter in inspect.signature(command).parameters.items()
    ]


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _with_signature(
    called: Callable[..., dict[str, Any]], parameters: list[inspect.Parameter]
) -> Callable[..., dict[str, Any]]:
    """Give a function the signature from which the package makes the schema of a tool."""
    context = _parameter("context", Context)
    signature = inspect.Signature([context, *parameters], return_annotation=dict[str, Any])
    called.__signature__ = signature  # type: ignore[attr-defined]
    called.__annotations__ = {
        **{each.name: each.annotation for each in (context, *parameters)},
        "return": dict[str, Any],
    }
    if hasattr(called, "__wrapped__"):
        del called.__wrapped__
    return called


def _add_resources(server: MCPServer, tools: McpTools, most: McpRole) -> None:
    def reading(read: Callable[[str], str], experiment: str, context: Context[Any, Any]) -> str:
        try:
            tools.count_call(_caller(context, most))
            return read(experiment)
        except REMOTE_ERRORS as error:
            raise ResourceError(str(_refusal(error))) from error

    @server.resource(
        "copperline://experiments/{experiment}/report",
        name="report",
        description="Report of an experiment. " + NOTE.replace(f"under '{UNTRUSTED}'", "in it"),
        mime_type="text/markdown",
    )
    def report(experiment: str, context: Context[Any, Any]) -> str:
        return reading(tools.report_text, experiment, context)

    @server.resource(
        "copperline://experiments/{experiment}/events",
        name="events",
        description="Event log of an experiment. " + NOTE,
        mime_type="application/json",
    )
    def events(experiment: str, context: Context[Any, Any]) -> str:
        return reading(tools.event_log_text, experiment, context)


def _add_prompts(server: MCPServer) -> None:
    @server.prompt(description="Get to know a sweep; changes nothing.")
    def first_session(experiment: str = "latest") -> str:
        return FIRST_SESSION.format(experiment=clean_text(experiment, 200))

    @server.prompt(description="Ask for the next batch, and compare its suggestions.")
    def next_batch(experiment: str = "latest") -> str:
        return FIRST_BATCH.format(experiment=clean_text(experiment, 200))

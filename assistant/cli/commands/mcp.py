"""Command ``copperline mcp``: stored experiments as tools of a Model Context Protocol client."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from assistant.cli.console import StoreOption, say
from assistant.cli.experiment_view import existing
from assistant.core.errors import SettingsError

DEFAULT_PORT = 8766


def mcp(
    role: Annotated[
        Literal["looks", "suggests", "steers"],
        typer.Option(
            help="The most that a client may do; over HTTP the role of its token may be less."
        ),
    ] = "looks",
    budget: Annotated[
        int | None,
        typer.Option(
            help="Runs that a client with --role steers may submit in each experiment.",
            min=1,
            show_default=False,
        ),
    ] = None,
    calls_per_min: Annotated[
        int,
        typer.Option("--calls-per-min", help="Calls a minute of each token.", min=1, max=10_000),
    ] = 60,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP with the tokens of the store, not stdio.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address for --http.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port for --http; 0 is any free port.", min=0, max=65535)
    ] = DEFAULT_PORT,
    store: StoreOption = None,
) -> int:
    """Offer the stored experiments as tools to a client of the Model Context Protocol.

    The client speaks on standard input and output, or over HTTP. It looks, suggests or steers
    within a budget of runs; each change is stored with its name and its reason.
    """
    if find_spec("mcp") is None:
        raise SettingsError(
            "copperline mcp needs the package mcp; install it with: pip install 'copperline[mcp]'"
        )
    if (role == "steers") != (budget is not None):
        raise SettingsError(
            "--role steers and --budget N belong together: give the number of runs that the client "
            "may submit, for example --role steers --budget 10"
        )
    from assistant.cli.mcp_access import CallLimiter, McpRole
    from assistant.cli.mcp_server import make_mcp_server, serve_http
    from assistant.cli.mcp_tools import McpTools
    from assistant.service.auth import tokens_path
    from assistant.service.server import bind

    path = existing(store)
    most = McpRole[role.upper()]
    server = make_mcp_server(McpTools(store, CallLimiter(calls_per_min, budget)), most)
    if not http:
        server.run("stdio")
        return 0
    listening = bind(host, port, tokens=tokens_path(path))
    serve_http(
        server, path, listening, lambda url: say(f"Serving '{path}' at {url} (role: {role}).")
    )
    return 0

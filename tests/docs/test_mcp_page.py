"""The transcript of `docs/howto/mcp.md` is what the package's own client says and hears.

Written anew by: python -m tests.docs.test_mcp_page
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import Implementation, TextContent

from assistant import Sla, open_session
from assistant.cli.mcp_access import UNTRUSTED
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from tests.assistant.examples import Bowl, TickingClock

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "howto" / "mcp.md"
BEGIN, END = "<!-- transcript -->\n", "<!-- end of the transcript -->"
CALLS: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("describe_experiment", {"experiment": "bowl"}, ("objective", "sla", "runs_left")),
    ("suggest", {"n": 2, "why": "two results are in"}, ("recorded", "changes", "latest_batch")),
    ("submit", {"number": 2, "why": "both are new"}, ()),
    (
        "submit",
        {"number": 2, "keep": [0], "why": "one run is left for me"},
        ("recorded", "changes", "runs_left_for_you"),
    ),
)  # fmt: skip


def transcript(folder: Path) -> str:
    """Return the calls of a client on stdio that may submit one run, and parts of the answers."""
    store = folder / "experiments.db"
    session = open_session(
        Bowl(), store=SqliteStore(store), sla=Sla(12), experiment_id="bowl", seed=5,
        clock=TickingClock(),
    )  # fmt: skip
    session.submit(session.initial_evaluation(2))
    session.run_queued(SerialExecutor(Bowl()))
    arguments = ["-m", "assistant.cli", "mcp", "--role", "steers", "--budget", "1"]
    where = StdioServerParameters(
        command=sys.executable, args=[*arguments, "--store", str(store)], cwd=REPOSITORY
    )
    return asyncio.run(_spoken(where))


async def _spoken(where: StdioServerParameters) -> str:
    lines: list[str] = []
    async with Client(where, client_info=Implementation(name="example", version="1")) as client:
        for tool, arguments, shown in CALLS:
            result = await client.call_tool(tool, arguments)
            (content,) = result.content
            assert isinstance(content, TextContent)
            lines.append(f"> {tool} {json.dumps(arguments)}")
            if result.is_error:
                lines += [f"error: {content.text}", ""]
                continue
            data = (result.structured_content or {})[UNTRUSTED]
            parts = {name: data[name] for name in shown}
            lines += [json.dumps({UNTRUSTED: parts}, indent=1), ""]
    return "```text\n" + "\n".join(lines).rstrip() + "\n```\n"


def _parts(text: str) -> tuple[str, str, str]:
    before, rest = text.split(BEGIN)
    block, after = rest.split(END)
    return before, block, after


def test_the_transcript_of_the_page_is_what_a_client_hears(tmp_path: Path) -> None:
    assert _parts(PAGE.read_text())[1] == transcript(tmp_path)


if __name__ == "__main__":
    before, _, after = _parts(PAGE.read_text())
    with TemporaryDirectory() as folder:
        PAGE.write_text(before + BEGIN + transcript(Path(folder)) + END + after)

"""Generator of the reference of routes, `docs/reference/rest.md`.

Write it anew with `python -m assistant.service.reference > docs/reference/rest.md`. Everything
comes from the service's OpenAPI document.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from assistant.service.app import (
    BEHIND_A_TOKEN,
    EVERYWHERE,
    THAT_CHANGES,
    WITH_A_BODY,
    openapi_text,
)

Json = dict[str, Any]

INTRODUCTION = (
    "Generated from the service itself: `python -m assistant.service.reference`. The same as an "
    "OpenAPI document is [openapi.json](../openapi.json).\n\n"
    "Tokens are sent as `Authorization: Bearer TOKEN`. The examples have theirs in the variable "
    "`COPPERLINE_TOKEN`, from which `copperline work --url` reads it too. A body is JSON and needs "
    "`Content-Type: application/json`; with another type it is refused (415).\n\n"
    "```sh\n"
    'curl -H "Authorization: Bearer $COPPERLINE_TOKEN" http://127.0.0.1:8765/v1/caller\n'
    'curl -H "Authorization: Bearer $COPPERLINE_TOKEN" -H "Content-Type: application/json" \\\n'
    '     -d \'{"worker": "mine"}\' http://127.0.0.1:8765/v1/leases\n'
    "```\n\n"
    "A refusal is a problem document (RFC 9457) "
    "with a sentence in `detail` and a way out in `hint`. A repeated request with the same "
    "`Idempotency-Key` has no second effect. A decision with `If-Match` is refused (412) if the "
    "experiment has another version.\n\n"
    "Any request may be refused with 400, 421, 431, 500 or 503; one that needs a token with 401, "
    "403 or 429; one with a body or parameters with 408, 413, 415 or 422; one that changes "
    "something with 507 if the disk is full. Other refusals stand with their route."
)

USUAL = {str(status) for status in (*EVERYWHERE, *BEHIND_A_TOKEN, *WITH_A_BODY, *THAT_CHANGES)}
"""Statuses of refusals that the page explains once."""

METHODS = ("get", "post", "put", "patch", "delete")


def rest_reference() -> str:
    """Return every route with its fields and answers as Markdown."""
    document: Json = json.loads(openapi_text())
    parts = [
        "# Routes of the service",
        INTRODUCTION,
    ]
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                tag = operations[method].get("tags", ["service"])[0]
                by_tag.setdefault(tag, []).append(
                    _operation(f"{method.upper()} {path}", operations[method])
                )
    for tag, operations_of_tag in by_tag.items():
        parts += [f"## {tag.capitalize()}", *operations_of_tag]
    parts.append("## Bodies")
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("In") and schema.get("properties"):
            parts += [f"### {name}", _fields(schema, document)]
    return "\n\n".join(parts) + "\n"


def _operation(title: str, operation: Json) -> str:
    parts = [f"### `{title}`", _plain(operation.get("description") or operation["summary"])]
    queries = [
        f"`{parameter['name']}`{_meaning(parameter)}"
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
    ]
    if queries:
        parts.append(f"Query: {'; '.join(queries)}.")
    if body := _body(operation):
        parts.append(f"Body: {body}.")
    parts.append(f"Answers: {', '.join(_answers(operation))}.")
    return "\n\n".join(parts)


def _meaning(parameter: Json) -> str:
    return f", {_plain(parameter['description'])}" if parameter.get("description") else ""


def _body(operation: Json) -> str:
    content: Json = operation.get("requestBody", {}).get("content", {})
    for kind, described in content.items():
        schema = described["schema"]
        for variant in (schema, *schema.get("anyOf", [])):
            if "$ref" in variant:
                name = variant["$ref"].rpartition("/")[2]
                return f"[{name}](#{name.lower()})"
        return f"`{kind}`"
    return ""


def _answers(operation: Json) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        if int(status) >= 400:
            continue
        content = answer.get("content", {}).get("application/json", {}).get("schema", {})
        name = content.get("$ref", "").rpartition("/")[2]
        yield f"{status}{f' `{name}`' if name else ''}"
    refusals = [
        status for status in operation["responses"] if int(status) >= 400 and status not in USUAL
    ]
    if refusals:
        yield f"refused with {', '.join(refusals)}"


def _fields(schema: Json, document: Json) -> str:
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, described in schema["properties"].items():
        if name in schema.get("required", ()):
            default = "required"
        else:
            value = described.get("default")
            default = "" if value is None else f"`{json.dumps(value)}`"
        meaning = _plain(described.get("description", "")).replace("|", "\\|")
        rows.append(f"| `{name}` | {_type(described, document)} | {default} | {meaning} |")
    return "\n".join(rows)


def _type(described: Json, document: Json) -> str:
    if "$ref" in described:
        name = str(described["$ref"].rpartition("/")[2])
        fields = document["components"]["schemas"].get(name, {}).get("properties")
        return f"[{name}](#{name.lower()})" if fields and name.endswith("In") else name
    if "anyOf" in described:
        types = [
            _type(choice, document) for choice in described["anyOf"] if choice.get("type") != "null"
        ]
        return " or ".join(dict.fromkeys(types))
    if described.get("type") == "array":
        return f"list of {_type(described.get('items', {}), document)}"
    if choices := described.get("enum") or ([described["const"]] if "const" in described else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    return str(described.get("type", "value"))


def _plain(text: str) -> str:
    """Return a docstring's text as Markdown."""
    return "\n\n".join(
        " ".join(paragraph.split()) for paragraph in text.replace("``", "`").split("\n\n")
    )


if __name__ == "__main__":
    sys.stdout.write(rest_reference())

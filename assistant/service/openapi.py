"""The OpenAPI document of the service: ``python -m assistant.service.openapi > docs/openapi.json``.

The routes say what they take and give; the walls around them say what every request may meet.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI

from assistant.service.app import documented
from assistant.service.problems import PROBLEM_SCHEMA, responses

EVERYWHERE = (400, 421, 431, 500, 503)
BEHIND_A_TOKEN = (401, 403, 429)
WITH_A_BODY = (408, 413, 415, 422)
THAT_CHANGES = (507,)

Json = dict[str, Any]


def document(app: FastAPI) -> Json:
    """Return the document of an app's routes, with the refusals of its walls."""
    told: Json = json.loads(json.dumps(app.openapi()))
    used: set[int] = set()
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            used |= _complete(path, method, operation)
    components: Json = told["components"]
    components["responses"] = {f"Problem{n}": one for n, one in responses(*sorted(used)).items()}
    schemas = {**components["schemas"], "Problem": dict(PROBLEM_SCHEMA)}
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["schemas"] = dict(sorted(schemas.items()))
    return told


def text() -> str:
    """Return the document of the service as it is checked in."""
    return f"{json.dumps(document(documented()), indent=1)}\n"


def _complete(path: str, method: str, operation: Json) -> set[int]:
    """Add what any request may meet; return the refusals that are possible."""
    known: Json = operation["responses"]
    statuses = {int(status) for status in known if int(status) >= 400} | set(EVERYWHERE)
    if operation.get("security"):
        statuses |= set(BEHIND_A_TOKEN)
    if operation.get("requestBody"):
        statuses |= set(WITH_A_BODY)
    if method != "get":
        statuses |= set(THAT_CHANGES)
    if operation.get("parameters"):
        statuses.add(422)
    if "{" not in path:  # nothing is named that might not be there, or might have gone on
        statuses -= {404, 412}
    answers = {status: one for status, one in known.items() if int(status) < 400}
    refusals = {str(n): {"$ref": f"#/components/responses/Problem{n}"} for n in sorted(statuses)}
    operation["responses"] = answers | refusals
    operation["summary"] = operation["description"].split("\n\n")[0].replace("\n", " ")
    return statuses


if __name__ == "__main__":
    sys.stdout.write(text())

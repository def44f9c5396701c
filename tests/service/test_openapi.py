"""The OpenAPI document: it is checked in, says what the routes do, and the service keeps to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from assistant.service.app import make_documentation_app, openapi_text
from assistant.service.middleware import unprotected_routes
from tests.conftest import REPOSITORY
from tests.service.real import NAME, Real, serving, with_runs

DOCUMENT: dict[str, Any] = json.loads((REPOSITORY / "docs" / "openapi.json").read_text())


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_document_is_checked_in(repository: Path) -> None:
    checked_in = (repository / "docs" / "openapi.json").read_text()
    assert checked_in == openapi_text(), "python -m assistant.service.app > docs/openapi.json"


@pytest.mark.soak
def test_the_command_writes_it(repository: Path) -> None:
    command = [sys.executable, "-m", "assistant.service.app"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == openapi_text()


def test_only_health_asks_for_no_token() -> None:
    assert unprotected_routes(make_documentation_app()) == ["GET /health"]


def test_every_route_says_what_it_does_and_how_it_refuses() -> None:
    for method, path, operation in operations():
        answers = set(operation["responses"])
        assert operation["summary"].strip(), path
        assert {"400", "421", "431", "500", "503"} <= answers, path
        if path != "/health":
            assert {"401", "403", "429"} <= answers, path
        if "requestBody" in operation:
            assert {"408", "413", "415", "422"} <= answers, path
            (schema,) = operation["requestBody"]["content"].values()
            name = schema["schema"]["$ref"].rsplit("/", 1)[1]
            assert DOCUMENT["components"]["schemas"][name]["additionalProperties"] is False
        if "{experiment}" in path or "{token}" in path:
            assert {"404", "422"} <= answers, path
        names = {one["name"].lower() for one in operation.get("parameters", [])}
        if "if-match" in names:
            assert {"409", "412"} <= answers, path
            assert "idempotency-key" in names
        is_reading = method in ("get", "put") or path.endswith("what-if")
        if not is_reading and not path.startswith("/v1/leases/"):
            assert "idempotency-key" in names, path


def test_every_answer_has_a_schema() -> None:
    for _, path, operation in operations():
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                name = answer["$ref"].rsplit("/", 1)[1]
                answer = DOCUMENT["components"]["responses"][name]  # noqa: PLW2901
                assert list(answer["content"]) == ["application/problem+json"]
            if status == "200" and path != "/metrics":
                for content in answer["content"].values():
                    schema = content["schema"]
                    assert "$ref" in schema or schema["type"] in ("array", "string"), path
    assert DOCUMENT["components"]["schemas"]["Problem"]["required"] == [
        "type", "title", "status", "detail",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as found:
        with_runs(found, 20)
        yield found


EXAMPLES = 5
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "response_headers_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def schema(real: Real) -> Any:
    import schemathesis
    from schemathesis.checks import load_all_checks

    load_all_checks()
    loaded = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT)))
    loaded.config.update(base_url=real.url)
    return loaded


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"), [pytest.param(m, p, id=f"{m} {p}") for m, p, _ in operations()]
)
def test_whatever_comes_is_answered_as_the_document_says(
    real: Real, schema: Any, method: str, path: str
) -> None:
    """Schemathesis: no 500, answers conform, what the schemas do not allow is refused.

    Half of the requests name what there is: the experiment, its runs, a claim that is held.
    """
    import schemathesis
    from schemathesis.checks import CHECKS as KNOWN

    operation = schema[path][method.upper()]
    told = DOCUMENT["paths"][path][method]
    checks = KNOWN.get_by_names([*CHECKS, *(["negative_data_rejection"] if "{" in path else [])])
    owner = real.client()
    headers = {"Authorization": owner.headers["authorization"]}

    def what_there_is(draw: Any) -> dict[str, Any]:
        known = {"experiment": NAME, "run": draw(st.integers(1, 20)), "number": 1, "token": "x"}
        answer = owner.post("/v1/leases", json={"worker": "w", "lease_s": 0.05})
        if "{token}" in path and answer.status_code == 200:
            known["token"] = answer.json()["token"]
        return {name: value for name, value in known.items() if f"{{{name}}}" in path}

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(data=st.data())
    def conforms(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
        more: dict[str, Any] = {}
        if data.draw(st.booleans()) and ("requestBody" in told or mode.is_positive):
            more = {"path_parameters": what_there_is(data.draw), "headers": headers}
        case = data.draw(operation.as_strategy(generation_mode=mode, **more))
        response = case.call(headers=headers)
        case.validate_response(response, checks=checks, headers=headers)

    conforms()
    assert not [line for line in real.log() if line["event"] == "fault"]

"""Group D, 50-66, at the service: a value that was not declared is refused with 422.

The field is named, nothing is stored, and the service goes on; what cannot be declared is refused
when the experiment is opened.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.service.real import AT, Real, emptied, serving, with_runs

LARGE = "v" * 200_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def real(service: Real) -> Iterator[Real]:
    with_runs(emptied(service))
    yield service
    assert httpx.get(f"{service.url}/health").status_code == 200
    assert not [line for line in service.log() if line["event"] == "fault"]


VALUES: dict[str, Any] = {
    "D50 ; rm": "; rm -rf ~",
    "D51 $()": "$(touch /tmp/x)",
    "D52 backticks": "`id`",
    "D53 a pipe": "| nc",
    "D54 a line end": "odd\ntouch x",
    "D55 --help": "--help",
    "D55 -o": "-o/etc/x",
    "D56 a placeholder": "{0.__class__}",
    "D57 NUL": "odd\0",
    "D58 200 kB": LARGE,
    "D59 a path": "../../x",
    "D61 right to left": "odd\u202e",
    "D61 zero width": "od\u200bd",
    "D61 half a character": "\ud800",
    "D62 another text": "never",
    "D62 a number": 7,
    "D62 truth": True,
    "D62 nothing": None,
    "D62 a list": ["odd"],
    "D66 DROP TABLE": "x'); DROP TABLE run;--",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_outside_the_domain(real: Real, value: object) -> None:
    owner = real.client()
    before = len(real.session().events())
    body = json.dumps({"values": {"x": 1, "y": 1, "mode": value}})
    answer = owner.post(f"{AT}/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert "mode" in answer.text or "surrogate" in answer.text
    assert len(answer.text) < 2_000
    assert len(real.session().events()) == before


NAMES: dict[str, dict[str, Any]] = {
    "D60 PATH": {"x": 1, "y": 1, "mode": "odd", "PATH": "/x"},
    "D61 homoglyph": {"\u0445": 1, "y": 1, "mode": "odd"},
    "D66 DROP TABLE": {"x": 1, "y": 1, "mode": "odd", "x'); DROP TABLE run;--": 1},
    "one is missing": {"x": 1, "y": 1},
}


@pytest.mark.parametrize("values", NAMES.values(), ids=NAMES)
def test_a_name_that_is_none(real: Real, values: dict[str, Any]) -> None:
    before = len(real.session().events())
    answer = real.client().post(f"{AT}/runs", json={"values": values})
    assert answer.status_code == 422, answer.text
    assert len(real.session().events()) == before


def settings(**parameter: Any) -> dict[str, Any]:
    return {
        "application": {"kind": "command", "command": ["true"], "unused": True},
        "objective": {"minimise": "wall_s"},
        "parameters": [{"name": "x", "levels": [1, 2], **parameter}],
    }


MANY = [{"name": f"p{i}", "levels": [1, 2]} for i in range(1_001)]
OPENED: dict[str, dict[str, Any]] = {
    "D54 a line end": settings(levels=["a\nb"]),
    "D57 NUL": settings(levels=["a\0b"]),
    "D58 200 kB": settings(levels=["a", LARGE]),
    "D61 zero width": settings(levels=["a\u200bb"]),
    "D63 no level": settings(levels=[]),
    "D63 twice": settings(levels=[1, 1]),
    "D65 too many parameters": {**settings(), "parameters": MANY},
    "D66 DROP TABLE": settings(name="x'); DROP TABLE run;--"),
    "no memory": {**settings(), "environment": {"memory": "4 G"}},
    "no cores": {**settings(), "environment": {"cores": 0}},
    "a pattern": {
        **settings(), "application": {**settings()["application"], "inherit": ["A=b"]},
    },
}  # fmt: skip


@pytest.mark.parametrize("tables", OPENED.values(), ids=OPENED)
def test_what_cannot_be_declared(
    real: Real, tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real.service, "programs", True)  # as serve --allow-programs does
    stored = len(real.service.store.experiments())
    answer = real.client().post("/v1/experiments", json={"settings": tables})
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 2_000
    assert len(real.service.store.experiments()) == stored


def test_a_service_does_not_start_programs_that_requests_name(real: Real) -> None:
    answer = real.client().post("/v1/experiments", json={"settings": settings()})
    assert answer.status_code == 422
    assert "--allow-programs" in answer.text

"""Numbers at the edge of what may come, over HTTP: looked at, they are no fault of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.real import AT, Real, leased, serving, with_runs


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        with_runs(found, 12)
        yield found


def all_looked_at(client: httpx.Client) -> None:
    for path in ("", "/runs", "/queue", "/forecast", "/effects", "/runs/1"):
        answer = client.get(f"{AT}{path}")
        assert answer.status_code == 200, answer.text
    thought = client.post(f"{AT}/what-if", json={"max_runs": 900, "exploitation": 0.5})
    assert thought.status_code == 200, thought.text


def test_extreme_results_are_looked_at(real: Real) -> None:
    owner = real.client()
    terms = {"deadline_s": 1e11, "max_cost": 1e15, "goal": -1e150, "max_runs": 10**9}
    tariff = {"unit": "EUR", "per_hour": 1e-300}
    assert owner.post(f"{AT}/sla", json={**terms, "tariff": tariff}).status_code == 200
    cases = [(1e-300, 1.0), (1e11, 1e149), (0, -1e149), (5e-324, 5e-324), (1, 1e300), (1, -0.0)]
    for duration_s, height in cases:
        token = leased(owner)["token"]
        body = {"measures": {"height": height}, "duration_s": duration_s}
        assert owner.post(f"/v1/leases/{token}/result", json=body).status_code == 200
        all_looked_at(owner)
        assert owner.post(f"{AT}/suggestions", json={"n": 2}).status_code == 200
    assert owner.get(f"{AT}/runs/5").json()["state"] == "failed"  # 1e300 cannot be judged
    assert not [line for line in real.log() if line["level"] == "error"]

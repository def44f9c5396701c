"""What readers share: answers computed once, 304 to who knows them, and room for workers."""

import asyncio
import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from assistant.applications.scheduling import CurrentPolicies
from assistant.config import snapshot
from assistant.core.experiment import Experiment
from assistant.service.api_tokens import Role
from assistant.service.shared_views import SharedAnswers
from assistant.session.opening import open_session
from assistant.simtools.slurm_conf import slurm_conf
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl
from tests.assistant.test_slurm_conf import scheduling, swept
from tests.service.real import AT, NAME, Real, leased, refused, result, serving, with_runs


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        with_runs(found)
        yield found


def test_what_to_change_on_a_cluster_is_told_for_the_best_run_and_for_any(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = scheduling(
        {"backfill": ("none", "easy")}, current_policies=CurrentPolicies("fcfs", "none")
    )
    tried = swept(cluster, {"backfill": "easy"}, store=real.service.store)
    monkeypatch.setattr(snapshot, "rebuild", lambda _opened: cluster)
    at, viewer = f"{AT[: -len(NAME)]}{tried.opened.experiment_id}/cluster-settings", real.client()
    best = viewer.get(f"{at}/slurm")
    assert (best.status_code, best.text) == (200, slurm_conf(cluster, tried))
    assert viewer.get(f"{at}/slurm", params={"run": 2}).text == slurm_conf(cluster, tried, 2)
    refused(viewer.get(f"{at}/kubernetes"), 422, "Kueue")
    refused(viewer.get(f"{at}/slurm", params={"run": 9}), 409, "no run 9")
    refused(viewer.get(f"{at}/yarn"), 422)


def test_who_knows_the_answer_receives_304_until_something_changes(real: Real) -> None:
    owner = real.client()
    first = owner.get(AT)
    tag = first.headers["etag"]
    again = owner.get(AT, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert owner.get(AT, headers={"If-None-Match": f'"other", W/{tag}'}).status_code == 304
    assert owner.get(AT, headers={"If-None-Match": '"other"'}).json() == first.json()
    result(owner, leased(owner)["token"])
    changed = owner.get(AT, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_the_etag_of_an_answer_is_accepted_for_a_decision_until_it_is_out_of_date(
    real: Real,
) -> None:
    owner = real.client()
    tag = owner.get(AT).headers["etag"]
    change = {"max_runs": 400}
    assert owner.post(f"{AT}/sla", json=change, headers={"If-Match": tag}).status_code == 200
    assert owner.post(f"{AT}/sla", json=change, headers={"If-Match": tag}).status_code == 412


def test_the_report_comes_in_each_form_and_another_is_refused(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer, owner = real.client(Role.VIEWER), real.client()
    result(owner, leased(owner)["token"])
    page = viewer.get(f"{AT}/report")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-disposition"] == f'attachment; filename="{NAME}.html"'
    assert "<h2" in page.text
    packed = viewer.get(f"{AT}/report", params={"form": "zip"})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert len(archive.read("events.jsonl").splitlines()) == real.session().experiment.n_events
    drawn = viewer.get(f"{AT}/report", params={"form": "md"})
    with zipfile.ZipFile(io.BytesIO(drawn.content)) as archive:
        assert f"{NAME}.md" in archive.namelist()
    refused(viewer.get(f"{AT}/report", params={"form": "docx"}), 422)
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    printed = viewer.get(f"{AT}/report", params={"form": "pdf"})
    assert "copperline[pdf]" in refused(printed, printed.status_code)["detail"]
    assert 400 <= printed.status_code < 500


def test_many_who_ask_at_once_cost_one_computation() -> None:
    view = open_session(Bowl(), store=MemoryStore()).experiment
    may_go, calls = threading.Event(), []

    def compute() -> int:
        calls.append(view.n_events)
        assert may_go.wait(120)
        return len(calls)

    async def ask(seconds: list[float]) -> list[int]:
        answers = SharedAnswers(2, lambda: seconds[0])
        waiting = [asyncio.create_task(answers.get("effects", view, compute)) for _ in range(50)]
        await asyncio.sleep(0)
        may_go.set()
        found = list(await asyncio.gather(*waiting))
        found.append(await answers.get("effects", view, compute))
        found.append(await answers.get("forecast", view, compute, fresh_s=1.0))
        seconds[0] = 1.0
        found.append(await answers.get("forecast", view, compute, fresh_s=1.0))
        seconds[0] = 1.5
        found.append(await answers.get("forecast", view, compute, fresh_s=1.0))
        return found

    assert asyncio.run(ask([0.0])) == [1] * 51 + [2, 2, 3]


def test_a_later_state_is_computed_anew() -> None:
    session = open_session(Bowl(), store=MemoryStore())

    def n_events(view: Experiment) -> int:
        return view.n_events

    async def ask() -> list[int]:
        answers = SharedAnswers(1)
        found = []
        for x in range(2):
            view = session.look()
            found.append(await answers.get("effects", view, partial(n_events, view)))
            session.include({"x": x, "y": 1, "mode": "odd"})
        return found

    first, second = asyncio.run(ask())
    assert second > first


def test_workers_are_not_refused_because_many_look_on(real: Real) -> None:
    viewers = [real.client() for _ in range(40)]
    worker, stop = real.client(), threading.Event()
    statuses: set[int] = set()

    def look(client: httpx.Client) -> None:
        while True:
            statuses.add(client.get(f"{AT}/runs").status_code)
            if stop.is_set():
                return

    with ThreadPoolExecutor(len(viewers)) as pool:
        for client in viewers:
            pool.submit(look, client)
        try:
            for _ in range(5):
                assert result(worker, leased(worker)["token"]).status_code == 200
        finally:
            stop.set()
    assert statuses == {200}

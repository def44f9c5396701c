"""What a request may name: no program and no file, unless the operator says so."""

from pathlib import Path
from typing import Any

import pytest

from assistant.applications.rest_address import origin_of
from assistant.cli.main import run
from assistant.core.errors import SettingsError
from assistant.service.experiment_service import (
    ExperimentService,
    IdempotentRequest,
    apply_request_policy,
)
from assistant.service.observability import ServiceLog
from assistant.store.event_store import SqliteStore
from strategies import StrategyError

PARAMETERS = [{"name": "x", "levels": [1, 2]}]
COMMAND = {"command": ["sh", "-c", "touch canary; echo {x}"], "cwd": "."}
FUNCTION = {"function": "os:system", "folder": "."}
PROGRAMS: dict[str, dict[str, Any]] = {
    "a command of a kind that is told": {"application": {"kind": "command", **COMMAND}},
    "a command of a kind that is implied": {"application": COMMAND},
    "a function of a kind that is told": {"application": {"kind": "function", **FUNCTION}},
    "a function of a kind that is implied": {"application": FUNCTION},
    "a hook": {"hooks": {"on_finish": ["touch", "canary"]}},
}
TABLE = "x,objective\n1,1\n2,2\n3,3\n"


@pytest.mark.parametrize("tables", PROGRAMS.values(), ids=PROGRAMS)
def test_no_request_starts_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"runs": 3, **tables}
    if "application" in tables:
        given["parameters"] = PARAMETERS
    store = SqliteStore(tmp_path / "store.db")
    with pytest.raises(SettingsError, match="would start programs on this machine"):
        ExperimentService(store, ServiceLog(level="error")).open_settings(
            given, "evil", IdempotentRequest()
        )
    assert store.experiments() == ()
    assert not (tmp_path / "canary").exists()
    assert apply_request_policy(given, programs=True, files=None) == given


def naming(path: str) -> dict[str, Any]:
    return {"runs": 2, "application": {"table": path}}


def test_no_file_is_read_where_none_may_be(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    for tables in (
        naming(str(tmp_path / "t.csv")),
        {"application": {"log": "/etc/passwd"}},
        {"results": ["/etc/passwd"]},
    ):
        with pytest.raises(SettingsError, match="reads no files named in requests"):
            apply_request_policy(tables, programs=False, files=None)


@pytest.mark.parametrize("name", ["../t.csv", "/etc/passwd", "link", "deep/../../t.csv"])
def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "t.csv").write_text(TABLE)
    (inside / "link").symlink_to(tmp_path / "t.csv")
    for programs in (False, True):
        with pytest.raises(SettingsError, match="is outside the folder"):
            apply_request_policy(naming(name), programs=programs, files=inside)


def test_what_is_checked_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is one of the folder, not of wherever the service was started."""
    elsewhere, inside = tmp_path / "elsewhere", tmp_path / "inside"
    for folder, text in ((elsewhere, TABLE + "4,4\n"), (inside, TABLE)):
        folder.mkdir()
        (folder / "t.csv").write_text(text)
    monkeypatch.chdir(elsewhere)
    service = ExperimentService(
        SqliteStore(tmp_path / "store.db"), ServiceLog(level="error"), files=inside
    )
    opened = service.open_settings(naming("t.csv"), "table", IdempotentRequest())
    assert service.session(opened.experiment_id).experiment.space.size == 3


def test_results_from_before_and_own_runs_of_a_request_are_taken(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "past.csv").write_text("x,objective\n3,7\n")
    store = SqliteStore(tmp_path / "store.db")
    service = ExperimentService(store, ServiceLog(level="error"), files=tmp_path)
    asked = {**naming("t.csv"), "runs": 5, "results": ["past.csv"], "run": [{"x": 2}]}
    experiment = service.session(
        service.open_settings(asked, "table", IdempotentRequest()).experiment_id
    ).experiment
    past = [run for run in experiment.runs if run.outcome is not None]
    assert [dict(run.outcome.measures) for run in past if run.outcome] == [{"objective": 7.0}]
    assert [experiment.space.values(run.configuration)["x"] for run in experiment.waiting][-1] == 2
    for wrong in ({"results": ["none.csv"]}, {"run": [{"x": 9}]}):
        with pytest.raises((SettingsError, StrategyError)):
            service.open_settings({**asked, **wrong}, "table", IdempotentRequest())
    assert len(store.experiments()) == 1


ASKED = {"runs": 2, "parameters": PARAMETERS, "objective": {"minimise": "cost"}}


def over_http(url: str | None) -> dict[str, Any]:
    return {**ASKED, "application": {"kind": "rest", **({} if url is None else {"url": url})}}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9001/runs", "https://127.0.0.1:9000/runs", "http://localhost:9000/runs",
        "https://169.254.169.254/latest", "https://tuner.example.evil/", "https://tuner.example:1/",
    ],
)  # fmt: skip
def test_no_request_has_this_machine_ask_a_program_that_nobody_named(
    tmp_path: Path, url: str
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    named = (origin_of("http://127.0.0.1:9000/x"), origin_of("https://tuner.example"))
    with pytest.raises(SettingsError, match=r"calls no program at .*--adapter"):
        ExperimentService(store, ServiceLog(level="error"), adapters=named).open_settings(
            over_http(url), "evil", IdempotentRequest()
        )
    with pytest.raises(SettingsError, match="--adapter"):
        ExperimentService(store, ServiceLog(level="error")).open_settings(
            {**over_http(url)}, "evil", IdempotentRequest()
        )
    assert store.experiments() == ()
    assert apply_request_policy(over_http(url), programs=True, files=None) == over_http(url)


def test_a_request_may_name_a_program_that_the_operator_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    named = (origin_of("http://127.0.0.1:9000/x"), origin_of("HTTPS://Tuner.example"))
    service = ExperimentService(store, ServiceLog(level="error"), adapters=named)
    service.open_settings(over_http("http://127.0.0.1:9000/runs"), "one", IdempotentRequest())
    service.open_settings(over_http("https://tuner.example:443/a"), "two", IdempotentRequest())
    assert {one.name for one in store.experiments()} == {"one", "two"}
    with pytest.raises(SettingsError, match="hooks would start programs"):
        apply_request_policy(
            {**over_http("http://127.0.0.1:9000/"), "hooks": {"on_finish": ["touch", "canary"]}},
            programs=False, files=None, adapters=named,
        )  # fmt: skip


def test_a_program_that_asks_for_its_runs_itself_is_asked_for_nothing() -> None:
    assert apply_request_policy(over_http(None), programs=False, files=None) == over_http(None)


@pytest.mark.parametrize("url", ["http://evil.example/", "https://u:p@x/", "x"])
def test_an_operator_names_addresses_of_programs_only(url: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    assert run(["serve", "--port", "0", "--store", store, "--adapter", url]) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_computing_environment_of_a_request_is_journalled(tmp_path: Path) -> None:
    """It is the workers' machines that must have it, so whatever can be is taken."""
    (tmp_path / "t.csv").write_text(TABLE)
    service = ExperimentService(
        SqliteStore(tmp_path / "store.db"), ServiceLog(level="error"), files=tmp_path
    )
    asked = {**naming("t.csv"), "workers": 4, "environment": {"cores": 64, "memory": "1 TiB"}}
    opened = service.open_settings(asked, "table", IdempotentRequest())
    facts = {
        fact.label: fact.text
        for fact in service.session(opened.experiment_id).experiment.opened.facts
    }
    assert (
        facts["Computing environment"] == "4 runs at once, each with 64 cores and 1 TiB of memory"
    )

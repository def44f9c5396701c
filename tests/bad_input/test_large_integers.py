"""Integers that no float holds: a level is kept exactly, a result is refused in one sentence."""

import json
import sys
from pathlib import Path

import pytest

from assistant import Objective, SingleMeasure, Sla, open_session
from assistant.applications.lookup import Lookup
from assistant.applications.measures import Patterns
from assistant.cli.main import run
from assistant.config.snapshot import read_results
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import ExperimentError, RunError, SettingsError
from assistant.presentation.text.number_format import level
from assistant.service.api_tokens import Role
from assistant.store.event_store import SqliteStore
from strategies import Exclusion, Parameter, ParameterSpace, TableError
from strategies.space.parameter import float_of
from tests.assistant.examples import Bowl
from tests.assistant.programs import failure, python
from tests.fuzz.watch import fault_of_sentence
from tests.service.real import leased, refused, serving, with_runs

ODD = 2**53 + 1
EVEN = 2**53
FILE = f"""
[application]
kind = "command"
command = ["{sys.executable}", "-c", "import sys; print(sys.argv[1][-1])", "{{x}}"]
measures = {{stdout = "last_line"}}
[objective]
minimise = "loss"
[[parameters]]
name = "x"
levels = [{EVEN}, {ODD}]
"""


@pytest.mark.parametrize("number", [0, 5, -EVEN, EVEN, EVEN + 2, 2**60, 1.5, ODD / 7])
def test_a_number_that_fits_is_a_float(number: float) -> None:
    assert float_of(number) == number


@pytest.mark.parametrize("number", [ODD, -ODD, 2**63 - 1, 10**30 + 1])
def test_a_number_that_would_be_rounded_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"{number}.*rounded"):
        float_of(number)


def test_levels_are_kept_from_the_file_to_the_program_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(FILE)
    store = ["--store", "s.db"]
    assert run(["sweep", "sweep.toml", "--runs", "2", "--json", *store]) == 0
    ended = json.loads(capsys.readouterr().out)
    assert (ended["best"]["values"]["x"], ended["best"]["value"]) == (EVEN, 2.0)
    kept = SqliteStore(tmp_path / "s.db")
    (stored,) = kept.experiments()
    assert kept.space(stored.id).parameters[0].levels == (EVEN, ODD)
    assert level(ODD).replace(",", "").replace(" ", "") == str(ODD)
    kept.close()


def test_levels_of_tables_and_results_are_kept(tmp_path: Path) -> None:
    table = Lookup.parse(f"x,objective\n{EVEN},1\n{ODD},2\n")
    assert table.space.parameters[0].levels == (EVEN, ODD)
    assert table.evaluate({"x": ODD}, 0)["objective"] == 2.0
    file = tmp_path / "results.csv"
    file.write_text(f"x,loss\n{ODD},3\n")
    ((values, _),) = read_results(file, table.space)
    assert values == {"x": ODD}
    space = table.space.excluding(Exclusion(f"x == {ODD}"))
    assert space.is_allowed(space.from_values({"x": EVEN}))
    assert not space.is_allowed(space.from_values({"x": ODD}))


def test_levels_are_kept_over_http(tmp_path: Path) -> None:
    space = ParameterSpace((Parameter("x", (EVEN, ODD)),))

    class Big(Bowl):
        baseline = None

    big = Big()
    with serving(tmp_path) as real:
        open_session(
            big, store=real.service.store, sla=Sla(9), strategy="random", experiment_id="big",
            space=space,
        )  # fmt: skip
        real.service.queue.set_active("big", True)
        client = real.client()
        client.post("/v1/experiments/big/runs", json={"values": {"x": ODD}})
        assert leased(client)["values"] == {"x": ODD}
        added = {"change": "add", "parameter": "x", "value": ODD + 2}
        assert client.post("/v1/experiments/big/levels", json=added).status_code == 200
        assert real.service.store.space("big").parameters[0].levels == (EVEN, ODD, ODD + 2)


def test_results_are_refused_where_they_come_in(tmp_path: Path) -> None:
    space = ParameterSpace((Parameter("x", (1, 2)),))
    with pytest.raises(TableError, match="rounded") as caught:
        Lookup.parse(f"x,objective\n1,{ODD}\n")
    assert fault_of_sentence(str(caught.value)) is None
    file = tmp_path / "results.csv"
    file.write_text(f"x,loss\n1,{ODD}\n")
    with pytest.raises(SettingsError, match=r"line 2.*rounded") as refused_file:
        read_results(file, space)
    assert fault_of_sentence(str(refused_file.value)) is None
    with pytest.raises(RunError, match=r"'loss' is 9007199254740993.*rounded"):
        Patterns((r"loss=(?P<loss>\d+)",)).of(f"loss={ODD}")
    session = open_session(Bowl(), store=SqliteStore(), sla=Sla(9))
    with pytest.raises(ExperimentError):
        session.import_results([({"x": 1, "y": 1, "mode": "plain"}, {"height": ODD})])


@pytest.mark.parametrize("measures", [{"height": ODD}, {"height": 1.0, "n": ODD},
                                      {"height": 1.0, "series": [1, ODD]}])  # fmt: skip
def test_results_over_http_are_refused(tmp_path: Path, measures: dict[str, object]) -> None:
    with serving(tmp_path) as real:
        with_runs(real, 1)
        client = real.client(Role.WORKER)
        token = leased(client)["token"]
        body = {"measures": measures, "failure": None, "duration_s": 1.0}
        problem = refused(client.post(f"/v1/leases/{token}/result", json=body), 422, "rounded")
        assert fault_of_sentence(problem["detail"]) is None
        refused(client.post(f"/v1/leases/{token}/report", json={"measures": measures}), 422)


@pytest.mark.parametrize("printed", ["9007199254740993", "[1, 9007199254740993]"])
def test_a_program_whose_result_is_one_has_failed(printed: str) -> None:
    why = failure(python(f"""print('{{"cost": {printed}}}')""", "{x}"))
    assert "'cost' as 9007199254740993 would be rounded" in why
    assert fault_of_sentence(why) is None


def test_another_measure_of_a_program_is_passed_over() -> None:
    """As any value beside the objective that is no number."""
    command = python(f"""print('{{"cost": 1, "at_ns": {ODD}, "n": 5}}')""", "{x}")
    assert command.evaluate({"x": 1}, 7) == {"cost": 1.0, "n": 5.0}


def test_events_keep_them() -> None:
    store = SqliteStore()
    space = ParameterSpace((Parameter("x", (EVEN, ODD)),))
    objective = Objective(SingleMeasure("height"))
    open_session(Bowl(), store=store, experiment_id="e", space=space, objective=objective)
    opened = store.load("e")[0]
    assert decode_event(encode_event(opened)) == opened
    assert "9007199254740993" in store.lines("e")[0]

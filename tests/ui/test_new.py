"""The page *New* under Streamlit's own tester: its steps, what is refused, trying and starting."""

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Sla, Tariff, open_session
from assistant.applications.lookup import Lookup
from assistant.applications.scheduling_futures import FutureScheduling
from assistant.applications.scheduling_presets import Preset
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from assistant.ui.pages import new, new_fields, steering
from assistant.ui.pages import new as new_trial
from assistant.ui.pages.new import DryRunResult
from assistant.ui.pages.new_form import (
    ClusterFields,
    ConstraintField,
    Form,
    ObjectiveFields,
    ParameterRow,
    ProgramFields,
)
from assistant.ui.pages.new_preview import NewExperiment
from assistant.ui.pages.new_sweep_file import form_of, write_tables
from sim.api import backfills_for, known_names
from strategies import MeasuredTable
from tests.ui.screens import press, sound
from tests.ui.shell import shown
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

scheduling_presets = importlib.import_module("assistant.applications.scheduling_presets")

OWN = Form(
    "command",
    program=ProgramFields("sh p.sh {size}"),
    rows=(ParameterRow(0, "size", levels=("1", "2"), baseline="2"),),
    wish=ObjectiveFields("minimise", "m", bounds=(ConstraintField(0, "memory_mb", "600"),)),
)


class Trials:
    """Trials whose results are put in by hand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.result: DryRunResult | None = None
        self.seconds, self.is_over = 3.0, False

    def start(self, _owner: str, text: str) -> None:
        self.texts.append(text)
        self.result, self.is_over = None, False

    def of(self, _owner: str) -> "Trials | None":
        return self if self.texts and not self.is_over else None

    def fetch(self, _owner: str) -> DryRunResult | None:
        self.is_over = self.result is not None
        return self.result

    def stop(self) -> None:
        self.result = DryRunResult("stopped")


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    made = Trials()
    monkeypatch.setattr(new_trial, "dry_run_jobs", lambda: made)
    return made


@pytest.fixture
def opened() -> list[NewExperiment]:
    return []


def begun(store: Path, opened: list[NewExperiment], form: Form | None = None) -> AppTest:
    Path("p.sh").write_text("echo $1\n")
    return shown(new.page, store, opened.append, form=form or Form())


def at(page: AppTest, name: str) -> AppTest:
    page.segmented_control(key="new-step").set_value(name)
    return sound(page.run())


def type_in(page: AppTest, fields: Mapping[str, Any]) -> AppTest:
    for key, value in fields.items():
        kinds = ("text_input", "text_area", "number_input", "selectbox", "multiselect", "checkbox")
        for kind in kinds:
            widgets = {widget.key: widget for widget in getattr(page, kind)}
            if f"new-{key}" in widgets:
                widgets[f"new-{key}"].set_value(value)
                break
        else:
            raise AssertionError(f"no field {key}")
        sound(page.run())
    return page


def draft(page: AppTest) -> Form:
    form: Form = page.session_state["new-form"]
    return form


def told(page: AppTest) -> str:
    return " ".join(one.value for one in [*page.error, *page.warning, *page.info])


# -- steps -----------------------------------------------------------------------------------------


def test_the_example_needs_nothing_but_a_press(store: Path, opened: list[NewExperiment]) -> None:
    page = begun(store, opened)
    assert not store.exists(), "looking makes nothing"
    assert not page.error
    page = press(page, "new-start")
    assert page.session_state["went"] == "overview"
    assert [one.application.name for one in opened] == ["scheduling"]
    assert len(SqliteStore(store).experiments()) == 1
    assert draft(page) == new_fields.FIRST, "the next one begins anew"


def test_next_and_back_walk_through_all_steps(store: Path, opened: list[NewExperiment]) -> None:
    page = begun(store, opened)
    assert page.button(key="new-back").disabled
    for name in new.STEPS[1:]:
        page = press(page, "new-next")
        assert page.session_state["new-step"] == name
        assert "17,600 combinations of 4 parameters" in " ".join(m.value for m in page.markdown)
    assert page.button(key="new-next").disabled
    page = press(page, "new-back")
    assert page.session_state["new-step"] == new.STEPS[1]


def test_what_is_typed_and_left_in_the_same_moment_is_kept(
    store: Path, opened: list[NewExperiment]
) -> None:
    """A browser sends what was typed when its field is left: together with the click elsewhere."""
    page = at(begun(store, opened), "Objective and goal")
    page.number_input(key="new-runs").set_value(17)
    page = press(page, "new-back")
    assert draft(page).runs == 17
    page = at(page, "Objective and goal")
    assert page.number_input(key="new-runs").value == 17


def test_an_own_program_is_set_up_step_by_step_and_nothing_is_lost(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = begun(store, opened)
    page.radio(key="new-source").set_value("command")
    sound(page.run())
    page = type_in(
        page, {"command": "sh p.sh {size} {mode}", "limit": "1m", "noisy": "yes, from run to run"}
    )
    page = press(page, "new-next")
    names = [box.value for box in page.text_input if (box.key or "").endswith("-name")]
    assert names == ["size", "mode"], "the names in the command are parameters"
    one, two = (row.uid for row in draft(page).rows)
    page = type_in(
        page,
        {
            f"p{one}-levels": ["1", "2"], f"p{one}-unit": "MB", f"p{one}-baseline": "2",
            f"p{two}-kind": "names", f"p{two}-levels": ["a", "b c"], f"p{two}-baseline": "b c",
            "exclude": "size == 1 and mode == 'a'",
        },
    )  # fmt: skip
    assert "4 combinations of 2 parameters, 3 allowed" in " ".join(m.value for m in page.markdown)
    page = press(page, "new-next")
    page = type_in(page, {"direction": "maximise", "measure": "m", "unit": "x", "deadline": "2h"})
    page = press(page, "new-add-bound")
    page = type_in(page, {"c0-measure": "memory_mb", "c0-high": "600"})
    assert page.checkbox(key="new-unattended").value, "it steers unless one wants to choose"
    page = type_in(page, {"unattended": False})
    page = type_in(page, {"strategy": "random", "seed": 5, "workers": 2, "split": True})
    page = type_in(page, {"early-step": "epoch"})
    page = type_in(page, {"early-rule": "halving", "early-first-step": "2"})
    before = draft(page)
    page = at(page, "What to run")
    assert page.text_area(key="new-command").value == "sh p.sh {size} {mode}"
    assert page.selectbox(key="new-noisy").value == "yes, from run to run"
    page = at(page, "Objective and goal")
    assert page.text_input(key="new-c0-high").value == "600"
    page = at(page, "Parameters")
    assert page.multiselect(key=f"new-p{two}-levels").value == ["a", "b c"]
    page = at(page, "Objective and goal")
    assert (page.number_input(key="new-seed").value, page.checkbox(key="new-split").value) == (
        5,
        True,
    )
    assert draft(page) == before
    page = at(page, "Objective and goal")
    assert draft(page) == before
    (file,) = [code.value for code in page.code if code.language == "toml"]
    tables = tomllib.loads(file)
    early = {"step": "epoch", "rule": "halving", "first_step": 2}
    assert tables["early_stopping"] == early
    assert tables["application"]["baseline"] == {"size": 2, "mode": "b c"}
    assert tables["objective"] == {
        "maximise": "m", "unit": "x",
        "constraints": [{"measure": "memory_mb", "at_most": 600.0}],
    }  # fmt: skip
    assert (tables["seed"], tables["workers"], tables["exploitation"]) == (5, 2, 0.7)
    assert tables["strategy"]["name"] == "random"
    page = type_in(page, {"name": "mine"})
    page = press(page, "new-start")
    assert opened[0].session.experiment.opened.name == "mine"
    assert opened[0].session.experiment.sla.max_runs == 40
    assert opened[0].auto_steering is None


def test_rows_come_and_go_and_keep_what_is_typed_in_the_others(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = at(begun(store, opened, OWN), "Parameters")
    page = press(page, "new-add-row")
    page = type_in(page, {"p1-name": "second", "p1-levels": ["7"]})
    page = press(page, "new-add-row")
    page = type_in(page, {"p2-name": "third"})
    page = press(page, "new-p1-remove")
    assert [row.name for row in draft(page).rows] == ["size", "third"]
    assert page.text_input(key="new-p2-name").value == "third"
    assert page.text_input(key="new-p0-name").value == "size"


@pytest.mark.parametrize("typed", ["1,2,4", "1, 2, 4", "1 2 4"])
def test_levels_are_typed_in_any_way(store: Path, opened: list[NewExperiment], typed: str) -> None:
    page = at(begun(store, opened, OWN), "Parameters")
    page = type_in(page, {"p0-levels": [typed]})
    assert draft(page).rows[0].levels == ("1", "2", "4")
    page = type_in(page, {"p0-levels": ["1..3", "0.5 to 1 by 0.25"]})
    assert draft(page).rows[0].levels == ("1", "2", "3", "0.5", "0.75")
    page = type_in(page, {"p0-kind": "names", "p0-levels": ["a b", "1..3", "x,y"]})
    assert draft(page).rows[0].levels == ("a b", "1..3", "x", "y")


def test_words_as_levels_are_names(store: Path, opened: list[NewExperiment]) -> None:
    page = at(begun(store, opened, OWN), "Parameters")
    page = type_in(page, {"p0-levels": ["safe, 2"]})
    assert draft(page).rows[0].kind == "numbers", "one of them is a number"
    page = type_in(page, {"p0-levels": ["safe, fast"]})
    assert (draft(page).rows[0].kind, draft(page).rows[0].levels) == ("names", ("safe", "fast"))


def test_levels_between_two_ends_are_listed_at_once(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = at(begun(store, opened, OWN), "Parameters")
    page = type_in(page, {"p0-how": "steps", "p0-low": "16", "p0-high": "128", "p0-step": "16"})
    assert "8 levels: 16, 32" in " ".join(c.value for c in page.caption)
    page = type_in(page, {"p0-how": "ratio", "p0-low": "1", "p0-high": "8", "p0-step": "4"})
    page = type_in(page, {"p0-whole": True})
    assert "4 levels: 1, 2, 4, 8" in " ".join(c.value for c in page.caption)


def test_levels_of_a_cluster_are_taken_away_and_added_in_their_order(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = at(begun(store, opened), "Parameters")
    some = page.multiselect(key="new-level-small_procs").value[5:9]
    page = type_in(page, {"level-small_procs": ["0", *some, "10"]})
    assert draft(page).levels["small_procs"] == ("0", "10", *some)
    assert "4,800 combinations" in " ".join(m.value for m in page.markdown)
    page = type_in(page, {"level-order": []})
    assert "order" not in draft(page).levels
    assert "2,400 combinations of 3" in " ".join(m.value for m in page.markdown)
    page = at(at(page, "Objective and goal"), "Parameters")
    assert page.multiselect(key="new-level-small_procs").value[:2] == ["0", "10"]
    assert page.multiselect(key="new-level-order").value == []


def test_a_question_brings_its_parameters_and_they_can_be_changed(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = at(begun(store, opened), "Parameters")
    page = type_in(page, {"preset": "policies"})
    assert not page.error
    n = len(known_names()["order"]) * len(backfills_for("processors"))
    assert f"{n} combinations of 2 parameters" in " ".join(m.value for m in page.markdown)
    keys = {box.key for box in page.multiselect}
    assert {"new-level-order", "new-level-backfill", "new-level-depth"} <= keys
    assert "new-level-small_procs" not in keys
    assert page.text_input(key="new-option-depth").placeholder == "4"
    assert "small_procs" not in page.text_area(key="new-exclude").placeholder
    page = type_in(page, {"level-order": ["fcfs", "sjf"], "level-depth": ["4", "16"]})
    assert "20 combinations of 3 parameters, 12 allowed" in " ".join(m.value for m in page.markdown)
    page = type_in(page, {"option-reserve_anew": "2"})
    assert "'reserve_anew' of backfill 'easy' is 2; allowed" in told(page)
    page = type_in(page, {"option-reserve_anew": "0"})
    assert not page.error
    page = at(at(page, "Objective and goal"), "Parameters")
    assert page.selectbox(key="new-preset").value == "policies"
    assert page.multiselect(key="new-level-order").value == ["fcfs", "sjf"]
    assert page.text_input(key="new-option-reserve_anew").value == "0"
    page = press(page, "new-start")
    (one,) = opened
    assert one.session.experiment.space.count_allowed() == 12
    assert one.application.baseline == {"order": "fcfs", "backfill": "easy", "depth": 4}


def test_runs_can_be_judged_on_generated_futures(store: Path, opened: list[NewExperiment]) -> None:
    page = at(begun(store, opened), "Parameters")
    assert "new-futures-count" not in {field.key for field in page.text_input}
    page = type_in(page, {"futures": "lublin"})
    page = type_in(
        page, {"futures-count": "2", "futures-duration": "12h", "futures-aggregate": "worst"}
    )
    assert not page.error
    page = type_in(page, {"futures-count": "two"})
    assert "'two' is not a whole number" in told(page)
    page = type_in(page, {"futures-count": "2"})
    page = at(at(page, "Objective and goal"), "Parameters")
    assert page.selectbox(key="new-futures").value == "lublin"
    assert page.text_input(key="new-futures-duration").value == "12h"
    page = press(page, "new-start")
    (one,) = opened
    assert isinstance(one.application, FutureScheduling)
    assert (one.application.futures.count, one.application.futures.aggregate) == (2, "worst")


def test_another_question_begins_with_its_own_levels_and_follows_today(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = at(begun(store, opened), "Parameters")
    page = type_in(page, {"level-order": ["fcfs", "f1"], "preset": "policies"})
    assert draft(page).levels == {}
    page = type_in(page, {"level-order": []})
    assert draft(page).levels == {"order": ()}
    assert "5 combinations of 1 parameter" in " ".join(m.value for m in page.markdown)
    page = type_in(page, {"preset": "paper"})
    assert draft(page).levels == {"order": ("fcfs", "sjf")}
    assert "17,600 combinations of 4 parameters" in " ".join(m.value for m in page.markdown)


def test_levels_as_the_question_has_them_follow_when_today_is_another(
    store: Path, opened: list[NewExperiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Preset("newer", "the first learned order", {"order": ("f1",)})
    monkeypatch.setattr(scheduling_presets, "PRESETS", (*scheduling_presets.PRESETS, asked))
    page = type_in(at(begun(store, opened), "Parameters"), {"preset": "newer"})
    assert page.multiselect(key="new-level-order").value == ["fcfs", "f1"]
    page = type_in(page, {"order": "ljf"})
    assert page.multiselect(key="new-level-order").value == ["ljf", "f1"]
    assert (draft(page).levels, page.error) == ({}, [])


def test_a_table_shows_its_levels_and_its_own_measures(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = begun(store, opened, Form("table", str(table)))
    page = at(page, "Parameters")
    assert list(page.dataframe[0].value["parameter"]) == ["x", "y"]
    page = type_in(page, {"exclude": "x > 3"})
    assert "16 combinations of 2 parameters, 12 allowed" in " ".join(m.value for m in page.markdown)
    page = at(page, "Objective and goal")
    page = type_in(page, {"direction": "maximise"})
    assert "duration_s" in page.selectbox(key="new-measure-known").options


def test_a_stored_experiment_with_the_same_parameters_is_named_and_learnt_from(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    before = open_session(
        Lookup(MeasuredTable.read(table), table.name), store=SqliteStore(store), sla=Sla(12)
    )
    before.submit(before.initial_evaluation(12))
    before.run_queued(SerialExecutor(Lookup(MeasuredTable.read(table), table.name)))
    page = begun(store, opened, Form("table", str(table)))
    page = at(page, "Objective and goal")
    assert f"Experiment {before.id} has the same parameters" in " ".join(
        caption.value.replace("\\", "") for caption in page.caption
    )
    page = type_in(page, {"learn-from": "nobody"})
    page = press(page, "new-start")
    assert "No experiment 'nobody'" in told(page)
    page = type_in(page, {"learn-from": before.id})
    assert "has the same parameters" not in " ".join(caption.value for caption in page.caption)
    press(page, "new-start")
    (earlier,) = opened[0].session.experiment.opened.earlier
    assert (earlier.experiment_id, len(earlier.responses)) == (before.id, 12)


# -- a sweep file ----------------------------------------------------------------------------------

FILE = """
runs = 7
[application]
kind = "scheduling"
[application.levels]
small_procs = [0, 16]
"""


def test_a_sweep_file_is_uploaded_looked_at_and_changed_in_fields(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = begun(store, opened)
    page.radio(key="new-source").set_value("file")
    sound(page.run())
    page.file_uploader(key="new-upload-file").set_value(("a.toml", FILE.encode(), "text/plain"))
    sound(page.run())
    assert draft(page).text == FILE
    for name in new.STEPS:
        page = at(page, name)
        assert not page.error
    page = press(at(page, "What to run"), "new-fields")
    form = draft(page)
    assert (form.source, form.runs, form.levels) == ("example", 7, {"small_procs": ("0", "16")})
    assert page.radio(key="new-source").value == "example"
    page = press(page, "new-start")
    assert opened[0].session.experiment.sla.max_runs == 7


def test_a_log_is_uploaded_and_kept_beside_the_store(
    store: Path, opened: list[NewExperiment]
) -> None:
    lines = [f"{i} {10 * i} -1 100 4 -1 -1 4 200 -1 1 1 1 1 1 -1 -1 -1" for i in range(1, 30)]
    log = ("; MaxProcs: 16\n" + "\n".join(lines) + "\n").encode()
    page = begun(store, opened)
    page.radio(key="new-source").set_value("log")
    sound(page.run())
    page.file_uploader(key="new-upload-log").set_value(("../my log.swf", log, "text/plain"))
    sound(page.run())
    path = Path(draft(page).path)
    assert path.parent == store.parent / "uploads"
    assert path.name.endswith("-my_log.swf")
    assert page.text_input(key="new-path").value == str(path)
    assert not page.error
    assert draft(page).cluster.preset == "lanes"
    page = press(at(page, "Objective and goal"), "new-start")
    assert opened[0].session.experiment.opened.name == "my_log"
    assert opened[0].session.experiment.opened.recipe["application"]["log"] == str(path)


def test_an_uploaded_log_brings_its_question_and_a_chosen_one_stays(
    store: Path, opened: list[NewExperiment]
) -> None:
    dump = ("dump.txt", b"JobID|Submit|Start|ElapsedRaw|NCPUS\n1|10|20|30|2\n", "text/plain")
    page = begun(store, opened, Form("log", cluster=ClusterFields(preset="lanes")))
    page.file_uploader(key="new-upload-log").set_value(dump)
    sound(page.run())
    assert draft(page).cluster.preset == "slurm_lanes"
    page = type_in(at(page, "Parameters"), {"preset": "policies"})
    page = type_in(at(page, "What to run"), {"path": "other.swf"})
    assert draft(page).cluster.preset == "policies"
    page.radio(key="new-source").set_value("example")
    sound(page.run())
    assert draft(page).cluster.preset == "policies"


def test_an_upload_that_cannot_be_is_refused_beside_it(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = begun(store, opened)
    page.radio(key="new-source").set_value("file")
    sound(page.run())
    page.file_uploader(key="new-upload-file").set_value(("a.toml", b"\xff\xfe\x00", "x"))
    sound(page.run())
    assert "not UTF-8" in page.error[0].value
    page.radio(key="new-source").set_value("table")
    sound(page.run())
    page.file_uploader(key="new-upload-table").set_value(("a.csv", b"", "x"))
    sound(page.run())
    assert "is empty" in page.error[0].value
    assert not store.parent.joinpath("uploads").exists()


def test_a_log_is_read_once_however_much_is_changed(
    store: Path, opened: list[NewExperiment], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path | str] = []
    read = MeasuredTable.read

    def noted(path: Path | str) -> MeasuredTable:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(MeasuredTable, "read", staticmethod(noted))
    page = begun(store, opened, Form("table", str(table)))
    for name in new.STEPS:
        page = at(page, name)
    page = type_in(at(page, "Parameters"), {"exclude": "z > 1"})
    page = type_in(at(page, "Objective and goal"), {"runs": 7})
    assert len(reads) == 1
    table.write_text("x,y,objective\n1,1,3\n2,2,1\n")
    page = at(page, "Parameters")
    assert len(reads) == 2, "another file of that name is another table"


def test_a_space_with_nothing_to_try_is_told_at_once(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = begun(store, opened, Form("table", str(table), exclude="x < 4 or y < 4"))
    assert "Only one combination is" in page.warning[0].value
    assert "widest job" not in page.warning[0].value


def test_a_condition_that_excludes_all_is_refused_beside_its_field(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = begun(store, opened, Form("table", str(table), exclude="x > 0"))
    page = at(page, "Parameters")
    assert any("'x > 0'" in one.value for one in page.error)


def test_every_term_of_the_agreement_is_a_field(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = at(begun(store, opened, Form("table", str(table))), "Objective and goal")
    page = type_in(
        page,
        {
            "goal": "3", "run-limit": "10m", "cost": "20", "cost-unit": "EUR", "per-hour": "0.5",
            "resources": "x", "go-on": True,
        },
    )  # fmt: skip
    press(page, "new-start")
    sla = opened[0].session.experiment.sla
    assert sla == Sla(40, None, 20.0, Tariff("EUR", 0.5, "x"), 3.0, 600.0, "go_on")


def test_a_large_budget_is_kept_and_can_be_raised(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = at(begun(store, opened, Form("table", str(table))), "Objective and goal")
    press(type_in(page, {"runs": 12_000}), "new-start")
    session = opened[0].session
    assert session.experiment.sla.max_runs == 12_000
    page = staged(steering.page, session)
    page.number_input(key=f"budget-{session.id}-12000").set_value(25_000)
    press(page, "change-budget")
    assert session.experiment.sla.max_runs == 25_000


def test_the_account_tree_of_a_log_is_a_field(
    store: Path, opened: list[NewExperiment], tmp_path: Path
) -> None:
    shares = tmp_path / "shares.txt"
    page = type_in(begun(store, opened, Form("log")), {"accounts": str(shares)})
    assert draft(page).cluster.accounts == str(shares)
    tables = write_tables(draft(page)).tables
    assert tables["application"]["accounts"] == str(shares)
    assert form_of(tables).cluster.accounts == str(shares)


def test_an_objective_without_a_measure_is_that_of_the_next_source(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = begun(store, opened, Form("command"))
    assert at(page, "Objective and goal").selectbox(key="new-direction").value == "minimise"
    page = at(page, "What to run")
    page.radio(key="new-source").set_value("example")
    page = at(sound(page.run()), "Objective and goal")
    assert page.selectbox(key="new-direction").value == "own"


def test_every_source_keeps_its_own_path(
    store: Path, opened: list[NewExperiment], table: Path
) -> None:
    page = begun(store, opened, Form("table", str(table)))
    page.radio(key="new-source").set_value("log")
    sound(page.run())
    assert page.text_input(key="new-path").value == ""
    page = type_in(page, {"path": "my.swf"})
    page.radio(key="new-source").set_value("table")
    sound(page.run())
    assert page.text_input(key="new-path").value == str(table)


# -- what is wrong ---------------------------------------------------------------------------------


def test_what_is_wrong_is_told_at_once_and_what_is_missing_when_one_goes_on(
    store: Path, opened: list[NewExperiment]
) -> None:
    page = begun(store, opened, Form("command"))
    assert not page.error
    assert not page.warning
    page = press(page, "new-next")
    assert page.session_state["new-step"] == "What to run", "it stays where something is missing"
    assert "Enter the command" in page.warning[0].value
    assert any(":material/edit: 1 field to fill in" in one.value for one in page.caption)
    page = type_in(page, {"limit": "soon"})
    assert "such as 90s" in page.error[0].value
    page = type_in(page, {"limit": "", "command": "sh p.sh {size}"})
    assert not page.error
    assert not page.warning
    page = press(press(page, "new-next"), "new-next")
    assert [one.value for one in page.warning] == ["Add at least one level."], "no level to choose"
    page = type_in(page, {f"p{draft(page).rows[0].uid}-levels": ["1", "x"]})
    assert "'x' is not a number" in page.error[0].value


@pytest.mark.parametrize(
    ("form", "step", "said"),
    [
        (Form("log", "nowhere.swf"), "What to run", "nowhere.swf"),
        (Form("file", "bad.toml"), "What to run", "not TOML"),
        (Form("file", text="exclude = ['z > 1']"), "What to run", "'z'"),
        (Form(exclude="z > 1"), "Parameters", "'z'"),
        (Form(deadline="soon"), "Objective and goal", "30m"),
        (
            Form(wish=ObjectiveFields("minimise", "mean_wate_s")),
            "Objective and goal",
            "'mean_wait_s'",
        ),
        (Form("command"), "What to run", "Enter the command"),
        (Form("function"), "What to run", "Enter the function"),
        (Form(extra_tables={"run": [{"small_procs": 3}]}), "Objective and goal", "no level 3"),
        (Form(runs=1, extra_tables={"plan": {"x": [1]}}), "Objective and goal", "'x'"),
    ],
)
def test_starting_what_is_wrong_leads_to_its_field_and_stores_nothing(
    store: Path, opened: list[NewExperiment], form: Form, step: str, said: str
) -> None:
    Path("bad.toml").write_text("runs = = 3")
    page = at(begun(store, opened, form), "Objective and goal")
    page = press(page, "new-start")
    assert page.session_state["new-step"] == step
    assert said in told(page)
    assert "went wrong" not in told(page)
    assert opened == []
    assert not store.exists()
    assert page.session_state["went"] == ""


def test_a_refusal_goes_once_something_is_changed(store: Path, opened: list[NewExperiment]) -> None:
    page = begun(store, opened, Form(extra_tables={"run": [{"small_procs": 3}]}))
    page = press(page, "new-start")
    assert "no level 3" in told(page)
    page = type_in(at(page, "Objective and goal"), {"runs": 9})
    assert "no level 3" not in told(at(page, "Objective and goal"))


def test_a_function_is_not_loaded_while_it_is_filled_in(
    store: Path, opened: list[NewExperiment], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "import pathlib\npathlib.Path('loaded').touch()\ndef f(x):\n    return x\n"
    )
    form = Form(
        "function",
        program=ProgramFields(function="mine:f", folder=str(tmp_path)),
        rows=(ParameterRow(0, "x", levels=("1", "2")),), wish=ObjectiveFields("minimise", "y"),
    )  # fmt: skip
    page = begun(store, opened, form)
    for name in new.STEPS:
        page = at(page, name)
        assert not page.error
    assert "2 combinations" in " ".join(m.value for m in page.markdown)
    assert not (tmp_path / "loaded").exists()
    press(page, "new-start")
    assert len(opened) == 1


# -- trying ----------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "ok": True, "baseline": True, "objective": "minimise m", "unit": "ms", "value": 12.0,
    "feasible": False, "duration_s": 3.0, "budget": "40 runs take about 2 min 00 s", "note": "",
    "constraints": [{"text": "memory at most 600", "met": False, "measure": "memory_mb"}],
    "measures": {"m": 12.0, "memory_mb": 700.0, "level": [1.0, 2.0], "other": None},
    "configuration": {"size": 2}, "failure": None,
}  # fmt: skip
BAD: dict[str, Any] = {
    "ok": False, "measures": None,
    "failure": {
        "reason": "the program ended with exit code 3", "hint": "Do this.",
        "command": ["sh", "p.sh", "a b"], "folder": "/here", "exit_code": 3,
        "stdout": ["one"], "stderr": ["two", "[link](x)"], "readable": {},
    },
}  # fmt: skip


def test_one_run_is_tried_and_tells_how_long_the_budget_takes(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = begun(store, opened, OWN)
    page = press(page, "new-try")
    assert form_of(tomllib.loads(trials.texts[0])).source == "command"
    assert page.button(key="new-try").disabled
    assert "Dry run … 3 s" in " ".join(m.value for m in page.markdown)
    trials.result = DryRunResult("tried", GOOD)
    page = sound(page.run())
    shown_now = {metric.label: metric.value for metric in page.metric}
    assert shown_now == {"minimise m": "12 ms", "The run took": "3 s", "Constraints": "violated"}
    text = " ".join(m.value for m in page.markdown)
    assert "violated: memory at most 600" in text
    assert "2 runs of about 3 s take about 6 s" in text, "there are only two combinations"
    page = at(page, "Objective and goal")
    assert "memory_mb" in page.selectbox(key="new-measure-known").options, (
        "measures are known by now"
    )
    assert page.selectbox(key="new-c0-measure-known").value == "memory_mb"
    page = type_in(page, {"runs": 9})
    assert "before your last change" in " ".join(c.value for c in page.caption)
    assert not store.exists()


def test_a_trial_that_fails_shows_command_code_output_and_what_to_change(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = press(begun(store, opened, OWN), "new-try")
    trials.result = DryRunResult("tried", BAD)
    page = sound(page.run())
    assert "exit code 3" in page.error[0].value
    assert "**What to change**: Do this." in [m.value for m in page.markdown]
    assert [code.value for code in page.code] == ["sh p.sh 'a b'", "one", "two\n[link](x)"]
    trials.result = None
    page = press(page, "new-try")
    assert not page.error


def test_a_trial_stays_true_when_its_only_measure_becomes_the_objective(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    form = replace(OWN, wish=ObjectiveFields("minimise"))
    page = press(at(begun(store, opened, form), "Objective and goal"), "new-try")
    trials.result = DryRunResult(
        "tried", {**GOOD, "objective": "minimise wall_s", "measures": {"m": 12.0, "wall_s": 3.0}}
    )
    page = sound(page.run())
    assert page.selectbox(key="new-measure-known").value == "m"
    assert "before your last change" not in " ".join(c.value for c in page.caption)


def test_a_number_that_the_output_names_becomes_the_measure(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    form = replace(OWN, wish=ObjectiveFields("maximise"))
    page = press(begun(store, opened, form), "new-try")
    pattern = r"\bcost[:= ]+(?P<cost>\S*\d)"
    trials.result = DryRunResult(
        "tried", {**BAD, "failure": {**BAD["failure"], "readable": {"cost": pattern}}}
    )
    page = press(sound(page.run()), "new-state-read-cost")
    assert page.session_state["new-step"] == "Objective and goal"
    assert page.session_state["new-measure"] == "cost"
    press(page, "new-try")
    tables = tomllib.loads(trials.texts[-1])
    assert tables["application"]["measures"] == {"pattern": [pattern]}
    assert tables["objective"] == {"maximise": "cost"}


def test_a_trial_is_stopped_refused_or_broken_in_words(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = press(begun(store, opened, OWN), "new-try")
    page = press(page, "new-stop")
    assert "was stopped" in page.info[0].value
    for state in ("refused", "broken"):
        page = press(page, "new-try")
        trials.result = DryRunResult(state, None, "Because of this.")  # type: ignore[arg-type]
        page = sound(page.run())
        assert "Because of this." in page.error[0].value


def test_nothing_is_tried_while_a_field_is_wrong(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = press(begun(store, opened, Form(deadline="soon")), "new-try")
    assert trials.texts == []
    assert page.session_state["new-step"] == "Objective and goal"
    assert "30m" in told(page)


def test_a_copy_knows_how_long_its_runs_take_until_something_else_is_run(
    store: Path, opened: list[NewExperiment], trials: Trials
) -> None:
    page = begun(store, opened, replace(OWN, run_s=30.0, runs=2))
    assert "2 runs of about 30 s take about 60 s" in " ".join(m.value for m in page.markdown)
    page = type_in(page, {"command": "sh p.sh {size} more"})
    assert "about 30 s" not in " ".join(m.value for m in page.markdown)


@pytest.mark.parametrize(
    ("place", "step"),
    [("new-path", 0), ("new-p12-baseline", 1), ("new-procs", 1), ("new-c3", 2), ("new-cost", 2),
     ("new-strategy", 2), ("new-name", 2), ("new-start", 2)],
)  # fmt: skip
def test_every_place_has_its_step(place: str, step: int) -> None:
    assert new.step_of(place) == step

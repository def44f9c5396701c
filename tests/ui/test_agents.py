"""The page *Agents* under Streamlit's own tester: setting up, refusals, what was played."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from agents import StudyLock, StudyRepository, parse_study, play_study, read_study
from agents.studies.study_repository import lock_holder
from assistant import AssistantError
from assistant.cli.main import run
from assistant.ui.pages import agents as agents_page
from assistant.ui.pages.agents_draft import StudyDraft, draft_of, study_document
from tests.agents.examples import TEXTS
from tests.ui import screens
from tests.ui.screens import press, sound
from tests.ui.shell import shown

FIELD = "agents-f-"
FULL = """
name = "Everything"
seed = 9
replications = 7
workers = 2
applications = ["flood", "scheduling"]
tables = ["{table}"]
strategies = ["random", {{name = "copper", beta = 0.75}}]
kinds = ["analyst", "follower"]
insights = ["bad"]
confidences = [20, 40]
learning = [true]
[stop]
runs = [9, 12]
exploitation = ["none", 0.25]
advised_from = 0.5
goal = 0.1
[insight]
members = 0.2
[learner]
rate = 0.3
[analyst]
batch = 3
acceptance = 0.25
reaction_s = 2.5
[scheduling]
log = "{log}"
first = 50
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.csv").write_text(text)
    yield tmp_path / "store.db"
    shelf = agents_page._shelf(str(tmp_path / "store.db"))
    shelf.end()
    for child in shelf._children:
        child.wait(120)
    agents_page._shelf.clear()


def page_of(store: Path) -> AppTest:
    return shown(agents_page.page, store)


def put(store: Path, text: str, name: str, *, play: bool) -> Path:
    """Put a study on the shelf, as a script does it."""
    folder = store.parent / "studies" / name
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(text)
    if play:
        study, told, _ = read_study(folder / "study.toml")
        play_study(study, folder, told, 1)
    return folder


def little(store: Path, **more: object) -> str:
    told = {
        "name": '"A little"', "replications": 4, "tables": f'["{store.parent / "small.csv"}"]',
        "strategies": '["random"]', "insights": '["good", "bad"]', "confidences": "[0, 100]",
        "learning": "[false]", **more,
    }  # fmt: skip
    return "".join(f"{name} = {value}\n" for name, value in told.items())


def file_on(page: AppTest) -> str:
    return next((one.value for one in page.code), "")


# -- setting up --------------------------------------------------------------------------------


def test_the_first_sight_tells_what_to_do_and_is_ready_to_play(store: Path) -> None:
    page = page_of(store)
    assert "There is no study yet" in page.info[0].value
    assert not page.error
    assert "18 cells, 20 episodes each: 360 episodes." in screens.shown(page)
    assert not page.button(key="agents-play").disabled
    study, _ = parse_study(file_on(page), "x", Path(), lambda asked: Path(asked.name))
    assert [table.name for table in study.tables] == ["maze"]
    assert not (store.parent / "studies").exists(), "looking keeps nothing"
    sound(page.segmented_control(key="agents-view").set_value("played").run())
    assert "Set one up" in page.info[0].value


def test_the_file_follows_the_fields(store: Path) -> None:
    page = page_of(store)
    sound(page.multiselect(key=f"{FIELD}strategies").set_value(["copper", "grasp"]).run())
    sound(page.multiselect(key=f"{FIELD}confidences").set_value(["5", "95"]).run())
    sound(page.number_input(key=f"{FIELD}replications").set_value(3).run())
    sound(page.selectbox(key=f"{FIELD}accepts").set_value("sometimes").run())
    sound(page.number_input(key=f"{FIELD}share").set_value(30).run())
    sound(page.radio(key=f"{FIELD}ends").set_value("budget").run())
    sound(page.multiselect(key=f"{FIELD}exploitation").set_value(["no level", "0.66"]).run())
    study, _ = parse_study(file_on(page), "x", Path(), lambda asked: Path(asked.name))
    assert [str(one) for one in study.strategies] == ["copper", "grasp"]
    assert (study.confidences, study.replications) == ((5, 95), 3)
    assert study.manner.acceptance == 0.3
    assert (study.stop.runs, study.stop.exploitation) == ((10, 25), (None, 0.66))
    sound(page.multiselect(key=f"{FIELD}kinds").set_value(["follower"]).run())
    assert not [one for one in page.multiselect if one.key == f"{FIELD}insights"]
    assert "insights" not in file_on(page)


@pytest.mark.parametrize(
    ("kind", "key", "value", "words"),
    [
        ("multiselect", "applications", [], "Choose an application, or enter a measured table."),
        ("multiselect", "strategies", [], "Choose at least one strategy."),
        ("multiselect", "kinds", [], "Choose at least one kind of analyst."),
        ("multiselect", "insights", [], "Choose at least one insight."),
        ("multiselect", "learning", [], "Choose whether the analyst learns, or both."),
        ("multiselect", "confidences", ["half"], "from 0 to 100, not 'half'."),
        ("multiselect", "confidences", ["101"], "from 0 to 100, not '101'."),
        ("multiselect", "confidences", ["5", "05"], "names 5 twice"),
        ("text_area", "tables", "gone.csv", "There is no table"),
        ("text_area", "tables", "small.csv\nsmall.csv", "names small twice"),
    ],
)
def test_what_cannot_be_is_told_beside_its_field(
    store: Path, kind: str, key: str, value: object, words: str
) -> None:
    page = page_of(store)
    sound(getattr(page, kind)(key=f"{FIELD}{key}").set_value(value).run())
    told = [one.value for one in (*page.error, *page.warning)]
    assert len(told) == 1
    assert words in told[0]
    assert page.button(key="agents-play").disabled
    assert not file_on(page)


def test_budgets_and_levels_are_read_one_by_one() -> None:
    for draft, words in (
        (StudyDraft(ends="budget", runs=("0",)), "from 1 on, not '0'"),
        (StudyDraft(ends="budget", runs=()), "enter at least one"),
        (StudyDraft(ends="budget", exploitation=("1.5",)), "from 0 to 1, not '1.5'"),
        (StudyDraft(ends="budget", exploitation=("nan",)), "from 0 to 1, not 'nan'"),
        (StudyDraft(applications=("scheduling",), log="gone.swf"), "There is no job log"),
        (StudyDraft(applications=("scheduling",), first=9), "needs a job log"),
    ):
        told = study_document(draft)
        assert told.text is None
        assert words in told.faults[0].text
        assert told.faults[0].place.startswith(FIELD)


def test_a_table_that_cannot_be_played_is_refused_at_its_field(store: Path) -> None:
    (store.parent / "below.csv").write_text("a,objective\n1,-3.0\n2,-2.0\n")
    page = page_of(store)
    sound(page.multiselect(key=f"{FIELD}applications").set_value([]).run())
    sound(page.text_area(key=f"{FIELD}tables").set_value("below.csv").run())
    sound(page.radio(key=f"{FIELD}ends").set_value("budget").run())
    press(page, "agents-play")
    assert len(page.error) == 1
    assert "a ratio to the optimum is undefined" in page.error[0].value
    assert not (store.parent / "studies").exists()
    sound(page.radio(key=f"{FIELD}ends").set_value("optimum").run())
    assert not page.error, "a refusal is of what was filled in before"
    press(page, "agents-play")
    assert not page.error
    assert page.button(key="agents-stop"), "stopping at the optimum needs no ratio"


def test_a_study_that_starts_programs_is_not_taken_into_the_form() -> None:
    text = 'applications = ["maze"]\nkinds = [{name = "mine", script = "a.py:f"}]\n'
    with pytest.raises(AssistantError, match=r"analyst 'mine', which is a program; .* agents run"):
        draft_of(text)


def test_a_study_file_fills_everything_in(store: Path) -> None:
    (store.parent / "a.swf").write_text("")
    text = FULL.format(table="small.csv", log="a.swf")
    draft = draft_of(text)
    told = study_document(draft)
    assert told.faults == ()
    assert told.text is not None
    was, is_ = (
        parse_study(one, "x", store.parent, lambda asked: Path(str(asked)))
        for one in (text, told.text)
    )
    assert is_[1] == 2
    for name in ("strategies", "kinds", "insights", "confidences", "learning", "stop", "insight",
                 "learner", "manner", "seed", "replications", "name"):  # fmt: skip
        assert getattr(is_[0], name) == getattr(was[0], name), name
    assert is_[0].tables[-1].path == str(store.parent / "small.csv")
    assert f'log = "{store.parent / "a.swf"}"' in told.text

    page = page_of(store)
    sound(page.text_area(key="agents-pasted").set_value(text).run())
    press(page, "agents-fill")
    assert file_on(page) == told.text.rstrip()
    assert page.multiselect(key=f"{FIELD}strategies").value == ["random", "copper (beta 0.75)"]
    assert any("learner.rate" in one.value for one in page.caption), "what no field shows is named"


def test_a_faulty_file_changes_nothing(store: Path) -> None:
    page = page_of(store)
    before = file_on(page)
    sound(page.text_area(key="agents-pasted").set_value('applications = ["mace"]').run())
    press(page, "agents-fill")
    assert "not 'mace'" in page.error[0].value
    assert file_on(page) == before
    given = ("s.toml", b"\xff\xfe", "application/toml")
    sound(page.file_uploader(key="agents-upload").set_value(given).run())
    assert page.error[0].value == "The uploaded file is not UTF-8 text."
    given = ("s.toml", b'applications = ["flood"]\nseed = 4', "application/toml")
    sound(page.file_uploader(key="agents-upload").set_value(given).run())
    assert not page.error
    assert page.number_input(key=f"{FIELD}seed").value == 4
    sound(page.number_input(key=f"{FIELD}seed").set_value(5).run())
    assert page.number_input(key=f"{FIELD}seed").value == 5, "an upload is taken once"


# -- what was played ---------------------------------------------------------------------------


def test_a_study_that_a_script_played_is_shown(store: Path) -> None:
    put(store, little(store), "a-little", play=True)
    page = page_of(store)
    assert page.selectbox(key="agents-open").value == "a-little"
    assert list(page.dataframe[0].value["state"]) == ["■ done"]
    assert "4 cells, 4 episodes each: 16 episodes by simulated analysts." in screens.shown(page)
    assert len(page.get("vega_lite_chart")) == 2
    assert list(page.dataframe[1].value["confidence"]) == ["0", "100", "0", "100"]
    names = [one.label for one in page.get("download_button")]
    assert names == [
        "Download the report (HTML)", "Episodes (Parquet)", "Cells (CSV)", "Figures (SVG)"
    ]  # fmt: skip
    press(page, "agents-again")
    study, _ = parse_study(file_on(page), "x", Path())
    assert (study.name, study.insights) == ("A little", ("good", "bad"))


def test_results_of_another_study_are_refused_in_words(store: Path) -> None:
    folder = put(store, little(store), "a-little", play=True)
    (folder / "study.toml").write_text(little(store, replications=5))
    page = page_of(store)
    assert "has 16 episodes, not those of the study" in page.error[0].value


def test_everybody_sees_what_is_played_and_how_far(store: Path) -> None:
    folder = put(store, little(store), "a-little", play=False)
    with StudyLock(folder) as turn:
        turn.tell("playing", 0, 16)
        for page in (page_of(store), page_of(store)):
            assert list(page.dataframe[0].value["state"]) == ["► playing"]
            assert list(page.dataframe[0].value["progress"]) == ["0 of 16"]
            assert list(page.dataframe[0].value["time left"]) == ["not known yet"]
            assert page.button(key="agents-stop")
    sound(page.run())
    assert page.button(key="agents-go-on").label == "Go on"


def test_removing_asks_once_and_what_is_gone_is_told(store: Path) -> None:
    folder = put(store, little(store), "a-little", play=False)
    page, other = page_of(store), page_of(store)
    press(page, "agents-remove")
    press(page, "agents-keep")
    assert folder.exists()
    press(page, "agents-remove")
    press(page, "agents-remove-sure")
    assert not folder.exists()
    assert "A little is removed." in screens.shown(page)
    press(other, "agents-go-on")
    assert "There is no study yet" in screens.shown(other), "it was gone meanwhile"


def test_a_foreign_name_draws_no_link(store: Path) -> None:
    put(store, little(store, name='"[a](http://b) <b>"'), "a-little", play=False)
    page = page_of(store)
    assert page.header[0].value.startswith("\\[a](http://b) \\<b>")


@pytest.mark.soak
@pytest.mark.slow
def test_a_study_played_from_the_page_is_the_one_of_the_command_line(store: Path) -> None:
    page = page_of(store)
    sound(page.multiselect(key=f"{FIELD}applications").set_value([]).run())
    sound(page.text_area(key=f"{FIELD}tables").set_value("rugged.csv").run())
    sound(page.text_input(key=f"{FIELD}name").set_value("Rugged ones").run())
    text = file_on(page)
    press(page, "agents-play")
    assert not page.error
    folder = store.parent / "studies" / "rugged-ones"
    assert lock_holder(folder) is not None
    assert page.button(key="agents-stop")
    press(page, "agents-stop")
    assert page.button(key="agents-go-on")
    press(page, "agents-go-on")
    deadline = time.monotonic() + 600
    while lock_holder(folder) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    sound(page.run())
    assert not page.error
    assert len(page.get("vega_lite_chart")) == 3
    (store.parent / "study.toml").write_text(text)
    assert run(["agents", "run", "study.toml", "--to", "by-hand", "--workers", "1"]) == 0
    for file in ("results.parquet", "summary.csv", "report.html"):
        assert (folder / file).read_bytes() == (store.parent / "by-hand" / file).read_bytes()
    assert [one.state for one in StudyRepository(folder.parent).studies()] == ["done"]

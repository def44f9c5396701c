"""The page *Workload* under Streamlit's own tester, in each of its states."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant.ui.pages import workload, workload_log
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_sweep_file import write_tables

pytestmark = pytest.mark.slow

LOG = """; MaxProcs: 8
; UnixStartTime: 376200
; TimeZoneString: Europe/Paris
1 0 -1 3600 1 -1 -1 1 3600 -1 1 7 1 -1 1 -1 -1 -1
2 0 10 60 4 -1 -1 4 600 -1 1 7 1 -1 1 -1 -1 -1
3 1800 -1 1 3 -1 -1 3 60 -1 1 9 1 -1 1 -1 -1 -1
4 7200 -1 100 8 -1 -1 8 50 -1 1 -1 1 -1 1 -1 -1 -1
5 86400 -1 7200 2 -1 -1 2 14400 -1 1 9 1 -1 1 -1 -1 -1
"""
TWICE = LOG.replace("4 7200", "3 7200")


@pytest.fixture(autouse=True)
def _nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    for cached in (workload._cached_profile, workload_log._read, workload_log._read_upload):
        cached.clear()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf"
    path.write_text(LOG)
    return path


def shown(chosen: Path | str | None = None) -> AppTest:
    def script(chosen: str | None) -> None:
        import streamlit as st

        from assistant.ui.intents import perform
        from assistant.ui.pages import workload

        intent = workload.page(chosen)
        if intent is not None:
            done = perform(intent)
            st.session_state["went"] = intent.then if done else ""
            st.rerun()

    args = (None if chosen is None else str(chosen),)
    page = AppTest.from_function(script, args=args, default_timeout=300).run()
    return sound(page)


def sound(page: AppTest) -> AppTest:
    assert not page.exception, [e.value for e in page.exception]
    return page


def tiles(page: AppTest) -> dict[str, str]:
    return {tile.label: tile.value for tile in page.metric}


def frame_with(page: AppTest, column: str):  # type: ignore[no-untyped-def]
    return next(f.value for f in page.dataframe if column in f.value)


def test_the_first_sight_is_the_built_in_example() -> None:
    page = shown()
    assert tiles(page)["Jobs"] == "1,500"
    assert tiles(page)["Offered load"] == "0.65"
    assert not page.error
    headings = [s.value for s in page.subheader]
    assert headings == [
        "Workload", "Load by hour", "Arrivals by hour of the week", "Sizes and run times",
        "Requested against actual run time", "Users", "Time between submissions", "Percentiles",
        "Compare with another log",
    ]  # fmt: skip
    assert any("does not contain the users" in box.value for box in page.info)
    assert len(page.get("vega_lite_chart")) == 7


def test_a_log_without_a_path_yet_says_what_to_do() -> None:
    page = shown()
    sound(page.segmented_control(key="workload-source").set_value("path").run())
    assert "Name the path of a job log" in page.info[0].value
    assert not page.metric


def test_the_log_of_the_open_experiment_comes_first(log: Path, tmp_path: Path) -> None:
    page = shown(log)
    assert page.text_input(key="workload-path").value == str(log)
    assert tiles(page)["Jobs"] == "5"
    assert tiles(page)["Users"] == "2"
    assert any(text.value == "**tiny**" for text in page.markdown)
    arrivals = frame_with(page, "day")
    assert int(arrivals["9"].iloc[0]) == 2  # 8:30 UTC on a Monday is 9:30 in Paris
    assert int(arrivals["all"].sum()) == 5
    # who looks at another log keeps looking at it
    sound(page.segmented_control(key="workload-source").set_value("example").run())
    assert tiles(page)["Jobs"] == "1,500"


def test_a_log_that_changed_is_read_again(log: Path) -> None:
    page = shown(log)
    log.write_text("\n".join(LOG.splitlines()[:-1]) + "\n")
    assert tiles(sound(page.run()))["Jobs"] == "4"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no such file"),
        ("; MaxProcs: 8\n", "it contains no jobs"),
        ("1 2 3\n", "line 1: 3 fields where SWF has 18"),
        ("\x00\x01", "tiny.swf"),
    ],
)
def test_a_log_that_cannot_be_read_is_told_in_words(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "tiny.swf"
    if text is not None:
        path.write_text(text)
    page = shown(path)
    assert len(page.error) == 1
    assert words in page.error[0].value
    assert "Traceback" not in page.error[0].value
    assert page.text_input(key="workload-path").value == str(path)


def test_a_refusal_has_its_way_out_as_a_button(log: Path) -> None:
    log.write_text(TWICE)
    page = shown(log)
    assert "job numbers must be known and unique" in page.error[0].value
    sound(page.button(key="workload-way-duplicate_ids").click().run())
    assert not page.error
    assert tiles(page)["Jobs"] == "5"
    assert page.multiselect(key="workload-reading").value == ["duplicate_ids = renumber"]
    assert any("numbered" in text.value for text in page.markdown)


def test_a_rule_in_two_ways_is_refused(log: Path) -> None:
    page = shown(log)
    both = ["never_ran = keep_zero", "never_ran = refuse"]
    sound(page.multiselect(key="workload-reading").set_value(both).run())
    assert "never_ran is selected twice" in page.error[0].value


def test_everything_follows_the_window(log: Path) -> None:
    page = shown(log)
    key = next(n.key for n in page.number_input if n.label == "First jobs to leave out")
    sound(page.number_input(key=key).set_value(3).run())
    assert tiles(page)["Jobs"] == "2"
    assert page.metric[0].delta == "of 5"
    assert int(frame_with(page, "day")["all"].sum()) == 2
    assert any("A sweep uses the whole log" in caption.value for caption in page.caption)
    slider = page.slider[0]
    first, last = slider.value
    sound(slider.set_value((first, first)).run())
    assert tiles(page)["Jobs"] == "1"
    sound(page.number_input(key=key).set_value(4).run())
    assert "No job of tiny is left in the window" in page.error[0].value
    assert page.slider  # what is wrong can be mended
    sound(page.slider[0].set_value((last, last)).run())
    assert tiles(page)["Jobs"] == "1"


def test_days_without_a_calendar_are_numbered(log: Path) -> None:
    log.write_text(LOG.replace("; UnixStartTime: 376200\n", ""))
    page = shown(log)
    assert page.slider[0].value == (1, 2)
    assert any("days count from the first submission" in c.value for c in page.caption)
    sound(page.slider[0].set_value((2, 2)).run())
    assert tiles(page)["Jobs"] == "1"


def test_an_unknown_machine_can_be_named(log: Path) -> None:
    log.write_text(LOG.replace("; MaxProcs: 8\n", ""))
    page = shown(log)
    assert tiles(page)["Offered load"] == "unknown"
    assert any("Enter it above" in caption.value for caption in page.caption)
    key = next(n.key for n in page.number_input if n.label == "Processors of the machine")
    sound(page.number_input(key=key).set_value(4).run())
    assert tiles(page)["Offered load"] == "0.06"


def test_the_time_zone_can_be_said(log: Path) -> None:
    page = shown(log)
    assert page.selectbox[0].options[0] == "Europe/Paris"
    sound(page.selectbox[0].set_value("Asia/Tokyo").run())
    assert int(frame_with(page, "day")["17"].iloc[0]) == 2


def test_a_single_job_has_a_page(log: Path) -> None:
    log.write_text("1 0 -1 0 1 -1 -1 1 -1 -1 1 -1 1 -1 1 -1 -1 -1\n2 9 -1 5 1 -1 -1 1 -1 -1 1 -1"
                   " 1 -1 1 -1 -1 -1\n")  # fmt: skip
    page = shown(log)
    assert tiles(page)["Jobs"] == "1"
    boxes = [box.value for box in page.info]
    assert "There is one job only." in boxes
    assert "No requested times are known, so there is nothing to compare." in boxes
    assert any("1 job never ran" in text.value for text in page.markdown)


def test_tuning_takes_the_log_and_its_rules_along(log: Path) -> None:
    log.write_text(TWICE)
    page = shown(log)
    sound(page.button(key="workload-way-duplicate_ids").click().run())
    sound(page.button(key="workload-tune").click().run())
    assert page.session_state["went"] == "new"
    form = page.session_state["new-form"]
    told = write_tables(form)
    assert not told.faults
    assert told.tables["application"] == {
        "kind": "scheduling", "log": str(log), "reading": {"duplicate_ids": "renumber"},
    }  # fmt: skip


def test_tuning_replaces_what_new_was_filled_in_with_before(log: Path) -> None:
    page = shown(log)
    page.session_state["new-form"] = Form("command")
    page.session_state["new-source"] = "command"
    sound(page.button(key="workload-tune").click().run())
    assert page.session_state["new-form"] == Form("log", path=str(log))
    assert "new-source" not in page.session_state


def test_tuning_the_example_names_no_log() -> None:
    page = shown()
    sound(page.button(key="workload-tune").click().run())
    assert (page.session_state["went"], page.session_state["new-form"]) == ("new", Form())


def test_an_upload_is_kept_only_where_it_is_wanted(tmp_path: Path) -> None:
    page = shown()
    sound(page.segmented_control(key="workload-source").set_value("upload").run())
    assert "Choose a file." in page.info[0].value
    given = ("up.swf", LOG.encode(), "text/plain")
    sound(page.file_uploader(key="workload-file").set_value(given).run())
    assert tiles(page)["Jobs"] == "5"
    assert not list(tmp_path.rglob("*.swf"))
    wanted = tmp_path / "kept" / "mine.swf"
    sound(page.text_input(key="workload-keep").set_value(str(wanted)).run())
    sound(page.button(key="workload-tune").click().run())
    assert page.session_state["new-form"].path == str(wanted)
    assert wanted.read_text() == LOG
    sound(page.button(key="workload-tune").click().run())  # the same file is no other
    assert page.session_state["went"] == "new"
    wanted.write_text("mine")
    sound(page.button(key="workload-tune").click().run())
    assert page.session_state["went"] == ""
    assert "There is another file at" in page.error[0].value
    assert wanted.read_text() == "mine"


def test_an_upload_that_cannot_be_read_is_told_by_its_own_name() -> None:
    page = shown()
    sound(page.segmented_control(key="workload-source").set_value("upload").run())
    given = ("up.swf", b"1 2 3\n", "text/plain")
    sound(page.file_uploader(key="workload-file").set_value(given).run())
    assert page.error[0].value.startswith("up.swf, line 1: 3 fields")


def test_two_logs_are_compared(log: Path) -> None:
    page = shown(log)
    sound(page.toggle(key="workload-compare").set_value(True).run())
    table = page.dataframe[-5].value
    assert list(table.columns) == ["", "tiny", "lublin-feitelson (built in)"]
    jobs = table.set_index("").loc["jobs"]
    assert list(jobs) == ["5", "1,500"]
    assert len(page.get("vega_lite_chart")) == 8 + 4


def test_a_foreign_name_draws_no_link(tmp_path: Path) -> None:
    path = tmp_path / "[a](http:b).swf"
    path.write_text(LOG)
    page = shown(path)
    assert any(text.value.startswith("**\\[a](http:b)") for text in page.markdown)


@pytest.mark.parametrize("name", ["theta_2023", "wagap-2013"])
def test_real_logs_that_need_a_rule_get_there_by_clicks(shared_data: Path, name: str) -> None:
    page = shown(shared_data / "swf" / f"{name}.swf.gz")
    for _ in range(3):
        ways = [button for button in page.button if (button.key or "").startswith("workload-way")]
        if not ways:
            break
        sound(ways[0].click().run())
    assert not page.error
    assert tiles(page)["Jobs"] in ("8,401", "17,898")


def test_what_was_chosen_is_kept_while_another_page_is_looked_at(log: Path) -> None:
    def script() -> None:
        import streamlit as st

        from assistant.ui.pages import workload

        if st.session_state.get("elsewhere"):
            st.write("another page")
        else:
            workload.page()

    page = sound(AppTest.from_function(script, default_timeout=300).run())
    sound(page.segmented_control(key="workload-source").set_value("path").run())
    sound(page.text_input(key="workload-path").set_value(str(log)).run())
    key = next(n.key for n in page.number_input if n.label == "First jobs to leave out")
    sound(page.number_input(key=key).set_value(3).run())
    for elsewhere in (True, True, False):
        page.session_state["elsewhere"] = elsewhere
        sound(page.run())
    assert page.text_input(key="workload-path").value == str(log)
    assert tiles(page)["Jobs"] == "2"

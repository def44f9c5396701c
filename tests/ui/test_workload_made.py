"""*Generate and compare* on the page *Workload*: fits and draws go on beside the page."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant.ui.pages import workload, workload_charts, workload_log
from assistant.ui.pages import workload_charts as workload_background
from sim.api import write_workload
from sim.generators import generate, published_model
from tests.ui.screens import sound
from tests.ui.shell import shown

pytestmark = pytest.mark.slow

PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def _nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    workload_background.generation_jobs().close()
    cached: tuple[Any, ...] = (
        workload._cached_profile,
        workload_log._read,
        workload_log._read_upload,
        workload_charts._cached_profile,
        workload_charts._cached_comparison,
        workload_background.generation_jobs,
    )
    for one in cached:
        one.clear()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    drawn = generate(published_model("lublin"), duration_s=10 * 86_400.0, seed=11)
    write_workload(drawn, tmp_path / "log.swf")
    return tmp_path / "log.swf"


def making_page(log: Path) -> AppTest:
    page = shown(workload.page, str(log))
    return sound(
        page.segmented_control(key="workload-view").set_value("Generate and compare").run()
    )


def after(page: AppTest, kind: str) -> AppTest:
    """Return the page once the fit or draw is over; looking in is what brings it on."""
    until = time.monotonic() + PATIENCE_S
    while workload_background.generation_jobs().of(owner(page, kind)) is not None:
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.2)  # the core is for the fit, not for drawing the page again and again
        page = sound(page.run())
    return sound(page.run())


def owner(page: AppTest, kind: str) -> str:
    return f"{page.session_state['workload-state-owner']}-{kind}"


def keys(page: AppTest) -> set[str]:
    return {button.key or "" for button in page.button}


def published(page: AppTest) -> AppTest:
    return sound(
        page.segmented_control(key="workload-make-parameters-True").set_value("Published").run()
    )


@pytest.mark.soak
def test_a_fitted_model_is_drawn_from_and_compared(log: Path) -> None:
    page = making_page(log)
    assert "workload-make-draw" not in keys(page), "there is no model yet"
    sound(page.selectbox(key="workload-make-generator").set_value("resampling").run())
    page = after(sound(page.button(key="workload-make-fit").click().run()), "fit")
    assert not page.error
    assert any("log" in caption.value for caption in page.caption)
    sound(page.number_input(key="workload-make-days").set_value(8.0).run())
    page = after(sound(page.button(key="workload-make-draw").click().run()), "draw")
    assert not page.error
    headings = [one.value for one in page.subheader]
    assert headings == ["Workload", "Generated", "Similarity to the log"]
    assert any("figures differ by more than the days of log" in m.value for m in page.markdown)
    tables = [frame.value for frame in page.dataframe]
    distances = next(t for t in tables if "usual between days of the log" in t)
    assert len(distances) == 9
    assert set(distances["verdict"]) <= {"alike", "differs"}
    assert len(page.get("vega_lite_chart")) == 5
    labels = [one.label for one in page.get("download_button")]
    assert {"Download as SWF", "Download as JSONL", "Download the model"} <= set(labels)
    # another log needs a fit of its own, and the model of this one is not taken for it
    sound(page.segmented_control(key="workload-source").set_value("example").run())
    assert "workload-make-draw" not in keys(page)
    assert any("for another log, window or setting" in caption.value for caption in page.caption)


@pytest.mark.soak
def test_a_published_model_has_fields_and_lines(log: Path) -> None:
    page = published(making_page(log))
    mark = f"workload-make-{published_model('lublin').digest[:12]}"
    sound(page.text_input(key=f"{mark}-types").set_value("batch").run())
    sound(
        page.text_area(key=f"{mark}-more").set_value("batch.serial_prob=0\n\nbatch.u_low=1").run()
    )
    sound(page.number_input(key="workload-make-scale").set_value(0.5).run())
    page = after(sound(page.button(key="workload-make-draw").click().run()), "draw")
    assert not page.error
    (made,) = [page.session_state["workload-make-made-draw"]]
    assert (made.workload.procs > 1).all()
    assert any("0.5 times the arrivals" in one.value for one in page.markdown)


def test_a_parameter_that_cannot_be_is_told_beside_the_fields(log: Path) -> None:
    page = published(making_page(log))
    mark = f"workload-make-{published_model('lublin').digest[:12]}"
    for line, words in (
        ("batch.x=1", "has no entry 'x'"),
        ("nonsense", "is not of the form name=value"),
        ("batch.serial_prob=7", "serial_prob"),
    ):
        sound(page.text_area(key=f"{mark}-more").set_value(line).run())
        page = after(sound(page.button(key="workload-make-draw").click().run()), "draw")
        assert len(page.error) == 1
        assert words in page.error[0].value
        assert page.text_area(key=f"{mark}-more").value == line
        assert "Generated" not in [one.value for one in page.subheader]


def test_a_draw_is_stopped(log: Path) -> None:
    page = published(making_page(log))
    sound(page.number_input(key="workload-make-days").set_value(3000.0).run())
    sound(page.button(key="workload-make-draw").click().run())
    attempt = workload_background.generation_jobs().of(owner(page, "draw"))
    assert attempt is not None
    assert attempt.seconds >= 0
    assert "workload-make-stop-draw" in keys(page)
    sound(page.button(key="workload-make-stop-draw").click().run())
    page = after(page, "draw")
    assert any("there is no workload" in box.value for box in page.info)


def test_a_fit_that_is_refused_says_why(tmp_path: Path) -> None:
    path = tmp_path / "tiny.swf"
    rows = (f"{i} {i} -1 5 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 -1 -1" for i in range(1, 4))
    path.write_text("\n".join(rows) + "\n")
    page = making_page(path)
    page = after(sound(page.button(key="workload-make-fit").click().run()), "fit")
    assert len(page.error) == 1
    assert "went wrong" not in page.error[0].value
    assert "workload-make-draw" not in keys(page)


@pytest.mark.soak
def test_a_trace_of_pods_is_looked_at_and_generated(tmp_path: Path) -> None:
    drawn = generate(published_model("joulie"), duration_s=4 * 3600.0, seed=2, scale=0.1)
    write_workload(drawn, tmp_path / "pods.jsonl")
    page = shown(workload.page)
    sound(page.segmented_control(key="workload-source").set_value("upload").run())
    given = ("pods.jsonl", (tmp_path / "pods.jsonl").read_bytes(), "application/jsonl")
    sound(page.file_uploader(key="workload-file").set_value(given).run())
    assert {tile.label: tile.value for tile in page.metric}["Jobs"] == f"{drawn.n_jobs:,}"
    sound(page.segmented_control(key="workload-view").set_value("Generate and compare").run())
    sound(page.selectbox(key="workload-make-generator").set_value("joulie").run())
    page = published(page)
    sound(page.number_input(key="workload-make-days").set_value(0.1).run())
    sound(page.number_input(key="workload-make-scale").set_value(0.1).run())
    page = after(sound(page.button(key="workload-make-draw").click().run()), "draw")
    assert not page.error
    assert page.session_state["workload-make-made-draw"].workload.tasks is not None
    assert any("The jobs consist of" in caption.value for caption in page.caption)

"""*Capacity* on the page *Workload*: the same plan, in the same words, as the command line."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant.cli.main import run
from assistant.ui.pages import workload, workload_charts, workload_log
from sim.api import write_workload
from tests.sim.cloud.logs import log_of
from tests.ui.screens import sound
from tests.ui.shell import shown

pytestmark = pytest.mark.slow

PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def _nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    workload_charts.plan_jobs().close()
    cached: tuple[Any, ...] = (
        workload._cached_profile,
        workload_log._read,
        workload_log._read_upload,
        workload_charts.plan_jobs,
    )
    for one in cached:
        one.clear()


@pytest.fixture
def page(tmp_path: Path) -> AppTest:
    write_workload(log_of(4, 1, name="log"), tmp_path / "log.swf")
    drawn = shown(workload.page, str(tmp_path / "log.swf"))
    return sound(drawn.segmented_control(key="workload-view").set_value("Capacity").run())


def under_way(page: AppTest) -> Any:
    return workload_charts.plan_jobs().of(f"{page.session_state['workload-state-owner']}-capacity")


def after(page: AppTest) -> AppTest:
    until = time.monotonic() + PATIENCE_S
    while under_way(page) is not None:
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.2)  # the core is for the work, not for drawing the page again and again
        page = sound(page.run())
    return sound(page.run())


def told(page: AppTest, **fields: float) -> AppTest:
    for name, value in fields.items():
        sound(page.number_input(key=f"workload-capacity-{name}").set_value(value).run())
    return page


@pytest.mark.soak
def test_page_and_command_say_the_same(
    page: AppTest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert page.selectbox(key="workload-capacity-generator").value == "three_stage"
    page = told(page, cores=16, days=1.0, futures=5, seed=3)
    sound(page.text_input(key="workload-capacity-scales").set_value("1, 2").run())
    sound(page.text_area(key="workload-capacity-settings").set_value("end_odds=0.5\n").run())
    page = after(sound(page.button(key="workload-capacity-plan").click().run()))
    assert not page.error
    options = (
        "--cores-per-server 16 --days 1 --futures 5 --seed 3 --scale 1 --scale 2 --set end_odds=0.5"
    )
    capsys.readouterr()
    assert run(["workload", "capacity", "log.swf", *options.split(), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any(one.value == f"**{said['answer']}**" for one in page.markdown)
    table = page.dataframe[0].value
    assert table["case"].tolist() == [one["name"] for one in said["cases"]]
    servers = [f"{one['packed']['servers']:,}" for one in said["cases"]]
    assert table["servers, first fit"].tolist() == servers
    captions = [one.value for one in page.caption]
    assert all(note in captions for note in said["notes"])
    assert len(page.get("vega_lite_chart")) == 1
    told(page, cores=8)
    assert any("for another log, window or setting" in one.value for one in page.caption)


@pytest.mark.soak
def test_what_cannot_be_planned_is_told(page: AppTest) -> None:
    page = told(page, memory=4.0, futures=1, days=0.5)
    page = after(sound(page.button(key="workload-capacity-plan").click().run()))
    assert len(page.error) == 1
    assert "have no known memory" in page.error[0].value


def test_a_plan_is_stopped(page: AppTest) -> None:
    page = told(page, futures=5000, days=300.0)
    sound(page.button(key="workload-capacity-plan").click().run())
    assert under_way(page) is not None
    sound(page.button(key="workload-capacity-stop").click().run())
    page = after(page)
    assert any("there is no result" in box.value for box in page.info)

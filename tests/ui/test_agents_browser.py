"""A study from its fields to its report in a real Chromium over ``copperline app``."""

import os
import re
import signal
from pathlib import Path

import pytest

from agents import StudyRepository, read_parquet
from agents.studies.study_repository import lock_holder
from benchmarks.browsing import await_that, kept_up
from tests.ui.test_story import looking

pytestmark = pytest.mark.browser


def no_signal_waits(pid: int) -> bool:
    """Tell whether a stopped process has no signal that it would get as it goes on."""
    status = Path(f"/proc/{pid}/status").read_text()
    return all(int(mask, 16) == 0 for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.M))


@pytest.mark.soak
def test_a_study_outlives_the_pages_and_goes_on_after_a_stop(
    chromium: str, tmp_path: Path, repository: Path
) -> None:
    store = tmp_path / "story.db"
    rows = "".join(
        f"{x},{y},{(4 - x) ** 2 + (4 - y) ** 2 + 1}\n" for x in range(9) for y in range(9)
    )
    (tmp_path / "bowl.csv").write_text(f"x,y,objective\n{rows}")
    study = (
        'name = "Bowl"\nseed = 3\nreplications = 300\nworkers = 1\ntables = ["bowl.csv"]\n'
        'strategies = ["random"]\ninsights = ["good", "bad"]\nconfidences = [0, 100]\n'
        "learning = [false]\n"
    )
    (tmp_path / "study.toml").write_text(study)
    folder = tmp_path / "studies" / "bowl"
    with kept_up(store, repository) as up, looking(up) as screen:
        person = screen()
        page = person.page
        person.goto("/agents")
        person.says("There is no study yet")
        page.get_by_text("Begin with a study file").click()
        page.locator("input[type=file]").set_input_files(tmp_path / "study.toml")
        person.says("4 cells, 300 episodes each: 1,200 episodes.")
        person.press("Play")
        person.says(re.compile("of 1,200 episodes"))
        page.wait_for_url("**study=bowl**")
        playing = lock_holder(folder)
        assert playing is not None
        os.kill(playing.pid, signal.SIGSTOP)  # it is not over before it is stopped below
        with person.reconnecting():
            up.kill("pages")
        assert lock_holder(folder) == playing, "it does not mind"
        assert no_signal_waits(playing.pid), "nobody told it to end"
        other = screen()
        other.goto("/agents?study=bowl")
        other.says("The study has its own process")
        os.kill(playing.pid, signal.SIGCONT)
        other.press("Stop")
        other.says(re.compile("Stopped: .* of 1,200 episodes"))
        person.goto("/agents?study=bowl")
        person.press("Go on")
        played = folder / "results.parquet"
        await_that(lambda: played.exists() and lock_holder(folder) is None, "it was played")
        for one in (person, other):
            one.goto("/agents?study=bowl")
            one.says("4 cells, 300 episodes each: 1,200 episodes by simulated analysts.")
            one.says(re.compile("With good insight, confidence 100 % instead of 0 % costs"))
            one.says("Every cell")
            one.shows("stVegaLiteChart", 2)
        with page.expect_download() as download:
            person.press("Episodes (Parquet)")
        download.value.save_as(tmp_path / "taken.parquet")
        with page.expect_download() as download:
            person.press("Download the report (HTML)")
        download.value.save_as(tmp_path / "taken.html")
        person.page.set_viewport_size({"width": 420, "height": 900})
        main = page.get_by_test_id("stMain")
        fits = "main => main.scrollWidth <= main.clientWidth + 1"
        person.comes_to(lambda: main.evaluate(fits), "the page is as narrow as the window")
    assert (tmp_path / "taken.parquet").read_bytes() == played.read_bytes()
    assert len(read_parquet(tmp_path / "taken.parquet")) == 1_200
    assert "<svg" in (tmp_path / "taken.html").read_text()


@pytest.mark.soak
def test_the_end_of_the_app_stops_what_it_started(
    chromium: str, tmp_path: Path, repository: Path
) -> None:
    store = tmp_path / "story.db"
    with kept_up(store, repository) as up, looking(up) as screen:
        person = screen()
        person.goto("/agents")
        person.fill("Episodes per cell", "90000")
        person.says("1,620,000 episodes")
        person.press("Play")
        person.says("The study has its own process")
        (kept,) = StudyRepository.beside(store).studies()
        assert kept.state == "playing"
        up.process.send_signal(signal.SIGTERM)
        up.process.wait(600)
        await_that(lambda: lock_holder(kept.folder) is None, "the study was stopped")
        person.watched.errors.clear()  # that the server is gone
    (kept,) = StudyRepository.beside(store).studies()
    assert kept.state == "stopped", "and can go on"

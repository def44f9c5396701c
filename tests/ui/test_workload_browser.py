"""*Generate and compare* in a real Chromium: a fit, a draw, a verdict, a download that is read."""

from pathlib import Path

import pytest

from benchmarks.browsing import browsing, kept_up
from benchmarks.screen import Screen
from sim.api import load_workload, write_workload
from sim.generators import generate, published_model

pytestmark = pytest.mark.browser


@pytest.mark.soak
def test_a_log_is_fitted_drawn_compared_and_handed_out(
    chromium: str, tmp_path: Path, repository: Path
) -> None:
    log = tmp_path / "log.swf"
    write_workload(generate(published_model("lublin"), duration_s=10 * 86_400.0, seed=11), log)
    with kept_up(tmp_path / "store.db", repository) as up, browsing(up.address) as opened:
        screen = Screen(opened(), up.url)
        page = screen.page
        screen.goto("/workload")
        screen.drawn()
        page.get_by_test_id("stButtonGroup").get_by_text("A file here").click()
        screen.settled()
        screen.fill("Path of the log", str(log))
        page.get_by_test_id("stButtonGroup").get_by_text("Generate and compare").click()
        screen.settled()
        screen.choose("Generator", "resampling")
        screen.press("Fit resampling to this log")
        screen.button("Generate").wait_for()
        screen.press("Generate")
        screen.says("Similarity to the log")
        screen.shows("stVegaLiteChart", 5)
        with page.expect_download() as caught:
            screen.press("Download as SWF")
        target = tmp_path / "got.swf"
        caught.value.save_as(target)
        assert caught.value.suggested_filename == "resampling-seed-1.swf"
        assert load_workload(target).n_jobs > 100
        assert screen.watched.strangers == []
        assert screen.watched.complaints == []

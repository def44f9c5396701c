"""The page about programs that speak HTTP: its programs run, and are swept as it says."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from assistant.applications.rest import Rest
from assistant.cli.main import run
from assistant.client.api import ApiClient
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.core.errors import RunStoppedError, SettingsError
from assistant.core.objective import Measure
from assistant.service.store_lock import find_endpoint

pytestmark = pytest.mark.slow

PATIENCE_S = 240.0
Cli = Callable[..., tuple[int, str, str]]
AT = "http://127.0.0.1:9000/runs"
BEST = {"threads": 4, "block": 48}
LANGUAGES = {"python": (sys.executable, "adapter.py"), "js": ("node", "adapter.mjs")}


class Watching:
    """Whoever watches: wants the end once the run has measured something."""

    told: Mapping[str, Measure] | None = None

    def report(self, measures: Mapping[str, Measure]) -> None:
        self.told = measures or None

    def wants_end(self) -> bool:
        return self.told is not None


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.delenv("COPPERLINE_ADAPTER_TOKEN", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    text = (repository / "docs" / "howto" / "http-program.md").read_text()
    return text.split("## Copperline calls your program")[1].split("\n## ")[0]


def block(page: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", page, re.S)
    return str(found)


def until(holds: Callable[[], object]) -> bool:
    """Whether something becomes true while other processes work."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.05)
    return True


@contextmanager
def started(page: str, language: str, folder: Path) -> Iterator[str]:
    """The program of the page on a free port; yields its address."""
    program, name = LANGUAGES[language]
    (folder / name).write_text(block(page, language))
    with subprocess.Popen(
        [program, name], cwd=folder, env={**os.environ, "PORT": "0"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), url
            yield url
        finally:
            process.kill()


@pytest.mark.soak
def test_the_program_in_python_describes_itself_and_is_swept(
    cli: Cli, page: str, tmp_path: Path
) -> None:
    with started(page, "python", tmp_path) as url:
        assert cli("init", "sweep.toml", "--adapter", url)[0] == 0
        code, out, err = cli("sweep", "sweep.toml", "--runs", "20", "--workers", "2", "--json")
        assert code == 0, err
        found = json.loads(out)
        alone = json.loads(cli("sweep", "sweep.toml", "--runs", "8", "--json")[1])
    assert found["name"] == "sweep"
    assert found["runs"] == {"submitted": 20, "completed": 20, "failed": 0}
    assert found["best"]["values"] == BEST
    assert alone["runs"]["completed"] == 8
    told = (tmp_path / "sweep.toml").read_text()
    written = block(page, "toml").replace(AT, url)
    mine, pages = (
        build_sweep(check_settings(parse_settings(text, "it", tmp_path, "it"), "it"))
        for text in (told, written)
    )
    assert mine.space.lineage == pages.space.lineage
    assert mine.objective == pages.objective
    assert mine.application.baseline == pages.application.baseline


@pytest.mark.soak
@pytest.mark.usefixtures("node")
def test_the_program_for_node_is_swept_as_the_other_is(cli: Cli, page: str, tmp_path: Path) -> None:
    with started(page, "js", tmp_path) as url:
        text = block(page, "toml").replace(AT, url)
        (tmp_path / "node.toml").write_text("seed = 3\n" + text)
        code, out, err = cli("sweep", "node.toml", "--runs", "6", "--workers", "2", "--json")
        assert code == 0, err
    with started(page, "python", tmp_path) as url:
        text = block(page, "toml").replace(AT, url)
        (tmp_path / "node.toml").write_text("seed = 3\n" + text)
        code, other, err = cli("sweep", "node.toml", "--runs", "6", "--workers", "2", "--json")
        assert code == 0, err
    found, same = json.loads(out), json.loads(other)
    assert found["runs"] == {"submitted": 6, "completed": 6, "failed": 0}
    assert found["best"] == same["best"]


@pytest.mark.usefixtures("node")
def test_the_program_for_node_tells_what_it_measures_so_far_and_is_ended(
    page: str, tmp_path: Path
) -> None:
    endless = page.replace("run.steps < 4", "run.steps < 1e9")
    assert endless != page
    with started(endless, "js", tmp_path) as url:
        tables = parse_settings(block(page, "toml").replace(AT, url), "it", tmp_path, "it")
        application = build_sweep(check_settings(tables, "it")).application
        assert isinstance(application, Rest)
        watching = Watching()
        with pytest.raises(RunStoppedError, match="the program was informed"):
            application.evaluate_watched(BEST, 1, None, watching)
    assert watching.told is not None
    assert watching.told["time_ms"] > 345  # of one more step it is a little less


@pytest.mark.soak
def test_a_service_asks_the_program_that_its_operator_named(page: str, tmp_path: Path) -> None:
    store = tmp_path / "experiments.db"
    with started(page, "python", tmp_path) as url, (tmp_path / "service.log").open("wb") as log:
        command = [sys.executable, "-m", "assistant.cli", "serve", "--port", "0", "--workers", "1"]
        command += ["--store", str(store), "--adapter", url]
        service = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            assert until(lambda: service.poll() is not None or find_endpoint(store) is not None)
            there = find_endpoint(store)
            assert there is not None, (tmp_path / "service.log").read_text()
            link = ApiClient(there.url, there.token)
            tables = parse_settings(block(page, "toml").replace(AT, url), "", tmp_path, "asked")
            opened = link.change("POST", "/v1/experiments", {"settings": {**tables, "runs": 6}})
            at = f"/v1/experiments/{opened['experiment']}"
            link.change("POST", f"{at}/auto-steering", {"auto_steering": {"initial": 6}})
            over = until(lambda: link.get(at)["runs"]["completed"] == 6)
            assert over, (link.get(at), (tmp_path / "service.log").read_text())
            assert link.get(at)["runs"]["failed"] == 0
            other = {**tables, "application": {"kind": "rest", "url": "http://127.0.0.1:1/"}}
            with pytest.raises(SettingsError, match="calls no program at http://127"):
                link.change("POST", "/v1/experiments", {"settings": other})
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(PATIENCE_S)


@pytest.mark.soak
def test_a_program_that_goes_away_fails_its_runs_and_not_the_sweep(
    cli: Cli, page: str, tmp_path: Path
) -> None:
    with started(page, "python", tmp_path) as url:
        assert cli("init", "gone.toml", "--adapter", url)[0] == 0
    code, out, err = cli("sweep", "gone.toml", "--runs", "2", "--initial", "2", "--json")
    assert code == 4, err
    assert json.loads(out)["runs"] == {"submitted": 1, "completed": 0, "failed": 1}
    code, _, err = cli("init", "other.toml", "--adapter", url)
    assert code == 2
    assert "is it running?" in err
    assert not (tmp_path / "other.toml").exists()

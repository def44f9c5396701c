"""The sweeper of Hydra: overrides, failures and results, in the real package."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import copperline as cl
from tests.docs.pages import pages

hydra = pytest.importorskip("hydra")
from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from hydra.errors import HydraException  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from hydra_plugins.copperline_sweeper import (  # noqa: E402
    RESULTS,
    parameter_names,
    parameter_of,
)

pytestmark = pytest.mark.slow
Sweep = Callable[..., tuple[list[dict[str, Any]], Path]]


@pytest.mark.parametrize(
    ("text", "key", "levels"),
    [
        ("lr=0.1,0.01", "lr", [0.1, 0.01]),
        ("lr=0.1,1", "lr", [0.1, 1]),
        ("+a.b=range(1,4)", "+a.b", [1, 2, 3]),
        ("mode=a,b", "mode", ["a", "b"]),
        ("flag=true,false", "flag", ["True", "False"]),
        ("mixed=a,1", "mixed", ["a", "1"]),
        ("x=choice(3,1,2)", "x", [3, 1, 2]),
    ],
)
def test_the_values_of_an_override_are_the_levels(text: str, key: str, levels: list[Any]) -> None:
    swept = parameter_of(OverridesParser.create().parse_override(text))
    assert (swept.key, list(swept.texts)) == (key, levels)
    assert swept.override(levels[-1]) == f"{key}={levels[-1]}"


def test_an_interval_has_levels_with_both_ends() -> None:
    parse = OverridesParser.create().parse_override
    even = list(parameter_of(parse("x=interval(0,10)")).texts)
    assert (len(even), even[:2], even[-1]) == (21, [0.0, 0.5], 10.0)
    logarithmic = list(parameter_of(parse("x=tag(log, interval(0.01,100))")).texts)
    assert (logarithmic[0], logarithmic[10], logarithmic[-1]) == (0.01, 1.0, 100.0)
    with pytest.raises(HydraException, match="begin above 0"):
        parameter_of(parse("x=tag(log, interval(0,1))"))


def test_names_are_words_of_python_and_differ() -> None:
    keys = ["a.lr", "+b/lr", "lambda", "x@pkg"]
    assert parameter_names(keys) == ["a.lr", "b.lr", "lambda_", "x.pkg"]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Run a task under Hydra in this process; return its configurations and the folder.

    The report is the table of the runs, because drawing takes seconds.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cl.Study, "report", lambda study, path: study.to_pandas().to_csv(path))

    def run(task: Callable[[Any], object], *arguments: str) -> tuple[list[dict[str, Any]], Path]:
        configurations: list[dict[str, Any]] = []

        def recorded(config: Any) -> object:
            configurations.append(dict(OmegaConf.to_container(config)))  # type: ignore[arg-type]
            return task(config)

        quiet = ("hydra/job_logging=none", "hydra/hydra_logging=none")
        settings = ("--multirun", "hydra/sweeper=copperline", "hydra.sweep.dir=out", *quiet)
        monkeypatch.setattr(sys, "argv", ["task", *settings, *arguments])
        hydra.main(version_base=None, config_path=None)(recorded)()
        return configurations, tmp_path / "out"

    return run


def test_a_study_chooses_the_runs_and_its_best_is_written(sweep: Sweep) -> None:
    def task(config: Any) -> dict[str, float]:
        if config.x == 3:
            raise ValueError("no luck")
        return {"loss": abs(config.x - 2) + (config.mode == "b"), "memory": 1.0}

    configurations, folder = sweep(
        task, "hydra.sweeper.runs=8", "hydra.sweeper.n_jobs=2", "hydra.sweeper.minimise=loss",
        "+x=range(0,6)", "+mode=a,b", "+fixed=7",
    )  # fmt: skip
    assert len(configurations) == 8
    assert {c["fixed"] for c in configurations} == {7}
    results = {
        abs(c["x"] - 2) + (c["mode"] == "b"): {"x": c["x"], "mode": c["mode"]}
        for c in reversed(configurations)
        if c["x"] != 3
    }
    found = OmegaConf.load(folder / RESULTS)
    assert found.best_evaluated_result == min(results)
    assert found.best_evaluated_params == results[min(results)]
    frame = pd.read_csv(folder / "report.html")
    told = [(row["x"], row["mode"]) for row in frame.to_dict("records")]
    assert told == [(c["x"], c["mode"]) for c in configurations]
    failed = frame[frame["state"] == "failed"]
    assert set(failed["x"]) == {3}
    assert set(failed["why"]) == {"ValueError: no luck"}


def test_a_number_is_enough_and_a_wrong_result_is_a_failed_run(sweep: Sweep) -> None:
    _, folder = sweep(lambda config: -config.x, "hydra.sweeper.runs=4", "+x=1,2,3,4,5,6")
    assert OmegaConf.load(folder / RESULTS).best_evaluated_result == -6.0
    (folder / RESULTS).unlink()
    configurations, _ = sweep(lambda config: "much", "hydra.sweeper.runs=6", "+x=1,2,3,4,5,6")
    assert len(configurations) == 3  # each of the first three failed
    assert not (folder / RESULTS).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("+x=1",), "no override is swept"),
        (("+x=1,2", "hydra.sweeper.minimise=a", "hydra.sweeper.maximise=b"), "name one measure"),
        (("+x=1,2", "hydra.sweeper.runs=0"), "runs"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    sweep: Sweep, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit):
        sweep(lambda config: 1.0, *arguments)
    assert words in capsys.readouterr().err


@pytest.mark.soak  # a program of its own, with the report of 20 runs
def test_the_command_of_the_page_sweeps(repository: Path, tmp_path: Path) -> None:
    page = next(p for p in pages(repository) if p.name == "docs/howto/hydra.md")
    (tmp_path / "train.py").write_text(page.blocks("python")[0])
    (tmp_path / "config.yaml").write_text(page.blocks("yaml")[0])
    command = re.sub(r"^python", sys.executable, page.blocks("sh")[0])
    subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, check=True, timeout=300)
    (found,) = tmp_path.glob(f"multirun/*/*/{RESULTS}")
    assert OmegaConf.load(found).best_evaluated_params["layers"] == 8
    assert (found.parent / "report.html").exists()
    assert len(list(found.parent.glob("*/.hydra"))) == 20

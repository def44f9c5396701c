"""``copperline platform fit``, and a sweep over the platform that was fitted."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assistant.applications.extensions.ai_platform import STATISTICS_DIGEST, AiPlatform
from assistant.config.sweep_file import build_sweep, check_settings, read_settings
from assistant.core.errors import SettingsError
from assistant.service.experiment_service import apply_request_policy
from sim.aiops.platform_statistics import published_statistics, statistics_of
from sim.generators import load_model

Told = Callable[..., tuple[int, str, str]]

SWEEP = """runs = 2
[application]
kind = "ai_platform"
statistics = "platform.json"
days = 0.5
models = 3
"""


@pytest.fixture
def say(cli: Told) -> Told:
    return cli


def write_log(path: Path, factor: float = 1.0) -> None:
    """Write trainings that take `factor` times as long as the published ones, one every 600 s."""
    rng = np.random.default_rng(4)
    seconds = published_statistics().train["PyTorch"].sample(rng, 400)[:, 0] * factor
    rows = (f"train,{s:.6f},{600.0 * i + i % 3},PyTorch" for i, s in enumerate(seconds))
    path.write_text("task,seconds,submit_s,framework\n" + "\n".join(rows) + "\n")


def test_a_log_becomes_statistics_that_a_sweep_goes_by(say: Told, tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", 3.0)
    code, out, err = say("platform", "fit", "log.csv", "--to", "platform.json")
    assert (code, err.strip()) == (0, "")
    assert "400 executed tasks: 400 of train." in out
    assert 'statistics = "platform.json"' in out
    fitted = statistics_of(load_model(tmp_path / "platform.json"))
    assert fitted.train["PyTorch"].median() == pytest.approx(
        3 * published_statistics().train["PyTorch"].median(), rel=0.35
    )
    code, out, _ = say("platform", "fit", "log.csv", "--to", "again.json", "--json")
    told = json.loads(out)
    assert (code, told["digest"]) == (0, load_model(tmp_path / "platform.json").digest)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    application = build_sweep(
        check_settings(read_settings(tmp_path / "sweep.toml"), "sweep.toml")
    ).application
    assert isinstance(application, AiPlatform)
    assert application.base.statistics.model() == fitted.model()
    facts = {fact.label: fact.text for fact in application.facts}
    assert facts["Statistics"] == "fitted to 400 executed tasks of log.csv"
    assert facts[STATISTICS_DIGEST] == told["digest"][:16]
    gap_s = float(facts["Platform"].split("every ")[1].split(" s")[0])
    assert gap_s == pytest.approx(6 * 600, rel=0.15)
    code, out, err = say("sweep", "sweep.toml", "--json")
    assert code in (0, 3), err
    assert json.loads(out)["runs"]["completed"] == 2


def test_an_experiment_does_not_go_on_with_other_statistics(
    say: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assistant.executors.serial import SerialExecutor

    write_log(tmp_path / "log.csv")
    assert say("platform", "fit", "log.csv", "--to", "platform.json")[0] == 0
    (tmp_path / "sweep.toml").write_text(SWEEP)

    def interrupt(self: SerialExecutor) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SerialExecutor, "collect", interrupt)
        assert say("sweep", "sweep.toml")[0] == 130
    write_log(tmp_path / "log.csv", 2.0)
    assert say("platform", "fit", "log.csv", "--to", "platform.json")[0] == 0
    code, _, err = say("resume")
    assert code == 2
    assert "has changed, so its results could not be compared" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.csv", "--to", "x.json"), "there is no such file"),
        (("log.csv", "--to", "x.txt"), "ends in .json"),
        (("log.csv", "--to", "x.json", "--components", "0"), "allowed are whole numbers from 1"),
        (("log.csv", "--to", "x.json", "--seed", "-1"), "allowed are whole numbers from 0"),
        (("few.csv", "--to", "x.json"), "1 training jobs with seconds above 0; 20 are needed"),
    ],
)
def test_what_cannot_be_fitted_is_said(
    say: Told, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    write_log(tmp_path / "log.csv")
    (tmp_path / "few.csv").write_text("task,seconds\ntrain,1\n")
    code, _, err = say("platform", "fit", *arguments)
    assert (code, said in err) == (2, True), err
    assert not (tmp_path / "x.json").exists()


def test_a_model_of_something_else_is_no_platform(say: Told, tmp_path: Path) -> None:
    from sim.generators import published_model, save_model

    save_model(published_model("lublin"), tmp_path / "platform.json")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    code, _, err = say("sweep", "sweep.toml")
    assert code == 2
    assert "the model is of 'lublin'; allowed is 'ai-platform'" in err


def test_a_service_reads_statistics_only_where_it_may(tmp_path: Path) -> None:
    asked = {"application": {"kind": "ai_platform", "statistics": "platform.json"}}
    with pytest.raises(SettingsError, match="reads no files"):
        apply_request_policy(asked, programs=False, files=None)
    found = apply_request_policy(asked, programs=False, files=tmp_path)
    assert found["application"]["statistics"] == str(tmp_path / "platform.json")

"""``copperline learn``: a scheduler is trained, interrupted, simulated and swept."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assistant.cli.commands import learn as command
from assistant.config.snapshot import config_snapshot, open_sweep, report_content, trainings
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.core.errors import ApplicationError, SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.forms import write_form
from assistant.presentation.report.html import render_html
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import report as report_page
from assistant.ui.pages import run as run_page
from sim.api import SimError, Tasks, Workload, write_workload
from sim.placement import LearnedPlacement
from tests.ui.stage import staged

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """In a folder with six batches of a long job and two short ones, and one core."""
    monkeypatch.setenv("COLUMNS", "200")
    runtime_s = [50.0, 5.0, 5.0] * 6
    tasks = Tasks.from_arrays(job=range(18), runtime_s=runtime_s, mcpu=[1000] * 18)
    submit_s = [1000.0 * (i // 3) for i in range(18)]
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=[1] * 18, tasks=tasks
    )
    write_workload(workload, Path("jobs.tasks.csv"))
    Path("machines.csv").write_text("name,count,cores,mem_gib\na,1,1,1\n")
    return cli


LEARN = (
    "learn", "jobs.tasks.csv", "--machines", "machines.csv", "--to", "a.npz", "--features",
    "pairs", "--iterations", "6", "--jobs", "3", "--parts", "1", "--episodes", "6", "--rate",
    "0.3", "--workers", "1", "--seed", "5",
)  # fmt: skip


def test_a_scheduler_is_trained_and_simulated(cli: Cli) -> None:
    code, out, err = cli(*LEARN, "--picture", "curve.svg")
    assert code == 0, err
    assert "a.npz: a scheduler for completion, seed 5" in out
    assert "completion 25 s, 0.455 of first fit" in out
    assert "in hindsight: sjf, greedy, first_fit, 0.455 of first fit" in out
    assert "no schedule there goes below 0.455 of first fit" in out
    assert len(re.findall(r"^ +\d+ [01]\.\d{3} #+$", out, re.M)) == 3
    assert re.search(r"iteration 6 of 6, .* 0\.455 of first fit, about 0\.0 min left", err)
    assert "seed 5" in err
    drawn = Path("curve.svg").read_text()
    assert "best heuristic: sjf, greedy, first_fit" in drawn
    assert "no schedule below" in drawn
    assert not Path("a.checkpoint.npz").exists()
    place = ("simulate", "jobs.tasks.csv", "--machines", "machines.csv", "--json")
    responses = []
    for more in (("--placement", "a.npz"), ("--backfill", "greedy", "--engine", "interpreted")):
        code, out, err = cli(*place, *more)
        assert code == 0, err
        responses.append(json.loads(out)["response"]["mean"])
    assert responses == [25.0, 55.0]
    code, out, _ = cli(*place[:-1], "--placement", "a.npz")
    assert "fcfs, placement a.npz, engine process" in out


def test_after_an_interruption_the_same_command_goes_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = command._progress_line

    def interrupting(plan: Any, progress: Any) -> str:
        if progress.iteration == 2:
            raise KeyboardInterrupt
        return line(plan, progress)

    monkeypatch.setattr(command, "_progress_line", interrupting)
    code, _, err = cli(*LEARN)
    assert code == 130
    said = "interrupted after iteration 2 of 6; the same command goes on from a.checkpoint.npz"
    assert said in err
    assert not Path("a.npz").exists()
    monkeypatch.setattr(command, "_progress_line", line)
    code, out, err = cli(*LEARN, "--json")
    assert code == 0
    assert "going on from a.checkpoint.npz" in err
    told = json.loads(out)
    assert [point["iteration"] for point in told["curve"]] == [0, 5, 6]
    assert told["digest"] == LearnedPlacement.load("a.npz").digest


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*LEARN, "--to", "a.json"), "--to 'a.json' must end in .npz"),
        ((*LEARN, "--to", "none/a.npz"), "there is no folder 'none'"),
        ((*LEARN, "--objective", "speed"), "makespan"),
        ((*LEARN, "--jobs", "18"), "there must be two parts"),
        ((*LEARN, "--order", "fcfc"), "fcfs"),
        ((*LEARN, "--picture", "a.txt"), "must end in"),
        (("--placement", "none.npz"), "there is no file 'none.npz'"),
        (("--placement", "jobs.npz"), "jobs.npz: this is not a trained scheduler"),
        (("--placement", "jobs.npz", "--backfill", "greedy"), "--backfill has no effect"),
        (("--placement", "jobs.npz", "--engine", "interpreted"), "by the engines auto, process"),
    ],
)
def test_what_is_refused(cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    Path("jobs.npz").write_text("no")
    if arguments[0] != "learn":
        arguments = ("simulate", "jobs.tasks.csv", "--machines", "machines.csv", *arguments)
    code, _, err = cli(*arguments)
    assert code == 2
    assert sentence in err


SWEEP = """
[application]
kind = "placement"
trace = "jobs.tasks.csv"
learned = { trained = "a.npz" }
[application.levels]
placement = ["first_fit", "trained"]
order = []
backfill = ["greedy", "none"]
cpu_overcommit = []
[[application.machines]]
name = "m"
cores = 1
mem_gib = 1
count = 1
"""


def test_a_trained_scheduler_is_a_level_of_placement(cli: Cli) -> None:
    assert cli(*LEARN)[0] == 0
    settings = check_settings(parse_settings(SWEEP, "the file", Path.cwd(), "s"), "the file")
    application: Any = build_sweep(settings).application
    assert application.space.count_allowed() == 3, "backfill means nothing to the trained one"
    rule, trained = (
        application.evaluate({"placement": name, "backfill": "greedy"}, 0)["mean_response_s"]
        for name in ("first_fit", "trained")
    )
    assert (rule, trained) == (55.0, 25.0)
    (fact,) = (fact.text for fact in application.facts if fact.label == "Trained scheduler")
    assert fact.startswith("trained: for completion, on jobs")


def test_report_run_and_markdown_show_the_training(cli: Cli) -> None:
    assert cli(*LEARN)[0] == 0
    tables = parse_settings(SWEEP, "the file", Path.cwd(), "s")
    built = build_sweep(check_settings(tables, "the file"))
    session = open_sweep(built, MemoryStore(), "x", config_snapshot(tables, ()))
    session.submit_baseline()
    session.include({"placement": "trained", "backfill": "greedy"})
    session.run_queued(SerialExecutor(built.application))
    sentence = (
        "Trained scheduler trained, best after iteration 5: completion on held-back jobs is 0.4545 "
        "of that of first fit; the best heuristic in hindsight (sjf, greedy, first_fit) reaches "
        "0.4545, and no schedule goes below 0.4545."
    )
    content = report_content(session.experiment, session.events())
    assert sentence in render_html(content.data)
    path = write_form(content, Path("report.md"))
    assert sentence in path.read_text()
    assert "no schedule below" in Path("report-charts/training-of-trained.svg").read_text()
    for page in (staged(report_page.page, session), staged(run_page.page, session)):
        assert not page.exception
        captions = [caption.value for caption in page.caption]
        assert sum("Trained scheduler trained" in text for text in captions) == 1
    Path("a.npz").unlink()
    assert trainings(session.experiment) == ()


def test_sweeps_refuse_gangs_and_names_of_rules(cli: Cli) -> None:
    assert cli(*LEARN)[0] == 0
    for old, new, sentence in (
        ("trained = ", "first_fit = ", "called 'first_fit', as a placement rule is"),
        ('"a.npz"', '"b.npz"', "there is no file"),
        ('trace = "jobs.tasks.csv"', 'generator = "joulie"\nscale = 0.01', "the jobs have gangs"),
    ):
        text = SWEEP.replace(old, new)
        settings = check_settings(parse_settings(text, "the file", Path.cwd(), "s"), "the file")
        with pytest.raises((ApplicationError, SettingsError, SimError), match=sentence):
            build_sweep(settings)

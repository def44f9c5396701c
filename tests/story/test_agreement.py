"""An agreement of every term, told by script, by the command line and by the browser's runner."""

import json
import re
from pathlib import Path

import pytest

from agents import Follower
from assistant import Sla, Tariff, open_session
from assistant.applications.lookup import Lookup
from assistant.core.events import BudgetChanged
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore, SqliteStore
from tests.story.test_cli import Cli, cli

pytestmark = pytest.mark.slow

__all__ = ["cli"]  # a fixture

COST = ("--cost-limit", "2000", "--cost-measure", "duration_s", "--cost-unit", "s")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Fifteen measured configurations; more nodes cost more, the best is 20.5 at 8 nodes in b."""
    rows = "".join(
        f"{nodes},{mode},{100 / nodes + nodes + 'bac'.index(mode)},{60 * nodes}\n"
        for nodes in (1, 2, 4, 8, 16)
        for mode in ("a", "b", "c")
    )
    path = tmp_path / "measured.csv"
    path.write_text(f"nodes,mode,objective,duration_s\n{rows}")
    return path


def terms(out: str) -> dict[str, dict[str, object]]:
    return {use["term"]: use for use in json.loads(out)["sla"]}


def test_the_same_agreement_in_a_script_and_on_the_command_line(
    cli: Cli, table: Path, tmp_path: Path
) -> None:
    application = Lookup.read(table)
    tariff = Tariff("s", measure="duration_s")
    session = open_session(
        application, store=MemoryStore(), sla=Sla(12, None, 3000.0, tariff, 21.0, 600.0), seed=2
    )
    reason = Follower(initial=4).steer(session, SerialExecutor(application))
    by_script = session.experiment

    (tmp_path / "sweep.toml").write_text(
        """runs = 12
seed = 2
initial = 4
goal = 21
run_limit = "10m"
[cost]
limit = 3000
unit = "s"
measure = "duration_s"
[application]
table = "measured.csv"
"""
    )
    code, out, err = cli("sweep", "sweep.toml", "--json")
    assert code == 0, err
    found, told = json.loads(out), terms(out)
    assert found["finished"] == reason
    assert told["cost"]["used"] == by_script.cost
    assert told["runs"]["used"] == by_script.n_charged
    assert told["goal"]["run"] == (by_script.goal_run.id if by_script.goal_run else None)
    assert set(told) == {"runs", "cost", "run_limit", "goal"}


@pytest.mark.soak
def test_the_goal_ends_a_sweep_which_goes_on_only_with_another(cli: Cli, table: Path) -> None:
    code, out, err = cli("sweep", "--table", str(table), "--goal", "40", "--initial", "3")
    assert code == 0
    assert "60 runs, goal objective at most 40, which ends the sweep" in err
    assert "Finished: the goal of 40 is reached by run " in out
    assert "SLA: objective at most 40; reached by run " in out
    code, _, err = cli("resume", "--runs", "70")
    assert code == 2
    assert "already; set a better goal (--goal)" in err
    code, out, _ = cli("resume", "--goal", "20.5", "--json")
    assert code == 0
    assert terms(out)["goal"]["verdict"] == "met"
    assert terms(out)["goal"]["used"] == 20.5
    code, _, err = cli("resume", "--at-goal", "go_on", "--runs", "100")
    assert code == 0
    assert "goal objective at most 20.5" in err
    assert ", which ends the sweep" not in err
    code, out, _ = cli("report", "--json")
    assert json.loads(out)["finished"].startswith("the space is exhausted")


def test_a_spent_cost_ends_a_sweep_and_more_of_it_goes_on(cli: Cli, table: Path) -> None:
    code, out, err = cli("sweep", "--table", str(table), *COST)
    assert code == 0
    assert "a cost of 2,000 s (duration_s)" in err
    assert "Finished: the cost limit of 2,000 s is used up." in out
    assert "not started." in out
    code, _, err = cli("resume", "--cost-limit", "1500")
    assert code == 2
    assert "has no run left: the cost limit of 1,500 s is used up; set a higher limit" in err
    before = len(json.loads(cli("events", "--json")[1])["events"])
    code, out, _ = cli("resume", "--cost-limit", "3000", "--json")
    assert code == 0
    use = terms(out)["cost"]
    assert use["limit"] == 3000
    assert use["used"] >= 3000  # type: ignore[operator]
    assert use["over"] == pytest.approx(use["used"] - 3000)  # type: ignore[operator]
    assert len(json.loads(cli("events", "--json")[1])["events"]) > before
    code, out, _ = cli("resume", "--cost-limit", "100000", "--json")
    assert json.loads(out)["finished"].startswith("the space is exhausted")
    assert terms(out)["cost"]["used"] == 60 * 31 * 3  # every configuration, once


def test_steer_changes_and_takes_away_any_term(cli: Cli, table: Path, tmp_path: Path) -> None:
    assert cli("sweep", "--table", str(table), "--runs", "3", "--deadline", "1h")[0] == 0
    new = ("--runs", "9", "--goal", "1", "--run-limit", "10m")
    price = ("--cost-limit", "20", "--cost-per-hour", "0.5", "--cost-resources", "nodes")
    code, out, err = cli("steer", *new, *price, "--cost-unit", "EUR", "--deadline", "none")
    assert code == 0, err
    assert out.splitlines()[0] == (
        "SLA: 9 runs, a cost of 20 EUR (0.5 EUR an hour for each of nodes), 600 s per run, "
        "objective at most 1."
    )
    assert last_agreement(tmp_path) == Sla(9, None, 20.0, Tariff("EUR", 0.5, "nodes"), 1.0, 600.0)
    assert cli("steer", "--goal", "none", "--run-limit", "none", "--cost-resources", "none")[0] == 0
    assert last_agreement(tmp_path) == Sla(9, None, 20.0, Tariff("EUR", 0.5))
    assert cli("steer", "--cost-measure", "duration_s", "--cost-limit", "none")[0] == 0
    assert last_agreement(tmp_path) == Sla(9, tariff=Tariff("EUR", measure="duration_s"))
    assert cli("steer", "--runs", "none")[0] == 0
    code, _, err = cli("resume")
    assert code == 2
    assert "would not end by itself" in err
    code, out, _ = cli("resume", "--runs", "9", "--json")
    assert code == 0
    assert terms(out)["cost"]["verdict"] == "unlimited"
    assert json.loads(out)["runs"]["submitted"] == 9


def last_agreement(folder: Path) -> Sla:
    store = SqliteStore(folder / "copperline-out" / "experiments.db")
    events = store.load(store.experiments()[0].id)
    return [event for event in events if isinstance(event, BudgetChanged)][-1].sla


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--goal", "low"), "--goal 'low' is not a number"),
        (("--goal", "1e999"), "not a number"),
        (("--at-goal", "rest"), "'at_goal' should be 'stop' or 'go_on'"),
        (("--run-limit", "soon"), "'soon' is not a duration"),
        (("--run-limit", "0s"), "'run_limit' must be a time above 0 s"),
        (("--cost-limit", "20"), "name exactly one of per_hour and measure"),
        (("--cost-limit", "-1", "--cost-per-hour", "1"), "'cost.limit' must be a number above 0"),
        (("--cost-per-hour", "1", "--cost-measure", "objective"), "exactly one of"),
        (("--cost-per-hour", "1", "--cost-resources", "node"), "did you mean 'nodes'?"),
        (("--cost-per-hour", "1", "--cost-resources", "mode"), "whose levels are not numbers"),
        (("--cost-measure", "duration"), "did you mean 'duration_s'?"),
        (("--cost-measure", "objective", "--cost-resources", "nodes"), "need a price per hour"),
    ],
)
def test_what_cannot_be_agreed_is_said_in_one_sentence(
    cli: Cli, table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = cli("sweep", "--table", str(table), *arguments)
    assert code == 2, out + err
    assert said in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "copperline-out").exists()


def test_what_cannot_be_agreed_later_stores_nothing(cli: Cli, table: Path, tmp_path: Path) -> None:
    assert cli("sweep", "--table", str(table), "--runs", "3")[0] == 0
    events = cli("events", "--json")[1]
    for command, arguments, said in (
        ("steer", ("--goal", "3"), "has used its 3 runs"),
        ("resume", ("--deadline", "1h"), "has used its 3 runs"),
        ("steer", ("--runs", "9", "--cost-limit", "3"), "exactly one of per_hour and measure"),
        ("steer", ("--runs", "9", "--cost-measure", "energy"), "Known: duration_s, objective"),
        ("steer", ("--runs", "9", "--cost-per-hour", "1", "--cost-resources", "x"), "neither a"),
        ("resume", ("--runs", "9", "--run-limit", "never"), "is not a duration"),
        ("steer", ("--runs", "many"), "--runs 'many' is not a number"),
    ):
        code, _, err = cli(command, *arguments)
        assert code == 2, err
        assert said in err
        assert len(err.strip().splitlines()) == 1, err
    assert cli("events", "--json")[1] == events


def test_options_overrule_the_terms_of_a_file(cli: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        """runs = 4
goal = 1
run_limit = "10m"
[cost]
limit = 5
per_hour = 1
resources = "nodes"
[application]
table = "measured.csv"
"""
    )
    changed = ("--goal", "none", "--cost-measure", "duration_s", "--cost-limit", "none")
    assert cli("sweep", "sweep.toml", *changed)[0] == 0
    opened = json.loads(cli("events", "--kind", "ExperimentOpened", "--json")[1])["events"][0]
    sla = opened["sla"]
    assert (sla["goal"], sla["max_cost"], sla["run_limit_s"]) == (None, None, 600.0)
    assert sla["tariff"]["measure"] == "duration_s"


def test_the_report_has_the_agreement(cli: Cli, table: Path, tmp_path: Path) -> None:
    options = ("--runs", "3", "--goal", "1", "--report", "r.html", *COST[2:])
    assert cli("sweep", "--table", str(table), *options)[0] == 0
    page = (tmp_path / "r.html").read_text()
    section = page.split('<section id="sla">')[1].split("</section>")[0]
    for words in ("3 runs", "3 used", "met", "missed", "objective at most 1", "cost without a lim"):
        assert words in section


@pytest.mark.soak
def test_a_program_is_ended_at_the_tighter_limit(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sleep.sh").write_text("sleep $1; echo $1\n")
    (tmp_path / "sweep.toml").write_text(
        """runs = 2
run_limit = 2
[application]
command = ["sh", "sleep.sh", "{seconds}"]
limit = "1h"
[objective]
minimise = "value"
[[parameters]]
name = "seconds"
levels = [0, 60]
"""
    )
    code, out, _ = cli("sweep", "sweep.toml", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["runs"] == {"submitted": 2, "completed": 1, "failed": 1}
    (failed,) = json.loads(cli("events", "--kind", "RunFailed", "--json")[1])["events"]
    assert failed["failure"].startswith("stopped at the limit of ")
    assert failed["duration_s"] < 30


def test_the_limits_of_the_page_are_kept(cli: Cli, tmp_path: Path, repository: Path) -> None:
    tutorial = (repository / "docs/tutorial/own-program.md").read_text()
    page = (repository / "docs/howto/limits.md").read_text()
    (tmp_path / "bench.sh").write_text(_block(tutorial, "sh"))
    program = _block(tutorial, "toml").replace("runs = 20\n", "")
    (tmp_path / "bench.toml").write_text(_block(page, "toml") + program)
    code, out, err = cli("sweep", "bench.toml", "--json")
    assert code == 0, err
    told = terms(out)
    assert set(told) == {"runs", "deadline", "cost", "run_limit", "goal"}
    assert told["goal"]["limit"] == 350
    by_options = page.split("The same as options: `")[1].split("`")[0].split()
    (tmp_path / "bare.toml").write_text("runs = 20\n" + program)
    code, again, err = cli("sweep", "bare.toml", *by_options, "--cost-unit", "EUR", "--json")
    assert code == 0, err
    assert {name: use["agreed"] for name, use in terms(again).items() if name != "deadline"} == {
        name: use["agreed"] for name, use in told.items() if name != "deadline"
    }


def _block(page: str, language: str) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)[0])

"""The command line as its users meet it: real logs and files, sentences, exit codes."""

import gc
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import COMMANDS, SECTIONS
from assistant.service.store_lock import StoreLock

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return cli


TABLE = "size,mode,objective\n" + "".join(
    f"{size},{mode},{(size - 4) ** 2 + 'acb'.index(mode)}\n"
    for size in (1, 2, 4, 8)
    for mode in ("a", "b", "c")
)

LOG = """; MaxProcs: 8
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 50 8 -1 -1 8 60 -1 1 1 1 -1 1 -1 -1 -1
3 20 -1 30 2 -1 -1 2 40 -1 1 2 1 -1 1 -1 -1 -1
4 30 -1 400 1 -1 -1 1 500 -1 1 2 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf"
    path.write_text(LOG)
    return path


def test_the_help_shows_every_command_under_one_heading() -> None:
    shown = [name for names in SECTIONS.values() for name in names]
    assert sorted(shown) == sorted({path.split()[0] for path in COMMANDS})


def test_the_demo_shows_a_gain_and_a_warning_and_says_what_next(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("demo")
    assert code == 0
    assert "1,448 s (24 min 08 s) instead of mean_response_s = 2,640 s (44 min 00 s)" in out
    assert "Spend 70% of the remaining runs inside the regions" in err
    assert err.count("warning: ") <= 3  # accepted, none comes again with nothing new to propose
    assert out.endswith("See it: copperline app\nYour program: copperline init\n")
    report = tmp_path / "copperline-out" / "demo.html"
    assert str(report) in out
    page = report.read_text()
    assert "Copperline sweep report" in page
    assert page.count("<svg") >= 2
    assert "minimise mean_response_s" in err


def test_a_sweep_over_a_table_finds_its_best_and_exhausts_it(cli: Cli, table: Path) -> None:
    code, out, _ = cli("sweep", "--table", str(table), "--runs", "50", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["best"]["values"] == {"size": 4, "mode": "a"}
    assert found["best"]["value"] == 0
    assert found["runs"] == {"submitted": 12, "completed": 12, "failed": 0}
    assert "exhausted" in found["finished"]
    assert found["verdict"] == "no_baseline"


def test_a_sweep_over_a_log_compares_with_today(cli: Cli, log: Path) -> None:
    code, out, err = cli("sweep", "--log", str(log), "--too-wide", "clip", "--runs", "8",
                         "--order", "fcfs,sjf", "--json")  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["baseline"]["run"] == 1
    assert found["baseline"]["values"]["lane_max_requested_s"] == 0
    assert found["baseline"]["values"]["order"] == "fcfs"
    assert found["baseline"]["measures"]["n_jobs"] == 2  # the first half of four
    assert found["baseline"]["measures"]["later_mean_wait_s"] is not None
    assert Path(found["report"]).exists()


@pytest.mark.soak
def test_the_same_seed_gives_the_same_sweep_on_one_worker_and_two(cli: Cli, table: Path) -> None:
    def values(*more: str) -> list[object]:
        _, out, _ = cli("sweep", "--table", str(table), "--runs", "9", "--json", *more)
        return [json.loads(out)["best"]["values"], json.loads(out)["runs"]]

    assert values("--seed", "3") == values("--seed", "3", "--workers", "2")


def test_a_stored_experiment_is_listed_suggested_from_and_reported(
    cli: Cli, table: Path, tmp_path: Path
) -> None:
    cli("sweep", "--table", str(table), "--runs", "5", "--name", "mine")
    _, out, _ = cli("experiments", "--json")
    stored = json.loads(out)["experiments"]
    assert [e["name"] for e in stored] == ["mine"]
    code, out, _ = cli("report", "latest", "--out", "again.html", "--json")
    assert code == 0
    assert (tmp_path / "again.html").exists()
    before = json.loads(cli("events", "--json")[1])
    code, out, _ = cli("suggest", stored[0]["id"], "--json")
    assert code == 0
    assert json.loads(out)["recorded"] is False
    assert len(json.loads(out)["suggestions"]) == 5
    assert json.loads(cli("events", "--json")[1]) == before
    code, out, _ = cli("resume", "--runs", "8", "--json")
    assert code == 0
    assert json.loads(out)["runs"]["submitted"] == 8
    code, _, err = cli("resume", "--runs", "3")
    assert code == 2
    assert "has used 8 runs" in err


def test_a_bundle_is_imported_into_another_store_once(cli: Cli, table: Path) -> None:
    assert cli("sweep", "--table", table, "--runs", "4")[0] == 0
    assert cli("report", "--out", "all.zip")[0] == 0
    code, out, _ = cli("import", "all.zip", "--store", "other.db")
    assert code == 0
    assert "Imported" in out
    before, after = cli("events", "--json")[1], cli("events", "--json", "--store", "other.db")[1]
    assert json.loads(before) == json.loads(after)
    code, _, err = cli("import", "all.zip", "--store", "other.db")
    assert code == 2
    assert "already" in err
    code, _, err = cli("report", "--slurm-conf")
    assert code == 2
    assert "slurm.conf does not configure" in err
    code, _, err = cli("report", "--kubernetes")
    assert code == 2
    assert "Kubernetes does not configure" in err
    code, out, _ = cli("report", "--summary")
    assert code == 0
    assert "\n**" in out
    assert json.loads(cli("report", "--summary", "--json")[1])["summary"] == out
    assert cli("report", "--summary", "--out", "a.md")[0] == 0
    assert Path("a.md").read_text() == out
    for wrong in (("--slurm-conf",), ("--kubernetes",), ("latest",)):
        code, _, err = cli("report", "latest", "--summary", *wrong)
        assert code == 2
        assert "--summary" in err


@pytest.mark.parametrize(
    "command",
    ["experiments", "effects", "report", "runs", "suggest", "what-if --runs 9", "rename latest b"],
)
def test_a_command_leaves_no_lock_behind(
    cli: Cli, table: Path, tmp_path: Path, command: str
) -> None:
    assert cli("sweep", "--table", table, "--runs", "4")[0] == 0
    gc.disable()  # a lock that only garbage holds is held
    try:
        code, _, err = cli(*command.split())
        assert code == 0, err
        lock = StoreLock.take(tmp_path / "copperline-out" / "experiments.db")
        assert lock is not None
        lock.release()
    finally:
        gc.enable()


def test_suggestions_from_a_sweep_file_come_with_reasons(
    cli: Cli, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "sweep.toml").write_text('[application]\nkind = "lookup"\ntable = "table.csv"\n')
    code, out, _ = cli("suggest", "sweep.toml", "-n", "3", "--json")
    assert code == 0
    batch = json.loads(out)
    assert len(batch["suggestions"]) == 3
    assert all(s["reason"] for s in batch["suggestions"])


def test_a_sweep_file_and_options_that_overrule_it(cli: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        """
name = "from a file"
runs = 4
exclude = ["mode == 'a'"]

[application]
table = "table.csv"

[strategy]
name = "random"

[objective]
maximise = "objective"

[[run]]
size = 8
mode = "b"
"""
    )
    code, out, err = cli("sweep", "sweep.toml", "--runs", "30", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["name"] == "from a file"
    assert found["runs"]["submitted"] == 8
    assert found["best"]["values"] == {"size": 8, "mode": "b"}
    assert found["best"]["run"] == 1


def test_own_configurations_come_first(cli: Cli, table: Path) -> None:
    _, out, _ = cli(
        "sweep", "--table", str(table), "--include", "size=4,mode=a", "--runs", "3", "--json"
    )
    assert json.loads(out)["best"]["run"] == 1


def test_simulate_prints_what_can_be_checked_by_hand(cli: Cli, log: Path, tmp_path: Path) -> None:
    """Job 1 holds 4 of 8 for 100 s; job 2 needs all 8; EASY lets 3 run to t=50, before t=100.

    Job 4 would outlast job 2's reservation and no processor is extra, so it waits for job 2:
    starts are 0, 100, 20, 150.
    """
    code, out, _ = cli("simulate", str(log), "--per-job", "jobs.csv", "--json")
    assert code == 0
    assert json.loads(out)["wait"]["mean"] == (0 + 90 + 0 + 120) / 4
    lines = (tmp_path / "jobs.csv").read_text().splitlines()
    assert [float(line.split(",")[2]) for line in lines[1:]] == [0.0, 100.0, 20.0, 150.0]


def test_simulate_measures_energy(cli: Cli, log: Path) -> None:
    """550 s of 8 nodes of 10 W; 4 x 100 + 8 x 50 + 2 x 30 + 400 s of work, 5 W more each."""
    power = ("--power", "busy_w=15", "--power", "idle_w=10")
    code, out, err = cli("simulate", str(log), *power, "--json")
    assert code == 0, err
    joules = 550 * 8 * 10 + 5 * (4 * 100 + 8 * 50 + 2 * 30 + 400)
    assert json.loads(out)["energy"]["energy_kwh"] * 3.6e6 == pytest.approx(joules)
    assert "kWh" in cli("simulate", str(log), *power)[1]
    code, _, err = cli("simulate", str(log), "--power", "busy_w=15", "--power", "idle_w=20")
    assert (code, "off <= idle <= busy" in err) == (2, True)
    code, _, err = cli("simulate", str(log), *power, "--power", "cap_from=8")
    assert (code, "cap_from without a limit has no effect; add cap_w" in err) == (2, True)


def test_simulate_moldable_jobs(cli: Cli, log: Path, tmp_path: Path) -> None:
    """6 of 8 processors until 100: job 2 starts on 2 of 4 and ends at 101, earlier than at 160."""
    rows = ((1, 0, 100, 6, 100), (2, 1, 50, 4, 60))
    log.write_text(
        "".join(
            f"{n} {s} -1 {r} {p} -1 -1 {p} {e} -1 1 1 1 -1 1 -1 -1 -1\n" for n, s, r, p, e in rows
        )
    )
    command = ("simulate", str(log), "--procs", "8")
    told = ("--moldable", "halvings=2", "--moldable", "variance=0")
    code, _, err = cli(*command, *told, "--per-job", "jobs.csv")
    assert (code, "1 of 2 jobs ran on fewer processors than they requested" in err) == (0, True)
    lines = [line.split(",") for line in (tmp_path / "jobs.csv").read_text().splitlines()]
    assert [lines[0][i] for i in (2, 3, 5)] == ["start_s", "end_s", "procs"]
    assert [lines[2][i] for i in (2, 3, 5)] == ["1.0", "101.0", "2"]
    refused = {
        ("--moldable", "halves=2"): "halves",
        ("--moldable", "halvings=21"): "halvings",
        ("--moldable", "variance=0"): "moldable jobs without halvings are rigid; set halvings",
        (*told, "--backfill", "conservative"): "choose 'none', 'greedy' or 'easy', or rigid jobs",
    }
    for options, sentence in refused.items():
        code, _, err = cli(*command, *options)
        assert (code, sentence in err) == (2, True), err


def test_simulate_with_fair_shares(cli: Cli, tmp_path: Path, log: Path) -> None:
    """Jobs of 8 of 8 processors for 10 s each, of users 1, 2, 1, 1, 2, worked by hand.

    At 10 user 2 has used nothing and starts. At 20 the half-life makes it 1/3 and 2/3; for equal
    shares user 1 goes first. If user 2 is due 9 of 10, it goes first.
    """
    rows = ((1, 0, 1), (2, 1, 2), (3, 2, 1), (4, 3, 1), (5, 4, 2))
    log.write_text(
        "".join(f"{n} {s} -1 10 8 -1 -1 8 10 -1 1 {u} 1 -1 1 -1 -1 -1\n" for n, s, u in rows)
    )
    weights = {"age_weight": 0, "size_weight": 0, "fairshare_weight": 1000, "half_life_s": 10}
    told = [word for name, value in weights.items() for word in ("--option", f"{name}={value}")]
    command = ("simulate", str(log), "--procs", "8", "--order", "multifactor", *told)
    for shares, starts in (((), [0, 10, 20, 40, 30]), (("--share", "2=9"), [0, 10, 30, 40, 20])):
        code, _, err = cli(*command, *shares, "--per-job", "jobs.csv")
        assert code == 0, err
        lines = (tmp_path / "jobs.csv").read_text().splitlines()
        assert [float(line.split(",")[2]) for line in lines[1:]] == starts


def test_simulate_with_an_account_tree(cli: Cli, tmp_path: Path, log: Path) -> None:
    """The same jobs, of accounts 1 and 2 below two others: shares and ranks as of users above."""
    rows = ((1, 0, 1), (2, 1, 2), (3, 2, 1), (4, 3, 1), (5, 4, 2))
    log.write_text(
        "".join(f"{n} {s} -1 10 8 -1 -1 8 10 -1 1 7 {a} -1 1 -1 -1 -1\n" for n, s, a in rows)
    )
    weights = {"age_weight": 0, "size_weight": 0, "fairshare_weight": 1000, "half_life_s": 10}
    told = [word for name, value in weights.items() for word in ("--option", f"{name}={value}")]
    command = ("simulate", str(log), "--procs", "8", "--accounts", "tree.txt")
    for second, starts in ((1, [0, 10, 20, 40, 30]), (9, [0, 10, 30, 40, 20])):
        (tmp_path / "tree.txt").write_text(
            f"Account|User|Share|ParentName\nA||1|root\nB||{second}|root\n1||5|A\n2||5|B\n"
        )
        for tree in ("0", "1"):
            more = ("--option", f"fair_tree={tree}", "--per-job", "jobs.csv")
            code, _, err = cli(*command, "--order", "multifactor", *told, *more)
            assert code == 0, err
            lines = (tmp_path / "jobs.csv").read_text().splitlines()
            assert [float(line.split(",")[2]) for line in lines[1:]] == starts
    assert "has an effect only on fair shares" in cli(*command)[2]
    (tmp_path / "tree.txt").write_text("Account|User|Share|ParentName\n1||1|root\n")
    code, _, err = cli(*command, "--order", "multifactor", *told)
    assert (code, "not in the account tree: '2' (2 jobs)" in err) == (2, True)


def test_simulate_names_the_engine_and_its_note(cli: Cli, log: Path) -> None:
    code, out, _ = cli("simulate", str(log), "--engine", "interpreted")
    assert code == 0
    assert out.splitlines()[0] == (
        "tiny  4 jobs, 8 processors, fcfs, backfill easy, engine interpreted"
    )
    told = json.loads(cli("simulate", str(log), "--engine", "interpreted", "--json")[1])
    assert (told["engine"], told["note"]) == ("interpreted", None)


def test_metrics_are_printed_even_if_the_table_cannot_be_written(cli: Cli, log: Path) -> None:
    code, out, err = cli("simulate", str(log), "--per-job", "/dev/full")
    assert code == 2
    assert "makespan" in out
    assert "cannot write '/dev/full': No space left on device" in err


def test_describe_says_what_the_log_holds(cli: Cli, log: Path) -> None:
    _, out, _ = cli("workload", "describe", str(log), "--json")
    described = json.loads(out)
    assert described["n_jobs"] == 4
    assert described["max_procs"] == 8
    code, out, _ = cli("workload", "describe", str(log))
    assert code == 0
    assert "4 jobs" in out


BAD_LOGS = {
    "empty": ("", "no job"),
    "17 fields": ("1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1\n", "line 1"),
    "NaN": (LOG.replace(" 100 ", " nan "), "line 2"),
    "negative processors": (LOG.replace("100 4 -1 -1 4 200", "100 -4 -1 -1 -4 200"), "line 2"),
    "same number twice": (LOG.replace("4 30 -1", "3 30 -1"), "--reading duplicate_ids=renumber"),
    "too wide": (LOG.replace("50 8 -1 -1 8", "50 9 -1 -1 9"), "9"),
    "not text": ("\x00\x01\x02", "bad.swf"),
}


@pytest.mark.parametrize("text,words", BAD_LOGS.values(), ids=BAD_LOGS)  # noqa: PT006
@pytest.mark.parametrize("command", [("simulate",), ("sweep", "--runs", "3", "--log")])
def test_a_bad_log_gets_one_sentence_and_stores_nothing(
    cli: Cli, tmp_path: Path, command: tuple[str, ...], text: str, words: str
) -> None:
    (tmp_path / "bad.swf").write_text(text)
    code, out, err = cli(*command, "bad.swf")
    assert code == 2, out + err
    assert words in err
    assert err.startswith("copperline: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert not (tmp_path / "copperline-out").exists()


BAD_CALLS = {
    "unknown command": (("swep",), "swep"),
    "unknown option": (("sweep", "--runz", "3"), "--runz"),
    "no such log": (("sweep", "--log", "missing.swf"), "missing.swf"),
    "unknown order": (("sweep", "--order", "fcfc"), "did you mean 'fcfs'"),
    "unknown order among levels": (("sweep", "--order", "fcfs,sjg"), "did you mean 'sjf'"),
    "unknown strategy": (("sweep", "--strategy", "grsp"), "did you mean 'grasp'"),
    "beta out of bounds": (("sweep", "--strategy", "copper", "--option", "beta=1.5"), "beta"),
    "no runs": (("sweep", "--runs", "0"), "runs"),
    "unknown parameter": (("sweep", "--include", "smal_procs=3"), "small_procs"),
    "value outside the space": (("sweep", "--include", "small_procs=99999"), "99999"),
    "not name=value": (("sweep", "--include", "small_procs"), "--include"),
    "unknown parameter of levels": (("sweep", "--levels", "smal_procs=1,2"), "small_procs"),
    "empty levels": (("sweep", "--levels", "small_procs="), "--levels"),
    "only a comma": (("sweep", "--levels", "small_procs=,"), "small_procs"),
    "today not among the levels": (
        ("sweep", "--levels", "small_procs=16,32"),
        "small_procs, 0, is not among its levels",
    ),
    "dangerous exclusion": (("sweep", "--exclude", "__import__('os')"), "exclusion"),
    "unknown name in exclusion": (("sweep", "--exclude", "procz > 3"), "procz"),
    "log and table": (("sweep", "--log", "a", "--table", "b"), "not both"),
    "no such table": (("sweep", "--table", "missing.csv"), "missing.csv"),
    "no store yet": (("report",), "no store"),
    "processors in words": (("sweep", "--procs", "many"), "--procs"),
    "a cluster too small": (("sweep", "--procs", "4"), "widest job"),
    "unknown reading rule": (
        ("sweep", "--log", "tiny.swf", "--reading", "unsort=sort"),
        "unsorted",
    ),
    "no processors": (("sweep", "--procs", ""), "--procs"),
    "no order": (("sweep", "--order", ","), "--order"),
    "too many processors": (("sweep", "--procs", "99999999999999999999999"), "procs"),
    "half a processor": (("sweep", "--levels", "small_procs=0,16.5"), "16.5"),
    "negative processors": (("sweep", "--levels", "small_procs=0,-5"), "-5"),
    "no time": (("sweep", "--levels", "small_max_requested_s=0,60"), "small_max_requested_s"),
    "included twice": (
        (
            "sweep",
            "--include",
            "small_procs=99",
            "--include",
            "small_procs=99",
            "--levels",
            "small_procs=0,99",
        ),
        "twice",
    ),
    "more included than budgeted": (
        ("sweep", "--runs", "1", "--include", "small_procs=99", "--levels", "small_procs=0,99"),
        "need 2 runs",
    ),
    "the report is a folder": (("sweep", "--report", "."), "must end in one of: .html"),
    "today excluded": (("sweep", "--exclude", "small_procs == 0"), "small_procs == 0"),
    "partition of no form": (("simulate", "tiny.swf", "--partition", "small"), "--partition"),
    "a queue by name": (("simulate", "tiny.swf", "--qos", "long=5"), "--qos 'long=5'"),
    "shares of nothing": (("simulate", "tiny.swf", "--share", "3=0"), "shares of user 3 is 0"),
    "a queue without priority": (
        ("simulate", "tiny.swf", "--order", "multifactor", "--option", "qos_weight=9"),
        "no queue has a priority",
    ),
    "unknown engine": (("simulate", "tiny.swf", "--engine", "proces"), "did you mean 'process'"),
    "a table into no folder": (
        ("simulate", "missing.swf", "--per-job", "nowhere/jobs.csv"),
        "cannot write 'nowhere/jobs.csv': there is no folder 'nowhere'",
    ),
    "a table that is a folder": (("simulate", "missing.swf", "--per-job", "."), "it is a folder"),
    "a table with a long name": (
        ("simulate", "missing.swf", "--per-job", "n" * 300),
        "File name too long",
    ),
    "no request is admitted": (("simulate", "tiny.swf", "--partition", "a:8:10s"), "10"),
}


@pytest.mark.parametrize("arguments,words", BAD_CALLS.values(), ids=BAD_CALLS)  # noqa: PT006
def test_a_bad_call_gets_one_sentence_exit_2_and_stores_nothing(
    cli: Cli, tmp_path: Path, log: Path, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = cli(*arguments)
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "copperline-out").exists()


BAD_FILES = {
    "not TOML": ("runs = = 3", "not TOML"),
    "unknown setting": ("rnus = 3", "did you mean 'runs'"),
    "wrong type": ('runs = "many"', "'runs'"),
    "unknown in application": ('[application]\nlgo = "x.swf"', "did you mean 'log'"),
    "unknown kind": ('[application]\nkind = "magic"', "scheduling"),
    "empty levels": ("[application.levels]\nsmall_procs = []", "small_procs"),
    "NaN level": ("[application.levels]\nsmall_procs = [0, nan]", "small_procs"),
    "unknown measure": ('[objective]\nminimise = "mean_wait"', "did you mean 'mean_wait_s'"),
    "unknown measure of a constraint": (
        '[objective]\nconstraints = [{measure = "zzz", at_most = 1.0}]',
        "zzz",
    ),
    "an infinite weight": ("[objective]\nweighted = {mean_wait_s = inf}", "from -1e+150"),
    "without what is not there": ('[objective]\nwithout = ["mean_wait_s"]', "without"),
    "nested to hurt": ("a = " + "[" * 5000, "not TOML"),
    "a number to hurt": ("runs = " + "9" * 5000, "not TOML"),
    "a list for a table": ("application = [1]", "application"),
    "a number for the strategy": ("strategy = 5", "strategy"),
    "a number for a list": ("exclude = 5", "exclude"),
    "an option called self": ("[strategy]\nself = 1", "self"),
    "two goals": ('[objective]\nminimise = "a"\nmaximise = "b"', "only one of"),
    "unknown strategy option": ("[strategy]\ncautoin = 0.5", "caution"),
    "value outside": ("[[run]]\nsmall_procs = 99999", "99999"),
    "unknown parameter": ("[[run]]\nsmall = 1", "small"),
}


@pytest.mark.parametrize("text,words", BAD_FILES.values(), ids=BAD_FILES)  # noqa: PT006
def test_a_bad_sweep_file_gets_one_sentence(
    cli: Cli, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    code, out, err = cli("sweep", "bad.toml")
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "copperline-out").exists()


def test_text_that_looks_like_markup_is_text(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t[b].csv").write_text("x,objective\n[/red],1\n[bold]y,2\n")
    code, _, err = cli("sweep", "--table", "t[b].csv", "--name", "[/red]name", "--runs", "2")
    assert code == 0
    assert "[/red]name" in err
    assert "t[b].csv" in err
    assert cli("experiments")[0] == 0
    assert "[bold]y" in cli("events", "--kind", "ExperimentOpened", "--json")[1]


def test_a_long_name_is_no_trouble(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,objective\n1,1\n2,2\n")
    assert cli("sweep", "--table", "t.csv", "--name", "n" * 3000, "--runs", "2")[0] == 0


def test_a_result_too_large_to_judge_is_a_failed_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,objective\n1,1\n2,1e200\n")
    code, out, _ = cli("sweep", "--table", "t.csv", "--runs", "2", "--json")
    assert code == 0
    assert json.loads(out)["runs"]["failed"] == 1


def test_own_constraints_come_beside_those_of_the_application(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'runs = 2\n[objective]\nconstraints = [{measure = "max_wait_s", at_most = 1e9}]\n'
    )
    assert cli("sweep", "s.toml", "--json")[0] in (0, 3)
    opened = json.loads(cli("events", "--kind", "ExperimentOpened", "--json")[1])["events"][0]
    named = [c["measure"] for c in opened["objective"]["constraints"]]
    assert named == ["small_jobs_max_wait_s", "n_rejected", "max_wait_s"]


def test_suggestions_say_measured_values_not_penalties(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "x,y,objective\n" + "".join(f"{x},{y},{1000 + x + y}\n" for x in range(4) for y in range(4))
    )
    (tmp_path / "s.toml").write_text(
        'runs = 9\n[application]\ntable = "t.csv"\n'
        '[objective]\nconstraints = [{measure = "objective", at_most = 1.0}]\n'
    )
    assert cli("sweep", "s.toml")[0] == 3
    batch = json.loads(cli("suggest", "--json")[1])
    assert all(1000 <= s["expected"] <= 1010 for s in batch["suggestions"])


def test_a_missing_sweep_file_is_named(cli: Cli) -> None:
    code, _, err = cli("sweep", "nowhere.toml")
    assert code == 2
    assert "nowhere.toml" in err


def test_nothing_feasible_has_its_own_exit_code(cli: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[application]\ntable = "table.csv"\n'
        '[objective]\nconstraints = [{measure = "objective", at_most = -1.0}]\n'
    )
    code, out, _ = cli("sweep", "s.toml", "--runs", "4")
    assert code == 3
    assert "No tried configuration meets every constraint" in out

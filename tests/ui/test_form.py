"""The form of *New* as a value: its tables, the sweep file it writes, and the way back."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assistant.applications.scheduling_futures import FutureScheduling
from assistant.cli.main import run
from assistant.config.snapshot import config_snapshot
from assistant.config.sweep_file import (
    BuiltSweep,
    build_sweep,
    check_settings,
    read_settings,
    toml_text,
)
from assistant.store.event_store import SqliteStore
from assistant.ui.intents import FormFieldError
from assistant.ui.pages.new_form import (
    ClusterFields,
    ConstraintField,
    Form,
    FuturesFields,
    ObjectiveFields,
    ParameterRow,
    ProgramFields,
)
from assistant.ui.pages.new_preview import build_form, open_from, preview
from assistant.ui.pages.new_sweep_file import form_of, form_of_experiment, write_tables
from assistant.ui.sla_fields import SlaFields

SCRIPT = "sh program.sh {size} {mode} {seed}"
ROWS = (
    ParameterRow(
        0, "size", levels=("1", "2", "4"), unit="MB", baseline="2", description="how much at once"
    ),
    ParameterRow(1, "mode", levels=("a b", "c"), kind="names", baseline="c"),
)
OWN = Form(
    "command",
    program=ProgramFields(SCRIPT),
    rows=ROWS,
    wish=ObjectiveFields(
        "minimise", "time_ms", "ms", bounds=(ConstraintField(0, "memory_mb", "600"),)
    ),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.sh").write_text('echo "{\\"time_ms\\": $1, \\"memory_mb\\": 1}"\n')
    (tmp_path / "m.csv").write_text("x,y,objective\n1,1,3\n1,2,4\n2,1,1\n2,2,2\n")


# -- TOML ------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
@example({"a": [{"b": 1, "c": {"d": [1, 2]}}, {"b": 2}], "e": {"f": [{"g": []}]}})
@example({"\x7f\x00\"'\\\n": "\x7f\u2028\x1f"})
@example({"long": ["x" * 60, "y" * 60], "empty": {}, "none": []})
def test_tables_written_as_toml_are_read_back_the_same(tables: dict[str, Any]) -> None:
    found = tomllib.loads(toml_text(tables))
    assert found == tables
    assert json.dumps(found) == json.dumps(tables) or sorted(found) == sorted(tables)


def test_what_toml_has_no_word_for_is_not_written() -> None:
    with pytest.raises(TypeError):
        toml_text({"a": None})


# -- whatever the form accepts ---------------------------------------------------------------------

NAMES = st.sampled_from(["size", "mode", "n_2"])
NUMBERS = st.lists(
    st.one_of(st.integers(-50, 50), st.sampled_from([0.1, 2.5, 1e-7, 1e22, 3.0])).map(repr),
    min_size=1, max_size=5, unique_by=float,
)  # fmt: skip
WORDS = st.lists(
    st.sampled_from(["a", "b c", "1", "'", '"', "{{", "ü", "true", "-x", "[d]"]),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip


@st.composite
def rows(draw: st.DrawFn, uid: int, name: str) -> ParameterRow:
    how = draw(st.sampled_from(["list", "list", "steps", "ratio"]))
    unit, description = draw(TEXTS), draw(TEXTS)
    row = ParameterRow(uid, name, unit=unit, description=description)
    if how == "steps":
        low, n, step = draw(st.integers(-5, 5)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
        is_wide = n > 0 and draw(st.booleans())
        row = replace(
            row, how="steps", low=str(low), high=str(low + n * step),
            step="" if is_wide else str(step), baseline=str(low),
        )  # fmt: skip
    elif how == "ratio":
        is_wide = draw(st.booleans())
        row = replace(
            row,
            how="ratio",
            low="1",
            high="64",
            step="" if is_wide else "7",
            is_integer=not is_wide and draw(st.booleans()),
            baseline="1",
        )
    else:
        kind = draw(
            st.sampled_from(
                ["numbers", "numbers without order", "names", "names in order", "yes or no",
                 "yes or no in order"]
            )
        )  # fmt: skip
        levels = draw(NUMBERS if kind.startswith("numbers") else WORDS)
        if kind.startswith("yes"):
            levels = ["yes", "no"]
        row = replace(row, kind=kind, levels=tuple(levels), baseline=levels[-1])
    return row


@st.composite
def forms(draw: st.DrawFn) -> Form:
    source = draw(st.sampled_from(["example", "table", "command", "command"]))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    chosen = tuple(draw(rows(uid, name)) for uid, name in enumerate(names))
    own = source == "command"
    if draw(st.booleans()):
        chosen = tuple(replace(row, baseline="") for row in chosen)
    program = ProgramFields(
        words="sh program.sh " + " ".join(f"{{{name}}}" for name in names),
        limit=draw(st.sampled_from(["", "1m", "90"])),
        noisy=draw(st.sampled_from([None, True, False])),
        environment=draw(st.sampled_from(["", "A=1\nB={seed}", "X= y=z "])),
        stdin=draw(st.sampled_from(["", "n {seed}\n"])),
        measures=draw(st.sampled_from(["usual", "last_line", "json", "file"])),
        where="{scratch}/r.json",
    )
    bounds = tuple(
        ConstraintField(
            i, "duration_s" if source == "table" else "n_killed" if not own else "m", *ends
        )
        for i, ends in enumerate(draw(st.lists(st.sampled_from(_ENDS), max_size=1)))
    )
    wish = ObjectiveFields(
        direction=draw(st.sampled_from(["minimise", "maximise"] if own else ["own"])),
        measure="wall_s" if own else "",
        unit=draw(st.sampled_from(["", "ms"])),
        bounds=bounds,
        without=draw(st.sampled_from([(), ("n_rejected",)])) if source == "example" else (),
    )
    return Form(
        source=source,
        path="m.csv" if source == "table" else "",
        name=draw(st.sampled_from(["", "my sweep", "ü\"'"])),
        runs=draw(st.sampled_from([None, 1, 40])),
        deadline=draw(st.sampled_from(["", "30m", "3600"])),
        terms=draw(
            st.sampled_from([SlaFields(), SlaFields("3", True, "10m"), SlaFields(per_hour="0.5")])
        ),
        strategy=draw(st.sampled_from(["grasp", "random", "copper"])),
        seed=draw(st.integers(0, 9)),
        workers=1,
        program=program,
        rows=chosen if own else (ParameterRow(),),
        cluster=ClusterFields(
            preset=draw(st.sampled_from(["paper", "paper", "policies"])),
            levels=draw(
                st.sampled_from(
                    [
                        None,
                        {},
                        {"small_procs": ("0", "16", "32")},
                        {"order": ("fcfs", "sjf")},
                        {"backfill": ("easy", "depth"), "depth": ("4", "9")},
                    ]
                )
            ),
            options=draw(st.sampled_from([{}, {"reserve_anew": "0"}, {"depth": " "}])),
            small_job_wait=draw(st.sampled_from(["", "2h"])),
            futures=draw(
                st.sampled_from(
                    [
                        FuturesFields(),
                        FuturesFields(),
                        FuturesFields("lublin", "2", "12h"),
                        FuturesFields("lublin", "1", "1d", "quantile", "0.5"),
                        FuturesFields("lubin"),
                    ]
                )
            ),
        ),
        exclude=draw(st.sampled_from(["", _CONDITIONS[source]])),
        wish=wish,
        exploitation=draw(st.sampled_from([None, 0.0, 0.35])),
        initial=draw(st.sampled_from([0, 10, 4])),
        batch=draw(st.sampled_from([None, 3])),
        extra_tables=draw(
            st.sampled_from([{}, {"warning_policy": {"quantile": 0.2}}, {"warnings": "accept"}])
        ),
    )


_CONDITIONS = {"table": "x == 1 and y == 2", "example": "small_procs > 64", "command": ""}
_ENDS = [("3", ""), ("", "1.5"), ("3", "1", "between")]


def alike(one: BuiltSweep, other: BuiltSweep) -> None:
    assert one.settings == other.settings
    assert one.space == other.space
    assert one.objective == other.objective
    assert one.warning_policy == other.warning_policy
    assert one.application.name == other.application.name
    assert one.application.baseline == other.application.baseline
    assert one.settings.sla(0.0) == other.settings.sla(0.0)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(forms())
def test_whatever_is_accepted_is_the_same_sweep_as_the_file_that_is_shown(
    tmp_path: Path, form: Form
) -> None:
    try:
        tables, built = build_form(form)
    except FormFieldError:
        return
    text = preview(form)
    assert text is not None
    folder = tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "other.toml").write_text(text, encoding="utf-8")
    read = read_settings(folder / "other.toml")
    alike(built, build_sweep(check_settings(read, "the file")))
    again = form_of(read)
    alike(built, build_form(again)[1])
    assert again.source == form.source or form.source == "file"
    assert config_snapshot(read, []) == config_snapshot(tables, [])


def test_most_drawn_forms_are_accepted() -> None:
    """The property above must not pass because nothing gets that far."""
    seen = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(forms())
    def count(form: Form) -> None:
        try:
            build_form(form)
        except FormFieldError:
            seen.append(False)
        else:
            seen.append(True)

    count()
    assert sum(seen) > len(seen) / 4


# -- known answers ---------------------------------------------------------------------------------


def test_the_tables_of_ones_own_program() -> None:
    found = write_tables(
        replace(OWN, name="mine", workers=2, deadline="2h", exclude="size > 3\n\n")
    )
    assert found.faults == ()
    assert found.tables == {
        "name": "mine",
        "runs": 40,
        "seed": 3,
        "workers": 2,
        "deadline": "2h",
        "exclude": ["size > 3"],
        "application": {
            "kind": "command",
            "cwd": str(Path.cwd()),
            "command": ["sh", "program.sh", "{size}", "{mode}", "{seed}"],
            "baseline": {"size": 2, "mode": "c"},
        },
        "objective": {
            "minimise": "time_ms",
            "unit": "ms",
            "constraints": [{"measure": "memory_mb", "at_most": 600.0}],
        },
        "strategy": {"name": "grasp"},
        "parameters": [
            {
                "name": "size", "levels": [1, 2, 4], "unit": "MB",
                "description": "how much at once",
            },
            {"name": "mode", "levels": ["a b", "c"]},
        ],
    }  # fmt: skip


def test_the_sweep_file_of_the_form_runs_on_the_command_line(tmp_path: Path) -> None:
    text = preview(replace(OWN, runs=3))
    assert text is not None
    folder = tmp_path / "else"
    folder.mkdir()
    (folder / "a.toml").write_text(text)
    assert run(["sweep", str(folder / "a.toml"), "--store", "kept.db", "--json"]) == 0
    store = SqliteStore(Path("kept.db"))
    assert store.experiments()[0].name == "program"


@pytest.mark.parametrize("kind", ["command", "function", "scheduling"])
def test_every_sweep_file_that_init_writes_can_be_shown_in_fields(kind: str) -> None:
    assert run(["init", f"{kind}.toml", "--kind", kind]) == 0
    read = read_settings(Path(f"{kind}.toml"))
    form = form_of(read)
    assert form.source == ("example" if kind == "scheduling" else kind)
    assert form.extra_tables == {}
    one = build_sweep(check_settings({"name": form.full_name, **read}, "x"))
    alike(one, build_form(form)[1])


def test_futures_are_fields_and_come_back_as_fields() -> None:
    form = Form(
        cluster=ClusterFields(futures=FuturesFields("lublin", "2", "12h", "quantile", "0.5"))
    )
    told = write_tables(form).tables["application"]["futures"]
    assert told == {
        "generator": "lublin", "count": 2, "duration": "12h", "aggregate": "quantile",
        "quantile": 0.5,
    }  # fmt: skip
    assert form_of(write_tables(form).tables).cluster.futures == form.cluster.futures
    built = build_form(form)[1].application
    assert isinstance(built, FutureScheduling)
    assert built.futures.quantile == 0.5


@pytest.mark.parametrize(
    ("futures", "place", "words"),
    [
        (FuturesFields("lublin", "few"), "new-futures-count", "not a whole number"),
        (FuturesFields("lublin", duration="soon"), "new-futures-duration", "Enter a time such as"),
        (FuturesFields("lublin", "2", "12h", "quantile", "2"), "new-futures-quantile", "to 1"),
        (FuturesFields("lubin"), "new-futures", "No generator 'lubin'"),
    ],
)
def test_a_field_of_futures_says_what_it_cannot(
    futures: FuturesFields, place: str, words: str
) -> None:
    with pytest.raises(FormFieldError, match=words) as refused:
        build_form(Form(cluster=ClusterFields(futures=futures)))
    assert refused.value.place == place


def test_futures_that_no_field_shows_are_kept() -> None:
    futures = {"generator": "lublin", "count": 2, "duration": "12h", "seed": 4}
    form = form_of({"application": {"kind": "scheduling", "futures": futures}})
    assert form.cluster.futures == FuturesFields()
    assert form.extra_tables == {"application": {"futures": futures}}
    assert write_tables(form).tables["application"]["futures"] == futures


def test_what_no_field_shows_is_kept_as_it_is() -> None:
    tables = {
        "application": {"kind": "lookup", "table": str(Path("m.csv").absolute())},
        "objective": {"weighted": {"objective": 2.0}},
        "hooks": {"on_finish": ["true"], "cwd": "/"},
        "warning_policy": {"quantile": 0.2},
        "plan": {"x": [1, 2]},
        "run": [{"x": 2, "y": 1}],
        "warnings": "wait",
    }
    form = form_of(tables)
    assert form.wish.direction == "kept"
    assert set(form.extra_tables) == {
        "objective",
        "hooks",
        "warning_policy",
        "plan",
        "run",
    }
    assert form.warnings == "wait"
    told = write_tables(replace(form, runs=9)).tables
    for key in ("objective", "hooks", "warning_policy", "plan", "run", "warnings"):
        assert told[key] == tables[key]
    assert told["runs"] == 9


def test_what_fields_cannot_say_stays_a_sweep_file() -> None:
    tables = {
        "application": {
            "kind": "command", "command": ["true", "{x}"], "env": {"A": "one\ntwo"}, "cwd": "/",
        },
        "objective": {"minimise": "wall_s"},
        "parameters": [{"name": "x", "levels": [1, 2]}],
    }  # fmt: skip
    form = form_of(tables)
    assert form.source == "file"
    alike(build_form(form)[1], build_sweep(check_settings({**tables, "name": "sweep"}, "x")))


def test_a_unit_that_is_empty_on_purpose_is_not_lost() -> None:
    tables = {
        "application": {"kind": "command", "command": ["true", "{x}"], "cwd": "/"},
        "objective": {"minimise": "wall_s", "unit": ""},
        "parameters": [{"name": "x", "levels": [1, 2]}],
    }
    assert build_form(form_of(tables))[1].objective.unit == ""


def test_every_path_of_a_sweep_file_is_absolute_in_what_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "m.csv").write_text("x,objective\n1,2\n2,3\n")
    Path("r.csv").write_text("x,objective\n1,2\n")
    text = "results = ['r.csv']\n[application]\ntable = 'm.csv'\n[hooks]\non_finish = ['true']\n"
    (folder / "a.toml").write_text(text)
    shown = tomllib.loads(preview(Form("file", "there/a.toml")) or "")
    assert shown["application"]["table"] == str(folder / "m.csv")
    assert shown["results"] == [str(tmp_path / "r.csv")]
    assert shown["hooks"]["cwd"] == str(folder)
    here = tomllib.loads(preview(Form("file", text=text)) or "")
    assert here["application"]["table"] == str(tmp_path / "m.csv")
    assert here["hooks"]["cwd"] == str(tmp_path)
    assert preview(Form("file", text=toml_text(here))) == toml_text(here)


@pytest.mark.parametrize("strategy", [{"name": "graps"}, {"name": "grasp", "start": -1}])
def test_a_strategy_that_cannot_be_stays_in_its_file_to_be_refused(
    strategy: dict[str, Any], tmp_path: Path
) -> None:
    form = form_of({"strategy": strategy})
    assert form.source == "file"
    with pytest.raises(FormFieldError):
        open_from(form, tmp_path / "store.db")


@pytest.mark.parametrize("kind", ["flood", "maze"])
def test_a_testbed_stays_a_sweep_file(kind: str) -> None:
    form = form_of({"runs": 5, "application": {"kind": kind, "seed": 2}})
    assert form.source == "file"
    assert build_form(form)[1].application.seed == 2


def test_a_recipe_is_a_form_under_another_name(tmp_path: Path) -> None:
    opened = open_from(replace(OWN, name="mine"), tmp_path / "kept.db")
    form = form_of_experiment(opened.session.experiment.opened, "mine again")
    assert replace(form, name="mine", options={}) == replace(
        OWN, name="mine", program=replace(OWN.program, folder=str(Path.cwd())),
        wish=replace(OWN.wish, bounds=(ConstraintField(0, "memory_mb", "600.0"),)),
        cluster=form.cluster,
    )  # fmt: skip


def test_names_in_the_command_become_parameters() -> None:
    form = Form(
        "command", program=ProgramFields("./p {size} {{not}} {seed} {scratch}", stdin="{mode}")
    )
    assert form.unsaid == ("size", "mode")
    filled = form.with_unsaid()
    assert [row.name for row in filled.rows] == ["size", "mode"]
    assert filled.unsaid == ()
    assert [row.uid for row in filled.with_row().rows] == [1, 2, 3]
    assert [row.name for row in filled.without_row(1).rows] == ["mode"]


# -- what is wrong ---------------------------------------------------------------------------------

LOG = Form("log", "log.swf")
TABLE = Form("table", "m.csv")


def row(**more: Any) -> Form:
    return replace(OWN, rows=(replace(ROWS[0], **more), ROWS[1]))


def program(**more: Any) -> Form:
    return replace(OWN, program=replace(OWN.program, **more))


@pytest.mark.parametrize(
    ("form", "place", "said"),
    [
        (Form("log"), "new-path", "Enter the path of the job log"),
        (Form("log", "nowhere.swf"), "new-path", "nowhere.swf"),
        (Form("table"), "new-path", "Enter the path of the table"),
        (Form("table", "nowhere.csv"), "new-path", "nowhere.csv"),
        (Form("table", "bad.csv"), "new-path", "bad.csv"),
        (Form("table", "\0"), "new-path", ""),
        (Form("file"), "new-path", "Enter the path of a sweep file"),
        (Form("file", "nowhere.toml"), "new-path", "nowhere.toml"),
        (Form("file", text="runs = = 3"), "new-path", "not TOML"),
        (Form("file", text="strateg = 3"), "new-path", "did you mean 'strategy'"),
        (Form("file", text="exclude = ['z > 1']"), "new-path", "'z'"),
        (Form(deadline="soon"), "new-deadline", "30m"),
        (Form(runs=0), "new-runs", "a whole number from 1 to"),
        (Form(terms=SlaFields(goal="low")), "new-goal", "'low' is not a number"),
        (Form(terms=SlaFields(cost_limit="1,000", per_hour="1")), "new-cost", "no commas"),
        (Form(terms=SlaFields(per_hour="-1")), "new-cost", "a number above 0"),
        (Form(terms=SlaFields(run_limit="soon")), "new-run-limit", "such as 90s"),
        (Form(terms=SlaFields(cost_limit="20")), "new-cost", "exactly one of per_hour and measure"),
        (replace(TABLE, terms=SlaFields(per_hour="1", resources="z")), "new-cost", "neither"),
        (replace(TABLE, terms=SlaFields(measure="duration")),
         "new-cost", "did you mean 'duration_s'?"),
        (Form(strategy="graps"), "new-strategy", "did you mean 'grasp'?"),
        (Form(options={"z": 1}), "new-strategy", "z"),
        (Form(exclude="z > 1"), "new-exclude", "'z'"),
        (Form(exclude="small_procs >"), "new-exclude", "small_procs >"),
        (Form(wish=ObjectiveFields("minimise")), "new-measure", "Enter the measure"),
        (Form(wish=ObjectiveFields("minimise", "mean_wate_s")), "new-measure", "'mean_wait_s'"),
        (Form(wish=ObjectiveFields(second="mean_wate_s")), "new-second", "'mean_wait_s'"),
        (Form(wish=ObjectiveFields(second="mean_response_s")), "new-second", "first one already"),
        (Form(wish=ObjectiveFields(bounds=(ConstraintField(7),))), "new-c7", "Enter the measure"),
        (Form(wish=ObjectiveFields(bounds=(ConstraintField(7, "n_killed"),))),
         "new-c7", "Enter a bound"),
        (Form(wish=ObjectiveFields(bounds=(ConstraintField(7, "n_killed", "x"),))),
         "new-c7", "'x' is not a number"),
        (Form(wish=ObjectiveFields(bounds=(ConstraintField(7, "killed", "1"),))),
         "new-c7", "did you mean"),
        (Form(wish=ObjectiveFields(bounds=(ConstraintField(7, "procs", "1", "2"),))),
         "new-c7", "at least 2"),
        (Form(cluster=ClusterFields(first="many")), "new-first", "whole number"),
        (Form(cluster=ClusterFields(procs="4")), "new-procs", "widest job"),
        (Form(cluster=ClusterFields(order="graps")), "new-order", "graps"),
        (Form(cluster=ClusterFields(small_job_wait="x")), "new-small-job-wait", "such as 90s"),
        (Form(cluster=ClusterFields(dependencies="sessions")), "new-start", "has no known users"),
        (Form(cluster=ClusterFields(levels={"small_procs": ("x",)})), "new-levels", "'x'"),
        (Form(cluster=ClusterFields(levels={"small_procs": ("16",)})), "new-levels", "0, is not"),
        (Form(cluster=ClusterFields(levels={"depth": ("1", "4")})),
         "new-levels", "which no run uses"),
        (Form(cluster=ClusterFields(options={"depth": "4"})), "new-options", "which no run uses"),
        (Form(cluster=ClusterFields(options={"reserve_anew": "2"})),
         "new-options", "is 2; allowed"),
        (program(words=""), "new-command", "Enter the command"),
        (program(words="sh 'x"), "new-command", "cannot be split"),
        (program(words="no-such-program {size} {mode}"), "new-command", "no-such-program"),
        (program(words="sh program.sh {size}"), "new-command", "'mode' has no effect"),
        (program(words="sh program.sh {size} {mode} {mood}"), "new-command", "did you mean"),
        (program(folder="nowhere"), "new-command", "nowhere"),
        (program(environment="A"), "new-environment", "NAME=value"),
        (program(limit="soon"), "new-limit", "such as 90s"),
        (program(measures="file", where=" "), "new-measures", "Enter the file"),
        (program(measures="pattern"), "new-measures", "Enter a pattern"),
        (program(measures="pattern", where="(?P<x"), "new-command", ""),
        (program(measures="pattern", where="(?P<x>1)"), "new-measure", "no pattern names"),
        (replace(OWN, wish=ObjectiveFields("minimise")), "new-measure", "Name the measure"),
        (replace(OWN, rows=()), "new-parameters", "Add at least one parameter"),
        (row(name=""), "new-p0-name", "Name the parameter"),
        (row(name="in"), "new-p0-name", "Python word"),
        (row(name="mode"), "new-p1-name", "already"),
        (row(levels=()), "new-p0-levels", "at least one level"),
        (row(levels=("1", "x")), "new-p0-levels", "'x' is not a number"),
        (row(levels=("2", "2.0")), "new-p0-levels", "twice"),
        (row(kind="yes or no"), "new-p0-levels", "not yes or no"),
        (row(how="steps"), "new-p0-levels", "Enter the first level"),
        (row(how="steps", low="1", high="6", step="2"), "new-p0-levels", "does not reach 6"),
        (row(how="ratio", low="0", high="6", step="3"), "new-p0-levels", "0 < low"),
        (row(how="ratio", low="0", high="6"), "new-p0-levels", "0 < low"),
        (row(how="ratio", low="0.5", high="6", is_integer=True), "new-p0-levels", "need whole"),
        (row(how="steps", low="1", high="5", step="2", kind="names"), "new-p0-levels", "numbers"),
        (row(baseline=""), "new-p0-baseline", "Choose the current level of size"),
        (row(baseline="3"), "new-p0-baseline", "no level 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_beside_its_field_and_nothing_is_stored(
    tmp_path: Path, form: Form, place: str, said: str
) -> None:
    Path("bad.csv").write_text("x\n1,2,3\n")
    with pytest.raises(FormFieldError) as caught:
        open_from(form, tmp_path / "kept" / "store.db")
    assert caught.value.place == place
    assert said in str(caught.value)
    assert "went wrong" not in str(caught.value)
    assert not (tmp_path / "kept").exists()


def test_every_fault_is_found_at_once() -> None:
    bad = replace(
        OWN, deadline="soon", terms=SlaFields(goal="x"), program=ProgramFields(""),
        rows=(replace(ROWS[0], levels=("z",)), ParameterRow(1)),
    )  # fmt: skip
    places = [fault.place for fault in write_tables(bad).faults]
    assert places == [
        "new-deadline", "new-goal", "new-command", "new-p0-levels", "new-p1-name",
    ]  # fmt: skip
    missing = {fault.place for fault in write_tables(bad).faults if fault.missing}
    assert missing == {"new-command", "new-p1-name"}, "no level of p1 to choose as the current one"

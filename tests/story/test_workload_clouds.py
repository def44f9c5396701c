"""``copperline workload validate --train --test`` and ``workload capacity``: one story."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assistant.cli.commands.window_validation import packing_words, tables
from sim.api import load_workload, write_workload
from sim.generators import fit, save_model
from sim.generators.cloud import (
    PackingResults,
    ServerSize,
    TupleRanges,
    cloud_report,
    cloud_windows,
    draw_tuples,
    plan_capacity,
)
from sim.generators.cloud.batches import batches_of
from sim.generators.cloud.report_values import PackingReport, WindowPacking
from sim.model.cloud_trace import PAPER
from tests.draw.bergsma import write_bergsma
from tests.sim.cloud.logs import log_of

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    for name, days, seed, begin in (("early", 5.0, 1, 0.0), ("late", 1.0, 2, 5.0)):
        write_workload(log_of(days, seed, begin_day=begin, name=name), tmp_path / f"{name}.swf")
    return tmp_path / "early.swf", tmp_path / "late.swf"


def test_a_later_log_is_foreseen(say: Told, logs: tuple[Path, Path]) -> None:
    asked = ("validate", "--train", logs[0], "--test", logs[1], "--windows", "4")
    code, out, err = say(*asked)
    assert code == 0, err
    assert out.startswith("late (")
    for title in ("Next flavour or end of batch", "Bin of the lifetime", "Demand", "Lifetime"):
        assert title in out
    assert "error as the paper counts it: " in out
    assert "so it is not a forecast" in out
    assert "Survival-MSE, CDI  stepped" in out
    assert "No packing: early does not give the memory request of every job" in out
    code, out, _ = say(*asked, "--generator", "naive", "--json")
    told = json.loads(out)
    assert [one["name"] for one in told["generators"]] == ["naive"]
    assert {"definitions", "next_flavour", "next_lifetime", "levels"} <= set(told)


@pytest.mark.soak
@pytest.mark.slow
def test_the_report_is_a_page_of_its_own(say: Told, logs: tuple[Path, Path]) -> None:
    asked = ("--train", logs[0], "--test", logs[1], "--windows", "4", "--html", "out/r.html")
    code, out, err = say("validate", *asked)
    assert code == 0, err
    assert out.endswith("report: out/r.html\n")
    page = Path("out/r.html").read_text()
    assert page.count("<svg") == 4 + 3 * 3 + 2 + 4
    for word in (
        "batches", "batches-over-time", "demand", "lifetimes", "reuse", "packing", "quantiles",
    ):  # fmt: skip
        assert f'<section id="{word}">' in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="http', page), "it asks nothing of anybody"


@pytest.mark.soak
@pytest.mark.slow
def test_windows_of_logs_with_memory_are_packed(say: Told, tmp_path: Path) -> None:
    for name, days, seed, begin in (("early", 4.0, 1, 0.0), ("late", 1.0, 2, 4.0)):
        log = log_of(days, seed, begin_day=begin, name=name)
        per_proc = np.where(log.procs > 2, 1, 1 + 3 * (np.arange(log.n_jobs) % 2)) * 2**30
        write_workload(replace(log, mem_bytes_per_proc=per_proc), tmp_path / f"{name}.swf")
    asked = ("validate", "--train", "early.swf", "--test", "late.swf", "--windows", "2")
    more = ("--generator", "naive", "--packings", "40")
    code, out, err = say(*asked, *more, "--html", "r.html")
    assert code == 0, err
    assert re.search(r"40 packings of each, on .* servers? of .* cores with .* GiB a core\.", out)
    assert "First failure on servers: the resource that limits" in out
    page = Path("r.html").read_text()
    assert page.count("<svg") == 2 + 3 + 2 + 4 + 2, "two windows are packed"
    assert "real: " in page[page.index('<section id="packing">') :]
    code, out, _ = say(*asked, *more, "--json")
    told = json.loads(out)["packing"]
    assert [one["name"] for one in told["windows"]] == ["real", "naive"]
    assert len(told["tuples"]) == len(told["windows"][1]["cpu"]) == 40
    assert told["windows"][0]["every"]["n_failed"] > 0
    code, out, _ = say(*asked, "--generator", "naive", "--packings", "0")
    assert "No packing: the number of packings is 0." in out
    scores = {}
    for quality in ("tables", "mix", "trees"):
        more = ("--generator", "three_stage", "--packings", "0", "--knob", f"quality={quality}")
        code, out, err = say(*asked, *more, "--json")
        assert code == 0, err
        told = json.loads(out)
        scores[quality] = told["next_flavour"][-1]["nll"], told["next_lifetime"][-1]["bce"]
    assert scores["mix"][0] == scores["trees"][0] != scores["tables"][0]
    assert scores["mix"][1] == scores["tables"][1] != scores["trees"][1]


def test_words_tell_servers_and_what_never_filled_them() -> None:
    windows = cloud_windows(log_of(3, 1, name="a"), log_of(1, 2, begin_day=3, name="b"))
    found = cloud_report(windows, generators=("naive",), n_windows=2, n_packings=0)
    assert packing_words(found) == "No packing: the number of packings is 0."
    ranges = TupleRanges((1, 1), (8, 24), (1.25, 2.5))
    cpu = np.array([0.5, np.nan, 0.97])
    real = WindowPacking.of("real", PackingResults(cpu, cpu - 0.1, ("random", "random", "cosine")))
    tuples = draw_tuples(3, 0, ranges)
    told = replace(found, packing=PackingReport(None, ranges, tuples, (real,)))
    assert packing_words(told) == (
        "3 packings of each, on 1 server of 8 to 24 cores with 1.25 to 2.5 GiB a core. In some "
        "packings every job fits, so they give no result: 1 of real."
    )
    shown = tables(told)
    assert shown["First failure on servers: the resource that limits"][1] == (
        ("real", "2", "73.5%", "50.0%", "100.0%"),
    )
    heads, rows = shown["First failure by algorithm: median, and share above 95 %"]
    assert (heads, rows) == (
        ("", "random", "cosine"), (("real", "50.0%, 0.0%", "97.0%, 100.0%"),),
    )  # fmt: skip


def test_script_and_command_plan_the_same(say: Told, logs: tuple[Path, Path]) -> None:
    model = fit("three_stage", load_workload(logs[0]))
    save_model(model, Path("m.json"))
    plan = plan_capacity(model, ServerSize(16), days=0.5, futures=3, scales=(1.0, 2.0), seed=9)
    options = ("--cores-per-server", "16", "--days", "0.5", "--futures", "3", "--seed", "9",
               "--scale", "1", "--scale", "2")  # fmt: skip
    code, out, err = say("capacity", "m.json", *options, "--set", "end_odds=0.2", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["cases"][:2] == json.loads(json.dumps(plan.to_dict()))["cases"]
    assert told["cases"][3]["name"] == "with end_odds=0.2, 2 times the arrivals"
    needed = plan.cases[0].packed
    assert needed is not None
    assert told["answer"].startswith(f"{needed.servers:,} servers of 16 processors suffice in 95 %")
    code, out, _ = say("capacity", logs[0], *options, "--picture", "out/c.svg")
    assert out.splitlines()[0] == told["answer"], "a log is fitted on the way"
    assert "first fit: Servers in use during the days" in out
    assert Path("out/c.svg").read_text().startswith("<svg")


def test_the_authors_files_will_do(say: Told, tmp_path: Path) -> None:
    for name, days, begin in (("early", 3.0, 0.0), ("late", 0.5, 3.0)):
        log = log_of(days, 4, begin_day=begin)
        trace, _ = batches_of(log, bins=PAPER)
        write_bergsma(trace, tmp_path / f"{name}.txt", tmp_path / f"{name}.c9.txt")
        written = "".join(f"{one.mcpu // 1000},1 {one.name}\n" for one in trace.flavours)
        (tmp_path / "flav_map.txt").write_text(written)
        write_workload(log, tmp_path / f"{name}.swf")
    asked = ("validate", "--test", "late.txt", "--windows", "2", "--generator", "simple_batch")
    code, out, err = say(*asked, "--train", "early.txt")
    assert code == 0, err
    assert out.startswith("late.txt (")
    code, out, err = say(*asked, "--train", "early.swf")
    assert (code, out) == (2, "")
    assert "are of different kinds" in err
    (tmp_path / "early.c9.txt").rename(tmp_path / "told.c9.txt")
    code, out, err = say(*asked, "--train", "early.txt")
    assert (code, out) == (2, "")
    assert "the lifetimes of early.txt are unknown" in err
    options = ("--cores-per-server", "8", "--days", "0.1", "--futures", "1", "--no-first-fit",
               "--memory-per-server", "100000000000")  # fmt: skip
    code, out, err = say("capacity", "late.txt", *options)
    assert code == 0, err
    assert "servers of 8 processors and 93.13 GiB suffice" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("validate",), "name LOG and OTHER to compare, or --train and --test"),
        (("validate", "--train", "early.swf"), "both --train and --test"),
        (("validate", "late.swf", "--train", "early.swf", "--test", "late.swf"), "name either LOG"),
        (("validate", "--train", "none.swf", "--test", "late.swf"), "there is no such file"),
        (("validate", "--train", "late.swf", "--test", "early.swf"), "late spans 1.0 days"),
        (
            ("validate", "--train", "early.swf", "--test", "late.swf", "--generator", "lublin"),
            "no generator of clouds 'lublin'",
        ),
        (
            ("validate", "--train", "early.swf", "--test", "late.swf", "--lifetimes", "early.swf"),
            "contains the lifetimes of its jobs",
        ),
        (("capacity", "lubli", "--cores-per-server", "4"), "did you mean 'lublin'?"),
        (("capacity", "early.swf", "--cores-per-server", "4", "--days", "0"), "futures of 0 days"),
        (("capacity", "early.swf", "--cores-per-server", "4", "--share", "0"), "share is 0"),
        (
            ("capacity", "early.swf", "--cores-per-server", "4", "--memory-per-server", "9"),
            "have no known memory",
        ),
        (
            ("capacity", "early.swf", "--cores-per-server", "4", "--set", "odds=1"),
            "has no parameter 'odds'",
        ),
        (("capacity", "lublin", "--cores-per-server", "4", "--knob", "a=1"), "fitted already"),
        (("capacity", "lublin", "--cores-per-server", "4", "--picture", "a.txt"), "must end in"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    say: Told, logs: tuple[Path, Path], arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(logs[0].parent.iterdir())
    code, out, err = say(*arguments)
    assert (code, out) == (2, ""), err
    assert words in " ".join(err.split())
    assert sorted(logs[0].parent.iterdir()) == before

"""``copperline workload pack``: how full servers are when the first job fits nowhere."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from assistant.simtools.capacity import range_of
from sim.api import Workload, write_workload
from sim.generators import published_model, save_model
from sim.generators.cloud import PACKING_RULES, draw_tuples, pack_jobs, read_tuples, requests_of

Told = Callable[..., tuple[int, str, str]]
SMALL = ("--tuples", "30", "--servers", "2:6", "--cores", "16:32")


def jobs(seed: int, with_memory: bool = True, n: int = 600) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 20_000, n)).astype(float),
        runtime_s=rng.integers(100, 6_000, n).astype(float),
        procs=rng.choice([1, 2, 4, 8, 40], n, p=[0.4, 0.3, 0.2, 0.09, 0.01]),
        mem_bytes_per_proc=rng.choice([1, 2, 4, 7], n) * 2**30 if with_memory else None,
        name=f"log {seed}",
    )


@pytest.fixture
def say(cli: Told) -> Told:
    write_workload(jobs(1), Path("one.swf"))
    write_workload(jobs(2), Path("two.swf"))
    write_workload(jobs(3, with_memory=False), Path("plain.swf"))
    Path("wrong.csv").write_text("a,b\n")
    return partial(cli, "workload", "pack")


def test_two_logs_side_by_side_by_the_same_packings(say: Told) -> None:
    code, out, err = say("one.swf", "--against", "two.swf", *SMALL, "--tuples-file", "t.csv")
    assert code == 0, err
    lines = out.splitlines()
    assert "30 packings" in lines[0]
    assert [line.split()[0] for line in lines[2:7]] == ["all", *(r.name for r in PACKING_RULES)]
    assert "one.swf: median" in lines[1]
    assert "two.swf: median" in lines[1]
    assert "are wider than every server and were skipped" in out
    code, out, _ = say("two.swf", "--tuples-file", "t.csv", "--json")
    (found,) = json.loads(out)["traces"]
    tuples = read_tuples(Path("t.csv"))
    assert len(tuples) == 30
    every = pack_jobs(requests_of(jobs(2)), tuples).of(None)
    assert found["summaries"]["all"] == vars(every)
    assert f"{every.median:.1%}" in lines[2]
    code, out, _ = say("two.swf", "--tuples-file", "t.csv", "--algorithm", "cosine", "--json")
    assert list(json.loads(out)["traces"][0]["summaries"]) == ["all", "cosine"]


def test_a_log_beside_windows_drawn_from_a_model(say: Told) -> None:
    model = published_model("lublin")
    save_model(model, Path("m.json"))
    usual = ("one.swf", "--against", "m.json", "--cores-only", "--windows", "2", *SMALL, "--json")
    code, out, err = say(*usual)
    assert code == 0, err
    few = json.loads(out)
    assert [one["file"] for one in few["traces"]] == ["one.swf", "m.json"]
    assert not few["by_memory"]
    code, out, _ = say(*usual, "--demand", "10", "--no-departures")
    many = json.loads(out)
    assert many["traces"][1]["n_jobs"] > 3 * few["traces"][1]["n_jobs"]
    assert not many["departures"]


def test_what_never_filled_is_told(say: Told) -> None:
    code, out, _ = say("one.swf", "--tuples", "5", "--servers", "5000")
    assert code == 0
    assert "in 5 of 5 packings every job fits" in out
    assert "-" in out.splitlines()[2].split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.swf",), "no such file"),
        (("plain.swf",), "pack by cores only"),
        (("plain.swf", "--cores-only", "--algorithm", "cosine"), "cores and memory together"),
        (("one.swf", "--algorithm", "best"), "busiest_fit"),
        (("one.swf", "--cores", "9:8"), "cores from 9 to 8"),
        (("one.swf", "--cores", "a"), "not of the form 32:96"),
        (("one.swf", "--servers", "1.5"), "not a range of whole numbers"),
        (("one.swf", "--demand", "10"), "give --against a model"),
        (("one.swf", "--against", "two.swf", "--demand", "10"), "give --against a model"),
        (("one.swf", "--tuples-file", "wrong.csv"), "the first line must be"),
    ],
)
def test_what_cannot_be_is_one_sentence(say: Told, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = say(*arguments)
    assert (code, out) == (2, ""), err
    assert words in " ".join(err.split())


def test_a_file_of_other_algorithms_is_refused(say: Told) -> None:
    say("one.swf", *SMALL, "--algorithm", "random", "--tuples-file", "t.csv")
    assert {one.algorithm for one in read_tuples(Path("t.csv"))} == {"random"}
    code, _, err = say("one.swf", "--algorithm", "cosine", "--tuples-file", "t.csv")
    assert code == 2
    assert "has no tuples of cosine" in err


def test_ends_of_ranges_and_the_usual_tuples() -> None:
    assert range_of("1.5", "--memory") == (1.5, 1.5)
    assert {one.algorithm for one in draw_tuples(50, 1)} == {rule.name for rule in PACKING_RULES}

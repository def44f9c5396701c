"""Models told otherwise, and a comparison in words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assistant.core.errors import SettingsError
from assistant.simtools import workload_generation
from sim.api import SimError, Workload
from sim.generators import (
    Distance,
    Model,
    Quantity,
    WorkloadComparison,
    default_workload,
    generate,
    published_model,
)

MODEL = Model("m", {"a": 1, "kind": "x", "table": {"b": {"c": 2.0}}, "hours": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("name", "value", "after"),
    [
        ("a", 5, {"a": 5}),
        ("table.b.c", 3, {"table": {"b": {"c": 3}}}),
        ("hours.1", 9, {"hours": [1.0, 9]}),
        ("table.b", [], {"table": {"b": []}}),
    ],
)
def test_entries_of_tables_and_lists_are_told(name: str, value: Any, after: dict[str, Any]) -> None:
    assert workload_generation.with_parameters(MODEL, {name: value}).parameters == {
        **MODEL.parameters,
        **after,
    }
    assert MODEL.parameters["table"] == {"b": {"c": 2.0}}, "a model is a value"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table.x.c", "parameter 'table.x.c' has no entry 'x'; it has: b"),
        ("hours.2", "parameter 'hours.2' has no entry '2'; it has: 0 to 1"),
        ("hours.-1", "no entry '-1'"),
        ("a.b", "parameter 'a.b' has no entry 'b'; it has: no entries"),
    ],
)
def test_no_such_entry_is_said(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        workload_generation.with_parameters(MODEL, {name: 1})


def test_no_such_parameter_is_said() -> None:
    with pytest.raises(SimError, match=r"no parameter 'z'|no parameter 'z\.y'"):
        workload_generation.with_parameters(MODEL, {"z.y": 1})


@pytest.mark.parametrize(
    ("text", "value"),
    [("x=1", 1), ("x=1.5", 1.5), ("x=null", None), ("x=[1, 2]", [1, 2]), ("x=true", True),
     ("x=page", "page"), ("x=a=b", "a=b"), ("x=", ""), ("x=NaN", "NaN"),
     ("x=Infinity", "Infinity")],
)  # fmt: skip
def test_settings_are_json_or_texts(text: str, value: Any) -> None:
    assert workload_generation.setting_of(text, "--set") == ("x", value)


def test_a_deep_setting_is_a_text_and_no_crash() -> None:
    deep = "[" * 100_000
    assert workload_generation.setting_of(f"x={deep}", "--set") == ("x", deep)


def compared(*verdicts: str) -> WorkloadComparison:
    distances = tuple(
        Distance("runtime_s", "ks", "", 0.1 * n, 0.0, 0.2, 0.15, verdict)  # type: ignore[arg-type]
        for n, verdict in enumerate(verdicts)
    )
    unknown = Quantity("runtime_s p50", "s", 0.0, 5.0, None, None, None, "unknown")
    shares = (1 / 24,) * 24
    return WorkloadComparison(
        "log", "other", (10, 12), (6, 7), None, 0, distances, (unknown,), (shares, shares), ()
    )


def test_the_verdict_counts_what_chance_would_do() -> None:
    first, second = workload_generation.verdict(compared("differs", *["alike"] * 19))
    assert first == (
        "1 of 20 figures differ by more than the days of log differ among themselves; about 1 of "
        "20 would by chance alone."
    )
    assert second == "Distances above this variation: run time (KS distance)."
    assert workload_generation.verdict(compared("alike"))[1].startswith("No distance exceeds")
    assert workload_generation.verdict(compared("unknown"))[0].startswith("No figure is judged")


def test_rows_say_what_is_unknown_by_an_empty_cell() -> None:
    (row,) = workload_generation.quantity_rows(compared("alike"))
    assert (row.quantity, row.one, row.two, row.value, row.interval) == (
        "run time p50 [s]", "0", "5", "", "",
    )  # fmt: skip
    assert row.verdict == "not judged"
    row = workload_generation.distance_rows(compared("alike", "differs"))[1]
    assert (row.quantity, row.value, row.usual) == ("run time: KS distance", "0.1", "0.15")


def test_what_swf_has_no_place_for_is_said_before_anybody_misses_it() -> None:
    drawn = generate(published_model("joulie"), duration_s=1800.0, seed=2, scale=0.2)
    (sentence,) = workload_generation.omitted_parts(drawn, Path("a.swf"))
    assert f"The {drawn.tasks.n_tasks:,} tasks" in sentence  # type: ignore[union-attr]
    assert workload_generation.omitted_parts(drawn, Path("a.jsonl")) == ()
    assert workload_generation.omitted_parts(default_workload(1, 5), Path("a.swf")) == ()


@pytest.mark.parametrize("ending", [".swf", ".jsonl"])
def test_bytes_are_those_of_a_file(tmp_path: Path, ending: str) -> None:
    drawn = generate(published_model("lublin"), duration_s=86_400.0, seed=2)
    data = workload_generation.as_bytes(drawn, ending, tmp_path)
    (tmp_path / f"b{ending}").write_bytes(data)
    assert workload_generation.read_drawn(tmp_path / f"b{ending}").n_jobs == drawn.n_jobs


def test_run_times_of_zero_survive_the_way_through_a_file(tmp_path: Path) -> None:
    rigid = Workload.from_arrays(
        submit_s=np.arange(3.0), runtime_s=[0.0, 5.0, 0.0], procs=[1, 2, 3], status=[3, 1, 0]
    )
    assert workload_generation.write_and_compare(rigid, tmp_path / "a.swf") == ()

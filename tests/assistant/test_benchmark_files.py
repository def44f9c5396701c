"""Measures in the files of hyperfine and pytest-benchmark."""

import json
from pathlib import Path
from typing import Any

import pytest

from assistant.applications.benchmark_files import MOST_BYTES, benchmark_measures
from assistant.applications.measures import JsonFile
from assistant.core.errors import RunError
from assistant.core.objective import Objective, SingleMeasure
from tests.assistant.programs import failure, python


def hyperfine_result(command: str, **more: object) -> dict[str, object]:
    """A result as `hyperfine --export-json` writes it (src/benchmark/benchmark_result.rs)."""
    return {
        "command": command, "mean": 0.25, "stddev": 0.125, "median": 0.25, "user": 0.5,
        "system": 0.0625, "min": 0.125, "max": 0.375, "times": [0.125, 0.25, 0.375],
        "exit_codes": [0, 1, None], **more,
    }  # fmt: skip


def pytest_result(name: str, file: str = "test_a.py", **more: object) -> dict[str, object]:
    stats = {"min": 1.0, "max": 3.0, "mean": 2.0, "stddev": 1.0, "median": 2.0, "iqr": 0.5,
             "rounds": 3, "outliers": "1;0", "data": [1.0, 2.0, 3.0], **more}  # fmt: skip
    return {"name": name, "fullname": f"{file}::{name}", "extra_info": {"bytes": 12, "by": "zlib"},
            "stats": stats}  # fmt: skip


TIMES = {"mean_s": 0.25, "stddev_s": 0.125, "median_s": 0.25, "min_s": 0.125, "max_s": 0.375,
         "user_s": 0.5, "system_s": 0.0625, "n_times": 3.0, "n_failed": 2.0}  # fmt: skip


def measured(tmp_path: Path, written: object, tool: Any, objective: str) -> dict[str, object]:
    """Return the measures of a program that writes a file."""
    (tmp_path / "given.json").write_text(json.dumps(written))
    code = "import shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2])"
    program = python(
        code, str(tmp_path / "given.json"), "{scratch}/out.json",
        reading=JsonFile("{scratch}/out.json", tool), objective=Objective(SingleMeasure(objective)),
    )  # fmt: skip
    return dict(program.evaluate({"x": 1}, 0))


def test_one_result_of_hyperfine(tmp_path: Path) -> None:
    written = {"results": [hyperfine_result("gzip -1", memory_usage_byte=[7, 9, 8])]}
    found = measured(tmp_path, written, "hyperfine", "mean_s")
    assert found == {**TIMES, "memory_bytes": 9.0}


def test_several_results_are_told_apart_by_their_command(tmp_path: Path) -> None:
    once = hyperfine_result("gzip -9", stddev=None, exit_codes=[0], times=None)
    written = {"results": [hyperfine_result("gzip -1"), once]}
    found = measured(tmp_path, written, "hyperfine", "gzip -1.mean_s")
    assert found["gzip -1.stddev_s"] == 0.125
    assert found["gzip -9.stddev_s"] is None
    assert found["gzip -9.n_failed"] == 0.0


def test_one_benchmark_of_pytest_keeps_its_numbers(tmp_path: Path) -> None:
    written = {"machine_info": {}, "benchmarks": [pytest_result("test_sort")]}
    found = measured(tmp_path, written, "pytest-benchmark", "median_s")
    assert found == {
        "mean_s": 2.0, "median_s": 2.0, "min_s": 1.0, "max_s": 3.0, "stddev_s": 1.0, "iqr_s": 0.5,
        "n_times": 3.0, "extra_info.bytes": 12.0,
    }  # fmt: skip


def test_benchmarks_of_pytest_are_told_apart_by_file_where_names_are_equal() -> None:
    once = pytest_result("test_b", rounds=1, stddev=0, iqr=0.0)
    benchmarks = [pytest_result("test_a"), pytest_result("test_a", "test_c.py"), once]
    found: Any = benchmark_measures({"benchmarks": benchmarks}, "pytest-benchmark", "it")
    assert set(found) == {"test_a.py::test_a", "test_c.py::test_a", "test_b"}
    assert found["test_b"]["stddev_s"] is None


@pytest.mark.parametrize("written", [
    None, 3, [], "results", {}, {"results": 1}, {"results": ["a"]}, {"results": [{}]},
    {"results": {"command": 1}}, {"results": [hyperfine_result("a", exit_codes=None)]},
    {"benchmarks": [pytest_result("a")]},
])  # fmt: skip
def test_another_file_is_refused_in_one_sentence(written: object) -> None:
    with pytest.raises(RunError, match=r"it is not what hyperfine --export-json writes; .* format"):
        benchmark_measures(written, "hyperfine", "it")


def test_nothing_measured_and_equal_names_are_refused() -> None:
    with pytest.raises(RunError, match="pytest-benchmark measured nothing"):
        benchmark_measures({"benchmarks": []}, "pytest-benchmark", "it")
    with pytest.raises(RunError, match="two benchmarks of the name 'a'"):
        benchmark_measures({"results": [hyperfine_result("a")] * 2}, "hyperfine", "it")


def test_a_file_with_the_time_of_every_round_may_be_large(tmp_path: Path) -> None:
    written = {"benchmarks": [pytest_result("a", data=[0.123456789] * 100_000)]}
    assert measured(tmp_path, written, "pytest-benchmark", "mean_s")["mean_s"] == 2.0
    code = f"import sys; open(sys.argv[1], 'w').truncate({MOST_BYTES + 1})"
    sparse = python(code, "{scratch}/out.json", reading=JsonFile("{scratch}/out.json", "hyperfine"))
    assert f"at most {MOST_BYTES:,} are read" in failure(sparse)


def test_a_missing_measure_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no measure 'time'; it gave: max_s, mean_s"):
        measured(tmp_path, {"results": [hyperfine_result("a")]}, "hyperfine", "time")

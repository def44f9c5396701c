"""Measures in the JSON files of benchmark tools: hyperfine and pytest-benchmark.

Both tools repeat a program and write statistics of its times, in seconds. One benchmark in a file
gives measures such as ``mean_s``; several give ``NAME.mean_s``. References: ``hyperfine
--export-json`` (benchmark_result.rs) and ``pytest --benchmark-json``.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from assistant.core.errors import RunError

FileFormat = Literal["json", "hyperfine", "pytest-benchmark"]
"""What a file of measures holds: JSON of the program's own, or the file of a benchmark tool."""

MOST_BYTES = 1 << 26
"""Largest file of a benchmark tool: it has the time of every round."""

_TIMES = ("mean", "median", "min", "max", "stddev")


def benchmark_measures(output: object, file_format: FileFormat, where: str) -> object:
    """Return the measures by name in the JSON value of a benchmark tool's file.

    Args:
        output: value of the file.
        file_format: what wrote the file; for ``json`` the value is returned unchanged.
        where: name of the file in error messages.

    Raises:
        RunError: the value is not what the tool writes, has no benchmark, or two of one name.
    """
    if file_format == "json":
        return output
    tool = _TOOLS[file_format]
    try:
        found = [(tool.names(each), tool.measures(each)) for each in output[tool.key]]  # type: ignore[index]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise RunError(
            f"{where} is not what {tool.option} writes; write the file with that option, or "
            f"leave out format = '{file_format}'"
        ) from error
    if not found:
        raise RunError(f"{where} has no benchmark; {file_format} measured nothing")
    if len(found) == 1:
        return found[0][1]
    n_named = Counter(names[0] for names, _ in found)
    measures: dict[str, object] = {}
    for names, values in found:
        name = names[0] if n_named[names[0]] == 1 else names[-1]
        if name in measures:
            raise RunError(f"{where} has two benchmarks of the name '{name}'; rename one")
        measures[name] = values
    return measures


@dataclass(frozen=True, slots=True)
class _Tool:
    """A benchmark tool: the key of the list of its benchmarks, and how to read one of them.

    Args:
        option: command and option that write the file.
        names: short name of a benchmark, and a longer one if the short one can occur twice.
    """

    key: str
    option: str
    names: Callable[[Any], tuple[str, ...]]
    measures: Callable[[Any], dict[str, object]]


def _hyperfine(result: Any) -> dict[str, object]:
    codes, memory = result["exit_codes"], result.get("memory_usage_byte")
    return {
        **{f"{name}_s": result[name] for name in (*_TIMES, "user", "system")},
        "n_times": len(codes),
        "n_failed": sum(code != 0 for code in codes),  # None: ended by a signal
        **({"memory_bytes": max(memory)} if memory else {}),
    }


def _pytest_benchmark(benchmark: Any) -> dict[str, object]:
    stats, n_times = benchmark["stats"], benchmark["stats"]["rounds"]
    times = {f"{name}_s": stats[name] for name in (*_TIMES, "iqr")}
    if n_times < 2:  # the file has 0, which is no estimate
        times |= {"stddev_s": None, "iqr_s": None}
    return {**times, "n_times": n_times, "extra_info": dict(benchmark["extra_info"])}


_TOOLS: Mapping[str, _Tool] = {
    "hyperfine": _Tool(
        "results", "hyperfine --export-json", lambda each: (str(each["command"]),), _hyperfine
    ),
    "pytest-benchmark": _Tool(
        "benchmarks", "pytest --benchmark-json",
        lambda each: (str(each["name"]), str(each["fullname"])), _pytest_benchmark,
    ),
}  # fmt: skip

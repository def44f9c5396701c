"""Generator of the reference of sweep files, `docs/reference/sweep-file.md`.

Write it anew with `python -m assistant.config.reference > docs/reference/sweep-file.md`. Tables,
keys, types, bounds and defaults come from the config models; only the meanings stand here.
"""

import sys
from collections.abc import Iterator
from typing import Any

from assistant.config import application, models, sweep_file

TABLES: dict[str, type[application.StrictModel] | type[sweep_file.StrategySettings]] = {
    "": sweep_file.SweepSettings,
    "[objective]": models.ObjectiveSettings,
    "[[objective.constraints]]": models.ConstraintSettings,
    "rmse of [objective]": models.RmseSettings,
    "[[parameters]]": application.ParameterSettings,
    "range of [[parameters]]": application.RangeSettings,
    "logarithmic of [[parameters]]": application.LogarithmicSettings,
    "[cost]": models.CostSettings,
    "[strategy]": sweep_file.StrategySettings,
    "[warning_policy]": sweep_file.WarningPolicySettings,
    "[executor]": models.ExecutorSettings,
    "[environment]": models.EnvironmentSettings,
    "[hooks]": models.HookSettings,
    "[application] of kind command": application.CommandSettings,
    "measures of [application]": application.MeasuresSettings,
    "[application] of kind function": application.FunctionSettings,
    "[application] of kind rest": application.RestSettings,
    "[application] of kind scheduling": application.SchedulingSettings,
    "[application.baseline]": application.BaselineSettings,
    "[application.futures]": application.FuturesSettings,
    "[application] of kind lookup": sweep_file.LookupSettings,
    "[application] of kind ai_platform": application.AiPlatformSettings,
    "[application] of kind placement": application.PlacementSettings,
    "[[application.machines]]": application.MachineSettings,
    "[application] of kind flood": application.FloodSettings,
    "[application] of kind maze": application.MazeSettings,
}
"""The tables of a sweep file and their models, in the order of the page."""

SHARED: dict[str, str] = {
    "kind": "what a run executes",
    "seed": "of the random choices of the simulation, the same for all configurations",
    "baseline": "the current configuration, a value for every parameter",
    "noisy": "whether the same values give other results from run to run; unknown if left out",
    "limit": "wall-clock time of a run; none if left out",
    "levels": "levels of your own by parameter; an empty list closes a parameter",
    "options": "what policies are told, by option",
}
"""Meanings of keys that several applications share."""

MEANINGS: dict[str, dict[str, str]] = {
    "": {
        "name": "of the experiment; the file's name if left out",
        "preset": "`copper` is the paper's loop: strategy, blocks, warnings from 70 % on",
        "seed": "of all random choices of the sweep",
        "runs": "the budget; 60 if neither runs nor a deadline nor a cost limit is set",
        "initial": "first runs, before results decide",
        "batch": "suggestions at a time; as many as run at once if left out, for `copper` 5",
        "workers": "runs at once",
        "executor": "where runs execute; the table `[executor]`",
        "environment": "the table `[environment]`",
        "deadline": "time from the start until the last run must be over",
        "goal": "value of the measure that is good enough",
        "at_goal": "what an auto-steered sweep does at the goal",
        "keep_going": "go on although the program cannot run",
        "run_limit": "time of a single run; one that takes longer has failed",
        "cost": "the table `[cost]`",
        "exploitation": "share of suggestions inside regions of good results; no split if left out",
        "warnings": "what a sweep does at a warning",
        "results": "CSV files of results from before, which cost no run",
        "replicates": "further results of a configuration are replicates, not duplicates",
        "plan": 'ranges of values by parameter, for `pending = "plan"`',
        "warning_policy": "the table `[warning_policy]`",
        "hooks": "the table `[hooks]`",
        "application": "the table `[application]`",
        "parameters": "the tables `[[parameters]]`, for a program of your own",
        "exclude": 'conditions on parameters, such as `"small_procs > 64"`, never proposed',
        "strategy": "the table `[strategy]`",
        "objective": "the table `[objective]`; the application's own if left out",
        "run": "tables `[[run]]`: your own first configurations; what is left out is as in the "
        "current one",
    },
    "[objective]": {
        "minimise": "a measure that is to be small",
        "maximise": "a measure that is to be large",
        "weighted": "a weighted sum of measures, minimised",
        "rmse": "a series that is to be near a reference",
        "unit": "for people",
        "second": "another measure, to find the trade-offs of both",
        "second_goal": "direction of the second measure; `minimise` if left out",
        "constraints": "bounds beside the application's own",
        "without": "measures whose constraints of the application are left out",
    },
    "[[objective.constraints]]": {
        "measure": "the measure that is bounded",
        "at_most": "the largest allowed value",
        "at_least": "the smallest allowed value",
        "label": "for people",
    },
    "rmse of [objective]": {
        "measure": "a measure that is a series",
        "reference": "the values that it is to have",
    },
    "[[parameters]]": {
        "name": "an identifier",
        "levels": "the values: numbers, texts, or truth values",
        "range": "`{low, high, step}`: evenly spaced levels",
        "logarithmic": "`{low, high, count, integer}`: levels with a constant ratio",
        "kind": "numbers are `ordinal` unless you say so",
        "unit": "for people",
        "description": "for people",
    },
    "range of [[parameters]]": {
        "low": "the first level",
        "high": "the last level, included",
        "step": "between two levels",
    },
    "logarithmic of [[parameters]]": {
        "low": "the first level",
        "high": "the last level, included",
        "count": "number of levels",
        "integer": "round levels to whole numbers",
    },
    "[cost]": {
        "limit": "what all runs may cost together; without it the cost is only counted",
        "unit": "for people, such as EUR or kWh",
        "per_hour": "price of an hour of a run",
        "resources": "the parameter or measure that the price is multiplied by",
        "measure": "a measure that is the cost itself, in place of a price",
    },
    "[strategy]": {
        "name": "of a strategy; its options stand beside it",
    },
    "[warning_policy]": {
        "good": "which results make regions",
        "quantile": "the best share of results, for `quantile`",
        "threshold": "a value at least this good, for `threshold`",
        "eps": "of DBSCAN, in level steps; 1.5 if left out",
        "min_samples": "of DBSCAN",
        "pending": "which configurations count as pending",
        "warn_from": "share of the budget spent before warnings begin",
        "advised": "exploitation level that a warning proposes",
        "rule": "what warns",
        "warn_at": "probability of a miss from which the forecast warns; that measured for the "
        "strategy if left out",
    },
    "[executor]": {
        "kind": "where runs execute",
        "address": "of a Dask scheduler",
        "authority": "PEM file of the certificate authority, for `tls://`",
        "certificate": "PEM file of the certificate",
        "key": "PEM file of the key",
        "system": "have Slurm start the workers of Dask",
        "partition": "of Slurm",
        "account": "of Slurm",
        "walltime": "of each job of Slurm; a run has to fit",
        "options": "more options of `sbatch`, one argument each",
        "host": "this machine, as the nodes reach it",
        "folder": "that this machine and the nodes share",
        "setup": "lines of the shell before the program of a job, such as `module load`",
    },
    "[environment]": {
        "cores": "that each run needs",
        "memory": 'that all processes of a run need together, such as `"4 GiB"`',
    },
    "[hooks]": {
        "on_warning": "program and arguments, started at every warning",
        "on_finish": "started when the experiment is finished",
        "on_failure": "started when a run fails, at most once a minute",
        "timeout": "what a hook may take",
        "cwd": "the folder that hooks run in, relative to the file",
    },
    "[application] of kind command": {
        "command": "one element per argument; `{name}` is a parameter's value, `{seed}` the run's "
        "seed, `{scratch}` an empty folder of the run; `{{` and `}}` are braces. No shell reads it",
        "cwd": "where it runs, relative to the file",
        "env": "variables of its environment, with placeholders",
        "stdin": "what the program reads, with placeholders",
        "inherit": 'patterns of variables that it gets of your environment, such as `"CUDA_*"`',
        "processes": "how many processes a run may have at once",
        "file_size": "the largest file that it may write; no limit if left out",
        "unused": "allow a parameter that neither `command` nor `env` nor `stdin` mentions",
        "measures": "how measures are read; the last line of stdout if left out",
    },
    "measures of [application]": {
        "stdout": "JSON or a number in the last line, or all of stdout as JSON",
        "file": "JSON in a file that the run writes",
        "pattern": "regular expressions with named groups; the last match of each counts",
        "stream": "where patterns are looked for",
    },
    "[application] of kind function": {
        "function": "`module:function`, called with one keyword argument per parameter",
        "folder": "where the module is looked for; that of the file if left out",
    },
    "[application] of kind rest": {
        "url": "of the program that is called; if left out, the program asks for its runs",
    },
    "[application] of kind scheduling": {
        "preset": "the question, which opens parameters",
        "log": "the workload; the built-in one if left out",
        "first": "only the first jobs",
        "procs": "processors of the cluster, if the log does not contain them",
        "baseline": "the table `[application.baseline]`",
        "reading": "rules for reading the log, by name",
        "small_job_below": "requested time of a small job",
        "small_job_wait": "how long a small job may wait",
        "too_wide": "what becomes of a job that fits no partition",
        "overrun": "what becomes of a job that outlives its request",
        "grace": "with `kill`: so long after its request",
        "split": "open the paper's partition for small jobs; as the preset has it if left out",
        "allocation": "what a job is given; processors if left out",
        "machine_procs": "processors of each machine",
        "futures": "the table `[application.futures]`",
    },
    "[application.baseline]": {
        "order": "current order of the queue",
        "backfill": "current backfilling rule",
    },
    "[application.futures]": {
        "model": "file of a model, in place of a generator",
        "generator": "a generator of workloads, fitted to `log` or as published",
        "knobs": "options of the fit",
        "count": "number of futures",
        "duration": "jobs are submitted within so long",
        "scale": "factor on the rate of arrivals",
        "seed": "of the futures; more futures of a seed begin with those there were",
        "aggregate": "how a measure is aggregated over the futures",
        "quantile": "with `quantile`: so large a share of the futures is no worse; 0.9 if left out",
        "anew": "every run draws futures of its own",
    },
    "[application] of kind lookup": {
        "table": "CSV file with a column per parameter and `objective`, which is minimised",
    },
    "[application] of kind ai_platform": {
        "days": "simulated days",
        "models": "deployed models, watched and retrained",
        "interarrival_factor": "factor on the published gaps between other pipelines",
        "late_cost_per_h": "cost of a model that lost more performance than its SLA allows",
        "wait_cost_per_h": "cost of a pipeline that waits",
        "statistics": "file of statistics fitted to your logs; published ones if left out",
    },
    "[application] of kind placement": {
        "trace": "file of the workload",
        "first": "only the first jobs of the trace",
        "model": "file of a model that draws the workload",
        "generator": "a generator that draws the workload",
        "duration": "of a generated workload",
        "scale": "factor on the rate of arrivals",
        "count": "generated workloads; the result of a run is the mean over them",
        "nodes": "file with a list of machines, in place of `machines`",
        "prices": "price per hour by kind of machine, with `nodes`",
        "machines": "the tables `[[application.machines]]`",
        "baseline": "what else is current: policies by name",
        "wait_cost_per_h": "cost of a job that waits",
        "beyond_at_most": "share of held processors that may exceed the existing ones",
        "wait_at_most": "bound on the wait of 95 % of the jobs; no bound if left out",
    },
    "[[application.machines]]": {
        "name": "of the kind of machine",
        "cores": "of each machine",
        "count": "how many there are now",
        "counts": "levels of the number; it stays fixed if left out",
        "price_per_h": "of each machine",
        "mem_gib": "of each machine; no limit if left out",
        "disk_gib": "of each machine; no limit if left out",
        "gpus": "of each machine",
        "gpu_model": "the label that pods may demand",
        "labels": "further labels",
    },
    "[application] of kind flood": {},
    "[application] of kind maze": {
        "games": "each in a maze of its own",
        "enemies": "in each maze",
        "limit": "a game that is not won by then counts with it",
    },
}
"""What each key means, by table; keys that several applications share stand in `SHARED`."""

INTRODUCTION = (
    "Every key is optional unless it is required by its table; an unknown one is refused. Paths "
    "are relative to the file. Options of the command line overrule it. A duration is seconds or "
    'a text such as `"90s"`, `"5m"`, `"2h"` or `"7d"`; a size is a text such as `"4 GiB"`. '
    "`copperline init` writes a commented file."
)

EXAMPLE = """```toml
name = "winter queue"
runs = 60
deadline = "2h"
exclude = ["small_procs > 64 and small_max_procs < 4"]

[application]
kind = "scheduling"
log = "your-cluster.swf.gz"  # without it: the built-in workload
first = 5000

[application.levels]         # levels of your own
order = ["fcfs", "sjf"]

[strategy]
name = "copper"
beta = 0.7

[objective]                  # the application's own if left out
minimise = "mean_bounded_slowdown"
constraints = [{measure = "max_wait_s", at_most = 86400.0}]

[[run]]                      # your own first configuration
small_procs = 32
small_max_procs = 8
```"""


def sweep_file_reference() -> str:
    """Return tables, keys, types, defaults and meanings of a sweep file as Markdown."""
    parts = [
        "# Keys of a sweep file",
        "Generated from the config models: `python -m assistant.config.reference`.",
        INTRODUCTION,
        EXAMPLE,
    ]
    for table, model in TABLES.items():
        keys = "\n".join(_rows(table, model))
        parts += [
            f"## {_title(table)}",
            f"| key | type | default | meaning |\n|---|---|---|---|\n{keys}",
        ]
    return "\n\n".join(parts) + "\n"


def _title(table: str) -> str:
    if not table:
        return "At the top"
    if " of kind " in table:
        return table.rpartition(" ")[2]
    return f"`{table}`" if table.startswith("[") else f"`{table.replace(' of ', '` of `')}`"


def _rows(
    table: str, model: type[application.StrictModel] | type[sweep_file.StrategySettings]
) -> Iterator[str]:
    schema = model.model_json_schema()
    meanings = SHARED | MEANINGS[table]
    for key in model.model_fields:
        described = schema["properties"][key]
        required = key in schema.get("required", ())
        default = "required" if required else _default(described.get("default"))
        yield f"| `{key}` | {_type(described, schema)} | {default} | {meanings[key]} |"


def _default(value: Any) -> str:
    if value is None or value in ("", [], {}) or isinstance(value, dict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(described: dict[str, Any], schema: dict[str, Any]) -> str:
    if "anyOf" in described:
        types = [
            _type(choice, schema) for choice in described["anyOf"] if choice.get("type") != "null"
        ]
        return " or ".join(dict.fromkeys(types))
    if described.get("type") == "array":
        return f"list of {_plural(_type(described.get('items', {}), schema))}"
    if choices := described.get("enum") or ([described["const"]] if "const" in described else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    names = {"object": "table", "string": "text", "boolean": "`true` or `false`"}
    plain = "table" if "$ref" in described else str(described.get("type", "value"))
    return names.get(plain, plain) + _bounds(described)


def _plural(name: str) -> str:
    return f"{name}s" if name in ("text", "table", "number", "value", "integer") else name


def _bounds(described: dict[str, Any]) -> str:
    words = {
        "exclusiveMinimum": "above",
        "minimum": "at least",
        "exclusiveMaximum": "below",
        "maximum": "at most",
    }
    bounds = [f"{word} {described[key]:,}" for key, word in words.items() if key in described]
    return f", {', '.join(bounds)}" if bounds else ""


if __name__ == "__main__":
    sys.stdout.write(sweep_file_reference())

"""Generator of the reference of sweep files and of their JSON schema, from the config models.

Write both anew with ``python -m assistant.config.reference > docs/reference/sweep-file.md`` and
``python -m assistant.config.reference schema > docs/reference/sweep-file.schema.json``.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from assistant.config.fields import SIZE, TIME, USUAL, SettingsTable, default_words, settings_tables
from assistant.config.sweep_file import IMPLIED_KINDS, SweepSettings

_LARGE = 1e20

INTRODUCTION = (
    "Every key is optional unless it is required by its table; an unknown one is refused. Paths "
    "are relative to the file. Options of the command line overrule it. A time span is seconds or "
    'a text such as `"90s"`, `"5m"`, `"2h"` or `"7d"`; a size is bytes or a text such as '
    '`"4 GiB"`. '
    "`copperline init` writes a commented file. The [JSON schema](sweep-file.schema.json) of these "
    "keys is for editors."
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


SWITCHES = """A program with flags, of which each run gets one or none:

```toml
runs = 8
[application]
command = ["sh", "sorter.sh", "{sort}", "--threads={threads}"]
[objective]
minimise = "time_ms"
[[parameters]]
name = "sort"
one_of = ["--quicksort", "--mergesort", "--heapsort"]
or_none = true               # also runs without any of these flags
[[parameters]]
name = "threads"
levels = [1, 2]
```

If none is on, an argument that is only `{sort}` is left out. A program that wants a value for
each switch names the switches: with `one_of = ["quick", "merge"]` write `"--quick={quick}",
"--merge={merge}"`; one is 1, the other 0. People see one parameter, `sort`, whose levels are the
switches and `none`."""

MORE = {("parameters",): SWITCHES}
"""Text below the keys of a table."""


def sweep_file_reference() -> str:
    """Return tables, keys, types, defaults and meanings of a sweep file as Markdown."""
    parts = [
        "# Keys of a sweep file",
        "Generated from the config models: `python -m assistant.config.reference`.",
        INTRODUCTION,
        EXAMPLE,
    ]
    for table in settings_tables(SweepSettings):
        keys = "\n".join(_rows(table))
        parts += [
            f"## {_title(table)}",
            f"| key | type | default | meaning |\n|---|---|---|---|\n{keys}",
            *([MORE[table.path]] if table.path in MORE else []),
        ]
    return "\n\n".join(parts) + "\n"


def sweep_file_schema() -> str:
    """Return the JSON schema of a sweep file; a kind that another key implies is not required."""
    schema = SweepSettings.model_json_schema()
    application = schema["properties"]["application"]
    application["anyOf"] = application.pop("oneOf")
    kinds = application.pop("discriminator")["mapping"]
    for key, kind in IMPLIED_KINDS.items():
        definition = schema["$defs"][kinds[kind].rpartition("/")[2]]
        definition["required"] = [name for name in definition["required"] if name != "kind"]
        definition["anyOf"] = [{"required": ["kind"]}, {"required": [key]}]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=1) + "\n"


def _title(table: SettingsTable) -> str:
    if table.kind:
        return f"`{table.heading}` of kind `{table.kind}`"
    return f"`{table.heading.replace(' of ', '` of `')}`" if table.heading else "At the top"


def _rows(table: SettingsTable) -> Iterator[str]:
    schema = table.model.model_json_schema()
    for key, field in table.model.model_fields.items():
        described = schema["properties"][key]
        required = key in schema.get("required", ())
        default = "required" if required else default_words(described)
        if USUAL not in described and default and not required:
            default = f"`{default}`"
        yield f"| `{key}` | {_type(described, schema)} | {default} | {field.description} |"


def _type(described: dict[str, Any], schema: dict[str, Any]) -> str:
    if "anyOf" in described:
        types = [
            _type(choice, schema) for choice in described["anyOf"] if choice.get("type") != "null"
        ]
        return " or ".join(dict.fromkeys(types))
    if "oneOf" in described:
        return "table"
    if described.get("type") == "array":
        return f"list of {_plural(_type(described.get('items', {}), schema))}"
    if choices := described.get("enum") or ([described["const"]] if "const" in described else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    if (form := described.get("format")) in (TIME, SIZE):
        return str(form)
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
    bounds = [
        f"{word} {_number(described[key])}" for key, word in words.items() if key in described
    ]
    return f", {', '.join(bounds)}" if bounds else ""


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) < _LARGE else f"{value:g}"


if __name__ == "__main__":
    is_schema = sys.argv[1:] == ["schema"]
    sys.stdout.write(sweep_file_schema() if is_schema else sweep_file_reference())

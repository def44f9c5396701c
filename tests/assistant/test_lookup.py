"""A sweep over a measured table: columns that are one parameter, and repeated rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assistant.applications.lookup import Lookup
from assistant.config.snapshot import (
    config_snapshot,
    open_sweep,
    rebuild,
    stored_sweep_file,
)
from assistant.config.sweep_file import BuiltSweep, build_sweep, check_settings
from assistant.core.errors import SettingsError
from assistant.store import MemoryStore
from assistant.ui.pages.new_sweep_file import form_of_experiment, write_tables

TABLE = """sort_quick,sort_merge,threads,objective
1,0,1,9
1,0,2,6
1,0,2,7
0,1,1,8
0,1,2,5
"""


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "sorts.csv").write_text(TABLE)
    return {"application": {"kind": "lookup", "table": str(tmp_path / "sorts.csv")}}


def built(tables: dict[str, Any], **application: str) -> BuiltSweep:
    return build_sweep(
        check_settings({**tables, "application": tables["application"] | application}, "here")
    )


def test_a_new_sweep_has_one_parameter_and_says_what_it_stands_for(tables: dict[str, Any]) -> None:
    application = built(tables).application
    assert [p.name for p in application.space.parameters] == ["sort", "threads"]
    assert application.evaluate({"sort": "quick", "threads": 2}, 0)["objective"] == 6.5
    facts = [f"{fact.label}: {fact.text}" for fact in application.facts]
    assert facts[1:] == [
        "Repeated rows: 1 configuration was measured more than once; the mean is used",
        "Columns that are one parameter: sort: one of sort_quick, sort_merge",
    ]
    kept = built(tables, alternatives="keep").application
    assert kept.space.names == ("sort_quick", "sort_merge", "threads")
    assert len(kept.facts) == 2


def test_a_stored_experiment_keeps_the_parameters_that_it_had(tables: dict[str, Any]) -> None:
    new = open_sweep(built(tables), MemoryStore(), "new", config_snapshot(tables, ()))
    opened = new.experiment.opened
    assert rebuild(opened).space.names == ("sort", "threads")
    old = open_sweep(built(tables, alternatives="keep"), MemoryStore(), "old", tables)
    earlier = replace(old.experiment.opened, recipe=tables)  # as an earlier version stored it
    assert rebuild(earlier).space.names == ("sort_quick", "sort_merge", "threads")
    assert 'alternatives = "keep"' in stored_sweep_file(earlier)
    form = form_of_experiment(earlier, "again")
    assert write_tables(form).tables["application"]["alternatives"] == "keep"


@pytest.mark.parametrize(
    "more", [{"exclude": ["sort_quick == 1"]}, {"run": [{"sort_quick": 1, "threads": 1}]}]
)
def test_a_merged_column_that_is_named_is_explained(
    tables: dict[str, Any], more: dict[str, Any]
) -> None:
    sentence = "'sort_quick' is a column of the parameter 'sort', whose levels are 'quick', 'merge'"
    with pytest.raises(SettingsError, match=sentence):
        built(tables | more)
    built(tables | {"exclude": ["sort == 'quick'"]})
    built(tables | more, alternatives="keep")


def test_a_table_read_from_python_keeps_its_columns(tables: dict[str, Any]) -> None:
    assert Lookup.read(tables["application"]["table"]).space.size == 8

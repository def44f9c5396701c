"""Columns of 0 and 1 that exclude each other are one parameter, and every row is still found."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import MeasuredTable, Measurement
from strategies.data.alternatives import merge_alternatives

SORTS = """threads,use_sort,sort_quick,sort_merge,sort_heap,log,objective
1,1,1,0,0,0,9
2,1,0,1,0,1,5
1,1,0,0,1,1,12
2,0,0,0,0,0,20
"""


def test_alternatives_are_one_parameter_and_what_follows_from_them_goes_with_it() -> None:
    table, found = merge_alternatives(MeasuredTable.parse(SORTS, "sorts"))
    (one,) = found
    assert one.columns == ("sort_quick", "sort_merge", "sort_heap")
    assert one.implied == ("use_sort", "log"), "they are the same in all rows of each level"
    assert one.levels["merge"] == {
        "sort_quick": 0, "sort_merge": 1, "sort_heap": 0, "use_sort": 1, "log": 1,
    }  # fmt: skip
    threads, sort = table.space.parameters
    assert (threads.name, threads.levels) == ("threads", (1, 2))
    assert (sort.name, sort.levels, sort.kind) == (
        "use_sort", ("quick", "merge", "heap", "none"), "nominal",
    )  # fmt: skip
    assert sort.description == "one of sort_quick, sort_merge, sort_heap; use_sort, log by it"
    row = table.space.from_values({"threads": 2, "use_sort": "none"})
    assert table.lookup(row) == Measurement(20.0, None)
    assert table.lookup(table.space.from_values({"threads": 1, "use_sort": "none"})) is None


@pytest.mark.parametrize(
    ("columns", "name", "levels"),
    [
        (("txc_locks", "txc_mvcc"), "txc", ("locks", "mvcc")),
        (("lowPageSize", "highPageSize"), "PageSize", ("low", "high")),
        (("quick", "merge"), "quick_or_merge", ("quick", "merge")),
        (("class_a", "class_b"), "class_a_or_class_b", ("a", "b")),  # 'class' is a Python word
        (("n_a", "n_b"), "n_a_or_n_b", ("a", "b")),  # there is a parameter n
        (("a", "b", "c", "d"), "a_or_b_or_2_others", ("a", "b", "c", "d")),
    ],
)
def test_names(columns: tuple[str, ...], name: str, levels: tuple[str, ...]) -> None:
    head = f"n,{','.join(columns)},objective\n"
    rows = [
        f"{n},{','.join(str(int(column == on)) for column in columns)},{n}\n"
        for n in (1, 2)
        for on in columns
    ]
    table, _ = merge_alternatives(MeasuredTable.parse(head + "".join(rows), "one hot"))
    assert [(p.name, p.levels) for p in table.space.parameters][1:] == [(name, levels)]


@pytest.mark.parametrize(
    "text",
    [
        "a,b,objective\n0,0,1\n0,1,2\n1,0,3\n1,1,4\n",  # both can be 1
        "a,b,objective\n1,0,1\n1,1,2\n",  # a does not vary
        "a,b,objective\n0,2,1\n2,0,2\n",  # not 0 and 1
        "a,objective\n0,1\n1,2\n",
    ],
)
def test_other_tables_stay_as_they_are(text: str) -> None:
    table = MeasuredTable.parse(text, "plain")
    assert merge_alternatives(table) == (table, ())


@given(
    st.lists(st.tuples(*[st.integers(0, 1)] * 5, st.integers(0, 2)), min_size=1, unique=True),
)
def test_every_row_is_found_by_the_values_of_its_columns(rows: list[tuple[int, ...]]) -> None:
    names = ["a", "b", "c", "d", "e", "n"]
    lines = [",".join(map(str, [*row, 10 + i])) for i, row in enumerate(rows)]
    before = MeasuredTable.parse("\n".join([",".join([*names, "objective"]), *lines]), "drawn")
    after, found = merge_alternatives(before)
    assert after.n_rows == before.n_rows
    assert after.space.size <= before.space.size
    columns = [name for one in found for name in (*one.columns, *one.implied)]
    assert len(set(columns)) == len(columns)
    for row, measurement in after.measurements.items():
        values = dict(after.space.values(row))
        for one in found:
            values |= one.levels[str(values.pop(one.name))]
        assert before.lookup(before.space.from_values(values)) == measurement
    for one in found:
        for first, other in itertools.combinations(one.columns, 2):
            at = [names.index(first), names.index(other)]
            assert np.array(rows)[:, at].sum(axis=1).max() == 1


@pytest.mark.parametrize(("name", "rows", "size"), [("hsqldb", 864, 1_152), ("sqlite", 4_652, 0)])
def test_real_tables_of_switches(shared_data: Path, name: str, rows: int, size: int) -> None:
    before = MeasuredTable.read(shared_data / "tables" / "one_hot" / f"{name}.csv")
    after, found = merge_alternatives(before)
    assert (before.n_rows, after.n_rows) == (rows, rows)
    if size:
        assert [one.name for one in found][-1] == "encryption"
        assert after.space.size == size
    else:
        assert before.n_repeated == 1
        assert set(after.space.rows) == {c.level_ids for c in after.measurements}
        assert [len(one.columns) for one in found] == [4, 4, 3, 2, 2]

"""Measured tables: real ones, and every refusal."""

from pathlib import Path

import pytest

from strategies import MeasuredTable, Measurement, TableError
from strategies.space import parameter_space

GOOD = "procs,order,objective,duration_s\n4,sjf,1.5,10\n1,fcfs,2,\n2,sjf,3e1,0.5\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode())
    return path


def test_a_table_by_hand(tmp_path: Path) -> None:
    table = MeasuredTable.read(write(tmp_path, GOOD))
    procs, order = table.space.parameters
    assert table.name == "table"
    assert (procs.levels, procs.kind) == ((1, 2, 4), "ordinal")
    assert (order.levels, order.kind) == (("sjf", "fcfs"), "nominal")
    assert (table.n_rows, table.space.size) == (3, 6)
    at = table.space.from_values
    assert table.lookup(at({"procs": 4, "order": "sjf"})) == Measurement(1.5, 10.0)
    assert table.lookup(at({"procs": 1, "order": "fcfs"})) == Measurement(2.0, None)
    assert table.lookup(at({"procs": 4, "order": "fcfs"})) is None


def test_line_ends_quotes_byte_order_marks_and_blank_lines_are_read(tmp_path: Path) -> None:
    plain = MeasuredTable.read(write(tmp_path, GOOD))
    windows = "\ufeff" + GOOD.replace("\n", "\r\n").replace("sjf", '"sjf"') + "\r\n\r\n"
    assert MeasuredTable.read(write(tmp_path, windows)).measurements == plain.measurements
    assert MeasuredTable.parse(GOOD, "here").measurements == plain.measurements


def test_rows_of_the_same_configuration_are_repetitions_and_their_mean_counts() -> None:
    text = (
        "a,b,objective,duration_s\n1,x,2,10\n2,x,3,1\n1.0,x,6,\n1,x,7,20\n3,x,1e308,\n3,x,1e308,\n"
    )
    table = MeasuredTable.parse(text, "repeated")
    assert (table.n_rows, table.n_repeated) == (3, 2)
    at = table.space.from_values
    assert table.lookup(at({"a": 1, "b": "x"})) == Measurement(5.0, 15.0)
    assert table.lookup(at({"a": 2, "b": "x"})) == Measurement(3.0, 1.0)
    assert table.lookup(at({"a": 3, "b": "x"})) == Measurement(1e308, None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,objective\n", "has a header but no rows"),
        ("a,b\n1,2\n", "line 1 has no column 'objective'; its columns are a, b"),
        ("objective\n1\n", "no parameter columns"),
        ("a,a,objective\n1,2,3\n", "has the column 'a' twice"),
        ("a b,objective\n1,2\n", "a parameter is named 'a b'"),
        ("a,objective\n1,2\n1,2,3\n", "line 3 has 3 fields, but the header has 2"),
        ("a,objective\n1\n", "line 2 has 1 fields"),
        ("a,objective\n1,nan\n", "line 2, field 'objective' is 'nan'"),
        ("a,objective\n1,2\n2,inf\n", "line 3, field 'objective' is 'inf'"),
        ("a,objective\n1,\n", "field 'objective' is ''"),
        ("a,objective\n1,fast\n", "field 'objective' is 'fast'"),
        ("a,objective\n1,2\nNaN,3\n", "line 3, field 'a' is 'NaN'"),
        ("a,objective\n,2\n", "line 2, field 'a' is empty"),
        ("a,objective,duration_s\n1,2,-3\n", "field 'duration_s' is '-3'"),
        ('a,objective\n"1,2\n', "is not CSV"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(TableError, match=sentence) as caught:
        MeasuredTable.read(write(tmp_path, text))
    assert "table.csv" in str(caught.value)


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with pytest.raises(TableError, match="cannot be read"):
        MeasuredTable.read(path)
    with pytest.raises(TableError, match="cannot be read"):
        MeasuredTable.read(tmp_path)
    path.write_bytes(b"a,objective\n\xff\xfe,3\n")
    with pytest.raises(TableError, match="is not UTF-8 text"):
        MeasuredTable.read(path)


@pytest.mark.parametrize(("n_levels", "is_sample"), [(10, False), (11, True)])
def test_a_table_of_less_than_one_in_a_hundred_combinations_has_its_rows_only(
    n_levels: int, is_sample: bool
) -> None:
    rows = [(i, i, i) for i in range(n_levels)]
    text = "".join(f"{a},{b},{c},{a}\n" for a, b, c in rows)
    space = MeasuredTable.parse("a,b,c,objective\n" + text, "a table").space
    assert space.size == n_levels**3
    assert space.rows == (tuple(rows) if is_sample else ())
    assert space.count_allowed() == (n_levels if is_sample else 1_000)


def test_a_sample_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_space, "EXACT_BOUND", 10)
    text = "a,b,c,objective\n" + "".join(f"{i},{i},{i},0\n" for i in range(11))
    with pytest.raises(TableError, match=r"t is a sample .* 11 rows; at most 10 .* give a part"):
        MeasuredTable.parse(text, "t")


@pytest.mark.parametrize(
    ("name", "rows", "size"),
    [
        ("kt_conv_old_3090", 5220, 15360),
        ("kt_convolution_a100", 4201, 10240),
        ("kt_hp_genetic", 108, 108),
        ("kt_pnpoly_3090", 3762, 4092),
        ("lrzip2", 5184, 5184),
        ("mysql", 972, 1296),
    ],
)
def test_real_tables_are_read_whole(shared_data: Path, name: str, rows: int, size: int) -> None:
    table = MeasuredTable.read(shared_data / "tables" / f"{name}.csv")
    assert (table.n_rows, table.space.size) == (rows, size)
    missing = [c for c in table.space.configurations() if table.lookup(c) is None]
    assert len(missing) == size - rows

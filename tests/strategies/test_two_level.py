"""Two-level designs against the tables of the field and their definitions."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from strategies import OptionError, PlackettBurman, RegularFraction, two_level_design
from strategies.doe.two_level import hadamard, hadamard_order, letter

KNOWN = [
    # factors, resolution asked for, runs, resolution reached, generators: Montgomery, table 8.14
    (3, 3, 4, 3, ("C=AB",)),
    (4, 4, 8, 4, ("D=ABC",)),
    (5, 3, 8, 3, ("D=AB", "E=AC")),
    (5, 5, 16, 5, ("E=ABCD",)),
    (6, 3, 8, 3, ("D=AB", "E=AC", "F=BC")),
    (6, 5, 32, 6, ("F=ABCDE",)),
    (7, 3, 8, 3, ("D=AB", "E=AC", "F=BC", "G=ABC")),
    (7, 5, 64, 7, ("G=ABCDEF",)),
    (8, 5, 64, 5, ("G=ABCD", "H=ABEF")),
]


@pytest.mark.parametrize(("k", "asked", "runs", "reached", "generators"), KNOWN)
def test_generators_as_in_the_published_table(
    k: int, asked: int, runs: int, reached: int, generators: tuple[str, ...]
) -> None:
    design = two_level_design(k, asked)
    assert isinstance(design, RegularFraction)
    assert (design.n_runs, design.resolution, design.generators) == (runs, reached, generators)


@pytest.mark.parametrize(
    ("k", "asked", "name", "lengths"),
    [
        # minimum aberration word length patterns, Fries & Hunter 1980 and Montgomery, table 8.14
        (6, 4, "2^(6-2) fraction", {4: 3}),
        (7, 4, "2^(7-3) fraction", {4: 7}),
        (8, 4, "2^(8-4) fraction", {4: 14, 8: 1}),
        (9, 4, "2^(9-4) fraction", {4: 6, 5: 8, 8: 1}),
        (10, 4, "2^(10-5) fraction", {4: 10, 5: 16, 8: 5}),
        (9, 3, "2^(9-5) fraction", {3: 4, 4: 14, 5: 8, 7: 4, 8: 1}),
        (9, 5, "2^(9-2) fraction", {6: 3}),
        (10, 5, "2^(10-3) fraction", {5: 3, 6: 3, 7: 1}),
        (11, 5, "2^(11-4) fraction", {5: 6, 6: 6, 7: 2, 8: 1}),
    ],
)
def test_fractions_of_minimum_aberration(
    k: int, asked: int, name: str, lengths: dict[int, int]
) -> None:
    design = two_level_design(k, asked)
    assert isinstance(design, RegularFraction)
    assert design.name == name
    words = [len(word) for word in design.defining_relation]
    assert {n: words.count(n) for n in set(words)} == lengths


def test_the_half_fraction_of_three_factors_by_hand() -> None:
    design = two_level_design(3, 3)
    assert isinstance(design, RegularFraction)
    assert design.defining_relation == ("ABC",)
    assert design.aliases == (("A", "BC"), ("B", "AC"), ("C", "AB"))
    assert design.matrix.tolist() == [[-1, -1, 1], [1, -1, -1], [-1, 1, -1], [1, 1, 1]]
    assert design.details == "resolution III, C=AB"


def test_the_quarter_fraction_of_five_factors_has_the_published_aliases() -> None:
    design = two_level_design(5, 3)
    assert isinstance(design, RegularFraction)
    assert design.defining_relation == ("ABD", "ACE", "BCDE")
    assert design.aliases == (
        ("A", "BD", "CE"), ("B", "AD"), ("C", "AE"), ("D", "AB"), ("E", "AC"),
        ("BC", "DE"), ("BE", "CD"),
    )  # fmt: skip


@pytest.mark.parametrize("k", range(1, 30))
@pytest.mark.parametrize("resolution", [3, 4, 5])
def test_the_matrix_keeps_what_the_resolution_says(k: int, resolution: int) -> None:
    """Orthogonality from the matrix alone: main effects, then with pairs, then pairs of pairs."""
    design = two_level_design(k, resolution)
    matrix = design.matrix.astype(np.int64)
    assert matrix.shape == (design.n_runs, k)
    assert set(np.unique(matrix)) <= {-1, 1}
    assert len(np.unique(matrix, axis=0)) == design.n_runs
    assert not matrix.sum(axis=0).any()
    unit = design.n_runs * np.eye(k, dtype=np.int64)
    assert (matrix.T @ matrix == unit).all()
    pairs = [matrix[:, i] * matrix[:, j] for i, j in itertools.combinations(range(k), 2)]
    if resolution >= 4 and pairs:
        assert not (matrix.T @ np.array(pairs).T).any()
    if resolution >= 5 and pairs:
        products = np.array(pairs) @ np.array(pairs).T
        assert (products == design.n_runs * np.eye(len(pairs), dtype=np.int64)).all()


def test_no_smaller_regular_fraction_reaches_the_resolution() -> None:
    """By brute force over all sets of columns, where that is quick."""
    for k, resolution in itertools.product(range(2, 7), (3, 4, 5)):
        design = two_level_design(k, resolution)
        assert isinstance(design, RegularFraction)
        below = design.n_basic - 1
        for columns in itertools.combinations(range(1, 1 << below), k):
            shortest = min(
                (
                    order
                    for order in range(2, resolution)
                    for some in itertools.combinations(columns, order)
                    if np.bitwise_xor.reduce(some) == 0
                ),
                default=resolution,
            )
            assert shortest < resolution


@pytest.mark.parametrize("k", [3, 5, 7, 8, 12])
@pytest.mark.parametrize("resolution", [3, 4, 5])
def test_whether_a_design_is_its_own_fold(k: int, resolution: int) -> None:
    design = two_level_design(k, resolution)
    runs = set(map(tuple, design.matrix.tolist()))
    folded = set(map(tuple, (-design.matrix).tolist()))
    assert design.is_own_fold == (runs == folded)
    assert design.is_own_fold or not runs & folded


def test_plackett_burman_designs_where_they_need_fewer_runs() -> None:
    sizes = {k: two_level_design(k, 3).n_runs for k in (12, 16, 19, 23, 24, 27, 35, 51)}
    assert sizes == {12: 16, 16: 20, 19: 20, 23: 24, 24: 28, 27: 28, 35: 36, 51: 56}
    assert two_level_design(12, 4) == PlackettBurman(12, 12, folded=True)
    assert two_level_design(12, 4).n_runs == 24


def test_hadamard_matrices_are_orthogonal() -> None:
    missing = []
    for order in (1, 2, *range(4, 129, 4)):
        try:
            matrix = hadamard(order).astype(np.int64)
        except OptionError:
            missing.append(order)
            continue
        assert (matrix.T @ matrix == order * np.eye(order)).all()
        assert (matrix[:, 0] == 1).all()
    assert missing == [52, 92, 100, 116]
    assert hadamard_order(49) == 56


def test_letters_leave_out_the_mean() -> None:
    assert "".join(map(letter, range(9))) == "ABCDEFGHJ"
    assert letter(24) == "Z"
    assert letter(25) == "A1"


@pytest.mark.parametrize(("k", "resolution"), [(0, 3), (-1, 3), (3, 2), (3, 6), (True, 3)])
def test_a_design_that_cannot_be_is_refused(k: int, resolution: int) -> None:
    with pytest.raises(OptionError, match=r"it needs 1 or more|resolution .*; allowed are"):
        two_level_design(k, resolution)


def test_a_relation_too_long_to_write_is_refused() -> None:
    design = two_level_design(40, 5)
    assert isinstance(design, RegularFraction)
    with pytest.raises(OptionError, match="at most 16"):
        _ = design.defining_relation


def test_the_lines_of_the_page_print_what_they_say(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (repository / "docs" / "reference" / "strategies.md").read_text()
    (snippet,) = re.findall(
        r"```python\n(from strategies import two_level_design\n.*?)```", page, re.S
    )
    exec(snippet, {})
    printed = capsys.readouterr().out.splitlines()
    said = [line.split("# ")[1].split("):")[0] for line in snippet.splitlines() if "# " in line]
    assert len(printed) == len(said) == 3
    assert all(line.startswith(text) for line, text in zip(printed, said, strict=True))

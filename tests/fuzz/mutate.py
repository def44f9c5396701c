"""Mutations of bytes: of a few valid files, into files that are almost valid."""
# ruff: noqa: E501 - data: a line of it is as long as it is

import copy
import gzip
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LONGEST = 1_000_000
_TOKEN = re.compile(rb"[A-Za-z_]+|[0-9.+-]+|[^\sA-Za-z0-9]")
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")

NUMBERS = (
    b"0", b"-0", b"-1", b"-5", b"1", b"2", b"1.5", b"-0.5", b"1e300", b"1e999", b"-1e999", b"1e-999",
    b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"null", b"true", b"1_000", b"0x10", b"0b1",
    b"\xd9\xa1\xd9\xa2", b"\xef\xbc\x91", b"2147483648", b"9007199254740993",
    b"9223372036854775808", b"1000000000000000000", b"9" * 400, b"9" * 5000, b"1" + b"0" * 30,
)  # fmt: skip

TEXTS = (
    b"", b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\t", b"\x0b", b"\x1b[31m",
    b"\xe2\x80\xae", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\xc2\xa0", b"\xe2\x80\xa8",
    b"<script>", b"=1+1", b"{x}", b"{", b"}", b"[", b"]", b'"', b"'", b"'''", b"\\", b";", b":", b",", b"=",
    b"#", b" " * 2000, b"a" * 3000, b"[" * 3000, b"{" * 3000, b"../../x", b"/dev/zero", b"/dev/null",
    b"/proc/self/mem", b"__class__", b"self", b"None", b"type",
)  # fmt: skip

VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 2, 10**6, 10**18, 2**63, 10**30, 10**400, -0.0, 0.5, 1e-300, 1e300,
    float("inf"), float("-inf"), float("nan"), "", "x", "a" * 3000, "\0", "\x1b[31m", "\ud800", "1_0",
    "{x}", "{", "../../x", "/dev/zero", "1h", "-1s", "x > 1", "x ** x ** 9 > 1", "('a'" * 300,
    "fcfs", "random", "copper", [], {}, [[]], [1, 1], ["a", 1], {"x": 1}, [{}] * 50, list(range(300)),
)  # fmt: skip

Mutation = Callable[[random.Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]


def mutated(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return one seed after a few mutations.

    Args:
        rng: decides everything.
        seeds: valid files.
        words: that mean something in this format.
    """
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = rng.choice(_MUTATIONS)(rng, data, seeds, words)[:LONGEST]
    if rng.random() < 0.03:
        data = _recoded(rng, data)
    return data[:LONGEST]


def mutated_tree(rng: random.Random, tree: object, words: Sequence[bytes]) -> object:
    """Return a copy of a tree of tables, lists and values with a few of its nodes changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        places = list(_places(tree))
        if not places:
            break
        owner, key = rng.choice(places)
        choice = rng.randrange(8)
        word = rng.choice(words).decode("utf-8", "replace")
        if choice == 0:
            del owner[key]
        elif choice == 1 and isinstance(owner, dict):
            owner[word] = owner.pop(key)
        elif choice == 2 and isinstance(owner, list):
            owner += [owner[key]] * rng.choice((1, 2, 30))
        elif choice == 3:
            other, at = rng.choice(places)
            owner[key] = copy.deepcopy(other[at])
        elif choice == 4:
            owner[key] = word
        elif choice == 5 and isinstance(owner[key], int):
            owner[key] *= rng.choice((-1, 0, 2, 10**9))
        else:
            owner[key] = copy.deepcopy(rng.choice(VALUES))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (table or list, key or index) of a tree."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in list(keys):
        yield tree, key
        yield from _places(tree[key])


def _at(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = _at(rng, data)
    return start, min(len(data), start + rng.choice((1, 1, 2, 5, 20, 100, 1000)))


def _flip(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _insert(rng: random.Random, data: bytes, _s: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = _at(rng, data)
    return data[:at] + rng.choice(rng.choice((NUMBERS, TEXTS, words))) + data[at:]


def _replace(rng: random.Random, data: bytes, _s: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Put another word in the place of a word: the file stays nearly one of its kind."""
    found = list(_TOKEN.finditer(data[:20_000]))
    if not found:
        return data
    start, end = rng.choice(found).span()
    return data[:start] + rng.choice(rng.choice((NUMBERS, TEXTS, words))) + data[end:]


def _renumber(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    found = list(_NUMBER.finditer(data[:20_000]))
    if not found:
        return data
    start, end = rng.choice(found).span()
    return data[:start] + rng.choice(NUMBERS) + data[end:]


def _delete(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _cut(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    return data[: _at(rng, data)]


def _repeat(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[start:end] * rng.choice((2, 3, 50, 5000)) + data[end:]


def _lines(rng: random.Random, data: bytes, _s: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    """Repeat, drop or swap lines."""
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    choice = rng.randrange(3)
    if choice == 0:
        lines[a:a] = [lines[b]] * rng.choice((1, 2, 30, 3000))
    elif choice == 1:
        del lines[a]
    else:
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _splice(rng: random.Random, data: bytes, seeds: Sequence[bytes], _w: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return data[: _at(rng, data)] + other[_at(rng, other) :]


def _recoded(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return rng.choice(
        (
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-16-be"),
            lambda: text.encode("latin-1", "replace"),
            lambda: b"\xef\xbb\xbf" + data,
            lambda: data.replace(b"\n", b"\r\n"),
            lambda: data.replace(b"\n", b"\r"),
            lambda: gzip.compress(data, mtime=0),
            lambda: gzip.compress(data, mtime=0)[:-9],
            lambda: gzip.compress(data, mtime=0) + b"more",
            lambda: gzip.compress(data, mtime=0) * 2,
        )
    )()


_MUTATIONS: tuple[Mutation, ...] = (
    _flip, _insert, _replace, _replace, _replace, _renumber, _renumber, _renumber, _delete, _cut,
    _repeat, _lines, _lines, _splice,
)  # fmt: skip

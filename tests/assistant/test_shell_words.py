"""Which words of a command a shell runs as code, where a value would be code too."""

import pytest

from assistant.applications.program import code_words

REFUSED = [
    ["sh", "-c", "run {x}"],
    ["sh", "-ec", "run {x}"],
    ["/bin/bash", "-lc", "run {x}"],
    ["bash", "-euo", "pipefail", "-c", "run {x}"],
    ["bash", "-ceuo", "pipefail", "run {x}"],
    ["bash", "--norc", "--rcfile", "a", "-c", "run {x}"],
    ["bash", "+e", "-O", "extglob", "-xc", "run {x}"],
    ["sh", "-c", "-e", "run {x}"],
    ["sh", "-c", "--", "run {x}"],
    ["fish", "--command=run {x}"],
    ["env", "sh", "-c", "run {x}"],
    ["/usr/bin/env", "-i", "A=1", "-u", "B", "sh", "-ec", "run {x}"],
    ["env", "-S", "sh -c", "run {x}"],
    ["env", "-S", "sh -c 'run {x}'"],
    ["env", "-Srun {x}"],
    ["env", "-vS", "run {x}"],
    ["env", "--split-string=run {x}"],
    ["timeout", "5", "nice", "-n", "1", "sh", "-c", "run {x}"],
    ["busybox", "sh", "-c", "run {x}"],
]
ALLOWED = [
    ["sh", "-c", "run $1", "sh", "{x}"],
    ["sh", "-ec", "run $1 {seed}", "sh", "{x}"],
    ["bash", "-o", "errexit", "-c", "run $1", "bash", "{x}"],
    ["sh", "run.sh", "-c", "{x}"],
    ["sh", "--", "-c", "{x}"],
    ["env", "A={x}", "sh", "-c", "run $A"],
    ["env", "-S", "sh -c", "run $1", "sh", "{x}"],
    ["grep", "-c", "{x}", "sh"],
    ["find", "sh", "-c", "{x}"],
]


def is_in_code(argv: list[str]) -> bool:
    return any("{x}" in argv[index] for index in code_words(argv))


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_a_value_in_the_code_of_a_shell_is_seen(argv: list[str]) -> None:
    assert is_in_code(argv)


@pytest.mark.parametrize("argv", ALLOWED, ids=" ".join)
def test_a_value_beside_the_code_of_a_shell_is_an_argument(argv: list[str]) -> None:
    assert not is_in_code(argv)


@pytest.mark.parametrize("argv", [["sh"], ["sh", "-c"], ["env"], ["env", "-S"], ["env", "-S", "'"],
                                  ["bash", "-o"], ["fish", "--command"], [""]])  # fmt: skip
def test_half_a_command_has_no_code(argv: list[str]) -> None:
    assert not is_in_code(argv)

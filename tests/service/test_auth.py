"""Tokens and their file, roles, and the table of failures."""

import json
import os
import stat
from pathlib import Path

import pytest

from assistant.core.errors import ServiceError
from assistant.service.api_tokens import Role
from assistant.service.auth import (
    IN_FILE,
    AuthRateLimiter,
    RoleTokens,
    read_or_make_tokens,
    read_tokens,
    tokens_path,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tokens_path(tmp_path / "sweeps.db")


def private(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return path


def fresh() -> dict[str, str]:
    return {role: str(role) * 8 for role in IN_FILE}


def test_tokens_are_made_once_for_their_owner_alone(path: Path) -> None:
    assert path.name == "sweeps.db.tokens"
    assert read_tokens(path) is None
    before = os.umask(0)
    try:
        made = read_or_make_tokens(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made == read_or_make_tokens(path) == read_tokens(path)
    assert {len(token) for token in made.by_role.values()} == {64}
    assert list(path.parent.iterdir()) == [path]  # no draft is left
    assert made != read_or_make_tokens(path.with_name("other.tokens"))


def test_a_link_to_a_store_shares_its_tokens(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    assert tokens_path(tmp_path / "link.db") == tokens_path(tmp_path / "real.db")


def test_every_token_has_its_role_and_nothing_else_has_one() -> None:
    tokens = RoleTokens({role: f"{role:x<64}" for role in IN_FILE}).with_owner()
    for role, token in tokens.by_role.items():
        assert tokens.role_of(token.encode()) is role
        for other in (token[:-1], token + "x", token.upper(), f" {token}", token[::-1]):
            assert tokens.role_of(other.encode()) is None
    for nothing in (b"", b"\xff" * 64, b"\0", "é".encode()):
        assert tokens.role_of(nothing) is None


def test_tokens_are_shown_nowhere() -> None:
    tokens = RoleTokens.of_owner()
    assert next(iter(tokens.by_role.values())) not in f"{tokens!r} {tokens}"
    with pytest.raises(TypeError):
        tokens.by_role[Role.VIEWER] = "x"  # type: ignore[index]


@pytest.mark.parametrize(
    ("role", "granted"),
    [
        (Role.VIEWER, {Role.VIEWER}),
        (Role.SUGGESTER, {Role.VIEWER, Role.SUGGESTER}),
        (Role.STEERER, {Role.VIEWER, Role.SUGGESTER, Role.STEERER}),
        (Role.WORKER, {Role.WORKER}),
        (Role.ADAPTER, {Role.WORKER, Role.ADAPTER}),
        (Role.OWNER, set(Role)),
    ],
)
def test_what_roles_grant(role: Role, granted: set[Role]) -> None:
    assert {other for other in Role if role.grants(other)} == granted


@pytest.mark.parametrize(
    ("role", "handed_out"),
    [
        (Role.VIEWER, set()),
        (Role.WORKER, set()),
        (Role.ADAPTER, set()),
        (Role.SUGGESTER, set()),
        (Role.STEERER, {Role.VIEWER, Role.SUGGESTER, Role.WORKER, Role.ADAPTER}),
        (Role.OWNER, set(Role) - {Role.OWNER}),
    ],
)
def test_whose_tokens_roles_hand_out(role: Role, handed_out: set[Role]) -> None:
    assert {other for other in Role if role.hands_out(other)} == handed_out


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_file_that_others_may_read_is_refused(path: Path, mode: int) -> None:
    private(path, fresh()).chmod(mode)
    with pytest.raises(ServiceError, match=rf"{mode:04o}.*chmod 600 '{path}'"):
        read_or_make_tokens(path)


def test_a_link_a_pipe_and_a_folder_are_refused(path: Path) -> None:
    target = private(path.with_name("target"), fresh())
    path.symlink_to(target)
    with pytest.raises(ServiceError, match="symbolic link"):
        read_or_make_tokens(path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ServiceError, match="is not a plain file"):
        read_or_make_tokens(path)
    path.unlink()
    path.mkdir(0o700)
    with pytest.raises(ServiceError, match="is not a plain file"):
        read_or_make_tokens(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"viewer": "", "viewer": ""}', "twice"),
        ({**fresh(), "viewr": "x" * 64}, r"'viewr'; did you mean 'viewer'\?"),
        ({**fresh(), "owner": "x" * 64}, "no role 'owner'"),
        ({**fresh(), "viewer": "short"}, "token of the viewer"),
        ({**fresh(), "viewer": 7}, "token of the viewer"),
        ({**fresh(), "viewer": "é" * 64}, "token of the viewer"),
        ({**fresh(), "viewer": "a b" * 32}, "token of the viewer"),
        ({**fresh(), "viewer": "a" * 64 + "\n"}, "token of the viewer"),
        ({"viewer": "x" * 64}, "token of the steerer"),
        ({**fresh(), "viewer": fresh()["worker"]}, "share a token"),
        (" " * 70_000, "longer than 65536"),
    ],
)
def test_a_damaged_file_is_refused(path: Path, content: object, words: str) -> None:
    with pytest.raises(ServiceError, match=words) as refused:
        read_or_make_tokens(private(path, content))
    assert str(path) in str(refused.value)
    assert "x" * 64 not in str(refused.value)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_failures_are_forgiven_with_time() -> None:
    clock = Clock()
    failures = AuthRateLimiter(burst=3, per_s=0.5, clock=clock)
    assert [failures.count("a") for _ in range(5)] == [None, None, None, 2, 2]
    assert failures.count("b") is None  # each address for itself
    clock.now_s = 1.9
    assert failures.count("a") == 1
    clock.now_s = 2.0
    assert [failures.count("a"), failures.count("a")] == [None, 2]
    clock.now_s = 1e6
    assert [failures.count("a") for _ in range(4)] == [None, None, None, 2]


def test_a12_the_table_of_failures_does_not_grow() -> None:
    failures = AuthRateLimiter(burst=2, size=16, clock=Clock())
    for number in range(10_000):
        failures.count(f"10.0.{number // 256}.{number % 256}")
        failures.count("evil" * 100)  # an address that is none
    assert len(failures) == 16
    assert failures.count("evil" * 100) is not None  # who fails again and again stays in it


def test_an_ipv6_host_has_one_place_in_the_table() -> None:
    failures = AuthRateLimiter(burst=2, clock=Clock())
    found = [failures.count(f"2001:db8::{number:x}") for number in range(1, 4)]
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert failures.count("2001:db8:0:1::1") is None
    assert failures.count("fe80::1%eth0") is None

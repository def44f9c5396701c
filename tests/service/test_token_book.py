"""The book of tokens with names: what it keeps, what it lets in, what it refuses."""

import hashlib
import hmac
import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from assistant.core.errors import NameTakenError, ServiceError, SettingsError
from assistant.service import api_tokens
from assistant.service.api_tokens import (
    MOST_HOLDERS,
    ApiTokenStore,
    Role,
    token_name_of,
    token_store_path,
)
from assistant.store.event_store import back_up, restore
from tests.queue.examples import HandClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return token_store_path(tmp_path / "sweeps.db")


def test_a_token_is_told_once_and_kept_as_a_digest(path: Path) -> None:
    book = ApiTokenStore(path)
    before = os.umask(0)
    try:
        token = book.issue("gpu-1", Role.WORKER)
    finally:
        os.umask(before)
    assert path.name == "sweeps.db.token-hashes"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) == 64
    kept = path.read_bytes()
    assert token.encode() not in kept
    assert hashlib.sha256(token.encode()).hexdigest().encode() in kept
    assert list(path.parent.iterdir()) == [path]  # no draft is left
    for again in (book, ApiTokenStore(path)):  # and after a restart
        holder = again.holder_of(token.encode())
        assert holder is not None
        assert (holder.name, holder.role, holder.experiment_id) == ("gpu-1", Role.WORKER, None)
        for other in (token[:-1], token + "0", token.upper(), holder.digest, "", "é"):
            assert again.holder_of(other.encode()) is None


def test_a_token_that_is_revoked_lets_nobody_in_and_its_name_is_free(path: Path) -> None:
    book = ApiTokenStore(path)
    first = book.issue("a", Role.WORKER)
    holder = book.holder_of(first.encode())
    assert holder is not None
    assert book.lets_in(holder)
    assert book.revoke("a") == holder
    assert not book.lets_in(holder)
    second = book.issue("a", Role.WORKER)
    assert book.holder_of(first.encode()) is None
    assert not book.lets_in(holder)  # one of the same name is another
    assert ApiTokenStore(path).holder_of(second.encode()) is not None
    with pytest.raises(SettingsError, match=r"no token 'aa'; did you mean 'a'\?"):
        book.revoke("aa")


def test_a_token_ends_by_the_clock(path: Path) -> None:
    clock = HandClock()
    book = ApiTokenStore(path, clock)
    token = book.issue("a", Role.WORKER, expires_s=clock.wall_s + 10).encode()
    clock.wait(9.9)
    assert book.holder_of(token) is not None
    assert not book.has_ended(token)
    clock.wait(0.1)
    assert book.holder_of(token) is None
    assert book.has_ended(token)
    assert not book.has("a")
    assert not book.has_ended(b"another")
    fresh = book.issue("a", Role.WORKER)  # it needs no revoking first
    assert book.holder_of(fresh.encode()) is not None
    assert book.holder_of(token) is None


@pytest.mark.parametrize("given", ["first", "last", "none"])
def test_every_digest_is_compared_whatever_comes(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    book = ApiTokenStore()
    tokens = [book.issue(f"n{i}", Role.WORKER) for i in range(7)]
    presented = {"first": tokens[0], "last": tokens[-1], "none": "x" * 64}[given]
    compared = []
    really = hmac.compare_digest

    def counting(a: str, b: str) -> bool:
        compared.append((a, b))
        return really(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    assert (book.holder_of(presented.encode()) is None) == (given == "none")
    assert len(compared) == 7


@pytest.mark.parametrize(
    "name", ["", "a/b", "-a", ".", "a b", "é", "a\n", "x" * 41, "f" * 64, "a\0"]
)
def test_names_that_cannot_be(name: str) -> None:
    book = ApiTokenStore()
    with pytest.raises(SettingsError, match="1 to 40 letters"):
        book.issue(name, Role.WORKER)
    assert book.holders() == ()


def test_what_no_token_is_made_for() -> None:
    clock = HandClock()
    book = ApiTokenStore(clock=clock)
    with pytest.raises(SettingsError, match="role owner"):
        book.issue("a", Role.OWNER)
    with pytest.raises(SettingsError, match="adapter is for one experiment"):
        book.issue("a", Role.ADAPTER)
    for role in (Role.VIEWER, Role.STEERER):
        with pytest.raises(SettingsError, match="sees all experiments"):
            book.issue("a", role, experiment_id="e")
    for ends_s in (clock.wall_s, 0.0, float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="must be in the future"):
            book.issue("a", Role.WORKER, expires_s=ends_s)
    book.issue("a", Role.ADAPTER, experiment_id="e")
    with pytest.raises(NameTakenError, match="copperline token revoke a"):
        book.issue("a", Role.WORKER)
    assert [one.role for one in book.holders()] == [Role.ADAPTER]


def test_an_answer_that_was_lost_is_given_anew_to_the_same_request_alone() -> None:
    book = ApiTokenStore()
    lost = book.issue("a", Role.WORKER, expires_s=2e9)
    with pytest.raises(NameTakenError):
        book.issue("a", Role.WORKER, expires_s=3e9, again=True)
    told = book.issue("a", Role.WORKER, expires_s=2e9, again=True)
    assert book.holder_of(lost.encode()) is None
    assert book.holder_of(told.encode()) is not None


def test_a_book_is_bounded(path: Path) -> None:
    rows = [
        {"name": f"n{i}", "role": "worker", "digest": f"{i:064x}", "created_s": 1.0,
         "experiment_id": None, "expires_s": None, "created_by": None}
        for i in range(MOST_HOLDERS)
    ]  # fmt: skip
    path.write_text(json.dumps({"tokens": rows}))
    path.chmod(0o600)
    book = ApiTokenStore(path)
    with pytest.raises(SettingsError, match="1000 named tokens"):
        book.issue("more", Role.WORKER)
    book.revoke("n7")
    book.issue("more", Role.WORKER)
    assert len(ApiTokenStore(path).holders()) == MOST_HOLDERS


ROW = {
    "name": "a", "role": "worker", "digest": "0" * 64, "created_s": 1.0,
    "experiment_id": None, "expires_s": None, "created_by": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "{}", '{"tokens": {}}', {"tokens": [], "more": 1}, {"tokens": [1]},
        {"tokens": [{**ROW, "more": 1}]}, {"tokens": [{**ROW, "role": "owner"}]},
        {"tokens": [{**ROW, "role": "boss"}]}, {"tokens": [{**ROW, "digest": "0" * 63}]},
        {"tokens": [{**ROW, "name": "a/b"}]}, {"tokens": [{**ROW, "expires_s": "soon"}]},
        "SQLite format 3\0 and nothing of it",
        {"tokens": [ROW, {**ROW, "digest": "1" * 64}]}, {"tokens": [ROW, {**ROW, "name": "b"}]},
    ],
)  # fmt: skip
def test_a_damaged_book_is_refused(path: Path, content: object) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    with pytest.raises(ServiceError, match="damaged") as refused:
        ApiTokenStore(path)
    assert str(path) in str(refused.value)


def test_a_book_that_others_may_read_is_refused(path: Path) -> None:
    ApiTokenStore(path).issue("a", Role.WORKER)
    path.chmod(0o644)
    with pytest.raises(ServiceError, match=r"0644.*chmod 600"):
        ApiTokenStore(path)


def test_a_book_that_cannot_be_written_says_so_and_nothing_has_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ApiTokenStore(path)
    token = book.issue("a", Role.WORKER)

    monkeypatch.setattr(api_tokens, "BUSY_S", 0.0)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ServiceError, match="cannot be used: database is locked"):
            book.issue("b", Role.WORKER)
        with pytest.raises(ServiceError, match="cannot be used: database is locked"):
            book.revoke("a")
    for again in (book, ApiTokenStore(path)):
        assert [one.name for one in again.holders()] == ["a"]
        assert again.holder_of(token.encode()) is not None
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_the_version_before_is_moved_over_once(path: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    path.write_text(json.dumps({"tokens": [{**ROW, "digest": digest, "expires_s": 2e9}]}))
    path.chmod(0o600)
    holder = ApiTokenStore(path, HandClock()).holder_of(b"secret")
    assert holder is not None
    assert (holder.name, holder.role, holder.expires_s) == ("a", Role.WORKER, 2e9)
    moved = path.read_bytes()
    assert moved.startswith(b"SQLite format 3")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ApiTokenStore(path).get("a") == holder
    assert path.read_bytes() == moved
    assert list(path.parent.iterdir()) == [path]


def test_a_restored_store_lets_nobody_in_again(tmp_path: Path) -> None:
    from assistant.store.event_store import SqliteStore

    store, copy = tmp_path / "sweeps.db", tmp_path / "copy.db"
    SqliteStore(store).close()
    token = ApiTokenStore(token_store_path(store)).issue("a", Role.WORKER)
    back_up(store, copy)
    assert not token_store_path(copy).exists()  # a copy that is handed on lets nobody in
    ApiTokenStore(token_store_path(store)).revoke("a")
    restore(copy, store)
    assert ApiTokenStore(token_store_path(store)).holder_of(token.encode()) is None


def test_workers_of_a_token_begin_with_its_name() -> None:
    assert [token_name_of(one) for one in ("a", "a/", "a/b/c", "ab", "/a")] == [
        "a",
        "a",
        "a",
        "ab",
        "",
    ]


def test_a_file_from_before_the_suggester_takes_its_tokens(path: Path) -> None:
    book = ApiTokenStore(path)
    token = book.issue("gpu-1", Role.WORKER)
    with closing(sqlite3.connect(path)) as connection, connection:
        (schema,) = connection.execute("SELECT sql FROM sqlite_master").fetchone()
        assert "'suggester', " in schema
        connection.execute("ALTER TABLE token RENAME TO new")
        connection.execute(schema.replace("'suggester', ", ""))
        connection.execute("INSERT INTO token SELECT * FROM new")
        connection.execute("DROP TABLE new")
    book = ApiTokenStore(path)
    book.issue("model", Role.SUGGESTER)
    kept = ApiTokenStore(path)
    assert {holder.name: holder.role for holder in kept.holders()} == {
        "gpu-1": Role.WORKER, "model": Role.SUGGESTER,
    }  # fmt: skip
    found = kept.holder_of(token.encode())
    assert found is not None
    assert found.name == "gpu-1"

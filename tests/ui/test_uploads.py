"""Uploads: kept beside the store under names that stay in their folder, whatever a browser says."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assistant.core.errors import SettingsError
from assistant.ui.pages import new_source
from assistant.ui.pages.new_source import clean_name, keep_upload


def test_an_upload_is_kept_by_its_digest_and_its_name(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "store.db"
    path = keep_upload(store, "my log.swf.gz", b"data")
    digest = hashlib.sha256(b"data").hexdigest()[:12]
    assert path == tmp_path / "deep" / "uploads" / f"{digest}-my_log.swf.gz"
    assert path.read_bytes() == b"data"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert keep_upload(store, "my log.swf.gz", b"data") == path
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is left over"


HOSTILE = [
    "../../etc/passwd", "..", ".", "", "/", "\\", "..\\..\\a.csv", "/etc/passwd", "a\0b.csv",
    "\n", "-rf", ".hidden", "~/x", "a" * 5000 + ".swf", "CON", "ü/ö.csv", "a;rm -rf *",
    "x\u202egpj",
    "$(id)", "%2e%2e%2f", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_the_folder(tmp_path: Path, name: str) -> None:
    store = tmp_path / "store.db"
    path = keep_upload(store, name, b"x")
    assert path.parent == tmp_path / "uploads"
    assert path.resolve().parent == (tmp_path / "uploads").resolve()
    assert path.read_bytes() == b"x"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300))
@example("")
def test_a_clean_name_is_one_plain_file_name(name: str) -> None:
    clean = clean_name(name)
    assert clean
    assert len(clean) <= 90
    assert clean[0] not in ".-_"
    assert set(clean) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    assert clean_name(clean) == clean


def test_the_ending_of_a_long_name_stays() -> None:
    assert clean_name("x" * 500 + ".swf.gz").endswith("x.swf.gz")


def test_another_content_never_takes_the_place_of_a_file(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    one, other = keep_upload(store, "a.csv", b"1"), keep_upload(store, "a.csv", b"2")
    assert one != other
    assert (one.read_bytes(), other.read_bytes()) == (b"1", b"2")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    store, outside = tmp_path / "store.db", tmp_path / "outside"
    path = keep_upload(store, "a.csv", b"1")
    path.unlink()
    outside.write_bytes(b"1")
    path.symlink_to(outside)
    assert keep_upload(store, "a.csv", b"1") == path
    assert not path.is_symlink(), "what lies elsewhere may change"
    outside.write_bytes(b"2")
    assert path.read_bytes() == b"1"


def test_too_large_empty_and_unwritable_are_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.db"
    with pytest.raises(SettingsError, match="is empty"):
        keep_upload(store, "a.csv", b"")
    monkeypatch.setattr(new_source, "MOST_BYTES", 2**20)
    with pytest.raises(SettingsError, match="has 2 MB, but the limit is 1 MB"):
        keep_upload(store, "a.csv", b"x" * 2**21)
    assert not (tmp_path / "uploads").exists()
    (tmp_path / "uploads").write_text("a file")
    with pytest.raises(SettingsError, match="cannot store the upload"):
        keep_upload(store, "a.csv", b"1")

"""What an object store does for a storage: conditional writes, listings, and paths as on a disk."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from headrace.atomic_write import create_file, replace_file
from headrace.stores.cloud_store import CloudStore
from headrace.stores.connection import StoreConnection
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import relative_path, remove_tree, storage_path
from headrace.stores.uris import StoreUri, is_store_uri

ROOT = "s3a://lake"


@pytest.fixture
def lake():
    return ObjectPath(ROOT, "", CloudStore(ROOT, MemoryStore()))


def test_of_several_writers_of_a_new_object_one_wins(lake):
    with ThreadPoolExecutor(8) as threads:
        tags = list(threads.map(lambda number: lake.store.put_if_absent("a", b"%d" % number), range(8)))

    assert [b"%d" % number for number, tag in enumerate(tags) if tag] == [(lake / "a").read_bytes()]


def test_of_several_writers_that_saw_one_content_one_replaces_it(lake):
    tag = lake.store.put("a", b"old")

    with ThreadPoolExecutor(8) as threads:
        tags = list(threads.map(lambda number: lake.store.put_if_tag("a", b"%d" % number, tag), range(8)))

    assert [b"%d" % number for number, tag in enumerate(tags) if tag] == [(lake / "a").read_bytes()]


def test_an_object_that_is_gone_is_not_replaced(lake):
    tag = lake.store.put("a", b"old")
    lake.store.delete("a")

    assert lake.store.put_if_tag("a", b"new", tag) is None


def test_files_are_written_as_on_a_disk(lake):
    replace_file(lake / "file", "old")
    replace_file(lake / "file", "new")

    assert not create_file(lake / "file", "late")
    assert create_file(lake / "other", "first")
    assert [path.read_text() for path in lake.iterdir()] == ["new", "first"]


FOLDERS = st.lists(st.sampled_from(["orders", "orders_quarantine", "0", "flow.json", "~2f"]), min_size=1, max_size=4)


@given(st.sets(FOLDERS.map("/".join), max_size=8), FOLDERS.map("/".join))
def test_a_path_answers_as_one_on_a_disk(tmp_path_factory, names, asked):
    disk = tmp_path_factory.mktemp("disk")
    lake = ObjectPath(ROOT, "", CloudStore(ROOT, MemoryStore()))
    # A name is an object or a folder, as on a disk.
    for name in sorted(names):
        if not any(other != name and other.startswith(f"{name}/") for other in names):
            (disk / name).parent.mkdir(parents=True, exist_ok=True)
            (disk / name).write_text(name)
            (lake / name).write_bytes(name.encode())

    for pattern in ("*", "*/flow.json", "orders/*/flow.json"):
        on_disk = sorted(str(path.relative_to(disk)) for path in disk.glob(pattern))
        assert sorted(str(relative_path(path, lake)) for path in lake.glob(pattern)) == on_disk
    found, expected = lake / asked, disk / asked
    assert (found.exists(), found.is_file(), found.is_dir()) == (
        expected.exists(),
        expected.is_file(),
        expected.is_dir(),
    )
    if expected.is_dir():
        assert {path.name for path in found.iterdir()} == {path.name for path in expected.iterdir()}
    assert (found.name, found.stem, str(relative_path(found.parent, lake))) == (
        expected.name,
        expected.stem,
        str(expected.parent.relative_to(disk)),
    )


def test_a_folder_that_does_not_exist_raises_as_on_a_disk(lake):
    with pytest.raises(FileNotFoundError):
        list((lake / "nothing").iterdir())
    with pytest.raises(FileNotFoundError):
        (lake / "nothing").read_text()


def test_a_folder_is_deleted_and_its_neighbour_stays(lake):
    for key in ("orders/0/a", "orders/b", "orders_quarantine/c"):
        lake.store.put(key, b"")

    remove_tree(lake / "orders")

    assert [path.name for path in lake.iterdir()] == ["orders_quarantine"]


@pytest.mark.parametrize("text", ["s3://lake/a//b/", "s3a://lake/a/b", "S3N://lake/a/b"])
def test_a_place_has_one_uri(text):
    assert str(StoreUri.parse(text)) == "s3a://lake/a/b"


@pytest.mark.parametrize(
    "text",
    ["s3://key:secret@lake/a", "s3://Lake/a", "s3://lake/a?b=c", "s3://lake/../a", "s3://lake/a%20b", "http://lake/a"],
)
def test_a_uri_that_libraries_read_differently_is_refused(text):
    with pytest.raises(ValueError, match=r"it contains|not the|a folder"):
        StoreUri.checked(text)


def test_a_pattern_in_a_bucket_that_no_settings_name_is_not_asked_for():
    path = storage_path("s3a://elsewhere/in/%20*.json")

    assert (path.exists(), path.name) == (False, "%20*.json")


def test_a_local_path_is_not_a_uri():
    assert not any(map(is_store_uri, ("/lake/a", "s3:/lake", "lake", "file:///lake")))


def test_secrets_of_a_connection_are_not_shown():
    connection = StoreConnection("http://127.0.0.1:7070", "r", "shown-key", "shown-secret", "shown-token")

    print(connection, file=(shown := io.StringIO()))

    assert "shown" not in shown.getvalue()

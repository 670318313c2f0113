"""A snapshot of a bucket answers as the bucket did when it was taken, with fewer requests, whatever its cache holds."""

from __future__ import annotations

import re
import sqlite3
from shutil import rmtree

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from headrace.stores.cloud_store import CloudStore
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.stores.listed_area import list_area
from headrace.stores.listings import ListedFolders
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import relative_path, storage_path
from headrace.stores.snapshot import Snapshot
from headrace.stores.snapshot_store import SnapshotStore
from headrace.stores.snapshots import asking_once, reading_afresh, reading_snapshot

ROOT = "s3a://lake"
LISTED_LOG = "list all shop/tables/s/t/_delta_log"
STATE = re.compile(r"[^/]+/state/")
NAMES = st.lists(st.sampled_from(["a", "b", "state", "0", "_delta_log", "c.json"]), min_size=1, max_size=4)


class CountingStore(CloudStore):
    """Counts what reaches the bucket."""

    def __init__(self):
        super().__init__(ROOT, MemoryStore())
        self.requests = []

    def get(self, key):
        self.requests.append(f"get {key}")
        return super().get(key)

    def head(self, key):
        self.requests.append(f"head {key}")
        return super().head(key)

    def list_folder(self, folder):
        self.requests.append(f"list {folder}")
        return super().list_folder(folder)

    def list_pages(self, folder, after=None):
        for page in super().list_pages(folder, after):
            self.requests.append(f"list all {folder}")
            yield page

    def made(self):
        made, self.requests = self.requests, []
        return made


@pytest.fixture
def store(monkeypatch):
    store = CountingStore()
    monkeypatch.setattr("headrace.stores.paths.open_store", lambda _uri: store)
    add_connection(ROOT, StoreConnection)
    return store


def listed(cache=None):
    return ListedFolders("shop", ("shop/checkpoints",), STATE, cache)


def snapshot_of(store, cache=None, place="here"):
    return SnapshotStore(Snapshot(store, listed(cache), place))


@given(st.sets(NAMES.map("/".join), max_size=8), NAMES.map("/".join))
def test_a_snapshot_answers_as_the_bucket(names, asked):
    store = CloudStore(ROOT, MemoryStore())
    for name in sorted(names):
        if not any(other != name and other.startswith(f"{name}/") for other in names):
            store.put(f"shop/checkpoints/{name}", name.encode())
            store.put(f"shop/tables/{name}", b"" if name.endswith("a") else name.encode())

    for folder in ("shop", "shop/checkpoints", f"shop/checkpoints/{asked}", f"shop/tables/{asked}", "elsewhere"):
        answers = []
        for one in (store, snapshot_of(store)):
            path = ObjectPath(ROOT, folder, one)
            globbed = [sorted(str(relative_path(p, path)) for p in path.glob(text)) for text in ("*", "*/*", "a/*/b")]
            content = path.read_bytes() if path.is_file() else None
            answers.append((path.exists(), path.is_dir(), content, globbed))
        assert answers[0] == answers[1]


def test_a_second_snapshot_reads_only_what_changed(store, tmp_path):
    for name in ("a", "b"):
        store.put(f"shop/checkpoints/{name}", b"old")
    first = snapshot_of(store, tmp_path / "cache")
    assert [first.get(f"shop/checkpoints/{name}")[0] for name in ("a", "b", "a")] == [b"old"] * 3
    first.end()
    store.put("shop/checkpoints/b", b"new")
    store.made()

    second = snapshot_of(store, tmp_path / "cache")

    assert [second.get(f"shop/checkpoints/{name}")[0] for name in ("a", "b")] == [b"old", b"new"]
    assert store.made() == ["list shop", "list all shop/checkpoints", "get shop/checkpoints/b"]


def damaged(cache):
    cache.write_bytes(cache.read_bytes()[:5000])


def garbled(cache):
    cache.write_bytes(b"no database")


def overwritten(cache):
    with sqlite3.connect(cache) as database:
        database.execute("UPDATE objects SET content = ?", (b"forged",))


def of_another_version(cache):
    with sqlite3.connect(cache) as database:
        database.execute("PRAGMA user_version = 99")


def is_a_folder(cache):
    cache.unlink()
    cache.mkdir()


@pytest.mark.parametrize("harm", [damaged, garbled, overwritten, of_another_version, is_a_folder])
def test_a_cache_that_cannot_be_trusted_costs_requests_and_no_answers(store, tmp_path, harm):
    cache = tmp_path / "cache"
    keys = [f"shop/checkpoints/{number}" for number in range(50)]
    for key in keys:
        store.put(key, key.encode() * 50)
    for harms in (False, True):
        if harms:
            harm(cache)
        for _ in range(2):
            snapshot = snapshot_of(store, cache)
            assert [snapshot.get(key)[0] for key in keys] == [key.encode() * 50 for key in keys]
            snapshot.end()


def test_the_cache_of_another_bucket_is_not_used(tmp_path):
    # Their objects have the same keys, sizes and tags.
    for place, content in (("here", b"1"), ("there", b"2"), ("here", b"1")):
        store = CountingStore()
        store.put("shop/checkpoints/a", content)
        snapshot = snapshot_of(store, tmp_path / "cache", place)
        assert snapshot.get("shop/checkpoints/a")[0] == content
        snapshot.end()


def test_an_object_that_changes_after_it_was_listed_is_not_kept_as_the_listed_one(store, tmp_path):
    store.put("shop/checkpoints/a", b"old")
    first = snapshot_of(store, tmp_path / "cache")
    assert first.head("shop/checkpoints/a").size_bytes == 3
    store.put("shop/checkpoints/a", b"newer")
    assert first.get("shop/checkpoints/a")[0] == b"newer"
    first.end()
    store.put("shop/checkpoints/a", b"newest")

    assert snapshot_of(store, tmp_path / "cache").get("shop/checkpoints/a")[0] == b"newest"


def test_folders_with_many_objects_are_passed_over():
    store = CountingStore()
    for number in range(2500):
        store.put(f"shop/checkpoints/a/state/{number}", b"x")
    for key in ("a/offsets/1", "a/state~/1", "b/offsets/1"):
        store.put(f"shop/checkpoints/{key}", b"x")

    area = list_area(store, "shop/checkpoints", STATE)

    assert len(store.made()) == 2
    assert [*area.objects] == [f"shop/checkpoints/{key}" for key in ("a/offsets/1", "a/state~/1", "b/offsets/1")]
    assert area.has("shop/checkpoints/a/state") is True
    assert area.list_folder("shop/checkpoints/a/state") is None


def test_contexts_read_one_snapshot_until_they_end_or_something_is_written(store):
    store.put("shop/checkpoints/a", b"old")
    store.put("shop/b", b"old")

    def contents():
        return [storage_path(f"{ROOT}/shop/{name}").read_bytes() for name in ("checkpoints/a", "b")]

    with reading_snapshot(ROOT, listed()):
        kept = storage_path(f"{ROOT}/shop/checkpoints/a")
        with asking_once():
            assert contents() == [b"old"] * 2
            for name in ("checkpoints/a", "b"):
                store.put(f"shop/{name}", b"new")
            assert contents() == [b"old"] * 2
            with reading_afresh():
                assert contents() == [b"new"] * 2
        # What no listing shows is asked for again.
        assert contents() == [b"old", b"new"]
        storage_path(f"{ROOT}/shop/c").write_bytes(b"own")
        assert contents() == [b"new"] * 2
        assert storage_path(f"{ROOT}/shop/c").exists()
    store.put("shop/checkpoints/a", b"newest")

    assert kept.read_bytes() == contents()[0] == b"newest"


class Log:
    """A table on a disk whose log is uploaded to a bucket."""

    def __init__(self, store, folder):
        self.store = store
        self.folder = folder

    def append(self, commits=1, *, checkpoint=False):
        for _ in range(commits):
            rows = pa.table({"id": pa.array([1], pa.int32())})
            version = DeltaTable(self.folder).version() + 1 if DeltaTable.is_deltatable(str(self.folder)) else 0
            properties = CommitProperties(app_transactions=[Transaction("app", version)])
            write_deltalake(self.folder, rows, mode="append", commit_properties=properties)
        if checkpoint:
            DeltaTable(self.folder).create_checkpoint()
        self.upload()

    def upload(self):
        for file in (self.folder / "_delta_log").iterdir():
            key = f"shop/tables/s/t/_delta_log/{file.name}"
            if self.store.put_if_absent(key, file.read_bytes()) is None and file.name == "_last_checkpoint":
                self.store.put(key, file.read_bytes())

    def replace(self):
        rmtree(self.folder)
        self.store.delete_below("shop/tables/s/t")

    def state(self, cache):
        """Id, version and transaction as a new snapshot has them."""
        snapshot = Snapshot(self.store, listed(cache), "here")
        try:
            table = snapshot.table("shop/tables/s/t/_delta_log")
            return None if table is None else (table.metadata().id, table.version(), table.transaction_version("app"))
        finally:
            snapshot.close()

    def expected(self):
        table = DeltaTable(self.folder)
        return table.metadata().id, table.version(), table.version()


@pytest.fixture
def log(store, tmp_path):
    return Log(store, tmp_path / "table")


def test_a_copy_of_a_log_says_what_the_log_says(log, store, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.stores.table_logs.MAX_COMMITS", 5)
    cache = tmp_path / "cache"
    for commits, checkpoint, expected in ((2, False, 2), (1, True, 1), (1, False, 1), (3, True, 1), (1, False, 1)):
        log.append(commits, checkpoint=checkpoint)
        store.made()
        assert log.state(cache) == log.expected()
        # The commits that are new, or a checkpoint in place of many.
        assert len([request for request in store.made() if request.startswith("get")]) == expected
        assert log.state(cache) == log.expected()
        assert store.made() == [*(f"list shop{folder}" for folder in ("", "/tables", "/tables/s")), LISTED_LOG]


def test_a_copy_without_a_cache_starts_at_the_newest_checkpoint(log, store, tmp_path):
    log.append(3, checkpoint=True)
    log.append()
    store.made()

    assert log.state(None) == log.expected()
    names = [request.rpartition("/")[2] for request in store.made() if request.startswith("get")]
    assert names == [f"{2:020d}.checkpoint.parquet", f"{3:020d}.json"]


@pytest.mark.parametrize("commits", [1, 3, 5])
def test_a_table_that_was_made_again_is_not_taken_for_the_one_before(log, tmp_path, commits):
    cache = tmp_path / "cache"
    log.append(3, checkpoint=True)
    before = log.state(cache)
    log.replace()
    log.append(commits)

    assert log.state(cache) == log.expected() != before


def test_a_log_that_was_cleaned_up_is_read_from_what_is_left(log, store, tmp_path):
    cache = tmp_path / "cache"
    log.append(2)
    assert log.state(cache) == log.expected()
    log.append(2, checkpoint=True)
    log.append()
    for version in range(3):
        store.delete(f"shop/tables/s/t/_delta_log/{version:020d}.json")

    assert log.state(cache) == log.expected()


def test_a_table_that_is_deleted_while_it_is_read_has_no_copy(log, store, tmp_path):
    log.append(2)
    snapshot = Snapshot(store, listed(), "here")
    snapshot.listings.list_logs(["shop/tables/s/t/_delta_log"])
    log.replace()
    log.append(1)

    assert snapshot.table("shop/tables/s/t/_delta_log") is None


def test_a_commit_after_the_listing_is_in_the_next_snapshot(log, store, tmp_path):
    log.append()
    snapshot = Snapshot(store, listed(), "here")
    snapshot.listings.list_logs(["shop/tables/s/t/_delta_log"])
    log.append()

    assert snapshot.table("shop/tables/s/t/_delta_log").version() == 0
    assert log.state(None) == log.expected()

"""Renames in an object store: copies, of which all count or none, wherever a crash comes."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from headrace.model.names import Naming, QualifiedName
from headrace.plan.renames import Rename, RenameKind
from headrace.settings.storage import StorageLayout
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.inventory import flows_of
from headrace.storage.renaming import RelocatedLayout, StoredRenames
from headrace.stores.cloud_store import CloudStore
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.stores.paths import storage_path

NAMING, ROOT = Naming(), "s3a://lake"
OLD, NEW = QualifiedName("old"), QualifiedName("new", "mart")
DATASET = Rename(RenameKind.DATASET, str(OLD), str(NEW), NEW, OLD)
FLOW = Rename(RenameKind.FLOW, "north", "region", NEW, OLD)
LAYOUT = StorageLayout(f"{ROOT}/shop")
SEEN = RelocatedLayout(LAYOUT.root, datasets={NEW: OLD}, flows_before={"region": "north"})


class DiedError(Exception):
    """What a crash is here."""


class DyingStore(CloudStore):
    """A bucket whose process dies after some changes."""

    left = 1_000_000

    def put(self, key, content):
        self._change()
        return super().put(key, content)

    def copy(self, source, target):
        self._change()
        super().copy(source, target)

    def delete(self, *keys):
        for key in keys:
            self._change()
            super().delete(key)

    def _change(self):
        self.left -= 1
        if self.left < 0:
            raise DiedError


@pytest.fixture
def store(monkeypatch):
    """A storage with a table of several files, its quarantine, its own flow in epoch 3 and another one."""
    store = DyingStore(ROOT, MemoryStore())
    add_connection(ROOT, StoreConnection)
    monkeypatch.setattr("headrace.stores.paths.open_store", lambda _: store)
    monkeypatch.setattr("headrace.stores.parallel._PARALLEL", 1)
    for folder in (LAYOUT.table(NAMING, OLD), LAYOUT.quarantine(NAMING, OLD)):
        for name in ("_delta_log/0.json", "_delta_log/1.json", "a.parquet", "b.parquet"):
            (storage_path(folder) / name).write_bytes(f"{folder}/{name}".encode())
    for flow in ("old", "north"):
        write_record(storage_path(LAYOUT.flow_state(NAMING, OLD, flow)), FlowRecord(epoch=3))
        for name in ("metadata", "offsets/0", "commits/0"):
            (storage_path(LAYOUT.checkpoint(NAMING, OLD, flow, 3)) / name).write_bytes(b"x")
    return store


def update():
    """What an update does with the lease, before it starts flows."""
    renames = StoredRenames(LAYOUT, NAMING)
    renames.finish()
    assert [renames.conflict(rename) for rename in (DATASET, FLOW)] == [None, None]
    for rename in (DATASET, FLOW):
        if renames.is_pending(rename):
            renames.apply(rename, lambda: None)
    return renames


def pieces(layout):
    """The objects of each piece under the new names, by their paths in the piece."""
    folders = [layout.table(NAMING, NEW), layout.quarantine(NAMING, NEW)]
    folders += [layout.checkpoint(NAMING, NEW, flow, 3) for flow in (str(NEW), "region")]
    found = [storage_path(folder) for folder in folders]
    return [sorted(str(path).removeprefix(str(folder)) for path in folder.rglob("*")) for folder in found]


def test_what_counts_is_whole_wherever_a_rename_dies_and_the_next_update_completes_it(store):
    before, deaths = pieces(SEEN), 0
    content = {meta.key: store.get(meta.key)[0] for page in store.list_pages("") for meta in page}
    assert [len(piece) for piece in before] == [4, 4, 3, 3]
    while True:
        store.left = 1_000_000
        store.delete_below("")
        for key, value in content.items():
            store.put(key, value)
        store.left = deaths
        try:
            update()
        except DiedError:
            store.left = 1_000_000
        else:
            break
        assert pieces(SEEN) == before, deaths
        store.left = 1_000_000
        renames = update()
        assert pieces(LAYOUT) == before, deaths
        assert [renames.is_pending(rename) for rename in (DATASET, FLOW)] == [False, False]
        assert not [
            meta.key for page in store.list_pages("") for meta in page if "moves" in meta.key or "/old" in meta.key
        ]
        deaths += 1

    assert deaths > 50
    assert {flow.name for flow in flows_of(LAYOUT, NAMING, NEW)} == {"mart.new", "region"}
    assert read_record(storage_path(LAYOUT.flow_state(NAMING, NEW, "region"))).identity == "north"


def test_a_rename_that_is_withdrawn_after_a_crash_leaves_nothing_under_the_new_name(store):
    before = sorted(meta.key for page in store.list_pages("") for meta in page)
    store.left = 5
    with pytest.raises(DiedError):
        StoredRenames(LAYOUT, NAMING).apply(DATASET, lambda: None)
    store.left = 1_000_000

    StoredRenames(LAYOUT, NAMING).finish()

    assert sorted(meta.key for page in store.list_pages("") for meta in page) == before


def test_a_new_name_that_already_has_state_is_a_conflict(store):
    (storage_path(LAYOUT.table(NAMING, NEW)) / "_delta_log/0.json").write_bytes(b"{}")

    assert StoredRenames(LAYOUT, NAMING).conflict(DATASET) == LAYOUT.table(NAMING, NEW)

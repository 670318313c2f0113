"""What of a storage on Azure needs no Spark: conditional writes, the lease by the store's clock, tables of delta-rs."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.project.lease import Lease
from headrace.project.lease_holders import LeaseTiming, liveness
from headrace.stores.connections import add_connection, delta_options
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path

pytestmark = pytest.mark.long(guard="tests/unit/stores/test_s3.py::test_the_store_decides_between_writers")


@pytest.fixture
def storage(azure):
    root = azure.make_container(f"lake-{uuid.uuid4().hex[:12]}")
    add_connection(root, lambda: azure.connection)
    return storage_path(f"{root}/shop")


def test_azure_decides_between_writers(storage):
    tag = storage.store.put("shop/a", b"old")
    with ThreadPoolExecutor(4) as threads:
        created = list(threads.map(lambda number: storage.store.put_if_absent("shop/new", b"%d" % number), range(4)))
        replaced = list(threads.map(lambda number: storage.store.put_if_tag("shop/a", b"%d" % number, tag), range(4)))

    assert [sum(map(bool, tags)) for tags in (created, replaced)] == [1, 1]
    assert [meta.key for page in storage.store.list_pages("shop", "shop/a") for meta in page] == ["shop/new"]


def test_a_dead_holder_on_another_host_is_seen_by_azures_clock(storage):
    file = storage / "lease.json"
    with Lease(file, "here", lambda: 1000.0, timing=LeaseTiming(60.0, 60.0)):
        found = [liveness(file, "there", lambda: 4e9, timing=LeaseTiming(1.0, limit)) for limit in (60.0, 0.0)]

    assert [one.is_held for one in found] == [True, False]


def test_of_all_commits_by_several_writers_none_is_lost(storage):
    path = f"{storage}/tables/orders"
    write_deltalake(path, pa.table({"id": [-1]}), storage_options=delta_options(path))

    def append(writer):
        for number in range(5):
            rows = pa.table({"id": [10 * writer + number]})
            write_deltalake(path, rows, mode="append", storage_options=delta_options(path))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(append, range(3)))

    table = open_delta(path)
    assert table.version() == 15
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [
        -1,
        *sorted(10 * writer + number for writer in range(3) for number in range(5)),
    ]

"""A storage on S3 behind a network that fails: nothing is lost, and nothing is written twice."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.servers.faulty_proxy import Fault, running_proxy

from headrace.delta_log.append import Appended, TableAppender
from headrace.delta_log.tables import open_table, query_rows
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import UpdateCreated
from headrace.project.lease import Lease
from headrace.project.lease_holders import LeaseTiming
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection, delta_options
from headrace.stores.paths import storage_path


@pytest.fixture(scope="module")
def network(s3):
    with running_proxy(s3.url) as proxy:
        yield proxy


@pytest.fixture
def storage(s3, network, monkeypatch):
    """A storage in a bucket of its own, which libraries reach through the network."""
    for name, value in {**s3.environ, "AWS_ENDPOINT_URL": network.url}.items():
        monkeypatch.setenv(name, value)
    root = f"s3a://{s3.make_bucket(f'lake-{uuid.uuid4().hex[:12]}')}"
    add_connection(root, lambda: replace(StoreConnection.of_environment(s3.environ), endpoint=network.url))
    return storage_path(f"{root}/shop")


@pytest.mark.parametrize("fault", Fault)
def test_a_conditional_write_is_no_rival_of_itself(storage, network, fault):
    store = storage.store
    network.fail(fault, "PUT", "/shop/new")
    network.fail(fault, "PUT", "/shop/again")
    old = store.put("shop/other", b"old")
    network.fail(fault, "PUT", "/shop/other")

    tags = [store.put_if_absent("shop/new", b"mine"), store.put_if_tag("shop/other", b"mine", old)]

    assert tags == [store.head("shop/new").tag, store.head("shop/other").tag]
    assert [store.put_if_absent("shop/new", b"other"), store.put_if_tag("shop/other", b"x", old)] == [None, None]
    assert network.injected()[fault] == 2


@pytest.mark.parametrize("fault", Fault)
def test_reads_and_listings_are_asked_again(storage, network, fault):
    storage.store.put("shop/one", b"1")
    network.fail(fault, "GET", "/shop/one")
    network.fail(fault, "GET", "list-type")

    assert [path.read_bytes() for path in storage.iterdir()] == [b"1"]
    assert network.injected()[fault] == 2


def test_a_lease_is_held_on_although_an_answer_is_lost(storage, network):
    network.fail(Fault.LOST, "PUT", "lease.json", times=3)

    with Lease(storage / "lease.json", "here", lambda: 1000.0, timing=LeaseTiming(0.05, 2.0)) as held:
        while not network.injected()[Fault.LOST]:
            held.check()
        held.check()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.BUSY])
def test_events_are_appended_once(storage, network, fault):
    ids, clock = count(), datetime(2026, 1, 1, tzinfo=UTC)
    network.fail(fault, "PUT", "_delta_log/0*[1-3].json", times=2)

    with EventLog(
        f"{storage}/system/events",
        origin=Origin("p", "shop", "u1"),
        clock=lambda: clock + timedelta(seconds=next(ids)),
        new_id=lambda: f"{next(ids):08}",
    ) as log:
        for cause in ("USER_ACTION", "SCHEDULE", "RETRY"):
            log.emit(UpdateCreated(cause=cause))
            log.flush()

    causes = [row["details"] for row in EventReader(f"{storage}/system/events").events()]
    assert len(causes) == 3
    assert network.injected()[fault] == 2


@pytest.mark.parametrize("fault", Fault)
def test_rows_of_small_batches_are_appended_once(storage, network, fault):
    path, names = f"{storage}/tables/t", count()
    write_deltalake(path, pa.table({"id": pa.array([], pa.int64())}), storage_options=delta_options(path))
    network.fail(fault, "PUT", "_delta_log/0*[1-3].json", times=2)
    network.fail(fault, "PUT", "/tables/t/part-")

    appender = TableAppender(path, "flow", lambda: 1, lambda: f"{next(names):08}")
    done = [appender.append(pa.table({"id": [version]}), version) for version in (0, 1, 1, 2)]

    assert done == [Appended.WRITTEN, Appended.WRITTEN, Appended.REPEATED, Appended.WRITTEN]
    assert sorted(row["id"] for row in query_rows(open_table(path), "SELECT id FROM q")) == [0, 1, 2]
    assert network.injected()[fault] == 3

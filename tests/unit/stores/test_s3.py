"""What a storage on S3 needs of a server that speaks its protocol: conditional writes, the event log, the lease."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from headrace.autoloader.ledger.segments import Segment, SegmentLog
from headrace.errors import PipelineError
from headrace.events.envelope import Origin
from headrace.events.log import COMPACT_ABOVE_OBJECTS, EventLog
from headrace.events.reader import EventReader
from headrace.events.types import UpdateCreated
from headrace.model.outcome import UpdateState
from headrace.project.lease import Lease
from headrace.project.lease_files import LeaseTaken, ObjectLeaseFile
from headrace.project.lease_holders import Holder, LeaseTiming, Process, latest_outcome, liveness
from headrace.project.requests.request import Action, Asker, Request
from headrace.project.requests.request_file import RequestFile
from headrace.project.scheduling.pauses import read_pauses, write_pause
from headrace.project.scheduling.state_file import Replaced, state_file
from headrace.schedules.due import Pause
from headrace.schedules.state import State
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.moves import Moves, has_content
from headrace.stores.connections import add_connection, connection_of
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path
from headrace.stores.uris import StoreUri

FAST = LeaseTiming(renew_every_s=0.05, expires_after_s=2.0)


@pytest.fixture
def storage(lake):
    """A storage in a bucket of its own."""
    return storage_path(f"{lake}/shop")


def lease(storage, host, **options):
    return Lease(storage / "lease.json", host, lambda: 1000.0, timing=FAST, **options)


def test_the_store_decides_between_writers(storage):
    tag = storage.store.put("shop/a", b"old")
    with ThreadPoolExecutor(4) as threads:
        created = list(threads.map(lambda number: storage.store.put_if_absent("shop/new", b"%d" % number), range(4)))
        replaced = list(threads.map(lambda number: storage.store.put_if_tag("shop/a", b"%d" % number, tag), range(4)))

    assert [sum(map(bool, tags)) for tags in (created, replaced)] == [1, 1]


def test_a_record_of_a_flow_is_read_as_it_was_written(storage):
    write_record(storage / "flow.json", FlowRecord(epoch=3, flow="orders"))

    assert read_record(storage / "flow.json").epoch == 3


def test_of_several_writers_of_a_segment_of_a_ledger_one_wins(storage):
    log = SegmentLog(storage / "id.ledger", "id")
    segments = [Segment("id", 1, f"{number}", "", 0, {}, {}) for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        tags = list(threads.map(log.append, segments))

    (winner,) = [segment for segment, tag in zip(segments, tags, strict=True) if tag]
    assert log.read_after(0, "", log.listing()) == [winner]


def test_one_process_holds_the_lease(storage):
    with lease(storage, "here") as held:
        with pytest.raises(PipelineError) as raised, lease(storage, "there"):
            pass
        held.check()

    assert (raised.value.code, raised.value.params["host"]) == ("LEASE.HELD", "here")

    with lease(storage, "there") as next_one:
        assert next_one.number == held.number + 1


def test_a_holder_that_was_replaced_must_not_commit(storage):
    with lease(storage, "here") as held:
        document = (storage / "lease.json").read_text()
        (storage / "lease.json").write_bytes(document.replace('"number": 1', '"number": 2').encode())

        with pytest.raises(PipelineError) as raised:
            held.check()

    assert raised.value.code == "LEASE.LOST"
    # Nor is the lease of the other one released.
    assert '"number": 2' in (storage / "lease.json").read_text()


def test_a_holder_that_reads_of_its_successor_cannot_replace_it(storage):
    first, second = (ObjectLeaseFile(storage / "lease.json") for _ in range(2))
    first.write(holder := Holder(1, "here", Process(1, 1.0), None, 1.0, 1.0))
    second.read()
    second.write(replace(holder, number=2, host="there"))

    # Another thread checks the lease between the renewer's own check and its write.
    assert first.read().number == 2
    with pytest.raises(LeaseTaken):
        first.write(replace(holder, renewed_at=2.0))


def test_a_dead_holder_on_another_host_is_seen_by_the_clock_of_the_store(storage):
    document = '{"number": 4, "host": "gone", "python": {"pid": 1, "started_at": 1.0}, "jvm": null, '
    document += '"held_since": 1.0, "renewed_at": 4000000000.0, "released": false}'
    (storage / "lease.json").write_bytes(document.encode())

    # Its own time says that it was renewed in the future.
    found = [
        liveness(storage / "lease.json", "here", lambda: 1000.0, timing=LeaseTiming(1.0, limit))
        for limit in (60.0, 0.0)
    ]

    assert [one.is_held for one in found] == [True, False]


def event_log(storage):
    ids, clock = count(), datetime(2026, 1, 1, tzinfo=UTC)
    return EventLog(
        f"{storage}/system/events",
        origin=Origin(pipeline_id="p", pipeline_name="shop", update_id="u1"),
        clock=lambda: clock + timedelta(seconds=next(ids)),
        new_id=lambda: f"{next(ids):08}",
    )


def test_a_log_in_a_bucket_has_few_files_and_a_checkpoint(storage):
    """Guards what a reader of a log costs: a request for each file, and for each commit behind the checkpoint."""
    with event_log(storage) as log:
        for _ in range(COMPACT_ABOVE_OBJECTS + 1):
            log.emit(UpdateCreated(cause="USER_ACTION"))

    assert len(open_delta(f"{storage}/system/events").file_uris()) == 1
    assert (storage / "system/events/_delta_log/_last_checkpoint").exists()
    assert len(list(EventReader(f"{storage}/system/events").events())) == COMPACT_ABOVE_OBJECTS + 1


def test_the_event_log_is_written_and_read(storage):
    with event_log(storage) as log:
        log.emit(UpdateCreated(cause="USER_ACTION"))

    reader = EventReader(f"{storage}/system/events")
    assert [row["event_type"] for row in reader.events()] == ["create_update"]
    lost = latest_outcome(reader.outcome, storage / "lease.json", "here", lambda: 1000.0)
    assert lost is None or lost.state is UpdateState.LOST


def test_a_bucket_that_does_not_exist_is_named_in_the_words_of_the_server(lake):
    add_connection(f"{lake}-gone", lambda: connection_of(StoreUri.parse(lake)))

    with pytest.raises(OSError, match=r"NoSuchBucket"):
        storage_path(f"{lake}-gone/shop").is_dir()


def test_hadoops_markers_of_folders_do_not_block_a_move(storage, s3):
    bucket = storage.root.removeprefix("s3a://")
    for folder in ("old", "old/0", "new"):
        s3.client().put_object(Bucket=bucket, Key=f"shop/{folder}/")
    (storage / "old" / "0" / "offsets" / "0").write_bytes(b"v1")

    assert not Moves(storage).is_blocked(storage / "old", storage / "new")
    assert Moves(storage).move(storage / "old", storage / "new")
    assert (storage / "new" / "0" / "offsets" / "0").read_bytes() == b"v1"
    assert not has_content(storage / "old")


def test_a_scheduler_that_was_replaced_writes_no_state_into_a_bucket(storage):
    """Guards the state of schedules where no lock excludes an old scheduler: the store compares, and numbers decide."""
    file = storage / "system/serve/schedules.json"
    old, new = state_file(file), state_file(file)
    assert (old.read(), new.read()) == (State(), State())
    old.write(State(leader=1))

    new.write(State(leader=2, storage="new"))

    with pytest.raises(Replaced):
        old.write(State(leader=1, storage="late"))
    assert state_file(file).read() == State(leader=2, storage="new")
    # One with a lower number that came in between does not count.
    late = state_file(file)
    late.read()
    late.write(State(leader=1, storage="late"))
    new.write(State(leader=2, storage="again"))
    assert state_file(file).read().storage == "again"


def test_a_server_whose_lease_was_taken_writes_no_requests_into_a_bucket(storage):
    """Guards the requests of users where no lock excludes an old server: the store compares."""
    path = storage / "system/serve/requests.json"
    asked = Request("r1", Action("run"), Asker("ann", ""), 1000.0)
    with lease(storage, "a") as held:
        old, new = (RequestFile(path, "s3a://lake/shop", "a", held) for _ in range(2))
        assert (old.read(), new.read()) == ((False, {}), (False, {}))
        old.write([asked])
        with pytest.raises(PipelineError) as late:
            new.write([])
        new.read()
        new.write([asked, replace(asked, id="r2")])
        with pytest.raises(PipelineError) as caught:
            old.write([])
        is_copy, found = RequestFile(path, "s3a://lake/shop", "a", held).read()

    assert (late.value.code, caught.value.code) == ("LEASE.LOST", "LEASE.LOST")
    assert (is_copy, set(found)) == (False, {"r1", "r2"})


def test_pauses_of_two_processes_are_both_kept_in_a_bucket(storage):
    """Guards the writes of several users: each reads what the other has written."""
    file = storage / "system/serve/pauses.json"
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda n: write_pause(file, f"s{n}", Pause(is_paused=True, at=float(n))), range(4)):
            pass

    assert {name: pause.at for name, pause in read_pauses(file).items()} == {f"s{n}": float(n) for n in range(4)}

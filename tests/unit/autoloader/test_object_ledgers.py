"""Ledgers in an object store: segments decide, whatever becomes of the cache on this machine or of single objects."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore
from tests.tiers import examples

from headrace.autoloader.discovery import Clock
from headrace.autoloader.ledger import object_ledger
from headrace.autoloader.ledger.file_states import file_states, prune_files, record_cleaned
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.positions import files_up_to, offset_problem
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.ledger.stored_ledgers import copy_ledgers, create_ledger, has_ledger, open_ledger
from headrace.autoloader.pending_files import auto_loader_backlog, auto_loader_changes
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError
from headrace.storage.positions import source_positions
from headrace.stores.cloud_store import CloudStore
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.stores.local_caches import set_cache_folder
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import storage_path

CLOCK = Clock(time.time_ns, time.sleep)
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
ROOT, STORAGE = "s3a://lake", "s3a://lake/shop"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """The storage's bucket, in memory."""
    store = CloudStore(ROOT, MemoryStore())
    add_connection(ROOT, StoreConnection)
    monkeypatch.setattr("headrace.stores.paths.open_store", lambda _: store)
    use_machine(tmp_path / "here")
    return store


@pytest.fixture
def source(bucket, data):
    root = ObjectPath(ROOT, "shop/auto_loader/0", bucket)
    return prepare({"cloudFiles.format": "json"}, str(data), SCHEMA, Place(root / "_ledgers", None, time.time_ns()))


@pytest.fixture
def update(data, source):
    """An update that reads a new file behind an offset; where it ends."""
    names = iter("abcdefghijklm")

    def done(start=None):
        land(data / f"{next(names)}.json")
        with closing(FileStream(source, CLOCK)) as stream:
            end = stream.latest(start or stream.initial(), everything=True)
            assert stream.work(start or end, end) or start is None
            stream.committed(end)
        return end

    return done


def use_machine(folder):
    """From now on, be the machine whose caches are in a folder."""
    set_cache_folder(STORAGE, str(folder))


def land(file):
    file.write_text(json.dumps({"id": 1}))
    os.utime(file, (time.time() - 60,) * 2)


def objects(bucket):
    return {meta.key: bucket.get(meta.key)[0] for page in bucket.list_pages("") for meta in page}


def restore(bucket, content):
    bucket.delete_below("")
    for key, value in content.items():
        bucket.put(key, value)


def code_of(call, *arguments):
    with pytest.raises(PipelineError) as raised:
        call(*arguments)
    return raised.value.code.removeprefix("AUTO_LOADER.")


def names(ledger, after=0):
    return [file.path.rpartition("/")[2] for file in ledger.files(after, ledger.last_number)]


def add(ledger, *files, now_ms=0):
    found = [("/d", FoundFile(name, 1, 1)) for name in files]
    return SeenFiles(ledger).record(found, {}, now_ms=now_ms, allow_overwrites=False)


def cache_of(tmp_path, end):
    return tmp_path / "here" / "ledgers" / f"{end.ledger}.ledger"


def without_last(bucket, old):
    bucket.delete(max(objects(bucket)))


def without_middle(bucket, old):
    bucket.delete(sorted(objects(bucket))[2])


def without_all(bucket, old):
    bucket.delete_below("")


def restored(bucket, old):
    restore(bucket, old)


def torn(bucket, old):
    bucket.put(max(objects(bucket)), b"\x1f\x8b")


def mixed(bucket, old):
    """An older copy that went on elsewhere, with the newest segments of this one."""
    new = objects(bucket)
    restore(bucket, old)
    with closing(
        open_ledger(
            ObjectPath(ROOT, next(iter(old)).partition("_ledgers")[0] + "_ledgers", bucket),
            next(iter(old)).split("/")[-2].removesuffix(".ledger"),
        )
    ) as ledger:
        add(ledger, "other")
        ledger.flush()
    for key in new.keys() - objects(bucket).keys():
        bucket.put(key, new[key])


def another(bucket, old):
    root = ObjectPath(ROOT, "shop/others", bucket)
    create_ledger(root).close()
    (other,) = [value for key, value in objects(bucket).items() if key.startswith("shop/others")]
    bucket.delete_below("shop/others")
    bucket.put(min(objects(bucket)), other)


@pytest.mark.parametrize("machine", ["here", "there"])
@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (without_last, "LEDGER_OLDER"),
        (restored, "LEDGER_OLDER"),
        (without_middle, "LEDGER_DAMAGED"),
        (torn, "LEDGER_DAMAGED"),
        (mixed, "LEDGER_DAMAGED"),
        (another, "LEDGER_OF_ANOTHER"),
        (without_all, "LEDGER_MISSING"),
    ],
)
def test_a_lost_or_restored_segment_stops_the_stream_on_each_machine(
    bucket, source, data, update, tmp_path, harm, code, machine
):
    end = update(update())
    old = objects(bucket)
    end = update(end)
    # The newest segment has the file that Spark plans next, and no commit follows.
    land(data / "z.json")
    with closing(FileStream(source, CLOCK)) as stream:
        end = stream.latest(end, everything=True)
    harm(bucket, old)
    use_machine(tmp_path / machine)

    if harm in (without_middle, another) and machine == "here":
        # This machine has read the harmed segment before, and needs it no more.
        shutil.rmtree(tmp_path / "here")
    with closing(FileStream(source, CLOCK)) as stream:
        found = code_of(lambda: stream.latest(end, everything=True))

    assert (found, offset_problem(source.ledgers, end.to_json()).code) == (code, f"AUTO_LOADER.{code}")
    assert "headrace " in offset_problem(source.ledgers, end.to_json()).hint
    assert auto_loader_changes(source, end.to_json(), time.time) is not None
    if code != "LEDGER_OLDER":
        assert auto_loader_backlog(source, end.to_json()) is None


def missing(file, old):
    shutil.rmtree(file.parent)


def older(file, old):
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()
    shutil.copy(old, file)


def overwritten(file, old):
    file.write_bytes(b"\x00" * file.stat().st_size)


def of_another_format(file, old):
    with closing(Ledger.open(file.parent, file.name.removesuffix(".ledger"))) as ledger:
        ledger.connection.execute("update cache set value = '0' where key = 'format'")
        ledger.connection.execute("delete from files")


def of_another_storage(file, old):
    with closing(Ledger.open(file.parent, file.name.removesuffix(".ledger"))) as ledger:
        ledger.connection.execute("update cache set value = 's3a://lake/copy' where key = 'folder'")
        ledger.connection.execute("delete from files")


def newer(file, old):
    """As after an update whose segment is not in the store any more."""
    with closing(Ledger.open(file.parent, file.name.removesuffix(".ledger"))) as ledger:
        ledger.connection.execute("update cache set value = value + 1 where key = 'number'")
        add(ledger, "lost")


@pytest.mark.parametrize("harm", [missing, older, overwritten, of_another_format, of_another_storage, newer])
def test_a_cache_that_is_not_of_the_newest_segment_is_made_again(source, update, tmp_path, harm):
    end = update()
    shutil.copy(cache_of(tmp_path, end), tmp_path / "old")
    end = update(end)

    harm(cache_of(tmp_path, end), tmp_path / "old")

    assert auto_loader_backlog(source, end.to_json()).files == 0
    later = update(end)
    assert (later.number, offset_problem(source.ledgers, later.to_json())) == (3, None)
    with closing(open_ledger(FileStream(source, CLOCK)._ledgers, end.ledger, read_only=True)) as ledger:
        assert names(ledger) == ["a.json", "b.json", "c.json"]


def test_a_cache_of_another_history_of_the_same_length_is_made_again(bucket, tmp_path):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    ledger = create_ledger(root)
    old = objects(bucket)
    add(ledger, "lost")
    ledger.flush()
    ledger.close()
    restore(bucket, old)
    use_machine(tmp_path / "there")
    with closing(open_ledger(root, ledger.id)) as other:
        add(other, "kept")
        other.flush()
    use_machine(tmp_path / "here")

    with closing(open_ledger(root, ledger.id)) as again:
        assert names(again) == ["kept"]


def test_another_machine_continues_where_this_one_stopped(source, update, tmp_path):
    end = update()
    for machine in ("there", "here", "there"):
        use_machine(tmp_path / machine)
        end = update(end)

    assert (end.number, auto_loader_changes(source, end.to_json(), time.time)) == (4, None)


def test_the_position_of_a_checkpoint_in_a_ledger_is_described(bucket, source, update):
    end = update(update())
    checkpoint = ObjectPath(ROOT, "shop/flow/0", bucket)
    for name, line in (("offsets/0", f"{{}}\n{json.dumps(end.to_json())}"), ("commits/0", "{}")):
        (checkpoint / name).write_bytes(f"v1\n{line}".encode())

    (found,) = source_positions(checkpoint, (), [storage_path(source.ledgers)])

    assert found.position == f"2 files read, the last one {source.path}/b.json"


def test_of_two_machines_that_write_one_stops_before_it_plans(bucket, source, data, update, tmp_path):
    end = update()
    stale = FileStream(source, CLOCK)
    stale.work(end, end)
    use_machine(tmp_path / "there")
    update(end)
    land(data / "x.json")

    with closing(stale), pytest.raises(PipelineError) as raised:
        stale.latest(end, everything=True)

    assert (raised.value.code, raised.value.condition.retry) == ("AUTO_LOADER.LEDGER_TAKEN", True)
    use_machine(tmp_path / "here")
    assert auto_loader_backlog(source, end.to_json()).files == 1


def test_files_that_were_found_and_not_published_get_numbers_elsewhere(bucket, tmp_path):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    ledger = create_ledger(root)
    add(ledger, "a", "c")
    # Killed before the segment is written.
    ledger.close()
    use_machine(tmp_path / "there")

    with closing(open_ledger(root, ledger.id)) as again:
        assert again.last_number == 0
        add(again, "b")
        again.flush()
    use_machine(tmp_path / "here")
    with closing(open_ledger(root, ledger.id)) as again:
        assert (names(again), again.last_number) == (["b"], 1)


def test_a_writer_whose_cache_was_made_again_beside_it_is_refused(bucket, tmp_path):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    stale = create_ledger(root)
    add(stale, "z")
    use_machine(tmp_path / "there")
    with closing(open_ledger(root, stale.id)) as other:
        add(other, "a")
        other.flush()
    use_machine(tmp_path / "here")
    with closing(open_ledger(root, stale.id, read_only=True)) as reader:
        assert names(reader) == ["a"]

    assert code_of(stale.flush) == "LEDGER_TAKEN"
    stale.close()


def test_a_file_that_was_found_before_a_kill_is_published_before_it_is_planned(source, data, update, tmp_path):
    end = update()
    with closing(open_ledger(FileStream(source, CLOCK)._ledgers, end.ledger)) as ledger:
        add(ledger, "found")
    later = FileStream(source, CLOCK).latest(end, everything=True)
    use_machine(tmp_path / "there")

    assert (later.number, offset_problem(source.ledgers, later.to_json())) == (2, None)


def test_segments_are_replaced_by_a_snapshot(bucket, source, update, tmp_path, monkeypatch):
    monkeypatch.setattr(object_ledger, "SEGMENTS_BEFORE_SNAPSHOT", 4)
    end = None
    for _ in range(6):
        end = update(end)
    kinds = [key.rpartition("/")[2].partition("-")[0] for key in objects(bucket)]

    assert (kinds.count("snapshot"), kinds.count("segment") < 8) == (1, True)
    use_machine(tmp_path / "there")
    assert update(end).number == 7


def test_a_writer_whose_number_was_replaced_by_a_snapshot_is_refused(bucket, tmp_path, monkeypatch):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    stale = create_ledger(root)
    use_machine(tmp_path / "there")
    monkeypatch.setattr(object_ledger, "SEGMENTS_BEFORE_SNAPSHOT", 2)
    with closing(open_ledger(root, stale.id)) as ledger:
        for name in "abcdef":
            add(ledger, name)
            ledger.flush()
    add(stale, "z")

    assert code_of(stale.flush) == "LEDGER_TAKEN"
    stale.close()
    use_machine(tmp_path / "here")
    with closing(open_ledger(root, stale.id)) as again:
        assert names(again) == list("abcdef")


def test_a_kill_between_a_snapshot_and_the_deletion_of_segments_does_no_harm(bucket, tmp_path, monkeypatch):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    monkeypatch.setattr(object_ledger, "SEGMENTS_BEFORE_SNAPSHOT", 2)
    monkeypatch.setattr(bucket, "delete", lambda *_: None)
    with closing(create_ledger(root)) as ledger:
        for name in "abcde":
            add(ledger, name)
            ledger.flush()
    use_machine(tmp_path / "there")

    with closing(open_ledger(root, ledger.id)) as again:
        assert names(again) == list("abcde")


def test_a_lost_snapshot_is_noticed(bucket, source, update, tmp_path, monkeypatch):
    monkeypatch.setattr(object_ledger, "SEGMENTS_BEFORE_SNAPSHOT", 2)
    end = update(update(update()))
    bucket.delete(*(key for key in objects(bucket) if "snapshot" in key))
    use_machine(tmp_path / "there")

    assert offset_problem(source.ledgers, end.to_json()).code == "AUTO_LOADER.LEDGER_DAMAGED"


def test_a_removed_ledger_is_gone(bucket):
    root = ObjectPath(ROOT, "shop/ledgers", bucket)
    ledger = create_ledger(root)
    assert has_ledger(root, ledger.id)

    ledger.remove()

    assert (objects(bucket), has_ledger(root, ledger.id)) == ({}, False)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from("abcdefghij"), max_size=4)),
        st.tuples(st.sampled_from(["commit", "clean", "prune"]), st.integers(1, 12)),
        st.tuples(st.sampled_from(["flush", "other machine", "other writer"]), st.integers(0, 2)),
    ),
    max_size=25,
)


@settings(max_examples=examples(few=15, many=200), deadline=None)
@given(steps=STEPS, before_snapshot=st.integers(1, 4))
def test_a_ledger_of_segments_equals_one_on_a_disk(tmp_path_factory, steps, before_snapshot):
    folder = tmp_path_factory.mktemp("machines")
    root = ObjectPath(ROOT, "shop/ledgers", CloudStore(ROOT, MemoryStore()))
    object_ledger.SEGMENTS_BEFORE_SNAPSHOT, usual = before_snapshot, object_ledger.SEGMENTS_BEFORE_SNAPSHOT
    use_machine(folder / "0")
    disk, stored = Ledger.create(folder), create_ledger(root)
    for now, (step, value) in enumerate(steps):
        if step in ("flush", "other machine", "other writer"):
            stored.flush()
        if step in ("other machine", "other writer"):
            stored.close()
            use_machine(folder / str(value))
            stored = open_ledger(root, stored.id)
        for ledger in (disk, stored):
            if step == "add":
                add(ledger, *value, now_ms=now)
            elif step == "commit":
                ledger.record_commit(value, now_ms=now)
            elif step == "clean":
                record_cleaned(ledger, [(value, None)], now_ms=now)
            elif step == "prune":
                prune_files(ledger, now, value)
    stored.flush()
    stored.close()
    use_machine(folder / "new")
    with closing(open_ledger(root, stored.id, read_only=True)) as again:
        found = (list(file_states(again)), again.last_number)
        assert found == (list(file_states(disk)), disk.last_number)
    disk.close()
    object_ledger.SEGMENTS_BEFORE_SNAPSHOT = usual


def test_a_copy_in_another_folder_has_the_same_files_and_goes_on_by_itself(bucket, source, update):
    first = update()
    root, target = storage_path(source.ledgers), ObjectPath(ROOT, "shop/production/_ledgers", bucket)

    for _ in range(2):
        copy_ledgers(root, target)
    second = update(first)

    then, now = first.to_json(), second.to_json()
    assert files_up_to([target], then) == files_up_to([root], then) != frozenset()
    # What is found later in the one folder is not in the other.
    assert len(files_up_to([root], now)) == 2
    assert len(files_up_to([target], now)) == 1

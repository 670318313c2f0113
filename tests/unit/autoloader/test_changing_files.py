"""Files that grow, or are replaced, while they are found and read: nothing of one is missed, nothing read of two."""

from __future__ import annotations

import gzip
import json
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.autoloader.discovery import OPEN_WRITER_TIMEOUT_S, Clock
from headrace.autoloader.evolution import rows_of
from headrace.autoloader.pending_files import auto_loader_changes, files_changed_since
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stores.open_writers import is_being_written, is_remote_mount
from headrace.autoloader.stream import FileStream, all_tasks
from headrace.errors import PipelineError

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class FakeClock:
    """Time from now on, that moves when somebody waits; may be told what happens meanwhile."""

    def __init__(self):
        self.later_s = 0.0
        self.meanwhile = lambda: None

    def sleep(self, seconds):
        self.later_s += seconds
        self.meanwhile()

    @property
    def clock(self):
        return Clock(lambda: time.time_ns() + int(self.later_s * 1e9), self.sleep)


@pytest.fixture
def passing():
    return FakeClock()


@pytest.fixture
def update(tmp_path, data, passing):
    """A stream of a process that has just begun."""

    def made(kind="json", **options):
        place = Place(tmp_path / "ledgers", tmp_path / "schemas", time.time_ns())
        given = {"cloudFiles.format": kind, **{f"cloudFiles.{name}": text for name, text in options.items()}}
        stream = FileStream(prepare(given, str(data), None if options else SCHEMA, place), passing.clock)
        stream.end_at_what_is_there()
        return stream

    return made


def lines(*ids):
    return "".join(json.dumps({"id": number}) + "\n" for number in ids)


def written(file, *ids, age_s=60.0):
    kinds = {
        ".json": lambda: file.write_text(lines(*ids)),
        ".gz": lambda: file.write_bytes(gzip.compress(lines(*ids).encode())),
    }
    kinds.get(file.suffix, lambda: pq.write_table(pa.table({"id": list(ids)}), file))()
    os.utime(file, (time.time() - age_s,) * 2)


def ids(stream, start, end):
    rows = (
        row for work in stream.work(start, end) for found in rows_of(stream._source, work) for row in found.to_pylist()
    )
    return sorted(int(row["id"]) for row in rows)


def test_a_file_with_an_open_writer_is_not_read(data, update, passing):
    stream = update()
    begin = stream.initial()
    with (data / "slow.json").open("w") as writer:
        writer.write(lines(1))
        writer.flush()
        passing.later_s = 100.0
        before = stream.latest(begin, everything=True)
        writer.write(lines(2))
    after = update().latest(begin, everything=True)

    assert before == begin
    assert ids(update(), begin, after) == [1, 2]


def test_a_file_is_read_after_its_writer_exceeds_the_open_timeout(data, update, passing):
    stream = update()
    begin = stream.initial()
    with (data / "slow.json").open("w") as writer:
        writer.write(lines(1))
        writer.flush()
        passing.later_s = OPEN_WRITER_TIMEOUT_S + 1

        assert ids(update(), begin, stream.latest(begin, everything=True)) == [1]


def test_an_open_writer_is_detected(tmp_path):
    file = tmp_path / "a.json"

    with file.open("w"):
        assert is_being_written(str(file))
    with file.open():
        assert not is_being_written(str(file))
    assert is_being_written(str(tmp_path / "none.json")) is None


def test_remote_mounts_are_recognized():
    mounts = (
        "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "40 22 0:52 / /mnt/in rw - nfs4 server:/in rw,vers=4.2\n"
        "41 22 0:53 / /mnt/mem rw shared:2 master:1 - tmpfs tmpfs rw\n"
    )

    found = [is_remote_mount(mounts, os.makedev(*device)) for device in ((254, 1), (0, 52), (0, 53), (0, 99))]

    assert found == [False, True, False, False]


def grown(file):
    with file.open("a") as writer:
        writer.write(lines(3))


def replaced(file):
    written(file, 3, 4, age_s=30.0)


def shortened(file):
    written(file, 5, age_s=30.0)


@pytest.mark.parametrize(
    ("name", "change", "now"),
    [
        ("a.json", grown, [1, 2, 3]),
        ("a.json", replaced, [3, 4]),
        ("a.json", shortened, [5]),
        ("a.json.gz", replaced, [3, 4]),
        ("a.parquet", shortened, [5]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"schemaEvolutionMode": "addNewColumnsWithTypeWidening"}])
def test_a_file_that_changes_before_it_is_read_fails_the_batch_and_is_read_on_retry(
    data, update, passing, name, change, now, options
):
    kind = "parquet" if name.endswith(".parquet") else "json"
    file = data / name
    written(file, 1, 2)
    stream = update(kind, **options)
    begin = stream.initial()
    end = stream.latest(begin, everything=True)
    work = stream.work(begin, end)
    change(file)

    with pytest.raises(PipelineError) as raised:
        [found for one in work for found in rows_of(stream._source, one)]
    stream.close()
    passing.later_s = 5.0

    again = update(kind, **options)
    assert raised.value.code == "AUTO_LOADER.FILE_CHANGED"
    assert raised.value.params["path"] == str(file)
    assert ids(again, begin, end) == now
    assert again.latest(end, everything=True) == end


def test_a_retried_batch_waits_for_a_file_that_is_still_being_written(data, update, passing):
    file = data / "a.json"
    written(file, 1)
    first = update()
    begin = first.initial()
    end = first.latest(begin, everything=True)
    first.close()
    writer = file.open("a")
    writer.write(lines(2))
    writer.flush()

    def finished():
        if passing.later_s > 3 and not writer.closed:
            writer.write(lines(3))
            writer.close()

    passing.meanwhile = finished

    assert ids(update(), begin, end) == [1, 2, 3]


def test_a_batch_read_fails_and_names_the_file_if_a_file_changes(data, update):
    written(data / "a.json", 1)
    source = update()._source
    work = all_tasks(source, time.time_ns())
    grown(data / "a.json")

    with pytest.raises(PipelineError, match=r"a\.json"):
        [found for one in work for found in rows_of(source, one)]


def test_a_file_that_grows_after_it_was_read_is_reported_once(data, update, passing):
    for name in ("a.json", "b.json"):
        written(data / name, 1)
    stream = update()
    begin = stream.initial()
    end = stream.latest(begin, everything=True)
    stream.work(begin, end)
    offset, source, began_s = end.to_json(), stream._source, time.time()
    stream.close()
    quiet = auto_loader_changes(source, offset, time.time)
    with (data / "b.json").open("a") as writer:
        writer.write(lines(2))
    passing.later_s = 2.0

    reason = auto_loader_changes(source, offset, time.time)
    again = update()
    after = again.latest(end, everything=True)
    again.close()

    assert (quiet, reason) == (None, "files have changed since they were read")
    assert (after, files_changed_since(source, offset, began_s)) == (end, (str(data / "b.json"),))
    assert auto_loader_changes(source, offset, time.time) is None
    assert files_changed_since(source, offset, began_s + 3600) == ()


def test_a_recomputed_batch_reads_the_current_content_of_a_changed_file(data, update):
    written(data / "a.json", 1)
    stream = update()
    begin = stream.initial()
    end = stream.latest(begin, everything=True)
    stream.committed(end)
    stream.close()
    replaced(data / "a.json")

    assert ids(update(), begin, end) == [3, 4]
    assert auto_loader_changes(stream._source, end.to_json(), time.time) is not None

"""Files on S3, of a server that answers as Amazon's does, with and without a queue that tells of them."""

from __future__ import annotations

import gzip
import io
import json
import time
from urllib.parse import quote_plus

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import rows_of
from headrace.autoloader.listing import MIN_LISTING_INTERVAL_S
from headrace.autoloader.object_notifications import Notification, object_paths
from headrace.autoloader.pending_files import auto_loader_changes
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stores.paths import normalize_path, replace_prefix
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class LateClock:
    """Time that goes on when somebody says so."""

    def __init__(self):
        self.later_s = 0.0

    def clock(self):
        return Clock(lambda: time.time_ns() + int(self.later_s * 1e9), self.sleep)

    def sleep(self, seconds):
        self.later_s += seconds


@pytest.fixture
def put(bucket):
    """Puts records into an object."""

    def landed(key, *records):
        bucket.put_object(Key=key, Body="".join(json.dumps(record) + "\n" for record in records).encode())

    return landed


@pytest.fixture
def source(tmp_path, bucket):
    """What a reader of the bucket means."""

    def made(path="in", *, schema=None, **options):
        place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns())
        given = {"cloudFiles.format": "json", **{f"cloudFiles.{name}": str(value) for name, value in options.items()}}
        return prepare(given, f"s3a://{bucket.name}/{path}", schema, place)

    return made


@pytest.fixture
def queue(bucket):
    """A queue, and what the bucket would tell it; moto tells nothing by itself."""
    made = boto3.resource("sqs").create_queue(QueueName=bucket.name)

    def tell(key, event="ObjectCreated:Put"):
        told = {"bucket": {"name": bucket.name}, "object": {"key": quote_plus(key, safe="/")}}
        made.send_message(MessageBody=json.dumps({"Records": [{"eventName": event, "s3": told}]}))

    made.tell = tell
    return made


class Endless:
    """A queue that never ends; as one of Amazon's, it gives ten messages at once."""

    name = "endless"

    def __init__(self, path):
        self.path, self.given = path, 0

    def receive(self):
        self.given += 10
        assert self.given <= 2000, "the look did not end"
        return [Notification((self.path,), str(number)) for number in range(self.given - 10, self.given)]

    def delete(self, notifications):
        assert notifications

    def count(self):
        return 5


def waiting(queue):
    queue.reload()
    return int(queue.attributes["ApproximateNumberOfMessages"])


def batch(stream, start):
    end = stream.latest(start, everything=False)
    work = stream.work(start, end)
    return end, [row for one in work for found in rows_of(stream._source, one) for row in found.to_pylist()]


def begun(source):
    """A stream, the end of its first batch, and the rows of that."""
    stream = FileStream(source, LateClock().clock())
    return stream, *batch(stream, stream.initial())


def ids(rows):
    return sorted(int(row["id"]) for row in rows)


def test_each_object_is_read_once_including_new_objects(put, source):
    put("in/a.json", {"id": 1})
    put("in/deep/er/b c+é.json", {"id": 2})
    put("other/c.json", {"id": 9})
    late = LateClock()
    stream = FileStream(source(), late.clock())
    start = stream.initial()

    end, first = batch(stream, start)
    put("in/c.json", {"id": 3})
    late.later_s += MIN_LISTING_INTERVAL_S
    later, second = batch(stream, end)

    assert (ids(first), ids(second)) == ([1, 2], [3])
    assert stream.latest(later, everything=False) == later


def test_a_continuous_stream_waits_a_few_seconds_between_listings(put, source):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source())
    put("in/b.json", {"id": 2})

    assert batch(stream, end) == (end, [])


def test_a_triggered_query_lists_without_waiting(put, source):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source())
    put("in/b.json", {"id": 2})

    stream.end_at_what_is_there()

    assert ids(batch(stream, end)[1]) == [2]


def test_folders_in_keys_become_partitions_and_hidden_folders_are_ignored(put, source):
    put("in/day=2026-01-01/a.json", {"id": 1})
    put("in/day=2026-01-02/b.json", {"id": 2})
    put("in/_work/c.json", {"id": 9})

    _, _, rows = begun(source(inferColumnTypes="true"))

    assert sorted((row["id"], str(row["day"])) for row in rows) == [(1, "2026-01-01"), (2, "2026-01-02")]


def test_path_wildcards_match_folders_in_keys(put, source):
    for place in ("in/eu/1.json", "in/us/2.json", "in/eu/deep/3.json"):
        put(place, {"id": int(place[-6])})

    _, _, rows = begun(source("in/{eu,ap}/*.json"))

    assert ids(rows) == [1]


def test_large_objects_are_read_in_splits_without_losing_lines(bucket, source):
    lines = b"".join(json.dumps({"id": number, "pad": "x" * 100}).encode() + b"\n" for number in range(120_000))
    bucket.put_object(Key="in/a.json", Body=lines)
    place_of = source(schema=SCHEMA)
    stream = FileStream(type(place_of)(**{**vars(place_of), "tasks": 3}), LateClock().clock())
    start = stream.initial()

    end, rows = batch(stream, start)

    assert len(stream.work(start, end)) == 3
    assert ids(rows) == list(range(120_000))


def test_compressed_and_columnar_objects_are_read(bucket, source):
    bucket.put_object(Key="in/a.json.gz", Body=gzip.compress(b'{"id": 1}\n'))
    parquet = io.BytesIO()
    pq.write_table(pa.table({"id": [2]}), parquet)
    bucket.put_object(Key="columns/b.parquet", Body=parquet.getvalue())

    found = [source("in", schema=SCHEMA), source("columns", schema=SCHEMA, format="parquet")]
    rows = [row for one in found for row in begun(one)[2]]

    assert ids(rows) == [1, 2]


def test_the_metadata_column_names_the_object(put, bucket, tmp_path):
    put("in/a b.json", {"id": 1})
    place = Place(tmp_path / "ledgers", None, time.time_ns())
    source = prepare({"cloudFiles.format": "json"}, f"s3://{bucket.name}/in/", SCHEMA, place, metadata=True)

    _, _, (row,) = begun(source)

    assert row["_metadata"]["file_path"] == f"s3://{bucket.name}/in/a%20b.json"
    assert (row["_metadata"]["file_name"], row["_metadata"]["file_size"]) == ("a%20b.json", 10)


def test_an_overwritten_object_is_read_again_if_overwrites_are_allowed(put, source):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source(allowOverwrites="true"))

    put("in/a.json", {"id": 1}, {"id": 2})
    stream.end_at_what_is_there()

    assert ids(batch(stream, end)[1]) == [1, 2]


def test_clean_source_moves_objects_within_the_bucket(put, source, bucket):
    put("in/deep/a.json", {"id": 1})
    done = f"s3://{bucket.name}/done"
    options = {"cleanSource": "MOVE", "cleanSource.moveDestination": done, "cleanSource.retentionDuration": "0 seconds"}
    stream, end, _ = begun(source(**options))

    stream.committed(end)

    # pyarrow leaves an empty object that stands for the folder.
    assert {found.key for found in bucket.objects.all()} - {"in/deep/"} == {"done/deep/a.json"}


def test_a_missing_bucket_is_named_in_the_error(aws, tmp_path):
    assert aws
    with pytest.raises(PipelineError) as raised:
        prepare({"cloudFiles.format": "json"}, "s3://nowhere-at-all/in", SCHEMA, Place(tmp_path, None, time.time_ns()))

    assert raised.value.code in {"AUTO_LOADER.PATH_MISSING", "AUTO_LOADER.STORE_FAILS"}
    assert "nowhere-at-all" in raised.value.message


def test_objects_from_notifications_are_read_once_without_a_listing(put, source, queue):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source(useNotifications="true", queueUrl=queue.url))
    put("in/told é+.json", {"id": 2})
    put("in/untold.json", {"id": 3})
    queue.tell("in/told é+.json")

    later, first = batch(stream, end)
    left = waiting(queue)
    queue.tell("in/told é+.json")

    assert (ids(first), left) == ([2], 0)
    assert (batch(stream, later)[1], waiting(queue)) == ([], 0)


def test_the_backfill_finds_objects_without_a_notification(put, source, queue):
    put("in/a.json", {"id": 1})
    late = LateClock()
    given = {"useNotifications": "true", "queueUrl": queue.url, "backfillInterval": "1 hour"}
    stream = FileStream(source(**given), late.clock())
    end, _ = batch(stream, stream.initial())
    put("in/untold.json", {"id": 3})
    queue.tell("in/a.json")

    late.later_s += 3601

    assert ids(batch(stream, end)[1]) == [3]


def test_irrelevant_notifications_are_removed_from_the_queue_and_not_read(put, source, queue):
    put("other/b.json", {"id": 2})
    put("in/c.json", {"id": 1})
    stream, end, _ = begun(source(useNotifications="true", queueUrl=queue.url))
    put("in/removed.json", {"id": 3})
    queue.tell("in/gone.json")
    queue.tell("in/removed.json", "ObjectRemoved:Delete")
    queue.tell("other/b.json")

    assert batch(stream, end) == (end, [])
    assert waiting(queue) == 0


def test_change_detection_leaves_messages_in_the_queue(put, source, queue):
    put("in/a.json", {"id": 1})
    reader = source(useNotifications="true", queueUrl=queue.url)
    _, end, _ = begun(reader)
    before = auto_loader_changes(reader, end.to_json(), time.time)
    queue.tell("in/b.json")

    assert (before, auto_loader_changes(reader, end.to_json(), time.time)) == (None, "new files")
    assert waiting(queue) == 1


def test_a_stream_lists_the_bucket_once_after_a_queue_is_added(put, source, queue):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source())
    stream.close()
    put("in/untold.json", {"id": 2})

    later = FileStream(source(useNotifications="true", queueUrl=queue.url), LateClock().clock())

    assert ids(batch(later, end)[1]) == [2]


def test_a_poll_ends_even_if_the_queue_never_empties(put, source, bucket, monkeypatch):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source(useNotifications="true", queueUrl="https://sqs.eu-west-1.amazonaws.com/1/endless"))
    endless = Endless(f"s3://{bucket.name}/in/a.json")
    monkeypatch.setattr(stream._discovery, "_queue", endless)

    assert batch(stream, end) == (end, [])
    assert endless.given <= 1000


def test_an_empty_object_is_ignored_until_it_has_content(bucket, put, source):
    bucket.put_object(Key="in/a.json", Body=b"")
    put("in/b.json", {"id": 2})
    stream, end, first = begun(source())
    put("in/a.json", {"id": 1})
    stream.end_at_what_is_there()

    assert (ids(first), ids(batch(stream, end)[1])) == ([2], [1])


def test_a_bucket_path_without_objects_is_an_empty_source(source):
    stream, end, rows = begun(source("nothing/yet", schema=SCHEMA))

    assert (rows, stream.latest(end, everything=False)) == ([], end)


@pytest.mark.parametrize("path", ["s3://key:secret@bucket/in", "s3a://key@bucket/in", "s3:///in", "gs://my bucket/in"])
def test_an_invalid_store_url_is_refused_without_showing_credentials(path):
    with pytest.raises(PipelineError) as raised:
        normalize_path(path)

    assert raised.value.code == "AUTO_LOADER.STORE_NAME"
    assert "secret" not in str(raised.value.params)


@pytest.mark.parametrize("path", ["abfss://in@account.dfs.core.windows.net/x", "hdfs://name:8020/x", "hdfs:///x"])
def test_urls_of_other_stores_are_unchanged(path):
    assert normalize_path(path) == path


def test_s3_notifications_without_a_queue_are_refused(put, source):
    put("in/a.json", {"id": 1})

    with pytest.raises(PipelineError) as raised:
        source(useNotifications="true")

    assert "queueUrl" in str(raised.value.params["reason"])


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (
            {
                "Records": [
                    {"eventName": "ObjectCreated:Copy", "s3": {"bucket": {"name": "b"}, "object": {"key": "a+b"}}}
                ]
            },
            ("s3://b/a b",),
        ),
        (
            {"detail-type": "Object Created", "detail": {"bucket": {"name": "b"}, "object": {"key": "a+b"}}},
            ("s3://b/a+b",),
        ),
        ({"detail-type": "Object Deleted", "detail": {"bucket": {"name": "b"}, "object": {"key": "a"}}}, ()),
        ({"Message": json.dumps({"Event": "s3:TestEvent"})}, ()),
        ({"hello": 1}, None),
        ({"detail-type": "Object Created", "detail": {"bucket": {"name": "b"}, "object": {"key": "a//b"}}}, None),
        ([], None),
    ],
)
def test_notifications_from_s3_sns_and_eventbridge_are_parsed(body, paths):
    assert object_paths(json.dumps(body)) == paths


def test_an_unrecognized_message_stays_in_the_queue(put, source, queue):
    put("in/a.json", {"id": 1})
    stream, end, _ = begun(source(useNotifications="true", queueUrl=queue.url))
    queue.send_message(MessageBody="hello")

    assert batch(stream, end) == (end, [])
    assert int(boto3.resource("sqs").Queue(queue.url).attributes["ApproximateNumberOfMessagesNotVisible"]) == 1


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("dbfs:/landing/in", "/data/dbfs/landing/in"),
        ("dbfs:/landing/raw/in", "/raw/in"),
        ("/mnt/x", "/data/mnt/x"),
        ("/mnt", "/data/mnt"),
        ("/mnt2/x", "/mnt2/x"),
        ("s3://old/x", "s3://new/x"),
    ],
)
def test_the_longest_matching_path_prefix_is_replaced(path, whole):
    paths = {"dbfs:/": "/data/dbfs/", "dbfs:/landing/raw": "/raw", "/mnt/": "/data/mnt", "s3://old": "s3://new/"}

    assert replace_prefix(path, paths) == whole


@pytest.mark.parametrize("begin", ["/mnt/raw", "/mnt/raw/", "dbfs:/mnt/raw", "/dbfs/mnt/raw", "dbfs:///mnt/raw"])
@pytest.mark.parametrize("path", ["/mnt/raw/in", "dbfs:/mnt/raw/in", "/dbfs/mnt/raw/in", "dbfs:///mnt/raw/in"])
def test_a_mount_mapping_applies_to_every_spelling_of_the_mount(begin, path):
    assert replace_prefix(path, {"dbfs:/": "/data/dbfs", "/mnt/": "/data/mnt", begin: "/raw"}) == "/raw/in"


def test_a_local_mnt_path_is_not_mapped_to_dbfs_by_default():
    paths = {"dbfs:/": "/data/dbfs"}

    assert [replace_prefix(path, paths) for path in ("/mnt/x", "/dbfs/x", "dbfs:x")] == [
        "/mnt/x",
        "/data/dbfs/x",
        "dbfs:x",
    ]


def test_the_last_mapping_of_the_same_path_takes_precedence():
    assert replace_prefix("/mnt/x", {"/mnt/": "/default", "dbfs:/mnt": "/settings", "/mnt": "/option"}) == "/option/x"


def test_an_unsupported_store_is_refused_with_the_setting_that_maps_it():
    with pytest.raises(PipelineError) as raised:
        normalize_path("dbfs:/landing")

    assert raised.value.code == "AUTO_LOADER.STORE"
    assert "paths:" in (raised.value.hint or "")


def test_paths_in_options_are_mapped(tmp_path, data):
    (data / "a.json").write_text('{"id": 1}\n')
    place = Place(tmp_path / "ledgers", None, time.time_ns(), paths={"dbfs:/": str(tmp_path)})
    given = {"cloudFiles.format": "json", "cloudFiles.schemaLocation": "dbfs:/schemas"}

    source = prepare(given, "dbfs:/data", None, place)

    assert source.path == str(data)
    assert (tmp_path / "schemas" / "_schemas" / "0").is_file()

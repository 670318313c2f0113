"""Kinesis as a stream, without Spark: every record once over resharding and restarts, options, errors without keys."""

from __future__ import annotations

import json
import pickle
import re
import time
from itertools import count

import pytest
from botocore.exceptions import ClientError
from tests.servers.kinesis import ACCESS_KEY, SECRET_KEY

from headrace.autoloader.discovery import Clock
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import parse_struct
from headrace.sources import kinesis_client
from headrace.sources.kinesis import KinesisSource
from headrace.sources.kinesis_client import translate_errors
from headrace.sources.kinesis_options import prepare_kinesis
from headrace.sources.stream_source import PreparedSource, ReadContext

_names = count()


class Reader:
    """What Spark does with a source: everything travels as JSON or is pickled."""

    def __init__(self, options):
        prepared = prepare_kinesis({"shardFetchInterval": "0 s", **options}, None, ReadContext())
        self.text = prepared.to_json()
        self.source = KinesisSource.of(PreparedSource.from_json(self.text, prepared.secrets))
        self.restarted()

    def restarted(self):
        self.slept_s = []
        self.stream = self.source.stream(Clock(time.time_ns, self.slept_s.append))
        return self

    def initial(self):
        return json.loads(json.dumps(self.stream.initial()))

    def latest(self, start, *, everything=False):
        return json.loads(json.dumps(self.stream.latest(start, everything=everything)))

    def records(self, start, end):
        tasks = [pickle.loads(pickle.dumps(task)) for task in self.stream.tasks(start, end)]
        return [row for task in tasks for batch in self.source.rows(task) for row in batch.to_pylist()]

    def batch(self, start, end):
        return sorted(int(row["data"]) for row in self.records(start, end))

    def rest(self, start):
        """The batches up to what is there, each made once more as after a restart, and the last offset."""
        self.stream.prepare_for_available_now()
        found = []
        while (end := self.latest(start)) != start:
            batch = self.batch(start, end)
            assert Reader.batch(_again(self), start, end) == batch
            found += [batch] if batch else []
            start = end
        return found, start


def _again(reader):
    other = Reader.__new__(Reader)
    other.source = reader.source
    return other.restarted()


@pytest.fixture
def stream(kinesis):
    """The name of a new stream of one shard."""
    name = f"events-{next(_names)}"
    kinesis.make(name)
    return name


def test_a_row_has_the_data_and_metadata_of_its_record(kinesis, stream):
    kinesis.put(stream, 7)
    reader = Reader(kinesis.options(stream, initialPosition="TRIM_HORIZON"))
    start = reader.initial()

    (row,) = reader.records(start, reader.latest(start))

    assert (row["data"], row["partitionKey"], row["stream"]) == (b"7", "7", stream)
    assert row["shardId"].startswith("shardId-")
    assert int(row["sequenceNumber"]) > 0
    assert abs(row["approximateArrivalTimestamp"].timestamp() - time.time()) < 60


def test_every_record_is_read_once_across_shard_splits_merges_and_restarts(kinesis, stream):
    reader = Reader(kinesis.options(stream, initialPosition="earliest"))
    start, read, number = reader.initial(), [], 0
    for change in (kinesis.split, kinesis.split, kinesis.merge):
        kinesis.put(stream, *range(number, number + 20))
        change(stream)
        kinesis.put(stream, *range(number + 20, number + 40))
        number += 40
        batches, start = reader.restarted().rest(start)
        read += [value for batch in batches for value in batch]

    assert sorted(read) == list(range(number))
    assert set(start["streams"][stream].values()) > {"END"}


def test_parent_shards_are_read_in_earlier_batches_than_their_children(kinesis, stream):
    kinesis.put(stream, *range(10))
    kinesis.split(stream)
    kinesis.put(stream, *range(10, 20))

    batches, _ = (reader := Reader(kinesis.options(stream, initialPosition="earliest"))).rest(reader.initial())

    assert batches == [list(range(10)), list(range(10, 20))]


def test_a_retried_batch_ends_at_its_original_offset(kinesis, stream):
    kinesis.put(stream, *range(5))
    reader = Reader(kinesis.options(stream, initialPosition="earliest", maxRecordsPerFetch=3))
    start = reader.initial()
    end = reader.latest(start)
    kinesis.put(stream, *range(5, 10))

    assert reader.restarted().batch(start, end) == list(range(5))


def test_a_new_stream_skips_old_records_by_default_even_if_its_first_batch_is_retried(kinesis, stream):
    kinesis.put(stream, 1)
    time.sleep(0.01)  # the service counts in milliseconds
    reader = Reader(kinesis.options(stream))
    start = reader.initial()
    kinesis.put(stream, 2)

    end = reader.latest(start)
    again = reader.restarted().initial()

    assert (reader.batch(start, end), reader.batch(again, end)) == ([2], [2])


def test_a_stream_starts_at_a_given_timestamp(kinesis, stream):
    kinesis.put(stream, 1)
    time.sleep(0.01)
    moment = time.time_ns() // 1_000_000
    kinesis.put(stream, 2)
    text = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(moment // 1000)) + f".{moment % 1000:03d} UTC"
    position = {"at_timestamp": text, "format": "MM/dd/yyyy HH:mm:ss.SSS ZZZ"}

    reader = Reader(kinesis.options(stream, initialPosition=json.dumps(position)))

    assert reader.rest(reader.initial())[0] == [[2]]


def test_rate_and_duration_limit_a_micro_batch_but_not_a_batch_read(kinesis, stream):
    for number in range(4):
        kinesis.put(stream, number)
    options = kinesis.options(stream, initialPosition="earliest", maxRecordsPerFetch=1)
    slow = Reader({**options, "maxFetchRate": "0.000001", "maxFetchDuration": "1 s"})
    start = slow.initial()

    first = slow.latest(start)

    assert slow.batch(start, first) == [0]
    assert slow.batch(start, slow.latest(start, everything=True)) == [0, 1, 2, 3]
    tasks = slow.source.batch(Clock(time.time_ns, lambda _: None))
    assert sorted(int(row["data"]) for t in tasks for b in slow.source.rows(t) for row in b.to_pylist()) == [0, 1, 2, 3]


def test_an_expired_shard_iterator_is_renewed_at_the_same_position(kinesis, stream):
    kinesis.put(stream, *range(6))
    reader = Reader(kinesis.options(stream, initialPosition="earliest", maxRecordsPerFetch=2))
    start = reader.initial()

    with kinesis.expiring(1, 3):
        end = reader.latest(start)
    with kinesis.expiring(2, 4):
        again = _again(reader).batch(start, end)

    assert (reader.batch(start, end), again) == (list(range(6)), list(range(6)))


def test_requests_to_a_shard_respect_the_minimum_fetch_period(kinesis, stream):
    kinesis.put(stream, *range(6))
    reader = Reader(kinesis.options(stream, initialPosition="earliest", maxRecordsPerFetch=2, minFetchPeriod="2 s"))

    reader.latest(reader.initial())

    assert reader.slept_s == [2.0] * 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ProvisionedThroughputExceededException", "KINESIS.BUSY"),
        ("LimitExceededException", "KINESIS.BUSY"),
        ("ServiceUnavailable", "KINESIS.BUSY"),
        ("AccessDeniedException", "KINESIS.REFUSED"),
    ],
)
def test_only_throttling_and_unavailable_errors_are_retried(error, code):
    with pytest.raises(PipelineError) as raised, translate_errors("clicks"):
        raise ClientError({"Error": {"Code": error, "Message": "Rate exceeded."}}, "GetRecords")

    assert (raised.value.code, bool(raised.value.condition.retry)) == (code, code == "KINESIS.BUSY")
    assert f"{error}: Rate exceeded" in raised.value.detail


def test_several_streams_are_read_as_one(kinesis, stream):
    kinesis.make(other := f"events-{next(_names)}")
    kinesis.put(stream, 1)
    kinesis.put(other, 2)

    reader = Reader(kinesis.options(f"{stream}, {other}", initialPosition="earliest"))

    assert reader.rest(reader.initial())[0] == [[1, 2]]


def test_every_secret_option_has_a_name_that_spark_redacts():
    secret = {"awsAccessKey": "1", "awsSecretKey": "2", "awsSessionToken": "3", "roleExternalId": "4"}

    prepared = prepare_kinesis({"streamName": "s", **secret}, None, ReadContext())

    # Spark's default of spark.redaction.regex.
    hidden = re.compile("(?i)secret|password|token|access[.]?key")
    assert sorted(value for name, value in prepared.secrets.items() if hidden.search(name)) == ["1", "2", "3", "4"]


def test_an_iam_role_is_assumed(kinesis, stream):
    kinesis.put(stream, 1)
    role = {"roleArn": "arn:aws:iam::123456789012:role/reader", "stsEndpoint": kinesis.url, "roleExternalId": "outside"}

    reader = Reader(kinesis.options(stream, initialPosition="earliest", **role))

    assert reader.rest(reader.initial())[0] == [[1]]


def test_a_recreated_stream_is_rejected_on_restart(kinesis, stream):
    kinesis.client.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    kinesis.put(stream, *range(10))
    reader = Reader(kinesis.options(stream, initialPosition="earliest"))
    _, start = reader.rest(reader.initial())
    kinesis.client.delete_stream(StreamName=stream)
    kinesis.make(stream)

    with pytest.raises(PipelineError) as raised:
        reader.restarted().latest(start)

    assert raised.value.code == "KINESIS.SHARD_GONE"


def test_access_keys_do_not_appear_in_tasks_offsets_or_errors(kinesis, stream, monkeypatch):
    # A service that does not answer is asked again and again, with longer and longer waits.
    monkeypatch.setattr(kinesis_client, "_MAX_ATTEMPTS", 1)
    kinesis.put(stream, 1)
    reader = Reader(kinesis.options(stream, initialPosition="earliest"))
    start = reader.initial()
    shown = [reader.text, repr(reader.source), str(reader.latest(start)), repr(reader.stream.tasks(start, start))]
    gone = Reader(kinesis.options("nowhere"))
    silent = Reader({**kinesis.options(stream), "endpoint": "http://127.0.0.1:1"})
    with pytest.raises(PipelineError) as refused:
        gone.latest(gone.initial())
    with pytest.raises(PipelineError) as unreachable:
        silent.latest(silent.initial())

    assert [refused.value.code, unreachable.value.code] == ["KINESIS.REFUSED", "KINESIS.UNREACHABLE"]
    assert "ResourceNotFoundException" in refused.value.detail
    shown += [refused.value.render(), unreachable.value.render()]
    assert [text for text in shown if ACCESS_KEY in text or SECRET_KEY in text] == []


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({}, "SOURCE.OPTION_MISSING", "Names of the streams"),
        ({"streamName": "s", "consumerMode": "efo"}, "SOURCE.OPTION_VALUE", "polling"),
        ({"streamName": "s", "consumerName": "me"}, "SOURCE.OPTION_REFUSED", "fan-out"),
        ({"streamName": "s", "initialPosition": "somewhere"}, "SOURCE.OPTION_VALUE", "at_timestamp"),
        (
            {"streamName": "s", "initialPosition": '{"at_timestamp": "06/25/2020 10:23:45 PDT"}'},
            "SOURCE.OPTION_VALUE",
            "PDT",
        ),
        ({"streamName": "s", "awsAccessKey": "k"}, "SOURCE.OPTION_MISSING", "Set both keys"),
        ({"streamName": "s", "maxRecordsPerFetch": "20000"}, "SOURCE.OPTION_VALUE", "10,000"),
        ({"streamname": "s", "maxFetchRat": "1"}, "SOURCE.OPTION_UNKNOWN", "maxFetchRate"),
    ],
)
def test_an_invalid_option_is_reported_with_the_reason(options, code, said):
    with pytest.raises(Problems) as raised:
        prepare_kinesis(options, None, ReadContext())

    (problem,) = raised.value.errors
    assert problem.code == code
    assert said in problem.detail


def test_a_schema_is_rejected_and_an_option_without_effect_is_reported():
    with pytest.raises(PipelineError) as raised:
        prepare_kinesis({"streamName": "s"}, parse_struct("id INT"), ReadContext())
    prepared = prepare_kinesis({"streamName": "s", "FetchBufferSize": "20gb"}, None, ReadContext())

    assert raised.value.code == "SOURCE.SCHEMA_GIVEN"
    assert [name for name, _ in prepared.without_effect] == ["fetchBufferSize"]

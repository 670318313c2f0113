"""Kinesis as moto serves it, on 127.0.0.1, with the credentials that its clients need to have some."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import wraps
from itertools import count
from unittest.mock import patch

import boto3
from moto.core.exceptions import JsonRESTError
from moto.kinesis.models import KinesisBackend, Stream
from moto.kinesis.utils import decompose_shard_iterator
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
# What nobody may see; the server takes any.
ACCESS_KEY, SECRET_KEY = "AKIAHIDDENHIDDEN", "hidden-5ecret-key"


@dataclass(frozen=True)
class Kinesis:
    """Where the server listens."""

    url: str

    @property
    def client(self):
        return boto3.client(
            "kinesis",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def options(self, stream, **more):
        """What a reader needs."""
        return {
            "streamName": stream,
            "endpoint": self.url,
            "region": REGION,
            "awsAccessKey": ACCESS_KEY,
            "awsSecretKey": SECRET_KEY,
            **more,
        }

    def make(self, stream, shards=1):
        self.client.create_stream(StreamName=stream, ShardCount=shards)

    def put(self, stream, *values):
        """Records, whose keys are their values."""
        records = [{"Data": str(value).encode(), "PartitionKey": str(value)} for value in values]
        self.client.put_records(StreamName=stream, Records=records)

    @contextmanager
    def expiring(self, *requests):
        """Requests for records, by their numbers from 1, whose iterators count as too old."""
        original, numbers = KinesisBackend.get_records, count(1)

        def getting(self, *arguments, **options):
            if next(numbers) in requests:
                raise JsonRESTError("ExpiredIteratorException", "Iterator expired.")
            return original(self, *arguments, **options)

        with patch.object(KinesisBackend, "get_records", getting):
            yield

    def split(self, stream):
        """Put two shards in the place of the first one that is open."""
        shards = self.client.list_shards(StreamName=stream)["Shards"]
        shard = next(s for s in shards if _is_open(s))
        low, high = (int(shard["HashKeyRange"][f"{name}HashKey"]) for name in ("Starting", "Ending"))
        self.client.split_shard(
            StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str((low + high) // 2)
        )

    def merge(self, stream):
        """Put one shard in the place of the first two that are open."""
        shards = self.client.list_shards(StreamName=stream)["Shards"]
        one, other, *_ = sorted(filter(_is_open, shards), key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))
        self.client.merge_shards(StreamName=stream, ShardToMerge=one["ShardId"], AdjacentShardToMerge=other["ShardId"])


def _is_open(shard):
    return "EndingSequenceNumber" not in shard["SequenceNumberRange"]


def _keeping_records(change):
    """Of a method that closes shards: their records stay in them, where moto puts them into the new ones."""

    @wraps(change)
    def changing(self, *shards):
        kept = {name: self.shards[name].records for name in shards if name in self.shards}
        for name in kept:
            self.shards[name].records = OrderedDict()
        change(self, *shards)
        for name, records in kept.items():
            self.shards[name].records = records

    return changing


def _ending(get_records):
    """Of a request: behind the last record of a closed shard there is no iterator, where moto goes on giving one."""

    @wraps(get_records)
    def getting(self, stream_arn, shard_iterator, limit):
        following, records, behind_ms = get_records(self, stream_arn, shard_iterator, limit)
        stream, shard, last = decompose_shard_iterator(following)
        found = self.describe_stream(stream_arn=stream_arn, stream_name=stream).get_shard(shard)
        at_end = not found.is_open and int(last) >= max(found.records, default=0)
        return None if at_end else following, records, behind_ms

    return getting


def _among_open(find):
    """Of the choice of a record's shard: a closed one takes none, where moto puts records into it."""

    @wraps(find)
    def finding(self, *keys):
        open_ones = copy(self)
        open_ones.shards = {name: shard for name, shard in self.shards.items() if shard.is_open}
        return find(open_ones, *keys)

    return finding


@contextmanager
def _as_documented():
    """Resharding as the service's API reference has it (SplitShard, MergeShards, GetRecords)."""
    with ExitStack() as stack:
        for owner, name, wrapping in (
            (Stream, "split_shard", _keeping_records),
            (Stream, "merge_shards", _keeping_records),
            (Stream, "get_shard_for_key", _among_open),
            (KinesisBackend, "get_records", _ending),
        ):
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, wrapping(original))
        yield


@contextmanager
def running_kinesis():
    """The server, for as long as the block takes."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        with _as_documented():
            yield Kinesis("http://{}:{}".format(*server.get_host_and_port()))
    finally:
        server.stop()

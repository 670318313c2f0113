"""Files on Azure and Google Cloud Storage, each of a real server of its protocol, reached as settings say."""

from __future__ import annotations

import json
import time
import uuid

import obstore
import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError
from headrace.stores.connections import add_connection

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
FAR_AWAY = {
    "abfss": "abfss://lake@account.dfs.core.windows.net/in",
    "gs": "gs://lake/in",
    "hdfs": "hdfs://namenode:8020/in",
}


class Bucket:
    """The URI of a container or a bucket, and a function that writes an object there."""

    def __init__(self, root, put):
        self.root = root
        self._put = put

    def put(self, key, *records):
        self._put(key, "".join(json.dumps(record) + "\n" for record in records).encode())


@pytest.fixture(params=["abfss", "gs"])
def cloud(request):
    name = f"landing-{uuid.uuid4().hex[:12]}"
    server = request.getfixturevalue({"abfss": "azure", "gs": "google"}[request.param])
    if request.param == "abfss":
        root, client = server.make_container(name), server.client(name)
        bucket = Bucket(root, lambda key, content: obstore.put(client, key, content))
    else:
        bucket = Bucket(server.make_bucket(name), lambda key, content: server.put(name, key, content))
    add_connection(bucket.root, lambda: server.connection)
    return bucket


@pytest.fixture
def stream(cloud, tmp_path):
    """A stream of the bucket; its clock is some seconds ahead, so that each file there is complete."""

    def made(path="in", schema=None, **options):
        given = {"cloudFiles.format": "json", **{f"cloudFiles.{name}": value for name, value in options.items()}}
        place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns())
        source = prepare(given, f"{cloud.root}/{path}", schema, place, metadata=True)
        return FileStream(source, Clock(lambda: time.time_ns() + 60_000_000_000, time.sleep))

    return made


def batch(stream, start):
    end = stream.latest(start, everything=False)
    work = stream.work(start, end)
    return end, [row for one in work for found in rows_of(stream._source, one) for row in found.to_pylist()]


@pytest.mark.long(guard="tests/unit/autoloader/test_stores.py::test_each_object_is_read_once_including_new_objects")
def test_each_object_is_read_once_with_partitions_and_its_name(cloud, stream):
    cloud.put("in/day=2026-01-01/a b.json", {"id": 1}, {"id": 2})
    cloud.put("in/_work/c.json", {"id": 9})
    reading = stream(inferColumnTypes="true")
    end, first = batch(reading, reading.initial())
    cloud.put("in/day=2026-01-02/b.json", {"id": 3})
    reading.end_at_what_is_there()
    later, second = batch(reading, end)

    assert [(row["id"], str(row["day"])) for row in first + second] == [
        (1, "2026-01-01"),
        (2, "2026-01-01"),
        (3, "2026-01-02"),
    ]
    assert first[0]["_metadata"]["file_path"] == f"{cloud.root}/in/day=2026-01-01/a%20b.json"
    assert reading.latest(later, everything=False) == later


@pytest.mark.long(guard="tests/unit/autoloader/test_stores.py::test_a_missing_bucket_is_named_in_the_error")
def test_a_missing_bucket_is_named_and_no_key_is_shown(cloud, request, tmp_path):
    server = request.getfixturevalue("azure" if cloud.root.startswith("abfss") else "google")
    elsewhere = cloud.root.replace("landing", "nowhere")
    add_connection(elsewhere, lambda: server.connection)

    with pytest.raises(PipelineError) as raised:
        prepare({"cloudFiles.format": "json"}, f"{elsewhere}/in", SCHEMA, Place(tmp_path, None, time.time_ns()))

    assert raised.value.code in {"AUTO_LOADER.PATH_MISSING", "AUTO_LOADER.STORE_FAILS"}
    assert "nowhere" in raised.value.message
    assert (server.connection.account_key or "none") not in raised.value.render()


@pytest.mark.parametrize("scheme", FAR_AWAY)
def test_notifications_of_other_clouds_are_refused_by_name(scheme, tmp_path):
    options = {"cloudFiles.format": "json", "cloudFiles.useNotifications": "true"}

    with pytest.raises(PipelineError) as raised:
        prepare(options, FAR_AWAY[scheme], SCHEMA, Place(tmp_path, None, time.time_ns()))

    assert raised.value.code == "AUTO_LOADER.OPTION_VALUE"
    assert f"leave it out, and {scheme} is listed" in str(raised.value.params["reason"])

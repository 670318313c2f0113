"""A stream of files as Spark drives it: offsets, batches, restarts, and the schema that comes with them."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import UnknownFieldException, rows_of
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.pending_files import auto_loader_backlog
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.source import Source
from headrace.autoloader.start_position import existing_files, start_after
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError
from headrace.model.outcome import FilesBacklog
from headrace.model.schema import type_text

CLOCK = Clock(time.time_ns, time.sleep)


@pytest.fixture
def land(data):
    """Makes a file that has been there for a while."""

    def landed(name, *records, age_s=1000.0):
        file = data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        at = os.stat(file).st_mtime - age_s  # noqa: PTH116
        os.utime(file, (at, at))
        return file

    return landed


@pytest.fixture
def source(tmp_path, data):
    """What a reader of the folder means."""

    def made(schema=None, *, can_write=True, **options):
        place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns(), can_write=can_write)
        given = {
            "cloudFiles.format": "json",
            **{name.replace("__", "."): str(value) for name, value in options.items()},
        }
        return prepare(given, str(data), schema, place)

    return made


def batch(stream, start, *, everything=False):
    """The next batch as Spark takes it: its end, and the rows."""
    end = stream.latest(start, everything=everything)
    return end, read(stream, start, end)


def read(stream, start, end):
    work = stream.work(start, end)
    return [row for one in work for found in rows_of(stream._source, one) for row in found.to_pylist()]


def columns(source):
    return [f"{field['name']} {type_text(field['type'])}" for field in source.plan.all_columns["fields"]]


def test_each_file_is_read_once_including_new_files(land, source):
    land("a.json", {"id": 1})
    stream = FileStream(source(), CLOCK)
    start = stream.initial()

    end, first = batch(stream, start)
    land("b.json", {"id": 2})
    later, second = batch(stream, end)

    assert ([row["id"] for row in first], [row["id"] for row in second]) == (["1"], ["2"])
    assert stream.latest(later, everything=False) == later


def test_a_retried_batch_reads_the_same_files(land, source):
    land("a.json", {"id": 1})
    stream = FileStream(source(), CLOCK)
    start = stream.initial()
    end, rows = batch(stream, start)
    stream.close()
    land("b.json", {"id": 2})

    # Spark asks a query whose first batch was not committed where it begins, again.
    again = FileStream(source(), CLOCK)
    begin = again.initial()

    assert read(again, begin, end) == rows
    assert len(list((again._ledgers).glob("*.ledger"))) == 1
    assert [row["id"] for row in batch(again, end)[1]] == ["2"]


def test_max_files_per_trigger_splits_files_into_batches(land, source):
    for number in range(5):
        land(f"{number}.json", {"id": number})
    stream = FileStream(source(cloudFiles__maxFilesPerTrigger=2), CLOCK)
    at, sizes = stream.initial(), []

    for _ in range(3):
        at, rows = batch(stream, at)
        sizes.append(len(rows))

    assert sizes == [2, 2, 1]


def test_the_backlog_is_computed_from_the_offset_alone(land, source):
    for place in range(3):
        land(f"{place}.json", {"id": place})
    found = source(cloudFiles__maxFilesPerTrigger=1)
    stream = FileStream(found, CLOCK)

    end, _ = batch(stream, stream.initial())

    backlog = auto_loader_backlog(found, end.to_json())
    assert (backlog.files, backlog.size) == (2, 20)
    assert 0 <= time.time() - backlog.oldest_unread_at.timestamp() < 60
    assert auto_loader_backlog(found, json.dumps(stream.newest().to_json())) == FilesBacklog(found.path, 0, 0)
    assert auto_loader_backlog(found, {"ledger": "another", "number": 1}) is None


def test_a_once_trigger_ignores_the_file_limit(land, source):
    for number in range(5):
        land(f"{number}.json", {"id": number})
    stream = FileStream(source(cloudFiles__maxFilesPerTrigger=2), CLOCK)

    assert len(batch(stream, stream.initial(), everything=True)[1]) == 5


def test_a_triggered_query_reads_only_files_that_exist_at_its_start(land, source):
    land("a.json", {"id": 1})
    land("b.json", {"id": 2})
    stream = FileStream(source(cloudFiles__maxFilesPerTrigger=1), CLOCK)
    stream.end_at_what_is_there()
    first, _ = batch(stream, stream.initial())
    land("c.json", {"id": 3})

    second, _ = batch(stream, first)

    assert stream.latest(second, everything=False) == second


def test_existing_files_can_be_excluded(land, source):
    land("a.json", {"id": 1})
    stream = FileStream(source(cloudFiles__includeExistingFiles="false"), CLOCK)
    start = stream.initial()
    assert batch(stream, start)[1] == []
    land("b.json", {"id": 2})
    end, rows = batch(stream, start)
    stream.close()

    # Also for a query that begins again before its first batch was committed.
    again = FileStream(source(cloudFiles__includeExistingFiles="false"), CLOCK)
    assert [row["id"] for row in rows] == ["2"]
    assert read(again, again.initial(), end) == rows


def test_a_stream_that_starts_after_given_files_reads_only_changed_or_later_files(land, source):
    land("old.json", {"id": 1}, age_s=1000)
    land("late.json", {"id": 2}, age_s=100)
    land("growing.json", {"id": 3}, age_s=0.1)
    found, now_ns = source(), time.time_ns()

    seen = existing_files(found, None, now_ns)
    since = existing_files(found, now_ns - 500 * 10**9, now_ns)
    stream = FileStream(found, CLOCK)
    start = start_after(found, since, now_ms=now_ns // 10**6)
    stream.end_at_what_is_there()
    _, rows = batch(stream, start)

    assert [sorted(file.name for _, file in files) for files in (seen, since)] == [
        ["late.json", "old.json"],
        ["old.json"],
    ]
    assert sorted(row["id"] for row in rows) == ["2", "3"]


def test_a_lost_ledger_raises_an_error_instead_of_reading_files_again(land, source):
    land("a.json", {"id": 1})
    stream = FileStream(source(), CLOCK)
    end, _ = batch(stream, stream.initial())
    stream.close()
    for file in stream._ledgers.iterdir():
        file.unlink()

    with pytest.raises(PipelineError) as raised:
        FileStream(source(), CLOCK).latest(end, everything=False)

    assert raised.value.code == "AUTO_LOADER.LEDGER_MISSING"


def test_the_schema_is_inferred_once(land, source):
    land("a.json", {"id": 1, "name": "x"})
    first = source(cloudFiles__inferColumnTypes="true")
    land("b.json", {"id": "text now"})

    assert columns(first) == ["id bigint", "name string", "_rescued_data string"]
    assert source(cloudFiles__inferColumnTypes="true").plan == first.plan


def test_a_read_only_check_stores_nothing(tmp_path, land, source):
    land("a.json", {"id": 1})

    source(can_write=False)

    assert not (tmp_path / "place").exists()


def test_reinferring_the_schema_creates_one_new_version(tmp_path, data, land, source):
    file = land("a.json", {"id": 1, "old": 2})
    given = {"cloudFiles.format": "json", "cloudFiles.inferColumnTypes": "true"}

    def anew(**options):
        place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns(), reinfers_schema=True)
        return prepare({**given, **options}, str(data), None, place)

    first = source()
    land("a.json", {"id": 1})

    assert [columns(found)[0] for found in (first, source(), anew(), anew(), source())] == ["id string"] * 2 + [
        "id bigint"
    ] * 3
    assert [found.version for found in (first, anew())] == [0, 1]
    assert "old string" not in columns(source())
    file.unlink()
    assert columns(anew()) == columns(source())
    assert columns(anew(**{"cloudFiles.schemaHints": "id DOUBLE"}))[0] == "id double"
    with pytest.raises(PipelineError, match="infer a schema"):
        anew(**{"cloudFiles.schemaLocation": str(tmp_path / "mine")})


def test_changed_hints_create_a_schema_version(tmp_path, land, source):
    land("a.json", {"id": 1})
    source()

    assert "id bigint" in columns(source(cloudFiles__schemaHints="id BIGINT, more DATE"))
    assert sorted(file.name for file in (tmp_path / "place" / "_schemas").iterdir()) == ["0", "1"]


def test_a_given_schema_is_used_and_rescues_data_only_on_request(land, source):
    land("a.json", {"id": 1})
    given = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}

    assert columns(source(given)) == ["id bigint"]
    assert columns(source(given, rescuedDataColumn="_r")) == ["id bigint", "_r string"]
    with pytest.raises(PipelineError) as raised:
        source(given, cloudFiles__schemaEvolutionMode="addNewColumns")
    assert raised.value.code == "AUTO_LOADER.GIVEN_SCHEMA_EVOLVES"


def test_schema_inference_without_files_raises_an_error(source):
    with pytest.raises(PipelineError) as raised:
        source()

    assert raised.value.code == "AUTO_LOADER.NOTHING_TO_INFER"


def test_partition_folders_become_columns(land, source):
    land("day=2024-01-01/n=1/a.json", {"id": 1})
    land("day=2024-01-02/n=2/b.json", {"id": 2})

    assert columns(source(cloudFiles__inferColumnTypes="true")) == [
        *("id bigint", "day date", "n int", "_rescued_data string")
    ]


def test_new_fields_stop_the_stream_once_and_the_restart_reads_the_same_files(land, source):
    land("a.json", {"id": 1})
    stream = FileStream(source(), CLOCK)
    at, _ = batch(stream, stream.initial())
    land("b.json", {"id": 2, "extra": {"x": True}})
    land("c.json", {"id": 3, "other": 1})

    end = stream.latest(at, everything=False)
    with pytest.raises(UnknownFieldException, match=r"extra.*Version 1 of the schema"):
        read(stream, at, end)
    stream.close()

    again = FileStream(source(), CLOCK)
    rows = read(again, at, end)
    assert columns(again._source) == [*("id string", "extra struct<x:string>", "other string", "_rescued_data string")]
    assert [(row["id"], row["extra"], row["other"]) for row in rows] == [("2", {"x": "true"}, None), ("3", None, "1")]


@pytest.mark.parametrize(
    ("mode", "extra", "in_rescued"),
    [("rescue", None, True), ("none", None, True), ("failOnNewColumns", "fails", False)],
)
def test_other_evolution_modes_rescue_new_fields_or_fail_each_time(land, source, mode, extra, in_rescued):
    land("a.json", {"id": 1})
    source(cloudFiles__schemaEvolutionMode=mode)
    land("a.json", {"id": 2, "extra": 1})
    stream = FileStream(source(cloudFiles__schemaEvolutionMode=mode), CLOCK)
    start = stream.initial()
    end = stream.latest(start, everything=False)

    if extra == "fails":
        with pytest.raises(UnknownFieldException, match="stays as it is"):
            read(stream, start, end)
    else:
        (row,) = read(stream, start, end)
        assert ("extra" in row["_rescued_data"]) is in_rescued


def test_committed_files_are_moved_after_the_retention(tmp_path, land, source):
    file = land("x/a.json", {"id": 1})
    moved = tmp_path / "moved"
    options = {
        "cloudFiles__cleanSource": "MOVE",
        "cloudFiles__cleanSource__moveDestination": moved,
        "cloudFiles__cleanSource__retentionDuration": "0 seconds",
    }
    stream = FileStream(source(**options), CLOCK)
    end, _ = batch(stream, stream.initial())
    assert file.exists()

    stream.committed(end)

    assert not file.exists()
    assert (moved / "x" / "a.json").exists()


class Days:
    """A clock that is put forward by days."""

    def __init__(self):
        self.passed = 0

    def clock(self):
        return Clock(lambda: time.time_ns() + self.passed * 86_400 * 10**9, time.sleep)


def test_committed_files_are_deleted_after_the_retention_unless_they_changed(land, source):
    kept, deleted = land("kept.json", {"id": 1}), land("deleted.json", {"id": 2})
    days = Days()
    options = {"cloudFiles__cleanSource": "DELETE", "cloudFiles__cleanSource__retentionDuration": "8 days"}
    stream = FileStream(source(**options), days.clock())
    end, _ = batch(stream, stream.initial())

    stream.committed(end)
    days.passed = 7
    stream.committed(end)
    assert deleted.exists()
    land("kept.json", {"id": 1}, {"id": 3})
    days.passed = 9
    stream.committed(end)

    assert (kept.exists(), deleted.exists()) == (True, False)


def test_a_file_beyond_the_maximum_age_is_pruned_and_not_read_again(land, source):
    land("a.json", {"id": 1})
    days = Days()
    found = source(cloudFiles__maxFileAge="90 days")
    stream = FileStream(found, days.clock())
    end, _ = batch(stream, stream.initial())

    days.passed = 91
    stream.committed(end)
    land("b.json", {"id": 2}, age_s=-90 * 86_400)
    stream.close()
    again, rows = batch(FileStream(found, days.clock()), end)

    assert [row["id"] for row in rows] == ["2"]
    with closing(Ledger.open(Path(found.ledgers), again.ledger, read_only=True)) as ledger:
        assert [file.path.rpartition("/")[2] for file in ledger.files(0, again.number)] == ["b.json"]


def test_a_source_survives_a_json_round_trip(land, source):
    land("a.json", {"id": 1})
    made = source()

    assert Source.from_json(made.to_json()) == made


def test_a_given_schema_can_name_partition_columns_and_becomes_nullable(land, source):
    land("day=2024-01-02/a.json", {"id": 1})
    fields = [
        {"name": name, "type": kind, "nullable": False, "metadata": {}}
        for name, kind in (("id", "long"), ("day", "date"))
    ]

    made = source({"type": "struct", "fields": fields})

    assert [field["name"] for field in made.plan.partitions["fields"]] == ["day"]
    assert all(field["nullable"] for field in made.plan.all_columns["fields"])
    stream = FileStream(made, CLOCK)
    (row,) = batch(stream, stream.initial())[1]
    assert (row["id"], str(row["day"])) == (1, "2024-01-02")


def test_a_move_destination_inside_the_source_folder_is_refused(data, land, source):
    land("a.json", {"id": 1})

    with pytest.raises(PipelineError) as raised:
        source(cloudFiles__cleanSource="MOVE", cloudFiles__cleanSource__moveDestination=data / "done")

    assert raised.value.params["option"] == "cloudFiles.cleanSource.moveDestination"


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, {"a": {"x": 1}}, [{"a": {"x": 1, "y": 2}}, {"a": "text"}]),
        ({}, {"a": 1}, [{"a": 2, "n": {"m": {}}}]),
        ({"cloudFiles__schemaHints": "a STRUCT<x: INT>"}, {"a": {"x": 1}}, [{"a": {"x": 1, "y": 2}}]),
    ],
)
def test_fields_that_cannot_extend_the_schema_are_rescued_and_the_stream_continues(
    land, source, options, first, second
):
    land("a.json", first)
    source(**options)
    land("a.json", *second)
    stream = FileStream(source(**options), CLOCK)
    start = stream.initial()
    end = stream.latest(start, everything=False)

    rows = read(stream, start, end)

    assert len(rows) == len(second)
    assert rows[0]["_rescued_data"] is not None


def test_a_partition_column_overrides_a_file_column_of_the_same_name(land, source):
    land("date=2024/a.json", {"id": 1, "date": "2023"})
    stream = FileStream(source(), CLOCK)

    (row,) = batch(stream, stream.initial())[1]

    assert (row["id"], row["date"]) == ("1", "2024")
    assert '"date":"2023"' in row["_rescued_data"]


def test_rescue_mode_rescues_new_fields_even_with_a_given_schema(land, source):
    land("a.json", {"id": 1, "new": 2})
    given = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    stream = FileStream(source(given, cloudFiles__schemaEvolutionMode="rescue"), CLOCK)

    (row,) = batch(stream, stream.initial())[1]

    assert '"new":2' in row["_rescued_data"]

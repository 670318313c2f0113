"""Loads: which ranges have rows in common, and where a stream begins and what it has read."""

from __future__ import annotations

import json

import pytest

from headrace.checkpoints.initial_offsets import DeltaPosition, FilesPosition, create_initial_checkpoint
from headrace.model.names import QualifiedName
from headrace.plan.backfills import Backfill, FilesRange, TableRange
from headrace.storage.backfills import (
    Coverage,
    overlap,
    range_end_position,
    retire_backfills,
    store_backfill,
    stored_backfills,
)

T = QualifiedName("t")


def versions(first, last, table_id="id"):
    return TableRange(T, table_id, first, last, whole=first == 0)


def files(*names, before=()):
    return FilesRange("files", ("/in",), tuple((n, 1) for n in names), tuple((n, 1) for n in before))


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (versions(0, 4), versions(5, 9), False),
        (versions(0, 5), versions(5, 9), True),
        (versions(3, 3), versions(0, 9), True),
        (versions(0, 4), versions(0, 4, "another"), False),
        (files("/in/a"), files("/in/b"), False),
        (files("/in/a", "/in/b"), files("/in/b"), True),
    ],
)
def test_ranges_overlap_if_they_share_a_row(one, other, meet):
    assert overlap(one, other) is overlap(other, one) is meet


def test_a_backfill_is_read_back_as_stored_and_keeps_its_number_when_retired(tmp_path):
    backfill = Backfill(1, (versions(0, 4), files("/in/a", before=("/in/0",))), stream_starts_after=True)
    store_backfill(tmp_path, backfill)

    assert stored_backfills(tmp_path, QualifiedName) == (backfill,)
    retire_backfills(tmp_path, QualifiedName)
    (retired,) = stored_backfills(tmp_path, QualifiedName)
    assert (retired.retired, retired.pending, retired.number) == (True, False, 1)


@pytest.fixture
def begun(tmp_path):
    """A checkpoint that begins at a position, and one of Spark's own batches after that."""

    def made(position, *batches):
        checkpoint = tmp_path / "0"
        create_initial_checkpoint(checkpoint, "query", [position])
        for number, offset in enumerate(batches, start=2):
            for kind, text in (("offsets", json.dumps(offset)), ("commits", "{}")):
                (checkpoint / kind / str(number)).write_text(f"v1\n{{}}\n{text}" if kind == "offsets" else "v1\n{}")
        return Coverage(checkpoint)

    return made


def test_a_stream_that_starts_at_a_version_covers_that_version_and_later_ones(begun):
    stream = begun(DeltaPosition("id", 5))

    assert (stream.is_unread, stream.has_read) == (True, False)
    assert not stream.reaches(0, versions(0, 4))
    assert stream.reaches(0, versions(3, 5))
    assert stream.starts_at_range(0, versions(5, 8))
    assert not stream.starts_at_range(0, versions(6, 8))
    assert stream.starts_at([range_end_position(versions(0, 4))])
    assert not stream.starts_at([range_end_position(versions(0, 5))])


def test_a_stream_that_has_read_a_batch_no_longer_starts_at_a_range(begun):
    stream = begun(DeltaPosition("id", 5), DeltaPosition("id", 7).offset())

    assert (stream.is_unread, stream.has_read) == (False, True)
    assert not stream.starts_at_range(0, versions(5, 8))
    assert not stream.reaches(0, versions(0, 4))
    assert stream.reaches(0, versions(5, 8))


def test_a_stream_that_skips_files_covers_all_other_files(begun):
    stream = begun(FilesPosition((("/in/a", 1), ("/in/b", 1))))

    assert not stream.reaches(0, files("/in/a"))
    assert stream.reaches(0, files("/in/a", "/in/c"))
    assert stream.starts_at_range(0, files("/in/c", before=("/in/a",)))
    assert stream.skipped_files(0) == {"/in/a", "/in/b"}


def test_a_stream_without_planned_batches_covers_nothing(tmp_path):
    stream = Coverage(tmp_path / "0")

    assert (stream.is_unread, stream.has_read, stream.reaches(0, versions(0, 1))) == (False, False, False)

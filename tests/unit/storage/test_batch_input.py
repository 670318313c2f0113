"""How much a batch reads is known from its checkpoint, or not at all."""

from __future__ import annotations

import json
import os
import time

import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream
from headrace.graph.analysis import Source, SourceKind
from headrace.model.ddl import parse_struct
from headrace.storage.batch_input import BatchInput, batch_input

TOPIC, TABLE = Source(SourceKind.OTHER, "KafkaV2[Subscribe[orders]]"), Source(SourceKind.DATASET, "orders")


@pytest.fixture
def checkpoint(tmp_path):
    """Writes the offsets of batches, and gives their checkpoint."""

    def written(*batches, initial=None):
        folder = tmp_path / "checkpoint"
        for number, offsets in enumerate(batches):
            file = folder / "offsets" / str(number)
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = ("v1", "{}", *(("-" if offset is None else json.dumps(offset)) for offset in offsets))
            file.write_text("\n".join(lines), encoding="utf-8")
        if initial is not None:
            (folder / "sources" / "0").mkdir(parents=True)
            (folder / "sources" / "0" / "0").write_text(f"\0v1\n{json.dumps(initial)}", encoding="utf-8")
        return folder

    return written


@pytest.mark.parametrize(
    ("initial", "batches", "batch_id", "records"),
    [
        ({"orders": {"0": 5, "1": 0}}, [{"orders": {"0": 9, "1": 2}}], 0, 6),
        (None, [{"orders": {"0": 9}}, {"orders": {"0": 12}}], 1, 3),
        # The topic was created again.
        (None, [{"orders": {"0": 9}}, {"orders": {"0": 2}}], 1, 0),
        # Where a new partition starts is unknown.
        (None, [{"orders": {"0": 9}}, {"orders": {"0": 9, "1": 4}}], 1, None),
        (None, [{"orders": {"0": 9}}], 0, None),
        (None, [], 0, None),
        (None, [{"position": "7"}, {"position": "9"}], 1, None),
    ],
)
def test_the_records_of_a_topic_are_those_between_its_offsets(checkpoint, initial, batches, batch_id, records):
    folder = checkpoint(*([offset] for offset in batches), initial=initial)

    assert batch_input(folder, batch_id, [TOPIC]) == (None if records is None else BatchInput(records))


def test_the_bytes_of_auto_loader_are_those_of_its_files(checkpoint, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns(), can_write=True)
    loader = prepare({"cloudFiles.format": "json"}, str(data), parse_struct("id INT"), place)
    stream = FileStream(loader, Clock(time.time_ns, time.sleep))
    first = stream.initial()
    at = []
    for number in range(2):
        file = data / f"{number}.json"
        file.write_text('{"id": 1}\n' * (number + 1), encoding="utf-8")
        os.utime(file, (0, 0))
        first = stream.latest(first, everything=True)
        at.append(first.to_json())
    stream.close()
    files = Source(SourceKind.AUTO_LOADER, loader.to_json())
    topic = {"orders": {"0": 3}}

    batches = [[at[0], topic], [at[1], topic], [at[1], None], [{"ledger": "lost", "number": 4}, topic]]
    folder = checkpoint(*batches, initial={})

    found = [batch_input(folder, batch_id, [files, TOPIC]) for batch_id in range(len(batches))]
    assert found == [None, BatchInput(0, 20), None, None]
    assert batch_input(folder, 1, [files, TABLE]) is None
    assert batch_input(folder, 1, [files]) is None

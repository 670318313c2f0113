"""Where a stream that reads topics goes on, by the files that Spark leaves in its checkpoint."""

from __future__ import annotations

import json

from headrace.checkpoints.topic_offsets import next_positions


def offsets(checkpoint, batch, *positions, done=True):
    """A planned batch, as Spark's ``OffsetSeqLog`` stores it, and its commit."""
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(one) for one in positions)]
    texts = {"offsets": "\n".join(lines), **({"commits": 'v1\n{"nextBatchWatermarkMs":0}'} if done else {})}
    for folder, text in texts.items():
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / str(batch)).write_text(text)


def initial(checkpoint, positions):
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b"\x00v1\n" + json.dumps(positions).encode())


def test_a_stream_continues_after_its_last_committed_batch(tmp_path):
    offsets(tmp_path, 0, {"t": {"0": 3}})
    offsets(tmp_path, 1, {"logOffset": 4}, {"t": {"0": 5, "1": 2}})

    assert next_positions(tmp_path, 1) == {("t", 0): 5, ("t", 1): 2}
    assert next_positions(tmp_path, 0) == {}


def test_an_uncommitted_batch_is_read_again_from_its_start(tmp_path):
    initial(tmp_path, {"t": {"0": 1}})
    offsets(tmp_path, 0, {"t": {"0": 3}})
    offsets(tmp_path, 1, {"t": {"0": 9}}, done=False)

    assert next_positions(tmp_path, 0) == {("t", 0): 3}


def test_an_uncommitted_first_batch_is_read_again_from_the_initial_offsets(tmp_path):
    initial(tmp_path, {"t": {"0": 1}})
    offsets(tmp_path, 0, {"t": {"0": 9}}, done=False)

    assert next_positions(tmp_path, 0) == {("t", 0): 1}


def test_a_stream_that_never_started_has_no_positions(tmp_path):
    assert next_positions(tmp_path, 0) == {}

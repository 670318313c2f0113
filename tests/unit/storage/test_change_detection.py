"""What lies beside the tables: records, positions of streams, Delta logs, and whether there is news in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from headrace.checkpoints.offsets import Progress, files_seen, newest_listing, read_progress
from headrace.delta_log.tables import (
    TableVersion,
    commit_actions,
    commit_file,
    committed_transaction,
    has_data_changes,
    is_rewritten_since,
    newest_version,
    open_table,
    table_state,
)
from headrace.errors import PipelineError
from headrace.graph.analysis import Source, SourceKind, StatefulOperator
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import MAX_REST_S, StoredState
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.flow_records import transaction_id

NOON = 1_000_000.0


@pytest.fixture
def layout(tmp_path):
    return StorageLayout(str(tmp_path))


@pytest.fixture
def logged():
    """Flow and dataset to the newest epoch and batch that the event log knows."""
    return {}


@pytest.fixture
def state(layout, logged):
    return StoredState(layout, Naming(), "pipeline", lambda: NOON, lambda *flow: logged.get(flow))


@pytest.fixture
def append(layout):
    """Appends a row to a table and returns its path."""

    def appended(name, **options):
        path = layout.table(Naming(), QualifiedName(name))
        write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}), mode="append", **options)
        return path

    return appended


def record_of(state, flow, **changes):
    record = FlowRecord(**{"fingerprint": "f", "started_at": NOON - 60, **changes})
    write_record(state.record_file(flow), record)
    return record


def lost_checkpoint(state, flow):
    found = state.disagreement(flow)
    return found.params["checkpoint"] if found is not None and found.code == "FLOW.CHECKPOINT_LOST" else None


def plan_batch(checkpoint, batch, *offsets, done=True, watermarks=(0, 0)):
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    before, after = watermarks
    lines = [
        "v1",
        json.dumps({"batchWatermarkMs": before}),
        *("-" if offset is None else json.dumps(offset) for offset in offsets),
    ]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    if done:
        (checkpoint / "commits" / str(batch)).write_text("v1\n" + json.dumps({"nextBatchWatermarkMs": after}))


def see_files(checkpoint, batch, *paths, compact=False):
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": f"file://{quote(str(path), safe='/;')}", "timestamp": 1, "batchId": batch})
        for path in paths
    ]
    (log / f"{batch}{'.compact' if compact else ''}").write_text("\n".join(["v1", *lines]))


def test_a_record_is_read_back_as_written(tmp_path):
    source = Source(SourceKind.FILES, '["/landing"]')
    record = FlowRecord(
        3, "f", (source.digest,), 1.5, {"a": TableVersion("t", 7)}, {"k": "v"}, 9, target_id="u", running=True
    )

    write_record(tmp_path / "flow" / "flow.json", record)

    assert read_record(tmp_path / "flow" / "flow.json") == record
    assert read_record(tmp_path / "other.json") is None
    assert [file.name for file in (tmp_path / "flow").iterdir()] == ["flow.json"]


def test_the_newest_planned_batch_is_found_by_number(tmp_path):
    for batch in (8, 9, 10):
        plan_batch(tmp_path, batch, {"n": batch}, None, done=batch < 10)
    (tmp_path / "offsets" / ".11.tmp").write_text("half")

    assert read_progress(tmp_path) == Progress(10, completed=False, offsets=({"n": 10}, None))
    assert read_progress(tmp_path / "nowhere") is None


@pytest.mark.parametrize("folder", ["offsets", "commits"])
@pytest.mark.parametrize("left", ["", "v1\n{}\n{half"])
def test_a_batch_is_unfinished_when_its_file_cannot_be_read(tmp_path, folder, left):
    plan_batch(tmp_path, 0)
    (tmp_path / folder / "0").write_text(left)

    assert read_progress(tmp_path) == Progress(0, completed=False, offsets=())


def test_input_versions_without_table_ids_in_an_old_record_are_ignored(tmp_path):
    old = FlowRecord().to_json() | {"format": 1, "inputs": {"a": 7}}
    (tmp_path / "flow.json").write_text(json.dumps(old))

    assert read_record(tmp_path / "flow.json").inputs == {}


def test_seen_files_are_those_of_the_compacted_log_and_of_later_batches(tmp_path):
    see_files(tmp_path, 8, "/left out")
    see_files(tmp_path, 9, "/a b", "/c;d", compact=True)
    see_files(tmp_path, 10, "/d")

    assert files_seen(tmp_path, 0) == {"/a b", "/c;d", "/d"}
    assert (newest_listing(tmp_path, 0), newest_listing(tmp_path, 1)) == (10, -1)


def test_the_state_of_a_table_is_read_from_its_delta_log(append, layout):
    path = append("a", description="said", configuration={"delta.appendOnly": "true"})

    found = table_state(path)

    assert (found.version, found.comment, found.properties["delta.appendOnly"]) == (0, "said", "true")
    assert found.schema.names == ("id",)
    assert table_state(layout.table(Naming(), QualifiedName("b"))) is None


def test_the_cached_state_of_a_table_is_refreshed_when_the_table_changes(append, state):
    name = QualifiedName("a")
    assert state.table(name) is None

    path = append("a")
    first = state.table(name)
    assert state.table(name) is first

    append("a")
    assert state.table(name).version == 1

    rmtree(path)
    assert state.table(name) is None

    append("a")
    append("a")
    anew = state.table(name)
    assert (anew.version, anew.table_id == first.table_id) == (1, False)


def test_a_folder_with_an_empty_delta_log_is_not_a_table(tmp_path):
    (tmp_path / "_delta_log").mkdir()

    assert open_table(str(tmp_path)) is None


def test_an_unreadable_delta_log_raises_an_error(append):
    path = append("a")
    (DeltaTable(path) and open(f"{path}/_delta_log/{0:020d}.json", "w")).close()  # noqa: PTH123, SIM115

    with pytest.raises(PipelineError) as error:
        table_state(path)
    assert error.value.code == "STORAGE.TABLE_UNREADABLE"


def test_only_commits_that_add_or_remove_rows_are_changes(append):
    path = append("a")
    append("a")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})

    assert has_data_changes(path, 0, 1)
    assert not has_data_changes(path, 2, 3)
    assert has_data_changes(path, 4, 4)  # not there (any more)
    assert commit_actions(path, 4) is None


def test_data_changes_and_transactions_count_as_rewrites_but_compaction_does_not(append):
    path = append("a")
    append("a")
    DeltaTable(path).optimize.compact()

    assert is_rewritten_since(path, 0)
    assert not is_rewritten_since(path, 1)
    assert not is_rewritten_since(path, 2)

    counted = commit_file(Path(path), 3)
    counted.write_text('{"txn": {"appId": "a flow", "version": 1}}\n')

    assert is_rewritten_since(path, 1)
    assert not is_rewritten_since(path, newest_version(path))


def test_a_missing_table_has_no_version(append, tmp_path):
    assert (newest_version(append("a")), newest_version(str(tmp_path / "nowhere"))) == (0, -1)


def test_a_flow_that_never_ran_is_due(state, make):
    flow = make.flow("a")
    first = state.detect_changes(make.graph(flow), flow)
    record_of(state, flow)
    write_record(state.record_file(flow), replace(state.record(flow), started_at=0.0))

    assert (first.is_due, first.reason) == (True, "first run")
    assert state.detect_changes(make.graph(flow), flow) == first


def test_a_reset_interrupted_by_a_crash_is_detected(state, make):
    flow = make.flow("a")
    assert not state.is_resetting(flow)

    write_record(state.record_file(flow), FlowRecord(resetting=True))

    assert state.is_resetting(flow)


def test_a_once_flow_is_done_when_its_transaction_is_committed(state, make, append):
    flow = make.flow("o", mode=Mode.ONCE)
    record_of(state, flow, epoch=2)
    append("o")
    before = state.detect_changes(make.graph(flow), flow)

    path = append("o", commit_properties=CommitProperties(app_transactions=[Transaction(tx(2), 0)]))

    assert (before.reason, state.detect_changes(make.graph(flow), flow).reason) == (
        "once flow that has not run yet",
        "ran once",
    )
    assert (committed_transaction(path, tx(2)), committed_transaction(path, tx(3))) == (0, None)


def tx(epoch):
    return transaction_id("pipeline", "o", epoch)


def version_of(path):
    found = table_state(path)
    return TableVersion(found.table_id, found.version)


@pytest.fixture
def view(state, make, append):
    """A view of a table that was computed, its graph and a function that gives the reason of its news."""
    flow = make.flow("v", "a")
    graph = make.graph(make.flow("a"), flow)
    inputs, target = {"a": version_of(append("a"))}, version_of(append("v"))

    def reason(of=flow, **changes):
        record_of(state, of, **{"inputs": inputs, "target_id": target.table_id, **changes})
        return state.detect_changes(graph, of).reason

    return reason


def test_a_view_is_recomputed_when_something_it_depends_on_changes(view, make, append):
    reasons = [view()]
    append("a")
    reasons.append(view())
    reasons.append(view(make.flow("v", "a", unrepeatable="it is random")))
    reasons.append(view(inputs={}))
    reasons.append(view(fingerprint="g"))

    assert reasons == [
        "inputs, code and settings are unchanged",
        '"a" changed',
        "full recompute: it is random",
        '"a" is a new input',
        "its code, settings or input columns changed",
    ]


@pytest.mark.parametrize(
    ("table", "reason"), [("a", '"a" was replaced'), ("v", "its table was replaced since its last run")]
)
def test_a_view_is_recomputed_when_its_table_or_input_is_replaced(view, append, layout, table, reason):
    rmtree(layout.table(Naming(), QualifiedName(table)))
    append(table)

    assert view() == reason


TABLE = Source(SourceKind.DATASET, "a")


@pytest.fixture
def stream(state, make):
    """A stream of a table, its graph and its checkpoint; it ran an hour ago."""
    flow = make.flow("s", "~a", mode=Mode.APPEND, sources=(TABLE,))
    record_of(state, flow, sources=(TABLE.digest,))
    return make.graph(make.flow("a"), flow), flow, state.checkpoint(flow, 0)


def position(path, version, index=-1, table=None):
    return {"reservoirId": table or table_state(path).table_id, "reservoirVersion": version, "index": index}


def test_a_table_stream_is_due_when_its_table_has_new_rows(state, stream, append):
    graph, flow, checkpoint = stream
    reasons = [state.detect_changes(graph, flow).reason]
    path = append("a")
    reasons.append(state.detect_changes(graph, flow).reason)
    for offset in (position(path, 1), position(path, 0, index=3), position(path, 1, table="another")):
        plan_batch(checkpoint, 0, offset)
        reasons.append(state.detect_changes(graph, flow).reason)
    plan_batch(checkpoint, 1, position(path, 1))
    append("a")
    reasons.append(state.detect_changes(graph, flow).reason)
    plan_batch(checkpoint, 2, position(path, 2), done=False)
    reasons.append(state.detect_changes(graph, flow).reason)

    assert reasons == [
        '"a" does not exist yet',
        '"a" has rows',
        "no new data in its sources",
        '"a" has unread rows',
        '"a" was replaced since its last run; to continue, run: headrace run --full-refresh s',
        '"a" has new rows',
        "batch 2 is unfinished",
    ]


@pytest.fixture
def feed(state, make):
    """The same of its change feed."""
    source = Source(SourceKind.DATASET, "a", passes_changes=True, reads_feed=True)
    flow = make.flow("s", "~a", mode=Mode.APPEND, sources=(source,))
    record_of(state, flow, sources=(source.digest,))
    return make.graph(make.flow("a"), flow), flow


def test_a_change_feed_has_no_new_data_after_the_last_change_of_the_newest_commit(state, feed, append):
    (graph, flow), path = feed, append("a")
    begun = {**position(path, 0, index=0), "isStartingVersion": True}
    reasons = []
    for number, offset in enumerate((begun, position(path, 0, index=0))):
        plan_batch(state.checkpoint(flow, 0), number, offset)
        reasons.append(state.detect_changes(graph, flow).reason)
    append("a")
    reasons.append(state.detect_changes(graph, flow).reason)

    assert reasons == ['"a" has unread rows', "no new data in its sources", '"a" has new rows']


@pytest.mark.parametrize(
    ("actions", "last"),
    [
        ([("add", True), ("add", True)], 1),
        ([("add", True), ("remove", True), ("add", False)], 1),
        # Rows of their own take the place of the files.
        ([("add", True), ("remove", True), ("add", True), ("cdc", False), ("cdc", False)], 1),
    ],
)
def test_a_change_feed_has_unread_rows_until_its_offset_is_at_the_last_change_of_a_commit(
    state, feed, append, actions, last
):
    (graph, flow), path = feed, append("a")
    file = {"partitionValues": {}, "size": 1, "modificationTime": 1, "deletionTimestamp": 1}
    written = [{kind: {**file, "path": f"{n}", "dataChange": changes}} for n, (kind, changes) in enumerate(actions)]
    commit = Path(path, "_delta_log", "00000000000000000001.json")
    commit.write_text("\n".join(map(json.dumps, written)))
    reasons = []
    for index in range(last + 1):
        plan_batch(state.checkpoint(flow, 0), index, position(path, 1, index=index))
        reasons.append(state.detect_changes(graph, flow).reason)

    assert reasons == ['"a" has unread rows'] * last + ["no new data in its sources"]


def test_an_empty_table_is_not_new_data_for_a_stream_without_an_offset(state, stream, layout):
    graph, flow, _ = stream
    DeltaTable.create(layout.table(Naming(), QualifiedName("a")), pa.schema([pa.field("id", pa.int32())]))

    assert state.detect_changes(graph, flow).reason == "no new data in its sources"


def test_a_stream_is_due_for_changed_sources_for_timers_and_after_a_week(state, stream, make, append):
    graph, flow, checkpoint = stream
    plan_batch(checkpoint, 0, position(append("a"), 1), None)

    two_positions = state.detect_changes(graph, flow).reason
    timed = replace(flow.analysis, operators=(StatefulOperator("transformWithState"),))
    timers = state.detect_changes(graph, replace(flow, analysis=timed)).reason
    write_record(state.record_file(flow), replace(state.record(flow), started_at=NOON - MAX_REST_S - 1))

    assert (two_positions, timers) == ("its sources changed", "its state may have timers that are due")
    assert state.detect_changes(graph, flow).reason == "runs at least once a week"


def test_a_stream_is_due_when_its_last_run_was_interrupted(state, stream, append):
    graph, flow, checkpoint = stream
    plan_batch(checkpoint, 0, position(append("a"), 1))
    rested = state.detect_changes(graph, flow).is_due

    write_record(state.record_file(flow), replace(state.record(flow), running=True))

    assert (rested, state.detect_changes(graph, flow).reason) == (False, "its last run was interrupted")


def test_a_stateful_stream_is_due_when_its_watermark_closed_unwritten_results(state, stream, append):
    graph, flow, checkpoint = stream
    plan_batch(checkpoint, 0, position(append("a"), 1), watermarks=(0, 5))
    stateful = replace(flow, analysis=replace(flow.analysis, operators=(StatefulOperator("aggregate"),)))
    reasons = [state.detect_changes(graph, flow).reason, state.detect_changes(graph, stateful).reason]

    plan_batch(checkpoint, 1, position(append("a"), 2), watermarks=(5, 5))

    assert [*reasons, state.detect_changes(graph, stateful).reason] == [
        "no new data in its sources",
        "its watermark closed results that are not written yet",
        "no new data in its sources",
    ]


@pytest.fixture
def files(state, make, tmp_path):
    """A function that says what is new to a stream of a folder."""

    def reason(*seen, recursive=False, listing=0):
        source = Source(SourceKind.FILES, json.dumps({"paths": [str(tmp_path / "land*")], "recursive": recursive}))
        flow = make.flow("s", mode=Mode.APPEND, sources=(source,))
        record_of(state, flow, sources=(source.digest,))
        checkpoint = state.checkpoint(flow, 0)
        plan_batch(checkpoint, 0, {"logOffset": 0})
        see_files(checkpoint, listing, *seen)
        return state.detect_changes(make.graph(flow), flow).reason

    return reason


def test_a_file_stream_is_due_only_for_files_that_spark_would_read(files, tmp_path):
    landing = tmp_path / "landing"
    for path in ("a b.json", "day=1/c.json", "_hidden", ".hidden", "x._COPYING_", "deeper/d.json", "_tmp/e.json"):
        file = landing / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    assert files() == "2 new files"
    assert files(recursive=True) == "3 new files"
    assert files(landing / "a b.json") == "1 new file"
    assert files(landing / "a b.json", landing / "day=1" / "c.json") == "no new data in its sources"


def test_a_source_can_be_a_single_file(files, tmp_path):
    (tmp_path / "landed.json").touch()

    assert files() == "1 new file"


def test_listed_files_that_are_not_processed_are_new_data(files, tmp_path):
    (tmp_path / "landed.json").touch()

    assert files(tmp_path / "landed.json") == "no new data in its sources"
    assert files(tmp_path / "landed.json", listing=1) == "listed files are not processed yet"


def test_a_file_stream_is_due_when_its_files_cannot_be_listed(files, tmp_path):
    nowhere = files()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "landing").mkdir()
    empty = files(recursive=True)
    (tmp_path / "landing" / "linked").symlink_to(tmp_path / "elsewhere")

    assert nowhere == f'"{tmp_path}/land*" cannot be listed'
    assert empty == "no new data in its sources"
    assert files(recursive=True) == f'"{tmp_path}/landing/linked" cannot be listed'


def test_a_pattern_matches_a_folder_with_a_dot_but_not_hidden_files(files, tmp_path):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / ".hidden").touch()
    (tmp_path / "land.d").mkdir()
    (tmp_path / "land.d" / "a.json").touch()

    assert files() == "1 new file"


def test_a_stream_is_due_when_its_source_cannot_be_polled(state, make):
    source = Source(SourceKind.OTHER, "kafka")
    flow = make.flow("s", mode=Mode.APPEND, sources=(source,))
    record_of(state, flow, sources=(source.digest,))
    plan_batch(state.checkpoint(flow, 0), 0, {"topic": 1})

    assert state.detect_changes(make.graph(flow), flow).reason == "must start to check kafka for new data"


def test_a_missing_checkpoint_is_reported_as_lost_only_if_its_flow_ran(state, make, append):
    view, stream, ruled = make.flow("v"), make.flow("s", mode=Mode.APPEND), make.flow("r", mode=Mode.APPEND)
    never = [state.disagreement(flow) for flow in (view, stream, ruled)]
    record_of(state, view)
    record_of(state, stream, epoch=1)
    own = transaction_id("pipeline", "r", 0)
    append("r", commit_properties=CommitProperties(app_transactions=[Transaction(own, 0)]))

    assert never == [None, None, None]
    assert (state.has_run(stream), state.has_run(ruled), state.disagreement(view)) == (True, False, None)
    assert lost_checkpoint(state, stream).endswith("/s/1")
    assert lost_checkpoint(state, ruled).endswith("/r/0")
    state.checkpoint(stream, 1).mkdir()
    (state.checkpoint(stream, 1) / "metadata").write_text('{"id": "q"}')
    assert state.disagreement(stream) is None


def test_the_event_log_shows_that_a_flow_ran_when_its_record_is_lost(state, make, append, logged):
    stream = make.flow("s", mode=Mode.APPEND)
    logged["s", "s"] = (2, 0)

    assert (state.has_run(stream), state.progress_of(stream).epoch) == (True, 2)
    assert lost_checkpoint(state, stream).endswith("/s/2")
    assert not state.has_run(make.flow("s", target="t", mode=Mode.APPEND))


def test_a_record_stores_only_the_digest_of_its_source(state, make):
    source = Source(SourceKind.FILES, '{"paths": ["/landing?token=hunter2"], "recursive": false}')
    flow = make.flow("s", mode=Mode.APPEND, sources=(source,))

    record = record_of(state, flow, sources=(source.digest,))

    assert read_record(state.record_file(flow)) == record
    assert "hunter2" not in state.record_file(flow).read_text()
    assert replace(source, detail="other").digest != source.digest


def test_a_table_with_a_zero_byte_newest_commit_is_rejected(append):
    path = append("s")
    commit_file(Path(path), 1).touch()

    with pytest.raises(PipelineError) as found:
        open_table(path)

    assert (found.value.code, found.value.params["file"]) == ("STORAGE.EMPTY_COMMIT", str(commit_file(Path(path), 1)))

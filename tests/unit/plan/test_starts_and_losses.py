"""Full refreshes and resets as decisions: what is lost, what is refused, and where a flow starts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoints.initial_offsets import DeltaPosition, FilesPosition, create_initial_checkpoint, file_url
from headrace.checkpoints.offsets import files_seen, read_progress
from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError, Problems
from headrace.graph.analysis import Source, SourceKind, StatefulOperator
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.graph.select import Selection, select
from headrace.graph.starts import EARLIEST, Start, StartKind, format_timestamp, parse_start
from headrace.model.datasets import Kind
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.plan.renames import RenameSettings, renames
from headrace.plan.restarts import restarts, resume_start
from headrace.plan.source_retention import SourceRetention
from headrace.plan.steps import TableChange, TableStep
from headrace.plan.table_kinds import changed_kinds
from headrace.plan.unfinished_clears import PendingClears
from headrace.plan.unrecoverable_rows import plan_clears
from headrace.settings.storage import StorageLayout
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.inventory import first_record, flows_of, stored_flows
from headrace.storage.source_retention import Epoch, file_retention, first_removal, table_retention, unknown_retention
from headrace.storage.start_positions import resolve_start

HERE = Location("pipeline.yml")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        (" Latest ", Start(StartKind.LATEST)),
        ("version:12", Start(StartKind.VERSION, version=12)),
        ("timestamp:1970-01-02", Start(StartKind.TIMESTAMP, timestamp_s=86400.0)),
        ("timestamp:1970-01-01T01:00:00.5Z", None),
        ("timestamp:1970-01-01T02:00:00+01:00", Start(StartKind.TIMESTAMP, timestamp_s=3600.0)),
        ("timestamp:1970-01-01T01:00:00Z", Start(StartKind.TIMESTAMP, timestamp_s=3600.0)),
        ("timestamp:soon", None),
        ("version:-1", None),
        ("version:²", None),
        ("newest", None),
        ("", None),
    ],
)
def test_start_positions_are_parsed_and_invalid_ones_give_none(text, start):
    # Half a second in this form is understood from Python 3.11 on.
    if start is None and text.endswith(".5Z"):
        assert parse_start(text) in (None, Start(StartKind.TIMESTAMP, timestamp_s=3600.5))
    else:
        assert parse_start(text) == start


@given(st.integers(0, 4_000_000_000_000))
def test_a_formatted_timestamp_parses_to_the_same_time(milliseconds):
    start = parse_start(f"timestamp:{format_timestamp(milliseconds / 1000)}")

    assert start is not None
    assert round(start.timestamp_s * 1000) == milliseconds


@pytest.fixture
def selected(make):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("a=b", target="s", mode=Mode.APPEND))
    return lambda *resets, **more: select(graph, Selection(reset_checkpoint=resets, **more), Naming())


def test_a_checkpoint_reset_is_parsed_into_a_flow_and_a_start_position(selected):
    assert selected("S").starts == {"s": EARLIEST}
    assert selected("a=b", "s=version:3").starts == {"a=b": EARLIEST, "s": Start(StartKind.VERSION, version=3)}
    assert selected("a=b=latest").starts == {"a=b": Start(StartKind.LATEST)}


@pytest.mark.parametrize(
    ("resets", "code"),
    [
        (("sss",), "RESET.UNKNOWN_FLOW"),
        (("sss=latest",), "RESET.UNKNOWN_FLOW"),
        (("s=soon",), "RESET.BAD_START"),
        (("s=latest", "s"), "RESET.TWICE"),
    ],
)
def test_an_invalid_checkpoint_reset_is_refused(selected, resets, code):
    with pytest.raises(Problems) as found:
        selected(*resets)

    assert [error.code for error in found.value] == [code]


def cleared(graph, past, *names, accept=False, interrupted=(), settled=(), lost=()):
    chosen = select(graph, Selection(full_refresh=names, accept_data_loss=accept), Naming())
    steps = {QualifiedName(name): TableStep(QualifiedName(name), TableChange.RESET, "") for name in names}
    due = PendingClears(*(frozenset(map(QualifiedName, names)) for names in (interrupted, settled, lost)))
    return plan_clears(graph, past, chosen, steps, due)


GONE = SourceRetention("s", "files", unrecoverable="2 of 3 files that were read are missing")


def test_clearing_unrecoverable_rows_requires_accepting_data_loss(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))
    known = past(held={"s": (3, 1)}, reaches={"s": (GONE,)})

    (problem,) = cleared(graph, known, "s").problems

    assert problem.hint.endswith("To discard the rows, add --accept-data-loss to the command.")
    assert problem.params["rows"] == "3 rows and 1 row in quarantine"
    accepted = cleared(graph, known, "s", accept=True)
    assert (accepted.problems, accepted.tables[QualifiedName("s")].loses_rows) == ((), True)
    assert cleared(graph, past(reaches={"s": (GONE,)}), "s").problems == ()


def test_an_interrupted_clear_with_accepted_data_loss_continues_without_a_new_approval(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))
    known = past(held={"s": (3, 0)}, reaches={"s": (GONE,)})

    settled = cleared(graph, known, "s", interrupted=["s"], settled=["s"])
    announced = cleared(graph, known, "s", interrupted=["s"])

    step = settled.tables[QualifiedName("s")]
    assert (settled.problems, step.loses_rows, step.accepted) == ((), True, True)
    assert [loss.rows for loss in settled.losses] == [3]
    assert [problem.code for problem in announced.problems] == ["PLAN.DATA_LOSS"]
    assert "headrace run --reset-checkpoint s=latest." in announced.problems[0].hint
    assert cleared(graph, past(reaches={"s": (GONE,)}), "s", interrupted=["s"]).tables[QualifiedName("s")].loses_rows


def test_the_data_loss_hint_for_a_missing_checkpoint_suggests_a_checkpoint_reset(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("a=b", target="s", mode=Mode.APPEND))
    missing = replace(GONE, flow="a=b", checkpoint_lost=True)

    (problem,) = cleared(graph, past(held={"s": (3, 0)}, reaches={"a=b": (missing,)}), "s").problems

    assert problem.hint.startswith("Keep the table and reset its flows: headrace run --reset-checkpoint a=b=latest. ")


def test_clearing_quarantined_rows_of_a_deleted_table_requires_accepting_data_loss(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))

    (problem,) = cleared(graph, past(held={"s": (0, 2)}, reaches={"s": (GONE,)}), "s", lost=["s"]).problems

    assert (problem.code, problem.params["rows"]) == ("PLAN.DATA_LOSS", "0 rows and 2 rows in quarantine")
    assert problem.hint.startswith("Restore the table. ")
    assert cleared(graph, past(reaches={"s": (GONE,)}), "s", lost=["s"]).problems == ()


def test_a_flow_record_still_reports_lost_rows_after_later_clears():
    cut = FlowRecord().cleared(1, rows_lost=True)

    assert (cut.cleared(2, rows_lost=False).rows_lost, FlowRecord().cleared(1, rows_lost=False).rows_lost) == (
        True,
        False,
    )


def test_data_loss_in_a_table_propagates_to_the_tables_that_read_it(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("t", "~s", mode=Mode.APPEND))
    reads = SourceRetention("t", 'table "s"', "version 0", dataset=QualifiedName("s"))
    known = past(held={"s": (1, 0), "t": (1, 0)}, reaches={"s": (GONE,), "t": (reads,)})

    assert [str(problem.params["name"]) for problem in cleared(graph, known, "s", "t").problems] == ["s", "t"]
    assert cleared(graph, known, "t").problems == ()


def test_rows_of_a_flow_removed_from_the_code_are_unrecoverable(make, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))

    (problem,) = cleared(graph, past(held={"s": (1, 0)}, gone_flows={"s": ("other",)}), "s").problems

    assert "no longer in the code" in problem.detail


def refused(graph, past, text, *, clear=(), refresh=()):
    chosen = select(graph, Selection(refresh, clear, reset_checkpoint=(text,)), Naming())
    _, problems = restarts(graph, past(), chosen, chosen.full_refresh)
    return [problem.code for problem in problems]


def test_an_unsupported_checkpoint_reset_is_refused_with_the_reason(make, past):
    state = StatefulOperator("deduplicate")
    graph = make.graph(
        make.flow("v"),
        make.flow("o", mode=Mode.ONCE),
        make.flow("c", mode=Mode.COMPLETE),
        make.flow("k", mode=Mode.APPEND, operators=(state,)),
        make.flow("s", mode=Mode.APPEND),
    )

    assert [refused(graph, past, name) for name in "voc"] == [["RESET.NO_PROGRESS"]] * 3
    assert (refused(graph, past, "k=latest"), refused(graph, past, "k")) == (["RESET.STATEFUL"], [])
    assert refused(graph, past, "s", refresh=("v",)) == ["RESET.NOT_SELECTED"]
    assert refused(graph, past, "s", clear=("s",)) == ["RESET.CLEARED"]


def test_a_changed_table_kind_or_flow_mode_requires_a_full_refresh(make, past):
    graph = make.graph(make.flow("v"), make.flow("o", mode=Mode.ONCE))
    known = past(kinds={"v": Kind.STREAMING_TABLE}, modes={"o": Mode.APPEND})

    problems, names = changed_kinds(graph, known, select(graph, Selection(), Naming()))

    assert [problem.code for problem in problems] == ["TABLE.KIND_CHANGED", "FLOW.MODE_CHANGED"]
    assert names == {QualifiedName("v"), QualifiedName("o")}
    assert changed_kinds(graph, known, select(graph, Selection((), ("v", "o")), Naming()))[0] == []


@pytest.mark.parametrize("mode", [Mode.COMPLETE, Mode.REPLACE])
def test_a_flow_that_replaces_its_table_does_not_overwrite_rows_of_other_flows(make, past, mode):
    graph = make.graph(make.flow("t", mode=mode))

    def refused(clear=(), **facts):
        problems, _ = changed_kinds(graph, past(**facts), select(graph, Selection((), clear), Naming()))
        return [problem.code for problem in problems]

    assert refused(held={"t": (3, 0)}) == ["TABLE.ROWS_OF_OTHERS"]
    assert refused(held={"t": (3, 0)}, wrote_rows={"t"}) == []
    assert refused(held={"t": (3, 0)}, clear=("t",)) == []
    assert refused() == []


def test_a_complete_mode_flow_does_not_overwrite_rows_of_removed_flows(make, past):
    graph = make.graph(make.flow("agg", target="t", mode=Mode.COMPLETE))
    known = past(held={"t": (3, 0)}, wrote_rows={"agg"}, gone_flows={"t": ("one",)})

    (problem,), _ = changed_kinds(graph, known, select(graph, Selection(), Naming()))

    assert problem.code == "TABLE.ROWS_OF_OTHERS"
    assert 'flows that are no longer in the code: "one"' in problem.detail


def test_a_reset_flow_resumes_from_the_newest_start_position_that_it_supports(make):
    files, other = make.source(SourceKind.FILES, "{}"), make.source(SourceKind.OTHER, "kafka")

    def start(mode=Mode.APPEND, **analysis):
        return resume_start(make.flow("f", mode=mode, **analysis))

    assert start(sources=(files,)) is StartKind.LATEST
    assert start(sources=(files, other)) is StartKind.EARLIEST
    assert start(operators=(StatefulOperator("deduplicate"),)) is StartKind.EARLIEST
    assert [start(mode) for mode in (Mode.COMPLETE, Mode.ONCE, Mode.REPLACE)] == [None] * 3


class Names:
    """What lies under names: old ones that are pending, and new ones that are taken."""

    def __init__(self, *pending, taken=None):
        self._pending = pending
        self._taken = taken

    def is_pending(self, rename):
        return rename.old in self._pending

    def has_flow(self, flow):
        return flow in self._pending

    def conflict(self, _rename):
        return self._taken


def test_only_stored_datasets_and_flows_are_renamed(make):
    graph = make.graph(make.flow("new"), make.flow("f", target="t", mode=Mode.APPEND))
    names = RenameSettings({"old": "new", "older": "new2"}, {"g": "f"})

    found = renames(names, graph, Naming(), Names("old", "g"), HERE)

    assert [(rename.old, rename.new) for rename in found] == [("old", "new"), ("g", "f")]
    assert renames(names, graph, Naming(), Names(), HERE) == ()
    assert renames(RenameSettings({}, {"gone": "too"}), graph, Naming(), Names(), HERE) == ()


def test_a_persisted_view_is_renamed_too(make):
    flow = make.flow("v", mode=Mode.VIEW)
    views = tuple(replace(d, dataset=d.dataset.with_kind(Kind.PERSISTED_VIEW)) for d in make.graph(flow).datasets)

    (found,) = renames(RenameSettings({"old": "v"}, {}), ResolvedGraph(views, (flow,)), Naming(), Names("old"), HERE)

    assert found.describe() == "rename     v: takes over the definition of view old"


@pytest.mark.parametrize(
    ("datasets", "stored", "code"),
    [
        ({"new": "other"}, Names(), "RENAME.STILL_DEFINED"),
        ({"old": "nwe"}, Names("old"), "RENAME.NOT_DEFINED"),
        ({"old": "new"}, Names("old", taken="/tables/new"), "RENAME.TAKEN"),
        ({"a": "b", "b": "new"}, Names(), "RENAME.CHAIN"),
        ({"a": "new", "b": "new"}, Names(), "RENAME.CHAIN"),
        ({"a/b": "new"}, Names(), "RENAME.INVALID"),
    ],
)
def test_invalid_or_conflicting_renames_are_refused(make, datasets, stored, code):
    with pytest.raises(Problems) as found:
        renames(RenameSettings(datasets, {}), make.graph(make.flow("new")), Naming(), stored, HERE)

    assert [error.code for error in found.value] == [code]


def test_a_rename_is_refused_if_the_code_defines_the_old_name_on_an_unavailable_source(make):
    flow = make.flow("new_flow", target="new", mode=Mode.APPEND)
    graph = make.graph(flow, unavailable=(make.unavailable("old"), make.unavailable("old_flow", target="new")))

    with pytest.raises(Problems) as found:
        renames(
            RenameSettings({"old": "new"}, {"old_flow": "new_flow"}), graph, Naming(), Names("old", "old_flow"), HERE
        )

    assert [error.code for error in found.value] == ["RENAME.STILL_DEFINED", "RENAME.STILL_DEFINED"]


@pytest.fixture
def table(tmp_path):
    """A table of three appends."""
    path = str(tmp_path / "t")
    for number in range(3):
        write_deltalake(path, pa.table({"id": pa.array([number], pa.int32())}), mode="append")
        os.utime(Path(path) / "_delta_log" / f"{number:020d}.json", (1000 + number, 1000 + number))
    return path


@pytest.fixture
def stream(make):
    source = make.source(SourceKind.DATASET, "t")
    return make.flow("s", "~t", mode=Mode.APPEND, sources=(source,)), source


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("version:0", 0),
        ("version:3", 3),
        ("latest", 3),
        ("timestamp:1970-01-01", 0),
        ("timestamp:1970-01-01T00:16:41Z", 1),
        ("timestamp:1970-01-01T00:16:42Z", 2),
    ],
)
def test_a_start_position_resolves_to_a_table_version(table, stream, text, version):
    flow, source = stream

    found = resolve_start(flow, source, parse_start(text), table_state(table), cleared=False, now_s=2e9)

    assert found.position == DeltaPosition(table_state(table).table_id, version)


def test_a_start_position_that_the_table_does_not_have_is_refused(table, stream):
    flow, source = stream

    def code(text, state=None, *, cleared=False):
        with pytest.raises(PipelineError) as found:
            resolve_start(flow, source, parse_start(text), state, cleared=cleared, now_s=2e9)
        return found.value.code

    state = table_state(table)
    assert [code(text, state) for text in ("version:4", "timestamp:2999-01-01")] == ["RESET.OUT_OF_RANGE"] * 2
    assert (code("latest"), code("latest", state, cleared=True)) == ("RESET.CANNOT_START", "RESET.CANNOT_START")
    (Path(table) / "_delta_log" / f"{0:020d}.json").unlink()
    assert [code(text, state) for text in ("version:0", "timestamp:1970-01-01")] == ["RESET.OUT_OF_RANGE"] * 2


@pytest.fixture
def landing(tmp_path, make):
    """Two files, and the source and the flow that read them."""
    folder = tmp_path / "landing"
    folder.mkdir()
    for number, name in enumerate(("a.json", "b.json")):
        (folder / name).write_text("{}")
        os.utime(folder / name, (1000 + number, 1000 + number))
    source = make.source(SourceKind.FILES, json.dumps({"paths": [str(folder)], "recursive": False}))
    return folder, make.flow("s", mode=Mode.APPEND, sources=(source,)), source


def test_a_start_position_resolves_to_the_files_to_skip(landing):
    folder, flow, source = landing

    latest = resolve_start(flow, source, parse_start("latest"), None, cleared=False, now_s=2e9)
    later = resolve_start(flow, source, parse_start("timestamp:1970-01-01T00:16:41Z"), None, cleared=False, now_s=2e9)

    both = ((f"{folder}/a.json", 1000000), (f"{folder}/b.json", 1001000))
    assert (latest.position, later.position) == (FilesPosition(both), FilesPosition(both[:1]))
    assert latest.position_text == "new files only, 2 files skipped"


def test_a_source_with_its_own_offsets_supports_only_the_earliest_start_position(make):
    source = make.source(SourceKind.OTHER, "kafka secret=1")
    flow = make.flow("s", mode=Mode.APPEND, sources=(source,))

    with pytest.raises(PipelineError) as found:
        resolve_start(flow, source, parse_start("latest"), None, cleared=False, now_s=2e9)

    assert (found.value.code, "secret" in found.value.render()) == ("RESET.CANNOT_START", False)
    assert resolve_start(flow, source, EARLIEST, None, cleared=False, now_s=2e9).position is None


def test_an_initial_checkpoint_is_read_like_a_checkpoint_of_spark(tmp_path, table):
    position = DeltaPosition("t", 3)
    seen = FilesPosition((("/l/ä b.json", 5),))

    create_initial_checkpoint(tmp_path / "7", "q", [position, seen, FilesPosition()])

    progress = read_progress(tmp_path / "7")
    assert (progress.completed, progress.offsets) == (True, (position.offset(), {"logOffset": 0}, None))
    assert files_seen(tmp_path / "7", 1) == {"/l/ä b.json"}
    assert json.loads((tmp_path / "7" / "metadata").read_text()) == {"id": "q"}
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    with pytest.raises(FileExistsError):
        create_initial_checkpoint(tmp_path / "7", "q", [position])


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1))
def test_a_file_url_decodes_to_the_original_path(text):
    assert unquote(file_url(f"/{text}").removeprefix("file://")) == f"/{text}"


def epoch(checkpoint, *positions):
    if positions:
        create_initial_checkpoint(checkpoint, "q", positions)
    return Epoch(checkpoint, read_progress(checkpoint))


def reach(table, read, *, passes=False, rows_lost=False, same=True):
    """What a stream of the table "t" can read again."""
    source = Source(SourceKind.DATASET, "t", passes_changes=passes)
    return table_retention("s", 0, source, QualifiedName("t"), table, read, rows_lost=rows_lost, same=same)


def test_deleted_source_files_are_counted_as_unrecoverable(landing, tmp_path):
    folder, _, source = landing
    both = ((f"{folder}/a.json", 1_000_000), (f"{folder}/b.json", 1_001_000))
    read = [epoch(tmp_path / "0", FilesPosition(both[:1])), epoch(tmp_path / "1", FilesPosition(both))]

    whole = file_retention("s", 0, source, read)
    (folder / "a.json").unlink()
    lacking = file_retention("s", 0, source, read)

    assert (whole.unrecoverable, whole.oldest) == ("", f"{folder}/a.json of 1970-01-01T00:16:40Z")
    assert lacking.unrecoverable == "1 of 2 files that were read is missing"
    assert file_retention("s", 0, source, []).unrecoverable == ""


def test_overwritten_source_files_are_counted_as_unrecoverable(landing, tmp_path):
    folder, _, source = landing
    both = ((f"{folder}/a.json", 1_000_000), (f"{folder}/b.json", 1_001_000))
    read = [epoch(tmp_path / "0", FilesPosition(both))]

    os.utime(folder / "b.json", (1002, 1002))
    changed = file_retention("s", 0, source, read).unrecoverable
    (folder / "a.json").unlink()

    assert changed == "1 of 2 files that were read is different now"
    assert file_retention("s", 0, source, read).unrecoverable == f"1 of 2 files that were read is missing and {changed}"


def test_removed_rows_or_a_replaced_source_table_make_rows_unrecoverable(table, tmp_path):
    state = table_state(table)
    read = [epoch(tmp_path / "0", DeltaPosition(state.table_id, 1))]

    def unrecoverable(**facts):
        return reach(table_state(table), read, **facts).unrecoverable

    whole = unrecoverable()
    DeltaTable(table).delete("id = 0")

    assert (whole, unrecoverable()) == ("", "version 3 removed or changed rows that were read")
    read = [epoch(tmp_path / "1", DeltaPosition("another", 1))]
    assert [unrecoverable(), unrecoverable(rows_lost=True), unrecoverable(same=False)] == [
        "",
        "it was cleared and lost rows",
        "a different table was read before",
    ]
    assert reach(None, read).unrecoverable == "it no longer exists"


def test_removals_before_the_first_version_of_the_delta_log_are_unknown(table, tmp_path):
    state = table_state(table)
    read = [epoch(tmp_path / "0", DeltaPosition(state.table_id, 2))]
    (Path(table) / "_delta_log" / f"{0:020d}.json").unlink()

    def unrecoverable(read, *, passes):
        return reach(state, read, passes=passes).unrecoverable

    unknown = "its log starts at version 1, so earlier removals are unknown"
    assert [unrecoverable(read, passes=passes) for passes in (False, True)] == ["", ""]
    (tmp_path / "0" / "offsets" / "0").unlink()
    assert [unrecoverable(read, passes=passes) for passes in (False, True)] == ["", unknown]
    behind = [epoch(tmp_path / "1", DeltaPosition(state.table_id, 0))]
    assert unrecoverable(behind, passes=False) == unknown


def test_first_removal_ignores_versions_before_the_given_one(table):
    DeltaTable(table).delete("id = 0")

    assert (first_removal(table_state(table), 3), first_removal(table_state(table), 4)) == (3, None)


@pytest.mark.parametrize(("records_batches", "found"), [(True, None), (False, 3)])
def test_the_restore_of_a_savepoint_removes_no_rows_that_its_readers_still_have(table, records_batches, found):
    actions = [
        {"commitInfo": {"operation": "RESTORE"}},
        *([{"txn": {"appId": "headrace:1", "version": 0}}] if records_batches else []),
        {"remove": {"path": "a", "dataChange": True}},
    ]
    commit = Path(table) / "_delta_log" / f"{3:020d}.json"
    commit.write_text("\n".join(map(json.dumps, actions)))

    assert first_removal(table_state(table), 0) == found


def test_first_removal_ignores_rows_of_a_replaced_table(table):
    before = table_state(table)
    actions = [
        {"commitInfo": {"operation": "CREATE OR REPLACE TABLE"}},
        {"metaData": {"id": "made anew"}},
        {"remove": {"path": "a", "dataChange": True}},
    ]
    commit = Path(table) / "_delta_log" / f"{3:020d}.json"
    commit.write_text("\n".join(map(json.dumps, actions)))

    assert (first_removal(replace(before, table_id="made anew"), 0), first_removal(before, 0)) == (None, 3)


def test_a_source_that_was_never_read_has_no_unrecoverable_rows(tmp_path):
    assert unknown_retention("s", "source kafka", []).unrecoverable == ""
    assert unknown_retention("s", "source kafka", [epoch(tmp_path / "0", FilesPosition())]).unrecoverable != ""


def test_stored_flows_are_named_by_their_record_or_else_by_their_folder(tmp_path):
    layout, naming, dataset = StorageLayout(str(tmp_path)), Naming(), QualifiedName("t")
    write_record(Path(layout.flow_state(naming, dataset, "a b")), FlowRecord())
    write_record(Path(layout.flow_state(naming, dataset, "x" * 200)), FlowRecord(flow="x" * 200, identity="first"))
    write_record(Path(layout.flow_state(naming, QualifiedName("u", "other"), "u")), FlowRecord())

    assert [(flow.name, flow.record.identity) for flow in flows_of(layout, naming, dataset)] == [
        ("a b", "a b"),
        ("x" * 200, "first"),
    ]
    assert {str(flow.dataset) for flow in stored_flows(layout, naming)} == {"t", "other.u"}


def test_a_new_flow_with_a_former_name_of_another_flow_gets_a_new_identity(tmp_path):
    layout, naming, dataset = StorageLayout(str(tmp_path)), Naming(), QualifiedName("t")
    renamed = FlowRecord(flow="b", identity="a", former_names={"a": 0})
    write_record(Path(layout.flow_state(naming, dataset, "b")), renamed)

    record, ran = first_record("a", flows_of(layout, naming, dataset), 0)

    assert (record.identity, record.epoch, ran) == ("a~2", 1, False)
    assert first_record("c", flows_of(layout, naming, dataset), 4) == (FlowRecord(epoch=4, identity="c"), True)


def test_an_old_record_without_a_first_epoch_uses_its_current_epoch(tmp_path):
    file = tmp_path / "flow.json"
    write_record(file, FlowRecord(epoch=3))
    raw = json.loads(file.read_text())
    del raw["first_epoch"]
    file.write_text(json.dumps(raw))

    assert read_record(file).first_epoch == 3

"""Which positions in topics a restore goes back to: only these can be lost at a broker."""

from __future__ import annotations

import json

from headrace.project.savepoints.restore_plan import FlowAction, FlowRestore, RestorePlan
from headrace.project.savepoints.topics import SavedTopics, not_asked, saved_topics
from headrace.settings.storage import StorageLayout
from headrace.storage.savepoints.manifest import SavedFlow, Savepoint, SavepointKind
from headrace.stores.paths import storage_path

FILES = {"logOffset": 3}


def saved(name):
    return SavedFlow(name, name, name, "append", f"checkpoints/{name}", 0)


def flow(root, name, *offsets, action=FlowAction.BACK):
    """A flow with a completed batch in the savepoint, at the offsets of its sources."""
    folder = root / "savepoints" / "sp-1" / "flows" / "checkpoints" / name / "checkpoint"
    texts = {"offsets": ["v1", "{}", *map(json.dumps, offsets)], "commits": ["v1", "{}"]}
    for part, lines in texts.items():
        (folder / part).mkdir(parents=True)
        (folder / part / "0").write_text("\n".join(lines), encoding="utf-8")
    return FlowRestore(name, name, action, saved(name), storage_path(str(root)) / "flow.json", None)


def test_topics_of_flows_that_go_back_are_asked_about_and_a_dry_run_names_these_flows(tmp_path):
    flows = (
        flow(tmp_path, "both", {"orders": {"0": 5, "1": 7}}, FILES, {"users": {"0": 2}}),
        flow(tmp_path, "files", FILES),
        flow(tmp_path, "kept", {"orders": {"0": 5}}, action=FlowAction.KEPT),
    )
    savepoint = Savepoint("sp-1", "", SavepointKind.MANUAL, 0, None, "p", {}, "", has_code=False, tables=(), flows=())

    topics = saved_topics(RestorePlan(savepoint, (), flows), StorageLayout(str(tmp_path)))
    answers = not_asked(topics)

    assert topics == (
        SavedTopics("both", 0, {("orders", 0): 5, ("orders", 1): 7}),
        SavedTopics("both", 2, {("users", 0): 2}),
    )
    assert answers.losses == ()
    assert [note.partition(":")[0] for note in answers.notes] == [
        'whether the broker still has all records for flow "both" is unknown'
    ]

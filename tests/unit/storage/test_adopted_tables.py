"""Records of tables that lie outside of the storage, or have left the pipeline, and what they protect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from headrace.delta_log.tables import table_version
from headrace.errors import PipelineError
from headrace.model.maintenance import MaintenancePolicy, Task
from headrace.model.names import Naming, QualifiedName
from headrace.plan.maintenance import ActionState, table_action
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, MovedFlow, TableRecord
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.inventory import stored_tables
from headrace.storage.maintained_tables import maintained_tables, table_facts
from headrace.stores.paths import storage_path

ORDERS, NAMING = QualifiedName("orders"), Naming()
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
JOB = MovedFlow("orders", "", "q-1", planned=4, committed=4, epoch=1, own_query_id="q-2")


class Adopted:
    """A storage with a link to a table outside, and its record."""

    def __init__(self, folder):
        self.location, self.layout = folder / "data" / "orders", StorageLayout(str(folder / "storage"))
        write_deltalake(str(self.location), ROWS, commit_properties=batch(4))
        self.link = Path(self.layout.table(NAMING, ORDERS))
        self.link.parent.mkdir(parents=True)
        self.link.symlink_to(self.location)
        self.records = AdoptedTables(self.layout)
        known = table_version(str(self.location))
        storage = str(folder / "storage")
        self.record = TableRecord("orders", str(self.location), known.table_id, storage, Handover.ADOPTED, 0.0, (JOB,))
        self.records.store(self.record)
        file = storage_path(self.layout.flow_state(NAMING, ORDERS, "orders"))
        write_record(file, FlowRecord(epoch=1, flow="orders", mode="append", started_at=1.0))

    def problem(self):
        record = self.records.of("orders", str(self.link))
        found = self.records.problem_of(record, str(self.link))
        return None if found is None else found.code


def batch(number):
    """The commit of a batch by Delta's own sink."""
    return CommitProperties(app_transactions=[Transaction("q-1", number)])


@pytest.fixture
def adopted(tmp_path):
    return Adopted(tmp_path.resolve())


def test_a_record_is_read_as_it_was_written(adopted):
    """Guards the stored format: later versions read what this one has written."""
    record = replace(adopted.record, consents=frozenset({Consent.CLEAR, Consent.MAINTAIN}))
    adopted.records.store(record)

    assert adopted.records.at(str(adopted.link)) == record


def test_an_adopted_table_may_be_written_while_everything_is_as_it_was(adopted):
    """Guards that the checks have no false alarm."""
    assert adopted.problem() is None


def replaced(adopted):
    write_deltalake(str(adopted.location.with_name("new")), ROWS)
    adopted.location.rename(adopted.location.with_name("old"))
    adopted.location.with_name("new").rename(adopted.location)


def copied(adopted):
    adopted.records.store(replace(adopted.record, storage="/elsewhere/storage"))


def job_goes_on(adopted):
    write_deltalake(str(adopted.location), ROWS, mode="append", commit_properties=batch(5))


def job_plans_on(adopted):
    checkpoint = adopted.location.with_name("checkpoint")
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "5").write_text("v1\n{}\n{}")
    adopted.records.store(replace(adopted.record, flows=(replace(JOB, checkpoint=str(checkpoint)),)))


def state(handover):
    return lambda adopted: adopted.records.store(replace(adopted.record, state=handover))


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (replaced, "ADOPT.TABLE_REPLACED"),
        (lambda adopted: adopted.location.rename(adopted.location.with_name("old")), "ADOPT.TABLE_LOST"),
        (lambda adopted: adopted.link.unlink(), "ADOPT.LINK_LOST"),
        (copied, "ADOPT.STORAGE_COPIED"),
        (job_goes_on, "ADOPT.JOB_WRITES"),
        (job_plans_on, "ADOPT.JOB_WRITES"),
        (state(Handover.ADOPTING), "ADOPT.UNFINISHED"),
        (state(Handover.RELEASING), "ADOPT.UNFINISHED"),
        (state(Handover.RELEASED), "RELEASE.RELEASED"),
    ],
)
def test_a_flow_does_not_write_when_the_table_is_not_what_was_adopted(adopted, happens, code):
    """Guards each way in which a link can lead to a table that the pipeline must not write to."""
    happens(adopted)

    assert adopted.problem() == code


def test_a_link_without_a_record_is_a_table_of_the_pipeline(adopted):
    """Guards that a table which somebody has put on another disk by a link is maintained and cleared as any other."""
    adopted.records.remove(adopted.record)

    assert adopted.records.of("orders", str(adopted.link)) is None


def test_a_renamed_dataset_keeps_its_record(adopted):
    """Guards that the link says which table is meant, at any step of a rename, and that the old name is free then."""
    renamed = adopted.link.with_name("sales")
    adopted.records.rename("orders", "sales")
    assert adopted.records.of("sales", str(adopted.link)).location == str(adopted.location)
    adopted.link.rename(renamed)

    found = adopted.records.of("sales", str(renamed))

    assert found == replace(adopted.record, dataset="sales")
    assert adopted.records.problem_of(found, str(renamed)) is None
    assert adopted.records.of("orders", str(adopted.link)) is None


@pytest.mark.parametrize("text", ["", '{"format": 1}', '{"format": 99}'])
def test_a_record_that_cannot_be_read_is_an_error(adopted, text):
    """Guards that a torn or newer record never means that the table may be cleared."""
    (file,) = Path(adopted.layout.root, "system", "adopted").iterdir()
    file.write_text(text)

    with pytest.raises(PipelineError) as error:
        adopted.records.at(str(adopted.link))

    assert error.value.code == "ADOPT.RECORD_UNREADABLE"


def test_released_tables_are_no_tables_of_the_storage(adopted):
    """Guards that nothing which walks through the storage touches a table that has left."""
    before = [name for name, _ in stored_tables(adopted.layout, NAMING)]
    state(Handover.RELEASED)(adopted)

    after = [name for name, _ in stored_tables(adopted.layout, NAMING)]

    assert (before, after) == ([ORDERS], [])


@pytest.mark.parametrize(
    ("consents", "expected"),
    [(frozenset(), ActionState.SKIPPED), (frozenset({Consent.MAINTAIN}), ActionState.PLANNED)],
)
def test_files_are_maintained_only_with_consent(adopted, consents, expected):
    """Guards that maintenance neither compacts nor vacuums an adopted table, and says which command allows it."""
    adopted.records.store(replace(adopted.record, consents=consents))
    for _ in range(25):
        write_deltalake(str(adopted.location), ROWS, mode="append")

    (table,) = maintained_tables(adopted.layout, NAMING)
    policy = MaintenancePolicy()
    facts = table_facts(table, adopted.layout, NAMING, policy, 0.0, is_held=False)
    action = table_action(Task.COMPACT, facts, policy, 0.0)

    assert action.state is expected
    if not consents:
        assert action.reason.endswith("to allow it: headrace adopt orders --allow maintain")


def test_the_stored_form_is_readable_json(adopted):
    """Guards the names of the keys, which people and later versions read."""
    (file,) = Path(adopted.layout.root, "system", "adopted").iterdir()

    known = json.loads(file.read_text())

    assert sorted(known) == [
        *("allow", "changed_at", "dataset", "flows", "format", "location", "state", "storage", "table_id")
    ]
    assert sorted(known["flows"][0]) == [
        *("checkpoint", "committed", "epoch", "flow", "own_query_id", "planned", "query_id")
    ]

"""Whether a table still has what a flow read of it, when the flow's positions are lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.checkpoints.epochs import read_epoch
from headrace.delta_log.tables import table_state
from headrace.graph.analysis import SourceKind
from headrace.model.names import QualifiedName
from headrace.storage.source_retention import table_retention


@pytest.fixture
def retention(tmp_path, make):
    """The retention of a table for a flow whose only checkpoint is missing; the table has lost rows or not."""
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({"id": pa.array([1, 2], pa.int32())}))

    def found(*, removes, rows_lost=False, same=True):
        if removes:
            DeltaTable(path).delete("id = 1")
        source = make.source(SourceKind.DATASET, "orders")
        read = [read_epoch(tmp_path / "flow" / "0")]
        name = QualifiedName("orders")
        return table_retention("f", 0, source, name, table_state(path), read, rows_lost=rows_lost, same=same)

    return found


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ({"removes": True}, "version 1 of the table removed or changed rows"),
        ({"removes": False, "rows_lost": True}, "the table was cleared and lost rows"),
        ({"removes": False, "same": False}, "a different table was read before"),
        ({"removes": False}, ""),
    ],
)
def test_a_flow_with_a_lost_epoch_may_have_read_all_that_its_table_ever_had(retention, given, loss):
    found = retention(**given).unrecoverable

    assert (found.endswith(loss), bool(found)) == (True, bool(loss))

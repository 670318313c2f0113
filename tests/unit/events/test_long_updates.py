"""What is read of an update with many batches: states, the newest batches of each flow, and whether it has ended."""

from __future__ import annotations

from tests.unit.serve.conftest import new_shop

from headrace.events.reader import EventReader
from headrace.events.recorded import events_of_update, has_ended
from headrace.events.types import BatchDone, FlowStateChanged, UpdateStateChanged
from headrace.model.outcome import FlowCounts, FlowState, UpdateState

COUNTS = FlowCounts(rows_written=1)


def batches(flow, many):
    return [BatchDone(flow, flow, 0, number, COUNTS) for number in range(many)]


def test_a_flow_that_stopped_early_keeps_its_batches_beside_one_that_goes_on(tmp_path):
    shop = new_shop(tmp_path)
    begun = [FlowStateChanged(flow, flow, FlowState.RUNNING, attempt=1) for flow in ("early", "late")]
    shop.update("before-0000", *batches("early", 3), UpdateStateChanged(UpdateState.COMPLETED))
    shop.update("during-0000", *begun, *batches("early", 2), *batches("late", 9))
    reader = EventReader(shop.events)

    found = [one.event for one in events_of_update(reader, "during-0000", 3)]

    assert found[1:3] == begun
    assert [(one.flow, one.batch_id) for one in found[3:]] == [
        *(("early", number) for number in (0, 1)),
        *(("late", number) for number in (6, 7, 8)),
    ]
    assert [has_ended(reader, one) for one in ("before-0000", "during-0000")] == [True, False]

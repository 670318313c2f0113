"""Whether a flow of a stage has read exactly what its flow in production has read.

If it has not, a stream that goes on behind the swap misses rows, or gets rows again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.autoloader.ledger.positions import files_up_to
from headrace.checkpoints.offsets import files_seen_with_times, read_progress
from headrace.delta_log.tables import TableState
from headrace.storage.health import FlowHealth
from headrace.storage.input_changes import has_unread_rows
from headrace.storage.positions import ledger_folders


def input_difference(
    production: FlowHealth, staged: FlowHealth, pairs: Mapping[str, str], tables: Mapping[str, TableState]
) -> str | None:
    """How the input that two flows have read differs, as the end of a sentence; None if it is the same.

    Args:
        production: the flow of production.
        staged: the flow of the stage.
        pairs: by the id of each table of the stage, the id of the table that it replaces.
        tables: the tables of production, by id.
    """
    if not (production.has_checkpoint and staged.has_checkpoint):
        # A view has the rows of its inputs, and a flow that runs once has run.
        return None
    then, now = (read_progress(flow.stores.checkpoint) for flow in (production, staged))
    if then is None and now is None:
        return None
    if then is None or now is None:
        return f"only {'the stage' if then is None else 'production'} has read anything"
    if len(then.offsets) != len(now.offsets):
        return "it reads other sources now"
    for number, offsets in enumerate(zip(then.offsets, now.offsets, strict=True)):
        if not _is_same(number, (production, staged), offsets, pairs, tables):
            return f"its source {number + 1} was read to other positions"
    return None


def _is_same(
    number: int,
    flows: tuple[FlowHealth, FlowHealth],
    offsets: tuple[Any, Any],
    pairs: Mapping[str, str],
    tables: Mapping[str, TableState],
) -> bool:
    then, now = offsets
    if then == now and not (isinstance(then, Mapping) and then.keys() == {"logOffset"}):
        return True
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)) or then.keys() != now.keys():
        return False
    if "reservoirId" in then:
        return _is_same_version(then, now, pairs, tables)
    if {"ledger", "number"} <= then.keys():
        read = [
            files_up_to(ledger_folders(flow.stored.file.parent), one) for flow, one in zip(flows, offsets, strict=True)
        ]
        return read[0] is not None and read[0] == read[1]
    if then.keys() == {"logOffset"}:
        listed = [files_seen_with_times(flow.stores.checkpoint, number) for flow in flows]
        return listed[0] == listed[1]
    return False


def _is_same_version(
    then: Mapping[str, Any], now: Mapping[str, Any], pairs: Mapping[str, str], tables: Mapping[str, TableState]
) -> bool:
    table_id = str(then["reservoirId"])
    if pairs.get(str(now["reservoirId"])) == table_id:
        # Of a swapped table, both have read all rows: that is checked for itself.
        return True
    table = tables.get(table_id)
    if str(now["reservoirId"]) != table_id or table is None:
        return False
    return not any(has_unread_rows(table.path, table.version, offset) for offset in (then, now))

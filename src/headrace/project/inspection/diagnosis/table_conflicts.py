"""Tables whose schema somebody has changed since the latest update wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

from headrace.assistant.doctor.facts import Logged, TableConflict
from headrace.delta_log.tables import table_state
from headrace.events.types import DatasetDefined
from headrace.model.outcome import UpdateState
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading

_STRINGS = re.compile(r'"(?:var)?char\(\d+\)"|"string collate [^"]+"')
# A column of NULLs, which no table has.
_UNTYPED = "void"


def table_conflicts(logged: Logged, reading: CarefulReading) -> Iterator[TableConflict]:
    """The tables that do not accept the rows of their queries as the latest update defined them.

    An update that has not completed may not have reached its tables, which then say nothing.
    """
    if logged.state != UpdateState.COMPLETED.value:
        return
    for defined in logged.datasets.values():
        found = reading.read(f'the schema of table "{defined.dataset}"', partial(_conflict, defined), None)
        if found is not None:
            yield found


def _conflict(defined: DatasetDefined) -> TableConflict | None:
    if defined.path is None or defined.schema is None:
        return None
    table = table_state(defined.path)
    if table is None:
        return None
    # Delta stores these as strings.
    text = _STRINGS.sub('"string"', json.dumps(defined.schema))
    change = schema_change(table.schema, Schema.from_json(text).nullable)
    added = [field for field in change.added if field.after != _UNTYPED]
    is_conflict = added or change.widened or change.refused
    return TableConflict(defined.dataset, change) if is_conflict else None

"""Where the dead letters of a flow are. Apart from what reads and writes them, which takes long to import."""

from __future__ import annotations

from headrace.stores.paths import StoragePath

_FOLDER = "failing_rows"
# Stand where quarantined rows have the name of a rule.
QUERY_FAILED = "query.failed"
SINK_REFUSED = "sink.refused"


def dead_letter_table(folder: StoragePath) -> str:
    """The path of a flow's dead letter table, which may not exist.

    Args:
        folder: the flow's folder, with its record.
    """
    return str(folder / _FOLDER)

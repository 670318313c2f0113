"""The options of Delta's readers. Only names are checked; Delta checks the values.

Source: Delta 4.4's ``DeltaOptions`` (``DeltaReadOptions``, and the keys for time travel and change feeds), and the
options of Spark's Parquet reader below it. Delta ignores unknown options. Here they are errors, because a misspelled
limit does not limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import PipelineError, Problems
from headrace.options.nearest import nearest

NAME = "delta"
PAGE = "docs/reference/sources.md"
_OPTIONS = (
    "allowSourceColumnDrop",
    "allowSourceColumnRename",
    "allowSourceColumnTypeChange",
    "datetimeRebaseMode",
    "endingTimestamp",
    "endingVersion",
    "excludeRegex",
    "failOnDataLoss",
    "ignoreChanges",
    "ignoreDeletes",
    "ignoreFileDeletion",
    "int96RebaseMode",
    "maxBytesPerTrigger",
    "maxFilesPerTrigger",
    "mergeSchema",
    "path",
    "readChangeData",
    "readChangeFeed",
    "schemaLocation",
    "schemaTrackingLocation",
    "skipChangeCommits",
    "startingTimestamp",
    "startingVersion",
    "streamingSourceTrackingId",
    "timestampAsOf",
    "versionAsOf",
)
_EVENT_TIME = "withEventTimeOrder"
_KNOWN = frozenset(map(str.casefold, _OPTIONS))
# Prefixes of options for the file system, the table and the session.
_PASSED_ON = ("fs.", "dfs.", "delta.", "spark.")


def check_delta_options(names: Iterable[str]) -> None:
    """Refuse options that Delta would ignore; names are case-insensitive.

    Raises:
        Problems: SOURCE.OPTION_UNKNOWN for each, with the nearest name; SOURCE.OPTION_REFUSED for options that only the
            vendor's Delta has.
    """
    unknown = [name for name in names if name.casefold() not in _KNOWN and not name.casefold().startswith(_PASSED_ON)]
    if unknown:
        raise Problems([_unknown(name) for name in unknown])


def _unknown(name: str) -> PipelineError:
    if name.casefold() == _EVENT_TIME.casefold():
        reason, instead = "only Databricks has it; open-source Delta reads rows in the order of its files", "Remove it"
        return PipelineError("SOURCE.OPTION_REFUSED", option=_EVENT_TIME, format=NAME, reason=reason, instead=instead)
    near = nearest(name, _OPTIONS) or "none"
    return PipelineError("SOURCE.OPTION_UNKNOWN", option=name, near=near, format=NAME, page=PAGE)

"""Schema evolution in a task: store a schema version with the new fields, then fail the stream.

The restarted stream gets the new schema and reads the same files, so no data is lost. If several tasks find new fields
at once, each infers from all files of the batch, and the version is written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from headrace.autoloader.preparing import evolve_schema
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.stable_files import ensuring_unchanged
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.autoloader.schemas.type_widening import MODE as WIDENS
from headrace.autoloader.schemas.type_widening import mismatched_columns
from headrace.autoloader.source import Source
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stream import ReadTask
from headrace.stores.paths import StoragePath, storage_path

# The error condition in the vendor's documentation, which users' handlers match.
CONDITION = "UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH"


# Separates the text for people from the same facts as JSON.
_DETAILS = "details="


@dataclass(frozen=True)
class NewFields:
    """Fields missing in a schema, the file that has them, and the version that adds them; None without evolution."""

    names: tuple[str, ...]
    file: str
    version: int | None


class UnknownFieldException(Exception):
    """Files have fields that are not in the schema; the next schema version may have them."""


def rows_of(source: Source, task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task.

    Fields that no schema version can hold, such as new fields of a hinted struct, are rescued.

    Raises:
        UnknownFieldException: files of the batch have fields that are not in the schema, or values that need a wider
            type. In the modes that add new columns, the next schema version is stored before this is raised.
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``: a file changed after it was found.
    """
    emitted = 0
    try:
        for batch in _read_batches(source, task, source.plan):
            yield batch
            emitted += 1
    except UnknownFields as error:
        if source.options.evolution_mode == "failOnNewColumns" or source.schema_location is None:
            raise _exception(error, None) from None
        version = _evolve(source, storage_path(source.schema_location), task, error.file, frozenset())
        if version is not None:
            raise _exception(error, version) from None
        # The same batches come first, so skip those that were emitted.
        yield from islice(_read_batches(source, task, replace(source.plan, evolves=False)), emitted, None)


def _read_batches(source: Source, task: ReadTask, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Read the batches of a task; in the widening mode, stop at the first value that needs a wider type."""
    if source.options.evolution_mode != WIDENS or source.schema_location is None:
        for split in task.splits:
            with ensuring_unchanged(split):
                yield from read_splits(plan, [split])
        return
    known = {field["name"] for field in plan.data["fields"]}
    mismatched = set[str]()
    for split in task.splits:
        with ensuring_unchanged(split):
            for batch in read_splits(plan, [split]):
                new = (mismatched_columns(batch, plan.rescued_column) & known) - mismatched
                mismatched |= new
                version = _evolve(source, storage_path(source.schema_location), task, split.path, new) if new else None
                if version is not None:
                    raise _exception(UnknownFields(tuple(sorted(new)), split.path), version)
                yield batch


def _evolve(
    source: Source, location: StoragePath, task: ReadTask, file: str, type_mismatches: AbstractSet[str]
) -> int | None:
    """Evolve the schema and return the new version's number; None if no newer version is possible."""
    paths = [file, *(path for path in task.batch if path != file)]
    files = [Split(path, size, 0, 0, size) for path in paths if (size := _size(path)) is not None]
    seen = infer_schema(files, source.options, source.plan.time_zone, plain_names=source.plan.plain_names)
    newest = None if seen is None else evolve_schema(location, seen, source.options, type_mismatches)
    return None if newest is None or newest.number <= (source.version or 0) else newest.number


def _exception(error: UnknownFields, version: int | None) -> UnknownFieldException:
    message = (
        f"[{CONDITION}] Encountered unknown field(s) during parsing: {', '.join(error.names)}, first in {error.file}."
    )
    advice = (
        "The schema stays as it is in this mode."
        if version is None
        else f"Version {version} of the schema has them: start the stream again, it reads the same files."
    )
    details = json.dumps({"fields": error.names, "file": error.file, "version": version})
    # The details must not contain the separator, whatever the fields are called.
    details = details.replace("=", "\\u003d")
    return UnknownFieldException(f"{message} {advice} {_DETAILS}{details}")


def parse_new_fields(text: str) -> NewFields | None:
    """Parse the new fields out of a task's error text; None for another error."""
    if CONDITION not in text or _DETAILS not in text:
        return None
    found, _ = json.JSONDecoder().raw_decode(text, text.rindex(_DETAILS) + len(_DETAILS))
    return NewFields(tuple(found["fields"]), found["file"], found["version"])


def _size(path: str) -> int | None:
    found = store_of(path).stat(path)
    return None if found is None else found.size

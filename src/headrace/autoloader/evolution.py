"""What a task does when it meets fields that the schema lacks: the schema grows before the stream ends.

Whoever starts the stream again gets the new schema and the same files, so that nothing is lost. Several tasks may meet
new fields at once; each looks at all files of the batch, and the version is written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from headrace.autoloader.preparing import grown
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.stable_files import same_file
from headrace.autoloader.schema_sample import inferred
from headrace.autoloader.source import Source
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stream import Work
from headrace.autoloader.type_widening import MODE as WIDENS
from headrace.autoloader.type_widening import misfits

# The name that the documentation and people's handlers know.
CONDITION = "UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH"


# Between what is for people and the same for programs.
_DETAILS = "details="


@dataclass(frozen=True)
class NewFields:
    """Fields that a schema lacked, where they were met, and the version that has them; None where it does not grow."""

    names: tuple[str, ...]
    file: str
    version: int | None


class UnknownFieldException(Exception):
    """Files have fields that the schema lacks; the schema's next version may have them."""


def rows_of(source: Source, work: Work) -> Iterator[pa.RecordBatch]:
    """The rows of one task.

    What no version of the schema can have a place for, such as a field of a hinted struct, is rescued.

    Raises:
        UnknownFieldException: files of the batch have fields that the schema lacks, or values that its types do not
            hold and wider ones would; in the modes that add new columns the next version of the schema has been stored.
        PipelineError: ``AUTO_LOADER.FILE_CHANGED``: a file is not what it was when it was found.
    """
    given = 0
    try:
        for batch in _fitting(source, work, source.plan):
            yield batch
            given += 1
    except UnknownFields as error:
        if source.options.evolution_mode == "failOnNewColumns" or source.schema_location is None:
            raise _exception(error, None) from None
        version = _grown(source, Path(source.schema_location), work, error.file, frozenset())
        if version is not None:
            raise _exception(error, version) from None
        # The same batches come first, whatever becomes of unknown fields behind them.
        yield from islice(_fitting(source, work, replace(source.plan, evolves=False)), given, None)


def _fitting(source: Source, work: Work, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The batches of a task; where types may become wider, up to the first value that asks for it."""
    if source.options.evolution_mode != WIDENS or source.schema_location is None:
        for split in work.splits:
            with same_file(split):
                yield from read_splits(plan, [split])
        return
    known = {field["name"] for field in plan.data["fields"]}
    asked = set[str]()
    for split in work.splits:
        with same_file(split):
            for batch in read_splits(plan, [split]):
                new = (misfits(batch, plan.rescued_column) & known) - asked
                asked |= new
                version = _grown(source, Path(source.schema_location), work, split.path, new) if new else None
                if version is not None:
                    raise _exception(UnknownFields(tuple(sorted(new)), split.path), version)
                yield batch


def _grown(source: Source, location: Path, work: Work, file: str, misfit: AbstractSet[str]) -> int | None:
    """The number of a version that is newer than the source's; None when the schema has nothing to grow by."""
    paths = [file, *(path for path in work.batch if path != file)]
    files = [Split(path, size, 0, 0, size) for path in paths if (size := _size(path)) is not None]
    seen = inferred(files, source.options, source.plan.time_zone, plain=source.plan.plain_names)
    newest = None if seen is None else grown(location, seen, source.options, misfit)
    return None if newest is None or newest.number <= (source.version or 0) else newest.number


def _exception(error: UnknownFields, version: int | None) -> UnknownFieldException:
    said = (
        f"[{CONDITION}] Encountered unknown field(s) during parsing: {', '.join(error.names)}, first in {error.file}."
    )
    then = (
        "The schema stays as it is in this mode."
        if version is None
        else f"Version {version} of the schema has them: start the stream again, it reads the same files."
    )
    details = json.dumps({"fields": error.names, "file": error.file, "version": version})
    # So that the mark in front of them is not in them, whatever a field is called.
    details = details.replace("=", "\\u003d")
    return UnknownFieldException(f"{said} {then} {_DETAILS}{details}")


def new_fields_told(text: str) -> NewFields | None:
    """What an error's text says that came from a task; None for another error."""
    if CONDITION not in text or _DETAILS not in text:
        return None
    found, _ = json.JSONDecoder().raw_decode(text, text.rindex(_DETAILS) + len(_DETAILS))
    return NewFields(tuple(found["fields"]), found["file"], found["version"])


def _size(path: str) -> int | None:
    found = store_of(path).stat(path)
    return None if found is None else found.size

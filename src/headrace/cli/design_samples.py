"""Reads samples of sources for `headrace design --sample`: files, bounded in files, rows and bytes, without Java."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.assistant.design.requirements import Requirements, Source, SourceKind
from headrace.assistant.design.sampling.change_events import with_changes
from headrace.assistant.design.sampling.measure import measure_sample
from headrace.assistant.design.sampling.sample import Sample, SampleMeasures
from headrace.autoloader.options import LoaderOptions, loader_options
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.limits import RECORD_OPTION
from headrace.autoloader.reading.opening import CorruptFile, open_decompressed
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split, is_compressed
from headrace.autoloader.schemas.inference import parquet_struct
from headrace.autoloader.schemas.sample_contents import orc_schemas
from headrace.autoloader.schemas.sampled_files import Sample as FileSample
from headrace.autoloader.schemas.sampled_files import newest_files
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.autoloader.tree import Selection, Tree
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import JsonType

MOST_FILES, MOST_ROWS, MOST_BYTES = 1000, 100_000, 32 * 1024 * 1024
_MOST_BYTES_IN_MEMORY = 8 * MOST_BYTES
_RECORD_BYTES = 8 * 1024 * 1024
_FIRST_BYTES = 64 * 1024
_FORMATS = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **{f".{kind}": kind for kind in ("parquet", "avro", "orc")},
}
# Their files say which columns they have, and are read whole.
_TYPED = ("parquet", "avro", "orc")
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_CORRUPT = "_corrupt_record"
# Options that a sample is read with, whatever the requirements say.
_OWN_OPTIONS = {"path", "cloudfiles.format", "cloudfiles.infercolumntypes", RECORD_OPTION.casefold()}
_WITHOUT_SAMPLE = {
    SourceKind.RATE: "the columns of its kind are always the same",
    SourceKind.SYNTHETIC: "the columns of its kind are always the same",
}


def measure_samples(requirements: Requirements, given: Sequence[str]) -> tuple[SampleMeasures, ...]:
    """Read samples, and measure them.

    Args:
        requirements: what is stated about the sources.
        given: for each sample ``SOURCE=PATH``, or its path if there is only one source.

    Raises:
        PipelineError: DESIGN.SAMPLE: there is no such source, or nothing that can be read.
    """
    dropped = 1 - requirements.lateness.share
    sources_and_paths = [_source_and_path(requirements, text) for text in given]
    samples = (with_changes(source, _read(source, path)) for source, path in sources_and_paths)
    keys = {source.name: source.keys for source in requirements.sources}
    return tuple(measure_sample(sample, keys[sample.source], dropped) for sample in samples)


def _source_and_path(requirements: Requirements, given: str) -> tuple[Source, str]:
    name, equals, path = given.partition("=")
    named = requirements.source(name) if equals else None
    if named is None and len(requirements.sources) == 1:
        named, path = requirements.sources[0], given
    if named is None:
        names = ", ".join(source.name for source in requirements.sources)
        raise _no_sample(given, "the requirements have several sources", f"Write SOURCE=PATH; the sources are {names}.")
    if named.kind in _WITHOUT_SAMPLE:
        raise _no_sample(path, f'"{named.name}": {_WITHOUT_SAMPLE[named.kind]}', "Leave out the sample.")
    return named, path


def _read(source: Source, path: str) -> Sample:
    absolute = path if "://" in path else str(Path(path).absolute())
    try:
        tree = Tree.of(absolute, Selection())
        if not (tree.store.is_file(absolute) or tree.store.is_folder(tree.base)):
            raise _no_sample(path, "it does not exist", "Correct the path, which is relative to the current folder.")
        found = newest_files(tree, time.time_ns(), MOST_FILES)
    except (OSError, ValueError) as error:
        raise _no_sample(path, _reason(error), "Check that you have permission to read it.") from error
    file_format = source.format if source.format in _FORMATS.values() else _format(found)
    files = [file for file in found if file_format is not None and _fits(file, file_format, source)]
    if file_format is None or not files:
        raise _no_sample(
            path, "it has no file with records", "Name a file, or a folder of files: JSON, CSV, Parquet, Avro or ORC."
        )
    return _Reader(source, path, file_format, _bounded(files), len(files)).sample()


def _format(files: Sequence[Split]) -> str | None:
    """The format that most files have by their names."""
    counts = Counter(kind for file in files if (kind := _format_by_name(file.path)))
    return counts.most_common(1)[0][0] if counts else None


def _format_by_name(path: str) -> str | None:
    name = _without_compression(path)
    return next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None)


def _without_compression(path: str) -> str:
    name = path.casefold()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _fits(file: Split, file_format: str, source: Source) -> bool:
    by_name = _format_by_name(file.path)
    # Files of a stated format may have any name without another format.
    return file.size > 0 and (by_name == file_format or (by_name is None and source.format == file_format))


def _bounded(files: Sequence[Split]) -> list[Split]:
    """The newest files within the limit of bytes, in the order of their times; of a larger one, its beginning."""
    chosen: list[Split] = []
    left = MOST_BYTES
    for file in files:
        if left <= 0:
            break
        end = file.size if is_compressed(file.path) or _format_by_name(file.path) in _TYPED else min(file.size, left)
        chosen.append(replace(file, end=end))
        left -= file.size
    return sorted(chosen, key=lambda split: (split.mtime_ns, split.path))


class _Reader:
    """Reads the files of one sample."""

    def __init__(self, source: Source, path: str, file_format: str, files: list[Split], found: int) -> None:
        self._source, self._path, self._format, self._files, self._found = source, path, file_format, files, found

    def sample(self) -> Sample:
        try:
            needed = self._needed_options()
            options = self._options(needed)
            inferred = self._columns(options)
        except (PipelineError, Problems, OSError) as error:
            raise _no_sample(self._path, _reason(error), "Check that the files can be read.") from error
        if inferred is None:
            fix = "Name a file with at least one record, in UTF-8 or in the encoding of the option `encoding`."
            count = f"{len(self._files):,} file{'' if len(self._files) == 1 else 's'}"
            raise _no_sample(self._path, f"no record of {count} could be read as {self._format}", fix)
        table, unreadable, files, is_whole = self._rows(inferred, options)
        is_cut = not is_whole or len(self._files) < self._found or any(f.end < f.size for f in self._files)
        types = {field["name"]: field["type"] for field in inferred["fields"]}
        return Sample(
            self._source.name,
            self._format,
            files,
            self._found,
            types,
            table,
            not is_cut,
            unreadable,
            time.time(),
            keeps_types=self._source.kind is SourceKind.FILES and self._format in _TYPED,
            options=needed,
        )

    def _needed_options(self) -> dict[str, str]:
        """The options that the files need, unless the requirements have them."""
        found = {}
        if self._format == "csv":
            found["header"] = "true"
            if _without_compression(self._files[0].path).endswith(".tsv"):
                found["sep"] = "\t"
        elif self._is_one_document():
            found["multiLine"] = "true"
        return found

    def _options(self, needed: Mapping[str, str]) -> LoaderOptions:
        fixed = {"cloudFiles.format": self._format, "cloudFiles.inferColumnTypes": "true"}
        if self._format not in _TYPED:
            fixed[RECORD_OPTION] = str(_RECORD_BYTES)
        # Options of other readers, such as those of Kafka, are not for files.
        given = self._source.options if self._source.kind is SourceKind.FILES else {}
        stated = {name: value for name, value in given.items() if name.casefold() not in _OWN_OPTIONS}
        names = {name.casefold() for name in stated}
        unstated = {name: value for name, value in needed.items() if name.casefold() not in names}
        return loader_options({**fixed, **unstated, **stated})

    def _columns(self, options: LoaderOptions) -> JsonType | None:
        files = FileSample(self._files)
        if self._format != "orc":
            return infer_schema(files, options, "UTC", max_bytes=MOST_BYTES)
        # Auto Loader takes the columns of ORC from hints alone; a design states them.
        found = parquet_struct(orc_schemas(files))
        return found if found["fields"] else None

    def _is_one_document(self) -> bool:
        """Whether a JSON file is one value over several lines, such as an array of records."""
        if self._format != "json":
            return False
        with open_decompressed(self._files[0].path) as stream:
            first = stream.read(_FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
        line = first.partition(b"\n")[0].strip()
        return line.startswith((b"[", b"{")) and not line.endswith((b"}", b"]"))

    def _rows(self, inferred: JsonType, options: LoaderOptions) -> tuple[pa.Table, int, int, bool]:
        """The readable rows, the number of unreadable records and files, of files, and whether all was read."""
        plan = ReadPlan(
            self._format,
            inferred,
            str(Path(self._files[0].path).parent),
            corrupt_column=None if self._format in _TYPED else _CORRUPT,
            format_options=options.format_options,
        )
        batches: list[pa.RecordBatch] = []
        unreadable = rows = size = files = 0
        is_whole = True
        for file in self._files:
            files += 1
            try:
                for batch in read_splits(plan, [file]):
                    batches.append(batch.slice(0, MOST_ROWS - rows))
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    if rows >= MOST_ROWS or size >= _MOST_BYTES_IN_MEMORY:
                        is_whole = False
                        break
            except (OSError, PipelineError):
                unreadable += 1
            if not is_whole:
                break
        table = pa.Table.from_batches(batches, arrow_schema(plan.all_columns))
        if _CORRUPT in table.column_names and _CORRUPT not in {field["name"] for field in inferred["fields"]}:
            is_readable = pc.is_null(table[_CORRUPT])
            unreadable += len(table) - (pc.sum(is_readable).as_py() or 0)
            table = table.filter(is_readable).drop_columns(_CORRUPT)
        return table, unreadable, files, is_whole


def _reason(error: Exception) -> str:
    if isinstance(error, CorruptFile):
        # Messages of decoders can hold values of the data.
        return "a file is damaged, or of another format than its name says"
    if isinstance(error, Problems):
        return "; ".join(problem.message for problem in error)
    if isinstance(error, PipelineError):
        return error.message
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__


def _no_sample(path: str, reason: str, instead: str) -> PipelineError:
    return PipelineError("DESIGN.SAMPLE", path=path, reason=reason, instead=instead)

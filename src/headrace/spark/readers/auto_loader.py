"""``format("cloudFiles")`` of the session's readers: the driver plans the schema, Spark's workers read the rows."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headrace.atomic_write import replace_file
from headrace.autoloader.ledger.places import LEDGER_POINTER
from headrace.autoloader.options import function_options, options_without_effect
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.plan import METADATA
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import InvalidDdl, parse_struct
from headrace.spark.data_sources.cloud_files import NAME, CloudFiles, source_options
from headrace.spark.session.active_session import while_active
from headrace.spark.session.guards import unguarded
from headrace.spark.session.query_context import query_context, set_query_context
from headrace.sql.input_file import FIELDS, names_column, replace_input_file_calls
from headrace.sql.source_functions import READ_FILES, SourceCall, source_calls
from headrace.stores.paths import StoragePath, is_below, storage_path

FORMAT = "cloudfiles"
# The session's conf with the path mapping, as JSON.
PATHS = "headrace.paths"
# The attributes of a reader that hold its options, format and schema as the user has set them.
GIVEN_OPTIONS = "_headrace_given"
GIVEN_FORMAT, GIVEN_SCHEMA = "_headrace_format", "_headrace_schema"
# Numbers the views, so that queries that are analyzed in parallel read different ones.
_views = count()
# The folders of our code and Spark's, which is not part of a user's query.
_OWN_CODE = (str(Path(__file__).parents[2]) + os.sep, str(Path(pyspark.__file__).parent) + os.sep)


def folders_below(folder: StoragePath) -> Iterator[StoragePath]:
    """A folder for each reader, in the order in which a query function creates them."""
    return (folder / str(number) for number in count())


def wrap_load(load: Any) -> Any:
    """Wrap a reader's ``load``: handles ``cloudFiles``."""

    @wraps(load)
    def wrapper(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        attributes = vars(self)
        if (format or attributes.get(GIVEN_FORMAT, "")).casefold() != FORMAT:
            return load(self, path, format, schema, **options)
        given = {**attributes.get(GIVEN_OPTIONS, {}), **options}
        wanted = path if path is not None else next((v for k, v in given.items() if k.casefold() == "path"), None)
        if not isinstance(wanted, str) or not wanted:
            raise PipelineError("AUTO_LOADER.PATH", given=repr(wanted))
        schema = schema if schema is not None else attributes.get(GIVEN_SCHEMA)
        return _frame(self, given, wanted, schema, metadata=_names_metadata())

    return wrapper


def wrap_sql(sql: Any) -> Any:
    """Wrap a session's ``sql``: ``read_files``, ``read_kafka`` and so on become temporary views for the query."""

    @wraps(sql)
    def wrapper(self: SparkSession, text: str, *arguments: Any, **options: Any) -> Any:
        calls = source_calls(text)
        if not calls:
            return sql(self, text, *arguments, **options)
        views = [f"headrace_files_{next(_views)}" for _ in calls]
        mapped = replace_input_file_calls(_with_views(text, calls, views), METADATA)
        named = names_column(text, METADATA)
        try:
            for call, view in zip(calls, views, strict=True):
                frame = _frame_of(self, call, metadata=named or mapped is not None)
                with unguarded():
                    frame.createOrReplaceTempView(view)
            frame = sql(self, mapped or _with_views(text, calls, views), *arguments, **options)
            return frame.drop(METADATA) if mapped is not None and not named else frame
        finally:
            with unguarded():
                for view in views:
                    self.catalog.dropTempView(view)

    return wrapper


def _with_views(text: str, calls: Sequence[SourceCall], views: Sequence[str]) -> str:
    pieces, position = [], 0
    for call, view in zip(calls, views, strict=True):
        pieces += [text[position : call.start], view]
        position = call.end
    return "".join((*pieces, text[position:]))


def _frame_of(session: SparkSession, call: SourceCall, *, metadata: bool) -> DataFrame:
    given = dict(call.options)
    if call.path is None:
        source: Any = session.readStream if call.streams else session.read
        return source.format(call.format).options(**given).load()  # type: ignore[no-any-return]  # either kind of reader
    schema = given.pop("schema", None)
    if call.function == READ_FILES:
        given = function_options(given)
    elif call.format is not None:
        given["cloudFiles.format"] = call.format
    reader: Any = session.readStream if call.streams else session.read
    if isinstance(reader, (DataStreamReader, DataFrameReader)):
        return _frame(reader, given, call.path, schema, metadata=metadata, hide_metadata=False)
    # The stand-in for a stream's reader while the stream is read as a batch.
    return _frame(session.read, given, call.path, schema, metadata=metadata, hide_metadata=False)


def wrap_format(original: Any) -> Any:
    """Wrap a reader's ``format``: stores it for ``load``."""

    @wraps(original)
    def wrapper(self: Any, source: str) -> Any:
        vars(self)[GIVEN_FORMAT] = source
        return original(self, source)

    return wrapper


def wrap_schema(original: Any) -> Any:
    """Wrap a reader's ``schema``: stores it for ``load``."""

    @wraps(original)
    def wrapper(self: Any, schema: Any) -> Any:
        vars(self)[GIVEN_SCHEMA] = schema
        return original(self, schema)

    return wrapper


def _frame(
    reader: Any, given: dict[str, Any], path: str, schema: Any, *, metadata: bool, hide_metadata: bool = True
) -> DataFrame:
    session: SparkSession = reader._spark  # noqa: SLF001 - has no public form
    location = _location(session)
    source = prepare(_texts(given), path, _struct(schema), location, metadata=metadata)
    streams = isinstance(reader, DataStreamReader)
    if not (streams and query_context().of_pipeline):
        # For the streams of a pipeline, each update warns.
        for name, why in options_without_effect(source.options):
            warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
    if not streams:
        # A batch is not restarted with a new schema, so new columns are rescued.
        source = replace(source, plan=replace(source.plan, evolves=False))
    folder = location.schema_location
    if (
        query_context().of_pipeline
        and location.can_write
        and folder
        and not is_below(storage_path(source.ledgers), folder)
    ):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / LEDGER_POINTER, source.ledgers)
    with while_active(session):
        session.dataSource.register(CloudFiles)
        # The same kind of reader: for a stream, or for the available files.
        reader_copy = type(reader)(session)
        columns = StructType.fromJson(source.plan.all_columns)
        frame: DataFrame = reader_copy.format(NAME).schema(columns).options(**source_options(source)).load()
    # A view cannot expose a hidden column: in SQL, the ``*`` of a query that names the column includes it.
    if hide_metadata:
        set_query_context(replace(query_context(), input_file_in_metadata=source.plan.metadata))
    return _with_hidden(frame) if source.plan.metadata and hide_metadata else frame


def _texts(given: dict[str, Any]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if value is not None
    }


def _struct(schema: Any) -> Any:
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            return parse_struct(schema)
        except InvalidDdl as error:
            raise Problems([PipelineError("AUTO_LOADER.SCHEMA", reason=str(error))]) from error
    return schema.jsonValue()


def _location(session: SparkSession) -> Place:
    context = query_context()
    folder = next(context.schema_folders) if context.schema_folders is not None else None
    return Place(
        ledgers=folder or _state_folder() / "ledgers",
        schema_location=folder,
        time_zone=str(session.conf.get("spark.sql.session.timeZone", "UTC")),
        paths=json.loads(session.conf.get(PATHS, "{}") or "{}"),
        now_ns=time.time_ns(),
        tasks=session.sparkContext.defaultParallelism,
        can_write=folder is None or context.is_starting,
        reinfers_schema=context.infers_again,
        plain_names=context.plain_names,
    )


def _state_folder() -> Path:
    """The user's state folder. A script's ledgers must persist as long as its checkpoints."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "headrace"


def _names_metadata() -> bool:
    """True if the calling function or script names ``_metadata``, or a function that maps to one of its fields."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_CODE):
        frame = frame.f_back
    names = (METADATA, *FIELDS)
    return frame is not None and any(name in text for text in _texts_of(frame.f_code) for name in names)


def _texts_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from (part for part in constant if isinstance(part, str))
        elif isinstance(constant, CodeType):
            yield from _texts_of(constant)


def _with_hidden(frame: DataFrame) -> DataFrame:
    """The frame with a hidden column ``_metadata``: not in ``*``, but available by name, as in Spark's file sources.

    Spark does the same with the columns that a join with USING hides (``Project.hiddenOutputTag``).
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - has no public form
    visible = frame.drop(METADATA)
    output = frame._jdf.queryExecution().analyzed().output()  # noqa: SLF001 - the same
    column = output.apply(output.size() - 1)
    mark = jvm.org.apache.spark.sql.types.MetadataBuilder().putString("__metadata_col", METADATA).build()
    hidden = jvm.PythonUtils.toSeq([column.withMetadata(mark)])
    tag = jvm.org.apache.spark.sql.catalyst.plans.logical.Project.hiddenOutputTag()
    visible._jdf.queryExecution().analyzed().setTagValue(tag, hidden)  # noqa: SLF001 - the same
    return visible

"""Refuses what a pipeline's code must not do to session, catalog and tables while its files load or its queries run.

Files are loaded and query functions called whenever a pipeline is checked, so that ``validate`` and ``plan`` would
write. All flows share one session, so that a setting of one would change the results of others. Spark's own pipelines
refuse the same methods. ``udf.register`` is allowed while files load, as by the vendor; the function is removed with
the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import wraps
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.session import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.udf import UDFRegistration
from pyspark.sql.udtf import UDTFRegistration

from headrace.errors import PipelineError
from headrace.spark.session.catalog_entries import register_function


class Code(Enum):
    """The kind of user code that is running; the value is for messages."""

    FILE = "a file of the pipeline"
    QUERY = "a query function"


RUNNING: ContextVar[Code | None] = ContextVar("headrace_code_running", default=None)

_CONFS = "Give the flow spark_conf={...}, write SET in a SQL file, or put the setting under spark_conf in pipeline.yml."
_NAMES = 'Write full names, such as "schema.table"; the default schema is `schema` in pipeline.yml.'
_VIEWS = "Return the DataFrame from a function under @dp.temporary_view, and read it by its name."
_FUNCTIONS = "Register functions at the top of a file, or call F.udf(function) in the query."
_TABLES = "Let the pipeline's own datasets do the writing; do the rest before the update, outside of the pipeline."
_METHODS: tuple[tuple[type, str, tuple[str, ...], str], ...] = (
    (RuntimeConfig, "spark.conf", ("set", "unset"), _CONFS),
    (Catalog, "spark.catalog", ("setCurrentCatalog", "setCurrentDatabase"), _NAMES),
    (Catalog, "spark.catalog", ("dropTempView", "dropGlobalTempView"), _VIEWS),
    (Catalog, "spark.catalog", ("createTable", "createExternalTable", "recoverPartitions"), _TABLES),
    (
        ClassicDataFrame,
        "DataFrame",
        ("createTempView", "createOrReplaceTempView", "createGlobalTempView", "createOrReplaceGlobalTempView"),
        _VIEWS,
    ),
    (ClassicDataFrame, "DataFrame", ("writeTo", "mergeInto"), _TABLES),
    (
        DataFrameWriter,
        "DataFrame.write",
        ("save", "saveAsTable", "insertInto", "csv", "jdbc", "json", "orc", "parquet", "text", "xml"),
        _TABLES,
    ),
    (DataStreamWriter, "DataFrame.writeStream", ("start", "toTable"), _TABLES),
)
_FUNCTION_METHODS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (UDFRegistration, "spark.udf", ("register", "registerJavaFunction", "registerJavaUDAF")),
    (UDTFRegistration, "spark.udtf", ("register",)),
)
# Methods of ``delta.tables``, if that package is installed.
_DELTA: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "DeltaTable": (
            "addFeatureSupport",
            "clone",
            "cloneAtTimestamp",
            "cloneAtVersion",
            "convertToDelta",
            "delete",
            "dropFeatureSupport",
            "generate",
            "restoreToTimestamp",
            "restoreToVersion",
            "update",
            "upgradeTableProtocol",
            "vacuum",
        ),
        "DeltaMergeBuilder": ("execute",),
        "DeltaTableBuilder": ("execute",),
        "DeltaOptimizeBuilder": ("executeCompaction", "executeZOrderBy"),
    }
)
_NAMES_OF_SESSIONS = ("spark.app.name", "spark.master")
_MARK = "_headrace_guarded"


@contextmanager
def guarded(code: Code) -> Iterator[None]:
    """Refuse inside the block what user code must not do; our own code does none of it there."""
    token = RUNNING.set(code)
    try:
        yield
    finally:
        RUNNING.reset(token)


@contextmanager
def unguarded() -> Iterator[None]:
    """Allow our own code, called from user code, to do inside the block what user code must not."""
    token = RUNNING.set(None)
    try:
        yield
    finally:
        RUNNING.reset(token)


def install() -> None:
    """Wrap PySpark's methods once per process; called by ``patches.install``."""
    for owner, prefix, methods, fix in _METHODS:
        for method in methods:
            _wrap(owner, method, f"{prefix}.{method}", fix)
    for registration, prefix, methods in _FUNCTION_METHODS:
        for method in methods:
            _wrap_registration(registration, method, f"{prefix}.{method}")
    SparkSession.Builder.getOrCreate = _building(SparkSession.Builder.getOrCreate)  # type: ignore[method-assign]


def guard_delta() -> None:
    """Wrap the writing methods of Delta's Python classes, if they can be imported."""
    try:
        tables: Any = import_module("delta.tables")
    except ImportError:
        return
    if getattr(tables, _MARK, False):
        return
    setattr(tables, _MARK, True)
    for owner, methods in _DELTA.items():
        for method in methods:
            if hasattr(tables, owner) and hasattr(getattr(tables, owner), method):
                _wrap(getattr(tables, owner), method, f"{owner}.{method}", _TABLES)


def _wrap(owner: type, method: str, api: str, fix: str) -> None:
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def guarding(*arguments: Any, **options: Any) -> Any:
        code = RUNNING.get()
        if code is not None:
            raise _refusal(api, code, fix)
        return original(*arguments, **options)

    setattr(owner, method, guarding)


def _wrap_registration(owner: type, method: str, api: str) -> None:
    """Wrap a registration: a function has one definition per project, and is removed with it."""
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def guarding(self: Any, name: str, *arguments: Any, **options: Any) -> Any:
        code = RUNNING.get()
        if code is Code.QUERY:
            raise _refusal(api, code, _FUNCTIONS)
        if code is Code.FILE:
            location = _location_of(next(iter((*arguments, *options.values())), None))
            other = register_function(self.sparkSession, str(name), location)
            if other is not None:
                raise PipelineError("FILE.FUNCTION_TWICE", name=name, first=other, second=location)
        return original(self, name, *arguments, **options)

    setattr(owner, method, guarding)


def _location_of(function: Any) -> str:
    """The location of a function's code, or another text that identifies it."""
    code = getattr(getattr(function, "func", function), "__code__", None)
    return str(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _building(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``getOrCreate``, which applies the builder's settings to an existing session."""

    @wraps(original)
    def building(self: Any) -> Any:
        code = RUNNING.get()
        given = [key for key in self._options if key not in _NAMES_OF_SESSIONS]
        if code is not None and given:
            raise _refusal(f'SparkSession.builder.config("{given[0]}", ...)', code, _CONFS)
        return original(self)

    return building


def _refusal(api: str, code: Code, fix: str) -> PipelineError:
    return PipelineError("FILE.SESSION_CHANGED", what=api, code=code.value, instead=fix)

"""Creates a sink from its definition."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.autoloader.stores.paths import replace_prefix
from headrace.model.sinks import FOREACH_BATCH, SinkDefinition
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import named_columns, options_of, table_of, writer_options
from headrace.sinks.formats import CONSOLE, DELTA, FILES, HTTP, JDBC, KAFKA
from headrace.sinks.http import HttpSender
from headrace.sinks.retrying import Clock
from headrace.sinks.targets import http_endpoint, kafka_options, table_writer
from headrace.spark.readers.auto_loader import PATHS
from headrace.spark.sinks.console import ConsoleSink
from headrace.spark.sinks.delta import DeltaSink
from headrace.spark.sinks.files import FilesSink
from headrace.spark.sinks.function import FunctionSink
from headrace.spark.sinks.http import HttpSink
from headrace.spark.sinks.jdbc import JdbcSink
from headrace.spark.sinks.kafka import KafkaSink
from headrace.spark.sinks.sink import Sink
from headrace.spark.sinks.spark_format import FormatSink
from headrace.spark.update.context import UpdateContext


def create_sink(context: UpdateContext, name: str, definition: SinkDefinition) -> Sink:
    """The sink of a definition.

    Args:
        context: the pipeline, whose paths and tables the definition names.
        name: of the sink.
        definition: its format and options.
    """
    kind, guard = definition.format.casefold(), context.guard
    if definition.function is not None and definition.format == FOREACH_BATCH:
        return FunctionSink(definition.function, guard)
    parsed = options_of(definition)
    if kind == DELTA:
        table = table_of(definition)
        if table is not None:
            path = StorageLayout(context.layout.root).table(context.naming, table)
        else:
            path = _path(context, parsed.texts["path"])
        merges = {"mergeSchema": parsed.texts["mergeSchema"]} if "mergeSchema" in parsed.texts else {}
        return DeltaSink(path, guard, merges, named_columns(parsed, "partitionBy"), local=path.startswith("/"))
    if kind == KAFKA:
        return KafkaSink(kafka_options(parsed), guard, headers=parsed.get("deliveryHeaders", True))
    if kind == CONSOLE:
        return ConsoleSink(name, parsed.get("numRows", 20), parsed.get("truncate", True), guard)
    if kind in FILES:
        path = _path(context, parsed.texts["path"])
        return FilesSink(kind, path, guard, writer_options(parsed), named_columns(parsed, "partitionBy"))
    if kind == JDBC:
        return JdbcSink(table_writer(parsed), guard, context.reporting.now, parsed.get("numPartitions"))
    if kind == HTTP:
        target = http_endpoint(parsed)
        sender = HttpSender(target, name, Clock(time.monotonic, time.sleep, random.random))
        keys, order = named_columns(parsed, "keys"), named_columns(parsed, "orderBy")
        return HttpSink(sender, guard, target.lanes, target.rows, keys, order)
    return FormatSink(definition.format, definition.options, guard)


def stream_options(definition: SinkDefinition) -> Mapping[str, str]:
    """The options of a sink for Spark's own stream writer; they may contain secrets."""
    if definition.format.casefold() == KAFKA:
        return kafka_options(options_of(definition))
    return definition.options


def _path(context: UpdateContext, text: str) -> str:
    """A user's path in full: with the settings' path mapping, and relative to the project's folder."""
    paths = json.loads(context.session.conf.get(PATHS, "{}") or "{}")
    path = replace_prefix(text, paths)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if ":" in path.partition("/")[0] else str(Path(context.root, path))

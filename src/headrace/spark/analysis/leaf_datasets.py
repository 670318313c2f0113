"""The names that other systems have for what a plan reads outside of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError

from headrace.autoloader.source import Source as LoaderSource
from headrace.model.dataset_id import DatasetId, of_place, of_table, of_topic
from headrace.sources import kafka_options
from headrace.sources.stream_source import PreparedSource
from headrace.spark.analysis.relations import file_index
from headrace.spark.data_sources import cloud_files, python_sources
from headrace.spark.jvm.plan_nodes import items, node_kind

_SERVERS = "kafka.bootstrap.servers"
_PATTERN = "subscribepattern"


def leaf_datasets(leaf: Any) -> tuple[DatasetId, ...]:
    """What a leaf of a plan reads; empty if other systems have no name for it, or if it cannot be read."""
    try:
        return _leaf_datasets(leaf)
    except (Py4JError, ValueError, LookupError, TypeError):
        # Another package's source; the query can run all the same.
        return ()


def _leaf_datasets(leaf: Any) -> tuple[DatasetId, ...]:
    kind = node_kind(leaf)
    if kind == "StreamingRelation":
        return _of_files(leaf.dataSource())
    if kind == "StreamingRelationV2":
        return _of_options(leaf.extraOptions())
    if kind == "DataSourceV2Relation":
        return _of_options(leaf.options())
    index = file_index(leaf)
    if index is not None:
        return tuple(of_place(str(path)) for path in items(index.rootPaths()))
    if kind == "LogicalRelation" and node_kind(leaf.relation()) == "JDBCRelation":
        options = leaf.relation().jdbcOptions()
        return (of_table(str(options.url()), str(options.tableOrQuery())),)
    return ()


def prepared_datasets(prepared: PreparedSource) -> tuple[DatasetId, ...]:
    """What one of our own sources reads."""
    if prepared.format == "kinesis":
        region = (prepared.settings.get("access") or {}).get("region") or ""
        return tuple(DatasetId(f"kinesis://{region}", str(name)) for name in prepared.settings.get("streams", ()))
    # Its URL is a secret, and its description has none.
    table, of, database = prepared.description.rpartition(" of ")
    return (of_table(database, table),) if of and "://" in database else ()


def _of_files(data_source: Any) -> tuple[DatasetId, ...]:
    paths = [str(path) for path in items(data_source.paths())]
    option = data_source.options().get("path")
    if not paths and option.isDefined():
        paths = [str(option.get())]
    return tuple(map(of_place, paths))


def _of_options(java_map: Any) -> tuple[DatasetId, ...]:
    entries = java_map.asCaseSensitiveMap()
    options = {str(key): str(entries[key]) for key in entries}
    folded = {key.casefold(): text for key, text in options.items()}
    if cloud_files.SOURCE_OPTION.casefold() in folded:
        return (of_place(LoaderSource.from_json(folded[cloud_files.SOURCE_OPTION.casefold()]).path),)
    if python_sources.SOURCE_OPTION.casefold() in folded:
        return prepared_datasets(PreparedSource.from_json(folded[python_sources.SOURCE_OPTION.casefold()]))
    return _of_topics(options, folded) if _SERVERS in folded else ()


def _of_topics(options: Mapping[str, str], folded: Mapping[str, str]) -> tuple[DatasetId, ...]:
    topics = sorted(kafka_options.named_topics(options)) or [folded.get(_PATTERN, "").strip()]
    return tuple(of_topic(folded[_SERVERS], topic) for topic in topics if topic)

"""The names that other systems have for what a sink writes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headrace.autoloader.stores.paths import replace_prefix
from headrace.model.dataset_id import DatasetId, of_place, of_table, of_topic
from headrace.model.sinks import SinkDefinition
from headrace.sinks.checks import options_of
from headrace.sinks.formats import FILES, HTTP, JDBC, KAFKA


def sink_datasets(sink: SinkDefinition, folder: Path, paths: Mapping[str, str]) -> tuple[DatasetId, ...]:
    """What a sink writes to; empty if other systems have no name for it.

    Args:
        sink: the sink.
        folder: of the project, to which paths are relative.
        paths: prefixes of paths, and what they stand for.
    """
    parsed, kind = options_of(sink), sink.format.casefold()
    texts = parsed.texts
    if kind == KAFKA and "topic" in texts and "kafka.bootstrap.servers" in texts:
        return (of_topic(texts["kafka.bootstrap.servers"], texts["topic"]),)
    if kind == JDBC and "url" in parsed.values and "dbtable" in texts:
        return (of_table(str(parsed.values["url"]), texts["dbtable"]),)
    if kind == HTTP and "url" in parsed.values:
        # The path of a webhook is often its token.
        host = _host(str(parsed.values["url"]))
        return () if host is None else (DatasetId(host, "/"),)
    path = texts.get("path")
    if path is None or (kind not in FILES and kind != "delta"):
        return ()
    full = replace_prefix(path, paths)
    return (of_place(full if ":" in full.partition("/")[0] else str(folder / full)),)


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else None

"""``pipeline.yml``: a profile that reads sample files, and one that reads the real sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.files.connections import sink_options
from headrace.assistant.design.requirements import ErrorPolicy
from headrace.assistant.design.source_defaults import facts_of, options_of
from headrace.sinks.formats import FORMATS

# The key of `configuration` that says where records come from, and its two values.
MODE_KEY = "design.sources"
SAMPLE, REAL = "sample", "real"


def settings_text(blueprint: Blueprint) -> str:
    """The text of ``pipeline.yml``."""
    return "\n".join(_lines(blueprint)) + "\n"


def gitignore_text() -> str:
    """The text of ``.gitignore``."""
    return "storage/\nstorage-sample/\ndelivered/\n__pycache__/\n"


def _lines(blueprint: Blueprint) -> Iterator[str]:
    requirements = blueprint.requirements
    yield "# yaml-language-server: $schema=.headrace/pipeline.schema.json"
    yield f"name: {requirements.name}"
    if requirements.on_error is not ErrorPolicy.FAIL:
        yield "configuration:"
        yield "  # Records that the query or a sink fails on are stored, and the others are written."
        yield "  headrace.failing_rows: quarantine"
    yield from _alerts(blueprint)
    yield "# `headrace run` reads the sample files; `headrace run --profile production` reads the real sources."
    yield "profile: sample"
    yield "profiles:"
    yield "  sample:"
    yield "    storage: storage-sample"
    yield from _mapping("configuration", {MODE_KEY: SAMPLE}, 4)
    yield "  production:"
    yield "    storage: storage"
    if blueprint.is_continuous:
        yield "    continuous: true"
    if connectors := _connectors(blueprint):
        yield f"    connectors: [{', '.join(connectors)}]"
    yield from _mapping("configuration", {MODE_KEY: REAL, **_connection(blueprint)}, 4)


def _alerts(blueprint: Blueprint) -> Iterator[str]:
    yield "alerts:"
    yield "  datasets:"
    for dataset in blueprint.datasets:
        if dataset.is_stream and (dataset.kind.layer or dataset.kind is DatasetKind.SINK):
            yield f"    {dataset.name}: {{lag: {max(round(dataset.latency_s), 1)}s}}"
    if blueprint.requirements.alerts is not None:
        yield "  deliver:"
        yield f"    design: {{webhook: {json.dumps(blueprint.requirements.alerts)}}}"


def _connectors(blueprint: Blueprint) -> list[str]:
    sources = {facts_of(d.source).reader for d in blueprint.of(DatasetKind.SOURCE, DatasetKind.LIVE)}
    sinks = {d.output.format for d in blueprint.of(DatasetKind.SINK) if d.output is not None}
    found = {"kafka"} if sources & {"kafka", "eventhubs"} or "kafka" in sinks else set()
    named = {FORMATS[name].connector for name in sinks if name}
    return sorted(found | {name for name in named if name})


def _connection(blueprint: Blueprint) -> dict[str, str]:
    """The options of the real sources and sinks, by the names that the code reads them by."""
    found: dict[str, str] = {}
    for dataset in blueprint.datasets:
        if dataset.kind in (DatasetKind.SOURCE, DatasetKind.LIVE, DatasetKind.REFERENCE):
            options = options_of(dataset.source)
            found |= {f"{dataset.source.name}.{name}": value for name, value in options.items()}
        elif dataset.kind is DatasetKind.SINK:
            found |= {f"{dataset.name}.{name}": value for name, value in sink_options(dataset).items()}
    history = blueprint.requirements.history
    if history is not None and history.path is not None:
        found[f"{blueprint.requirements.sources[0].name}.history"] = history.path
    return found


def _mapping(key: str, entries: Mapping[str, str], margin: int) -> Iterator[str]:
    yield f"{' ' * margin}{key}:"
    yield from (
        f"{' ' * (margin + 2)}{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in entries.items()
    )

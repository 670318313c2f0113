"""The modules below ``transformations/``: one for the sources, one a layer, one for the sinks."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.files.bronze_code import bronze_code, history_code, schema_constant
from headrace.assistant.design.files.python_text import module
from headrace.assistant.design.files.settings_text import MODE_KEY, SAMPLE
from headrace.assistant.design.files.sink_code import sinks_module
from headrace.assistant.design.files.source_code import sources_module
from headrace.assistant.design.files.table_code import TableCode, changes_constant, changes_view

_DOCS = {
    "silver": "Silver: rows that can be trusted.",
    "gold": "Gold: results that people and programs read.",
}
_PATTERNS = {"deduplicate(": "deduplicate", "sessionize(": "sessionize", "windowed(": "windowed"}


def code_files(blueprint: Blueprint, delay_s: float) -> dict[str, str]:
    """The modules, by path."""
    found = {"transformations/sources.py": sources_module(blueprint)}
    if blueprint.of(DatasetKind.BRONZE):
        found["transformations/bronze.py"] = _bronze(blueprint)
    code = TableCode(blueprint, delay_s)
    for layer, docstring in _DOCS.items():
        tables = [d for d in blueprint.datasets if d.kind.layer == layer and d.output is not None]
        views = blueprint.of(DatasetKind.CHANGES) if layer == "silver" else ()
        constants = {view.source.name: changes_constant(view.source) for view in views}
        blocks = [*constants.values(), *(changes_view(view) for view in views), *(code.code(table) for table in tables)]
        if blocks:
            found[f"transformations/{layer}.py"] = module(docstring, _imports(blocks), blocks)
    if blueprint.of(DatasetKind.SINK):
        found["transformations/sinks.py"] = sinks_module(blueprint)
    return found


def _bronze(blueprint: Blueprint) -> str:
    tables = blueprint.of(DatasetKind.BRONZE)
    constants = {table.source.name: schema_constant(table.source) for table in tables}
    blocks = [*filter(None, constants.values())]
    history = [history_code(table, blueprint) for table in tables if table.source is blueprint.requirements.sources[0]]
    blocks += [*(bronze_code(table, blueprint) for table in tables), *filter(None, history[:1])]
    imports = _imports(blocks)
    if any("IS_SAMPLE" in block for block in blocks):
        imports = ["from pathlib import Path", "", *imports]
        head = [
            "# Set by the profiles in pipeline.yml.",
            f'IS_SAMPLE = spark.conf.get("{MODE_KEY}", "{SAMPLE}") == "{SAMPLE}"',
            'SAMPLE = str(Path(__file__).parents[1] / "sample")',
        ]
        blocks = ["\n".join(head), *blocks]
    return module("Bronze: each record once, as it came.", imports, blocks)


def _imports(blocks: list[str]) -> list[str]:
    text = "\n".join(blocks)
    found = ["from pyspark.sql import DataFrame"] if "DataFrame" in text else []
    if "F." in text:
        found.append("from pyspark.sql import functions as F")
    patterns = sorted(name for mark, name in _PATTERNS.items() if mark in text)
    ours = ["from headrace import pipelines as dp"]
    if patterns:
        ours.append(f"from headrace.patterns import {', '.join(patterns)}")
    return [*found, *([""] if found else []), *ours]

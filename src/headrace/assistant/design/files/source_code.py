"""``transformations/sources.py``: a view for each source, over sample files or the real system."""

from __future__ import annotations

from math import ceil

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.rates import rate_limit
from headrace.assistant.design.files.python_text import call, chained, literal, mapping, module
from headrace.assistant.design.files.sample_records import record_schema
from headrace.assistant.design.files.settings_text import MODE_KEY, SAMPLE
from headrace.assistant.design.requirements import Source, SourceKind
from headrace.assistant.design.source_defaults import facts_of, format_of, options_of

_DOC = "The sources: sample files in the profile sample, the real systems in the profile production."
_CORRUPT = "_corrupt_record STRING"


def sources_module(blueprint: Blueprint) -> str:
    """The text of the module."""
    blocks = [_head(blueprint)]
    blocks += [_view(dataset, blueprint) for dataset in blueprint.of(DatasetKind.SOURCE, DatasetKind.LIVE)]
    blocks += [_reference(dataset) for dataset in blueprint.of(DatasetKind.REFERENCE)]
    imports = ["from pathlib import Path", "", "from pyspark.sql import DataFrame"]
    if any("F." in block for block in blocks):
        imports.append("from pyspark.sql import functions as F")
    return module(_DOC, [*imports, "", "from headrace import pipelines as dp"], blocks)


def _head(blueprint: Blueprint) -> str:
    lines = [
        "# Set by the profiles in pipeline.yml.",
        f'IS_SAMPLE = spark.conf.get("{MODE_KEY}", "{SAMPLE}") == "{SAMPLE}"',
        'SAMPLE = str(Path(__file__).parents[1] / "sample")',
    ]
    shown = []
    for dataset in blueprint.of(DatasetKind.SOURCE, DatasetKind.LIVE, DatasetKind.REFERENCE):
        source = dataset.source
        needs_schema = not facts_of(source).payload and source.kind is not SourceKind.SYNTHETIC
        if needs_schema and source.name not in shown:
            shown.append(source.name)
            extra = [_CORRUPT] if source.kind is SourceKind.FILES and dataset.kind is DatasetKind.SOURCE else []
            columns = ",\n".join(f"    {text}" for text in [*(c.ddl for c in source.columns), *extra])
            lines += ["", f'{source.name.upper()} = """', columns, '"""']
    return "\n".join(lines)


def _view(dataset: Dataset, blueprint: Blueprint) -> str:
    source = dataset.source
    head = [
        f'@dp.temporary_view(comment="Records of {facts_of(source).title}, as they come")',
        f"def {dataset.name}() -> DataFrame:",
    ]
    body = _files_body(source, dataset, blueprint) if source.kind is SourceKind.FILES else _body(dataset, blueprint)
    return "\n".join([*head, *body])


def _body(dataset: Dataset, blueprint: Blueprint) -> list[str]:
    source = dataset.source
    facts = facts_of(source)
    sample = f"{{SAMPLE}}/{source.name}"
    schema = (
        literal(record_schema(source)) if facts.payload or source.kind is SourceKind.SYNTHETIC else source.name.upper()
    )
    links = [call("spark.readStream.schema", [schema]), f'.json(f"{sample}")']
    lines = ["    if IS_SAMPLE:"]
    if facts.payload:
        binary = [facts.payload, *(["key"] if facts.reader == "kafka" else [])]
        casts = [f'.withColumn("{name}", F.col("{name}").cast("binary"))' for name in binary]
        lines.append(chained("return ", [*links, *casts], 2))
    else:
        lines.append(chained("return ", links, 2))
    options = _reader_options(dataset, blueprint)
    read = [f'spark.readStream.format("{facts.reader}")']
    if options:
        read.append(".options(\n" + mapping(options, 1, before="**") + "\n)")
    if source.kind is SourceKind.JDBC:
        read.append(f".schema({source.name.upper()})")
    lines.append(chained("return ", [*read, ".load()"], 1))
    return lines


def _files_body(source: Source, dataset: Dataset, blueprint: Blueprint) -> list[str]:
    limit = rate_limit(dataset, blueprint)
    given = {name: value for name, value in source.options.items() if name.casefold() != "path"}
    conf = f'spark.conf.get("{source.name}.path")'
    kind = format_of(source)
    form = literal(kind) if kind == "json" else f'"json" if IS_SAMPLE else {literal(kind)}'
    links = ['spark.readStream.format("cloudFiles")', f'.option("cloudFiles.format", {form})']
    if limit is not None:
        links.append(f'.option("{limit.option}", "{limit.value}")')
    if given:
        confs = {name: f'spark.conf.get("{source.name}.{name}")' for name in given}
        links.append(".options(\n" + mapping(confs, 1, before="**({} if IS_SAMPLE else ", after=")") + "\n)")
    links += [
        f".schema({source.name.upper()})",
        ".load(path)",
        '.select("*", F.col("_metadata.file_path").alias("source_file"))',
    ]
    return [f'    path = f"{{SAMPLE}}/{source.name}" if IS_SAMPLE else {conf}', chained("return ", links, 1)]


def _reader_options(dataset: Dataset, blueprint: Blueprint) -> dict[str, str]:
    """The options of a reader, as code: connections come from the settings, limits are part of the design."""
    source = dataset.source
    facts = facts_of(source)
    found = {name: f'spark.conf.get("{source.name}.{name}")' for name in options_of(source)}
    given = {name.casefold() for name in source.options}
    if facts.starts_at is not None and not any(name.startswith("starting") for name in given):
        option, value = facts.starts_at
        if option.casefold() not in given:
            found[option] = literal(value)
    limit = rate_limit(dataset, blueprint) if dataset.kind is DatasetKind.SOURCE else None
    if limit is not None:
        found[limit.option] = literal(limit.value)
    if source.kind in (SourceKind.RATE, SourceKind.SYNTHETIC) and "rowspersecond" not in given:
        found["rowsPerSecond"] = literal(str(ceil(source.events_per_s or 1)))
    return found


def _reference(dataset: Dataset) -> str:
    source = dataset.source
    name = source.name.upper()
    lines = [
        f'@dp.materialized_view(comment="Reference data of {facts_of(source).title}, read as a whole")',
        f"def {dataset.name}() -> DataFrame:",
        "    if IS_SAMPLE:",
        f'        return spark.read.schema({name}).json(f"{{SAMPLE}}/{source.name}")',
    ]
    options = options_of(source)
    path = options.pop("path", "")
    confs = {option: f'spark.conf.get("{source.name}.{option}")' for option in options}
    form = {SourceKind.FILES: format_of(source), SourceKind.DELTA: "delta"}.get(source.kind, "jdbc_incremental")  # type: ignore[arg-type]
    links = [f'spark.read.format("{form}")']
    if confs:
        links.append(".options(\n" + mapping(confs, 1, before="**") + "\n)")
    if source.kind is not SourceKind.DELTA:
        links.append(f".schema({name})")
    links.append(f'.load(spark.conf.get("{source.name}.path"))' if path else ".load()")
    return "\n".join([*lines, chained("return ", links, 1)])

"""Code of bronze tables: each record once, with its origin; wrong records go where the requirements say."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Blueprint, Dataset, origin_columns
from headrace.assistant.design.decisions.layout import layout_of
from headrace.assistant.design.files.decorators import expectation_lines, table_decorator
from headrace.assistant.design.files.python_text import call, chained, literal, mapping
from headrace.assistant.design.requirements import ErrorPolicy, Source, SourceKind
from headrace.assistant.design.source_defaults import facts_of, format_of

_CORRUPT = "_corrupt_record"


def schema_constant(source: Source) -> str:
    """The columns of a payload, as a constant of the module; empty if the view has typed columns."""
    if not facts_of(source).payload or source.is_debezium:
        return ""
    columns = ",\n".join(f"    {text}" for text in [*(c.ddl for c in source.columns), f"{_CORRUPT} STRING"])
    return f'{source.name.upper()} = """\n{columns}\n"""'


def bronze_rules(dataset: Dataset, blueprint: Blueprint) -> dict[str, str]:
    """The expectations of a bronze table, by name."""
    source = dataset.source
    if source.is_debezium:
        return {}
    rules = {}
    policy = blueprint.requirements.on_error
    fails_in_query = policy is ErrorPolicy.DEAD_LETTER and facts_of(source).payload
    if (facts_of(source).payload or source.kind is SourceKind.FILES) and not fails_in_query:
        rules["readable"] = f"{_CORRUPT} IS NULL"
    for name in dict.fromkeys([*source.keys, *([source.event_time] if source.event_time else [])]):
        rules[f"has {name}"] = f"{name} IS NOT NULL"
    return rules


def bronze_code(dataset: Dataset, blueprint: Blueprint) -> str:
    """The definition of a bronze table."""
    comment = dataset.output.comment if dataset.output and dataset.output.comment else _comment(dataset.source)
    lines = [
        table_decorator(dataset, blueprint, comment),
        *expectation_lines(bronze_rules(dataset, blueprint), blueprint.requirements.on_error),
        f"def {dataset.name}() -> DataFrame:",
        *_body(dataset, blueprint),
    ]
    return "\n".join(lines)


def history_code(dataset: Dataset, blueprint: Blueprint) -> str:
    """A flow that adds older records to a bronze table, once."""
    source, history = dataset.source, blueprint.requirements.history
    if history is None or history.path is None:
        return ""
    columns = ", ".join(column.ddl for column in source.columns)
    rest = [f'.withColumn("{_CORRUPT}", F.lit(None).cast("string"))'] if _has_corrupt_column(source) else []
    rest += ['.withColumn("ingested_at", F.current_timestamp())', *_day_column(dataset)]
    return "\n".join(
        [
            f'@dp.append_flow(target="{dataset.name}", once=True)',
            f"def {dataset.name}_history() -> DataFrame:",
            '    """Older records, in one batch."""',
            "    if IS_SAMPLE:",
            f'        rows = spark.read.schema({literal(columns)}).json(f"{{SAMPLE}}/{source.name}_history")',
            "    else:",
            chained(
                "rows = ",
                [
                    f'spark.read.format("{history.format}")',
                    *([f".schema({literal(columns)})"] if history.format in ("json", "csv") else []),
                    f'.load(spark.conf.get("{source.name}.history"))',
                ],
                2,
            ),
            chained(
                "return ", ["rows", call(".select", [literal(column.name) for column in source.columns]), *rest], 1
            ),
        ]
    )


def day_column(dataset: Dataset) -> str | None:
    """The column with the day of the event time, if the table is partitioned by it."""
    time = layout_of(dataset).partition_day_of
    return f"{time}_day" if time else None


def _comment(source: Source) -> str:
    return f"Records of {source.name}, each once, with their origin"


def _has_corrupt_column(source: Source) -> bool:
    return not source.is_debezium and (bool(facts_of(source).payload) or source.kind is SourceKind.FILES)


def _day_column(dataset: Dataset) -> list[str]:
    name = day_column(dataset)
    return [f'.withColumn("{name}", F.to_date("{name.removesuffix("_day")}"))'] if name else []


def _body(dataset: Dataset, blueprint: Blueprint) -> list[str]:
    source, read = dataset.source, f'spark.readStream.table("{dataset.reads[0]}")'
    tail = ['.withColumn("ingested_at", F.current_timestamp())', *_day_column(dataset)]
    if not facts_of(source).payload:
        return [chained("return ", [read, *tail], 1)]
    facts, origin = facts_of(source), origin_columns(source)
    kept = [literal(name) if name == new else f'F.col("{name}").alias("{new}")' for name, new in origin.items()]
    payload = f'F.col("{facts.payload}").cast("string")'
    if source.is_debezium:
        columns = ['F.col("key").cast("string").alias("key")', f'{payload}.alias("value")', *kept]
        return [f"    records = {read}", chained("return ", ["records", call(".select", columns), *tail], 1)]
    raw = "source_raw" if source.column("raw") else "raw"
    names = [f'"record.{column.name}"' for column in source.columns]
    if _keeps_corrupt(blueprint):
        names.append(f'"record.{_CORRUPT}"')
    inner = call(
        ".select",
        [
            *(f'F.col("{n}")' for n in origin),
            f'{payload}.alias("{raw}")',
            f'{_parse(source, blueprint)}.alias("record")',
        ],
    )
    outer = call(".select", [*names, *kept, f'"{raw}"'])
    return [f"    records = {read}", chained("return ", ["records", inner, outer, *tail], 1)]


def _keeps_corrupt(blueprint: Blueprint) -> bool:
    return blueprint.requirements.on_error is not ErrorPolicy.DEAD_LETTER


def _parse(source: Source, blueprint: Blueprint) -> str:
    function = "F.from_csv" if format_of(source) == "csv" else "F.from_json"
    payload = f'F.col("{facts_of(source).payload}").cast("string")'
    if _keeps_corrupt(blueprint):
        options = mapping({"columnNameOfCorruptRecord": literal(_CORRUPT)})
    else:
        # The record fails in the query, and becomes a dead letter.
        options = mapping({"mode": '"FAILFAST"'})
    return call(function, [payload, source.name.upper(), options])

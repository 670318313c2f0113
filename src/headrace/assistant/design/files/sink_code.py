"""``transformations/sinks.py``: sinks, and the flows that deliver to them; in the profile sample, files instead."""

from __future__ import annotations

from headrace.assistant.design.blueprint import MESSAGE, Blueprint, Dataset, DatasetKind
from headrace.assistant.design.files.bronze_code import schema_constant
from headrace.assistant.design.files.connections import sink_options
from headrace.assistant.design.files.decorators import trigger_confs
from headrace.assistant.design.files.python_text import call, chained, literal, mapping, module
from headrace.assistant.design.files.settings_text import MODE_KEY, SAMPLE
from headrace.assistant.design.source_defaults import facts_of

DELIVERED = "delivered"
_DOC = "Deliveries: into files in the profile sample, into the real systems in the profile production."


def sinks_module(blueprint: Blueprint) -> str:
    """The text of the module."""
    sinks = blueprint.of(DatasetKind.SINK)
    head = [
        "# Set by the profiles in pipeline.yml.",
        f'IS_SAMPLE = spark.conf.get("{MODE_KEY}", "{SAMPLE}") == "{SAMPLE}"',
    ]
    constants = {sink.source.name: schema_constant(sink.source) for sink in sinks if sink.is_real_time}
    blocks = ["\n".join(head), *constants.values(), *(_sink(sink, blueprint) for sink in sinks)]
    imports = ["from pyspark.sql import DataFrame"]
    if any("F." in block for block in blocks):
        imports.append("from pyspark.sql import functions as F")
    return module(_DOC, [*imports, "", "from headrace import pipelines as dp"], blocks)


def _sink(sink: Dataset, blueprint: Blueprint) -> str:
    if sink.output is None:
        raise ValueError(f"{sink.name} is no output")
    options = {name: f'spark.conf.get("{sink.name}.{name}")' for name in sink_options(sink)}
    files = f'dp.create_sink("{sink.name}", "json", {{"path": "{DELIVERED}/{sink.name}"}})'
    real = call("dp.create_sink", [literal(sink.name), literal(sink.output.format), mapping(options)], 1)
    declared = ["if IS_SAMPLE:", f"    {files}", "else:", real]
    flow = _real_time_flow(sink) if sink.is_real_time else _flow(sink, blueprint)
    return "\n".join([*declared, "\n", flow])


def _flow(sink: Dataset, blueprint: Blueprint) -> str:
    confs = trigger_confs(sink, blueprint)
    arguments = [f'target="{sink.name}"', *([f"spark_conf={literal(confs)}"] if confs else [])]
    output = sink.output
    links = [f'spark.readStream.table("{sink.reads[0]}")']
    if output is not None and output.where:
        links.append(f".where({literal(output.where)})")
    if output is not None and output.format == "kafka":
        links.append(call(".select", _key_and_value(sink)))
    else:
        links.append(call(".select", [literal(column.name) for column in sink.columns]))
    return "\n".join(
        [
            call("@dp.append_flow", arguments),
            f"def {sink.name}_delivery() -> DataFrame:",
            f'    """Each new row of {sink.reads[0]}, once."""',
            chained("return ", links, 1),
        ]
    )


def _key_and_value(sink: Dataset) -> list[str]:
    """The columns of a Kafka record: the key, if there is one, and the row as JSON; an envelope as it came."""
    if sink.columns == MESSAGE:
        return ['"key"', '"value"']
    value = call(
        "F.to_json", [call("F.struct", [literal(column.name) for column in sink.columns])], after='.alias("value")'
    )
    known = [name for name in sink.keys if sink.column(name) is not None]
    if not known:
        return [value]
    if len(known) == 1:
        return [f'F.col("{known[0]}").cast("string").alias("key")', value]
    return [f'F.to_json(F.struct({", ".join(map(literal, known))})).alias("key")', value]


def _real_time_flow(sink: Dataset) -> str:
    """Records go through unchanged; their payload is only read to choose them."""
    output, source = sink.output, sink.source
    links = [f'spark.readStream.table("{sink.reads[0]}")']
    if output is not None and output.where:
        payload = f'F.from_json(F.col("{facts_of(source).payload}").cast("string"), {source.name.upper()})'
        kept = ['F.col("key").alias("record_key")', 'F.col("value").alias("record_value")']
        links.append(call(".select", [*kept, f'{payload}.alias("record")']))
        links += ['.select("record_key", "record_value", "record.*")', f".where({literal(output.where)})"]
        links.append('.select(F.col("record_key").alias("key"), F.col("record_value").alias("value"))')
    else:
        links.append('.select("key", "value")')
    return "\n".join(
        [
            "# A batch is delivered from sample files; real-time mode goes from Kafka to Kafka.",
            f"{sink.name}_flow = dp.append_flow if IS_SAMPLE else dp.update_flow",
            f'{sink.name}_conf = {{}} if IS_SAMPLE else {{"pipelines.trigger": "RealTime"}}',
            "",
            "",
            f'@{sink.name}_flow(target="{sink.name}", spark_conf={sink.name}_conf)',
            f"def {sink.name}_delivery() -> DataFrame:",
            '    """Each record as it arrives."""',
            chained("return ", links, 1),
        ]
    )

"""The reference page of sinks, made from the tables of their options."""

from __future__ import annotations

from headrace.sinks.formats import FILES, FORMATS, Delivery, SinkFormat
from option_tables import options_of

_BEFORE = """\
# Sinks

A sink is a place outside of the pipeline that flows deliver rows to. It is declared once, and any number of flows have it
as their target:

```python
dp.create_sink(
    "alerts",
    "kafka",
    {{
        "kafka.bootstrap.servers": "broker-1:9092",
        "topic": "alerts",
    }},
)


@dp.append_flow(target="alerts")
def high_amounts():
    return (
        spark.readStream.table("orders")
        .where("amount > 10000")
        .select(F.col("order_id").alias("key"), F.to_json(F.struct("*")).alias("value"))
    )
```

What is delivered stays delivered: a full refresh of a sink reads what its flows read from the start, delivers all of it
again, and takes nothing back. `plan` says so before. Nothing in the pipeline can read a sink. Rules are declared on the
table or view that a sink's flow reads.

What a flow has delivered is known by the flow and its target: a flow that gets another target, or another name that the
setting `renames` does not tell, begins anew there. What stands for several targets is called `<flow>_targets`, which is
what `--full-refresh` takes; a target that joins them gets what comes from then on, and one that leaves gets no more.

## Flows

| | |
|---|---|
| `@dp.append_flow(target="alerts")` | each new row once. An aggregation needs a watermark, and a group is delivered when it is complete |
| `@dp.append_flow(target=["lake", "alerts", "hook"])` | to several sinks, from one reading and one computation. One that fails does not make the others take a batch again: the flow fails, a warning `SINK.BEHIND` says who has the batch and who has not, and the next try delivers it to those alone that lack it |
| `@dp.append_flow(target="alerts", once=True)` | what the query, a batch, has now: once, and again by a full refresh |
| `@dp.update_flow(target="alerts")` | in each batch the rows that have changed, such as the new values of groups; not into Delta and files, where rows are only added |

## What happens to a batch that comes again

After a crash the newest batch of a flow may come again, with the same rows and the same number. One that is noted as
delivered does not go to the sink again; what is left is the moment between the delivery and the note. **Exactly once** is
said of sinks that store the note in the same step as the rows.

{promises}

A function of your own (`@dp.foreach_batch_sink`) gets each batch with its number, and is called again with a batch that
was not recorded as done:

```python
from headrace.delivery import append_once, upsert


@dp.foreach_batch_sink
def crm(df, batch_id):
    append_once(df, batch_id, "/data/lake/orders")
    upsert(df, batch_id, "/data/lake/customers", keys=["customer_id"], sequence_by="updated_at")
```

`headrace.delivery` has `append_once`, `upsert`, `merge_into` and `deliver_to_all`, and for places that are down `retry` and
`deliver_or_keep`. They keep track in Delta's own
transactions, or in a small file, under the id of the streaming query, so that no table of processed batches has to be
written by hand. They work in the `foreachBatch` of a plain script too.

Kafka's producers have no transactions in Spark: a batch that breaks off is in the topic in part, and comes again whole.
Whoever reads the topic finds in the headers of each record `headrace-batch` (pipeline, flow, epoch and number),
`headrace-attempt`, a number that grows with each try, and `headrace-row`. Of one batch, the records with the greatest
attempt are complete. On a cluster Spark may try a single task again within an attempt; then of equal `headrace-row` one
counts, as long as the task gives its rows in the same order, which after a shuffle it need not.

## Data sources of your own

A data source in Python (`pyspark.sql.datasource.DataSource` with a `streamWriter`) is a sink once a file of the pipeline
has registered it; so is any other format that Spark writes as a stream:

```python
spark.dataSource.register(MySource)
dp.create_sink("out", "my_source", {{"place": "..."}})
```

Spark tells its writer to commit with the number of the batch; what becomes of a batch that comes again is the writer's
affair, and nothing is noted beside it.

# Options

Names of options are matched whatever their case, and an unknown one is an error that names the nearest. Values that may be
secret, such as `password`, come from `dbutils.secrets.get(...)` or the settings, and are in no event, plan or error.
"""

_AFTER = {
    "kafka": """\
Rows have a column `value` (text or bytes), and perhaps `key`, `headers`, `topic` and `partition`; others are passed over
where records have headers of ours. The settings name the connector: `connectors: [kafka]`. Any other `kafka.*` option goes
to Kafka's client as it is, which is how Event Hubs is reached: as a Kafka cluster.
""",
    "jdbc": """\
The rows of a batch are put beside the table by Spark's tasks, and taken over in one transaction, which also notes the batch
in the table of commits. Columns go by their names; those that the rows lack get the table's defaults. A table that is not
there is made, with a primary key where `keys` are given. Structs, arrays and maps are JSON. Tried with PostgreSQL, and
with SQLite, whose times have no zone and are those of UTC; SQLAlchemy and the database's driver are installed with
`pip install headrace[database]` and the driver's own package.
""",
    "http": """\
What the server answers decides: 2xx is success; 408, 425, 429, 500, 502, 503, 504, a timeout and a broken connection are
tried again, after a wait that doubles and has chance in it, or the longer one that `Retry-After` asks for, as long as
`retryBudget` allows; then the flow fails, and is tried again as flows are, or the batch waits (`fallback`). 400, 413, 415 and
422 are about the rows, and a request of several is cut in two until the row is found that is refused; anything else stops
the flow at once. After ten failures in a row nobody is asked for five seconds. With `keys`, another `concurrency` cuts a batch into other requests, which have other keys.
`header.NAME` options are headers of each
request. Install the client with `pip install headrace[http]`.
""",
    "delta": """\
The table is made by the first batch. `tableName` is a table in the storage, `tables/<schema>/<name>`, which is none of the
pipeline's datasets: no refresh clears it.
""",
}
_FILES = """\
A batch is written into a folder `_headrace` below the path, which readers pass over. Its files are listed in a journal, and
then get their names; after a crash the moves in the journal are made, and nothing is computed again. Whoever reads the
folder sees whole files, each batch's once. `writer.NAME` options go to Spark's writer, such as `writer.header` or
`writer.compression`. On a local disk and on HDFS a move is one step; on object stores, where it is a copy, this was not
tried.
"""


def sinks_reference() -> str:
    """docs/reference/sinks.md as it must be."""
    named = [found for found in FORMATS.values() if found.name not in FILES and found.declared_by_name]
    parts = [_BEFORE.format(promises=_promises())]
    parts += [f"## {found.name}\n\n{options_of(found.options)}\n{_AFTER.get(found.name, '')}" for found in named]
    parts.append(f"## Files: {', '.join(FILES)}\n\n{options_of(FORMATS[FILES[0]].options)}\n{_FILES}")
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _promises() -> str:
    lines = ["| format | a batch is delivered | a repeat is told |", "|---|---|---|"]
    files = ", ".join(f"`{name}`" for name in FILES)
    seen = set[str]()
    for found in FORMATS.values():
        name = files if found.name in FILES else _called(found)
        if name not in seen:
            seen.add(name)
            lines.append(f"| {name} | {_promise(found)} | {found.repeats} |")
    return "\n".join(lines)


def _called(found: SinkFormat) -> str:
    if found.declared_by_name:
        return f"`{found.name}`"
    return {"foreachBatch": "a function of your own", "fan_out": "several targets"}[found.name]


def _promise(found: SinkFormat) -> str:
    return f"**{found.delivery.value}**" if found.delivery is Delivery.EXACTLY_ONCE else found.delivery.value

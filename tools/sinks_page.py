"""The reference page of sinks, generated from the tables of their options."""

from __future__ import annotations

from headrace.sinks.formats import FILES, FORMATS, Delivery, SinkFormat
from option_tables import options_of

_BEFORE = """\
# Sinks

A sink delivers rows to a system outside the pipeline: Kafka, a database, an HTTP server, files, a Delta table or a function.
Declare it once, and make it the target of one or more flows:

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

No flow of the pipeline can read a sink. Declare expectations on the table or view that the sink's flow reads.

A full refresh of a sink reads the sources of its flows from the start and delivers everything again. It deletes nothing from
the sink. `headrace plan` warns about this.

Progress is stored for each pair of flow and target. A flow with a new target, or with a new name that is not in the setting
`renames`, starts from the beginning. A list of several targets is one target named `<flow>_targets`; use this name with
`--full-refresh`. A sink that you add to the list gets new rows only. A sink that you remove gets no more rows.

## Flows

| flow | what it delivers |
|---|---|
| `@dp.append_flow(target="alerts")` | Each new row, once. An aggregation needs a watermark; a group is delivered when it is complete |
| `@dp.append_flow(target=["lake", "alerts", "hook"])` | Each new row to several sinks. The source is read once and the query computed once. If one sink fails, the flow fails, the warning `SINK.BEHIND` lists which sinks have the batch, and the retry delivers it only to the others |
| `@dp.append_flow(target="alerts", once=True)` | The result of a batch query, once. A full refresh delivers it again |
| `@dp.update_flow(target="alerts")` | The rows that changed in each batch, such as new values of groups. Not for Delta and files, because these are append-only |

## Repeated batches

After a crash, Headrace may run the last batch of a flow again, with the same rows and the same number. A batch that is
recorded as delivered is not delivered again. A repeat is possible only if the crash happens after the delivery and
before the record. **Exactly-once** sinks store the record in the same transaction as the rows, so they get no repeats.

{promises}

A function of your own (`@dp.foreach_batch_sink`) gets each batch with its number. If a batch is not recorded as
done, the function is called again with it:

```python
from headrace.delivery import append_once, upsert


@dp.foreach_batch_sink
def crm(df, batch_id):
    append_once(df, batch_id, "/data/lake/orders")
    upsert(df, batch_id, "/data/lake/customers", keys=["customer_id"], sequence_by="updated_at")
```

`headrace.delivery` has `append_once`, `upsert`, `merge_into` and `deliver_to_all`, and `retry` and `deliver_or_keep` for
systems that may be down. They record batches in the transactions of Delta, or in a small file, under the ID of the streaming
query. You do not need a table of processed batches. They also work in the `foreachBatch` of a plain script.

Spark's Kafka producers have no transactions. If a batch is interrupted, the topic already has a part of it, and the
whole batch is delivered again. The headers of each record let consumers find the repeats:

| header | content |
|---|---|
| `headrace-batch` | pipeline, flow, epoch and batch number |
| `headrace-attempt` | a number that grows with each attempt |
| `headrace-row` | the row in the batch |

The records with the greatest attempt of a batch are complete. Ignore the others. On a cluster, Spark can retry a single
task within an attempt. In this case, keep one record for each `headrace-row`. This works only if the task returns its
rows in the same order again, which is not guaranteed after a shuffle.

## Data sources of your own

A Python data source (`pyspark.sql.datasource.DataSource` with a `streamWriter`) becomes a sink when a file of the
pipeline registers it. The same applies to any other format that Spark can write as a stream:

```python
spark.dataSource.register(MySource)
dp.create_sink("out", "my_source", {{"place": "..."}})
```

Spark passes the batch number to the writer's commit. The writer must handle repeated batches: Headrace keeps no record of
them for such sinks.

# Options

Option names are case-insensitive. An unknown option is an error that suggests the nearest name. Get secret values,
such as `password`, from `dbutils.secrets.get(...)` or the settings. They do not appear in events, plans or errors.
"""

_AFTER = {
    "kafka": """\
Rows have a column `value` (text or bytes), and optionally `key`, `headers`, `topic` and `partition`. With `deliveryHeaders`,
other columns are ignored. Add the connector to the settings: `connectors: [kafka]`. Any other `kafka.*` option is passed to
the Kafka client unchanged. To deliver to Event Hubs, use its Kafka endpoint.
""",
    "jdbc": """\
Spark's tasks write the rows of a batch into a staging table. One transaction then moves them to the target table and
records the batch in the commit table. Columns are matched by name; a column that the rows lack gets the table's default.
If the table does not exist, Headrace creates it, with a primary key if `keys` is set. Structs, arrays and maps are stored
as JSON. Tested with PostgreSQL and SQLite. SQLite's times have no time zone and are in UTC. Install SQLAlchemy with
`pip install headrace[database]`, and the package of the database's driver.
""",
    "http": """\
The response of the server decides what happens:

| response | effect |
|---|---|
| 2xx | The rows are delivered |
| 408, 425, 429, 500, 502, 503, 504, a timeout, a broken connection | The request is retried until `maxAttempts` or `retryBudget` is used up. The delay is random and doubles; a longer `Retry-After` wins. After that, the flow fails and is retried like other flows, or the batch goes to the spill queue (`fallback`) |
| 400, 413, 415, 422 | The server refuses the rows. Headrace bisects a request with several rows until it finds the refused row |
| anything else | The flow fails at once |

After ten failures in a row, no requests are sent for five seconds. If you set `keys`, do not change `concurrency` while
a batch may be repeated: the batch would be split into different requests, with different idempotency keys. Options
named `header.NAME` set headers of every request. Install the client with `pip install headrace[http]`.
""",
    "delta": """\
The first batch creates the table. `tableName` is a table in the storage, at `tables/<schema>/<name>`, that is not a
dataset of the pipeline. No refresh clears it.
""",
}
_FILES = """\
Headrace writes a batch into the folder `_headrace` under the path. Readers ignore this folder. Headrace lists the files
in a journal, then moves them to their final names. After a crash, the next update completes the moves from the journal
and computes nothing again. Readers see only complete files, and each batch once. Options named `writer.NAME` are passed
to Spark's writer, such as `writer.header` or `writer.compression`. On a local disk and on HDFS, a move is atomic. On
object stores, a move is a copy; this is not tested.
"""


def sinks_reference() -> str:
    """The expected text of docs/reference/sinks.md."""
    named = [found for found in FORMATS.values() if found.name not in FILES and found.declared_by_name]
    parts = [_BEFORE.format(promises=_promises())]
    parts += [f"## {found.name}\n\n{options_of(found.options)}\n{_AFTER.get(found.name, '')}" for found in named]
    parts.append(f"## Files: {', '.join(FILES)}\n\n{options_of(FORMATS[FILES[0]].options)}\n{_FILES}")
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _promises() -> str:
    lines = ["| format | delivery | how a repeat is recognized |", "|---|---|---|"]
    files = ", ".join(f"`{name}`" for name in FILES)
    seen = set[str]()
    for found in FORMATS.values():
        name = files if found.name in FILES else _called(found)
        if name not in seen:
            seen.add(name)
            lines.append(f"| {name} | {_promise(found)} | {found.deduplication} |")
    return "\n".join(lines)


def _called(found: SinkFormat) -> str:
    if found.declared_by_name:
        return f"`{found.name}`"
    return {"foreachBatch": "a function of your own", "fan_out": "several targets"}[found.name]


def _promise(found: SinkFormat) -> str:
    return f"**{found.delivery.value}**" if found.delivery is Delivery.EXACTLY_ONCE else found.delivery.value

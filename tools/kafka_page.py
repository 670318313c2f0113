"""The reference page of topics, made from the table of their options."""

from __future__ import annotations

from headrace.sources.kafka_options import FORMAT
from option_tables import options_of

_BEFORE = """\
# Kafka

Topics as streams, each record in the table once. Spark's own source reads them; the settings name its connector:

    connectors: [kafka]

```python
@dp.table
def orders_raw():
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "broker-1:9092,broker-2:9092")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
```

A pipeline that reads topics, or Avro, and does not name the connector is told which line to add
(`CONNECTOR.NOT_NAMED`); a script says `spark_session(connectors=["kafka"])`.

The columns are `key`, `value` (bytes), `topic`, `partition`, `offset`, `timestamp`, `timestampType`, and with
`includeHeaders` also `headers`.

In SQL, with the same options; `bootstrapServers` is `kafka.bootstrap.servers`, and names with dots stand in backticks.
Values are literals, so a login belongs into Python, where `dbutils` has the secret:

```sql
CREATE STREAMING TABLE orders_raw AS
SELECT * FROM STREAM read_kafka(bootstrapServers => 'broker-1:9092', subscribe => 'orders', startingOffsets => 'earliest')
```

## Options

Every other `kafka.*` option goes to Kafka's client as it is. Any other name that is not listed is an error that names the
nearest; names are matched whatever their case.
"""

_AFTER = """\
A time is milliseconds since 1970, as Spark takes it, or readable: `2026-01-01T00:00:00Z`, `2026-01-01 01:00:00+01:00`,
`2026-01-01`. One that says no zone is in the session's, which is UTC unless it is set. Where a stream begins counts for
its first start alone; from then on its checkpoint says where it goes on.

## What happens when

| | |
|---|---|
| partitions are added | they are read from their beginning, with the next batch |
| the broker goes away | the stream waits for it; a batch that fails meanwhile is tried again. An update that cannot reach it when a flow starts says `KAFKA.UNREACHABLE` after 15 seconds, or after `kafka.default.api.timeout.ms` if that is less, and tries again; other flows do not wait |
| offsets were removed by retention before they were read | `KAFKA.DATA_LOSS` names topic, partition and how many, before anything is written, and the three ways on |
| the same with `failOnDataLoss` `false` | the flow goes on with what is left; a warning `KAFKA.OFFSETS_LOST` for each partition says how many were lost |
| the topic is gone | `KAFKA.NO_TOPIC` |
| `assign` names a partition that is not there | `KAFKA.NO_PARTITION` names it, and those that are |
| a topic was deleted and made anew under its name | `KAFKA.DATA_LOSS`, unless it has more offsets by then than were read: nothing tells the two apart then |
| login, certificate or rights are wrong | `KAFKA.CREDENTIALS`, `KAFKA.CERTIFICATE`, `KAFKA.NOT_ALLOWED`, at once and without another try |

Losses are looked for when a flow starts, when it fails because of its topics, and, with `failOnDataLoss` `false`, behind
each batch that has read fewer records than its offsets are: the broker is asked for the first offset that it has left.
Offsets of a compacted topic, or of transactions, that hold no record are told apart from lost ones only where the broker
still has them. Where several partitions have lost offsets in one batch that lacks fewer, each warning says "at most".

Results that a watermark has closed and no batch has written yet are written by computing the last batch once more; when
the broker no longer has its records, they wait for the next input.

`headrace status` says which partitions were not read to their ends, and `--output json` has them all under `lag`: the next
`offset` to read, the `newest` one, how many it is `behind`. The newest one is what the broker had when the last batch
was planned, so that of an update that has ended is as old as the update. The event log has the same as `backlog_records` and `source_metrics` of `flow_progress`, when it changes,
every 10 seconds at most.

Credentials belong into a secret:

```python
password = dbutils.secrets.get("kafka", "password")
login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="reader" password="{password}";'
spark.readStream.format("kafka").options(
    **{
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/etc/ssl/kafka.pem",
    }
)
```

None of the options is in checkpoints, events, plans or errors of Headrace; what Kafka's own client says in an error is
left out.

## Payloads

JSON:

```python
orders = spark.readStream.table("orders_raw")
orders.select(F.from_json(F.col("value").cast("string"), "id BIGINT, price DECIMAL(10,2)").alias("order"), "timestamp")
```

Avro of one known schema, with `connectors: [kafka, avro]`: Spark's `from_avro(column, schema)`. The vendor's form of it with
`subject` and `schemaRegistryAddress` is `from_confluent`; it is refused with that (`CONFLUENT.VENDORS_FUNCTION`).

Avro in the wire format of Confluent's registry, with `pip install 'headrace[registry]'` wherever Spark's workers run:

```python
from headrace import from_confluent


@dp.table
@dp.expect_or_quarantine("readable", "error IS NULL")
def orders():
    records = spark.readStream.table("orders_raw")
    decoded = from_confluent("value", "orders-value", "https://registry:8081", on_error="tell")
    return records.select(decoded.alias("decoded"), "value").select("decoded.value.*", "decoded.error", "value")
```

- The columns are those of the subject's latest schema when the update resolves the query (or of `version=3`), so a field
  that is added to the schema is a new column of the table in the next update. Each record is read with the schema that it was written
  with, fetched once by its id, and resolved as Avro says: defaults for fields it lacks, fields that are gone left out.
- `on_error`: `fail` (the default) ends the flow with `CONFLUENT.PAYLOAD`; `null` gives NULL; `tell` gives `value` and
  `error`. Bytes without the zero byte and the id, ids that the registry does not know, damaged records and records that
  do not fit are such errors. A registry that does not answer is none: it fails the flow, which is tried again. It has 10
  seconds for each of two tries, unless the settings say `timeout` and `max.retries`.
- The registry may be a dictionary with the settings of Confluent's client, such as `basic.auth.user.info`. They travel to
  the workers with the query, and are in no plan and no error.
- `date`, `timestamp-millis`, `timestamp-micros`, their local forms and `decimal` have their types; other logical types, and
  decimals of more than 38 digits, are read as what they stand on. References to other subjects are followed. Refused by name: records that hold themselves, unions of several types
  (but `int` with `long` and `float` with `double`), JSON Schema and Protobuf.

Rows are read in Python, over Arrow: Spark's own `from_avro` takes one writer's schema for a whole column, and a
topic holds many.
"""


def kafka_reference() -> str:
    """docs/reference/kafka.md as it must be."""
    return "\n".join((_BEFORE, options_of(FORMAT), _AFTER))

"""The reference page of topics, made from the table of their options."""

from __future__ import annotations

from headrace.sources.kafka_options import FORMAT
from option_tables import options_of

_BEFORE = """\
# Kafka

Reads Kafka topics as streams. Each record is in the table exactly once. Name the connector in the settings:

    connectors: [kafka]

Then read with Spark's own Kafka source:

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

In SQL:

```sql
CREATE STREAMING TABLE orders_raw AS
SELECT * FROM STREAM read_kafka(bootstrapServers => 'broker-1:9092', subscribe => 'orders', startingOffsets => 'earliest')
```

The SQL function takes the same options. `bootstrapServers` is short for `kafka.bootstrap.servers`. Put names with dots
in backticks. Values must be literals, so read topics that need a login in Python, where `dbutils` provides the secret.

A script names the connector with `spark_session(connectors=["kafka"])`. If a pipeline reads topics or Avro without the
connector, the error `CONNECTOR.NOT_NAMED` gives the line to add.

The columns are `key`, `value` (bytes), `topic`, `partition`, `offset`, `timestamp`, `timestampType`, and with
`includeHeaders` also `headers`.

## Options

Other `kafka.*` options are passed to the Kafka client unchanged. Any other option that is not listed is an error, which
suggests the nearest name. Option names are case-insensitive.
"""

_AFTER = """\
Write a time as milliseconds since 1970, as Spark does, or in a readable form: `2026-01-01T00:00:00Z`,
`2026-01-01 01:00:00+01:00`, `2026-01-01`. A time without a zone is in the session's time zone, UTC by default.

The starting options apply only to the first start of a stream. After that, the stream continues from its checkpoint.

## Failures and lost offsets

| event | what happens |
|---|---|
| partitions are added | They are read from their beginning, starting with the next batch |
| the broker is unavailable while a stream runs | The stream waits for it. A batch that fails in the meantime is retried |
| the broker is unavailable when a flow starts | `KAFKA.UNREACHABLE` after 15 seconds, or after `kafka.default.api.timeout.ms` if that is shorter. The flow is retried, and other flows do not wait for it |
| retention removed offsets before they were read | `KAFKA.DATA_LOSS`, before anything is written. It names the topic, the partition and the number of offsets, and gives three ways to continue |
| the same, with `failOnDataLoss` set to `false` | The flow continues with the records that are left. For each partition, the warning `KAFKA.OFFSETS_LOST` says how many offsets were lost |
| the topic does not exist | `KAFKA.NO_TOPIC` |
| `assign` names a partition that does not exist | `KAFKA.NO_PARTITION`, with its name and the partitions that do exist |
| a topic was deleted and created again under the same name | `KAFKA.DATA_LOSS`. It is not detected if the new topic already has more offsets than were read from the old one |
| the login, the certificate or the permissions are wrong | `KAFKA.CREDENTIALS`, `KAFKA.CERTIFICATE` or `KAFKA.NOT_ALLOWED`, at once and without a retry |

Headrace checks for lost offsets when a flow starts, and when it fails because of its topics. With `failOnDataLoss` set to
`false`, it also checks after each batch that read fewer records than its offset range contains: it asks the broker for the
first offset that is left.

Transactions and topic compaction leave offsets without records. Headrace can tell these from lost offsets only while
the broker still has them. If several partitions lost offsets in one batch, and their sum is greater than the number of
missing records, each warning says "at most".

If the watermark has closed results that no batch has written, Headrace computes the last batch again to emit them. If
the broker no longer has its records, these results are written with the next input.

## Lag

`headrace status` shows the partitions that were not read to their end. `headrace status --output json` lists all partitions
under `lag`:

| field | what it is |
|---|---|
| `offset` | the next offset to read |
| `newest` | the newest offset that the broker had when the last batch was planned. After an update has ended, this number is as old as the update |
| `behind` | how many offsets the flow is behind |

The event log has the same numbers as `backlog_records` and `source_metrics` of `flow_progress`. They are written when they
change, at most every 10 seconds.

## Credentials

Keep credentials in a secret:

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

Headrace does not write the options to checkpoints, events, plans or errors, and omits the Kafka client's own text from
errors.

## Payloads

JSON:

```python
orders = spark.readStream.table("orders_raw")
orders.select(F.from_json(F.col("value").cast("string"), "id BIGINT, price DECIMAL(10,2)").alias("order"), "timestamp")
```

Avro with one known schema: set `connectors: [kafka, avro]`, and use Spark's `from_avro(column, schema)`. The vendor's form
of this function, with `subject` and `schemaRegistryAddress`, is refused with `CONFLUENT.VENDORS_FUNCTION`. Use `from_confluent`
instead.

Avro in the wire format of Confluent Schema Registry: run `pip install 'headrace[registry]'` on Spark's workers too, and
use `from_confluent`:

```python
from headrace import from_confluent


@dp.table
@dp.expect_or_quarantine("readable", "error IS NULL")
def orders():
    records = spark.readStream.table("orders_raw")
    decoded = from_confluent("value", "orders-value", "https://registry:8081", on_error="report")
    return records.select(decoded.alias("decoded"), "value").select("decoded.value.*", "decoded.error", "value")
```

`on_error` says what happens to a payload that cannot be read: it does not begin with the zero byte and a schema id, the
registry does not know the id, the record is damaged, or it does not fit the schema.

| `on_error` | what happens |
|---|---|
| `fail` (default) | The flow fails with `CONFLUENT.PAYLOAD` |
| `null` | The result is NULL |
| `report` | The result is a struct of `value` and `error`. In version 0.1 it was called `tell`, which still works |

- The columns are those of the subject's latest schema, or of the version that you set, as in `version=3`. The schema is
  read when the update resolves the query, so a new field becomes a column of the table in the next update.
- Each record is decoded with the schema that it was written with. Headrace fetches each schema once, by its id. Avro's
  resolution rules apply: fields that a record lacks get their defaults, and removed fields are left out.
- If the registry does not answer, the flow fails, whatever `on_error` says, and is retried. The client makes two attempts of
  10 seconds each, unless you set `timeout` and `max.retries`.
- Instead of the registry's address you can pass a dictionary with settings of Confluent's client, such as
  `basic.auth.user.info`. Spark sends them to the workers with the query. They do not appear in plans or errors.
- `date`, `timestamp-millis`, `timestamp-micros`, their local forms and `decimal` keep their types. Other logical types, and
  decimals of more than 38 digits, are read as their underlying type.
- References to other subjects are followed.
- Recursive records and unions of several types are refused, except `int` with `long` and `float` with `double`. So are JSON
  Schema and Protobuf. The error names what is refused.

Payloads are decoded in Python, over Arrow. Spark's own `from_avro` takes one writer schema for a whole column, but a
topic contains records with many schemas.
"""


def kafka_reference() -> str:
    """The expected text of docs/reference/kafka.md."""
    return "\n".join((_BEFORE, options_of(FORMAT), _AFTER))

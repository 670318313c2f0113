"""The reference page of the sources of this package, generated from their tables of options."""

from __future__ import annotations

from headrace.sources import jdbc_incremental, kinesis_options, synthetic
from option_tables import options_of

_INTRODUCTION = """\
# Sources

The formats that `spark.readStream.format(...)` reads, in the files of a pipeline and in scripts that use
`headrace.spark_session()`:

```python
@dp.table
def clicks():
    return spark.readStream.format("kinesis").options(streamName="clicks", region="eu-west-1").load()
```

| format | reads | needs |
| --- | --- | --- |
| `synthetic` | generated events | |
| `jdbc_incremental` | new rows of a database | `pip install 'headrace[database]'`, and the database's driver, such as `pg8000` |
| `kinesis` | Amazon Kinesis | `pip install 'headrace[aws]'` |
| `kafka`, `read_kafka` | [Kafka](kafka.md) | `connectors: [kafka]` in the settings |
| `eventhubs` | [Event Hubs](event-hubs.md) | `connectors: [kafka]` in the settings |
| `cloudFiles`, `read_files` | files, with [Auto Loader](auto-loader.md) | |
| `delta`, or `spark.readStream.table` | Delta tables | |
| `rate`, `rate-micro-batch`, `json`, `csv`, `parquet`, `orc`, `text`, `xml`, `socket` | as in Spark | |

Option names are case-insensitive. An option that is not listed is an error, which suggests the nearest name. Secret values
do not appear in offsets, plans, events or errors. See [profiles and secrets](../how-to/profiles-and-secrets.md).

## Unavailable sources

A source is unavailable if its database is down when an update begins, its table or folder does not exist, its store does not
answer, or its folder has no file to infer a schema from. Then:

| what | effect |
| --- | --- |
| flow that reads the source | It fails |
| flow that reads the table of that flow | It is skipped |
| other flow into the same table | It runs if the table exists. If the table must be created or cleared first, it is skipped, because the columns and rows of the failed flow would be missing |
| all other flows | They run |
| persisted view | It fails or is skipped. Its stored definition does not change |
| full refresh | It is refused if a selected table, or a stream that has read one, needs the source. The error names the source, and nothing is cleared |
| `headrace preview` | It computes no dataset that needs rows of the failed flow |
| `headrace plan` | It shows all this before the update |
| `headrace validate` | It reports an error |

When the source is available again, the next update continues from the last progress.

If a source fails while a flow runs, the flow is retried if the error may pass. A database that is down at the start is
retried too, if you give its columns with `.schema(...)`. Without them the columns are unknown, so the flow fails at once.
In a continuous update, it stays failed until you restart the update.
"""

_SYNTHETIC = """
## Synthetic events

Generates test data, without a server:

    spark.readStream.format("synthetic").options(rowsPerSecond=100, skew=1.1, lateShare=0.05).load()

The columns, unless you give a schema, are:

    {columns}

Row n depends only on the options and on n. Batch sizes do not change it, and a repeated batch has the same rows. Adding a
column does not change the others.

- `event_id`, `event_time`, `key` and `event_type` have their meaning if they have a suitable type. Any other column of a
  schema has random values of its type. All types except VARIANT and intervals are supported.
- `event_time` is `startTime` plus `eventInterval` for each row. It does not follow the clock.
- A duplicate is an exact copy of one of the 1,000 rows before it, which may itself be a duplicate.
- `spark.read.format("synthetic")` reads all of `numRows` at once.

How many rows a triggered update reads depends on the options:

| options | rows |
| --- | --- |
| `numRows` | All rows at once, in batches of `rowsPerBatch`. `rowsPerSecond` is only used in continuous updates |
| `rowsPerSecond` without `numRows` | The rows since the first start of the stream, plus one second of rows. For example, an update in the morning reads the rows of the whole night |
| `rowsPerBatch` alone | One batch |
"""

_JDBC = """
## New rows of a database

    spark.readStream.format("jdbc_incremental").options(
        url="jdbc:postgresql://db.example.com:5432/shop",
        user="reader",
        password=dbutils.secrets.get("shop", "password"),
        dbtable="public.orders",
        cursorColumn="changed_at",
    ).load()

A batch contains the rows whose `cursorColumn` is greater than the last position and not greater than the new one. Both
positions are in the offset. So a repeated batch has the same rows, and a restart neither loses nor duplicates rows,
**if no rows are added or changed at or before a position that was already read.** This has consequences:

- Rows with equal `cursorColumn` are ordered by `tieBreakColumn`, whose values must also increase. Without it, a batch
  reads all rows that have its last value, and misses rows with that value that are inserted later.
- A transaction gives a row its number or time before it commits. If a row with a smaller value commits after a greater
  value was read, the row is missed. With `settleDelay`, a batch reads only up to the position that was the newest that
  long ago. Set it longer than your longest write transaction. A triggered update waits for that time.
- There is no option to read an overlapping period again: Headrace would have to store which of its rows it has read. If
  no delay is long enough, use a materialized view over `spark.read.format("jdbc_incremental")`. It reads all rows each
  time, including late ones.
- Deleted rows are not detected. A changed row is read again only if its `cursorColumn` increases. Rows whose
  `cursorColumn` or tie-break is NULL are not read.

Tested with PostgreSQL and SQLite. In a URL for `pg8000`, `sslmode` and `sslrootcert` work as in PostgreSQL; other
parameters are those of the driver. `jdbc:mysql` and `jdbc:mariadb` URLs are translated. For any other database, install its
driver and give a SQLAlchemy URL. These databases are not tested. `spark.read.format("jdbc_incremental")` reads all rows from
`startingPosition` on.

The columns are those of the database. `.schema(...)` selects some of them and changes their types. The types follow Spark's
own JDBC source:

| type in the database | type in Spark |
| --- | --- |
| `numeric` without precision | `DECIMAL(38,18)` |
| times without a zone | times in the session's zone; unchanged with `preferTimestampNTZ` |
| arrays | arrays |
| JSON, UUID, times of day, intervals, and other types that Spark lacks | text, as the database writes it |

- Rows are ordered by the database, even if you read `cursorColumn` with another type or not at all. Its values must
  be finite: `infinity` and `NaN` fail the flow.
- A value that does not fit its type fails the flow. The error names the column.
- The types of a `query` are known for PostgreSQL. Other databases need `.schema(...)`.
"""

_KINESIS = """
## Kinesis

    spark.readStream.format("kinesis").options(streamName="clicks", region="eu-west-1", initialPosition="earliest").load()

In SQL: `STREAM read_kinesis(streamName => 'clicks', region => 'eu-west-1')`, with the same options. Options and defaults are
those of Databricks. The columns are:

    {columns}

- Each record is read once, even after a restart. The offset contains a sequence number for each shard. After shards are
  split or merged, the parent shards are read to the end first; their children follow in later batches.
- `latest` means the time of the first start. If the first batch fails, the retry also reads what arrived in between.
- A batch reads up to `maxFetchRate` times `maxFetchDuration` from each shard, plus the rest of the last response. A
  triggered update reads the records that had arrived when it began.
- `spark.read.format("kinesis")` reads all available records; `latest` has no effect there.
- Expired records are detected only if a whole shard is gone (`KINESIS.SHARD_GONE`). Within a shard, the service
  continues with the oldest record and reports nothing.
- Records that the Kinesis Producer Library has aggregated are not split. `data` then contains the `KPL Aggregated
  Record Format`. Decode it with your own function.
- If the service throttles a request, the request is retried, then the flow (`KINESIS.BUSY`). All readers of a shard share
  its five requests and 2 MB per second.
- If you delete a stream and create another one with the same name, its checkpoint is no longer valid.
- Without keys, the credentials of the environment are used. They need `ListShards`, `GetShardIterator` and `GetRecords`.
- Tested with moto's server, with its resharding corrected according to the API reference. Not tested with the service
  itself.
"""

_DELTA = """
## Delta tables

`spark.readStream.table("name")` reads a table of the pipeline. `spark.readStream.format("delta").load(path)` reads any other
Delta table. These options of Delta work, and are tested in pipelines:

| option | what it does |
| --- | --- |
| `startingVersion`, `startingTimestamp` | Where a new stream starts. Default: with all rows of the table |
| `maxFilesPerTrigger`, `maxBytesPerTrigger` | Size limit of a batch |
| `ignoreDeletes` | Skip commits that delete whole partitions |
| `skipChangeCommits` | Skip commits that delete or change rows, including the rows that they add |
| `ignoreChanges` | Read rewritten files again. Unchanged rows in them are duplicated |
| `readChangeFeed` | Return each change as a row, with `_change_type`, `_commit_version` and `_commit_timestamp` |
| `schemaTrackingLocation` | Follow renamed and dropped columns. Give each flow its own folder, and delete it when you do a full refresh |

`excludeRegex`, `failOnDataLoss`, `ignoreFileDeletion`, `streamingSourceTrackingId` and the three `allowSourceColumn...`
options are passed to Delta unchanged. So are `versionAsOf`, `timestampAsOf`, `endingVersion` and `endingTimestamp` of
batch reads, and options that begin with `fs.`, `delta.` or `spark.`. Delta ignores unknown options, so Headrace refuses
them, and suggests the nearest name. Databricks' `withEventTimeOrder` is refused too.

A stream reads appended rows. If rows of its source are deleted, updated, merged or overwritten, the flow fails with
`FLOW.INPUT_CHANGED`. The error names the table, version and operation, and lists what you can do. If columns were renamed
or dropped, the error is `FLOW.INPUT_SCHEMA_CHANGED`. Added columns appear with the next update.
"""

_SPARK = """
## Spark's own sources

`rate`, `rate-micro-batch`, plain files and `socket` work as in Spark.

- From `rate`, a triggered update reads the rows since the first start of the stream. From `rate-micro-batch`, it reads one
  batch.
- `socket` is for experiments in a continuous update. It stores nothing, so data is lost if a batch fails and while no
  update runs. A triggered update ends before it has read a line. A second update may wait for lines forever. To avoid
  this, reset the flow's progress: `headrace run --continuous --reset-checkpoint FLOW`. Every update warns about this
  (`FLOW.FORGETFUL_SOURCE`).
"""


def sources_reference() -> str:
    """The expected text of docs/reference/sources.md."""
    fields = kinesis_options.COLUMNS["fields"]
    columns = ", ".join(f"{field['name']} {field['type'].upper()}" for field in fields)
    return "\n".join(
        (
            _INTRODUCTION,
            _SYNTHETIC.strip("\n").format(columns=synthetic.COLUMNS) + "\n",
            options_of(synthetic.FORMAT),
            _JDBC.strip("\n") + "\n",
            options_of(jdbc_incremental.FORMAT),
            _KINESIS.strip("\n").format(columns=columns) + "\n",
            options_of(kinesis_options.FORMAT),
            _DELTA.strip("\n") + "\n",
            _SPARK.strip("\n") + "\n",
        )
    )

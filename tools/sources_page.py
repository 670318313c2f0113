"""The reference page of the sources of this package, made from their tables of options."""

from __future__ import annotations

from headrace.sources import jdbc_incremental, kinesis_options, synthetic
from option_tables import options_of

_INTRODUCTION = """\
# Sources

What a query reads with `spark.readStream.format(...)`, in the files of a pipeline and in scripts with a session of
`headrace.spark_session()`. Files have [a page of their own](auto-loader.md).

| format | reads | needs |
| --- | --- | --- |
| `synthetic` | events that are made on the spot | |
| `jdbc_incremental` | new rows of a database | `pip install 'headrace[database]'`, and the database's driver, such as `pg8000` |
| `kinesis` | Amazon Kinesis | `pip install 'headrace[aws]'` |
| `kafka`, `read_kafka` | [Kafka](kafka.md) | `connectors: [kafka]` in the settings |
| `eventhubs` | [Event Hubs](event-hubs.md) | the same |
| `delta`, or `spark.readStream.table` | Delta tables | |
| `rate`, `rate-micro-batch`, `json`, `csv`, `parquet`, `orc`, `text`, `xml`, `socket` | as in Spark | |

Names of options are matched whatever their case. An option that is not listed is an error that names the nearest one.
What is secret is in no offset, plan, event or error; [profiles and secrets](../how-to/profiles-and-secrets.md) says how
it comes into a pipeline.

## When a source is away

A database that is down when an update begins, a table or folder that is gone, a store that does not answer, a folder
without a file to infer a schema from: the flow that reads it fails with that, what reads from its table is skipped, and
all others run. `headrace plan` says so before; `headrace validate`, which has to look at everything, takes it for a
problem. Another flow into the same table goes on where the table is there, and is skipped where it would have to be made
or cleared without the columns and rows of the one that fails. Once the source is back, the next update goes on where the
last one stopped.

A persisted view whose source is away fails too, or is skipped; its stored definition stays as it is. No table is cleared
while a source of it is away, or of a stream that has read it: a full refresh that asks for that says what is away, and
clears nothing else either. `headrace preview` computes no dataset without the rows of a flow whose source is away.

What a flow meets while it runs is tried again first, if it may pass. So is a database that is away at the start where the
columns are given (`.schema(...)`); otherwise nobody knows them, and its flow fails at once, in a continuous update until
that is started anew.
"""

_SYNTHETIC = """
## Synthetic events

    spark.readStream.format("synthetic").options(rowsPerSecond=100, skew=1.1, lateShare=0.05).load()

Columns, unless a schema is given: `{columns}`. Row n follows from the options and n alone: the same rows come whatever
the batches are, and a batch that is made again is the same. Another column has no influence on the others.

- `event_id`, `event_time`, `key` and `event_type` mean what they say where they have their types; any other column of a
  schema is random values of its type. Every type but VARIANT and intervals has some.
- `event_time` is `startTime` and `eventInterval` for each row; it is not the clock's.
- A duplicate is an exact copy of one of the 1,000 rows before it, which may be a duplicate itself.
- A triggered update takes what is there. With `numRows` that is everything, at once and whatever the rate, in batches of
  `rowsPerBatch`; the rate is for updates that go on. Without an end it is what the rate has given since the stream's
  first start, at which the rows of one second are there: after a night, those of a night. With `rowsPerBatch` alone it is
  one batch.
- `spark.read.format("synthetic")` reads all of `numRows` at once.
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

A batch is the rows whose `cursorColumn` lies behind the last position and up to a new one; both are in the offset, so
that a batch that is made again has the same rows, and a restart loses and repeats none, **as long as rows up to a
position that was read are not changed, and none are added there.** Three things follow:

- Rows of equal `cursorColumn` are told apart by `tieBreakColumn`, which has to grow among them too. Without one, a batch
  takes all rows of its last value, and rows of that value that come later are not read.
- A transaction gives a row its number or time before it commits. If one with a smaller value commits later than one that
  was read, its rows are not read. `settleDelay` reads up to the position that was newest so long ago: choose it longer
  than the longest transaction that writes. A triggered update waits for as long.
- There is no option to look back over rows that were read, because which of them were would have to be kept for each.
  Where no delay is long enough, read the whole window each time instead: a materialized view over
  `spark.read.format("jdbc_incremental")` has what is there, late rows too.
- Deleted rows are not noticed; a changed row is read again if the change moves it on along `cursorColumn`. Rows whose
  `cursorColumn` or tie-break is NULL are not read.

PostgreSQL and SQLite were run. In a URL for `pg8000`, `sslmode` and `sslrootcert` mean what they mean to PostgreSQL; other
parameters are those of the driver. URLs of `jdbc:mysql` and `jdbc:mariadb` are translated, and any other database can be
given as a URL of SQLAlchemy with its driver installed; they were not run. `spark.read.format("jdbc_incremental")` reads
everything that is there from `startingPosition` on.

Columns are those of the database, or those of `.schema(...)`, which chooses some and gives them other types. The order of
rows stays the database's own, also when `cursorColumn` is read as something else or not at all. Its values have to be
finite: `infinity` and `NaN` end the flow. Types
follow Spark's own source: `numeric` without sizes is `DECIMAL(38,18)`; times without a zone are taken in the session's,
unless `preferTimestampNTZ` is on; arrays are arrays; JSON, UUID, times of day, intervals and what else Spark lacks is
text as the database writes it. A value that does not fit ends the flow and names its column. The types of a `query` are
known with PostgreSQL; other databases need `.schema(...)`.
"""

_KINESIS = """
## Kinesis

    spark.readStream.format("kinesis").options(streamName="clicks", region="eu-west-1", initialPosition="earliest").load()

In SQL it is `STREAM read_kinesis(streamName => 'clicks', region => 'eu-west-1')`, with the same options.

Options and defaults are the vendor's. Columns: `{columns}`.

- An offset is a sequence number in each shard: each record once, over restarts too. Shards that were split or merged are
  read to their end before those that they became, in batches before theirs.
- `latest` is the time of the first start, so that what arrives while a first batch fails is read by the next try.
- A batch takes `maxFetchRate` times `maxFetchDuration` of each shard, and then what the last request gave. A triggered
  update reads what had arrived when it began.
- `spark.read.format("kinesis")` reads everything that is there; `latest` has no meaning for it.
- Records that the service no longer keeps are noticed when a whole shard is gone (`KINESIS.SHARD_GONE`); within a shard
  the service goes on at the oldest record without saying so.
- Records that the Kinesis Producer Library has put together are not taken apart: `data` is then what its protocol
  (`KPL Aggregated Record Format`) says, to be read in a function of one's own.
- A service that is busy is asked again within a request, then by the flow's retries (`KINESIS.BUSY`). All readers of a
  shard share its five requests and 2 MB a second.
- A table's checkpoint does not fit a stream that was deleted and made anew under the same name.
- Without keys, the environment's own credentials are used. They need `ListShards`, `GetShardIterator` and `GetRecords`.
- Tested against moto's server, with its resharding corrected to what the service's API reference says; not against the
  service itself.
"""

_DELTA = """
## Delta tables

`spark.readStream.table("name")` reads a table of the pipeline, `spark.readStream.format("delta").load(path)` another
one. These options of Delta work, and are tested in pipelines:

| option | what it does |
| --- | --- |
| `startingVersion`, `startingTimestamp` | where a new stream begins; without them, with all rows that the table holds |
| `maxFilesPerTrigger`, `maxBytesPerTrigger` | how much a batch takes |
| `ignoreDeletes` | commits that remove whole partitions are passed over |
| `skipChangeCommits` | commits that remove or change rows are passed over, and what they add too |
| `ignoreChanges` | files that were written anew are read again: unchanged rows of theirs come twice |
| `readChangeFeed` | each change is a row, with `_change_type`, `_commit_version` and `_commit_timestamp` |
| `schemaTrackingLocation` | the stream follows renamed and dropped columns; a folder for this flow alone, to be deleted with a full refresh |

`excludeRegex`, `failOnDataLoss`, `ignoreFileDeletion`, `streamingSourceTrackingId`, the three `allowSourceColumn...`, and of
batches `versionAsOf`, `timestampAsOf`, `endingVersion` and `endingTimestamp`, go to Delta as they are, as does what begins
with `fs.`, `delta.` or `spark.`. Another option of `format("delta")` is refused with the nearest name, because Delta would
pass over it, and so is the vendor's `withEventTimeOrder`.

A stream takes rows that are added. When rows of its source are deleted, updated, merged or overwritten, the flow fails
with `FLOW.INPUT_CHANGED`, which names table, version and operation and lists the ways on. When columns were renamed or
dropped it is `FLOW.INPUT_SCHEMA_CHANGED`. Columns that are added come with the next update.
"""

_SPARK = """
## Spark's own

`rate`, `rate-micro-batch`, plain files and `socket` work as Spark documents them.

- A triggered update takes from `rate` what its clock has made since the stream's first start, and from
  `rate-micro-batch` one batch.
- `socket` is for trying things out, in a continuous update: it keeps nothing, so that what it sends is lost when a batch
  fails and while no update runs. A triggered update connects, and ends before it has read a line. An update after another
  one may wait for lines without end, unless it drops the flow's progress: `headrace run --continuous --reset-checkpoint
  FLOW`. Every update says so (`FLOW.FORGETFUL_SOURCE`).
"""


def sources_reference() -> str:
    """docs/reference/sources.md as it must be."""
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

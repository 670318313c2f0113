"""The reference page of Auto Loader, made from the table of options."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.autoloader.option_table import FORMATS, OPTIONS, Option
from headrace.settings.keys import Treatment

_INTRODUCTION = """\
# Auto Loader

Files of a folder as a stream, each exactly once, with a schema that is inferred and grows:

    @dp.table
    def bronze():
        return (
            spark.readStream.format("cloudFiles")
            .option("cloudFiles.format", "json")
            .load("/data/landing")
        )

In SQL: `SELECT * FROM STREAM read_files('/data/landing', format => 'json')`, which infers types unless it is told
otherwise, or the older `cloud_files('/data/landing', 'json', map(...))`; without `STREAM` it reads what is there, once.

It works in the files of a pipeline, where the schema's versions and the ledger of the files seen lie beside the flow's
checkpoints, and in scripts with a session of `headrace.spark_session()`, where `cloudFiles.schemaLocation` says where;
without it, the ledgers of a script are below `~/.local/state/headrace`, or below `$XDG_STATE_HOME/headrace`.
Names and defaults are the vendor's. Formats: {formats}.

## Which files

- A path may have wildcards and alternatives (`/data/{{a,b}}/*.json`); what it means is read at every depth. Files and
  folders whose names begin with `.` or `_` are left out, `_x=1` is not.
- A file is known by its path: it is read once, and an old time of change does not hide one that came late. With
  `cloudFiles.allowOverwrites` one with another size or time is another file, and is read again, whole.
- A file is taken once it is stable: its size and time have been the same for a second, and no process of this machine has
  it open for writing (one that was not changed for ten minutes is taken all the same). A triggered update waits for it,
  half a minute at most; then it is for the next one. An empty file has not been written yet.
- A batch reads the file that was found. One that has another size or time once it was read, because it grew or was
  replaced meanwhile, ends the batch with `AUTO_LOADER.FILE_CHANGED`, and nothing of it is written; the next try takes the
  file as it is then. Whether writers on other machines are done, or on a file system of a server (NFS, SMB), cannot be
  seen: those that pause for longer than a second should write under a name with `_` in front, and rename.
- A file that changes after it was read is not read again, unless `cloudFiles.allowOverwrites` says so, and the update warns
  of it (`AUTO_LOADER.FILES_CHANGED_LATER`): files of this machine are compared for an hour after they were found, and once
  a day.
- A look costs what changed: a folder whose own time is what it was is not listed again. Everything is listed once a day
  all the same (`cloudFiles.backfillInterval`), for file systems that keep no such times.
- A triggered update reads exactly what was there when it began.
- Links are followed, and a folder that several paths lead to is read under one of them: where it was read before, else
  where it is itself, else where its name comes first. Named pipes, sockets and devices are no files.
- A folder that cannot be listed, or whose files cannot be looked at, ends the flow with `AUTO_LOADER.UNREADABLE`, which
  names it. What the disk or the mount does not tell is not taken for gone.

## Where files lie

| path | how new files are found | tried |
|---|---|---|
| `/data`, `file:/data` | by the times of folders; with `cloudFiles.useNotifications` the kernel tells (inotify), and all folders are asked once a minute | every test |
| `s3://bucket/in`, `s3a://`, `s3n://` | by a listing, once a batch and every five seconds at most; with `cloudFiles.useNotifications` and `cloudFiles.queueUrl` by a queue of SQS, and a listing every `cloudFiles.backfillInterval` | against moto's server |
| `gs://`, `abfs://`, `abfss://`, `hdfs://` | by a listing | not tried: pyarrow reads them in the same way |

- Credentials, the region and an address of S3 that is not Amazon's come from the environment (`AWS_PROFILE`,
  `AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` and so on), on the workers too; they are no options of a stream.
- The queue is yours: let the bucket notify it of `s3:ObjectCreated:*`, itself, through SNS or through EventBridge. A
  message is deleted once the ledger has its object; one that is no notification stays, for the queue's own rule about
  such. Queues need `pip install "headrace[aws]"`.
  Two streams need two queues: each takes away what it does not read. A key with nothing between two slashes is not read.
- An empty object has not been written yet. On `hdfs://` and Azure's stores, whose files grow, one is read when it was
  not changed for a second: have writers that take longer write under a name with `_` in front, and rename.
- Schemas and ledgers lie on a local disk, whatever is read.
- A path that is called otherwise elsewhere is mapped by the setting `paths`, or in a script by the conf `headrace.paths`
  as JSON: `paths: {{"dbfs:/": /data/dbfs, "/mnt/raw": "s3://raw"}}`. It holds for `load`, `read_files`,
  `cloudFiles.schemaLocation`, `cloudFiles.cleanSource.moveDestination` and `badRecordsPath`.
- Of S3, moving and deleting with `cloudFiles.cleanSource` may leave an empty object that stands for the folder.

## What is remembered

The ledger is a file of SQLite. Its id is in the stream's offset: a checkpoint that is deleted begins with a ledger of its
own. Before a stream reads, the two are compared. Where they do not belong together, the flow fails by name, and the
others run:

| ledger | error |
|---|---|
| missing | `AUTO_LOADER.LEDGER_MISSING` |
| empty, cut off, damaged, or another kind of file | `AUTO_LOADER.LEDGER_DAMAGED` |
| a copy of another stream's ledger | `AUTO_LOADER.LEDGER_OF_ANOTHER` |
| older than the checkpoint | `AUTO_LOADER.LEDGER_OLDER` |
| newer than the checkpoint: more is in the target than the checkpoint has planned | `AUTO_LOADER.LEDGER_NEWER` |
| held by another process, or on a full disk | `AUTO_LOADER.LEDGER_FAILS`, and the flow is tried again |

Put back the ledger that belongs to the checkpoint, or begin with a new one: `headrace run --reset-checkpoint FLOW=latest`
passes over the files that are there, `FLOW=timestamp:T` over those that were changed before T, `FLOW=earliest` reads them
all. The table keeps its rows.

A project that is moved or copied with its storage and its landing folder goes on where it was: the ledger's files get
their new paths. Where the path in the code leads to another folder, its files are new ones; if they are plainly those that
were read, by name, size and time, the flow fails with `AUTO_LOADER.SOURCE_MOVED`.

To copy a ledger, copy its `.ledger` file between two updates: at the end of each batch it has everything, and a file with
`-wal` beside it is not needed. A copy that is made while a batch is planned may be older than the checkpoint, which is
then said.

`headrace files NAME` shows each file that was seen for a table and what became of it, and then how many are not read yet.
How many files and bytes a flow has found and not read is in the event log, as `backlog_files` and `backlog_bytes` of
`flow_progress` with `source_metrics` for each path, when it changes, every 10 seconds at most; `headrace status` says the
newest of that, and `--output json` has it under `backlog`. Only what was found counts: a triggered update finds what is
there at its start.

## Which columns

- Without a schema it is inferred from the newest files (1,000 of them and 1 GiB at most) and kept in
  `_schemas/0` below the schema location; the vendor's own versions there are read too. JSON, CSV and XML columns are texts
  unless `cloudFiles.inferColumnTypes` is on; Avro and Parquet bring their types, and of several the widest counts. ORC is
  not inferred, as with the vendor: give the schema, or the columns as hints.
- `cloudFiles.schemaHints` gives types for columns and for places inside of them: `user.born DATE, tags.element INT`,
  `prices.value DECIMAL(10,2)`. Hints that come later make a new version.
- Folders named `key=value` give columns.
- `_metadata` is there when the function, or the script, that reads names it, and is no column of `*`; in SQL it is one
  where the query names it. `input_file_name()`, `input_file_block_start()` and `input_file_block_length()` say what its
  fields say, in the function that reads the files and in SQL with `read_files`; elsewhere, and in SQL whose `*` would
  have a column more that counts (`SELECT DISTINCT *`, `UNION`), they are refused: there, select `_metadata.file_path`
  under a name. In a script, what `expr` is given as text is refused when the stream is started; in the function of a
  `foreachBatch`, and in a batch of a script, such a text says nothing: select the field before.

`cloudFiles.schemaEvolutionMode` says what a field does that the schema lacks:

| mode | new field | value of another type |
|---|---|---|
| `addNewColumns`, the default where a schema is inferred | a new version of the schema has it, behind the others; the flow goes on with it in the same update, and reads the same files | NULL, and rescued |
| `addNewColumnsWithTypeWidening` | the same | where a wider type holds both, as Delta's type widening has it, a new version of the schema has that; else NULL, and rescued |
| `rescue` | rescued | NULL, and rescued |
| `failOnNewColumns` | the flow fails until hints name it, or the file is gone | NULL, and rescued |
| `none`, the default where a schema is given | left out; rescued where `rescuedDataColumn` is set | NULL; rescued where it is set |

In a script a new field ends the query once, with `UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH`, after the
new version was stored: whoever starts it again gets the new schema and the same files. What no schema can grow by is
rescued: an empty object, a field of a column whose whole type is hinted, one that is in some records no object, a column
of Parquet that Spark has no type for. A full refresh of the flow's table has the schema inferred anew, as a version of its own; where nothing can be inferred, where
`cloudFiles.schemaLocation` was given, and where a view is what reads the files, the newest version stays.

## Names of fields

A field may have nearly any name. A table whose columns have a space, or one of `,;{{}}()=`, a tab or a line end in their names needs
Delta's column mapping: a new table gets it, and one that is there gets `delta.columnMapping.mode = name` when the first such
field comes, without a row being written again. [storage.md](storage.md) says which readers do not know it. A table with
`delta.columnMapping.mode: none` among its properties stays as it is, and such fields are rescued.

Rescued are also fields whose names are nothing, have NUL in them, at which other readers end a name, or are not UTF-8, and of
names in one object that differ in case alone all but the first. Of a name that is repeated in an object the last value counts, and the
others are rescued. What nests deeper than 31 objects in one another is text in JSON and XML, and rescued in Avro and
Parquet: other readers of Delta do not open tables that are deeper than 41.

## What does not fit

`_rescued_data` holds, as JSON, what a row has and the schema has no place for: unknown fields, values of another type,
names of another case; and the file's path as `_file_path`. Numbers stand there as they were written. A record that cannot
be read at all is there too, under `_corrupt_record`, unless the schema has a column of that name. Of an array or a map of
JSON in which a value does not fit, the others stay, with NULL in its place, and an array is rescued whole; Spark's own
reader makes it NULL. A rule sets such rows aside: `@dp.expect_or_quarantine("clean", "_rescued_data IS NULL")`. A field of
the files that is itself called `_rescued_data` is rescued; one called `_metadata` goes before the column of that name.
What `key=value` folders say is rescued for each row of the file where it fits no column: a value that is none of its
column's type, a key that the columns lack, the outer ones of a key that is repeated.

A line of JSON may hold several records, one behind the other or in arrays, with or without commas between them: each is a
row. What follows them and is none is a record that cannot be read. With `multiLine` the same holds for a file.

A record of CSV whose value in quotes goes on over line ends is read whole with `multiLine`. Without it each of its lines is
a row, as in Spark, and is marked as one that could not be read (`_corrupt_record`).

A record that is longer than `headrace.maxRecordBytes` (64 MB) is not read. Its row has `_record_too_long`: where it begins
in the unpacked file, how many bytes it has, and the first of them. Where no column has what is rescued, the batch ends with
an error that names the file. A file that unpacks into more than `headrace.maxExpansion` (1000) times its bytes, once that is
more than `headrace.maxRecordBytes`, counts as corrupt. So does a file of Avro with a block that is larger than
`headrace.maxRecordBytes`, or that claims another number of records than it holds.

`mode` is for records that cannot be read: `PERMISSIVE` keeps them so, `DROPMALFORMED` leaves them out, `FAILFAST` ends the
batch. Where there is no column for what is rescued, a value that does not fit makes its record one that cannot be read.
With `badRecordsPath` such records are no rows: they are lines of JSON with `path`, `record` and `reason` in
`<badRecordsPath>/<time>/bad_records`, where the time is that of the reader's start; a file that is gone, or cannot be read at
all, is noted in `bad_files` beside it, and left out.

With `badRecordsPath` or `ignoreCorruptFiles` a file is left out for what is in it: it cannot be decompressed, or is no file
of its format, or ends too early. A store that does not answer, or does not give the file, says nothing of that: the batch
fails, and the same files are read when it is run again.

Each of this, case by case, is in [auto-loader-cases.md](auto-loader-cases.md).

## Formats

- **Avro.** Types as Spark has them: a union of several is a struct of `member0`, `member1`; `date`, `decimal`,
  `timestamp-millis`, `timestamp-micros` and the local ones are read as such, other logical types as what they are stored
  as. Codecs: null, deflate, snappy, zstandard, bzip2, xz. A record that holds itself is refused. `avroSchema` says what the
  columns are; aliases of its fields, their defaults but null, and defaults of its enums are refused, and so is a reader's
  schema beside it. Fields that come into it later make a new version of the schema; a type that it changes, and a field
  that it no longer has, stay as they were stored.
- **ORC.** Columns by their names. A `timestamp` of ORC, which has no zone, is in the reader's `timeZone` where the column is
  TIMESTAMP, and as it is where it is TIMESTAMP_NTZ. A time before 1677-09-21 or after 2262-04-11 ends
  the batch with `AUTO_LOADER.FILE_COLUMN`; columns that are not read are not looked at.
- **XML.** `rowTag` names the elements that are rows; what is around them does not matter, and a row that is broken does not
  hide the next one. Attributes get `_` in front, repeated elements are arrays, text beside attributes or elements is
  `_VALUE`. Elements nest 200 deep at most. Entities are the five of XML and numbers; none of a document type is read, so that
  no file is opened and nothing multiplies. Where elements are repeated and the schema has one value, the last one counts
  and the others are rescued.
- **Patterns.** `dateFormat`, `timestampFormat` and `timestampNTZFormat` are Spark's patterns with the letters `y u M L d D H
  h K k m s S a X x Z VV`, text in quotes and optional parts in brackets; other letters are refused by name. A column that is
  read by a pattern is read row by row, which is slower.

## Options
"""


def auto_loader_reference() -> str:
    """docs/reference/auto-loader.md as it must be."""
    options = list(OPTIONS.values())
    used = (o for o in options if o.treatment is Treatment.USED)
    inert = (o for o in options if o.treatment is Treatment.ACCEPTED)
    refused = (o for o in options if o.treatment is Treatment.REFUSED)
    return "\n".join(
        (
            _INTRODUCTION.format(formats=", ".join(FORMATS)),
            _table(("option", "value", "default", "what it is"), map(_used_row, used)),
            "\n### Accepted without effect\n",
            _table(("option", "why"), ((f"`{o.name}`", _sentence(o.about)) for o in inert)),
            "\n### Refused\n",
            _table(
                ("option", "why", "instead"),
                ((f"`{o.name}`", _sentence(o.about), _sentence(o.instead)) for o in refused),
            ),
            "",
        )
    )


def _used_row(option: Option) -> tuple[str, ...]:
    kind = ", ".join(f"`{value}`" for value in option.values) or option.kind.value
    formats = f" ({', '.join(option.formats)})" if option.formats else ""
    return f"`{option.name}`{formats}", kind, option.default.replace("|", "\\|"), option.about


def _sentence(text: str) -> str:
    return f"{text}."


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

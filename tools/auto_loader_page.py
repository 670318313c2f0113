"""The reference page of Auto Loader, made from the table of options."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.autoloader.option_table import FORMATS, OPTIONS
from headrace.options.option import Option, Treatment

_INTRODUCTION = """\
# Auto Loader

Reads the files of a folder as a stream. Each file is read exactly once. The schema is inferred, and evolves when new fields
appear:

    @dp.table
    def bronze():
        return (
            spark.readStream.format("cloudFiles")
            .option("cloudFiles.format", "json")
            .load("/data/landing")
        )

In SQL:

    CREATE STREAMING TABLE bronze AS
    SELECT * FROM STREAM read_files('/data/landing', format => 'json')

`read_files` infers types by default. The older `cloud_files('/data/landing', 'json', map(...))` works too. Without `STREAM`,
both read the files that exist, once.

Option names and defaults are the vendor's. Formats: {formats}.

Auto Loader works in two places:

| where | schema versions and ledger |
|---|---|
| pipeline files | next to the flow's checkpoints |
| scripts with a session of `headrace.spark_session()` | in `cloudFiles.schemaLocation`. Without it, the ledger is in `$XDG_STATE_HOME/headrace`, by default `~/.local/state/headrace` |

## Which files are read

- A path can have wildcards and alternatives (`/data/{{a,b}}/*.json`). Files are read from all subfolders. Files and folders
  whose names begin with `.` or `_` are ignored, but `_x=1` is not.
- A file is identified by its path and read once. A file that arrives late is read too, even if its modification time is old.
  With `cloudFiles.allowOverwrites`, a file whose size or time changes is read again as a whole.
- A file is read once it is stable: its size and time have not changed for a second, and no process of this machine has it
  open for writing. A file that has not changed for ten minutes is read even if it is open. A triggered update waits up to 30
  seconds for such files, and leaves the rest to the next update. An empty file counts as not yet written for 24 hours.
- If the size or time of a file changes after it was found, and until it is read to the end, the batch fails with
  `AUTO_LOADER.FILE_CHANGED` and writes nothing. The retry reads the file as it is then.
- Headrace cannot see whether a writer on another machine, or on a network file system (NFS, SMB), has finished. A writer
  that may pause for longer than a second must write under a name that begins with `_`, and then rename the file.
- A file that changes after it was read is not read again, unless you set `cloudFiles.allowOverwrites`. The update warns
  about it (`AUTO_LOADER.FILES_CHANGED_LATER`). Files on this machine are compared for an hour after they were found, and
  once a day.
- Polling cost is proportional to the number of changed folders: a folder whose own time has not changed is not listed again.
  Because some file systems do not keep these times, everything is listed once a day (`cloudFiles.backfillInterval`).
- A triggered update reads exactly the files that exist when it begins.
- Links are followed. If several paths lead to a folder, it is read under one of them: the path under which it was read
  before, otherwise its real path if that is in the source, otherwise the first path in alphabetical order. Named pipes,
  sockets and devices are ignored.
- If a folder cannot be listed, or its files cannot be examined, the flow fails with `AUTO_LOADER.UNREADABLE`, which names
  the folder. Files that the disk or mount cannot show are never treated as deleted.

## Storage

| path | how new files are found | tested |
|---|---|---|
| `/data`, `file:/data` | by the modification times of folders. With `cloudFiles.useNotifications`, by kernel notifications (inotify), and by a check of all folders once a minute | in every test |
| `s3://bucket/in`, `s3a://`, `s3n://` | by listing, once per batch and at most every five seconds. With `cloudFiles.useNotifications` and `cloudFiles.queueUrl`, from an SQS queue, and by listing every `cloudFiles.backfillInterval` | against moto's server |
| `abfss://` (`abfs://`), `gs://` | by listing | against Azurite and fake-gcs-server; [how they are reached](../how-to/storage-elsewhere.md) |
| `hdfs://` | by listing | against a NameNode and a DataNode; needs `pip install 'headrace[hdfs]'` |

- Credentials, the region and the endpoint of other S3 services come from the environment (`AWS_PROFILE`,
  `AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` and so on), on the workers too. They are not stream options.
- You create the queue. Configure the bucket to send `s3:ObjectCreated:*` to it, directly, through SNS or through
  EventBridge. A message is deleted after its object is in the ledger. A message that is not a notification stays, and
  the queue's own policy applies to it. Queues need `pip install "headrace[aws]"`.
- Two streams need two queues, because a stream also deletes the notifications of objects that it does not read. Keys with
  two slashes in a row are not read.
- An empty object counts as not yet written. On `hdfs://` and Azure, where files grow, a file is read when it has not changed
  for a second. A writer that may pause for longer must write under a name that begins with `_`, and then rename the file.
- Schemas and ledgers are always on a local disk.
- If a path has another name here, map it with the setting `paths`, or in a script with the conf `headrace.paths` as JSON:
  `paths: {{"dbfs:/": /data/dbfs, "/mnt/raw": "s3://raw"}}`. The mapping applies to `load`, `read_files`,
  `cloudFiles.schemaLocation`, `cloudFiles.cleanSource.moveDestination` and `badRecordsPath`.
- Moving and deleting files on S3 with `cloudFiles.cleanSource` can leave an empty object in place of a folder.

## The ledger

The ledger is an SQLite file that lists the files already seen. The stream's offset contains the ledger's ID. So if you
delete a checkpoint, the stream starts a new ledger. Before a stream reads, Headrace compares the ledger with the
checkpoint. If they do not belong together, the flow fails with one of these errors, and other flows run:

| ledger | error |
|---|---|
| missing | `AUTO_LOADER.LEDGER_MISSING` |
| empty, truncated, damaged, or another kind of file | `AUTO_LOADER.LEDGER_DAMAGED` |
| a copy of another stream's ledger | `AUTO_LOADER.LEDGER_OF_ANOTHER` |
| older than the checkpoint | `AUTO_LOADER.LEDGER_OLDER` |
| newer than the checkpoint: the target has more than the checkpoint has planned | `AUTO_LOADER.LEDGER_NEWER` |
| locked by another process, or on a full disk | `AUTO_LOADER.LEDGER_FAILS`, and the flow is retried |

Put back the ledger that belongs to the checkpoint, or start a new one with `headrace run --reset-checkpoint FLOW=POSITION`.
The table keeps its rows.

| position | which existing files are read |
|---|---|
| `latest` | none |
| `timestamp:T` | those that changed at T or later |
| `earliest` | all |

You can move or copy a project together with its storage and its landing folder. The ledger then updates the paths of
its files. If the path in the code leads to another folder, its files are new. But if their names, sizes and times match
files that were already read, the flow fails with `AUTO_LOADER.SOURCE_MOVED`.

To copy a ledger, copy its `.ledger` file between two updates. At the end of each batch it is complete, and you do not need
the `-wal` file next to it. A copy made while a batch is being planned may be older than the checkpoint
(`AUTO_LOADER.LEDGER_OLDER`).

`headrace files NAME` shows each file that was seen for a table and its state, and how many files are not read yet.

The backlog is what a flow has found and not yet read. The latest numbers are in `headrace status`, and with `--output json`
under `backlog`. The event log has them as `backlog_files` and `backlog_bytes` of `flow_progress`, with `source_metrics` for
each path. They are written when they change, at most every 10 seconds. Only files that were found count, and a triggered
update finds files only when it starts.

## Columns

- Without a schema, the columns are inferred from the newest files (at most 1,000 files and 1 GiB). They are stored in
  `_schemas/0` under the schema location. Versions that the vendor stored there are read too.
- JSON, CSV and XML columns are strings unless `cloudFiles.inferColumnTypes` is on. Avro and Parquet files contain their
  types. If files have several types for a column, the widest one is used. ORC schemas are not inferred, as with the
  vendor: give the schema, or list the columns as hints.
- `cloudFiles.schemaHints` sets types for columns and for nested fields: `user.born DATE, tags.element INT`,
  `prices.value DECIMAL(10,2)`. Hints that you add later create a new schema version.
- Folders named `key=value` become columns.
- `_metadata` is available if the function or script that reads the files names it. It is not part of `*`. In SQL, it is part
  of `*` if the query names it.
- `input_file_name()`, `input_file_block_start()` and `input_file_block_length()` return fields of `_metadata`, in the
  function that reads the files, and in SQL with `read_files`. They are refused elsewhere, and in SQL where the extra column
  of `*` would change the result (`SELECT DISTINCT *`, `UNION`). Select `_metadata.file_path` under a name there.
- In a script, such a function inside a string of `expr` is refused when the stream starts. In a `foreachBatch`
  function, and in a batch query, it returns an empty value. Select the field in an earlier step.

`cloudFiles.schemaEvolutionMode` sets what happens to a field that the schema does not have:

| mode | new field | value of another type |
|---|---|---|
| `addNewColumns`, the default if the schema is inferred | A new schema version has it, as the last column. The flow continues with that version in the same update, and reads the same files again | NULL, and rescued |
| `addNewColumnsWithTypeWidening` | the same | If a wider type can hold both (Delta's type widening), a new schema version has that type. Otherwise NULL, and rescued |
| `rescue` | rescued | NULL, and rescued |
| `failOnNewColumns` | The flow fails until hints name the field, or the file is removed | NULL, and rescued |
| `none`, the default if a schema is given | ignored. Rescued if `rescuedDataColumn` is set | NULL. Rescued if `rescuedDataColumn` is set |

In a script, a new field ends the query once, with `UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH`, after the
new schema version is stored. Start the query again to continue with the new schema and the same files.

Some fields cannot be added to a schema, and are rescued:

- an empty object
- a field of a column whose whole type comes from a hint
- a field that is an object in some records and something else in others
- a Parquet column that Spark has no type for

A full refresh of the flow's table infers the schema again, as a new version. The newest version stays if there is nothing to
infer from, if `cloudFiles.schemaLocation` is set, or if a view reads the files.

## Field names

A field can have almost any name. If a column's name contains a space, one of `,;{{}}()=`, a tab or a line break, its table
needs Delta's column mapping. A new table gets it. An existing table gets `delta.columnMapping.mode = name` when the first
such field arrives, without rewriting any rows. [storage.md](storage.md) lists the readers that do not support it. If a table
has `delta.columnMapping.mode: none` in its properties, it is not changed, and such fields are rescued.

These fields are rescued too:

- fields whose names are empty, contain NUL, which ends a name for other readers, or are not UTF-8
- fields of one object whose names differ only in case, except the first
- fields that are repeated in an object, except the last

Objects nested more than 31 levels deep become strings in JSON and XML, and are rescued in Avro and Parquet. Other Delta
readers cannot open tables deeper than 41 levels.

## Rescued data

`_rescued_data` contains, as JSON, everything in a row that the schema has no place for: unknown fields, values of another
type, names with different case. It also has the file's path, as `_file_path`. Numbers are kept as they were written. To
quarantine such rows, use `@dp.expect_or_quarantine("clean", "_rescued_data IS NULL")`.

- A record that cannot be read at all is rescued under `_corrupt_record`, unless the schema has a column with that name.
- If a value in a JSON array or map does not fit, it becomes NULL, and the other values stay. If it is in an array, the whole
  array is rescued. Spark's own reader makes the whole array or map NULL.
- If the files have a field named `_rescued_data`, it is rescued. A field named `_metadata` replaces the column of that
  name.
- Values of `key=value` folders are rescued for every row of the file in these cases: the value does not fit the
  column's type, no column has the name of the key, or the key is repeated. Of a repeated key, the outer values are
  rescued.

A line of JSON can contain several records, one after the other or in arrays, with or without commas between them. Each
one is a row. Any other text after them counts as a record that cannot be read. With `multiLine`, this applies to a
whole file.

A quoted CSV value can contain line breaks. With `multiLine`, such a record is read as a whole. Without it, each line is
a row, as in Spark, and is marked as unreadable (`_corrupt_record`).

A record longer than `headrace.maxRecordBytes` (64 MB) is not read. Its row has `_record_too_long` in the rescued data: where
the record begins in the decompressed file, how many bytes it has, and its first bytes. Without a column for rescued data,
the batch fails with an error that names the file.

These files count as corrupt:

- a file that decompresses to more than `headrace.maxExpansion` (1000) times its size, once that is more than
  `headrace.maxRecordBytes`
- an Avro file with a block larger than `headrace.maxRecordBytes`
- an Avro file whose blocks contain a different number of records than they claim

The option `mode` sets what happens to records that cannot be read. Without a column for rescued data, a record with a
value that does not fit counts as unreadable too.

| `mode` | what happens |
|---|---|
| `PERMISSIVE` | the record is kept and rescued |
| `DROPMALFORMED` | the record is dropped |
| `FAILFAST` | the batch fails |

With `badRecordsPath`, records that cannot be read do not become rows. They are JSON lines with `path`, `record` and `reason`
in `<badRecordsPath>/<time>/bad_records`, where `<time>` is when the reader started. A file that is missing, or cannot be
read at all, is listed in `bad_files` in the same folder, and skipped.

With `badRecordsPath` or `ignoreCorruptFiles`, a file is skipped if its content is bad: it cannot be decompressed, is not in
its format, or ends too early. If the store does not answer or does not return the file, the batch fails instead, and the
next run reads the same files.

[auto-loader-cases.md](auto-loader-cases.md) shows each of these as an example.

## Formats

**Avro**

- Types are those of Spark. A union of several types is a struct of `member0`, `member1`.
- `date`, `decimal`, `timestamp-millis`, `timestamp-micros` and the local ones keep their types. Other logical types are read
  as their underlying type.
- Codecs: null, deflate, snappy, zstandard, bzip2, xz.
- Recursive records are refused.
- `avroSchema` sets the columns. Aliases of its fields, defaults other than null, defaults of its enums, and an
  additional reader schema are refused. Fields that you add to it later create a new schema version. If you change a
  type or remove a field, the stored schema stays as it is.

**ORC**

- Columns are matched by name.
- An ORC `timestamp` has no time zone. It is read in the reader's `timeZone` if the column is TIMESTAMP, and unchanged
  if the column is TIMESTAMP_NTZ.
- A time before 1677-09-21 or after 2262-04-11 fails the batch with `AUTO_LOADER.FILE_COLUMN`. Columns that are not read are
  not checked.

**XML**

- `rowTag` names the elements that are rows. Everything around them is ignored. A malformed row does not hide the next one.
- Attributes get the prefix `_`. Repeated elements are arrays. Text next to attributes or elements is `_VALUE`.
- If elements are repeated and the schema has a single value, the last one is used and the others are rescued.
- Elements can nest at most 200 levels deep.
- Only the five predefined entities and character references are supported. Entities of a document type are not read, so no
  file is opened and no entity expands.

**Patterns**

- `dateFormat`, `timestampFormat` and `timestampNTZFormat` take Spark's patterns with the letters
  `y u M L d D H h K k m s S a X x Z VV`, quoted text, and optional parts in brackets. Other letters are refused by name.
- A column with a pattern that has `VV` is read row by row, which is slower.

## Options
"""


def auto_loader_reference() -> str:
    """The expected text of docs/reference/auto-loader.md."""
    options = OPTIONS.options
    used = (o for o in options if o.treatment is Treatment.USED)
    accepted = (o for o in options if o.treatment is Treatment.ACCEPTED)
    refused = (o for o in options if o.treatment is Treatment.REFUSED)
    return "\n".join(
        (
            _INTRODUCTION.format(formats=", ".join(FORMATS)),
            _table(("option", "value", "default", "what it is"), map(_used_row, used)),
            "\n### Accepted without effect\n",
            _table(("option", "why"), ((f"`{o.name}`", _sentence(o.about)) for o in accepted)),
            "\n### Refused\n",
            _table(
                ("option", "why", "instead"),
                ((f"`{o.name}`", _sentence(o.about), _sentence(o.fix)) for o in refused),
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

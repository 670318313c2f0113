"""The reference page of the ready session, made from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.settings.vendor_confs import FIXED, VENDOR_CONFS, VENDOR_PROPERTIES, Effect, VendorConf

_HEAD = """\
# The ready session

What `headrace exec` and `headrace.spark_session()` have besides what Spark and Delta have. How to use it is in
[Run scripts and notebooks as they are](../how-to/existing-scripts.md); what is patched for it, in
[What is patched, and why](patches.md).

## Names and places

- `schema.table`, `catalog.schema.table`, `spark_catalog.schema.table` and `hive_metastore.schema.table` are taken wherever
  a table is named: by readers and writers, `spark.sql`, `spark.catalog` and `DeltaTable`. The last two spellings, and that
  with the project's own catalog, mean the same table as the first; another catalog has tables of its own.
- A schema comes into being when something is written to it. A catalog is there once one of its schemas is; `USE CATALOG`,
  `SET CATALOG` and `USE SCHEMA` say what shorter names mean.
- Tables are below `tables` of the storage, and are found there in the next run, whoever made them. Views, and tables that
  are not Delta or lie elsewhere, are there until the session ends.
- In a project, tables that the pipeline writes can be read, and not be written (`SCRIPT.PIPELINES_TABLE`).
- Statements of pipelines, such as `CREATE STREAMING TABLE`, are refused (`SCRIPT.PIPELINE_STATEMENT`).

| path begins with | stands for |
| --- | --- |
| `dbfs:/`, `/dbfs/` | `dbfs/` in the storage |
| `/mnt/` | `dbfs/mnt/` in the storage |
| what `paths` of the project's settings, or `--path BEGIN=PLACE`, say | what they say; they go before the others |
| anything else | itself |

It is the same for readers, writers, checkpoints, `cloudFiles`, paths in `spark.sql`, `DeltaTable` and `dbutils.fs`.

## Streams

- `writeStream.table(name)` is `toTable(name)`; `.start()` behind it does nothing.
- A stream without `checkpointLocation` keeps its progress in `checkpoints/_scripts/<script>/<name>` of the storage; the
  name is that of `queryName`, otherwise of the table, path, topic or function that it writes to. A second stream of the
  same name that another line starts has `~2` behind it. Where one line starts several, as in a loop, those that read or do
  something else, or run at once, have `.2` and so on; in the next run each finds its own by what it reads and does, and where
  that cannot be told, it is refused (`SCRIPT.CHECKPOINT_IN_DOUBT`). A checkpoint whose stream has read or written
  something else is not taken over (`SCRIPT.CHECKPOINT_OF_ANOTHER`). `<script>` is its path from where the storage lies, so
  that scripts of one name in two folders keep apart. Sinks that show rows (console, memory) have none.
- `spark.sql.streaming.checkpointLocation` names the folder of such checkpoints: those of a query with a `queryName` are in
  `<name>` there, as Spark has them, others in `<script>/<name>`.
- A stream of files without a schema has that of the files that are there when it starts
  (`spark.sql.streaming.schemaInference`); `cloudFiles` keeps the schema that it has found.
- A stream into Delta that names neither a table nor a path writes to `unnamed/<script>/` of the storage, which is told.
- `spark.sql.streaming.maxRetries` and `retryIntervalMs`: a stream that fails with an error that may pass is started again,
  so often in a row; a function of `foreachBatch` gets the batch once more then. What a function raises passes when its class
  says that a server was away or another commit came between (`OSError`, `TimeoutError`, `ConcurrentAppendException`); a
  `KeyError` does not. To the script it is one query, for `spark.streams.awaitAnyTermination()` too.
- `system.streaming.queries` (id, run_id, name, status, exception) and `system.streaming.query_progress` (query_id, run_id,
  query_name, batch_id, timestamp, input_rows, input_rows_per_second, processed_rows_per_second, batch_duration_ms) are the
  streams that the script has started.
- `spark.streams.addListener` takes any object with some of a listener's methods.

## Settings of the vendor's

Settings that Spark or Delta know are theirs. Of the others:

"""
_FIXED = """\

Settings that Spark reads when a session starts (`spark.executor.*`, `spark.driver.*`, `spark.serializer` and so on) are taken
from the text of a script where they are literals, in a builder or in `spark.conf.set`. Where they are not, or come too late,
this is said once, and nothing is raised. These are decided already:

"""
_PROPERTIES = """\

Properties of tables that Delta refuses, because only the vendor's knows them, are taken in `spark.sql` and said once:

"""
_DBUTILS = """\

## dbutils, display

| name | what it does |
| --- | --- |
| `dbutils.secrets` | `get`, `getBytes`, `list`, `listScopes`, as [in a pipeline](../how-to/profiles-and-secrets.md) |
| `dbutils.widgets` | `text`, `dropdown`, `combobox`, `multiselect`, `get`, `getAll`, `getArgument`, `remove`, `removeAll`; values are those of `--widget NAME=VALUE` or of the variable `HEADRACE_WIDGET_<NAME>`, otherwise the defaults |
| `dbutils.fs` | `ls`, `head`, `put`, `mkdirs`, `cp`, `mv`, `rm`, on local disks; `mount` and its like are refused: `--path` says what a mount stands for |
| `dbutils.notebook` | `run` in a namespace of its own, without a time limit; `exit` |
| `dbutils.library` | `restartPython`, which has nothing to do |
| `display` | of a frame up to 1000 rows, of a stream each batch that has rows; a stream that is displayed begins anew in each run |
| `displayHTML` | the text without its marks |

Everything else of `dbutils` is refused by name (`UNSUPPORTED.DBUTILS`). In notebooks `%md`, `%sql`, `%python`, `%run` and
`%pip install` work, the last one as a comparison with what is installed; `_sqldf` is the result of the last `%sql`.

## What a Python session does not have

`groupByKey(...).mapGroupsWithState(...)` is Scala's (`SCRIPT.NOT_IN_PYTHON`). Spark itself refuses, as the vendor does,
`cache()` of a stream, continuous triggers into Delta, and
`dropDuplicatesWithinWatermark` without a watermark.
"""


def ready_reference() -> str:
    """docs/reference/ready-session.md as it must be."""
    confs = [(f"`{conf.name}`" + _value(conf), conf.effect.value, _about(conf)) for conf in VENDOR_CONFS]
    fixed = [(f"`{key}`", why) for key, why in FIXED.items()]
    properties = [(f"`{key}`", why) for key, why in VENDOR_PROPERTIES.items()]
    return "".join(
        (
            _HEAD,
            _table(("setting", "here", "how, or why not"), confs),
            _FIXED,
            _table(("setting", "why"), fixed),
            _PROPERTIES,
            _table(("property", "why it has no effect"), properties),
            _DBUTILS,
        )
    )


def _value(conf: VendorConf) -> str:
    return "" if conf.value is None else f" = `{conf.value}`"


def _about(conf: VendorConf) -> str:
    if conf.effect is Effect.NONE or not conf.becomes:
        return conf.about
    becomes = ", ".join(f"`{key}`" for key in conf.becomes)
    return f"{conf.about}: {becomes}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

"""The reference page of the notebook session, made from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.settings.vendor_confs import FIXED, VENDOR_CONFS, VENDOR_PROPERTIES, Effect, VendorConf

_HEAD = """\
# Notebook session

Scripts and notebooks written for the vendor's sessions run here without changes:

    headrace exec script.py

A program that you start yourself gets the same session from `spark_session`:

```python
from headrace import spark_session

spark = spark_session(connectors=["kafka"])
```

This page lists what the session adds to Spark and Delta. For a guide, see
[Run scripts and notebooks as they are](../how-to/existing-scripts.md). For the changes to PySpark, see
[What is patched, and why](patches.md).

## Names and places

- You can name a table `schema.table`, `catalog.schema.table`, `spark_catalog.schema.table` or
  `hive_metastore.schema.table`, in readers and writers, `spark.sql`, `spark.catalog` and `DeltaTable`. The last two, and
  names with the project's own catalog, are the same table as `schema.table`. Any other catalog has its own tables.
- A schema is created by the first write to it. A catalog exists as soon as one of its schemas does. `USE CATALOG`,
  `SET CATALOG` and `USE SCHEMA` set what shorter names mean.
- Tables are stored under `tables` in the storage. Later runs find them there, whoever created them. Views exist until the
  session ends. So do tables that are not Delta tables, or are stored elsewhere.
- In a project, scripts can read the pipeline's tables, but not write to them (`SCRIPT.PIPELINES_TABLE`).
- Pipeline statements such as `CREATE STREAMING TABLE` are refused (`SCRIPT.PIPELINE_STATEMENT`).

| path begins with | means |
| --- | --- |
| `dbfs:/`, `/dbfs/` | `dbfs/` in the storage |
| `/mnt/` | `dbfs/mnt/` in the storage |
| an entry of `paths` in the project's settings, or of `--path BEGIN=PLACE` | its replacement. These entries override the two above |
| anything else | the path itself |

This applies to readers, writers, checkpoints, `cloudFiles`, paths in `spark.sql`, `DeltaTable` and `dbutils.fs`.

## Streams

- `writeStream.table(name)` is `toTable(name)`. A `.start()` after it does nothing.
- `spark.streams.addListener` accepts any object that has some of a listener's methods.
- A stream of files without a schema uses the schema of the files that exist when it starts
  (`spark.sql.streaming.schemaInference`). `cloudFiles` keeps the schema that it has found.
- A stream into Delta with neither a table nor a path writes to `unnamed/<script>/` in the storage, and prints the path.
- `cache()` of a stream does nothing, and prints a message.

### Checkpoints

A stream without `checkpointLocation` keeps its checkpoint in `checkpoints/_scripts/<script>/<name>` of the storage, so the
next run continues from it.

| part | what it is |
| --- | --- |
| `<script>` | the script's path, relative to the folder of the storage. Scripts of the same name in two folders have separate checkpoints |
| `<name>` | the `queryName`, or else the table, path, topic or function that the stream writes to |
| `~2` after the name | another stream of the same name, started by another line |
| `.2`, `.3` ... after the name | further streams that the same line starts, for example in a loop: streams with another source or query, or streams that run at the same time |

In the next run, Headrace recognizes each of these streams by its source and query, and gives it its own checkpoint. If
this is ambiguous, the stream is refused (`SCRIPT.CHECKPOINT_IN_DOUBT`). A checkpoint that belongs to a stream with
another source or target is refused too (`SCRIPT.CHECKPOINT_OF_ANOTHER`). Sinks that show rows (console, memory) have no
checkpoint.

If you set `spark.sql.streaming.checkpointLocation`, the checkpoints are in that folder: in `<name>` for a query with a
`queryName`, as in Spark, and in `<script>/<name>` for others.

### Retries

Set `spark.sql.streaming.maxRetries` and `spark.sql.streaming.retryIntervalMs` to restart a stream after a temporary failure.
`maxRetries` limits the restarts in a row. After a restart, a `foreachBatch` function receives its batch again.

An exception in your function counts as temporary if its class says that a server was unavailable or that another commit
conflicted: `OSError`, `TimeoutError`, `ConcurrentAppendException`. A `KeyError` is not temporary. The script sees the
same query as before, also in `spark.streams.awaitAnyTermination()`.

### System tables

These list the streams that the script has started.
`system.streaming.queries` has a row for each stream, `system.streaming.query_progress` one for each of its recent
batches. Their columns are those of `headrace sql`: see [System tables](system-tables.md).

## The vendor's settings

Settings of Spark and Delta work as usual. These belong to the vendor only:

"""
_FIXED = """\

Spark reads some settings only when a session starts, such as `spark.executor.*`, `spark.driver.*` and
`spark.serializer`. If they are literals in a builder or in `spark.conf.set`, Headrace takes them from the text of the
script. Otherwise, or if they come too late, Headrace reports them once and the script continues. You cannot change
these:

"""
_PROPERTIES = """\

Delta refuses some table properties that only the vendor's Delta knows. `spark.sql` accepts them without effect and reports
them once:

"""
_DBUTILS = """\

## dbutils, display

| name | what it does |
| --- | --- |
| `dbutils.secrets` | `get`, `getBytes`, `list`, `listScopes`, as [in a pipeline](../how-to/profiles-and-secrets.md) |
| `dbutils.widgets` | `text`, `dropdown`, `combobox`, `multiselect`, `get`, `getAll`, `getArgument`, `remove`, `removeAll`. Set values with `--widget NAME=VALUE` or the variable `HEADRACE_WIDGET_<NAME>`; otherwise the defaults apply |
| `dbutils.fs` | `ls`, `head`, `put`, `mkdirs`, `cp`, `mv`, `rm`, on local disks. `mount` and similar functions are refused: use `--path` to map a mount |
| `dbutils.notebook` | `run`, in a namespace of its own and without a time limit; `exit` |
| `dbutils.library` | `restartPython`, which does nothing |
| `display` | prints up to 1000 rows of a DataFrame. For a stream, it prints each batch that has rows, and starts from the beginning in each run |
| `displayHTML` | prints the text without HTML tags |

Everything else in `dbutils` is refused by name (`UNSUPPORTED.DBUTILS`).

In notebooks, `%md`, `%sql`, `%python`, `%run` and `%pip install` work. `%pip install` only compares the packages with
the installed ones. `_sqldf` is the result of the last `%sql`.

## What Python does not have

- `groupByKey(...).mapGroupsWithState(...)` exists only in Scala (`SCRIPT.NOT_IN_PYTHON`).
- Spark itself refuses continuous triggers into Delta, and `dropDuplicatesWithinWatermark` without a watermark, as the vendor
  does.
"""


def notebook_session_page() -> str:
    """The expected text of docs/reference/notebook-session.md."""
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

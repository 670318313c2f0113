"""The reference page of the vendor's API: declares each feature to find out whether it works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import pipelines
from headrace.errors import PipelineError
from headrace.model.names import Naming
from headrace.pipelines.registry import Registry, collecting
from headrace.sql.load import load_sql
from headrace.sql.unsupported_sql import CREATED, STATEMENTS, Refusal

_INTRODUCTION = """\
# The vendor's API

This page lists which parts of Databricks' Python and SQL for declarative pipelines, and of Spark's own
`pyspark.pipelines`, work in Headrace.

- **works**: does what the vendor documents.
- **accepted**: has no effect, because Headrace always works this way.
- **refused**: raises an error with code, location and reason, before anything is written.

`from headrace import pipelines as dp`, `from pyspark import pipelines as dp` and `import dlt` all provide the names in
the first table. You can mix them, so files written for Spark's own pipelines can use expectations too.
"""
_HEADS = ("what", "", "notes, or why not and what to use instead")

# Arguments of the decorators of datasets and of create_streaming_table: a value to try, and what to know.
_ARGUMENTS: Mapping[str, tuple[Any, str]] = {
    "name": ("sales.orders", "one to three parts; the default is the function's name"),
    "comment": ("text", "the comment of the stored table"),
    "spark_conf": ({"spark.sql.shuffle.partitions": "4"}, "applies only to this flow"),
    "table_properties": (
        {"quality": "bronze"},
        (
            "`delta.*` and keys of your own; `pipelines.reset.allowed`, `pipelines.cdc.tombstoneGCThresholdInSeconds`, "
            "`headrace.strict`, `headrace.private`, `headrace.cdc.on_tie` and `headrace.tags` (words, separated by commas, "
            "for selections such as `tag:nightly`) have an effect"
        ),
    ),
    "partition_cols": (["day"], ""),
    "cluster_by": (["day"], "liquid clustering; not together with `partition_cols`"),
    "schema": ("id BIGINT", "DDL or a StructType"),
    "format": ("delta", "only `delta`"),
    "path": ("/data/orders", ""),
    "private": (True, "the pipeline can read it; `headrace sql` and `Project.tables()` hide it by default"),
    "temporary": (True, "the older name of `private`; not for views"),
    "row_filter": ("ROW FILTER f ON (a)", ""),
    "replace_where": ("day = 1", ""),
    "cluster_by_auto": (True, ""),
    "refresh_policy": ("incremental", "`auto`, `incremental`, `incremental_strict` or `full`; for materialized views"),
}


@dataclass(frozen=True)
class Form:
    """A SQL syntax with an example; loading the example shows whether it works.

    ``verdict`` covers what loading does not show: clauses without effect, and errors that only Spark can raise.
    """

    written: str
    example: str
    note: str = ""
    verdict: str = "works"


_TABLE = "CREATE STREAMING TABLE t {} AS SELECT * FROM STREAM s"
_COLUMNS = "CREATE STREAMING TABLE t ({}) AS SELECT * FROM STREAM s"
_VIEW = "CREATE MATERIALIZED VIEW v {} AS SELECT 1 AS a"
_QUERY = "CREATE MATERIALIZED VIEW v AS SELECT * FROM {}"
_FLOW = "CREATE FLOW f AS {}"
_LOADER = "with `STREAM`, [Auto Loader](auto-loader.md); without it, the existing files. Arguments must be literals"

_FORMS: Mapping[str, tuple[Form, ...]] = {
    "Statements": (
        Form("CREATE STREAMING TABLE t AS query", _TABLE),
        Form("CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t (a INT)", "fed by CREATE FLOW"),
        Form("CREATE MATERIALIZED VIEW v AS query", _VIEW),
        Form("CREATE TEMPORARY VIEW v AS query", "CREATE TEMPORARY VIEW v AS SELECT 1", "batch or stream"),
        Form("CREATE FLOW f AS INSERT INTO t query", _FLOW.format("INSERT INTO t SELECT * FROM STREAM s")),
        Form("CREATE VIEW v AS query", "CREATE VIEW v AS SELECT 1", "stores only the query; batch, no expectations"),
        Form("CREATE SINK s", "CREATE SINK s"),
        Form(
            "CREATE FLOW f AS AUTO CDC INTO t ...",
            _FLOW.format("AUTO CDC INTO t FROM STREAM(s) KEYS (id) SEQUENCE BY n"),
        ),
        Form("APPLY CHANGES INTO t ...", "APPLY CHANGES INTO LIVE.t FROM STREAM(LIVE.s) KEYS (id) SEQUENCE BY n"),
        Form(
            "CREATE STREAMING LIVE TABLE, CREATE LIVE TABLE",
            "CREATE STREAMING LIVE TABLE t AS SELECT 1",
            "`LIVE.t` too",
        ),
        Form(
            "CREATE LIVE VIEW v (CONSTRAINT ...) AS query",
            "CREATE LIVE VIEW v (CONSTRAINT n EXPECT (a > 1)) AS SELECT 1",
        ),
        Form("CREATE TEMPORARY LIVE TABLE t", "CREATE TEMPORARY LIVE TABLE t AS SELECT 1", "a private table"),
        Form("CREATE TEMPORARY TABLE t", "CREATE TEMPORARY TABLE t AS SELECT 1"),
        Form("SET key = value", "SET floor = 1", "for the statements that follow; `spark.*` applies to their flows"),
        Form("USE CATALOG c, USE SCHEMA s", "USE CATALOG c; USE SCHEMA s", "for the statements that follow"),
        Form("REFRESH ...", "REFRESH MATERIALIZED VIEW v FULL"),
        Form("ALTER STREAMING TABLE t ...", "ALTER STREAMING TABLE t SET TBLPROPERTIES ('a' = 'b')"),
    ),
    "Keywords before the name": (
        Form("OR REFRESH", "CREATE OR REFRESH MATERIALIZED VIEW v AS SELECT 1", "every update refreshes", "accepted"),
        Form("IF NOT EXISTS", "CREATE STREAMING TABLE IF NOT EXISTS t", "an existing table is kept", "accepted"),
        Form("PRIVATE", "CREATE PRIVATE STREAMING TABLE t AS SELECT 1", "for tables and materialized views"),
        Form("TEMPORARY before a table", "CREATE TEMPORARY STREAMING TABLE t", "the older name of PRIVATE"),
        Form("GLOBAL TEMPORARY", "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1"),
    ),
    "Columns and expectations": (
        Form("col type [NOT NULL] [COMMENT 'text']", _COLUMNS.format("a INT NOT NULL COMMENT 'x'")),
        Form(
            "col [COMMENT 'text']",
            "CREATE TEMPORARY VIEW v (a COMMENT 'x') AS SELECT 1",
            "for views and materialized views: names of the query's columns",
        ),
        Form("CONSTRAINT n EXPECT (condition)", _COLUMNS.format("a INT, CONSTRAINT n EXPECT (a > 1)")),
        Form("ON VIOLATION DROP ROW", _COLUMNS.format("CONSTRAINT n EXPECT (a > 1) ON VIOLATION DROP ROW")),
        Form("ON VIOLATION FAIL UPDATE", _COLUMNS.format("CONSTRAINT n EXPECT (a > 1) ON VIOLATION FAIL UPDATE")),
        Form(
            "ON VIOLATION QUARANTINE ROW",
            _COLUMNS.format("CONSTRAINT n EXPECT (a > 1) ON VIOLATION QUARANTINE ROW"),
            "only in Headrace: the vendor has no such action",
        ),
        Form("MASK fn", _COLUMNS.format("a INT MASK hide")),
        Form("PRIMARY KEY", _COLUMNS.format("a INT, PRIMARY KEY (a)")),
        Form("FOREIGN KEY", _COLUMNS.format("a INT, FOREIGN KEY (a) REFERENCES o (a)")),
        Form("GENERATED ALWAYS AS ...", _COLUMNS.format("a INT GENERATED ALWAYS AS IDENTITY")),
        Form("DEFAULT value", _COLUMNS.format("a INT DEFAULT 3")),
    ),
    "Clauses": (
        Form("USING DELTA", _TABLE.format("USING DELTA"), "tables are Delta", "accepted"),
        Form("USING other", _TABLE.format("USING PARQUET")),
        Form("PARTITIONED BY (a, b)", _TABLE.format("PARTITIONED BY (a)")),
        Form("CLUSTER BY (a, b)", _TABLE.format("CLUSTER BY (a)")),
        Form("CLUSTER BY AUTO", _TABLE.format("CLUSTER BY AUTO")),
        Form("COMMENT 'text'", _TABLE.format("COMMENT 'x'")),
        Form("TBLPROPERTIES (k = v)", _TABLE.format("TBLPROPERTIES ('a' = 'b')")),
        Form("LOCATION 'path'", _TABLE.format("LOCATION '/x'")),
        Form("WITH ROW FILTER fn ON (a)", _TABLE.format("WITH ROW FILTER f ON (a)")),
        Form("SCHEDULE ...", _TABLE.format("SCHEDULE EVERY 1 HOUR")),
        Form("TRIGGER ON UPDATE", _TABLE.format("TRIGGER ON UPDATE")),
        Form(
            "REFRESH POLICY ...",
            _VIEW.format("REFRESH POLICY INCREMENTAL STRICT"),
            "AUTO, INCREMENTAL, INCREMENTAL STRICT or FULL, of a materialized view",
        ),
        Form("FLOW AUTO CDC ...", "CREATE STREAMING TABLE t FLOW AUTO CDC FROM s KEYS (id) SEQUENCE BY n"),
        Form("FLOW REPLACE USING (k) ...", "CREATE STREAMING TABLE t FLOW REPLACE USING (k) SEQUENCE BY n SELECT 1"),
    ),
    "In CREATE FLOW": (
        Form("COMMENT 'text'", "CREATE FLOW f COMMENT 'x' AS INSERT INTO t SELECT 1"),
        Form("INSERT INTO ONCE t", _FLOW.format("INSERT INTO ONCE t SELECT 1"), "once, and again after a full refresh"),
        Form("BY NAME", _FLOW.format("INSERT INTO t BY NAME SELECT 1 AS a")),
        Form("(a, b)", _FLOW.format("INSERT INTO t (a, b) SELECT 1, 2")),
        Form("INSERT OVERWRITE t", _FLOW.format("INSERT OVERWRITE t SELECT 1")),
        Form("REPLACE WHERE predicate", _FLOW.format("INSERT INTO t BY NAME REPLACE WHERE a = 1 SELECT 1")),
        Form("REPLACE USING (k) SEQUENCE BY c", _FLOW.format("INSERT INTO t REPLACE USING (k) SEQUENCE BY c SELECT 1")),
    ),
    "In queries": (
        Form("STREAM t, STREAM(t)", _QUERY.format("STREAM t")),
        Form("STREAM t WITH (option = value)", _QUERY.format("STREAM t WITH (maxFilesPerTrigger = 1)")),
        Form("${name}", _QUERY.format("t WHERE a > ${floor}"), "from `configuration`, `--set` and SET"),
        Form(":name", _QUERY.format("t WHERE a > :floor"), "from `parameters`; always a string: cast it where needed"),
        Form("IDENTIFIER(:name)", _QUERY.format("IDENTIFIER(:floor)"), "uses the value as a name, also for datasets"),
        Form("IDENTIFIER('t')", _QUERY.format("IDENTIFIER('t')")),
        Form("read_files('path', ...)", _QUERY.format("read_files('/x', format => 'json')"), _LOADER),
        Form("cloud_files('path', 'format', map(...))", _QUERY.format("cloud_files('/x', 'json')"), _LOADER),
        Form(
            "read_kafka(subscribe => 't', ...), read_kinesis(streamName => 's', ...)",
            _QUERY.format("read_kafka(subscribe => 't')"),
            "[Kafka](kafka.md) and [Kinesis](sources.md), with the connector in the settings",
        ),
        Form(
            "read_pubsub, read_pulsar",
            _QUERY.format("read_pubsub(topicId => 't')"),
            "these services have no connector for Spark 4",
            "refused",
        ),
    ),
}


def vendor_api_page() -> str:
    """The expected text of docs/reference/vendor-api.md."""
    parts = [
        _INTRODUCTION,
        "## Python\n",
        _table(("name", "", "what it does, or why not and what to use instead"), _functions()),
    ]
    parts += [
        "Arguments of the decorators of datasets, and of `create_streaming_table`:\n",
        _table(_HEADS, _arguments()),
    ]
    parts += [
        "`create_streaming_table` also has `expect_all`, `expect_all_or_drop`, `expect_all_or_fail` and",
        "`expect_all_or_quarantine`. `append_flow` has `target` (one or several), `name`, `comment`, `spark_conf` and",
        "`once`. `update_flow` has the same arguments except `once`. `create_sink` has `name`, `format`, `options` and",
        "`comment`. [Sinks](sinks.md) lists its formats.\n",
    ]
    for title, forms in _FORMS.items():
        parts += [f"## SQL: {title[0].lower()}{title[1:]}\n", _table(_HEADS, map(_form_row, forms))]
    parts += ["## SQL: other refused statements\n", _table(("statements", "why", "instead"), _others())]
    return "\n".join(parts).rstrip("\n") + "\n"


def sql_problems(text: str) -> list[PipelineError]:
    """The errors of loading the statements."""
    registry = Registry(Naming(), Path())
    load_sql(text, "file.sql", registry, {"floor": "1"}, {"floor": "1"})
    return registry.problems


def _functions() -> Iterator[tuple[str, str, str]]:
    seen: dict[int, list[str]] = {}
    for name in sorted(pipelines.__all__, key=lambda name: (_own_name(name) != name, name)):
        seen.setdefault(id(getattr(pipelines, name)), []).append(name)
    for names in sorted(seen.values()):
        function = getattr(pipelines, names[0])
        about = (function.__doc__ or "").splitlines()[0].replace(":func:", "").rstrip(".")
        yield ", ".join(f"`{name}`" for name in names), "works", about


def _own_name(name: str) -> str:
    return str(getattr(pipelines, name).__name__)


def _arguments() -> Iterator[tuple[str, str, str]]:
    for argument, (value, note) in _ARGUMENTS.items():
        registry = Registry(Naming(), Path())
        with collecting(registry):
            decorate: Any = pipelines.table(**{argument: value})
            decorate(_query)
        reasons = [str(problem.params.get("reason", problem.message)) for problem in registry.problems]
        yield f"`{argument}`", "refused" if reasons else "works", "; ".join(filter(None, (*reasons, note)))


def _query() -> None:
    """A query function that is never called."""


def _form_row(form: Form) -> tuple[str, str, str]:
    problems = sql_problems(form.example.replace(" {} ", " "))
    if not problems:
        return f"`{form.written}`", form.verdict, form.note
    if form.verdict != "works":
        raise ValueError(f"{form.written} is said to be {form.verdict}, and was: {problems[0]}")
    problem = problems[0]
    reason = problem.params.get("reason", problem.message)
    fix = problem.params.get("instead", problem.hint)
    return f"`{form.written}`", "refused", f"{_sentence(reason)} {_sentence(fix)}"


def _others() -> Iterator[tuple[str, str, str]]:
    grouped: dict[Refusal, list[str]] = {}
    for before, table in (("", STATEMENTS), ("CREATE ", CREATED)):
        for words, refusal in table.items():
            grouped.setdefault(refusal, []).append(f"`{before}{' '.join(words)}`")
    for refusal, statements in grouped.items():
        yield ", ".join(statements), _sentence(refusal.reason), _sentence(refusal.fix)


def _sentence(text: object) -> str:
    return f"{str(text).rstrip('.')}."


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n" for cells in lines)

"""What a statement outside of a pipeline is about."""

from __future__ import annotations

import pytest

from headrace.sql.lexer import lex
from headrace.sql.targets import TargetKind, target_of


def about(text):
    tokens = lex(text).tokens
    target = target_of(tokens)
    return target.kind, target.name(tokens) if target.end else None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CREATE TABLE main.silver.t (id INT)", "main.silver.t"),
        ("create or replace table if not exists `a b`.t USING delta AS SELECT 1", "`a b`.t"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "v"),
        ("INSERT INTO TABLE s.t SELECT * FROM u", "s.t"),
        ("INSERT OVERWRITE s.t VALUES (1)", "s.t"),
        ("MERGE INTO s.t AS x USING u ON true WHEN MATCHED THEN DELETE", "s.t"),
        ("MERGE WITH SCHEMA EVOLUTION INTO s.t USING u ON true", "s.t"),
        ("DELETE FROM s.t WHERE id = 1", "s.t"),
        ("UPDATE s.t SET id = 1", "s.t"),
        ("DROP TABLE IF EXISTS s.t", "s.t"),
        ("ALTER TABLE s.t SET TBLPROPERTIES ('a' = 'b')", "s.t"),
        ("OPTIMIZE s.t ZORDER BY (id)", "s.t"),
        ("VACUUM s.t RETAIN 0 HOURS", "s.t"),
        ("DESCRIBE HISTORY s.t", "s.t"),
        ("DESCRIBE TABLE EXTENDED s.t", "s.t"),
        ("RESTORE TABLE s.t TO VERSION AS OF 1", "s.t"),
        ("TRUNCATE TABLE s.t", "s.t"),
        ("WITH c AS (SELECT 1 AS insert) INSERT INTO s.t SELECT * FROM c", "s.t"),
        ("FROM (SELECT 1 AS id) INSERT OVERWRITE TABLE s.t SELECT id", "s.t"),
        ("WITH c AS (SELECT 1 AS id) MERGE INTO s.t AS x USING c ON true WHEN MATCHED THEN DELETE", "s.t"),
    ],
)
def test_the_target_table_of_a_statement_is_found(text, name):
    assert about(text) == (TargetKind.TABLE, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SCHEMA IF NOT EXISTS main.silver", (TargetKind.SCHEMA, "main.silver")),
        ("DROP DATABASE silver CASCADE", (TargetKind.SCHEMA, "silver")),
        ("USE main.silver", (TargetKind.SCHEMA, "main.silver")),
        ("USE SCHEMA silver", (TargetKind.SCHEMA, "silver")),
        ("USE CATALOG main", (TargetKind.CATALOG, "main")),
        ("SET CATALOG main", (TargetKind.CATALOG, "main")),
        ("CREATE CATALOG IF NOT EXISTS main", (TargetKind.CATALOG, "main")),
        ("SELECT * FROM t", (TargetKind.OTHER, None)),
        ("WITH c AS (SELECT 1) SELECT * FROM c", (TargetKind.OTHER, None)),
        ("FROM s.t SELECT *", (TargetKind.OTHER, None)),
        ("DESCRIBE SELECT * FROM s.t", (TargetKind.OTHER, None)),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1", (TargetKind.OTHER, None)),
        ("REFRESH FUNCTION f", (TargetKind.OTHER, None)),
        ("CREATE FUNCTION f AS 'x'", (TargetKind.OTHER, None)),
        ("SHOW TABLES IN main.silver", (TargetKind.SCHEMA, "main.silver")),
        ("SHOW TABLE EXTENDED FROM silver LIKE '*'", (TargetKind.SCHEMA, "silver")),
        ("SHOW TABLES", (TargetKind.OTHER, None)),
        ("SHOW CREATE TABLE t", (TargetKind.OTHER, None)),
        ("SET a = b", (TargetKind.OTHER, None)),
        ("", (TargetKind.OTHER, None)),
    ],
)
def test_the_target_kind_of_other_statements_is_found(text, expected):
    assert about(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAMING TABLE t AS SELECT 1",
        "CREATE OR REFRESH STREAMING TABLE t",
        "CREATE OR REFRESH LIVE TABLE t",
        "CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT 1",
        "REFRESH MATERIALIZED VIEW t",
        "APPLY CHANGES INTO t FROM s",
    ],
)
def test_pipeline_statements_are_recognized(text):
    assert about(text)[0] is TargetKind.PIPELINE


def test_create_or_replace_table_writes_and_create_temp_view_creates_no_table():
    replaces = target_of(lex("CREATE OR REPLACE TABLE t AS SELECT 1").tokens)
    temporary = target_of(lex("CREATE TEMP VIEW t AS SELECT 1").tokens)

    assert (replaces.writes, replaces.creates, temporary.creates) == (True, True, False)

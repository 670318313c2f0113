"""What a statement outside of a pipeline is about."""

from __future__ import annotations

import pytest

from headrace.sql.lexer import lex
from headrace.sql.targets import About, target_of


def about(text):
    tokens = lex(text).tokens
    target = target_of(tokens)
    return target.about, target.name(tokens) if target.end else None


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
def test_a_statement_about_a_table_names_it(text, name):
    assert about(text) == (About.TABLE, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SCHEMA IF NOT EXISTS main.silver", (About.SCHEMA, "main.silver")),
        ("DROP DATABASE silver CASCADE", (About.SCHEMA, "silver")),
        ("USE main.silver", (About.SCHEMA, "main.silver")),
        ("USE SCHEMA silver", (About.SCHEMA, "silver")),
        ("USE CATALOG main", (About.CATALOG, "main")),
        ("SET CATALOG main", (About.CATALOG, "main")),
        ("CREATE CATALOG IF NOT EXISTS main", (About.CATALOG, "main")),
        ("SELECT * FROM t", (About.OTHER, None)),
        ("WITH c AS (SELECT 1) SELECT * FROM c", (About.OTHER, None)),
        ("FROM s.t SELECT *", (About.OTHER, None)),
        ("DESCRIBE SELECT * FROM s.t", (About.OTHER, None)),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1", (About.OTHER, None)),
        ("REFRESH FUNCTION f", (About.OTHER, None)),
        ("CREATE FUNCTION f AS 'x'", (About.OTHER, None)),
        ("SHOW TABLES IN main.silver", (About.SCHEMA, "main.silver")),
        ("SHOW TABLE EXTENDED FROM silver LIKE '*'", (About.SCHEMA, "silver")),
        ("SHOW TABLES", (About.OTHER, None)),
        ("SHOW CREATE TABLE t", (About.OTHER, None)),
        ("SET a = b", (About.OTHER, None)),
        ("", (About.OTHER, None)),
    ],
)
def test_other_statements_are_told_apart(text, expected):
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
def test_statements_of_pipelines_are_known(text):
    assert about(text)[0] is About.PIPELINE


def test_what_replaces_writes_and_what_is_temporary_makes_nothing_that_lasts():
    replaces = target_of(lex("CREATE OR REPLACE TABLE t AS SELECT 1").tokens)
    temporary = target_of(lex("CREATE TEMP VIEW t AS SELECT 1").tokens)

    assert (replaces.writes, replaces.makes, temporary.makes) == (True, True, False)

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sql.readonly import check_readonly


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select 1 ; -- done",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE a(n) MAX RECURSION LEVEL 5 AS (SELECT 1), b (SELECT 2) FROM a SELECT n",
        "(WITH a AS (SELECT 1) SELECT * FROM a) UNION (SELECT 2)",
        "FROM t SELECT 1",
        "VALUES (1)",
        "TABLE t",
        "DESC HISTORY t",
        "DESCRIBE t",
        "SHOW CREATE TABLE t",
        "EXPLAIN SELECT 1",
        "EXPLAIN FORMATTED WITH a AS (SELECT 1) TABLE a",
        "SELECT insert, delete, update FROM merge",
        "SELECT 'INSERT INTO t' AS `INSERT INTO` -- INSERT INTO",
        "SELECT * FROM a JOIN b USING (id)",
        "SELECT reflect, 'reflect(1)' FROM IDENTIFIER('t') WHERE (java_method) > 1",
    ],
)
def test_a_statement_that_reads_is_accepted(text):
    check_readonly(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE t",
        "DROP TABLE t",
        "SET a = 1",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'DROP TABLE t'",
        "INSERT INTO t SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT 1",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "WITH a (SELECT 1) UPDATE t SET a = 1",
        "WITH a(n) MAX RECURSION LEVEL 5 AS (SELECT 1) MERGE INTO t USING a ON x WHEN MATCHED THEN DELETE",
        "FROM t INSERT INTO x SELECT 1",
        "FROM t INSERT /* over */ OVERWRITE x SELECT 1",
        "WITH a AS (SELECT 1) FROM a INSERT INTO t SELECT 1",
        "FROM t INSERT WITH SCHEMA EVOLUTION INTO x SELECT 1",
        "FROM t -- \\\n'\nINSERT INTO x SELECT 1 -- '",
        "EXPLAIN INSERT INTO t SELECT 1",
        "EXPLAIN EXTENDED DROP TABLE t",
        "EXPLAIN",
        "EXPLAIN WITH a AS (SELECT 1) DELETE FROM t",
        "SELECT TRANSFORM (a) USING 'rm' FROM t",
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT a FROM t WHERE `Java_Method` /* */ ('java.lang.System', 'exit', 1) = 1",
        "SELECT * FROM VALUES (system.builtin.try_reflect('java.lang.System', 'exit', 1))",
        "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'exit', 1)",
    ],
)
def test_a_statement_that_may_write_is_refused(text):
    with pytest.raises(PipelineError) as caught:
        check_readonly(text)

    assert caught.value.code == "SQL.NOT_READ_ONLY"
    assert "--write" in caught.value.hint


def test_an_unclosed_string_is_reported():
    with pytest.raises(PipelineError) as caught:
        check_readonly("SELECT 'a")

    assert caught.value.code == "SQL.SYNTAX"

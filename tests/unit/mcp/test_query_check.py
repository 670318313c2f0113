"""Queries of an assistant read tables, and nothing else. Spark reads each of the refused ones."""

from __future__ import annotations

from typing import Any

import pytest

REFUSED = {
    "SELECT '${env:AWS_SECRET_ACCESS_KEY}'": "${env:AWS_SECRET_ACCESS_KEY}",
    "SELECT 1 /* ${spark.hadoop.fs.s3a.secret.key} */": "${spark.hadoop.fs.s3a.secret.key}",
    "SELECT '${system:user.home": "${system:user.home",
    "SELECT * FROM text.`/etc/passwd`": "text.`/etc/passwd`",
    "SELECT * FROM TEXT . `/etc/passwd`": "TEXT.`/etc/passwd`",
    "SELECT * FROM text./* x */`/etc/passwd`": "text.`/etc/passwd`",
    "SELECT * FROM `text`.`/etc/passwd`": "`text`.`/etc/passwd`",
    "SELECT * FROM text.secrets": "text.secrets",
    "TABLE json.`s3a://bucket/key`": "json.`s3a://bucket/key`",
    "SELECT * FROM mine.`file:///etc/passwd`": "mine.`file:///etc/passwd`",
    "SELECT * FROM `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.x": (
        "`org.apache.spark.sql.execution.datasources.text.TextFileFormat`.x"
    ),
    "SELECT (SELECT max(value) FROM csv.`/x`)": "csv.`/x`",
    "SELECT * FROM IDENTIFIER('te' || 'xt.`/etc/passwd`')": "IDENTIFIER(...)",
    "SELECT * FROM `identifier`('t')": "identifier(...)",
    "SELECT * FROM read_files('/etc/passwd', format => 'text')": "read_files(...)",
    "SELECT reflect('java.lang.System', 'getenv', 'TOKEN')": "reflect(...)",
    "SELECT Java_Method('java.lang.System', 'getenv', 'TOKEN')": "Java_Method(...)",
    "SELECT try_reflect('java.lang.System', 'getenv', 'TOKEN')": "try_reflect(...)",
    "SELECT * FROM STREAM read_kafka(bootstrapServers => 'h:1', subscribe => 't')": "read_kafka(...)",
}
ACCEPTED = [
    "SELECT o.id, `a/b`, o.`first name`, s.x.y FROM sales.orders AS o",
    "SELECT text, json FROM orders WHERE note = 'text.`/x` read_files(1)'",
    "SELECT * FROM system.streaming.queries -- text.`/x`",
    "WITH t AS (SELECT 1 AS a) SELECT a FROM t",
    "not SQL (",
]


@pytest.mark.parametrize(("query", "what"), REFUSED.items())
def test_a_query_that_reads_something_else_is_refused(assistant: Any, query: str, what: str) -> None:
    error = assistant.error("sql", {"query": query})

    assert (error["code"], what in error["message"], assistant.verbs.calls) == ("MCP.NOT_A_TABLE", True, [])


@pytest.mark.parametrize("query", ACCEPTED)
def test_a_query_of_tables_reaches_the_verb(assistant: Any, query: str) -> None:
    assistant.value("sql", {"query": query})

    assert assistant.verbs.calls[0][-1] == query

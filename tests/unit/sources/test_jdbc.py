"""Databases as streams, without Spark: every row once, positions that JSON keeps, types, errors without secrets."""

from __future__ import annotations

import json
import pickle
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.autoloader.discovery import Clock
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import parse_struct
from headrace.sources.jdbc_incremental import JdbcSource, prepare_jdbc
from headrace.sources.stream_source import PreparedSource, ReadContext


class Reader:
    """What Spark does with a source: everything travels as JSON or is pickled."""

    def __init__(self, options, schema=None, *, zone="UTC", asleep=lambda _: None):
        self.now_s = 0.0
        prepared = prepare_jdbc(options, schema and parse_struct(schema), ReadContext(time_zone=zone))
        self.text = prepared.to_json()
        self.source = JdbcSource.of(PreparedSource.from_json(self.text, prepared.secrets))
        self._asleep = asleep
        self.stream = self.restarted()

    def restarted(self):
        self.stream = self.source.stream(Clock(lambda: int(self.now_s * 1e9), self._sleep))
        return self.stream

    def _sleep(self, duration_s):
        self._asleep(duration_s)
        self.now_s += duration_s

    def initial(self):
        return json.loads(json.dumps(self.stream.initial()))

    def latest(self, start, *, everything=False):
        return json.loads(json.dumps(self.stream.latest(start, everything=everything)))

    def batch(self, start, end):
        tasks = [pickle.loads(pickle.dumps(task)) for task in self.stream.tasks(start, end)]
        return [row for task in tasks for batch in self.source.rows(task) for row in batch.to_pylist()]

    def rest(self, start):
        """The batches up to what is there, and the last offset."""
        batches = []
        while (end := self.latest(start)) != start:
            batches.append(self.batch(start, end))
            assert sorted(map(repr, self.batch(start, end))) == sorted(map(repr, batches[-1]))
            start = end
        return batches, start


@pytest.fixture
def sqlite(tmp_path):
    """A file of SQLite as a function that executes statements, with its URL."""

    def execute(*statements):
        connection = sqlite3.connect(tmp_path / "source.db")
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    execute.url = f"sqlite:///{tmp_path}/source.db"
    return execute


def ids(batches):
    return [sorted(row["id"] for row in batch) for batch in batches]


@settings(max_examples=25)
@given(
    rounds=st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=1, max_size=4),
    most=st.integers(1, 5),
    parts=st.integers(1, 4),
)
def test_every_row_is_read_once_despite_equal_cursor_values_limits_and_restarts(tmp_path_factory, rounds, most, parts):
    file = tmp_path_factory.mktemp("ties") / "source.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at INTEGER)")
    connection.commit()
    reader = Reader(
        {
            "url": f"jdbc:sqlite:{file}",
            "dbtable": "events",
            "cursorColumn": "at",
            "maxRowsPerTrigger": most,
            "numPartitions": parts,
        }
    )
    start, read, clock = reader.initial(), [], 0
    for steps in rounds:
        for step in steps:
            # Equal values follow each other within a round and between rounds.
            clock += step
            connection.execute("INSERT INTO events (at) VALUES (?)", (clock,))
        connection.commit()
        reader.restarted()
        batches, start = reader.rest(start)
        assert all(len(batch) <= most for batch in batches)
        read += [row["id"] for batch in batches for row in batch]
    connection.close()

    assert sorted(read) == list(range(1, sum(map(len, rounds)) + 1))


def test_a_batch_without_a_tie_break_column_has_all_rows_of_its_last_cursor_value(sqlite):
    sqlite("CREATE TABLE t (id INTEGER, at INTEGER)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 2), (4, 2), (5, NULL)")
    reader = Reader({"url": sqlite.url, "dbtable": "t", "cursorColumn": "at", "maxRowsPerTrigger": 2})

    batches, _ = reader.rest(reader.initial())

    assert ids(batches) == [[1, 2, 3, 4]]


def test_sqlite_numbers_have_64_bits(sqlite):
    sqlite("CREATE TABLE t (id INTEGER, share REAL)", "INSERT INTO t VALUES (9007199254740993, 0.1)")
    reader = Reader({"url": sqlite.url, "dbtable": "t", "cursorColumn": "share"})

    assert reader.rest(reader.initial())[0] == [[{"id": 9007199254740993, "share": 0.1}]]


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3]), ("latest", []), ("1", [2, 3])])
def test_a_stream_starts_at_the_configured_position(sqlite, start, expected):
    sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
    reader = Reader({"url": sqlite.url, "dbtable": "t", "cursorColumn": "id", "startingPosition": start})

    first = reader.initial()
    sqlite("INSERT INTO t VALUES (4)")

    assert ids(reader.rest(first)[0]) == [[*expected, 4]]


def test_a_repeated_first_batch_starts_at_the_same_position(sqlite):
    sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    reader = Reader({"url": sqlite.url, "dbtable": "t", "cursorColumn": "id", "startingPosition": "latest"})
    start = reader.initial()
    sqlite("INSERT INTO t VALUES (2)")
    end = reader.latest(start)
    sqlite("INSERT INTO t VALUES (3)")

    # After a crash, Spark asks for the initial offset once more, and knows the end of the batch.
    reader.restarted()
    again = reader.initial()

    assert ids([reader.batch(start, end), reader.batch(again, end)]) == [[2], [2]]


def test_an_available_now_query_ends_at_the_rows_present_at_its_start(sqlite):
    sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
    reader = Reader({"url": sqlite.url, "dbtable": "t", "cursorColumn": "id", "maxRowsPerTrigger": 2})
    reader.stream.prepare_for_available_now()

    first = reader.latest(start := reader.initial())
    sqlite("INSERT INTO t VALUES (4)")
    second = reader.latest(first)

    assert ids([reader.batch(start, first), reader.batch(first, second)]) == [[1, 2], [3]]
    assert reader.latest(second) == second


def test_a_row_that_is_committed_late_is_read_with_a_settle_delay(sqlite):
    sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (3)")
    options = {"url": sqlite.url, "dbtable": "t", "cursorColumn": "id", "settleDelay": "5 seconds"}
    waits = Reader(options)
    triggered = Reader(options, asleep=lambda _: sqlite("INSERT INTO t VALUES (4)"))

    start = waits.initial()
    assert waits.latest(start) == start
    sqlite("INSERT INTO t VALUES (2)")
    waits.now_s = 5.0
    end = waits.latest(start)
    assert ids([waits.batch(start, end)]) == [[1, 2, 3]]
    triggered.stream.prepare_for_available_now()
    end = triggered.latest(start)
    assert ids([triggered.batch(start, end)]) == [[1, 2, 3]]
    assert triggered.now_s == 5.0


def test_identifiers_are_quoted_and_values_are_bound(sqlite):
    sqlite(
        'CREATE TABLE "from" (id INTEGER, "a; DROP TABLE x" TEXT, "say ""hi""" TEXT)',
        """INSERT INTO "from" VALUES (1, 'x'' OR 1=1 --', 'y'), (2, 'z', 'z')""",
    )
    reader = Reader({"url": sqlite.url, "dbtable": '"from"', "cursorColumn": "a; DROP TABLE x", "maxRowsPerTrigger": 1})

    batches, _ = reader.rest(reader.initial())

    assert ids(batches) == [[1], [2]]
    assert batches[0][0]['say "hi"'] == "y"


ALSO = pytest.mark.long(guard="its other cases")
EVERY_TYPE = """
CREATE TABLE types (
    id bigserial PRIMARY KEY, small smallint, whole integer, real4 real, real8 double precision, yes boolean,
    price numeric(12,3), free numeric, name varchar(20), note text, fixed char(3), born date, at timestamptz,
    naive timestamp, clock time, doc json, docb jsonb, key uuid, raw bytea, numbers integer[], names text[],
    times timestamptz[], address inet, took interval
)"""
ROW = """
INSERT INTO types VALUES (
    DEFAULT, 1, 2, 1.5, 2.5, true, 12.345, 1.23456789, 'ann', 'x', 'abc', '2026-01-31', '2026-01-31T12:00:00+02',
    '2026-01-31T12:00:00.123456', '12:30', '{"a": [1,  2]}', '{"a": 1}', '0b0e7c4e-0000-4000-8000-000000000001',
    '\\x00ff', '{1,NULL,3}', '{a,b}', '{2026-01-31T12:00:00Z}', '10.0.0.1', '1 day'
)"""


def test_postgresql_types_are_read_as_spark_types(postgres):
    postgres.execute("DROP TABLE IF EXISTS types", EVERY_TYPE, ROW, "INSERT INTO types DEFAULT VALUES")
    reader = Reader(postgres.options(dbtable="public.types", cursorColumn="id"), zone="Europe/Berlin")

    (first, empty), _ = reader.rest(reader.initial())[0][0], None

    moment = datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert first == {
        "id": 1,
        "small": 1,
        "whole": 2,
        "real4": 1.5,
        "real8": 2.5,
        "yes": True,
        "price": Decimal("12.345"),
        "free": Decimal("1.234567890000000000"),
        "name": "ann",
        "note": "x",
        "fixed": "abc",
        "born": date(2026, 1, 31),
        "at": moment,
        # A time without a zone is one of the session's, as in Spark's own source.
        "naive": datetime(2026, 1, 31, 11, 0, 0, 123456, tzinfo=UTC),
        "clock": "12:30:00",
        "doc": '{"a": [1,  2]}',
        "docb": '{"a": 1}',
        "key": "0b0e7c4e-0000-4000-8000-000000000001",
        "raw": b"\x00\xff",
        "numbers": [1, None, 3],
        "names": ["a", "b"],
        "times": [datetime(2026, 1, 31, 12, tzinfo=UTC)],
        "address": "10.0.0.1/32",
        "took": "1 day",
    }
    assert {name for name, value in empty.items() if value is not None} == {"id"}


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("at timestamptz", "'2026-01-31T12:00:00.000001Z'", "'2026-01-31T12:00:00.000002Z'"),
        ("at timestamp", "'2026-01-31T12:00:00.000001'", "'2026-01-31T12:00:00.000002'"),
        ("at date", "'2026-01-31'", "'2026-02-01'"),
        ("at numeric(30,10)", "12345678901234567890.0000000001", "12345678901234567890.0000000002"),
        ("at double precision", "0.1", "0.30000000000000004"),
        ("at real", "0.1", "0.7"),
        ("at bigint", "9007199254740993", "9007199254740994"),
        ("at text", "'a''b'", "'a''c'"),
        ("at uuid", "'0b0e7c4e-0000-4000-8000-000000000001'", "'0b0e7c4e-0000-4000-8000-000000000002'"),
    ],
)
@pytest.mark.parametrize("parts", [pytest.param(1, marks=ALSO), 3])
def test_positions_of_every_ordered_column_type_are_exact(postgres, column, first, second, parts):
    postgres.execute(
        "DROP TABLE IF EXISTS ordered",
        f"CREATE TABLE ordered (id integer PRIMARY KEY, {column})",
        f"INSERT INTO ordered VALUES (1, {first}), (2, {second}), (3, {second})",
    )
    options = postgres.options(dbtable="ordered", cursorColumn="at", maxRowsPerTrigger=1, numPartitions=parts)
    reader = Reader(options)

    batches, end = reader.rest(reader.initial())

    assert ids(batches) == [[1], [2], [3]]
    assert reader.restarted().latest(end, everything=False) == end
    tasks = reader.source.batch(Clock(int, int))
    whole = [row for task in tasks for batch in reader.source.rows(task) for row in batch.to_pylist()]
    assert sorted(row["id"] for row in whole) == [1, 2, 3]


@pytest.mark.parametrize(
    ("column", "values", "given"),
    [
        ("at bigint", ("9", "10", "100"), "at STRING"),
        ("at timestamptz", ("'2026-01-31T10:00Z'", "'2026-01-31T11:00Z'", "'2026-01-31T12:00Z'"), "at DATE"),
        ("at timestamp", ("'2026-01-31T10:00'", "'2026-01-31T11:00'", "'2026-01-31T12:00'"), "at TIMESTAMP"),
        ("at numeric", ("1.1", "1.2", "1.3"), "at INT"),
        ("at grade", ("'A'", "'B'", "'C'"), "at STRING"),
    ],
)
@pytest.mark.parametrize("what", ["dbtable", pytest.param("query", marks=ALSO)])
def test_rows_are_read_in_database_order_for_any_requested_column_type(postgres, column, values, given, what):
    first, second, third = values
    postgres.execute(
        "DROP TABLE IF EXISTS retyped",
        "DROP TYPE IF EXISTS grade",
        "CREATE TYPE grade AS ENUM ('A', 'B', 'C')",
        f"CREATE TABLE retyped (id integer, {column})",
        f"INSERT INTO retyped VALUES (1, {first}), (2, {second})",
    )
    source = {"dbtable": "retyped"} if what == "dbtable" else {"query": "SELECT id, at FROM retyped"}
    options = postgres.options(**source, cursorColumn="at", maxRowsPerTrigger=1)
    reader = Reader(options, "id INT" if given == "at INT" else f"id INT, {given}")

    batches, end = reader.rest(reader.initial())
    postgres.execute(f"INSERT INTO retyped VALUES (3, {third})")
    reader.restarted()

    assert ids([*batches, *reader.rest(end)[0]]) == [[1], [2], [3]]


def test_percent_signs_and_comments_in_a_query_are_preserved(postgres):
    query = "SELECT 7 % 4 AS id, '50%' AS a, $$5%s$$ AS b, format('%s%%', 'x') AS c -- the 7 % 4"
    reader = Reader(postgres.options(query=query, cursorColumn="id"))

    assert reader.rest(reader.initial())[0] == [[{"id": 3, "a": "50%", "b": "5%s", "c": "x%"}]]


def test_columns_of_a_postgresql_query_keep_their_types(postgres):
    postgres.execute(
        "DROP TABLE IF EXISTS q", "CREATE TABLE q (id int, at timestamptz, tags text[], price numeric(5,2))"
    )
    postgres.execute("INSERT INTO q VALUES (1, '2026-01-01Z', '{x}', 1.5), (2, '2026-01-02Z', NULL, NULL)")
    query = "SELECT id, at AS \"When\", tags, price, 'a:b %' AS note FROM q WHERE note_is('a') ;"
    postgres.execute("CREATE OR REPLACE FUNCTION note_is(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    reader = Reader(postgres.options(query=query, cursorColumn="When", tieBreakColumn="id", maxRowsPerTrigger=1))

    batches, _ = reader.rest(reader.initial())

    assert [field["type"] for field in json.loads(reader.text)["columns"]["fields"]][:2] == ["integer", "timestamp"]
    assert batches[0] == [
        {
            "id": 1,
            "When": datetime(2026, 1, 1, tzinfo=UTC),
            "tags": ["x"],
            "price": Decimal("1.500000000000000000"),
            "note": "a:b %",
        }
    ]
    assert ids(batches) == [[1], [2]]


def test_a_given_schema_selects_columns_and_types(postgres):
    postgres.execute("DROP TABLE IF EXISTS wide", "CREATE TABLE wide (id int, price numeric, doc jsonb, more text)")
    postgres.execute("INSERT INTO wide VALUES (1, 1.005, '{}', 'x')")
    reader = Reader(postgres.options(dbtable="wide", cursorColumn="id"), "doc STRING, price DECIMAL(10,2), id BIGINT")

    assert reader.rest(reader.initial())[0] == [[{"doc": "{}", "price": Decimal("1.01"), "id": 1}]]


def test_the_password_is_absent_from_serialized_and_displayed_text(postgres):
    postgres.execute("DROP TABLE IF EXISTS kept", "CREATE TABLE kept (id int)", "INSERT INTO kept VALUES (1)")
    reader = Reader(postgres.options(dbtable="kept", cursorColumn="id"))
    url = f"postgresql+pg8000://reader:{postgres.password}@127.0.0.1:{postgres.port}/postgres"
    inside = Reader({"url": url, "dbtable": "kept", "cursorColumn": "id"})

    start = reader.initial()
    shown = [reader.text, inside.text, repr(reader.source), repr(inside.source), str(reader.latest(start))]

    assert [text for text in shown if postgres.password in text] == []
    assert ids(inside.rest(start)[0]) == [[1]]


def test_a_given_schema_resolves_a_query_but_starts_no_stream_without_the_database():
    options = {"url": "postgresql+pg8000://reader:hidden@127.0.0.1:1/shop", "dbtable": "orders", "cursorColumn": "id"}
    columns = parse_struct("id BIGINT, name STRING")

    prepared = prepare_jdbc(options, columns, ReadContext(schema_only=True))

    assert (prepared.columns, prepared.description) == (columns, "orders of postgresql://127.0.0.1:1/shop")
    assert "hidden" not in prepared.to_json()
    with pytest.raises(PipelineError) as unread:
        JdbcSource.of(PreparedSource.from_json(prepared.to_json()))
    assert unread.value.code == "JDBC.UNREACHABLE"
    for schema, session in ((columns, ReadContext()), (None, ReadContext(schema_only=True))):
        with pytest.raises(PipelineError) as raised:
            prepare_jdbc(options, schema, session)
        assert raised.value.code == "JDBC.UNREACHABLE"


def failure(options, schema=None):
    with pytest.raises((PipelineError, Problems)) as raised:
        Reader(options, schema).rest({"after": None, "begin": None})
    return raised.value.errors[0] if isinstance(raised.value, Problems) else raised.value


def test_database_errors_are_reported_without_secrets(postgres):
    postgres.execute("DROP TABLE IF EXISTS odd", "CREATE TABLE odd (id int, place point, at timestamptz)")
    postgres.execute("INSERT INTO odd VALUES (1, '(1,2)', 'infinity')")
    wrong = postgres.options(dbtable="odd", cursorColumn="id")

    found = [
        failure({**wrong, "password": "not-the-passw0rd"}),
        failure({**wrong, "url": f"jdbc:postgresql://127.0.0.1:1/postgres?password={postgres.password}"}),
        failure({**wrong, "dbtable": "odder"}),
        failure({**wrong, "cursorColumn": "idd"}, "id INT"),
        failure({**wrong, "url": "jdbc:oracle:thin:@h:1521/s"}),
        failure({**wrong, "startingPosition": "soon"}, "id INT"),
        failure({**wrong, "partitionColumn": "id"}),
        failure({**wrong, "query": "SELECT 1"}),
        failure({**wrong, "query": "SELECT 1 / 0 AS id", "dbtable": None}),
        failure(wrong, "id INT, at TIMESTAMP"),
        failure({**wrong, "cursorColumn": "at"}, "id INT"),
        failure(wrong),
    ]

    assert [problem.code for problem in found] == [
        *("JDBC.UNREACHABLE", "JDBC.UNREACHABLE", "JDBC.TABLE_MISSING", "JDBC.COLUMN_MISSING", "JDBC.URL"),
        *(
            "SOURCE.OPTION_VALUE",
            "SOURCE.OPTION_REFUSED",
            "SOURCE.OPTION_MISSING",
            "JDBC.READ",
            "JDBC.VALUE",
            "JDBC.VALUE",
        ),
        "JDBC.COLUMN_TYPE",
    ]
    texts = [f"{problem.render()} {problem.params}" for problem in found]
    assert [text for text in texts if postgres.password in text or "not-the-passw0rd" in text] == []
    assert 'password authentication failed for user "reader"' in texts[0]
    assert "division by zero" in texts[8]


@pytest.mark.parametrize("does", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_query_that_the_database_aborts_is_retryable(postgres, does):
    ends_itself = f"SELECT 1 AS id FROM (SELECT {does}(pg_backend_pid()), pg_sleep(60)) AS x"

    problem = failure(postgres.options(query=ends_itself, cursorColumn="id"))

    assert (problem.code, problem.condition.retry) == ("JDBC.BROKEN_OFF", True)
    assert problem.detail != "."


@pytest.mark.parametrize(
    ("parameters", "code", "said"),
    [
        ("sslmode=require", "JDBC.UNREACHABLE", "SSL"),
        ("sslmode=verify-full&sslrootcert=/nowhere", "JDBC.URL", "sslrootcert"),
        ("sslmode=maybe", "JDBC.URL", "verify-full"),
        ("loginTimeout=3", "JDBC.URL", "loginTimeout"),
    ],
)
def test_url_parameters_are_applied_or_refused(postgres, parameters, code, said):
    options = postgres.options(dbtable="pg_catalog.pg_class", cursorColumn="oid")

    problem = failure({**options, "url": f"{postgres.jdbc_url}?{parameters}"})

    assert (problem.code, said in problem.detail) == (code, True)


def test_a_missing_driver_package_is_reported_with_the_install_command(sqlite):
    with pytest.raises(PipelineError) as raised:
        Reader({"url": "postgresql+nosuchdriver://h/d", "dbtable": "t", "cursorColumn": "id"})
    with pytest.raises(PipelineError) as mysql:
        Reader({"url": "jdbc:mysql://h/d", "dbtable": "t", "cursorColumn": "id"})

    assert raised.value.code == "JDBC.URL"
    assert mysql.value.code == "SOURCE.PACKAGE_MISSING"
    assert "pip install pymysql" in mysql.value.hint

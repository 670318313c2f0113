"""Which problems of a sink are an outage, whose end alone will solve them."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sinks.outages import is_outage
from headrace.sources.jdbc_connection import database_of


def problem(code, **more):
    return PipelineError(code, database="crm", name="crm", reason="so it is", **more)


@pytest.mark.parametrize(
    "found",
    [
        problem("JDBC.UNREACHABLE"),
        problem("JDBC.UNREACHABLE", state="57P03"),
        problem("JDBC.BROKEN_OFF"),
        problem("JDBC.BROKEN_OFF", state="57P01"),
        problem("JDBC.BROKEN_OFF", state="08006"),
        problem("SINK.HTTP_DOWN"),
        problem("SINK.HTTP_DOWN", state="503"),
    ],
)
def test_an_unreachable_or_stopping_service_is_an_outage(found):
    assert is_outage(found)


@pytest.mark.parametrize(
    "found",
    [
        problem("JDBC.UNREACHABLE", state="28P01"),
        problem("JDBC.UNREACHABLE", state="3D000"),
        problem("JDBC.BROKEN_OFF", state="57014"),
        problem("JDBC.BROKEN_OFF", state="40P01"),
        problem("JDBC.BROKEN_OFF", state="53100"),
        problem("SINK.HTTP_DOWN", state="500"),
        problem("JDBC.WRITE", state="23505"),
    ],
)
def test_an_error_that_the_same_rows_can_cause_again_is_not_an_outage(found):
    assert not is_outage(found)


def driver(module, *arguments, **attributes):
    """An error as a driver of that name raises it."""
    kind = type("OperationalError", (Exception,), {"__module__": module, **attributes})
    return kind(*arguments)


class Refusing:
    """An engine that gives no connection."""

    def __init__(self, error):
        self.error = error

    def connect(self):
        raise self.error


def of_driver(error):
    """The problem that is made of an error of a driver, when it was to connect."""
    database = database_of("postgresql+pg8000://reader:s3cret@db/crm", None, None)
    with pytest.raises(PipelineError) as caught, database.connect(Refusing(error)):
        pass
    return caught.value


NO_ENTRY = 'connection to server at "db", port 5432 failed: FATAL:  password authentication failed for user "reader"'


@pytest.mark.parametrize(
    "error",
    [
        driver("psycopg", NO_ENTRY),
        driver("psycopg2", 'FATAL:  database "crm" does not exist', pgcode=None),
        driver("psycopg2", "no entry", pgcode="28P01"),
        driver("pymysql.err", 1045, "Access denied for user 'reader'"),
        driver("pymysql.err", 1049, "Unknown database 'crm'"),
    ],
)
def test_a_refused_login_is_not_an_outage_with_any_driver(error):
    assert not is_outage(of_driver(error))


@pytest.mark.parametrize(
    "error",
    [
        driver("psycopg", "connection refused"),
        driver("psycopg", "FATAL:  the database system is starting up"),
        driver("psycopg2", "FATAL:  sorry, too many clients already"),
        driver("psycopg", "FATAL:  the database system is not yet accepting connections"),
        driver("pymysql.err", 2003, "Can't connect to MySQL server on 'db'"),
    ],
)
def test_an_unreachable_database_is_an_outage_with_any_driver(error):
    assert is_outage(of_driver(error))

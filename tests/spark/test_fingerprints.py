"""What tells two streams apart that one line of a script starts."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import functions as F

from headrace.spark.notebook.stream_fingerprint import StreamFingerprints


def fingerprint(rows, *functions):
    """That of the first stream of a run."""
    return StreamFingerprints().of(rows, *functions)


@pytest.fixture
def stream(headrace_session):
    return headrace_session.readStream.format("rate").load


def writer_for(table):
    return lambda _batch, _number: table


class Writer:
    def __init__(self, table):
        self.table = table

    def write(self, _batch, _number):
        return self.table


def adding(number):
    return F.udf(lambda value: value + number, "long")


@pytest.mark.parametrize(
    "kind",
    [
        lambda rows, text: fingerprint(rows.where(F.col("value") > len(text))),
        lambda rows, text: fingerprint(rows.withColumn("said", F.lit("a" * 500 + text))),
        lambda rows, text: fingerprint(rows.select(adding(len(text))("value"))),
        lambda rows, text: fingerprint(rows, writer_for(text)),
        lambda rows, text: fingerprint(rows, partial(print, text)),
        lambda rows, text: fingerprint(rows, Writer(text).write),
        lambda rows, text: fingerprint(rows, lambda _batch, _number, table=text: table),
    ],
    ids=["filter", "long text", "function of Python", "closure", "partial", "method", "default"],
)
def test_fingerprints_differ_exactly_when_captured_values_differ(stream, kind):
    assert kind(stream(), "a") == kind(stream(), "a")
    assert kind(stream(), "a") != kind(stream(), "ab")


def test_values_collected_by_a_function_do_not_change_its_fingerprint(stream):
    run, seen = StreamFingerprints(), []

    before = run.of(stream(), seen.append, lambda batch, _number: seen.append(batch))
    seen.append("a row")

    assert run.of(stream(), seen.append, lambda batch, _number: seen.append(batch)) == before


def test_fingerprints_differ_when_captured_dictionaries_differ(stream):
    run = StreamFingerprints()
    writers = [writer_for({"table": table}) for table in ("a", "b")]

    assert run.of(stream(), writers[0]) != run.of(stream(), writers[1])

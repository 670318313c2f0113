"""Where a query calls ``read_files``, ``read_kafka`` and the like, and what with."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sql.source_functions import source_calls


def refusal(source):
    with pytest.raises(PipelineError) as raised:
        source_calls(f"SELECT * FROM {source}")
    return raised.value


@pytest.mark.parametrize(
    ("stands", "streams"),
    [("STREAM read_files('/a')", True), ("STREAM(read_files('/a'))", True), ("read_files('/a')", False)],
)
def test_a_source_call_is_found_with_its_stream_keyword(stands, streams):
    text = f"SELECT * FROM {stands} AS f WHERE a = 'read_files(1)' -- read_files('/b')"

    (call,) = source_calls(text)

    assert (text[call.start : call.end], call.streams, call.path) == (stands, streams, "/a")


def test_named_literal_arguments_become_options():
    (call,) = source_calls(
        "SELECT * FROM read_files('/a', format => 'csv', header => TRUE, `cloudFiles.maxFilesPerTrigger` => 5)"
    )

    assert dict(call.options) == {"format": "csv", "header": "true", "cloudFiles.maxFilesPerTrigger": "5"}


def test_cloud_files_takes_a_format_and_a_map_of_options():
    (call,) = source_calls("SELECT * FROM cloud_files('/a', 'json', map('multiLine', 'true'))")

    assert (call.format, dict(call.options)) == ("json", {"multiLine": "true"})


def test_read_kafka_takes_only_options():
    (call,) = source_calls(
        "SELECT * FROM STREAM"
        " read_kafka(bootstrapServers => 'a:1', subscribe => 't', `kafka.sasl.mechanism` => 'PLAIN')"
    )

    assert (call.format, call.streams, call.reads_files) == ("kafka", True, False)
    assert dict(call.options) == {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "kafka.sasl.mechanism": "PLAIN"}
    assert "PLAIN" not in repr(call)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("read_kafka('t')", "has no name"),
        ("read_kinesis(streamName => concat('hunter2', 'b'))", "concat ( '...' , '...' ) is not a literal"),
    ],
)
def test_functions_that_read_no_files_accept_only_named_literals(text, says):
    error = refusal(f"STREAM {text}")

    assert says in error.params["reason"]
    assert text.partition("(")[0] in error.hint


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "path is missing"),
        ("'/a', 'json'", "has no name"),
        ("'/a', format => concat('js', 'on')", "is not a literal"),
        ("path", "is not a literal"),
    ],
)
def test_invalid_arguments_of_read_files_are_refused_with_the_reason(arguments, says):
    error = refusal(f"read_files({arguments})")

    assert error.code == "SQL.SOURCE_ARGUMENT"
    assert says in error.params["reason"]


@pytest.mark.parametrize("text", ["SELECT read_files FROM t", "SELECT x.read_files(1)", "SELECT 'read_files(1)'"])
def test_other_uses_of_the_function_names_are_not_calls(text):
    assert source_calls(text) == ()

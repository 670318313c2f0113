"""Where a query calls ``read_files`` and ``cloud_files``, and what with."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sql.file_functions import files_calls


@pytest.mark.parametrize(
    ("stands", "streams"),
    [("STREAM read_files('/a')", True), ("STREAM(read_files('/a'))", True), ("read_files('/a')", False)],
)
def test_a_call_is_found_with_its_stream(stands, streams):
    text = f"SELECT * FROM {stands} AS f WHERE a = 'read_files(1)' -- read_files('/b')"

    (call,) = files_calls(text)

    assert (text[call.start : call.end], call.streams, call.path) == (stands, streams, "/a")


def test_arguments_have_names_and_literals():
    (call,) = files_calls(
        "SELECT * FROM read_files('/a', format => 'csv', header => TRUE, `cloudFiles.maxFilesPerTrigger` => 5)"
    )

    assert dict(call.options) == {"format": "csv", "header": "true", "cloudFiles.maxFilesPerTrigger": "5"}


def test_the_older_function_has_a_format_and_a_map():
    (call,) = files_calls("SELECT * FROM cloud_files('/a', 'json', map('multiLine', 'true'))")

    assert (call.format, dict(call.options)) == ("json", {"multiLine": "true"})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "no path"),
        ("'/a', 'json'", "has no name"),
        ("'/a', format => concat('js', 'on')", "is no literal"),
        ("path", "is no literal"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(arguments, says):
    with pytest.raises(PipelineError) as raised:
        files_calls(f"SELECT * FROM read_files({arguments})")

    assert raised.value.code == "SQL.FILES_ARGUMENT"
    assert says in raised.value.params["reason"]


@pytest.mark.parametrize("text", ["SELECT read_files FROM t", "SELECT x.read_files(1)", "SELECT 'read_files(1)'"])
def test_other_texts_call_nothing(text):
    assert files_calls(text) == ()

"""``input_file_name()`` in queries over files: the fields of ``_metadata``, where nothing else changes by that."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sql.input_file import names_column, replace_input_file_calls


@pytest.mark.parametrize(
    ("text", "mapped"),
    [
        ("SELECT id, INPUT_FILE_NAME() AS f FROM v", "SELECT id, {path} AS f FROM v"),
        ("SELECT *, input_file_name() AS f FROM v", "SELECT *, {path} AS f FROM v"),
        ("SELECT v.*, input_file_name ( ) f FROM v", "SELECT v.*, {path} f FROM v"),
        ("SELECT * EXCEPT (a), input_file_name() f FROM v", "SELECT * EXCEPT (a), {path} f FROM v"),
        (
            "WITH a AS (SELECT *, input_file_block_start() s FROM v) SELECT s * 2, count(*) FROM a",
            "WITH a AS (SELECT *, m.file_block_start s FROM v) SELECT s * 2, count(*) FROM a",
        ),
        (
            "SELECT DISTINCT input_file_name() f, input_file_block_length() FROM v",
            "SELECT DISTINCT {path} f, m.file_block_length FROM v",
        ),
    ],
)
def test_input_file_functions_are_replaced_by_metadata_fields(text, mapped):
    assert replace_input_file_calls(text, "m") == mapped.replace(
        "{path}", "regexp_replace(m.file_path, '^file:/(?!/)', 'file:///')"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'input_file_name()' FROM v",
        "SELECT input_file_name FROM v -- input_file_name()",
        "SELECT own.input_file_name() FROM v",
    ],
)
def test_other_uses_of_the_function_names_are_not_replaced(text):
    assert replace_input_file_calls(text, "m") is None


def test_the_column_is_found_in_identifiers_but_not_in_paths():
    assert names_column("SELECT _METADATA.file_name FROM v", "_metadata")
    assert not names_column("SELECT * FROM read_files('/data/_metadata')", "_metadata")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT *, input_file_name() f FROM v",
        "SELECT *, input_file_name() f FROM v UNION ALL SELECT * FROM w",
        "SELECT struct(*), input_file_name() f FROM v",
        "SELECT to_json(struct(1, *)), input_file_name() f FROM v",
        "SELECT *, count(*) AS n FROM v WHERE input_file_name() LIKE 'x' GROUP BY ALL",
        "SELECT id FROM w WHERE id IN (SELECT * FROM v WHERE input_file_name() LIKE 'x')",
    ],
)
def test_a_call_is_rejected_where_a_metadata_column_would_change_a_star(text):
    with pytest.raises(PipelineError) as refused:
        replace_input_file_calls(text, "_metadata")

    assert refused.value.code == "AUTO_LOADER.INPUT_FILE"
    assert "_metadata.file_path" in refused.value.hint

"""What a reader is told, checked at once: names, values, and what does not go together."""

from __future__ import annotations

import pytest

from headrace.autoloader.option_table import OPTIONS
from headrace.autoloader.options import loader_options
from headrace.errors import Problems
from headrace.options.option import Treatment


def problems(**given):
    options = {"cloudFiles.format": "json", **{name.replace("__", "."): value for name, value in given.items()}}
    with pytest.raises(Problems) as raised:
        loader_options(options)
    return {error.code: error for error in raised.value}


def test_defaults_match_the_documentation():
    options = loader_options({"cloudFiles.format": "JSON"})

    assert (options.file_format, options.max_files, options.include_existing) == ("json", 1000, True)
    assert (options.infer_types, options.allow_overwrites, options.evolution_mode) == (False, False, None)


def test_option_names_ignore_case_and_values_are_parsed_as_in_spark():
    options = loader_options(
        {
            "CLOUDFILES.FORMAT": "csv",
            "cloudfiles.maxbytespertrigger": "10g",
            "cloudFiles.allowOverwrites": True,
            "cloudFiles.schemaHints": "id LONG, amount DECIMAL(18,2)",
            "cloudFiles.rescuedDataColumn": "_rescued",
            "header": "TRUE",
            "modifiedAfter": "2024-01-01T00:00:00Z",
            "cloudFiles.partitionColumns": "a, b",
            "path": "/in",
        }
    )

    assert options.max_bytes == 10 * 1024**3
    assert options.allow_overwrites
    assert [hint.path for hint in options.hints] == [("id",), ("amount",)]
    assert (options.rescued_column, options.partition_columns) == ("_rescued", ("a", "b"))
    assert options.format_options == {"header": "true"}
    assert options.after_ns == 1704067200 * 10**9


@pytest.mark.parametrize(
    ("text", "more", "hour"),
    [
        ("2024-01-01T12:00:00+02:00", {}, 10),
        ("2024-01-01 12:00:00 America/New_York", {}, 17),
        ("2024-01-01T12", {}, 7),
        ("2024-01-01 12:00:00", {"TimeZone": "Europe/Berlin"}, 11),
        ("2024-01-01T12:00:00Z", {"timeZone": "+02:00"}, 12),
    ],
)
def test_a_time_uses_its_own_zone_or_that_of_the_option_or_the_session(text, more, hour):
    options = loader_options({"cloudFiles.format": "json", "modifiedAfter": text, **more}, time_zone="+05:00")

    assert options.after_ns == (1704067200 + hour * 3600) * 10**9


def test_times_keep_microseconds():
    options = loader_options({"cloudFiles.format": "json", "modifiedBefore": "2024-01-01T00:00:00.123457Z"})

    assert options.before_ns == 1704067200_123457_000


def test_an_invalid_time_zone_is_reported_as_the_only_problem():
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "json", "modifiedAfter": "2024-01-01", "timeZone": "Nowhere"})

    (error,) = raised.value
    assert error.params["option"] == "timeZone"


def test_an_empty_list_of_partition_columns_means_no_partition_columns():
    assert loader_options({"cloudFiles.format": "json", "cloudFiles.partitionColumns": ""}).partition_columns == ()


def test_an_unknown_option_is_refused_with_the_nearest_name():
    error = problems(cloudFiles__maxFilePerTrigger="1")["AUTO_LOADER.OPTION_UNKNOWN"]

    assert error.params["near"] == "cloudFiles.maxFilesPerTrigger"


def test_validate_options_false_accepts_only_unknown_format_options():
    given = {"cloudFiles.format": "json", "cloudFiles.validateOptions": "false"}

    assert loader_options({**given, "somethingElse": "1"}).file_format == "json"
    with pytest.raises(Problems):
        loader_options({**given, "cloudFiles.somethingElse": "1"})


def test_an_option_of_another_format_is_refused():
    assert "AUTO_LOADER.OPTION_OF_FORMAT" in problems(header="true")


@pytest.mark.parametrize(
    "name", [o.name for o in OPTIONS.options if o.treatment is Treatment.REFUSED and not o.formats]
)
def test_an_unsupported_option_is_refused_with_the_reason(name):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "json", name: "x"})

    (error,) = raised.value
    assert error.code == "AUTO_LOADER.OPTION_REFUSED"
    assert error.params["reason"]
    assert error.params["instead"]


def test_an_option_with_an_unsupported_prefix_is_refused_under_its_full_name():
    error = problems(cloudFiles__resourceTag__team="x")["AUTO_LOADER.OPTION_REFUSED"]

    assert error.params["option"] == "cloudFiles.resourceTag.team"


def test_options_without_effect_are_listed_as_ignored():
    assert loader_options({"cloudFiles.format": "json", "cloudFiles.fetchParallelism": "2"}).ignored_options == (
        "cloudFiles.fetchParallelism",
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("cloudFiles.maxFilesPerTrigger", "many", "whole number"),
        ("cloudFiles.maxFilesPerTrigger", "0", "whole number"),
        ("cloudFiles.maxBytesPerTrigger", "10 parrots", "number of bytes"),
        ("cloudFiles.includeExistingFiles", "yes", "true or false"),
        ("cloudFiles.schemaHints", "a INTT", "expected a type"),
        ("cloudFiles.schemaEvolutionMode", "grow", "addNewColumnsWithTypeWidening, rescue"),
        ("cloudFiles.maxFileAge", "1 day", "at least 14 days"),
        ("cloudFiles.backfillInterval", "soon", "10 seconds"),
        ("cloudFiles.cleanSource", "MOVE", "moveDestination"),
        ("pathGlobFilter", "[a", "unclosed bracket"),
        ("modifiedAfter", "yesterday", "use a time"),
        ("headrace.maxRecordBytes", "0", "above 0"),
    ],
)
def test_an_invalid_value_is_refused_with_the_reason(name, value, says):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "csv", name: value})

    (error,) = raised.value
    assert error.code == "AUTO_LOADER.OPTION_VALUE"
    assert says in error.params["reason"]


def test_every_problem_is_reported_at_once():
    found = problems(cloudFiles__maxFilesPerTrigger="x", cloudFiles__nothing="1", cloudFiles__awsAccessKey="secret")

    assert len(found) == 3
    assert not any("secret" in str(error) for error in found.values())


@pytest.mark.parametrize("given", [{}, {"cloudFiles.format": "jsonn"}, {"cloudFiles.format": "delta"}])
def test_a_missing_or_unsupported_format_is_refused(given):
    with pytest.raises(Problems) as raised:
        loader_options(given)

    (error,) = raised.value
    assert error.code == "AUTO_LOADER.FORMAT"
    assert "json" in str(error.params["formats"])

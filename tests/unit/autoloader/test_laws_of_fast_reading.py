"""However a text is read, at once by columns or record by record, the rows and the errors are the same."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.autoloader.fast_reading import LAW, PLANS, rows_or_error

from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.datetime_patterns import date_pattern
from headrace.autoloader.reading.conversion.fitting import TextConverter
from headrace.autoloader.reading.conversion.pattern_columns import can_vectorise
from headrace.autoloader.reading.csv.blocks import CsvBlocks
from headrace.autoloader.reading.csv.lines import Dialect
from headrace.autoloader.reading.json.blocks import JsonBlocks
from headrace.autoloader.reading.json.records import read_records
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import parse_struct

PATH = "/in/a"
# Values of JSON as they are written, in all forms that have been read wrongly somewhere.
WRITTEN = st.sampled_from(
    [
        *(
            "null",
            "true",
            "false",
            "1",
            "-1",
            "0",
            "-0",
            "-0.0",
            "1.5",
            "1.50",
            "1E5",
            "1e400",
            "3000000000",
            "127",
            "128",
        ),
        *(
            "9223372036854775807",
            "9223372036854775808",
            "123.45",
            "12345678.9",
            "0.001",
            "1.2.3",
            "01",
            "-",
            "+1",
            "1.",
        ),
        *("NaN", "Infinity", "-Infinity", "Inf", "nul", "tru", "'x'", '"NaN"', '"1"', '""', '"x"', '"é😀"', '"a\\"b"'),
        *('"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"a\\\\"', '"\\\\\\""', '"\\q"', '"a\tb"', '"}{"', '"[,:]"'),
        *(
            '"x: NaN"',
            '", Inf"',
            '"2024-01-02"',
            '"2024-13-01"',
            '"02/01/2024"',
            '"31/02/2024"',
            '"2024-01-02T03:04:05"',
        ),
        *('"2024-01-02 03:04:05.123Z"', '"2024-01-02T03:04:05+02:00"', '"soon"', "5 ", "\t7", "1 2", "{}", "[]", "[ ]"),
        *(
            "{ }",
            '{"a":1}',
            '{"a":1,"a":2}',
            '{"a": {"b": [1, 2.50]}}',
            '{"k":"v","l":null}',
            '{"k":1,"k":"x"}',
            "{null}",
        ),
        *(
            '{"k"}',
            '{"k":}',
            '{"k":1,}',
            '{,"k":1}',
            '{"k":1 "l":2}',
            '{"k"::1}',
            '{"k":1]',
            '{{"k":"v"}}',
            '{"k":"v"},{}',
        ),
        *("[1]", "[1,null]", '["x",1.50,true]', "[1,]", "[,1]", "[[1],[2]]", '[{"a":1},{"a":"x"},{}]', "[1}", '["]"]'),
        *(
            '{"\\u006b":1}',
            '{"K":1}',
            '{"a":1,"new":2}',
            '{"a":"\\ud83d"}',
            '{"a":NaN}',
            '{"a":Inf}',
            '{"a":\t1}',
            '{"":1}',
        ),
    ]
)
NAMES = st.sampled_from(
    ['"a"', '"b"', '"c"', '"d"', '"A"', '"new"', '"\\u0061"', '"more"', "a", '""', '"a" ', '"é"', '"x\\"y"']
)
MEMBERS = st.lists(st.tuples(NAMES, st.sampled_from([":", ": ", ":  "]), WRITTEN).map("".join), max_size=4)
RECORDS = MEMBERS.map(lambda members: "{" + ",".join(members) + "}")
ODD = st.sampled_from(
    [
        *(
            "",
            " ",
            "{",
            "}",
            "{}{}",
            '{"a":1}{"a":2}',
            '{"a":1} {"b":2}',
            "[{}]",
            '[{"a":1},{"a":"x"}]',
            "5",
            '"x"',
            "{]",
        ),
        *(
            '{"a":1',
            '{"a":"x',
            '{"a":"x}',
            '{"a":1}}',
            '{"a":1},',
            '  {"a":1}  ',
            '\ufeff{"a":1}',
            "//",
            '{"a":1}x',
            "null",
        ),
        *(
            '{"a":"\\',
            '{"a":"\\\\"}',
            '{"a":"\\"}',
            '{"a":1\\"}',
            '{"a":1}\x0c',
            '"',
            '{"a":{"b":1}',
            "{'a':1}",
            '{"a"}',
        ),
    ]
)
LINES = st.lists(st.one_of(RECORDS, RECORDS, RECORDS, ODD), max_size=8)
KINDS = [
    *(
        "STRING",
        "BIGINT",
        "INT",
        "TINYINT",
        "DOUBLE",
        "FLOAT",
        "BOOLEAN",
        "DECIMAL(5,2)",
        "DECIMAL(3,3)",
        "DATE",
        "TIMESTAMP",
    ),
    *("TIMESTAMP_NTZ", "MAP<STRING,STRING>", "MAP<STRING,INT>", "MAP<STRING,MAP<STRING,STRING>>", "ARRAY<STRING>"),
    *("ARRAY<INT>", "ARRAY<ARRAY<INT>>", "STRUCT<a: STRING>", "STRUCT<a: INT, k: STRING>", "ARRAY<STRUCT<a: STRING>>"),
    *(
        "STRUCT<a: STRUCT<b: ARRAY<STRING>>>",
        "ARRAY<MAP<STRING,STRING>>",
        "MAP<STRING,STRUCT<a: INT>>",
        "ARRAY<DOUBLE>",
    ),
]
OPTIONS = st.sampled_from(
    [
        {},
        {},
        {"dateFormat": "dd/MM/yyyy", "timestampFormat": "dd/MM/yyyy"},
        {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[XXX]"},
        {"allowNonNumericNumbers": "false", "allowUnquotedFieldNames": "true"},
        {"timestampNTZFormat": "yyyy-MM-dd VV"},
    ]
)


@LAW
@given(
    lines=LINES,
    kinds=st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
    changes=PLANS,
    options=OPTIONS,
    zone=st.sampled_from(["UTC", "Europe/Paris"]),
    end=st.sampled_from(["", "\n"]),
)
def test_json_is_read_at_once_as_it_is_read_record_by_record(lines, kinds, changes, options, zone, end):
    columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcd", kinds, strict=True))
    columns += ", _corrupt_record STRING" if "corrupt_column" in changes else ""
    plan = ReadPlan("json", parse_struct(columns), "/in", time_zone=zone, format_options=options, **changes)

    at_once = rows_or_error(JsonBlocks(plan, PATH).read(("\n".join(lines) + end).encode()))

    text = "\n".join(lines).removeprefix("\ufeff")
    assert at_once == rows_or_error(read_records(plan, PATH, text.split("\n"), 10**9))


@LAW
@given(
    lines=st.lists(st.one_of(RECORDS.map(str.encode), st.binary(max_size=8)), max_size=6),
    kinds=st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
)
def test_bytes_that_are_no_utf8_concern_only_their_line(lines, kinds):
    columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcd", kinds, strict=True))
    plan = ReadPlan("json", parse_struct(columns), "/in", rescued_column="_rescued_data")
    block = b"\n".join(lines).replace(b"\r", b"")

    at_once = rows_or_error(JsonBlocks(plan, PATH).read(block))

    texts = block.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").split("\n")
    assert at_once == rows_or_error(read_records(plan, PATH, texts, 10**9))


SPACED = MEMBERS.map(lambda members: "{\n" + ",\n ".join(members) + "\n}")
DOCUMENTS = st.one_of(
    st.lists(SPACED, max_size=4).map(lambda records: "[" + "\n, ".join(records) + "]\n"),
    st.lists(st.one_of(SPACED, ODD), max_size=4).map("\n".join),
    st.lists(st.one_of(RECORDS, SPACED), max_size=4).map(",".join),
    st.sampled_from(
        ["[]", "[\n]", "[{},]", "[{}{}]", "[{},,{}]", "[,{}]", "{},\n,{}", ",{}", "[[{}]]", "[{}", "[{}]{}", "{}[{}]"]
    ),
)


@LAW
@given(
    text=DOCUMENTS,
    kinds=st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
    changes=PLANS,
    begin=st.sampled_from(["", "\ufeff", "\n "]),
)
def test_records_over_several_lines_are_read_at_once_as_they_are_read_singly(text, kinds, changes, begin):
    columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcd", kinds, strict=True))
    columns += ", _corrupt_record STRING" if "corrupt_column" in changes else ""
    plan = ReadPlan("json", parse_struct(columns), "/in", **changes)

    at_once = rows_or_error(JsonBlocks(plan, PATH).read_document((begin + text).encode()))

    assert at_once == rows_or_error(read_records(plan, PATH, [(begin + text).removeprefix("\ufeff")], 10**9))


VALUES = st.one_of(
    st.text(alphabet='ab ,;"\\é\0#\t', max_size=6),
    st.sampled_from(
        ["1", "-5", "2.5", "NA", '"NA"', "true", "2024-01-02", "02/01/2024", "31/02/2024", "2024-13-01", '"x"']
    ),
    st.sampled_from(
        ['"a,b"', '"a;b"', '""', '"a""b"', '""""', '"""a"', '"a"""', '"a\\"b"', '"a\nb"', '"a', "3000000000", " 1 "]
    ),
)
PLAIN_LINES = st.tuples(
    st.sampled_from(["", "x", '"a,b"', '"a;b"', "é", "NA", '"NA"', '""', "2024-01-02", '"a""b"', " x ", "'y'"]),
    st.sampled_from(["", "1", "-5", "x", '"7"', "3000000000"]),
    st.sampled_from(["", "2024-01-02", "2024-13-01", '"2024-01-02"', "02/01/2024", '"a\nb"']),
)
DIALECTS = st.sampled_from(
    [
        {},
        {"escape": '"'},
        {"escape": ""},
        {"nullValue": "NA"},
        {"nullValue": "NA", "escape": '"'},
        {"comment": "#"},
        {"sep": ";"},
        {"sep": "\t"},
        {"quote": "'"},
        {"quote": ""},
        {"escape": "é"},
        {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
        {"ignoreLeadingWhiteSpace": "true"},
        {"ignoreTrailingWhiteSpace": "true"},
        {"dateFormat": "dd/MM/yyyy"},
    ]
)


@LAW
@given(
    lines=st.one_of(
        st.lists(PLAIN_LINES, min_size=1, max_size=8),
        st.lists(st.one_of(PLAIN_LINES, st.lists(VALUES, min_size=1, max_size=4)), max_size=8),
    ),
    dialect=DIALECTS,
    multi_line=st.booleans(),
    cut=st.integers(0, 8),
    names=st.sampled_from([None, None, ("a", "b", "c"), ("c", "more", "a"), ("b", "a", "x", "y"), ("A", "b", "é")]),
    changes=PLANS,
)
def test_csv_is_read_at_once_as_it_is_read_line_by_line(lines, dialect, multi_line, cut, names, changes):
    columns = "a STRING, b INT, c DATE" + (", _corrupt_record STRING" if "corrupt_column" in changes else "")
    options = {**dialect, "multiLine": str(multi_line).lower()}
    plan = ReadPlan("csv", parse_struct(columns), "/in", format_options=options, **changes)
    # Unknown columns stop an evolving batch before it is read.
    names = None if changes.get("evolves") else names
    separator = options.get("sep", ",")
    texts = "\n".join(separator.join(values) for values in lines).split("\n")
    blocks = ["\n".join(part) + "\n" for part in (texts[:cut], texts[cut:]) if part]

    def read(*, singly):
        reader = CsvBlocks(plan, PATH, Dialect.of(options), names)
        for block in blocks:
            yield from (reader._by_line if singly else reader.read)(block.encode())
        yield from reader.end("")

    assert rows_or_error(read(singly=False)) == rows_or_error(read(singly=True))


PATTERNS = [
    *(
        "yyyy-MM-dd HH:mm:ss",
        "dd/MM/yyyy",
        "d/M/yy",
        "yyyyMMdd",
        "yyyy-DDD",
        "MMM d yyyy",
        "d MMMM yyyy h:mm a",
        "yyyy",
    ),
    *("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][X]", "HH:mm", "K:mm a", "k:mm", "yyyyy-MM-dd"),
    *(
        "yyyy-MM-dd xx",
        "yyyy-MM-ddZ",
        "[yyyy-]MM-dd",
        "yy[-MM]",
        "yyyy-MM-dd VV",
        "dd.MM.yyyy HH:mm",
        "yyyy yyyy",
        "h [a]",
    ),
]
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - of no zone
WRITTEN_TIMES = st.one_of(
    st.builds(
        lambda moment, form: moment.strftime(form).replace("%Y", f"{moment.year:04}"),
        MOMENTS,
        st.sampled_from(
            [
                *(
                    "%Y-%m-%d %H:%M:%S",
                    "%d/%m/%Y",
                    "%d/%m/%y",
                    "%Y%m%d",
                    "%Y-%j",
                    "%b %d %Y",
                    "%d %B %Y %I:%M %p",
                    "%Y",
                ),
                *(
                    "%Y-%m-%dT%H:%M:%S.%f",
                    "%Y-%m-%dT%H:%M:%S.123Z",
                    "%Y-%m-%dT%H:%M:%S.1+05:30",
                    "%H:%M",
                    "%I:%M am",
                    "x%Y",
                ),
                *(
                    "%Y-%m-%d +0200",
                    "%Y-%m-%d-1900",
                    "%Y-%m-%d+1500",
                    "%m-%d",
                    "%y",
                    "%Y-%m-%d Europe/Paris",
                    "%d.%m.%Y %H:%M",
                ),
            ]
        ),
    ),
    st.text(alphabet="0123456789-/: TZ+.apmjJ", max_size=20),
    st.sampled_from(
        [
            "2024-02-30 00:00:00",
            "29/02/2023",
            "24:00",
            "0:00",
            "12:60",
            "\u017fep 1 2024",
            "٢٠٢٤",
            "0000",
            "9999-366",
            "2024-366",
        ]
    ),
)


@LAW
@given(
    texts=st.lists(st.one_of(st.none(), WRITTEN_TIMES), max_size=8),
    pattern=st.sampled_from(PATTERNS),
    kind=st.sampled_from(["date", "timestamp", "timestamp_ntz"]),
    zone=st.sampled_from(["UTC", "Europe/Paris", "America/New_York"]),
)
def test_texts_in_a_pattern_are_read_as_a_column_as_they_are_read_singly(texts, pattern, kind, zone):
    option = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}[kind]
    times = Times.of(zone, {option: pattern})
    read = {"date": times.parse_date, "timestamp": times.parse_timestamp, "timestamp_ntz": times.parse_timestamp_ntz}[
        kind
    ]
    compiled = date_pattern(pattern)
    if not can_vectorise(compiled):
        return

    values, left = TextConverter(kind, zone, compiled).convert(pa.array(texts, pa.string()))

    for place, (text, value) in enumerate(zip(texts, values.to_pylist(), strict=True)):
        if text is None or place in left:
            assert value is None or place in left
        else:
            assert value == read(text)


@pytest.mark.parametrize("text", ["2024-02-29 23:59:59", "0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_valid_texts_in_a_pattern_are_not_left(text):
    values, left = TextConverter("timestamp_ntz", "UTC", date_pattern("yyyy-MM-dd HH:mm:ss")).convert(pa.array([text]))

    assert (str(values[0]), list(left)) == (text, [])

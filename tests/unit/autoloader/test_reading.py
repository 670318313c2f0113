"""Contents of files as rows: what fits, what is rescued, what cannot be read; and that how it is read does not show."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.json.blocks import JsonBlocks
from headrace.autoloader.reading.json.records import read_records
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.plan import MalformedRecord, ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split, pack, split_files
from headrace.autoloader.schemas.inference import json_struct
from headrace.model.ddl import parse_struct

PATH = "/in/a.json"


def plan_of(columns, **changes):
    given = {"rescued_column": "_rescued_data", **changes}
    return ReadPlan("json", parse_struct(columns), "/in", **given)


def rows_of(text, columns, **changes):
    block = text.encode() if isinstance(text, str) else text
    return [row for batch in JsonBlocks(plan_of(columns, **changes), PATH).read(block) for row in batch.to_pylist()]


def one(text, columns, **changes):
    (row,) = rows_of(text, columns, **changes)
    return row


def rescued(row):
    text = row["_rescued_data"]
    return None if text is None else json.loads(text)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("INT", "-5", -5),
        ("DOUBLE", "1e3", 1000.0),
        ("DOUBLE", "3", 3.0),
        ("DOUBLE", '"NaN"', pytest.approx(float("nan"), nan_ok=True)),
        ("DOUBLE", "Infinity", float("inf")),
        ("FLOAT", "0.5", 0.5),
        ("DECIMAL(5,2)", "1.5", Decimal("1.50")),
        ("DECIMAL(5,2)", "1.255", Decimal("1.26")),
        ("DECIMAL(5,2)", '"7"', Decimal("7.00")),
        ("BOOLEAN", "true", True),
        ("STRING", '"x"', "x"),
        ("STRING", "1.50", "1.50"),
        ("STRING", "1E5", "1E5"),
        ("STRING", "-0", "-0"),
        ("STRING", "12345678901234567890123", "12345678901234567890123"),
        ("STRING", "true", "true"),
        ("STRING", '{"b" :  [1, 2.0]}', '{"b" :  [1, 2.0]}'),
        ("STRING", "[1,  null]", "[1,  null]"),
        ("STRING", '"\\u00e9\\ud83d\\ude00"', "é😀"),
        ("DATE", '"2024-02-29"', date(2024, 2, 29)),
        ("DATE", '"2024-2-9"', date(2024, 2, 9)),
        ("DATE", '"2024-02-29T10:00:00"', date(2024, 2, 29)),
        ("TIMESTAMP", '"2024-01-02T03:04:05.678Z"', datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)),
        ("TIMESTAMP", '"2024-01-02 03:04:05"', datetime(2024, 1, 2, 3, 4, 5, 0, UTC)),
        ("TIMESTAMP", '"2024-01-02 03:04:05+02:00"', datetime(2024, 1, 2, 1, 4, 5, 0, UTC)),
        ("TIMESTAMP", '"2024-01-02"', datetime(2024, 1, 2, tzinfo=UTC)),
        ("TIMESTAMP", "60", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", '"2024-01-02T03:04:05"', datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - of no zone
        ("BINARY", '"aGk="', b"hi"),
        ("ARRAY<INT>", "[1,null,2]", [1, None, 2]),
        ("MAP<STRING,INT>", '{"x":1}', [("x", 1)]),
        ("STRUCT<b:INT>", '{"b":1}', {"b": 1}),
        ("INT", "null", None),
    ],
)
def test_a_matching_value_is_read_as_in_spark(kind, written, value):
    row = one(f'{{"a":{written}}}', f"a {kind}")

    assert row["a"] == value
    assert row["_rescued_data"] is None


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("INT", '"5"', None),
        ("INT", "1.0", None),
        ("INT", "3000000000", None),
        ("BIGINT", "9223372036854775808", None),
        ("BOOLEAN", '"true"', None),
        ("DOUBLE", '"1.5"', None),
        ("DECIMAL(3,1)", "123.4", None),
        ("DATE", '"2024-02-30"', None),
        ("TIMESTAMP", '"yesterday"', None),
        ("ARRAY<INT>", '[1,"x"]', [1, None]),
        ("ARRAY<INT>", "5", None),
        ("STRUCT<b:INT>", "[]", None),
        ("BINARY", '"*"', None),
    ],
)
def test_a_type_mismatch_is_null_and_rescued_as_written(kind, written, value):
    row = one(f'{{"a":{written},"b":7}}', f"a {kind}, b INT")

    assert (row["a"], row["b"]) == (value, 7)
    assert row["_rescued_data"] == f'{{"a":{written},"_file_path":"{PATH}"}}'


@pytest.mark.parametrize("year", [2036, 2037, 2053, 9998])
def test_daylight_saving_time_applies_in_all_future_years(year):
    row = one(f'{{"a":"{year}-07-01T12:00:00"}}', "a TIMESTAMP", time_zone="America/New_York")

    assert row["a"] == datetime(year, 7, 1, 16, tzinfo=UTC)


@pytest.mark.parametrize("written", ['{"a":\t-0}', '{"a": -0}', '{"a":-0 }'])
def test_negative_zero_keeps_its_spelling_in_a_string_column(written):
    assert one(written, "a STRING")["a"] == "-0"


def test_negative_zero_keeps_its_spelling_in_an_array_of_strings():
    assert one('{"a":[1,-0]}', "a ARRAY<STRING>")["a"] == ["1", "-0"]


def test_unknown_fields_are_rescued_at_every_depth():
    row = one('{"a":{"b":1,"new":2.50},"more":["x"]}', "a STRUCT<b: INT>")

    assert row["a"] == {"b": 1}
    assert rescued(row) == {"a": {"new": 2.5}, "more": ["x"], "_file_path": PATH}
    assert '"new":2.50' in row["_rescued_data"]


def test_a_field_in_another_case_is_rescued_if_names_are_case_sensitive():
    assert rescued(one('{"A":1}', "a INT"))["A"] == 1
    assert one('{"A":1}', "a INT", case_sensitive=False)["a"] == 1


def test_nothing_is_rescued_without_a_rescued_data_column():
    assert one('{"a":"x","new":1}', "a INT", rescued_column=None) == {"a": None}


def test_the_last_of_duplicate_fields_is_read():
    assert one('{"a":1,"a":2}', "a INT")["a"] == 2


def test_a_type_mismatch_in_a_duplicate_field_keeps_the_earlier_value():
    row = one('{"a":1,"a":"x"}', "a INT")

    assert row["a"] == 1
    assert rescued(row)["a"] == "x"


@pytest.mark.parametrize("text", ["{broken", '{"a":1', "5", '"x"', '{"a":1,}', '{"a":01}', '{"a":"\t"}', "{'a':1,'b}"])
def test_a_malformed_record_is_rescued_whole(text):
    row = one(text, "a INT")

    assert row["a"] is None
    assert rescued(row) == {"_corrupt_record": text, "_file_path": PATH}


def test_a_malformed_record_goes_to_the_corrupt_record_column():
    row = one("{broken", "a INT, _corrupt_record STRING", corrupt_column="_corrupt_record")

    assert row == {"a": None, "_corrupt_record": "{broken", "_rescued_data": None}


@pytest.mark.parametrize("inside", ["1", '{"x": 1.50}'], ids=["a text", "a nested text"])
def test_a_corrupt_record_keeps_its_surrounding_whitespace(inside):
    line = f'\t{{"a": "x", "b": {inside}}}\xa0'

    row = one(line, "a INT, b STRING, _corrupt_record STRING", corrupt_column="_corrupt_record", rescued_column=None)

    assert row == {"a": None, "b": inside, "_corrupt_record": line}


def test_modes_drop_a_malformed_record_or_fail():
    text = '{"a":1}\n{broken\n{"a":2}'

    assert [row["a"] for row in rows_of(text, "a INT", mode="DROPMALFORMED")] == [1, 2]
    with pytest.raises(MalformedRecord, match="broken"):
        rows_of(text, "a INT", mode="FAILFAST")


def test_nonstandard_json_that_spark_accepts_is_read():
    assert one("{'a': 1}", "a INT")["a"] == 1
    assert one("{a: 1}", "a INT", format_options={"allowUnquotedFieldNames": "true"})["a"] == 1
    assert one("{0a-b: 1}", "`0a-b` INT", format_options={"allowUnquotedFieldNames": "true"})["0a-b"] == 1
    assert one('{"a": /* one */ 1}', "a INT", format_options={"allowComments": "true"})["a"] == 1
    assert one('{"a": 007}', "a INT", format_options={"allowNumericLeadingZeros": "true"})["a"] == 7


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a":1}\n\n  \n{"a":2}\n', [1, 2]),
        ('{"a":1}\r\n{"a":2}\r{"a":3}', [1, 2, 3]),
        ('{"a":1} {"a":2}\n{"a":3}', [1, 2, 3]),
        ('{"a":1}{"a":2}', [1, 2]),
        ('[{"a":1}] [{"a":2},{"a":3}]{"a":4}', [1, 2, 3, 4]),
        ('{"a":1},\n{"a":2},', [1, 2]),
        ('[{"a":1},{"a":2}]', [1, 2]),
        ("\ufeff" + '{"a":1}', [1]),
        ("\n \n", []),
    ],
)
def test_lines_are_split_into_records(text, values):
    assert [row["a"] for row in rows_of(text, "a INT")] == values


def test_a_record_over_several_lines_is_read_as_several_malformed_records():
    rows = rows_of('{"a":\n1}', "a INT")

    assert [rescued(row)["_corrupt_record"] for row in rows] == ['{"a":', "1}"]


@pytest.mark.parametrize("text", ['null\n{"a":1}', ' null\n{"a":1}', '\n\tnull\n{"a":1}'])
@pytest.mark.parametrize("columns", ["a INT", "a STRING", "a INT, m MAP<STRING,INT>"])
def test_null_is_no_record_and_ends_no_process(text, columns):
    first, second = rows_of(text, columns)

    assert rescued(first)["_corrupt_record"].strip() == "null"
    assert second["_rescued_data"] is None


def test_null_after_other_records_is_no_record():
    first, second = rows_of('{"a":1}\nnull', "a INT")

    assert (first["a"], rescued(second)["_corrupt_record"]) == (1, "null")


@pytest.mark.parametrize("begin", ["", "\r\n", "\ufeff", "\n \t"])
def test_null_in_a_sample_of_files_is_no_record(begin):
    assert json_struct([f'{begin}null\n{{"a":1}}\n'.encode()], {}) == parse_struct("a BIGINT")


def test_invalid_utf8_is_read_as_the_replacement_character():
    assert one(b'{"a":"x\xff"}', "a STRING")["a"] == "x\ufffd"


def test_unknown_fields_stop_an_evolving_batch_and_are_reported_together():
    with pytest.raises(UnknownFields) as raised:
        rows_of('{"a":1,"b":2}\n{"a":{"c":1}}\n{"d":null}', "a INT", evolves=True)

    assert raised.value.names == ("b", "d")
    assert raised.value.file == PATH


@pytest.mark.parametrize("text", ['{"a":1,"new":{}}', '{"a":1,"A":2}'])
def test_fields_that_cannot_extend_the_schema_do_not_stop_an_evolving_batch(text):
    assert one(text, "a INT", evolves=True)["a"] == 1


def test_new_fields_inside_a_map_do_not_stop_an_evolving_batch():
    row = one('{"m":{"k":{"b":1,"c":2}}}', "m MAP<STRING,STRUCT<b:INT>>", evolves=True)

    assert rescued(row)["m"] == {"k": {"c": 2}}


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just(-0.0),
    st.text(alphabet='aé"\\ \n1', max_size=5),
    st.sampled_from(["2024-01-02", "2024-01-02T03:04:05", "2024-01-02 03:04:05Z", "1.5", '"p":1.5', "}{", "-0"]),
)
_INNER = st.one_of(
    _SCALARS, st.lists(_SCALARS, max_size=3), st.dictionaries(st.sampled_from("abx"), _SCALARS, max_size=3)
)
_VALUES = st.one_of(_SCALARS, _INNER, st.dictionaries(st.sampled_from("abx"), _INNER, max_size=3))
_RECORDS = st.dictionaries(st.sampled_from("abcdep"), _VALUES, max_size=6)
_TYPES = st.sampled_from(
    [
        "BIGINT",
        "DOUBLE",
        "STRING",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "DECIMAL(10,2)",
        "ARRAY<STRING>",
        "STRUCT<a: STRING, b: BIGINT>",
    ]
)


@settings(max_examples=examples(150, 500), deadline=None)
@given(
    records=st.lists(_RECORDS, max_size=5),
    kinds=st.lists(_TYPES, min_size=6, max_size=6),
    evolves=st.booleans(),
    zero=st.sampled_from(["-0", "-0.0", "-0 "]),
    begin=st.sampled_from(["", "\n"]),
    between=st.sampled_from(["\n", "\n", ""]),
    end=st.sampled_from(["", "\n", "\n\n"]),
)
def test_arrow_parses_a_block_to_the_same_rows_as_record_by_record_parsing(
    records, kinds, evolves, zero, begin, between, end
):
    columns = ", ".join(f"{name} {kind}" for name, kind in zip("abcdep", kinds, strict=True))
    plan = plan_of(columns, evolves=evolves)
    texts = [json.dumps(record).replace("-0.0", zero) for record in records]
    # The last two may be on one line.
    lines = [*texts[:-2], between.join(texts[-2:])] if between == "" else texts

    def read(batches):
        try:
            return [str(row) for batch in batches for row in batch.to_pylist()]
        except UnknownFields as error:
            return error.names

    at_once = read(JsonBlocks(plan, PATH).read((begin + "\n".join(lines) + end).encode()))
    singly = read(read_records(plan, PATH, lines, 10**9))
    assert at_once == singly


@pytest.fixture
def at_once(monkeypatch):
    """No record is read by itself."""

    def refuse(*_):
        pytest.fail("record by record")

    monkeypatch.setattr("headrace.autoloader.reading.json.blocks.read_records", refuse)
    monkeypatch.setattr("headrace.autoloader.reading.json.fitting_lines.read_lines_singly", refuse)


@pytest.mark.usefixtures("at_once")
def test_a_block_of_matching_records_is_parsed_by_arrow():
    record = {"a": 1, "b": 1.5, "c": "x", "d": True, "e": {"a": 2, "p": [1, 2]}, "p": "2024-01-02T03:04:05"}
    typed = "a BIGINT, b DOUBLE, c STRING, d BOOLEAN, e STRUCT<a: INT, p: ARRAY<INT>>, p TIMESTAMP"
    texts = "a STRING, b STRING, c STRING, d STRING, e STRUCT<a: STRING, p: ARRAY<STRING>>, p STRING"

    block = "\n".join([json.dumps(record)] * 3)

    assert len(rows_of(block, typed)) == 3
    assert rows_of(block, texts)[0]["b"] == "1.5"


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="ab é", max_size=12), max_size=20),
    ends=st.booleans(),
    step=st.integers(1, 30),
    block=st.integers(1, 40),
)
def test_each_line_belongs_to_one_split_for_any_split_size(tmp_path_factory, lines, ends, step, block):
    file = tmp_path_factory.mktemp("lines") / "a.txt"
    content = "\n".join(lines).encode() + (b"\n" if ends else b"")
    file.write_bytes(content)
    splits = split_files([(str(file), len(content), 0)], divisible=True, max_bytes=step)

    read = b"".join(piece for split in splits for piece in line_blocks(split, block_bytes=block))

    assert read == content


def test_splits_are_distributed_in_order_and_evenly():
    splits = [Split("f", 100, 0, 10 * number, 10 * number + 10) for number in range(10)]

    groups = pack(splits, 3, 0)

    assert [split for group in groups for split in group] == splits
    assert [len(group) for group in groups] == [4, 4, 2]


def _written(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return Split(str(file), len(content), 1_700_000_000_123_456_789, 0, len(content))


def test_partition_columns_and_file_metadata_are_read(tmp_path):
    split = _written(tmp_path, "day=2024-01-02/country=a%20b/x.json", b'{"a":1}')
    plan = ReadPlan(
        "json", parse_struct("a INT"), str(tmp_path), parse_struct("day DATE, country STRING"), metadata=True
    )

    (row,) = next(iter(read_splits(plan, [split]))).to_pylist()

    assert (row["a"], row["day"], row["country"]) == (1, date(2024, 1, 2), "a b")
    assert row["_metadata"]["file_name"] == "x.json"
    assert row["_metadata"]["file_path"].endswith("/country=a%2520b/x.json")
    assert row["_metadata"]["file_size"] == 7
    assert row["_metadata"]["file_modification_time"] == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


def test_compressed_files_and_other_encodings_are_read(tmp_path):
    import gzip  # noqa: PLC0415

    zipped = _written(tmp_path, "a.json.gz", gzip.compress(b'{"a":1}\n{"a":2}'))
    wide = _written(tmp_path, "b.json", '{"a":3}\n'.encode("utf-16"))
    columns = parse_struct("a INT")

    plain = [row["a"] for batch in read_splits(ReadPlan("json", columns, "/"), [zipped]) for row in batch.to_pylist()]
    options = {"encoding": "UTF-16"}
    other = [
        row["a"]
        for batch in read_splits(ReadPlan("json", columns, "/", format_options=options), [wide])
        for row in batch.to_pylist()
    ]

    assert (plain, other) == ([1, 2], [3])


def test_text_and_binary_files_have_the_same_columns_as_in_spark(tmp_path):
    split = _written(tmp_path, "a.txt", b"x\r\ny\n\nz")
    text, binary = (
        ReadPlan("text", parse_struct("value STRING"), "/"),
        ReadPlan(
            "binaryFile",
            parse_struct("path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"),
            "/",
        ),
    )

    lines = [row["value"] for batch in read_splits(text, [split]) for row in batch.to_pylist()]
    ((whole,),) = [batch.to_pylist() for batch in read_splits(binary, [split])]

    assert lines == ["x", "y", "", "z"]
    assert (whole["length"], whole["content"]) == (7, b"x\r\ny\n\nz")


def test_a_missing_file_fails_the_batch_unless_missing_files_are_ignored(tmp_path):
    gone = Split(str(tmp_path / "gone.json"), 5, 0, 0, 5)
    plan = ReadPlan("json", parse_struct("a INT"), "/")

    with pytest.raises(FileNotFoundError):
        list(read_splits(plan, [gone]))
    assert list(read_splits(ReadPlan("json", parse_struct("a INT"), "/", missing_files=True), [gone])) == []


def test_a_read_plan_survives_a_json_round_trip():
    plan = plan_of("a INT", format_options={"multiLine": "true"})

    assert ReadPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "number", ["1.2.3", "1.", "1.5e", "1.5e+", "-", "01", "-01.5", "1-2", "1.5.", "--1.5", "1e5e1"]
)
def test_an_invalid_number_in_a_string_column_makes_the_record_malformed(number):
    # The first block says that there are numbers with points.
    reader = JsonBlocks(plan_of("a STRING, b STRING"), PATH)
    list(reader.read(b'{"a":1.5,"b":"x"}\n'))

    ((odd,),) = (batch.to_pylist() for batch in reader.read(f'{{"a":{number},"b":"y"}}\n'.encode()))

    assert (odd["a"], odd["b"]) == (None, None)
    assert rescued(odd)["_corrupt_record"] == f'{{"a":{number},"b":"y"}}'


@pytest.mark.parametrize("number", ["1.5", "-0.0", "0.10", "1e5", "1E+05", "-12.50e-07", "0", "-1", "10"])
def test_a_number_keeps_its_spelling_in_a_string_column(number):
    assert [row["a"] for row in rows_of(f'{{"a":1.5}}\n{{"a":{number} }}\n', "a STRING")] == ["1.5", number]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"])
def test_unquoted_nan_and_infinity_are_read_into_a_string_column(number):
    assert one(f'{{"a":{number}}}', "a STRING") == {"a": number, "_rescued_data": None}


@pytest.mark.parametrize(
    "text",
    ['{"a":INF}', "{'a':'x\ty'}", '{"a":1.5e}', '{"a":tru}', '{"a":"\\u12"}', '{"a":"\\u 0e9"}', '{"a":1f}'],
)
def test_a_record_that_spark_refuses_as_json_is_rescued_whole(text):
    options = {"allowUnquotedControlChars": "true"}

    assert rescued(one(text, "a STRING", format_options=options))["_corrupt_record"] == text


@pytest.mark.parametrize(("number", "spelled"), [("-0", "0.0"), ("-0.0", "-0.0"), ("0", "0.0"), ("-0e1", "-0.0")])
def test_negative_zero_keeps_its_sign_unless_it_is_written_as_an_integer(number, spelled):
    rows = rows_of(f'{{"a":1.5,"b":[0.5]}}\n{{"a":{number},"b":[{number}]}}', "a DOUBLE, b ARRAY<DOUBLE>")

    assert (repr(rows[1]["a"]), repr(rows[1]["b"][0])) == (spelled, spelled)


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("others", [1, 200])
def test_negative_zero_written_as_an_integer_loses_its_sign_regardless_of_other_values(between, others):
    lines = ['{"a":-0.0,"s":"-0,"}', '{"a":1.5,"s":"x"}', '{"a":-0,"s":"y"}'] * others

    rows = rows_of(between.join(lines), "a DOUBLE, s STRING")

    assert [(repr(row["a"]), row["s"]) for row in rows] == [("-0.0", "-0,"), ("1.5", "x"), ("0.0", "y")] * others


def test_comment_lines_are_not_records():
    options = {"allowComments": "true"}

    rows = rows_of('// of numbers\n{"a":1}\n /* and */ \n\f\n/* more\n', "a INT", format_options=options)

    assert [row["a"] for row in rows] == [1, None, None]
    assert [rescued(row)["_corrupt_record"] for row in rows[1:]] == ["\f", "/* more"]


def test_a_form_feed_in_a_comment_makes_the_record_malformed():
    options = {"allowComments": "true"}

    assert one('{/* \t */"a":1 /**/}//', "a INT", format_options=options)["a"] == 1
    assert "_corrupt_record" in rescued(one('{/* \f */"a":1}', "a INT", format_options=options))


@pytest.mark.parametrize("column", ['"a":{}', '"b":{{"c":[{}]}}'])
@pytest.mark.parametrize(
    ("number", "options"), [("Inf", {}), ("-Inf", {}), ("NaN", {"allowNonNumericNumbers": "false"})]
)
def test_an_unsupported_unquoted_nan_or_infinity_makes_the_record_malformed(column, number, options):
    text = f"{{{column.format(number)}}}"

    row = one(text, "a DOUBLE, b STRUCT<c: ARRAY<DOUBLE>>", format_options=options)

    assert rescued(row)["_corrupt_record"] == text


@pytest.mark.parametrize(("number", "options"), [("INF", {}), ("NaN", {"allowNonNumericNumbers": "false"})])
def test_an_unsupported_quoted_nan_or_infinity_is_rescued(number, options):
    row = one(f'{{"a":"{number}"}}', "a DOUBLE", format_options=options)

    assert (row["a"], rescued(row)["a"]) == (None, number)


def test_a_record_can_start_with_a_byte_order_mark():
    assert [row["a"] for row in rows_of('{"a":1}\n\ufeff{"a":2}\n', "a INT")] == [1, 2]


def test_a_lone_surrogate_is_read_as_a_question_mark():
    row = one('{"a":"x\\ud83d","b\\ud83d":1}', "a STRING")

    assert row["a"] == "x?"
    assert rescued(row)["b?"] == 1


def test_huge_numbers_and_unterminated_arrays_are_read_as_null():
    digits, deep = "1" * 5000, "[" * 20_000

    assert one(f'{{"a":{digits}}}', "a BIGINT")["a"] is None
    assert one(f'{{"a":{deep}}}', "a BIGINT")["a"] is None
    assert json_struct([f'{{"a":{digits}}}\n{{"b":{deep}}}'.encode()], {})["fields"][0]["type"] == "double"


@pytest.mark.parametrize("written", ["12345", "1e4", '"12345"', "-99999"])
def test_a_decimal_with_too_many_digits_is_rescued(written):
    row = one(f'{{"a":{written}}}', "a DECIMAL(5,2)")

    assert row["a"] is None
    assert row["_rescued_data"] is not None


@pytest.mark.parametrize("ending", [".deflate", ".snappy", ".xz"])
def test_an_unsupported_compression_fails_the_batch(tmp_path, ending):
    split = _written(tmp_path, f"a.json{ending}", b"\x78\x9c\xabV")

    with pytest.raises(OSError, match="unsupported compression"):
        list(read_splits(ReadPlan("json", parse_struct("a INT"), "/"), [split]))

"""Records of JSON as VARIANT: Spark's own reader of variants finds in them what was written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantBuilder, VariantUtils

from headrace.autoloader.options import loader_options
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.json.variants import encode_variant
from headrace.autoloader.reading.json_scan import ParseOptions, read_json
from headrace.autoloader.reading.plan import MalformedRecord, ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**127), 2**127) | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def variant(text):
    return encode_variant(read_json(text, ParseOptions()))


@given(VALUES)
def test_variants_are_encoded_as_in_spark(value):
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    theirs = VariantBuilder().build(text)

    made = variant(text)

    assert made["metadata"] == theirs[1]
    assert VariantUtils.to_json(made["value"], made["metadata"]) == VariantUtils.to_json(*theirs)


@pytest.mark.parametrize("count", [255, 256, 30_000])
def test_arrays_with_many_elements_are_encoded(count):
    array = json.dumps(list(range(count)))

    assert VariantUtils.to_python(*variant(array).values()) == list(range(count))


@pytest.mark.parametrize("count", [255, 256, 5000])
def test_objects_with_many_names_are_encoded(count):
    names = {f"k{number}": number for number in range(count)}

    assert VariantUtils.to_python(*variant(json.dumps(names)).values()) == names


@pytest.mark.parametrize(
    ("text", "same"),
    [("1.50", "1.5"), ("1e3", "1000.0"), ("9223372036854775808", "9223372036854775808"), ("1." + "1" * 50, None)],
)
def test_numbers_have_the_same_types_as_in_parse_json(text, same):
    assert tuple(variant(text).values()) == VariantBuilder().build(text)
    assert same is None or json.loads(VariantUtils.to_json(*variant(text).values())) == json.loads(same)


def test_an_object_with_duplicate_names_is_a_type_mismatch():
    with pytest.raises(TypeMismatch):
        variant('{"a": 1, "a": 2}')


@pytest.fixture
def read(tmp_path):
    def read(text, columns, **changes):
        path = tmp_path / "a.json"
        path.write_text(text)
        size = path.stat().st_size
        plan = ReadPlan("json", parse_struct(columns), "/", **changes)
        rows = [row for batch in read_splits(plan, [Split(str(path), size, 0, 0, size)]) for row in batch.to_pylist()]
        found = [next(iter(row.values())) for row in rows]
        return [made and VariantUtils.to_python(made["value"], made["metadata"]) for made in found]

    return read


def test_a_single_variant_column_holds_one_record_or_null_if_it_is_malformed(read):
    single = {"singleVariantColumn": "v"}

    found = read('{"a": [1, "x"]}\n{broken\n[1]\n{"a": 1, "a": 2}\n', "v VARIANT", format_options=single)

    assert found == [{"a": [1, "x"]}, None, [1], None]
    with pytest.raises(MalformedRecord):
        read("{broken", "v VARIANT", format_options=single, mode="FAILFAST")


def test_a_variant_column_holds_any_value(read):
    assert read('{"p": {"x": 1.5}}\n{"p": "text"}\n{}\n', "p VARIANT, q INT") == [
        {"x": pytest.approx(1.5)},
        "text",
        None,
    ]


def prepared(folder, kind, schema=None, **options):
    given = {"cloudFiles.format": kind, **options}
    return prepare(given, str(folder), schema and parse_struct(schema), Place(folder / "l", None, now_ns=0))


def test_a_single_variant_column_needs_no_schema(tmp_path):
    plan = prepared(tmp_path, "json", singleVariantColumn="v").plan

    assert plan.all_columns == parse_struct("v VARIANT")
    assert loader_options({"cloudFiles.format": "json", "singleVariantColumn": "v"}).format_options


@pytest.mark.parametrize(
    ("kind", "schema", "options", "code"),
    [
        ("json", "a INT", {"singleVariantColumn": "v"}, "AUTO_LOADER.OPTION_VALUE"),
        ("csv", "a VARIANT", {}, "AUTO_LOADER.TYPE"),
        ("parquet", "a STRUCT<b: ARRAY<VARIANT>>", {}, "AUTO_LOADER.TYPE"),
    ],
)
def test_an_unsupported_variant_column_is_refused(tmp_path, kind, schema, options, code):
    with pytest.raises(PipelineError) as raised:
        prepared(tmp_path, kind, schema, **options)

    assert raised.value.code == code

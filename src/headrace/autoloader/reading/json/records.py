"""Read JSON record by record, as Spark does: for input that Arrow refuses or reads differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import decimal_of
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.values import (
    JSON_NAMES,
    TypeMismatch,
    parse_base64,
    parse_decimal,
    parse_floating,
    parse_integer,
    timestamp_from_seconds,
)
from headrace.autoloader.reading.json.documents import json_documents
from headrace.autoloader.reading.json.variants import encode_variant
from headrace.autoloader.reading.json_scan import (
    Members,
    NotJson,
    Number,
    ParseOptions,
    has_surrogate_escapes,
    is_blank,
    read_json_at,
    read_json_exactly,
    skip_space,
    to_json_text,
)
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, reserved_names
from headrace.autoloader.reading.rows import Rows
from headrace.model.ddl import JsonType

# A converter returns the converted value, and the part that does not fit the type, or ``_NOTHING``.
_NOTHING: Any = object()
# In a path: the values of a map.
_MAP = ""
_BYTE_ORDER_MARK = "\ufeff"
Converted = tuple[Any, Any]
Converter = Callable[[Any], Converted]


class JsonRecords:
    """Converts texts to rows."""

    def __init__(self, plan: ReadPlan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._parse_options = ParseOptions.of(plan.format_options)
        self._unknown: set[str] = set()
        self._mismatch = ""
        # The column for corrupt records does not come from a field of the file.
        fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        self._single = plan.format_options.get("singleVariantColumn")
        self._data = {**plan.data, "fields": fields}
        self._convert = _struct(self._data, Times.of(plan.time_zone, plan.format_options), self, ())

    def add(self, text: str, rows: Rows) -> None:
        """Add the rows of a text: one per record; as in Spark, one per object of a top-level array.

        Each of several consecutive records is a row; a blank text gives none.

        Raises:
            UnknownFields: the record has fields that are not in the schema, and the plan evolves.
            MalformedRecord: it is not a record, and the mode is FAILFAST.
        """
        # Spark reads each line by itself, so each may begin with a byte order mark.
        unmarked = text.removeprefix(_BYTE_ORDER_MARK)
        if is_blank(unmarked, self._parse_options):
            return
        if self._single is not None:
            self._add_whole(unmarked, self._single, rows)
            return
        for number, document in enumerate(json_documents(unmarked, self._parse_options)):
            # The original text of the first record includes the mark.
            mark = "" if number else text[: len(text) - len(unmarked)]
            if document.records is None:
                rows.add_malformed(document.text if number else text, document.reason)
            else:
                self._add_records(document.records, document.text, mark + document.corrupt_text, rows)

    def _add_records(self, records: list[Members], document_text: str, text: str, rows: Rows) -> None:
        """Add a row for each record of a document."""
        try:
            if any(_needs_exact_text(record, self._data) for record in records):
                exact = read_json_exactly(document_text, self._parse_options)
                records = [exact] if isinstance(exact, Members) else exact
        except NotJson as error:
            rows.add_malformed(text, str(error))
            return
        for record in records:
            self._mismatch = ""
            try:
                values, rescued = self._convert(record)
                rows.add(values, rescued if rescued is not _NOTHING else Members(), text, mismatch=self._mismatch)
            except RecursionError:
                rows.add_malformed(text, "it nests too deep")

    def _add_whole(self, text: str, column: str, rows: Rows) -> None:
        """Add a row for each value of a text, as one VARIANT."""
        at, exactly = 0, has_surrogate_escapes(text)
        while (at := skip_space(text, at, self._parse_options)) < len(text):
            try:
                value, end, exactly = read_json_at(text, at, self._parse_options, exactly=exactly)
                variant = encode_variant(value)
            except (NotJson, TypeMismatch, RecursionError) as error:
                rows.add_malformed(text[at:], str(error))
                return
            rows.add({column: variant}, Members(), text[at:end])
            at = end

    def raise_unknown_fields(self) -> None:
        """Raise the unknown fields found so far.

        Raises:
            UnknownFields: there are fields that are not in the schema, and the plan evolves.
        """
        unknown = new_columns(self._plan, self._unknown) if self._plan.evolves else ()
        if unknown:
            raise UnknownFields(tuple(unknown), self._path)

    def note_unknown_field(self, path: tuple[str, ...]) -> None:
        """Note a field that is not in the schema; not inside a map, where schemas do not evolve."""
        if _MAP not in path:
            self._unknown.add(".".join(path))

    @property
    def reserved_names(self) -> frozenset[str]:
        """Names of columns that do not come from file contents."""
        return reserved_names(self._plan)

    @property
    def case_sensitive(self) -> bool:
        """Whether names that differ only in case are different fields."""
        return self._plan.case_sensitive

    @property
    def allows_non_numeric(self) -> bool:
        """Whether a numeric column accepts NaN and infinities, quoted or not."""
        return self._parse_options.non_numeric_numbers

    def note_mismatch(self, value: Any) -> None:
        """Note a value that does not fit its column's type."""
        self._mismatch = self._mismatch or to_json_text(value)


def _needs_exact_text(record: Members, struct: JsonType) -> bool:
    """Whether an object or array is the value of a string field, so that its original text is needed."""
    kinds = {field["name"]: field["type"] for field in struct["fields"]}
    return any(_is_nested_text(value, kinds.get(name)) for name, value in record)


def _is_nested_text(value: Any, kind: JsonType | None) -> bool:
    if not isinstance(value, list):
        return False
    if kind == "string":
        return True
    if not isinstance(kind, dict):
        return False
    if isinstance(value, Members):
        if kind["type"] == "struct":
            return _needs_exact_text(value, kind)
        return kind["type"] == "map" and any(_is_nested_text(inner, kind["valueType"]) for _, inner in value)
    return kind["type"] == "array" and any(_is_nested_text(inner, kind["elementType"]) for inner in value)


def _converter(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    """The converter of non-null values to a type."""
    if isinstance(kind, dict):
        nested = {"struct": _struct, "array": _array, "map": _map}[kind["type"]]
        return nested(kind, times, records, path)
    single = _scalar(kind, times, JSON_NAMES if records.allows_non_numeric else {})

    def convert(value: Any) -> Converted:
        try:
            return single(value), _NOTHING
        except TypeMismatch:
            records.note_mismatch(value)
            return None, value

    return convert


def _struct(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    converters = {f["name"]: _converter(f["type"], times, records, (*path, f["name"])) for f in kind["fields"]}
    known = {name.casefold(): name for name in converters}
    # At the top level, partition columns take precedence over fields of the file.
    reserved_names = frozenset() if path else records.reserved_names
    folded = {} if records.case_sensitive else known

    def convert(value: Any) -> Converted:
        if not isinstance(value, Members):
            records.note_mismatch(value)
            return None, value
        found: dict[str, Any] = {}
        # For each field, the original name and value that it was set from.
        used: dict[str, tuple[str, Any]] = {}
        rescued = Members()
        for original, inner in value:
            name = original if original in converters else folded.get(original.casefold(), original)
            if name not in converters:
                # An empty object gives no type, and a name that differs only in case is the same for Delta.
                if inner != [] and original.casefold() not in known and original.casefold() not in reserved_names:
                    records.note_unknown_field((*path, original))
                rescued.append((original, inner))
                continue
            converted, unfit = (None, _NOTHING) if inner is None else converters[name](inner)
            if unfit is not _NOTHING:
                rescued.append((original, unfit))
            if converted is None and inner is not None and name in found:
                # As in Spark, an earlier value stays if a later one of the same name does not fit the type.
                continue
            if name in used:
                rescued.append(used.pop(name))
            found[name] = converted
            if converted is not None:
                used[name] = (original, inner)
        return found, rescued or _NOTHING

    return convert


def _array(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    element = _converter(kind["elementType"], times, records, path)

    def convert(value: Any) -> Converted:
        if not isinstance(value, list) or isinstance(value, Members):
            records.note_mismatch(value)
            return None, value
        results = [(None, _NOTHING) if inner is None else element(inner) for inner in value]
        # If an element does not fit, the whole array is rescued, because its position matters.
        whole_array = value if any(unfit is not _NOTHING for _, unfit in results) else _NOTHING
        return [converted for converted, _ in results], whole_array

    return convert


def _map(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    value_of = _converter(kind["valueType"], times, records, (*path, _MAP))

    def convert(value: Any) -> Converted:
        if not isinstance(value, Members):
            records.note_mismatch(value)
            return None, value
        rescued = Members()
        converted: dict[str, Any] = {}
        original: dict[str, Any] = {}
        for name, inner in value:
            if original.get(name) is not None:
                rescued.append((name, original[name]))
            original[name] = inner
            converted[name], unfit = (None, _NOTHING) if inner is None else value_of(inner)
            if unfit is not _NOTHING:
                rescued.append((name, unfit))
        return list(converted.items()), rescued or _NOTHING

    return convert


def _scalar(kind: str, times: Times, names: Mapping[str, float]) -> Callable[[Any], Any]:
    digits = decimal_of(kind)
    if digits:
        return lambda value: parse_decimal(_digits(value), *digits)
    return {
        "string": lambda value: str(value) if isinstance(value, str) else to_json_text(value),
        "boolean": _boolean,
        "byte": lambda value: parse_integer(_number(value), kind),
        "short": lambda value: parse_integer(_number(value), kind),
        "integer": lambda value: parse_integer(_number(value), kind),
        "long": lambda value: parse_integer(_number(value), kind),
        "float": lambda value: _floating(value, names),
        "double": lambda value: _floating(value, names),
        "date": lambda value: times.parse_date(_text(value)),
        "timestamp": lambda value: (
            timestamp_from_seconds(parse_integer(value, "long"))
            if isinstance(value, Number)
            else times.parse_timestamp(_text(value))
        ),
        "timestamp_ntz": lambda value: times.parse_timestamp_ntz(_text(value)),
        "binary": lambda value: parse_base64(_text(value)),
        "variant": encode_variant,
    }[kind]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeMismatch(str(value))
    return value


def _number(value: Any) -> str:
    if not isinstance(value, Number):
        raise TypeMismatch(str(value))
    return value


def _digits(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeMismatch(str(value))
    return value


def _floating(value: Any, names: Mapping[str, float]) -> float:
    if isinstance(value, Number):
        # A whole number is parsed as an integer first, so it has no negative zero.
        return parse_floating(value, names) + (0.0 if value.is_whole else -0.0)
    # Strings are accepted only if they name NaN or an infinity.
    text = _text(value)
    if not text.lstrip("+-").isalpha():
        raise TypeMismatch(text)
    return parse_floating(text, names)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeMismatch(str(value))
    return value


def read_records(
    plan: ReadPlan, path: str, texts: Iterable[str], max_rows: int, bad: BadRecords | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most *max_rows* rows: the data columns, then the corrupt and rescued ones.

    Raises:
        UnknownFields: the records have fields that are not in the schema, and the plan evolves.
        MalformedRecord: a text is not a record, and the mode is FAILFAST.
    """
    records, rows = JsonRecords(plan, path), Rows(plan, path, bad)
    for text in texts:
        records.add(text, rows)
        if len(rows) >= max_rows:
            records.raise_unknown_fields()
            yield rows.take()
    records.raise_unknown_fields()
    if len(rows):
        yield rows.take()


def read_lines_singly(
    plan: ReadPlan, path: str, texts: Iterable[str], bad: BadRecords | None = None
) -> tuple[pa.RecordBatch, list[int]]:
    """Read texts as :func:`read_records` does, all at once. Returns the rows, and the number of rows of each text.

    Raises:
        UnknownFields: as for :func:`read_records`.
        MalformedRecord: as for :func:`read_records`.
    """
    records, rows = JsonRecords(plan, path), Rows(plan, path, bad)
    ends = [0]
    for text in texts:
        records.add(text, rows)
        ends.append(len(rows))
    records.raise_unknown_fields()
    return rows.take(), [end - begin for begin, end in pairwise(ends)]

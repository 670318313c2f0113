"""JSON record by record, as Spark reads it: for what Arrow's reader refuses or would read differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.arrow_types import decimal_of
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.converters import Times
from headrace.autoloader.reading.json_documents import json_documents
from headrace.autoloader.reading.json_scan import (
    Members,
    NotJson,
    Number,
    ParseOptions,
    has_half_characters,
    read_json_at,
    read_json_exactly,
    says_nothing,
    space_behind,
    written,
)
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, taken_names
from headrace.autoloader.reading.rows import Rows
from headrace.autoloader.reading.values import (
    JSON_NAMES,
    TypeMismatch,
    bytes_of,
    decimal,
    floating,
    seconds,
    whole,
)
from headrace.autoloader.reading.variants import variant_of

# What a converter gives for a value: the value, and what has no place in the type (Members, a list or a scalar).
_FITS: Any = object()
# Of a path: the inside of a map.
_MAP = ""
_BYTE_ORDER_MARK = "\ufeff"
Converted = tuple[Any, Any]
Converter = Callable[[Any], Converted]


class JsonRecords:
    """Makes rows of the texts of records."""

    def __init__(self, plan: ReadPlan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._leniency = ParseOptions.of(plan.format_options)
        self._unknown: set[str] = set()
        self._misfit = ""
        # What cannot be read does not come from a field of the file.
        fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        self._single = plan.format_options.get("singleVariantColumn")
        self._data = {**plan.data, "fields": fields}
        self._convert = _struct(self._data, Times.of(plan.time_zone, plan.format_options), self, ())

    def add(self, text: str, rows: Rows) -> None:
        """Make rows of a text: of a record one, of an array at the top, as Spark does it, one of each object.

        Of several records in a row each is one; of nothing comes none.

        Raises:
            UnknownFields: the record has fields that the schema lacks, and the stream is to end with that.
            MalformedRecord: it is no record, and the mode is FAILFAST.
        """
        # Each record is read by itself, and so may have a mark of its encoding.
        unmarked = text.removeprefix(_BYTE_ORDER_MARK)
        if says_nothing(unmarked, self._leniency):
            return
        if self._single is not None:
            self._add_whole(unmarked, self._single, rows)
            return
        for number, document in enumerate(json_documents(unmarked, self._leniency)):
            # The mark is part of the first record, where that is kept as it is written.
            mark = "" if number else text[: len(text) - len(unmarked)]
            if document.records is None:
                rows.add_malformed(document.text if number else text, document.reason)
            else:
                self._add_records(document.records, document.text, mark + document.kept, rows)

    def _add_records(self, records: list[Members], written: str, text: str, rows: Rows) -> None:
        """Make a row of each record of a document."""
        try:
            if any(_holds_nested_text(record, self._data) for record in records):
                exact = read_json_exactly(written, self._leniency)
                records = [exact] if isinstance(exact, Members) else exact
        except NotJson as error:
            rows.add_malformed(text, str(error))
            return
        for record in records:
            self._misfit = ""
            try:
                values, left = self._convert(record)
                rows.add(values, left if left is not _FITS else Members(), text, misfit=self._misfit)
            except RecursionError:
                rows.add_malformed(text, "it nests too deep")

    def _add_whole(self, text: str, column: str, rows: Rows) -> None:
        """Make a row of each value of a text as it is."""
        at, exactly = 0, has_half_characters(text)
        while (at := space_behind(text, at, self._leniency)) < len(text):
            try:
                value, end, exactly = read_json_at(text, at, self._leniency, exactly=exactly)
                variant = variant_of(value)
            except (NotJson, TypeMismatch, RecursionError) as error:
                rows.add_malformed(text[at:], str(error))
                return
            rows.add({column: variant}, Members(), text[at:end])
            at = end

    def end(self) -> None:
        """Say what was met that the schema lacks.

        Raises:
            UnknownFields: something was, and the stream is to end with that.
        """
        unknown = new_columns(self._plan, self._unknown) if self._plan.evolves else ()
        if unknown:
            raise UnknownFields(tuple(unknown), self._path)

    def met_unknown(self, path: tuple[str, ...]) -> None:
        """Note a field that the schema lacks; none inside of a map, where no schema grows."""
        if _MAP not in path:
            self._unknown.add(".".join(path))

    @property
    def taken(self) -> frozenset[str]:
        """Names of columns that do not come from the contents of files."""
        return taken_names(self._plan)

    @property
    def case_sensitive(self) -> bool:
        """Whether a field of another case is another field."""
        return self._plan.case_sensitive

    @property
    def reads_not_numbers(self) -> bool:
        """Whether what names no number, in quotes or not, is a value of a column of numbers."""
        return self._leniency.not_numbers

    def met_misfit(self, value: Any) -> None:
        """Note a value that is none of its column's type."""
        self._misfit = self._misfit or written(value)


def _holds_nested_text(record: Members, struct: JsonType) -> bool:
    """Whether an object or array stands where a text is wanted, so that its exact spelling matters."""
    kinds = {field["name"]: field["type"] for field in struct["fields"]}
    return any(_wants_text(value, kinds.get(name)) for name, value in record)


def _wants_text(value: Any, kind: JsonType | None) -> bool:
    if not isinstance(value, list):
        return False
    if kind == "string":
        return True
    if not isinstance(kind, dict):
        return False
    if isinstance(value, Members):
        if kind["type"] == "struct":
            return _holds_nested_text(value, kind)
        return kind["type"] == "map" and any(_wants_text(inner, kind["valueType"]) for _, inner in value)
    return kind["type"] == "array" and any(_wants_text(inner, kind["elementType"]) for inner in value)


def _converter(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    """How a value that is not null becomes one of the type."""
    if isinstance(kind, dict):
        made = {"struct": _struct, "array": _array, "map": _map}[kind["type"]]
        return made(kind, times, records, path)
    single = _scalar(kind, times, JSON_NAMES if records.reads_not_numbers else {})

    def convert(value: Any) -> Converted:
        try:
            return single(value), _FITS
        except TypeMismatch:
            records.met_misfit(value)
            return None, value

    return convert


def _struct(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    converters = {f["name"]: _converter(f["type"], times, records, (*path, f["name"])) for f in kind["fields"]}
    known = {name.casefold(): name for name in converters}
    # At the top, what the folders say goes before what is in the file.
    taken = frozenset() if path else records.taken
    folded = {} if records.case_sensitive else known

    def convert(value: Any) -> Converted:
        if not isinstance(value, Members):
            records.met_misfit(value)
            return None, value
        found: dict[str, Any] = {}
        # By the name of a field, the value that it has, as it was given.
        taken_from: dict[str, tuple[str, Any]] = {}
        left = Members()
        for given, inner in value:
            name = given if given in converters else folded.get(given.casefold(), given)
            if name not in converters:
                # Nothing can be made of an empty object, nor of a name that Delta takes for another.
                if inner != [] and given.casefold() not in known and given.casefold() not in taken:
                    records.met_unknown((*path, given))
                left.append((given, inner))
                continue
            made, remains = (None, _FITS) if inner is None else converters[name](inner)
            if remains is not _FITS:
                left.append((given, remains))
            if made is None and inner is not None and name in found:
                # As Spark does it, an earlier value of a name stays where a later one is none of its type.
                continue
            if name in taken_from:
                left.append(taken_from.pop(name))
            found[name] = made
            if made is not None:
                taken_from[name] = (given, inner)
        return found, left or _FITS

    return convert


def _array(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    element = _converter(kind["elementType"], times, records, path)

    def convert(value: Any) -> Converted:
        if not isinstance(value, list) or isinstance(value, Members):
            records.met_misfit(value)
            return None, value
        made = [(None, _FITS) if inner is None else element(inner) for inner in value]
        # Of an array, what does not fit is rescued with its neighbours, because its place says what it is.
        whole_array = value if any(remains is not _FITS for _, remains in made) else _FITS
        return [converted for converted, _ in made], whole_array

    return convert


def _map(kind: JsonType, times: Times, records: JsonRecords, path: tuple[str, ...]) -> Converter:
    value_of = _converter(kind["valueType"], times, records, (*path, _MAP))

    def convert(value: Any) -> Converted:
        if not isinstance(value, Members):
            records.met_misfit(value)
            return None, value
        left = Members()
        made: dict[str, Any] = {}
        given: dict[str, Any] = {}
        for name, inner in value:
            if given.get(name) is not None:
                left.append((name, given[name]))
            given[name] = inner
            made[name], remains = (None, _FITS) if inner is None else value_of(inner)
            if remains is not _FITS:
                left.append((name, remains))
        return list(made.items()), left or _FITS

    return convert


def _scalar(kind: str, times: Times, names: Mapping[str, float]) -> Callable[[Any], Any]:
    digits = decimal_of(kind)
    if digits:
        return lambda value: decimal(_digits(value), *digits)
    return {
        "string": lambda value: str(value) if isinstance(value, str) else written(value),
        "boolean": _boolean,
        "byte": lambda value: whole(_number(value), kind),
        "short": lambda value: whole(_number(value), kind),
        "integer": lambda value: whole(_number(value), kind),
        "long": lambda value: whole(_number(value), kind),
        "float": lambda value: _floating(value, names),
        "double": lambda value: _floating(value, names),
        "date": lambda value: times.day(_text(value)),
        "timestamp": lambda value: (
            seconds(whole(value, "long")) if isinstance(value, Number) else times.moment(_text(value))
        ),
        "timestamp_ntz": lambda value: times.clock_face(_text(value)),
        "binary": lambda value: bytes_of(_text(value)),
        "variant": variant_of,
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
        # A whole number is one before it is a float, and has no zero below zero.
        return floating(value, names) + (0.0 if value.is_whole else -0.0)
    # Of texts, those alone that name what is no number.
    text = _text(value)
    if not text.lstrip("+-").isalpha():
        raise TypeMismatch(text)
    return floating(text, names)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeMismatch(str(value))
    return value


def read_records(
    plan: ReadPlan, path: str, texts: Iterable[str], most: int, bad: BadRecords | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of at most *most* rows, of the data columns and the corrupt and rescued ones.

    Raises:
        UnknownFields: the records have fields that the schema lacks, and the stream is to end with that.
        MalformedRecord: one is no record, and the mode is FAILFAST.
    """
    records, rows = JsonRecords(plan, path), Rows(plan, path, bad)
    for text in texts:
        records.add(text, rows)
        if len(rows) >= most:
            records.end()
            yield rows.take()
    records.end()
    if len(rows):
        yield rows.take()

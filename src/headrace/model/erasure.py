"""Which rows to erase, and what an erasure found and did; pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeAlias

from headrace.model.names import InvalidName, split_name
from headrace.model.schema import Schema, type_text

Value: TypeAlias = "int | str | bool | Decimal | date"

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_TEXTS = ("string", "char", "varchar")
_BOOLEANS = {"true": True, "false": False}
# Shorter texts, and short numbers, are in too many other texts by chance.
_SEARCHABLE_LENGTH, _SEARCHABLE_DIGITS = 4, 6
# Of a record in base64. The shortest object with a name and a value has 7 characters, which are 12 in base64.
_LEAST_BASE64 = 12
# The column in which sources of text and of messages have their whole record, and others that messages have.
_PAYLOAD, _MESSAGE = "value", frozenset({"value", "topic", "offset"})


class InvalidCriterion(ValueError):
    """A text that is no criterion; it may be a value, and is not repeated."""


class NotComparable(ValueError):
    """A column that cannot be compared with a value; ``str()`` says why."""


@dataclass(frozen=True)
class Criterion:
    """A column, as the path of its names, and the value that it has in the rows to erase; the value is not in reprs."""

    column: tuple[str, ...]
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """The column as one text."""
        return ".".join(self.column)

    @property
    def is_searchable(self) -> bool:
        """True if a text that contains the value most likely means it."""
        return len(self.text) >= (_SEARCHABLE_DIGITS if self.text.isdigit() else _SEARCHABLE_LENGTH)


@dataclass(frozen=True)
class ErasureRequest:
    """Which rows to erase: those that meet all criteria, in the places of some datasets, or in all.

    Attributes:
        criteria: at least one.
        datasets: names; empty for all.
        keep_files: leave the files and the log of old versions, which still show the rows.
    """

    criteria: tuple[Criterion, ...]
    datasets: tuple[str, ...] = ()
    keep_files: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(criterion.name for criterion in self.criteria)

    @property
    def values(self) -> tuple[str, ...]:
        """All values, to be kept out of messages."""
        return tuple(criterion.text for criterion in self.criteria if criterion.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """The values to search for in texts such as error messages."""
        return tuple(criterion.text for criterion in self.criteria if criterion.is_searchable)


def parse_criterion(text: str) -> Criterion:
    """The criterion of ``column=value``; everything after the first equals sign is the value.

    Raises:
        InvalidCriterion: it is none.
    """
    name, sign, value = text.partition("=")
    try:
        column = split_name(name)
    except InvalidName:
        column = ()
    if not sign or not column:
        raise InvalidCriterion
    return Criterion(column, value)


def find_column(schema: Schema, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any] | None:
    """The spelling and the JSON type of a column, which may be nested in structs; None if the schema lacks it.

    Raises:
        NotComparable: the column is inside an array or a map.
    """
    fields: list[Any] = [{"name": c.name, "type": json.loads(c.json_type)} for c in schema.columns]
    names: list[str] = []
    kind: Any = None
    for number, part in enumerate(path):
        found = next((field for field in fields if field["name"].casefold() == part.casefold()), None)
        if found is None:
            return None
        names.append(found["name"])
        kind = found["type"]
        is_struct = isinstance(kind, dict) and kind["type"] == "struct"
        if not is_struct and isinstance(kind, dict) and kind["type"] in ("array", "map") and number + 1 < len(path):
            raise NotComparable(f"{'.'.join(names)} is {kind['type']}, whose elements are not searched")
        fields = kind["fields"] if is_struct else []
    return tuple(names), kind


def typed_value(text: str, json_type: Any) -> Value | None:
    """A text as a value of a column's type; None if no row can have it, such as "ann" in a column of integers.

    Raises:
        NotComparable: values of the type have no exact text.
    """
    name = json_type if isinstance(json_type, str) else str(json_type.get("type"))
    base = name.partition("(")[0]
    if base in _TEXTS:
        return text
    if base in _INTEGER_BITS:
        return _integer(text, _INTEGER_BITS[base])
    if base == "decimal":
        return _decimal(text, name)
    if base == "boolean":
        return _BOOLEANS.get(text.strip().casefold())
    if base == "date":
        try:
            return date.fromisoformat(text.strip())
        except ValueError:
            return None
    raise NotComparable(f"type {type_text(json_type)} is not compared")


def _integer(text: str, bits: int) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _decimal(text: str, name: str) -> Decimal | None:
    precision, scale = (int(number) for number in name.partition("(")[2].rstrip(")").split(","))
    try:
        value = Decimal(text)
        fits = value.is_finite() and value == round(value, scale) and abs(value) < 10 ** (precision - scale)
    except InvalidOperation:
        return None
    return value if fits else None


def texts_in(
    criteria: Iterable[Criterion], schema: Schema, prefixes: Iterable[tuple[str, ...]] = ((),)
) -> tuple[str, ...]:
    """How the conditions of past operations on a table may have written the values: as typed, and as its columns do.

    Args:
        criteria: the criteria.
        schema: the columns of the table.
        prefixes: the structs in which the columns may be.
    """
    found: dict[str, None] = {}
    for criterion in criteria:
        found[criterion.text] = None
        for prefix in prefixes:
            with suppress(NotComparable):
                _, kind = find_column(schema, (*prefix, *criterion.column)) or ((), None)
                value = None if kind is None else typed_value(criterion.text, kind)
                if value is not None:
                    found |= dict.fromkeys(_spellings(value))
    return tuple(text for text in found if text)


def _spellings(value: Value) -> tuple[str, ...]:
    if isinstance(value, bool):
        return str(value).lower(), str(value)
    if isinstance(value, Decimal):
        return str(value), f"{value.normalize():f}"
    return (str(value),)


def matches_json(document: Any, criteria: Iterable[Criterion]) -> bool:
    """Whether a JSON document, an object in it, or JSON in one of its texts meets all criteria."""
    wanted = tuple(criteria)
    return any(all(_meets(one, criterion) for criterion in wanted) for one in _objects(document))


def matches_text(text: str, criteria: Iterable[Criterion], contains: Callable[[str, tuple[str, ...]], bool]) -> bool:
    """Whether a stored record meets all criteria: as JSON by its columns, any other because it contains the values.

    A value in another column of a record in JSON, such as a comment, does not make it a record of the person.

    Args:
        text: the record.
        criteria: the criteria.
        contains: whether a text contains one of some values as a whole.
    """
    wanted = tuple(criteria)
    document = _parsed(text)
    if document is not None and matches_json(document, wanted):
        return True
    record = text if document is None else _plain_record(document)
    return record is not None and all(
        criterion.is_searchable and contains(record, (criterion.text,)) for criterion in wanted
    )


def _plain_record(document: Any) -> str | None:
    """The record in a row of a source of texts or messages, if it is no JSON; None for other rows."""
    if not isinstance(document, Mapping) or not (document.keys() == {_PAYLOAD} or document.keys() >= _MESSAGE):
        return None
    payload = document[_PAYLOAD]
    if not isinstance(payload, str) or _parsed(payload) is not None:
        return None
    decoded = _from_base64(payload)
    if decoded is None:
        return payload
    return decoded if _parsed(decoded) is None else None


def _parsed(text: str) -> Any:
    """The object or the array that a text is as JSON, or None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _from_base64(text: str) -> str | None:
    """The text that another is in base64, as binary columns are stored; None if it is something else."""
    if len(text) < _LEAST_BASE64:
        return None
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _objects(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, str):
        text = document if document.lstrip()[:1] in ("{", "[") else _from_base64(document)
        document = None if text is None else _parsed(text)
    if isinstance(document, Mapping):
        yield document
        for value in document.values():
            yield from _objects(value)
    elif isinstance(document, list):
        for value in document:
            yield from _objects(value)


def _meets(document: Mapping[str, Any], criterion: Criterion) -> bool:
    value: Any = document
    for part in criterion.column:
        if not isinstance(value, Mapping):
            return False
        value = next((item for name, item in value.items() if name.casefold() == part.casefold()), None)
    if isinstance(value, bool):
        return _BOOLEANS.get(criterion.text.strip().casefold()) is value
    if isinstance(value, (int, float)):
        try:
            return Decimal(str(value)) == Decimal(criterion.text)
        except InvalidOperation:
            return False
    return isinstance(value, str) and value == criterion.text


class PlaceKind(str, Enum):
    """The kinds of places in a storage that hold rows."""

    TABLE = "table"
    QUARANTINE = "quarantine"
    CHANGE_EVENTS = "change events"
    DEAD_LETTERS = "dead letters"
    SPILL_QUEUE = "spill queue"
    EVENT_LOG = "event log"


@dataclass(frozen=True)
class SearchedPlace:
    """A place that was searched.

    Attributes:
        kind: its kind.
        name: of the dataset, or of the flow.
        rows: the number of rows that meet the criteria.
        files: the number of files that have them.
        old_files: the number of files of old versions, which may have them too.
        cleaned: the number of dead letters of others whose errors have a value, which is removed.
    """

    kind: PlaceKind
    name: str
    rows: int = 0
    files: int = 0
    old_files: int = 0
    cleaned: int = 0

    def to_json(self) -> dict[str, Any]:
        """The place as JSON."""
        values = {"rows": self.rows, "files": self.files, "old_files": self.old_files, "cleaned": self.cleaned}
        return {"kind": self.kind.value, "name": self.name, **values}


@dataclass(frozen=True)
class KeptFiles:
    """Files that the current versions of the tables do not use, and that an erasure leaves.

    Attributes:
        unnamed: the number of files that no commit names, and that may belong to a running write.
        unnamed_until: the day after which they can be deleted, such as 2026-12-04; empty if there are none.
        reasons: the tables that keep all old files, each with the reason.
    """

    unnamed: int = 0
    unnamed_until: str = ""
    reasons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Erasure:
    """What an erasure found, and whether it erased it.

    Attributes:
        columns: the columns of the criteria.
        is_done: the rows are erased; False for a dry run.
        keeps_files: the files of old versions were left.
        places: the places that were searched.
        not_searched: names of tables that were not, each with the reason.
        recomputed: the datasets that the next update computes again, because their inputs changed.
        state: the flows whose state may hold the values.
        mentions: files that still contain a value, such as the name of a partition.
        blocked: why the rows cannot be erased now; only in a dry run.
        old_files: the old files that are not deleted.
    """

    columns: tuple[str, ...]
    is_done: bool
    keeps_files: bool
    places: tuple[SearchedPlace, ...] = ()
    not_searched: tuple[tuple[str, str], ...] = ()
    recomputed: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    old_files: KeptFiles = KeptFiles()

    @property
    def rows(self) -> int:
        """The number of rows in all places."""
        return sum(place.rows for place in self.places)

    @property
    def cleaned(self) -> int:
        """The number of dead letters of others whose errors have a value."""
        return sum(place.cleaned for place in self.places)

    def to_json(self) -> dict[str, Any]:
        """The erasure as JSON, without the values."""
        return {
            "columns": list(self.columns),
            "erased": self.is_done,
            "kept_files": self.keeps_files,
            "rows": self.rows,
            "places": [place.to_json() for place in self.places],
            "not_searched": [{"name": name, "reason": reason} for name, reason in self.not_searched],
            "recomputed": list(self.recomputed),
            "state": list(self.state),
            "mentions": list(self.mentions),
            "blocked": list(self.blocked),
            "unnamed_files": self.old_files.unnamed,
            "unnamed_until": self.old_files.unnamed_until,
            "old_files_kept": [{"name": name, "reason": reason} for name, reason in self.old_files.reasons],
        }

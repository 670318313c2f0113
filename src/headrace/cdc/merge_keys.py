"""By what the rows of a table are merged, as stored with the table: the same for every flow that changes them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from headrace.cdc.feed import ChangeFeed
from headrace.model.cdc import ALL_COLUMNS, BITEMPORAL, NO_COLUMNS, Columns

# A property of the table. Users cannot declare it: it says what is in the table, not what is wanted.
ROWS_PROPERTY = "headrace.cdc.rows"

_MEANING = re.compile(
    r"(?P<kind>bitemporal|type [12]) by \((?P<keys>.*?)\)(?P<order> in the order of .*?)"
    r"(?P<nulls>, NULL leaves (?P<keeps>.*?) as it was)?(?P<sets>, events say what they set)?"
    r"(?P<begins>, a version begins with a change of (?P<tracked>.*))?"
)
_COLUMNS = re.compile(r"(?P<all>all columns)?(?: but )?(?:\((?P<listed>.*)\))?")


@dataclass(frozen=True)
class MergedRows:
    """The keys, in lower case, and the SCD type."""

    keys: frozenset[str]
    scd_type: str

    @staticmethod
    def of(feed: ChangeFeed) -> MergedRows:
        """Those of a flow that changes rows."""
        shape = feed.shape
        return MergedRows(_folded(shape.keys), BITEMPORAL if shape.bitemporal else shape.scd_type.value)

    @staticmethod
    def of_property(text: str) -> MergedRows | None:
        """Those that a table says; None for what this version cannot read."""
        try:
            raw = json.loads(text)
            return MergedRows(frozenset(map(str, raw["keys"])), str(raw["scd_type"]))
        except (ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def of_meaning(text: str) -> MergedRows | None:
        """Those that the record of a flow says (``ChangeFeed.meaning``): tables of version 0.1 do not say them."""
        found = _MEANING.fullmatch(text)
        if found is None:
            return None
        return MergedRows(_folded(found["keys"].split(", ")), found["kind"].removeprefix("type "))

    def to_property(self) -> str:
        """The value of the table's property."""
        return json.dumps({"keys": sorted(self.keys), "scd_type": self.scd_type})

    def __str__(self) -> str:
        """For a reader, as in ``keys (city, id), SCD type 1``."""
        return f"keys ({', '.join(sorted(self.keys))}), SCD type {self.scd_type}"


def means_the_same(before: str, feed: ChangeFeed) -> bool:
    """True when rows and remembered events whose meaning was noted as a text go on with those of a feed.

    Neither the order of keys nor the way in which columns are listed says anything about a row: a list of columns, and
    all but the others, are the same.
    """
    if before == feed.meaning:
        return True
    old, new = _MEANING.fullmatch(before), _MEANING.fullmatch(feed.meaning)
    if old is None or new is None:
        return False
    if any(old[part] != new[part] for part in ("kind", "sets")) or old["order"].casefold() != new["order"].casefold():
        return False
    names = feed.shape.columns
    same = all(_chosen(old[part], names) == _chosen(new[part], names) for part in ("keeps", "tracked"))
    return same and _folded(old["keys"].split(", ")) == _folded(new["keys"].split(", "))


def _chosen(text: str | None, names: tuple[str, ...]) -> Collection[str]:
    """The columns behind what ``str(Columns)`` gave; nothing where nothing was said."""
    if text is None:
        return ()
    return _folded(_columns(text).chosen(names))


def _columns(text: str) -> Columns:
    found = _COLUMNS.fullmatch(text)
    if found is None:
        return NO_COLUMNS
    listed = tuple(found["listed"].split(", ")) if found["listed"] else ()
    return Columns(listed, all_but=bool(found["all"])) if listed else ALL_COLUMNS if found["all"] else NO_COLUMNS


def _folded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)

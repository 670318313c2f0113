"""The keys and SCD type by which a table is merged, stored with the table: the same for all flows into it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from headrace.cdc.feed import ChangeFeed
from headrace.model.cdc import ALL_COLUMNS, BITEMPORAL, NO_COLUMNS, Columns

# A table property. Users cannot declare it: it describes the stored rows, not the declaration.
MERGE_KEYS_PROPERTY = "headrace.cdc.rows"

_MEANING = re.compile(
    r"(?P<kind>bitemporal|type [12]) by \((?P<keys>.*?)\)(?P<order> in the order of .*?)"
    r"(?P<nulls>, NULL leaves (?P<keeps>.*?) as it was)?(?P<sets>, events say what they set)?"
    r"(?P<begins>, a version begins with a change of (?P<tracked>.*))?"
)
_COLUMNS = re.compile(r"(?P<all>all columns)?(?: but )?(?:\((?P<listed>.*)\))?")


@dataclass(frozen=True)
class MergeKeys:
    """The keys, in lower case, and the SCD type."""

    keys: frozenset[str]
    scd_type: str

    @staticmethod
    def of(feed: ChangeFeed) -> MergeKeys:
        """The keys and type that a flow merges by."""
        spec = feed.spec
        return MergeKeys(_folded(spec.keys), BITEMPORAL if spec.bitemporal else spec.scd_type.value)

    @staticmethod
    def of_property(text: str) -> MergeKeys | None:
        """Those in a table's property; None if this version cannot read it."""
        try:
            raw = json.loads(text)
            return MergeKeys(frozenset(map(str, raw["keys"])), str(raw["scd_type"]))
        except (ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def of_signature(text: str) -> MergeKeys | None:
        """Those in the record of a flow (``ChangeFeed.signature``): tables of version 0.1 do not have the property."""
        found = _MEANING.fullmatch(text)
        if found is None:
            return None
        return MergeKeys(_folded(found["keys"].split(", ")), found["kind"].removeprefix("type "))

    def to_property(self) -> str:
        """The value of the table property."""
        return json.dumps({"keys": sorted(self.keys), "scd_type": self.scd_type})

    def __str__(self) -> str:
        """For users, as in ``keys (city, id), SCD type 1``."""
        return f"keys ({', '.join(sorted(self.keys))}), SCD type {self.scd_type}"


def has_same_signature(before: str, feed: ChangeFeed) -> bool:
    """True if the rows and retained events with the stored signature *before* are still usable for *feed*.

    Neither the order of keys nor the way in which columns are listed matters: a list of columns equals "all but" the
    others.
    """
    if before == feed.signature:
        return True
    old, new = _MEANING.fullmatch(before), _MEANING.fullmatch(feed.signature)
    if old is None or new is None:
        return False
    if any(old[part] != new[part] for part in ("kind", "sets")) or old["order"].casefold() != new["order"].casefold():
        return False
    names = feed.spec.columns
    same = all(_chosen(old[part], names) == _chosen(new[part], names) for part in ("keeps", "tracked"))
    return same and _folded(old["keys"].split(", ")) == _folded(new["keys"].split(", "))


def _chosen(text: str | None, names: tuple[str, ...]) -> Collection[str]:
    """The columns that a text of ``str(Columns)`` selects; none without a text."""
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

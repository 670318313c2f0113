"""The features of Delta tables: which readers, writers and paths each one excludes.

Source: PROTOCOL.md, "Table Features", "Reader/Writer Feature Names"; deltalake 1.6.6 and Delta 4.4, tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

_OLD_READERS = "readers that do not know table features"
_OLD_WRITERS = "writers that do not know table features"
_RS_WRITES = "delta-rs as a writer"
# Features that every reader and writer has had since the first protocol versions.
_BASIC = frozenset({"appendonly", "invariants"})


class Need(str, Enum):
    """Who must know a feature to use a table that has it."""

    READERS = "readers and writers"
    WRITERS = "writers"


@dataclass(frozen=True)
class Feature:
    """A feature of Delta tables.

    Attributes:
        name: as the protocol spells it.
        need: who must know it.
        does: what it is for.
        excludes: who cannot read or write the table, or reads it wrongly; each a phrase.
        key: the property that turns it on in a table without table features; empty if there is none.
    """

    name: str
    need: Need
    does: str
    excludes: tuple[str, ...] = ()
    key: str = ""


_R, _W = Need.READERS, Need.WRITERS
_TO_PYARROW = "PyArrow and pandas readers of delta-rs (QueryBuilder works)"
_FIRST_COMMIT = "the creation of tables without Spark jobs"
_REPLACED_ROWS = "merges by replacing rows (MERGE is used)"
# Which files a version of a table with these features consists of is known, so that the other files can be removed.
FEATURES: tuple[Feature, ...] = (
    Feature("appendOnly", _W, "refuses to change or delete rows", (), "delta.appendOnly"),
    Feature("invariants", _W, "checks NOT NULL and simple conditions"),
    Feature("checkConstraints", _W, "checks CHECK constraints", (_FIRST_COMMIT,)),
    Feature(
        "changeDataFeed",
        _W,
        "stores the changes of rows for readers of the change data feed",
        (_REPLACED_ROWS, _FIRST_COMMIT),
        "delta.enableChangeDataFeed",
    ),
    Feature("generatedColumns", _W, "computes columns when rows are written", (_FIRST_COMMIT,)),
    Feature("identityColumns", _W, "numbers rows", (_OLD_WRITERS, _RS_WRITES, _FIRST_COMMIT)),
    Feature(
        "columnMapping",
        _R,
        "stores columns under other names, so that they can be renamed",
        (
            "readers that do not know column mapping",
            "PyArrow and pandas readers of delta-rs: NULL in columns that were added later",
            _FIRST_COMMIT,
        ),
        "delta.columnMapping.mode",
    ),
    Feature(
        "deletionVectors",
        _R,
        "marks rows as deleted instead of rewriting their file",
        (_OLD_READERS, _TO_PYARROW, "VACUUM of delta-rs with full=True: it deletes vectors in use", _FIRST_COMMIT),
        "delta.enableDeletionVectors",
    ),
    Feature("timestampNtz", _R, "stores timestamps without a time zone", (_OLD_READERS, _FIRST_COMMIT)),
    Feature(
        "typeWidening",
        _R,
        "lets the type of a column become wider",
        (_OLD_READERS, "delta-rs: reads no rows, writes none", _FIRST_COMMIT),
        "delta.enableTypeWidening",
    ),
    Feature("variantType", _R, "stores VARIANT columns", (_OLD_READERS, _FIRST_COMMIT)),
    Feature(
        "v2Checkpoint",
        _R,
        "writes checkpoints of the log in parts",
        (_OLD_READERS, _TO_PYARROW, _FIRST_COMMIT),
        "delta.checkpointPolicy",
    ),
    Feature(
        "vacuumProtocolCheck",
        _R,
        "checks the protocol before files are removed",
        (_OLD_READERS, "delta-rs: reads no rows, writes none", _FIRST_COMMIT),
    ),
    Feature("domainMetadata", _W, "stores metadata of other features", (_OLD_WRITERS, _RS_WRITES, _FIRST_COMMIT)),
    Feature(
        "clustering",
        _W,
        "sorts rows by CLUSTER BY columns",
        (_OLD_WRITERS, _RS_WRITES, "OPTIMIZE ZORDER BY", _FIRST_COMMIT),
    ),
    Feature(
        "rowTracking",
        _W,
        "gives each row an id that stays",
        (_OLD_WRITERS, _RS_WRITES, _REPLACED_ROWS, _FIRST_COMMIT),
        "delta.enableRowTracking",
    ),
    Feature(
        "inCommitTimestamp",
        _W,
        "stores the time of a commit in the commit",
        (_OLD_WRITERS, _RS_WRITES, _FIRST_COMMIT),
        "delta.enableInCommitTimestamps",
    ),
    Feature(
        "icebergCompatV2",
        _W,
        "lets Iceberg clients read the table",
        (_OLD_WRITERS, _RS_WRITES, "deletion vectors", _FIRST_COMMIT),
        "delta.enableIcebergCompatV2",
    ),
)
_BY_FOLDED: Mapping[str, Feature] = {feature.name.casefold(): feature for feature in FEATURES}
# What the property of a feature says when the feature is off.
_OFF = frozenset({"", "false", "none", "classic"})


@dataclass(frozen=True)
class TableFeatures:
    """The features of a table, known ones and the names of others; without those that every reader knows."""

    known: tuple[Feature, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return (*(feature.name for feature in self.known), *self.unknown)


def features_of(protocol: Collection[str], properties: Mapping[str, str]) -> TableFeatures:
    """The features of a table.

    Args:
        protocol: the names of features in its protocol, in any case.
        properties: its properties, which turn features on in tables of older protocols.
    """
    folded = {name.casefold() for name in protocol}
    given = {key.casefold(): value.strip().casefold() for key, value in properties.items()}
    for feature in FEATURES:
        if feature.key and given.get(feature.key.casefold(), "") not in _OFF:
            folded.add(feature.name.casefold())
    found = sorted(folded - _BASIC)
    known = tuple(_BY_FOLDED[name] for name in found if name in _BY_FOLDED)
    return TableFeatures(known, tuple(name for name in found if name not in _BY_FOLDED))

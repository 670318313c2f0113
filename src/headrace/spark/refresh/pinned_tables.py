"""The tables that a query reads, each pinned to one version for the whole refresh, and what changed in them.

Source: Delta's ``TahoeLogFileIndex``, which reads the newest version at execution unless the query travels in time, and
``CDCReader.changesToBatchDF``, which computes changes from the change feed, or from added and removed files with their
deletion vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.cdc.delta_change_feed import FEED_PROPERTY
from headrace.delta_log.tables import commit_actions, size_by_checksum
from headrace.model.comparable_types import compared_columns
from headrace.model.names import quoted
from headrace.model.properties import switched_on
from headrace.model.schema import Schema
from headrace.spark.analysis.relations import delta_index
from headrace.spark.comparison.comparable_values import comparable_column
from headrace.spark.delta.transaction import scala_object
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.session.active_session import make_active
from headrace.storage.view_positions import change_of, changed_bytes

# Columns that Delta adds to changes.
_CHANGE, _ADDED = "_change_type", ("insert", "update_postimage")
_FEED_COLUMNS = frozenset({_CHANGE, "_commit_version", "_commit_timestamp"})
# The column that says how many more of a row a table has than before; negative for fewer.
MORE = "__headrace_more"
_MOST_COMMITS = 1_000
# The column of a scan that has the name of each row's file; a name with a random id belongs to one file only.
_METADATA = "_metadata"
_UNIQUE_NAME = re.compile(r"^[\w.-]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}[\w.-]*$")
_MOST_NAMES = 100


class ChangeKind(Enum):
    """What commits did to the rows of a table."""

    NONE = "none"
    APPENDED = "appended"
    ANY = "any"


def reads_newest(leaf: Any) -> bool:
    """Whether a leaf reads the newest version of a Delta table as a whole."""
    index = delta_index(leaf)
    return index is not None and not index.isTimeTravelQuery() and bool(index.partitionFilters().isEmpty())


@dataclass(frozen=True)
class PinnedTable:
    """One version of a table.

    Attributes:
        session: the session of the refresh.
        path: of the table.
        table_id: its id.
        version: the version.
        log: Delta's handle of its log.
        snapshot: Delta's snapshot of the version.
    """

    session: SparkSession
    path: str
    table_id: str
    version: int
    log: Any
    snapshot: Any

    def rows(self) -> DataFrame:
        """The rows of the version, as a new relation each time."""
        jvm: Any = self.session._jvm  # noqa: SLF001 - Delta's classes have no other form in Python
        none = jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
        option = jvm.scala.Option
        pinned = self.log.createRelation(none, option.apply(self.snapshot), option.empty(), True)  # noqa: FBT003 - Scala's
        return DataFrame(self.session._jsparkSession.baseRelationToDataFrame(pinned), self.session)  # noqa: SLF001

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        known = size_by_checksum(self.path, self.version)
        return int(self.snapshot.sizeInBytes()) if known is None else known

    def rows_at(self, version: int, kind: ChangeKind) -> DataFrame:
        """The rows of an older version, since which the table has changed in this way."""
        added = self._added_names(version) if kind is ChangeKind.APPENDED else None
        if added is not None:
            return self.rows().filter(~F.col(f"{_METADATA}.file_name").isin(added))
        return self.session.read.format("delta").option("versionAsOf", version).load(self.path)

    def _added_names(self, version: int) -> list[str] | None:
        """The names of the files that later commits have added; None if others may have the same, or if they are many.

        Without them, the newest version is the older one. Delta would first rebuild the snapshot of the older version,
        which takes several jobs.
        """
        if _METADATA in (str(name).casefold() for name in self.snapshot.metadata().schema().fieldNames()):
            return None
        commits = (commit_actions(self.path, number) or () for number in range(version + 1, self.version + 1))
        files = (action["add"] for actions in commits for action in actions if "add" in action)
        names = [str(file["path"]).rsplit("/", 1)[-1] for file in files if file["dataChange"]]
        return names if len(names) <= _MOST_NAMES and all(map(_UNIQUE_NAME.search, names)) else None

    def changes_since(self, version: int, used: frozenset[str], kind: ChangeKind) -> DataFrame:
        """The rows that the version has more often, or less often, than an older one, with :data:`MORE`.

        Rows that a commit only moved to another file cancel out, and so do rows that differ in other columns than
        those *used*, which have any value then. Rows that were only appended are not compared with each other.
        """
        if kind is ChangeKind.APPENDED:
            return self._appended_since(version).withColumn(MORE, F.lit(1).cast("bigint"))
        jvm: Any = self.session._jvm  # noqa: SLF001 - the same
        make_active(self.session)
        none, some = jvm.scala.Option.empty(), jvm.scala.Option.apply(self.snapshot)
        reader = scala_object(jvm.org.apache.spark.sql.delta.commands.cdc, "CDCReader$")
        java: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        properties = {str(entry._1()): str(entry._2()) for entry in _entries(self.snapshot.metadata().configuration())}  # noqa: SLF001 - a Scala pair
        from_files = not switched_on(properties, FEED_PROPERTY)
        changes = reader.changesToBatchDF(self.log, version + 1, self.version, java, none, some, from_files, none)
        rows = DataFrame(changes, self.session)
        more = F.when(F.col(_CHANGE).isin(*_ADDED), 1).otherwise(-1)
        return netted(rows.withColumn(MORE, more).drop(*_FEED_COLUMNS), used)

    def _appended_since(self, version: int) -> DataFrame:
        """The rows of the files that later commits have added, without a look at the older version.

        Delta's reader of changes first rebuilds the older snapshot, which takes longer than to read a few files.
        """
        jvm: Any = self.session._jvm  # noqa: SLF001 - the same
        make_active(self.session)
        none, files = jvm.scala.Option.empty(), jvm.java.util.ArrayList()
        commits = self.log.getChanges(version + 1, self.version, none, True)  # noqa: FBT003 - Scala's
        while commits.hasNext():
            for action in items(commits.next()._2()):  # noqa: SLF001 - a Scala pair
                if node_kind(action) == "AddFile" and action.dataChange():
                    files.add(action)
        added = jvm.org.apache.spark.api.python.PythonUtils.toSeq(files).toList()
        return DataFrame(self.log.createDataFrame(self.snapshot, added, False, none), self.session)  # noqa: FBT003 - Scala's


class PinnedTables:
    """The tables of a plan by path. Each is looked up once, also if the plan reads it several times.

    Args:
        session: the session of the refresh.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._known: dict[str, PinnedTable] = {}

    def of(self, leaf: Any) -> PinnedTable:
        """The table that a leaf reads."""
        jvm: Any = self._session._jvm  # noqa: SLF001 - Delta's classes have no other form in Python
        log = delta_index(leaf).deltaLog()
        uri = log.dataPath().toUri()
        path = str(uri.getPath() if uri.getScheme() in (None, "file") else uri.toString())
        if path not in self._known:
            none = jvm.scala.Option.empty()
            snapshot = log.update(False, none, none)  # noqa: FBT003 - Scala's
            table_id, version = str(snapshot.metadata().id()), int(snapshot.version())
            self._known[path] = PinnedTable(self._session, path, table_id, version, log, snapshot)
        return self._known[path]

    def all(self) -> tuple[PinnedTable, ...]:
        """All tables, in the order in which they were first looked up."""
        return tuple(self._known.values())


def fits(leaf: Any, table: PinnedTable) -> bool:
    """Whether a pinned table has the columns with which a plan was analyzed."""
    return bool(leaf.relation().schema().json() == table.snapshot.metadata().schema().json())


def reason_for_reading_all(table: PinnedTable, since: int) -> str | None:
    """Why the changes of a table since a version are not known; None if they are."""
    if table.version < since:
        return f"{table.path} is older than at the last refresh"
    if table.version - since > _MOST_COMMITS:
        return f"{table.path} has more than {_MOST_COMMITS:,} commits since the last refresh"
    if _FEED_COLUMNS & {str(name).casefold() for name in table.snapshot.metadata().schema().fieldNames()}:
        return f"{table.path} has a column with a name that Delta uses for changes"
    for number in range(since + 1, table.version + 1):
        actions = commit_actions(table.path, number)
        if actions is None:
            return f"the log of {table.path} no longer has version {number}"
        if any("metaData" in action or "protocol" in action for action in actions):
            return f"the definition of {table.path} changed in version {number}"
        operation = change_of(actions)
        files = [action.get("add") or action.get("remove") or {} for action in actions]
        if operation is not None and any(file.get("dataChange") is False for file in files):
            return f"{operation} changed files of {table.path} in version {number}, and says that no row changed"
    return None


def changed_files(table: PinnedTable, since: int) -> tuple[ChangeKind, int]:
    """What the commits after a version did, and about how many bytes the rows have that they added or removed."""
    kind, total = ChangeKind.NONE, 0
    for number in range(since + 1, table.version + 1):
        actions = commit_actions(table.path, number) or ()
        total += changed_bytes(actions)
        for action in actions:
            file: Mapping[str, Any] = action.get("add") or {}
            if "remove" in action or "cdc" in action or file.get("deletionVector"):
                kind = ChangeKind.ANY
            elif "add" in action and kind is ChangeKind.NONE:
                kind = ChangeKind.APPENDED
    return kind, total


def netted(changes: DataFrame, used: frozenset[str]) -> DataFrame:
    """The rows that were added more often than removed, or the reverse, as :data:`MORE` says.

    Rows are equal if their columns *used* are; the others then have the values of one of them.
    """
    names = [name for name in changes.columns if name != MORE]
    fields = changes.select(*map(quoted, names)).schema.jsonValue()["fields"]
    columns = {column.names[0]: column for column in compared_columns(fields, fields)}
    wanted = [name for name in names if name in used]
    rows = changes.select(
        *(comparable_column(columns[name], 0, fields).alias(f"c{number}") for number, name in enumerate(wanted)),
        *(exact_text(changes, name).alias(f"e{number}") for number, name in enumerate(wanted)),
        F.struct(*map(quoted, names)).alias("row"),
        MORE,
    )
    keys = [f"{letter}{number}" for letter in "ce" for number in range(len(wanted))]
    sums = rows.groupBy(*keys).agg(F.sum(MORE).alias(MORE), F.any_value("row").alias("row"))
    kept = sums.filter(F.col(MORE) != 0)
    return kept.select(*(F.col("row").getField(name).alias(name) for name in names), MORE)


def exact_text(frame: DataFrame, name: str) -> Column:
    """What distinguishes values that Spark takes for equal: 0.0 and -0.0."""
    text = frame.schema[name].dataType.simpleString()
    inexact = any(word in text for word in ("float", "double", "variant"))
    return F.col(quoted(name)).cast("string") if inexact else F.lit(None).cast("string")


def _entries(scala_map: Any) -> Iterator[Any]:
    yield from items(scala_map.toList())


def has_same_columns(frame: DataFrame, schema: Schema) -> bool:
    """Whether a frame has the columns of a table, apart from NOT NULL."""
    return schema.nullable == Schema.from_json(frame.schema.json()).nullable

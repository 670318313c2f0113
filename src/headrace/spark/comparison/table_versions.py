"""Versions of Delta tables through Spark: their schemas, and the files that another version has not.

A file that two versions of a table share, with the same deletion vector, has the same rows in both, so that neither has
to read it.

Source: ``DeltaLog.getSnapshotAt`` and ``DeltaLog.createDataFrame`` of Delta 4.4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.field_pairs import Field

_NAME = ("path", "deletionVector.storageType", "deletionVector.pathOrInlineDv", "deletionVector.offset")


@dataclass(frozen=True)
class FileTotals:
    """Data files: their number, their bytes, and their rows without deleted ones; None if the log does not say."""

    files: int = 0
    size: int = 0
    rows: int | None = 0

    def __add__(self, other: FileTotals) -> FileTotals:
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return FileTotals(self.files + other.files, self.size + other.size, rows)


@dataclass(frozen=True)
class VersionFiles:
    """The files of a version, and those of them that another version has not, as the log describes them."""

    files: DataFrame
    differing: DataFrame
    total: FileTotals
    differing_total: FileTotals


class TableAtVersion:
    """A version of a table.

    Args:
        session: the session.
        path: of the table.
        version: one that the log still has.
    """

    def __init__(self, session: SparkSession, path: str, version: int) -> None:
        self.session = session
        self.path = path
        self.version = version
        jvm: Any = session._jvm  # noqa: SLF001 - Delta's log has no other form in Python
        self._jvm = jvm
        self._log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
        none = jvm.scala.Option.empty()
        self._snapshot = self._log.getSnapshotAt(version, none, none, False)  # noqa: FBT003 - Scala's

    @cached_property
    def fields(self) -> list[Field]:
        """The columns, as Spark's JSON of a struct has them."""
        found: list[Field] = json.loads(self._snapshot.schema().json())["fields"]
        return found

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table."""
        configuration = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
            self._snapshot.metadata().configuration()
        )
        return {str(key): str(configuration[key]) for key in configuration}

    def files_without(self, other: TableAtVersion | None) -> VersionFiles:
        """All files, and those that another version of the table has not: all of them without another version."""
        files = DataFrame(self._snapshot.allFiles().toDF(), self.session)
        if other is None:
            total = _totals(files, F.lit(False)).get(False, FileTotals())  # noqa: FBT003 - a value
            return VersionFiles(files, files, total, total)
        theirs = DataFrame(other._snapshot.allFiles().toDF(), self.session).select(  # noqa: SLF001 - of the same class
            *(F.col(name).alias(f"their{number}") for number, name in enumerate(_NAME))
        )
        same = [F.col(name).eqNullSafe(F.col(f"their{number}")) for number, name in enumerate(_NAME)]
        marked = files.join(theirs, same, "left")
        is_shared = F.col("their0").isNotNull()
        totals = _totals(marked, is_shared)
        differing = totals.get(False, FileTotals())
        return VersionFiles(
            files, marked.filter(~is_shared).select(files["*"]), differing + totals.get(True, FileTotals()), differing
        )

    def rows_of(self, files: DataFrame) -> DataFrame:
        """The rows of some of the files."""
        typed = getattr(files._jdf, "as")(self._snapshot.allFiles().encoder())  # noqa: SLF001 - the same
        added = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(typed.collectAsList())
        none = self._jvm.scala.Option.empty()
        return DataFrame(self._log.createDataFrame(self._snapshot, added, False, none), self.session)  # noqa: FBT003 - Scala's


def _totals(files: DataFrame, group: Column) -> dict[bool, FileTotals]:
    """The totals of files in two groups."""
    rows = F.get_json_object("stats", "$.numRecords").cast("bigint")
    deleted = F.coalesce(F.col("deletionVector.cardinality"), F.lit(0))
    counted = files.groupBy(group.alias("group")).agg(
        F.count(F.lit(1)), F.sum("size"), F.count(rows), F.sum(rows - deleted)
    )
    return {
        bool(shared): FileTotals(count, size, found if known == count else None)
        for shared, count, size, known, found in counted.collect()
    }

"""Deletes rows from a Delta table and adds others in one commit, whatever the condition that matches them.

Delta's MERGE can do that too. But when it inserts rows, its join shuffles all rows of the files it touches, however few
rows change, even if it only writes deletion vectors. Here a broadcast join finds the rows to delete, without a shuffle
of the table's rows.

Source: what ``WriteIntoDelta`` of Delta 4.4 does for its option ``replaceOn``, which adds every row that it matches;
this module takes the same steps through the same classes. They are not public, so other versions are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.spark.delta.tables import delta_table
from headrace.spark.session.scoped_confs import with_confs

_VERSIONS = ("4.4.",)
# No column should be called so.
_TARGET, _MATCHED = "__headrace_target", "__headrace_gone"


def is_supported(session: SparkSession) -> bool:
    """Whether the session's Delta version supports these transactions."""
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's classes have no other form in Python
    return str(jvm.io.delta.package.VERSION()).startswith(_VERSIONS)


def delta_transaction(session: SparkSession, path: str) -> DeltaTransaction:
    """A transaction on the newest version of the table at a path.

    Any concurrent change of the table makes the commit fail, except for blind appends.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    delta = jvm.org.apache.spark.sql.delta
    none = jvm.scala.Option.empty()
    log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    opened = log.startTransaction(none, none)
    opened.readWholeTable()
    return DeltaTransaction(session, path, log, opened)


@dataclass
class DeltaTransaction:
    """An open transaction.

    Args:
        session: the session in which its queries run.
        path: the path of its table.
        log: Delta's handle of the table's log.
        opened: Delta's own transaction.
    """

    session: SparkSession
    path: str
    log: Any
    opened: Any

    def __post_init__(self) -> None:
        """Start with no actions."""
        self._actions = _sequence(self.session, [])

    def rows(self) -> DataFrame:
        """The rows of the table version that the transaction reads."""
        option = self._jvm.scala.Option
        # Pinned to that snapshot, without a lookup of the version in the log, which may no longer have it.
        pinned = self.log.createRelation(
            *(_sequence(self.session, []), option.apply(self.opened.snapshot()), option.empty()),
            True,  # noqa: FBT003 - Scala's
        )
        return DataFrame(self.session._jsparkSession.baseRelationToDataFrame(pinned), self.session)  # noqa: SLF001

    def newest_of(self, transaction: str) -> int:
        """The newest version of a streaming transaction in the table; -1 for none."""
        return int(self.opened.txnVersion(transaction))

    def delete_matching(
        self, rows: DataFrame, identity: Sequence[str], within: Column | None = None, *, null_safe: bool = False
    ) -> int:
        """Delete the rows of the table that match other rows.

        Args:
            rows: the rows to match, deterministic and few enough to broadcast.
            identity: the columns of the table and of *rows* to compare.
            within: a condition on the table's columns that the rows fulfil, used to skip files.
            null_safe: NULL equals NULL; by default it equals nothing.

        Returns:
            The number of deleted rows.
        """
        name = f"__headrace_{uuid4().hex}"
        equals = "<=>" if null_safe else "="
        same = " AND ".join(f"{_TARGET}.{quoted(one)} {equals} {_MATCHED}.{quoted(one)}" for one in identity)
        among = f"EXISTS (SELECT 1 FROM {quoted(name)} AS {_MATCHED} WHERE {same})"  # noqa: S608 - names, quoted
        text = f"DELETE FROM delta.{quoted(self.path)} AS {_TARGET} WHERE {among}"  # noqa: S608 - the same
        java: Any = self.session._jsparkSession  # noqa: SLF001
        settings = scala_object(self._jvm.org.apache.spark.sql.delta.sources, "DeltaSQLConf$")
        allowed = settings.ALLOW_EXISTS_SUBQUERY_IN_DELETE().key()
        # Without a shuffle of the table's rows: after one, they lack the file names that Delta needs.
        F.broadcast(rows).createTempView(name)
        try:
            with with_confs(self.session, {allowed: "true"}):
                command = self._analyzed(java.sessionState(), text, within)
                self._add(command.performDelete(java, self.log, self.opened).productElement(0))
                return int(command.metrics().apply("numDeletedRows").value())
        finally:
            self.session.catalog.dropTempView(name)

    def delete_all(self) -> None:
        """Delete all rows of the table; reads none of them."""
        java: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        delete = self._analyzed(java.sessionState(), f"DELETE FROM delta.{quoted(self.path)}", None)  # noqa: S608 - a name, quoted
        self._add(delete.performDelete(java, self.log, self.opened).productElement(0))

    def add(self, rows: DataFrame) -> None:
        """Add rows with the columns of the table."""
        self._add(self.opened.writeFiles(rows._jdf))  # noqa: SLF001

    def commit(self, transaction: tuple[str, int] | None, metrics: Mapping[str, int]) -> None:
        """Commit all changes, as operation MERGE.

        Args:
            transaction: the streaming transaction id and version of the commit; None for none.
            metrics: the operation metrics, with the names of a MERGE.
        """
        java: Any = self.session._jsparkSession  # noqa: SLF001
        spark = self._jvm.org.apache.spark
        if transaction is not None:
            self.add_batches(dict([transaction]))
        counted = self._jvm.java.util.HashMap()
        for name, value in metrics.items():
            metric = spark.sql.execution.metric.SQLMetrics.createMetric(java.sparkContext(), name)
            metric.set(value)
            counted.put(name, metric)
        self.opened.registerSQLMetrics(java, spark.api.python.PythonUtils.toScalaMap(counted))
        merge = scala_object(spark.sql.delta, "DeltaOperations$Merge$")
        nothing = _sequence(self.session, [])
        self.opened.commit(self._actions, merge.apply(self._jvm.scala.Option.empty(), nothing, nothing, nothing))
        changed = delta_table(self.session, self.path).toDF().queryExecution().analyzed()
        java.sharedState().cacheManager().recacheByPlan(java, changed)

    def record(self, transactions: Mapping[str, int]) -> None:
        """Commit versions of streaming transactions alone, without a change of the table.

        Args:
            transactions: the version by transaction id.
        """
        self.add_batches(transactions)
        self.end(scala_object(self._jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$"))

    def add_batches(self, transactions: Mapping[str, int]) -> None:
        """Set versions of streaming transactions, by transaction id."""
        made = self._jvm.org.apache.spark.sql.delta.actions.SetTransaction
        now = self._jvm.scala.Option.apply(self.log.clock().getTimeMillis())
        self.add_actions([made(name, version, now) for name, version in transactions.items()])

    def add_actions(self, actions: Sequence[Any]) -> None:
        """Add actions of Delta's own to the commit."""
        self._add(_sequence(self.session, actions))

    def end(self, operation: Any) -> None:
        """Commit all changes, as an operation of Delta's."""
        self.opened.commit(self._actions, operation)

    def replace_with_empty(self, model: str, transaction: str, version: int) -> None:
        """Replace the table by an empty one with the columns, properties and comment of another, in one commit.

        Does nothing if the table already has this version of the transaction, or a later one. A concurrent commit makes
        it fail.

        Args:
            model: the path of the other table.
            transaction: the streaming transaction id of the commit.
            version: the transaction's version.
        """
        if self.newest_of(transaction) >= version:
            return
        java: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        delta = self._jvm.org.apache.spark.sql.delta
        before = self.opened.snapshot().domainMetadata()
        self.delete_all()
        metadata = delta.DeltaLog.forTable(java, model).unsafeVolatileSnapshot().metadata()
        self.opened.updateMetadataForNewTableInReplace(metadata)
        domains = scala_object(delta, "DomainMetadataUtils$")
        self._add(domains.handleDomainMetadataForReplaceTable(before, _sequence(self.session, [])))
        none = self._jvm.scala.Option.empty()
        operation = getattr(delta, "DeltaOperations$ReplaceTable")(metadata, False, True, False, *([none] * 7))  # noqa: FBT003 - Scala's
        self.add_batches({transaction: version})
        self.end(operation)

    def _analyzed(self, state: Any, text: str, within: Column | None) -> Any:
        """Delta's command for a DELETE, restricted by an additional condition."""
        spark = self._jvm.org.apache.spark.sql
        plan = state.sqlParser().parsePlan(text)
        if within is not None:
            column: Any = within._jc  # noqa: SLF001 - the same
            condition = scala_object(spark.classic, "ColumnNodeToExpressionConverter$").apply(column.node())
            both = spark.catalyst.expressions.And(condition, plan.condition())
            plan = plan.copy(plan.table(), both)
        command = state.analyzer().execute(plan)
        state.analyzer().checkAnalysis(command)
        # Delta skips files only by constants, not by expressions that are still to be evaluated.
        return scala_object(spark.catalyst.optimizer, "ConstantFolding$").apply(command)

    def _add(self, actions: Any) -> None:
        self._actions = self._actions.concat(actions)

    @property
    def _jvm(self) -> Any:
        return self.session._jvm  # noqa: SLF001 - the same


def _sequence(session: SparkSession, items: Sequence[Any]) -> Any:
    """A Scala sequence."""
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items)).toList()


def scala_object(package: Any, name: str) -> Any:
    """The single instance of a Scala object of a package."""
    return getattr(getattr(package, name), "MODULE$")

"""Rows taken out of a Delta table and others added to it by one commit, whatever tells them apart.

Delta's MERGE can do that, too. Where it adds rows it joins in a way that exchanges all rows of the files it touches
between tasks, however few rows change, and even if all that it writes are deletion vectors. Here the rows that are
taken out are found by a join that leaves those of the table where they are.

Source: what ``WriteIntoDelta`` of Delta 4.4 does for its option ``replaceOn``, which adds every row that it looks for;
the same steps are taken through the same classes. They are no public interface, so other versions are not tried.
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
_TARGET, _GONE = "__headrace_target", "__headrace_gone"


def is_known(session: SparkSession) -> bool:
    """Whether transactions can be opened with the Delta of a session."""
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's classes have no other form in Python
    return str(jvm.io.delta.package.VERSION()).startswith(_VERSIONS)


def delta_transaction(session: SparkSession, path: str) -> DeltaTransaction:
    """A transaction on the newest version of the table at a path.

    Whatever others change in the table before the commit, but for rows that they only add without a look at it, makes
    the commit fail.
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
        session: in which its queries run.
        path: of its table.
        log: Delta's handle of the table's log.
        opened: Delta's own transaction.
    """

    session: SparkSession
    path: str
    log: Any
    opened: Any

    def __post_init__(self) -> None:
        """Nothing is done yet."""
        self._actions = self._sequence([])

    def rows(self) -> DataFrame:
        """The rows of the table that the transaction is on."""
        option = self._jvm.scala.Option
        # As of that version, without a search for it in the log, which has an end.
        pinned = self.log.createRelation(self._sequence([]), option.apply(self.opened.snapshot()), option.empty(), True)  # noqa: FBT003 - Scala's
        return DataFrame(self.session._jsparkSession.baseRelationToDataFrame(pinned), self.session)  # noqa: SLF001

    def newest_of(self, transaction: str) -> int:
        """The version of a streaming transaction that the table has; -1 for none."""
        return int(self.opened.txnVersion(transaction))

    def take_out(self, rows: DataFrame, identity: Sequence[str], within: Column | None = None) -> int:
        """Take out the rows of the table that are among others.

        Args:
            rows: settled ones, few enough for every task; NULL is not equal to anything.
            identity: the columns, of the table and of *rows*, by which they are compared.
            within: a condition on the columns of the table that they fulfil: by it files are passed over.

        Returns:
            How many were taken out.
        """
        name = f"__headrace_{uuid4().hex}"
        same = " AND ".join(f"{_TARGET}.{quoted(one)} = {_GONE}.{quoted(one)}" for one in identity)
        among = f"EXISTS (SELECT 1 FROM {quoted(name)} AS {_GONE} WHERE {same})"  # noqa: S608 - names, quoted
        text = f"DELETE FROM delta.{quoted(self.path)} AS {_TARGET} WHERE {among}"  # noqa: S608 - the same
        java: Any = self.session._jsparkSession  # noqa: SLF001
        settings = _object(self._jvm.org.apache.spark.sql.delta.sources, "DeltaSQLConf$")
        allowed = settings.ALLOW_EXISTS_SUBQUERY_IN_DELETE().key()
        # Without an exchange of the table's rows: behind one they do not know their files, and Delta asks them.
        F.broadcast(rows).createTempView(name)
        try:
            with with_confs(self.session, {allowed: "true"}):
                command = self._analyzed(java.sessionState(), text, within)
                self._add(command.performDelete(java, self.log, self.opened).productElement(0))
                return int(command.metrics().apply("numDeletedRows").value())
        finally:
            self.session.catalog.dropTempView(name)

    def add(self, rows: DataFrame) -> None:
        """Add rows, which have the columns of the table."""
        self._add(self.opened.writeFiles(rows._jdf))  # noqa: SLF001

    def commit(self, transaction: tuple[str, int] | None, metrics: Mapping[str, int]) -> None:
        """Make all of it a commit, which calls itself a MERGE.

        Args:
            transaction: the streaming transaction that it is, with the version; None for none.
            metrics: of the operation, as a MERGE names them.
        """
        java: Any = self.session._jsparkSession  # noqa: SLF001
        spark = self._jvm.org.apache.spark
        if transaction is not None:
            name, version = transaction
            now = self._jvm.scala.Option.apply(self.log.clock().getTimeMillis())
            self._add(self._sequence([spark.sql.delta.actions.SetTransaction(name, version, now)]))
        counted = self._jvm.java.util.HashMap()
        for name, value in metrics.items():
            metric = spark.sql.execution.metric.SQLMetrics.createMetric(java.sparkContext(), name)
            metric.set(value)
            counted.put(name, metric)
        self.opened.registerSQLMetrics(java, spark.api.python.PythonUtils.toScalaMap(counted))
        merge = _object(spark.sql.delta, "DeltaOperations$Merge$")
        nothing = self._sequence([])
        self.opened.commit(self._actions, merge.apply(self._jvm.scala.Option.empty(), nothing, nothing, nothing))
        changed = delta_table(self.session, self.path).toDF().queryExecution().analyzed()
        java.sharedState().cacheManager().recacheByPlan(java, changed)

    def become_empty_like(self, model: str, transaction: str, version: int) -> None:
        """Make the table an empty one with the columns, properties and comment of another; its own commit.

        Nothing happens where the table has the transaction with this version already, or a later one; whatever others
        commit after the transaction was opened makes it fail.

        Args:
            model: the path of the other table.
            transaction: the streaming transaction that it is.
            version: of the transaction.
        """
        if self.newest_of(transaction) >= version:
            return
        java: Any = self.session._jsparkSession  # noqa: SLF001 - the same
        delta = self._jvm.org.apache.spark.sql.delta
        before = self.opened.snapshot().domainMetadata()
        delete = self._analyzed(java.sessionState(), f"DELETE FROM delta.{quoted(self.path)}", None)  # noqa: S608 - the same
        self._add(delete.performDelete(java, self.log, self.opened).productElement(0))
        metadata = delta.DeltaLog.forTable(java, model).unsafeVolatileSnapshot().metadata()
        self.opened.updateMetadataForNewTableInReplace(metadata)
        domains = _object(delta, "DomainMetadataUtils$")
        self._add(domains.handleDomainMetadataForReplaceTable(before, self._sequence([])))
        none = self._jvm.scala.Option.empty()
        operation = getattr(delta, "DeltaOperations$ReplaceTable")(metadata, False, True, False, *([none] * 7))  # noqa: FBT003 - Scala's
        now = self._jvm.scala.Option.apply(self.log.clock().getTimeMillis())
        self._add(self._sequence([delta.actions.SetTransaction(transaction, version, now)]))
        self.opened.commit(self._actions, operation)

    def _analyzed(self, state: Any, text: str, within: Column | None) -> Any:
        """Delta's command for a DELETE, on rows for which a condition holds as well."""
        spark = self._jvm.org.apache.spark.sql
        plan = state.sqlParser().parsePlan(text)
        if within is not None:
            column: Any = within._jc  # noqa: SLF001 - the same
            condition = _object(spark.classic, "ColumnNodeToExpressionConverter$").apply(column.node())
            both = spark.catalyst.expressions.And(condition, plan.condition())
            plan = plan.copy(plan.table(), both)
        command = state.analyzer().execute(plan)
        state.analyzer().checkAnalysis(command)
        # Delta passes over files by values, and not by what is yet to be computed.
        return _object(spark.catalyst.optimizer, "ConstantFolding$").apply(command)

    def _add(self, actions: Any) -> None:
        self._actions = self._actions.concat(actions)

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items)).toList()

    @property
    def _jvm(self) -> Any:
        return self.session._jvm  # noqa: SLF001 - the same


def _object(package: Any, name: str) -> Any:
    """A Scala object of a package."""
    return getattr(getattr(package, name), "MODULE$")

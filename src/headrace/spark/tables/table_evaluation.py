"""The evaluation of a table's expectations on the batches of a flow."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession

from headrace.expectations.compile import Rules
from headrace.graph.table_rules import table_rules_of
from headrace.model.datasets import Dataset
from headrace.model.names import QualifiedName
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.update.batch_target import BatchTarget
from headrace.spark.update.context import UpdateContext


def table_evaluation(
    context: UpdateContext, dataset: Dataset, target: BatchTarget, *, apply_expectations: bool
) -> tuple[Evaluation, AbstractContextManager[object] | None]:
    """The evaluation of a table's expectations, and the lock that its flows need, if any."""

    def read_table(session: SparkSession, name: QualifiedName) -> DataFrame:
        return session.read.format("delta").load(context.table_path(name))

    if not table_rules_of(dataset):
        return Evaluation(Rules(dataset.expectations if apply_expectations else ())), None
    table_rules = TableRules(dataset.expectations, read_table, target.table, replaces=target.replaces)
    # Rows that are written without expectations still affect the rows of other flows.
    table_lock = context.table_locks[dataset.name].lock if table_rules.needs_table_lock else None
    evaluation = Evaluation(table_rules.rules, table_rules) if apply_expectations else Evaluation(Rules(()))
    return evaluation, table_lock

"""Finds out whether the groups of a query can be refreshed one by one, from its analyzed plan.

A query has this form if it consists of projections and filters over one aggregate, DISTINCT, or window functions with
the same partitions, whose input is a tree of the operators in ``_RULES`` over tables. The rows of the tree then change
only in groups whose key occurs in a row that is computed from a changed row of a table, and each group can be computed
again from its own rows. A query that is only such a tree has its rows as groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from headrace.model.refresh import Obstacle, RefreshMethod, RefreshRule
from headrace.spark.analysis.merge_rules import MergeRule, merge_rule
from headrace.spark.analysis.plan_columns import column_id, column_of, value_of
from headrace.spark.jvm.plan_nodes import items, node_kind

# Operators that compute each of their rows from one row of their input, or only order and distribute rows.
_ROW_WISE = frozenset(
    {
        *("Project", "Filter", "SubqueryAlias", "View", "Generate", "Expand"),
        *("Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint"),
    }
)
# Those of them that may be above the groups: the columns of a group stay in one row.
_ABOVE = _ROW_WISE - {"Generate", "Expand"}
_JOINS = frozenset({"INNER", "CROSS", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"})
_CONSTANTS = frozenset({"LocalRelation", "OneRowRelation", "Range"})
# The operators of a tree whose changed rows are found, see ``headrace.spark.refresh.changed_plans``.
_RULES = _ROW_WISE | {"Distinct", "Union", "Join"}

# Aggregate functions whose result does not depend on the order of rows; that of sums of floating-point numbers depends
# on it only within rounding.
_AGGREGATES = frozenset(
    {
        *("Count", "CountIf", "Sum", "Average", "Min", "Max", "BoolAnd", "BoolOr"),
        *("BitAndAgg", "BitOrAgg", "BitXorAgg", "HyperLogLogPlusPlus"),
        *("StddevPop", "StddevSamp", "VariancePop", "VarianceSamp", "CovPopulation", "CovSample", "Corr"),
        *("Skewness", "Kurtosis", "Percentile", "Median", "PercentileCont", "PercentileDisc"),
        *("RegrCount", "RegrAvgX", "RegrAvgY", "RegrR2", "RegrSlope", "RegrIntercept"),
        *("RegrSXX", "RegrSXY", "RegrSYY"),
    }
)
# Window functions that give rows which ORDER BY takes for equal the same result.
_RANKS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})
_LIMIT = Obstacle(
    "LIMIT", "which rows it keeps depends on their order", "Remove it, or apply it where the view is read"
)
_FIRST_OF_EQUALS = Obstacle(
    "dropDuplicates on some columns",
    "which of the rows is kept is not defined",
    "Group by these columns, and choose the others with min or max",
)
_REFUSED = {
    "GlobalLimit": _LIMIT,
    "LocalLimit": _LIMIT,
    "Tail": _LIMIT,
    "Offset": Obstacle("OFFSET", "which rows it skips depends on their order", "Remove it"),
    "Deduplicate": _FIRST_OF_EQUALS,
    "Aggregate": Obstacle(
        "aggregate below another operator that needs all rows",
        "the changed rows of an aggregate are not known",
        "Write the inner aggregate as a materialized view of its own, and read that view",
    ),
    "Window": Obstacle(
        "window function below another operator that needs all rows",
        "the changed rows of a window are not known",
        "Write it as a materialized view of its own, and read that view",
    ),
    "Intersect": Obstacle("INTERSECT", "rows are compared with all others", "Write SELECT DISTINCT with a SEMI JOIN"),
    "Except": Obstacle("EXCEPT", "rows are compared with all others", "Write SELECT DISTINCT with an ANTI JOIN"),
    "Sample": Obstacle("TABLESAMPLE", "which rows it keeps depends on the layout of files", "Filter by a column"),
    "LateralJoin": Obstacle("lateral join", "its right side is computed for each row", "Write it as a join"),
    "UnionLoop": Obstacle("recursive WITH clause", "each step needs all rows of the step before"),
}
_ONE_PARTITION = Obstacle(
    "window function without PARTITION BY", "all rows are one partition", "Add PARTITION BY, or rank where it is read"
)
_SEVERAL_PARTITIONS = Obstacle(
    "window functions with different PARTITION BY",
    "a changed row changes rows of several partitions",
    "Write each as a materialized view of its own",
)
_ONE_GROUP = Obstacle(
    "aggregate without GROUP BY",
    "all rows are one group, and its values do not follow from those of the view and the changed rows",
    "Group by a column, and add up the groups where it is read",
)
_NOT_DETERMINISTIC = Obstacle("expression that is not deterministic", "the same rows may give another result")
_CLOCK = Obstacle(
    "current time, date or user",
    "the result changes while the inputs do not",
    "Compare with the time where the view is read",
)
_PYTHON_UDF = Obstacle("user-defined function", "its code may depend on more than its arguments", "Use SQL functions")
_SUBQUERY = Obstacle("subquery in an expression", "its rows change together with all others", "Write it as a join")


@dataclass(frozen=True)
class GroupedQuery:
    """A query whose groups can be refreshed.

    Attributes:
        plan: its analyzed plan, a Java object, without WITH clauses.
        node: the operator that needs all rows of a group: an aggregate or a window; None if the groups are the rows.
        depth: the number of operators above it.
        keys: the expressions that make the groups, over the rows of its child, or of the plan.
        columns: the columns of the result that hold the keys.
        merge: how its groups follow from their stored rows and the changed rows; None if they do not.
        unmerged: why they do not; empty if they do, and for rows and windows.
        incomparable: why rows cannot be found by their values, so that they can only be added; None if they can.
    """

    plan: Any
    node: Any
    depth: int
    keys: tuple[Any, ...]
    columns: tuple[str, ...]
    merge: MergeRule | None = None
    unmerged: str = ""
    incomparable: str | None = None

    @property
    def method(self) -> RefreshMethod:
        """How much of it a refresh computes."""
        return RefreshMethod.ROWS if self.node is None else RefreshMethod.GROUPS

    @property
    def follows_from_rows(self) -> bool:
        """Whether its new rows follow from its stored rows and the changed rows of its tree, for most changes."""
        return self.node is None or self.merge is not None


def refresh_rule(frame: DataFrame, is_table: Callable[[Any], bool]) -> RefreshRule:
    """How the query of a frame can be refreshed.

    Args:
        frame: the result of the query.
        is_table: whether a leaf of the plan reads a table whose changes are known.
    """
    try:
        found = grouped_query(frame, is_table)
    except (Py4JError, TypeError) as error:
        # A plan with parts that no rule knows: they have other methods, or none.
        found = Obstacle("plan of the query", f"it cannot be read ({type(error).__name__})")
    if isinstance(found, Obstacle):
        return RefreshRule(obstacle=found)
    keys = () if found.node is None else found.columns
    return RefreshRule(found.method, keys, merges=found.merge is not None, unmerged=found.unmerged)


def grouped_query(frame: DataFrame, is_table: Callable[[Any], bool]) -> GroupedQuery | Obstacle:
    """The groups of a query, or what prevents that they are refreshed one by one; arguments as above."""
    java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the same
    plan = java.queryExecution().analyzed()
    refused = _refused_expressions(plan, jvm)
    if refused is not None:
        return refused
    if plan.containsPattern(_patterns(jvm).CTE()):
        plan = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)  # noqa: FBT003 - Scala's
    above = list(_above(plan))
    node = above.pop()
    if node_kind(node) == "Aggregate" or _drops_duplicates(node):
        return _aggregated(plan, node, above, is_table)
    if node_kind(node) == "Window":
        return _windowed(plan, above, node, is_table)
    return _rows(plan, node, is_table)


def _aggregated(plan: Any, node: Any, above: list[Any], is_table: Callable[[Any], bool]) -> GroupedQuery | Obstacle:
    """The groups of an aggregate, or of a DISTINCT, whose groups are its rows."""
    is_distinct = _drops_duplicates(node)
    refused = _refused_tree(node.child(), is_table) or (None if is_distinct else _refused_aggregates(node))
    if refused is not None:
        return refused
    keys = tuple(items(node.child().output() if is_distinct else node.groupingExpressions()))
    outputs = [] if is_distinct else list(items(node.aggregateExpressions()))
    merge = merge_rule(node, above, outputs)
    if not keys and (isinstance(merge, str) or merge.hides_groups):
        return _ONE_GROUP
    # The columns of the node that have the values of each key.
    ids = [
        {column_id(key)} if is_distinct else {column_id(one) for one in outputs if value_of(one).semanticEquals(key)}
        for key in keys
    ]
    found = _with_columns(plan, node, above, keys, ids)
    if isinstance(found, Obstacle):
        return found
    return replace(found, unmerged=merge) if isinstance(merge, str) else replace(found, merge=merge)


def _windowed(plan: Any, above: list[Any], top: Any, is_table: Callable[[Any], bool]) -> GroupedQuery | Obstacle:
    """The partitions of window functions that all have the same; the groups are those of the lowest of them."""
    nodes, path = [top], [*above, top]
    while node_kind(path[-1].child()) in ("Window", "Project"):
        path.append(path[-1].child())
        nodes += [path[-1]] if node_kind(path[-1]) == "Window" else []
    while path[-1] is not nodes[-1]:
        path.pop()
    node = path.pop()
    keys = tuple(items(node.partitionSpec()))
    if not keys:
        return _ONE_PARTITION
    for other in nodes:
        specs = list(items(other.partitionSpec()))
        if len(specs) != len(keys) or not all(any(spec.semanticEquals(key) for spec in specs) for key in keys):
            return _SEVERAL_PARTITIONS
        refused = _refused_windows(other)
        if refused is not None:
            return refused
    refused = _refused_tree(node.child(), is_table)
    if refused is not None:
        return refused
    ids = [{column_id(key)} if node_kind(key) == "AttributeReference" else set() for key in keys]
    return _with_columns(plan, node, path, keys, ids)


def _rows(plan: Any, node: Any, is_table: Callable[[Any], bool]) -> GroupedQuery | Obstacle:
    """The rows of a query without groups, each of which is its own group together with its equals."""
    refused = _above_groups(node) or _refused_tree(plan, is_table)
    if refused is not None:
        return refused
    keys = tuple(items(plan.output()))
    incomparable = next(filter(_is_incomparable, keys), None)
    reason = None if incomparable is None else _refused_key(incomparable).describe()
    return GroupedQuery(plan, None, 0, keys, tuple(str(key.name()) for key in keys), incomparable=reason)


def _with_columns(
    plan: Any, node: Any, above: list[Any], keys: tuple[Any, ...], ids: list[set[int]]
) -> GroupedQuery | Obstacle:
    columns: list[str] = []
    for key, found in zip(keys, ids, strict=True):
        name = None if _is_incomparable(key) else column_of(found, node, above)
        if name is None:
            return _refused_key(key)
        columns.append(name)
    return GroupedQuery(plan, node, len(above), keys, tuple(columns))


def _drops_duplicates(node: Any) -> bool:
    """Whether an operator keeps one of several equal rows."""
    kind = node_kind(node)
    return kind == "Distinct" or (kind == "Deduplicate" and int(node.keys().size()) == _width(node))


def _patterns(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern


def _refused_expressions(plan: Any, jvm: Any) -> Obstacle | None:
    patterns = _patterns(jvm)
    if plan.containsPattern(patterns.CURRENT_LIKE()):
        return _CLOCK
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        return _SUBQUERY
    if plan.containsPattern(patterns.PYTHON_UDF()) or plan.containsPattern(patterns.SCALA_UDF()):
        return _PYTHON_UDF
    return None if plan.deterministic() else _NOT_DETERMINISTIC


def _above(plan: Any) -> Iterator[Any]:
    """The operators from the top down to the first one that may be the groups."""
    while True:
        yield plan
        if node_kind(plan) not in _ABOVE:
            return
        plan = plan.child()


def _above_groups(node: Any) -> Obstacle | None:
    """Why the query below an operator has groups that cannot be refreshed; None if it has no groups."""
    kind = node_kind(node)
    if kind in _REFUSED:
        return _REFUSED[kind]
    if _has(node, "Aggregate"):
        rewrite = "Write the aggregate as a materialized view of its own, and read that view"
        return Obstacle(f"{kind.lower()} above an aggregate", "the changed rows of an aggregate are not known", rewrite)
    return None


def _has(node: Any, kind: str) -> bool:
    return node_kind(node) == kind or any(_has(child, kind) for child in items(node.children()))


def _refused_tree(node: Any, is_table: Callable[[Any], bool]) -> Obstacle | None:
    """The first operator of a tree without a rule for its changed rows."""
    kind = node_kind(node)
    children = list(items(node.children()))
    if not children:
        return _refused_leaf(node, is_table)
    if _drops_duplicates(node):
        kind = "Distinct"
    if kind not in _RULES:
        return _REFUSED.get(kind) or Obstacle(str(node.nodeName()), "no rule tells which of its rows change")
    if kind == "Join" and str(node.joinType().sql()) not in _JOINS:
        return Obstacle(f"{str(node.joinType().sql()).lower()} join", "no rule tells which of its rows change")
    if kind == "Generate" and "UDTF" in node_kind(node.generator()):
        return _PYTHON_UDF
    return next(filter(None, (_refused_tree(child, is_table) for child in children)), None)


def _refused_leaf(node: Any, is_table: Callable[[Any], bool]) -> Obstacle | None:
    kind = node_kind(node)
    if kind in _CONSTANTS:
        return None
    if not is_table(node):
        return Obstacle(str(node.simpleString(3)).split("[")[0].strip(), "only Delta tables record their changes")
    if _width(node) != node.relation().schema().length():
        return Obstacle("_metadata column", "it changes when files are rewritten", "Leave it out")
    return None


def _width(node: Any) -> int:
    return int(node.output().size())


def _refused_aggregates(node: Any) -> Obstacle | None:
    """The first aggregate function whose result may depend on the order of rows."""
    for function in _functions(items(node.aggregateExpressions())):
        if node_kind(function) not in _AGGREGATES:
            name = str(function.prettyName())
            reason = "its result depends on the order of rows, or is not known not to"
            return Obstacle(f"aggregate function {name}", reason, _instead_of(name))
    return None


def _refused_windows(node: Any) -> Obstacle | None:
    """The first window function whose result depends on the order of rows that its ORDER BY takes for equal."""
    for expression in _window_expressions(items(node.windowExpressions())):
        function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
        aggregate = function.aggregateFunction() if node_kind(function) == "AggregateExpression" else None
        kind = node_kind(function if aggregate is None else aggregate)
        is_whole = "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" in str(frame.sql()).upper()
        if kind in _RANKS or (kind in _AGGREGATES and (is_whole or str(frame.sql()).upper().startswith("RANGE"))):
            continue
        name = str((function if aggregate is None else aggregate).prettyName())
        reason = "its result depends on the order of rows that ORDER BY takes for equal"
        return Obstacle(f"window function {name}", reason, "Use rank, dense_rank, or a RANGE frame")
    return None


def _window_expressions(expressions: Iterator[Any]) -> Iterator[Any]:
    for expression in expressions:
        if node_kind(expression) == "WindowExpression":
            yield expression
        else:
            yield from _window_expressions(items(expression.children()))


def _instead_of(function: str) -> str:
    if function in ("first", "first_value", "last", "last_value", "any_value"):
        return "Use min or max"
    return "Collect the values where the view is read" if "collect" in function or "agg" in function else ""


def _functions(expressions: Iterator[Any] | Sequence[Any]) -> Iterator[Any]:
    for expression in expressions:
        if node_kind(expression) == "AggregateExpression":
            yield expression.aggregateFunction()
        else:
            yield from _functions(items(expression.children()))


def _is_incomparable(key: Any) -> bool:
    """Whether equal keys may look different, or cannot be compared in a join."""
    text = str(key.dataType().sql())
    return any(word in text for word in ("MAP<", "VARIANT", "COLLATE", "GEOMETRY", "GEOGRAPHY"))


def _refused_key(key: Any) -> Obstacle:
    text = str(key.sql())
    if _is_incomparable(key):
        kind = str(key.dataType().sql())
        return Obstacle(f"column {text}", f"values of type {kind} cannot be matched", "Write it as a text: to_json")
    return Obstacle(
        f"key {text}", "the view has no column with its values", "Add it to the columns of the view, without a cast"
    )

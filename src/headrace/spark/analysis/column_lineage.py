"""Where the columns of a query come from, read from its analyzed plan.

Law: an operator that this module does not know makes the lineage incomplete or unknown, never wrong: its columns then
come from all columns below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from headrace.model.column_lineage import ColumnLineage, ColumnUse, InputDataset, OutputColumn, Use, unique
from headrace.spark.analysis.plan_tree import TreeNode, parsed, post_order

# A column of an operator: Spark's number of the attribute, and its name.
Attribute: TypeAlias = tuple[int, str]
# The datasets that a leaf reads, by the number of its first attribute.
LeafDatasets: TypeAlias = Mapping[int, tuple[InputDataset, ...]]

# Stands for the rows of a query.
ROWS = ""
_UNREADABLE = (Py4JError, PySparkException, ValueError, LookupError, TypeError, RecursionError)
# What a dataset of the pipeline is below its name.
RELATIONS = frozenset({"LogicalRelation", "StreamingRelation", "View", "DataSourceV2Relation"})
# Operators that decide about rows, and the expressions by which they do.
_DECIDING = {
    "Aggregate": ("groupingExpressions", Use.GROUP_BY),
    "Deduplicate": ("keys", Use.GROUP_BY),
    "DeduplicateWithinWatermark": ("keys", Use.GROUP_BY),
    "Filter": ("condition", Use.FILTER),
    "Sort": ("order", Use.SORT),
}
# Fields with the columns of an operator.
_OUTPUTS = ("output", "outputAttrs")
_REFERENCES = frozenset({"CTERelationRef", "UnionLoopRef"})
_CONSTANTS = frozenset({"LocalRelation", "Range", "OneRowRelation", "ResolvedInlineTable"})
_SUBQUERIES = frozenset({"Exists", "LateralSubquery", "ListQuery", "ScalarSubquery"})
# Window functions whose arguments are the order of the window.
_RANKS = frozenset({"DenseRank", "PercentRank", "Rank"})
# Of so many columns of inputs, a single column keeps the first ones.
_MAX_USES = 500


def column_lineage(frame: DataFrame, leaves: LeafDatasets) -> ColumnLineage | None:
    """The lineage of the columns of a query; None if its plan has a form that cannot be read.

    Args:
        frame: the query's result.
        leaves: the datasets that it reads, and what it reads outside of the pipeline.
    """
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form in Python
    try:
        return lineage_of_plan(str(plan.toJSON()), frame.columns, leaves)
    except _UNREADABLE:
        # The query can run, whatever is known of its columns.
        return None


def expression_uses(frame: DataFrame, expressions: Sequence[Column]) -> list[tuple[ColumnUse, ...]] | None:
    """For each expression over the columns of a query, those that it uses, of the dataset ``ROWS``; None if unknown."""
    try:
        plan = frame.select(*expressions)._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
        root = parsed(str(plan.toJSON()))
        walk = _Walk({})
        (below,) = (walk.plan(child) for child in root.children)
        walk.sources = {number: (ColumnUse(ROWS, name, Use.IDENTITY),) for number, name in below}
        attributes = walk.named(root.trees("projectList"))
        return [walk.sources.get(number, ()) for number, _ in attributes]
    except _UNREADABLE:
        return None


def lineage_of_plan(text: str, names: list[str], leaves: LeafDatasets) -> ColumnLineage:
    """The lineage of the columns of an analyzed plan.

    Args:
        text: of the plan's ``toJSON``.
        names: of the query's columns.
        leaves: the datasets that it reads.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: the plan has a form that cannot be read.
    """
    walk = _Walk(leaves)
    attributes = walk.plan(parsed(text))
    if [name for _, name in attributes] != list(names):
        raise ValueError("the plan has other columns than the query")
    columns = tuple(OutputColumn(name, walk.sources.get(number, ())) for number, name in attributes)
    return ColumnLineage(columns, tuple(walk.rows), walk.is_complete).bounded()


@dataclass
class _Walk:
    """What the attributes of a plan come from, and what decides about its rows, so far."""

    leaves: LeafDatasets
    sources: dict[int, tuple[ColumnUse, ...]] = field(default_factory=dict)
    # An ordered set.
    rows: dict[ColumnUse, None] = field(default_factory=dict)
    # The columns of each operator.
    columns: dict[TreeNode, list[Attribute]] = field(default_factory=dict)
    # Where the columns of WITH clauses, and of recursive ones, come from; by Spark's number.
    clauses: dict[int, TreeNode] = field(default_factory=dict)
    loops: dict[int, TreeNode] = field(default_factory=dict)
    # The columns of datasets of the pipeline; None for what is none.
    datasets: dict[TreeNode, list[Attribute] | None] = field(default_factory=dict)
    is_complete: bool = True

    def plan(self, root: TreeNode) -> list[Attribute]:
        """Visit a plan; returns its columns."""
        for node in post_order(root):
            if node.kind == "CTERelationDef":
                self.clauses[int(node.fields["id"])] = node
            elif node.kind == "UnionLoop":
                self.loops[int(node.fields["id"])] = node.children[0]
        for node in post_order(root, lambda node: self._dataset(node) is not None):
            dataset = self._dataset(node)
            if dataset is None:
                self.columns[node] = self._operator(node, [self.columns[child] for child in node.children])
            else:
                self.columns[node] = dataset
                self._read(dataset)
        return self.columns[root]

    def _dataset(self, node: TreeNode) -> list[Attribute] | None:
        """The columns of a dataset of the pipeline under its name, whose rows are its own; None for anything else."""
        if node.kind != "SubqueryAlias" or node.children[0].kind not in RELATIONS:
            return None
        if node not in self.datasets:
            relation = node.children[0]
            attributes = _attributes(relation) if "output" in relation.fields else _Walk({}).plan(relation)
            is_known = bool(attributes) and _is_name(self.leaves.get(attributes[0][0]))
            self.datasets[node] = attributes if is_known else None
        return self.datasets[node]

    def _read(self, attributes: list[Attribute]) -> None:
        """The columns of a leaf are those of what it reads."""
        datasets = self.leaves.get(attributes[0][0], ()) if attributes else ()
        for number, name in attributes:
            self.sources[number] = tuple(ColumnUse(dataset, name, Use.IDENTITY) for dataset in datasets)
        self.is_complete = self.is_complete and bool(datasets or not attributes)

    def _operator(self, node: TreeNode, below: list[list[Attribute]]) -> list[Attribute]:
        columns = [attribute for attributes in below for attribute in attributes]
        if node.kind in _DECIDING:
            name, use = _DECIDING[node.kind]
            self._decide(node.trees(name), use)
        match node.kind:
            case "Project":
                return self.named(node.trees("projectList"))
            case "Aggregate":
                return self.named(node.trees("aggregateExpressions"))
            case "Window":
                return columns + self.named(node.trees("windowExpressions"))
            case "Distinct":
                self.rows |= dict.fromkeys(self._of_attributes(columns, Use.GROUP_BY))
                return columns
            case "Join" | "AsOfJoin" | "LateralJoin":
                return self._join(node, below)
            case "Union" | "Intersect" | "Except" | "UnionLoop":
                return self._combined(node, below)
            case "WithCTE":
                return below[-1]
            case _:
                return self._other(node, columns)

    def _other(self, node: TreeNode, columns: list[Attribute]) -> list[Attribute]:
        """An operator that makes columns in another way, passes them on, or of which only the columns are known."""
        if node.kind == "Expand":
            return self._expanded(node)
        if node.kind in _REFERENCES:
            return self._reference(node)
        if node.kind == "Generate":
            generated = _attributes(node, "generatorOutput")
            uses = [use for one in node.trees("generator") for use in self._uses(one, Use.TRANSFORMATION)]
            self.sources |= dict.fromkeys((number for number, _ in generated), self._limited(uses))
            return columns + generated
        outputs = next((name for name in _OUTPUTS if name in node.fields), None)
        if outputs is None:
            return columns
        attributes = _attributes(node, outputs)
        if node.kind in _CONSTANTS:
            self.sources |= {number: () for number, _ in attributes}
        elif not node.children:
            self._read(attributes)
        else:
            if isinstance(node.fields.get("groupingAttributes"), list):
                self._decide(node.trees("groupingAttributes"), Use.GROUP_BY)
            # The user's code, which may use any of the columns for any other.
            every = self._limited(self._of_attributes(columns, Use.TRANSFORMATION))
            known = {number for number, _ in columns}
            self.sources |= {number: every for number, _ in attributes if number not in known}
        return attributes

    def _join(self, node: TreeNode, below: list[list[Attribute]]) -> list[Attribute]:
        left = below[0]
        if node.kind == "LateralJoin":
            subquery = node.tree("right")
            inner = subquery.tree("plan") if subquery is not None else None
            right = self.plan(inner) if inner is not None else []
        else:
            right = below[1]
        for name in ("condition", "asOfCondition", "orderExpression"):
            self._decide(_optional(node, name), Use.JOIN)
        kind = str(node.fields.get("joinType"))
        if "LeftSemi" in kind or "LeftAnti" in kind:
            return left
        if "ExistenceJoin" in kind:
            raise ValueError("an existence join is no part of a query's own plan")
        return [*left, *right]

    def _combined(self, node: TreeNode, below: list[list[Attribute]]) -> list[Attribute]:
        """Columns of several queries by their positions; those that are subtracted only decide."""
        first, *others = below
        if "outputAttrIds" in node.fields:
            # A recursion has columns of its own.
            numbers = [int(one["id"]) for one in node.fields["outputAttrIds"]]
            first, others = [(number, name) for number, (_, name) in zip(numbers, first, strict=True)], below
        for other in others:
            if node.kind in ("Except", "Intersect"):
                self.rows |= dict.fromkeys(self._of_attributes(other, Use.FILTER))
                continue
            for (number, _), (merged, _) in zip(first, other, strict=True):
                if number != merged:
                    both = (*self.sources.get(number, ()), *self.sources.get(merged, ()))
                    self.sources[number] = self._limited(both)
        return first

    def _expanded(self, node: TreeNode) -> list[Attribute]:
        """Columns of grouping sets: each row of expressions has one for each column."""
        attributes = _attributes(node)
        rows = [list(_trees_of(node, row)) for row in node.fields["projections"]]
        for position, (number, _) in enumerate(attributes):
            expressions = [row[position] for row in rows]
            self.sources[number] = self._limited(use for one in expressions for use in self._uses(one, Use.IDENTITY))
        return attributes

    def _reference(self, node: TreeNode) -> list[Attribute]:
        """A WITH clause where it is used: its columns have numbers of their own."""
        attributes = _attributes(node)
        is_clause = node.kind == "CTERelationRef"
        origin = self.clauses[int(node.fields["cteId"])] if is_clause else self.loops[int(node.fields["loopId"])]
        for (number, _), (defined, _) in zip(attributes, self.columns[origin], strict=True):
            self.sources[number] = self.sources.get(defined, ())
        return attributes

    def named(self, expressions: Iterable[TreeNode]) -> list[Attribute]:
        """The columns that named expressions make."""
        found = []
        for expression in expressions:
            number, name = expression.expr_id, str(expression.fields["name"])
            if expression.kind != "AttributeReference":
                self.sources[number] = self._limited(self._uses(expression, Use.IDENTITY))
            found.append((number, name))
        return found

    def _decide(self, expressions: Iterable[TreeNode], use: Use) -> None:
        self.rows |= dict.fromkeys(found for one in expressions for found in self._uses(one, use))

    def _of_attributes(self, attributes: Iterable[Attribute], use: Use) -> Iterator[ColumnUse]:
        """What attributes come from, if all of them are used in one way."""
        return (found.then(use) for number, _ in attributes for found in self.sources.get(number, ()))

    def _limited(self, uses: Iterable[ColumnUse]) -> tuple[ColumnUse, ...]:
        found = unique(uses)
        self.is_complete = self.is_complete and len(found) <= _MAX_USES
        return found[:_MAX_USES]

    def _uses(self, expression: TreeNode, use: Use) -> Iterator[ColumnUse]:
        """The columns that an expression uses; *use* is how its own value is used."""
        kind, children = expression.kind, expression.children
        if kind == "AttributeReference":
            known = self.sources.get(expression.expr_id)
            self.is_complete = self.is_complete and known is not None
            yield from (source.then(use) for source in known or ())
        elif kind in _SUBQUERIES:
            yield from self._subquery(expression, use)
        elif kind == "OuterReference":
            for referenced in expression.trees("e"):
                yield from self._uses(referenced, use)
        else:
            for child, step in zip(children, _steps(kind, len(children)), strict=True):
                yield from self._uses(child, step.then(use))

    def _subquery(self, expression: TreeNode, use: Use) -> Iterator[ColumnUse]:
        inner = expression.tree("plan")
        if inner is None:
            raise ValueError("a subquery has no plan")
        outside, self.rows = self.rows, {}
        columns = self.plan(inner)
        rows, self.rows = self.rows, outside
        step = Use.IDENTITY if expression.kind == "ScalarSubquery" else Use.CONDITIONAL
        if expression.kind != "Exists":
            yield from self._of_attributes(columns, step.then(use))
        yield from (row.then(use) for row in rows)


def _steps(kind: str, count: int) -> list[Use]:
    """How an expression uses each of its children."""
    if kind == "Alias":
        return [Use.IDENTITY] * count
    if kind == "AggregateExpression":
        # The second one is the condition of FILTER (WHERE ...).
        return [Use.AGGREGATION, *[Use.CONDITIONAL] * (count - 1)]
    if kind == "PythonUDAF":
        return [Use.AGGREGATION] * count
    if kind == "WindowExpression":
        return [Use.TRANSFORMATION, Use.WINDOW]
    if kind in _RANKS:
        return [Use.WINDOW] * count
    if kind in ("If", "CaseWhen"):
        # Conditions and values take turns; the last value may have no condition.
        return [Use.CONDITIONAL, Use.TRANSFORMATION] * (count // 2) + [Use.TRANSFORMATION] * (count % 2)
    return [Use.TRANSFORMATION] * count


def _optional(node: TreeNode, name: str) -> tuple[TreeNode, ...]:
    found = node.tree(name)
    return () if found is None else (found,)


def _attributes(node: TreeNode, name: str = "output") -> list[Attribute]:
    return [(one.expr_id, str(one.fields["name"])) for one in node.trees(name)]


def _trees_of(node: TreeNode, row: Any) -> Iterator[TreeNode]:
    yield from TreeNode(node.kind, {"row": row}, node.children).trees("row")


def _is_name(datasets: tuple[InputDataset, ...] | None) -> bool:
    return datasets is not None and len(datasets) > 0 and isinstance(datasets[0], str)

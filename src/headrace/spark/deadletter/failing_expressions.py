"""Finds the rows on which an expression of a query fails, in one computation for each step of the query that may fail.

Source: Spark's ``TryEval``, the basis of the ``try_`` functions: an expression is NULL where it fails. It does not
cover Python functions, generators, and join conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.spark.jvm.plan_nodes import items

_PACKAGE = "org.apache.spark.sql.catalyst.plans.logical."
_PROJECT, _FILTER, _UNION = f"{_PACKAGE}Project", f"{_PACKAGE}Filter", f"{_PACKAGE}Union"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
# Expressions that cannot fail.
_HARMLESS = {f"{_EXPRESSIONS}AttributeReference", f"{_EXPRESSIONS}Literal"}


class UnidentifiableRows(Exception):
    """A step of the query does not preserve the ids of rows."""


class FailingExpressions:
    """Rewrites a plan so that each row has an id, and is dropped where an expression fails.

    Args:
        jvm: the plan's JVM.
        source: returns the replacement of a source node, with the id as the last column; None for other nodes.
    """

    def __init__(self, jvm: Any, source: Callable[[Any], Any | None]) -> None:
        self._plans: Any = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions: Any = jvm.org.apache.spark.sql.catalyst.expressions
        self._jvm = jvm
        self._source = source
        # For each step that may fail: the plan of the ids on which it fails.
        self.id_plans: list[Any] = []

    def visit(self, plan: Any) -> None:
        """Rewrite a plan, and collect its steps that may fail.

        Raises:
            UnidentifiableRows: a step does not preserve the ids.
        """
        _, key = self._with_ids(plan)
        if key is None:
            raise UnidentifiableRows

    def _with_ids(self, plan: Any) -> tuple[Any, Any | None]:
        """The plan with the id among its columns, and the id; None for a plan without streaming sources."""
        replacement = self._source(plan)
        if replacement is not None:
            return replacement, replacement.output().last()
        children = list(items(plan.children()))
        children_with_ids = [self._with_ids(child) for child in children]
        keys = [key for _, key in children_with_ids if key is not None]
        if not keys:
            return plan, None
        name, key = plan.getClass().getName(), keys[0]
        if name in (_PROJECT, _FILTER):
            ((child, _),) = children_with_ids
            return self._step(plan, name, child, key), key
        if name == _UNION and len(keys) < len(children_with_ids):
            raise UnidentifiableRows
        result = plan.withNewChildren(self._sequence([child for child, _ in children_with_ids]).toIndexedSeq())
        if not result.outputSet().contains(key):
            raise UnidentifiableRows
        return result, key

    def _step(self, plan: Any, name: str, child: Any, key: Any) -> Any:
        """A projection or a filter, over the rows on which it does not fail."""
        expressions = list(items(plan.projectList())) if name == _PROJECT else [plan.condition()]
        risky = [one for one in expressions if not self._is_harmless(one)]
        if risky:
            values = self._expressions.CreateStruct.create(self._sequence([self._bare(one) for one in risky]))
            raises = self._expressions.IsNull(self._expressions.TryEval(values))
            self.id_plans.append(self._plans.Project(self._sequence([key]), self._plans.Filter(raises, child)))
            child = self._plans.Filter(self._expressions.Not(raises), child)
        if name == _FILTER:
            return self._plans.Filter(plan.condition(), child)
        return self._plans.Project(self._sequence([*expressions, key]), child)

    def _is_harmless(self, expression: Any) -> bool:
        return self._bare(expression).getClass().getName() in _HARMLESS

    def _bare(self, expression: Any) -> Any:
        named = expression.getClass().getName() == f"{_EXPRESSIONS}Alias"
        return expression.child() if named else expression

    def _sequence(self, values: Sequence[Any]) -> Any:
        replacement = self._jvm.java.util.ArrayList()
        for value in values:
            replacement.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(replacement)

"""On which rows an expression of a query raises, found in one computation for each step of the query that may.

Source: Spark's ``TryEval``, which the ``try_`` functions are made of: an expression is NULL where it raises. What it
does not reach (Python functions, generators, conditions of joins) is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.spark.jvm.plan_nodes import items

_PACKAGE = "org.apache.spark.sql.catalyst.plans.logical."
_PROJECT, _FILTER, _UNION = f"{_PACKAGE}Project", f"{_PACKAGE}Filter", f"{_PACKAGE}Union"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
# They only name what is there.
_HARMLESS = {f"{_EXPRESSIONS}AttributeReference", f"{_EXPRESSIONS}Literal"}


class Unmarked(Exception):
    """A step of the query does not say which row is which."""


class FailingExpressions:
    """A plan in which each row carries an id, and is left out where an expression raises.

    Args:
        jvm: in which the plan is.
        source: gives for a source of the plan what stands in its place, the id being the last column; None for other
            nodes.
    """

    def __init__(self, jvm: Any, source: Callable[[Any], Any | None]) -> None:
        self._plans: Any = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions: Any = jvm.org.apache.spark.sql.catalyst.expressions
        self._jvm = jvm
        self._source = source
        # Of each step that may raise: the ids of the rows that it raises on.
        self.found: list[Any] = []

    def look(self, plan: Any) -> None:
        """Go through a plan.

        Raises:
            Unmarked: some of its steps are unknown.
        """
        _, key = self._marked(plan)
        if key is None:
            raise Unmarked

    def _marked(self, plan: Any) -> tuple[Any, Any | None]:
        """The plan with the id among its columns, and the id; None where nothing streams."""
        given = self._source(plan)
        if given is not None:
            return given, given.output().last()
        children = list(items(plan.children()))
        marked = [self._marked(child) for child in children]
        keys = [key for _, key in marked if key is not None]
        if not keys:
            return plan, None
        name, key = plan.getClass().getName(), keys[0]
        if name in (_PROJECT, _FILTER):
            ((child, _),) = marked
            return self._step(plan, name, child, key), key
        if name == _UNION and len(keys) < len(marked):
            raise Unmarked
        done = plan.withNewChildren(self._sequence([child for child, _ in marked]).toIndexedSeq())
        if not done.outputSet().contains(key):
            raise Unmarked
        return done, key

    def _step(self, plan: Any, name: str, child: Any, key: Any) -> Any:
        """A projection or a filter, over the rows on which it does not raise."""
        made = list(items(plan.projectList())) if name == _PROJECT else [plan.condition()]
        risky = [one for one in made if not self._is_harmless(one)]
        if risky:
            values = self._expressions.CreateStruct.create(self._sequence([self._bare(one) for one in risky]))
            raises = self._expressions.IsNull(self._expressions.TryEval(values))
            self.found.append(self._plans.Project(self._sequence([key]), self._plans.Filter(raises, child)))
            child = self._plans.Filter(self._expressions.Not(raises), child)
        if name == _FILTER:
            return self._plans.Filter(plan.condition(), child)
        return self._plans.Project(self._sequence([*made, key]), child)

    def _is_harmless(self, expression: Any) -> bool:
        return self._bare(expression).getClass().getName() in _HARMLESS

    def _bare(self, expression: Any) -> Any:
        named = expression.getClass().getName() == f"{_EXPRESSIONS}Alias"
        return expression.child() if named else expression

    def _sequence(self, values: Sequence[Any]) -> Any:
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given)

"""Proves by Spark's own parser that a text is a query over tables of the pipeline, and nothing else.

What is not known to be harmless is refused: the kinds of plan nodes, and the groups of functions, are lists of what is
allowed. So is a table: a name of two parts may be a file, as in ``parquet.`/etc/passwd```.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from headrace.errors import PipelineError
from headrace.spark.jvm.plan_nodes import items, node_kind

# With these settings, a text means the same to the parser now and when it runs: Spark otherwise puts values of
# settings, of variables of the environment and of Java's properties in the place of `${...}`, secrets among them.
PARSED_AS_WRITTEN = {"spark.sql.variable.substitute": "false"}
_PLANS = frozenset(
    (
        *("Aggregate", "AsOfJoin", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join"),
        *("LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "Pivot", "Project"),
        *("RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Union", "UnresolvedHaving", "UnresolvedHint"),
        *("UnresolvedInlineTable", "UnresolvedQualify", "UnresolvedRelation", "UnresolvedSubqueryColumnAliases"),
        *("UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "UnresolvedWith", "Unpivot", "WithWindowDefinition"),
    )
)
# Names of anything that are computed: they could be those of files.
_COMPUTED_NAMES = frozenset(("ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier"))
_TABLE_FUNCTIONS = frozenset(
    (
        *(
            "explode",
            "explode_outer",
            "inline",
            "inline_outer",
            "json_tuple",
            "posexplode",
            "posexplode_outer",
            "range",
        ),
        *("stack", "variant_explode", "variant_explode_outer"),
    )
)
_FUNCTION_GROUPS = frozenset(
    (
        *("agg_funcs", "array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs", "conversion_funcs"),
        *("csv_funcs", "datetime_funcs", "generator_funcs", "hash_funcs", "json_funcs", "lambda_funcs", "map_funcs"),
        *("math_funcs", "operator_funcs", "predicate_funcs", "sketch_funcs", "st_funcs", "string_funcs"),
        *("struct_funcs", "url_funcs", "variant_funcs", "window_funcs"),
    )
)
# Of the group of all others, in which are those that call Java, read files, or tell about the machine.
_MISC_FUNCTIONS = frozenset(
    (
        *("aes_decrypt", "aes_encrypt", "assert_true", "bitmap_bit_position", "bitmap_bucket_number", "bitmap_count"),
        *("equal_null", "monotonically_increasing_id", "raise_error", "try_aes_decrypt", "typeof", "uuid", "version"),
    )
)
# The parser makes such calls of words, and of operators.
_PARSED_FUNCTIONS = frozenset(("when", "struct", "named_struct", "count", "date", "timestamp"))
_MOST_NODES = 20_000


def check_restricted(session: SparkSession, query: str, is_table: Callable[[Sequence[str]], bool]) -> None:
    """Accept only a query over tables of the pipeline. Call it, and run the query, with :data:`PARSED_AS_WRITTEN`.

    Args:
        session: whose parser reads the query.
        query: the text, with the names of the session.
        is_table: whether the parts of a name are those of a table that may be read.

    Raises:
        PipelineError: SQL.RESTRICTED.
        PySparkException, Py4JJavaError: Spark cannot parse the query.
    """
    plan: Any = session._jsparkSession.sessionState().sqlParser().parsePlan(query)  # noqa: SLF001 - has no public form
    _Walk(session, is_table).check(plan)


class _Walk:
    """Visits all nodes of a parsed plan: those below it, in its subqueries and in its common table expressions."""

    def __init__(self, session: SparkSession, is_table: Callable[[Sequence[str]], bool]) -> None:
        jvm: Any = session._jvm  # noqa: SLF001 - has no public form
        self._builtin = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
        self._identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
        self._subquery = jvm.java.lang.Class.forName(
            "org.apache.spark.sql.catalyst.expressions.PlanExpression",
            False,  # noqa: FBT003 - Java's
            session._jsparkSession.getClass().getClassLoader(),  # noqa: SLF001 - has no public form
        )
        self._is_table = is_table
        self._known_functions: set[str] = set()
        self._nodes = 0

    def check(self, plan: Any) -> None:
        """Refuse the first node that is not allowed."""
        plans, expressions = [plan], list[Any]()
        while plans or expressions:
            self._nodes += 1
            if self._nodes > _MOST_NODES:
                raise _refusal("It is too large")
            if plans:
                node = plans.pop()
                self._check_plan(node)
                plans += [*items(node.children()), *items(node.innerChildren())]
                expressions += items(node.expressions())
            else:
                node = expressions.pop()
                self._check_expression(node)
                expressions += items(node.children())
                if self._subquery.isInstance(node):
                    plans.append(node.plan())

    def _check_plan(self, node: Any) -> None:
        kind = node_kind(node)
        if kind not in _PLANS:
            raise _refusal(f"Spark reads a part of it as {kind}")
        if kind == "UnresolvedRelation":
            parts = [str(part) for part in items(node.multipartIdentifier())]
            if node.isStreaming():
                raise _refusal(f"It reads {'.'.join(parts)} as a stream")
            if not node.options().isEmpty():
                raise _refusal(f"It reads {'.'.join(parts)} with options")
            # A name of one part is a table of the session, which has only those of the pipeline, or one of the query.
            if len(parts) > 1 and not self._is_table(parts):
                raise _refusal(f'It reads "{".".join(parts)}", which is no table of the pipeline')
        elif kind == "UnresolvedTableValuedFunction":
            name = ".".join(str(part) for part in items(node.name()))
            if name.lower() not in _TABLE_FUNCTIONS:
                raise _refusal(f'It calls the table function "{name}"')

    def _check_expression(self, node: Any) -> None:
        kind = node_kind(node)
        if kind in _COMPUTED_NAMES:
            raise _refusal("It computes a name with IDENTIFIER")
        if kind in ("UnresolvedFunction", "UnresolvedGenerator"):
            self._check_function(".".join(_parts(node, kind)))

    def _check_function(self, name: str) -> None:
        key = name.lower()
        if key in self._known_functions or key in _PARSED_FUNCTIONS or key in _MISC_FUNCTIONS:
            return
        found = self._builtin.lookupFunction(self._identifier.apply(key)) if "." not in key else None
        if found is None or found.isEmpty() or str(found.get().getGroup()) not in _FUNCTION_GROUPS:
            raise _refusal(f'It calls the function "{name}"')
        self._known_functions.add(key)


def _parts(node: Any, kind: str) -> Iterator[str]:
    if kind == "UnresolvedGenerator":
        yield str(node.name().unquotedString())
    else:
        for part in items(node.nameParts()):
            yield str(part)


def _refusal(reason: str) -> PipelineError:
    return PipelineError("SQL.RESTRICTED", reason=reason)

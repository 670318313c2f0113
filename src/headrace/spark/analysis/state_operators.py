"""The stateful operators of a streaming query, and what determines the layout of their state.

Read from the optimized plan, because Spark stores what remains after optimization: columns of a join that nothing above
it uses are not in its state. Source for what must not change: the Structured Streaming guide, "Recovery Semantics
after Changes in a Streaming Query".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from headrace.graph.analysis import StatefulOperator
from headrace.spark.analysis.plans import analyzed
from headrace.spark.jvm.plan_nodes import items, node_kind

# Columns that Spark generates have numbered names; their definitions are in the operators below.
_GENERATED = ("_groupingexpression", "_common_expr_")
_WINDOW_MARKS = ("spark.timeWindow", "spark.sessionWindow")
# Spark's text for the start and the end of a time window, in microseconds.
_TIME = re.compile(
    r"precisetimestampconversion\((?P<time>(?:(?!precisetimestampconversion).)*?), Timestamp\w*, LongType\)"
)
_SLIDE = re.compile(r", LongType\) - (?P<start>\d+)\) % (?P<slide>\d+)\)")
_LENGTH = re.compile(r"\+ (?P<length>\d+)\), LongType, Timestamp\w*\)+$")
_SESSION = re.compile(r" \+ (?P<gap>[^()]+), Timestamp\w*, LongType\), LongType, Timestamp\w*\)+$")
_COLUMN_ID = re.compile(r"#\d+(-T\d+ms)?L?")
_QUOTED = re.compile(r"('(?:[^'\\]|\\.)*')")
_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def stateful_operators(frame: DataFrame, *, complete: bool) -> tuple[StatefulOperator, ...]:
    """The stateful operators of a streaming query, in the order in which Spark numbers them.

    Args:
        frame: the query's result; no row of it is read.
        complete: the query runs in complete mode.
    """
    session: Any = frame._jdf.sparkSession()  # noqa: SLF001 - the optimizer has no public form for streams
    plan = session.sessionState().optimizer().execute(analyzed(frame))
    return tuple(_operators(plan, frame.sparkSession._jvm, complete=complete))  # noqa: SLF001 - the same


def _operators(node: Any, jvm: Any, *, complete: bool) -> Iterator[StatefulOperator]:
    if not node.isStreaming():
        return
    kind = node_kind(node)
    if kind == "Aggregate":
        yield _aggregate(node)
    elif kind in ("Deduplicate", "DeduplicateWithinWatermark"):
        yield _deduplicate(node, "deduplicate" if kind == "Deduplicate" else "deduplicate within watermark")
    elif kind == "Join" and node.left().isStreaming() and node.right().isStreaming():
        yield _join(node, jvm)
    elif kind == "GlobalLimit" and not (complete and _aggregates(node)):
        # The state counts the rows so far, independently of the limit.
        yield _operator("limit", [], f"limit {node.limitExpr().sql()}")
    elif kind == "FlatMapGroupsInPandasWithState":
        yield _grouped_state(node)
    elif kind == "TransformWithStateInPySpark":
        yield _transform(node)
    for child in items(node.children()):
        yield from _operators(child, jvm, complete=complete)


def _aggregates(node: Any) -> bool:
    """True when a node below aggregates a stream: in complete mode a limit above it applies to each batch."""
    below = list(items(node.children()))
    return any(child.isStreaming() and (node_kind(child) == "Aggregate" or _aggregates(child)) for child in below)


def _aggregate(node: Any) -> StatefulOperator:
    text = _Texts(node)
    keys = [(text.of(key), _type(key)) for key in items(node.groupingExpressions())]
    functions: dict[str, Any] = {}
    for expression in items(node.aggregateExpressions()):
        for found in _found(expression, "AggregateExpression"):
            functions[text.of(found).replace("count(1)", "count(*)")] = found.aggregateFunction()
    types = [(name, _type(function)) for name, function in functions.items()]
    buffers = [_buffer(function) for function in functions.values()]
    description = f"aggregate by {_listed(name for name, _ in keys)}" if keys else "aggregate"
    description += f": {', '.join(functions)}" if functions else ""
    return _operator("aggregate", [keys, types, buffers], description, [*keys, *types])


def _deduplicate(node: Any, kind: str) -> StatefulOperator:
    keys = _columns(node.keys())
    return _operator(kind, keys, f"{kind} by {_listed(name for name, _ in keys)}", keys)


def _join(node: Any, jvm: Any) -> StatefulOperator:
    text = _Texts(node)
    found = jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(node)
    pairs = []
    if found.isDefined():
        parts = found.get()
        sides = zip(items(parts._2()), items(parts._3()), strict=True)  # noqa: SLF001 - a Scala tuple
        pairs = [(f"{text.of(left)} = {text.of(right)}", _type(left)) for left, right in sides]
    how = str(node.joinType().sql()).lower()
    left, right = _columns(node.left().output()), _columns(node.right().output())
    description = f"{how} join on {_listed(name for name, _ in pairs)}; "
    description += f"keeps {_listed(name for name, _ in left)} and {_listed(name for name, _ in right)}"
    return _operator("join", [how, pairs, left, right], description, [*pairs, *left, *right])


def _grouped_state(node: Any) -> StatefulOperator:
    keys = _columns(node.groupingAttributes())
    state, timeout = str(node.stateType().catalogString()), str(node.timeout())
    description = f"applyInPandasWithState by {_listed(name for name, _ in keys)}, state {state}, {timeout}"
    return _operator("applyInPandasWithState", [keys, state, timeout], description, keys)


def _transform(node: Any) -> StatefulOperator:
    """Describe transformWithState; the user's class declares its variables at the start, and Spark compares them."""
    keys = _columns(node.left().output())[: int(node.groupingAttributesLen())]
    mode = str(node.timeMode())
    description = f"transformWithState by {_listed(name for name, _ in keys)}, {mode}"
    return _operator("transformWithState", [keys, mode], description, keys)


def _operator(kind: str, layout: object, description: str, types: Iterable[tuple[str, str]] = ()) -> StatefulOperator:
    digest = hashlib.sha256(json.dumps([kind, _folded(layout)]).encode()).hexdigest()[:32]
    return StatefulOperator(kind, digest, description, ", ".join(f"{name} {type_}" for name, type_ in types))


def _folded(layout: Any) -> Any:
    """The layout in lower case, except for quoted texts, because names are case-insensitive."""
    if isinstance(layout, (list, tuple)):
        return [_folded(entry) for entry in layout]
    parts = _QUOTED.split(layout)
    return "".join(part if part.startswith("'") else part.casefold() for part in parts)


class _Texts:
    """Texts of one operator's expressions, which are the same in every process and for any names of the inputs."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._definitions: Mapping[int, Any] | None = None

    def of(self, expression: Any) -> str:
        """The expression as SQL, with bare column names."""
        text = str(expression.sql())
        columns = list(_iterated(expression.references()))
        # The longest first: a qualified name may contain another one.
        for column in sorted(columns, key=lambda column: -len(str(column.sql()))):
            text = re.sub(rf"(?<![\w.`'])({re.escape(str(column.sql()))})(?![\w`'])", self._name(column), text)
        return text

    def _name(self, column: Any) -> str:
        name = str(column.name())
        window = any(column.metadata().contains(mark) for mark in _WINDOW_MARKS)
        definition = self._defined(int(column.exprId().id())) if window or name.startswith(_GENERATED) else None
        text = name if definition is None else _window(definition) if window else self.of(definition)
        # The replacement must not contain group references.
        return text.replace("\\", "\\\\")

    def _defined(self, column_id: int) -> Any:
        if self._definitions is None:
            self._definitions = dict(_definitions(self._node))
        return self._definitions.get(column_id)


def _definitions(node: Any) -> Iterator[tuple[int, Any]]:
    """The definitions of columns that an operator and those below it create, by column id."""
    kind = node_kind(node)
    if kind == "Project":
        for entry in items(node.projectList()):
            if node_kind(entry) == "Alias":
                yield int(entry.exprId().id()), entry.child()
    elif kind == "Expand":
        # The first of the rows that an overlapping window makes of one; the others are later windows of the same kind.
        first = node.projections().apply(0)
        for index, column in enumerate(items(node.output())):
            yield int(column.exprId().id()), first.apply(index)
    for child in items(node.children()):
        yield from _definitions(child)


def _window(definition: Any) -> str:
    """A time window as the user wrote it, or Spark's own text for any other form."""
    text = _COLUMN_ID.sub("", str(definition.toString()))
    time, slide, length, session = (pattern.search(text) for pattern in (_TIME, _SLIDE, _LENGTH, _SESSION))
    if time and session and not slide:
        return f"session_window({time['time']}, {session['gap']})"
    if not (time and slide and length):
        return text
    parts = [time["time"], _duration(length["length"])]
    if slide["slide"] != length["length"] or slide["start"] != "0":
        parts.append(_duration(slide["slide"]))
    if slide["start"] != "0":
        parts.append(_duration(slide["start"]))
    return f"window({', '.join(parts)})"


def _duration(microseconds: str) -> str:
    count = int(microseconds)
    for unit, size in _UNITS:
        if count % size == 0 and count:
            return f"{count // size} {unit}{'s' if count > size else ''}"
    return f"{count} microseconds"


def _found(expression: Any, kind: str) -> Iterator[Any]:
    if node_kind(expression) == kind:
        yield expression
        return
    for child in items(expression.children()):
        yield from _found(child, kind)


def _buffer(function: Any) -> list[str]:
    """The types of an aggregate function's buffer, which is its part of the state."""
    return [str(field.dataType().catalogString()) for field in function.aggBufferSchema().fields()]


def _columns(attributes: Any) -> list[tuple[str, str]]:
    return [(str(column.name()), _type(column)) for column in items(attributes)]


def _type(expression: Any) -> str:
    return str(expression.dataType().catalogString())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _iterated(scala: Any) -> Iterator[Any]:
    entries = scala.iterator()
    while entries.hasNext():
        yield entries.next()

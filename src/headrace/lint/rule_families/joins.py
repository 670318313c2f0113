"""Joins of streams with tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.rule_families.stream_joins import kind_of
from headrace.lint.rule_families.writers import target_value
from headrace.lint.rules import Violation, rule
from headrace.lint.values import Frame, Literal, method_argument, text_of

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_LARGE_BYTES = 1 << 30
_UNITS = {"k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40, "b": 0, "": 0}
# Names that say that a table is large.
_LARGE = re.compile(r"(?:^|[_.])(?:large|huge|big)(?:$|[_.])", re.IGNORECASE)
# Sources without size statistics, which Spark never broadcasts by itself.
_NO_SIZE = ("jdbc",)
# The sides whose unmatched rows are written, or that are probed against the other side.
_OUTER_SIDES = {
    **dict.fromkeys(("left", "leftouter", "semi", "leftsemi", "anti", "leftanti"), ("left",)),
    **dict.fromkeys(("right", "rightouter"), ("right",)),
    **dict.fromkeys(("outer", "full", "fullouter"), ("left", "right")),
}


def _missing(program: Program) -> Iterator[Violation]:
    never = any(_bytes(value) == -1 for _, key, value in program.confs() if key == _THRESHOLD)
    for step, owner in program.frame_calls("join"):
        other = step.first
        if not isinstance(other, Frame) or not owner.streaming or other.streaming is not False:
            continue
        inner = kind_of(step) in ("inner", None)
        # In an inner join, Spark may broadcast the batch instead of the table.
        large = _called_large(other, step.node.args[0] if step.node.args else None)
        shuffled = never or large or (_has_no_size(other) and not inner)
        if shuffled and other.made_by("broadcast") is None and other.made_by("hint") is None:
            why = "broadcasts are disabled" if never else "Spark does not know the size of this table"
            if large:
                why = "the name of this table suggests that it is large"
            table = program.source(step.node.args[0]) if step.node.args else "table"
            fix = f"F.broadcast({table})"
            if large:
                fix = (
                    f"F.broadcast({table}.select(...).filter(...))"
                    "  # only the columns and rows that the join needs, if they are small"
                )
            yield Violation(program.span_of_name(step.node), f"{why}, so this join shuffles every batch", fix)


def _called_large(frame: Frame, node: ast.expr | None) -> bool:
    """Whether the table's name, or the variable's, says that it is large."""
    read = [part.step for part in frame.lineage() if part.step is not None and part.step.name in ("table", "load")]
    names = [(text_of(step.first) or "").replace("/", ".") for step in read]
    names += [node.id] if isinstance(node, ast.Name) else []
    return any(_LARGE.search(name) for name in names)


def _has_no_size(frame: Frame) -> bool:
    for part in frame.lineage():
        if part.reader is not None:
            form = part.step.name if part.step is not None else ""
            return form in _NO_SIZE or text_of(method_argument(part.reader.steps, "format", "format")) in _NO_SIZE
    return False


def _large(program: Program) -> Iterator[Violation]:
    for step, key, value in program.confs():
        if key == _THRESHOLD and (_bytes(value) or 0) > _LARGE_BYTES:
            span = program.span_of(step.node.args[0]) if step.node.args else program.span_of_name(step.node)
            yield Violation(span, "tables larger than 1 GiB are broadcast", f'"{_THRESHOLD}", "100m"')
    growing = {text_of(target_value(started)) for started in program.facts.started} - {None}
    for step, _function in program.function_calls("broadcast"):
        frame = step.first
        if not isinstance(frame, Frame) or frame.streaming:
            continue
        if _called_large(frame, step.node.args[0]):
            yield Violation(program.span_of(step.node), "broadcast of a table whose name suggests that it is large")
            continue
        for part in frame.lineage():
            name = text_of(part.step.first) if part.step is not None and part.step.name in ("table", "load") else None
            if name in growing:
                yield Violation(
                    program.span_of(step.node), f'"{name}" grows with every batch and is broadcast in each one'
                )


def _static_outer_joins(program: Program) -> Iterator[Violation]:
    """Outer joins that keep unmatched rows of the table; a match may come at any time."""
    for step, owner in program.frame_calls("join"):
        other, kind = step.argument(0, "other"), kind_of(step)
        if not isinstance(other, Frame) or kind is None or {owner.streaming, other.streaming} != {True, False}:
            continue
        table = "left" if other.streaming else "right"
        if table in _OUTER_SIDES.get(kind, ()):
            yield Violation(
                program.span_of_name(step.node), f'a "{kind}" join with a stream keeps the rows of the static table'
            )


def _bytes(value: object) -> int | None:
    """A size in bytes as Spark reads it: a number, or one with a unit."""
    text = str(value.value).strip().lower() if isinstance(value, Literal) else ""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(digits) :].strip()
    if unit not in _UNITS or not digits.lstrip("-").isdigit():
        return None
    return int(digits) << _UNITS[unit] if int(digits) >= 0 else -1


RULES = (
    rule("missing-broadcast", _missing),
    rule("large-broadcast", _large),
    rule("static-outer-join", _static_outer_joins),
)

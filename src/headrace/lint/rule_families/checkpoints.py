"""Checkpoint locations of streams."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from headrace.lint.facts import StartedStream
from headrace.lint.program import Program
from headrace.lint.repetition import Repetition
from headrace.lint.rule_families.writers import by_function, format_of, target_value
from headrace.lint.rules import Severity, Violation, rule
from headrace.lint.same_value import Sameness
from headrace.lint.values import Function, method_argument, opaque, option_of, text_of

_CHECKPOINT = "checkpointLocation"
_CONF = "spark.sql.streaming.checkpointLocation"
# Sinks for which Spark makes a temporary checkpoint.
_TEMPORARY = frozenset(("console", "memory", "noop", "headrace-noop"))
_INTO_TABLE = ("toTable", "table", "saveAsTable")


class _PathAllocator:
    """Suggests paths that no checkpoint of the program uses yet."""

    def __init__(self, program: Program) -> None:
        known = (text_of(option_of(started.steps, _CHECKPOINT)) for started in program.facts.started)
        self._taken = {path.rstrip("/") for path in known if path is not None}

    def path(self, wanted: str) -> str:
        """The wanted path, or the same with the first free number."""
        found, number = wanted, 1
        while found in self._taken:
            number += 1
            found = f"{wanted}_{number}"
        self._taken.add(found)
        return found


def _missing(program: Program) -> Iterator[Violation]:
    if program.has_constant(_CONF) or program.has_notebook_session:
        # Headrace's session chooses a checkpoint for queries that name none, and a pipeline for all.
        return
    free = _PathAllocator(program)
    for started in program.facts.started:
        if option_of(started.steps, _CHECKPOINT) is not None or opaque(started.steps):
            continue
        form = format_of(started)
        named = method_argument(started.steps, "format", "format")
        if (form in _TEMPORARY) or (named is not None and form is None):
            continue
        fix = f'.option("{_CHECKPOINT}", {_new_checkpoint_path(program, started, free)})'
        span = program.span_of_name(started.step.node)
        if by_function(started):
            message = "Spark deletes the stream's temporary checkpoint when the stream ends"
            yield Violation(span, message, fix, Severity.WARNING)
        else:
            yield Violation(span, "the stream has no checkpoint", fix)


def _new_checkpoint_path(program: Program, started: StartedStream, free: _PathAllocator) -> str:
    """A checkpoint path of the stream's own, as code."""
    name = text_of(method_argument(started.steps, "queryName", "queryName")) or _words(text_of(target_value(started)))
    node = _target_node(started)
    if name or node is None or by_function(started):
        function = program.source(node) if isinstance(node, ast.Name) else ""
        path = free.path(f"/checkpoints/{name or function or 'a_name_of_its_own'}")
        return f'"{path}"'
    # The value is unknown: it may differ each time the line runs.
    words = program.source(node)
    behind = free.path(f"/checkpoints/{words}").removeprefix(f"/checkpoints/{words}")
    return f'"/checkpoints/" + {_as_operand(program, node)}' + (f' + "{behind}"' if behind else "")


def _as_operand(program: Program, node: ast.expr) -> str:
    """An expression as code that can be added to something."""
    words = program.source(node)
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.JoinedStr | ast.Constant)
    return words if plain else f"({words})"


def _words(target: str | None) -> str:
    """The target as a relative path."""
    if target is None:
        return ""
    path = target.rpartition("://")[2].strip("/")
    return path.replace(":", "_") if "/" in target else path.replace("`", "").replace(".", "/")


def _option_node(started: StartedStream, name: str) -> ast.expr | None:
    for step in reversed(started.steps):
        if step.name == "option" and text_of(step.first) == name and len(step.node.args) > 1:
            return step.node.args[1]
        for keyword in step.node.keywords:
            if keyword.arg == name:
                return keyword.value
    return None


def _target_node(started: StartedStream) -> ast.expr | None:
    """The expression of the target: a function, a table, a path or a topic."""
    for step in started.steps:
        if step.name in ("foreachBatch", "foreach"):
            return step.node.args[0] if step.node.args else next((one.value for one in step.node.keywords), None)
    if started.step.node.args:
        return started.step.node.args[0]
    return _option_node(started, "path") or _option_node(started, "topic") or _named(started)


def _named(started: StartedStream) -> ast.expr | None:
    return next((one.value for one in started.step.node.keywords if one.arg in ("tableName", "path")), None)


class _StreamKeys:
    """Keys for comparing the checkpoints, targets and rows of streams."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._same = Sameness(program)

    def checkpoint(self, started: StartedStream) -> str | None:
        """The key of the checkpoint; None if the text does not say which it is."""
        node = _option_node(started, _CHECKPOINT)
        return self._same.key(option_of(started.steps, _CHECKPOINT), node, started.function)

    def target(self, started: StartedStream) -> Hashable | None:
        """The key of the target; None if the text does not say which it is."""
        node = _target_node(started)
        if by_function(started):
            value = self._program.value(node) if node is not None else None
            named = isinstance(value, Function) and not isinstance(value.node, ast.Lambda)
            if named and isinstance(value, Function):
                return id(value.node)
            return ("function", self._same.key(None, node, started.function))
        key = self._same.key(target_value(started), node, started.function)
        kind = "table" if started.step.name in _INTO_TABLE else format_of(started)
        return (kind, key) if key is not None else None

    def rows(self, started: StartedStream) -> int:
        """The key of the rows: equal for two streams that write the same rows."""
        return self._same.rows(started.writer.frame, started.function)


def _exclusive(first: StartedStream, second: StartedStream) -> bool:
    """Whether it is not certain that one run of the program starts both."""
    return first.branch_path.excludes(second.branch_path) or first.function is not second.function


def _grouped(keys: Iterable[tuple[Hashable | None, StartedStream]]) -> Iterator[list[StartedStream]]:
    """Groups of two or more streams with the same key."""
    found: dict[Hashable, list[StartedStream]] = defaultdict(list)
    for key, started in keys:
        if key is not None:
            found[key].append(started)
    yield from (streams for streams in found.values() if len(streams) > 1)


def _shared(program: Program) -> Iterator[Violation]:
    repetition = Repetition(program)
    yield from _shared_with_itself(program, repetition)
    keys, free = _StreamKeys(program), _PathAllocator(program)
    for streams in _grouped((keys.checkpoint(started), started) for started in program.facts.started):
        targets = [keys.target(started) for started in streams]
        for number, second in enumerate(streams):
            others = zip(streams[:number], targets, strict=False)
            first = next(
                (
                    one
                    for one, target in others
                    if _are_distinct(target, targets[number], one, second)
                    or _called_separately(repetition, one, second)
                ),
                None,
            )
            if first is not None:
                line = program.text.location(first.step.node.lineno).line
                message = f"the stream started on line {line} uses the same checkpoint"
                yield Violation(
                    program.span_of(_checkpoint_node(second)), message, _other_checkpoint(program, second, free)
                )


def _shared_with_itself(program: Program, repetition: Repetition) -> Iterator[Violation]:
    """Streams that are started several times, in a loop or a function, with another target each time."""
    for started in program.facts.started:
        checkpoint = text_of(option_of(started.steps, _CHECKPOINT))
        node = _target_node(started)
        has_literal_target = checkpoint is None or text_of(target_value(started)) is not None
        if checkpoint is None or node is None or has_literal_target or by_function(started):
            continue
        if repetition.varies(started.step.node, node):
            message = "all streams started here use the same checkpoint"
            path = f'"{checkpoint.rstrip("/")}/" + {_as_operand(program, node)}'
            yield Violation(program.span_of(_checkpoint_node(started)), message, f'.option("{_CHECKPOINT}", {path})')


def _called_separately(repetition: Repetition, first: StartedStream, second: StartedStream) -> bool:
    """Whether one run calls two functions that start them, with different targets."""
    one, other = text_of(target_value(first)), text_of(target_value(second))
    return (
        None not in (one, other)
        and one != other
        and first.function is not second.function
        and all(repetition.certain(started.step.node, started.function) for started in (first, second))
        and repetition.both(first.function, second.function)
    )


def _are_distinct(target: Hashable | None, other: Hashable | None, first: StartedStream, second: StartedStream) -> bool:
    """Whether both are started, and neither is a restart of the other."""
    return target is not None and other is not None and target != other and not _exclusive(first, second)


def _checkpoint_node(started: StartedStream) -> ast.expr:
    return _option_node(started, _CHECKPOINT) or started.step.node


def _other_checkpoint(program: Program, started: StartedStream, free: _PathAllocator) -> str:
    checkpoint = text_of(option_of(started.steps, _CHECKPOINT))
    base = checkpoint.rstrip("/") if checkpoint else "/checkpoints/stream"
    node = _target_node(started)
    function = program.source(node) if by_function(started) and isinstance(node, ast.Name) else ""
    name = function or _words(text_of(target_value(started))).rpartition("/")[2] or "second"
    return f'.option("{_CHECKPOINT}", "{free.path(f"{base}_{name}")}")'


def _new_checkpoint(program: Program) -> Iterator[Violation]:
    keys = _StreamKeys(program)
    for streams in _grouped((keys.target(started), started) for started in program.facts.started):
        known = [(keys.checkpoint(started), keys.rows(started), started) for started in streams]
        for number, (new, rows, second) in enumerate(known):
            first = next(
                (
                    one
                    for old, others, one in known[:number]
                    if rows == others and None not in (old, new) and old != new and not _exclusive(one, second)
                ),
                None,
            )
            if first is not None:
                line = program.text.location(first.step.node.lineno).line
                node = _option_node(first, _CHECKPOINT)
                fix = f'.option("{_CHECKPOINT}", {program.source(node)})' if node is not None else ""
                message = f"line {line} writes the same rows to this target with another checkpoint"
                yield Violation(program.span_of(_checkpoint_node(second)), message, fix)


RULES = (
    rule("missing-checkpoint", _missing),
    rule("shared-checkpoint", _shared),
    rule("new-checkpoint", _new_checkpoint),
)

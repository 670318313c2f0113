"""Where streams keep how far they have read."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from headrace.lint.facts import Started
from headrace.lint.program import Program
from headrace.lint.repetition import Repetition
from headrace.lint.rule_families.writers import by_function, format_of, target_value
from headrace.lint.rules import Hit, Severity, rule
from headrace.lint.same_value import Sameness
from headrace.lint.values import Function, opaque, option_of, said, text_of

_CHECKPOINT = "checkpointLocation"
_CONF = "spark.sql.streaming.checkpointLocation"
# Sinks that Spark gives a checkpoint of its own, which it throws away.
_PASSING = frozenset(("console", "memory", "noop", "headrace-noop"))
_INTO_TABLE = ("toTable", "table", "saveAsTable")


class _Free:
    """Gives paths that no checkpoint of the program has yet."""

    def __init__(self, program: Program) -> None:
        known = (text_of(option_of(started.steps, _CHECKPOINT)) for started in program.facts.started)
        self._taken = {path.rstrip("/") for path in known if path is not None}

    def path(self, wanted: str) -> str:
        """The path that is wanted, or the same with the first number that is free."""
        found, number = wanted, 1
        while found in self._taken:
            number += 1
            found = f"{wanted}_{number}"
        self._taken.add(found)
        return found


def _missing(program: Program) -> Iterator[Hit]:
    if program.says(_CONF) or program.ready:
        # A ready session keeps the checkpoints of those that name none, and a pipeline all of them.
        return
    free = _Free(program)
    for started in program.facts.started:
        if option_of(started.steps, _CHECKPOINT) is not None or opaque(started.steps):
            continue
        form = format_of(started)
        named = said(started.steps, "format", "format")
        if (form in _PASSING) or (named is not None and form is None):
            continue
        instead = f'.option("{_CHECKPOINT}", {_new_place(program, started, free)})'
        place = program.at_name(started.step.node)
        if by_function(started):
            message = "Spark deletes the stream's temporary checkpoint when the stream ends"
            yield Hit(place, message, instead, Severity.WARNING)
        else:
            yield Hit(place, "the stream has no checkpoint", instead)


def _new_place(program: Program, started: Started, free: _Free) -> str:
    """A path that tells the stream from all others, as code."""
    name = text_of(said(started.steps, "queryName", "queryName")) or _words(text_of(target_value(started)))
    node = _target_node(started)
    if name or node is None or by_function(started):
        function = program.source(node) if isinstance(node, ast.Name) else ""
        path = free.path(f"/checkpoints/{name or function or 'a_name_of_its_own'}")
        return f'"{path}"'
    # Of which the text does not tell the value: it may be another one each time that the line is run.
    words = program.source(node)
    behind = free.path(f"/checkpoints/{words}").removeprefix(f"/checkpoints/{words}")
    return f'"/checkpoints/" + {_as_operand(program, node)}' + (f' + "{behind}"' if behind else "")


def _as_operand(program: Program, node: ast.expr) -> str:
    """An expression as code that can be added to something."""
    words = program.source(node)
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.JoinedStr | ast.Constant)
    return words if plain else f"({words})"


def _words(target: str | None) -> str:
    """The whole of a target as a path below another one."""
    if target is None:
        return ""
    path = target.rpartition("://")[2].strip("/")
    return path.replace(":", "_") if "/" in target else path.replace("`", "").replace(".", "/")


def _option_node(started: Started, name: str) -> ast.expr | None:
    for step in reversed(started.steps):
        if step.name == "option" and text_of(step.first) == name and len(step.node.args) > 1:
            return step.node.args[1]
        for keyword in step.node.keywords:
            if keyword.arg == name:
                return keyword.value
    return None


def _target_node(started: Started) -> ast.expr | None:
    """What says where the rows go: a function, a table, a path or a topic."""
    for step in started.steps:
        if step.name in ("foreachBatch", "foreach"):
            return step.node.args[0] if step.node.args else next((one.value for one in step.node.keywords), None)
    if started.step.node.args:
        return started.step.node.args[0]
    return _option_node(started, "path") or _option_node(started, "topic") or _named(started)


def _named(started: Started) -> ast.expr | None:
    return next((one.value for one in started.step.node.keywords if one.arg in ("tableName", "path")), None)


class _Keys:
    """By what checkpoints, targets and rows are compared."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._same = Sameness(program)

    def checkpoint(self, started: Started) -> str | None:
        """What tells a checkpoint from others; None where the text does not tell."""
        node = _option_node(started, _CHECKPOINT)
        return self._same.key(option_of(started.steps, _CHECKPOINT), node, started.function)

    def target(self, started: Started) -> Hashable | None:
        """The same of a target."""
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

    def rows(self, started: Started) -> int:
        """What two streams share that write the same rows."""
        return self._same.rows(started.writer.frame, started.function)


def _exclusive(first: Started, second: Started) -> bool:
    """Whether nobody can tell that one run of the program starts both."""
    return first.way.never_with(second.way) or first.function is not second.function


def _by(keys: Iterable[tuple[Hashable | None, Started]]) -> Iterator[list[Started]]:
    """Streams with one key, where there are several."""
    found: dict[Hashable, list[Started]] = defaultdict(list)
    for key, started in keys:
        if key is not None:
            found[key].append(started)
    yield from (streams for streams in found.values() if len(streams) > 1)


def _shared(program: Program) -> Iterator[Hit]:
    repetition = Repetition(program)
    yield from _shared_with_itself(program, repetition)
    keys, free = _Keys(program), _Free(program)
    for streams in _by((keys.checkpoint(started), started) for started in program.facts.started):
        targets = [keys.target(started) for started in streams]
        for number, second in enumerate(streams):
            others = zip(streams[:number], targets, strict=False)
            first = next(
                (
                    one
                    for one, target in others
                    if _apart(target, targets[number], one, second) or _called_apart(repetition, one, second)
                ),
                None,
            )
            if first is not None:
                line = program.text.place(first.step.node.lineno).line
                message = f"the stream started on line {line} uses the same checkpoint"
                yield Hit(program.at(_place(second)), message, _other(program, second, free))


def _shared_with_itself(program: Program, repetition: Repetition) -> Iterator[Hit]:
    """Streams that are started several times, in a loop or in a function, into another target each time."""
    for started in program.facts.started:
        checkpoint = text_of(option_of(started.steps, _CHECKPOINT))
        node = _target_node(started)
        told = checkpoint is None or text_of(target_value(started)) is not None
        if checkpoint is None or node is None or told or by_function(started):
            continue
        if repetition.varies(started.step.node, node):
            message = "all streams started here use the same checkpoint"
            path = f'"{checkpoint.rstrip("/")}/" + {_as_operand(program, node)}'
            yield Hit(program.at(_place(started)), message, f'.option("{_CHECKPOINT}", {path})')


def _called_apart(repetition: Repetition, first: Started, second: Started) -> bool:
    """Whether functions that one run calls start both, into other targets."""
    one, other = text_of(target_value(first)), text_of(target_value(second))
    return (
        None not in (one, other)
        and one != other
        and first.function is not second.function
        and all(repetition.certain(started.step.node, started.function) for started in (first, second))
        and repetition.both(first.function, second.function)
    )


def _apart(target: Hashable | None, other: Hashable | None, first: Started, second: Started) -> bool:
    """Whether both are started, and are no restart of one query."""
    return target is not None and other is not None and target != other and not _exclusive(first, second)


def _place(started: Started) -> ast.expr:
    return _option_node(started, _CHECKPOINT) or started.step.node


def _other(program: Program, started: Started, free: _Free) -> str:
    checkpoint = text_of(option_of(started.steps, _CHECKPOINT))
    base = checkpoint.rstrip("/") if checkpoint else "/checkpoints/stream"
    node = _target_node(started)
    function = program.source(node) if by_function(started) and isinstance(node, ast.Name) else ""
    name = function or _words(text_of(target_value(started))).rpartition("/")[2] or "second"
    return f'.option("{_CHECKPOINT}", "{free.path(f"{base}_{name}")}")'


def _new(program: Program) -> Iterator[Hit]:
    keys = _Keys(program)
    for streams in _by((keys.target(started), started) for started in program.facts.started):
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
                line = program.text.place(first.step.node.lineno).line
                node = _option_node(first, _CHECKPOINT)
                instead = f'.option("{_CHECKPOINT}", {program.source(node)})' if node is not None else ""
                message = f"line {line} writes the same rows to this target with another checkpoint"
                yield Hit(program.at(_place(second)), message, instead)


RULES = (
    rule("missing-checkpoint", _missing),
    rule("shared-checkpoint", _shared),
    rule("new-checkpoint", _new),
)

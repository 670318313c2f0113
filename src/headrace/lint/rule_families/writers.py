"""Writers of streams: targets, formats, triggers and output modes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.edits import other_keyword, renamed_method, without_call
from headrace.lint.facts import StartedStream
from headrace.lint.program import Program
from headrace.lint.rules import Severity, Violation, rule
from headrace.lint.values import Frame, Literal, Query, Step, Value, Writer, method_argument, opaque, option_of, text_of

# DataFrame methods that may aggregate without groups, or whose effect is unknown here.
_MAY_AGGREGATE = frozenset(("transform", "sql", "table", "select", "selectExpr"))
# Sinks that ContinuousExecution does not support; a test starts each.
_NOT_CONTINUOUS = frozenset(("delta", *methods.FILE_FORMATS))


def format_of(started: StartedStream) -> str | None:
    """The output format of a stream; None for Spark's default, or if unknown."""
    return text_of(method_argument(started.steps, "format", "format"))


def by_function(started: StartedStream) -> bool:
    """Whether the rows go to a function."""
    return any(step.name in ("foreachBatch", "foreach") for step in started.steps)


def mode_of(started: StartedStream) -> str | None:
    """The output mode; None if unknown."""
    given = method_argument(started.steps, "outputMode", "outputMode")
    if given is None:
        return "append"
    text = text_of(given)
    return text.lower() if text is not None else None


def _not_a_method(program: Program) -> Iterator[Violation]:
    # Headrace's session adds the vendor's ``table``.
    vendors = () if program.has_notebook_session else ("table",)
    for step, owner in program.calls(*vendors, "saveAsTable", "save", "insertInto"):
        if isinstance(owner, Writer) and owner.streaming:
            name = "start" if step.name == "save" else "toTable"
            wanted = ("path",) if step.name == "save" else ("tableName", "name")
            given = [program.source(argument) for argument in step.node.args[:1]]
            given += [program.source(keyword.value) for keyword in step.node.keywords if keyword.arg in wanted]
            message = f'a stream writer has no method "{step.name}"'
            # Other arguments, and positions of insertInto, mean something else there.
            same = step.name != "insertInto" and len(step.node.args) == 1 and not step.node.keywords
            edits = renamed_method(program, step.node, name) if same else ()
            yield Violation(program.span_of_name(step.node), message, f".{name}({', '.join(given)})", edits=edits)


def _started_twice(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("start"):
        before = step.node.func.value if isinstance(step.node.func, ast.Attribute) else None
        vendors = (
            isinstance(before, ast.Call) and isinstance(before.func, ast.Attribute) and before.func.attr == "table"
        )
        if isinstance(owner, Query) and not (program.has_notebook_session and vendors):
            given = step.node.args or step.node.keywords
            edits = () if given else without_call(program, step.node)
            message = "the query is already started"
            yield Violation(program.span_of_name(step.node), message, "# remove .start()", edits=edits)


def target_value(started: StartedStream) -> Value | None:
    """The value of the target; None without one."""
    if started.step.name in ("toTable", "table", "saveAsTable"):
        return started.step.argument(0, "tableName")
    return started.step.argument(0, "path") or option_of(started.steps, "path") or option_of(started.steps, "topic")


def _continuous(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("trigger"):
        if isinstance(owner, Writer) and "continuous" in step.keywords:
            yield _continuous_violation(program, step, owner)


def _continuous_violation(program: Program, step: Step, writer: Writer) -> Violation:
    started = next((found for found in program.facts.started if step in found.steps), None)
    fix = '.trigger(processingTime="1 second")'
    keeps = writer.frame.made_by(*methods.GROUPING, "agg", "join", "dropDuplicates", "dropDuplicatesWithinWatermark")
    steps = started.steps if started is not None else writer.steps
    form = text_of(method_argument(steps, "format", "format"))
    function = any(part.name in ("foreachBatch", "foreach") for part in steps)
    span = program.span_of_name(step.node)
    interval = next((program.source(one.value) for one in step.node.keywords if one.arg == "continuous"), "")
    edits = other_keyword(program, step.node, "continuous", f"processingTime={interval}")
    if keeps is not None:
        return Violation(span, f'a continuous trigger does not support "{keeps.name}"', fix, edits=edits)
    if function or form in _NOT_CONTINUOUS or (started is not None and started.step.name != "start"):
        return Violation(span, "a continuous trigger does not support this sink", fix, edits=edits)
    return Violation(span, "a continuous trigger repeats rows after a failure", fix, Severity.WARNING)


def _once(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("trigger"):
        if isinstance(owner, Writer) and _is(step.keywords.get("once"), value=True):
            span, fix = program.span_of_name(step.node), ".trigger(availableNow=True)"
            edits = other_keyword(program, step.node, "once", "availableNow=True")
            yield Violation(span, '"once" is deprecated', fix, edits=edits)


def _trigger_value(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("trigger"):
        if not isinstance(owner, Writer):
            continue
        node = step.node
        for name in ("once", "availableNow"):
            if _is(step.keywords.get(name), value=False):
                edits = other_keyword(program, node, name, 'processingTime="0 seconds"')
                fix = '.trigger(processingTime="0 seconds")'
                yield Violation(program.span_of_name(node), f'"{name}" can only be True', fix, edits=edits)
        if not node.args and len(node.keywords) != 1:
            yield Violation(
                program.span_of_name(node), "a trigger takes exactly one argument", ".trigger(availableNow=True)"
            )


def _is(given: Value | None, *, value: bool) -> bool:
    return isinstance(given, Literal) and given.value is value


def _no_target(program: Program) -> Iterator[Violation]:
    for started in program.facts.started:
        form = format_of(started)
        if started.step.name != "start" or by_function(started) or opaque(started.steps):
            continue
        # Headrace's session chooses a path for a Delta stream that names none.
        wants = (
            (form == "delta" and not program.has_notebook_session)
            or form in methods.FILE_FORMATS
            or method_argument(started.steps, "format", "format") is None
        )
        if wants and target_value(started) is None:
            yield Violation(program.span_of_name(started.step.node), "the stream has no target")


def _output_mode(program: Program) -> Iterator[Violation]:
    for started in program.facts.started:
        mode, form = mode_of(started), format_of(started)
        step = next((part for part in started.steps if part.name == "outputMode"), started.step)
        span = program.span_of_name(step.node)
        frame = started.writer.frame
        reduced = frame.made_by(*methods.REDUCING, *methods.AGGREGATING)
        table = started.step.name == "toTable" and method_argument(started.steps, "format", "format") is None
        if mode == "update" and (table or form == "delta" or form in methods.FILE_FORMATS) and not by_function(started):
            what = f'"{form}"' if form is not None else "a table"
            yield Violation(span, f'{what} does not support output mode "update"')
        elif mode == "complete" and form in methods.FILE_FORMATS and not by_function(started):
            yield Violation(span, f'"{form}" does not support output mode "complete"', '.format("delta")')
        elif mode == "complete" and frame.streaming and reduced is None and _is_fully_known(frame):
            yield Violation(span, 'output mode "complete" needs an aggregation', '.outputMode("append")')


def _is_fully_known(frame: Frame) -> bool:
    """Whether the text shows every step of a stream."""
    return all(part.root is None and not _may_aggregate(part) for part in frame.lineage())


def _may_aggregate(frame: Frame) -> bool:
    return frame.step is not None and frame.step.name in _MAY_AGGREGATE and bool(frame.parents)


RULES = (
    rule("writer-table", _not_a_method),
    rule("started-twice", _started_twice),
    rule("continuous-trigger", _continuous),
    rule("once-trigger", _once),
    rule("trigger-value", _trigger_value),
    rule("missing-target", _no_target),
    rule("output-mode", _output_mode),
)

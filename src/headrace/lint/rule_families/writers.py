"""How streams are written and started."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.facts import Started
from headrace.lint.program import Program
from headrace.lint.rules import Hit, Severity, rule
from headrace.lint.values import Frame, Literal, Query, Step, Value, Writer, opaque, option_of, said, text_of

# Of a DataFrame: what may aggregate rows without groups, or does what is not read here.
_MAY_AGGREGATE = frozenset(("transform", "sql", "table", "select", "selectExpr"))
# Sources: ContinuousExecution's sinks, of which a test starts each.
_NOT_CONTINUOUS = frozenset(("delta", *methods.FILES))


def format_of(started: Started) -> str | None:
    """The format that a stream is written in; None where it is Spark's default, or not known."""
    return text_of(said(started.steps, "format", "format"))


def by_function(started: Started) -> bool:
    """Whether a function gets the rows."""
    return any(step.name in ("foreachBatch", "foreach") for step in started.steps)


def mode_of(started: Started) -> str | None:
    """The output mode; None where it is not known."""
    given = said(started.steps, "outputMode", "outputMode")
    if given is None:
        return "append"
    text = text_of(given)
    return text.lower() if text is not None else None


def _not_a_method(program: Program) -> Iterator[Hit]:
    # A ready session brings the vendor's name.
    vendors = () if program.ready else ("table",)
    for step, owner in program.calls(*vendors, "saveAsTable", "save", "insertInto"):
        if isinstance(owner, Writer) and owner.streaming:
            name = "start" if step.name == "save" else "toTable"
            wanted = ("path",) if step.name == "save" else ("tableName", "name")
            given = [program.source(argument) for argument in step.node.args[:1]]
            given += [program.source(keyword.value) for keyword in step.node.keywords if keyword.arg in wanted]
            message = f'a stream writer has no method "{step.name}"'
            yield Hit(program.at_name(step.node), message, f".{name}({', '.join(given)})")


def _started_twice(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("start"):
        before = step.node.func.value if isinstance(step.node.func, ast.Attribute) else None
        vendors = (
            isinstance(before, ast.Call) and isinstance(before.func, ast.Attribute) and before.func.attr == "table"
        )
        if isinstance(owner, Query) and not (program.ready and vendors):
            yield Hit(program.at_name(step.node), "the query is already started", "# remove .start()")


def target_value(started: Started) -> Value | None:
    """Where the rows go, as it was handed over; None where nothing says."""
    if started.step.name in ("toTable", "table", "saveAsTable"):
        return started.step.given(0, "tableName")
    return started.step.given(0, "path") or option_of(started.steps, "path") or option_of(started.steps, "topic")


def _continuous(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("trigger"):
        if isinstance(owner, Writer) and "continuous" in step.keywords:
            yield _continuous_hit(program, step, owner)


def _continuous_hit(program: Program, step: Step, writer: Writer) -> Hit:
    started = next((found for found in program.facts.started if step in found.steps), None)
    instead = '.trigger(processingTime="1 second")'
    keeps = writer.frame.made_by(*methods.GROUPING, "agg", "join", "dropDuplicates", "dropDuplicatesWithinWatermark")
    steps = started.steps if started is not None else writer.steps
    form = text_of(said(steps, "format", "format"))
    function = any(part.name in ("foreachBatch", "foreach") for part in steps)
    place = program.at_name(step.node)
    if keeps is not None:
        return Hit(place, f'a continuous trigger does not support "{keeps.name}"', instead)
    if function or form in _NOT_CONTINUOUS or (started is not None and started.step.name != "start"):
        return Hit(place, "a continuous trigger does not support this sink", instead)
    return Hit(place, "a continuous trigger repeats rows after a failure", instead, Severity.WARNING)


def _once(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("trigger"):
        if isinstance(owner, Writer) and _is(step.keywords.get("once"), value=True):
            yield Hit(program.at_name(step.node), '"once" is deprecated', ".trigger(availableNow=True)")


def _trigger_value(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("trigger"):
        if not isinstance(owner, Writer):
            continue
        node = step.node
        for name in ("once", "availableNow"):
            if _is(step.keywords.get(name), value=False):
                yield Hit(program.at_name(node), f'"{name}" can only be True', '.trigger(processingTime="0 seconds")')
        if not node.args and len(node.keywords) != 1:
            yield Hit(program.at_name(node), "a trigger takes exactly one argument", ".trigger(availableNow=True)")


def _is(given: Value | None, *, value: bool) -> bool:
    return isinstance(given, Literal) and given.value is value


def _no_place(program: Program) -> Iterator[Hit]:
    for started in program.facts.started:
        form = format_of(started)
        if started.step.name != "start" or by_function(started) or opaque(started.steps):
            continue
        # A ready session gives what names no place one of its own.
        wants = (
            (form == "delta" and not program.ready)
            or form in methods.FILES
            or said(started.steps, "format", "format") is None
        )
        if wants and target_value(started) is None:
            yield Hit(program.at_name(started.step.node), "the stream has no target")


def _output_mode(program: Program) -> Iterator[Hit]:
    for started in program.facts.started:
        mode, form = mode_of(started), format_of(started)
        step = next((part for part in started.steps if part.name == "outputMode"), started.step)
        place = program.at_name(step.node)
        frame = started.writer.frame
        reduced = frame.made_by(*methods.REDUCING, *methods.AGGREGATING)
        table = started.step.name == "toTable" and said(started.steps, "format", "format") is None
        if mode == "update" and (table or form == "delta" or form in methods.FILES) and not by_function(started):
            what = f'"{form}"' if form is not None else "a table"
            yield Hit(place, f'{what} does not support output mode "update"')
        elif mode == "complete" and form in methods.FILES and not by_function(started):
            yield Hit(place, f'"{form}" does not support output mode "complete"', '.format("delta")')
        elif mode == "complete" and frame.streaming and reduced is None and _all_told(frame):
            yield Hit(place, 'output mode "complete" needs an aggregation', '.outputMode("append")')


def _all_told(frame: Frame) -> bool:
    """Whether the text says everything that is done to a stream."""
    return all(part.root is None and not _hidden(part) for part in frame.lineage())


def _hidden(frame: Frame) -> bool:
    return frame.step is not None and frame.step.name in _MAY_AGGREGATE and bool(frame.parents)


RULES = (
    rule("writer-table", _not_a_method),
    rule("started-twice", _started_twice),
    rule("continuous-trigger", _continuous),
    rule("once-trigger", _once),
    rule("trigger-value", _trigger_value),
    rule("missing-target", _no_place),
    rule("output-mode", _output_mode),
)

"""State of streams, and how long they keep it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.program import Program, call_arguments
from headrace.lint.rule_families.columns import mentions
from headrace.lint.rule_families.stream_joins import boundless_joins, unmarked_joins
from headrace.lint.rule_families.watermarks import (
    has_known_source,
    has_watermark,
    may_rename_watermark,
    watermark_columns,
)
from headrace.lint.rule_families.writers import mode_of
from headrace.lint.rules import Severity, Violation, rule
from headrace.lint.scopes import of_pipelines
from headrace.lint.sql_texts import Sql
from headrace.lint.streaming_sql import in_streaming_queries, reads_stream, views_of
from headrace.lint.values import Frame, Step, text_of

_WINDOWS = ("window", "session_window")
_DEDUPLICATING = ("dropDuplicates", "drop_duplicates", "distinct")


def _written(program: Program) -> Iterator[tuple[Frame, str | None]]:
    """The frames that are written as streams, with their output modes; None for tables of a pipeline.

    Includes aggregations that the text does not write, with an unknown mode ("").
    """
    written = [started.writer.frame for started in program.facts.started]
    written += [value for _, _, value in program.facts.returns if isinstance(value, Frame)]
    seen = {id(part.step) for frame in written for part in frame.lineage()}
    for value in program.facts.values.values():
        last = value.step if isinstance(value, Frame) else None
        if isinstance(value, Frame) and last is not None and last.name in methods.REDUCING and id(last) not in seen:
            yield value, ""
    for started in program.facts.started:
        mode = mode_of(started)
        if mode is not None:
            yield started.writer.frame, mode
    for function, _, value in program.facts.returns:
        if isinstance(value, Frame) and _is_dataset(program, function):
            yield value, None


def _is_dataset(program: Program, function: ast.AST) -> bool:
    decorators = function.decorator_list if isinstance(function, ast.FunctionDef) else []
    named = (program.value(node.func if isinstance(node, ast.Call) else node) for node in decorators)
    return any(of_pipelines(value) is not None for value in named)


def _aggregation(frame: Frame) -> tuple[Step, Frame] | None:
    """The last aggregation, as its grouping step (or ``agg`` without one) and the frame that it aggregates."""
    for part in frame.lineage():
        if part.step is not None and part.step.name in methods.REDUCING and part.parents:
            parent = part.parents[0]
            if parent.step is not None and parent.step.name in methods.GROUPING and parent.parents:
                return parent.step, parent.parents[0]
            if part.step.name == "agg":
                return part.step, parent
    return None


def _has_keys(step: Step) -> bool:
    """Whether it has grouping keys, so that the number of groups can grow."""
    return step.name in methods.GROUPING and bool(step.node.args or step.node.keywords)


def _windowed(program: Program, step: Step) -> bool:
    return any(call.node in set(ast.walk(step.node)) for call, _ in program.function_calls(*_WINDOWS))


def _time_column(program: Program, step: Step) -> str:
    for call, _ in program.function_calls(*_WINDOWS):
        if call.node in set(ast.walk(step.node)) and call.node.args:
            named = [text for n in ast.walk(call.node.args[0]) if (text := text_of(program.value(n)))]
            if named:
                return named[0]
    return "event_time"


def _no_watermark(program: Program) -> Iterator[Violation]:
    for frame, mode in _written(program):
        found = _aggregation(frame)
        if found is None or not found[1].streaming or not has_known_source(found[1]):
            continue
        step, over = found
        if has_watermark(over):
            continue
        fix = _with_watermark(program, step)
        span = program.span_of_name(step.node)
        if mode == "append":
            yield Violation(span, "aggregation without a watermark in output mode append", fix)
        elif _has_keys(step) and (mode in ("update", None) or _windowed(program, step)):
            message = "an aggregation without a watermark keeps every group forever"
            yield Violation(span, message, fix, Severity.WARNING)
    for step, owner in program.frame_calls("dropDuplicatesWithinWatermark"):
        if owner.streaming and has_known_source(owner) and not has_watermark(owner):
            fix = f'.withWatermark("event_time", "1 hour").{_call(program, step)}'
            yield Violation(program.span_of_name(step.node), '"dropDuplicatesWithinWatermark" without a watermark', fix)
    yield from unmarked_joins(program)


def _with_watermark(program: Program, step: Step) -> str:
    """The grouping with a watermark and a window; a watermark alone does not end groups without a window."""
    column = _time_column(program, step)
    if _windowed(program, step):
        return f'.withWatermark("{column}", "10 minutes")  # before .{step.name}'
    name = step.name if step.name in methods.GROUPING else "groupBy"
    keys = [call_arguments(program, step.node)] if _has_keys(step) else []
    window = f'{_window(program)}("{column}", "1 hour")'
    return f'.withWatermark("{column}", "10 minutes").{name}({", ".join((window, *keys))})'


def _no_watermark_in_sql(sql: Sql) -> Iterator[Violation]:
    for index in _unmarked_in_sql(sql, "GROUP", "BY"):
        message = "an aggregation without a watermark keeps every group forever"
        fix = "FROM STREAM t WATERMARK event_time DELAY OF INTERVAL 10 MINUTES"
        if views_of(sql):
            fix = '.withWatermark("event_time", "10 minutes")  # before you create the view; add a window to GROUP BY'
        yield Violation(sql.span_of(index), message, fix, Severity.WARNING)
    for index in _unmarked_in_sql(sql, "SELECT", "DISTINCT"):
        message = '"DISTINCT" without a watermark keeps every row forever'
        fix = '.withWatermark("event_time", "1 hour").dropDuplicatesWithinWatermark()'
        yield Violation(sql.span_of(index + 1), message, fix, Severity.WARNING)


def _unmarked_in_sql(sql: Sql, *words: str) -> Iterator[int]:
    """The positions of these words in a query of a stream without a watermark."""
    if not reads_stream(sql) or any(sql.find("WATERMARK")):
        return
    views = views_of(sql)
    if any(view.streaming is None or has_watermark(view) or not has_known_source(view) for view in views):
        return
    if views and sql.program is not None and "complete" in map(mode_of, sql.program.facts.started):
        return
    # Groups of a table that is joined with a stream belong to another query.
    yield from in_streaming_queries(sql, sql.find(*words))


def _unbounded(program: Program) -> Iterator[Violation]:
    for frame, mode in _written(program):
        found = _aggregation(frame)
        if found is None or not found[1].streaming or found[0].name not in methods.GROUPING or mode == "complete":
            continue
        step, over = found
        columns = watermark_columns(over)
        if (
            columns
            and not mentions(program, step.node, columns)
            and not _made(over, step)
            and not may_rename_watermark(program, over)
        ):
            severity = Severity.ERROR if mode == "append" else Severity.WARNING
            message = f'the groups do not contain the watermark column "{columns[0]}", so no group ever ends'
            keys = ", ".join(
                filter(None, (f'{_window(program)}("{columns[0]}", "1 hour")', call_arguments(program, step.node)))
            )
            yield Violation(program.span_of_name(step.node), message, f".{step.name}({keys})", severity)
    yield from _duplicates(program)
    yield from boundless_joins(program)


def _window(program: Program) -> str:
    """``window`` as the program would write it."""
    return "F.window" if "F" in program.bound else "window"


def _duplicates(program: Program) -> Iterator[Violation]:
    for step, owner in program.frame_calls(*_DEDUPLICATING):
        if not owner.streaming:
            continue
        span = program.span_of_name(step.node)
        subset = step.argument(0, "subset")
        if not has_watermark(owner):
            if has_known_source(owner):
                arguments = call_arguments(program, step.node)
                fix = f'.withWatermark("event_time", "1 hour").dropDuplicatesWithinWatermark({arguments})'
                yield Violation(span, f'"{step.name}" without a watermark keeps every key forever', fix)
            continue
        columns = watermark_columns(owner)
        if subset is None or not columns or mentions(program, step.node, columns) or _made(owner, step):
            continue
        if not may_rename_watermark(program, owner):
            message = f'the keys do not contain the watermark column "{columns[0]}", so no key is ever dropped'
            yield Violation(span, message, f".dropDuplicatesWithinWatermark({call_arguments(program, step.node)})")


def _made(frame: Frame, step: Step) -> bool:
    """Whether the keys contain a computed column, such as a window."""
    names = {n.value for argument in step.node.args for n in ast.walk(argument) if isinstance(n, ast.Constant)}
    return any(
        part.step is not None and part.step.name == "withColumn" and text_of(part.step.first) in names
        for part in frame.lineage()
    )


def _call(program: Program, step: Step) -> str:
    return f"{step.name}({call_arguments(program, step.node)})"


RULES = (
    rule("no-watermark", _no_watermark, sql=_no_watermark_in_sql),
    rule("unbounded-state", _unbounded),
)

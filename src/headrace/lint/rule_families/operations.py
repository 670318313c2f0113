"""Operations that streams do not support."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.edits import Edits, statement_of, without_call, without_statement
from headrace.lint.program import Program
from headrace.lint.rule_families.writers import mode_of
from headrace.lint.rules import Violation, rule
from headrace.lint.sql_texts import Sql
from headrace.lint.streaming_sql import in_streaming_queries
from headrace.lint.values import Frame, Function, Imported

_SORTING = ("orderBy", "sort", "sortWithinPartitions")
_STATEFUL = ("mapGroupsWithState", "flatMapGroupsWithState")
_FILE_FUNCTIONS = ("input_file_name", "input_file_block_start", "input_file_block_length")
_COMBINING = (
    *methods.REDUCING,
    *methods.name_set("join crossJoin union unionAll unionByName intersect intersectAll exceptAll subtract"),
)
_FILE_FIELDS = dict(zip(_FILE_FUNCTIONS, ("file_path", "file_block_start", "file_block_length"), strict=True))


def _ordered_in_sql(sql: Sql) -> Iterator[Violation]:
    for index, depth, over in _orders(sql):
        if not over and depth == 0 and not any(sql.find("GROUP", "BY")):
            yield Violation(sql.span_of(index), '"ORDER BY" on a stream')


def _windowed_in_sql(sql: Sql) -> Iterator[Violation]:
    for index, _, over in _orders(sql):
        if over:
            yield Violation(sql.span_of(index), "window with ORDER BY on a stream")


def _orders(sql: Sql) -> Iterator[tuple[int, int, bool]]:
    """Each ORDER BY in a streaming query: its index, its bracket depth, whether it belongs to a window."""
    opened: list[bool] = []
    siblings = set(in_streaming_queries(sql, sql.find("ORDER", "BY")))
    for index, token in enumerate(sql.tokens):
        if token.is_symbol("("):
            opened.append(index > 0 and sql.tokens[index - 1].is_word("OVER"))
        elif token.is_symbol(")") and opened:
            opened.pop()
        elif index in siblings:
            yield index, len(opened), bool(opened and opened[-1])


def _of_scala(program: Program) -> Iterator[Violation]:
    for step, _ in program.calls(*_STATEFUL):
        yield Violation(program.span_of_name(step.node), f'Python has no "{step.name}"')
    # If one of these follows in the chain, one finding is enough.
    preceding = {part for step, _ in program.calls(*_STATEFUL) for part in ast.walk(step.node.func)}
    for step, _frame in program.frame_calls("groupByKey"):
        if step.node not in preceding and isinstance(step.first, Function):
            yield Violation(program.span_of_name(step.node), 'Python has no "groupByKey"')


def _cached(program: Program) -> Iterator[Violation]:
    for step, frame in program.frame_calls(*methods.CACHING):
        if frame.streaming:
            span, fix = program.span_of_name(step.node), _without_call(program, step.node)
            edits = _uncached(program, step.node)
            yield Violation(span, f'"{step.name}" on a stream', fix, edits=edits)


def _uncached(program: Program, call: ast.Call) -> Edits:
    statement = statement_of(program, call)
    return without_call(program, call) if statement is None else without_statement(program, statement)


def _without_call(program: Program, node: ast.Call) -> str:
    before = program.source(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return before if 0 < len(before) <= 80 else ""


def _ran(program: Program) -> Iterator[Violation]:
    for step, frame in program.frame_calls(*methods.ACTIONS):
        if frame.streaming:
            yield Violation(program.span_of_name(step.node), f'"{step.name}" on a stream')
    for node in program.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("write", "rdd"):
            owner = program.value(node.value)
            if isinstance(owner, Frame) and owner.streaming:
                yield Violation(program.span_of_name(node), f'"{node.attr}" on a stream')
    for step, frame in program.frame_calls("writeTo"):
        if frame.streaming:
            table = program.source(step.node.args[0]) if step.node.args else '"name"'
            yield Violation(program.span_of_name(step.node), '"writeTo" on a stream', f".writeStream.toTable({table})")


def _sorted(program: Program) -> Iterator[Violation]:
    for step, frame in program.frame_calls(*_SORTING):
        if frame.streaming and frame.made_by(*methods.REDUCING) is None:
            yield Violation(program.span_of_name(step.node), f'"{step.name}" on a stream')
    for started in program.facts.started:
        mode = mode_of(started)
        for part in started.writer.frame.lineage() if mode in ("append", "update") else ():
            if part.streaming and part.step is not None and part.step.name in _SORTING:
                message = f'"{part.step.name}" on a stream in output mode {mode}'
                yield Violation(program.span_of_name(part.step.node), message, '.outputMode("complete")')


def _sampled(program: Program) -> Iterator[Violation]:
    for step, frame in program.frame_calls("sample"):
        if frame.streaming:
            yield Violation(program.span_of_name(step.node), '"sample" on a stream')


def _windowed(program: Program) -> Iterator[Violation]:
    over = {step.node for step, _ in program.calls("over")}
    for step, function in program.calls("select", "withColumn", "withColumns", "filter", "where"):
        if not isinstance(function, Frame) or not function.streaming:
            continue
        for argument in (*step.node.args, *(keyword.value for keyword in step.node.keywords)):
            for node in ast.walk(argument):
                if node in over and isinstance(node, ast.Call):
                    yield Violation(program.span_of_name(node), '"over" on a stream')
            # A column that was built earlier.
            made = program.value(argument)
            if isinstance(argument, ast.Name) and isinstance(made, Imported) and ".over()" in made.name:
                yield Violation(program.span_of(argument), '"over" on a stream')


def _file_named(program: Program) -> Iterator[Violation]:
    combined = _after_combining(program)
    for step, name in program.function_calls(*_FILE_FUNCTIONS):
        before = f"{program.source(step.node.func.value)}." if isinstance(step.node.func, ast.Attribute) else ""
        column = f'{before}col("_metadata.{_FILE_FIELDS[name]}")'
        if step.node in combined:
            # A union or a group has no _metadata column.
            column = f'{before}col("file")  # created from {column} on each source, before "{combined[step.node]}"'
        yield Violation(program.span_of(step.node), f'"{name}()" loses the file name after a shuffle', column)


def _after_combining(program: Program) -> dict[ast.AST, str]:
    """The nodes in steps after rows or frames were combined, with the name of the combining step."""
    found: dict[ast.AST, str] = {}
    for step, frame in program.frame_calls("select", "withColumn", "withColumns", "filter", "where"):
        made = frame.made_by(*_COMBINING)
        if made is not None:
            found |= dict.fromkeys((node for part in step.node.args for node in ast.walk(part)), made.name)
    return found


def _file_named_in_sql(sql: Sql) -> Iterator[Violation]:
    for index in sql.calls(*(name.upper() for name in _FILE_FUNCTIONS)):
        name = sql.tokens[index].text.lower()
        # In a join, each table has its own.
        table = "t." if any(sql.find("JOIN")) else ""
        yield Violation(
            sql.span_of(index),
            f'"{name}()" loses the file name after a shuffle',
            f"{table}_metadata.{_FILE_FIELDS[name]}",
        )


RULES = (
    rule("groups-with-state", _of_scala),
    rule("stream-cache", _cached),
    rule("stream-action", _ran),
    rule("stream-sort", _sorted, sql=_ordered_in_sql),
    rule("stream-sample", _sampled),
    rule("stream-window-function", _windowed, sql=_windowed_in_sql),
    rule("input-file-name", _file_named, sql=_file_named_in_sql),
)

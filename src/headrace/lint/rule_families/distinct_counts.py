"""Distinct aggregates on streams, which plain Spark refuses, and their replacements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from headrace.lint.program import Program
from headrace.lint.rules import Violation, rule
from headrace.lint.scopes import EXPR
from headrace.lint.sql_texts import STANDS_FOR_VALUE, Sql
from headrace.lint.streaming_sql import in_streaming_queries
from headrace.lint.values import Frame, Grouped, Imported, Step, Value, text_of
from headrace.sql.lexer import Token, bracket_pairs, lex, split_at_commas

_COUNTS = ("countDistinct", "count_distinct")
_SUMS = ("sumDistinct", "sum_distinct")
_AGGREGATE = ("agg", "select", "selectExpr")
_SHORT = 30


def _distinct(program: Program) -> Iterator[Violation]:
    calls = {step.node: name for step, name in program.function_calls(*_refused(program))}
    for step, owner in program.calls(*_AGGREGATE):
        frame = owner.frame if isinstance(owner, Grouped) else owner
        if not isinstance(frame, Frame) or not frame.streaming:
            continue
        for argument in (*step.node.args, *(keyword.value for keyword in step.node.keywords)):
            for node in ast.walk(argument):
                if node in calls and isinstance(node, ast.Call):
                    yield Violation(
                        program.span_of(node), f'"{calls[node]}" on a stream', _fix(program, node, calls[node])
                    )
            yield from _by_name(program, argument)
        yield from _in_texts(program, step)


def _refused(program: Program) -> tuple[str, ...]:
    """The functions that Spark refuses; Headrace's session supports distinct counts."""
    return _SUMS if program.has_notebook_session else (*_COUNTS, *_SUMS)


def _by_name(program: Program, argument: ast.expr) -> Iterator[Violation]:
    """Columns that were built earlier, alone or in a list."""
    inner = argument.value if isinstance(argument, ast.Starred) else argument
    if not isinstance(inner, ast.Name):
        return
    for name in _refused(program):
        if _has_call(program.value(inner), name):
            yield Violation(
                program.span_of(inner), f'"{name}" on a stream', "" if name in _COUNTS else "F.aggregate(...)"
            )
            return


def _has_call(value: Value, name: str) -> bool:
    items = getattr(value, "items", (value,))
    return any(isinstance(item, Imported) and f".functions.{name}()" in item.name for item in items)


def _fix(program: Program, node: ast.Call, name: str) -> str:
    before = f"{program.source(node.func.value)}." if isinstance(node.func, ast.Attribute) else ""
    if name in _SUMS:
        values = f"{before}collect_set({', '.join(map(program.source, node.args))})"
        return f'{before}aggregate({values}, {before}lit(0).cast("double"), lambda total, value: total + value)'
    counted = _counted(program, node.args, before)
    exact = f"{before}size({before}collect_set({counted}))"
    return f"{exact}  # exact, stores every value; {before}approx_count_distinct{_same(counted)} stores a sketch"


def _same(counted: str) -> str:
    """The arguments again, unless they are long."""
    return f"({counted})" if len(counted) <= _SHORT else " of the same columns"


def _counted(program: Program, columns: Sequence[ast.expr], before: str) -> str:
    """The column to collect; several become a struct if none of them is NULL, since NULL is not counted."""
    written = [program.source(column) for column in columns]
    if len(columns) == 1 and not isinstance(columns[0], ast.Starred):
        return written[0]
    together = f"{before}struct({', '.join(written)})"
    if any(isinstance(column, ast.Starred) for column in columns):
        names = written[0].removeprefix("*") if len(written) == 1 else f"[{', '.join(written)}]"
        known = f"{before}array(*[{before}col(name).isNotNull() for name in {names}])"
        return f"{before}when({before}forall({known}, lambda known: known), {together})"
    named = [
        f"{before}col({text})" if text_of(program.value(column)) is not None else text
        for column, text in zip(columns, written, strict=True)
    ]
    return f"{before}when({' & '.join(f'{name}.isNotNull()' for name in named)}, {together})"


def _in_texts(program: Program, step: Step) -> Iterator[Violation]:
    """SQL expressions among the arguments."""
    texts = list(step.node.args) if step.name == "selectExpr" else []
    for argument in step.node.args:
        for node in ast.walk(argument):
            function = program.value(node.func) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and isinstance(function, Imported) and function.name == EXPR:
                texts += node.args[:1]
    for node in texts:
        tokens = lex(text_of(program.value(node)) or "").tokens
        for index in _distinct_at(tokens):
            if not (program.has_notebook_session and tokens[index].is_word("COUNT")):
                yield Violation(program.span_of(node), _message(tokens[index]), _fix_in_sql(tokens, index))


def _distinct_in_sql(sql: Sql) -> Iterator[Violation]:
    # A SQL file that reads streams belongs to a pipeline, which supports distinct counts.
    ready = sql.program is None or sql.program.has_notebook_session
    for index in in_streaming_queries(sql, _distinct_at(sql.tokens)):
        if not (ready and sql.tokens[index].is_word("COUNT")):
            yield Violation(sql.span_of(index), _message(sql.tokens[index]), _fix_in_sql(sql.tokens, index))


def _distinct_at(tokens: Sequence[Token]) -> Iterator[int]:
    for index in range(len(tokens) - 2):
        called = tokens[index].is_word("COUNT", "SUM") and tokens[index + 1].is_symbol("(")
        if called and tokens[index + 2].is_word("DISTINCT"):
            yield index


def _message(function: Token) -> str:
    return f'"{function.text}(DISTINCT ...)" on a stream'


def _fix_in_sql(tokens: Sequence[Token], index: int) -> str:
    end = bracket_pairs(tokens).get(index + 1)
    if end is None:
        return ""
    columns = [_written(part) for part in split_at_commas(tokens[index + 3 : end])]
    condition = ""
    if tokens[end + 1 : end + 2] and tokens[end + 1].is_word("FILTER"):
        behind = bracket_pairs(tokens).get(end + 2, end + 1)
        condition = f" {_written(tokens[end + 1 : behind + 1])}"
    if not columns or not all(columns) or any(STANDS_FOR_VALUE in column for column in columns):
        return ""
    if tokens[index].is_word("SUM"):
        return f"aggregate(collect_set({columns[0]}){condition}, 0D, (total, value) -> total + value)"
    counted = columns[0]
    if len(columns) > 1:
        known = " AND ".join(f"{column} IS NOT NULL" for column in columns)
        counted = f"if({known}, struct({', '.join(columns)}), NULL)"
    exact = f"size(collect_set({counted}){condition})"
    return f"{exact}  -- exact, stores every value; approx_count_distinct{_same(counted)}{condition} stores a sketch"


def _written(tokens: Sequence[Token]) -> str:
    """Tokens as written, on one line."""
    parts: list[str] = []
    for token, before in zip(tokens, (None, *tokens), strict=False):
        parts += [" "] if before is not None and token.start > before.end else []
        parts.append(token.text)
    return "".join(parts)


RULES = (rule("stream-distinct-count", _distinct, sql=_distinct_in_sql),)

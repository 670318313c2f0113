"""Code that runs when pipeline files are loaded, and conflicting declarations."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.methods import name_set
from headrace.lint.program import Program, Span
from headrace.lint.rules import Violation, rule
from headrace.lint.scopes import of_pipelines, walked
from headrace.lint.sql_streams import name_at
from headrace.lint.sql_texts import Sql
from headrace.lint.values import text_of

_WITH_QUERY = name_set("table materialized_view temporary_view view")
_CHANGES = name_set("create_auto_cdc_flow apply_changes create_auto_cdc_from_snapshot_flow apply_changes_from_snapshot")
_AUTO_CDC = (("AUTO", "CDC", "INTO"), ("APPLY", "CHANGES", "INTO"))
# Statements that write, or change the catalog.
_STATEMENTS = ("INSERT", "CREATE", "DROP", "ALTER", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "REPLACE", "COPY")


def _in_pipeline(program: Program) -> Iterator[Violation]:
    datasets = {
        function
        for function in program.nodes
        if isinstance(function, ast.FunctionDef) and any(_declares(program, node) for node in function.decorator_list)
    }
    if not datasets:
        return
    for started in program.facts.started:
        if started.function is None or started.function in datasets:
            message = "the pipeline starts its own streams"
            yield Violation(
                program.span_of_name(started.step.node), message, f"return {program.source(started.writer.node.value)}"
            )


def _declares(program: Program, node: ast.expr) -> bool:
    return bool(_called(program, node))


def _called(program: Program, node: ast.expr) -> str | None:
    """The name of a decorator or call in the pipeline modules; None if it is not from there."""
    return of_pipelines(program.value(node.func if isinstance(node, ast.Call) else node))


def _into_own_query(program: Program) -> Iterator[Violation]:
    queries = dict(_queries(program))
    for step, function in program.facts.steps:
        if of_pipelines(function) in _CHANGES:
            target = text_of(step.argument(0, "target"))
            if target is not None and target.casefold() in queries:
                line = program.text.location(queries[target.casefold()]).line
                yield _own_query(
                    program.span_of(step.node.func), target, line, f'dp.create_streaming_table("{target}")'
                )


def _queries(program: Program) -> Iterator[tuple[str, int]]:
    """The datasets with their own query, each with its line."""
    for node in (part for part in program.nodes if isinstance(part, ast.FunctionDef)):
        for decorator in node.decorator_list:
            if _called(program, decorator) in _WITH_QUERY:
                given = decorator.keywords if isinstance(decorator, ast.Call) else []
                name = next((text_of(program.value(one.value)) for one in given if one.arg == "name"), node.name)
                if name is not None:
                    yield name.casefold(), node.lineno


def _own_query(span: Span, target: str, line: int, fix: str) -> Violation:
    return Violation(span, f'"{target}" has its own query, on line {line}', fix)


def _into_own_query_in_sql(sql: Sql) -> Iterator[Violation]:
    for words in _AUTO_CDC:
        for at in sql.find(*words):
            target = name_at(sql.tokens, at + len(words))
            for other in sql.siblings:
                if target and _made_with_query(other).casefold() == target.casefold():
                    fix = f"CREATE OR REFRESH STREAMING TABLE {target}"
                    yield _own_query(sql.span_of(at + len(words)), target, other.span_of(0).line, fix)


def _made_with_query(sql: Sql) -> str:
    """The dataset that a statement creates from a query; empty for other statements."""
    if not sql.begins("CREATE") or not any(sql.find("AS", "SELECT")):
        return ""
    kinds = (("STREAMING", "TABLE"), ("MATERIALIZED", "VIEW"), ("TEMPORARY", "VIEW"))
    for kind in kinds:
        for at in sql.find(*kind):
            exists = next(sql.find("IF", "NOT", "EXISTS"), None) == at + len(kind)
            return name_at(sql.tokens, at + len(kind) + (3 if exists else 0))
    return ""


def _statements(sql: Sql) -> Iterator[Violation]:
    program = sql.program
    if program is None or not program.is_pipeline or not sql.whole or not sql.tokens[0].is_word(*_STATEMENTS):
        return
    if any(node is sql.call for node in walked(program.tree, within_functions=False)):
        yield Violation(sql.span_of(0), f"{sql.tokens[0].text.upper()} is refused at the top level of a pipeline file")


RULES = (
    rule("stream-started-in-pipeline", _in_pipeline),
    rule("changes-into-query", _into_own_query, sql=_into_own_query_in_sql),
    rule("statement-in-file", sql=_statements),
)

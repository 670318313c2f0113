"""What files of a pipeline do while they are loaded, and what they declare that does not fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.methods import named
from headrace.lint.program import Program, Span
from headrace.lint.rules import Hit, rule
from headrace.lint.scopes import of_pipelines, walked
from headrace.lint.sql_streams import name_at
from headrace.lint.sql_texts import Sql
from headrace.lint.values import text_of

_WITH_QUERY = named("table materialized_view temporary_view view")
_CHANGES = named("create_auto_cdc_flow apply_changes create_auto_cdc_from_snapshot_flow apply_changes_from_snapshot")
_AUTO_CDC = (("AUTO", "CDC", "INTO"), ("APPLY", "CHANGES", "INTO"))
# Statements that write, or change what the catalog has.
_STATEMENTS = ("INSERT", "CREATE", "DROP", "ALTER", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "REPLACE", "COPY")


def _in_pipeline(program: Program) -> Iterator[Hit]:
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
            yield Hit(
                program.at_name(started.step.node), message, f"return {program.source(started.writer.node.value)}"
            )


def _declares(program: Program, node: ast.expr) -> bool:
    return bool(_called(program, node))


def _called(program: Program, node: ast.expr) -> str | None:
    """What a decorator, or what is called, is called in the modules that declare pipelines."""
    return of_pipelines(program.value(node.func if isinstance(node, ast.Call) else node))


def _into_own_query(program: Program) -> Iterator[Hit]:
    queries = dict(_queries(program))
    for step, function in program.facts.steps:
        if of_pipelines(function) in _CHANGES:
            target = text_of(step.given(0, "target"))
            if target is not None and target.casefold() in queries:
                line = program.text.place(queries[target.casefold()]).line
                yield _own_query(program.at(step.node.func), target, line, f'dp.create_streaming_table("{target}")')


def _queries(program: Program) -> Iterator[tuple[str, int]]:
    """The datasets that have a query of their own, each with its line."""
    for node in (part for part in program.nodes if isinstance(part, ast.FunctionDef)):
        for decorator in node.decorator_list:
            if _called(program, decorator) in _WITH_QUERY:
                given = decorator.keywords if isinstance(decorator, ast.Call) else []
                name = next((text_of(program.value(one.value)) for one in given if one.arg == "name"), node.name)
                if name is not None:
                    yield name.casefold(), node.lineno


def _own_query(span: Span, target: str, line: int, instead: str) -> Hit:
    return Hit(span, f'"{target}" has its own query, on line {line}', instead)


def _into_own_query_in_sql(sql: Sql) -> Iterator[Hit]:
    for words in _AUTO_CDC:
        for at in sql.find(*words):
            target = name_at(sql.tokens, at + len(words))
            for other in sql.beside:
                if target and _made_with_query(other).casefold() == target.casefold():
                    instead = f"CREATE OR REFRESH STREAMING TABLE {target}"
                    yield _own_query(sql.at(at + len(words)), target, other.at(0).line, instead)


def _made_with_query(sql: Sql) -> str:
    """The dataset that a statement makes of a query; empty for any other statement."""
    if not sql.begins("CREATE") or not any(sql.find("AS", "SELECT")):
        return ""
    kinds = (("STREAMING", "TABLE"), ("MATERIALIZED", "VIEW"), ("TEMPORARY", "VIEW"))
    for kind in kinds:
        for at in sql.find(*kind):
            exists = next(sql.find("IF", "NOT", "EXISTS"), None) == at + len(kind)
            return name_at(sql.tokens, at + len(kind) + (3 if exists else 0))
    return ""


def _statements(sql: Sql) -> Iterator[Hit]:
    program = sql.within
    if program is None or not program.pipeline or not sql.whole or not sql.tokens[0].is_word(*_STATEMENTS):
        return
    if any(node is sql.call for node in walked(program.tree, within_functions=False)):
        yield Hit(sql.at(0), f"{sql.tokens[0].text.upper()} is refused at the top level of a pipeline file")


RULES = (
    rule("stream-started-in-pipeline", _in_pipeline),
    rule("changes-into-query", _into_own_query, sql=_into_own_query_in_sql),
    rule("statement-in-file", sql=_statements),
)

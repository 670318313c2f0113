"""What streams are read from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from headrace.lint.methods import FILES, named
from headrace.lint.program import Program
from headrace.lint.rules import Hit, rule
from headrace.lint.scopes import FUNCTIONS
from headrace.lint.sql_streams import name_at
from headrace.lint.sql_texts import Sql, sql_in
from headrace.lint.values import (
    Frame,
    Imported,
    Reader,
    Record,
    Several,
    Step,
    Value,
    Writer,
    opaque,
    option_of,
    said,
    text_of,
)
from headrace.sql.lexer import Kind, unquoted

_CHANGE = "_change_type"
# Source: Delta's protocol, "Change Data Files".
_CHANGES = ("insert", "update_preimage", "update_postimage", "delete")
_PASSES_OVER = ("ignoreChanges", "skipChangeCommits", "readChangeFeed", "readChangeData")
_SESSION = "headrace exec FILE, or spark = headrace.spark_session()"
# The place of the schema among the arguments of what reads files; the others take it by name alone, or not at all.
_SCHEMA_AT = {"json": 1, "csv": 1, "xml": 2, "load": 2, **dict.fromkeys(("parquet", "orc", "avro"), sys.maxsize)}
# Formats of files, whose columns a stream does not look for.
_INFERRED = named("json csv parquet orc xml avro")


def _changes(program: Program) -> Iterator[Hit]:
    for step, _ in program.calls("isin"):
        if _is_change(program, _owner(step)):
            yield from _wrong(program, list(step.node.args))
    for node in program.nodes:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                for side, other in ((left, right), (right, left)):
                    if _is_change(program, side):
                        yield from _wrong(program, [other])
            case _:
                pass


def _owner(step: Step) -> ast.expr:
    function = step.node.func
    return function.value if isinstance(function, ast.Attribute) else function


def _is_change(program: Program, node: ast.expr) -> bool:
    match node:
        case ast.Call(func=function, args=[name]):
            of = program.value(function)
            named = isinstance(of, Imported) and of.name.endswith((".col", ".column"))
            return named and text_of(program.value(name)) == _CHANGE
        case ast.Subscript(value=owner, slice=name):
            return isinstance(program.value(owner), Frame) and text_of(program.value(name)) == _CHANGE
        case ast.Attribute(value=owner, attr=attr):
            return attr == _CHANGE and isinstance(program.value(owner), Frame)
        case _:
            return False


def _wrong(program: Program, given: list[ast.expr]) -> Iterator[Hit]:
    for argument in given:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        parts = inner.elts if isinstance(inner, ast.List | ast.Tuple | ast.Set) else [inner]
        for part in parts:
            value = program.value(part)
            # A name may stand for several.
            texts = map(text_of, value.items if isinstance(value, Several) else (value,))
            wrong = next((text for text in texts if text is not None and text not in _CHANGES), None)
            if wrong is not None:
                yield Hit(program.at(part), f'unknown change type "{wrong}"', _right(wrong))


def _right(text: str) -> str:
    return '"update_postimage"' if text.startswith("update") else ", ".join(f'"{known}"' for known in _CHANGES)


def _changes_in_sql(sql: Sql) -> Iterator[Hit]:
    for index, token in enumerate(sql.tokens):
        if not token.is_name or token.text.strip("`").lower() != _CHANGE:
            continue
        rest = range(index + 1, len(sql.tokens))
        for at in rest:
            following = sql.tokens[at]
            if following.kind is Kind.STRING:
                text = unquoted(following)
                if text not in _CHANGES:
                    yield Hit(sql.at(at), f'unknown change type "{text}"', _right(text).replace('"', "'"))
            elif not (following.is_word("IN", "NOT") or following.is_symbol("(", ",", "=", "<", ">", "!")):
                break


def _changed(program: Program) -> Iterator[Hit]:
    rewritten = dict(_rewritten(program))
    for step, reader, place in _delta_streams(program):
        if place in rewritten and not any(option_of(reader.steps, name) for name in _PASSES_OVER):
            message = (
                f"line {program.text.place(rewritten[place]).line} changes rows of "
                f'"{place}", and this stream fails there'
            )
            instead = (
                '.option("skipChangeCommits", "true")'
                '  # or .option("readChangeFeed", "true"), before .load() or .table()'
            )
            if not opaque(reader.steps):
                yield Hit(program.at_name(step.node), message, instead)


def _rewritten(program: Program) -> Iterator[tuple[str, int]]:
    """Tables whose rows the program changes, with the line where it does."""
    for target in program.facts.merged:
        place = text_of(target.place)
        if place is not None and any(step.name.startswith("whenMatched") for step in target.steps):
            yield place, target.steps[-1].node.lineno
    for sql in sql_in(program):
        if sql.begins("MERGE", "INTO") and any(sql.find("WHEN", "MATCHED")):
            yield name_at(sql.tokens, 2), sql.at(0).line
        elif sql.begins("UPDATE"):
            yield name_at(sql.tokens, 1), sql.at(0).line
        elif sql.begins("DELETE", "FROM"):
            yield name_at(sql.tokens, 2), sql.at(0).line


def _delta_streams(program: Program) -> Iterator[tuple[Step, Reader, str]]:
    for step, owner in program.calls("table", "load"):
        if isinstance(owner, Reader) and owner.streaming:
            form = text_of(said(owner.steps, "format", "format"))
            place = text_of(step.given(0, "tableName" if step.name == "table" else "path"))
            if place is not None and (form == "delta" or (form is None and step.name == "table")):
                # Behind a path that SQL names, the format stands in front.
                yield step, owner, place


def _ignoring(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("option", "options"):
        if isinstance(owner, Reader) and owner.streaming:
            named = text_of(step.first) == "ignoreChanges" or "ignoreChanges" in step.keywords
            value = step.given(1, "value") if step.name == "option" else step.keywords.get("ignoreChanges")
            if named and str(getattr(value, "value", True)).lower() == "true":
                message = '"ignoreChanges" reads unchanged rows again'
                yield Hit(program.at_name(step.node), message, '.option("skipChangeCommits", "true")')


def _no_schema(program: Program) -> Iterator[Hit]:
    if program.says("spark.sql.streaming.schemaInference"):
        return
    for step, owner in program.calls("load", *_INFERRED):
        if not isinstance(owner, Reader) or not owner.streaming or opaque(owner.steps):
            continue
        form = step.name if step.name in _INFERRED else text_of(said((*owner.steps, step), "format", "format"))
        given = any(part.name == "schema" for part in owner.steps) or step.given(_SCHEMA_AT[step.name], "schema")
        if form in _INFERRED and not given:
            message = f"a stream of {form} files needs a schema"
            yield Hit(program.at_name(step.node), message, '.schema("id BIGINT, at TIMESTAMP")  # before this')


def _no_path(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("load"):
        if not isinstance(owner, Reader) or owner.streaming is None:
            continue
        steps = (*owner.steps, step)
        form = (text_of(said(steps, "format", "format")) or "").lower()
        # A batch of files without a path is one without rows, where it has a schema.
        wants = form == "delta" or (owner.streaming and form in (*FILES, "cloudfiles"))
        if wants and step.given(0, "path") is None and option_of(steps, "path") is None and not opaque(steps):
            yield Hit(program.at_name(step.node), "the reader has no path", '.load("/data/orders")')


def _no_mechanism(program: Program) -> Iterator[Hit]:
    # Without a login module in the text, it is in a file of JAAS, which may be one of Kerberos.
    if not program.says("LoginModule") or program.says("Krb5LoginModule"):
        return
    for step, owner in (*program.calls("load"), *program.calls("save", "start")):
        if not isinstance(owner, Reader | Writer):
            continue
        steps = (*owner.steps, step)
        protocol = text_of(option_of(steps, "kafka.security.protocol")) or ""
        form = text_of(said(steps, "format", "format"))
        if form != "kafka" or not protocol.upper().startswith("SASL_") or opaque(steps):
            continue
        given = ("kafka.sasl.mechanism", "kafka.sasl.kerberos.service.name")
        if option_of(steps, "kafka.sasl.jaas.config") is not None and not any(option_of(steps, n) for n in given):
            message = f'"{protocol}" without a mechanism means Kerberos (GSSAPI)'
            instead = '.option("kafka.sasl.mechanism", "PLAIN")  # or "SCRAM-SHA-512", to match the login module'
            yield Hit(program.at_name(step.node), message, instead)


# What is not there, and what there is in its place.
_VENDOR = {
    "cloudfiles": ("Auto Loader", _SESSION),
    "eventhubs": ("a connector without a build for Spark 4", _SESSION),
    "kinesis": ("a source that only Databricks has", _SESSION),
    "pubsub": (
        "a source that only Databricks has",
        "(let the subscription write to Kafka or files, and stream from there)",
    ),
    "pulsar": (
        "a connector without a build for Spark 4",
        '.format("kafka")  # if the broker supports the Kafka protocol',
    ),
}


def _vendor(program: Program) -> Iterator[Hit]:
    for step, owner in program.calls("format"):
        name = (text_of(step.first) or "").lower()
        if not isinstance(owner, Reader) or name not in _VENDOR:
            continue
        what, instead = _VENDOR[name]
        if instead != _SESSION or not program.ready:
            yield Hit(program.at_name(step.node), f'"{text_of(step.first)}" is {what}', instead)


def _columns(program: Program) -> Iterator[Hit]:
    """Columns among the values that a DataFrame is made of."""
    for step, _ in program.calls("createDataFrame"):
        data = step.given(0, "data")
        if not isinstance(data, Several):
            continue
        named = step.node.args[0] if step.node.args and isinstance(step.node.args[0], ast.Name) else None
        function = _column_in(data) if named is not None else None
        if named is not None and function is not None:
            yield Hit(program.at(named), f'"{function}" returns a column, not a value', _instead_of(function))
        for node in ast.walk(step.node.args[0] if step.node.args else step.node):
            if isinstance(node, ast.Call) and _gives_column(program, node):
                function = program.source(node.func).rpartition(".")[2]
                yield Hit(program.at(node), f'"{function}" returns a column, not a value', _instead_of(function))
                break


def _instead_of(function: str) -> str:
    return "datetime.now(timezone.utc)" if "timestamp" in function or function == "now" else ""


def _column_in(value: Value) -> str | None:
    """The function that gives a column among these values, if one does."""
    if isinstance(value, Several):
        return next(filter(None, map(_column_in, value.items)), None)
    if isinstance(value, Record):
        return next(filter(None, map(_column_in, value.values)), None)
    if isinstance(value, Imported) and value.name.startswith(f"{FUNCTIONS}.") and "(" in value.name:
        return value.name.removeprefix(f"{FUNCTIONS}.").partition("(")[0]
    return None


def _gives_column(program: Program, node: ast.Call) -> bool:
    function = program.value(node.func)
    return isinstance(function, Imported) and function.name.startswith(f"{FUNCTIONS}.")


RULES = (
    rule("change-types", _changes, sql=_changes_in_sql),
    rule("changed-source", _changed),
    rule("ignore-changes", _ignoring),
    rule("missing-schema", _no_schema),
    rule("missing-path", _no_path),
    rule("kafka-mechanism", _no_mechanism),
    rule("vendor-source", _vendor),
    rule("create-data-frame-column", _columns),
)

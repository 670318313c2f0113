"""Sources of streams."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from headrace.lint.edits import Edits, inserted_call
from headrace.lint.methods import FILE_FORMATS, name_set
from headrace.lint.program import Program
from headrace.lint.rules import Violation, rule
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
    method_argument,
    opaque,
    option_of,
    text_of,
)
from headrace.sql.lexer import Kind, unquoted

_CHANGE = "_change_type"
# Login modules of Kafka, with the mechanism of those that have only one.
_MECHANISMS = {"PlainLoginModule": "PLAIN", "OAuthBearerLoginModule": "OAUTHBEARER", "ScramLoginModule": None}
# Source: Delta's protocol, "Change Data Files".
_CHANGES = ("insert", "update_preimage", "update_postimage", "delete")
_CHANGE_OPTIONS = ("ignoreChanges", "skipChangeCommits", "readChangeFeed", "readChangeData")
_SESSION = "headrace exec FILE, or spark = headrace.spark_session()"
# The position of the schema argument in the methods that read files; others take it by name only, or not at all.
_SCHEMA_POSITIONS = {"json": 1, "csv": 1, "xml": 2, "load": 2, **dict.fromkeys(("parquet", "orc", "avro"), sys.maxsize)}
# File formats whose schema a stream does not infer.
_INFERRED = name_set("json csv parquet orc xml avro")


def _changes(program: Program) -> Iterator[Violation]:
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


def _wrong(program: Program, given: list[ast.expr]) -> Iterator[Violation]:
    for argument in given:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        parts = inner.elts if isinstance(inner, ast.List | ast.Tuple | ast.Set) else [inner]
        for part in parts:
            value = program.value(part)
            # A name may stand for several values.
            texts = map(text_of, value.items if isinstance(value, Several) else (value,))
            wrong = next((text for text in texts if text is not None and text not in _CHANGES), None)
            if wrong is not None:
                yield Violation(program.span_of(part), f'unknown change type "{wrong}"', _right(wrong))


def _right(text: str) -> str:
    return '"update_postimage"' if text.startswith("update") else ", ".join(f'"{known}"' for known in _CHANGES)


def _changes_in_sql(sql: Sql) -> Iterator[Violation]:
    for index, token in enumerate(sql.tokens):
        if not token.is_name or token.text.strip("`").lower() != _CHANGE:
            continue
        rest = range(index + 1, len(sql.tokens))
        for at in rest:
            following = sql.tokens[at]
            if following.kind is Kind.STRING:
                text = unquoted(following)
                if text not in _CHANGES:
                    yield Violation(sql.span_of(at), f'unknown change type "{text}"', _right(text).replace('"', "'"))
            elif not (following.is_word("IN", "NOT") or following.is_symbol("(", ",", "=", "<", ">", "!")):
                break


def _changed(program: Program) -> Iterator[Violation]:
    rewritten = dict(_rewritten(program))
    for step, reader, table in _delta_streams(program):
        if table in rewritten and not any(option_of(reader.steps, name) for name in _CHANGE_OPTIONS):
            message = (
                f"line {program.text.location(rewritten[table]).line} changes rows of "
                f'"{table}", and this stream fails there'
            )
            fix = (
                '.option("skipChangeCommits", "true")'
                '  # or .option("readChangeFeed", "true"), before .load() or .table()'
            )
            if not opaque(reader.steps):
                yield Violation(program.span_of_name(step.node), message, fix)


def _rewritten(program: Program) -> Iterator[tuple[str, int]]:
    """Tables whose rows the program changes, with the line of the change."""
    for target in program.facts.merged:
        table = text_of(target.name_or_path)
        if table is not None and any(step.name.startswith("whenMatched") for step in target.steps):
            yield table, target.steps[-1].node.lineno
    for sql in sql_in(program):
        if sql.begins("MERGE", "INTO") and any(sql.find("WHEN", "MATCHED")):
            yield name_at(sql.tokens, 2), sql.span_of(0).line
        elif sql.begins("UPDATE"):
            yield name_at(sql.tokens, 1), sql.span_of(0).line
        elif sql.begins("DELETE", "FROM"):
            yield name_at(sql.tokens, 2), sql.span_of(0).line


def _delta_streams(program: Program) -> Iterator[tuple[Step, Reader, str]]:
    for step, owner in program.calls("table", "load"):
        if isinstance(owner, Reader) and owner.streaming:
            form = text_of(method_argument(owner.steps, "format", "format"))
            table = text_of(step.argument(0, "tableName" if step.name == "table" else "path"))
            if table is not None and (form == "delta" or (form is None and step.name == "table")):
                # A path in SQL has the format as prefix.
                yield step, owner, table


def _ignoring(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("option", "options"):
        if isinstance(owner, Reader) and owner.streaming:
            named = text_of(step.first) == "ignoreChanges" or "ignoreChanges" in step.keywords
            value = step.argument(1, "value") if step.name == "option" else step.keywords.get("ignoreChanges")
            if named and str(getattr(value, "value", True)).lower() == "true":
                message = '"ignoreChanges" reads unchanged rows again'
                yield Violation(program.span_of_name(step.node), message, '.option("skipChangeCommits", "true")')


def _no_schema(program: Program) -> Iterator[Violation]:
    if program.has_constant("spark.sql.streaming.schemaInference"):
        return
    for step, owner in program.calls("load", *_INFERRED):
        if not isinstance(owner, Reader) or not owner.streaming or opaque(owner.steps):
            continue
        form = (
            step.name if step.name in _INFERRED else text_of(method_argument((*owner.steps, step), "format", "format"))
        )
        given = any(part.name == "schema" for part in owner.steps) or step.argument(
            _SCHEMA_POSITIONS[step.name], "schema"
        )
        if form in _INFERRED and not given:
            message = f"a stream of {form} files needs a schema"
            yield Violation(
                program.span_of_name(step.node), message, '.schema("id BIGINT, at TIMESTAMP")  # before this'
            )


def _no_path(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("load"):
        if not isinstance(owner, Reader) or owner.streaming is None:
            continue
        steps = (*owner.steps, step)
        form = (text_of(method_argument(steps, "format", "format")) or "").lower()
        # A batch read without a path has no rows if it has a schema.
        wants = form == "delta" or (owner.streaming and form in (*FILE_FORMATS, "cloudfiles"))
        if wants and step.argument(0, "path") is None and option_of(steps, "path") is None and not opaque(steps):
            yield Violation(program.span_of_name(step.node), "the reader has no path", '.load("/data/orders")')


def _no_mechanism(program: Program) -> Iterator[Violation]:
    # Without a login module in the text, it is in a JAAS file, which may use Kerberos.
    if not program.has_constant("LoginModule") or program.has_constant("Krb5LoginModule"):
        return
    for step, owner in (*program.calls("load"), *program.calls("save", "start")):
        if not isinstance(owner, Reader | Writer):
            continue
        steps = (*owner.steps, step)
        protocol = text_of(option_of(steps, "kafka.security.protocol")) or ""
        form = text_of(method_argument(steps, "format", "format"))
        if form != "kafka" or not protocol.upper().startswith("SASL_") or opaque(steps):
            continue
        given = ("kafka.sasl.mechanism", "kafka.sasl.kerberos.service.name")
        if option_of(steps, "kafka.sasl.jaas.config") is not None and not any(option_of(steps, n) for n in given):
            message = f'"{protocol}" without a mechanism means Kerberos (GSSAPI)'
            fix = '.option("kafka.sasl.mechanism", "PLAIN")  # or "SCRAM-SHA-512", to match the login module'
            edits = _with_mechanism(program, steps)
            yield Violation(program.span_of_name(step.node), message, fix, edits=edits)


def _with_mechanism(program: Program, steps: tuple[Step, ...]) -> Edits:
    """The edit that sets the mechanism before the login, if the login module supports only one."""
    modules = {name for name in _MECHANISMS if program.has_constant(name)}
    login = next((step for step in steps if text_of(step.first) == "kafka.sasl.jaas.config"), None)
    mechanism = _MECHANISMS[modules.pop()] if len(modules) == 1 else None
    if mechanism is None or login is None or login.name != "option":
        return ()
    return inserted_call(program, login.node, f'.option("kafka.sasl.mechanism", "{mechanism}")')


# Sources that open-source Spark does not have, and their replacements.
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


def _vendor(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("format"):
        name = (text_of(step.first) or "").lower()
        if not isinstance(owner, Reader) or name not in _VENDOR:
            continue
        what, fix = _VENDOR[name]
        if fix != _SESSION or not program.has_notebook_session:
            yield Violation(program.span_of_name(step.node), f'"{text_of(step.first)}" is {what}', fix)


def _columns(program: Program) -> Iterator[Violation]:
    """Column expressions among the values of ``createDataFrame``."""
    for step, _ in program.calls("createDataFrame"):
        data = step.argument(0, "data")
        if not isinstance(data, Several):
            continue
        named = step.node.args[0] if step.node.args and isinstance(step.node.args[0], ast.Name) else None
        function = _column_in(data) if named is not None else None
        if named is not None and function is not None:
            yield Violation(program.span_of(named), f'"{function}" returns a column, not a value', _fix_for(function))
        for node in ast.walk(step.node.args[0] if step.node.args else step.node):
            if isinstance(node, ast.Call) and _gives_column(program, node):
                function = program.source(node.func).rpartition(".")[2]
                yield Violation(
                    program.span_of(node), f'"{function}" returns a column, not a value', _fix_for(function)
                )
                break


def _fix_for(function: str) -> str:
    return "datetime.now(timezone.utc)" if "timestamp" in function or function == "now" else ""


def _column_in(value: Value) -> str | None:
    """The name of a function among these values that returns a column, if there is one."""
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

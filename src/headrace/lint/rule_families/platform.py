"""Names and settings of the vendor's platform, and settings without effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.edits import replaced_text
from headrace.lint.methods import name_set
from headrace.lint.program import Program
from headrace.lint.rules import Violation, rule
from headrace.lint.secrets import secrets_in
from headrace.lint.sql_texts import Sql
from headrace.lint.values import Bound, Conf, Literal, Step, text_of
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER, Effect, vendor_conf

# Names that the platform defines in notebooks; Headrace has them too.
_NAMES = frozenset(("dbutils", "display", "displayHTML"))
_EXEC = "headrace exec FILE"
_SESSION = "spark = headrace.spark_session()  # supports this setting"
# Source: RuntimeConfig.requireNonStaticConf, which refuses confs that Spark core registered.
_AT_START = (
    *("spark.executor.", "spark.driver.", "spark.serializer", "spark.jars", "spark.submit.", "spark.memory."),
    *("spark.dynamicAllocation.", "spark.cores.max", "spark.task.cpus", "spark.plugins", "spark.sql.extensions"),
    "spark.sql.warehouse.dir",
)
# A running session accepts these, and they have no effect.
_IGNORED = frozenset(("spark.default.parallelism", "spark.local.dir", "spark.master", "spark.app.name"))
_PARTITIONS = "spark.sql.shuffle.partitions"
# The vendor's prefix, under which Delta has settings of its own.
_ALL, _DELTA = "spark.databricks.*", "spark.databricks.delta."
_SYSTEM = name_set("streaming billing access lakeflow compute query storage marketplace serving")


def _settings(program: Program) -> Iterator[Violation]:
    for step, key, value in program.confs():
        text = str(value.value) if isinstance(value, Literal) else None
        known = vendor_conf(key, text) if text is not None else None
        if text is None or (known is not None and known.effect is Effect.USED and program.has_notebook_session):
            continue
        span = program.span_of(step.node.args[0]) if step.node.args else program.span_of_name(step.node)
        if key == STATE_PROVIDER and text.startswith("com.databricks."):
            known_class = len(step.node.args) == 2 and known is not None
            edits = replaced_text(program, step.node.args[1], ROCKSDB) if known_class else ()
            message = f'open-source Spark has no class "{text.rpartition(".")[2]}"'
            yield Violation(span, message, f'"{ROCKSDB}"', edits=edits)
        elif key == _PARTITIONS and not text.lstrip("-").isdigit():
            yield Violation(span, f'"{key}" must be a number', f'spark.conf.set("{_PARTITIONS}", "200")')


def _set_later(program: Program) -> Iterator[tuple[Step, str, str]]:
    """Confs set in a running session: the call, the name, and how to set it at the start."""
    for step, function in program.facts.steps:
        sets = isinstance(function, Bound) and isinstance(function.of, Conf) and function.name == "set"
        key = text_of(step.argument(0, "key")) if sets else None
        if key is not None and len(step.node.args) == 2:
            value = program.source(step.node.args[1])
            yield step, key, f'SparkSession.builder.config("{key}", {value})  # or spark-submit --conf {key}=...'


def _fixed(program: Program) -> Iterator[Violation]:
    if program.has_notebook_session and not program.is_pipeline:
        # There, Headrace reads them from the text before the session starts, or reports that they are too late.
        return
    for step, key, fix in _set_later(program):
        if key.startswith(_AT_START):
            yield Violation(program.span_of(step.node.args[0]), f'"{key}" cannot change while Spark runs', fix)


def _without_effect(program: Program) -> Iterator[Violation]:
    for step, key, value in program.confs():
        known = vendor_conf(key, str(value.value) if isinstance(value, Literal) else "")
        # Specific values belong to another rule.
        if known is None or known.value is not None or (known.name == _ALL and key.startswith(_DELTA)):
            continue
        if known.effect is Effect.USED and program.has_notebook_session:
            continue
        span = program.span_of(step.node.args[0]) if step.node.args else program.span_of_name(step.node)
        fix = f'"{next(iter(known.becomes))}"' if known.becomes else ""
        same = len(step.node.args) == 2 and list((known.becomes or {}).values()) == ["{value}"]
        edits = replaced_text(program, step.node.args[0], fix.strip('"')) if same else ()
        shown = fix or (_SESSION if known.effect is Effect.USED else "")
        yield Violation(span, f'"{key}" has no effect', shown, edits=edits)
    for step, key, fix in _set_later(program):
        if key in _IGNORED:
            yield Violation(program.span_of(step.node.args[0]), f'"{key}" has no effect while Spark runs', fix)


def _names(program: Program) -> Iterator[Violation]:
    if program.text.notebook or program.is_pipeline:
        return
    # A program with the name in a string checks whether it is defined.
    checked = {node.value for node in program.nodes if isinstance(node, ast.Constant) and node.value in _NAMES}
    tried = {part for node in program.nodes if _catches(node) for part in ast.walk(node)}
    found: set[str] = set()
    for node in program.nodes:
        if isinstance(node, ast.Name) and node.id in _NAMES - program.bound - checked - found and node not in tried:
            found.add(node.id)
            fix = f"from headrace import {node.id}" if program.has_notebook_session else _EXEC
            yield Violation(program.span_of(node), f'"{node.id}" is not defined in a script', fix)


def _catches(node: ast.AST) -> bool:
    """Whether a statement catches a missing name."""
    caught = ("NameError", "Exception", "BaseException")
    return isinstance(node, ast.Try) and any(
        handler.type is None or any(isinstance(part, ast.Name) and part.id in caught for part in ast.walk(handler.type))
        for handler in node.handlers
    )


def _system(sql: Sql) -> Iterator[Violation]:
    for index, token in enumerate(sql.tokens[:-2]):
        follows = index > 0 and sql.tokens[index - 1].is_word("FROM", "JOIN")
        named = sql.tokens[index + 2].text.lower() in _SYSTEM and sql.tokens[index + 1].is_symbol(".")
        if follows and token.is_word("SYSTEM") and named:
            name = f"{token.text}.{sql.tokens[index + 2].text}"
            fix = "[q.status for q in spark.streams.active]  # or headrace status, headrace events"
            yield Violation(sql.span_of(index), f'open-source Spark has no "{name}"', fix)


def _secrets(program: Program) -> Iterator[Violation]:
    for secret in secrets_in(program):
        yield Violation(program.span_of(secret.node), f'{secret.kind} "{secret.name}" contains a secret')


RULES = (
    rule("vendor-setting", _settings),
    rule("fixed-setting", _fixed),
    rule("setting-without-effect", _without_effect),
    rule("vendor-name", _names),
    rule("vendor-system-table", sql=_system),
    rule("secret-in-text", _secrets),
)

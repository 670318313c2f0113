"""What only the vendor's platform has, and settings that do not do what they seem to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.methods import named
from headrace.lint.program import Program
from headrace.lint.rules import Hit, rule
from headrace.lint.secrets import secrets_in
from headrace.lint.sql_texts import Sql
from headrace.lint.values import Bound, Conf, Literal, Step, text_of
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER, Effect, vendor_conf

# Names that the platform puts into notebooks; Headrace has them too.
_NAMES = frozenset(("dbutils", "display", "displayHTML"))
_EXEC = "headrace exec FILE"
_SESSION = "spark = headrace.spark_session()  # supports this setting"
# Source: RuntimeConfig.requireNonStaticConf, which refuses what Spark's core has registered.
_AT_START = (
    *("spark.executor.", "spark.driver.", "spark.serializer", "spark.jars", "spark.submit.", "spark.memory."),
    *("spark.dynamicAllocation.", "spark.cores.max", "spark.task.cpus", "spark.plugins", "spark.sql.extensions"),
    "spark.sql.warehouse.dir",
)
# These are taken by a session that is there, and change nothing.
_PASSED_OVER = frozenset(("spark.default.parallelism", "spark.local.dir", "spark.master", "spark.app.name"))
_PARTITIONS = "spark.sql.shuffle.partitions"
# The vendor's prefix, below which Delta has settings of its own.
_ALL, _DELTA = "spark.databricks.*", "spark.databricks.delta."
_SYSTEM = named("streaming billing access lakeflow compute query storage marketplace serving")


def _settings(program: Program) -> Iterator[Hit]:
    for step, key, value in program.confs():
        text = str(value.value) if isinstance(value, Literal) else None
        known = vendor_conf(key, text) if text is not None else None
        if text is None or (known is not None and known.effect is Effect.USED and program.ready):
            continue
        place = program.at(step.node.args[0]) if step.node.args else program.at_name(step.node)
        if key == STATE_PROVIDER and text.startswith("com.databricks."):
            yield Hit(place, f'open-source Spark has no class "{text.rpartition(".")[2]}"', f'"{ROCKSDB}"')
        elif key == _PARTITIONS and not text.lstrip("-").isdigit():
            yield Hit(place, f'"{key}" must be a number', f'spark.conf.set("{_PARTITIONS}", "200")')


def _set_later(program: Program) -> Iterator[tuple[Step, str, str]]:
    """What is set in a session that is there: the call, the name, and how it is said at the start."""
    for step, function in program.facts.steps:
        sets = isinstance(function, Bound) and isinstance(function.of, Conf) and function.name == "set"
        key = text_of(step.given(0, "key")) if sets else None
        if key is not None and len(step.node.args) == 2:
            value = program.source(step.node.args[1])
            yield step, key, f'SparkSession.builder.config("{key}", {value})  # or spark-submit --conf {key}=...'


def _fixed(program: Program) -> Iterator[Hit]:
    if program.ready and not program.pipeline:
        # There they are taken from the text before the session starts, or said to be too late.
        return
    for step, key, instead in _set_later(program):
        if key.startswith(_AT_START):
            yield Hit(program.at(step.node.args[0]), f'"{key}" cannot change while Spark runs', instead)


def _without_effect(program: Program) -> Iterator[Hit]:
    for step, key, value in program.confs():
        known = vendor_conf(key, str(value.value) if isinstance(value, Literal) else "")
        # A value that is meant is another rule's.
        if known is None or known.value is not None or (known.name == _ALL and key.startswith(_DELTA)):
            continue
        if known.effect is Effect.USED and program.ready:
            continue
        place = program.at(step.node.args[0]) if step.node.args else program.at_name(step.node)
        instead = f'"{next(iter(known.becomes))}"' if known.becomes else ""
        yield Hit(place, f'"{key}" has no effect', instead or (_SESSION if known.effect is Effect.USED else ""))
    for step, key, instead in _set_later(program):
        if key in _PASSED_OVER:
            yield Hit(program.at(step.node.args[0]), f'"{key}" has no effect while Spark runs', instead)


def _names(program: Program) -> Iterator[Hit]:
    if program.text.notebook or program.pipeline:
        return
    # Who writes the name as a text asks whether it is there.
    asked = {node.value for node in program.nodes if isinstance(node, ast.Constant) and node.value in _NAMES}
    tried = {part for node in program.nodes if _catches(node) for part in ast.walk(node)}
    found: set[str] = set()
    for node in program.nodes:
        if isinstance(node, ast.Name) and node.id in _NAMES - program.bound - asked - found and node not in tried:
            found.add(node.id)
            instead = f"from headrace import {node.id}" if program.ready else _EXEC
            yield Hit(program.at(node), f'"{node.id}" is not defined in a script', instead)


def _catches(node: ast.AST) -> bool:
    """Whether a statement goes on where a name is missing."""
    caught = ("NameError", "Exception", "BaseException")
    return isinstance(node, ast.Try) and any(
        handler.type is None or any(isinstance(part, ast.Name) and part.id in caught for part in ast.walk(handler.type))
        for handler in node.handlers
    )


def _system(sql: Sql) -> Iterator[Hit]:
    for index, token in enumerate(sql.tokens[:-2]):
        follows = index > 0 and sql.tokens[index - 1].is_word("FROM", "JOIN")
        named = sql.tokens[index + 2].text.lower() in _SYSTEM and sql.tokens[index + 1].is_symbol(".")
        if follows and token.is_word("SYSTEM") and named:
            name = f"{token.text}.{sql.tokens[index + 2].text}"
            instead = "[q.status for q in spark.streams.active]  # or headrace status, headrace events"
            yield Hit(sql.at(index), f'open-source Spark has no "{name}"', instead)


def _secrets(program: Program) -> Iterator[Hit]:
    for secret in secrets_in(program):
        yield Hit(program.at(secret.node), f'{secret.kind} "{secret.name}" contains a secret')


RULES = (
    rule("vendor-setting", _settings),
    rule("fixed-setting", _fixed),
    rule("setting-without-effect", _without_effect),
    rule("vendor-name", _names),
    rule("vendor-system-table", sql=_system),
    rule("secret-in-text", _secrets),
)

"""MERGEs of batches that may have several rows per key."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.lint import methods
from headrace.lint.batch_code import BatchCode, batch_code
from headrace.lint.program import Program, Span
from headrace.lint.rule_families.deliveries import is_path
from headrace.lint.rules import Violation, rule
from headrace.lint.sql_streams import name_at
from headrace.lint.sql_texts import Sql, sql_in
from headrace.lint.values import DeltaTarget, Frame, Imported, text_of

_REDUCE = ("dropDuplicates", "drop_duplicates", "distinct", "agg", *methods.REDUCING)
# A comparison of a column with the column of the same name on the other side.
_SAME = re.compile(r"\(?\s*(\w+)\.(\w+)\s*(?:<=>|==?)\s*(?!\1\b)\w+\.\2\s*\)?", re.IGNORECASE)


def _merged(program: Program) -> Iterator[Violation]:
    statements = [sql for sql in sql_in(program) if sql.begins("MERGE") and any(sql.find("WHEN", "MATCHED"))]
    for code in batch_code(program):
        merges = [*_merges_in_python(program, code), *_merges_in_sql(program, code, statements)]
        for merge in merges:
            if not _one_row_each(program, code, merge.source):
                yield Violation(
                    merge.span, "this MERGE fails if a batch has two rows with the same key", merge.fix(code)
                )


@dataclass(frozen=True)
class _Merge:
    """A MERGE: its source, its target as code, its key columns; ``plain`` if it updates and inserts all columns."""

    span: Span
    source: Frame
    frame: str
    target: str
    keys: tuple[str, ...]
    plain: bool

    def fix(self, code: BatchCode) -> str:
        """The replacement, as code."""
        keys = ", ".join(f'"{key}"' for key in self.keys) or '"id"'
        if self.plain and self.keys and not (code.is_pipeline_sink and not is_path(self.target)):
            call = f"headrace.delivery.upsert({self.frame}, {code.batch_id_name}, {self.target}, keys=[{keys}])"
            return f'{call}  # keeps the greatest row of each key; set sequence_by="column" to choose the order'
        # The order of several rows of a key is unknown, and a guess could drop the right one.
        newest = f"Window.partitionBy({keys}).orderBy(F.desc(order_column))"
        numbered = f'{self.frame}.withColumn("n", F.row_number().over({newest}))'
        return f'{numbered}.where("n = 1").drop("n")  # before the MERGE'


def _merges_in_python(program: Program, code: BatchCode) -> Iterator[_Merge]:
    for target in program.facts.merged:
        source = next((step for step in target.steps if step.name == "merge"), None)
        updates = any(step.name.startswith("whenMatched") for step in target.steps)
        if source is None or source.node not in code.parts or not updates or not isinstance(source.first, Frame):
            continue
        keys = _keys(text_of(source.argument(1, "condition")) or "")
        clauses = [step for step in target.steps if step.name.startswith("when")]
        plain = [(step.name, bool(step.node.args or step.node.keywords)) for step in clauses] == [
            ("whenMatchedUpdateAll", False),
            ("whenNotMatchedInsertAll", False),
        ]
        node = source.node.args[0] if source.node.args else source.node.keywords[0].value
        yield _Merge(
            program.span_of_name(source.node),
            source.first,
            _unaliased(program, node),
            _target_of(program, target),
            keys,
            plain,
        )


def _unaliased(program: Program, node: ast.expr) -> str:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "alias":
        node = node.func.value
    return program.source(node)


def _target_of(program: Program, target: DeltaTarget) -> str:
    text = text_of(target.name_or_path)
    if text is not None:
        return json.dumps(text, ensure_ascii=False)
    made = next((node for node in ast.walk(target.steps[0].node) if _makes(program, node)), None)
    return program.source(made.args[1]) if isinstance(made, ast.Call) and len(made.args) > 1 else '"/tables/target"'


def _makes(program: Program, node: ast.AST) -> bool:
    value = program.value(node.func) if isinstance(node, ast.Call) else None
    return isinstance(value, Imported) and value.name.endswith(("DeltaTable.forPath", "DeltaTable.forName"))


def _merges_in_sql(program: Program, code: BatchCode, statements: Sequence[Sql]) -> Iterator[_Merge]:
    for sql in statements:
        for index in sql.find("USING") if sql.call in code.parts else ():
            view = name_at(sql.tokens, index + 1)
            source = program.facts.views.get(view.casefold())
            if source is None:
                continue
            into = next(sql.find("INTO"), index)
            condition = _condition(sql)
            plain = _is_plain(sql)
            target = name_at(sql.tokens, into + 1).removeprefix("delta.")
            frame = next((program.source(node) for node in _viewed(program, view)), code.function.batch_name)
            keys = _keys(condition)
            yield _Merge(sql.span_of(index), source, frame, json.dumps(target, ensure_ascii=False), keys, plain)


def _viewed(program: Program, view: str) -> Iterator[ast.expr]:
    """The frames that were registered as a view with this name."""
    for step, _ in program.frame_calls("createOrReplaceTempView", "createTempView"):
        if (text_of(step.first) or "").casefold() == view.casefold() and isinstance(step.node.func, ast.Attribute):
            yield step.node.func.value


def _condition(sql: Sql) -> str:
    """The text between ON and the first WHEN."""
    begin, end = next(sql.find("ON"), None), next(sql.find("WHEN"), None)
    if begin is None or end is None:
        return ""
    return " ".join(token.text for token in sql.tokens[begin + 1 : end]).replace(" . ", ".")


def _is_plain(sql: Sql) -> bool:
    words = " ".join(token.text.upper() for token in sql.tokens)
    rest = words[words.find(" WHEN ") :].strip().rstrip(" ;")
    return rest == "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def _keys(condition: str) -> tuple[str, ...]:
    """The key columns of an equality condition; empty if it has other parts."""
    parts = re.split(r"\s+AND\s+", condition.strip(), flags=re.IGNORECASE)
    found = [_SAME.fullmatch(part.strip()) for part in parts]
    return tuple(dict.fromkeys(match[2] for match in found if match)) if all(found) else ()


def _one_row_each(program: Program, code: BatchCode, source: Frame) -> bool:
    """Whether a batch may have only one row per key, or nothing is known about it."""
    if not source.from_batch or source.made_by(*_REDUCE) is not None or _numbered(program, source):
        return True
    # The effect of SQL on a batch is unknown, and so is an undefined name.
    if any(part.root is not None or (part.step is not None and part.step.name == "sql") for part in source.lineage()):
        return True
    # A group is in a batch once, and so is a key whose duplicates are dropped.
    reduce = ("dropDuplicatesWithinWatermark", *_REDUCE, *methods.AGGREGATING)
    return any(started.writer.frame.made_by(*reduce) is not None for started in code.streams)


def _numbered(program: Program, frame: Frame) -> bool:
    """Whether rows are numbered by a window, so that one per key can be kept."""
    over = {step.node for step, _ in program.calls("over")}
    return any(part.step is not None and over & set(ast.walk(part.step.node)) for part in frame.lineage())


RULES = (rule("merge-several-rows", _merged),)

"""Functions that ``foreachBatch`` calls: a batch may be retried, and each action computes it again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from operator import itemgetter

from headrace.lint import methods
from headrace.lint.batch_code import BatchCode, batch_code
from headrace.lint.edits import Edits, replaced
from headrace.lint.program import Program
from headrace.lint.rule_families.deliveries import appends, limits_to_none
from headrace.lint.rule_families.writers import mode_of
from headrace.lint.rules import Violation, rule
from headrace.lint.values import Frame, Session

_CHEAP = frozenset(("isEmpty", "head", "take", "first", "tail"))
# Members of a session that read and are the same in the session of a batch.
_READING = frozenset(("sql", "table", "read", "createDataFrame", "range"))


def _global_session(program: Program) -> Iterator[Violation]:
    for code in batch_code(program):
        own = {argument.arg for argument in code.function.node.args.args} | {*_active(code)}
        uses = [node for node in code.parts if _is_global(program, node) and ast.unparse(node) not in own]
        places = [(node.lineno, node.col_offset, node) for node in uses if isinstance(node, ast.expr)]
        if places:
            node = min(places, key=itemgetter(0, 1))[2]
            message = f'"{program.source(node)}" is the global session, not the session of the batch'
            fix = f"{code.function.batch_name}.sparkSession"
            yield Violation(program.span_of(node), message, fix, edits=_own_session(program, code, uses, fix))


def _own_session(program: Program, code: BatchCode, uses: list[ast.AST], session: str) -> Edits:
    """The edits that use the batch's session everywhere, if the global one certainly fails.

    This is so if the function reads a temporary view that it made of the batch, which only that session has.
    """
    owned: dict[ast.AST, str] = {part.value: part.attr for part in code.parts if isinstance(part, ast.Attribute)}
    reads = all(owned.get(node) in _READING for node in uses)
    views = program.frame_calls("createOrReplaceTempView", "createTempView")
    has_view = any(step.node in code.parts and frame.from_batch for step, frame in views)
    edits = [replaced(program, node, session) for node in uses if isinstance(node, ast.expr)]
    return tuple(edit for found in edits for edit in found) if reads and has_view and all(edits) else ()


def _is_global(program: Program, node: ast.AST) -> bool:
    """Whether a name, or an attribute of self, is a session other than the batch's."""
    named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    session = program.value(node)
    return (named or is_attribute) and isinstance(session, Session) and not session.own


def _active(code: BatchCode) -> Iterator[str]:
    """Names assigned to the active session inside the function, which is the session of the batch."""
    for node in code.parts:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=attr))):
                if attr in ("getActiveSession", "active"):
                    yield name
            case _:
                pass


def _limited(program: Program) -> Iterator[Violation]:
    for code in batch_code(program):
        if any(mode_of(started) == "complete" for started in code.streams):
            # Each batch is the whole result.
            continue
        parts = code.parts
        written = [writer.frame for step, writer in program.facts.saved if step.node in parts]
        for merged in program.facts.merged:
            written += [step.first for step in merged.steps if step.node in parts and isinstance(step.first, Frame)]
        for step, owner in program.frame_calls("limit"):
            is_written = any(step is part.step for frame in written for part in frame.lineage())
            if step.node in parts and owner.from_batch and is_written and not limits_to_none(step):
                fix = '.option("maxFilesPerTrigger", 100)  # on the reader; for Kafka, maxOffsetsPerTrigger'
                yield Violation(program.span_of_name(step.node), "rows beyond the limit are never written", fix)


def _shown(program: Program) -> Iterator[Violation]:
    for code in batch_code(program):
        stream = next((program.source(started.writer.node.value) for started in code.streams), None)
        debug_query = f'{stream}.writeStream.format("console").start()  # a separate query, while you debug'
        fix = debug_query if stream is not None else "# remove it; to see rows, add a flow into a console sink"
        for step, owner in program.frame_calls("show"):
            if step.node in code.parts and owner.from_batch:
                yield Violation(program.span_of_name(step.node), '"show" computes the batch again', fix)


def _again(program: Program) -> Iterator[Violation]:
    for code in batch_code(program):
        function, parts = code.function, code.parts
        if any(step.node in parts and frame.from_batch for step, frame in program.frame_calls("persist", "cache")):
            continue
        runs = [
            step.node
            for step, frame in program.frame_calls(*(methods.ACTIONS - _CHEAP - {"show"}))
            if step.node in parts and frame.from_batch
        ]
        runs += [step.node for step, writer in program.facts.saved if step.node in parts and writer.frame.from_batch]
        runs += [
            target.steps[-1].node
            for target in program.facts.merged
            if any(step.node in parts and isinstance(step.first, Frame) for step in target.steps)
        ]
        runs.sort(key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
        branch_paths = [program.facts.branch_paths[node] for node in runs]
        meets = (any(not way.excludes(branch_paths[at]) for way in branch_paths[:at]) for at in range(len(runs)))
        second = next((node for node, met in zip(runs, meets, strict=True) if met), None)
        if second is not None:
            fix = f"{function.batch_name}.persist()  # first, and {function.batch_name}.unpersist() at the end"
            yield Violation(program.span_of_name(second), "this action computes the batch again", fix)


def _duplicates(program: Program) -> Iterator[Violation]:
    for code in batch_code(program):
        parts = code.parts
        appended = [writer.frame for _, writer in appends(program, parts)]
        for step, owner in program.frame_calls("dropDuplicates", "drop_duplicates", "distinct"):
            is_written = any(step is part.step for frame in appended for part in frame.lineage())
            if step.node in parts and owner.from_batch and is_written:
                arguments = ", ".join(program.source(argument) for argument in step.node.args)
                fix = f'.withWatermark("event_time", "1 hour").dropDuplicatesWithinWatermark({arguments})'
                message = "this drops duplicates only within one batch"
                yield Violation(program.span_of_name(step.node), message, f"{fix}  # before .writeStream")


RULES = (
    rule("global-session-in-foreach-batch", _global_session),
    rule("limit-in-foreach-batch", _limited),
    rule("show-in-foreach-batch", _shown),
    rule("batch-computed-again", _again),
    rule("duplicates-across-batches", _duplicates),
)

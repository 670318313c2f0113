"""The functions of a program that receive batches: those passed to ``foreachBatch``, and those that they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.lint.facts import BatchFunction, StartedStream
from headrace.lint.program import Program
from headrace.lint.scopes import of_pipelines
from headrace.lint.values import Frame, Function, Step


@dataclass(frozen=True, eq=False)
class BatchCode:
    """A function that receives batches; ``entry_points`` are the functions passed to streams that reach it."""

    program: Program
    function: BatchFunction
    entry_points: frozenset[ast.AST]

    @cached_property
    def parts(self) -> frozenset[ast.AST]:
        """All nodes of the function."""
        return frozenset(ast.walk(self.function.node))

    @property
    def batch_id_name(self) -> str:
        """The name of the batch id inside the function."""
        return self.function.batch_id_name or "batch_id"

    @cached_property
    def streams(self) -> tuple[StartedStream, ...]:
        """The streams whose batches it receives."""
        return tuple(started for started in self.program.facts.started if self._receives(started))

    @cached_property
    def is_pipeline_sink(self) -> bool:
        """Whether it is a sink of a pipeline (``@dp.foreach_batch_sink``)."""
        decorators = (
            self.program.value(node.func if isinstance(node, ast.Call) else node)
            for function in self.entry_points
            for node in getattr(function, "decorator_list", ())
        )
        return any(of_pipelines(value) == "foreach_batch_sink" for value in decorators)

    def _receives(self, started: StartedStream) -> bool:
        steps = [step for step in started.steps if step.name == "foreachBatch"]
        values = [step.argument(0, "func") for step in steps]
        return any(isinstance(value, Function) and value.node in self.entry_points for value in values)

    def enclosing_loop(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop or inner function that contains a node, and so may run it many times."""
        kinds = (
            *(ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp),
            *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
        )
        enclosing = [
            part
            for part in self.parts
            if isinstance(part, kinds) and part is not self.function.node and node in set(ast.walk(part))
        ]
        return min(enclosing, key=lambda part: sum(1 for _ in ast.walk(part)), default=None)


def batch_code(program: Program) -> Iterator[BatchCode]:
    """Every function that receives batches."""
    pending = [
        BatchCode(program, function, frozenset((function.node,))) for function in program.facts.batch_functions.values()
    ]
    found: dict[ast.AST, BatchCode] = {}
    calls = [(step, called) for step, called in program.facts.steps if isinstance(called, Function)]
    while pending:
        code = pending.pop(0)
        known = found.get(code.function.node)
        if known is not None:
            found[code.function.node] = replace(known, entry_points=known.entry_points | code.entry_points)
            continue
        found[code.function.node] = code
        for step, called in calls:
            inner = _called_with_batch(code, step, called) if step.node in code.parts else None
            if inner is not None and inner.node not in code.parts:
                pending.append(BatchCode(program, inner, code.entry_points))
    yield from found.values()


def _called_with_batch(code: BatchCode, step: Step, called: Function) -> BatchFunction | None:
    """The called function with its own parameter names, if the call passes the batch."""
    given: dict[str, ast.expr] = dict(zip(called.parameters, step.node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in step.node.keywords if keyword.arg is not None}
    frame = number = None
    for name, node in given.items():
        value = code.program.value(node)
        if frame is None and isinstance(value, Frame) and value.from_batch:
            frame = name
        if isinstance(node, ast.Name) and node.id == code.function.batch_id_name:
            number = name
    return BatchFunction(called.node, frame, number) if frame is not None else None

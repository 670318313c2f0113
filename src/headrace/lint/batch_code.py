"""The functions of a program that get batches: those that ``foreachBatch`` is given, and those that they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.lint.facts import BatchFunction, Started
from headrace.lint.program import Program
from headrace.lint.scopes import of_pipelines
from headrace.lint.values import Frame, Function, Step


@dataclass(frozen=True, eq=False)
class BatchCode:
    """One such function; ``given`` are the functions that streams were given, from which it is reached."""

    program: Program
    function: BatchFunction
    given: frozenset[ast.AST]

    @cached_property
    def parts(self) -> frozenset[ast.AST]:
        """Every part of it."""
        return frozenset(ast.walk(self.function.node))

    @property
    def number(self) -> str:
        """What the number of the batch is called in it."""
        return self.function.number or "batch_id"

    @cached_property
    def streams(self) -> tuple[Started, ...]:
        """The streams whose batches it gets."""
        return tuple(started for started in self.program.facts.started if self._gets(started))

    @cached_property
    def of_pipeline(self) -> bool:
        """Whether it is a sink of a pipeline."""
        decorators = (
            self.program.value(node.func if isinstance(node, ast.Call) else node)
            for function in self.given
            for node in getattr(function, "decorator_list", ())
        )
        return any(of_pipelines(value) == "foreach_batch_sink" for value in decorators)

    def _gets(self, started: Started) -> bool:
        steps = [step for step in started.steps if step.name == "foreachBatch"]
        values = [step.given(0, "func") for step in steps]
        return any(isinstance(value, Function) and value.node in self.given for value in values)

    def loop(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop or inner function of it around a part, which may run that part many times."""
        kinds = (
            *(ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp),
            *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
        )
        around = [
            part
            for part in self.parts
            if isinstance(part, kinds) and part is not self.function.node and node in set(ast.walk(part))
        ]
        return min(around, key=lambda part: sum(1 for _ in ast.walk(part)), default=None)


def batch_code(program: Program) -> Iterator[BatchCode]:
    """Each function that gets batches."""
    waiting = [
        BatchCode(program, function, frozenset((function.node,))) for function in program.facts.batch_functions.values()
    ]
    found: dict[ast.AST, BatchCode] = {}
    calls = [(step, called) for step, called in program.facts.steps if isinstance(called, Function)]
    while waiting:
        code = waiting.pop(0)
        known = found.get(code.function.node)
        if known is not None:
            found[code.function.node] = replace(known, given=known.given | code.given)
            continue
        found[code.function.node] = code
        for step, called in calls:
            inner = _handed_on(code, step, called) if step.node in code.parts else None
            if inner is not None and inner.node not in code.parts:
                waiting.append(BatchCode(program, inner, code.given))
    yield from found.values()


def _handed_on(code: BatchCode, step: Step, called: Function) -> BatchFunction | None:
    """A function that is called with the batch, by the names that it has there."""
    given: dict[str, ast.expr] = dict(zip(called.parameters, step.node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in step.node.keywords if keyword.arg is not None}
    frame = number = None
    for name, node in given.items():
        value = code.program.value(node)
        if frame is None and isinstance(value, Frame) and value.from_batch:
            frame = name
        if isinstance(node, ast.Name) and node.id == code.function.number:
            number = name
    return BatchFunction(called.node, frame, number) if frame is not None else None

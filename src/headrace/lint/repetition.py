"""What one run of a program executes several times, or always, through loops and function calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.values import Function

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Code inside one of these may not run.
_CHOICES = (ast.If, ast.IfExp, ast.Try, ast.Match, ast.BoolOp, *_LOOPS, *_FUNCTIONS, ast.ClassDef)


class Repetition:
    """Which code a program runs several times, and which it always runs."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parents = {child: node for node in program.nodes for child in ast.iter_child_nodes(node)}
        self._calls: dict[ast.AST, list[ast.Call]] = {}
        for step, called in program.facts.steps:
            if isinstance(called, Function):
                self._calls.setdefault(called.node, []).append(step.node)

    def varies(self, site: ast.AST, node: ast.expr | None) -> bool:
        """Whether one run reaches *site* several times, with another value of the expression *node* each time."""
        if node is None:
            return False
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for ancestor in self._ancestors(site):
            match ancestor:
                case ast.For() | ast.AsyncFor() | ast.While():
                    if names & {*_stored(ancestor)}:
                        return True
                case ast.FunctionDef():
                    return self._called_with_others(ancestor, names)
                case _ if isinstance(ancestor, _CHOICES):
                    return False
                case _:
                    pass
        return False

    def _ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain a node, from the innermost outwards."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def _called_with_others(self, function: ast.FunctionDef, names: set[str]) -> bool:
        """Whether one run calls a function more than once, with different values of these arguments."""
        arguments = [argument.arg for argument in function.args.args if argument.arg in names]
        calls = self._calls.get(function, [])
        if not arguments:
            return False
        if any(self.varies(call, node) for call in calls for node in _given(function, call, arguments)):
            return True
        sources = {
            call: " ".join(self._program.source(node) for node in _given(function, call, arguments)) for call in calls
        }
        blocks: dict[ast.AST | None, set[str]] = {}
        for call in calls:
            blocks.setdefault(self._block(call), set()).add(sources[call])
        return any(len(words) > 1 for block, words in blocks.items() if block is not None)

    def both(self, first: ast.AST | None, second: ast.AST | None) -> bool:
        """Whether one run calls both of two functions, one after the other."""
        if first is None or second is None:
            return False
        blocks = {self._block(call) for call in self._calls.get(first, ())} - {None}
        return any(self._block(call) in blocks for call in self._calls.get(second, ()))

    def certain(self, site: ast.AST, function: ast.AST | None) -> bool:
        """Whether a function always reaches *site*."""
        for ancestor in self._ancestors(site):
            if ancestor is function:
                return True
            if isinstance(ancestor, _CHOICES):
                return False
        return function is None

    def _block(self, call: ast.Call) -> ast.AST | None:
        """The block whose statements run together with a call; None if the call may not run."""
        for ancestor in self._ancestors(call):
            if isinstance(ancestor, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) or _is_main_guard(ancestor):
                return ancestor
            if isinstance(ancestor, _CHOICES):
                return None
        return None


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and not node.orelse and "__name__" in ast.unparse(node.test)


def _stored(loop: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _given(function: ast.FunctionDef, call: ast.Call, names: list[str]) -> Iterator[ast.expr]:
    """The arguments of a call for parameters with these names."""
    for name, node in zip(Function(function).parameters, call.args, strict=False):
        if name in names:
            yield node
    for keyword in call.keywords:
        if keyword.arg in names:
            yield keyword.value

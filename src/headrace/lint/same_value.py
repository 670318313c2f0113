"""Whether two places of a program speak of the same thing, by what the text says of both."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable

from headrace.lint.program import Program
from headrace.lint.values import Frame, Literal, Step, Value, text_of

# Options of a reader that do not say which rows it reads, and values of others that mean: from the beginning.
_PACE = frozenset(("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger"))
_BEGINNING = {"startingversion": ("0",), "startingoffsets": ("earliest",)}


class Sameness:
    """Keys of values and of rows of one program; what has the same key is the same, as far as one run goes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bindings = _bindings(program.tree)
        self._most: dict[str, int] = {}
        for (_, name), count in self._bindings.items():
            self._most[name] = max(count, self._most.get(name, 0))
        self._numbers: dict[int, int] = {}
        self._known: dict[Hashable, int] = {}
        # Frames whose numbers are kept, so that no other one gets their place in memory.
        self._kept: list[Frame] = []

    def key(self, value: Value | None, node: ast.expr | None, function: ast.AST | None) -> str | None:
        """A text by which two values can be compared: that of a constant, or the same words in the same function.

        None where the text does not tell the value from others.
        """
        text = text_of(value)
        if text is not None:
            return text.rstrip("/")
        if node is None or not self.steady(node, function):
            return None
        return f"{id(function)} {self._program.source(node)}"

    def steady(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether each name in an expression is bound once, so that the same words mean the same."""
        return all(self._times(part.id, function) <= 1 for part in ast.walk(node) if isinstance(part, ast.Name))

    def rows(self, frame: Frame, function: ast.AST | None) -> int:
        """A number that two frames share whose rows are the same."""
        known = self._numbers.get(id(frame))
        if known is None:
            known = self._known.setdefault(self._description(frame, function), len(self._known))
            self._numbers[id(frame)] = known
            self._kept.append(frame)
        return known

    def _description(self, frame: Frame, function: ast.AST | None) -> Hashable:
        # A root without a name may be this or that.
        if frame.root is not None and frame.root[1] and not frame.step and self._times(frame.root[1], function) <= 1:
            return frame.root
        if frame.root is not None or frame.step is None or not self._steady_step(frame.step, function):
            return id(frame)
        parents = tuple(self.rows(parent, function) for parent in frame.parents)
        steps = (*(frame.reader.steps if frame.reader is not None else (frame.step,)),)
        if not all(self._steady_step(step, function) for step in steps):
            return id(frame)
        said = [self._said(step) for step in steps if not _says_no_rows(step)]
        return (parents, frame.streaming, *(sorted(said[:-1]) if frame.reader is not None else said[:-1]), said[-1])

    def _said(self, step: Step) -> tuple[str, ...]:
        node = step.node
        given = (value.value if isinstance(value, ast.Starred) else value for value in node.args)
        positions = tuple(self._text(value) for value in given)
        named = tuple(sorted(f"{keyword.arg}={self._text(keyword.value)}" for keyword in node.keywords))
        return (step.name, *positions, *named)

    def _text(self, node: ast.expr) -> str:
        value = self._program.value(node)
        return repr(value.value) if isinstance(value, Literal) else self._program.source(node)

    def _steady_step(self, step: Step, function: ast.AST | None) -> bool:
        given = (*step.node.args, *(keyword.value for keyword in step.node.keywords))
        return all(isinstance(self._program.value(part), Literal) or self.steady(part, function) for part in given)

    def _times(self, name: str, function: ast.AST | None) -> int:
        inside = self._bindings[id(function), name] if function is not None else 0
        return inside or self._most.get(name, 0)


def _says_no_rows(step: Step) -> bool:
    if step.name != "option" or len(step.arguments) != 2:
        return False
    name, value = (getattr(given, "value", None) for given in step.arguments)
    return str(name).lower() in _PACE or str(value) in _BEGINNING.get(str(name).lower(), ())


def _bindings(tree: ast.AST) -> Counter[tuple[int, str]]:
    """How often each function binds a name; 0 stands for the module."""
    found: Counter[tuple[int, str]] = Counter()
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, function = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found[function, name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                # The second binding is that of the target itself.
                found[function, name] += 1
            case _:
                pass
        inner = id(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else function
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return found

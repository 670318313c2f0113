"""Whether two expressions of a program have the same value, by their text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable

from headrace.lint.program import Program
from headrace.lint.values import Frame, Literal, Step, Value, text_of

# Reader options that do not select rows, and values of others that mean "from the beginning".
_PACE = frozenset(("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger"))
_BEGINNING = {"startingversion": ("0",), "startingoffsets": ("earliest",)}


class Sameness:
    """Keys of values and rows of one program; equal keys mean equal values within one run."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bindings = _bindings(program.tree)
        self._max_bindings: dict[str, int] = {}
        for (_, name), count in self._bindings.items():
            self._max_bindings[name] = max(count, self._max_bindings.get(name, 0))
        self._numbers: dict[int, int] = {}
        self._known: dict[Hashable, int] = {}
        # Frames with a cached number are referenced here, so that their id() is not reused.
        self._pinned: list[Frame] = []

    def key(self, value: Value | None, node: ast.expr | None, function: ast.AST | None) -> str | None:
        """A key for comparing two values: the text of a constant, or the source within its function.

        None if the text does not identify the value.
        """
        text = text_of(value)
        if text is not None:
            return text.rstrip("/")
        if node is None or not self.is_steady(node, function):
            return None
        return f"{id(function)} {self._program.source(node)}"

    def is_steady(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether each name in an expression is bound once, so that the same source means the same value."""
        return all(self._binding_count(part.id, function) <= 1 for part in ast.walk(node) if isinstance(part, ast.Name))

    def rows(self, frame: Frame, function: ast.AST | None) -> int:
        """A number; two frames with the same number have the same rows."""
        known = self._numbers.get(id(frame))
        if known is None:
            known = self._known.setdefault(self._description(frame, function), len(self._known))
            self._numbers[id(frame)] = known
            self._pinned.append(frame)
        return known

    def _description(self, frame: Frame, function: ast.AST | None) -> Hashable:
        # A root without a name is ambiguous.
        if (
            frame.root is not None
            and frame.root[1]
            and not frame.step
            and self._binding_count(frame.root[1], function) <= 1
        ):
            return frame.root
        if frame.root is not None or frame.step is None or not self._is_steady_step(frame.step, function):
            return id(frame)
        parents = tuple(self.rows(parent, function) for parent in frame.parents)
        steps = (*(frame.reader.steps if frame.reader is not None else (frame.step,)),)
        if not all(self._is_steady_step(step, function) for step in steps):
            return id(frame)
        described = [self._described(step) for step in steps if not _selects_no_rows(step)]
        return (
            parents,
            frame.streaming,
            *(sorted(described[:-1]) if frame.reader is not None else described[:-1]),
            described[-1],
        )

    def _described(self, step: Step) -> tuple[str, ...]:
        node = step.node
        given = (value.value if isinstance(value, ast.Starred) else value for value in node.args)
        positions = tuple(self._text(value) for value in given)
        named = tuple(sorted(f"{keyword.arg}={self._text(keyword.value)}" for keyword in node.keywords))
        return (step.name, *positions, *named)

    def _text(self, node: ast.expr) -> str:
        value = self._program.value(node)
        return repr(value.value) if isinstance(value, Literal) else self._program.source(node)

    def _is_steady_step(self, step: Step, function: ast.AST | None) -> bool:
        given = (*step.node.args, *(keyword.value for keyword in step.node.keywords))
        return all(isinstance(self._program.value(part), Literal) or self.is_steady(part, function) for part in given)

    def _binding_count(self, name: str, function: ast.AST | None) -> int:
        inside = self._bindings[id(function), name] if function is not None else 0
        return inside or self._max_bindings.get(name, 0)


def _selects_no_rows(step: Step) -> bool:
    if step.name != "option" or len(step.arguments) != 2:
        return False
    name, value = (getattr(given, "value", None) for given in step.arguments)
    return str(name).lower() in _PACE or str(value) in _BEGINNING.get(str(name).lower(), ())


def _bindings(tree: ast.AST) -> Counter[tuple[int, str]]:
    """How often each function binds a name; the module has the key 0."""
    found: Counter[tuple[int, str]] = Counter()
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, function = pending.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found[function, name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                # The target itself counts as the second binding.
                found[function, name] += 1
            case _:
                pass
        inner = id(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else function
        pending += [(child, inner) for child in ast.iter_child_nodes(node)]
    return found

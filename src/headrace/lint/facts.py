"""The facts that a pass over a program finds, and how it records them."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from headrace.lint.scopes import Scope
from headrace.lint.values import (
    DeltaTarget,
    Frame,
    Function,
    Literal,
    Progress,
    Query,
    Reader,
    Status,
    Step,
    Value,
    Writer,
)

# The root of a frame that may be one of several.
_AMBIGUOUS = (-1, "")


@dataclass(frozen=True)
class BranchPath:
    """The branches that lead to a statement of a function.

    ``branches`` are pairs of a branching statement and the number of its branch; ``exits`` are those that end the
    function.
    """

    branches: tuple[tuple[int, int], ...]
    exits: frozenset[tuple[int, int]]

    def excludes(self, other: BranchPath) -> bool:
        """Whether one run of the function reaches only one of the two statements; *other* is further down."""
        chosen = dict(other.branches)
        apart = any(chosen.get(choice, branch) != branch for choice, branch in self.branches)
        return apart or bool(self.exits - set(other.branches))


@dataclass(frozen=True, eq=False)
class StartedStream:
    """A stream that the program starts; ``branch_path`` leads to the call."""

    writer: Writer
    step: Step
    steps: tuple[Step, ...]
    function: ast.AST | None
    branch_path: BranchPath


@dataclass(frozen=True, eq=False)
class BatchFunction:
    """A function passed to ``foreachBatch``, with the names of its parameters."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    batch_name: str
    batch_id_name: str | None


@dataclass
class Facts:
    """The facts found by one pass over a program."""

    values: dict[ast.AST, Value] = field(default_factory=dict)
    branch_paths: dict[ast.AST, BranchPath] = field(default_factory=dict)
    steps: list[tuple[Step, Value]] = field(default_factory=list)
    started: list[StartedStream] = field(default_factory=list)
    saved: list[tuple[Step, Writer]] = field(default_factory=list)
    merged: list[DeltaTarget] = field(default_factory=list)
    batch_functions: dict[ast.AST, BatchFunction] = field(default_factory=dict)
    streaming_roots: set[tuple[int, str]] = field(default_factory=set)
    query_roots: set[tuple[int, str]] = field(default_factory=set)
    given: dict[ast.AST, dict[str, Value]] = field(default_factory=dict)
    returned: dict[ast.AST, Value] = field(default_factory=dict)
    returns: list[tuple[ast.AST, ast.AST, Value]] = field(default_factory=list)
    views: dict[str, Frame] = field(default_factory=dict)
    names: Mapping[str, Value] = field(default_factory=dict)
    attributes: dict[ast.AST, dict[str, Value]] = field(default_factory=dict)


class FactRecorder:
    """Records the facts of one pass over a program; ``before`` holds those of the previous pass."""

    def __init__(self, before: Facts, bound: frozenset[str]) -> None:
        self.before = before
        self.facts = Facts()
        self.bound = bound
        self.functions: list[ast.AST] = []
        self.branches: list[tuple[int, int]] = []
        self.exits: set[tuple[int, int]] = set()
        self.classes: list[tuple[ast.ClassDef, dict[str, Value]]] = []

    def note_stream(self, writer: Writer, step: Step) -> None:
        """Record that a stream is started."""
        function = self.functions[-1] if self.functions else None
        known = StartedStream(
            writer,
            step,
            (*writer.steps, step),
            function,
            self.branch_path(),
        )
        self.facts.started.append(known)

    def branch_path(self) -> BranchPath:
        """The branches that lead to the current statement."""
        return BranchPath(tuple(self.branches), frozenset(self.exits & set(self.branches)))

    def note_batch_function(self, value: Value) -> None:
        """Record the function passed to ``foreachBatch``; its first parameter is a batch from now on."""
        if not isinstance(value, Function):
            return
        names = value.parameters
        if names:
            known = BatchFunction(value.node, names[0], names[1] if len(names) > 1 else None)
            self.facts.batch_functions[value.node] = known
            self._record_argument(value.node, names[0], Frame(streaming=False, batch=True))

    def call_function(self, function: Function, step: Step) -> Value:
        """The value that a call of one of the program's functions returns; records the arguments."""
        node = function.node
        for name, value in (*zip(function.parameters, step.arguments, strict=False), *step.keywords.items()):
            self._record_argument(node, name, value)
        if isinstance(node, ast.Lambda):
            return self.before.values.get(node.body, Value())
        return self.before.returned.get(node, Value())

    def note_attribute(self, name: str, value: Value) -> None:
        """Record the value of an attribute of ``self``; other methods may assign another one."""
        node, members = self.classes[-1]
        _join_into(self.facts.attributes.setdefault(node, {}), name, value)
        if name not in self.before.attributes.get(node, {}):
            _join_into(members, name, value)

    def note_view(self, name: str, frame: Frame) -> None:
        """Record that a frame is a view with this name."""
        name = name.casefold()
        known = self.facts.views.get(name)
        self.facts.views[name] = frame if known is None else either(known, frame)

    def root(self, scope: Scope, name: str) -> Value:
        """The value of a name that the text does not define."""
        key = (scope.key, name)
        if key in self.before.query_roots:
            return Query()
        return Frame(streaming=True if key in self.before.streaming_roots else None, root=key)

    def _record_argument(self, node: ast.AST, name: str, value: Value) -> None:
        _join_into(self.facts.given.setdefault(node, {}), name, value)


def _join_into(known: dict[str, Value], name: str, value: Value) -> None:
    known[name] = joined(known[name], value) if name in known else value


Names = ChainMap[str, Value]


def join_branches(names: Names, branch_paths: Sequence[Names]) -> None:
    """Bind the names after a branching statement, from those after each branch, which are children of *names*."""
    changed = dict.fromkeys(name for way in branch_paths for name in way.maps[0])
    for name in changed:
        names[name] = reduce(joined, (way[name] for way in branch_paths if name in way))


def joined(first: Value, second: Value) -> Value:
    """The facts that hold if a value may be either of two."""
    if first is second or first == second:
        return first
    match first, second:
        # Nothing can be done with None, so a value that is used is the other one.
        case Literal(value=None), _:
            return second
        case _, Literal(value=None):
            return first
        case Frame(), Frame():
            return either(first, second)
        case Reader(), Reader():
            return _either_reader(first, second)
        case Writer(), Writer():
            return _either_writer(first, second)
        case (Query(), Query()) | (Status(), Status()) | (Progress(), Progress()):
            return second
        case _:
            return Value()


def either(first: Frame, second: Frame) -> Frame:
    """A frame that is one of two: only the facts that hold for both are known."""
    if first.streaming is second.streaming:
        return Frame(first.streaming, parents=(first, second))
    return ambiguous(first, second)


def ambiguous(*frames: Frame) -> Frame:
    """A frame that may or may not be a stream, whatever is done with it later."""
    return Frame(None, parents=frames, root=_AMBIGUOUS)


def _either_reader(first: Reader, second: Reader) -> Reader:
    steps = tuple(dict.fromkeys((*first.steps, *second.steps)))
    # An unknown option marks that further options may be set.
    unknown = tuple(Step("option", step.node, (Value(),)) for step in steps[-1:])
    return Reader(first.streaming if first.streaming is second.streaming else None, (*steps, *unknown))


def _either_writer(first: Writer, second: Writer) -> Value:
    same = {step for step in first.steps if step in second.steps}
    rest = [step for step in (*first.steps, *second.steps) if step not in same]
    if first.node is not second.node or any(step.name not in ("trigger", "queryName") for step in rest):
        return Value()
    return replace(second, steps=tuple(dict.fromkeys((*first.steps, *second.steps))))

"""What reading a program finds out, and what is noted on the way."""

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

# What stands for the name of a frame that may be this one or that one.
_DOUBT = (-1, "")


@dataclass(frozen=True)
class Way:
    """How a place in a function is come to.

    ``branches`` are the choices that lead there, each a statement and the number of its branch; ``leaves`` are those of
    them behind which nothing else of the function is run.
    """

    branches: tuple[tuple[int, int], ...]
    leaves: frozenset[tuple[int, int]]

    def never_with(self, other: Way) -> bool:
        """Whether one run of a function comes to but one of the two places; that of *other* is below this one."""
        chosen = dict(other.branches)
        apart = any(chosen.get(choice, branch) != branch for choice, branch in self.branches)
        return apart or bool(self.leaves - set(other.branches))


@dataclass(frozen=True, eq=False)
class Started:
    """A stream that the program starts; ``way`` leads there."""

    writer: Writer
    step: Step
    steps: tuple[Step, ...]
    function: ast.AST | None
    way: Way


@dataclass(frozen=True, eq=False)
class BatchFunction:
    """A function that ``foreachBatch`` is given."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: str
    number: str | None


@dataclass
class Facts:
    """What one reading of a program has found."""

    values: dict[ast.AST, Value] = field(default_factory=dict)
    ways: dict[ast.AST, Way] = field(default_factory=dict)
    steps: list[tuple[Step, Value]] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
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


class Notes:
    """What one pass over a program notes down; ``before`` is what the pass before has found."""

    def __init__(self, before: Facts, bound: frozenset[str]) -> None:
        self.before = before
        self.facts = Facts()
        self.bound = bound
        self.functions: list[ast.AST] = []
        self.branches: list[tuple[int, int]] = []
        self.leaves: set[tuple[int, int]] = set()
        self.classes: list[tuple[ast.ClassDef, dict[str, Value]]] = []

    def started(self, writer: Writer, step: Step) -> None:
        """Note that a stream is started."""
        function = self.functions[-1] if self.functions else None
        known = Started(
            writer,
            step,
            (*writer.steps, step),
            function,
            self.way(),
        )
        self.facts.started.append(known)

    def way(self) -> Way:
        """How what is read at this moment is come to."""
        return Way(tuple(self.branches), frozenset(self.leaves & set(self.branches)))

    def batch_function(self, value: Value) -> None:
        """Note what is handed to ``foreachBatch``; its first argument is a batch from now on."""
        if not isinstance(value, Function):
            return
        names = value.parameters
        if names:
            known = BatchFunction(value.node, names[0], names[1] if len(names) > 1 else None)
            self.facts.batch_functions[value.node] = known
            self._give(value.node, names[0], Frame(streaming=False, batch=True))

    def function_called(self, function: Function, step: Step) -> Value:
        """What calling a function of the program gives; what it is called with is remembered."""
        node = function.node
        for name, value in (*zip(function.parameters, step.arguments, strict=False), *step.keywords.items()):
            self._give(node, name, value)
        if isinstance(node, ast.Lambda):
            return self.before.values.get(node.body, Value())
        return self.before.returned.get(node, Value())

    def attribute(self, name: str, value: Value) -> None:
        """Note what an attribute of ``self`` is; other methods may say that it is something else."""
        node, members = self.classes[-1]
        _join_into(self.facts.attributes.setdefault(node, {}), name, value)
        if name not in self.before.attributes.get(node, {}):
            _join_into(members, name, value)

    def view(self, name: str, frame: Frame) -> None:
        """Note that a frame is a view of this name."""
        name = name.casefold()
        known = self.facts.views.get(name)
        self.facts.views[name] = frame if known is None else either(known, frame)

    def root(self, scope: Scope, name: str) -> Value:
        """What a name stands for of which the text does not say more."""
        key = (scope.key, name)
        if key in self.before.query_roots:
            return Query()
        return Frame(streaming=True if key in self.before.streaming_roots else None, root=key)

    def _give(self, node: ast.AST, name: str, value: Value) -> None:
        _join_into(self.facts.given.setdefault(node, {}), name, value)


def _join_into(known: dict[str, Value], name: str, value: Value) -> None:
    known[name] = joined(known[name], value) if name in known else value


Names = ChainMap[str, Value]


def rejoin(names: Names, ways: Sequence[Names]) -> None:
    """Bind the names behind a choice, from those behind each way through it, which are children of *names*."""
    changed = dict.fromkeys(name for way in ways for name in way.maps[0])
    for name in changed:
        names[name] = reduce(joined, (way[name] for way in ways if name in way))


def joined(first: Value, second: Value) -> Value:
    """What is known when a value may be either."""
    if first is second or first == second:
        return first
    match first, second:
        # Nothing can be done with None, so it is the other where something is.
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
    """A frame that is one or the other: what is true of both is known of it."""
    if first.streaming is second.streaming:
        return Frame(first.streaming, parents=(first, second))
    return doubted(first, second)


def doubted(*frames: Frame) -> Frame:
    """A frame of which nobody can tell whether it is a stream, whatever is done with it later on."""
    return Frame(None, parents=frames, root=_DOUBT)


def _either_reader(first: Reader, second: Reader) -> Reader:
    steps = tuple(dict.fromkeys((*first.steps, *second.steps)))
    # An option that is not known makes it clear that others may be given.
    unknown = tuple(Step("option", step.node, (Value(),)) for step in steps[-1:])
    return Reader(first.streaming if first.streaming is second.streaming else None, (*steps, *unknown))


def _either_writer(first: Writer, second: Writer) -> Value:
    same = {step for step in first.steps if step in second.steps}
    rest = [step for step in (*first.steps, *second.steps) if step not in same]
    if first.node is not second.node or any(step.name not in ("trigger", "queryName") for step in rest):
        return Value()
    return replace(second, steps=tuple(dict.fromkeys((*first.steps, *second.steps))))

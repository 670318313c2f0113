"""Evaluates expressions."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from headrace.lint.calls import called, member
from headrace.lint.facts import FactRecorder, ambiguous, joined
from headrace.lint.scopes import Scope, called_stream, conventional
from headrace.lint.values import Frame, Function, Literal, Query, Record, Several, Step, Streams, Value


class Expressions(FactRecorder):
    """The part of a pass that evaluates expressions."""

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """The value of an expression."""
        found = self._value(node, scope)
        self.facts.values[node] = found
        return found

    def assign(self, targets: Iterable[ast.expr], value: Value, scope: Scope) -> None:
        """Bind the targets of an assignment."""
        for target in targets:
            match target:
                case ast.Name(id=name):
                    scope.names[name] = self._named(value, scope, name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.classes:
                    self.note_attribute(name, value)
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    items = value.items if isinstance(value, Several) and len(value.items) == len(parts) else ()
                    for number, part in enumerate(parts):
                        self.assign([part], items[number] if items else Value(), scope)
                case ast.Starred(value=inner):
                    self.assign([inner], Value(), scope)
                case _:
                    self.children(target, scope)

    def children(self, node: ast.AST, scope: Scope) -> None:
        """Evaluate the expressions in a node."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, scope)
            else:
                self.children(child, scope)

    def _named(self, value: Value, scope: Scope, name: str) -> Value:
        """A value under a name; an unknown value may turn out to be a frame later."""
        return self.root(scope, name) if type(value) is Value else value

    def _value(self, node: ast.expr, scope: Scope) -> Value:  # noqa: C901, PLR0912 - a case for each kind
        match node:
            case ast.Constant(value=value):
                return Literal(value)
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr) if self.classes and attr in self.classes[-1][1]:
                self.value(node.value, scope)
                return self.classes[-1][1][attr]
            case ast.Attribute(value=owner):
                return member(self, self.value(owner, scope), node)
            case ast.Call():
                return self._call(node, scope)
            case ast.JoinedStr(values=parts):
                return _concatenated([self.value(part, scope) for part in parts])
            case ast.FormattedValue(value=inner, format_spec=None):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
                between = [Literal("/")] if isinstance(op, ast.Div) else []
                return _concatenated([self.value(left, scope), *between, self.value(right, scope)])
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return Several(tuple(self.value(element, scope) for element in elements))
            case ast.Dict(values=values) if None not in node.keys:
                self.children(node, scope)
                # Of a literal row, only the values matter.
                return Record(tuple(self.facts.values[value] for value in values))
            case ast.Starred(value=inner):
                self.value(inner, scope)
                return Value()
            case ast.IfExp(test=test, body=body, orelse=other):
                self.value(test, scope)
                chosen = Scope(scope.key, scope, ChainMap(checked_for_streaming(test, scope)))
                return joined(*(self._arm_of(number, part, node, chosen) for number, part in enumerate((body, other))))
            case ast.NamedExpr(target=target, value=inner):
                found = self.value(inner, scope)
                self.assign([target], found, scope)
                return found
            case ast.Lambda():
                return self._lambda(node, scope)
            case ast.Subscript(value=owner):
                found = self.value(owner, scope)
                self.value(node.slice, scope)
                return item_of(found)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, scope)
            case _:
                self.children(node, scope)
                return Value()

    def _arm_of(self, number: int, part: ast.expr, node: ast.IfExp, scope: Scope) -> Value:
        self.branches.append((id(node), number))
        found = self.value(part, scope)
        self.branches.pop()
        return found

    def _name(self, name: str, scope: Scope) -> Value:
        found = scope.find(name)
        if found is not None:
            return self._outside(found, name, scope) if self.functions else found
        # A function may use names that the module binds further down.
        known = self.before.names.get(name) or (conventional(name) if name not in self.bound else None)
        if known is not None:
            return known
        root = self.root(Scope(0), name)
        if name not in self.bound and isinstance(root, Frame) and called_stream(name):
            return replace(root, streaming=True)
        return root

    def _outside(self, found: Value, name: str, scope: Scope) -> Value:
        """A value in a function; a module-level name may be rebound before the function is called."""
        later = self.before.names.get(name)
        own = scope.find(name, outermost=False) is not None
        if own or not isinstance(found, Frame) or not isinstance(later, Frame) or later.streaming is found.streaming:
            return found
        return ambiguous(found)

    def _lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        inner = Scope(id(node), scope)
        given = self.before.given.get(node, {})
        for argument in node.args.args:
            inner.names[argument.arg] = given.get(argument.arg) or self.root(inner, argument.arg)
        self.functions.append(node)
        self.value(node.body, inner)
        self.functions.pop()
        return Function(node)

    def _comprehension(self, node: Any, scope: Scope) -> Value:
        inner = Scope(id(node), scope)
        for generator in node.generators:
            self.assign([generator.target], item_of(self.value(generator.iter, inner)), inner)
            for condition in generator.ifs:
                self.value(condition, inner)
        if isinstance(node, ast.DictComp):
            self.value(node.key, inner)
            self.value(node.value, inner)
            return Value()
        return Several((self.value(node.elt, inner),))

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        function = self.value(node.func, scope)
        arguments = tuple(self.value(argument, scope) for argument in node.args)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            found = self.value(keyword.value, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = found
            elif isinstance(keyword.value, ast.Dict):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    known = self.facts.values.get(key) if key is not None else None
                    if isinstance(known, Literal):
                        keywords[str(known.value)] = self.facts.values.get(value, Value())
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        step = Step(name, node, arguments, keywords)
        self.facts.steps.append((step, function))
        self.facts.branch_paths[node] = self.branch_path()
        return called(self, function, step)


def checked_for_streaming(test: ast.expr, scope: Scope) -> dict[str, Value]:
    """The names whose ``isStreaming`` a condition tests; in its branches they may be streams or not."""
    checked = {
        node.value.id
        for node in ast.walk(test)
        if isinstance(node, ast.Attribute) and node.attr == "isStreaming" and isinstance(node.value, ast.Name)
    }
    known = {name: scope.find(name) for name in checked}
    return {name: ambiguous(value) for name, value in known.items() if isinstance(value, Frame)}


def item_of(value: Value) -> Value:
    """An item of a value that is iterated or indexed."""
    if isinstance(value, Streams) and value.listed:
        return Query()
    if isinstance(value, Several) and value.items:
        return reduce(joined, value.items)
    return Value()


def _concatenated(parts: Sequence[Value]) -> Value:
    if all(isinstance(part, Literal) for part in parts):
        return Literal("".join(str(part.value) for part in parts if isinstance(part, Literal)))
    return Value()

"""Reads a program and says what its expressions stand for: streams, writers, queries, functions of batches.

The program is read from top to bottom, several times: what a function is called with, and what it returns, is known the
next time. Behind a choice, what is known of a name is what is true whichever way was taken.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from headrace.lint.expressions import Expressions, item_of, tested
from headrace.lint.facts import Facts, joined, rejoin
from headrace.lint.scopes import Scope, bound_names, imported, of_pipelines
from headrace.lint.values import Class, Frame, Function, Instance, Query, Reader, Session, Value, Writer

_ROUNDS = 4
_ANNOTATED = {"SparkSession": Session(), "StreamingQuery": Query()}


def facts_of(tree: ast.Module) -> Facts:
    """What is known of a program once it was read often enough."""
    facts = Facts()
    bound = bound_names(tree, within_functions=False)
    for _ in range(_ROUNDS):
        reading = _Reading(facts, bound)
        module = Scope(0)
        reading.block(tree.body, module)
        reading.facts.names = module.names
        facts = reading.facts
    return facts


class _Reading(Expressions):
    """One pass."""

    def block(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        """Read statements in their order."""
        for statement in statements:
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:  # noqa: C901, PLR0912 - a case for each kind
        match node:
            case ast.Import() | ast.ImportFrom():
                scope.names.update(imported(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.Assign(targets=targets, value=value):
                self.assign(targets, self.value(value, scope), scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign([target], self.value(value, scope), scope)
            case ast.Return(value=ast.expr() as value):
                found = self.value(value, scope)
                if self.functions:
                    self.facts.returns.append((self.functions[-1], node, found))
                    known = self.facts.returned.get(self.functions[-1])
                    self.facts.returned[self.functions[-1]] = found if known is None else joined(known, found)
            case ast.If() | ast.Try() | ast.Match():
                self._choice(node, scope)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                added = ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), op, value), node)
                self.assign([target], self.value(added, scope), scope)
            case ast.Expr(value=ast.Call() as value):
                self._changed(value, self.value(value, scope), scope)
            case ast.For() | ast.AsyncFor():
                self._loop(node, item_of(self.value(node.iter, scope)), scope)
            case ast.While():
                self.value(node.test, scope)
                self._loop(node, None, scope)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    entered = self.value(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self.assign([item.optional_vars], entered, scope)
                self.block(node.body, scope)
            case _:
                self.children(node, scope)
                inner = (getattr(node, name, []) for name in ("body", "orelse"))
                self.block((statement for statements in inner for statement in statements), scope)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, item: Value | None, scope: Scope) -> None:
        """Read the body of a loop, which may never be run."""
        before = scope.names
        scope.names = before.new_child()
        if item is not None and not isinstance(node, ast.While):
            self.assign([node.target], item, scope)
        self.block((*node.body, *node.orelse), scope)
        body, scope.names = scope.names, before
        rejoin(before, (before.new_child(), body))

    def _choice(self, node: ast.If | ast.Try | ast.Match, scope: Scope) -> None:
        asked: dict[str, Value] = {}
        branches: list[Sequence[ast.stmt]]
        match node:
            case ast.If():
                self.value(node.test, scope)
                asked = tested(node.test, scope)
                branches = [node.body, node.orelse]
            case ast.Try():
                branches = [(*node.body, *node.orelse), *(handler.body for handler in node.handlers)]
            case ast.Match():
                self.value(node.subject, scope)
                # Where no case fits, none is run.
                branches = [*(case.body for case in node.cases), ()]
        before, behind, begin = scope.names, [], asked
        for number, branch in enumerate(branches):
            scope.names = before.new_child(dict(begin))
            leaves = self._branch(branch, (id(node), number), scope)
            behind += [] if leaves else [scope.names]
            if isinstance(node, ast.Try) and number == 0:
                # What fails may have been run in part.
                body = scope.names.maps[0]
                begin = {name: joined(before[name], body[name]) if name in before else body[name] for name in body}
        scope.names = before
        rejoin(before, behind)
        # Those that are none have left, or all are here again.
        batches_left = isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and len(behind) == 1
        for name, value in asked.items():
            if scope.names.get(name) is value and isinstance(value, Frame) and (len(behind) > 1 or batches_left):
                scope.names[name] = value.parents[0]
        if isinstance(node, ast.Try):
            self.block(node.finalbody, scope)

    def _branch(self, branch: Sequence[ast.stmt], choice: tuple[int, int], scope: Scope) -> bool:
        """Read a branch; whether the function ends with it."""
        self.branches.append(choice)
        if branch and isinstance(branch[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
            self.leaves.add(choice)
        self.block(branch, scope)
        self.branches.pop()
        return bool(branch) and isinstance(branch[-1], ast.Return | ast.Raise)

    def _changed(self, node: ast.Call, found: Value, scope: Scope) -> None:
        """Bind a name anew whose reader or writer is told something: it changes itself."""
        inner: ast.expr = node
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            inner = inner.func.value
        if isinstance(inner, ast.Name) and isinstance(found, Reader | Writer):
            known = scope.find(inner.id)
            if type(known) is type(found):
                scope.names[inner.id] = found

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        for decorator in node.decorator_list:
            self.value(decorator, scope)
        for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value)):
            self.value(default, scope)
        scope.names[node.name] = Function(node)
        for decorator in node.decorator_list:
            named = self.facts.values[decorator.func if isinstance(decorator, ast.Call) else decorator]
            if of_pipelines(named) == "foreach_batch_sink":
                self.batch_function(Function(node))
        inner = Scope(id(node), scope)
        given = {**self.before.given.get(node, {}), **self.facts.given.get(node, {})}
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.names[argument.arg] = self._parameter(argument, given.get(argument.arg), inner)
        self.functions.append(node)
        outside, self.branches = self.branches, []
        self.block(node.body, inner)
        self.branches = outside
        self.functions.pop()

    def _parameter(self, argument: ast.arg, given: Value | None, scope: Scope) -> Value:
        if argument.arg == "self" and self.classes:
            return Instance(Class(ast.ClassDef("", [], [], [], [])))
        if given is not None and type(given) is not Value:
            return given
        annotation = argument.annotation
        name = ast.unparse(annotation).rpartition(".")[2].strip("'\"") if annotation is not None else ""
        if name in _ANNOTATED:
            return _ANNOTATED[name]
        return Session() if argument.arg == "spark" else self.root(scope, argument.arg)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        scope.names[node.name] = Class(node)
        inner = Scope(id(node), scope)
        members: dict[str, Value] = {
            member.name: Function(member)
            for member in node.body
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        members.update(self.before.attributes.get(node, {}))
        self.classes.append((node, members))
        for base in (*node.bases, *node.decorator_list):
            self.value(base, scope)
        for statement in node.body:
            # Names of a class are no names of its functions, and those of its functions are none of the module.
            method = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            self._statement(statement, Scope(scope.key, scope) if method else inner)
        self.classes.pop()


def defines_pipeline(values: Iterable[Value]) -> bool:
    """Whether a program takes part in a pipeline: it names the decorators of one."""
    return any(of_pipelines(value) is not None for value in values)

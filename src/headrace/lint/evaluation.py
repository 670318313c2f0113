"""Infers the values of a program's expressions: streams, writers, queries, batch functions.

It reads the program from top to bottom, several times: the arguments and results of functions are known in the next
pass. After a branch, a name keeps only the facts that hold on every path.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from headrace.lint.expressions import Expressions, checked_for_streaming, item_of
from headrace.lint.facts import Facts, join_branches, joined
from headrace.lint.scopes import Scope, bound_names, imported, of_pipelines
from headrace.lint.values import Class, Frame, Function, Instance, Query, Reader, Session, Value, Writer

_ROUNDS = 4
_ANNOTATED = {"SparkSession": Session(), "StreamingQuery": Query()}


def facts_of(tree: ast.Module) -> Facts:
    """The facts of a program after all passes."""
    facts = Facts()
    bound = bound_names(tree, within_functions=False)
    for _ in range(_ROUNDS):
        evaluator = _Evaluator(facts, bound)
        module = Scope(0)
        evaluator.block(tree.body, module)
        evaluator.facts.names = module.names
        facts = evaluator.facts
    return facts


class _Evaluator(Expressions):
    """One pass over a program."""

    def block(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        """Evaluate statements in order."""
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
        """Evaluate the body of a loop, which may never run."""
        before = scope.names
        scope.names = before.new_child()
        if item is not None and not isinstance(node, ast.While):
            self.assign([node.target], item, scope)
        self.block((*node.body, *node.orelse), scope)
        body, scope.names = scope.names, before
        join_branches(before, (before.new_child(), body))

    def _choice(self, node: ast.If | ast.Try | ast.Match, scope: Scope) -> None:
        checked: dict[str, Value] = {}
        branches: list[Sequence[ast.stmt]]
        match node:
            case ast.If():
                self.value(node.test, scope)
                checked = checked_for_streaming(node.test, scope)
                branches = [node.body, node.orelse]
            case ast.Try():
                branches = [(*node.body, *node.orelse), *(handler.body for handler in node.handlers)]
            case ast.Match():
                self.value(node.subject, scope)
                # If no case matches, none runs.
                branches = [*(case.body for case in node.cases), ()]
        before, continuing, begin = scope.names, [], checked
        for number, branch in enumerate(branches):
            scope.names = before.new_child(dict(begin))
            exits = self._branch(branch, (id(node), number), scope)
            continuing += [] if exits else [scope.names]
            if isinstance(node, ast.Try) and number == 0:
                # A body that fails may have run in part.
                body = scope.names.maps[0]
                begin = {name: joined(before[name], body[name]) if name in before else body[name] for name in body}
        scope.names = before
        join_branches(before, continuing)
        # The non-streaming branch has returned, or all branches have joined again.
        other_branch_exits = isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and len(continuing) == 1
        for name, value in checked.items():
            if (
                scope.names.get(name) is value
                and isinstance(value, Frame)
                and (len(continuing) > 1 or other_branch_exits)
            ):
                scope.names[name] = value.parents[0]
        if isinstance(node, ast.Try):
            self.block(node.finalbody, scope)

    def _branch(self, branch: Sequence[ast.stmt], choice: tuple[int, int], scope: Scope) -> bool:
        """Evaluate a branch; returns whether it ends the function."""
        self.branches.append(choice)
        if branch and isinstance(branch[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
            self.exits.add(choice)
        self.block(branch, scope)
        self.branches.pop()
        return bool(branch) and isinstance(branch[-1], ast.Return | ast.Raise)

    def _changed(self, node: ast.Call, found: Value, scope: Scope) -> None:
        """Rebind the name of a reader or writer after a call: readers and writers are mutable."""
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
                self.note_batch_function(Function(node))
        inner = Scope(id(node), scope)
        given = {**self.before.given.get(node, {}), **self.facts.given.get(node, {})}
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.names[argument.arg] = self._parameter(argument, given.get(argument.arg), inner)
        self.functions.append(node)
        enclosing, self.branches = self.branches, []
        self.block(node.body, inner)
        self.branches = enclosing
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
            # Methods do not see the names of their class, and the module does not see theirs.
            method = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            self._statement(statement, Scope(scope.key, scope) if method else inner)
        self.classes.pop()


def defines_pipeline(values: Iterable[Value]) -> bool:
    """Whether a program defines a part of a pipeline: it uses the pipeline decorators."""
    return any(of_pipelines(value) is not None for value in values)

"""Monitoring of running queries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.lint.edits import Edit, Edits, inserted_after, replaced, replaced_text, with_import
from headrace.lint.methods import STARTING
from headrace.lint.program import Program, Span
from headrace.lint.rules import Severity, Violation, rule
from headrace.lint.values import Bound, Class, Instance, Literal, Progress, Query, Status, Streams, Value

# Source: pyspark.sql.streaming.query and pyspark.sql.streaming.listener.
_OF_STATUS = ("message", "isDataAvailable", "isTriggerActive")
_OF_PROGRESS = (
    *("id", "runId", "name", "timestamp", "batchId", "batchDuration", "durationMs", "eventTime", "stateOperators"),
    *("sources", "sink", "observedMetrics", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"),
)
_LISTENER = "StreamingQueryListener"
# Its abstract methods.
_NEEDED = frozenset(("onQueryStarted", "onQueryProgress", "onQueryTerminated"))
# The first line of a class without a base.
_HEAD = re.compile(r"class\s+(?P<name>\w+)\s*(?:\(\s*(?:object)?\s*\))?\s*(?P<colon>:)")
_ELSEWHERE = {
    "id": "{query}.id",
    "runId": "{query}.runId",
    "name": "{query}.name",
    "isActive": "{query}.isActive",
    "exception": "{query}.exception()",
    "message": '{query}.status["message"]',
    "isDataAvailable": '{query}.status["isDataAvailable"]',
    "isTriggerActive": '{query}.status["isTriggerActive"]',
}


@dataclass(frozen=True)
class _KeyAccess:
    """A key lookup: its node, the key's, the owner's, the key, and the severity if it is missing."""

    node: ast.expr
    key_node: ast.expr
    owner: ast.expr
    key: str
    severity: Severity


def _key_accesses(program: Program, kind: type[Value]) -> Iterator[_KeyAccess]:
    for node in program.nodes:
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key)) as at, ctx=ast.Load()):
                if isinstance(program.value(owner), kind):
                    yield _KeyAccess(node, at, owner, key, Severity.ERROR)
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(key)) as at, *_]):
                if isinstance(program.value(owner), kind):
                    # It returns None instead of raising.
                    yield _KeyAccess(node, at, owner, key, Severity.WARNING)
            case _:
                pass


def _status(program: Program) -> Iterator[Violation]:
    for access in _key_accesses(program, Status):
        if access.key not in _OF_STATUS:
            fix = _elsewhere(program, access.owner, access.key, "status")
            edits = _in_place(program, access, "status", fix)
            message = f'a query\'s status has no key "{access.key}"'
            yield Violation(program.span_of(access.key_node), message, fix, access.severity, edits)


def _progress(program: Program) -> Iterator[Violation]:
    for access in _key_accesses(program, Progress):
        if access.key not in _OF_PROGRESS:
            near = get_close_matches(access.key, _OF_PROGRESS, n=1)
            fix = _elsewhere(program, access.owner, access.key, "lastProgress")
            edits = _in_place(program, access, "lastProgress", fix)
            if near and not fix:
                fix = f'{program.source(access.owner)}["{near[0]}"]'
                edits = replaced_text(program, access.key_node, _meant(access.key))
            message = f'a query\'s progress has no key "{access.key}"'
            yield Violation(program.span_of(access.key_node), message, fix, access.severity, edits)


def _in_place(program: Program, access: _KeyAccess, attribute: str, fix: str) -> Edits:
    """The edit that puts *fix* in place of a lookup, if the text names the query and no default."""
    direct = isinstance(access.owner, ast.Attribute) and access.owner.attr == attribute
    default = isinstance(access.node, ast.Call) and len(access.node.args) > 1
    return replaced(program, access.node, fix) if fix and direct and not default else ()


def _meant(key: str) -> str:
    """The key of a progress that a misspelled one certainly means: case and a leading "num" do not matter."""
    plain = key.casefold()
    found = [name for name in _OF_PROGRESS if plain in (name.casefold(), name.removeprefix("num").casefold())]
    return found[0] if len(found) == 1 else ""


def _too_early(program: Program) -> Iterator[Violation]:
    for node in program.nodes:
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from _before_first_batch(program, block)


def _before_first_batch(program: Program, block: list[ast.AST]) -> Iterator[Violation]:
    """Uses of the progress of queries that the block started, with nothing in between that waits."""
    fresh: set[str] = set()
    # Names assigned to the progress of a query that was just started.
    held: dict[str, str] = {}
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                starts = isinstance(program.value(value), Query) and isinstance(value.func, ast.Attribute)
                if starts and isinstance(value.func, ast.Attribute) and value.func.attr in STARTING:
                    fresh.add(name)
                    continue
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value) if (
                _progress_of(value) in fresh
            ):
                held[name] = _progress_of(value)
                continue
            case ast.Assign() | ast.Expr() | ast.AnnAssign():
                pass
            case _:
                fresh.clear()
                held.clear()
        for access in _key_owners(statement):
            query = held.get(access.id, "") if isinstance(access, ast.Name) else _progress_of(access)
            if query in fresh or (query and isinstance(access, ast.Name)):
                message = "progress is None until the first batch is complete"
                yield Violation(program.span_of(access), message, f"{query}.processAllAvailable()  # before this line")
                fresh.clear()
                held.clear()
        if any(isinstance(part, ast.Call) and not _prints(part) for part in ast.walk(statement)):
            # Any call may take time; names assigned before keep the early progress.
            fresh.clear()
        for name in _assigned(statement):
            held.pop(name, None)


def _assigned(statement: ast.AST) -> Iterator[str]:
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name):
            yield target.id


def _key_owners(statement: ast.AST) -> Iterator[ast.expr]:
    """The owners of key lookups: both forms raise if the owner is None."""
    for part in ast.walk(statement):
        match part:
            case ast.Subscript(value=owner):
                yield owner
            case ast.Call(func=ast.Attribute(value=owner, attr="get")):
                yield owner
            case _:
                pass


def _progress_of(node: ast.expr) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="lastProgress"):
            return name
        case _:
            return ""


def _prints(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("print", "str", "repr", "len")


def _elsewhere(program: Program, owner: ast.expr, key: str, attribute: str) -> str:
    direct = isinstance(owner, ast.Attribute) and owner.attr == attribute
    query = program.source(owner.value) if direct and isinstance(owner, ast.Attribute) else "query"
    return _ELSEWHERE.get(key, "").format(query=query)


def _exception(program: Program) -> Iterator[Violation]:
    called = {node.func for node in program.nodes if isinstance(node, ast.Call)}
    tested = set(_tested(program))
    for node in program.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "exception" and node not in called:
            owner = program.value(node)
            if isinstance(owner, Bound) and isinstance(owner.of, Query):
                edits = inserted_after(program, node, "()") if node in tested else ()
                message = '"exception" is not called'
                yield Violation(program.span_of_name(node), message, f"{program.source(node)}()", edits=edits)


def _tested(program: Program) -> Iterator[ast.AST]:
    """Expressions that are certainly used as values: conditions, comparisons, arguments of bool, print and so on."""
    for node in program.nodes:
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                yield test
            case ast.Compare(left=left, comparators=others):
                yield from (left, *others)
            case ast.BoolOp(values=values):
                yield from values
            case ast.UnaryOp(operand=operand):
                yield operand
            case ast.Raise(exc=ast.expr() as exc):
                yield exc
            case ast.FormattedValue(value=value):
                yield value
            case ast.Call(args=arguments) if node.args and (_prints(node) or ast.unparse(node.func) == "bool"):
                yield from arguments
            case _:
                pass


def _is_bare(program: Program, found: Class, above: tuple[ast.ClassDef, ...] = ()) -> bool:
    """Whether all bases of a class are defined in the program, and none has another base."""
    bases = [program.value(node) for node in found.node.bases if not _is_object(node)]
    below = (*above, found.node)
    return found.node not in above and all(isinstance(base, Class) and _is_bare(program, base, below) for base in bases)


def _is_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "object"


def _listener(program: Program) -> Iterator[Violation]:
    for step, owner in program.calls("addListener"):
        if not isinstance(owner, Streams):
            continue
        of = step.first.of if isinstance(step.first, Instance) else step.first
        if isinstance(of, Class) and _is_bare(program, of):
            # A class with the same name would be its own base.
            base = "Listener" if of.node.name == _LISTENER else _LISTENER
            renamed = f" as {base}" if base != _LISTENER else ""
            imports = f"from pyspark.sql.streaming import {_LISTENER}{renamed}"
            others = [program.source(node) for node in of.node.bases if not _is_object(node)]
            fix = f"{imports}\n\nclass {of.node.name}({', '.join((*others, base))}):"
            message = f'"{of.node.name}" does not inherit from StreamingQueryListener'
            edits = _inheriting(program, of.node) if base == _LISTENER else ()
            yield Violation(program.span_of(step.node.args[0]), message, fix, edits=edits)
        elif isinstance(step.first, Class | Literal):
            yield Violation(program.span_of(step.node.args[0]), "this is not a StreamingQueryListener")


def _inheriting(program: Program, node: ast.ClassDef) -> Edits:
    """The edits that give a class its base and import it, if the class has all methods that the base needs."""
    methods = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
    line = program.text.lines[node.lineno - 1]
    head = _HEAD.match(line)
    if not methods >= _NEEDED or head is None or head["name"] != node.name:
        return ()
    begin, end = head.end("name") + 1, head.start("colon") + 1
    edit = Edit(Span(node.lineno, begin, node.lineno, end), f"({_LISTENER})")
    if _LISTENER in program.bound:
        return (edit,)
    imports = with_import(program, node, f"from pyspark.sql.streaming import {_LISTENER}")
    return (*imports, edit) if imports else ()


RULES = (
    rule("status-keys", _status),
    rule("progress-keys", _progress),
    rule("progress-too-early", _too_early),
    rule("exception-not-called", _exception),
    rule("listener-base-class", _listener),
)

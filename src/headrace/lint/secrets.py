"""Finds secrets in the text of a program, and masks them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headrace.lint.methods import name_set
from headrace.lint.program import Program
from headrace.lint.sql_texts import STANDS_FOR_VALUE
from headrace.lint.values import Bound, Frame, Reader, Step, Value, Writer, text_of

_IN_TEXT = re.compile(
    r"(?:password|AccountKey|SharedAccessKey|clientSecret)\s*=\s*[\"']?"
    rf"(?![{{$<*\s\"']|{STANDS_FOR_VALUE})(?P<secret>[^;\"'\s&]{{3,}})",
    re.IGNORECASE,
)
# Suffixes of options and settings whose whole value is a secret, optionally followed by a host.
_NAMES = re.compile(
    r"(?:password|secret[._-]?key|client[._-]?secret|\.account\.key(?:\..*)?|\.sas\.(?:fixed\.token|token)(?:\..*)?)$",
    re.IGNORECASE,
)
_PLACEHOLDERS = name_set("password secret changeme xxx ...")


@dataclass(frozen=True)
class Secret:
    """A secret: its expression, the option or setting that takes it, and the texts to mask."""

    node: ast.expr
    kind: str
    name: str
    texts: tuple[str, ...]


def secrets_in(program: Program) -> Iterator[Secret]:
    """The secrets in the text of a program."""
    for kind, name, node in (*_options(program), *_settings(program)):
        text = _written(program, node)
        found = tuple(match["secret"] for match in _IN_TEXT.finditer(text))
        if name is not None and _NAMES.search(name) and text and not _stands_for_another(text):
            found = (text,)
        if found:
            yield Secret(
                node, kind, name or "", tuple(form for secret in found for form in _forms(program, node, secret))
            )


def masked(text: str, secrets: Collection[str]) -> str:
    """The text with an asterisk for each letter of a secret, so that columns do not shift."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "*" * len(secret))
    return text


def _forms(program: Program, node: ast.expr, secret: str) -> Iterator[str]:
    """The forms of a secret in text: plain, escaped, and as written."""
    yield secret
    yield repr(secret)[1:-1]
    if isinstance(node, ast.Constant) and node.value == secret:
        yield program.source(node).lstrip("rRbBuU").strip("\"'")


def _options(program: Program) -> Iterator[tuple[str, str | None, ast.expr]]:
    """The options of readers and writers, each with its name."""
    for step, owner in program.calls("option", "options", "jdbc", "load", "save"):
        if not isinstance(owner, Reader | Writer | Frame):
            continue
        if step.name == "option" and len(step.node.args) > 1:
            yield "option", text_of(step.first), step.node.args[1]
        for keyword in step.node.keywords:
            if keyword.arg == "properties" or keyword.arg is None:
                yield from _pairs(program, keyword.value)
            else:
                yield "option", keyword.arg, keyword.value
        if step.name == "jdbc":
            for argument in step.node.args[2:]:
                yield from _pairs(program, argument)


def _pairs(program: Program, node: ast.expr) -> Iterator[tuple[str, str | None, ast.expr]]:
    if isinstance(node, ast.Name):
        bound = [
            found.value
            for found in program.nodes
            if isinstance(found, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == node.id for target in found.targets)
        ]
        node = bound[0] if len(bound) == 1 else node
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield "option", text_of(program.value(key)), value


def _settings(program: Program) -> Iterator[tuple[str, str | None, ast.expr]]:
    for step, function in program.facts.steps:
        if len(step.node.args) == 2 and _sets(step, function):
            yield "setting", _written(program, step.node.args[0]), step.node.args[1]


def _sets(step: Step, function: Value) -> bool:
    attribute = step.node.func.attr if isinstance(step.node.func, ast.Attribute) else ""
    # Includes Hadoop settings, which are set through Java.
    return attribute in ("set", "config") and (not isinstance(function, Bound) or not isinstance(function.of, Reader))


def _stands_for_another(text: str) -> bool:
    return STANDS_FOR_VALUE in text or text[:1] in ("{", "$", "<", "*") or text.lower() in _PLACEHOLDERS


def _written(program: Program, node: ast.expr) -> str:
    """The text of an expression, with a placeholder for each unknown value."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else STANDS_FOR_VALUE for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.BinOp):
        return _written(program, node.left) + _written(program, node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return (text_of(program.value(node)) or STANDS_FOR_VALUE) if isinstance(node, ast.Name) else STANDS_FOR_VALUE

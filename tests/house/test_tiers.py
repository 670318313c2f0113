"""What `make test` leaves to `make test-all` is guarded by a faster test; the table of both is `tests/TIERS.md`."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PAGE = TESTS / "TIERS.md"
HEAD = """\
# Tests that only `make test-all` runs, and what guards the same behaviour in `make test`

`make golden ARGS=tests/house` rewrites this page from the marks of the tests (`pytest.mark.long`). Laws that both tiers
run have more examples in `make test-all` (`tests/tiers.py`) and hundreds in `make campaign`.

| long test | cases | guarded by |
|---|---|---|
"""
ALL_CASES = "all"
# The folders of this repository from which tests import.
OURS = {"bench", "campaign", "conformance", "examples", "headrace", "tests", "tools"}
# As a guard: the cases of the same test that are not long.
OTHER_CASES = "its other cases"


@dataclass(frozen=True)
class Long:
    """A test, or some of its cases, that only `make test-all` runs."""

    test: str
    cases: str
    guards: tuple[str, ...]


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8")))
        for file in sorted(TESTS.rglob("test_*.py"))
    )


def is_long(node: ast.AST) -> bool:
    """Whether an expression is ``pytest.mark.long(guard=...)``."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.long"


def guards(mark: ast.Call, tree: ast.Module, test: str) -> tuple[str, ...]:
    """The guards that a mark names, itself or by a constant of its module."""
    (keyword,) = mark.keywords
    value = keyword.value
    if isinstance(value, ast.Name):
        value = _constants(tree)[value.id]
    named = ast.literal_eval(value)
    names = (named,) if isinstance(named, str) else tuple(named)
    return tuple(test if name == OTHER_CASES else name for name in names)


def functions_that_test(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def found() -> Iterator[Long]:
    for path, tree in modules():
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
                for mark in filter(is_long, ast.walk(statement)):
                    yield Long(path, ALL_CASES, guards(mark, tree, path))
        for function in functions_that_test(tree):
            test = f"{path}::{function.name}"
            whole = [decorator for decorator in function.decorator_list if is_long(decorator)]
            # Where all cases are long, marks of some of them say nothing more.
            for decorator in whole or function.decorator_list:
                for mark in filter(is_long, _parts(decorator, tree)):
                    yield Long(test, ALL_CASES if whole else "some", guards(mark, tree, test))


@cache
def long_tests() -> tuple[Long, ...]:
    return tuple(found())


@cache
def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}


def _parts(decorator: ast.AST, tree: ast.Module) -> Iterator[ast.AST]:
    """What a decorator is made of, with the constants of the module that it names, such as lists of cases."""
    constants = _constants(tree)
    for node in ast.walk(decorator):
        yield node
        if isinstance(node, ast.Name) and node.id in constants:
            yield from ast.walk(constants[node.id])


def table() -> str:
    rows = dict.fromkeys(f"| `{long.test}` | {long.cases} | {_listed(long.guards)} |" for long in long_tests())
    return HEAD + "\n".join(rows) + "\n"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def test_every_long_test_names_an_existing_faster_guard() -> None:
    known = {f"{path}::{function.name}" for path, tree in modules() for function in functions_that_test(tree)}
    long = long_tests()
    wholly_long = {entry.test for entry in long if entry.cases == ALL_CASES}

    wrong = [
        f"{entry.test} is guarded by {guard}, which is not there or long itself"
        for entry in long
        for guard in entry.guards
        if guard not in known or guard in wholly_long or guard.partition("::")[0] in wholly_long
    ]

    assert wrong == []


def test_the_tiers_page_matches_the_test_marks() -> None:
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        PAGE.write_text(table(), encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == table(), "run `make golden ARGS=tests/house`"


def test_every_test_module_loads_with_the_locked_packages_alone() -> None:
    """`make test` collects the modules of the browser too, and runs where `make test-servers` never ran."""
    locked = set(re.findall(r"^[\w.-]+(?===)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE))
    names = packages_distributions()

    def is_there(module: str) -> bool:
        root = module.partition(".")[0]
        distributions = {re.sub(r"[-_.]+", "-", name).lower() for name in names.get(root, ())}
        return root in OURS or root in sys.stdlib_module_names or bool(distributions & locked)

    missing = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in sorted(TESTS.rglob("*.py"))
        for module in _imported_at_once(ast.parse(file.read_text(encoding="utf-8")))
        if not is_there(module)
    ]

    assert missing == [], "import it where it is used, or under TYPE_CHECKING"


def _imported_at_once(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports when it is loaded, outside functions and ``if TYPE_CHECKING``."""
    for statement in tree.body:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name)):
                yield name

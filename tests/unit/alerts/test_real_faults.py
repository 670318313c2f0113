"""Every rule has a test in which a real fault of a real pipeline lets it fire."""

from __future__ import annotations

import ast
from pathlib import Path

from headrace.model.alert_rules import rules

TESTS = Path(__file__).parents[2]


def rules_that_fire():
    """The names that the tests give to ``pytest.mark.fires``."""
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.fires" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.fires":
                yield from (ast.literal_eval(name) for name in node.args)


def test_every_rule_is_fired_by_a_real_fault_in_a_test():
    assert set(rules_that_fire()) == set(rules())

"""Replacements are code, and a program that has taken one is found fault with no more."""

from __future__ import annotations

import ast

import pytest

from headrace.lint.catalog import RULES
from headrace.lint.lint_files import lint_text

# These give the first line of a class, and SQL.
SPECIAL = {"listener-base-class": "{}\n    pass"}
FAILING = {rule.id: rule.failing for rule in RULES}


def findings_of(text, rule_id):
    return [found for found in lint_text(text, ".py", "a.py").findings if found.rule.id == rule_id]


def offset(text, line, column):
    return sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column


@pytest.mark.parametrize("rule_id", FAILING)
def test_fix_that_uses_names_from_the_program_is_valid_python(rule_id):
    found = findings_of(FAILING[rule_id], rule_id)

    own = [finding.fix for finding in found if finding.fix != finding.rule.fix]
    for instead in own:
        # What begins with a dot is a part of a chain.
        ast.parse(SPECIAL.get(rule_id, "{}").format(f"x{instead}" if instead.startswith(".") else instead))
    assert found


def nodes_at(text, finding, kind):
    """Nodes that a finding stands in, from the innermost outwards, each as its part of the text."""
    line, column = finding.location.line, finding.column - 1
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kind)
        and (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno, node.end_col_offset)
    ]
    places = [
        (offset(text, node.lineno, node.col_offset), offset(text, node.end_lineno, node.end_col_offset), node)
        for node in around
    ]
    return sorted(places, key=lambda place: place[1] - place[0])


def in_place_of_call(text, finding):
    """The method that is called gives way, with what it is handed."""
    begin = offset(text, finding.location.line, finding.column - 2)
    calls = nodes_at(text, finding, ast.Call)
    end = next(end for _, end, node in calls if node.func.end_lineno == finding.end.line)
    return text[:begin] + finding.fix + text[end:]


def in_place_of_option(text, finding):
    _, end, node = next(place for place in nodes_at(text, finding, ast.Call) if "option" in ast.unparse(place[2].func))
    owner = offset(text, node.func.value.end_lineno, node.func.value.end_col_offset)
    return text[:owner] + finding.fix + text[end:]


def before_it(text, finding):
    begin = offset(text, finding.location.line, finding.column - 2)
    return text[:begin] + finding.fix + text[begin:]


def in_place_of_expression(text, finding):
    begin, end, _ = nodes_at(text, finding, ast.Call)[0]
    return text[:begin] + finding.fix + text[end:]


def in_place_of_subscript(text, finding):
    begin, end, _ = nodes_at(text, finding, ast.Subscript)[0]
    return text[:begin] + finding.fix + text[end:]


def in_place_of_statement(text, finding):
    begin, end, node = nodes_at(text, finding, ast.stmt)[0]
    lines = finding.fix.split("\n")
    return text[:begin] + f"\n{' ' * node.col_offset}".join(lines) + text[end:]


def in_place_of_itself(text, finding):
    begin, end = (
        offset(text, finding.location.line, finding.column - 1),
        offset(text, finding.end.line, finding.end_column - 1),
    )
    return text[:begin] + finding.fix + text[end:]


@pytest.mark.parametrize(
    ("rule_id", "apply"),
    [
        ("writer-table", in_place_of_call),
        ("trigger-value", in_place_of_call),
        ("once-trigger", in_place_of_call),
        ("missing-checkpoint", before_it),
        ("shared-checkpoint", in_place_of_option),
        ("new-checkpoint", in_place_of_option),
        ("foreach-batch-not-idempotent", in_place_of_statement),
        ("merge-several-rows", in_place_of_statement),
        ("stream-cache", in_place_of_expression),
        ("status-keys", in_place_of_subscript),
        ("setting-without-effect", in_place_of_itself),
        ("vendor-setting", in_place_of_statement),
        ("fixed-setting", in_place_of_statement),
        ("vendor-system-table", in_place_of_statement),
    ],
)
def test_program_with_the_fix_applied_has_no_findings(rule_id, apply):
    (finding,) = findings_of(FAILING[rule_id], rule_id)

    mended = apply(FAILING[rule_id], finding)

    ast.parse(mended)
    assert finding.fix.partition("  #")[0] in mended
    assert lint_text(mended, ".py", "a.py").findings == ()

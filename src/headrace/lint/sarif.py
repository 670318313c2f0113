"""Findings as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from headrace.errors import PipelineError
from headrace.lint.catalog import RULES
from headrace.lint.lint_files import Finding
from headrace.lint.rules import Rule
from headrace.model.location import Location, split_cell

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(findings: Sequence[Finding], problems: Sequence[PipelineError], version: str) -> dict[str, Any]:
    """The log of one run.

    Args:
        findings: the findings.
        problems: why files could not be read; they become tool notifications.
        version: of Headrace.
    """
    index = {rule.id: number for number, rule in enumerate(RULES)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "headrace lint", "version": version, "rules": [_rule(rule) for rule in RULES]}
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The working directory."}}},
                "invocations": [
                    {
                        "executionSuccessful": not problems,
                        "toolExecutionNotifications": [_notification(problem) for problem in problems],
                    }
                ],
                "results": [_result(finding, index[finding.rule.id]) for finding in findings],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    help_text = f"{rule.why}\n\nInstead: {rule.fix}"
    example = f"Fails:\n\n```python\n{rule.failing}\n```\n\nWorks:\n\n```python\n{rule.passing}\n```"
    return {
        "id": rule.id,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.why},
        "help": {"text": help_text, "markdown": f"{rule.why}\n\nInstead: `{rule.fix}`\n\n{example}"},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": f"{_in_cell(finding)}{finding.message}. {finding.rule.why} Instead: {finding.fix}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": _artifact(finding.location), **_region(finding)},
                **_cell(finding.location),
            }
        ],
    }


def _region(finding: Finding) -> dict[str, Any]:
    if split_cell(finding.location.file)[1]:
        # A line of a cell is not a line of the file, which is JSON.
        return {}
    region = {
        "startLine": finding.location.line,
        "startColumn": finding.column,
        "endLine": finding.end.line,
        "endColumn": finding.end_column,
        "snippet": {"text": finding.line_text},
    }
    return {"region": region}


def _in_cell(finding: Finding) -> str:
    cell = split_cell(finding.location.file)[1]
    return f"Cell {cell}, line {finding.location.line}: " if cell else ""


def _cell(location: Location) -> dict[str, Any]:
    """The cell as a logical location; SARIF has no word for cells."""
    cell = split_cell(location.file)[1]
    return {"logicalLocations": [{"name": f"cell {cell}", "kind": "module"}]} if cell else {}


def _artifact(location: Location) -> dict[str, Any]:
    file = split_cell(location.file)[0]
    # The bytes of the name, which need not be UTF-8.
    path = quote(os.fsencode(file))
    return {"uri": f"file://{path}"} if file.startswith("/") else {"uri": path, "uriBaseId": "SRCROOT"}


def _notification(problem: PipelineError) -> dict[str, Any]:
    in_cell = problem.location is not None and split_cell(problem.location.file)[1]
    message = f"{problem.message} ({problem.location})" if in_cell else problem.message
    notification: dict[str, Any] = {"level": "error", "message": {"text": message}, "descriptor": {"id": problem.code}}
    if problem.location is not None:
        has_line = problem.location.line and not split_cell(problem.location.file)[1]
        region = {"region": {"startLine": problem.location.line}} if has_line else {}
        physical = {"physicalLocation": {"artifactLocation": _artifact(problem.location), **region}}
        notification["locations"] = [physical]
    return notification

"""Programs that are looked at, told in a few lines."""

from __future__ import annotations

import textwrap

import pytest

from headrace.lint.lint_files import ALL_RULES, lint_text


@pytest.fixture
def found():
    """What is found in a program: the rules in reading order, each with its line."""

    def look(text, suffix=".py", *, selection=ALL_RULES, in_project=False):
        linted = lint_text(
            textwrap.dedent(text).strip("\n"), suffix, f"a{suffix}", selection=selection, in_project=in_project
        )
        assert linted.problems == ()
        return [(finding.rule.id, finding.location.line) for finding in linted.findings]

    return look

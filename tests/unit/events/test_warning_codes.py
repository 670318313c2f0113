"""The codes of warnings: each that the program can record is explained, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import headrace
from headrace.cli.main import call
from headrace.errors import conditions
from headrace.model.warning_codes import warning_codes
from headrace.plan.renames import RenameKind

# A whole string: a syntax tree of each module would take seconds.
CODE = re.compile(r'"([A-Z_]+\.[A-Z_]+)"')
# The prefix of codes of errors.
NO_WARNINGS = {"SINK.HTTP"}


def codes_in_the_program():
    for file in Path(headrace.__file__).parent.rglob("*.py"):
        yield from CODE.findall(file.read_text(encoding="utf-8"))


def test_every_code_of_a_warning_is_explained_and_no_other():
    recorded = {code for code in codes_in_the_program() if code not in conditions()} - NO_WARNINGS
    renames = {f"{kind.name}.RENAMED" for kind in RenameKind}

    # Error conditions of Spark have such names too.
    groups = {code.partition(".")[0] for code in [*conditions(), *warning_codes()]}
    assert {code for code in recorded | renames if code.partition(".")[0] in groups} == set(warning_codes())


def test_the_command_line_explains_the_code_of_a_warning(capsys):
    assert call(["explain", "flow.rows_too_late"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("FLOW.ROWS_TOO_LATE: a warning of the event log\n  meaning: Rows came behind")
    assert "headrace lateness" in shown

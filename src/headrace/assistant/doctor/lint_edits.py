"""The edit that applies the replacement of a lint violation, where the replacement is exact."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from headrace.assistant.doctor.facts import Facts, ProgramFile
from headrace.assistant.doctor.findings import Edit, lines_of
from headrace.assistant.doctor.programs import tree_of
from headrace.assistant.doctor.stream_reader import Span, span_edit
from headrace.lint.lint_files import Finding as Violation

# A replacement that only says what comes before a call.
_BEFORE = re.compile(r"(?P<call>\..+?)  # before \.\w+")
_COLUMN = re.compile(r'(?<=withWatermark\(")\w+(?=")')
# The column that a rule writes if the program does not show one.
_GUESS = "event_time"


def lint_edit(facts: Facts, file: ProgramFile, violation: Violation, flow: str | None) -> Edit | None:
    """The edit for a violation; None if the replacement is no call, or guesses a column that nobody knows.

    Args:
        facts: what is known of the inputs' columns.
        file: the file.
        violation: the violation.
        flow: the flow whose query it is in.
    """
    line, name_at = file.line_at(violation.location), violation.column - 1
    if line is None:
        return None
    lines = lines_of(file.code)
    fix = _with_known_column(facts, file, violation.fix, flow)
    is_call = line <= len(lines) and lines[line - 1][name_at - 1 : name_at] == "."
    if fix is None or not is_call or tree_of(file) is None:
        return None
    before = _BEFORE.fullmatch(fix)
    if before is not None:
        return span_edit(file, Span(line, name_at - 1, name_at - 1), before["call"])
    end = _end_of_call(file, line, violation.end_column - 1)
    is_one_call = fix.startswith(".") and "\n" not in fix and "  #" not in fix
    return span_edit(file, Span(line, name_at - 1, end), fix) if is_one_call and end is not None else None


def _with_known_column(facts: Facts, file: ProgramFile, fix: str, flow: str | None) -> str | None:
    """The replacement with a column that exists; None if it guesses one, and the inputs have not exactly one time."""
    named = _COLUMN.search(fix)
    if named is None or named[0] != _GUESS or f'"{_GUESS}"' in file.text:
        return fix
    defined = facts.logged.flows.get(flow or "")
    times = _time_columns(facts, () if defined is None else defined.inputs)
    return fix.replace(f'"{_GUESS}"', f'"{times[0]}"') if len(times) == 1 else None


def _time_columns(facts: Facts, inputs: Sequence[str]) -> list[str]:
    """The columns of type timestamp at the top level of datasets."""
    found = []
    for name in inputs:
        defined = facts.logged.datasets.get(name)
        schema = None if defined is None else defined.schema
        for field in (schema or {}).get("fields", ()):
            found += [str(field["name"])] if field.get("type") in ("timestamp", "timestamp_ntz") else []
    return found


def _end_of_call(file: ProgramFile, line: int, name_end: int) -> int | None:
    """The column after the call whose name ends at a position; None if the call ends on another line."""
    written = lines_of(file.code)[line - 1]
    offset = len(written[:name_end].encode())
    for node in ast.walk(tree_of(file) or ast.Module([], [])):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if (node.func.end_lineno, node.func.end_col_offset) == (line, offset):
            if node.end_lineno != line or node.end_col_offset is None:
                return None
            return len(written.encode()[: node.end_col_offset].decode(errors="ignore"))
    return None

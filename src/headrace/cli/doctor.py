"""The verbs that say what is wrong with a pipeline, and whether it is complete. They start no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.assistant.doctor.checklist import Checklist, Status
from headrace.assistant.doctor.checks import Severity
from headrace.assistant.doctor.diagnose import Diagnosis
from headrace.assistant.doctor.findings import Finding
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.terminal import folded

_LABEL = 12


def doctor(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="FLOW", help="A flow or a dataset (default: the whole pipeline).")
    ] = None,
) -> int:
    """Find out what is wrong, with the evidence and the command or edit that ends it.

    Reads the event log, checkpoints, tables, settings and program text. Works while an update runs. Exits with 1 if it
    finds an error or a warning, or cannot read something; advice alone exits with 0.
    """
    invocation = invocation_of(context)
    found = invocation.open().doctor().diagnose(name)
    text = "\n".join(_diagnosis_lines(found, invocation.width))
    invocation.result_redacted(text, found.to_json(), folds=False)
    return DONE if found.is_healthy else FAILED


def check(
    context: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", help="A criterion whose status is unknown fails too.")] = False,  # noqa: FBT002 - an option of the command line
) -> int:
    """Check the success criteria: checkpoints, watermarks, crash tests, lag, memory, errors, alerts, documents.

    Each has its evidence. A criterion without evidence is unknown, never passed. Exits with 1 if one fails.
    """
    invocation = invocation_of(context)
    found = invocation.open().doctor().check()
    invocation.result_redacted("\n".join(_checklist_lines(found)), found.to_json())
    return DONE if found.passes(strict=strict) else FAILED


def _checklist_lines(found: Checklist) -> Iterator[str]:
    for result in found.results:
        yield f"{result.status.value:<9}{result.criterion.criterion_id:<17}{printable(result.evidence)}"
        if result.next_step is not None:
            yield f"{'':<9}{'':<17}{printable(f'next: {result.next_step}')}"
    counts = [(status, sum(one.status is status for one in found.results)) for status in Status]
    yield ", ".join(f"{number} {status.value}" for status, number in counts if number)
    if found.next_step is not None:
        yield printable(f"next: {found.next_step}")


def _diagnosis_lines(found: Diagnosis, width: int | None) -> Iterator[str]:
    for finding in found.findings:
        yield from (folded(line, width) for line in _finding_lines(finding))
        yield from _edit_lines(finding)
        if finding.command is not None:
            loses = "" if finding.safe else "  (can lose rows or progress)"
            yield folded(printable(f"  {'command':<{_LABEL}}{finding.command}{loses}"), width)
        yield ""
    yield from (folded(line, width) for line in _last_lines(found))


def _last_lines(found: Diagnosis) -> Iterator[str]:
    for unread in found.unread:
        place = f"{unread.path}: " if unread.path else ""
        yield printable(f"not examined: {unread.part} ({place}{unread.reason})")
    counts = [(severity, sum(one.severity is severity for one in found.findings)) for severity in Severity]
    nothing = "no findings in what was examined" if found.unread else "no findings"
    yield ", ".join(_count(number, severity) for severity, number in counts if number) or nothing
    if found.next_step is not None:
        yield printable(f"next: {found.next_step}")


def _finding_lines(finding: Finding) -> Iterator[str]:
    about = f'  flow "{finding.flow}"' if finding.flow else ""
    if finding.dataset and finding.dataset != finding.flow:
        about += f'  dataset "{finding.dataset}"'
    yield printable(f"{finding.severity.value}[{finding.check.check_id}]: {finding.check.title.lower()}{about}")
    yield printable(f"  {'evidence':<{_LABEL}}{finding.evidence}")
    first, *rest = printable(finding.remedy, keep="\n").splitlines()
    yield f"  {'remedy':<{_LABEL}}{first}"
    yield from (f"  {'':<{_LABEL}}{line}" for line in rest)


def _edit_lines(finding: Finding) -> Iterator[str]:
    """The edit; its lines are copied, so they are not folded."""
    if finding.edit is not None:
        yield printable(f"  {'edit':<{_LABEL}}{finding.edit.file}:{finding.edit.line} becomes")
        lines = printable(finding.edit.text, keep="\n").splitlines() or ["(no line)"]
        yield from (f"  {'':<{_LABEL}}| {line}" for line in lines)


def _count(number: int, severity: Severity) -> str:
    plural = "s" if number != 1 and severity is not Severity.ADVICE else ""
    return f"{number} {severity.value}{plural}"

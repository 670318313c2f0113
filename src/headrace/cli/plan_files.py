"""Plans in files: what the verbs read and write."""

from __future__ import annotations

from pathlib import Path

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.plan.plan_file import PlanFile


def read_plan(file: Path) -> PlanFile:
    """The plan of a file.

    Raises:
        PipelineError: PLAN.UNREADABLE, PLAN.TAMPERED.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a text file"
        raise PipelineError("PLAN.UNREADABLE", file=file, reason=reason) from error
    return PlanFile.parse(text, str(file))


def write_plan(file: Path, plan_file: PlanFile) -> None:
    """Write a plan into a file, in place of what it has.

    Raises:
        PipelineError: PLAN.NOT_WRITTEN.
    """
    try:
        replace_file(file, plan_file.to_text())
    except OSError as error:
        raise PipelineError("PLAN.NOT_WRITTEN", file=file, reason=error.strerror or type(error).__name__) from error

"""The program text of a pipeline, with what lint finds in it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from headrace.assistant.doctor.facts import ProgramFile
from headrace.errors import raise_all
from headrace.lint.lint_files import lint_text
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files


def program_files(settings: Settings, reading: CarefulReading) -> tuple[ProgramFile, ...]:
    """The files of a pipeline."""
    paths = reading.read("the program text", lambda: source_files(settings), ())
    found = (reading.read(f"the program text of {path.name}", partial(_file, settings, path), None) for path in paths)
    return tuple(file for file in found if file is not None)


def _file(settings: Settings, path: Path) -> ProgramFile:
    text, name = path.read_text(encoding="utf-8-sig"), path.relative_to(settings.root).as_posix()
    result = lint_text(text, path.suffix, name, in_project=True)
    if result.problems and not result.findings:
        # It is listed among what was not examined.
        raise_all(result.problems)
    return ProgramFile(name, text, result.findings, result.secrets)

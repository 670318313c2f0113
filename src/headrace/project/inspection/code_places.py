"""Where the code defines a dataset, by its text: no code runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.programs import is_of, python_definitions
from headrace.assistant.doctor.sql_programs import sql_definitions
from headrace.model.location import Location
from headrace.plan.code_diff import definition_at
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files


@dataclass(frozen=True)
class CodePlace:
    """A definition: where it is, and its text."""

    location: Location
    text: str


def code_places(settings: Settings, name: str) -> tuple[Location, ...]:
    """The places in files of Python and SQL that define a dataset, or flows into it.

    A name that the code computes is not found, nor one in a notebook.

    Args:
        settings: of the project.
        name: of the dataset, with or without catalog and schema.

    Raises:
        Problems: the files of the project cannot be found.
        OSError: a file cannot be read.
        UnicodeDecodeError: a file is not UTF-8.
    """
    return _places(_program_files(settings), name)


def code_texts(settings: Settings, name: str) -> tuple[CodePlace, ...]:
    """The same with the text of each definition. It can contain secrets.

    Raises:
        Problems, OSError, UnicodeDecodeError: as :func:`code_places`.
    """
    files = _program_files(settings)
    texts = {file.name: file.text for file in files}
    return tuple(
        CodePlace(place, definition_at(place.file, texts[place.file], place.line)) for place in _places(files, name)
    )


def _program_files(settings: Settings) -> list[ProgramFile]:
    return [
        ProgramFile(path.relative_to(settings.root).as_posix(), path.read_text(encoding="utf-8-sig"))
        for path in source_files(settings)
    ]


def _places(files: Sequence[ProgramFile], name: str) -> tuple[Location, ...]:
    found = (*python_definitions(files), *sql_definitions(files))
    return tuple(Location(file, line) for dataset, file, line in found if is_of(dataset, name))

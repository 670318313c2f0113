"""Where the code defines a dataset, by its text: no code runs."""

from __future__ import annotations

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.programs import is_of, python_definitions
from headrace.assistant.doctor.sql_programs import sql_definitions
from headrace.model.location import Location
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files


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
    files = [
        ProgramFile(path.relative_to(settings.root).as_posix(), path.read_text(encoding="utf-8-sig"))
        for path in source_files(settings)
    ]
    found = (*python_definitions(files), *sql_definitions(files))
    return tuple(Location(file, line) for dataset, file, line in found if is_of(dataset, name))

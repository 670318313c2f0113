"""Which stored tables and versions a comparison is about; without a session, and without the code of a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.delta_log.readable_versions import VersionRange, version_before_last_change, version_range
from headrace.errors import PipelineError
from headrace.model.names import InvalidName
from headrace.model.table_diff import DiffRequest
from headrace.options.nearest import did_you_mean
from headrace.settings.load import nearest_settings
from headrace.settings.settings import Settings
from headrace.storage.inventory import stored_tables
from headrace.storage.listed_storage import reading_storage
from headrace.storage.view_definitions import view_files

_MOST_VERSIONS = 2


@dataclass(frozen=True)
class VersionToRead:
    """A version of a stored table.

    Attributes:
        settings: of its project.
        name: of the table.
        path: of the table.
        versions: the versions that its log has.
        version: the one to read.
    """

    settings: Settings
    name: str
    path: str
    versions: VersionRange
    version: int


def other_settings(own: Settings, request: DiffRequest, environ: Mapping[str, str]) -> Settings:
    """The settings of the second side's project, as *environ* and its file say.

    Raises:
        PipelineError, Problems: they are missing or wrong.
    """
    if not request.has_other:
        return own
    folder = own.root if request.other_project is None else Path(request.other_project)
    if not folder.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=folder)
    return nearest_settings(folder, profile=request.other_profile, overrides={}, environ=environ)


def versions_to_read(own: Settings, other: Settings, request: DiffRequest) -> tuple[VersionToRead, VersionToRead]:
    """The two versions that a request is about; the second is in the storage of *other*.

    Raises:
        PipelineError: DIFF.UNKNOWN, DIFF.VIEW, DIFF.NO_VERSION, DIFF.VERSION_GONE, DIFF.ONE_VERSION,
            DIFF.THREE_VERSIONS; STORAGE.*.
    """
    if len(request.versions) > _MOST_VERSIONS:
        raise PipelineError("DIFF.THREE_VERSIONS", number=len(request.versions))
    first = _newest(own, request.name)
    second = first if other is own else _newest(other, request.name)
    given = dict(enumerate(request.versions))
    earlier = given.get(0)
    if earlier is None:
        earlier = first.version if request.has_other else _before_last_change(first)
    return _at(first, earlier), _at(second, given.get(1, second.version))


def newest_versions(own: Settings, other: Settings, name: str) -> tuple[VersionToRead, VersionToRead]:
    """The newest versions of a table in two storages.

    Raises:
        PipelineError: DIFF.UNKNOWN, DIFF.VIEW; STORAGE.*.
    """
    return _newest(own, name), _newest(other, name)


def _newest(settings: Settings, text: str) -> VersionToRead:
    with reading_storage(settings.layout):
        tables = {str(name): path for name, path in stored_tables(settings.layout, settings.naming)}
        views = {str(name) for name, _ in view_files(settings.layout, settings.naming)}
        try:
            wanted = str(settings.naming.canonical(text)).casefold()
        except InvalidName:
            wanted = text.casefold()
        name = next((known for known in tables if known.casefold() == wanted), None)
        # A table of an earlier definition may have the name of a view.
        if any(view.casefold() == wanted for view in views):
            raise PipelineError("DIFF.VIEW", name=text)
        if name is None:
            suggestion = did_you_mean(text, sorted(tables)).replace("The pipeline defines", "It has")
            raise PipelineError("DIFF.UNKNOWN", name=text, storage=settings.storage, suggestion=suggestion)
        versions = version_range(tables[name])
        return VersionToRead(settings, name, tables[name], versions, versions.newest)


def _before_last_change(newest: VersionToRead) -> int:
    found = version_before_last_change(newest.path, newest.versions)
    if found is None:
        raise PipelineError("DIFF.ONE_VERSION", name=newest.name, newest=newest.version)
    return found


def _at(newest: VersionToRead, version: int) -> VersionToRead:
    known = newest.versions
    if version > known.newest:
        raise PipelineError(
            "DIFF.NO_VERSION", name=newest.name, version=version, earliest=known.earliest, newest=known.newest
        )
    if version < known.earliest:
        raise PipelineError(
            "DIFF.VERSION_GONE", name=newest.name, version=version, earliest=known.earliest, newest=known.newest
        )
    return VersionToRead(newest.settings, newest.name, newest.path, known, version)

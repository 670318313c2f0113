"""The pipelines that ``system.lakeflow.*`` covers: this one, and others in their own folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from headrace.errors import PipelineError, Problems
from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.reader import EventReader
from headrace.model.liveness import Liveness
from headrace.project.lease_holders import host_name, liveness
from headrace.settings.discover import FAMILIES, find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings


def monitored_pipelines(
    own: Settings, folders: Sequence[str], environ: Mapping[str, str], now: Callable[[], float]
) -> tuple[MonitoredPipeline, ...]:
    """A pipeline and others, each with who holds its lease; one that cannot be read has a problem instead.

    Args:
        own: the settings of the first pipeline.
        folders: folders of projects, or folders whose subfolders are projects.
        environ: the environment variables.
        now: the time of day in seconds.
    """
    found = {own.layout.root: _pipeline(own, environ, now)}
    unreadable: list[MonitoredPipeline] = []
    for folder in folders:
        for project in _projects(Path(folder).absolute()):
            try:
                settings = load_settings(_settings_of(project), environ=environ)
            except (PipelineError, Problems) as error:
                first = error if isinstance(error, PipelineError) else error.errors[0]
                unreadable.append(MonitoredPipeline(str(project), problem=first.message))
                continue
            if settings.layout.root not in found:
                found[settings.layout.root] = _pipeline(settings, environ, now)
    return (*found.values(), *unreadable)


def own_liveness(settings: Settings, environ: Mapping[str, str], now: Callable[[], float]) -> Liveness:
    """Who holds the lease of a pipeline, checked after its event log was read.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    (newest,) = EventReader(settings.layout.events).rows("max(id) AS id", "TRUE", "1") or [{"id": None}]
    return liveness(settings.layout.lease, host_name(environ), now, checked_after=newest["id"])


def _pipeline(settings: Settings, environ: Mapping[str, str], now: Callable[[], float]) -> MonitoredPipeline:
    folder, changed_at = str(settings.root), None
    file = _settings_file(settings.root)
    if file is not None:
        changed_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    identity = (settings.id, settings.name, settings.development, settings.continuous)
    try:
        held = own_liveness(settings, environ, now)
    except PipelineError as error:
        return MonitoredPipeline(folder, *identity, changed_at, problem=error.message)
    log = settings.layout.events if held.checked_after is not None else None
    return MonitoredPipeline(folder, *identity, changed_at, log, liveness=held)


def _projects(folder: Path) -> list[Path]:
    """The folder if it is a project, or the projects in its subfolders; the folder if there are none."""
    if _settings_file(folder) is not None or not folder.is_dir():
        return [folder]
    return [one for one in sorted(folder.iterdir()) if _settings_file(one) is not None] or [folder]


def _settings_of(folder: Path) -> Path:
    if _settings_file(folder) is None:
        raise PipelineError("SETTINGS.NOT_FOUND", start=folder)
    return find_settings(folder)


def _settings_file(folder: Path) -> Path | None:
    return next((folder / name for family in FAMILIES for name in family if (folder / name).is_file()), None)

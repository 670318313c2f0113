"""Checks and creates the folder of a pipeline's storage, and notes there why an update did not start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from headrace.errors import PipelineError, Problems, problems_of
from headrace.model.location import Location
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.refused_update import remove_refusal, write_refusal


def storage_problems(settings: Settings) -> tuple[PipelineError, ...]:
    """Problems that would prevent an update from writing to the storage; creates nothing."""
    storage = Path(settings.storage)
    existing = next(folder for folder in (storage, *storage.parents) if folder.exists())
    if not existing.is_dir():
        reason = f'"{existing}" is not a folder'
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = f'"{existing}" is not writable'
    else:
        return ()
    location = Location(settings.file.name)
    return (PipelineError("STORAGE.UNUSABLE", location=location, path=storage, reason=reason),)


def create_storage(settings: Settings) -> None:
    """Create the storage's folder, and check that it is writable.

    Raises:
        PipelineError: STORAGE.UNUSABLE.
    """
    storage = Path(settings.storage)
    try:
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=storage):
            pass
    except OSError as error:
        raise PipelineError("STORAGE.UNUSABLE", path=storage, reason=error.strerror or error) from error


def record_refusal(settings: Settings, error: PipelineError | Problems) -> None:
    """Store why an update does not start, if there is a storage."""
    file = Path(settings.layout.monitoring(MonitoringFile.REFUSED))
    write_refusal(file, (problem.code for problem in problems_of(error)))


def clear_refusal(settings: Settings) -> None:
    """Forget why an earlier update did not start: one has started."""
    remove_refusal(Path(settings.layout.monitoring(MonitoringFile.REFUSED)))

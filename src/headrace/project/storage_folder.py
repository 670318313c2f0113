"""Checks and creates the folder of a pipeline's storage."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.settings.settings import Settings


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

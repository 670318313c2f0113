"""Checks and creates the folder of a pipeline's storage, and notes there why an update did not start."""

from __future__ import annotations

import os
import tempfile
import uuid
from errno import EOPNOTSUPP
from pathlib import Path

from headrace.errors import PipelineError, Problems, problems_of
from headrace.model.location import Location
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.refused_update import remove_refusal, write_refusal
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import storage_path


def storage_problems(settings: Settings) -> tuple[PipelineError, ...]:
    """Problems that would prevent an update from writing to the storage; creates nothing."""
    storage = storage_path(settings.storage)
    if isinstance(storage, ObjectPath):
        return _object_store_problems(storage, Location(settings.file.name))
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
    storage = storage_path(settings.storage)
    Path(settings.layout.logs).mkdir(parents=True, exist_ok=True)
    try:
        if isinstance(storage, ObjectPath):
            _write_probe(storage)
            return
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=storage):
            pass
    except OSError as error:
        raise PipelineError("STORAGE.UNUSABLE", path=storage, reason=error.strerror or error) from error


def _object_store_problems(storage: ObjectPath, location: Location) -> tuple[PipelineError, ...]:
    """The problem if the bucket cannot be listed."""
    try:
        storage.is_dir()
    except OSError as error:
        return (PipelineError("STORAGE.UNUSABLE", location=location, path=storage, reason=error.strerror or error),)
    return ()


def _write_probe(storage: ObjectPath) -> None:
    """Check that the store refuses to write an object twice, on which all writers depend.

    Raises:
        OSError: nothing can be written, or the store ignores the condition.
    """
    probe = storage / "system" / f"probe-{uuid.uuid4().hex}"
    try:
        written = [probe.store.put_if_absent(probe.key, content) for content in (b"1", b"2")]
    finally:
        probe.unlink()
    if written[0] is None or written[1] is not None:
        raise OSError(EOPNOTSUPP, "the store does not support conditional writes (If-None-Match)")


def record_refusal(settings: Settings, error: PipelineError | Problems) -> None:
    """Store why an update does not start, if there is a storage."""
    file = Path(settings.layout.monitoring(MonitoringFile.REFUSED))
    write_refusal(file, (problem.code for problem in problems_of(error)))


def clear_refusal(settings: Settings) -> None:
    """Forget why an earlier update did not start: one has started."""
    remove_refusal(Path(settings.layout.monitoring(MonitoringFile.REFUSED)))

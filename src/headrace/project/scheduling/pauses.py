"""The schedules that users have paused and resumed. The scheduler reads the file, and other processes write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from headrace.alerts.file_lock import PATIENCE_S, locked
from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.schedules.due import Pause
from headrace.settings.storage import MonitoringFile, StorageLayout
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, storage_path


def read_pauses(file: StoragePath) -> Mapping[str, Pause]:
    """The pauses by the name of the schedule.

    Raises:
        PipelineError: SCHEDULE.STATE_UNREADABLE.
        OSError: the file cannot be read.
    """
    try:
        return _parsed(file, file.read_bytes())
    except FileNotFoundError:
        return {}


def write_pause(file: StoragePath, name: str, pause: Pause) -> None:
    """Pause or resume a schedule.

    Raises:
        PipelineError: SCHEDULE.STATE_UNREADABLE.
        OSError: the file cannot be read or written.
    """
    if not isinstance(file, ObjectPath):
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_name(f"{file.name}.lock"), PATIENCE_S):
            replace_file(file, _text({**read_pauses(file), name: pause}))
        return
    # Again as long as another process writes another pause meanwhile.
    while _put_pause(file, name, pause) is None:
        pass


def pause_schedule(layout: StorageLayout, name: str, at: float, user: str, *, is_paused: bool) -> None:
    """Pause a schedule of a pipeline, or resume it.

    Raises:
        PipelineError: SCHEDULE.STATE_UNREADABLE.
        OSError: the file cannot be read or written.
    """
    write_pause(storage_path(layout.monitoring(MonitoringFile.PAUSES)), name, Pause(is_paused, at, user))


def _put_pause(file: ObjectPath, name: str, pause: Pause) -> str | None:
    """The tag of the written object; None if it has changed meanwhile."""
    try:
        content, tag = file.store.get(file.key)
    except FileNotFoundError:
        return file.store.put_if_absent(file.key, _text({name: pause}).encode(), replaceable=True)
    return file.store.put_if_tag(file.key, _text({**_parsed(file, content), name: pause}).encode(), tag)


def _text(pauses: Mapping[str, Pause]) -> str:
    return json.dumps({name: asdict(pause) for name, pause in pauses.items()}, indent=1, sort_keys=True)


def _parsed(file: StoragePath, content: bytes) -> Mapping[str, Pause]:
    try:
        return {str(name): Pause(**pause) for name, pause in json.loads(content).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PipelineError("SCHEDULE.STATE_UNREADABLE", file=file, reason="it is damaged") from error

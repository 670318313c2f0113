"""The stages in a storage: finds, lists, stores and removes them; and the swap that has begun, if there is one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from headrace.atomic_write import create_file, replace_file
from headrace.errors import PipelineError
from headrace.options.nearest import did_you_mean
from headrace.settings.storage import StorageLayout
from headrace.storage.removal import removal_folder, remove
from headrace.storage.stages.manifest import Stage, Swap
from headrace.stores.paths import StoragePath, sorted_paths, storage_path

_MANIFEST, _SWAPPING = "stage.json", "swapping.json"
# Names of stages are parts of commands and of paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# A store in trouble is asked again: this is an update's first request.
_ATTEMPTS = 3

_Document = TypeVar("_Document")


class Stages:
    """The stages of one storage.

    Args:
        layout: the paths in the storage.
    """

    def __init__(self, layout: StorageLayout) -> None:
        self._layout = layout
        self._folder = storage_path(layout.root) / "system" / "staging"
        self._swapping = self._folder / _SWAPPING

    def storage(self, stage: Stage) -> StoragePath:
        """The storage of a stage, at a path that is new for each stage: Delta caches tables by their paths."""
        return self._folder / stage.name / stage.id

    def all(self) -> tuple[Stage, ...]:
        """All stages that can be read, by name."""
        return tuple(one for one in self._read() if isinstance(one, Stage))

    def problems(self) -> tuple[PipelineError, ...]:
        """Why other stages cannot be read: STAGE.UNREADABLE."""
        return tuple(one for one in self._read() if isinstance(one, PipelineError))

    def find(self, name: str) -> Stage:
        """The stage with a name.

        Raises:
            PipelineError: STAGE.UNKNOWN; STAGE.UNREADABLE.
        """
        for file in self._files():
            if file.parent.name == name:
                return _parsed(file, file.read_text(encoding="utf-8"), Stage.of)
        known = [file.parent.name for file in self._files()]
        raise PipelineError("STAGE.UNKNOWN", stage=name, suggestion=did_you_mean(name, known, "There are"))

    def check_new(self, name: str) -> None:
        """Check that a new stage may have a name.

        Raises:
            PipelineError: STAGE.NAME, STAGE.NAME_TAKEN.
        """
        if not _NAME.fullmatch(name):
            raise PipelineError("STAGE.NAME", name=name)
        if any(file.parent.name.casefold() == name.casefold() for file in self._files()):
            raise PipelineError("STAGE.NAME_TAKEN", stage=name)

    def create(self, stage: Stage) -> None:
        """Store a new stage; whatever a crash has left of an older one must have been removed.

        Raises:
            PipelineError: STAGE.NAME_TAKEN, if another process has stored it meanwhile.
        """
        folder = self._folder / stage.name
        folder.mkdir(parents=True, exist_ok=True)
        if not create_file(folder / _MANIFEST, _text(stage.to_json())):
            raise PipelineError("STAGE.NAME_TAKEN", stage=stage.name)

    def drop(self, name: str) -> None:
        """Remove a stage, or what a crash has left of it; safe to repeat."""
        # First of all: a stage of which files are gone must not be swapped in.
        (self._folder / name / _MANIFEST).unlink(missing_ok=True)
        remove(self._folder / name, removal_folder(self._layout))

    def swap(self) -> Swap | None:
        """The swap that has begun and not ended; None without one.

        Raises:
            PipelineError: STAGE.UNREADABLE; STORAGE.UNUSABLE if the store does not answer.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return _parsed(self._swapping, self._swapping.read_text(encoding="utf-8"), Swap.of)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                if attempt + 1 == _ATTEMPTS:
                    reason = error.strerror or type(error).__name__
                    raise PipelineError("STORAGE.UNUSABLE", path=self._swapping, reason=reason) from error
        return None

    def check_no_swap(self) -> None:
        """Check that no swap has begun.

        Raises:
            PipelineError: STAGE.SWAPPING; as :meth:`swap`.
        """
        swap = self.swap()
        if swap is not None:
            raise PipelineError("STAGE.SWAPPING", stage=swap.stage)

    def begin(self, swap: Swap) -> None:
        """Record that a swap begins; from here on, only its end helps."""
        replace_file(self._swapping, _text(swap.to_json()))

    def end(self) -> None:
        """Record that a swap is finished."""
        self._swapping.unlink(missing_ok=True)

    def _files(self) -> list[StoragePath]:
        return sorted_paths(self._folder.glob(f"*/{_MANIFEST}"))

    def _read(self) -> Iterator[Stage | PipelineError]:
        for file in self._files():
            try:
                yield _parsed(file, file.read_text(encoding="utf-8"), Stage.of)
            except FileNotFoundError:
                # It was removed meanwhile.
                continue
            except PipelineError as error:
                yield error


def _parsed(file: StoragePath, text: str, parse: Callable[[Mapping[str, Any]], _Document]) -> _Document:
    try:
        return parse(json.loads(text))
    except (LookupError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PipelineError("STAGE.UNREADABLE", file=file, reason=reason) from error


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True)

"""The savepoints in a storage: finds, lists, publishes and removes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.options.nearest import did_you_mean
from headrace.settings.storage import StorageLayout
from headrace.storage.removal import removal_folder, remove
from headrace.storage.savepoints.manifest import Savepoint
from headrace.stores.copies import sync_folder
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, on_disk, remove_tree, sorted_paths, storage_path

MANIFEST = "manifest.json"
# What is below the folder of a savepoint: flows, links to the files of tables, and the code; and what each flow has.
FLOWS, PINS, CODE, CHECKPOINT, RECORD = "flows", "tables", "code", "checkpoint", "flow.json"
_DRAFT = ".draft-"
# Names of savepoints are parts of commands; ids have a dash after "sp".
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Savepoints:
    """The savepoints of one storage.

    Args:
        layout: the paths in the storage.
    """

    def __init__(self, layout: StorageLayout) -> None:
        self._layout = layout
        self._folder = storage_path(layout.root) / "savepoints"

    @property
    def restoring_file(self) -> StoragePath:
        """The file that names the savepoint while one is being restored."""
        return self._folder / "restoring.json"

    def folder(self, savepoint: Savepoint) -> StoragePath:
        """The folder of a savepoint."""
        return self._folder / savepoint.id

    def all(self) -> tuple[Savepoint, ...]:
        """All savepoints that can be read, the oldest first."""
        found = [one for one in self._read() if isinstance(one, Savepoint)]
        return tuple(sorted(found, key=lambda savepoint: (savepoint.made_at, savepoint.id)))

    def problems(self) -> tuple[PipelineError, ...]:
        """Why other savepoints cannot be read: SAVEPOINT.UNREADABLE."""
        return tuple(one for one in self._read() if isinstance(one, PipelineError))

    def ids(self) -> tuple[str, ...]:
        """The ids of all savepoints, the newest first, those that cannot be read included; reads none of them."""
        names = {file.parent.name for file in self._folder.glob(f"*/{MANIFEST}")}
        # An id begins with the time.
        return tuple(sorted((name for name in names if not name.startswith(_DRAFT)), reverse=True))

    def read(self, savepoint_id: str) -> Savepoint:
        """The savepoint of an id of :meth:`ids`.

        Raises:
            PipelineError: SAVEPOINT.UNREADABLE.
        """
        return _read(self._folder / savepoint_id / MANIFEST)

    def find(self, name: str) -> Savepoint:
        """The savepoint with an id or a name.

        Raises:
            PipelineError: SAVEPOINT.UNKNOWN; SAVEPOINT.UNREADABLE.
        """
        known = self.all()
        found = next((one for one in known if name in (one.id, one.name) and name), None)
        if found is not None:
            return found
        problem = next((one for one in self.problems() if f"/{name}/" in str(one.params.get("file"))), None)
        names = [one.name or one.id for one in known]
        raise problem or PipelineError("SAVEPOINT.UNKNOWN", savepoint=name, suggestion=did_you_mean(name, names))

    def _read(self) -> Iterator[Savepoint | PipelineError]:
        for file in sorted_paths(self._folder.glob(f"*/{MANIFEST}")):
            if file.parent.name.startswith(_DRAFT):
                continue
            try:
                yield _read(file)
            except PipelineError as error:
                yield error

    def check_name(self, name: str) -> None:
        """Check that a new savepoint may have a name.

        Raises:
            PipelineError: SAVEPOINT.NAME, SAVEPOINT.NAME_TAKEN.
        """
        if not _NAME.fullmatch(name) or name.startswith("sp-"):
            raise PipelineError("SAVEPOINT.NAME", name=name)
        if any(one.name == name for one in self.all()):
            raise PipelineError("SAVEPOINT.NAME_TAKEN", name=name)

    @contextmanager
    def draft(self, savepoint_id: str) -> Iterator[StoragePath]:
        """A folder for the files of a new savepoint, which nothing reads before it is published.

        Removes what a crash left of other drafts: the caller holds the lease. If the body fails, the draft is removed.
        """
        for left in [*self._folder.glob(f"{_DRAFT}*")]:
            remove_tree(left)
        in_store = isinstance(self._folder, ObjectPath)
        # Nothing can be renamed in a store. Without its manifest, a folder is not a savepoint.
        for left in [*self._folder.glob("sp-*")] if in_store else ():
            if not (left / MANIFEST).is_file():
                remove_tree(left)
        folder = self._folder / (savepoint_id if in_store else f"{_DRAFT}{savepoint_id}")
        folder.mkdir(parents=True)
        try:
            yield folder
        except BaseException:
            remove_tree(folder)
            raise

    def publish(self, draft: StoragePath, savepoint: Savepoint) -> None:
        """Make a savepoint of a draft, in one step."""
        replace_file(draft / MANIFEST, json.dumps(savepoint.to_json(), indent=1, sort_keys=True))
        if not isinstance(draft, ObjectPath):
            disk = on_disk(draft, "making a savepoint")
            sync_folder(disk)
            disk.rename(on_disk(self.folder(savepoint), "making a savepoint"))
            sync_folder(disk.parent)

    def drop(self, savepoint: Savepoint) -> None:
        """Remove a savepoint; safe to repeat after a crash."""
        folder = self.folder(savepoint)
        # First of all: a savepoint of which files are gone must not be restored.
        (folder / MANIFEST).unlink(missing_ok=True)
        remove(folder, removal_folder(self._layout))


def _read(file: StoragePath) -> Savepoint:
    try:
        return Savepoint.of(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, LookupError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PipelineError("SAVEPOINT.UNREADABLE", file=file, reason=reason) from error

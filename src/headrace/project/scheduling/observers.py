"""What schedules watch: files, tables, and when datasets were last updated. Nothing here needs Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Protocol

from headrace.autoloader.stores.paths import normalize_path, replace_prefix
from headrace.autoloader.tree import Selection, Tree
from headrace.delta_log.tables import Commit, has_data_changes, newest_version, table_version_or_none
from headrace.events.past_updates import PastUpdate
from headrace.model.outcome import UpdateState
from headrace.schedules.definition import Freshness, When
from headrace.schedules.due import Age, Change

_NO_VERSION = -1


class Observer(Protocol):
    """Watches for one schedule."""

    def look(self, seen: str) -> Change | Age | None:
        """The current contents; None if they cannot be read.

        Args:
            seen: the token with which the schedule last fired; empty for none.

        Raises:
            PipelineError, OSError: a store does not answer.
        """


class FileObserver:
    """Watches a folder: new files, and files that were written again.

    The token is a digest of all files. So a scheduler that has just started finds out that something has changed, but
    not what: files that were deleted meanwhile start an update, which finds nothing to do.
    """

    def __init__(self, path: str, paths: Mapping[str, str], now: Callable[[], float]) -> None:
        self._path = replace_prefix(path, paths)
        self._now = now
        # What was there when the schedule last fired, with its token.
        self._fired: tuple[str, frozenset[int]] | None = None
        self._latest: tuple[str, frozenset[int]] = ("", frozenset())
        self._changed_at = 0.0

    def look(self, seen: str) -> Change:
        """See :class:`Observer`."""
        tree = Tree.of(normalize_path(self._path), Selection())
        # What a file is, as Auto Loader with cloudFiles.allowOverwrites sees it.
        files = frozenset(
            _hash(f"{folder}/{file.name}\n{file.size}\n{file.mtime_ns}") for folder, file in tree.files() if file.size
        )
        token = f"{len(files)}-{sum(files) & (1 << 64) - 1:016x}"
        for found in (self._latest, (token, files)):
            if found[0] == seen:
                self._fired = found
        if token != self._latest[0]:
            self._latest, self._changed_at = (token, files), self._now()
        known = self._fired[1] if self._fired is not None and self._fired[0] == seen else None
        is_new = token != seen and bool(files) and (known is None or not files <= known)
        return Change(token, is_new, self._changed_at)


class TableObserver:
    """Watches Delta tables by the names of the files in their logs, and the commits that are new."""

    def __init__(self, tables: Callable[[], Mapping[str, str]], when: When, now: Callable[[], float]) -> None:
        """Watch tables; *tables* returns their paths by name."""
        self._tables = tables
        self._when = when
        self._now = now
        self._token = ""
        self._changed_at = 0.0
        # By path: the version from which, and the version up to which, no commit changed rows.
        self._unchanged: dict[str, tuple[int, int]] = {}
        # By path: its newest commit, and the id of the table.
        self._ids: dict[str, tuple[Commit, str | None]] = {}

    def look(self, seen: str) -> Change | None:
        """See :class:`Observer`."""
        paths = self._tables()
        if not paths:
            return None
        before = _versions(seen)
        now = {path: self._version(path) for path in paths.values()}
        changed = [self._is_changed(path, before.get(path, (None, _NO_VERSION)), now[path]) for path in now]
        token = json.dumps({path: list(version) for path, version in sorted(now.items())})
        if token != self._token:
            self._token, self._changed_at = token, self._now()
        return Change(token, any(changed) if self._when is When.ANY else all(changed), self._changed_at)

    def _version(self, path: str) -> tuple[str | None, int]:
        """The id and the newest version of a table; without an id if delta-rs cannot open it."""
        version = newest_version(path)
        if version == _NO_VERSION:
            return None, version
        commit = Commit.of(path, version)
        if path not in self._ids or self._ids[path][0] != commit:
            found = table_version_or_none(path)
            self._ids[path] = commit, (None if found is None else found.table_id)
        return self._ids[path][1], version

    def _is_changed(self, path: str, seen: tuple[str | None, int], now: tuple[str | None, int]) -> bool:
        if now[1] == _NO_VERSION or seen == now:
            return False
        if seen[1] == _NO_VERSION or seen[0] != now[0] or now[1] < seen[1]:
            # It is another table now.
            return True
        since, until = self._unchanged.get(path, (seen[1], seen[1]))
        if since != seen[1]:
            until = seen[1]
        if has_data_changes(path, until + 1, now[1]):
            return True
        self._unchanged[path] = (seen[1], now[1])
        return False


class FreshnessObserver:
    """Finds the newest update that has refreshed all datasets of a target."""

    def __init__(self, timing: Freshness, updates: Callable[[], tuple[PastUpdate, ...]]) -> None:
        """Watch; *updates* returns the newest updates, the newest first."""
        self._names = frozenset(timing.targets_s)
        self._updates = updates

    def look(self, seen: str) -> Age:
        """See :class:`Observer`."""
        del seen
        for update in self._updates():
            if update.state is UpdateState.COMPLETED and self._covers(update):
                return Age(update.started_at.timestamp(), update.duration_s or 0.0)
        return Age()

    def _covers(self, update: PastUpdate) -> bool:
        selections = update.created.selections
        selected = {*selections.get("refresh", ()), *selections.get("full_refresh", ())}
        # A selector of a dataset and all above is stored as the datasets that it selects.
        return update.created.is_whole or self._names <= selected


def _hash(text: str) -> int:
    return int.from_bytes(sha256(text.encode(errors="surrogateescape")).digest()[:8], "big")


def _versions(token: str) -> Mapping[str, tuple[str | None, int]]:
    try:
        return {path: (found[0], int(found[1])) for path, found in json.loads(token or "{}").items()}
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        # Another version wrote it: an update finds out what is new.
        return {}

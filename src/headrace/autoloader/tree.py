"""The files below a path that a stream selects, and the folders that contain them."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from headrace.autoloader.globs import PathPattern, path_pattern, single_file_pattern
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stores.store import FoundFile, Store

_NS = 1_000_000_000


@dataclass(frozen=True)
class Selection:
    """Which files below a path are selected, and what identifies a file.

    ``allow_overwrites``: a file with another size or time is another file. ``empty_files``: empty files are selected
    too. Times are nanoseconds since 1970.
    """

    name: re.Pattern[str] | None = None
    ignored: re.Pattern[str] = re.compile(r"[._]")
    after_ns: int | None = None
    before_ns: int | None = None
    max_age_s: float | None = None
    allow_overwrites: bool = False
    empty_files: bool = False

    def admits_name(self, name: str) -> bool:
        """Whether a file of that name is selected."""
        return not self._hidden(name) and (self.name is None or self.name.fullmatch(name) is not None)

    def admits_folder(self, name: str) -> bool:
        """Whether files in a folder of that name are selected; ``_x=1`` is a partition, not a hidden folder."""
        return not self._hidden(name) or (name.startswith("_") and "=" in name)

    def admits_time(self, mtime_ns: int, now_ns: int) -> bool:
        """Whether a file with that modification time is selected."""
        return (
            (self.after_ns is None or mtime_ns > self.after_ns)
            and (self.before_ns is None or mtime_ns < self.before_ns)
            and (self.max_age_s is None or now_ns - mtime_ns <= self.max_age_s * _NS)
        )

    def _hidden(self, name: str) -> bool:
        return self.ignored.match(name) is not None or name.endswith("._COPYING_")


@dataclass(frozen=True)
class Subfolder:
    """A folder inside another folder."""

    path: str
    is_link: bool


class FolderQueue:
    """Folders to list, in this order: the given ones, subfolders that are not links, links."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._plain = deque(folders)
        self._links: list[str] = []

    def add(self, subfolders: Iterable[Subfolder]) -> None:
        """Add folders to list."""
        for found in subfolders:
            if found.is_link:
                heappush(self._links, found.path)
            else:
                self._plain.append(found.path)

    def __iter__(self) -> Iterator[str]:
        while self._plain or self._links:
            yield self._plain.popleft() if self._plain else heappop(self._links)


class FolderIdentities:
    """Chooses one path for each folder that has several paths because of links: the first one that is checked.

    So a link to a folder that is read anyway adds nothing, and a cyclic link ends.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._paths: dict[tuple[int, int, int], str] = {}

    def is_duplicate_path(self, folder: str, identity: tuple[int, int] | None) -> bool:
        """Whether the folder of that identity has another chosen path that still leads to it."""
        if identity is None:
            return False
        key = (*identity, self._tree.level(folder))
        first = self._paths.setdefault(key, folder)
        if first == folder:
            return False
        if self._tree.store.identity(first) == identity:
            return True
        # The first path no longer exists, or is another folder now.
        self._paths[key] = folder
        return False


@dataclass(frozen=True)
class Tree:
    """The files that a path and the options select."""

    pattern: PathPattern
    selection: Selection

    @classmethod
    def of(cls, path: str, selection: Selection) -> Tree:
        """The tree of a path, which may be a single file.

        Raises:
            InvalidGlob: brackets do not match.
        """
        if store_of(path).is_file(path):
            folder, _, name = path.rpartition("/")
            return cls(single_file_pattern(folder or "/", name), selection)
        return cls(path_pattern(path), selection)

    @property
    def base(self) -> str:
        """The folder to start at."""
        return self.pattern.base

    @property
    def store(self) -> Store:
        """The store of the files."""
        return store_of(self.base)

    def has_folder(self, folder: str) -> bool:
        """Whether a folder may contain selected files, at any depth."""
        if folder == self.base:
            return True
        parts = self._parts(folder)
        below = folder.startswith(f"{self.base.rstrip('/')}/")
        return below and self.pattern.admits_folder(parts) and all(map(self.selection.admits_folder, parts))

    @property
    def digest(self) -> str:
        """Equal for trees that select the same files."""
        names = [pattern.pattern for branch in self.pattern.branches for pattern in (*branch, re.compile("/"))]
        chosen = self.selection
        limits = (chosen.name and chosen.name.pattern, chosen.ignored.pattern, chosen.after_ns, chosen.before_ns)
        return hashlib.sha256(repr((self.base, names, limits)).encode()).hexdigest()[:16]

    def _parts(self, folder: str) -> list[str]:
        below = folder[len(self.base) :].strip("/")
        return below.split("/") if below else []

    def file_names(self, folder: str, subfolders: list[Subfolder]) -> Iterator[str]:
        """Yield the names of selected files in a folder; add subfolders that may contain more to *subfolders*.

        Raises:
            PipelineError: ``AUTO_LOADER.UNREADABLE``: the folder, or a selected entry, exists and cannot be read.
        """
        parts = self._parts(folder)
        is_admitted = self._names(parts)
        for entry in self.store.entries(folder):
            name = entry.name
            may_contain_files = self.selection.admits_folder(name) and self.pattern.admits_folder([*parts, name])
            if entry.problem is not None and (may_contain_files or is_admitted(name)):
                raise entry.problem
            if entry.is_folder:
                if may_contain_files:
                    subfolders.append(Subfolder(f"{folder.rstrip('/')}/{name}", is_link=entry.is_link))
            elif is_admitted(name):
                yield name

    def level(self, folder: str) -> int:
        """Equal for folders below which the same names are selected, whatever path leads to them."""
        return min(len(self._parts(folder)), max(map(len, self.pattern.branches)))

    def files(self) -> Iterator[tuple[str, FoundFile]]:
        """Yield every selected file with its folder; files that are deleted meanwhile are skipped."""
        listing = self.store.listing(self.base)
        if listing is not None:
            yield from self._listed(listing)
            return
        stat, folders, identities = self.store.stat, FolderQueue([self.base]), FolderIdentities(self)
        for folder in folders:
            if identities.is_duplicate_path(folder, self.store.identity(folder)):
                continue
            begin, subfolders = folder.rstrip("/") + "/", list[Subfolder]()
            for name in self.file_names(folder, subfolders):
                found = stat(begin + name)
                if found is not None:
                    yield folder, found
            folders.add(subfolders)

    def has_file(self, folder: str, name: str) -> bool:
        """Whether a file of that name in that folder is selected."""
        return self.has_folder(folder) and self._names(self._parts(folder))(name)

    def _listed(self, listing: Iterator[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        names: dict[str, Callable[[str], bool]] = {}
        for folder, file in listing:
            is_admitted = names.get(folder)
            if is_admitted is None:
                is_selected = self.has_folder(folder)
                is_admitted = names[folder] = self._names(self._parts(folder)) if is_selected else _no_name
            if is_admitted(file.name):
                yield folder, file

    def _names(self, parts: list[str]) -> Callable[[str], bool]:
        """Return a test for selected names in the folder of those parts, if that folder is selected."""
        patterns, admits_name = self.pattern.name_patterns(parts), self.selection.admits_name
        if patterns is None:
            return admits_name
        return lambda name: admits_name(name) and any(p.fullmatch(name) for p in patterns)


def _no_name(name: str) -> bool:
    """The test for a folder that is not selected."""
    del name
    return False

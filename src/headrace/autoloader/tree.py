"""The files below a path that a stream means, and the folders that lead to them."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from headrace.autoloader.globs import PathPattern, one_file, path_pattern
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.stores.store import FoundFile, Store

_NS = 1_000_000_000


@dataclass(frozen=True)
class Selection:
    """Which of the files below a path are meant, and what tells one from another.

    ``overwrites``: a file with another size or time is another file. ``empty_files``: one without content counts.
    Times are nanoseconds since 1970.
    """

    name: re.Pattern[str] | None = None
    ignored: re.Pattern[str] = re.compile(r"[._]")
    after_ns: int | None = None
    before_ns: int | None = None
    max_age_s: float | None = None
    overwrites: bool = False
    empty_files: bool = False

    def admits_name(self, name: str) -> bool:
        """Whether a file of that name is meant."""
        return not self._hidden(name) and (self.name is None or self.name.fullmatch(name) is not None)

    def admits_folder(self, name: str) -> bool:
        """Whether files in a folder of that name are meant; ``_x=1`` is a partition and no hidden folder."""
        return not self._hidden(name) or (name.startswith("_") and "=" in name)

    def admits_time(self, mtime_ns: int, now_ns: int) -> bool:
        """Whether a file that was changed then is meant."""
        return (
            (self.after_ns is None or mtime_ns > self.after_ns)
            and (self.before_ns is None or mtime_ns < self.before_ns)
            and (self.max_age_s is None or now_ns - mtime_ns <= self.max_age_s * _NS)
        )

    def _hidden(self, name: str) -> bool:
        return self.ignored.match(name) is not None or name.endswith("._COPYING_")


@dataclass(frozen=True)
class Inner:
    """A folder that was found in another."""

    path: str
    is_link: bool


class FolderQueue:
    """Folders to look into, in this order: those given, those found that are no links, links."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._plain = deque(folders)
        self._links: list[str] = []

    def add(self, inner: Iterable[Inner]) -> None:
        """Look into these as well."""
        for found in inner:
            if found.is_link:
                heappush(self._links, found.path)
            else:
                self._plain.append(found.path)

    def __iter__(self) -> Iterator[str]:
        while self._plain or self._links:
            yield self._plain.popleft() if self._plain else heappop(self._links)


class Places:
    """Which path stands for a folder that links lead to as well: the first that asks.

    So a link to a folder that is read anyway adds nothing, and one that leads back does not go on without end.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._paths: dict[tuple[int, int, int], str] = {}

    def is_second_path(self, folder: str, identity: tuple[int, int] | None) -> bool:
        """Whether another path stands for the folder of that identity, and still leads to it."""
        if identity is None:
            return False
        place = (*identity, self._tree.level(folder))
        first = self._paths.setdefault(place, folder)
        if first == folder:
            return False
        if self._tree.store.identity(first) == identity:
            return True
        # The first one has gone, or is another folder by now.
        self._paths[place] = folder
        return False


@dataclass(frozen=True)
class Tree:
    """What a path means, with what the options leave out."""

    pattern: PathPattern
    selection: Selection

    @classmethod
    def of(cls, path: str, selection: Selection) -> Tree:
        """The tree behind a path, which may mean one file.

        Raises:
            InvalidGlob: brackets do not match.
        """
        if store_of(path).is_file(path):
            folder, _, name = path.rpartition("/")
            return cls(one_file(folder or "/", name), selection)
        return cls(path_pattern(path), selection)

    @property
    def base(self) -> str:
        """The folder to begin at."""
        return self.pattern.base

    @property
    def store(self) -> Store:
        """Where the files lie."""
        return store_of(self.base)

    def has_folder(self, folder: str) -> bool:
        """Whether files that are meant may lie in or below a folder."""
        if folder == self.base:
            return True
        parts = self._parts(folder)
        below = folder.startswith(f"{self.base.rstrip('/')}/")
        return below and self.pattern.admits_folder(parts) and all(map(self.selection.admits_folder, parts))

    @property
    def digest(self) -> str:
        """Equal for trees that mean the same files."""
        names = [pattern.pattern for branch in self.pattern.branches for pattern in (*branch, re.compile("/"))]
        chosen = self.selection
        limits = (chosen.name and chosen.name.pattern, chosen.ignored.pattern, chosen.after_ns, chosen.before_ns)
        return hashlib.sha256(repr((self.base, names, limits)).encode()).hexdigest()[:16]

    def _parts(self, folder: str) -> list[str]:
        below = folder[len(self.base) :].strip("/")
        return below.split("/") if below else []

    def names_in(self, folder: str, inner: list[Inner]) -> Iterator[str]:
        """Names of the files of a folder that are meant; folders in it that lead to more are added to *inner*.

        Raises:
            PipelineError: ``AUTO_LOADER.UNREADABLE``: the folder, or what a name in it that is meant stands for, is
                there and cannot be looked at.
        """
        parts = self._parts(folder)
        admitted = self._names(parts)
        for entry in self.store.entries(folder):
            name = entry.name
            leads = self.selection.admits_folder(name) and self.pattern.admits_folder([*parts, name])
            if entry.problem is not None and (leads or admitted(name)):
                raise entry.problem
            if entry.is_folder:
                if leads:
                    inner.append(Inner(f"{folder.rstrip('/')}/{name}", is_link=entry.is_link))
            elif admitted(name):
                yield name

    def level(self, folder: str) -> int:
        """Equal for folders below which the same names are meant, whatever path leads to them."""
        return min(len(self._parts(folder)), max(map(len, self.pattern.branches)))

    def files(self) -> Iterator[tuple[str, FoundFile]]:
        """Every file that is meant, with its folder; those that go meanwhile are left out."""
        listing = self.store.listing(self.base)
        if listing is not None:
            yield from self._listed(listing)
            return
        stat, folders, places = self.store.stat, FolderQueue([self.base]), Places(self)
        for folder in folders:
            if places.is_second_path(folder, self.store.identity(folder)):
                continue
            begin, inner = folder.rstrip("/") + "/", list[Inner]()
            for name in self.names_in(folder, inner):
                found = stat(begin + name)
                if found is not None:
                    yield folder, found
            folders.add(inner)

    def has_file(self, folder: str, name: str) -> bool:
        """Whether a file of that name, in that folder, is meant."""
        return self.has_folder(folder) and self._names(self._parts(folder))(name)

    def _listed(self, listing: Iterator[tuple[str, FoundFile]]) -> Iterator[tuple[str, FoundFile]]:
        names: dict[str, Callable[[str], bool]] = {}
        for folder, file in listing:
            admitted = names.get(folder)
            if admitted is None:
                through = self.has_folder(folder)
                admitted = names[folder] = self._names(self._parts(folder)) if through else _no_name
            if admitted(file.name):
                yield folder, file

    def _names(self, parts: list[str]) -> Callable[[str], bool]:
        """Whether a name in the folder of those parts is meant, supposing that the folder is."""
        patterns, admits_name = self.pattern.names_admitted(parts), self.selection.admits_name
        if patterns is None:
            return admits_name
        return lambda name: admits_name(name) and any(p.fullmatch(name) for p in patterns)


def _no_name(name: str) -> bool:
    """Of a folder that leads to nothing."""
    del name
    return False

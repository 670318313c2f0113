"""The files below a path on a local disk that a stream means, and the folders that lead to them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.autoloader.globs import PathPattern, one_file, path_pattern
from headrace.errors import PipelineError

_NS = 1_000_000_000


@dataclass(frozen=True)
class FoundFile:
    """A name in a folder, with its bytes and the nanoseconds of its last change."""

    name: str
    size: int
    mtime_ns: int


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
        whole = Path(path)
        if whole.is_file():
            return cls(one_file(str(whole.parent), whole.name), selection)
        return cls(path_pattern(path), selection)

    @property
    def base(self) -> str:
        """The folder to begin at."""
        return self.pattern.base

    def has_folder(self, folder: str) -> bool:
        """Whether files that are meant may lie in or below a folder."""
        if folder == self.base:
            return True
        return folder.startswith(f"{self.base.rstrip('/')}/") and self.pattern.admits_folder(self._parts(folder))

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

    def names_in(self, folder: str, inner: list[str]) -> Iterator[str]:
        """Names of the files of a folder that are meant; folders in it that lead to more are added to *inner*."""
        parts = self._parts(folder)
        patterns, admits_name = self.pattern.names_admitted(parts), self.selection.admits_name
        try:
            entries = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError):
            # Gone meanwhile, or a file by now.
            return
        with entries:
            for entry in entries:
                name = entry.name
                if _is_folder(entry):
                    admitted = self.selection.admits_folder(name) and self.pattern.admits_folder([*parts, name])
                    if admitted and not _leads_up(entry):
                        inner.append(_text(entry.path, folder))
                elif admits_name(name) and (patterns is None or any(p.fullmatch(name) for p in patterns)):
                    yield _text(name, folder)

    def files(self) -> Iterator[tuple[str, FoundFile]]:
        """Every file that is meant, with its folder; those that go meanwhile are left out."""
        pending = [self.base]
        while pending:
            folder = pending.pop()
            for name in self.names_in(folder, pending):
                found = stat_of(folder, name)
                if found is not None:
                    yield folder, found


def stat_of(folder: str, name: str) -> FoundFile | None:
    """What a name in a folder stands for now; None when it has gone."""
    try:
        found = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - for each of a million files
    except OSError:
        # Gone, or a link that leads nowhere.
        return None
    return FoundFile(name, found.st_size, found.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads nowhere.
        return False


def _text(name: str, folder: str) -> str:
    """The name; the ledger holds text, and a name that is none would be missed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise PipelineError("AUTO_LOADER.FILE_NAME", name=repr(os.fsencode(name)), folder=folder) from None
    return name


def _leads_up(entry: os.DirEntry[str]) -> bool:
    """Whether a link leads to a folder that it lies in, and following it would never end."""
    return entry.is_symlink() and Path(entry.path).absolute().is_relative_to(Path(entry.path).resolve())

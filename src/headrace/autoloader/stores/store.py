"""What Auto Loader needs of a place where files lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from headrace.errors import PipelineError


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A name in a folder, with its bytes and the nanoseconds of its last change."""

    name: str
    size: int
    mtime_ns: int


class Entry(NamedTuple):
    """A name in a folder; ``problem`` says why it cannot be told what stands behind it."""

    name: str
    is_folder: bool
    is_link: bool = False
    problem: PipelineError | None = None


class Store(Protocol):
    """Files and folders by their paths.

    What asks about them raises PipelineError where the store does not answer; what reads or changes one, OSError.
    """

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        ...

    def stat(self, path: str) -> FoundFile | None:
        """The file as it is now; None when it has gone, or is no file with contents (a folder, a named pipe)."""
        ...

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """All files below a folder, each with its own folder; None where folders are listed one by one."""
        ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """The names in a folder; nothing of a folder that has gone."""
        ...

    def identity(self, folder: str) -> tuple[int, int] | None:
        """What all paths of one folder have in common; None where a folder has one path, or has gone."""
        ...

    def opened(self, path: str) -> BinaryIO:
        """The file, to be read from any place in it; FileNotFoundError when it has gone."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file within the store, to a path that nothing has; FileExistsError when something has."""
        ...

    def uri(self, path: str) -> str:
        """The path as Spark writes it in ``_metadata.file_path``."""
        ...

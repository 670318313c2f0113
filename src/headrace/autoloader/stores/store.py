"""The interface of a file store, as Auto Loader needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from headrace.errors import PipelineError


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file name in a folder, with its size in bytes and modification time in nanoseconds."""

    name: str
    size: int
    mtime_ns: int


class Entry(NamedTuple):
    """An entry of a folder; ``problem`` is the error if its type cannot be read."""

    name: str
    is_folder: bool
    is_link: bool = False
    problem: PipelineError | None = None


class Store(Protocol):
    """Files and folders by path.

    Queries raise PipelineError if the store does not answer; reads and changes raise OSError.
    """

    def is_file(self, path: str) -> bool:
        """Whether the path is a file."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        ...

    def stat(self, path: str) -> FoundFile | None:
        """The file's current state; None if it does not exist or is not a regular file (a folder, a named pipe)."""
        ...

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """Yield all files below a folder, each with its folder; None if folders are listed one by one."""
        ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder; none if it does not exist."""
        ...

    def identity(self, folder: str) -> tuple[int, int] | None:
        """A value that all paths of one folder share; None if folders have one path, or it does not exist."""
        ...

    def open_binary(self, path: str) -> BinaryIO:
        """Open the file for random access; FileNotFoundError if it does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file within the store; FileExistsError if the target exists."""
        ...

    def uri(self, path: str) -> str:
        """The path as Spark's URI in ``_metadata.file_path``."""
        ...

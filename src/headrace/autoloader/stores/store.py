"""What Auto Loader needs of a place where files lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A name in a folder, with its bytes and the nanoseconds of its last change."""

    name: str
    size: int
    mtime_ns: int


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
        """The file as it is now; None when it has gone, or cannot be looked at."""
        ...

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """All files below a folder, each with its own folder; None where folders are listed one by one."""
        ...

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """The names in a folder, and which of them are folders; nothing of a folder that has gone."""
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

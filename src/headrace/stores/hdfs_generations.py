"""Objects of HDFS that are replaced only if they are still what was read: folders of numbered files.

A writer creates the number after the one that it has read, and of several writers one succeeds.
"""

from __future__ import annotations

import re

from headrace.stores.hdfs_files import HdfsFile, HdfsFiles

_NAME = re.compile(r"generation-(\d{12})")
# How many generations stay. A number that was deleted is free again: a writer that has read it long ago can take it,
# and then finds that so many later ones exist.
KEPT_GENERATIONS = 32


class Generations:
    """The generations of objects.

    Args:
        files: of the NameNode.
    """

    def __init__(self, files: HdfsFiles) -> None:
        self._files = files

    def newest(self, folder: str) -> tuple[int, HdfsFile | None]:
        """The largest number in a folder, and its file; 0 for none."""
        return max(self._all(folder).items(), default=(0, None))

    def append(self, folder: str, content: bytes, number: int) -> bool:
        """Write a generation; False if another writer was first.

        Law: of all writers of one number, at most one gets True, also if the number was deleted since. Nobody does if
        as many others as stay are written before this returns.
        """
        file = f"{folder}/generation-{number:012}"
        if not self._files.put(self._files.draft(file, content), file, replaces=False):
            return False
        found = self._all(folder)
        if max(found, default=number) >= number + KEPT_GENERATIONS:
            self._files.delete(file)
            return False
        for old, generation in found.items():
            if old <= number - KEPT_GENERATIONS:
                self._files.delete(generation.path)
        return True

    def _all(self, folder: str) -> dict[int, HdfsFile]:
        named = ((_NAME.fullmatch(one.name), one) for one in self._files.entries(folder))
        return {int(name[1]): one for name, one in named if name is not None}

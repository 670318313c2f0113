"""``badRecordsPath``: records and files that cannot be read, kept in files of JSON lines instead of rows.

They lie as on the vendor's page "Handle bad records and files": ``<path>/<time>/bad_records/part-...`` with ``path``,
``record`` and ``reason`` on each line, ``<path>/<time>/bad_files/part-...`` with ``path`` and ``reason``. A part of a
file that is read again writes the same file again.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

if TYPE_CHECKING:
    from typing import Self

RECORDS, FILES = "bad_records", "bad_files"


class BadRecords:
    """The records of one part of a file that cannot be read; written when the part has been read."""

    def __init__(self, folder: str | None, split: Split) -> None:
        self._folder = folder
        self._split = split
        self._lines: list[str] = []

    @classmethod
    def of(cls, plan: ReadPlan, split: Split) -> BadRecords:
        """Where the records of a part go by a plan; nowhere when there is no such folder."""
        return cls(plan.bad_records, split)

    def takes(self, record: str, reason: str) -> bool:
        """Keep a record; False when there is no place for it."""
        if self._folder is None:
            return False
        self._lines.append(_line(path=self._split.path, record=record, reason=reason))
        return True

    def takes_file(self, reason: str) -> bool:
        """Note that the file cannot be read; False when there is no place for that."""
        if self._folder is None:
            return False
        _write(Path(self._folder, FILES), self._split, [_line(path=self._split.path, reason=reason)])
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._folder is not None and self._lines:
            _write(Path(self._folder, RECORDS), self._split, self._lines)


def _line(**members: str) -> str:
    return json.dumps(members, ensure_ascii=False)


def _write(folder: Path, split: Split, lines: list[str]) -> None:
    # The same part has the same name, so that a task that is run again does not write its records twice.
    name = f"part-{sha256(f'{split.path}:{split.start}:{split.mtime_ns}'.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / f".{name}.{os.getpid()}"
    whole.write_text("\n".join(lines) + "\n", encoding="utf-8")
    whole.replace(folder / name)

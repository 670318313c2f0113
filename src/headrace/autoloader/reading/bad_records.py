"""``badRecordsPath``: write records and files that cannot be read to JSON lines files instead of rows.

The layout is that of the vendor's page "Handle bad records and files": ``<path>/<time>/bad_records/part-...`` with
``path``, ``record`` and ``reason`` on each line, ``<path>/<time>/bad_files/part-...`` with ``path`` and ``reason``. A
split that is read again writes the same file again.
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
    """Collects the bad records of one split; writes them when the split has been read."""

    def __init__(self, folder: str | None, split: Split) -> None:
        self._folder = folder
        self._split = split
        self._lines: list[str] = []

    @classmethod
    def of(cls, plan: ReadPlan, split: Split) -> BadRecords:
        """The bad records of a split; the plan may have no folder for them."""
        return cls(plan.bad_records, split)

    def add(self, record: str, reason: str) -> bool:
        """Add a record; False if there is no folder for it."""
        if self._folder is None:
            return False
        self._lines.append(_line(path=self._split.path, record=record, reason=reason))
        return True

    def add_file(self, reason: str) -> bool:
        """Record that the file cannot be read; False if there is no folder for that."""
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
    # The name depends only on the split, so that a retried task does not write its records twice.
    name = f"part-{sha256(f'{split.path}:{split.start}:{split.mtime_ns}'.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.{os.getpid()}"
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(folder / name)

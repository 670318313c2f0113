"""What a scenario is made of. A new one is one file in ``scenarios`` with a constant ``SCENARIO``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Step:
    """One process of a contestant: a command of words, run in the contestant's empty folder.

    A cold step is measured from outside, the start of Python and of the JVM included. Another one prints what it
    measured, lines ``measured <seconds>``, or ``measured <number> <of what>`` where it measures several things.
    """

    measure: str
    command: tuple[str, ...]
    cold: bool = True


@dataclass(frozen=True)
class Contestant:
    """Somebody who does the work of a scenario, step by step in one folder.

    Args:
        name: how the tables call it.
        prepare: writes what the steps need into the folder; gets the folder of the data, too.
        steps: gets both folders.
        rows: all rows that it has written so far, looked at after each step; steps after the first add none.
        absent: why it cannot take part here, or None.
    """

    name: str
    prepare: Callable[[Path, Path], None]
    steps: Callable[[Path, Path], Sequence[Step]]
    rows: Callable[[Path], int]
    absent: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Scenario:
    """Work that several contestants do; ``base`` is the one that the others are compared with."""

    about: str
    rows: int
    make_data: Callable[[Path, int], None]
    expected_rows: Callable[[int], int]
    contestants: tuple[Contestant, ...]
    base: str = "headrace"


def rows_of_each(tables: Iterable[Path]) -> int:
    """The number of rows that each of some Delta tables has, which were made of the same events.

    Raises:
        ValueError: they have not the same number.
    """
    from deltalake import DeltaTable  # noqa: PLC0415 - processes that are measured import this module too

    counts = {int(DeltaTable(str(table)).count()) for table in tables}
    if len(counts) != 1:
        raise ValueError(f"tables of the same events have {sorted(counts)} rows")
    return counts.pop()


def environment() -> dict[str, str]:
    """What every process gets: the same machine, the same memory, no network name to wait for."""
    path = os.pathsep.join(filter(None, (str(BENCH), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def program(name: str) -> str:
    """A console script of this Python environment."""
    return str(Path(sys.executable).parent / name)

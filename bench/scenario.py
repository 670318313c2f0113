"""The parts of a scenario. A new scenario is one file in ``scenarios`` with a constant ``SCENARIO``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Step:
    """One process of a contestant: a command, run in the contestant's empty folder.

    A cold step is timed from outside, including the start of Python and of the JVM. Any other step prints its own
    measurements: lines ``measured <seconds>``, or ``measured <number> <of what>`` if it measures several things.
    """

    measure: str
    command: tuple[str, ...]
    cold: bool = True


@dataclass(frozen=True)
class Contestant:
    """A competitor that does the work of a scenario, step by step in one folder.

    Args:
        name: its name in the tables.
        prepare: writes the input of the steps into the folder; gets the work folder and the data folder.
        steps: the steps; gets the same two folders.
        rows: the number of rows written so far, checked after each step; steps after the first add none.
        absent: the reason why it cannot run here, or None.
    """

    name: str
    prepare: Callable[[Path, Path], None]
    steps: Callable[[Path, Path], Sequence[Step]]
    rows: Callable[[Path], int]
    absent: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Scenario:
    """Work that several contestants do.

    ``base`` is the contestant the others are compared with, ``repeats`` the number of rounds if no other is asked for.
    """

    about: str
    rows: int
    make_data: Callable[[Path, int], None]
    expected_rows: Callable[[int], int]
    contestants: tuple[Contestant, ...]
    base: str = "headrace"
    repeats: int = 5


def rows_of_each(tables: Iterable[Path]) -> int:
    """The number of rows of each of several Delta tables that hold the same events.

    Raises:
        ValueError: their numbers of rows differ.
    """
    from deltalake import DeltaTable  # noqa: PLC0415 - measured processes import this module too

    counts = {int(DeltaTable(str(table)).count()) for table in tables}
    if len(counts) != 1:
        raise ValueError(f"tables of the same events have {sorted(counts)} rows")
    return counts.pop()


def environment() -> dict[str, str]:
    """The environment of every process; a fixed local address avoids waiting for name resolution."""
    path = os.pathsep.join(filter(None, (str(BENCH), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def program(name: str) -> str:
    """A console script of this Python environment."""
    return str(Path(sys.executable).parent / name)

"""Two thousand batches of a thousand rows into one Delta table: whether the last batches are as fast as the first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from deltalake import DeltaTable
from scenario import Contestant, Scenario, Step

BATCHES = 2000
_ROWS_A_BATCH = 1000


def _steps(_work: Path, _data: Path) -> Sequence[Step]:
    program = Path(__file__).with_name("small_batches.py")
    return (Step("", (sys.executable, str(program), "headrace", str(BATCHES)), cold=False),)


SCENARIO = Scenario(
    about=f"{BATCHES:,} batches of {_ROWS_A_BATCH:,} rows into one Delta table",
    rows=_ROWS_A_BATCH,
    make_data=lambda _folder, _rows: None,
    expected_rows=lambda _rows: 0,
    contestants=(
        Contestant(
            "headrace",
            prepare=lambda _work, _data: None,
            steps=_steps,
            rows=lambda work: (
                DeltaTable(str(work / "storage" / "tables" / "default" / "events")).count() % _ROWS_A_BATCH
            ),
        ),
    ),
)

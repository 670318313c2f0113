"""What the pipeline's tables must hold, worked out a second time: by DuckDB, from the files that landed.

Nothing is shared with the pipeline but those files. DuckDB reads them with its own JSON parser, judges them by rules
written anew (oracle.sql), and sees all of them at once, where the pipeline sees them an instalment at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa
from ledger import HISTORIES

GOLD = (
    "delay_by_carrier_hour",
    "busiest_routes",
    "delay_by_visibility",
    "departures_by_hour",
    "delay_away_from_home",
)
COMPARED = (*HISTORIES, *GOLD)
"""The tables that :meth:`Oracle.compare` knows."""


@dataclass(frozen=True)
class Difference:
    """Rows that only one side has; false when there are none: the tables are equal to the row."""

    missing: tuple[tuple[Any, ...], ...]
    unexpected: tuple[tuple[Any, ...], ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


class Oracle:
    """Answers for the files below a landing folder as they are now; close it, or use it in a ``with``.

    *repaired* says that flights which arrived a day early were mended.
    """

    def __init__(self, landing: Path, *, repaired: bool = False) -> None:
        self._duck = duckdb.connect()
        self._duck.execute("SET VARIABLE landing = $1", [str(landing)])
        self._duck.execute("SET VARIABLE repaired = $1", [repaired])
        self._duck.execute(Path(__file__).with_name("oracle.sql").read_text(encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the memory."""
        self._duck.close()

    def landed(self) -> int:
        """How many lines landed."""
        return int(self._rows("SELECT count(*) FROM landed")[0][0])

    def unique_flights(self) -> int:
        """How many flights are left in silver when each counts once."""
        return int(self._rows("SELECT count(*) FROM unique_flights")[0][0])

    def fates(self) -> dict[str, int]:
        """How many lines are ``written``, ``dropped`` and ``quarantined``."""
        return dict(self._rows("SELECT fate, count(*) FROM judged GROUP BY fate"))

    def broken(self) -> dict[str, int]:
        """How many lines break each rule of silver."""
        return dict(self._rows("SELECT rule, failed FROM broken"))

    def compare(self, table: str, rows: pa.Table) -> Difference:
        """What is different between *rows* and what the table *table* must hold, whatever the order.

        Raises:
            ValueError: none of the tables that are compared.
        """
        if table not in COMPARED:
            raise ValueError(f'"{table}" is not one of {", ".join(COMPARED)}')
        columns = ", ".join(self._duck.table(table).columns)
        self._duck.register("actual_rows", _in_utc(rows))
        expected = f"SELECT {columns} FROM {table}"  # noqa: S608 - both from oracle.sql
        actual = f"SELECT {columns} FROM actual_rows"  # noqa: S608 - the same
        return Difference(
            missing=self._rows(f"({expected}) EXCEPT ALL ({actual})"),
            unexpected=self._rows(f"({actual}) EXCEPT ALL ({expected})"),
        )

    def _rows(self, query: str) -> tuple[tuple[Any, ...], ...]:
        return tuple(self._duck.execute(query).fetchall())


def _in_utc(rows: pa.Table) -> pa.Table:
    """The same moments as plain timestamps in UTC, which is how DuckDB reads them from the feed."""
    fields = [
        field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))

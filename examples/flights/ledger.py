"""The demo's book-keeping: what came in equals what was written, dropped and quarantined, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faults import Fault
from landing import Landed

from headrace.model.outcome import FlowCounts, Outcome

NOTHING = FlowCounts()
HISTORIES = ("plane_history", "airline_history")
"""The tables that change events are merged into."""


@dataclass(frozen=True)
class Entry:
    """An amount, and the parts that it should be the sum of."""

    what: str
    amount: int
    parts: Mapping[str, int]

    @property
    def holds(self) -> bool:
        """True when the parts add up to the amount."""
        return self.amount == sum(self.parts.values())


def entries_of(landed: Landed, outcome: Outcome) -> list[Entry]:
    """What must hold after the update that followed an instalment, and nothing else."""
    counts = counts_by_flow([outcome])
    bronze = counts.get("flights_raw", NOTHING)
    silver = counts.get("flights", NOTHING)
    unique = counts.get("unique_flights", NOTHING)
    planes, airlines = (counts.get(name, NOTHING) for name in HISTORIES)
    return [
        Entry("landed", landed.records, {"in bronze": bronze.rows_written}),
        Entry(
            "bronze",
            bronze.rows_written,
            {
                "in silver": silver.rows_written,
                "dropped": silver.rows_dropped,
                "quarantined": silver.rows_quarantined,
            },
        ),
        Entry(
            "faulty",
            landed.malformed + landed.impossible,
            {"dropped": silver.rows_dropped, "quarantined": silver.rows_quarantined},
        ),
        # That nothing else is missing also says that no late record was lost.
        Entry(
            "silver",
            silver.rows_written,
            {"unique": unique.rows_written, "landed twice": landed.faults[Fault.DUPLICATE]},
        ),
        # Late and repeated ones included: each is merged, and what it does to the history is up to its sequence.
        Entry(
            "changes",
            sum(told.events for told in landed.changes.values()),
            {"merged into planes": planes.rows_written, "into airlines": airlines.rows_written},
        ),
    ]


def entries_of_repair(landed: Sequence[Landed], outcome: Outcome, waiting: int, early: int) -> list[Entry]:
    """What must hold after flights that arrived a day early were mended and replayed.

    Args:
        landed: every instalment.
        outcome: of the replay.
        waiting: how many rows are in quarantine still.
        early: how many rows went into the replay.
    """
    silver = counts_by_flow([outcome]).get("flights", NOTHING)
    faulty = sum(part.malformed + part.impossible - part.faults[Fault.NO_CARRIER] for part in landed)
    return [
        Entry("replayed", early, {"mended": silver.rows_written, "in quarantine again": silver.rows_quarantined}),
        Entry("quarantine", faulty, {"mended": silver.rows_written, "in quarantine still": waiting}),
    ]


def counts_by_flow(outcomes: Iterable[Outcome]) -> dict[str, FlowCounts]:
    """The rows of each flow over several updates."""
    total: dict[str, FlowCounts] = {}
    for outcome in outcomes:
        for flow in outcome.flows:
            total[flow.flow] = total.get(flow.flow, NOTHING).plus(flow.counts)
    return total


def entries_of_tables(
    landed: Sequence[Landed], outcomes: Sequence[Outcome], rows: Mapping[str, int], waiting: int
) -> list[Entry]:
    """What must hold in the end between the tables themselves and all instalments together.

    Args:
        landed: every instalment.
        outcomes: every update that followed one.
        rows: how many rows each table holds.
        waiting: how many rows are in quarantine and have not been replayed.
    """
    silver = counts_by_flow(outcomes).get("flights", NOTHING)
    return [
        Entry(
            "flights_raw",
            rows["flights_raw"],
            {f"no. {part.instalment}": part.records for part in landed},
        ),
        Entry(
            "flights_raw",
            rows["flights_raw"],
            {
                "in flights": rows["flights"],
                "dropped": silver.rows_dropped,
                "in quarantine": waiting,
            },
        ),
        Entry(
            "flights",
            rows["flights"],
            {
                "in unique_flights": rows["unique_flights"],
                "landed twice": sum(part.faults[Fault.DUPLICATE] for part in landed),
            },
        ),
    ]

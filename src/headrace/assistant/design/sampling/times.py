"""Measures columns as event times: how many values are times, in which order, and how late."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.assistant.design.sampling.sample import Sample, TimeMeasure
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.datetime_columns import NotVectorised, parse_timestamps
from headrace.model.ddl import JsonType
from headrace.model.lateness import Lateness

# The share of values that must be times.
_LEAST_PARSED = 0.99
# Below it, a column has some dates in texts, and is no candidate.
_LEAST_DATES = 0.5
_DATE = r"^\s*\d{4}-\d{1,2}-\d{1,2}(\D|$)"
_ZONE = "UTC"
_MICROS = 1_000_000
_DAY_S = 86_400
_MOMENT = pa.timestamp("us", tz=_ZONE)
# Seconds from 2000 to 2040.
_FIRST_S, _LAST_S = 946_684_800, 2_208_988_800
_WHOLE = ("integer", "long")


def is_time_column(time: TimeMeasure) -> bool:
    """Whether nearly all values of a column are times."""
    return time.parsed >= _LEAST_PARSED


def measure_times(sample: Sample, name: str, dropped_share: float) -> TimeMeasure | None:
    """A column as event time; None if it holds something else."""
    kind, values = sample.types[name], sample.table[name]
    present = values.drop_null()
    if not len(present):
        return None
    if kind == "string":
        dates = pc.sum(pc.match_substring_regex(present, _DATE)).as_py() or 0
        if dates < _LEAST_DATES * len(present):
            return None
        times = _parsed(present)
    elif kind in ("timestamp", "timestamp_ntz"):
        times = present.cast(pa.int64()).to_numpy()
    else:
        return None
    return _time_measure(sample, name, times, len(present), dropped_share)


def epoch_unit(values: pa.ChunkedArray, kind: JsonType) -> str | None:
    """The unit of numbers that look like times of this century, such as ``seconds``; None if they do not."""
    present = values.drop_null()
    if kind not in _WHOLE or not len(present):
        return None
    bounds = pc.min_max(present).as_py()
    for unit, per_second in (("seconds", 1), ("milliseconds", 1000), ("microseconds", 1_000_000)):
        if _FIRST_S * per_second <= bounds["min"] and bounds["max"] < _LAST_S * per_second:
            return unit
    return None


def _parsed(texts: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The times of those texts that are timestamps, in microseconds since 1970."""
    array = pa.concat_arrays(texts.chunks)
    try:
        moments = parse_timestamps(array, _ZONE)
    except NotVectorised:
        parser = Times.of(_ZONE, {})
        read: Callable[[str], object] = parser.parse_timestamp
        moments = pa.array([read(text) for text in array.to_pylist() if parser.is_timestamp(text)], _MOMENT)
    return np.asarray(moments.cast(pa.int64()))


def _time_measure(
    sample: Sample, name: str, times: npt.NDArray[np.int64], values: int, dropped_share: float
) -> TimeMeasure:
    parsed = len(times) / values
    is_ahead = times > int((sample.now_s + _DAY_S) * _MICROS)
    times = times[~is_ahead]
    ordered = float(np.mean(times[1:] >= times[:-1])) if len(times) > 1 else 1.0
    span_s = float(times.max() - times.min()) / _MICROS if len(times) else 0.0
    return TimeMeasure(parsed, ordered, int(is_ahead.sum()), span_s, _lateness(sample, name, times, dropped_share))


def _lateness(sample: Sample, name: str, times: npt.NDArray[np.int64], dropped_share: float) -> Lateness:
    """How far each time is behind the newest one before it."""
    newest_before = np.maximum.accumulate(times)[:-1]
    behind_s = np.ceil((newest_before - times[1:]) / _MICROS)
    late_s, counts = np.unique(behind_s[behind_s > 0], return_counts=True)
    return Lateness(
        table="the sample",
        column=name,
        commits=sample.files,
        skipped_commits=0,
        rows=len(times),
        without_time=sample.table[name].null_count,
        late={float(seconds): int(count) for seconds, count in zip(late_s, counts, strict=True)},
        dropped_share=dropped_share,
        compared=int(len(times) > 1),
    )

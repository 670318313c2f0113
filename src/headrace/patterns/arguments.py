"""Check the arguments of patterns before Spark sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.model.names import quoted
from headrace.model.triggers import InvalidInterval, parse_interval_s

# Metadata key of a column with a watermark (Spark's EventTimeWatermark.delayKey).
_DELAY = "spark.watermarkDelayMs"
_TIMES = ("timestamp", "timestamp_ntz")


def check_columns(pattern: str, events: DataFrame, given: str | Sequence[str]) -> list[str]:
    """Check that columns exist, and return their names as a list.

    Raises:
        PipelineError: PATTERN.UNKNOWN_COLUMN, PATTERN.NO_KEY.
    """
    found = [given] if isinstance(given, str) else list(given)
    if not found:
        raise PipelineError("PATTERN.NO_KEY", pattern=pattern)
    known = {name.casefold() for name in events.columns}
    missing = [name for name in found if name.casefold() not in known]
    if missing:
        columns = ", ".join(events.columns)
        raise PipelineError("PATTERN.UNKNOWN_COLUMN", pattern=pattern, missing=", ".join(missing), columns=columns)
    return found


def with_event_time(pattern: str, events: DataFrame, at: str, delay: str | None) -> DataFrame:
    """Add a watermark of *delay* to a stream; with None, check that it has one. A batch is returned unchanged.

    Raises:
        PipelineError: PATTERN.UNKNOWN_COLUMN, PATTERN.NO_TIME, PATTERN.NO_DELAY, PATTERN.TWO_DELAYS,
            PATTERN.NO_DURATION.
    """
    check_columns(pattern, events, at)
    field = next(field for field in events.schema if field.name.casefold() == at.casefold())
    if field.dataType.typeName() not in _TIMES:
        raise PipelineError("PATTERN.NO_TIME", pattern=pattern, column=at, type=field.dataType.simpleString())
    if "." in field.name and events.isStreaming:
        raise PipelineError("PATTERN.NO_TIME", pattern=pattern, column=at, type="that of a name with a dot")
    watermark_ms = (field.metadata or {}).get(_DELAY) if events.isStreaming else None
    if delay is not None:
        # Spark also drops events that are late by exactly the delay.
        wanted_ms = millis(pattern, delay) + 1
        if watermark_ms is None:
            return events.withWatermark(field.name, f"{wanted_ms} milliseconds")
        if int(watermark_ms) not in (wanted_ms, wanted_ms - 1):
            raise PipelineError(
                "PATTERN.TWO_DELAYS", pattern=pattern, column=at, delay=delay, known=f"{watermark_ms} ms"
            )
    elif events.isStreaming and watermark_ms is None:
        raise PipelineError("PATTERN.NO_DELAY", pattern=pattern, column=at)
    return events


def millis(pattern: str, text: str) -> int:
    """Parse a duration, such as ``10 minutes``, to milliseconds.

    Raises:
        PipelineError: PATTERN.NO_DURATION.
    """
    try:
        return round(parse_interval_s(str(text)) * 1000)
    except InvalidInterval as invalid:
        raise PipelineError("PATTERN.NO_DURATION", pattern=pattern, value=text, reason=invalid) from invalid


def interval(pattern: str, text: str) -> str:
    """Parse a positive duration to Spark's form.

    Raises:
        PipelineError: PATTERN.NO_DURATION.
    """
    found = millis(pattern, text)
    if not found:
        raise PipelineError("PATTERN.NO_DURATION", pattern=pattern, value=text, reason="it is less than a millisecond")
    return f"{found} milliseconds"


def micros(events: DataFrame, at: str) -> Column:
    """A time column as microseconds since 1970; TIMESTAMP_NTZ in local time, whatever the session's zone is."""
    field = next(field for field in events.schema if field.name.casefold() == at.casefold())
    name = quoted(field.name)
    if field.dataType.typeName() == "timestamp":
        return F.unix_micros(name)
    return F.expr(f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})")


def check_distinct_names(pattern: str, keys: Iterable[str], added: Iterable[str]) -> None:
    """Check that the columns of a result (keys and *added* ones) have distinct names.

    Raises:
        PipelineError: PATTERN.TAKEN.
    """
    counted = Counter(name.casefold() for name in (*keys, *added))
    taken = sorted(name for name, count in counted.items() if count > 1)
    if taken:
        raise PipelineError("PATTERN.TAKEN", pattern=pattern, columns=", ".join(taken))


def quote_columns(given: Iterable[str]) -> list[str]:
    """Quote column names for Spark."""
    return [quoted(name) for name in given]

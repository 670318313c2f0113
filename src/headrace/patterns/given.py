"""What the patterns are given, checked before Spark sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.model.names import quoted
from headrace.model.triggers import InvalidInterval, parse_interval_s

# Of a column with a watermark, in its metadata (Spark's EventTimeWatermark.delayKey).
_DELAY = "spark.watermarkDelayMs"
_TIMES = ("timestamp", "timestamp_ntz")


def names(pattern: str, events: DataFrame, given: str | Sequence[str]) -> list[str]:
    """The names of columns, one or several.

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


def timed(pattern: str, events: DataFrame, at: str, delay: str | None) -> DataFrame:
    """The events, which have a watermark where they stream: one of *delay*, or their own where that is None.

    Raises:
        PipelineError: PATTERN.UNKNOWN_COLUMN, PATTERN.NO_TIME, PATTERN.NO_DELAY, PATTERN.TWO_DELAYS,
            PATTERN.NO_DURATION.
    """
    names(pattern, events, at)
    field = next(field for field in events.schema if field.name.casefold() == at.casefold())
    if field.dataType.typeName() not in _TIMES:
        raise PipelineError("PATTERN.NO_TIME", pattern=pattern, column=at, type=field.dataType.simpleString())
    if "." in field.name and events.isStreaming:
        raise PipelineError("PATTERN.NO_TIME", pattern=pattern, column=at, type="that of a name with a dot")
    known_ms = (field.metadata or {}).get(_DELAY) if events.isStreaming else None
    if delay is not None:
        # Spark drops what is late by just the delay as well.
        wanted_ms = millis(pattern, delay) + 1
        if known_ms is None:
            return events.withWatermark(field.name, f"{wanted_ms} milliseconds")
        if int(known_ms) not in (wanted_ms, wanted_ms - 1):
            raise PipelineError("PATTERN.TWO_DELAYS", pattern=pattern, column=at, delay=delay, known=f"{known_ms} ms")
    elif events.isStreaming and known_ms is None:
        raise PipelineError("PATTERN.NO_DELAY", pattern=pattern, column=at)
    return events


def millis(pattern: str, text: str) -> int:
    """A length of time, such as ``10 minutes``, in milliseconds.

    Raises:
        PipelineError: PATTERN.NO_DURATION.
    """
    try:
        return round(parse_interval_s(str(text)) * 1000)
    except InvalidInterval as invalid:
        raise PipelineError("PATTERN.NO_DURATION", pattern=pattern, value=text, reason=invalid) from invalid


def length(pattern: str, text: str) -> str:
    """A length of time that is not nothing, as Spark takes it.

    Raises:
        PipelineError: PATTERN.NO_DURATION.
    """
    found = millis(pattern, text)
    if not found:
        raise PipelineError("PATTERN.NO_DURATION", pattern=pattern, value=text, reason="it is less than a millisecond")
    return f"{found} milliseconds"


def micros(events: DataFrame, at: str) -> Column:
    """A time as microseconds; of one without a zone since 1970 by the same clock, whatever the session's zone is."""
    field = next(field for field in events.schema if field.name.casefold() == at.casefold())
    name = quoted(field.name)
    if field.dataType.typeName() == "timestamp":
        return F.unix_micros(name)
    return F.expr(f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})")


def free(pattern: str, keys: Iterable[str], made: Iterable[str]) -> None:
    """See that no two columns of a result have one name: keys, and what a pattern makes.

    Raises:
        PipelineError: PATTERN.TAKEN.
    """
    counted = Counter(name.casefold() for name in (*keys, *made))
    taken = sorted(name for name, count in counted.items() if count > 1)
    if taken:
        raise PipelineError("PATTERN.TAKEN", pattern=pattern, columns=", ".join(taken))


def columns(given: Iterable[str]) -> list[str]:
    """Names as Spark takes them, whatever is in them."""
    return [quoted(name) for name in given]

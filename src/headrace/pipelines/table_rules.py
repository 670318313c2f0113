"""Table rules: arguments for expectations on more than one row, used instead of a predicate."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import PipelineError
from headrace.model.names import QualifiedName
from headrace.model.table_rules import ForeignKey, Fresh, OnTime, RowCount, Unique
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.pipelines.registry import current_registry


def unique(*columns: str | Sequence[str]) -> Unique:
    """No two rows of the table have the same values in *columns*: the first one stays.

    NULL equals no other value, as in SQL. Example: ``@dp.expect_or_drop("one of each", dp.unique("id"))``.
    """
    return Unique(_columns("unique", columns))


def primary_key(*columns: str | Sequence[str]) -> Unique:
    """Like :func:`unique`; a NULL in one of *columns* is a violation."""
    return Unique(_columns("primary_key", columns), required=True)


def foreign_key(*columns: str | Sequence[str], references: str, referenced: str | Sequence[str] = ()) -> ForeignKey:
    """The values of *columns* exist in another table of the pipeline when the row is written.

    The other table is updated first. A row with a NULL in one of the columns references nothing, as in SQL.

    Args:
        columns: columns of the table itself.
        references: the other table.
        referenced: its columns, if they have other names.
    """
    registry = current_registry("foreign_key")
    location = registry.here()
    own = _columns("foreign_key", columns)
    others = (referenced,) if isinstance(referenced, str) else tuple(referenced)
    if others and len(others) != len(own):
        registry.problems.append(
            PipelineError("EXPECTATION.KEY_LENGTH", location=location, columns=len(own), referenced=len(others))
        )
    # An invalid name was recorded as a problem.
    name = registry.name(references, location) or QualifiedName(references)
    return ForeignKey(own, name, others or own)


def on_time(column: str, *, within: str, ahead: str | None = None) -> OnTime:
    """The time in *column* is less than *within* behind the newest time of earlier batches; NULL is late.

    The newest time comes from the table before the batch, so a repeated batch has the same late rows. With
    ``expect_or_quarantine``, the table's quarantine holds the late rows. A downstream operator with
    ``withWatermark(column, within)``, or a longer delay, drops none of the on-time rows, as long as the stream that
    reads the table takes its commits whole.

    One time far in the future makes all later rows late. With *ahead*, a row that is further ahead of the clock than
    that also violates the rule, and does not count as the newest time.

    Args:
        column: a TIMESTAMP column.
        within: such as ``10 minutes``.
        ahead: such as ``1 hour``.
    """
    return OnTime(column, _seconds("on_time", within), None if ahead is None else _seconds("on_time", ahead))


def fresh(column: str, *, within: str) -> Fresh:
    """The newest time in *column* is at most *within* old when an update ends; for ``expect`` and ``expect_or_fail``.

    It is checked in each update, even without new rows. A table without times is not fresh, nor is one whose newest
    time is further ahead of the clock than *within*. A continuous update checks it at intervals and only warns.

    Args:
        column: a TIMESTAMP column.
        within: such as ``1 hour``.
    """
    return Fresh(column, _seconds("fresh", within))


def row_count(*, at_least: int | None = None, at_most: int | None = None) -> RowCount:
    """The number of rows of the table after a batch; for ``expect`` and ``expect_or_fail``."""
    registry = current_registry("row_count")
    given = [bound for bound in (at_least, at_most) if bound is not None]
    if not given or not all(isinstance(bound, int) for bound in given):
        registry.problems.append(PipelineError("EXPECTATION.NO_BOUND", location=registry.here()))
        return RowCount()
    return RowCount(at_least, at_most)


def _seconds(word: str, within: str) -> float:
    registry = current_registry(word)
    try:
        return parse_interval_s(str(within))
    except InvalidInterval as invalid:
        registry.problems.append(
            PipelineError("EXPECTATION.NO_INTERVAL", location=registry.here(), value=within, reason=invalid)
        )
        return 0.0


def _columns(word: str, given: tuple[str | Sequence[str], ...]) -> tuple[str, ...]:
    """Column names, given one by one or as one list."""
    registry = current_registry(word)
    names = given if len(given) != 1 or isinstance(given[0], str) else tuple(given[0])
    found = tuple(name for name in names if isinstance(name, str))
    if not found or len(found) < len(names):
        registry.problems.append(PipelineError("EXPECTATION.NO_KEY", location=registry.here(), what=word))
    return found

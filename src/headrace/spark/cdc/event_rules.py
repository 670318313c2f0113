"""The rules that change events and the rows of snapshots are judged by, beside those of their table."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.envelope import ERROR, OP, SETS, TRUNCATE
from headrace.cdc.feed import ChangeFeed
from headrace.model.cdc import ApplyChanges
from headrace.model.datasets import Flow
from headrace.model.expectations import Action, Expectation
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.spark.cdc.change_events import (
    changes_of,
    deletes,
    expression,
    names_set,
    of_envelope,
    system_column,
    truncates,
)
from headrace.spark.delta.tables import data_type

UNKNOWN_COLUMN = "cdc.unknown_column"
NULL_KEY, NULL_SEQUENCE, NULL_SYSTEM = "cdc.null_key", "cdc.null_sequence", "cdc.null_system_sequence"
UNREADABLE, TRUNCATED, UNAVAILABLE = "cdc.unreadable", "cdc.truncate", "cdc.unavailable_value"


def rules_of(flow: Flow, feed: ChangeFeed, declared: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The rules that the events of a flow are judged by: keys and sequences are there, then those of its table.

    Events that take rows away bring no values that the table's own rules could be about. Messages that say what cannot
    be done are set aside: those that were not understood, truncates that the flow does not apply, and rows without the
    values that the log did not hold.
    """
    changes = changes_of(flow)
    everything = truncates(changes, feed)
    removes = deletes(changes, feed) | everything
    keys = reduce(Column.__and__, [F.col(quoted(name)).isNotNull() for name in feed.shape.keys])
    own = [
        Expectation(NULL_KEY, Action.QUARANTINE, keys | everything, flow.location),
        Expectation(NULL_SEQUENCE, Action.QUARANTINE, _has_sequence(changes, feed), flow.location),
    ]
    if changes.sets is not None:
        own.append(Expectation(UNKNOWN_COLUMN, Action.QUARANTINE, _sets_known(changes, feed), flow.location))
    understood = F.lit(True)
    if feed.shape.bitemporal:
        own.append(Expectation(NULL_SYSTEM, Action.QUARANTINE, system_column(flow).isNotNull(), flow.location))
    if feed.of_envelopes:
        said = {
            UNREADABLE: of_envelope(ERROR).isNull(),
            TRUNCATED: ~of_envelope(OP).eqNullSafe(TRUNCATE) | everything,
            **({UNAVAILABLE: of_envelope(SETS).isNull()} if changes.sets is None else {}),
        }
        own += [Expectation(name, Action.QUARANTINE, is_so, flow.location) for name, is_so in said.items()]
        understood = reduce(Column.__and__, said.values())
    # What cannot be done has no values either; it is set aside, whatever the table's own rules do.
    spared = removes | ~understood
    judging = [
        Expectation(rule.name, rule.action, spared | expression(rule.predicate), rule.location) for rule in declared
    ]
    return (*own, *judging)


def snapshot_rules(flow: Flow, feed: ChangeFeed, declared: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The rules that the rows of a snapshot are judged by: keys are there, then those of the table."""
    keys = reduce(Column.__and__, [F.col(quoted(name)).isNotNull() for name in feed.shape.keys])
    return (Expectation(NULL_KEY, Action.QUARANTINE, keys, flow.location), *declared)


def _sets_known(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """That all columns which an event says it sets are columns of the source or the target."""
    names = (*Schema.from_json(feed.source_json).names, *feed.shape.columns)
    known = F.array(*[F.lit(name) for name in sorted({name.lower() for name in names})])
    return F.coalesce(F.size(F.array_except(names_set(changes), known)) == 0, F.lit(True))


def _has_sequence(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """That an event has a place in the order of its key: no part of its sequence is NULL."""
    kind = data_type(feed.sequence_type)
    if feed.by_commit:
        assert isinstance(kind, StructType)  # noqa: S101 - what such a sequence is made of
        kind = kind["sequence"].dataType
    own = expression(changes.sequence_by)
    # The position of a message is NULL for some databases, which have a clock.
    parts = [] if feed.of_envelopes or not isinstance(kind, StructType) else kind.names
    return reduce(Column.__and__, [own.getField(name).isNotNull() for name in parts], own.isNotNull())

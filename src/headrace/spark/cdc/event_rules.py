"""The built-in expectations on change events and rows of snapshots, added to those of the table."""

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
    as_column,
    changes_of,
    delete_condition,
    envelope_field,
    set_columns,
    system_column,
    truncate_condition,
)
from headrace.spark.delta.tables import data_type

UNKNOWN_COLUMN = "cdc.unknown_column"
NULL_KEY, NULL_SEQUENCE, NULL_SYSTEM = "cdc.null_key", "cdc.null_sequence", "cdc.null_system_sequence"
UNREADABLE, TRUNCATED, UNAVAILABLE = "cdc.unreadable", "cdc.truncate", "cdc.unavailable_value"


def rules_of(flow: Flow, feed: ChangeFeed, declared: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The expectations on the events of a flow: keys and sequences are not NULL, then those of the table.

    The table's own expectations do not apply to events that delete rows, because these carry no values. Messages that
    cannot be applied are quarantined: unreadable ones, truncates that the flow does not apply, and rows that lack
    values which the log did not contain.
    """
    changes = changes_of(flow)
    truncates = truncate_condition(changes, feed)
    removes = delete_condition(changes, feed) | truncates
    keys = reduce(Column.__and__, [F.col(quoted(name)).isNotNull() for name in feed.spec.keys])
    own = [
        Expectation(NULL_KEY, Action.QUARANTINE, keys | truncates, flow.location),
        Expectation(NULL_SEQUENCE, Action.QUARANTINE, _has_sequence(changes, feed), flow.location),
    ]
    if changes.sets is not None:
        own.append(Expectation(UNKNOWN_COLUMN, Action.QUARANTINE, _sets_known(changes, feed), flow.location))
    applicable = F.lit(True)
    if feed.spec.bitemporal:
        own.append(Expectation(NULL_SYSTEM, Action.QUARANTINE, system_column(flow).isNotNull(), flow.location))
    if feed.is_debezium:
        message_rules = {
            UNREADABLE: envelope_field(ERROR).isNull(),
            TRUNCATED: ~envelope_field(OP).eqNullSafe(TRUNCATE) | truncates,
            **({UNAVAILABLE: envelope_field(SETS).isNull()} if changes.sets is None else {}),
        }
        own += [Expectation(name, Action.QUARANTINE, rule, flow.location) for name, rule in message_rules.items()]
        applicable = reduce(Column.__and__, message_rules.values())
    # Messages that cannot be applied have no values either; they are quarantined whatever the table's own rules do.
    exempt = removes | ~applicable
    rules = [
        Expectation(rule.name, rule.action, exempt | as_column(rule.predicate), rule.location) for rule in declared
    ]
    return (*own, *rules)


def snapshot_rules(flow: Flow, feed: ChangeFeed, declared: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The expectations on the rows of a snapshot: keys are not NULL, then those of the table."""
    keys = reduce(Column.__and__, [F.col(quoted(name)).isNotNull() for name in feed.spec.keys])
    return (Expectation(NULL_KEY, Action.QUARANTINE, keys, flow.location), *declared)


def _sets_known(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """True if all columns that an event sets exist in the source or the target."""
    names = (*Schema.from_json(feed.source_json).names, *feed.spec.columns)
    known = F.array(*[F.lit(name) for name in sorted({name.lower() for name in names})])
    return F.coalesce(F.size(F.array_except(set_columns(changes), known)) == 0, F.lit(True))


def _has_sequence(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """True if no part of the event's sequence is NULL."""
    kind = data_type(feed.sequence_type)
    if feed.by_commit:
        assert isinstance(kind, StructType)  # noqa: S101 - such a sequence is a struct
        kind = kind["sequence"].dataType
    own = as_column(changes.sequence_by)
    # Some databases have no log position, only a clock.
    parts = [] if feed.is_debezium or not isinstance(kind, StructType) else kind.names
    return reduce(Column.__and__, [own.getField(name).isNotNull() for name in parts], own.isNotNull())

"""All rules on the events of a flow: the built-in ones, those of the table, and what is done about conflicts."""

from __future__ import annotations

from headrace.cdc.feed import ChangeFeed
from headrace.expectations.compile import Rules
from headrace.model.datasets import Flow
from headrace.model.expectations import Expectation
from headrace.model.sequence_conflicts import OnTie
from headrace.spark.cdc.event_rules import rules_of
from headrace.spark.cdc.sequence_conflicts import CONFLICT_COLUMN, conflict_rule


def merge_rules(flow: Flow, feed: ChangeFeed, declared: tuple[Expectation, ...], on_tie: OnTie) -> Rules:
    """The rules on the events of a flow, for the rows that ``ChangeWriter.select_events`` returns.

    Args:
        flow: declares what events do.
        feed: the declaration, applied to the columns of the source.
        declared: the expectations of the table.
        on_tie: what to do about sequence conflicts.
    """
    rules = rules_of(flow, feed, declared)
    if on_tie is OnTie.QUARANTINE:
        return Rules((*rules, conflict_rule(flow)), helper_columns=(CONFLICT_COLUMN,))
    return Rules(rules)

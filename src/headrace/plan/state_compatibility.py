"""Streams whose query no longer fits the state in their checkpoint; found before one of them starts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from headrace.cdc.merge_keys import MergedRows, means_the_same
from headrace.cdc.scd_spec import ALL_TIMES
from headrace.errors import PipelineError
from headrace.graph.resolved import CHANGES, MadeWith, Mode, ResolvedFlow, ResolvedGraph, StatefulOperator
from headrace.graph.select import Selected
from headrace.model.schema import Column, Schema
from headrace.model.type_changes import schema_change
from headrace.plan.deployed import DeployedState
from headrace.plan.restarts import start_to_go_on

# Rows are added to a table, beside those that are in it.
_ADDING = (Mode.APPEND, Mode.ONCE, Mode.COMPLETE)


def changed_states(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """A problem for each stream that would go on from a checkpoint with the state of another query.

    Spark finds only some of these changes, and those when the query runs; the others would mix old state with new.
    """
    return [
        PipelineError(
            "FLOW.STATE_CHANGED",
            location=flow.flow.location,
            flow=flow.name,
            name=flow.target,
            changes="; ".join(changes),
            otherwise=_with_empty_state(flow),
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and flow.name not in selected.starts
        and (before := state.made_with(flow)) is not None
        and (changes := tuple(_changes(_as_now(before, flow), flow.made_with)))
    ]


def other_tables(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """A problem for each flow that would begin to change, or to add to, rows which were made in another way.

    A flow that goes on is told by its own record; this is about one that replaces another, or starts again.
    """
    beginning = [
        flow
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and (flow.name in selected.starts or state.made_with(flow) is None)
    ]
    return [problem for flow in beginning if (problem := _other_table(flow, state)) is not None]


def _other_table(flow: ResolvedFlow, state: DeployedState) -> PipelineError | None:
    feed, table = flow.analysis.feed, state.table(flow.target)
    if table is None or (feed is None and flow.mode not in _ADDING):
        return None
    place, given = flow.flow.location, {"flow": flow.name, "name": flow.target}
    before = state.merged_rows(flow.target)
    if feed is None:
        return None if before is None else PipelineError("CDC.ROWS_WERE_MERGED", location=place, before=before, **given)
    columns = ", ".join(sorted({*feed.shape.times} ^ ({*table.schema.names} & {*ALL_TIMES})))
    if columns:
        return PipelineError("CDC.OTHER_TABLE", location=place, columns=columns, **given)
    now = MergedRows.of(feed)
    if before in (None, now):
        return None
    return PipelineError("CDC.OTHER_KEYS", location=place, before=before, now=now, **given)


def _as_now(before: MadeWith, flow: ResolvedFlow) -> MadeWith:
    """What a checkpoint was made with, in the words of today where they mean the same."""
    feed = flow.analysis.feed
    now = flow.made_with.operators[-1] if feed is not None else None
    if feed is None or now is None or not before.operators:
        return before
    *others, last = before.operators
    if last.kind != now.kind or not means_the_same(last.description, feed):
        return before
    return replace(before, operators=(*others, replace(last, digest=now.digest, description=now.description)))


def _with_empty_state(flow: ResolvedFlow) -> str:
    """How a flow can go on without its state, as the end of a hint."""
    # Rows that events were merged into would meet events that they know nothing of.
    if flow.mode is Mode.MERGE or start_to_go_on(flow) is None:
        return ""
    command = f"headrace run --reset-checkpoint {shlex.quote(flow.name)}"
    return f";\nor keep its rows and start with empty state: {command}"


def _changes(before: MadeWith, now: MadeWith) -> Iterator[str]:
    """What differs between a checkpoint and its query, in words."""
    modes = {before.mode, now.mode}
    if len(modes) > 1 and all(mode.streams for mode in modes):
        yield f"the old query {_effect(before.mode)} in each batch, the new query {_effect(now.mode)}"
    old_digests = [known.digest for known in before.operators]
    new_digests = [known.digest for known in now.operators]
    if old_digests != new_digests and sorted(old_digests) == sorted(new_digests):
        yield f"the order of its operators was {_listed(before.operators)}, and is now {_listed(now.operators)}"
        return
    matcher = SequenceMatcher(a=old_digests, b=new_digests, autojunk=False)
    for tag, left, right, first, last in matcher.get_opcodes():
        olds, news = before.operators[left:right], now.operators[first:last]
        if tag == "equal":
            pairs = zip(olds, news, strict=True)
            yield from (_exchange(old, new) for old, new in pairs if old.kind == CHANGES and not _goes_on(old, new))
            continue
        for old, new in zip(olds, news, strict=False):
            yield _exchange(old, new)
        yield from (f'"{old.description}" was removed' for old in olds[len(news) :])
        yield from (f'"{new.description}" was added and has no state' for new in news[len(olds) :])


def _goes_on(old: StatefulOperator, new: StatefulOperator) -> bool:
    """True when sequences that are remembered can be compared with those of new events."""
    before, after = (Schema((Column("sequence", json_type=known.types),)) for known in (old, new))
    change = schema_change(before, after)
    return not change.refused and _types(change.result) == _types(after)


def _types(schema: Schema) -> list[Any]:
    """The types of columns, whatever the order in which their JSON is written."""
    return [json.loads(column.json_type) for column in schema.columns]


def _exchange(old: StatefulOperator, new: StatefulOperator) -> str:
    was, is_ = old.description, new.description
    if was == is_:
        was, is_ = f"{was} ({old.types})", f"{is_} ({new.types})"
    return f'"{was}" is now "{is_}"'


def _listed(operators: Iterable[StatefulOperator]) -> str:
    return ", ".join(f'"{operator.description}"' for operator in operators)


def _effect(mode: Mode) -> str:
    said = {
        Mode.COMPLETE: "replaces the table",
        Mode.MERGE: "updates rows of the table",
        Mode.UPDATE: "delivers changed rows",
    }
    return said.get(mode, "adds rows to the table")

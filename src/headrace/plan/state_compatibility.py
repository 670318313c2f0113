"""Finds streams whose query is incompatible with the state in their checkpoint, before one of them starts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from headrace.cdc.merge_keys import MergeKeys, has_same_signature
from headrace.cdc.scd_spec import ALL_TIMES
from headrace.errors import PipelineError
from headrace.graph.analysis import CHANGES, StatefulOperator
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import (
    AppendFlow,
    ChangeFlow,
    CompleteFlow,
    MergeFlow,
    Mode,
    OnceFlow,
    ResolvedFlow,
    StateSignature,
)
from headrace.graph.select import Selected
from headrace.model.schema import Column, Schema
from headrace.model.type_changes import schema_change
from headrace.plan.deployed import DeployedState
from headrace.plan.restarts import resume_start


def changed_states(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """A problem for each stream that would continue from a checkpoint with the state of another query.

    Spark detects only some of these changes, and only when the query runs. The others would mix old and new state.
    """
    return [
        PipelineError(
            "FLOW.STATE_CHANGED",
            location=flow.flow.location,
            flow=flow.name,
            name=flow.target,
            changes="; ".join(changes),
            otherwise=_reset_hint(flow),
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and flow.name not in selected.starts
        and (before := state.state_signature(flow)) is not None
        and (changes := tuple(_changes(_in_current_form(before, flow), flow.state_signature)))
    ]


def table_mismatches(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """A problem for each flow that would start to change or append to rows that were written in another way.

    Continuing flows are checked by their own record. This check is for flows that replace another one, or start over.
    """
    starting = [
        flow
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and (flow.name in selected.starts or state.state_signature(flow) is None)
    ]
    return [problem for flow in starting if (problem := _table_mismatch(flow, state)) is not None]


def _table_mismatch(flow: ResolvedFlow, state: DeployedState) -> PipelineError | None:
    table, before = state.table(flow.target), state.merge_keys(flow.target)
    if table is None:
        return None
    location, params = flow.flow.location, {"flow": flow.name, "name": flow.target}
    if not isinstance(flow, ChangeFlow):
        if before is None or not isinstance(flow, AppendFlow | OnceFlow | CompleteFlow):
            return None
        return PipelineError("CDC.ROWS_WERE_MERGED", location=location, before=before, **params)
    columns = ", ".join(sorted({*flow.feed.spec.validity_columns} ^ ({*table.schema.names} & {*ALL_TIMES})))
    if columns:
        return PipelineError("CDC.OTHER_TABLE", location=location, columns=columns, **params)
    now = MergeKeys.of(flow.feed)
    if before in (None, now):
        return None
    return PipelineError("CDC.OTHER_KEYS", location=location, before=before, now=now, **params)


def _in_current_form(before: StateSignature, flow: ResolvedFlow) -> StateSignature:
    """The signature of a checkpoint, in this version's form if the meaning is the same."""
    if not isinstance(flow, ChangeFlow) or not before.operators:
        return before
    now = flow.state_signature.operators[-1]
    *others, last = before.operators
    if last.kind != now.kind or not has_same_signature(last.description, flow.feed):
        return before
    return replace(before, operators=(*others, replace(last, digest=now.digest, description=now.description)))


def _reset_hint(flow: ResolvedFlow) -> str:
    """How a flow can continue without its state, as the end of a hint."""
    # New events would be merged into rows whose earlier events are not in the state.
    if isinstance(flow, MergeFlow) or resume_start(flow) is None:
        return ""
    command = f"headrace run --reset-checkpoint {shlex.quote(flow.name)}"
    return f";\nor keep its rows and start with empty state: {command}"


def _changes(before: StateSignature, now: StateSignature) -> Iterator[str]:
    """The differences between a checkpoint and its query, in words."""
    modes = {before.mode, now.mode}
    if len(modes) > 1 and all(mode.is_streaming for mode in modes):
        yield f"the old query {_effect(before.mode)} in each batch, the new query {_effect(now.mode)}"
    old_digests = [known.digest for known in before.operators]
    new_digests = [known.digest for known in now.operators]
    if old_digests != new_digests and sorted(old_digests) == sorted(new_digests):
        yield f"the order of its operators was {_listed(before.operators)}, and is now {_listed(now.operators)}"
        return
    matcher = SequenceMatcher(a=old_digests, b=new_digests, autojunk=False)
    for tag, left, right, first, last in matcher.get_opcodes():
        old_operators, new_operators = before.operators[left:right], now.operators[first:last]
        if tag == "equal":
            pairs = zip(old_operators, new_operators, strict=True)
            yield from (
                _describe_change(old, new)
                for old, new in pairs
                if old.kind == CHANGES and not _can_compare_sequences(old, new)
            )
            continue
        for old, new in zip(old_operators, new_operators, strict=False):
            yield _describe_change(old, new)
        yield from (f'"{old.description}" was removed' for old in old_operators[len(new_operators) :])
        yield from (f'"{new.description}" was added and has no state' for new in new_operators[len(old_operators) :])


def _can_compare_sequences(old: StatefulOperator, new: StatefulOperator) -> bool:
    """True if stored sequences can be compared with those of new events."""
    before, after = (Schema((Column("sequence", json_type=known.types),)) for known in (old, new))
    change = schema_change(before, after)
    return not change.refused and _types(change.result) == _types(after)


def _types(schema: Schema) -> list[Any]:
    """The types of columns, parsed so that the order of JSON keys does not matter."""
    return [json.loads(column.json_type) for column in schema.columns]


def _describe_change(old: StatefulOperator, new: StatefulOperator) -> str:
    was, is_ = old.description, new.description
    if was == is_:
        was, is_ = f"{was} ({old.types})", f"{is_} ({new.types})"
    return f'"{was}" is now "{is_}"'


def _listed(operators: Iterable[StatefulOperator]) -> str:
    return ", ".join(f'"{operator.description}"' for operator in operators)


def _effect(mode: Mode) -> str:
    effects = {
        Mode.COMPLETE: "replaces the table",
        Mode.MERGE: "updates rows of the table",
        Mode.UPDATE: "delivers changed rows",
    }
    return effects.get(mode, "adds rows to the table")

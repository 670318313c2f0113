"""Checks of rules that need more than one row, and the inputs that they add to a flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.errors import PipelineError
from headrace.graph.analysis import Input
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.expectations import Action, Expectation
from headrace.model.names import QualifiedName
from headrace.model.schema import Column, Schema
from headrace.model.table_rules import (
    ROW_RULES,
    TABLE_RULES,
    WHOLE_TABLE_RULES,
    ForeignKey,
    Fresh,
    OnTime,
    columns_of,
)

# Spark compares whole numbers of any width.
_WHOLE = frozenset(('"byte"', '"short"', '"integer"', '"long"'))
_NOT_COMPARED = ('"map"', '"variant"')
_STORED = (Kind.TABLE, Kind.STREAMING_TABLE, Kind.MATERIALIZED_VIEW)


def table_rules_of(dataset: Dataset) -> tuple[Expectation, ...]:
    """The expectations of a dataset that need more than one row."""
    return tuple(e for e in dataset.expectations if isinstance(e.predicate, TABLE_RULES))


def table_rule_problems(
    datasets: Mapping[QualifiedName, Dataset],
    flows_into: Callable[[QualifiedName], Sequence[Flow]],
    suggestion: Callable[[QualifiedName], str],
) -> Iterator[PipelineError]:
    """Problems with such rules that need no schema."""
    for dataset in datasets.values():
        flows = flows_into(dataset.name)
        is_merged = any(flow.changes is not None or flow.snapshots is not None for flow in flows)
        for expectation in table_rules_of(dataset):
            rule = expectation.predicate
            if dataset.kind is Kind.TEMPORARY_VIEW:
                yield _problem("EXPECTATION.VIEW_ROWS", expectation, dataset.name, rule=rule)
            elif is_merged:
                yield _problem("EXPECTATION.MERGED", expectation, dataset.name, rule=rule)
            if isinstance(rule, Fresh) and len(flows) > 1:
                names = ", ".join(f'"{flow.name}"' for flow in flows)
                yield _problem("EXPECTATION.FRESH_FLOWS", expectation, dataset.name, flows=names)
            if isinstance(rule, WHOLE_TABLE_RULES) and expectation.action in (Action.DROP, Action.QUARANTINE):
                yield _problem("EXPECTATION.NO_ROW", expectation, dataset.name, action=expectation.action.value)
            if isinstance(rule, ForeignKey):
                other = datasets.get(rule.dataset)
                reason = _unreadable_reason(other, dataset)
                if reason is not None:
                    hint = "" if other is not None else f" {suggestion(rule.dataset)}"
                    yield _problem(
                        "EXPECTATION.REFERENCE",
                        expectation,
                        dataset.name,
                        other=rule.dataset,
                        reason=reason,
                        suggestion=hint,
                    )


def _unreadable_reason(other: Dataset | None, dataset: Dataset) -> str | None:
    if other is None:
        return "which the pipeline does not define"
    if other.name == dataset.name:
        return "the table itself, whose rows arrive in any order"
    return None if other.kind in _STORED else f"a {other.kind.label}, which stores no rows"


def unknown_columns(
    dataset: Dataset, schema: Schema, resolved: Mapping[QualifiedName, ResolvedDataset]
) -> list[PipelineError]:
    """Problems for columns of such rules that are missing or cannot be compared. All tables are resolved."""
    problems = []
    for expectation in table_rules_of(dataset):
        rule = expectation.predicate
        if not isinstance(rule, (*ROW_RULES, Fresh)):
            continue
        own = [schema.find(name) for name in columns_of(rule)]
        problems += _missing(expectation, dataset.name, columns_of(rule), schema)
        if not isinstance(rule, (OnTime, Fresh)):
            problems += [
                _problem("EXPECTATION.NO_KEY_TYPE", expectation, dataset.name, column=one.name, type=one.type_text)
                for one in own
                if one is not None and any(kind in one.json_type for kind in _NOT_COMPARED)
            ]
        if isinstance(rule, (OnTime, Fresh)) and own[0] is not None and own[0].json_type != '"timestamp"':
            problems.append(_problem("EXPECTATION.NO_TIME", expectation, dataset.name, type=own[0].type_text))
        if isinstance(rule, ForeignKey) and rule.dataset in resolved:
            other = resolved[rule.dataset].schema
            referenced = [other.find(name) for name in rule.referenced]
            problems += _missing(expectation, dataset.name, rule.referenced, other, f'"{rule.dataset}".')
            problems += [
                _problem(
                    "EXPECTATION.OTHER_TYPE",
                    expectation,
                    dataset.name,
                    column=one.name,
                    type=one.type_text,
                    other=f"{rule.dataset}.{two.name}",
                    other_type=two.type_text,
                )
                for one, two in zip(own, referenced, strict=False)
                if one is not None and two is not None and not _comparable(one, two)
            ]
    return problems


def _missing(
    expectation: Expectation, dataset: QualifiedName, names: Sequence[str], schema: Schema, table: str = ""
) -> list[PipelineError]:
    columns = ", ".join(schema.names)
    return [
        _problem("EXPECTATION.UNKNOWN_COLUMN", expectation, dataset, column=f'{table}"{name}"', columns=columns)
        for name in names
        if schema.find(name) is None
    ]


def _problem(code: str, expectation: Expectation, table: QualifiedName, **params: object) -> PipelineError:
    return PipelineError(code, location=expectation.location, name=expectation.name, dataset=table, **params)


def _comparable(one: Column, two: Column) -> bool:
    return one.json_type == two.json_type or {one.json_type, two.json_type} <= _WHOLE


def referenced_tables(dataset: Dataset) -> tuple[QualifiedName, ...]:
    """The distinct tables that the rules of a dataset refer to."""
    rules = [e.predicate for e in table_rules_of(dataset) if isinstance(e.predicate, ForeignKey)]
    return tuple(dict.fromkeys(rule.dataset for rule in rules if rule.dataset != dataset.name))


def circular_reference(dataset: Dataset, name: QualifiedName) -> PipelineError:
    """The problem that a rule of a dataset refers to a table computed from the dataset."""
    rule = next(
        e for e in table_rules_of(dataset) if isinstance(e.predicate, ForeignKey) and e.predicate.dataset == name
    )
    reason = "which is computed from this table"
    return _problem("EXPECTATION.REFERENCE", rule, dataset.name, other=name, reason=reason, suggestion="")


def with_referenced_inputs(flow: ResolvedFlow, names: Sequence[QualifiedName]) -> ResolvedFlow:
    """The flow with those tables as inputs, so that they are updated before it runs."""
    known = {read.name for read in flow.analysis.inputs}
    more = tuple(Input(name, streaming=False) for name in names if name not in known)
    return flow.with_inputs(flow.analysis.inputs + more) if more else flow

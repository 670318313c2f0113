"""Whether rules that a row cannot tell by itself have a meaning where they stand, and what they make a flow read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from headrace.errors import PipelineError
from headrace.graph.resolved import Input, ResolvedDataset, ResolvedFlow
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.expectations import Action, Expectation
from headrace.model.names import QualifiedName
from headrace.model.schema import Column, Schema
from headrace.model.table_rules import (
    ROW_RULES,
    TABLE_RULES,
    WHOLE_RULES,
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
    """The expectations of a dataset that look at more than a row."""
    return tuple(e for e in dataset.expectations if isinstance(e.predicate, TABLE_RULES))


def misplaced(
    datasets: Mapping[QualifiedName, Dataset],
    flows_into: Callable[[QualifiedName], Sequence[Flow]],
    suggestion: Callable[[QualifiedName], str],
) -> Iterator[PipelineError]:
    """What is wrong with such rules before any schema is known."""
    for dataset in datasets.values():
        flows = flows_into(dataset.name)
        changed = any(flow.changes is not None or flow.snapshots is not None for flow in flows)
        for expectation in table_rules_of(dataset):
            rule = expectation.predicate
            if dataset.kind is Kind.TEMPORARY_VIEW:
                yield _wrong("EXPECTATION.VIEW_ROWS", expectation, dataset.name, rule=rule)
            elif changed:
                yield _wrong("EXPECTATION.MERGED", expectation, dataset.name, rule=rule)
            if isinstance(rule, Fresh) and len(flows) > 1:
                names = ", ".join(f'"{flow.name}"' for flow in flows)
                yield _wrong("EXPECTATION.FRESH_FLOWS", expectation, dataset.name, flows=names)
            if isinstance(rule, WHOLE_RULES) and expectation.action in (Action.DROP, Action.QUARANTINE):
                yield _wrong("EXPECTATION.NO_ROW", expectation, dataset.name, action=expectation.action.value)
            if isinstance(rule, ForeignKey):
                other = datasets.get(rule.dataset)
                reason = _unreadable(other, dataset)
                if reason is not None:
                    hint = "" if other is not None else f" {suggestion(rule.dataset)}"
                    yield _wrong(
                        "EXPECTATION.REFERENCE",
                        expectation,
                        dataset.name,
                        other=rule.dataset,
                        reason=reason,
                        suggestion=hint,
                    )


def _unreadable(other: Dataset | None, dataset: Dataset) -> str | None:
    if other is None:
        return "which the pipeline does not define"
    if other.name == dataset.name:
        return "the table itself, whose rows arrive in any order"
    return None if other.kind in _STORED else f"a {other.kind.label}, which stores no rows"


def unknown_columns(
    dataset: Dataset, schema: Schema, resolved: Mapping[QualifiedName, ResolvedDataset]
) -> list[PipelineError]:
    """What such rules speak of that is not in the tables, or cannot be compared; all tables are resolved."""
    problems = []
    for expectation in table_rules_of(dataset):
        rule = expectation.predicate
        if not isinstance(rule, (*ROW_RULES, Fresh)):
            continue
        own = [schema.find(name) for name in columns_of(rule)]
        problems += _missing(expectation, dataset.name, columns_of(rule), schema)
        if not isinstance(rule, (OnTime, Fresh)):
            problems += [
                _wrong("EXPECTATION.NO_KEY_TYPE", expectation, dataset.name, column=one.name, type=one.type_text)
                for one in own
                if one is not None and any(kind in one.json_type for kind in _NOT_COMPARED)
            ]
        if isinstance(rule, (OnTime, Fresh)) and own[0] is not None and own[0].json_type != '"timestamp"':
            problems.append(_wrong("EXPECTATION.NO_TIME", expectation, dataset.name, type=own[0].type_text))
        if isinstance(rule, ForeignKey) and rule.dataset in resolved:
            other = resolved[rule.dataset].schema
            referenced = [other.find(name) for name in rule.referenced]
            problems += _missing(expectation, dataset.name, rule.referenced, other, f'"{rule.dataset}".')
            problems += [
                _wrong(
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
        _wrong("EXPECTATION.UNKNOWN_COLUMN", expectation, dataset, column=f'{table}"{name}"', columns=columns)
        for name in names
        if schema.find(name) is None
    ]


def _wrong(code: str, expectation: Expectation, table: QualifiedName, **params: object) -> PipelineError:
    return PipelineError(code, location=expectation.location, name=expectation.name, dataset=table, **params)


def _comparable(one: Column, two: Column) -> bool:
    return one.json_type == two.json_type or {one.json_type, two.json_type} <= _WHOLE


def referred(dataset: Dataset) -> tuple[QualifiedName, ...]:
    """The tables that the rules of a dataset refer to, each once."""
    rules = [e.predicate for e in table_rules_of(dataset) if isinstance(e.predicate, ForeignKey)]
    return tuple(dict.fromkeys(rule.dataset for rule in rules if rule.dataset != dataset.name))


def reads_back(dataset: Dataset, name: QualifiedName) -> PipelineError:
    """That a rule of a dataset refers to a table that is made of the dataset."""
    rule = next(
        e for e in table_rules_of(dataset) if isinstance(e.predicate, ForeignKey) and e.predicate.dataset == name
    )
    reason = "which is computed from this table"
    return _wrong("EXPECTATION.REFERENCE", rule, dataset.name, other=name, reason=reason, suggestion="")


def reading_referred(flow: ResolvedFlow, names: Sequence[QualifiedName]) -> ResolvedFlow:
    """The flow, which reads those tables too: they are brought up to date before it runs."""
    known = {given.name for given in flow.analysis.inputs}
    more = tuple(Input(name, streaming=False) for name in names if name not in known)
    return replace(flow, analysis=replace(flow.analysis, inputs=flow.analysis.inputs + more)) if more else flow

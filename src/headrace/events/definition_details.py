"""The JSON of the definitions of datasets, sinks and flows: the vendor's field names, and our own.

Ours are ``assertion`` and ``column`` of an expectation, ``path``, ``schema``, ``comment``, ``private``,
``partition_by``, ``cluster_by``, ``freshness``, ``schedule``, ``external_inputs``, ``trigger``, ``query_digest``,
``column_lineage``, ``location`` of the code, and ``datasets``, the names that other systems have for an external input
or what a sink writes to.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from headrace.events.column_lineage import dataset_body, dataset_of, lineage_body, lineage_of
from headrace.events.levels import Json
from headrace.events.types import DatasetDefined, FlowDefined, FreshnessTarget, SinkDefined
from headrace.model.datasets import Kind
from headrace.model.expectation_facts import ExpectationFacts
from headrace.model.external_input import ExternalInput
from headrace.model.location import Location

DEFINITIONS = frozenset(kind.event_type for kind in (DatasetDefined, SinkDefined, FlowDefined))


class DatasetType(str, Enum):
    """The kinds of datasets in the vendor's log; an enumeration, so that it is not redacted."""

    TABLE = "TABLE"
    STREAMING_TABLE = "STREAMING_TABLE"
    MATERIALIZED_VIEW = "MATERIALIZED_VIEW"
    TEMPORARY_VIEW = "TEMPORARY_VIEW"
    PERSISTED_VIEW = "VIEW"
    SINK = "SINK"


def definition_body(event: DatasetDefined | SinkDefined | FlowDefined) -> dict[str, Any]:
    """The body of a definition."""
    match event:
        case DatasetDefined():
            return {
                "dataset_type": DatasetType[event.kind.name],
                "path": event.path,
                "expectations": _expectations_body(event),
                "schema": event.schema,
                "comment": event.comment,
                "private": event.private,
                "partition_by": list(event.partition_by),
                "cluster_by": list(event.cluster_by),
                "freshness": [{"column": one.column, "within_s": one.within_s} for one in event.freshness],
                **({"schedule": event.schedule} if event.schedule else {}),
            }
        case SinkDefined(_, form, options, datasets):
            named = {"datasets": [dataset_body(one) for one in datasets]} if datasets else {}
            return {"format": form, "options": options, **named}
        case FlowDefined():
            return {
                "input_datasets": list(event.inputs),
                "output_dataset": event.dataset,
                "flow_type": event.mode,
                "language": event.language,
                "once": event.once,
                "comment": event.comment,
                "external_inputs": [_external_body(one) for one in event.external_inputs],
                "trigger": event.trigger,
                "query_digest": event.query_digest,
                **({} if event.columns is None else {"column_lineage": lineage_body(event.columns)}),
                **_location_body(event.location),
            }


def definition_of(event_type: str, body: Json, flow: str, dataset: str) -> DatasetDefined | SinkDefined | FlowDefined:
    """The definition of a body; *flow* and *dataset* are the names in the origin of the event."""
    if event_type == DatasetDefined.event_type:
        names = tuple(expectation["name"] for expectation in body["expectations"])
        return DatasetDefined(
            dataset,
            Kind[DatasetType(body["dataset_type"]).name],
            body.get("path"),
            names,
            schema=body.get("schema"),
            comment=body.get("comment"),
            private=body.get("private", False),
            partition_by=tuple(body.get("partition_by", ())),
            cluster_by=tuple(body.get("cluster_by", ())),
            freshness=tuple(FreshnessTarget(one["column"], one["within_s"]) for one in body.get("freshness", ())),
            schedule=body.get("schedule", ""),
            facts=tuple(
                ExpectationFacts(one["name"], one["assertion"], one.get("column"))
                for one in body["expectations"]
                if "assertion" in one
            ),
        )
    if event_type == SinkDefined.event_type:
        datasets = tuple(map(dataset_of, body.get("datasets", ())))
        return SinkDefined(dataset, body["format"], body["options"], datasets)
    return FlowDefined(
        flow=flow,
        dataset=dataset,
        inputs=tuple(body["input_datasets"]),
        language=body["language"],
        mode=body["flow_type"],
        once=body["once"],
        comment=body.get("comment"),
        external_inputs=tuple(map(_external_of, body.get("external_inputs", ()))),
        trigger=body.get("trigger"),
        query_digest=body.get("query_digest"),
        columns=lineage_of(body["column_lineage"]) if "column_lineage" in body else None,
        location=_location_of(body.get("location")),
    )


def _location_body(location: Location | None) -> dict[str, Any]:
    return {} if location is None else {"location": {"file": location.file, "line": location.line}}


def _location_of(body: Json | None) -> Location | None:
    return None if body is None else Location(str(body["file"]), int(body["line"]))


def _expectations_body(event: DatasetDefined) -> list[dict[str, Any]]:
    """Each expectation, with its facts where they are known."""
    facts = {one.name: one for one in event.facts}
    found: list[dict[str, Any]] = []
    for name in event.expectations:
        known = facts.get(name)
        column = {"column": known.column} if known is not None and known.column is not None else {}
        found.append({"name": name, **({} if known is None else {"assertion": known.assertion}), **column})
    return found


def _external_body(given: ExternalInput) -> dict[str, Any]:
    datasets = {"datasets": [dataset_body(one) for one in given.datasets]} if given.datasets else {}
    return {"kind": given.kind, "name": given.name, **datasets}


def _external_of(body: Json) -> ExternalInput:
    return ExternalInput(body["kind"], body["name"], tuple(map(dataset_of, body.get("datasets", ()))))

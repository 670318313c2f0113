"""Facets of OpenLineage: what an event says of a run, a job and datasets, besides their names.

Source: the JSON schemas of OpenLineage's specification, in the versions that the tests check events with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.events.levels import Json
from headrace.model.addresses import without_secrets
from headrace.model.column_lineage import ColumnLineage, ColumnUse, InputDataset
from headrace.model.dataset_id import DatasetId
from headrace.model.expectation_facts import ExpectationFacts
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.schema import type_text

Facet: TypeAlias = dict[str, Any]

_SPEC = "https://openlineage.io/spec"
RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_SCHEMAS = {
    "parent": "1-2-0/ParentRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "sourceCodeLocation": "1-1-0/SourceCodeLocationJobFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "dataQualityAssertions": "1-1-0/DataQualityAssertionsDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}
_OWN_SCHEMA = "urn:headrace:facets:1-0-0:HeadraceBatchRunFacet"
_LONGEST_MESSAGE = 4000


@dataclass(frozen=True)
class Repository:
    """The repository that a project is in.

    Attributes:
        url: of the repository, for git.
        page: the address of the web page of a file, up to its path; None if it cannot be derived.
        folder: of the project in the repository; empty for its root.
    """

    url: str
    page: str | None
    folder: str = ""


@dataclass(frozen=True)
class Batches:
    """The batches that an event reports: their epoch, the first and the last one, and the version of the table."""

    epoch: int
    first_batch: int
    last_batch: int
    table_version: int | None = None


@dataclass(frozen=True)
class Facets:
    """Makes facets; *producer* is the URI of what makes them."""

    producer: str

    def parent(self, run_id: str, namespace: str, name: str) -> Facet:
        """The run that started the run."""
        return self._facet("parent", run={"runId": run_id}, job={"namespace": namespace, "name": name})

    def processing_engine(self, version: str, adapter_version: str) -> Facet:
        """What processes the rows."""
        return self._facet(
            "processing_engine", name="Spark", version=version, openlineageAdapterVersion=adapter_version
        )

    def error_message(self, error: Json | None, reason: str | None) -> Facet:
        """Why a run failed; addresses in it have no passwords and no query strings."""
        known = error or {}
        parts = [f"[{known['code']}]" if known.get("code") else "", str(known.get("message") or reason or "")]
        text = " ".join(filter(None, parts)) or "the flow failed"
        return self._facet(
            "errorMessage", message=without_secrets(text)[:_LONGEST_MESSAGE], programmingLanguage="PYTHON"
        )

    def batches(self, batches: Batches) -> Facet:
        """Our own facet: the batches since the event before."""
        return {
            "_producer": self.producer,
            "_schemaURL": _OWN_SCHEMA,
            "epoch": batches.epoch,
            "first_batch": batches.first_batch,
            "last_batch": batches.last_batch,
            "table_version": batches.table_version,
        }

    def job_type(self, *, is_streaming: bool) -> Facet:
        """What kind of job a flow is."""
        return self._facet(
            "jobType",
            processingType="STREAMING" if is_streaming else "BATCH",
            integration="HEADRACE",
            jobType="FLOW",
            emissionPattern={"eventTrigger": "EVENT_BASED", "eventContentMode": "ACCUMULATIVE"},
        )

    def source_code_location(self, repository: Repository, commit: str, file: str) -> Facet | None:
        """Where the code of a flow is; None without a page: the repository is local, or the file is outside of it."""
        if repository.page is None or file.startswith(("/", "..")):
            return None
        path = f"{repository.folder}/{file}" if repository.folder else file
        return self._facet(
            "sourceCodeLocation",
            type="git",
            url=f"{repository.page}/{commit}/{path}",
            repoUrl=repository.url,
            path=path,
            version=commit,
        )

    def schema(self, schema: Json) -> Facet:
        """The columns of a dataset, from Spark's JSON of them."""
        return self._facet("schema", fields=[_field(one, number) for number, one in enumerate(schema["fields"], 1)])

    def symlinks(self, namespace: str, name: str) -> Facet:
        """The name of a table in the catalog, beside its place."""
        return self._facet("symlinks", identifiers=[{"namespace": namespace, "name": name, "type": "TABLE"}])

    def column_lineage(self, lineage: ColumnLineage, ids: Mapping[InputDataset, DatasetId]) -> Facet:
        """Where columns come from; *ids* has the names of the inputs."""
        fields = {column.name: {"inputFields": _input_fields(column.uses, ids)} for column in lineage.columns}
        rows = _input_fields(lineage.rows, ids)
        return self._facet("columnLineage", fields=fields, **({"dataset": rows} if rows else {}))

    def assertions(self, counts: Iterable[ExpectationCount], facts: Iterable[ExpectationFacts]) -> Facet:
        """The expectations that were evaluated; one succeeds if no row violated it."""
        known = {one.name: one for one in facts}
        assertions = [_assertion(count, known.get(count.name) or ExpectationFacts(count.name)) for count in counts]
        return self._facet("dataQualityAssertions", assertions=assertions)

    def input_statistics(self, rows: int) -> Facet:
        """The rows that were read."""
        return self._facet("inputStatistics", rowCount=rows)

    def output_statistics(self, rows: int, size: int | None, files: int | None) -> Facet:
        """The rows that were written, and their files; None if unknown."""
        known = {"size": size, "fileCount": files}
        return self._facet(
            "outputStatistics", rowCount=rows, **{key: value for key, value in known.items() if value is not None}
        )

    def _facet(self, name: str, /, **values: Any) -> Facet:
        title = _SCHEMAS[name].partition("/")[2]
        url = f"{_SPEC}/facets/{_SCHEMAS[name]}.json#/$defs/{title}"
        return {"_producer": self.producer, "_schemaURL": url, **values}


def _field(column: Json, number: int | None = None) -> dict[str, Any]:
    kind = column["type"]
    found = {"name": column["name"], "type": type_text(kind)}
    comment = (column.get("metadata") or {}).get("comment")
    if comment:
        found["description"] = comment
    if number is not None:
        found["ordinal_position"] = number
    if isinstance(kind, dict) and kind.get("type") == "struct":
        found["fields"] = [_field(inner) for inner in kind["fields"]]
    return found


def _input_fields(uses: Iterable[ColumnUse], ids: Mapping[InputDataset, DatasetId]) -> list[dict[str, Any]]:
    """Each column of an input once, with all its uses."""
    found: dict[tuple[DatasetId, str], list[dict[str, str]]] = {}
    for use in uses:
        dataset = use.dataset if isinstance(use.dataset, DatasetId) else ids.get(use.dataset)
        if dataset is not None:
            kind = "DIRECT" if use.use.is_direct else "INDIRECT"
            found.setdefault((dataset, use.column), []).append({"type": kind, "subtype": use.use.value})
    return [
        {"namespace": dataset.namespace, "name": dataset.name, "field": column, "transformations": transformations}
        for (dataset, column), transformations in found.items()
    ]


def _assertion(count: ExpectationCount, facts: ExpectationFacts) -> dict[str, Any]:
    return {
        "assertion": facts.assertion,
        "name": count.name,
        **({} if facts.column is None else {"column": facts.column}),
        "success": count.failed == 0,
        "severity": "error" if count.action is Action.FAIL else "warn",
        "expected": "0",
        "actual": str(count.failed),
        "params": {"action": count.action.value, "passed": count.passed, "failed": count.failed},
    }

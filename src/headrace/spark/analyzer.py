"""Analyzes queries on empty stubs (D16): one call of each query function, no data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.analysis import Analysis, Input
from headrace.graph.resolve import MissingInput
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.schema import Schema
from headrace.spark.analysis.plans import PlanReading
from headrace.spark.analysis.query_identity import QueryIdentities
from headrace.spark.cdc.change_analysis import change_analysis
from headrace.spark.cdc.declaration import feed_of, snapshot_feed
from headrace.spark.delta.tables import empty_frame
from headrace.spark.errors.spark_errors import definition_problem, first_line, user_location
from headrace.spark.queries.query_analysis import analysis_of, with_refresh_rule
from headrace.spark.queries.query_calls import call
from headrace.spark.queries.snapshot_sample import sample_snapshot, with_table_columns
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.availability import unknown_format
from headrace.spark.tables.metric_columns import row_problems
from headrace.spark.update.catalog import Catalog

_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")


class StubAnalyzer:
    """Implements the resolver's port: calls each query on empty tables of the right schema.

    Args:
        catalog: where stubs are registered; it knows all names of the pipeline.
        definitions: the declarations of the project's files.
        root: the project's folder, to find the user's line in a traceback.
        files: the project's Python files. Their text is part of the fingerprint of queries that run Python code.
        parameters: a digest of the settings that queries can read.
        stored_snapshots: the snapshot state of a flow.
    """

    def __init__(
        self,
        catalog: Catalog,
        definitions: Definitions,
        root: Path,
        files: Iterable[Path],
        parameters: str,
        stored_snapshots: Callable[[Flow], SnapshotState],
    ) -> None:
        self._catalog = catalog
        self._datasets = {dataset.name: dataset for dataset in definitions.datasets}
        self._root = root
        self._stored_snapshots = stored_snapshots
        self._identities = QueryIdentities(self._datasets, tuple(files), parameters, str(catalog.stubs))

    def declared_schema(self, dataset: Dataset) -> Schema | None:
        """The schema that the user declared for a dataset, if any."""
        declared = dataset.schema
        if declared is None:
            return None
        try:
            parsed: Any = declared if isinstance(declared, DataType) else _parsed(declared, self._catalog)
        except (PySparkException, Py4JJavaError) as error:
            raise PipelineError(
                "DATASET.BAD_SCHEMA",
                location=dataset.location,
                name=dataset.name,
                reason=first_line(str(error)),
            ) from error
        if not isinstance(parsed, StructType):
            raise PipelineError(
                "DATASET.BAD_SCHEMA", location=dataset.location, name=dataset.name, reason="it is not a struct"
            )
        return Schema.from_json(parsed.json())

    def check_sink(self, dataset: Dataset) -> tuple[PipelineError, ...]:
        """Problems with the format of a sink that the session cannot write."""
        return () if dataset.sink is None else unknown_format(self._catalog.session, dataset, dataset.sink)

    def analyze(self, flow: Flow) -> Analysis:
        """Call the flow's query once and analyze the plan of its result."""
        try:
            with with_confs(self._catalog.session, flow.spark_conf):
                if flow.snapshots is not None:
                    return self._snapshot_analysis(flow)
                frame = call(flow, self._catalog, is_resolving=True, columns=self._target_columns(flow))
                if flow.changes is None:
                    analysis = self._analysis(flow, frame)
                    return with_refresh_rule(analysis, self._datasets.get(flow.target), flow, frame)
                feed = feed_of(flow, frame, self._snapshot_state(flow).table)
                return change_analysis(flow, feed, frame, self._analysis(flow, frame))
        except (PipelineError, Problems) as error:
            location = user_location(error, self._root) or flow.location
            found = [problem.located(location) for problem in problems_of(error)]
            raise (Problems(found) if isinstance(error, Problems) else found[0]) from error
        except MissingInput:
            raise
        except AnalysisException as error:
            missing = self._missing(error)
            if missing is not None:
                raise missing from error
            raise definition_problem(flow, error, self._root) from error
        except (Exception, SystemExit) as error:
            raise definition_problem(flow, error, self._root) from error

    def publish(self, dataset: Dataset, schema: Schema, flow: Flow | None) -> None:
        """Make an empty dataset of this schema readable under every spelling of its name."""
        if flow is None:
            self._catalog.register_stub(dataset.name, schema.nullable)
        else:
            with with_confs(self._catalog.session, flow.spark_conf):
                frame = call(flow, self._catalog, is_resolving=True)
            self._catalog.register_view(dataset.name, frame)

    def check_expectations(self, dataset: Dataset, schema: Schema) -> tuple[PipelineError, ...]:
        """Problems with the expectations and metrics of a dataset over rows of this schema."""
        if not dataset.expectations and not dataset.metrics:
            return ()
        empty = empty_frame(self._catalog.session, schema.nullable)
        return row_problems(dataset, empty)

    def _snapshot_analysis(self, flow: Flow) -> Analysis:
        """The analysis of a snapshot flow, by its next snapshot, or by its table if there is none."""
        state = self._snapshot_state(flow)
        known = state.table or self.declared_schema(self._datasets[flow.target])
        sample = sample_snapshot(flow, self._catalog, state, known)
        feed = snapshot_feed(flow, sample.rows, sample.version_type)
        found = change_analysis(flow, feed, sample.rows, self._analysis(flow, sample.rows))
        # A snapshot is compared by the columns of its table as well.
        all_columns = with_table_columns(sample.rows, state.table)
        found = replace(found, feed=snapshot_feed(flow, all_columns, sample.version_type))
        if sample.tables_read is None:
            return found
        # The next snapshot has other rows and perhaps other columns, but the query is the same.
        identity = self._identities.of(flow, self._catalog.session.range(0), PlanReading(python=True))
        inputs = {given.name: given for given in found.inputs}
        inputs |= {name: Input(name, streaming=False) for name in sample.tables_read if name not in inputs}
        return replace(
            found,
            inputs=tuple(inputs.values()),
            fingerprint=identity.now,
            former_fingerprint=identity.former,
            unrepeatable=sample.due,
        )

    def _snapshot_state(self, flow: Flow) -> SnapshotState:
        """The snapshot state of the flow's table; empty if the update clears it."""
        return SnapshotState() if flow.target in self._catalog.cleared else self._stored_snapshots(flow)

    def _analysis(self, flow: Flow, frame: DataFrame) -> Analysis:
        return analysis_of(flow, frame, self._catalog, self._identities)

    def _target_columns(self, flow: Flow) -> tuple[str, ...]:
        dataset = self._datasets.get(flow.target)
        declared = self.declared_schema(dataset) if dataset is not None else None
        return declared.names if declared else ()

    def _missing(self, error: AnalysisException) -> MissingInput | None:
        condition = error.getCondition() or ""
        if not condition.startswith(_MISSING):
            return None
        params = error.getMessageParameters() or {}
        text = next((params[key] for key in ("relationName", "identifier", "schemaName") if key in params), "?")
        return MissingInput(self._catalog.names.dataset_of(text), text.replace("`", ""))


def _parsed(text: str, catalog: Catalog) -> DataType:
    """A DDL string as a type, through Spark's own parser."""
    java: Any = catalog.session._jvm  # noqa: SLF001 - the parser has no public form
    parsed = java.org.apache.spark.sql.types.StructType.fromDDL(text)
    return StructType.fromJson(json.loads(parsed.json()))
